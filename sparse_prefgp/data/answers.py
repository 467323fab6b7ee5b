"""What people said, as a table of events, and the doors by which an event enters a model.

An event is one thing said of some rows: that one beat the other, or that two tied. Everything that
merges, splits, reads in chunks, scores or saves works on whole events; none is ever cut. What a
kind of event means is one function, which fills the four *doors*: the features, limits, noise and
weight of some Gaussian variables z (docs/architecture.md).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.sets import (
    Covering,
    SetForm,
    best_worst,
    best_worst_at_once,
    choice,
    ranking,
    set_form,
    top,
)
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    Texts,
    distinct,
    first_true,
    runs,
)
from sparse_prefgp.support.checks import as_numbers, check_kind, check_shape
from sparse_prefgp.support.words import shortened

# Slices, masks or numbers of events.
Which = Any

_LARGEST = 2**62


def by_appearance(first: IntArray, number: IntArray) -> tuple[IntArray, IntArray]:
    """Groups in the order in which they first appear: where they do, and the group of each.

    :param first: of each group, where it first appears, as `np.unique` gives it.
    :param number: the group of each.
    """
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[number.reshape(-1)]


class Codes(NamedTuple):
    """Labels as numbers."""

    numbers: IntArray
    """(e,), each a place in `names`, which are distinct; -1, -2, … for labels that nobody knows,
    each another; of any width."""
    names: tuple[Hashable, ...]
    column: str | None = None
    """Of the table that they were read from; None where they came from none."""

    @classmethod
    def of(cls, labels: Sequence[Hashable], column: str | None = None) -> Codes:
        """Labels numbered in the order of their first appearance, None for unknown ones."""
        names: dict[Hashable, int] = {}
        numbers = [-1 if label is None else names.setdefault(label, len(names)) for label in labels]
        return cls(_each_unknown(np.array(numbers, dtype=np.int64)), tuple(names), column)

    @classmethod
    def unknown(cls, e: int) -> Codes:
        """Of e events, of which no label is known."""
        return cls(_narrow(-1 - np.arange(e)), ())

    @property
    def labels(self) -> Texts:
        """(e,), as they were."""
        names = np.empty(len(self.names) + 1, dtype=object)
        names[:-1] = self.names
        return names[np.maximum(self.numbers, -1)]

    def among(self, names: Sequence[Hashable]) -> Codes:
        """The same labels numbered as these names, those of others being unknown."""
        if self.names == names:
            return self
        place = {name: i for i, name in enumerate(names)}
        here = np.array([*(place.get(name, -1) for name in self.names), -1], dtype=np.int64)
        found = _each_unknown(here[np.maximum(self.numbers, -1)])
        return Codes(found, tuple(names), self.column)

    def take(self, which: Which) -> Codes:
        """Those of some events; the names stay."""
        return self._replace(numbers=self.numbers[which])

    def used(self) -> Codes:
        """The same labels, renumbered in the order in which they appear."""
        tops = np.maximum.accumulate(self.numbers, dtype=np.int64)
        if not np.any(self.numbers < 0) and np.all(np.diff(tops, prepend=-1) <= 1):
            if tops.max(initial=-1) == len(self.names) - 1:  # so they are: sorting takes long
                return self._replace(numbers=_narrow(self.numbers))
        known = self.numbers >= 0
        used = self.numbers[known]
        first, number = by_appearance(*np.unique(used, return_index=True, return_inverse=True)[1:])
        names = tuple(self.names[i] for i in used[first])
        numbers = self.numbers.astype(np.int64)
        numbers[known] = number
        return Codes(_each_unknown(numbers), names, self.column)


def _each_unknown(numbers: IntArray) -> IntArray:
    """The same numbers, those below 0 being -1, -2, … in their order."""
    numbers = numbers.astype(np.int64)
    unknown = np.flatnonzero(numbers < 0)
    numbers[unknown] = -1 - np.arange(len(unknown))
    return _narrow(numbers)


def _narrow(numbers: AnyArray) -> AnyArray:
    """The same whole numbers in the smallest integers that hold them."""
    low, high = (int(extreme(numbers, initial=0)) for extreme in (np.min, np.max))
    width = np.promote_types(np.min_scalar_type(min(low, -1)), np.min_scalar_type(high))
    return numbers.astype(width, copy=False)


class Grades(NamedTuple):
    """How much better the first side of each event is, in levels such as "better, much better"."""

    numbers: npt.NDArray[np.int8]
    """(e,) the level of the first side over the second, from -K to K; 0 for a tie, and for a win of
    which nobody said by how much.
    """
    names: tuple[str, ...]
    """Of the levels from worst to best: 2K + 1 with ties in the middle, or 2K without."""

    @classmethod
    def of(cls, numbers: npt.ArrayLike, names: Sequence[str] | None = None) -> Grades:
        """Levels as they are; without names they are called by their numbers, ties among them.

        :raises ValueError: what is no whole number, or a level that has no name.
        """
        given = np.asarray(numbers)
        whole = given.dtype.kind in "iu"
        if not whole and given.dtype.kind == "f":
            whole = bool(np.all(given == np.floor(given)))
        if given.ndim != 1 or not whole:
            raise ValueError(
                f"grades is an array of shape {given.shape} and type {given.dtype}; give a whole "
                "number for each duel, 0 for a tie."
            )
        if names is None:
            largest = max(int(np.max(np.abs(given), initial=0)), 1)
            names = [str(level) for level in range(-largest, largest + 1)]
        elif isinstance(names, str) or not isinstance(names, Iterable):
            raise ValueError(
                f"levels is {names!r}; give their names from worst to best, such as "
                '["worse", "tie", "better"], or leave it out for whole numbers.'
            )
        found = cls(given.astype(np.int64), tuple(names))
        found.check()
        return found._replace(numbers=given.astype(np.int8))

    def check(self) -> None:
        """Refuse a level that has no name, and names that are not levels.

        :raises ValueError: see above; fewer than two names, or more than 200, or one twice.
        """
        if not 2 <= len(self.names) <= 200 or len({*self.names}) < len(self.names):
            raise ValueError(
                f"The levels of the grades are {', '.join(map(repr, self.names)) or 'none'}; give "
                "2 to 200 different ones, from worst to best."
            )
        for i in first_true(np.abs(self.numbers) > self.largest):
            raise ValueError(
                f"The grade of duel {i} is {self.numbers[i]}, but the levels go from "
                f"{-self.largest} to {self.largest}; correct it, or give more levels."
            )

    @property
    def largest(self) -> int:
        """K."""
        return len(self.names) // 2

    @property
    def has_ties(self) -> bool:
        """Whether a tie is one of the levels."""
        return len(self.names) % 2 == 1

    @property
    def levels(self) -> IntArray:
        """The numbers that the names stand for, (2K + 1,) or (2K,)."""
        every = np.arange(-self.largest, self.largest + 1)
        return every if self.has_ties else every[every != 0]


class Covariates(NamedTuple):
    """What is known of each side in its event alone."""

    numbers: FloatArray
    """(s, C)."""
    names: tuple[str, ...] = ()
    """C names."""


def check_covariate_names(names: Sequence[str], count: int) -> None:
    """Refuse names of so many covariates that are more or fewer, or one twice.

    :raises ValueError: see above.
    """
    if len(names) != count or len({*names}) < count:
        raise ValueError(
            f"covariate_names are {', '.join(map(repr, names)) or 'none'} for {count} covariates; "
            "give each a name of its own."
        )


class Column(NamedTuple):
    """What every operation on events has to know of one thing that may be said of them."""

    holds: str
    """"whole" or real numbers ("number"), "code", "grade", "covariate"; "labels": codes by name."""
    per: str = "event"
    """"event" or "side"."""
    added: bool = False
    """Whether equal events add it up; else it tells them apart."""
    fill: int | str | None = None
    """What events without it have where others have it, or the column that it then is; None where
    all must have it, or none."""
    low: float = -np.inf
    """Every value is above it."""
    role: str | None = None
    """By which a model remembers the column of a table that says it; None where it does not."""
    words: tuple[str, str] = ("label", "labels")
    """Of codes, what one and several are called in messages."""
    leans: bool = False
    """Whether its codes are `labels` too, which may lean to a side."""


COLUMNS = {
    "kind": Column("whole", fill=0),
    "answer": Column("grade", fill=0, role="grade"),
    "judge": Column("code", role="judge", words=("judge", "judges")),
    "person": Column("code", role="person", words=("person", "people")),
    "labels": Column("labels", leans=True),
    "ordered": Column("whole", fill=0),
    "time": Column("number", role="date"),
    "covariates": Column("covariate", per="side"),
    "block": Column("code", role="block", words=("block", "blocks")),
    "counts": Column("whole", added=True, fill=1, role="count"),
    "weights": Column("number", added=True, fill="counts", low=0.0, role="weight"),
}


def _each(values: Any, change: Callable[[AnyArray], Any]) -> Any:
    """A column whose numbers are changed; names stay."""
    if isinstance(values, Mapping):
        return {name: _each(one, change) for name, one in values.items()}
    if isinstance(values, tuple):
        return values._replace(numbers=change(values.numbers))  # type: ignore[attr-defined]
    return change(values)


def arrays_of(values: Any) -> list[AnyArray]:
    """The numbers of a column: one array, but of labels."""
    arrays: list[AnyArray] = []
    _each(values, arrays.append)
    return arrays


class Doors(NamedTuple):
    """How events enter a model: t Gaussian variables z, each with noise in a box."""

    features: IntArray
    """(t, 2), winner and loser: z = f(loser) - f(winner), rows of the events' table."""
    limits: FloatArray
    """(t, 2), lower and upper, of z plus noise where the margin is 0."""
    cuts: npt.NDArray[np.int8]
    """(t, 2), at which cut each limit stands, with its sign: 1 is the margin, 0 moves nothing."""
    event: IntArray
    """(t,), the event that each is of, ascending; its judge is the judge of the noise."""
    weight: FloatArray
    """(t,), as how many of its event's counts each counts."""
    draws: IntArray | None = None
    """(t, 2), the noises of winner and loser, by their number within the event; None where each z
    has two of its own, as for duels."""
    look: IntArray | None = None
    """(t,), which look at the alternatives of its event each is of: one noise per side and look;
    None where `draws` is."""
    own: FloatArray | None = None
    """(t,), how much of the noise, in units of sigma², is each one's own; the rest is shared within
    the look; None where `draws` is."""

    @property
    def decided(self) -> BoolArray:
        """Which say that the first row is ahead of the second, (t,)."""
        return np.asarray(self.cuts[:, 1] <= 0)


class AboutSets(NamedTuple):
    """What a model has to know of events before it takes answers about sets among them."""

    any: bool = False
    """Whether there are some."""
    odd: float | None = None
    """As how many one of them counts, where that is no whole number; None where all are."""
    others: bool = False
    """Whether there are ties or grades of duels too."""
    at_once: bool = False
    """Whether there are best and worst at once of four or more: rows without noise of their own."""

    def plus(self, other: AboutSets) -> AboutSets:
        """Of these and other events."""
        return AboutSets(
            self.any or other.any,
            self.odd or other.odd,
            self.others or other.others,
            self.at_once or other.at_once,
        )

    def things(self) -> dict[str, Any]:
        """What they bring into a model, by the names of `support.together`."""
        return {
            "sets": self.any,
            "shares_of_answers": self.odd and f"the weight {self.odd:g} of an answer about a set",
            "best_and_worst_at_once": self.at_once,
        }


NO_SETS = AboutSets()


class Kind(NamedTuple):
    """A kind of event."""

    name: str
    """In files."""
    fill: Callable[[Answers], Doors]
    """The doors of some events of this kind, numbered from 0."""
    several: bool = False
    """Whether an event may have more than one z."""
    sides: int | None = 2
    """How many it has, None for any number."""
    unordered: bool = False
    """Whether the order of some of its sides means nothing."""
    covering: Covering | None = None
    """Of an answer about a set of any number of sides, what it says of them."""
    fewest: int = 2
    """How many sides there must be."""


class Answers:
    """e events between rows of some table. Nothing in it ever changes.

    :param sides: (s,) rows, those of one event after those of another, best first.
    :param offsets: (e + 1,) where the sides of each event begin, and where the last one ends; None
        where each has two.
    :param columns: what else is said, as `COLUMNS` declares it; None for nothing. Wins that were
        said once need neither `kind` nor `counts`.
    :raises ValueError: a column that there is not.
    """

    judge: Codes | None
    """Who said it, or under what conditions; None where nobody knows."""
    person: Codes | None
    """Whose preference it is; None where all are taken for one."""
    block: Codes | None
    """Which block of an approximation each is of; None where nobody asked."""
    time: FloatArray | None
    """(e,) days; None where no time is known."""
    answer: Grades | None
    """By how much the first side is better; None where nobody graded."""
    ordered: IntArray | None
    """(e,) how many sides of a "top" come first in order, 0 of all else; None without any."""
    weights: FloatArray | None
    """(e,) as how many it counts in the likelihood, counts included; None for counts."""

    def __init__(
        self, sides: npt.ArrayLike, offsets: npt.ArrayLike | None = None, **columns: Any
    ) -> None:
        self.sides: IntArray = np.asarray(sides)
        self._offsets = None if offsets is None else np.asarray(offsets)
        for name in columns.keys() - COLUMNS.keys():
            raise ValueError(f"There is no column {name!r}; choose from {', '.join(COLUMNS)}.")
        self.columns: dict[str, Any] = {
            name: np.asarray(values) if column.holds in ("whole", "number") else values
            for name, column in COLUMNS.items()
            if (values := columns.get(name)) is not None
        }
        """What is said, by the name of its column."""

    def __getattr__(self, name: str) -> Any:
        if name in COLUMNS:
            return self.columns.get(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def between(
        cls,
        winners: IntArray,
        losers: IntArray,
        *,
        covariates: FloatArray | None = None,
        covariate_names: Sequence[str] = (),
        **columns: Any,
    ) -> Answers:
        """Events with two sides, (e,) each: wins, or of the kinds given.

        :param covariates: (e, C) of the winner less those of the loser: they are written to the
            winner's side.
        :param columns: as of `Answers`.
        :raises ValueError: winners and losers of unequal lengths.
        """
        check_shape("losers", losers, len(winners), hint=", one for each winner")
        events = cls(np.stack([winners, losers], 1).reshape(-1), **columns)
        if covariates is None:
            return events
        return events.with_differences(covariates, covariate_names)

    def saying(self, sides: npt.ArrayLike | None = None, **columns: Any) -> Answers:
        """The same events, some of whose columns are others, or are not there (None).

        :param sides: (s,) other rows.
        """
        rows = self.sides if sides is None else sides
        return Answers(rows, self._offsets, **{**self.columns, **columns})

    def whole(self, name: str) -> Any:
        """A column, or what stands where it is not there; None for nothing."""
        fill = COLUMNS[name].fill
        if name in self.columns or fill is None:
            return self.columns.get(name)
        if isinstance(fill, str):
            return self.whole(fill).astype(np.float64)
        return np.broadcast_to(np.int8(fill) if name == "kind" else np.int64(fill), len(self))

    def said(self) -> list[AnyArray]:
        """What there is besides sides and counts, as arrays, for a fingerprint."""
        arrays = []
        for name, values in self.columns.items():
            fill = COLUMNS[name].fill
            for array in () if name == "counts" else arrays_of(values):
                if not isinstance(fill, int) or np.any(array != fill):
                    arrays.append(array)
        return arrays

    def __len__(self) -> int:
        return len(self.sides) // 2 if self._offsets is None else len(self._offsets) - 1

    @property
    def offsets(self) -> IntArray:
        """(e + 1,) where the sides of each event begin, and where the last one ends."""
        if self._offsets is None:
            return np.arange(0, len(self.sides) + 1, 2)
        return self._offsets

    @property
    def sizes(self) -> IntArray:
        """(e,) how many sides each event has."""
        return np.diff(self.offsets)

    @property
    def event_of_side(self) -> IntArray:
        """(s,) the event that each side is of."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def kind(self) -> npt.NDArray[np.int8]:
        """(e,) places in `KINDS`."""
        return np.asarray(self.whole("kind"))

    @property
    def counts(self) -> AnyArray:
        """(e,) how often each was said."""
        return np.asarray(self.whole("counts"))

    @property
    def labels(self) -> Mapping[str, Codes]:
        """What may lean to a side, by the name of the column that says it."""
        found = {name: codes for name, codes in self.columns.items() if COLUMNS[name].leans}
        labels = found.pop("labels", {})
        return {**found, **labels}

    @property
    def covariates(self) -> FloatArray | None:
        """(s, C) of each side; None without."""
        values = self.columns.get("covariates")
        return None if values is None else values.numbers

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """C names of the covariates; none where they have none."""
        values = self.columns.get("covariates")
        return () if values is None else values.names

    @cached_property
    def in_pairs(self) -> bool:
        """Whether every event has two sides."""
        if self._offsets is None:
            return True
        return len(self.sides) == 2 * len(self) and bool(np.all(self.sizes == 2))

    @cached_property
    def pairs(self) -> IntArray:
        """(e, 2), the first and the last side of each event: who won and who lost."""
        if self.in_pairs:
            return self.sides.reshape(-1, 2)
        return np.stack([self.sides[self.offsets[:-1]], self.sides[self.offsets[1:] - 1]], 1)

    @property
    def totals(self) -> FloatArray:
        """As how many each counts in the likelihood, (e,)."""
        return np.asarray(self.whole("weights"))

    @property
    def each_weight(self) -> FloatArray | None:
        """As how many one of the counted ones counts, (e,); None for 1."""
        return None if self.weights is None else self.weights / self.counts

    @cached_property
    def ties(self) -> BoolArray | None:
        """Which are ties, (e,); None without any."""
        tied = self.columns.get("kind", np.empty(0)) == TIE
        tied.setflags(write=False)
        return tied if tied.any() else None

    @property
    def num_ties(self) -> int:
        """How many ended in a tie, counts included."""
        return 0 if self.ties is None else int(self.counts[self.ties].sum())

    @property
    def grade_counts(self) -> IntArray | None:
        """(K + 1,) how often each level was said, whichever side was better; None without any."""
        if self.answer is None:
            return None
        graded = (self.kind == GRADE) | (self.kind == TIE)
        level = np.abs(self.answer.numbers[graded].astype(np.int64))
        number = self.counts[graded].astype(np.float64)
        return np.bincount(level, number, minlength=self.answer.largest + 1).astype(np.int64)

    @property
    def judge_levels(self) -> IntArray | None:
        """(J, K + 1) how often each judge said each level, ties first, whichever side was better,
        levels being tied and won without grades; None where nobody knows who judged."""
        if self.judge is None:
            return None
        level = np.where(self.kind == TIE, 0, 1)
        size = 2
        if self.answer is not None:
            level, size = np.abs(self.answer.numbers.astype(np.int64)), self.answer.largest + 1
        key, judges = self.judge.numbers.astype(np.int64) * size + level, len(self.judge.names)
        number = np.bincount(key, self.counts.astype(np.float64), minlength=judges * size)
        return number.astype(np.int64).reshape(judges, size)

    @property
    def num_events(self) -> int:
        """How often anything was said, counts included."""
        return int(self.counts.sum())

    def padded(self) -> tuple[IntArray, BoolArray]:
        """Where the sides of each event are, (e, k), padded with its first, and which there are."""
        sizes = self.sizes
        place = np.arange(int(sizes.max(initial=1)))
        there = place < sizes[:, None]
        return self.offsets[:-1, None] + np.where(there, place, 0), there

    def compared(self, num_rows: int) -> IntArray:
        """The events that each of n rows takes part in, counts included, (n,)."""
        number = np.repeat(self.counts, self.sizes).astype(np.float64)
        # Whole numbers in doubles are exact: the counts add up to at most 2**53.
        return np.bincount(self.sides, number, minlength=num_rows).astype(np.int64)

    def take(self, which: Which) -> Answers:
        """Some events: a slice, a mask (e,), or numbers."""
        if isinstance(which, slice):
            first, last, step = which.indices(len(self))
            which = slice(first, max(first, last)) if step == 1 else np.arange(first, last, step)
        else:
            which = np.asarray(which)
            which = np.flatnonzero(which) if which.dtype == bool else which
        at, offsets = self._sides_of(which)
        chosen = {"event": which, "side": at}
        columns = {
            name: _each(values, itemgetter(chosen[COLUMNS[name].per]))
            for name, values in self.columns.items()
        }
        return Answers(self.sides[at], offsets, **columns)

    def _sides_of(self, which: Which) -> tuple[Which, IntArray | None]:
        """Where the sides of some events are, a slice or numbers of which, and their offsets."""
        if isinstance(which, slice):
            if self._offsets is None:
                return slice(2 * which.start, 2 * which.stop), None
            offsets = self._offsets[which.start : which.stop + 1]
            return slice(offsets[0], offsets[-1]), offsets - offsets[0]
        if self._offsets is None:
            return (2 * which[:, None] + np.arange(2)).reshape(-1), None
        sizes = np.diff(self._offsets)[which]
        return runs(self._offsets[:-1][which], sizes), np.append(0, np.cumsum(sizes))

    def one_by_one(self, copies: IntArray | None = None) -> Answers:
        """Each copy of an event as one of its own, so that equal ones can be parted.

        :param copies: (e,) as how many each is to stand; by default its count.
        """
        number = self.counts if copies is None else copies
        if np.all(number == 1):
            return self
        apart = self.take(np.repeat(np.arange(len(self)), number))
        several = np.repeat(number, number)
        return apart.saying(
            counts=np.where(several > 1, 1, apart.counts),
            weights=None if apart.weights is None else apart.weights / several,
        )

    def followed_by(self, *others: Answers) -> Answers:
        """These and then others, between rows of the same table.

        Weights are 1 where none were given, and labels of a column that some have not are unknown.

        :raises ValueError: judges, people, times or covariates of some of the events only; grades
            of other levels, covariates of other names.
        """
        every = (self, *others)
        offsets = None
        if any(one._offsets is not None for one in every):
            ends = np.cumsum([0, *(len(one.sides) for one in every)])
            offsets = np.concatenate(
                [[0], *(one.offsets[1:] + end for one, end in zip(every, ends, strict=False))]
            )
        columns = {name: _joined(every, name) for name in COLUMNS}
        return Answers(np.concatenate([one.sides for one in every]), offsets, **columns)

    def without_grades(self) -> Answers:
        """The same, grades being plain wins of the better side."""
        if self.answer is None:
            return self
        turned = self._best_first(self.answer)
        kind = np.where(turned.kind == GRADE, WIN, turned.kind).astype(np.int8)
        return turned.saying(kind=kind, answer=None)

    def onto(self, place: IntArray) -> Answers:
        """The same events between other rows: row i has become row place[i]."""
        return self.saying(place[self.sides]).in_order()

    def in_order(self) -> Answers:
        """With the sides of unordered events in ascending order, and the better one of graded."""
        if self.answer is not None and np.any(self.answer.numbers < 0):
            return self._best_first(self.answer).in_order()
        if "kind" not in self.columns:
            return self
        unordered = _UNORDERED[self.kind]
        if not unordered.any():
            return self
        if self.in_pairs and not self.has_sets and self.covariates is None:
            two = self.sides.copy().reshape(-1, 2)
            two[unordered] = np.sort(two[unordered], 1)
            return self.saying(two.reshape(-1))
        # Sides between which there is no order come in that of their rows.
        event = self.event_of_side
        level = np.arange(len(self.sides)) - self.offsets[:-1][event]
        level[unordered[event]] = 0
        for _, form, at in self.forms():
            level[self.offsets[at][:, None] + np.arange(len(form.level))] = form.level
        return self._with_sides_in(np.lexsort((self.sides, level, event)))

    def _with_sides_in(self, order: IntArray) -> Answers:
        """With the sides (s,) of each event in this order, and all that is said of them."""
        moved = {
            name: _each(values, itemgetter(order))
            for name, values in self.columns.items()
            if COLUMNS[name].per == "side"
        }
        return self.saying(self.sides[order], **moved)

    def forms(self) -> list[tuple[int, SetForm, IntArray]]:
        """Of the events about sets: each kind and form, and the numbers of those that have it."""
        at = np.flatnonzero(_COVERING[self.kind])
        if not len(at):
            return []
        first = np.zeros(len(at), np.int64) if self.ordered is None else self.ordered[at]
        shape = self.kind[at], self.sizes[at], first
        key = _one_number(shape)  # sorting rows of three takes ten times as long
        found = list[tuple[int, SetForm, IntArray]]()
        for each in np.unique(key):
            here = np.flatnonzero(key == each)
            kind, size, ordered = (int(column[here[0]]) for column in shape)
            covering = KINDS[kind].covering
            assert covering is not None
            found.append((kind, set_form(covering, size, ordered), at[here]))
        return found

    @cached_property
    def has_sets(self) -> bool:
        """Whether any event is an answer about a set."""
        return "kind" in self.columns and bool(np.any(_COVERING[self.kind]))

    @property
    def noun(self) -> str:
        """What several of them are called."""
        if not self.has_sets:
            return "duels"
        kinds, names = np.unique(self.kind), {CHOICE: "choices", RANKING: "rankings"}
        return names.get(int(kinds[0]), "answers") if len(kinds) == 1 else "answers"

    @property
    def about_sets(self) -> AboutSets:
        """What a model has to know of answers about sets."""
        sets, odd = _COVERING[self.kind], None
        if self.has_sets and self.weights is not None:
            here = self.weights[sets]
            odd = next((float(weight) for weight in here[here % 1.0 != 0.0]), None)
        at_once = np.any((self.kind == BEST_WORST_AT_ONCE) & (self.sizes > 3))
        others = np.any(~sets & (self.kind != WIN))
        return AboutSets(self.has_sets, odd, bool(others), bool(at_once))

    @property
    def copies(self) -> IntArray:
        """(e,) how often each has sites of its own next to answers about sets, of which copies
        share no noise; once where a weight is no whole number."""
        totals = self.totals
        return np.where(totals % 1.0 == 0.0, totals, 1.0).astype(np.int64)

    @property
    def unit(self) -> str:
        """What one of them is called."""
        return self.noun.removesuffix("s")

    def _best_first(self, answer: Grades) -> Answers:
        """With grades below 0 said from the other side."""
        turned = np.flatnonzero(answer.numbers < 0)
        order = np.arange(len(self.sides))
        first, second = self.offsets[turned], self.offsets[turned] + 1
        order[first], order[second] = second, first
        graded = answer._replace(numbers=np.abs(answer.numbers))
        return self._with_sides_in(order).saying(answer=graded)

    def with_differences(self, values: FloatArray, names: Sequence[str]) -> Answers:
        """Events of two sides with covariates, (e, C) of the first side less the second."""
        assert self.in_pairs
        both = np.stack([values, np.zeros_like(values)], 1).reshape(-1, values.shape[1])
        return self.saying(covariates=Covariates(both, tuple(names)))

    @property
    def covariate_differences(self) -> FloatArray | None:
        """(e, C) of the first side less those of the last; None without.

        :raises ValueError: answers about sets.
        """
        if self.covariates is None:
            return None
        together.check(sets=self.has_sets, of_pairs="covariates of winner less loser")
        first, last = self.offsets[:-1], self.offsets[1:] - 1
        return np.asarray(self.covariates[first] - self.covariates[last])

    @property
    def covariate_steps(self) -> tuple[FloatArray, IntArray] | None:
        """(t, C) of the better side less those of the worse of each z, up to the sign, and the
        event of each, (t,); None without."""
        if self.covariates is None:
            return None
        if not self.has_sets:
            values = self.covariate_differences
            assert values is not None
            return values, np.arange(len(self))
        doors = self.saying(np.arange(len(self.sides))).doors()
        better, worse = (self.covariates[ends] for ends in doors.features.T)
        return np.asarray(better - worse), doors.event

    @property
    def covariate_squares(self) -> FloatArray | None:
        """(C,) the mean square of their steps over all that was said; None without."""
        steps = self.covariate_steps
        if steps is None:
            return None
        values, event = steps
        return np.asarray(np.average(values**2, axis=0, weights=self.counts[event]))

    def side_columns(self) -> FloatArray:
        """What a row of each side holds besides its item, (s, C + number of columns of labels).

        Labels are numbers where the side has covariates at all, those of unknown ones beyond those
        of the names, and -1 elsewhere.
        """
        assert self.covariates is not None
        event = self.event_of_side
        said, found = np.any(self.covariates != 0.0, 1), [self.covariates]
        for codes in self.labels.values():
            number, last = codes.numbers.astype(np.int64), len(codes.names) - 1
            number = np.where(number < 0, last - number, number)
            found.append(np.where(said, number[event], -1)[:, None].astype(float))
        return np.column_stack(found)

    def recoded(self, change: Callable[[Codes], Codes]) -> Answers:
        """The same events, all codes of which are changed."""
        columns = dict(self.columns)
        for name, values in columns.items():
            if isinstance(values, Codes):
                columns[name] = change(values)
            elif isinstance(values, Mapping):
                columns[name] = {label: change(codes) for label, codes in values.items()}
        return self.saying(**columns)

    def labelled_as(self, names: Mapping[str, Sequence[Hashable]]) -> Answers:
        """With the labels of these columns alone, numbered as these names; without the column all
        are unknown."""
        none = Codes.unknown(len(self))
        labels = {name: self.labels.get(name, none).among(of) for name, of in names.items()}
        kept = {name: x for name, x in self.columns.items() if not COLUMNS[name].leans}
        return Answers(self.sides, self._offsets, labels=labels, **kept)

    def alike(self, *more: IntArray) -> tuple[IntArray, IntArray]:
        """Which events say the same: the first of each, and the number of each among these, (e,).

        Equal are those of the same sides, kind, grade, judge, person, labels, time and covariates,
        and of the same `more` (e,), in ascending order of these, in that order.
        """
        columns = self._per_place(self.sides)
        if not self.in_pairs:
            columns.insert(0, self.sizes)
        for name, values in self.columns.items():
            declared = COLUMNS[name]
            for array in () if declared.added else arrays_of(values):
                numbers = array if array.dtype.kind in "iu" else _ranks(array)
                columns += [numbers] if declared.per == "event" else self._per_place(numbers)
        key = _one_number([*columns, *more])
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        return first, number.reshape(-1)

    def _per_place(self, values: IntArray) -> list[AnyArray]:
        """Values (s,) of all sides as those of each first side, second side, …, (e,) each.

        Where an event has no such side it is -1.
        """
        if self.in_pairs:
            return list(values.reshape(-1, 2).T)
        sizes, last = self.sizes, max(len(values) - 1, 0)
        places = range(int(sizes.max(initial=0)))
        at = [np.minimum(self.offsets[:-1] + j, last) for j in places]
        return [np.where(j < sizes, values[at[j]], -1) for j in places]

    def merged(self, first: IntArray, number: IntArray) -> Answers:
        """One event for all of a number, as `alike` gave them, with their counts and weights."""
        merged = self.take(first)
        # Whole numbers in doubles are exact: the counts add up to at most 2**53.
        sums = {
            name: np.bincount(number, self.columns.get(name), minlength=len(first)).astype(
                self.whole(name).dtype
            )
            for name, column in COLUMNS.items()
            if column.added and (name == "counts" or name in self.columns)
        }
        return merged.saying(**sums)

    def doors(self) -> Doors:
        """What the events say of z, those of an event side by side, in the order of the events."""
        kinds = np.unique(self.kind) if "kind" in self.columns else np.array([WIN])
        if len(kinds) < 2:
            return KINDS[int(kinds[0]) if len(kinds) else WIN].fill(self)
        found = []
        for kind in kinds:
            here = np.flatnonzero(self.kind == kind)
            doors = KINDS[int(kind)].fill(self.take(here))
            found.append(doors._replace(event=here[doors.event]))
        return _by_event(found)

    def pair_doors(self) -> Doors:
        """`doors`, for what takes each z for a duel by itself.

        :raises ValueError: answers about sets.
        """
        together.check(sets=self.has_sets, of_pairs=True)
        return self.doors()

    @cached_property
    def sites(self) -> IntArray:
        """How many z each event has, (e,)."""
        if "kind" not in self.columns or not np.any((_SEVERAL & ~_COVERING)[self.kind]):
            found = np.ones(len(self), np.int64)
            for _, form, at in self.forms() if self.has_sets else ():
                found[at] = len(form.own)
            return found
        return np.bincount(self.doors().event, minlength=len(self))

    def sites_next_to(self, sets: bool) -> IntArray:
        """How many sites each has, (e,): its z, of each copy where answers about sets are there."""
        return self.sites * self.copies if sets else self.sites

    def checked(self) -> Answers:
        """The same, every column being what it should be; counts and rows are checked elsewhere.

        :raises ValueError: a column of another length or kind, offsets that do not cut the sides, a
            kind that there is not, or another number of sides than its events have, a weight that
            is not positive, a time or covariate that is not finite, or labels that are not coded.
        """
        if not len(self):
            raise ValueError("There are no events; give at least one.")
        sides, offsets, kind = self._checked_sides()
        if np.any(kind == GRADE):
            check_kind("answer", self.answer, Grades, "Grades.of(levels), as there are grades")
        steps = np.diff(offsets)
        columns = {name: self._checked_column(name, kind) for name in self.columns}
        columns["ordered"] = _checked_ordered(self.ordered, kind, steps)
        columns["kind"] = kind.astype(np.int8) if np.any(kind != WIN) else None
        found = Answers(sides, None if np.all(steps == 2) else offsets, **columns)
        return found.recoded(Codes.used)

    def check_questions(self, rows: int) -> None:
        """Refuse what cannot be asked between so many rows, whatever the labels are.

        :raises ValueError: what `checked` raises; a row that is not there.
        """
        _, offsets, kind = self._checked_sides()
        self.check_rows(rows)
        _checked_ordered(self.ordered, kind, np.diff(offsets))
        for name in self.columns:
            self._checked_column(name, kind, unknown=True)

    def check_rows(self, rows: int) -> None:
        """Refuse sides that are none of so many rows.

        :raises ValueError: see above.
        """
        for at in first_true((self.sides < 0) | (self.sides >= rows)):
            event = np.searchsorted(self.offsets, at, side="right") - 1
            raise ValueError(
                f"Event {event} has the row {self.sides[at]}, which is not an item; give rows "
                f"from 0 to {rows - 1}."
            )

    def _checked_sides(self) -> tuple[IntArray, IntArray, IntArray]:
        """Sides, offsets and kinds that fit together; there may be none."""
        sides, offsets = _whole(self.sides, "sides"), _whole(self.offsets, "offsets")
        e, steps = len(offsets) - 1, np.diff(offsets)
        if offsets[0] != 0 or offsets[-1] != len(sides) or steps.min(initial=0) < 0:
            raise ValueError(
                f"offsets run from {offsets[0]} to {offsets[-1]}, for {len(sides)} sides; let them "
                "begin at 0, never fall, and end at the number of sides."
            )
        kind = _whole(self.kind, "kind", e)
        for i in first_true((kind < 0) | (kind >= len(KINDS))):
            known = " or ".join(f"{number} ({one.name})" for number, one in enumerate(KINDS))
            raise ValueError(f"Event {i} has the kind {kind[i]}; give {known}.")
        for number in np.flatnonzero(np.bincount(kind)):
            one = KINDS[number]
            most = one.sides or len(sides)
            for i in first_true((kind == number) & ((steps < one.fewest) | (steps > most))):
                least = "" if one.sides else "at least "
                raise ValueError(
                    f"Event {i} is a {one.name} of {steps[i]} sides; give it {least}{one.fewest}."
                )
        return sides, offsets, kind

    def _checked_column(self, name: str, kind: IntArray, unknown: bool = False) -> Any:
        """A column, as it should be for events of these kinds; counts as they are.

        :param unknown: whether nobody need know the labels.
        :raises ValueError: see `checked`.
        """
        declared, values, e = COLUMNS[name], self.columns[name], len(kind)
        if declared.holds == "code":
            return _labelled(values, name, e, unknown)
        if declared.holds == "labels":
            check_kind(name, values, Mapping, "Codes by the names of their columns")
            return {of: _labelled(codes, of, e, unknown=True) for of, codes in values.items()}
        if declared.holds == "grade":
            check_kind("answer", values, Grades, "Grades.of(levels), as there are grades")
            _whole(values.numbers, "answer", e)
            values.check()
            for i in first_true((kind == GRADE) != (values.numbers != 0)):
                raise ValueError(
                    f"Event {i} is a {KINDS[kind[i]].name} with the level {values.numbers[i]}; "
                    "give a grade a level other than 0, and all else 0."
                )
        elif declared.holds == "covariate":
            check_kind(name, values, Covariates, "Covariates(numbers, names)")
            numbers = as_numbers(name, values.numbers, len(self.sides), "C")
            if values.names:
                check_covariate_names(values.names, numbers.shape[1])
            return Covariates(numbers, tuple(values.names))
        elif declared.holds == "number":
            values = as_numbers(name, values, e)
            for i in first_true(values <= declared.low):
                raise ValueError(
                    f"The {name.removesuffix('s')} of duel {i} is {values[i]}; give a positive "
                    "number, or leave it out."
                )
        return values

    def frozen(self) -> Answers:
        """The same with arrays that cannot be written to."""
        offsets = [] if self._offsets is None else [self._offsets]
        for array in (self.sides, *offsets, *arrays_of(self.columns)):
            array.setflags(write=False)
        return self


class OfLabels:
    """Names in answers, which are in memory or not."""

    said: Answers
    """The answers; where these are not in memory, none of them, but with the names of all."""

    @property
    def levels(self) -> tuple[str, ...] | None:
        """Names of the levels of grades from worst to best; None without grades."""
        return None if self.said.answer is None else self.said.answer.names

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """C names of the covariates."""
        return self.said.covariate_names

    @property
    def group_names(self) -> tuple[Hashable, ...] | None:
        """Who judged, by number; None without."""
        return None if self.said.judge is None else self.said.judge.names

    @property
    def people_names(self) -> tuple[Hashable, ...] | None:
        """The people by number; None without."""
        return None if self.said.person is None else self.said.person.names

    @property
    def label_names(self) -> dict[str, tuple[Hashable, ...]]:
        """The labels of each column of `labels`, by number."""
        return {column: codes.names for column, codes in self.said.labels.items()}


def _whole(values: Any, name: str, size: int | None = None) -> IntArray:
    """A column of whole numbers, (size,)."""
    found = np.asarray(values)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} is an array of shape {found.shape} and type {found.dtype}; give whole numbers "
            "in one dimension."
        )
    if size is not None:
        check_shape(name, found, size, hint=", one for each event")
    return found.astype(np.int64, copy=False)


def _labelled(codes: Any, name: str, e: int, unknown: bool = False) -> Codes:
    """Codes of e events, numbered in the order of their first appearance.

    :param unknown: whether labels may be unknown.
    """
    check_kind(name, codes, Codes, "Codes.of(labels)")
    numbers = _whole(codes.numbers, name, e)
    for i in first_true(numbers >= len(codes.names)):
        raise ValueError(
            f"Event {i} has the {name} {numbers[i]}, of {len(codes.names)} names; code the labels "
            "with Codes.of(labels)."
        )
    of_label, nobody = np.maximum(numbers, -1), [] if unknown else [(-1, None)]
    for number, label in [*enumerate(codes.names), *nobody]:
        if isinstance(label, str | int | np.integer) and not isinstance(label, bool):
            continue
        if unknown and label is None:  # what a question is about may be known to nobody
            continue
        for i in first_true(of_label == number):
            what = name if unknown else COLUMNS[name].words[0]
            raise ValueError(
                f"The {what} of duel {i} is {shortened(label)}; name each by a text or a whole "
                "number."
            )
    if len({*codes.names}) < len(codes.names):
        twice = next(label for label in codes.names if codes.names.count(label) > 1)
        raise ValueError(f"Two of the {name} names are {shortened(twice)}; give each its own.")
    return Codes(numbers, tuple(codes.names), codes.column)


def _joined(every: Sequence[Answers], name: str) -> Any:
    """A column of all events; None where none have it.

    :raises ValueError: only some have it, and nothing stands for it; grades of other levels,
        covariates of other names.
    """
    columns = [one.columns.get(name) for one in every]
    known = [column for column in columns if column is not None]
    if not known:
        return None
    if COLUMNS[name].holds == "labels":
        return {
            of: _joined_codes([one.labels.get(of, Codes.unknown(len(one))) for one in every], of)
            for of in dict.fromkeys(of for column in known for of in column)
        }
    if len(known) < len(every) and COLUMNS[name].fill is None:
        raise ValueError(
            f"Some of the events have a {name} and others have none; give all of them one, or none."
        )
    if isinstance(known[0], Codes):
        return _joined_codes(known, known[0].column)
    if isinstance(known[0], Grades | Covariates):
        what = "grades have the levels" if name == "answer" else "events have the covariates"
        for other in known:
            if other.names != known[0].names:
                mine, theirs = (", ".join(map(repr, x.names)) or "none" for x in (known[0], other))
                raise ValueError(
                    f"Some {what} {mine} and others {theirs}; give all the same, in the same order."
                )
    numbers = np.concatenate([arrays_of(one.whole(name))[0] for one in every])
    width = np.result_type(*(array for column in known for array in arrays_of(column)))
    return _each(known[0], lambda _: numbers.astype(width, copy=False))


def _joined_codes(every: Sequence[Codes], column: str | None) -> Codes:
    """Labels of all, by name."""
    names = tuple(dict.fromkeys(name for codes in every for name in codes.names))
    numbers = np.concatenate([codes.among(names).numbers for codes in every])
    return Codes(_each_unknown(numbers), names, column)


def _ranks(values: AnyArray) -> IntArray:
    """A whole number for each value or row, equal for equal ones, in their order."""
    axis = None if values.ndim == 1 else 0
    # Adding zero makes -0.0 and 0.0 the same.
    return distinct(values + 0.0, axis)[1]


def _checked_ordered(ordered: Any, kind: AnyArray, sizes: IntArray) -> IntArray | None:
    """How many sides of each event come first in order.

    :raises ValueError: none, or all or all but one, of a "top"; any of something else.
    """
    tops = kind == TOP
    if ordered is None and not tops.any():
        return None
    found = np.zeros(len(kind), np.int64)
    if ordered is not None:
        found = _whole(ordered, "ordered", len(kind))
    for i in first_true(tops & ((found < 1) | (found > sizes - 2))):
        raise ValueError(
            f"Event {i} has {found[i]} of {sizes[i]} sides in order; give 1 to {sizes[i] - 2}, and "
            "call all but one, or all, a ranking."
        )
    for i in first_true(~tops & (found != 0)):
        raise ValueError(
            f"Event {i} is a {KINDS[kind[i]].name} with {found[i]} sides in order; give 0, or make "
            "it a top."
        )
    return found if tops.any() else None


def _one_number(columns: Sequence[AnyArray]) -> IntArray:
    """A whole number for each row of columns (e,) of whole numbers, in the order of the rows."""
    key = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1  # of the numbers so far
    for column in columns:
        low, high = (int(f(column)) for f in (np.min, np.max)) if len(column) else (0, 0)
        if low == high:
            continue
        width = high - low + 1
        if size * width > _LARGEST:
            names, key = distinct(key)
            size = len(names)
        key = key * width + np.subtract(column, low, dtype=np.int64)
        size *= width
    return key


# What each kind means.


def with_noises(doors: Doors) -> Doors:
    """With those of duels said: sigma² of either side, its own."""
    if doors.draws is not None:
        return doors
    t = len(doors.event)
    draws = np.broadcast_to(np.array([0, 1]), (t, 2))
    return doors._replace(draws=draws, look=np.zeros(t, np.int64), own=np.full(t, 2.0))


def _by_event(parts: Sequence[Doors]) -> Doors:
    """Those of several kinds or forms, in the order of the events."""
    if any(doors.draws is not None for doors in parts):
        parts = [with_noises(doors) for doors in parts]
    order = np.argsort(np.concatenate([doors.event for doors in parts]), kind="stable")
    columns: list[Any] = [
        None if column[0] is None else np.concatenate(column)[order]
        for column in zip(*parts, strict=True)
    ]
    return Doors(*columns)


def _of_pairs(pairs: IntArray, limits: AnyArray, cuts: AnyArray) -> Doors:
    """One z of each event."""
    e = len(pairs)
    return Doors(pairs, limits, cuts.astype(np.int8), np.arange(e), np.ones(e))


def _one_box(events: Answers, lower: float, cuts: tuple[int, int]) -> Doors:
    """z of each pair in one box that ends at 0."""
    e = len(events)
    return _of_pairs(
        events.pairs,
        np.broadcast_to((lower, 0.0), (e, 2)),
        np.broadcast_to(np.array(cuts), (e, 2)),
    )


def _win(events: Answers) -> Doors:
    """f(loser) - f(winner), with noise, is below the margin's negative."""
    return _one_box(events, -np.inf, (0, -1))


def _tie(events: Answers) -> Doors:
    """f(second) - f(first), with noise, is within the margin."""
    return _one_box(events, 0.0, (-1, 1))


def _grade(events: Answers) -> Doors:
    """z of worse less better lies between two cuts, or beyond the last one."""
    assert events.answer is not None
    signed = events.answer.numbers.astype(np.int64)
    level, pairs = np.abs(signed), events.pairs
    last = level == events.answer.largest
    return _of_pairs(
        np.where(signed[:, None] < 0, pairs[:, ::-1], pairs),
        np.stack([np.where(last, -np.inf, 0.0), np.zeros(len(level))], 1),
        np.stack([np.where(last, 0, -level - 1), -level], 1),
    )


def _set(events: Answers) -> Doors:
    """Worse less better, with the noises of their look, is below 0: no margin moves that."""
    parts, same = list[Doors](), cast(Any, None)  # what is the same for all comes last
    for _, form, at in events.forms():
        rows = (len(at), len(form.own))
        parts.append(
            Doors(
                events.sides[events.offsets[at][:, None, None] + form.places].reshape(-1, 2),
                same,
                same,
                np.repeat(at, rows[1]),
                same,
                np.broadcast_to(form.draws, (*rows, 2)).reshape(-1, 2),
                np.broadcast_to(form.look, rows).reshape(-1),
                np.broadcast_to(form.own, rows).reshape(-1),
            )
        )
    doors = _by_event(parts)
    t = len(doors.event)
    limits, cuts = np.broadcast_to((-np.inf, 0.0), (t, 2)), np.zeros((t, 2), np.int8)
    return doors._replace(limits=limits, cuts=cuts, weight=np.ones(t))


def _kind_of_sets(name: str, covering: Covering, fewest: int = 2, ordered: bool = False) -> Kind:
    return Kind(name, _set, True, None, not ordered, covering=covering, fewest=fewest)


KINDS = (
    Kind("win", _win),
    Kind("tie", _tie, unordered=True),
    Kind("grade", _grade),
    _kind_of_sets("choice", choice),
    _kind_of_sets("ranking", ranking, ordered=True),
    _kind_of_sets("top", top, 3),
    _kind_of_sets("best_worst", best_worst, 3),
    _kind_of_sets("best_worst_at_once", best_worst_at_once, 3),
)
WIN, TIE, GRADE, CHOICE, RANKING, TOP, BEST_WORST, BEST_WORST_AT_ONCE = range(8)


def kinds_of_grades(answer: Grades) -> npt.NDArray[np.int8]:
    """The kind of events that were all graded, (e,): ties at 0."""
    return np.where(answer.numbers == 0, TIE, GRADE).astype(np.int8)


_SEVERAL = np.array([kind.several for kind in KINDS])
_UNORDERED = np.array([kind.unordered for kind in KINDS])
_COVERING = np.array([kind.covering is not None for kind in KINDS])
