"""Other samplers of the posterior of duels, and convergence diagnostics number by number.

All samplers draw v = F u + N(0, noise), u ~ N(0, I), cut to (lower, upper). Chains run side by side
in the last axis; results are (chains, draws, t).
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import norm

from sparse_prefgp.factors.truncated_draws import standard_draws

Array = NDArray[np.float64]


def cut_normal(mean: Array, sd: float, lower: float, upper: float, rng) -> Array:
    """By inverting Phi: right while the interval holds more than some 1e-300 of the mass."""
    low, high = ndtr((lower - mean) / sd), ndtr((upper - mean) / sd)
    return mean + sd * ndtri(low + (high - low) * (1.0 - rng.random(mean.shape)))


def gibbs(
    features: Array,
    noise: Array,
    lower: Array,
    upper: Array,
    chains: int,
    warmup: int,
    draws: int,
    rng: np.random.Generator,
) -> Array:
    """One v after the other given all others (Takeno, Nomura & Karasuyama 2023), from anywhere.

    With P the inverse covariance, v_i given the others is N(-Σ_(j≠i) P_ij v_j / P_ii, 1 / P_ii).
    """
    t = len(noise)
    precision = np.linalg.inv(features @ features.T + np.diag(noise))
    start = np.clip(0.0, lower, upper)
    v = np.repeat(start[:, None], chains, 1)
    kept = np.empty((draws, t, chains))
    for sweep in range(warmup + draws):
        for i in range(t):
            others = np.delete(precision[i], i) @ np.delete(v, i, 0)
            mean, sd = -others / precision[i, i], 1.0 / math.sqrt(precision[i, i])
            v[i] = cut_normal(mean, sd, lower[i], upper[i], rng)
        if sweep >= warmup:
            kept[sweep - warmup] = v
    return kept.transpose(2, 0, 1)


def alternation(
    features: Array,
    noise: Array,
    lower: Array,
    upper: Array,
    chains: int,
    warmup: int,
    draws: int,
    rng: np.random.Generator,
) -> Array:
    """v given u, all at once, then u given v (Albert & Chib 1993)."""
    rank = features.shape[1]
    covariance = np.linalg.inv(np.eye(rank) + features.T @ np.diag(1.0 / noise) @ features)
    root = np.linalg.cholesky(covariance)
    gain = covariance @ features.T @ np.diag(1.0 / noise)
    sd = np.sqrt(noise)[:, None]
    u = np.zeros((rank, chains))
    kept = np.empty((draws, len(noise), chains))
    for sweep in range(warmup + draws):
        z = features @ u
        low = None if np.all(np.isneginf(lower)) else (lower[:, None] - z) / sd
        v = z + sd * standard_draws(low, (upper[:, None] - z) / sd, 1.0 - rng.random(z.shape))
        u = gain @ v + root @ rng.normal(size=u.shape)
        if sweep >= warmup:
            kept[sweep - warmup] = v
    return kept.transpose(2, 0, 1)


def linear_slices(
    features: Array,
    noise: Array,
    upper: Array,
    chains: int,
    warmup: int,
    draws: int,
    rng: np.random.Generator,
) -> Array:
    """Elliptical slices for v < upper, upper <= 0 (Gessner, Kanjilal & Hennig 2020).

    On v cos a + w sin a = R cos(a - phi) each limit leaves an arc around its far side, phi + pi,
    that holds a = 0 and is no longer than pi as upper <= 0: together they leave one interval, from
    which the angle is drawn. Begins by Gibbs' rule.
    """
    t = len(noise)
    root = np.linalg.cholesky(features @ features.T + np.diag(noise))
    lower = np.full(t, -np.inf)
    v = gibbs(features, noise, lower, upper, chains, 5, 1, rng)[:, 0].T
    kept = np.empty((draws, t, chains))
    for sweep in range(warmup + draws):
        w = root @ rng.normal(size=(t, chains))
        radius, phi = np.hypot(v, w), np.arctan2(w, v)
        reach = np.arccos(np.clip(-upper[:, None] / radius, -1.0, 1.0))  # about phi + pi
        middle = np.mod(phi + math.pi, 2 * math.pi)
        middle = np.where(middle > math.pi, middle - 2 * math.pi, middle)
        low, high = np.max(middle - reach, 0), np.min(middle + reach, 0)
        angle = rng.uniform(np.minimum(low, 0.0), np.maximum(high, 0.0))
        v = np.minimum(v * np.cos(angle) + w * np.sin(angle), upper[:, None])
        if sweep >= warmup:
            kept[sweep - warmup] = v
    return kept.transpose(2, 0, 1)


def elliptical_slices(
    features: Array,
    noise: Array,
    upper: Array,
    nu: Array,
    tau: Array,
    chains: int,
    warmup: int,
    draws: int,
    rng: np.random.Generator,
) -> Array:
    """Elliptical slices of u for v < upper, then v given u.

    The prior times exp(nu z - tau z²/2), z = F u, is the normal that ellipses are drawn from
    (Murray, Adams & MacKay 2010; Nishihara, Murray & Adams 2014, section 3); what is left is
    log Phi((upper - z) / sqrt(noise)) - nu z + tau z²/2 of every duel.
    """
    rank = features.shape[1]
    covariance = np.linalg.inv(np.eye(rank) + features.T @ np.diag(tau) @ features)
    centre = (covariance @ features.T @ nu)[:, None]
    root = np.linalg.cholesky(covariance)
    sd = np.sqrt(noise)[:, None]

    def left(x: Array) -> Array:
        z = features @ (centre + x)
        log_factor = log_ndtr((upper[:, None] - z) / sd)
        return np.sum(log_factor - nu[:, None] * z + 0.5 * tau[:, None] * z**2, 0)

    kept = np.empty((draws, len(noise), chains))
    for sweep, x in enumerate(elliptical_walk(root, left, chains, warmup, draws, rng)):
        z = features @ (centre + x)
        uniform = 1.0 - rng.random(z.shape)
        kept[sweep] = z + sd * standard_draws(None, (upper[:, None] - z) / sd, uniform)
    return kept.transpose(2, 0, 1)


def elliptical_walk(
    root: Array,
    left: Callable[[Array], Array],
    chains: int,
    warmup: int,
    draws: int,
    rng: np.random.Generator,
) -> Array:
    """Draws (draws, d, chains) of N(0, root root') times exp(left(x)), x (d, chains)."""
    x = 2.0 * root @ rng.normal(size=(len(root), chains))
    kept = np.empty((draws, len(root), chains))
    for sweep in range(warmup + draws):
        other = root @ rng.normal(size=x.shape)
        level = left(x) - rng.exponential(size=chains)
        angle = rng.uniform(0, 2 * math.pi, size=chains)
        low, high = angle - 2 * math.pi, angle.copy()
        while True:
            new = x * np.cos(angle) + other * np.sin(angle)
            outside = left(new) <= level
            if not np.any(outside):
                break
            # The bracket shrinks towards the state, angle 0, which lies inside the slice.
            low = np.where(outside & (angle < 0), angle, low)
            high = np.where(outside & (angle >= 0), angle, high)
            angle = np.where(outside, rng.uniform(low, high), angle)
        x = new
        if sweep >= warmup:
            kept[sweep - warmup] = x
    return kept


# Diagnostics of one quantity, draws (chains, draws), by Vehtari et al. (2021).


def halves(draws: Array) -> list[list[float]]:
    half = draws.shape[1] // 2
    return [list(c[:half]) for c in draws] + [list(c[-half:]) for c in draws]


def scores(chains: list[list[float]]) -> list[list[float]]:
    """Each draw by the normal quantile of its rank, ties by their mean rank (eq. 14)."""
    every = sorted(x for chain in chains for x in chain)
    count = len(every)

    def score(x: float) -> float:
        ranks = [i + 1 for i, other in enumerate(every) if other == x]
        return float(norm.ppf((sum(ranks) / len(ranks) - 3 / 8) / (count + 1 / 4)))

    return [[score(x) for x in chain] for chain in chains]


def variances(chains: list[list[float]]) -> tuple[float, float]:
    n = len(chains[0])
    within = float(np.mean([np.var(c, ddof=1) for c in chains]))
    between = n * float(np.var([np.mean(c) for c in chains], ddof=1))
    return within, (n - 1) / n * within + between / n


def slow_rhat(draws: Array) -> float:
    split = halves(draws)
    middle = float(np.median([x for c in split for x in c]))
    folded = [[abs(x - middle) for x in c] for c in split]
    found = []
    for version in (split, folded):
        within, total = variances(scores(version))
        found.append(math.sqrt(total / within))
    return max(found)


def slow_ess(chains: list[list[float]]) -> float:
    """Geyer's initial monotone sequence on the combined autocorrelations (eq. 10 to 13)."""
    m, n = len(chains), len(chains[0])
    within, total = variances(chains)

    def autocorrelation(lag: int) -> float:
        if lag == 0:
            return 1.0
        each = []
        for c in chains:
            mean = float(np.mean(c))
            each.append(sum((c[i] - mean) * (c[i + lag] - mean) for i in range(n - lag)) / (n - 1))
        return 1.0 - (within - float(np.mean(each))) / total

    time, last = -1.0, math.inf
    for k in range(n // 2):
        pair = autocorrelation(2 * k) + autocorrelation(2 * k + 1)
        if pair <= 0.0:
            break
        last = min(last, pair)
        time += 2.0 * last
    return m * n / max(time, 1.0 / math.log10(m * n))
