"""k-means by scikit-learn, for inducing inputs and for blocks of duels."""

from __future__ import annotations

import warnings

import numpy as np

from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.machine import ask

# Above so many rows k-means goes through them in small batches.
_ROWS_FOR_KMEANS = 20_000
_ITERATIONS = 50


def unit_spread(rows: FloatArray) -> FloatArray:
    """Rows (n, D) with columns of standard deviation 1; constant columns stay as they are."""
    spread = rows.std(0)
    scaled: FloatArray = rows / np.where(spread > 0, spread, 1.0)
    return scaled


def kmeans_labels(rows: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """The cluster of each row, (n,), of columns of unit spread; some clusters may be empty.

    scikit-learn's `KMeans`, `MiniBatchKMeans` above 20,000 rows.

    :raises NotEnoughMemory: more than is free.
    """
    from sklearn import cluster, exceptions

    ask(
        3 * 8 * rows.size,
        f"Clusters of {len(rows):,} rows with {rows.shape[1]:,} features",
        "give fewer features",
    )
    seed = int(rng.integers(2**31))
    few = len(rows) <= _ROWS_FOR_KMEANS
    method = cluster.KMeans if few else cluster.MiniBatchKMeans
    settings = {} if few else {"batch_size": max(1024, 4 * count)}
    clusters = method(count, n_init=1, max_iter=_ITERATIONS, random_state=seed, **settings)
    with warnings.catch_warnings():
        # Fewer clusters than asked for: the caller sees to it.
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        labels = clusters.fit_predict(unit_spread(rows))
    return np.asarray(labels, dtype=np.int64)
