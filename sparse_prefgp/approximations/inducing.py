"""Inducing-point approximations: the rows of the table of docs/method.md, section 3.

With `Q = Phi Phi'` the covariance of z that the inducing values explain and k~ the diagonal of the
residual `K_vv - Q`, a row is two decisions: how much of k~ joins the noise of each duel, and what
is added to the log evidence. s² stands for sigma², c for counts.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import (
    Approximation,
    DuelPrior,
    DuelProblem,
    build_factors,
)
from sparse_prefgp.approximations.exact import check_over
from sparse_prefgp.approximations.form import choose_form
from sparse_prefgp.checks import plain_scalars
from sparse_prefgp.covariances import Covariance, LowRankOverDuels, LowRankOverItems
from sparse_prefgp.covariances.item_effect import ItemEffect, feature_part, item_effects
from sparse_prefgp.covariances.kernels import (
    as_float,
    between_inducing,
    difference_variance,
    kernel_matrix,
    with_inducing,
)
from sparse_prefgp.graph import DuelGraph, differences, squared_distances
from sparse_prefgp.linalg import MAX_CONDITION, cholesky_with_jitter
from sparse_prefgp.sites import Factors, powers_of

RESIDUAL_BOUNDS = ("diagonal", "rank", "logdet")
# So many item effects are inducing variables of their own: those of the most compared items.
MAX_ITEM_EFFECTS = 1000


class Residual(NamedTuple):
    """What the inducing values leave unexplained.

    diagonal: k~ >= 0 (t,); factors: without it, of noise 2 s² and counts c (t,); factor: L with
    K_uu = L L'.
    """

    diagonal: tf.Tensor
    factors: Factors
    problem: DuelProblem
    factor: tf.Tensor

    @property
    def counts(self) -> tf.Tensor:
        return self.factors.counts

    @property
    def noise(self) -> tf.Tensor:
        return self.factors.noise


@dataclass(frozen=True)
class InducingApproximation(Approximation):
    """What the rows share: K_uu = L L', whitened features, k~.

    over: "items" or "duels" to force the form of the algebra; None takes the cheaper one.
    single_precision: sums and gathers over duels in float32 while inference runs, in the form over
        items only (docs/benchmarks.md has the error); the form over duels warns that it has none.
    """

    over: str | None = field(default=None, kw_only=True, repr=False)
    single_precision: bool = field(default=False, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        plain_scalars(self)
        check_over(self.over)

    @property
    def summed_over_duels(self) -> bool:
        return True

    @property
    def bounds_by_expectation(self) -> bool:
        """Whether the correction is what taking k~ into the expectations gives a Gaussian v."""
        return False

    @abstractmethod
    def correction(self, residual: Residual) -> tf.Tensor:
        """What is added to log Z, a scalar."""

    def prior(self, problem: DuelProblem) -> DuelPrior:
        graph, inducing = problem.graph, problem.inducing_variable
        k_uu = between_inducing(inducing, feature_part(problem.kernel))
        factor, jitter = cholesky_with_jitter(k_uu, MAX_CONDITION)

        def features(inputs: tf.Tensor) -> tf.Tensor:
            return whitened_features(problem, factor, inputs)

        covariance: Covariance
        size = k_uu.shape[0]
        if item_effects(problem.kernel):
            size += len(items_with_effects(graph))
        form = choose_form(self.over, graph, size, k_uu.dtype.size)
        if form.over_items:
            item_features = features(as_float(graph.rows))
            covariance = LowRankOverItems(item_features, graph, self.single_precision)
            explained = squared_distances(graph, item_features)
        else:
            if self.single_precision:
                warnings.warn(
                    f"single_precision is for the form over items; {graph.num_sites:,} duels "
                    f"between {graph.num_rows:,} items take the form over duels, in float64.",
                    stacklevel=2,
                )
            duel_features = features_of_duels(features, graph, form.chunk)
            covariance = LowRankOverDuels(duel_features)
            explained = tf.concat([tf.reduce_sum(x**2, -1) for x in duel_features], 0)

        raw = difference_variance(problem.kernel, graph) - explained
        diagonal = tf.maximum(raw, tf.zeros_like(raw))
        clipped = tf.stop_gradient(tf.reduce_max(diagonal - raw))
        whole, offset = build_factors(problem, problem.noise)
        factors = whole._replace(
            noise=whole.noise + self.residual_share * diagonal,
            inside=diagonal if self.bounds_by_expectation else None,
        )
        residual = Residual(diagonal, whole, problem, factor)
        return DuelPrior(
            covariance, factors, offset, self.correction(residual), features, jitter, clipped
        )


def whitened_features(problem: DuelProblem, factor: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """B = K_xu L⁻ᵀ, (N, m), for inputs (N, D) and K_uu = L L'.

    With item effects, inputs are (N, D + 1) and B has one more column for each effect that is an
    inducing variable.
    """
    kernel = problem.kernel
    effects = item_effects(kernel)
    rows = inputs[..., :-1] if effects else inputs
    k_uf = with_inducing(problem.inducing_variable, feature_part(kernel), rows)
    features = tf.transpose(tf.linalg.triangular_solve(factor, k_uf))
    if not effects:
        return features
    return tf.concat([features, _effect_features(effects[0], problem.graph, inputs)], 1)


def features_of_duels(
    features: Callable[[tf.Tensor], tf.Tensor], graph: DuelGraph, size: int
) -> list[tf.Tensor]:
    """Phi, (t, p), in chunks of rows: features of the loser less those of the winner of each site.

    size: sites of a chunk. There is one chunk, unless items are no fewer than duels and too many
    for two: then no array holds the features of all items.
    """
    rows = as_float(graph.rows)
    t = graph.num_sites
    if graph.num_rows <= 2 * size or graph.num_rows < t:
        return [differences(graph, features(rows))]
    winners, losers = graph.edges
    parts: list[tf.Tensor] = []
    for start in range(0, t, size):
        at = slice(start, start + size)
        # One after the other in a compiled function too, else all chunks are in memory at once.
        with tf.control_dependencies(parts[-1:]):
            ahead, behind = (features(tf.gather(rows, ends[at])) for ends in (losers, winners))
            parts.append(ahead - behind)
    return parts


def items_with_effects(graph: DuelGraph) -> np.ndarray:
    """Numbers of the items whose effects are inducing variables: the most compared ones."""
    numbers = graph.rows[:, -1]
    order = np.argsort(-graph.comparisons, kind="stable")
    return np.sort(numbers[order[:MAX_ITEM_EFFECTS]])


def _effect_features(effect: ItemEffect, graph: DuelGraph, inputs: tf.Tensor) -> tf.Tensor:
    same = inputs[:, -1:] == as_float(items_with_effects(graph))[None, :]
    return tf.sqrt(effect.variance) * tf.cast(same, inputs.dtype)


@dataclass(frozen=True)
class DTC(InducingApproximation):
    """Deterministic training conditional, or projected process: `Q + 2s²I`, nothing added."""

    def correction(self, residual: Residual) -> tf.Tensor:
        return tf.zeros([], residual.noise.dtype)


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
    """`Q + 2s²I` with a tighter bound of `-½ log|I + R~/2s²|` (Titsias 2025; Bui et al. 2025).

    residual: "diagonal", `-½ sum c log(1 + k~/2s²)`, of a count c below 1 `-½ log(1 + c k~/2s²)`,
    since a share of a duel is no share of its residual; "rank", which uses that the residual of
    duels has rank at most rho = items - connected components,
    `-½ rho log(1 + sum c k~ / (2s² rho))`; "logdet", the log-determinant itself, O(n³) over items.
    """

    is_bound: ClassVar[bool] = True
    residual: str = "diagonal"

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


@dataclass(frozen=True)
class FITC(InducingApproximation):
    """Fully independent training conditional (Snelson & Ghahramani 2005): `Q + diag(k~) + 2s²I`."""

    @property
    def residual_share(self) -> float:
        return 1.0

    def correction(self, residual: Residual) -> tf.Tensor:
        return tf.zeros([], residual.noise.dtype)


@dataclass(frozen=True)
class HeteroscedasticVFE(InducingApproximation):
    """`Q + diag(k~) + 2s²I`, `- ½ sum c k~/(2s² + k~)`: Titsias' bound for FITC.

    Not a lower bound of the evidence of the model that was asked for (docs/method.md, section 3).
    """

    @property
    def residual_share(self) -> float:
        return 1.0

    @property
    def penalises_residual(self) -> bool:
        return True

    def correction(self, residual: Residual) -> tf.Tensor:
        k = residual.diagonal
        return -0.5 * tf.reduce_sum(residual.counts * k / (residual.noise + k))


@dataclass(frozen=True)
class PriorPower(InducingApproximation):
    """Between VFE (power → 0) and FITC (power 1): `Q + p diag(k~) + 2s²I` and
    `-(1-p)/2p sum c log(1 + p k~/2s²)` (Bui, Yan & Turner 2017).

    power: p in (0, 1].
    """

    power: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.power <= 1.0:
            raise ValueError(
                f"PriorPower needs a power in (0, 1], not {self.power}; "
                "for 0 use VFE(), for 1 FITC()."
            )

    @property
    def penalises_residual(self) -> bool:
        return self.power < 1.0

    @property
    def residual_share(self) -> float:
        return self.power

    def correction(self, residual: Residual) -> tf.Tensor:
        p = self.power
        each = tf.math.log1p(p * residual.diagonal / residual.noise)
        return -(1.0 - p) / (2.0 * p) * tf.reduce_sum(residual.counts * each)


def _residual_log_det(residual: Residual) -> tf.Tensor:
    """log|I + R~ C / 2s²| over duels, computed over items as log|I + (K - B B') W_c / 2s²|."""
    graph: DuelGraph = residual.problem.graph
    rows = as_float(graph.rows)
    features = whitened_features(residual.problem, residual.factor, rows)
    unexplained = kernel_matrix(residual.problem.kernel, rows)
    unexplained -= tf.matmul(features, features, transpose_b=True)
    laplacian = graph.laplacian.dense(residual.counts / residual.noise)
    identity = tf.eye(graph.num_rows, dtype=rows.dtype)
    return tf.linalg.slogdet(identity + tf.matmul(unexplained, laplacian)).log_abs_determinant
