"""Bounds of -½ log|I + R~/2s²|, the cost of the residual R~, that are tighter than VFE's own.

`c` are counts, `ratio` is k~/2s² of each site (docs/method.md, section 3).
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import DuelProblem
from sparse_prefgp.approximations.inducing import Residual, whitened
from sparse_prefgp.approximations.set_residual import SetResidual
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.factors.sites import powers_of
from sparse_prefgp.support.arrays import FloatArray


def bound_by_diagonal(residual: Residual) -> tf.Tensor:
    """-½ sum c log(1 + k~/2s²), and -½ log(1 + c k~/2s²) of a count c below 1."""
    each = residual.diagonal / residual.noise
    # c log(1 + x) lies above log(1 + c x) from c = 1 on, and below it up to there.
    portions = powers_of(residual.factors, 1.0)
    return -0.5 * tf.reduce_sum(residual.counts / portions * tf.math.log1p(portions * each))


def bound_by_rank(residual: Residual) -> tf.Tensor:
    """-½ rho log(1 + sum c k~ / (2s² rho)), rho = items - connected components."""
    rho = float(max(residual.problem.graph.residual_rank, 1))
    each = residual.diagonal / residual.noise
    return -0.5 * rho * tf.math.log1p(tf.reduce_sum(residual.counts * each) / rho)


def bound_by_pairs(graph: DuelGraph, ratio: FloatArray) -> float:
    """-½ sum over unordered pairs of log(1 + sum c ratio), ratio (t,) = k~ / 2s².

    A bound of -½ log|I + R~/2s²| in which all duels of a pair share their residual.
    """
    ends = np.sort(np.stack([graph.winners, graph.losers], 1), 1)
    _, pair = np.unique(ends, axis=0, return_inverse=True)
    return -0.5 * float(
        np.sum(np.log1p(np.bincount(pair.reshape(-1), weights=graph.counts * ratio)))
    )


def log_determinant(residual: Residual) -> tf.Tensor:
    """-½ log|I + R~ C / 2s²| itself, computed over items as log|I + (K - B B') W_c / 2s²|."""
    laplacian = residual.problem.graph.laplacian.dense(residual.counts / residual.noise)
    return _over_items(residual.problem, residual.factor, laplacian)


def set_bound_by_mean(residual: SetResidual) -> tf.Tensor:
    """-½ sum (k - 1) log(1 + tr C / (k - 1)) of sets of k."""
    return -0.5 * residual.summed_over_traces(
        lambda trace, rank: rank * tf.math.log1p(trace / rank)
    )


def set_bound_by_block(residual: SetResidual) -> tf.Tensor:
    """-½ sum log|I + C|."""
    return -0.5 * residual.log_det(share_of_residual=True)


def set_bound_by_rank(residual: SetResidual) -> tf.Tensor:
    """-½ rho log(1 + sum tr C / rho)."""
    rho = float(max(residual.problem.graph.residual_rank, 1))
    return -0.5 * rho * tf.math.log1p(residual.trace() / rho)


def set_log_determinant(residual: SetResidual) -> tf.Tensor:
    """-½ log|I + (K - B B') W|, W the contrasts of all sets over s²."""
    return _over_items(residual.problem, residual.factor, residual.over_items())


def _over_items(problem: DuelProblem, factor: tf.Tensor, laplacian: tf.Tensor) -> tf.Tensor:
    graph: DuelGraph = problem.graph
    rows = as_float(graph.rows)
    known = factor, tf.zeros([], rows.dtype)
    features = whitened(problem, known).features(rows)
    unexplained = kernel_matrix(problem.of_rows, rows)
    unexplained -= tf.matmul(features, features, transpose_b=True)
    identity = tf.eye(graph.num_rows, dtype=rows.dtype)
    inner = identity + tf.matmul(unexplained, laplacian)
    return -0.5 * tf.linalg.slogdet(inner).log_abs_determinant
