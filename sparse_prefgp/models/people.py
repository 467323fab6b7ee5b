"""The people of a model with tastes: their names, features, and what each prefers."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from sparse_prefgp.data.batches import NotInMemory
from sparse_prefgp.models.outcomes import numbers_of, places_of
from sparse_prefgp.models.posterior import each_difference
from sparse_prefgp.models.tastes import KnownPeople
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import as_numbers
from sparse_prefgp.support.machine import ask
from sparse_prefgp.support.words import shortened, some_of

# What is said of those that a model does not know.
UNKNOWN_PERSON = "person", "they are predicted as somebody of whom nothing is known"


@dataclass(frozen=True, eq=False)
class People:
    """The people of a model, of whom there are none without tastes."""

    model: Any
    """`PreferenceGP` or `StreamedGP`."""

    @property
    def names(self) -> tuple[Hashable, ...]:
        """Of those whose tastes are known from their duels; of a stream nobody's are."""
        return () if self.model.terms.taste is None else self.model.duels.people_names or ()

    @property
    def described(self) -> tuple[Hashable, ...]:
        """`names`, and after them those of others of whom features alone are known."""
        by_features = self.model.terms.by_features is not None
        return self.model.duels.centred_people.names if by_features else self.names

    def known(self) -> KnownPeople:
        """What their duels say of them.

        :raises ValueError: streamed duels.
        """
        if not self.model.duels.held:
            raise NotInMemory(
                "A model of streamed duels keeps what the inducing values know, not what each "
                "person said; give the duels of one to model.meet(duels), or call "
                "model.in_memory()."
            )
        return self.model._solution().people

    def tastes(self, Xnew: Any = None) -> FloatArray:
        """Expected own utility of each person, beyond what all share: (P, N).

        :param Xnew: (N, D) as for `predict_f`; the items of the model by default.
        :raises ValueError: a model without tastes, or of streamed duels; more numbers than there is
            memory for.
        """
        self.model.allow(people=True)
        known, inputs = self.known(), self.model.inputs
        rows = inputs.rows(inputs.of_items() if Xnew is None else Xnew)
        ask(
            8 * len(self.names) * len(rows),
            f"Tastes of {len(self.names):,} people for {len(rows):,} items",
            "give fewer items",
        )
        return known.tastes(rows, len(self.names))

    def number_of(self, person: Hashable) -> int:
        """The place of a person among `names`.

        :raises ValueError: somebody of whom the model knows no duels.
        """
        (number,) = places_of([person], self.names)
        if number < 0:
            raise ValueError(
                f"The person {shortened(person)} is unknown to the model, whose people are "
                f"{some_of([*map(repr, self.names)], 5)}; give one of them, or meet the new one "
                "(model.meet(duels), sparse-prefgp meet)."
            )
        return int(number)

    def numbers(self, people: Any, pairs: int) -> IntArray | None:
        """(pairs,) of whose utility it is among `described`, -1 for somebody unknown, of whom a
        warning tells; None where nobody said.

        :raises ValueError: people for a model without tastes.
        """
        if people is None:
            return None
        self.model.allow(people=True)
        return numbers_of(people, pairs, self.described, "people", *UNKNOWN_PERSON)

    def features(self, given: Any) -> FloatArray:
        """Features (S,) of a new person, less the mean of those of people with duels.

        :raises ValueError: of another number, not finite, or where people have none.
        """
        together.check(
            features_of_people=True, no_features_of_people=self.model.terms.by_features is None
        )
        mean = self.model.duels.people_features.of(self.names).mean(0)
        hint = ", of the new person, in the units of duels.people_features"
        return as_numbers("features", given, len(mean), hint=hint) - mean

    def differences(self, pairs: tf.Tensor, numbers: IntArray | None = None) -> tf.Tensor:
        """Mean and variance of f(x) - f(x') for stacked pairs (N, 2, D), (N, 2).

        :param numbers: (N,) of the person of each, as of `numbers`; None, and of no account in a
            view, where all are of the same.
        """
        model = self.model
        if numbers is None or not model.view.of_each:
            return each_difference(model.posterior_of_outcomes(), pairs)
        found = np.empty((len(numbers), 2))
        known = (numbers >= 0) & (numbers < len(self.names))
        if known.any():
            people = self.known()
            known[known] = people.have_duels(numbers[known])
            some = tf.boolean_mask(pairs, known)
            found[known] = people.differences(some, numbers[known])
        described = ~known & (numbers >= 0)
        if model.terms.by_features is None:
            numbers = np.where(described, -1, numbers)
            described[:] = False
        if described.any():
            strangers = model._solution().strangers
            some = tf.boolean_mask(pairs, described)
            found[described] = strangers.described_differences(some, numbers[described])
        if (numbers < 0).any():
            found[numbers < 0] = self.differences(tf.boolean_mask(pairs, numbers < 0))
        return tf.constant(found)
