"""What the covariance of z can be: dense, low rank, or low rank plus blocks.

Every class here offers the same door to the engines (`Covariance` in `base.py`); an engine never
asks which one it got.
"""

from sparse_prefgp.covariances.base import (
    Column,
    Covariance,
    Marginals,
    SequentialCovariance,
    SequentialState,
)
from sparse_prefgp.covariances.dense import DenseOverDuels, DenseOverItems
from sparse_prefgp.covariances.item_effect import ItemEffect
from sparse_prefgp.covariances.low_rank import LowRankOverDuels, LowRankOverItems
from sparse_prefgp.covariances.low_rank_base import LowRank
from sparse_prefgp.covariances.low_rank_blocks import LowRankPlusBlocks

__all__ = [
    "Column",
    "Covariance",
    "DenseOverDuels",
    "DenseOverItems",
    "ItemEffect",
    "LowRank",
    "LowRankOverDuels",
    "LowRankOverItems",
    "LowRankPlusBlocks",
    "Marginals",
    "SequentialCovariance",
    "SequentialState",
]
