"""DTC: what the inducing inputs leave unexplained is left out."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from sparse_prefgp.approximations.inducing import InducingApproximation, Residual
from sparse_prefgp.approximations.set_residual import SetResidual


@dataclass(frozen=True)
class DTC(InducingApproximation):
    """Deterministic training conditional, or projected process: `Q + 2s²I`, nothing added."""

    def correction(self, residual: Residual) -> tf.Tensor:
        return tf.zeros([], residual.noise.dtype)

    def correction_of_sets(self, residual: SetResidual) -> tf.Tensor:
        return tf.zeros([], residual.left.dtype)
