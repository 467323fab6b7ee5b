"""Features of the people whose preferences are learned."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import as_numbers
from sparse_prefgp.support.words import id_text, shortened

if TYPE_CHECKING:
    from sparse_prefgp.data.features import FeatureTransform
    from sparse_prefgp.data.raw_items import RawItems


@dataclass(frozen=True, eq=False)
class PeopleFeatures:
    """Features of people by their names, standardised."""

    names: tuple[Hashable, ...]
    """(P,) of the people, distinct."""
    values: FloatArray
    """(P, S)."""
    feature_names: tuple[str, ...]
    """(S,)."""
    transform: FeatureTransform | None = None
    """How they were made of raw columns; None where they were given as numbers."""

    @classmethod
    def given(cls, values: Any, names: Sequence[Hashable]) -> PeopleFeatures:
        """Of numbers.

        :param values: features of people: a mapping from their names, or an array (P, S) in the
            order of `names`.
        :param names: of the people of the duels, each of whom needs features.
        :raises ValueError: another shape, a number that is not finite, a person without features.
        """
        if isinstance(values, PeopleFeatures):
            values.of(names)
            return values
        whose = tuple(values) if isinstance(values, Mapping) else tuple(names)
        rows = list(values.values()) if isinstance(values, Mapping) else values
        hint = ", of people as they first appear, or a mapping from their names to S each"
        array = as_numbers("people_features", rows, len(whose), "S", hint=hint)
        array.setflags(write=False)
        found = cls(whose, array, tuple(f"feature {j}" for j in range(array.shape[1])))
        found.of(names)
        return found

    @classmethod
    def of_table(cls, people: RawItems, training: Sequence[Hashable]) -> PeopleFeatures:
        """Of all people of a table.

        :param training: those of whom means, standard deviations and levels are learned.
        :raises ValueError: what `FeatureTransform.fit` and `apply` raise.
        """
        wanted = {id_text(name) for name in training}
        rows = np.flatnonzero([id_text(name) in wanted for name in people.ids])
        transform = people.select(rows).learned_transform()
        values = transform.apply(people.frame, people.row_names)
        return cls(people.ids, values, transform.feature_names, transform)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings, ready for JSON; floats keep every bit."""
        return {
            "names": list(self.names),
            "values": self.values.tolist(),
            "feature_names": list(self.feature_names),
            "transform": None if self.transform is None else self.transform.to_dict(),
        }

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        return {id_text(name): i for i, name in enumerate(self.names)}

    def followed_by(self, others: PeopleFeatures) -> PeopleFeatures:
        """These people and those of the others who are not among them."""
        new = [i for i, name in enumerate(others.names) if id_text(name) not in self._rows]
        return PeopleFeatures(
            self.names + tuple(others.names[i] for i in new),
            np.concatenate([self.values, others.values[new]]),
            self.feature_names,
            self.transform,
        )

    def about(self, names: Sequence[Hashable]) -> PeopleFeatures:
        """These people and after them all others, less the mean of the former.

        :raises ValueError: what `of` raises.
        """
        own = self.of(names)
        found = replace(self, names=tuple(names), values=own).followed_by(self)
        return replace(found, values=found.values - own.mean(0))

    def of(self, names: Sequence[Hashable]) -> FloatArray:
        """(k, S) of some people.

        :raises ValueError: one of whom no features are known.
        """
        rows = [self._rows.get(id_text(name), -1) for name in names]
        if -1 in rows:
            raise ValueError(
                f"The person {shortened(names[rows.index(-1)])} has no features; give those of all "
                "people (people=, --people), or of none."
            )
        return np.asarray(self.values[rows])
