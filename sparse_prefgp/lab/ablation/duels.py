"""The duels of one seed of a study, from wherever they are, parted."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, default_rng

from sparse_prefgp import datasets
from sparse_prefgp.data import splits
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.fetching import sha256
from sparse_prefgp.datasets.frames import numbered
from sparse_prefgp.datasets.loading import checksums
from sparse_prefgp.io import read_duels
from sparse_prefgp.lab.ablation.study import Data, Regression, SplitSettings, SyntheticData
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.workflow.kernel_grammar import STATIONARY_KERNELS

# Streams of random numbers that a seed gives, each its own whatever the others use.
DATA, SPLIT, INPUTS, ITEMS, COINS = range(5)


def stream(seed: int, number: int) -> Generator:
    """The random numbers of a seed for one purpose."""
    return default_rng([seed, number])


class PartedDuels(NamedTuple):
    """A table and which of its rows are for training and for testing."""

    table: Duels
    split: splits.Split
    utilities: FloatArray | None = None
    """(n,) of the items of the table, None where nobody knows them."""
    group: str | None = None
    """The label of the one that is left out, None where none is."""


def sources(data: Data) -> dict[str, str]:
    """SHA-256 of the files that the duels are read from, by name; none for `made` ones.

    :raises ValueError: an unknown set.
    :raises ConnectionError: a set that cannot be fetched.
    """
    if data.set is not None:
        return checksums(data.set)
    if data.files is None:
        return {}
    return {name: sha256(Path(getattr(data.files, name))) for name in ("items", "duels")}


def parted(data: Data, split: SplitSettings, max_train: int | None, seed: int) -> PartedDuels:
    """The duels of one seed, parted; the same for every method that is tried on them.

    :raises ValueError: an unknown set, or one of another kind than the settings are for; a column
        that is not there, a part without duels, a seed that is the number of no group.
    :raises ConnectionError: a set that cannot be fetched.
    """
    return _parted(data, _Parting(split, max_train, seed), tuple(sources(data).items()))


@lru_cache(maxsize=2)
def _parted(data: Data, how: _Parting, _: tuple[Any, ...]) -> PartedDuels:
    """Anew where the files have changed."""
    if data.made is not None:
        return how.rows(*made_duels(data.made, stream(how.seed, DATA)))
    never = splits.split_columns(how.split.by)
    if data.files is not None:
        files = data.files
        table = read_duels(
            files.items,
            files.duels,
            ignore=files.ignore,
            never_features=never,
            covariates=files.covariates,
            labels=files.labels,
        )
        return how.rows(table)
    known = _set(data)
    if isinstance(known, datasets.RegressionSet):
        assert data.regression is not None
        return how.from_targets(known, data.regression)
    if data.test == "gold":
        return how.gold_tested(known)
    return how.rows(known.to_duels(never_features=never))


def _set(data: Data) -> datasets.DuelSet | datasets.RegressionSet:
    """The set of that name, if it is of the kind that the settings are for."""
    assert data.set is not None
    known = datasets.load(data.set)
    has_duels = isinstance(known, datasets.DuelSet)
    has_targets = isinstance(known, datasets.RegressionSet)
    what = "choices from sets" if isinstance(known, datasets.ChoiceSet) else "rankings"
    for wrong, words in (
        (not has_duels and not has_targets, f"{what}, and studies take duels; choose another"),
        (
            has_targets and data.regression is None,
            "targets and no duels; say under regression how to make them: {duels: 2000, "
            "test_duels: 1000, noise: 0.25}",
        ),
        (has_duels and data.regression is not None, "duels of its own; leave out regression"),
        (data.test and getattr(known, "gold", None) is None, "no gold duels; leave out test"),
    ):
        if wrong:
            raise ValueError(f"The data set {data.set!r} has {words}.")
    assert isinstance(known, datasets.DuelSet | datasets.RegressionSet)
    return known


class _Parting(NamedTuple):
    """How duels are parted."""

    split: SplitSettings
    max_train: int | None
    seed: int

    def rows(self, table: Duels, utilities: FloatArray | None = None) -> PartedDuels:
        """Training and test rows of a seed."""
        split, seed, rng = self.split, self.seed, stream(self.seed, SPLIT)
        most = {"max_train": self.max_train}
        if split.test_fraction is not None:
            rows = splits.split_duels(table, split.by, split.test_fraction, rng, **most)
            return PartedDuels(table, rows, utilities)
        known = splits.group_labels(table, split.by)
        if seed >= len(known):
            (column,) = splits.split_columns(split.by)
            raise ValueError(
                f"The seed {seed} is the number of no group: there are {len(known)} values of "
                f"{column!r}, numbered from 0; give seeds below {len(known)}."
            )
        rows = splits.leave_one_out(table, split.by, known[seed], rng, **most)
        return PartedDuels(table, rows, utilities, known[seed])

    def from_targets(self, known: datasets.RegressionSet, how: Regression) -> PartedDuels:
        """Items are parted first, then pairs are drawn within each part (Chu & Ghahramani 2005)."""
        rng = stream(self.seed, SPLIT)
        if self.split.test_fraction is not None:
            train, test = splits.item_parts(len(known.target), self.split.test_fraction, rng)
        elif known.parts is not None:
            train, test = known.parts
        else:
            raise ValueError(
                f"The data set {known.about.name!r} has no standard parts; give a test_fraction."
            )
        if how.items is not None and how.items < len(train):
            train = np.sort(rng.choice(train, how.items, replace=False))
        made = datasets.duels_from_targets(
            known,
            stream(self.seed, DATA),
            duels=(how.duels, how.test_duels),
            parts=(train, test),
            noise=how.noise,
        )
        first, second = (np.flatnonzero(made.part == part) for part in (0, 1))
        wording = (
            f"{how.duels:,} duels within {len(train):,} training items, {how.test_duels:,} within "
            f"{len(test):,} test items"
        )
        rows = splits.given_rows(first, second, wording, rng, max_train=self.max_train)
        return PartedDuels(made.to_duels(), rows, made.utilities)

    def gold_tested(self, known: datasets.DuelSet) -> PartedDuels:
        """Votes to learn from, gold duels of what is held out to be tested on."""
        pd = require_pandas()
        parts = [known.duels.assign(source="votes"), known.gold.assign(source="gold")]
        both: Any = pd.concat(parts, ignore_index=True)
        # What the gold duels lack, such as who judged, is not a context that a split could need.
        both = both.dropna(axis="columns")
        ignore = [name for name in known.about.ignore if name in known.items.columns]
        never = splits.split_columns(self.split.by)
        table = read_duels(known.items, both, ignore=ignore, never_features=never)
        whole = self._replace(max_train=None).rows(table)
        source, split = table.context["source"].to_numpy(), whole.split
        train = split.train_rows[source[split.train_rows] == "votes"]
        test = split.test_rows[source[split.test_rows] == "gold"]
        if not len(test):
            raise ValueError(f"No gold duel is held out with the seed {self.seed}; hold out more.")
        wording = (
            f"{split.description.rstrip('.')}; learned from votes, tested on {len(test):,} gold "
            "duels"
        )
        rng, most = stream(self.seed, SPLIT), self.max_train
        dropped = split.dropped
        rows = splits.given_rows(train, test, wording, rng, max_train=most, dropped=dropped)
        return PartedDuels(table, rows, group=whole.group)


def made_duels(made: SyntheticData, rng: Generator) -> tuple[Duels, FloatArray]:
    """Random duels between items with normal features, and the utilities (n,) that decided them.

    The larger utility wins, after either side has got normal noise of its own.
    """
    features = rng.standard_normal((made.items, made.features))
    utility = drawn_utility(made, features, rng)
    first = rng.integers(made.items, size=made.duels)
    second = (first + rng.integers(1, made.items, size=made.duels)) % made.items
    pairs = np.stack([first, second], 1)
    noisy = utility[pairs] + np.sqrt(made.noise) * rng.standard_normal(pairs.shape)
    losers, winners = np.take_along_axis(pairs, np.argsort(noisy, axis=1), axis=1).T
    pd = require_pandas()
    items = pd.DataFrame(features).rename(columns=lambda i: f"x{i}")
    return read_duels(numbered(items), pd.DataFrame({"winner": winners, "loser": losers})), utility


def drawn_utility(made: SyntheticData, features: FloatArray, rng: Generator) -> FloatArray:
    """One draw (n,) from the Gaussian process at the features (n, D)."""
    import gpflow

    kind = getattr(gpflow.kernels, STATIONARY_KERNELS[made.kernel])
    kernel = kind(variance=made.variance, lengthscales=made.lengthscale)
    covariance = kernel(features).numpy()
    covariance[np.diag_indices(len(features))] += 1e-10 * made.variance
    root: FloatArray = np.linalg.cholesky(covariance)
    return root @ rng.standard_normal(len(features))
