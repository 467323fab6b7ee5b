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
    prior_variance,
)
from sparse_prefgp.approximations.exact import check_over
from sparse_prefgp.approximations.layout import choose_layout
from sparse_prefgp.covariances import LowRank, LowRankOverDuels, LowRankOverItems
from sparse_prefgp.covariances.item_effect import ItemEffect, feature_part, item_effects
from sparse_prefgp.covariances.kernels import (
    as_float,
    between_inducing,
    kernel_matrix,
    with_inducing,
)
from sparse_prefgp.data.graph import DuelGraph, Links, differences, squared_distances
from sparse_prefgp.factors.sites import Factors, powers_of
from sparse_prefgp.support.checks import plain_scalars
from sparse_prefgp.support.linalg import (
    MAX_CONDITION,
    cholesky_with_jitter,
    own_squared_lengths,
    solved_rows,
)

RESIDUAL_BOUNDS = ("diagonal", "rank", "logdet")
# So many item effects are inducing variables of their own: those of the most compared items.
MAX_ITEM_EFFECTS = 1000


class Residual(NamedTuple):
    """What the inducing values leave unexplained."""

    diagonal: tf.Tensor
    """k~ >= 0 (t,)."""
    factors: Factors
    """Without it, of noise 2 s² and counts c (t,)."""
    problem: DuelProblem
    factor: tf.Tensor
    """L with K_uu = L L'."""

    @property
    def counts(self) -> tf.Tensor:
        return self.factors.counts

    @property
    def noise(self) -> tf.Tensor:
        return self.factors.noise


@dataclass(frozen=True)
class SummedApproximation(Approximation):
    """One that reaches duels through inducing values, so that it can be made of chunks of them."""

    @property
    def single_precision(self) -> bool:
        """Whether sums over duels are in float32 while inference runs."""
        return False

    @abstractmethod
    def over_duels(
        self, problem: DuelProblem, basis: Whitened, chunk: int, look: bool = True
    ) -> DuelPrior:
        """The prior of the duels of a problem by their own features, `chunk` made at a time.

        :param look: whether residual or correction are wanted.
        """


@dataclass(frozen=True)
class InducingApproximation(SummedApproximation):
    """What the rows share: K_uu = L L', whitened features, k~."""

    over: str | None = field(default=None, kw_only=True, repr=False)
    """One of "items" or "duels" to force the form of the algebra; None takes the cheaper one."""
    single_precision: bool = field(default=False, kw_only=True, repr=False)
    """Sums and gathers over duels in float32 while inference runs, in the form over items only
    (docs/benchmarks.md has the error); the form over duels warns that it has none.
    """

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
        basis, graph = whitened(problem), problem.graph
        layout = choose_layout(self.over, graph, basis.size, basis.factor.dtype.size)
        if layout.over_items:
            return self.over_items(problem, basis, basis.features(as_float(graph.rows)), graph)
        if self.single_precision:
            warnings.warn(
                f"single_precision is for the form over items; {graph.num_sites:,} duels between "
                f"{graph.num_rows:,} items take the form over duels, in float64.",
                stacklevel=2,
            )
        return self.over_duels(problem, basis, layout.chunk)

    def over_items(
        self,
        problem: DuelProblem,
        basis: Whitened,
        features: tf.Tensor,
        links: Links,
        look: bool = True,
    ) -> DuelPrior:
        """The prior of the duels of a problem by the features of their items.

        :param features: B, (n, p).
        :param links: which of its rows each duel compares.
        :param look: whether residual or correction are wanted.
        """
        covariance = LowRankOverItems(features, links, self.single_precision)
        explained = squared_distances(links, features) if look else None
        return self._complete(problem, basis, covariance, explained)

    def over_duels(
        self, problem: DuelProblem, basis: Whitened, chunk: int, look: bool = True
    ) -> DuelPrior:
        """The prior of the duels of a problem by their own features, `chunk` made at a time."""
        features = features_of_duels(basis, problem.graph, chunk)
        explained = tf.concat([*map(own_squared_lengths, features)], 0) if look else None
        return self._complete(problem, basis, LowRankOverDuels(features), explained)

    def _complete(
        self,
        problem: DuelProblem,
        basis: Whitened,
        covariance: LowRank,
        explained: tf.Tensor | None,
    ) -> DuelPrior:
        """Factors, residual and correction next to a covariance: of all duels, or of a chunk.

        :param explained: |Phi_i|², (t,); None where neither residual nor correction is wanted.
        """
        whole, offset = build_factors(problem, problem.noise)
        zero = tf.zeros([], whole.noise.dtype)
        if explained is None:
            assert self.residual_share == 0.0
            return DuelPrior(covariance, whole, offset, zero, basis.features, basis.jitter, zero)
        raw = prior_variance(problem) - explained
        diagonal = tf.maximum(raw, tf.zeros_like(raw))
        clipped = tf.stop_gradient(tf.reduce_max(diagonal - raw))
        factors = whole._replace(
            noise=whole.noise + self.residual_share * diagonal,
            inside=diagonal if self.bounds_by_expectation else None,
        )
        correction = self.correction(Residual(diagonal, whole, problem, basis.factor))
        return DuelPrior(
            covariance, factors, offset, correction, basis.features, basis.jitter, clipped
        )


Pairs = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class Whitened(NamedTuple):
    """What all duels of a problem share: L with K_uu = L L', and the jitter that took."""

    factor: tf.Tensor
    jitter: tf.Tensor
    size: int
    """p, how many inducing values there are, item effects among them."""
    features: Callable[[tf.Tensor], tf.Tensor]
    """Maps inputs (N, D) to B = K_xu L⁻ᵀ, (N, p)."""
    pairs: Pairs
    """Maps rows of losers and of winners, (t, D) each, to Phi, (t, p), the difference of their
    features.
    """


def factorise(problem: DuelProblem) -> tuple[tf.Tensor, tf.Tensor]:
    """L with K_uu = L L', (m, m), and the jitter that took."""
    k_uu = between_inducing(problem.inducing_variable, feature_part(problem.kernel))
    return cholesky_with_jitter(k_uu, MAX_CONDITION)


def whitened(
    problem: DuelProblem, factorised: tuple[tf.Tensor, tf.Tensor] | None = None
) -> Whitened:
    """The inducing values of a problem, whitened.

    :param factorised: what `factorise` gave; None to ask it.
    """
    factor, jitter = factorise(problem) if factorised is None else factorised
    kernel, graph, inducing = problem.kernel, problem.graph, problem.inducing_variable
    effects, size = item_effects(kernel), factor.shape[0]
    if effects:
        size += len(items_with_effects(graph))

    def features(inputs: tf.Tensor) -> tf.Tensor:
        rows = inputs[..., :-1] if effects else inputs
        k_uf = with_inducing(inducing, feature_part(kernel), rows)
        found = solved_rows(factor, k_uf)
        if not effects:
            return found
        return tf.concat([found, _effect_features(effects[0], graph, inputs)], 1)

    def pairs(losers: tf.Tensor, winners: tf.Tensor) -> tf.Tensor:
        if effects:
            return features(losers) - features(winners)
        return solved_rows(factor, related_to_pairs(problem, losers, winners))

    return Whitened(factor, jitter, size, features, pairs)


def related_to_pairs(problem: DuelProblem, losers: tf.Tensor, winners: tf.Tensor) -> tf.Tensor:
    """K_uz, (m, t), for the rows (t, D) of both ends of each duel."""
    if problem.compiled is not None:
        return problem.compiled.related(losers, winners)
    inducing, kernel = problem.inducing_variable, problem.kernel
    return with_inducing(inducing, kernel, losers) - with_inducing(inducing, kernel, winners)


def features_of_duels(basis: Whitened, graph: DuelGraph, size: int) -> list[tf.Tensor]:
    """Phi, (t, p), in chunks of rows: features of the loser less those of the winner of each site.

    :param size: sites of a chunk. There is one chunk where items are fewer than duels, whose
        features are then those of all items; else no array holds the features of all items.
    """
    rows = as_float(graph.rows)
    t = graph.num_sites
    if graph.num_rows < t:
        return [differences(graph, basis.features(rows))]
    winners, losers = graph.edges
    parts: list[tf.Tensor] = []
    for start in range(0, t, size):
        at = slice(start, start + size)
        # One after the other in a compiled function too, else all chunks are in memory at once.
        with tf.control_dependencies(parts[-1:]):
            parts.append(basis.pairs(*(tf.gather(rows, ends[at]) for ends in (losers, winners))))
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
    """

    power: float = 0.5
    """p in (0, 1]."""

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
    known = residual.factor, tf.zeros([], rows.dtype)
    features = whitened(residual.problem, known).features(rows)
    unexplained = kernel_matrix(residual.problem.kernel, rows)
    unexplained -= tf.matmul(features, features, transpose_b=True)
    laplacian = graph.laplacian.dense(residual.counts / residual.noise)
    identity = tf.eye(graph.num_rows, dtype=rows.dtype)
    return tf.linalg.slogdet(identity + tf.matmul(unexplained, laplacian)).log_abs_determinant
