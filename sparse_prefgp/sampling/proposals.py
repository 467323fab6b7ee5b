"""Draws of v that nearly follow a truncated normal, and Metropolis' rule that makes them do so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sparse_prefgp.factors.truncated_normal import log_mass
from sparse_prefgp.sampling.truncated import standard_draws
from sparse_prefgp.support.arrays import FloatArray, IntArray

# Drawn side by side: their state fits into the cache.
_CHUNK = 500


@dataclass(frozen=True, eq=False)
class TruncatedNormal:
    """v_i = features_i u + N(0, noise_i), u ~ N(0, I), given that lower < v < upper.

    The sites exp(nu z - tau z²/2) on z = features u say what to expect of duels not yet drawn. Any
    will do; good ones, such as EP's, make proposals that are nearly always taken.
    """

    features: FloatArray
    """(t, r)."""
    noise: FloatArray
    """(t,), noise > 0, tau >= 0, limits may be infinite; lower None is -inf everywhere."""
    lower: FloatArray | None
    """(t,), noise > 0, tau >= 0, limits may be infinite; lower None is -inf everywhere."""
    upper: FloatArray
    """(t,), noise > 0, tau >= 0, limits may be infinite; lower None is -inf everywhere."""
    nu: FloatArray
    """(t,), noise > 0, tau >= 0, limits may be infinite; lower None is -inf everywhere."""
    tau: FloatArray
    """(t,), noise > 0, tau >= 0, limits may be infinite; lower None is -inf everywhere."""


@dataclass(frozen=True)
class _Step:
    """How v_i depends on the natural mean of u given the v before: without and with later sites."""

    prior_gain: FloatArray
    prior_sd: float
    gain: FloatArray
    shift: float
    sd: float


def propose(
    target: TruncatedNormal, count: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """`proposals` as one array of v (count, t) and one of log weights (count,)."""
    v, log_weights = zip(*proposals(target, count, rng), strict=True)
    return np.concatenate(v), np.concatenate(log_weights)


def proposals(
    target: TruncatedNormal, count: int, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Independent proposals of v (k, t), and the log of target over proposal (k,), in parts.

    Duel after duel, v_i is drawn from its normal given those before it, times the sites of those
    after it, cut to its limits. Without sites this is the GHK simulator (Geweke 1991; Hajivassiliou
    & McFadden 1998; Keane 1994), whose weights degenerate after some dozen duels; with them it
    looks ahead (Guarniero, Johansen & Lee 2017). The weights are Π N(v_i | prior) /
    N(v_i | proposal) · mass of the cut; their mean is the probability of the box, without bias.
    Costs O(t r²) once and O(t r) a proposal.
    """
    size, rank = target.features.shape
    steps = _plan(target)
    for start in range(0, count, _CHUNK):
        k = min(_CHUNK, count - start)
        v, log_weight = np.empty((size, k)), np.zeros(k)
        known = np.zeros((rank, k))  # natural mean of u given the v drawn so far
        for i, step in enumerate(steps):
            mean = step.gain @ known + step.shift
            low = None if target.lower is None else (target.lower[i] - mean) / step.sd
            high = (target.upper[i] - mean) / step.sd
            x = standard_draws(low, high, 1.0 - rng.random(k))
            drawn = mean + step.sd * x
            away = (drawn - step.prior_gain @ known) / step.prior_sd
            log_weight += log_mass(low, high) + 0.5 * (x * x - away * away)
            log_weight += np.log(step.sd / step.prior_sd)
            known += target.features[i][:, None] * (drawn / target.noise[i])
            v[i] = drawn
        # Only now, as rounding at the limit may not enter the weights.
        np.minimum(v, target.upper[:, None], out=v)
        if target.lower is not None:
            np.maximum(v, target.lower[:, None], out=v)
        yield v.T, log_weight


def _plan(target: TruncatedNormal) -> list[_Step]:
    """One step for each duel; all that does not depend on what is drawn."""
    features, noise, nu, tau = target.features, target.noise, target.nu, target.tau
    identity = np.eye(features.shape[1])
    past = identity.copy()  # Cov[u | v before i]
    # Cov[u | v before i, sites from i on], and the natural mean of those sites.
    both = np.linalg.inv(identity + features.T @ (tau[:, None] * features))
    later = features.T @ nu
    steps = []
    for i, row in enumerate(features):
        # The duel's own site is taken out; what it leaves cannot be more certain than with it.
        along = both @ row
        left = max(1.0 - tau[i] * float(row @ along), np.finfo(float).tiny)
        both += (tau[i] / left) * np.outer(along, along)
        later = later - nu[i] * row
        gain, prior_gain = both @ row, past @ row
        # Rounding aside, later sites cannot add variance.
        prior_variance = float(row @ prior_gain)
        total = min(max(float(row @ gain), 0.0), prior_variance) + noise[i]
        prior_total = prior_variance + noise[i]
        prior_sd, sd = float(np.sqrt(prior_total)), float(np.sqrt(total))
        steps.append(_Step(prior_gain, prior_sd, gain, float(gain @ later), sd))
        past -= np.outer(prior_gain, prior_gain) / prior_total
        both -= np.outer(gain, gain) / total
    return steps


def independence_metropolis(
    log_weights: FloatArray, warmup: int, rng: np.random.Generator
) -> IntArray:
    """Which of its proposals each chain is at, (chains, draws), from weights (chains, all).

    Proposal i is taken with probability min(1, weight_i / weight of the state) (Metropolis and
    others 1953, Hastings 1970), so that the chain draws from the target exactly; else it stays.
    The first `warmup` are left out of the result.
    """
    chains, count = log_weights.shape
    every, at = np.arange(chains), np.zeros(chains, dtype=np.int64)
    path = np.empty((chains, count), dtype=np.int64)
    rise = -rng.exponential(size=(chains, count))
    for i in range(count):
        taken = log_weights[:, i] - log_weights[every, at] > rise[:, i]
        at = np.where(taken, i, at)
        path[:, i] = at
    return path[:, warmup:]
