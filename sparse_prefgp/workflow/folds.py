"""Folds of duels: over duels, items, groups or time, each part standardised on its own items."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.leaning import Leaning
from sparse_prefgp.data.splits import (
    Grouping,
    Units,
    folds_of,
    given_units,
    grouping_of,
    split_columns,
    split_duels,
    thinned,
    units_of,
)
from sparse_prefgp.data.table import DuelTable, table_of
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import IntArray

# Copies of equal duels are folded one by one up to here.
MAX_COPIES = 5_000_000


class Fold(NamedTuple):
    """Rows to fit to and rows to score."""

    train: IntArray
    test: IntArray


class FoldPlan:
    """Rows of duels in folds.

    :ivar counts: (t,) how often each row was seen.
    :ivar sets: (t,) a number for each row, equal for duels of one choice or ranking.
    :ivar groups: (t,) or (t, m) what each row is of that standard errors are over.
    :ivar se_over: what these are called.
    :ivar events: what each row said, between items that are those of `train`.
    :ivar folds: at least one.
    :ivar description: one sentence on them.
    :ivar described_people: how many people answer again and again with columns of their own.
    :ivar thinned: training rows left out, at most in a fold.
    """

    def __init__(
        self, table: DuelTable, folds: list[Fold], description: str, units: Units, leans: Any = ()
    ) -> None:
        # Idle items would be converted for every fold. Of labels those that lean count alone, and
        # sites that are parted by others would cost time.
        used, events = table.without_idle_items(), table.events
        self.leaning = Leaning.of(leans, events.covariate_names, events.labels)
        labels = {column: events.labels[column] for column in self.leaning.columns}
        self._table = used.saying(judge=None, labels=labels)
        self.events = self._table.events
        self.counts, self.sets = table.counts, table.sets()
        rows = np.arange(table.num_rows)
        grouping = grouping_of(table, rows, units) or Grouping(rows, self.events.noun)
        self.groups, self.se_over = grouping
        self._parts: dict[int, Duels] = {}
        self.folds = folds
        self.described_people = table.described_people
        self.description = description
        self.thinned = 0

    def stop_after(self, enough: int) -> None:
        """Leave out the folds after the one with which so many duels are scored; two stay."""
        scored = np.cumsum([self.counts[fold.test].sum() for fold in self.folds])
        number = max(int(np.searchsorted(scored, enough)) + 1, 2)
        if number < len(self.folds):
            self.description += f" Of these the first {number} are scored."
            self.folds = self.folds[:number]

    def train(self, fold: Fold) -> Duels:
        """Training duels of a fold; `items` has every item, in the units of this fold."""
        key = id(fold)  # the folds live as long as the plan
        if key not in self._parts:
            self._parts[key] = self._table.to_duels(fold.train)
        return self._parts[key]


def plan_folds(
    duels: Duels | DuelTable,
    folds: int,
    by: str | npt.ArrayLike,
    rng: Generator,
    max_train: int | None,
    leans: Any = (),
) -> FoldPlan:
    """Part duels into folds; the arguments are those of `compare`.

    :param duels: a table, or Duels, of which equal ones are parted when `by` is `duels`.
    :param folds: how many; `time` has one, the last 1/folds of the duels, and so has `given`.
    :param by: `duels`, `items`, `group:COLUMN`, `time:COLUMN`, `given:COLUMN` or the group of each
        row.
    :param rng: draws what is random.
    :param max_train: thin the training part of each fold to so many rows.
    :param leans: which labels lean by which covariates, as `Lean` takes them.
    :raises ValueError: more folds than there are units; a fold without duels; a column that is not
        there or has no value; an array of another length; ties.
    """
    together.check(comparison=True, ties=duels.num_ties > 0, grades=duels.levels is not None)
    if isinstance(by, str) and split_columns(by) and isinstance(duels, Duels):
        raise together.refused(duels_object="Duels", split_column=f"by={by!r}")
    if isinstance(duels, DuelTable):
        table = duels
    else:
        copies = isinstance(by, str) and by == "duels"  # which are parted one by one
        if copies and duels.num_duels > MAX_COPIES:
            raise ValueError(
                f"There are {duels.num_duels:,} duels, too many to be folded one by one; give by= "
                "an array with the group of each row of duels.winners."
            )
        table = table_of(duels, one_by_one=copies)
    units = units_of(table, by) if isinstance(by, str) else given_units(by, table.num_rows)
    sets, t = table.sets(), table.num_rows
    if units.ordered or units.given:
        split = split_duels(table, str(by), 1.0 / folds, rng)
        parts = [(split.train_rows, split.test_rows)]
        wording = split.description
    else:
        parts = folds_of(units, sets, folds, rng)
        wording = f"{folds} folds over {len(np.unique(units.code)):,} {units.what}"
        mixed = t - sum(len(test) for _, test in parts)
        if mixed:
            wording += f"; {mixed:,} of {t:,} duels are between different folds and never scored"
        wording += "."
    found = [Fold(train, test) for train, test in parts]
    plan = FoldPlan(table, found, wording, units, leans)
    if max_train is not None:
        moment = units.code if units.ordered else None
        for k, fold in enumerate(found):
            if len(fold.train) <= max_train:
                continue
            if table is duels:
                kept = thinned(fold.train, sets, max_train, rng, moment, table.set_column)
            else:
                kept = np.sort(rng.choice(fold.train, max_train, replace=False))
            plan.thinned = max(plan.thinned, len(fold.train) - len(kept))
            plan.folds[k] = fold._replace(train=kept)
    return plan
