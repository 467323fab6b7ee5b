"""Draws from the exact posterior of utilities given duels, and what they say with which error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy.special import ndtr

from sparse_prefgp.approximations import DuelProblem
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix, pair_difference_variance
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.factors.noise import ONE_NOISE, NoiseRatios
from sparse_prefgp.sampling.diagnostics import (
    bulk_ess,
    quantile_error,
    split_rhat,
    standard_error,
)
from sparse_prefgp.sampling.problem import Preferences, exact_problem, kernel_inputs
from sparse_prefgp.sampling.proposals import independence_metropolis, propose
from sparse_prefgp.sampling.target import WhitenedPrior, exact_target, num_single_slots
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import whole_number
from sparse_prefgp.support.machine import ask

# What Vehtari et al. (2021), section 4, ask for before anything is believed.
LARGEST_RHAT, ESS_PER_CHAIN = 1.01, 100
# Pairs at a time: bounds the memory of draws × pairs.
_CHUNK = 256
# Doubles that the draws may take, 1.6 GB.
_LARGEST_DRAWS = 200_000_000


@dataclass(frozen=True, eq=False)
class Summary:
    """Posterior of f(a) - f(b) for N pairs, (N,) each, every figure with its Monte Carlo error.

    mean, sd, skewness (third standardised moment) of the difference; probability that a beats b in
    a new duel of nobody in particular, beyond the margin where there is one.
    `*_error`: standard errors, from the effective sample size of what each is the average of. rhat:
    rank-normalised split R-hat, ess: bulk effective sample size.
    """

    mean: FloatArray
    mean_error: FloatArray
    sd: FloatArray
    sd_error: FloatArray
    skewness: FloatArray
    skewness_error: FloatArray
    probability: FloatArray
    probability_error: FloatArray
    rhat: FloatArray
    ess: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorDraws:
    """Draws from the exact posterior; f given v is normal, so that v is all that is kept."""

    v: FloatArray
    """(chains, draws, t) one noisy difference f(loser) - f(winner) for each single duel, the prior
    mean included, within the limits, and for each row of an answer about a set; where rows
    outnumber what they tell apart, the noisy utilities of the alternatives in their place, up to
    what all items share.
    """
    site: IntArray
    """(t,) the row of `graph` of each; with answers about sets its place in
    `sampling.target.Slots`.
    """
    graph: DuelGraph
    """The duels, or the rows of answers about sets."""
    rhat: FloatArray
    """(t,) rank-normalised split R-hat of each v (Vehtari et al. 2021)."""
    ess: FloatArray
    """(t,) bulk effective sample size of each v."""
    acceptance: float
    """Share of the proposals that were taken."""
    longest_stay: int
    """Draws that a chain stayed at one place at most."""
    warmup: int
    """Draws of each chain that were left out."""
    reference_converged: bool
    """Whether EP, whose sites lead the proposals, did; draws are right without."""
    _prior: WhitenedPrior
    _inputs: Callable[[Any, int, Any], tf.Tensor]
    _new_ratios: NoiseRatios

    @property
    def converged(self) -> bool:
        """Whether R-hat is below 1.01 and the bulk sample size above 100 a chain, for every v."""
        worst, least = float(np.max(self.rhat)), float(np.min(self.ess))
        return worst <= LARGEST_RHAT and least >= ESS_PER_CHAIN * len(self.v)

    def __str__(self) -> str:
        chains, draws, duels = self.v.shape
        what = "duels" if self.graph.noises is None else "rows of answers"
        found = (
            f"largest R-hat {np.max(self.rhat):.4f}, smallest bulk effective sample size "
            f"{np.min(self.ess):,.0f}, {100 * self.acceptance:.0f} % of proposals taken, longest "
            f"stay {self.longest_stay}"
        )
        text = f"{chains} chains of {draws:,} draws for {duels:,} {what}: {found}"
        if self.converged:
            return f"{text}. The chains have converged."
        return (
            f"{text}. The chains have NOT converged (R-hat should be at most {LARGEST_RHAT}, the "
            f"sample size at least {ESS_PER_CHAIN * chains}); take more draws."
        )

    __repr__ = __str__

    def check_of(self, model: Preferences) -> None:
        """Refuse a model whose exact posterior is another one.

        :raises ValueError: other duels, prior or noise than those of the draws.
        """
        same_noise = all(map(np.array_equal, self._new_ratios, model.likelihood.new_ratios()))
        if not (same_noise and self._prior.is_of(exact_problem(model))):
            raise ValueError(
                "The draws are from the posterior of another model, with other duels, kernel, mean "
                "or noise; give draws = sample_posterior(model, ...) of this one."
            )

    def utilities(
        self, rng: np.random.Generator, items: Any = None, people: Any = None
    ) -> FloatArray:
        """Joint draws of f at N items, (chains, draws, N); f given v is normal.

        :param items: (N, D) as `predict_f` takes them; by default the n rows of `graph`.
        :param people: whose utility it is at each of them, as of `PreferenceGP.predict_difference`.
        """
        rows = as_float(self.graph.rows) if items is None else self._inputs(items, 0, people)
        prior = self._prior
        features = prior.features(rows)
        mean = prior.mean(rows) + self._centred() @ prior.gain(features)[:, self.site].T
        covariance = kernel_matrix(prior.kernel, rows).numpy() - features @ features.T
        covariance += features @ prior.spread(features.T)
        values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
        root = vectors * np.sqrt(np.maximum(values, 0.0))  # negative only by rounding
        return mean + rng.normal(size=mean.shape) @ root.T

    def differences(
        self, Xa: Any, Xb: Any, rng: np.random.Generator, people: Any = None
    ) -> FloatArray:
        """Draws of f(a) - f(b), (chains, draws, N), for items (N, D) and (N, D), pair by pair.

        :param people: whose utility it is, as of `PreferenceGP.predict_difference`.
        """
        mean, variance = self._given(*self._pairs(Xa, Xb, people))
        return mean + np.sqrt(variance) * rng.normal(size=mean.shape)

    def quantiles(
        self, Xa: Any, Xb: Any, levels: npt.ArrayLike, rng: np.random.Generator, people: Any = None
    ) -> tuple[FloatArray, FloatArray]:
        """Quantiles of f(a) - f(b) and their Monte Carlo standard errors, (levels, N) each."""
        each = np.atleast_1d(np.asarray(levels, dtype=float))
        wrong = each[~((each > 0.0) & (each < 1.0))]
        if wrong.size:
            raise ValueError(f"levels has {wrong[0]}; give numbers between 0 and 1, such as 0.975.")
        drawn = self.differences(Xa, Xb, rng, people)
        return (
            np.quantile(drawn, each, axis=(0, 1)),
            np.stack([quantile_error(drawn, float(level)) for level in each]),
        )

    def difference(self, Xa: Any, Xb: Any, people: Any = None) -> Summary:
        """Posterior of f(a) - f(b) for items Xa (N, D) and Xb (N, D), pair by pair.

        Averages over v of what is known in closed form given v, so that items need no draws.

        :param people: whose utility it is, as of `PreferenceGP.predict_difference`.
        """
        return self._summary(*self._pairs(Xa, Xb, people))

    def own_duels(self) -> Summary:
        """Posterior of f(winner) - f(loser) for every row of `graph`."""
        rows = self.graph.rows
        return self._summary(as_float(rows[self.graph.winners]), as_float(rows[self.graph.losers]))

    def _pairs(self, Xa: Any, Xb: Any, people: Any) -> tuple[tf.Tensor, tf.Tensor]:
        first = self._inputs(Xa, 0, people)
        second = self._inputs(Xb, len(first), people)
        if len(first) != len(second) or len(first) == 0:
            raise ValueError(
                f"Xa has {len(first)} rows and Xb {len(second)}; give one item of each per pair."
            )
        return first, second

    def _centred(self) -> FloatArray:
        """v without the prior mean."""
        return self.v - self._prior.offset[self.site]

    def _given(self, first: tf.Tensor, second: tf.Tensor) -> tuple[FloatArray, FloatArray]:
        """E[f(a) - f(b) | v] of every draw, (chains, draws, N), and the variance given v, (N,)."""
        prior = self._prior
        features = prior.features(first) - prior.features(second)
        known = np.sum(features * features, 1) - np.sum(features * prior.spread(features.T).T, 1)
        variance = pair_difference_variance(prior.kernel, first, second).numpy() - known
        same = np.all(first.numpy() == second.numpy(), 1)
        gain = prior.gain(features)[:, self.site]
        mean = prior.mean(first) - prior.mean(second) + self._centred() @ gain.T
        return mean, np.where(same, 0.0, np.maximum(variance, 0.0))  # negative only by rounding

    def _summary(self, first: tf.Tensor, second: tf.Tensor) -> Summary:
        noise, margin, ratios = self._prior.duel_noise, self._prior.margin, self._new_ratios
        parts = []
        for i in range(0, len(first), _CHUNK):
            given = self._given(first[i : i + _CHUNK], second[i : i + _CHUNK])
            parts.append(summarise(*given, noise, margin, ratios))
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return Summary(*(np.concatenate(column) for column in columns))


def summarise(
    means: FloatArray,
    variance: FloatArray,
    duel_noise: float,
    margin: float = 0.0,
    ratios: NoiseRatios = ONE_NOISE,
) -> Summary:
    """Summary of d from E[d | v] (chains, draws, N) and Var[d | v] (N,), normal given v.

    The error of a figure is that of the mean of its influence function, which for the third central
    moment M is x³ - M - 3 V x with x = d - E d and V its variance.

    :param ratios: by what the noise 2 sigma² of a new duel is multiplied.
    """
    mean = np.mean(means, axis=(0, 1))
    x = means - mean
    between, third = np.mean(x**2, axis=(0, 1)), np.mean(x**3, axis=(0, 1))
    total = between + variance
    scale = np.where(total > 0.0, total, 1.0)
    spread = x**2 - between
    skewed = (x**3 - third - 3.0 * between * x) / scale**1.5 - 1.5 * third * spread / scale**2.5
    wins = np.zeros_like(means)
    for ratio, weight, of_cuts in zip(*ratios, strict=True):
        wins += weight * ndtr((means - of_cuts * margin) / np.sqrt(variance + ratio * duel_noise))
    return Summary(
        mean=mean,
        mean_error=standard_error(means),
        sd=np.sqrt(total),
        sd_error=standard_error(spread / (2.0 * np.sqrt(scale))),
        skewness=third / scale**1.5,
        skewness_error=standard_error(skewed),
        probability=np.mean(wins, axis=(0, 1)),
        probability_error=standard_error(wins),
        rhat=split_rhat(means),
        ess=bulk_ess(means),
    )


def _as_they_are(items: Any, before: int, people: Any) -> tf.Tensor:
    """Rows for a problem, as `kernel_inputs` makes them for a model."""
    return as_float(items)


def sample_posterior(
    model: Preferences | DuelProblem,
    num_draws: int,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    warmup: int | None = None,
) -> PosteriorDraws:
    """Draw from the exact posterior given all duels, whatever approximates it in the model.

    Chains of independence Metropolis on v, one for each single duel and each row of a single answer
    about a set, with proposals that EP's sites lead (docs/method.md, section 11). They are right
    whatever the sites; how well they mix is measured and reported.

    :param model: a `PreferenceGP`, whose kernel, noise, mean function and duels count; or a
        `DuelProblem`, whose items are then rows as its kernel takes them, and whose new duels have
        the noise 2 sigma².
    :param num_draws: kept of each chain, at least 4; 2,000 of 4 chains take some 4 seconds for 300
        duels, 1,000 some 6 for 1,000 duels between 200 items.
    :param rng: of all draws.
    :param chains: at least 2, which R-hat compares.
    :param warmup: draws left out at the start of each chain; a quarter of `num_draws` by default.
    :raises ValueError: more than 2,000 v, counts included; weights that are not whole; a model
        with logit factors; numbers that make no sense; a prior variance of more than 1e8 times the
        noise; limits that meet; or a kernel that is not positive semi-definite.
    """
    num_draws = whole_number("num_draws", num_draws, 4)
    chains = whole_number("chains", chains, 2)
    warmup = num_draws // 4 if warmup is None else whole_number("warmup", warmup, 0)
    inputs: Callable[[Any, int, Any], tf.Tensor] = _as_they_are
    if isinstance(model, DuelProblem):
        problem, ratios = model, ONE_NOISE
    else:
        problem, ratios = exact_problem(model), model.likelihood.new_ratios()
        inputs = partial(kernel_inputs, model)
    graph, number = problem.graph, chains * (num_draws + warmup)
    duels = num_single_slots(graph, "sample a model of a part of the duels")
    if duels * number > _LARGEST_DRAWS:
        raise ValueError(
            f"{number:,} draws of {duels:,} duels take {8e-9 * duels * number:.1f} GB; ask for at "
            f"most {_LARGEST_DRAWS // duels:,} draws in all chains, warm-up included."
        )
    # What is proposed, what is kept of it, and a copy of one.
    ask(3 * 8 * duels * number, f"{number:,} draws of {duels:,} duels", "ask for fewer draws")
    found = exact_target(problem)
    site = found.site
    v, log_weights = propose(found.target, number, rng)
    path = independence_metropolis(log_weights.reshape(chains, -1), warmup, rng)
    # A chain that begins with many stays is left with them: they are part of how it mixes.
    every = v.reshape(chains, num_draws + warmup, -1)
    kept = np.stack([own[at] for own, at in zip(every, path, strict=True)])
    kept += found.prior.offset[site]
    moves = np.diff(path, axis=1) > 0
    return PosteriorDraws(
        v=kept,
        site=site,
        graph=graph,
        rhat=split_rhat(kept),
        ess=bulk_ess(kept),
        acceptance=float(np.mean(moves)),
        longest_stay=max(int(np.max(np.bincount(at - at[0]))) for at in path),
        warmup=warmup,
        reference_converged=found.converged,
        _prior=found.prior,
        _inputs=inputs,
        _new_ratios=ratios,
    )
