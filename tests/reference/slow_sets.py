"""Choices and rankings by plain EP on v = A y, with the whole noise matrix N in the covariance.

One noise per item and set (Thurstone 1927), covering relations only; every number follows from
dense matrices, of all rows at once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

Array = NDArray[np.float64]


class Rows(NamedTuple):
    """Rows of v, worse less better, over n items, and the covariance of their noise at s² = 1."""

    items: Array
    """(t, n) A."""
    sides: Array
    """(t, s) the same over the sides of all events, one event after the other."""
    noise: Array
    """(t, t)."""


def covering(kind: str, size: int, ordered: int = 0) -> list[list[tuple[int, int]]]:
    """(better, worse) places of a set whose sides are given best first, for each look at it."""
    last = size - 1
    if kind == "choice":
        return [[(0, j) for j in range(1, size)]]
    if kind == "ranking":
        return [[(j, j + 1) for j in range(last)]]
    if kind == "top":
        path = [(j, j + 1) for j in range(ordered - 1)]
        return [path + [(ordered - 1, j) for j in range(ordered, size)]]
    if kind == "best_worst_at_once":
        middle = range(1, last)
        return [[(0, j) for j in middle] + [(j, last) for j in middle]]
    if kind == "best_worst":
        return [[(0, j) for j in range(1, size)], [(j, last) for j in range(1, last)]]
    raise KeyError(kind)


def rows_of(n: int, said: list[tuple[str, list[int], int]]) -> Rows:
    """Of events, each kind, items best first, and how many of them are in order.

    Every look at a set has noises of its own.
    """
    items, places, draws, looks = [], [], [], 0
    total, start = sum(len(sides) for _, sides, _ in said), 0
    for kind, sides, ordered in said:
        for look in covering(kind, len(sides), ordered):
            for better, worse in look:
                place = np.zeros(total)
                place[start + worse], place[start + better] = 1.0, -1.0
                places.append(place)
                item = np.zeros(n)
                item[sides[worse]] += 1.0
                item[sides[better]] -= 1.0
                items.append(item)
                draws.append({(looks, worse): 1.0, (looks, better): -1.0})
            looks += 1
        start += len(sides)
    noise = [[sum(a[draw] * b.get(draw, 0.0) for draw in a) for b in draws] for a in draws]
    return Rows(np.array(items), np.array(places), np.array(noise))


class Rejected(NamedTuple):
    """Of utilities that are drawn with an answer to every event, those whose answers were given."""

    share: float
    """Of the draws."""
    error: float
    """Its standard error."""
    utilities: Array
    """(kept, n)."""


def rejected(
    covariance: ArrayLike,
    mean: ArrayLike,
    said: list[tuple[str, list[int], int]],
    variance: list[float],
    count: int,
    rng: np.random.Generator,
) -> Rejected:
    """Draw utilities f ~ N(mean, covariance), let everybody answer, keep what was answered so.

    :param variance: of the noise of each alternative, for each event.
    """
    f = rng.multivariate_normal(np.asarray(mean), np.asarray(covariance), count)
    kept = np.ones(count, bool)
    for (kind, sides, ordered), noise in zip(said, variance, strict=True):
        for look in covering(kind, len(sides), ordered):
            y = f[:, sides] + np.sqrt(noise) * rng.standard_normal((count, len(sides)))
            for better, worse in look:
                kept &= y[:, better] > y[:, worse]
    share = float(np.mean(kept))
    return Rejected(share, float(np.sqrt(share * (1.0 - share) / count)), f[kept])


class SlowSets(NamedTuple):
    tau: Array
    """(t,) sites on v."""
    nu: Array
    log_evidence: float
    weights: Array
    """(t,) a, by which a new utility has the mean k(x, v) a."""
    reduction: Array
    """(t, t) M, by which its variance is less by k(x, v) M k(v, x)."""


def slow_sets(
    covariance: ArrayLike, upper: ArrayLike, lower: ArrayLike | None = None, sweeps: int = 400
) -> SlowSets:
    """Undamped parallel EP on v ~ N(0, covariance) below `upper`.

    A site is left out by conditioning on all others; nothing is subtracted from a marginal.
    """
    c, u = np.asarray(covariance, float), np.asarray(upper, float)
    t = len(u)
    tau, nu = np.zeros(t), np.zeros(t)
    for _ in range(sweeps):
        mean, variance = _cavities(c, tau, nu)
        ratio, z = _hazard((u - mean) / np.sqrt(variance))
        shrunk = ratio * (ratio + z)  # 1 - V / v_c
        new_mean = mean - np.sqrt(variance) * ratio
        new_variance = variance * (1.0 - shrunk)
        new_tau = shrunk / new_variance
        new_nu = new_mean / new_variance - mean / variance
        moved = max(np.max(np.abs(new_tau - tau)), np.max(np.abs(new_nu - nu)))
        tau, nu = new_tau, new_nu
        if moved < 1e-13:
            break
    mean, variance = _cavities(c, tau, nu)
    log_mass = log_ndtr((u - mean) / np.sqrt(variance))
    # log of the integral of cavity × site, whose height at 0 is 1.
    gain = 1.0 + tau * variance
    site = 0.5 * (nu**2 * variance + 2.0 * nu * mean - tau * mean**2) / gain - 0.5 * np.log(gain)
    root = np.sqrt(tau)
    inner = np.eye(t) + root[:, None] * c * root
    reduction = root[:, None] * np.linalg.solve(inner, np.diag(root))
    weights = nu - reduction @ c @ nu
    joint = 0.5 * nu @ c @ weights - 0.5 * np.linalg.slogdet(inner)[1]
    return SlowSets(tau, nu, float(np.sum(log_mass - site) + joint), weights, reduction)


def _cavities(c: Array, tau: Array, nu: Array) -> tuple[Array, Array]:
    mean, variance = np.zeros(len(c)), np.zeros(len(c))
    for i in range(len(c)):
        others = np.where(np.arange(len(c)) == i, 0.0, tau)
        root = np.sqrt(others)
        inner = np.eye(len(c)) + root[:, None] * c * root
        column = c[:, i] - c @ (root * np.linalg.solve(inner, root * c[:, i]))
        mean[i], variance[i] = column @ np.where(np.arange(len(c)) == i, 0.0, nu), column[i]
    return mean, variance


def _hazard(z: Array) -> tuple[Array, Array]:
    """phi(z) / Phi(z), and z."""
    return np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z)), z


def slope(found: SlowSets, change: ArrayLike) -> float:
    """d log Z / d theta where the covariance of v changes by `change` (t, t) for each theta."""
    outer = np.outer(found.weights, found.weights) - found.reduction
    return float(0.5 * np.sum(outer * np.asarray(change)))


def squared_exponential(
    x: ArrayLike, y: ArrayLike, variance: float, lengthscales: ArrayLike
) -> Array:
    """(n, m)."""
    scale = np.asarray(lengthscales)
    step = np.asarray(x)[:, None] / scale - np.asarray(y)[None] / scale
    return np.asarray(variance * np.exp(-0.5 * np.sum(step**2, -1)))


def correction(row: str, residual: Array, noise: float) -> float:
    """What one set adds to the evidence, from the residual (k, k) of its items.

    Contrasts alone count: what all items of a set share cancels in every row.
    """
    k = len(residual)
    ones = np.ones(k)
    trace = (np.trace(residual) - ones @ residual @ ones / k) / noise

    def log_det(power: float) -> float:
        m = np.eye(k) + power * residual / noise
        return float(np.linalg.slogdet(m)[1] + np.log(ones @ np.linalg.solve(m, ones) / k))

    if row == "VFE":
        return float(-0.5 * trace)
    if row == "TightVFE_per_set_mean":
        return float(-0.5 * (k - 1) * np.log1p(trace / (k - 1)))
    if row == "TightVFE_per_set_block":
        return -0.5 * log_det(1.0)
    if row == "PriorPower_0.5":
        return -0.5 * log_det(0.5)  # -(1 - p) / 2p at p = 1/2
    if row == "HeteroscedasticVFE":
        # tr (N + R~)^-1 R~ over any k - 1 independent contrasts.
        a = np.diff(np.eye(k), axis=0)
        r = a @ residual @ a.T
        return float(-0.5 * np.trace(np.linalg.solve(noise * a @ a.T + r, r)))
    return 0.0
