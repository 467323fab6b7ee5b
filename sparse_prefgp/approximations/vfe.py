"""VFE, the variational bound, and the tighter bounds: what k~ costs the log evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from sparse_prefgp.approximations.inducing import InducingApproximation
from sparse_prefgp.approximations.residual import Residual
from sparse_prefgp.approximations.residual_bounds import RESIDUAL_BOUNDS
from sparse_prefgp.support.checks import check_choice


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
