"""A sum of residual terms by dense matrices: Q + sum of terms within groups + noise, and EP on it.

Repeats are separate duels; a term is a matrix (t, t) of which only entries within a group count.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.reference.slow_approximations import difference_matrix, gram, squared_exponential
from tests.reference.slow_ep import slow_ep

Array = NDArray[np.float64]


class Duels(NamedTuple):
    """items (n, D), winners and losers (t,), inducing inputs (m, D), the label that keeps the
    residual of Q, (t,), and the sigma² of each side."""

    items: Array
    winners: Array
    losers: Array
    inducing: Array
    blocks: Array
    noise_variance: float


class Composed(NamedTuple):
    log_evidence: float
    mean: Array  # of f at the test items
    cov: Array
    by: dict[str, float]  # d log evidence / d parameter


def within(labels: ArrayLike) -> Array:
    """1 between duels of one label."""
    label = list(np.asarray(labels))
    return np.array([[float(a == b) for b in label] for a in label])


def pair_term(winners: ArrayLike, losers: ArrayLike) -> Array:
    """sign sign' between duels of one unordered pair: +1 for the same winner, -1 for the other."""
    ends = list(zip(np.asarray(winners), np.asarray(losers), strict=True))
    t = len(ends)
    matrix = np.zeros((t, t))
    for i in range(t):
        for j in range(t):
            if ends[i] == ends[j]:
                matrix[i, j] = 1.0
            elif ends[i] == ends[j][::-1]:
                matrix[i, j] = -1.0
    return matrix


def components(*labels: ArrayLike) -> Array:
    """The smallest index of the duels that each duel is joined to by any of the labels."""
    every = [list(np.asarray(label)) for label in labels]
    component = list(range(len(every[0])))
    moved = True
    while moved:
        moved = False
        for label in every:
            for i in range(len(label)):
                for j in range(len(label)):
                    if label[i] == label[j] and component[i] > component[j]:
                        component[i], moved = component[j], True
    return np.array(component)


def covariance_of_v(duels: Duels, variance: float, lengthscale: float, pair: float) -> Array:
    kernel = squared_exponential(variance, lengthscale)
    x, z = duels.items, duels.inducing
    a = difference_matrix(duels.winners, duels.losers, len(x))
    k_vv = a @ gram(kernel, x, x) @ a.T
    k_uv = gram(kernel, z, x) @ a.T
    q = k_uv.T @ np.linalg.solve(gram(kernel, z, z), k_uv)
    total = q + within(duels.blocks) * (k_vv - q)
    total += pair * pair_term(duels.winners, duels.losers)
    return total + 2.0 * duels.noise_variance * np.eye(len(a))


def slow_composed(
    duels: Duels,
    variance: float,
    lengthscale: float,
    pair: float,
    test_items: Array,
    test_block: object = None,
) -> Composed:
    """EP evidence, posterior of f at the test items (of one block with `test_block`), gradient.

    At the fixed point, with C the covariance of v and m, S mean and covariance of q(v),
    d log Z = ½ tr[(a a' - C⁻¹ + C⁻¹ S C⁻¹) dC], a = C⁻¹ m.
    """
    start = np.array([variance, lengthscale, pair])

    def covariance(parameters: Array) -> Array:
        return covariance_of_v(duels, *parameters)

    c = covariance(start)
    ep = slow_ep(np.zeros(len(c)), c, tolerance=1e-13)
    inverse = np.linalg.inv(c)
    a = inverse @ ep.mean
    slope = 0.5 * (np.outer(a, a) - inverse + inverse @ ep.covariance @ inverse)
    by = {}
    for i, name in enumerate(("variance", "lengthscale", "pair")):
        step = 1e-2 * np.eye(3)[i]
        # Central differences of order six, of the entries of C alone.
        d = sum(
            weight * (covariance(start + k * step) - covariance(start - k * step))
            for k, weight in ((1, 45.0), (2, -9.0), (3, 1.0))
        ) / (60.0 * 1e-2)
        by[name] = float(np.sum(slope * d))
    by["noise_variance"] = 2.0 * float(np.trace(slope))

    kernel = squared_exponential(variance, lengthscale)
    x, z = duels.items, duels.inducing
    incidence = difference_matrix(duels.winners, duels.losers, len(x))
    k_uv = gram(kernel, z, x) @ incidence.T
    k_sv = gram(kernel, test_items, z) @ np.linalg.solve(gram(kernel, z, z), k_uv)
    if test_block is not None:
        full = gram(kernel, test_items, x) @ incidence.T
        k_sv = np.where(np.asarray(duels.blocks) == test_block, full, k_sv)
    gain = np.linalg.solve(c, k_sv.T).T
    cov = gram(kernel, test_items, test_items) - gain @ k_sv.T + gain @ ep.covariance @ gain.T
    return Composed(ep.log_evidence, gain @ ep.mean, cov, by)
