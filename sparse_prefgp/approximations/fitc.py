"""FITC and its relatives: all of k~, or a share of it, is noise of each duel."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from sparse_prefgp.approximations.inducing import InducingApproximation
from sparse_prefgp.approximations.residual import Residual
from sparse_prefgp.support.checks import check_number


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
