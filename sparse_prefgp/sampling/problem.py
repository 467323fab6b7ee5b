"""What is drawn from: the duels of a model under the exact prior."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelProblem
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.sampling.people import by_person


class Preferences(Protocol):
    """What sampling needs to know of a model."""

    likelihood: Any
    """A `Probit`."""
    terms: Any
    """Of the prior."""
    inputs: Any
    """Rows of the kernel from items."""
    people: Any

    @property
    def all_duels(self) -> DuelGraph: ...

    def allow(self, **asked: Any) -> None: ...

    def problem(self, frozen: bool = False) -> DuelProblem: ...


def exact_problem(model: Preferences) -> DuelProblem:
    """All duels under the exact prior, on copies of the parameters as they are.

    Where people have tastes, rows name the person.

    :raises ValueError: a model whose posterior is not sampled, such as one with logit factors.
    """
    model.allow(sampling=True)
    problem = model.problem(frozen=True)._replace(graph=model.all_duels, inducing_variable=None)
    return problem if problem.taste is None else by_person(problem)


def kernel_inputs(model: Preferences, items: Any, before: int = 0, people: Any = None) -> tf.Tensor:
    """Items (N, D) as the kernel of `exact_problem` takes them.

    :param before: how many items of the same call come before them; those the model does not
        know are all different.
    :param people: whose utility it is, as for `predict_difference`; all of whom nothing is
        known are one person.
    :raises ValueError: somebody of whom nothing is known, where people have features.
    """
    inputs = model.inputs.rows(items, before)
    numbers = model.people.numbers(people, len(inputs))
    if model.terms.taste is None:
        return inputs
    person = np.full(len(inputs), -1) if numbers is None else numbers
    if model.terms.by_features is not None and np.any(person < 0):
        raise ValueError(
            "Utilities are drawn of people with known features, but some pairs are somebody's of "
            "whom nothing is known; name a person of each (people=)."
        )
    return tf.concat([inputs, as_float(person)[:, None]], 1)
