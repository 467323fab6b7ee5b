"""Features of the people whose preferences are learned, as read and as models use them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.row_names import RowNames
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.words import id_text, shortened


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

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        return {id_text(name): i for i, name in enumerate(self.names)}

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


@dataclass(frozen=True, eq=False)
class PeopleTable:
    """A table of people as it was read."""

    frame: Any
    """Data frame with P rows and every column but the id."""
    names: tuple[Hashable, ...]
    """(P,) ids, in row order."""
    numeric: tuple[str, ...]
    """Names of the numeric columns."""
    categorical: tuple[str, ...]
    """Names of the columns of categories."""
    row_names: RowNames
    """How a message names each row."""

    def features(
        self, training: Sequence[Hashable], transform: FeatureTransform | None = None
    ) -> PeopleFeatures:
        """Features of all people of the table.

        :param training: the people of whom means, standard deviations and levels are learned.
        :param transform: use this recorded one instead.
        :raises ValueError: what `FeatureTransform.fit` and `apply` raise.
        """
        if transform is None:
            wanted = {id_text(name) for name in training}
            rows = np.flatnonzero([id_text(name) in wanted for name in self.names])
            transform = FeatureTransform.fit(
                self.frame.iloc[rows],
                self.numeric,
                self.categorical,
                lambda i: self.row_names(int(rows[i])),
            )
        values = transform.apply(self.frame, self.row_names)
        return PeopleFeatures(self.names, values, transform.feature_names, transform)
