"""Which items are far from all that a model was fitted to, where features are too many for ranges.

Of a hundred features one is always outside its range; what tells is the distance to the nearest
training item, against those that training items have from each other.
"""

from __future__ import annotations

import numpy as np

from sparse_prefgp.support.arrays import BoolArray, FloatArray

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
    from sklearn.neighbors import NearestNeighbors

    n = len(training)
    if n < 2 or not len(features):
        return np.zeros(len(features), dtype=bool)
    rows, others = training.astype(np.float32), None
    if n > REFERENCES:
        at = np.unique(np.linspace(0, n - 1, REFERENCES).astype(np.int64))
        rest = np.setdiff1d(np.arange(n), at)
        rows, others = rows[at], rows[rest[:: max(1, len(rest) // OTHERS)]]
    # Of training items themselves, where there are no others, the nearest is another one.
    nearest = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(rows).kneighbors
    usual, away = (nearest(some)[0][:, 0] for some in (others, features.astype(np.float32)))
    found: BoolArray = away > np.quantile(usual.astype(np.float64), USUAL)
    return found
