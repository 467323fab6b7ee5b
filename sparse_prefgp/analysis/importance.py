"""The true evidence of small problems, by importance sampling, with its error."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.sampling import exact_problem
from sparse_prefgp.sampling.proposals import proposals
from sparse_prefgp.sampling.target import exact_target, num_single_slots
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import check_number
from sparse_prefgp.support.randomness import seed_of
from sparse_prefgp.tell.result import Figures

# Below this share of the samples, or this number (or half of them, where there are few), the
# standard error itself is not to be trusted.
_SMALL_SHARE, _SMALL_NUMBER = 0.02, 100


@dataclass(frozen=True)
class SampledEvidence(Figures):
    """An estimate of the true exact log evidence."""

    also = ("reliable",)

    log_evidence: float
    """log of the mean weight, in nats over all duels."""
    standard_error: float
    """Standard error of the estimate."""
    effective_samples: float
    """(sum w)² / sum w², as many equal weights are worth these."""
    samples: int
    """Number of samples drawn."""
    seed: int
    """Seed that they were drawn from."""
    ep_log_evidence: float
    """Exact EP's figure for the same model, which the samples were drawn around."""
    ep_converged: bool
    """Whether that run did."""

    @property
    def reliable(self) -> bool:
        """Whether enough samples carry weight for the standard error to mean something."""
        enough = min(_SMALL_NUMBER, 0.5 * self.samples)
        return self.effective_samples >= max(enough, _SMALL_SHARE * self.samples)

    @property
    def doubt(self) -> str:
        """Why it is not reliable, one sentence."""
        return (
            f"Only {self.effective_samples:.0f} of {self.samples} samples carry the weight, so "
            "that the standard error is not to be trusted; draw more samples."
        )

    def __str__(self) -> str:
        return (
            f"log evidence {self.log_evidence:.4f} ± {self.standard_error:.4f} nats "
            f"({self.effective_samples:,.0f} effective of {self.samples:,} samples); "
            f"exact EP {self.ep_log_evidence:.4f}"
        )


def importance_sampling(
    model: PreferenceGP, samples: int = 10_000, rng: np.random.Generator | None = None
) -> SampledEvidence:
    """Estimate the true log evidence of all duels under the exact prior, whatever approximates it.

    The mean weight of the proposals of `sample_posterior` is the evidence, without bias: duels, and
    rows of answers about sets, are drawn one after the other with EP's sites of those to come
    (docs/method.md, sections 3 and 11).

    :param model: its kernel, noise, mean function and duels; approximation and Z do not matter.
    :param samples: how many. 10,000 take 2 seconds for 300 duels, 10 for 1,000.
    :param rng: of the draws.
    :raises ValueError: fewer than 2 samples, more than 2,000 duels or rows of answers, weights that
        are not whole, logit factors, a prior variance of more than 1e8 times the noise, or a kernel
        that is not positive semi-definite.
    """
    result = sample_evidence(model, samples, seed_of(rng))
    if not result.reliable:
        warnings.warn(result.doubt, stacklevel=2)
    return result


def sample_evidence(model: PreferenceGP, samples: int, seed: int) -> SampledEvidence:
    """`importance_sampling` without a warning."""
    check_number("samples", samples, least=2, whole=True)
    num_single_slots(model.all_duels, "use lower_bound() and log_evidence()")
    lead = exact_target(exact_problem(model))
    chunks = proposals(lead.target, samples, np.random.default_rng(seed))
    value, error, effective = summarise(np.concatenate([weights for _, weights in chunks]))
    return SampledEvidence(
        log_evidence=value,
        standard_error=error,
        effective_samples=effective,
        samples=samples,
        seed=seed,
        ep_log_evidence=lead.log_evidence,
        ep_converged=lead.converged,
    )


def summarise(log_weights: FloatArray) -> tuple[float, float, float]:
    """Log mean weight, its standard error by the delta method, and the effective sample size."""
    count = len(log_weights)
    value = float(logsumexp(log_weights) - np.log(count))
    weights = np.exp(log_weights - value)
    effective = float(np.sum(weights) ** 2 / np.sum(weights**2))
    return value, float(np.std(weights, ddof=1) / np.sqrt(count)), effective
