"""Parts with which GPflow's own models take duels."""

from sparse_prefgp.gpflow_blocks import DuelKernel as DuelKernel
from sparse_prefgp.gpflow_blocks import DuelLikelihood as DuelLikelihood
from sparse_prefgp.gpflow_blocks import ItemInducingPoints as ItemInducingPoints
from sparse_prefgp.gpflow_blocks import stacked_duels as stacked_duels
