"""Parallel EP on duels, every step damped alike: dense NumPy, nothing updated, nothing adapted."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr
from scipy.stats import norm

Array = NDArray[np.float64]


class SlowParallel(NamedTuple):
    """Where slow parallel EP ended."""

    changes: list[float]
    """The largest of each sweep."""
    mean: Array
    """Of each z, at the end."""
    variance: Array
    """Of each z, at the end."""


def slow_parallel_ep(
    covariance: Array, noise: float, damping: float, tolerance: float, max_sweeps: int
) -> SlowParallel:
    """Sites of the factors Phi(-z / sqrt(noise)) under z ~ N(0, covariance).

    A change is max(|d tau| v, |d nu| sqrt v) by a whole step (docs/method.md, section 2).
    """
    t = len(covariance)
    tau, nu, changes = np.zeros(t), np.zeros(t), []
    while True:
        # Sigma = S - S T^½ B⁻¹ T^½ S, B = I + T^½ S T^½
        half = np.sqrt(tau)[:, None] * covariance
        b = np.eye(t) + half * np.sqrt(tau)
        sigma = covariance - half.T @ np.linalg.solve(b, half)
        mean, variance = sigma @ nu, np.diag(sigma)
        c = variance / (1.0 - tau * variance)
        m = (mean - variance * nu) / (1.0 - tau * variance)
        scale = np.sqrt(c + noise)
        h = -m / scale
        ratio = np.exp(norm.logpdf(h) - log_ndtr(h))
        tilted_mean = m - c * ratio / scale
        shrunk = ratio * (h + ratio)  # tilted variance: c - c² shrunk / scale²
        new_tau = shrunk / (scale**2 - c * shrunk)
        new_nu = tilted_mean * (1.0 / c + new_tau) - m / c
        by_tau, by_nu = np.abs(new_tau - tau) * variance, np.abs(new_nu - nu) * np.sqrt(variance)
        changes.append(float(max(by_tau.max(), by_nu.max())))
        if changes[-1] <= tolerance or len(changes) == max_sweeps:
            return SlowParallel(changes, mean, variance)
        tau, nu = tau + damping * (new_tau - tau), nu + damping * (new_nu - nu)
