"""Sequential EP on a dense normal truncated to a box: one site after the other, nothing updated.

For every site the cavity is the marginal under all *other* sites, computed afresh from the prior:
slow, but without the subtraction 1 - tau v and without drift.
"""

from typing import NamedTuple

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from tests.reference.slow_truncated_normal import truncated_normal

Array = NDArray[np.float64]

# Digits inside one site update: limits some hundred standard deviations out lose about ten.
SITE_DIGITS = 40


class SlowEP(NamedTuple):
    mean: Array
    covariance: Array
    log_evidence: float
    sweeps: int


def _marginal(covariance: Array, tau: Array, nu: Array, i: int) -> tuple[float, float]:
    """Mean and variance of v_i under N(0, covariance) and the sites (docs/method.md, section 2).

    Sigma = S - S T^½ B^-1 T^½ S with B = I + T^½ S T^½, and the mean is Sigma nu.
    """
    root = np.sqrt(tau)
    b = np.eye(len(tau)) + root[:, None] * covariance * root[None, :]
    column = covariance[:, i]
    sigma_i = column - covariance @ (root * linalg.solve(b, root * column, assume_a="pos"))
    return float(sigma_i @ nu), float(sigma_i[i])


def _site(m: float, c: float, lower: float, upper: float) -> tuple[float, float, float]:
    """Site (tau, nu) and log mass from the cavity N(m, c) (method section 2, moment matching).

    The tilted moments are those of the cavity truncated to (lower, upper):
    tau = 1/V - 1/c, nu = E/V - m/c.
    """
    with mpmath.workdps(SITE_DIGITS):
        log_mass, mean, variance = truncated_normal(m, c, lower, upper, SITE_DIGITS)
        tau = 1 / variance - 1 / mpf(c)
        nu = mean / variance - mpf(m) / mpf(c)
        return float(tau), float(nu), float(log_mass)


def slow_ep(
    mean: ArrayLike,
    covariance: ArrayLike,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    tolerance: float = 1e-10,
    max_sweeps: int = 1000,
) -> SlowEP:
    """EP for N(mean, covariance) truncated to the box; the negative orthant unless told otherwise.

    A sweep that moves no site by more than `tolerance` standard deviations ends it.
    """
    prior_mean = np.asarray(mean, dtype=float)
    s = np.asarray(covariance, dtype=float)
    t = len(prior_mean)
    # Zero-mean frame: shift the limits instead (docs/method.md, section 1).
    low = (np.full(t, -np.inf) if lower is None else np.asarray(lower, dtype=float)) - prior_mean
    high = (np.zeros(t) if upper is None else np.asarray(upper, dtype=float)) - prior_mean

    tau, nu, sweeps = np.zeros(t), np.zeros(t), 0
    for _ in range(max_sweeps):
        sweeps += 1
        change = 0.0
        for i in range(t):
            old_tau, old_nu = tau[i], nu[i]
            tau[i] = nu[i] = 0.0
            m_c, v_c = _marginal(s, tau, nu, i)
            if v_c <= 0.0 or (low[i] == -np.inf and high[i] == np.inf):
                continue  # a constant, or nothing to truncate: no site
            tau[i], nu[i], _ = _site(m_c, v_c, low[i], high[i])
            v = v_c / (1 + tau[i] * v_c)
            change = max(change, abs(tau[i] - old_tau) * v, abs(nu[i] - old_nu) * np.sqrt(v))
        if change < tolerance:
            break
    else:
        raise RuntimeError(f"sites still move by {change:g} after {max_sweeps} sweeps")

    root = np.sqrt(tau)
    b = np.eye(t) + root[:, None] * s * root[None, :]
    sigma = s - s @ (root[:, None] * linalg.solve(b, root[:, None] * s, assume_a="pos"))
    mu = sigma @ nu

    # log Z = sum_i [log Z_i + psi(m_c, v_c) - psi(m, v)] + ½ nu' mu + ½ log|Sigma| - ½ log|S|
    # (method section 2), where log|Sigma| - log|S| = -log|B|.
    log_evidence = 0.5 * nu @ mu - 0.5 * np.linalg.slogdet(b)[1]
    for i in range(t):
        if low[i] == -np.inf and high[i] == np.inf:
            continue
        tau_others, nu_others = tau.copy(), nu.copy()
        tau_others[i] = nu_others[i] = 0.0
        m_c, v_c = _marginal(s, tau_others, nu_others, i)
        if v_c <= 0.0:
            log_evidence += 0.0 if low[i] < m_c < high[i] else -np.inf
            continue
        _, _, log_mass = _site(m_c, v_c, low[i], high[i])
        # psi(m_c, v_c) - psi(m, v), method section 2, "zero variance is harmless"
        quadratic = tau[i] * m_c**2 - 2 * m_c * nu[i] - v_c * nu[i] ** 2
        log_evidence += log_mass + 0.5 * (quadratic / (1 + v_c * tau[i]) + np.log(1 + v_c * tau[i]))
    return SlowEP(prior_mean + mu, sigma, float(log_evidence), sweeps)
