"""DTC: what the inducing inputs leave unexplained is left out."""

from __future__ import annotations

from dataclasses import dataclass

from sparse_prefgp.approximations.inducing import InducingApproximation


@dataclass(frozen=True)
class DTC(InducingApproximation):
    """Deterministic training conditional, or projected process: `Q + 2s²I`, nothing added."""
