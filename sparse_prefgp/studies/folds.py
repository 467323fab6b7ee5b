"""Folds of duels: over duels, items, groups or time, each part standardised on its own items."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sparse_prefgp.duels import Duels
from sparse_prefgp.features import require_pandas
from sparse_prefgp.io import DuelTable
from sparse_prefgp.splits import split_columns, split_duels

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

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

    Attributes:
        winners, losers, counts: (t,) of each row; items as numbers. `train` knows the same items.
        weights: (t,) as how many duels a duel of each row of `Duels` counts in the likelihood, or
            None; a table has its own.
        sets: (t,) a number for each row, equal for duels of one choice or ranking.
        sets_are_rows: whether every row is a judgement of its own.
        folds: at least one. description: one sentence on them. thinned: training rows left out, at
            most in a fold.
    """

    def __init__(self, source: Duels | DuelTable, rows: IntArray | None) -> None:
        # Who judged does not count here, and sites that are parted by it would cost time.
        self._source = replace(source, groups=None) if isinstance(source, DuelTable) else source
        self.weights: FloatArray | None = None
        self._parts: dict[int, Duels] = {}
        if isinstance(source, DuelTable):
            self.winners, self.losers = source.winners, source.losers
            counts = source.counts
            self.counts = np.ones(source.num_rows, dtype=np.int64) if counts is None else counts
            self.sets = source.sets()
            self.sets_are_rows = source.set_column is None
        else:
            index = np.arange(source.num_pairs) if rows is None else rows
            self.winners, self.losers = source.winners[index], source.losers[index]
            self.counts = source.counts if rows is None else np.ones(len(index), dtype=np.int64)
            if source.weights is not None:
                self.weights = (source.weights / source.counts)[index]
            self.sets = np.arange(len(index))
            self.sets_are_rows = True
        self.folds: list[Fold] = []
        self.description = ""
        self.thinned = 0

    def sides(self) -> tuple[IntArray, IntArray]:
        """Winner and loser of each row, the same number whatever the context, (t,) each."""
        if isinstance(self._source, DuelTable):
            return self._source.sides()
        return self.winners, self.losers

    def train(self, fold: Fold) -> Duels:
        """Training duels of a fold; `items` has every item, in the units of this fold."""
        key = id(fold)  # the folds live as long as the plan
        if key not in self._parts:
            self._parts[key] = self._make(fold)
        return self._parts[key]

    def _make(self, fold: Fold) -> Duels:
        if isinstance(self._source, DuelTable):
            return self._source.to_duels(fold.train)
        old = self._source
        return Duels.from_rows(
            old.items,
            self.winners[fold.train],
            self.losers[fold.train],
            self.counts[fold.train],
            weights=None if self.weights is None else self.weights[fold.train],
            item_ids=old.item_ids,
            feature_names=old.feature_names,
            transform=old.transform,
        )


def plan_folds(
    duels: Duels | DuelTable,
    folds: int,
    by: str | npt.ArrayLike,
    rng: np.random.Generator,
    max_train: int | None,
) -> FoldPlan:
    """Part duels into folds; the arguments are those of `compare`.

    Args:
        duels: a table, or Duels, of which equal ones are parted when `by` is `duels`.
        folds: how many; `time` has one, the last 1/folds of the duels.
        by: `duels`, `items`, `group:COLUMN`, `time:COLUMN` or the group of each row.
        rng: draws what is random.
        max_train: thin the training part of each fold to so many rows.

    Raises:
        ValueError: more folds than there are units; a fold without duels; a column that is not
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
        if column and isinstance(duels, Duels):
            raise ValueError(
                f"by is {by!r}, but Duels have no columns; give the values themselves, one for "
                "each row of duels.winners, or a table from read_table."
            )
    plan = FoldPlan(_compact(duels), _copies(duels) if kind == "duels" else None)
    if kind == "time":
        share = 1.0 / folds
        split = split_duels(_table(duels), str(by), share, rng)
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
            first, second = _group_codes(_table(duels), str(by), column, rng)
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
        plan.folds = [_thin(plan, fold, max_train, kind, duels, by, rng) for fold in plan.folds]
    return plan


def _compact(duels: Duels | DuelTable) -> Duels | DuelTable:
    """A table without the items that are in no duel, which would be converted for every fold."""
    if isinstance(duels, Duels):
        return duels
    used, place = np.unique(np.concatenate([duels.winners, duels.losers]), return_inverse=True)
    t, base = duels.num_rows, duels.base_items
    names = duels.row_names
    return replace(
        duels,
        items=duels.items.iloc[used].reset_index(drop=True),
        item_ids=tuple(duels.item_ids[i] for i in used),
        winners=place[:t].astype(np.int64),
        losers=place[t:].astype(np.int64),
        row_names=names.select(used),
        base_items=None if base is None else base[used],
    )


def _table(duels: Duels | DuelTable) -> DuelTable:
    assert isinstance(duels, DuelTable)
    return duels


def _copies(duels: Duels | DuelTable) -> IntArray | None:
    """Rows of Duels with each repeated as often as it was seen, so that copies can be parted."""
    if isinstance(duels, DuelTable):
        return None
    if duels.num_duels > MAX_COPIES:
        raise ValueError(
            f"There are {duels.num_duels:,} duels, too many to be folded one by one; give by= an "
            "array with the group of each row of duels.winners."
        )
    return np.repeat(np.arange(duels.num_pairs), duels.counts)


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
    kind: str,
    duels: Duels | DuelTable,
    by: str | npt.ArrayLike,
    rng: np.random.Generator,
) -> Fold:
    """At most so many training rows: the latest for time, else at random; whole sets stay whole."""
    if len(fold.train) <= max_train:
        return fold
    if isinstance(duels, DuelTable):
        how = str(by) if kind == "time" else "duels"
        part = split_duels(duels.select(fold.train), how, 0.0, rng, max_train=max_train)
        kept = fold.train[part.train_rows]
    else:
        kept = np.sort(rng.choice(fold.train, max_train, replace=False))
    plan.thinned = max(plan.thinned, len(fold.train) - len(kept))
    return replace(fold, train=kept)
