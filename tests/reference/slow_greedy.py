"""Greedy choices of inducing inputs with dense matrices, everything computed afresh each time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def item_residual(covariance: Array, chosen: list[int]) -> Array:
    """R = K - K_z K_zz⁻¹ K_z', (n, n), for inducing inputs that are items."""
    if not chosen:
        return covariance
    cross = covariance[:, chosen]
    return covariance - cross @ np.linalg.solve(covariance[np.ix_(chosen, chosen)], cross.T)


def unexplained(covariance: Array, chosen: list[int], a: Array, counts: Array) -> float:
    """sum c k~, k~ the diagonal of A R A'."""
    return float(counts @ np.diag(a @ item_residual(covariance, chosen) @ a.T))


def best_by_variance(covariance: Array, chosen: list[int]) -> tuple[int, float]:
    """The item that the chosen ones explain least, and what they leave of it."""
    left = np.diag(item_residual(covariance, chosen)).copy()
    left[chosen] = -np.inf
    return int(np.argmax(left)), float(left.max())


def left_by_each(covariance: Array, chosen: list[int], a: Array, counts: Array) -> Array:
    """sum c k~ after each item has joined, (n,); infinite for the chosen ones."""
    left = np.full(len(covariance), np.inf)
    for item in range(len(covariance)):
        if item not in chosen:
            left[item] = unexplained(covariance, [*chosen, item], a, counts)
    return left


def held_value(
    covariance: Array,
    chosen: list[int],
    a: Array,
    counts: Array,
    sites: tuple[Array, Array],
    noise_variance: float,
) -> float:
    """What depends on Z of Titsias' bound at given sites (nu, tau) on z, one copy each:

    log of the integral of N(z | 0, Q) exp(c nu z - ½ c tau z²), less sum c k~ / 4 sigma².
    """
    nu, tau = sites
    residual = item_residual(covariance, chosen)
    q = a @ (covariance - residual) @ a.T
    inner = np.eye(len(nu)) + (counts * tau)[:, None] * q  # I + T Q
    shift = counts * nu
    quadratic = 0.5 * shift @ q @ np.linalg.solve(inner, shift)
    left = float(counts @ np.diag(a @ residual @ a.T))
    return float(quadratic - 0.5 * np.linalg.slogdet(inner)[1] - left / (4.0 * noise_variance))
