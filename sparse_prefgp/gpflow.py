"""Parts with which GPflow's own models take duels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparse_prefgp.support.public import public

if TYPE_CHECKING:
    from sparse_prefgp.gpflow_blocks import DuelKernel as DuelKernel
    from sparse_prefgp.gpflow_blocks import DuelLikelihood as DuelLikelihood
    from sparse_prefgp.gpflow_blocks import ItemInducingPoints as ItemInducingPoints
    from sparse_prefgp.gpflow_blocks import stacked_duels as stacked_duels

__getattr__, __dir__ = public(__name__)
