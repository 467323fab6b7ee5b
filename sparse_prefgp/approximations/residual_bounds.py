"""Bounds of -½ log|I + R~/2s²|, the cost of the residual R~, that are tighter than VFE's own.

`c` are counts, `ratio` is k~/2s² of each site (docs/method.md, section 3).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.residual import Residual
from sparse_prefgp.approximations.whitened import whitened
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.arrays import FloatArray


def bound_by_rank(left: Residual) -> tf.Tensor:
    """-½ rho log(1 + tr C / rho), rho = items - connected components."""
    rho = float(left.rank)
    return -0.5 * rho * tf.math.log1p(left.trace() / rho)


def log_determinant(left: Residual) -> tf.Tensor:
    """-½ log|I + C| of all answers together, computed over items as log|I + (K - B B') W|."""
    weight, problem = left.over_items(), left.problem
    rows = as_float(problem.graph.rows)
    features = whitened(problem).features(rows)
    unexplained = kernel_matrix(problem.of_rows, rows)
    unexplained -= tf.matmul(features, features, transpose_b=True)
    inner = tf.eye(len(rows), dtype=rows.dtype) + tf.matmul(unexplained, weight)
    return -0.5 * tf.linalg.slogdet(inner).log_abs_determinant


# Of duels the first two are one: -½ sum c log(1 + k~/2s²), and -½ log(1 + c k~/2s²) of a count c
# below 1, since c log(1 + x) lies above log(1 + c x) from c = 1 on, and below it up to there.
RESIDUAL_BOUNDS: dict[str, Callable[[Residual], tf.Tensor]] = {
    "diagonal": lambda left: -0.5 * left.log_det_of_means(),
    "block": lambda left: -0.5 * left.log_det(by_share=True),
    "rank": bound_by_rank,
    "logdet": log_determinant,
}


def bound_by_pairs(graph: DuelGraph, ratio: FloatArray) -> float:
    """-½ sum over unordered pairs of log(1 + sum c ratio), ratio (t,) = k~ / 2s².

    A bound of -½ log|I + R~/2s²| in which all duels of a pair share their residual.
    """
    ends = np.sort(np.stack([graph.winners, graph.losers], 1), 1)
    _, pair = np.unique(ends, axis=0, return_inverse=True)
    return -0.5 * float(
        np.sum(np.log1p(np.bincount(pair.reshape(-1), weights=graph.counts * ratio)))
    )
