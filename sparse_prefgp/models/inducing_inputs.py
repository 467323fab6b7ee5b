"""Where the inducing inputs start, from the features of the items alone."""

from __future__ import annotations

import gpflow
import numpy as np
from scipy.sparse import csr_matrix

from sparse_prefgp.covariances.projected import seen_by_inducing
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_inducing_count
from sparse_prefgp.support.defaults import number_of_inducing
from sparse_prefgp.support.kmeans import kmeans_labels, unit_spread


def random_inputs(rows: np.ndarray, count: int, rng: np.random.Generator) -> FloatArray:
    """Rows drawn at random without replacement.

    :param rows: (n, D); equal rows count once.
    :param count: m, at most the number of distinct rows.
    :return: (m, D), in the order drawn.
    :raises ValueError: count < 1 or more than the distinct rows.
    """
    rows = _enough(rows, count)
    return rows[rng.permutation(len(rows))[:count]]


def kmeans_inputs(rows: np.ndarray, count: int, rng: np.random.Generator) -> FloatArray:
    """k-means centres of the distinct feature rows, the usual start for inducing inputs.

    scikit-learn's `KMeans` on columns of unit spread, `MiniBatchKMeans` above 20,000 rows. Each
    centre is the mean of its rows; where clusters emptied or met, rows drawn at random from those
    that are not a centre take their place.

    :param rows: (n, D); equal rows count once.
    :param count: m; with as many as there are distinct rows, these themselves are returned.
    :return: (m, D), without equal rows.
    :raises ValueError: count < 1 or more than the distinct rows.
    """
    rows = _enough(rows, count)
    if count == len(rows):
        return rows
    centres = np.unique(_means(rows, kmeans_labels(rows, count, rng), count), axis=0)
    if len(centres) < count:
        known = {centre.tobytes() for centre in centres}
        spare = [row for row in rng.permutation(rows) if row.tobytes() not in known]
        centres = np.concatenate([centres, spare[: count - len(centres)]])
    return centres


def default_inputs(
    duels: Duels, kernel: gpflow.kernels.Kernel, rng: np.random.Generator
) -> FloatArray:
    """k-means centres of the rows of some duels, (m, D), or of what a kernel projects them to."""
    rows = seen_by_inducing(kernel, duels.distinct_rows()[0])
    return kmeans_inputs(rows, number_of_inducing(len(rows)), rng)


def farthest_inputs(rows: np.ndarray, count: int, rng: np.random.Generator) -> FloatArray:
    """A random row, then each time the row farthest from those chosen (Gonzalez 1985).

    Distances are Euclidean between columns of unit spread. O(n m D).

    :param rows: (n, D); equal rows count once.
    :param count: m, at most the number of distinct rows.
    :return: (m, D), in the order chosen.
    :raises ValueError: count < 1 or more than the distinct rows.
    """
    rows = _enough(rows, count)
    points = unit_spread(rows)
    chosen = [int(rng.integers(len(rows)))]
    nearest = np.full(len(rows), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
        nearest[chosen[-1]] = -1.0  # never again, even where all distances round to zero
        chosen.append(int(np.argmax(nearest)))
    return rows[chosen]


def distinct(rows: np.ndarray) -> FloatArray:
    """Distinct rows in ascending order; adding zero makes -0.0 and 0.0 the same row."""
    return np.unique(np.asarray(rows, dtype=float) + 0.0, axis=0)


def _enough(rows: np.ndarray, count: int) -> FloatArray:
    """The distinct rows, unless they are fewer than the inducing inputs that are wanted."""
    rows = distinct(rows)
    check_inducing_count(count, len(rows))
    return rows


def _means(rows: FloatArray, labels: IntArray, count: int) -> FloatArray:
    """Mean of the rows of each cluster that has any: exactly the row where there is one."""
    n = len(rows)
    member = csr_matrix((np.ones(n), (labels, np.arange(n))), shape=(count, n))
    sizes = np.bincount(labels, minlength=count)
    sums: FloatArray = member @ rows
    means: FloatArray = sums[sizes > 0] / sizes[sizes > 0, None]
    return means + 0.0
