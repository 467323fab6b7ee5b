"""Which pairs are uneven, one after another."""

from __future__ import annotations

import math

from scipy.stats import norm

from sparse_prefgp.support.arrays import FloatArray


def slow_uneven(
    mean: FloatArray, variance: FloatArray, noise: float, least: float
) -> set[tuple[int, int]]:
    """Pairs whose better one wins with a chance of `least` or more, or of which one is unknown."""
    pairs = set()
    for j in range(len(mean)):
        for i in range(j):
            difference = abs(mean[i] - mean[j])
            chance = norm.cdf(difference / math.sqrt(variance[i] + variance[j] + noise))
            if math.isnan(difference) or chance >= least:
                pairs.add((i, j))
    return pairs
