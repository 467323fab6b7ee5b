"""Duels of public data sets by name, parted for a seed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.splits import given_rows, item_parts, split_columns
from sparse_prefgp.datasets import (
    ChoiceSet,
    DuelSet,
    RankingSet,
    RegressionSet,
    duels_from_targets,
    load,
)
from sparse_prefgp.datasets.sets import AnySet
from sparse_prefgp.io import DuelTable, read_table
from sparse_prefgp.lab.ablation.checksums import source_sums
from sparse_prefgp.lab.ablation.configuration import Data, Regression, SplitSettings
from sparse_prefgp.lab.ablation.data import (
    DATA,
    SPLIT,
    SplitTable,
    Sums,
    left_out_group,
    split_rows,
    stream,
)

_SOURCE = "source"  # of a duel, where training and test come from two tables


def check_named(data: Data) -> None:
    """Fetch a set, and refuse settings that it cannot have.

    :raises ValueError: an unknown set, or one of another kind than the settings are for.
    :raises ConnectionError: no network.
    """
    assert data.set is not None
    found = _loaded(data.set, tuple(source_sums(data).items()))
    if isinstance(found, ChoiceSet | RankingSet):
        what = "choices from sets" if isinstance(found, ChoiceSet) else "rankings"
        raise ValueError(
            f"The data set {data.set!r} has {what}, and studies take duels; choose "
            "another, or give a table of duels under files."
        )
    if isinstance(found, RegressionSet) and data.regression is None:
        raise ValueError(
            f"The data set {data.set!r} has targets and no duels; say under regression how to make "
            "them: {duels: 2000, test_duels: 1000, noise: 0.25}."
        )
    if isinstance(found, DuelSet) and data.regression is not None:
        raise ValueError(f"The data set {data.set!r} has duels of its own; leave out regression.")
    gold = isinstance(found, DuelSet) and found.gold is not None
    if data.test == "gold" and not gold:
        raise ValueError(f"The data set {data.set!r} has no gold duels; leave out test.")


def named_duels(
    data: Data, split: SplitSettings, max_train: int | None, seed: int, sums: Sums
) -> SplitTable:
    """The duels of a set, parted for a seed; `sums` are those of its files.

    :raises ValueError: what reading, drawing and splitting raise.
    """
    assert data.set is not None
    found = _loaded(data.set, sums)
    if isinstance(found, RegressionSet):
        assert data.regression is not None
        return _from_targets(found, data.regression, split, max_train, seed)
    assert isinstance(found, DuelSet)
    if data.test == "gold":
        return _gold_tested(found, split, max_train, seed)
    table = _table(data.set, split.by, sums)
    rows = split_rows(table, split, max_train, seed)
    return SplitTable(table, rows, group=left_out_group(table, split, seed))


@lru_cache(maxsize=1)
def _loaded(name: str, sums: Sums) -> AnySet:
    return load(name)


@lru_cache(maxsize=1)
def _table(name: str, by: str, sums: Sums) -> DuelTable:
    found = _loaded(name, sums)
    assert isinstance(found, DuelSet)
    return found.table(never_features=split_columns(by))


def _from_targets(
    found: RegressionSet,
    how: Regression,
    split: SplitSettings,
    max_train: int | None,
    seed: int,
) -> SplitTable:
    """Items are parted first, then pairs are drawn within each part (Chu & Ghahramani 2005)."""
    rng = stream(seed, SPLIT)
    if split.standard:
        if found.parts is None:
            raise ValueError(
                f"The data set {found.about.name!r} has no standard parts; give a test_fraction."
            )
        parts = found.parts
    else:
        assert split.test_fraction is not None
        parts = item_parts(len(found.target), split.test_fraction, rng)
    train, test = parts
    if how.items is not None and how.items < len(train):
        train = np.sort(rng.choice(train, how.items, replace=False))
    numbers = (how.duels, how.test_duels)
    made = duels_from_targets(
        found, stream(seed, DATA), duels=numbers, parts=(train, test), noise=how.noise
    )
    table = made.table()
    rows = [np.flatnonzero(made.part == part) for part in (0, 1)]
    wording = (
        f"{how.duels:,} duels within {len(train):,} training items, {how.test_duels:,} within "
        f"{len(test):,} test items"
    )
    parted = given_rows(rows[0], rows[1], wording, rng, max_train=max_train)
    return SplitTable(table, parted, made.utilities)


def _gold_tested(
    found: DuelSet, split: SplitSettings, max_train: int | None, seed: int
) -> SplitTable:
    """Votes to learn from, gold duels of what is held out to be tested on."""
    pd = require_pandas()
    both: Any = pd.concat(
        [found.duels.assign(**{_SOURCE: 0}), found.gold.assign(**{_SOURCE: 1})], ignore_index=True
    )
    ignore = [name for name in found.about.ignore if name in found.items.columns]
    # What the gold duels lack, such as who judged, is not a context that a split could need.
    shared = [name for name in both.columns if not both[name].isna().any()]
    table = read_table(
        found.items, both[shared], ignore=ignore, never_features=split_columns(split.by)
    )
    whole = split_rows(table, split, None, seed)
    source = table.context[_SOURCE].to_numpy()
    train = whole.train_rows[source[whole.train_rows] == 0]
    test = whole.test_rows[source[whole.test_rows] == 1]
    if not len(test):
        raise ValueError(f"No gold duel is held out with the seed {seed}; hold out more.")
    wording = (
        f"{whole.description.rstrip('.')}; learned from votes, tested on {len(test):,} gold duels"
    )
    rows = given_rows(
        train, test, wording, stream(seed, SPLIT), max_train=max_train, dropped=whole.dropped
    )
    return SplitTable(table, rows, group=left_out_group(table, split, seed))
