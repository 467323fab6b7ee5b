"""Utilities in time by dense matrices: every item at every date of its own is one variable."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, stats

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
# k(t, t', first date of the item).
InTime = Callable[[float, float, float], float]


def wiener(variance: float, rate: float) -> InTime:
    """Var = variance at the first date, and rate a unit of time more from then on."""
    return lambda s, t, first: variance + rate * (min(s, t) - first)


def constant(variance: float) -> InTime:
    return lambda s, t, first: variance


def matern12(variance: float, lengthscale: float) -> InTime:
    return lambda s, t, first: variance * np.exp(-abs(s - t) / lengthscale)


def matern32(variance: float, lengthscale: float) -> InTime:
    """Rasmussen & Williams (2006), eq. 4.17."""

    def k(s: float, t: float, first: float) -> float:
        u = np.sqrt(3.0) * abs(s - t) / lengthscale
        return float(variance * (1.0 + u) * np.exp(-u))

    return k


def added(*kernels: InTime) -> InTime:
    return lambda s, t, first: sum(k(s, t, first) for k in kernels)


def utilities(k: InTime, items: Ints, dates: Array, first: dict[int, float]) -> Array:
    """Prior covariance of utilities h_i(t), one for each of `items` and `dates`."""
    n = len(items)
    found = np.zeros((n, n))
    for a in range(n):
        for b in range(n):
            if items[a] == items[b]:
                found[a, b] = k(dates[a], dates[b], first[int(items[a])])
    return found


class Duels(NamedTuple):
    """Some of items at dates, with columns."""

    losers: Ints
    winners: Ints
    dates: Array
    columns: Array

    def first_dates(self) -> dict[int, float]:
        """Of each item, that of its first duel."""
        found: dict[int, float] = {}
        for date, pair in zip(self.dates, zip(self.losers, self.winners, strict=True), strict=True):
            for item in map(int, pair):
                found[item] = min(found.get(item, np.inf), float(date))
        return found

    def covariance(self, k: InTime) -> Array:
        """K of z = h(loser) - h(winner) + x'w, w ~ N(0, I)."""
        first = self.first_dates()
        items = np.concatenate([self.losers, self.winners])
        every = utilities(k, items, np.tile(self.dates, 2), first)
        t = len(self.dates)
        difference = np.hstack([np.eye(t), -np.eye(t)])
        return difference @ every @ difference.T + self.columns @ self.columns.T

    def with_utilities(self, k: InTime, items: Ints, dates: Array) -> Array:
        """Prior covariance of z with utilities, which columns do not touch."""
        first = self.first_dates()
        both = np.concatenate([self.losers, self.winners, items])
        every = utilities(k, both, np.concatenate([self.dates, self.dates, dates]), first)
        t = len(self.dates)
        return (every[:t] - every[t : 2 * t])[:, 2 * t :]


class Conditioned(NamedTuple):
    mean: Array
    covariance: Array
    half_log_det: float


def conditioned(prior: Array, precision: Array, shift: Array) -> Conditioned:
    """N(0, prior) times Gaussian sites."""
    root = np.sqrt(precision)
    b = np.eye(len(root)) + root[:, None] * prior * root[None, :]
    gain = linalg.solve(b, root[:, None] * prior, assume_a="pos")
    covariance = prior - (prior * root[None, :]) @ gain
    return Conditioned(covariance @ shift, covariance, 0.5 * float(np.linalg.slogdet(b)[1]))


class DenseEP(NamedTuple):
    precision: Array
    shift: Array
    log_evidence: float


def dense_ep(prior: Array, noise: float, lower: Array, upper: Array) -> DenseEP:
    """EP for lower < z + N(0, noise) < upper, all sites at once, until none moves."""
    t = len(prior)
    tau, nu = np.zeros(t), np.zeros(t)
    for _ in range(2000):
        post = conditioned(prior, tau, nu)
        v = np.diag(post.covariance)
        q = 1.0 - tau * v
        m_c, v_c = (post.mean - nu * v) / q, v / q
        s = np.sqrt(v_c + noise)
        a, b = (lower - m_c) / s, (upper - m_c) / s
        mass = stats.norm.cdf(b) - stats.norm.cdf(a)
        ends = [np.where(np.isfinite(x), x, 0.0) for x in (a, b)]
        density = [stats.norm.pdf(x) for x in (a, b)]
        # First two derivatives of log mass in m_c.
        g = (density[0] - density[1]) / (mass * s)
        h = (ends[0] * density[0] - ends[1] * density[1]) / (mass * s**2) - g**2
        new_tau, new_nu = -h / (1.0 + v_c * h), (g - m_c * h) / (1.0 + v_c * h)
        change = max(np.max(np.abs(new_tau - tau) * v), np.max(np.abs(new_nu - nu) * np.sqrt(v)))
        if change < 1e-14:
            break
        tau, nu = new_tau, new_nu
    else:
        raise RuntimeError(f"sites still move by {change:g}")
    # sum of log Z_i + psi(m_c, v_c) - psi(m, v), + ½ nu'mu - ½ log|B|
    psi = 0.5 * ((tau * m_c**2 - 2.0 * m_c * nu - v_c * nu**2) / (1.0 + v_c * tau))
    each = np.log(mass) + psi + 0.5 * np.log1p(v_c * tau)
    evidence = float(each.sum() + 0.5 * nu @ post.mean - post.half_log_det)
    return DenseEP(tau, nu, evidence)


class Followed(NamedTuple):
    precision: Array
    shift: Array
    mean: Array
    variance: Array
    log_probabilities: Array
    log_predictive: float


def followed(
    prior: Array,
    slices: list[Ints],
    sites: tuple[Array, Array],
    noise: float,
    limits: tuple[Array, Array],
) -> Followed:
    """One slice after the other: what it is given all before it, and EP within it.

    :param slices: the numbers of the duels of each; those of none have the `sites` given.
    """
    tau, nu = (values.copy() for values in sites)
    mean, variance = np.full(len(tau), np.nan), np.full(len(tau), np.nan)
    total = 0.0
    for some in slices:
        before = conditioned(prior, tau, nu)
        mean[some] = before.mean[some]
        inside = before.covariance[np.ix_(some, some)]
        variance[some] = np.diag(inside)
        found = dense_ep(inside, noise, *(x[some] - mean[some] for x in limits))
        tau[some], nu[some] = found.precision, found.shift + found.precision * mean[some]
        total += found.log_evidence
    scale = np.sqrt(variance + noise)
    below, above = (stats.norm.cdf((x - mean) / scale) for x in limits)
    return Followed(tau, nu, mean, variance, np.log(above - below), total)
