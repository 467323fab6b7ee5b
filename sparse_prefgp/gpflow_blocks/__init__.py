"""Building blocks with which GPflow's own models take duels.

The latent function of a duel is g = f(first) - f(second), on inputs that hold the features of both
items side by side; the first wins with probability Phi(g / sqrt(2 sigma²)). The models here are
GPflow's, so that everything in its documentation applies; `PreferenceGP` does not need them.
"""

from sparse_prefgp.gpflow_blocks.kernel import DuelKernel as DuelKernel
from sparse_prefgp.gpflow_blocks.kernel import ItemInducingPoints as ItemInducingPoints
from sparse_prefgp.gpflow_blocks.likelihood import DuelLikelihood as DuelLikelihood
from sparse_prefgp.gpflow_blocks.stacking import stacked_duels as stacked_duels
