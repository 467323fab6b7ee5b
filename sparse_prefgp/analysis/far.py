"""Which items are far from all that a model was fitted to, where features are too many for ranges.

Of a hundred features one is always outside its range; what tells is the distance to the nearest
training item, against those that training items have from each other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sparse_prefgp.support.arrays import BoolArray, FloatArray

Floats = npt.NDArray[np.float32]

# So many training items stand for all, and so many others say how far is usual.
REFERENCES, OTHERS = 5000, 2000
# An item is far if it is farther from its nearest one than this share of the training items.
USUAL = 0.99


def far_from(training: FloatArray, features: FloatArray) -> BoolArray:
    """Which of N items have no training item as near as training items have.

    :param training: (n, D) features of the training items, in any order; of more than 7,000 some
        that are evenly spaced stand for all.
    :param features: (N, D).
    :return: (N,) whether the distance to the nearest training item is above that of 99 % of the
        training items to their nearest other one.
    """
    n = len(training)
    if n < 2 or not len(features):
        return np.zeros(len(features), dtype=bool)
    rows = training.astype(np.float32)
    if n <= REFERENCES:
        reference = rows
        usual = _to_others(rows)
    else:
        at = np.unique(np.linspace(0, n - 1, REFERENCES).astype(np.int64))
        rest = np.setdiff1d(np.arange(n), at)
        reference = rows[at]
        usual = _nearest(rows[rest[:: max(1, len(rest) // OTHERS)]], reference)
    found: BoolArray = _nearest(features.astype(np.float32), reference) > np.quantile(usual, USUAL)
    return found


def _nearest(rows: Floats, reference: Floats) -> FloatArray:
    """Distance of each row to the nearest reference, (N,), a chunk at a time."""
    from sklearn import metrics

    _, distances = metrics.pairwise_distances_argmin_min(rows, reference)
    return np.asarray(distances, dtype=np.float64)


def _to_others(rows: Floats) -> FloatArray:
    """Distance of each row to the nearest one that is another, (n,)."""
    from sklearn import metrics

    found = []
    for start in range(0, len(rows), 1000):
        part = rows[start : start + 1000]
        apart = metrics.pairwise_distances(part, rows)
        apart[np.arange(len(part)), start + np.arange(len(part))] = np.inf
        found.append(apart.min(1))
    return np.concatenate(found).astype(np.float64)
