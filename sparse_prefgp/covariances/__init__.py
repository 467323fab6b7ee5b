"""What the covariance of z can be: dense, low rank, low rank plus blocks, or of items in time.

Every class here offers the same door to the engines (`Covariance` in `base.py`); an engine never
asks which one it got.
"""

from sparse_prefgp.covariances.base import Column as Column
from sparse_prefgp.covariances.base import Covariance as Covariance
from sparse_prefgp.covariances.base import Marginals as Marginals
from sparse_prefgp.covariances.base import SequentialCovariance as SequentialCovariance
from sparse_prefgp.covariances.base import SequentialState as SequentialState
from sparse_prefgp.covariances.dense import DenseOverDuels as DenseOverDuels
from sparse_prefgp.covariances.dense import DenseOverItems as DenseOverItems
from sparse_prefgp.covariances.item_effect import ItemEffect as ItemEffect
from sparse_prefgp.covariances.item_in_context import ItemTimes as ItemTimes
from sparse_prefgp.covariances.item_in_context import SameLevel as SameLevel
from sparse_prefgp.covariances.item_in_time import ItemInTime as ItemInTime
from sparse_prefgp.covariances.items_in_time import ItemsInTime as ItemsInTime
from sparse_prefgp.covariances.levels import LowRankWithLevels as LowRankWithLevels
from sparse_prefgp.covariances.levels import LowRankWithPairs as LowRankWithPairs
from sparse_prefgp.covariances.low_rank import LowRankBesideColumns as LowRankBesideColumns
from sparse_prefgp.covariances.low_rank import LowRankOverDuels as LowRankOverDuels
from sparse_prefgp.covariances.low_rank import LowRankOverItems as LowRankOverItems
from sparse_prefgp.covariances.low_rank_base import LowRank as LowRank
from sparse_prefgp.covariances.low_rank_blocks import LowRankPlusBlocks as LowRankPlusBlocks
from sparse_prefgp.covariances.low_rank_effects import (
    FeaturesBesideEffects as FeaturesBesideEffects,
)
from sparse_prefgp.covariances.low_rank_effects import LowRankWithEffects as LowRankWithEffects
from sparse_prefgp.covariances.low_rank_sets import LowRankOverSets as LowRankOverSets
from sparse_prefgp.covariances.low_rank_tastes import LowRankPlusTastes as LowRankPlusTastes
from sparse_prefgp.covariances.pair_effect import PairEffect as PairEffect
from sparse_prefgp.covariances.projected import Projected as Projected
