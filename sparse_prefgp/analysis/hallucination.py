"""Utilities that believe one draw of v: given v they are a Gaussian process.

Takeno, Nomura & Karasuyama (2023), "Towards practical preferential Bayesian optimization with skew
Gaussian processes". A believed v is a site of known mean: precision c / D and shift sum v / D, so
that prediction is that of any inferred model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelPrior, DuelProblem, Exact
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.factors.sites import Sites, totals
from sparse_prefgp.factors.truncated_draws import truncated_normals
from sparse_prefgp.models.posterior import Posterior, in_chunks
from sparse_prefgp.models.protocols import HoldsDuels
from sparse_prefgp.sampling import SAMPLED_UP_TO, sample_posterior
from sparse_prefgp.sampling.target import check_whole
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.linalg import factorised

# Draws of each of four chains, from which those that are believed are taken.
_DRAWS, _CHAINS = 1000, 4


class Hallucinations(NamedTuple):
    """q(f | v) for some drawn v; only the means differ."""

    posteriors: list[Posterior]
    exact: bool
    """v is from the exact posterior; else from the Gaussian one of inference, cut to what the duels
    say.
    """
    converged: bool
    """Whether the chains did, or else inference."""
    jitter: float
    """Of that Gaussian."""

    def moments(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean given each v, (count, N), and variance (N,) given any, of f at inputs (N, D); the
        features of an input are computed once."""
        first = self.posteriors[0]
        weights = tf.stack([posterior.terms.weights for posterior in self.posteriors], 1)

        def compute(x: tf.Tensor) -> tf.Tensor:
            a = first.features(x)
            variance = first.kernel(x, full_cov=False)
            variance -= tf.reduce_sum(tf.matmul(a, first.terms.reduction) * a, -1)
            means = tf.matmul(a, weights)
            if first.mean_function is not None:
                means += first.mean_function(x)
            return tf.concat([variance[:, None], means], 1)

        found = in_chunks(compute, as_float(inputs)).numpy()
        return found[:, 1:].T, found[:, 0]

    def notes(self) -> list[str]:
        """What to know about the drawn v, one sentence each."""
        if self.exact:
            text = "v is drawn from its exact posterior"
            return [f"{text}." if self.converged else f"{text}, by chains that have NOT converged."]
        text = (
            f"v is drawn from the Gaussian posterior of inference, cut to what the duels say, as "
            f"there are more than {SAMPLED_UP_TO:,} duels"
        )
        return [f"{text}." if self.converged else f"{text}; inference has NOT converged."]


def hallucinations(model: HoldsDuels, count: int, rng: np.random.Generator) -> Hallucinations:
    """The utilities given each of `count` draws of v.

    Up to 2,000 duels v is from the exact posterior and believed under the exact prior, whatever
    approximates it in the model; above, both are the model's own.

    :raises ValueError: answers about sets, tastes of people, and what `sample_posterior` raises.
    """
    model.allow(hallucination=True, sets=model.all_duels.noises is not None)
    if float(model.all_duels.counts.sum()) <= SAMPLED_UP_TO:
        return _from_the_exact_posterior(model, count, rng)
    return _from_the_inferred_posterior(model, count, rng)


def believed(problem: DuelProblem, prior: DuelPrior, v: FloatArray, site: IntArray) -> Posterior:
    """q(f | v), v (duels,) without the prior mean, one for each single duel, whose sites are
    `site` (duels,)."""
    noise = prior.factors.noise.numpy()
    shift = np.bincount(site, weights=v, minlength=len(noise)) / noise
    terms = prior.covariance.predict(prior.factors.counts / prior.factors.noise, as_float(shift))
    return Posterior(problem.kernel, problem.mean_function, prior.features, terms)


def _from_the_exact_posterior(
    model: HoldsDuels, count: int, rng: np.random.Generator
) -> Hallucinations:
    draws = sample_posterior(model, max(_DRAWS, count), rng, chains=_CHAINS)
    problem = model.exact_problem()
    prior = Exact().prior(problem)
    every = draws.v.reshape(-1, draws.v.shape[-1])
    taken = every[rng.choice(len(every), count, replace=False)]
    centred = taken - prior.offset.numpy()[draws.site]
    posteriors = [believed(problem, prior, v, draws.site) for v in centred]
    return Hallucinations(posteriors, True, draws.converged, 0.0)


def _from_the_inferred_posterior(
    model: HoldsDuels, count: int, rng: np.random.Generator
) -> Hallucinations:
    converged = model.infer().converged
    problem = model.problem()
    prior = model.approximation.prior(problem)
    factors, graph = prior.factors, model.graph
    sites = Sites(*(as_float(x) for x in model.sites()))
    terms = prior.covariance.predict(*totals(sites, factors.counts))
    inferred = Posterior(problem.kernel, problem.mean_function, prior.features, terms)
    rows = as_float(graph.rows)
    if model.approximation.needs_inducing:
        # u ~ N(w, I - R), and z = (a_loser - a_winner) u.
        root, jitter = factorised(np.eye(len(terms.weights)) - terms.reduction.numpy(), 1.0)
        mean, features = terms.weights.numpy(), prior.features(rows).numpy()
        offset = np.zeros(graph.num_sites)
    else:
        mean, covariance = (x.numpy() for x in inferred.joint(rows))
        root, jitter = factorised(covariance, float(np.mean(np.diag(covariance))))
        features = None
        offset = prior.offset.numpy()
    check_whole(graph)
    site = np.repeat(np.arange(graph.num_sites), graph.counts.astype(np.int64))
    sd = np.sqrt(factors.noise.numpy())[site]
    lower = None if factors.lower is None else factors.lower.numpy()[site]
    upper = factors.upper.numpy()[site]
    posteriors = []
    for _ in range(count):
        drawn = mean + root @ rng.standard_normal(len(mean))
        values = drawn if features is None else features @ drawn
        z = values[graph.losers] - values[graph.winners] - offset
        v = truncated_normals(z[site], sd, lower, upper, rng)
        posteriors.append(believed(problem, prior, v, site))
    return Hallucinations(posteriors, False, converged, jitter)
