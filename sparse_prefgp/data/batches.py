"""Answers that are not in memory: names and numbers of all of them, and that they are missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparse_prefgp.data.answers import NO_SETS, AboutSets, Answers, Codes, OfLabels
from sparse_prefgp.support.arrays import FloatArray, IntArray

NOT_IN_MEMORY = (
    "This needs all duels, and those of a stream or a StreamedGP are not in memory; read them with "
    "read_duels, or use the model that model.in_memory() gives, on a machine where they fit."
)


class NotInMemory(ValueError, AttributeError):
    """What a stream does not keep was asked for; to `hasattr` it is not there."""

    def __init__(self, message: str = NOT_IN_MEMORY) -> None:
        super().__init__(message)


class Batches(OfLabels):
    """Answers that are read in batches, or of which no more is known than was seen then."""

    totals: Totals
    has_items: bool
    """Whether sides are rows of items, and have no features of their own."""
    has_sets: bool
    """Whether there are answers about sets anywhere in the source."""


@dataclass(frozen=True, eq=False)
class Totals(Batches):
    """What is known of answers that were read, by the names that `Answers` has for it."""

    said: Answers
    num_events: int
    num_ties: int = 0
    of_sites: IntArray | None = None
    """(2,) the z behind their doors, and those of each copy."""
    comparisons: IntArray | None = None
    """(n,) answers that each item takes part in; None where sides have features of their own."""
    ends: FloatArray | None = None
    """(2, D) the lowest and the highest of such features."""
    grade_counts: IntArray | None = None
    judge_levels: IntArray | None = None
    label_counts: Mapping[str, IntArray] = field(default_factory=dict)
    """Of each column of labels, (1 + J,) how often each was said, those nobody knows first."""
    squares: FloatArray | None = None
    """(1 + C,) how many steps of covariates there were, and the sums of their squares."""
    about_sets: AboutSets = NO_SETS

    def __repr__(self) -> str:
        return f"{self.num_events:,} duels that are not in memory"

    @classmethod
    def of(cls, events: Answers, num_rows: int | None, features: FloatArray | None) -> Totals:
        """Those of answers that are in memory.

        :param num_rows: n of the items; None where sides have features of their own.
        :param features: (s, D) of such sides.
        """
        squares, steps, mean = None, events.covariate_steps, events.covariate_squares
        if steps is not None and mean is not None:
            squares = float(events.counts[steps[1]].sum()) * np.append(1.0, mean)
        labels = {}
        for column, codes in events.labels.items():
            place, size = np.maximum(codes.numbers, -1) + 1, 1 + len(codes.names)
            labels[column] = np.bincount(place, events.counts, minlength=size).astype(np.int64)
        return cls(
            events.take(np.arange(0)),
            events.num_events,
            events.num_ties,
            np.array([events.sites.sum(), events.sites @ events.copies]),
            None if num_rows is None else events.compared(num_rows),
            None if features is None else range_of(features),
            events.grade_counts,
            events.judge_levels,
            labels,
            squares,
            events.about_sets,
        )

    def plus(self, other: Totals) -> Totals:
        """Of these answers and then others, which know all names."""
        labels = self.label_counts
        return Totals(
            other.said,
            self.num_events + other.num_events,
            self.num_ties + other.num_ties,
            _added(self.of_sites, other.of_sites),
            _added(self.comparisons, other.comparisons),
            other.ends if other.ends is None else range_of(other.ends, self.ends),
            _added(self.grade_counts, other.grade_counts),
            _added(self.judge_levels, other.judge_levels),
            {name: _added(labels.get(name), n) for name, n in other.label_counts.items()},
            _added(self.squares, other.squares),
            self.about_sets.plus(other.about_sets),
        )

    @property
    def sites(self) -> int:
        """z behind their doors, of each copy where there are answers about sets."""
        return 0 if self.of_sites is None else int(self.of_sites[int(self.has_sets)])

    @property
    def covariate_squares(self) -> FloatArray | None:
        return None if self.squares is None else self.squares[1:] / self.squares[0]

    @property
    def totals(self) -> Totals:  # type: ignore[override]
        return self

    @property
    def has_items(self) -> bool:  # type: ignore[override]
        return self.ends is None

    @property
    def has_sets(self) -> bool:  # type: ignore[override]
        return self.about_sets.any

    @property
    def noun(self) -> str:
        return "answers" if self.has_sets else "duels"

    @property
    def unit(self) -> str:
        return self.noun.removesuffix("s")

    def compared(self, num_rows: int) -> IntArray:
        if self.comparisons is None:
            return np.full(num_rows, self.num_events)
        return self.comparisons

    def used(self) -> Totals:
        """The same, with the names alone of judges and labels that were said."""
        levels, labels = self.judge_levels, {}
        for column, codes in self.said.labels.items():
            labels[column] = _of_any(codes, self.label_counts[column][1:])
        said = self.said.saying(person=None, time=None, labels=labels)
        if said.judge is not None and levels is not None:
            often = levels.sum(1)
            said, levels = said.saying(judge=_of_any(said.judge, often)), levels[often > 0]
        return replace(self, said=said, judge_levels=levels)


def range_of(rows: FloatArray, known: FloatArray | None = None) -> FloatArray:
    """(2, D) the lowest and the highest of rows (…, D), and of what was known before."""
    both = rows if known is None else np.concatenate([rows, known])
    return np.stack([both.min(0), both.max(0)])


def _added(before: Any, now: Any) -> Any:
    """Numbers by place, and those of before, when there may have been fewer of them."""
    if before is None or now is None:
        return now
    total = now.copy()
    total[: len(before)] += before
    return total


def _of_any(codes: Codes, often: IntArray) -> Codes:
    """Codes with the names alone of labels that were said, each so often (J,)."""
    return codes._replace(names=tuple(codes.names[i] for i in np.flatnonzero(often)))
