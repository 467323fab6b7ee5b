"""What duels to ask next are worth, by integrals, sums and dense matrices, all computed afresh."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

Array = NDArray[np.float64]


def density(x: float, mean: float, sd: float) -> float:
    """Of a normal; by hand, because adaptive quadrature asks for one number at a time."""
    return math.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2.0 * math.pi))


def entropy(x: float, margin: float = 0.0) -> float:
    """-sum p log p of win, loss and tie, p = Phi(x - margin), Phi(-x - margin) and what is left."""

    def below(z: float) -> float:
        return 0.5 * math.erfc(-z / math.sqrt(2.0))

    x = abs(x)
    three = (below(x - margin), below(-x - margin), below(margin - x) - below(-margin - x))
    return -sum(p * math.log(p) for p in three if p > 0.0)


def information_gain(mean: float, variance: float, duel_noise: float, margin: float = 0.0) -> float:
    """H[E p] - E H[p] with p those of d ~ N(mean, variance), by adaptive quadrature."""
    sd, s = math.sqrt(variance), math.sqrt(duel_noise)
    total = math.sqrt(variance + duel_noise)
    before = entropy(mean / total, margin / total)

    def integrand(d: float) -> float:
        return density(d, mean, sd) * entropy(d / s, margin / s)

    # Neither the density nor the entropy is anything beyond 12 of its widths.
    reach = margin + 12.0 * s
    low, high = max(mean - 12.0 * sd, -reach), min(mean + 12.0 * sd, reach)
    if low >= high:
        return before
    around = [s * np.arange(-12, 13, 3) + end for end in (-margin, margin)]
    steps = np.concatenate([mean + sd * np.arange(-12, 13, 3), *around])
    breaks = np.unique(np.clip([*steps, low, high], low, high))
    expected = sum(quad(integrand, a, b, epsrel=1e-12)[0] for a, b in pairwise(breaks))
    return before - expected


def expected_improvement(mean: float, variance: float, best: float) -> float:
    """E max(f - best, 0), f ~ N(mean, variance), by adaptive quadrature."""
    sd = math.sqrt(variance)
    low, high = max(best, mean - 12.0 * sd), mean + 12.0 * sd

    def integrand(f: float) -> float:
        return (f - best) * density(f, mean, sd)

    return float(quad(integrand, low, high, epsrel=1e-12)[0]) if low < high else 0.0


def variance_once_answered(
    mean: float,
    variance: float,
    duel_noise: float,
    other: float,
    cross: float,
    margin: float = 0.0,
    ratios: tuple[Array, Array] = (np.ones(1), np.ones(1)),
) -> float:
    """E Var[g | answer] for g with variance `other` and Cov[g, d] = cross, all outcomes by
    quadrature over d ~ N(mean, variance); ratios of noise of who answers, and their weights."""
    sd = np.sqrt(variance)
    step = 1.2e-4 if len(ratios[0]) == 1 else 1.2e-3
    d = mean + sd * step * np.arange(-12 / step, 12 / step + 0.5)
    weight = norm.pdf(d, mean, sd) * sd * step
    won, lost = np.zeros_like(d), np.zeros_like(d)
    for ratio, share in zip(*ratios, strict=True):
        s = np.sqrt(duel_noise * ratio)
        won += share * norm.cdf((d - margin) / s)
        lost += share * norm.cdf((-d - margin) / s)
    expected = 0.0
    for likelihood in [won, lost] + ([1.0 - won - lost] if margin > 0.0 else []):
        joint = weight * likelihood
        p = joint.sum()
        first = (joint * d).sum() / p
        answered = (joint * (d - first) ** 2).sum() / p
        # g = E g + cross / variance (d - E d) + what d does not tell of it
        slope = cross / variance
        expected += p * (other - slope * cross + slope**2 * answered)
    return float(expected)


def greedy_batch(
    utility: Array, covariance: Array, duel_noise: float, batch: int, score: str
) -> list[tuple[int, int, float]]:
    """Pairs of items and their scores, each pick by a loop over all pairs; utility (n,) and
    covariance (n, n) of the items. After a pick the whole covariance is the expected one."""
    covariance = covariance.copy()
    picked: list[tuple[int, int, float]] = []
    for _ in range(batch):
        best: tuple[int, int, float] | None = None
        for i, j in combinations(range(len(utility)), 2):
            if any((i, j) == pick[:2] for pick in picked):
                continue
            mean = utility[i] - utility[j]
            variance = covariance[i, i] + covariance[j, j] - 2.0 * covariance[i, j]
            value = _score(score, mean, variance, duel_noise, utility[j] - utility.mean())
            if best is None or value > best[2]:
                best = (i, j, value)
        assert best is not None
        picked.append(best)
        covariance = _answered(utility, covariance, duel_noise, best[0], best[1])
    return picked


def _score(score: str, mean: float, variance: float, duel_noise: float, second: float) -> float:
    if score == "variance":
        return variance
    if score == "bald":
        return information_gain(mean, variance, duel_noise)
    return second + expected_improvement(mean, variance, 0.0)  # max(f, f') = f' + max(f - f', 0)


def _answered(utility: Array, covariance: Array, duel_noise: float, i: int, j: int) -> Array:
    """Covariance after i against j, on average over the answer: the covariance of the means of both
    outcomes is taken off it."""
    cross = covariance[:, i] - covariance[:, j]
    total = cross[i] - cross[j] + duel_noise
    z = (utility[i] - utility[j]) / np.sqrt(total)
    moved = np.zeros_like(covariance)
    for outcome in (1.0, -1.0):
        p = norm.cdf(outcome * z)
        step = outcome * cross * norm.pdf(z) / (p * np.sqrt(total))
        moved += p * np.outer(step, step)
    return np.asarray(covariance - moved, dtype=float)


def thompson_pair(one: Array, other: Array) -> tuple[int, int, float]:
    """The items i and j, not the same, with the largest one[i] + other[j], and that sum."""
    n = len(one)
    return max(
        ((i, j, float(one[i] + other[j])) for i in range(n) for j in range(n) if i != j),
        key=lambda pick: pick[2],
    )


def choice_chances(utilities: Array, noise_variance: float) -> Array:
    """(n, k) that each of k known utilities, plus noise, is the largest: the integral of the noise
    of each alternative times what the others have below it, on a fine grid."""
    z = np.linspace(-10.0, 10.0, 401)
    weight = norm.pdf(z) * (z[1] - z[0])
    ahead = (utilities[:, :, None] - utilities[:, None, :]) / math.sqrt(noise_variance)
    chances = np.zeros_like(utilities)
    for j in range(utilities.shape[1]):
        below = np.ones((len(utilities), len(z)))
        for other in range(utilities.shape[1]):
            if other != j:
                below *= ndtr(ahead[:, j, other, None] + z)
        chances[:, j] = below @ weight
    return chances


def nodes_of_three(mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Gauss–Hermite nodes (n, 3) of three utilities, and their weights (n,)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(18)
    weights = weights / weights.sum()
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), -1).reshape(-1, 3)
    both = np.einsum("i,j,k->ijk", weights, weights, weights).reshape(-1)
    return mean + grid @ np.linalg.cholesky(covariance).T, both


def information_of_three(
    mean: Array, covariance: Array, noises: list[float], shares: list[float]
) -> float:
    """What a choice of three tells of their utilities, in nats, its noise being one of several."""
    f, weights = nodes_of_three(mean, covariance)
    parts = [share * choice_chances(f, noise) for noise, share in zip(noises, shares, strict=True)]
    p = np.sum(parts, axis=0)
    average = weights @ p
    given = -(p * np.log(np.maximum(p, 1e-300))).sum(1)
    return float(-(average * np.log(average)).sum() - weights @ given)


def covariance_once_chosen(
    mean: Array, covariance: Array, items: list[int], noise_variance: float
) -> Array:
    """The covariance of all utilities that is expected once one of three items is chosen: that of
    each answer, by its moments of the three, times its probability."""
    own = covariance[np.ix_(items, items)]
    f, weights = nodes_of_three(mean[items], own)
    p = choice_chances(f, noise_variance)
    onto = covariance[:, items] @ np.linalg.inv(own)
    expected = np.zeros_like(covariance)
    for j in range(3):
        share = weights * p[:, j]
        average = share @ f / share.sum()
        spread = (f - average).T @ ((share / share.sum())[:, None] * (f - average))
        expected += share.sum() * (covariance - onto @ (own - spread) @ onto.T)
    return expected
