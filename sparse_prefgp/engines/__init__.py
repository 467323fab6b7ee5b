"""Inference engines: how the sites are found, whatever the prior over z."""

from sparse_prefgp.engines.base import Engine as Engine
from sparse_prefgp.engines.base import FixedPoint as FixedPoint
from sparse_prefgp.engines.base import InferenceResult as InferenceResult
from sparse_prefgp.engines.base import Status as Status
from sparse_prefgp.engines.box import LowRankPlusDiagonal as LowRankPlusDiagonal
from sparse_prefgp.engines.box import TruncatedNormalResult as TruncatedNormalResult
from sparse_prefgp.engines.box import truncated_normal_ep as truncated_normal_ep
from sparse_prefgp.engines.laplace import Laplace as Laplace
from sparse_prefgp.engines.propagation import ParallelEP as ParallelEP
from sparse_prefgp.engines.propagation import PartitionedEP as PartitionedEP
from sparse_prefgp.engines.sequential import SequentialEP as SequentialEP
from sparse_prefgp.engines.variational import Variational as Variational
