"""The exact posterior by sampling, as the truth that engines are held to."""

from sparse_prefgp.sampling.check import SamplingCheck as SamplingCheck
from sparse_prefgp.sampling.check import check_against_sampling as check_against_sampling
from sparse_prefgp.sampling.draws import PosteriorDraws as PosteriorDraws
from sparse_prefgp.sampling.draws import sample_posterior as sample_posterior
from sparse_prefgp.sampling.problem import exact_problem as exact_problem
from sparse_prefgp.sampling.target import SAMPLED_UP_TO as SAMPLED_UP_TO
