"""The true evidence of small problems, by importance sampling, with its error."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from sparse_prefgp.quadrature import log_mass

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP

FloatArray = npt.NDArray[np.float64]

SAMPLED_UP_TO = 2000
# Below this share of the samples, or this number (or half of them, where there are few), the
# standard error itself is not to be trusted.
_SMALL_SHARE, _SMALL_NUMBER = 0.02, 100
# Variance over noise: up to 1e9 the samples agreed with the limit without noise, at 1e12 not.
_LARGEST_RATIO = 1e8
# Samples drawn side by side: their state fits into the cache.
_CHUNK = 500
# Singular values of the duels' features below this share of the largest are rounding.
_RANK_TOLERANCE = 1e-8


@dataclass(frozen=True)
class SampledEvidence:
    """An estimate of the true exact log evidence.

    log_evidence: log of the mean weight, in nats over all duels. standard_error: its own.
    effective_samples: (sum w)² / sum w², as many equal weights are worth these. samples, seed: as
    asked. ep_log_evidence: exact EP's figure for the same model, which the samples were drawn
    around. ep_converged: whether that run did.
    """

    log_evidence: float
    standard_error: float
    effective_samples: float
    samples: int
    seed: int
    ep_log_evidence: float
    ep_converged: bool

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

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON."""
        return {**asdict(self), "reliable": self.reliable}

    def __str__(self) -> str:
        return (
            f"log evidence {self.log_evidence:.4f} ± {self.standard_error:.4f} nats "
            f"({self.effective_samples:,.0f} effective of {self.samples:,} samples); "
            f"exact EP {self.ep_log_evidence:.4f}"
        )


def importance_sampling(
    model: PreferenceGP, samples: int = 10_000, seed: int = 0
) -> SampledEvidence:
    """Estimate the true log evidence of all duels under the exact prior, whatever approximates it.

    Duels are drawn one after the other: v_i given those before it, from its normal under the prior
    times EP's sites of the duels *after* it, cut to its limits. Without the sites this is the GHK
    simulator (Geweke 1991; Hajivassiliou & McFadden 1998; Keane 1994), whose weights degenerate
    after some dozen duels; with them a sample knows what is still to come (twisted as by
    Guarniero, Johansen & Lee 2017). The mean weight is the evidence, without bias.

    Args:
        model: its kernel, noise, mean function and duels; approximation and Z do not matter.
        samples: how many. 10,000 take 2 seconds for 300 duels, 10 for 1,000.
        seed: of the draws.

    Raises:
        ValueError: fewer than 2 samples, more than 2,000 duels, weights that are not whole, a
            prior variance of more than 1e8 times the noise, or a kernel that is not positive
            semi-definite.
    """
    result = sample_evidence(model, samples, seed)
    if not result.reliable:
        warnings.warn(result.doubt, stacklevel=2)
    return result


def sample_evidence(model: PreferenceGP, samples: int, seed: int) -> SampledEvidence:
    """`importance_sampling` without a warning."""
    if samples < 2:
        raise ValueError(f"samples is {samples}; an estimate with an error needs at least 2.")
    graph = model.all_duels
    if np.any(graph.counts != np.floor(graph.counts)):
        raise ValueError(
            "Importance sampling draws whole duels, but some have weights that are not whole "
            "numbers; use lower_bound() and log_evidence()."
        )
    duels = int(graph.counts.sum())
    if duels > SAMPLED_UP_TO:
        raise ValueError(
            f"Importance sampling is for up to {SAMPLED_UP_TO:,} duels, but the model has "
            f"{duels:,}; use lower_bound() and log_evidence()."
        )
    import tensorflow as tf

    from sparse_prefgp.approximations import Exact
    from sparse_prefgp.engines import ParallelEP
    from sparse_prefgp.engines.base import describe
    from sparse_prefgp.sites import Sites

    problem = model.problem()._replace(graph=graph, inducing_variable=None)
    prior = Exact().prior(problem)
    factors = prior.factors
    engine = ParallelEP()
    point = engine.run(prior.covariance, factors, Sites.zeros(graph.num_sites, factors.upper.dtype))
    nu, tau, noise, upper = (
        x.numpy().astype(float) for x in (*point.sites, factors.noise, factors.upper)
    )
    kernel = problem.kernel(tf.constant(graph.rows, factors.upper.dtype)).numpy()
    features = _features(kernel, graph.winners, graph.losers)
    ratio = float(np.max(np.sum(features**2, 1) / noise))
    if not ratio <= _LARGEST_RATIO:
        raise ValueError(
            f"The prior variance of a duel is {ratio:.1e} times its noise, and above "
            f"{_LARGEST_RATIO:.0e} sampling loses its digits; lower the kernel variance or raise "
            "the noise variance."
        )
    # Sharp sites first: what they fix need not be guessed by those after them.
    order = np.argsort(-tau, kind="stable")
    each = np.repeat(order, graph.counts[order].astype(int))
    log_weights = twisted_log_weights(
        features[each],
        noise[each],
        None if factors.lower is None else factors.lower.numpy().astype(float)[each],
        upper[each],
        nu[each],
        tau[each],
        samples,
        np.random.default_rng(seed),
    )
    value, error, effective = summarise(log_weights)
    return SampledEvidence(
        log_evidence=value,
        standard_error=error,
        effective_samples=effective,
        samples=samples,
        seed=seed,
        ep_log_evidence=float(point.log_evidence()),
        ep_converged=describe(point, engine.tolerance).converged,
    )


def twisted_log_weights(
    features: FloatArray,
    noise: FloatArray,
    lower: FloatArray | None,
    upper: FloatArray,
    nu: FloatArray,
    tau: FloatArray,
    samples: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Log weights (samples,) whose mean weight is P(lower < v < upper), without bias.

    v_i = features_i u + N(0, noise_i), u ~ N(0, I), are drawn in the order given. Any sites
    (tau >= 0) on features_i u will do; EP's make the weights nearly equal.

    :param features: (t, r). noise, lower, upper, nu, tau: (t,), noise > 0.
    """
    size, rank = features.shape
    plan = _plan(features, noise, nu, tau)
    parts = []
    for start in range(0, samples, _CHUNK):
        count = min(_CHUNK, samples - start)
        # Natural mean of u given the v drawn so far.
        known, log_weight = np.zeros((rank, count)), np.zeros(count)
        for i in range(size):
            step = plan[i]
            prior_mean = step.prior_gain @ known
            mean = step.gain @ known + step.shift
            x, log_z = _truncated(
                None if lower is None else (lower[i] - mean) / step.sd,
                (upper[i] - mean) / step.sd,
                1.0 - rng.random(count),  # in (0, 1]
            )
            v = mean + step.sd * x
            away = (v - prior_mean) / step.prior_sd
            # log N(v | prior) - log N(v | proposal) + log mass of the cut
            log_weight += log_z + 0.5 * (x * x - away * away) + np.log(step.sd / step.prior_sd)
            known += features[i][:, None] * (v / noise[i])
        parts.append(log_weight)
    return np.concatenate(parts)


def summarise(log_weights: FloatArray) -> tuple[float, float, float]:
    """Log mean weight, its standard error by the delta method, and the effective sample size."""
    count = len(log_weights)
    value = float(logsumexp(log_weights) - np.log(count))
    weights = np.exp(log_weights - value)
    effective = float(np.sum(weights) ** 2 / np.sum(weights**2))
    return value, float(np.std(weights, ddof=1) / np.sqrt(count)), effective


@dataclass(frozen=True)
class _Step:
    """How v_i depends on the natural mean of u: under the prior, and with later sites."""

    prior_gain: FloatArray
    prior_sd: float
    gain: FloatArray
    shift: float
    sd: float


def _plan(features: FloatArray, noise: FloatArray, nu: FloatArray, tau: FloatArray) -> list[_Step]:
    """One step per duel; all that does not depend on the samples."""
    size, rank = features.shape
    identity = np.eye(rank)
    past = identity.copy()  # Cov[u | v before i]
    # Cov[u | v before i, sites from i on], and the shift of those sites.
    inner = identity + features.T @ (tau[:, None] * features)
    both = np.linalg.inv(inner)
    later = features.T @ nu
    steps = []
    for i in range(size):
        row = features[i]
        along = both @ row
        # Its own site is taken out, and replaced by the limits; never more certain than with it.
        left = max(1.0 - tau[i] * float(row @ along), np.finfo(float).tiny)
        both += (tau[i] / left) * np.outer(along, along)
        later = later - nu[i] * row
        gain, prior_gain = both @ row, past @ row
        spread, prior_spread = float(row @ gain), float(row @ prior_gain)
        # Rounding aside, later sites cannot add variance.
        spread = min(max(spread, 0.0), prior_spread)
        total, prior_total = spread + noise[i], prior_spread + noise[i]
        steps.append(
            _Step(
                prior_gain, float(np.sqrt(prior_total)), gain, float(gain @ later), np.sqrt(total)
            )
        )
        past -= np.outer(prior_gain, prior_gain) / prior_total
        both -= np.outer(gain, gain) / total
    return steps


def _truncated(
    a: FloatArray | None, b: FloatArray, uniform: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Standard normals cut to (a, b) by inversion, and the log mass of (a, b)."""
    log_z = log_mass(a, b)
    if a is None:
        return ndtri_exp(log_ndtr(b) + np.log(uniform)), log_z
    with np.errstate(invalid="ignore"):  # -inf + inf: no limits, nothing to reflect
        turn = a + b > 0.0
    low, high = np.where(turn, -b, a), np.where(turn, -a, b)
    top = log_ndtr(high)
    ratio = np.exp(log_ndtr(low) - top)
    x = np.clip(ndtri_exp(top + np.log(uniform + (1.0 - uniform) * ratio)), low, high)
    return np.where(turn, -x, x), log_z


def _features(kernel: FloatArray, winners: Any, losers: Any) -> FloatArray:
    """F (t, r) with F F' = A K A', r the rank."""
    tolerance = max(_RANK_TOLERANCE, 1e3 * float(np.finfo(kernel.dtype).eps))
    values, vectors = np.linalg.eigh(kernel.astype(float))
    if values[0] < -tolerance * values[-1]:
        raise ValueError(
            f"The kernel matrix of the items has the negative eigenvalue {values[0]:.3g}; use a "
            "kernel that is positive semi-definite."
        )
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    left, singular, _ = np.linalg.svd(root[losers] - root[winners], full_matrices=False)
    kept = singular > _RANK_TOLERANCE * max(singular[0], np.finfo(float).tiny)
    result: FloatArray = left[:, kept] * singular[kept]
    return result
