"""Inference engines: how the sites are found, whatever the prior over z."""

from sparse_prefgp.engines.base import Engine, FixedPoint, InferenceResult, Status
from sparse_prefgp.engines.box import (
    LowRankPlusDiagonal,
    TruncatedNormalResult,
    truncated_normal_ep,
)
from sparse_prefgp.engines.laplace import Laplace
from sparse_prefgp.engines.parallel import ParallelEP
from sparse_prefgp.engines.partitioned import PartitionedEP
from sparse_prefgp.engines.sequential import SequentialEP
from sparse_prefgp.engines.variational import Variational

__all__ = [
    "Engine",
    "FixedPoint",
    "InferenceResult",
    "Laplace",
    "LowRankPlusDiagonal",
    "ParallelEP",
    "PartitionedEP",
    "SequentialEP",
    "Status",
    "TruncatedNormalResult",
    "Variational",
    "truncated_normal_ep",
]
