"""The duels of a study: read or made, and split again for every seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.splits import (
    Split,
    group_labels,
    leave_one_out,
    split_columns,
    split_duels,
)
from sparse_prefgp.io import DuelTable, read_table
from sparse_prefgp.lab.ablation.configuration import Files, SplitSettings, SyntheticData
from sparse_prefgp.support.arrays import FloatArray

# Up to here a utility is drawn by a Cholesky factor, above by random Fourier features.
DRAWN_EXACTLY = 2000
WAVES = 2000
# Checksums of what is read, so that nothing is remembered of files that have changed since.
Sums = tuple[tuple[str, str], ...]
# Streams of random numbers that a seed gives, each its own whatever the others use.
DATA, SPLIT, INPUTS, ITEMS, COINS = range(5)


def stream(seed: int, number: int) -> np.random.Generator:
    """The random numbers of a seed for one purpose."""
    return np.random.default_rng([seed, number])


@dataclass(frozen=True, eq=False)
class SplitTable:
    """A table and which of its rows are for training and for testing."""

    table: DuelTable
    split: Split
    utilities: FloatArray | None = None
    """(n,) of the items of the table, None where nobody knows them."""
    group: str | None = None
    """The label of the one that is left out, None where none is."""


def split_rows(table: DuelTable, split: SplitSettings, max_train: int | None, seed: int) -> Split:
    """Training and test rows of a seed.

    :raises ValueError: what `split_duels` raises; a seed that is not a number of a group.
    """
    rng = stream(seed, SPLIT)
    if split.test_fraction is not None:
        return split_duels(table, split.by, split.test_fraction, rng, max_train=max_train)
    label = left_out_group(table, split, seed)
    assert label is not None
    return leave_one_out(table, split.by, label, rng, max_train=max_train)


def left_out_group(table: DuelTable, split: SplitSettings, seed: int) -> str | None:
    """The label of the group that a seed leaves out; None where no group is.

    :raises ValueError: a seed that is not a number of a group.
    """
    if not split.leave_one_out:
        return None
    known = group_labels(table, split.by)
    if seed >= len(known):
        (column,) = split_columns(split.by)
        raise ValueError(
            f"The seed {seed} is the number of no group: there are {len(known)} values of "
            f"{column!r}, numbered from 0; give seeds below {len(known)}."
        )
    return known[seed]


@lru_cache(maxsize=1)
def read_files(files: Files, by: str, sums: Sums) -> DuelTable:
    return read_table(
        files.items, files.duels, ignore=files.ignore, never_features=split_columns(by)
    )


def made_duels(made: SyntheticData, rng: np.random.Generator) -> tuple[DuelTable, FloatArray]:
    """Random duels between items with normal features, and the utilities that decided them.

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
    items = pd.DataFrame(features, columns=[f"x{i}" for i in range(made.features)])
    items.insert(0, "item_id", np.arange(made.items))
    return read_table(items, pd.DataFrame({"winner": winners, "loser": losers})), utility


def drawn_utility(
    made: SyntheticData, features: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """One draw from the Gaussian process at the features (n, D), (n,).

    Exact up to 2,000 items; above by random Fourier features (Rahimi & Recht 2007), whose
    covariance is right on average and off by 1 / sqrt(2,000) of the variance at random.
    """
    import gpflow

    if len(features) <= DRAWN_EXACTLY:
        kinds = {
            "se": gpflow.kernels.SquaredExponential,
            "matern32": gpflow.kernels.Matern32,
            "matern52": gpflow.kernels.Matern52,
        }
        kernel = kinds[made.kernel](variance=made.variance, lengthscales=made.lengthscale)
        covariance = kernel(features).numpy()
        covariance[np.diag_indices(len(features))] += 1e-10 * made.variance
        root: FloatArray = np.linalg.cholesky(covariance)
        return root @ rng.standard_normal(len(features))
    frequencies = rng.standard_normal((features.shape[1], WAVES)) / made.lengthscale
    if made.kernel != "se":
        # The spectral density of Matérn nu is a multivariate t with 2 nu degrees of freedom.
        degrees = {"matern32": 3.0, "matern52": 5.0}[made.kernel]
        frequencies *= np.sqrt(degrees / rng.chisquare(degrees, WAVES))
    phases = rng.uniform(0.0, 2.0 * np.pi, WAVES)
    weights = rng.standard_normal(WAVES) * np.sqrt(2.0 * made.variance / WAVES)
    found = np.empty(len(features))
    for start in range(0, len(features), DRAWN_EXACTLY):
        part = slice(start, start + DRAWN_EXACTLY)
        found[part] = np.cos(features[part] @ frequencies + phases) @ weights
    return found
