"""Folds of duels: over duels, items, groups or time, each part standardised on its own items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.events import Events
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.splits import split_columns, split_duels
from sparse_prefgp.io import DuelTable
from sparse_prefgp.support.arrays import FloatArray, IntArray

# Copies of equal duels are folded one by one up to here.
MAX_COPIES = 5_000_000


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit to and rows to score, and the set that each scored row comes from."""

    train: IntArray
    test: IntArray
    test_sets: IntArray


class FoldPlan:
    """Rows of duels in folds, whatever they came from.

    :ivar winners: (t,) of each row; items as numbers. `train` knows the same items.
    :ivar losers: (t,) of each row; items as numbers. `train` knows the same items.
    :ivar counts: (t,) of each row; items as numbers. `train` knows the same items.
    :ivar weights: (t,) as how many duels a duel of each row of `Duels` counts in the likelihood, or
        None; a table has its own.
    :ivar sets: (t,) a number for each row, equal for duels of one choice or ranking.
    :ivar sets_are_rows: whether every row is a judgement of its own.
    :ivar folds: at least one.
    :ivar description: one sentence on them.
    :ivar thinned: training rows left out, at most in a fold.
    """

    def __init__(self, source: _Source) -> None:
        self._source = source
        self.winners, self.losers, self.counts = source.winners, source.losers, source.counts
        self.weights, self.sets = source.weights, source.sets
        self.sets_are_rows = source.sets_are_rows
        self._parts: dict[int, Duels] = {}
        self.folds: list[Fold] = []
        self.description = ""
        self.thinned = 0

    def sides(self) -> tuple[IntArray, IntArray]:
        """Winner and loser of each row, the same number whatever the context, (t,) each."""
        return self._source.sides()

    def train(self, fold: Fold) -> Duels:
        """Training duels of a fold; `items` has every item, in the units of this fold."""
        key = id(fold)  # the folds live as long as the plan
        if key not in self._parts:
            self._parts[key] = self._source.to_duels(fold.train)
        return self._parts[key]


class _Source(ABC):
    """Rows that are parted, by the names that `FoldPlan` has for them, and duels made of some."""

    winners: IntArray
    losers: IntArray
    counts: IntArray
    weights: FloatArray | None
    sets: IntArray
    sets_are_rows: bool

    @abstractmethod
    def sides(self) -> tuple[IntArray, IntArray]: ...

    @abstractmethod
    def to_duels(self, rows: IntArray) -> Duels: ...

    @abstractmethod
    def table(self, by: str) -> DuelTable:
        """The table whose columns `by` is about.

        :raises ValueError: there is none.
        """

    @abstractmethod
    def latest(
        self, rows: IntArray, most: int, by: str | None, rng: np.random.Generator
    ) -> IntArray:
        """At most so many rows, whole sets of them: the latest by a column of time, or drawn."""


class _OfTable(_Source):
    def __init__(self, table: DuelTable) -> None:
        self._whole = table
        table = _without_idle_items(table)
        # Who judged does not count here, and sites that are parted by it would cost time.
        self._table = table.saying(judge=None)
        self.winners, self.losers = table.winners, table.losers
        self.counts = table.counts
        self.weights = None
        self.sets = table.sets()
        self.sets_are_rows = table.set_column is None

    def sides(self) -> tuple[IntArray, IntArray]:
        return self._table.sides()

    def to_duels(self, rows: IntArray) -> Duels:
        return self._table.to_duels(rows)

    def table(self, by: str) -> DuelTable:
        del by
        return self._whole

    def latest(
        self, rows: IntArray, most: int, by: str | None, rng: np.random.Generator
    ) -> IntArray:
        part = split_duels(self._whole.select(rows), by or "duels", 0.0, rng, max_train=most)
        return rows[part.train_rows]


class _OfDuels(_Source):
    def __init__(self, duels: Duels, one_by_one: bool) -> None:
        self._duels = duels
        self._events = _copies(duels) if one_by_one else duels.events
        self.winners, self.losers = self._events.pairs.T
        self.counts = self._events.counts
        self.weights = self._events.each_weight
        self.sets = np.arange(len(self.counts))
        self.sets_are_rows = True

    def sides(self) -> tuple[IntArray, IntArray]:
        return self.winners, self.losers

    def to_duels(self, rows: IntArray) -> Duels:
        old = self._duels
        return Duels.from_events(
            old.items,
            replace(self._events.take(rows), judge=None),
            item=old.item,
            item_ids=old.item_ids,
            feature_names=old.feature_names,
            transform=old.transform,
        )

    def table(self, by: str) -> DuelTable:
        raise ValueError(
            f"by is {by!r}, but Duels have no columns; give the values themselves, one for "
            "each row of duels.winners, or a table from read_table."
        )

    def latest(
        self, rows: IntArray, most: int, by: str | None, rng: np.random.Generator
    ) -> IntArray:
        return np.sort(rng.choice(rows, most, replace=False))


def plan_folds(
    duels: Duels | DuelTable,
    folds: int,
    by: str | npt.ArrayLike,
    rng: np.random.Generator,
    max_train: int | None,
) -> FoldPlan:
    """Part duels into folds; the arguments are those of `compare`.

    :param duels: a table, or Duels, of which equal ones are parted when `by` is `duels`.
    :param folds: how many; `time` has one, the last 1/folds of the duels.
    :param by: `duels`, `items`, `group:COLUMN`, `time:COLUMN` or the group of each row.
    :param rng: draws what is random.
    :param max_train: thin the training part of each fold to so many rows.
    :raises ValueError: more folds than there are units; a fold without duels; a column that is not
        there or has no value; an array of another length; ties.
    """
    if duels.num_ties:
        raise ValueError(
            f"{duels.num_ties:,} of the duels are ties, but a comparison scores which side won; "
            "leave them out, and use them in the fit."
        )
    kind, column = "groups", ""
    if isinstance(by, str):
        split_columns(by)  # refuses what is no kind of split
        kind, _, column = by.partition(":")
    source = _OfDuels(duels, kind == "duels") if isinstance(duels, Duels) else _OfTable(duels)
    if column:
        source.table(str(by))  # refused before any work where there is none
    plan = FoldPlan(source)
    if kind == "time":
        share = 1.0 / folds
        split = split_duels(source.table(str(by)), str(by), share, rng)
        test = split.test_rows
        plan.folds = [Fold(split.train_rows, test, plan.sets[test])]
        plan.description = split.description
    else:
        if kind == "duels":
            first = second = plan.sets
            what = "duels" if plan.sets_are_rows else "sets of duels"
        elif kind == "items":
            (first, second), what = plan.sides(), "items"
        elif kind == "group":
            first, second = _group_codes(source.table(str(by)), str(by), column, rng)
            what = f"values of {column!r}"
        else:
            first = second = _given_codes(by, len(plan.winners))
            what = "groups"
        plan.folds = _cut(plan, first, second, folds, what, rng)
        plan.description = f"{folds} folds over {len(np.unique([first, second])):,} {what}"
        mixed = len(plan.winners) - sum(len(fold.test) for fold in plan.folds)
        if mixed:
            plan.description += (
                f"; {mixed:,} of {len(plan.winners):,} duels are between different folds and "
                "never scored"
            )
        plan.description += "."
    if max_train is not None:
        latest = str(by) if kind == "time" else None
        plan.folds = [_thin(plan, fold, max_train, source, latest, rng) for fold in plan.folds]
    return plan


def _without_idle_items(duels: DuelTable) -> DuelTable:
    """A table without the items that are in no duel, which would be converted for every fold."""
    used, place = np.unique(duels.events.sides, return_inverse=True)
    base = duels.base_items
    names = duels.row_names
    return replace(
        duels,
        items=duels.items.iloc[used].reset_index(drop=True),
        item_ids=tuple(duels.item_ids[i] for i in used),
        events=replace(duels.events, sides=place.reshape(-1).astype(np.int64)),
        row_names=names.select(used),
        base_items=None if base is None else base[used],
    )


def _copies(duels: Duels) -> Events:
    """The duels with each as often as it was seen, so that copies can be parted."""
    if duels.num_duels > MAX_COPIES:
        raise ValueError(
            f"There are {duels.num_duels:,} duels, too many to be folded one by one; give by= an "
            "array with the group of each row of duels.winners."
        )
    return duels.events.one_by_one()


def _group_codes(
    table: DuelTable, by: str, column: str, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    # Says what is wrong with the column, if anything.
    split_duels(table, by, 0.0, rng)
    pd = require_pandas()
    own = column in table.context.columns
    values = table.context[column] if own else table.items[column]
    codes = np.asarray(pd.factorize(values.astype(str))[0], dtype=np.int64)
    return (codes, codes) if own else (codes[table.winners], codes[table.losers])


def _given_codes(by: npt.ArrayLike, rows: int) -> IntArray:
    values = np.asarray(by)
    if values.shape != (rows,):
        raise ValueError(
            f"by has shape {values.shape} for {rows:,} rows of duels; give the group of each, or "
            "one of the words duels and items."
        )
    if values.dtype.kind == "f" and np.isnan(values).any():
        row = int(np.flatnonzero(np.isnan(values))[0])
        raise ValueError(f"by has no value (NaN) for row {row} of the duels; fill it in.")
    pd = require_pandas()
    return np.asarray(pd.factorize(values)[0], dtype=np.int64)


def _cut(
    plan: FoldPlan,
    first: IntArray,
    second: IntArray,
    folds: int,
    what: str,
    rng: np.random.Generator,
) -> list[Fold]:
    units, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    if folds > len(units):
        raise ValueError(
            f"{folds} folds are more than the {len(units):,} {what}; use at most {len(units)} "
            "folds."
        )
    fold_of = np.empty(len(units), dtype=np.int64)
    fold_of[rng.permutation(len(units))] = np.arange(len(units)) % folds
    won, lost = np.split(fold_of[codes], 2)
    found = []
    for k in range(folds):
        inside, outside = (won == k) & (lost == k), (won != k) & (lost != k)
        # Duels of one choice or ranking stay together, or are left out together.
        test = np.flatnonzero(~np.isin(plan.sets, plan.sets[~inside]))
        train = np.flatnonzero(~np.isin(plan.sets, plan.sets[~outside]))
        for part, rows in (("scored", test), ("fitted to", train)):
            if len(rows) == 0:
                raise ValueError(
                    f"Fold {k + 1} of {folds} over {what} has no duels that can be {part}; use "
                    "fewer folds or another kind of split."
                )
        found.append(Fold(train, test, plan.sets[test]))
    return found


def _thin(
    plan: FoldPlan,
    fold: Fold,
    max_train: int,
    source: _Source,
    latest: str | None,
    rng: np.random.Generator,
) -> Fold:
    """At most so many training rows: the latest for time, else at random; whole sets stay whole."""
    if len(fold.train) <= max_train:
        return fold
    kept = source.latest(fold.train, max_train, latest, rng)
    plan.thinned = max(plan.thinned, len(fold.train) - len(kept))
    return replace(fold, train=kept)
