"""The rigorous lower bound with explicit dense matrices; repeats are separate duels.

q(u) = N(mu, S) of whitened inducing values from given sites, KL in its textbook form, expectations
by the trapezoidal rule on a grid far finer than the noise (docs/method.md, section 3).
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from tests.reference.slow_approximations import Kernel, comparison_rank, difference_matrix, gram

Array = NDArray[np.float64]


def slow_set_bounds(
    rows: ArrayLike,
    noise: ArrayLike,
    prior: ArrayLike,
    explained: ArrayLike | None,
    nu: ArrayLike,
    tau: ArrayLike,
    upper: ArrayLike,
) -> dict[str, float]:
    """Every bound of answers about sets, from one site for each row of v = A f + N(0, noise).

    The rows that share noise are one look. Of its noise each row keeps the smallest eigenvalue for
    itself, D, and q is of w = A f + N(0, noise - D) under the sites.

    :param upper: (t,) limits of v.
    :param prior: (n, n) of f.
    :param explained: (n, n) of it that is in q; None for all.
    """
    a, n, k = (np.asarray(x, float) for x in (rows, noise, prior))
    q = k if explained is None else np.asarray(explained, float)
    looks = [np.flatnonzero(row) for row in np.unique(_joined(n), axis=0)]
    own = np.zeros(len(n))
    for look in looks:
        own[look] = np.linalg.eigvalsh(n[np.ix_(look, look)])[0]
    values, vectors = np.linalg.eigh(a @ q @ a.T + n - np.diag(own))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    s = np.linalg.inv(np.eye(len(n)) + root.T @ np.diag(np.asarray(tau)) @ root)
    mu = s @ root.T @ np.asarray(nu)
    kl = 0.5 * (np.trace(s) + mu @ mu - len(n) - np.linalg.slogdet(s)[1])
    mean, variance = root @ mu, np.diag(root @ s @ root.T)
    residual = a @ (k - q) @ a.T

    def expected(more: Array) -> float:
        return sum(
            expected_log_phi(*each)
            for each in zip(mean, variance + more, own, np.asarray(upper), strict=True)
        )

    found = {"expected": expected(np.diag(residual)) - kl}
    if explained is None:
        return found
    whole = expected(np.zeros(len(n))) - kl
    parts = [(np.linalg.solve(n[np.ix_(x, x)], residual[np.ix_(x, x)]), len(x)) for x in looks]
    traces = [float(np.trace(part)) for part, _ in parts]
    rho = np.linalg.matrix_rank(a)
    return {
        **found,
        "diagonal": whole
        - 0.5 * sum(c * np.log1p(x / c) for x, (_, c) in zip(traces, parts, strict=True)),
        "block": whole - 0.5 * sum(np.linalg.slogdet(np.eye(c) + x)[1] for x, c in parts),
        "rank": whole - 0.5 * rho * np.log1p(sum(traces) / rho),
        "logdet": whole - 0.5 * np.linalg.slogdet(np.eye(len(n)) + np.linalg.solve(n, residual))[1],
    }


def _joined(noise: Array) -> NDArray[np.bool_]:
    """Which rows have noise in common, through others too."""
    joined = noise != 0.0
    for _ in range(len(noise)):
        joined = joined @ joined
    return joined


def expected_log_phi(mean: float, variance: float, noise: float, upper: float) -> float:
    """E log Phi((upper - z) / sqrt(noise)), z ~ N(mean, variance), by brute force."""
    x = np.linspace(-12.0, 12.0, 400_001)
    z = mean + math.sqrt(variance) * x
    density = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
    return float(np.sum(density * log_ndtr((upper - z) / math.sqrt(noise))) * (x[1] - x[0]))


def slow_lower_bounds(
    items: ArrayLike,
    winners: ArrayLike,
    losers: ArrayLike,
    kernel: Kernel,
    noise_variance: float,
    nu: ArrayLike,
    tau: ArrayLike,
    inducing: ArrayLike | None,
    offset: ArrayLike | None = None,
    blocks: ArrayLike | None = None,
) -> dict[str, float]:
    """Every bound, from one site (nu, tau) for each duel; without inducing inputs, u are the items.

    `offset` is m(loser) - m(winner) of each duel. With `blocks` the sites are on z, whose residual
    keeps its covariance within a block, and q(u) is what they make of u.
    """
    x = np.asarray(items, dtype=float)
    z = x if inducing is None else np.asarray(inducing, dtype=float)
    a = difference_matrix(winners, losers, len(x))
    t, noise = len(a), 2 * noise_variance
    upper = -np.zeros(t) if offset is None else -np.asarray(offset, dtype=float)
    k_vv = a @ gram(kernel, x, x) @ a.T
    root = np.linalg.cholesky(gram(kernel, z, z))
    phi = a @ gram(kernel, x, z) @ np.linalg.inv(root).T
    site = np.diag(np.asarray(tau))
    shift = np.asarray(nu, dtype=float)
    if blocks is not None:
        block = np.asarray(blocks)
        kept = np.where(block[:, None] == block[None], k_vv - phi @ phi.T, 0.0)
        # The sites seen through the residual: z = Phi u + r, r integrated out.
        site = site @ np.linalg.inv(np.eye(t) + kept @ site)
        shift = shift - site @ kept @ shift
    s = np.linalg.inv(np.eye(len(z)) + phi.T @ site @ phi)
    mu = s @ phi.T @ shift
    # KL = ½ [tr S + mu'mu - m - log|S|]
    kl = 0.5 * (np.trace(s) + mu @ mu - len(z) - np.linalg.slogdet(s)[1])
    residual = k_vv - phi @ phi.T
    left = np.maximum(np.diag(residual), 0.0)
    inside = whole = -kl
    for i in range(t):
        mean, variance = float(phi[i] @ mu), float(phi[i] @ s @ phi[i])
        inside += expected_log_phi(mean, variance + left[i], noise, upper[i])
        whole += expected_log_phi(mean, variance, noise, upper[i])
    if inducing is None:
        return {"expected": inside}
    ends = np.sort(np.stack([np.asarray(winners), np.asarray(losers)], 1), 1)
    same_pair = np.all(ends[:, None] == ends[None], axis=2)
    rank = comparison_rank(winners, losers)

    def log_det(matrix: Array) -> float:
        return float(np.linalg.slogdet(np.eye(t) + matrix / noise)[1])

    return {
        "expected": inside,
        "diagonal": whole - 0.5 * log_det(np.diag(left)),
        "pairs": whole - 0.5 * log_det(np.where(same_pair, residual, 0.0)),
        "rank": whole - 0.5 * rank * math.log(1 + np.sum(left) / (noise * rank)),
        "logdet": whole - 0.5 * log_det(residual),
    }
