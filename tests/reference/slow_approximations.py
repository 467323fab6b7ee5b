"""Every approximation with explicit dense matrices: repeats are separate duels, A is written out.

v = z + noise, z = A f, the data are v < 0 (method section 1). Rows of the table in section 3.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from tests.reference.slow_ep import slow_ep

Array = NDArray[np.float64]
Kernel = Callable[[Array, Array], float]

SPARSE_ROWS = (
    "dtc",
    "vfe",
    "tight_vfe",
    "tight_vfe_rank",
    "tight_vfe_logdet",
    "fitc",
    "hetero_vfe",
    "prior_power",
    "pitc",
)


class SlowPosterior(NamedTuple):
    covariance: Array  # of v, as EP sees it
    correction: float  # added to the log evidence of EP
    log_evidence: float  # with the correction
    mean: Array  # of f at the test items
    cov: Array


def squared_exponential(variance: float, lengthscales: ArrayLike) -> Kernel:
    """variance · exp(-r²/2), r² = sum ((x - y) / lengthscale)²."""

    def kernel(x: Array, y: Array) -> float:
        r2 = float(np.sum(((x - y) / np.asarray(lengthscales)) ** 2))
        return variance * math.exp(-r2 / 2)

    return kernel


def matern52(variance: float, lengthscales: ArrayLike) -> Kernel:
    """variance · (1 + sqrt(5) r + 5 r²/3) exp(-sqrt(5) r)."""

    def kernel(x: Array, y: Array) -> float:
        r = math.sqrt(float(np.sum(((x - y) / np.asarray(lengthscales)) ** 2)))
        return variance * (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r)

    return kernel


def linear(variance: ArrayLike) -> Kernel:
    """sum variance · x · y; one variance, or one for each feature."""

    def kernel(x: Array, y: Array) -> float:
        return float(np.sum(np.asarray(variance) * x * y))

    return kernel


def gram(kernel: Kernel, x: Array, y: Array) -> Array:
    """The matrix k(x_i, y_j), entry by entry."""
    matrix = np.empty((len(x), len(y)))
    for i in range(len(x)):
        for j in range(len(y)):
            matrix[i, j] = kernel(x[i], y[j])
    return matrix


def difference_matrix(winners: ArrayLike, losers: ArrayLike, items: int) -> Array:
    """A: row i has +1 in the column of the loser and -1 in that of the winner (section 1)."""
    winner_list, loser_list = list(np.asarray(winners)), list(np.asarray(losers))
    a = np.zeros((len(winner_list), items))
    for i, (w, loser) in enumerate(zip(winner_list, loser_list, strict=True)):
        a[i, loser] += 1.0
        a[i, w] -= 1.0
    return a


def comparison_rank(winners: ArrayLike, losers: ArrayLike) -> int:
    """rho = items used - connected components of the comparison graph (section 3)."""
    component = {int(i): int(i) for i in np.concatenate([np.asarray(winners), np.asarray(losers)])}
    for w, loser in zip(np.asarray(winners), np.asarray(losers), strict=True):
        old, new = component[int(loser)], component[int(w)]
        for item in component:
            if component[item] == old:
                component[item] = new
    return len(component) - len(set(component.values()))


def covariance_and_correction(
    row: str,
    q: Array,
    residual: Array,
    noise: float,
    rho: int,
    power: float | None = None,
    blocks: ArrayLike | None = None,
) -> tuple[Array, float]:
    """Covariance of v and what is added to log Z, from Q_vv, K_vv - Q_vv and 2 sigma²."""
    t = len(q)
    # Rounding makes k~ of equal items slightly negative.
    k = np.maximum(np.diag(residual), 0.0)
    plain = q + noise * np.eye(t)
    if row == "dtc":
        return plain, 0.0
    if row == "vfe":  # - sum k~ / (4 s²)
        return plain, -float(np.sum(k)) / (2 * noise)
    if row == "tight_vfe":  # - ½ sum log(1 + k~ / 2s²)
        return plain, -0.5 * float(np.sum(np.log(1 + k / noise)))
    if row == "tight_vfe_rank":  # - ½ rho log(1 + sum k~ / (2s² rho))
        return plain, -0.5 * rho * math.log(1 + float(np.sum(k)) / (noise * rho))
    if row == "tight_vfe_logdet":  # - ½ log|I + R~ / 2s²|
        return plain, -0.5 * float(np.linalg.slogdet(np.eye(t) + residual / noise)[1])
    if row == "fitc":
        return q + np.diag(k) + noise * np.eye(t), 0.0
    if row == "hetero_vfe":  # - ½ sum k~ / Lambda, Lambda = 2s² + k~
        return q + np.diag(k) + noise * np.eye(t), -0.5 * float(np.sum(k / (noise + k)))
    if row == "prior_power":  # - (1-p)/(2p) sum log(1 + p k~ / 2s²)
        if power is None:
            raise ValueError("prior_power needs its power")
        correction = -(1 - power) / (2 * power) * float(np.sum(np.log(1 + power * k / noise)))
        return q + power * np.diag(k) + noise * np.eye(t), correction
    if row == "pitc":
        if blocks is None:
            raise ValueError("pitc needs its blocks")
        block = np.asarray(blocks)
        covariance = plain.copy()
        for i in range(t):
            for j in range(t):
                if block[i] == block[j]:
                    covariance[i, j] += residual[i, j]
        return covariance, 0.0
    raise ValueError(f"no row {row!r}: use 'exact' or one of {SPARSE_ROWS}")


def slow_posterior(
    items: ArrayLike,
    winners: ArrayLike,
    losers: ArrayLike,
    kernel: Kernel,
    noise_variance: float,
    row: str,
    inducing: ArrayLike | None = None,
    test_items: ArrayLike | None = None,
    power: float | None = None,
    blocks: ArrayLike | None = None,
    test_block: object = None,
    mean_function: Callable[[Array], float] | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    tolerance: float = 1e-10,
) -> SlowPosterior:
    """EP evidence and posterior of f at the test items (the items themselves by default).

    `noise_variance` is sigma² per side. `lower` and `upper` are the limits of v for each duel.
    With `test_block` the test items are of that block of pitc: PIC.
    """
    x = np.asarray(items, dtype=float)
    x_star = x if test_items is None else np.asarray(test_items, dtype=float)
    a = difference_matrix(winners, losers, len(x))
    noise = 2 * noise_variance
    k_vv = a @ gram(kernel, x, x) @ a.T
    k_ss = gram(kernel, x_star, x_star)
    prior_mean, prior_mean_star = np.zeros(len(x)), np.zeros(len(x_star))
    if mean_function is not None:
        prior_mean = np.array([mean_function(row_) for row_ in x])
        prior_mean_star = np.array([mean_function(row_) for row_ in x_star])
    offset = a @ prior_mean  # o_i = m(x_l) - m(x_w)

    if row == "exact":
        covariance, correction = k_vv + noise * np.eye(len(a)), 0.0
        k_sv = gram(kernel, x_star, x) @ a.T
    else:
        if inducing is None:
            raise ValueError(f"{row} needs inducing inputs")
        z = np.asarray(inducing, dtype=float)
        k_uu, k_uv = gram(kernel, z, z), gram(kernel, z, x) @ a.T
        k_su = gram(kernel, x_star, z)
        # Q_ab = K_au K_uu^-1 K_ub, through whitened features (section 3)
        root = np.linalg.cholesky(k_uu)
        phi_v = linalg.solve_triangular(root, k_uv, lower=True).T
        phi_s = linalg.solve_triangular(root, k_su.T, lower=True).T
        q = phi_v @ phi_v.T
        covariance, correction = covariance_and_correction(
            row, q, k_vv - q, noise, comparison_rank(winners, losers), power, blocks
        )
        # Prediction is from q(u) (section 6): f* depends on v through u alone.
        k_sv = phi_s @ phi_v.T
        if test_block is not None:
            # To the duels of their own block they are related as the kernel says.
            full = gram(kernel, x_star, x) @ a.T
            k_sv = np.where(np.asarray(blocks) == test_block, full, k_sv)

    ep = slow_ep(offset, covariance, lower, upper, tolerance)
    # f* | v is normal, and linear in v; average it over the truncated v.
    gain = linalg.solve(covariance, k_sv.T, assume_a="pos").T
    mean = prior_mean_star + gain @ (ep.mean - offset)
    cov = k_ss - gain @ k_sv.T + gain @ ep.covariance @ gain.T
    return SlowPosterior(covariance, correction, ep.log_evidence + correction, mean, cov)
