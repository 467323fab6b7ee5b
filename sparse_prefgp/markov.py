"""Markov kernels of one number in time, for `ItemInTime`."""

from sparse_prefgp.covariances.markov import Constant as Constant
from sparse_prefgp.covariances.markov import MarkovKernel as MarkovKernel
from sparse_prefgp.covariances.markov import MarkovSum as MarkovSum
from sparse_prefgp.covariances.markov import Matern12 as Matern12
from sparse_prefgp.covariances.markov import Matern32 as Matern32
from sparse_prefgp.covariances.markov import Wiener as Wiener
