"""When the first k are settled, by loops, integrals and searches, all computed afresh."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr

from tests.reference.slow_suggestion import _answered, density

Array = NDArray[np.float64]


def battle_information(d: float, duel_noise: float, margin: float) -> float:
    """sum over outcomes of (dP/dd)² / P, the slopes by differences."""

    def outcomes(x: float) -> Array:
        s = math.sqrt(duel_noise)
        won, lost = ndtr((x - margin) / s), ndtr((-x - margin) / s)
        return np.array([won, lost, 1.0 - won - lost] if margin > 0.0 else [won, lost])

    step = 1e-5
    slope = (outcomes(d + step) - outcomes(d - step)) / (2.0 * step)
    return float((slope**2 / outcomes(d)).sum())


def doubt_left(mean: float, variance: float, left: float) -> float:
    """E Phi(-|d| / sqrt(left)) for d ~ N(mean, variance), by adaptive quadrature."""
    sd = math.sqrt(variance)

    def integrand(d: float) -> float:
        wrong = 0.5 * math.erfc(abs(d) / math.sqrt(2.0 * left))
        return density(d, mean, sd) * wrong

    low, high = mean - 12.0 * sd, mean + 12.0 * sd
    ends = sorted({low, high, min(max(0.0, low), high)})
    return sum(
        quad(integrand, a, b, epsabs=1e-13, epsrel=1e-11, limit=200)[0] for a, b in pairwise(ends)
    )


def votes_needed(utilities: Array, covariance: Array, top: int) -> float:
    """By what today's votes are multiplied until the pairs that straddle, were these the true
    utilities, are mistaken with 0.05 together at most: by halving intervals of its logarithm."""
    order = sorted(range(len(utilities)), key=lambda i: -utilities[i])

    def mistaken(log_times: float) -> float:
        total = 0.0
        for i in order[:top]:
            for j in order[top:]:
                variance = covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j]
                sd = math.sqrt(variance / math.exp(log_times))
                total += float(ndtr(-(utilities[i] - utilities[j]) / sd))
        return total

    low, high = 0.0, 60.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mistaken(middle) > 0.05 else (low, middle)
    return math.exp(high)


def settle_batch(
    utility: Array, covariance: Array, duel_noise: float, batch: int, top: int
) -> list[tuple[int, int, float]]:
    """Pairs and scores of "settle", without ties, each by loops over all pairs."""
    order = sorted(range(len(utility)), key=lambda i: -utility[i])
    straddling = [(i, j) for i in order[:top] for j in order[top:]]

    def variance(matrix: Array, i: int, j: int) -> float:
        return float(matrix[i, i] + matrix[j, j] - 2.0 * matrix[i, j])

    def doubt(matrix: Array) -> float:
        return sum(
            doubt_left(utility[i] - utility[j], variance(covariance, i, j), variance(matrix, i, j))
            for i, j in straddling
        )

    now, picked = covariance, []
    for _ in range(batch):
        best, before = None, doubt(now)
        for i, j in combinations(range(len(utility)), 2):
            if any((i, j) == pick[:2] for pick in picked):
                continue
            then = _answered(utility, now, duel_noise, i, j)
            gain = before - doubt(then)
            if best is None or gain > best[2]:
                best, chosen = (i, j, gain), then
        assert best is not None
        picked.append(best)
        now = chosen
    return picked
