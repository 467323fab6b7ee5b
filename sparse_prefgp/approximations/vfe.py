"""VFE, the variational bound, and the tighter bounds: what k~ costs the log evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.inducing import InducingApproximation, Residual, whitened
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.factors.sites import powers_of
from sparse_prefgp.support.arrays import FloatArray

RESIDUAL_BOUNDS = ("diagonal", "rank", "logdet")


@dataclass(frozen=True)
class VFE(InducingApproximation):
    """Titsias' (2009) variational bound, eq. 9: `Q + 2s²I`, `- sum c k~ / 4s²`.

    The only row whose value never falls when a training item joins Z.
    """

    is_bound: ClassVar[bool] = True
    grows_with_z: ClassVar[bool] = True

    @property
    def bounds_by_expectation(self) -> bool:
        return True

    @property
    def penalises_residual(self) -> bool:
        return True

    def correction(self, residual: Residual) -> tf.Tensor:
        return -0.5 * tf.reduce_sum(residual.counts * residual.diagonal / residual.noise)


@dataclass(frozen=True)
class TightVFE(InducingApproximation):
    """`Q + 2s²I` with a tighter bound of `-½ log|I + R~/2s²|` (Titsias 2025; Bui et al. 2025)."""

    is_bound: ClassVar[bool] = True
    residual: str = "diagonal"
    """One of "diagonal", `-½ sum c log(1 + k~/2s²)`, of a count c below 1 `-½ log(1 + c k~/2s²)`,
    since a share of a duel is not a share of its residual; "rank", which uses that the residual of
    duels has rank at most rho = items - connected components, `-½ rho log(1 + sum c k~ / (2s²
    rho))`; "logdet", the log-determinant itself, O(n³) over items.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.residual not in RESIDUAL_BOUNDS:
            raise ValueError(
                f"TightVFE's residual must be one of {', '.join(RESIDUAL_BOUNDS)}, "
                f"not {self.residual!r}."
            )

    @property
    def summed_over_duels(self) -> bool:
        return self.residual == "diagonal"

    @property
    def penalises_residual(self) -> bool:
        return True

    def correction(self, residual: Residual) -> tf.Tensor:
        if self.residual == "logdet":
            return -0.5 * _residual_log_det(residual)
        each = residual.diagonal / residual.noise
        if self.residual == "diagonal":
            # c log(1 + x) lies above log(1 + c x) from c = 1 on, and below it up to there.
            portions = powers_of(residual.factors, 1.0)
            return -0.5 * tf.reduce_sum(residual.counts / portions * tf.math.log1p(portions * each))
        rho = float(max(residual.problem.graph.residual_rank, 1))
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


def _residual_log_det(residual: Residual) -> tf.Tensor:
    """log|I + R~ C / 2s²| over duels, computed over items as log|I + (K - B B') W_c / 2s²|."""
    graph: DuelGraph = residual.problem.graph
    rows = as_float(graph.rows)
    known = residual.factor, tf.zeros([], rows.dtype)
    features = whitened(residual.problem, known).features(rows)
    unexplained = kernel_matrix(residual.problem.kernel, rows)
    unexplained -= tf.matmul(features, features, transpose_b=True)
    laplacian = graph.laplacian.dense(residual.counts / residual.noise)
    identity = tf.eye(graph.num_rows, dtype=rows.dtype)
    return tf.linalg.slogdet(identity + tf.matmul(unexplained, laplacian)).log_abs_determinant
