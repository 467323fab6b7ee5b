"""Inference engines: how the sites are found, whatever the prior over z."""

from sparse_prefgp.engines.base import Engine, FixedPoint, InferenceResult, Status
from sparse_prefgp.engines.box import (
    LowRankPlusDiagonal,
    TruncatedNormalResult,
    truncated_normal_ep,
)
from sparse_prefgp.engines.parallel import ParallelEP
from sparse_prefgp.engines.sequential import SequentialEP

__all__ = [
    "Engine",
    "FixedPoint",
    "InferenceResult",
    "LowRankPlusDiagonal",
    "ParallelEP",
    "SequentialEP",
    "Status",
    "TruncatedNormalResult",
    "truncated_normal_ep",
]
