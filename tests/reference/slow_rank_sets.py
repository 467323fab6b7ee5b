"""Sets of ranks by loops over draws and pairs."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def not_ruled_out(
    mean: Floats, covariance: Floats, draws: Floats, level: float
) -> list[tuple[int, int]]:
    """The lowest and the highest rank of each item."""
    found, c = [], len(mean)
    for i in range(c):
        sd = [
            math.sqrt(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]) for j in range(c)
        ]
        furthest = []
        for draw in draws:
            apart = [
                abs((draw[i] - draw[j]) - (mean[i] - mean[j])) / sd[j] for j in range(c) if j != i
            ]
            furthest.append(max(apart))
        reach = float(np.quantile(furthest, level))
        above = sum(mean[j] - mean[i] > reach * sd[j] for j in range(c) if j != i)
        below = sum(mean[i] - mean[j] > reach * sd[j] for j in range(c) if j != i)
        found.append((1 + above, c - below))
    return found


def likely(draws: Floats, level: float) -> list[tuple[int, int]]:
    """The smallest ranks whose shares of the draws, added up, reach either tail."""
    found = []
    for i in range(draws.shape[1]):
        ranks = sorted(1 + int(sum(draw > draw[i])) for draw in draws)
        tails = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
        found.append(tuple(ranks[max(0, math.ceil(p * len(ranks) - 1e-9) - 1)] for p in tails))
    return found
