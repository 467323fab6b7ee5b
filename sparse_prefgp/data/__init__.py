"""Duels, the table of events, features, splits, and the graph that the numerics see."""

from typing import TYPE_CHECKING

from sparse_prefgp.support.public import public

if TYPE_CHECKING:
    from sparse_prefgp.data import duels as duels
    from sparse_prefgp.data import features as features
    from sparse_prefgp.data import splits as splits
    from sparse_prefgp.data import table as table

__getattr__, __dir__ = public(__name__)
