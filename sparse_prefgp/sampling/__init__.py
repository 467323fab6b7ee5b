"""The exact posterior by sampling, as the truth that engines are held to."""

from sparse_prefgp.sampling.check import SamplingCheck, check_against_sampling
from sparse_prefgp.sampling.draws import PosteriorDraws, sample_posterior
from sparse_prefgp.sampling.target import SAMPLED_UP_TO

__all__ = [
    "SAMPLED_UP_TO",
    "PosteriorDraws",
    "SamplingCheck",
    "check_against_sampling",
    "sample_posterior",
]
