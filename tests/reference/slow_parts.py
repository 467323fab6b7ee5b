"""Partitioned EP, dense and duel by duel: each part in the cavity of u that the others leave.

docs/method.md, section 15; method of the parts after Barthelmé & Chopin (2014) and Gelman et al.
(2017), "EP as a way of life".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tests.reference.slow_ep import slow_ep

Array = NDArray[np.float64]


class SlowParts(NamedTuple):
    """mean (m,) and covariance (m, m) of u after each round, and the evidence at the last."""

    means: list[Array]
    covariances: list[Array]
    log_evidence: float


def slow_parts(
    phi: Array, noise: Array, upper: Array, parts: list[Array], rounds: int, local_sweeps: int
) -> SlowParts:
    """EP on z = phi u, u ~ N(0, I), and duels z + N(0, noise) < upper.

    :param parts: the numbers of the duels of each part.
    """
    t, m = phi.shape
    tau, nu = np.zeros(t), np.zeros(t)
    means, covariances = [], []

    def site(rows: Array) -> tuple[Array, Array]:
        """Lambda_k and eta_k."""
        precision, shift = np.zeros((m, m)), np.zeros(m)
        for i in rows:
            precision += tau[i] * np.outer(phi[i], phi[i])
            shift += nu[i] * phi[i]
        return precision, shift

    def whole() -> tuple[Array, Array]:
        every = [site(rows) for rows in parts]
        return np.eye(m) + sum(p for p, _ in every), sum((s for _, s in every), np.zeros(m))

    for _ in range(rounds):
        precision, shift = whole()
        cavities = [(precision - site(rows)[0], shift - site(rows)[1]) for rows in parts]
        for (cavity_precision, cavity_shift), rows in zip(cavities, parts, strict=True):
            for _ in range(local_sweeps):
                own_precision, own_shift = site(rows)
                covariance = np.linalg.inv(cavity_precision + own_precision)
                mean = covariance @ (cavity_shift + own_shift)
                new = [
                    _update(phi[i] @ mean, phi[i] @ covariance @ phi[i], tau[i], nu[i], d, b)
                    for i, d, b in zip(rows, noise[rows], upper[rows], strict=True)
                ]
                for i, (one, other) in zip(rows, new, strict=True):
                    tau[i], nu[i] = one, other
        precision, shift = whole()
        covariances.append(np.linalg.inv(precision))
        means.append(covariances[-1] @ shift)

    # sum_k [log Z_k + F(cavity_k) - F(all)] + F(all), F the log normaliser of natural parameters
    # and log Z_k the evidence of the duels of part k under its cavity as a normalised prior.
    everything = _log_normaliser(precision, shift)
    evidence = everything
    for rows in parts:
        own_precision, own_shift = site(rows)
        around = precision - own_precision, shift - own_shift
        covariance = np.linalg.inv(around[0])
        z_mean = phi[rows] @ covariance @ around[1]
        z_covariance = phi[rows] @ covariance @ phi[rows].T + np.diag(noise[rows])
        alone = slow_ep(z_mean, z_covariance, None, upper[rows])
        evidence += alone.log_evidence + _log_normaliser(*around) - everything
    return SlowParts(means, covariances, float(evidence))


def _update(
    m: float, v: float, tau: float, nu: float, noise: float, upper: float
) -> tuple[float, float]:
    """tau, nu of one probit site (Rasmussen & Williams 2006, eq. 3.58, for z + noise < upper)."""
    q = 1.0 - tau * v
    m_c, v_c = (m - nu * v) / q, v / q
    s = np.sqrt(v_c + noise)
    b = (upper - m_c) / s
    ratio = np.exp(stats.norm.logpdf(b) - stats.norm.logcdf(b))
    slope, curvature = -ratio / s, -ratio * (b + ratio) / s**2
    gain = 1.0 + v_c * curvature
    return -curvature / gain, (slope - m_c * curvature) / gain


def _log_normaliser(precision: Array, shift: Array) -> float:
    """½ eta' Lambda⁻¹ eta - ½ log|Lambda|, without the constant that cancels."""
    _, log_det = np.linalg.slogdet(precision)
    return float(0.5 * shift @ np.linalg.solve(precision, shift) - 0.5 * log_det)
