"""The inducing-point approximations, the rows of docs/method.md, section 3.

With `Q = Phi Phi'` the covariance of z that the inducing values explain and k~ the diagonal of the
residual `K_vv - Q`, a row is two decisions: how much of k~ joins the noise of each duel, and what
is added to the log evidence. s² stands for sigma², c for counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import DuelPrior, DuelProblem
from sparse_prefgp.approximations.exact import check_over
from sparse_prefgp.approximations.forms import SummedApproximation, form_of
from sparse_prefgp.approximations.residual import Residual
from sparse_prefgp.approximations.whitened import whitened
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import check_choice, check_number, plain_scalars


@dataclass(frozen=True)
class InducingApproximation(SummedApproximation):
    """What the rows share: K_uu = L L', whitened features, k~. To be derived from.

    A row of one's own says `residual_share`, the share of k~ that joins the noise, `correction`, or
    both, and with `register` it has a name; `is_bound` only where that is proved.
    """

    over: str | None = field(default=None, kw_only=True, repr=False)
    """One of "items" or "duels" to force the form of the algebra; None takes the cheaper one."""
    single_precision: bool = field(default=False, kw_only=True, repr=False)
    """Sums and gathers over duels in float32 while inference runs, in the form over items only
    (docs/benchmarks.md has the error); the form over duels warns that it has none.
    """

    def __post_init__(self) -> None:
        plain_scalars(self)
        check_over(self.over)
        label = f"The residual_share of {self.name}"
        check_number(label, self.residual_share, least=0.0, most=1.0)

    @property
    def summed_over_duels(self) -> bool:
        return True

    @property
    def penalises_residual(self) -> bool:
        return type(self).correction is not SummedApproximation.correction

    def select(self, graph: DuelGraph) -> DuelGraph:
        """The same; in the form over duels copies of an answer about a set are apart: each has
        noises of its own."""
        return graph.one_by_one() if self.over == "duels" else graph

    def prior(self, problem: DuelProblem) -> DuelPrior:
        return form_of(problem, self.over)(self, problem)


@dataclass(frozen=True)
class DTC(InducingApproximation):
    """Deterministic training conditional, or projected process: `Q + 2s²I`, nothing added."""


@dataclass(frozen=True)
class VFE(InducingApproximation):
    """Titsias' (2009) variational bound, eq. 9: `Q + 2s²I`, `- sum c k~ / 4s²`.

    The only row whose value never falls when a training item joins Z.
    """

    is_bound: ClassVar[bool] = True
    grows_with_z: ClassVar[bool] = True
    bounds_by_expectation: ClassVar[bool] = True

    def correction(self, left: Residual) -> tf.Tensor:
        """Of people with tastes `-½ Σ_u tr[(R_u + 2s²I)⁻¹ A_u (K_0 - Q_0) A_u']`: own tastes are
        noise to g, so that this is a bound as `-½ Σ k~ / 2s²` is, and far tighter."""
        return -0.5 * left.trace()


# Bounds of -½ log|I + R~/2s²|, the cost of the residual R~, that are tighter than VFE's own.


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


@dataclass(frozen=True)
class TightVFE(InducingApproximation):
    """`Q + 2s²I` with a tighter bound of `-½ log|I + R~/2s²|` (Titsias 2025; Bui et al. 2025)."""

    is_bound: ClassVar[bool] = True
    residual: str = "diagonal"
    """One of "diagonal", `-½ sum c log(1 + k~/2s²)`, of a count c below 1 `-½ log(1 + c k~/2s²)`,
    since a share of a duel is not a share of its residual, and of a set of k alternatives by the
    mean of its k - 1 contrasts; "block", which is the same for duels, and takes the log-determinant
    of all contrasts of each set, which is tighter; "rank", which uses that the residual of
    duels has rank at most rho = items - connected components, `-½ rho log(1 + sum c k~ / (2s²
    rho))`; "logdet", the log-determinant itself, O(n³) over items.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("TightVFE's residual", self.residual, RESIDUAL_BOUNDS)

    @property
    def summed_over_duels(self) -> bool:
        return self.residual in ("diagonal", "block")

    def correction(self, left: Residual) -> tf.Tensor:
        return RESIDUAL_BOUNDS[self.residual](left)


@dataclass(frozen=True)
class FITC(InducingApproximation):
    """Fully independent training conditional (Snelson & Ghahramani 2005): `Q + diag(k~) + 2s²I`."""

    @property
    def residual_share(self) -> float:
        return 1.0


@dataclass(frozen=True)
class HeteroscedasticVFE(InducingApproximation):
    """`Q + diag(k~) + 2s²I`, `- ½ sum c k~/(2s² + k~)`: Titsias' bound for FITC.

    Not a lower bound of the evidence of the model that was asked for (docs/method.md, section 3).
    """

    @property
    def residual_share(self) -> float:
        return 1.0

    def correction(self, left: Residual) -> tf.Tensor:
        return -0.5 * left.shrunk()


@dataclass(frozen=True)
class PriorPower(InducingApproximation):
    """Between VFE (power → 0) and FITC (power 1): `Q + p diag(k~) + 2s²I` and
    `-(1-p)/2p sum c log(1 + p k~/2s²)` (Bui, Yan & Turner 2017).
    """

    power: float = 0.5
    """p in (0, 1]."""

    def __post_init__(self) -> None:
        hint = ", or use VFE(), the limit 0"
        check_number("The power of PriorPower", self.power, above=0.0, most=1.0, hint=hint)
        super().__post_init__()

    @property
    def penalises_residual(self) -> bool:
        return self.power < 1.0

    @property
    def residual_share(self) -> float:
        return self.power

    def correction(self, left: Residual) -> tf.Tensor:
        p = self.power
        return -(1.0 - p) / (2.0 * p) * left.log_det(p)
