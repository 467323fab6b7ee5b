"""Covariances of utility differences, pair by pair, and the variational bound by brute force."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.reference.slow_approximations import Kernel, gram
from tests.reference.slow_lower_bound import expected_log_phi

Array = NDArray[np.float64]


def slow_duel_covariance(kernel: Kernel, pairs: ArrayLike, others: ArrayLike) -> Array:
    """Cov[f(a) - f(b), f(c) - f(d)] for every pair (a, b) and (c, d), features side by side."""
    rows, columns = np.asarray(pairs, dtype=float), np.asarray(others, dtype=float)
    d = rows.shape[1] // 2
    result = np.empty((len(rows), len(columns)))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            four = gram(kernel, np.stack([row[:d], row[d:]]), np.stack([column[:d], column[d:]]))
            result[i, j] = four[0, 0] - four[0, 1] - four[1, 0] + four[1, 1]
    return result


def slow_bound(
    kernel: Kernel, pairs: ArrayLike, counts: ArrayLike, z: ArrayLike, noise_variance: float,
    mean: ArrayLike, root: ArrayLike,
) -> float:  # fmt: skip
    """sum c E log Phi(g / sqrt(2 sigma²)) - KL, for u = L w, w ~ N(mean, root root').

    KL[q(w) || N(0, I)] = ½ [tr S + mean'mean - m - log|S|] (Hensman, Matthews & Ghahramani 2015).
    """
    pairs, z = np.asarray(pairs, dtype=float), np.asarray(z, dtype=float)
    mean, root = np.asarray(mean, dtype=float), np.asarray(root, dtype=float)
    d = z.shape[1]
    lower = np.linalg.cholesky(gram(kernel, z, z))
    k_uv = gram(kernel, z, pairs[:, :d]) - gram(kernel, z, pairs[:, d:])
    phi = np.linalg.solve(lower, k_uv).T
    s = root @ root.T
    total = -0.5 * (np.trace(s) + mean @ mean - len(z) - np.linalg.slogdet(s)[1])
    prior = np.diag(slow_duel_covariance(kernel, pairs, pairs))
    for i, count in enumerate(np.asarray(counts)):
        variance = prior[i] - phi[i] @ phi[i] + phi[i] @ s @ phi[i]
        total += count * expected_log_phi(
            -float(phi[i] @ mean), float(variance), 2.0 * noise_variance, 0.0
        )
    return float(total)


def probability(z: float) -> float:
    """Phi(z)."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))
