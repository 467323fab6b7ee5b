"""Draws of the exact posterior: the pieces, the truth by quadrature, other samplers, the report."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import gpflow
import mpmath
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp.approximations import DuelProblem
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.factors.truncated_draws import standard_draws
from sparse_prefgp.sampling import draws as draws_module
from sparse_prefgp.sampling import target as target_module
from sparse_prefgp.sampling.diagnostics import (
    bulk_ess,
    mean_ess,
    quantile_error,
    split_rhat,
    standard_error,
)
from sparse_prefgp.sampling.draws import PosteriorDraws, sample_posterior, summarise
from sparse_prefgp.sampling.proposals import TruncatedNormal, independence_metropolis, propose
from sparse_prefgp.sampling.target import duel_features
from tests.cases import DUEL_CASES, ORTHANT_CASES, case_model, incidence, random_duels
from tests.reference.slow_sampling import (
    alternation,
    elliptical_slices,
    gibbs,
    halves,
    linear_slices,
    scores,
    slow_ess,
    slow_rhat,
)
from tests.reference.slow_truncated_normal import log_cdf, truncated_normal
from tests.tolerances import (
    FIXED_POINT,
    IDENTITY,
    INITIAL_SEQUENCE,
    MONTE_CARLO_STANDARD_ERRORS,
    RHAT_OF_SLOW_CHAINS,
    ROUNDING,
)

SE = MONTE_CARLO_STANDARD_ERRORS


def within(found: Any, truth: Any, error: Any) -> None:
    """All within four standard errors."""
    away = np.abs(np.asarray(found) - truth) / np.asarray(error)
    assert np.max(away) < SE, f"{np.max(away):.2f} standard errors"


def posterior_of(model: Any, draws: int = 1000, seed: int = 0, **more: Any) -> PosteriorDraws:
    return sample_posterior(model, draws, np.random.default_rng(seed), **more)


def model_of(duels: spg.Duels, approximation: Any = None, **more: Any) -> spg.PreferenceGP:
    approximation = approximation or spg.Exact()
    if approximation.needs_inducing:
        more.setdefault("inducing_variable", duels.items[:3])
    kernel = more.pop("kernel", None) or gpflow.kernels.SquaredExponential(variance=1.5)
    return spg.PreferenceGP(duels, kernel, approximation=approximation, **more)


# Truncated normals.


@pytest.mark.parametrize("b", [5.0, 0.3, -4.9, -5.1, -30.0, -1000.0, -1e6])
def test_half_lines_are_inverted_to_the_last_digits(b: float) -> None:
    uniform = np.array([1e-12, 1e-3, 0.4, 0.999, 1.0])
    x = standard_draws(None, np.full(5, b), uniform)
    with mpmath.workdps(60):
        shares = [float(log_cdf(v) - log_cdf(b)) for v in x.tolist()]
    # As far as x itself, near b, can be told from its neighbours.
    rounding = max(IDENTITY, 4 * abs(b) * float(np.spacing(abs(b))))
    np.testing.assert_allclose(shares, np.log(uniform), atol=rounding, rtol=IDENTITY)


@pytest.mark.parametrize(
    "limits", [(-1.0, 0.5), (-40.0, -39.9), (50.0, 52.0), (-1000.0, -999.999), (3.0, math.inf)]
)
def test_intervals_are_inverted_to_the_last_digits(limits: tuple[float, float]) -> None:
    """From the far side of the interval: reflected into the lower tail."""
    a, b = limits
    uniform = np.array([1e-6, 0.3, 0.999])
    x = standard_draws(np.full(3, a), np.full(3, b), uniform)
    sign = -1.0 if a + b > 0.0 else 1.0
    low, high = sorted((sign * a, sign * b))
    with mpmath.workdps(60):
        mass = mpmath.ncdf(high) - mpmath.ncdf(low)
        shares = [float((mpmath.ncdf(sign * v) - mpmath.ncdf(low)) / mass) for v in x.tolist()]
    rounding = 4 * abs(a) * float(np.spacing(abs(a)))
    np.testing.assert_allclose(shares, uniform, rtol=FIXED_POINT, atol=rounding)


def test_no_tail_is_too_far_and_no_draw_outside() -> None:
    uniform = np.array([1.0, 2.0**-53, 0.5])
    for a, b in (
        (None, -1e8),
        (None, -1e4),
        (1e8, math.inf),
        (-1e6, -1e6 + 1e-3),
        (-math.inf, 9.0),
    ):
        low = None if a is None else np.full(3, a)
        x = standard_draws(low, np.full(3, b), uniform)
        assert np.all(np.isfinite(x))
        assert np.all(x <= b) and (a is None or np.all(x >= a))


@pytest.mark.parametrize(("low", "high"), [(-math.inf, 0.0), (-0.1, 0.4), (2.0, math.inf)])
def test_draws_have_the_moments(low: float, high: float) -> None:
    rng = np.random.default_rng(1)
    mean, variance, count = 0.7, 0.3, 20_000
    sd = math.sqrt(variance)
    a, b = (np.full(count, (limit - mean) / sd) for limit in (low, high))
    v = mean + sd * standard_draws(a, b, 1.0 - rng.random(count))
    truth = truncated_normal(mean, variance, low, high)
    within(v.mean(), float(truth.mean), v.std() / math.sqrt(count))
    spread = (v - v.mean()) ** 2
    within(spread.mean(), float(truth.variance), spread.std() / math.sqrt(count))


# Diagnostics.


def autoregression(phi: float, chains: int, draws: int, q: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = np.empty((chains, draws, q))
    x[:, 0] = rng.normal(size=(chains, q))
    for i in range(1, draws):
        x[:, i] = phi * x[:, i - 1] + math.sqrt(1 - phi**2) * rng.normal(size=(chains, q))
    return x


@pytest.mark.parametrize("phi", [0.0, 0.7, -0.6])
def test_diagnostics_are_those_of_explicit_loops(phi: float) -> None:
    x = autoregression(phi, 3, 41, 2)
    x[0, :, 1] += 0.8
    x[1, 3:9, 0] = x[1, 2, 0]  # ties, as Metropolis makes them
    for j in range(2):
        one = x[:, :, j]
        assert split_rhat(x)[j] == pytest.approx(slow_rhat(one), rel=IDENTITY)
        assert bulk_ess(x)[j] == pytest.approx(slow_ess(scores(halves(one))), rel=IDENTITY)
        assert mean_ess(x)[j] == pytest.approx(slow_ess(halves(one)), rel=IDENTITY)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
@pytest.mark.covering(every=3)
def test_effective_sample_size_of_an_autoregression(phi: float) -> None:
    """(1 - phi) / (1 + phi) of the draws, within the spread over independent quantities."""
    x = autoregression(phi, 4, 2000, 40)
    for found in (bulk_ess(x), mean_ess(x)):
        truth = 8000 * (1 - phi) / (1 + phi)
        within(found.mean(), truth, found.std() / math.sqrt(40) + INITIAL_SEQUENCE * truth / SE)
    assert np.max(split_rhat(x)) < RHAT_OF_SLOW_CHAINS
    means = x.mean((0, 1))
    assert np.mean((means / standard_error(x)) ** 2) == pytest.approx(
        1.0, abs=SE * math.sqrt(2 / 40)
    )


def test_errors_of_quantiles_cover() -> None:
    x = autoregression(0.5, 4, 1000, 200)
    for level in (0.05, 0.5):
        found = np.quantile(x, level, axis=(0, 1))
        ratio = (found - ndtri(level)) / quantile_error(x, level)
        assert np.mean(ratio**2) == pytest.approx(1.0, abs=SE * math.sqrt(2 / 200) + 0.05)


def test_chains_that_disagree_are_found() -> None:
    x = autoregression(0.0, 4, 500, 3)
    x[0, :, 0] += 1.0  # another place
    x[1, :, 1] *= 3.0  # another width
    rhat = split_rhat(x)
    assert min(rhat[:2]) > RHAT_OF_SLOW_CHAINS and rhat[2] < draws_module.LARGEST_RHAT
    assert bulk_ess(x)[0] < 100
    drift = autoregression(0.0, 2, 500, 1) + np.linspace(0, 2, 500)[None, :, None]
    assert split_rhat(drift)[0] > 1.1
    still = np.zeros((2, 10, 1))
    assert split_rhat(still)[0] == 1.0 and bulk_ess(still)[0] == 20


# Proposals and Metropolis.


@pytest.mark.parametrize("index", range(len(ORTHANT_CASES)))
@pytest.mark.covering(every=6)
def test_weights_average_to_the_orthant_probability(index: int) -> None:
    case = ORTHANT_CASES[index]
    covariance = np.array(case["cov"], dtype=float)
    values, vectors = np.linalg.eigh(covariance)
    noise = np.full(len(values), 0.5 * values[0])
    features = vectors * np.sqrt(values - noise)
    ep = spg.truncated_normal_ep(0.0, spg.LowRankPlusDiagonal(features, noise))
    zero = 0.0 * noise
    for nu, tau in ((zero, zero), (ep.nu, ep.tau)):
        target = TruncatedNormal(features, noise, None, zero, nu, tau)
        v, log_weights = propose(target, 4000, np.random.default_rng(index))
        weights = np.exp(log_weights - case["log_orthant"])
        error = weights.std() / math.sqrt(4000)
        within(weights.mean(), 1.0, error + case.get("standard_error", 0.0) + IDENTITY)
        assert np.all(v <= 0.0)


def test_metropolis_draws_in_proportion_to_weights() -> None:
    """Proposals of four kinds, equally likely: each is kept as often as its weight says."""
    rng = np.random.default_rng(0)
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    kind = rng.integers(4, size=(4, 20_000))
    path = independence_metropolis(np.log(weights[kind]), 100, rng)
    assert path.shape == (4, 19_900)
    seen = np.take_along_axis(kind, path, 1)[..., None] == np.arange(4)
    seen = seen.astype(float)
    within(seen.mean((0, 1)), weights, standard_error(seen))


# The posterior of one difference, by quadrature.


def two_items(
    wins: int, losses: int, noise_variance: float, mean: bool = False
) -> tuple[spg.PreferenceGP, float, float]:
    """A model of duels between two items, and prior mean and variance of f(0) - f(1)."""
    items = np.array([[0.0], [1.0]])
    both = slice(None if losses else 1)
    duels = spg.Duels(items, [0, 1][both], [1, 0][both], counts=[wins, losses][both])
    function = gpflow.functions.Linear(A=[[0.8]], b=[3.0]) if mean else None
    model = spg.PreferenceGP(
        duels,
        gpflow.kernels.SquaredExponential(variance=2.0),
        noise_variance=noise_variance,
        mean_function=function,
    )
    return model, -0.8 if mean else 0.0, 4.0 * (1.0 - math.exp(-0.5))


class OneDimension:
    """The posterior of d = f(0) - f(1), integrated."""

    def __init__(self, wins: int, losses: int, noise: float, mean: float, variance: float) -> None:
        self.scale, sd = math.sqrt(2 * noise), math.sqrt(variance)

        grid = np.linspace(mean - 12 * sd, mean + 12 * sd, 200_001)
        x = grid / self.scale
        log = wins * log_ndtr(x) + losses * log_ndtr(-x) + norm.logpdf(grid, mean, sd)
        density = np.exp(log - log.max())
        self.grid, self.density = grid, density / np.sum(density)
        self.mean = self.average(grid)
        self.sd = math.sqrt(self.average((grid - self.mean) ** 2))
        self.skewness = self.average((grid - self.mean) ** 3) / self.sd**3
        self.probability = self.average(ndtr(x))

    def average(self, values: np.ndarray) -> float:
        return float(np.sum(self.density * values))

    def quantile(self, level: float) -> float:
        return float(np.interp(level, np.cumsum(self.density), self.grid))


@pytest.mark.parametrize(
    ("wins", "losses", "noise", "mean"),
    [(1, 0, 0.5, False), (5, 2, 0.5, True), (1, 0, 0.001, True), (3, 2, 0.01, False)],
)
@pytest.mark.covering(every=4)
def test_two_items_against_quadrature(wins: int, losses: int, noise: float, mean: bool) -> None:
    model, prior_mean, prior_variance = two_items(wins, losses, noise, mean)
    truth = OneDimension(wins, losses, noise, prior_mean, prior_variance)
    draws = posterior_of(model, 4000)
    assert draws.converged and draws.v.shape == (4, 4000, wins + losses)
    a, b = model.duels.items[:1], model.duels.items[1:]
    rng = np.random.default_rng(5)
    found = draws.difference(a, b)
    for name in ("mean", "sd", "skewness", "probability"):
        within(getattr(found, name), getattr(truth, name), getattr(found, f"{name}_error"))
        assert getattr(found, f"{name}_error")[0] < 0.1
    backwards = draws.difference(b, a)
    np.testing.assert_allclose(backwards.mean, -found.mean, atol=IDENTITY)
    np.testing.assert_allclose(backwards.probability, 1 - found.probability, atol=IDENTITY)
    levels = [0.025, 0.5, 0.9]
    values, errors = draws.quantiles(a, b, levels, rng)
    within(values[:, 0], [truth.quantile(level) for level in levels], errors[:, 0])
    utilities = draws.utilities(rng, model.duels.items)
    apart = utilities[..., :1] - utilities[..., 1:]
    within(apart.mean(), truth.mean, standard_error(apart))
    within(
        ((apart - apart.mean()) ** 2).mean(), truth.sd**2, standard_error((apart - truth.mean) ** 2)
    )


def test_far_items_have_the_prior_and_equal_items_no_difference() -> None:
    model, *_ = two_items(2, 1, 0.5, True)
    draws = posterior_of(model, 200)
    far, here = np.array([[500.0], [900.0], [0.5]]), np.array([[700.0], [-800.0], [0.5]])
    found = draws.difference(far, here)
    np.testing.assert_allclose(found.mean, [-160.0, 1360.0, 0.0], atol=IDENTITY)
    np.testing.assert_allclose(found.sd, [2.0, 2.0, 0.0], atol=IDENTITY)
    np.testing.assert_allclose(found.skewness, 0.0, atol=IDENTITY)
    assert found.probability[2] == pytest.approx(0.5, abs=ROUNDING)
    utilities = draws.utilities(np.random.default_rng(0), far[:2])
    assert utilities.shape == (4, 200, 2)
    within(utilities.mean((0, 1)), [403.0, 723.0], math.sqrt(2.0 / 800))
    # Two far items are independent, so that the variance is that of the prior.
    within(utilities.var((0, 1)), 2.0, 2.0 * math.sqrt(2.0 / 800))


# Other samplers.


def parts_of(draws: PosteriorDraws) -> tuple[np.ndarray, ...]:
    """Features, noise and limits of every single duel, and the prior mean."""
    graph, prior = draws.graph, draws._prior
    site, offset = draws.site, prior.offset[draws.site]
    noise = np.full(len(site), prior.duel_noise)
    limits = (graph.lower[site] - offset, graph.upper[site] - offset)
    return prior.loadings[site], noise, *limits, offset


def same_posterior(draws: PosteriorDraws, other: np.ndarray, offset: np.ndarray) -> None:
    """First three moments of every v, within the errors of both samplers."""
    ours, theirs = draws.v, other + offset
    centre = ours.mean((0, 1))
    for power in (1, 2, 3):
        a, b = (
            (ours - (centre if power > 1 else 0.0)) ** power,
            (theirs - (centre if power > 1 else 0.0)) ** power,
        )
        error = np.hypot(standard_error(a), standard_error(b))
        within(a.mean((0, 1)), b.mean((0, 1)), error)


@pytest.mark.parametrize("index", [0, 1, 2, 3])
@pytest.mark.covering(every=4)
def test_reference_cases_against_gibbs(index: int) -> None:
    draws = posterior_of(case_model(DUEL_CASES[index], spg.Exact()), 4000, seed=index)
    assert draws.converged
    *parts, offset = parts_of(draws)
    other = gibbs(*parts, 60, 100, 200, np.random.default_rng(1))
    same_posterior(draws, other, offset)


@pytest.mark.slow
def test_low_noise_against_elliptical_slices() -> None:
    """2 sigma² = 0.002, where samplers that know nothing of the posterior hardly move."""
    model = case_model(DUEL_CASES[4], spg.Exact())
    draws = posterior_of(model, 5000, seed=4)
    assert draws.converged
    features, noise, _, upper, offset = parts_of(draws)
    model.infer()
    # Weaker sites leave the normal of the ellipses tails that are not lighter than the target's.
    nu, tau = (0.8 * x[draws.site] for x in model.inference.sites())
    rng = np.random.default_rng(1)
    other = elliptical_slices(features, noise, upper, nu, tau, 40, 200, 400, rng)
    assert np.max(split_rhat(other)) < RHAT_OF_SLOW_CHAINS
    same_posterior(draws, other, offset)


@pytest.mark.slow
def test_alternation_finds_the_same() -> None:
    draws = posterior_of(case_model(DUEL_CASES[1], spg.Exact()), 4000)
    *parts, offset = parts_of(draws)
    other = alternation(*parts, 40, 100, 400, np.random.default_rng(4))
    same_posterior(draws, other, offset)


def test_linear_slices_find_the_same() -> None:
    draws = posterior_of(case_model(DUEL_CASES[0], spg.Exact()), 4000)
    features, noise, _, upper, offset = parts_of(draws)
    other = linear_slices(features, noise, upper, 20, 200, 4000, np.random.default_rng(2))
    assert np.all(other <= upper)
    same_posterior(draws, other, offset)


def boxed_problem() -> DuelProblem:
    """Wins, ties and a loss by a margin between four items, one of them twice, with a mean."""
    graph = DuelGraph(
        own=np.array([[0.0], [0.4], [1.5], [2.0]]),
        winners=np.array([0, 1, 2, 3, 0]),
        losers=np.array([1, 2, 3, 0, 2]),
        counts=np.array([2.0, 1.0, 3.0, 1.0, 1.0]),
        lower=np.array([-np.inf, -0.3, -0.3, 0.3, -np.inf]),
        upper=np.array([-0.3, 0.3, 0.3, np.inf, np.inf]),
        row_of_item=np.arange(4),
    )
    return DuelProblem(
        graph,
        gpflow.kernels.SquaredExponential(variance=1.3),
        gpflow.functions.Linear(A=[[0.5]], b=[1.0]),
        tf.constant(0.1, tf.float64),
        None,
    )


@pytest.mark.slow
def test_boxes_against_gibbs() -> None:
    """Limits on either side, and none; without a model around them."""
    draws = posterior_of(boxed_problem(), 4000)
    assert draws.converged
    graph = draws.graph
    assert np.bincount(draws.site).tolist() == graph.counts.tolist()
    assert np.all(draws.v <= graph.upper[draws.site])
    assert np.all(draws.v >= graph.lower[draws.site])
    *parts, offset = parts_of(draws)
    np.testing.assert_allclose(
        offset, 0.5 * (graph.rows[graph.losers] - graph.rows[graph.winners])[draws.site, 0]
    )
    same_posterior(draws, gibbs(*parts, 20, 50, 400, np.random.default_rng(3)), offset)


# The algebra.


@pytest.mark.parametrize("items", [6, 30])
def test_features_give_covariances_of_duels_and_items(items: int) -> None:
    """Over items and over duels; the first has more duels than items."""
    duels = random_duels(0, items=items, duels=16)
    graph = DuelGraph.from_duels(duels)
    kernel = gpflow.kernels.Matern52()(graph.rows).numpy()
    features, projection = duel_features(kernel, graph.winners, graph.losers)
    a = incidence(graph)
    assert features.shape[1] <= min(graph.num_sites, graph.num_rows - 1)
    np.testing.assert_allclose(features @ features.T, a @ kernel @ a.T, atol=IDENTITY)
    # Cov[f, z] = Cov[f, u] F'
    np.testing.assert_allclose(kernel @ projection @ features.T, kernel @ a.T, atol=IDENTITY)


def test_summary_of_a_known_mixture() -> None:
    """d = 1 or -1 with probabilities ¾ and ¼, and normal noise of variance 2 about it."""
    means = np.where(np.random.default_rng(0).random((4, 5000, 1)) < 0.75, 1.0, -1.0)
    found = summarise(means, np.array([2.0]), 1.0)
    spread = 1.0 - 0.25
    within(found.mean, 0.5, found.mean_error)
    within(found.sd, math.sqrt(spread + 2.0), found.sd_error)
    third = 0.75 * 0.5**3 - 0.25 * 1.5**3
    within(found.skewness, third / (spread + 2.0) ** 1.5, found.skewness_error)
    wins = 0.75 * norm.cdf(1 / math.sqrt(3)) + 0.25 * norm.cdf(-1 / math.sqrt(3))
    within(found.probability, wins, found.probability_error)


@pytest.mark.slow
def test_errors_of_figures_cover() -> None:
    """Influence functions: 300 independent quantities lie as far from the truth as they say."""
    means = np.random.default_rng(0).gamma(4.0, size=(4, 1000, 300))
    found = summarise(means, np.zeros(300), 1.0)
    probability = quad_of_gamma()
    truth = {"mean": 4.0, "sd": 2.0, "skewness": 1.0, "probability": probability}
    for name, value in truth.items():
        ratio = (getattr(found, name) - value) / getattr(found, f"{name}_error")
        assert np.mean(ratio**2) == pytest.approx(1.0, abs=SE * math.sqrt(2 / 300)), name


def quad_of_gamma() -> float:
    """E Phi(x) for x ~ gamma(4)."""
    x = np.linspace(0, 60, 200_001)
    return float(np.sum(ndtr(x) * x**3 / 6 * np.exp(-x)) * (x[1] - x[0]))


# Models.


@pytest.mark.slow
def test_what_approximates_does_not_matter() -> None:
    duels = random_duels(3)
    found = [
        posterior_of(model_of(duels, approximation), 20).v
        for approximation in (spg.Exact(), spg.FITC(), spg.SubsetOfData(5))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert not np.array_equal(found[0], posterior_of(model_of(duels), 20, seed=1).v)


def test_counts_are_single_duels() -> None:
    items = np.random.default_rng(0).normal(size=(3, 1))
    one = posterior_of(model_of(spg.Duels(items, [0, 1], [1, 2], counts=[3, 2])), 50)
    two = posterior_of(model_of(spg.Duels(items, [0, 0, 0, 1, 1], [1, 1, 1, 2, 2])), 50)
    assert one.v.shape == (4, 50, 5)
    np.testing.assert_array_equal(one.v, two.v)
    assert np.sort(np.bincount(one.site)).tolist() == [2, 3]


def test_draws_stay_when_parameters_change() -> None:
    model = model_of(random_duels(1), mean_function=gpflow.functions.Linear(A=np.ones((2, 1))))
    draws = posterior_of(model, 50)
    before = draws.difference(model.duels.items[:3], model.duels.items[3:6])
    model.kernel.variance.assign(9.0)
    model.mean_function.A.assign(5.0 * np.ones((2, 1)))
    model.likelihood.noise.assign(7.0)
    after = draws.difference(model.duels.items[:3], model.duels.items[3:6])
    np.testing.assert_array_equal(before.mean, after.mean)
    np.testing.assert_array_equal(before.probability, after.probability)


@pytest.mark.slow
def test_item_effects_belong_to_their_items() -> None:
    """A known item keeps its effect, an unknown one with its features has one of its own."""
    duels = random_duels(2, items=5, duels=30)
    kernel = gpflow.kernels.SquaredExponential() + spg.ItemEffect(variance=2.0)
    model = model_of(duels, kernel=kernel)
    draws = posterior_of(model, 300)
    known = draws.difference(model.inputs.of_items([0]), model.inputs.of_items([1]))
    unknown = draws.difference(duels.items[:1], duels.items[1:2])
    assert unknown.sd[0] ** 2 > 4.0 > known.sd[0] ** 2
    # An item and its twin in features: only the effects are between them.
    twin = draws.difference(duels.items[:1], duels.items[:1])
    np.testing.assert_allclose([twin.mean[0], twin.sd[0]], [0.0, 2.0], atol=IDENTITY)
    check = spg.check_against_sampling(model, rng=np.random.default_rng(0), num_draws=500)
    assert check.own.mean.rmse < 0.1


@pytest.mark.slow
def test_more_noise_than_signal_is_nearly_the_engine() -> None:
    """At 2 sigma² = 50 EP is exact to 1e-4, so that draws and engine check one another."""
    model = model_of(random_duels(4, items=12, duels=40), noise_variance=25.0)
    check = spg.check_against_sampling(model, rng=np.random.default_rng(0), num_draws=3000)
    assert check.converged and check.engine_converged
    for row in (check.own.mean, check.own.sd, check.own.probability):
        assert row.rmse < SE * row.monte_carlo
        assert row.monte_carlo < 0.02


# The report.


@pytest.mark.slow
def test_the_report_tells_engine_from_approximation() -> None:
    case = DUEL_CASES[4]
    items = np.array(case["items"])
    reports = {
        approximation.name: spg.check_against_sampling(
            case_model(case, approximation), items[:4], items[4:8], rng=np.random.default_rng(0)
        )
        for approximation in (spg.Exact(), spg.DTC())
    }
    exact, dtc = reports["Exact"], reports["DTC"]
    assert exact.converged and dtc.converged
    # EP at 2 sigma² = 0.002: means nearly right, sd and probability off, skewness lost.
    assert exact.own.mean.rmse < 0.01
    assert exact.own.probability.rmse > 3 * exact.own.probability.monte_carlo
    assert exact.own.skewness.largest > 0.7
    assert dtc.own.mean.rmse > 3 * exact.own.mean.rmse
    assert dtc.new.mean.rmse > 3 * exact.new.mean.rmse
    assert exact.new.pairs == 4 and exact.own.pairs == exact.draws.graph.num_sites
    assert any("inducing" in note for note in dtc.notes)
    assert not any("inducing" in note for note in exact.notes)
    text = str(exact)
    for words in ("ParallelEP with Exact", "own pairs (56)", "new pairs (4)", "have converged"):
        assert words in text
    assert f"{exact.own.sd.rmse:.5f}" in text and "NOT" not in text
    assert json.loads(json.dumps(exact.to_dict()))["converged"] is True


@pytest.mark.slow
def test_the_report_says_what_did_not_converge() -> None:
    engine = spg.ParallelEP(max_sweeps=1)
    check = spg.check_against_sampling(
        case_model(DUEL_CASES[2], spg.SubsetOfData(10), engine),
        rng=np.random.default_rng(0),
        num_draws=20,
    )
    assert not check.converged and not check.engine_converged
    text = str(check)
    assert "NOT converged" in text and "on the own pairs" in text
    assert "The engine did not converge: stopped at max_sweeps" in text
    assert "a subset of the duels" in text
    assert check.new is None and "new pairs" not in text
    good = spg.check_against_sampling(
        case_model(DUEL_CASES[2], spg.Exact()), rng=np.random.default_rng(0)
    )
    # The chains of v may agree where those of a pair do not.
    assert good.converged and not replace(good, new=replace(good.own, rhat=1.3)).converged


def test_a_reference_that_fails_costs_only_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites that are not finite are left out; the draws are right without."""
    model, mean, variance = two_items(2, 1, 0.5)

    class Broken(spg.ParallelEP):
        def run(self, covariance: Any, factors: Any, sites: Any) -> Any:
            point = super().run(covariance, factors, sites)
            sites = point.sites._replace(nu=point.sites.nu * np.nan)
            return point._replace(found=point.found._replace(sites=sites))

    monkeypatch.setattr(target_module, "ParallelEP", Broken)
    draws = posterior_of(model, 4000)
    found = draws.own_duels()
    truth = OneDimension(2, 1, 0.5, mean, variance)
    assert draws.acceptance < 0.9
    forward = found.mean * np.where(draws.graph.winners == 0, 1.0, -1.0)
    within(forward, truth.mean, found.mean_error)


# Mistakes.


def test_mistakes_are_told_in_a_sentence() -> None:
    model = model_of(random_duels(0))
    rng = np.random.default_rng(0)
    many = spg.Duels(model.duels.items, [0], [1], counts=[2001])
    with pytest.raises(ValueError, match=r"up to 2,000 single duels, but there are 2,001; sample"):
        sample_posterior(model_of(many), 10, rng)
    with pytest.raises(ValueError, match=r"take .* GB; ask for at most"):
        sample_posterior(model, 10_000_000, rng)
    for arguments, words in (
        ({"num_draws": 3}, "num_draws is 3"),
        ({"num_draws": 10, "chains": 1}, "chains is 1"),
        ({"num_draws": 10, "warmup": -1}, "warmup is -1"),
        ({"num_draws": 10.5}, "num_draws is 10.5"),
    ):
        with pytest.raises(ValueError, match=words):
            sample_posterior(model, rng=rng, **arguments)
    with pytest.raises(ValueError, match="times its noise"):
        sample_posterior(model_of(random_duels(0), noise_variance=1e-12), 10, rng)
    problem = boxed_problem()
    met = problem.graph.lower.copy()
    met[1] = 0.3
    with pytest.raises(ValueError, match=r"limits of duel 1 are 0\.3 and 0\.3"):
        sample_posterior(problem._replace(graph=replace(problem.graph, lower=met)), 10, rng)
    with pytest.raises(ValueError, match="negative eigenvalue"):
        duel_features(np.diag([1.0, -5.0]), np.array([0]), np.array([1]))
    with pytest.raises(ValueError, match="negative eigenvalue"):
        duel_features(np.diag([1.0, -1.0]), np.array([0, 0]), np.array([1, 1]))
    draws = posterior_of(model, 10)
    items = model.duels.items
    with pytest.raises(ValueError, match="Xa has 2 rows and Xb 3"):
        draws.difference(items[:2], items[:3])
    with pytest.raises(ValueError, match="new ones have 1"):
        draws.difference(items[:2, :1], items[:2, :1])
    with pytest.raises(ValueError, match=r"levels has 1\.0"):
        draws.quantiles(items[:2], items[2:4], [0.5, 1.0], rng)
    with pytest.raises(ValueError, match="give both, or neither"):
        spg.check_against_sampling(model, items[:2], rng=rng)


@pytest.mark.slow
def test_engines_meet_the_same_draws() -> None:
    model = case_model(DUEL_CASES[2], spg.Exact())
    fresh = spg.check_against_sampling(model, rng=np.random.default_rng(3), num_draws=200)
    draws = spg.sample_posterior(model, 200, np.random.default_rng(3))
    again = spg.check_against_sampling(model, draws=draws)
    assert again.to_dict() == fresh.to_dict() and again.draws is draws
    # Approximation and engine are what is checked; what is drawn from is the exact posterior.
    other = spg.check_against_sampling(
        case_model(DUEL_CASES[2], spg.FITC(), spg.Laplace()), draws=draws
    )
    assert other.engine == "Laplace" and other.own.mean.rmse != fresh.own.mean.rmse
    with pytest.raises(ValueError, match=r"Give rng, .* or draws"):
        spg.check_against_sampling(model)
    with pytest.raises(ValueError, match=r"Give rng, .* or draws"):
        spg.check_against_sampling(model, rng=np.random.default_rng(0), draws=draws)
    for changed in ("kernel", "noise", "duels"):
        model = case_model(DUEL_CASES[1 if changed == "duels" else 2], spg.Exact())
        if changed == "kernel":
            model.kernel.variance.assign(3.0)
        elif changed == "noise":
            model.likelihood.noise.assign(0.3)
        with pytest.raises(ValueError, match="posterior of another model"):
            spg.check_against_sampling(model, draws=draws)


def test_draws_show_how_they_went() -> None:
    draws = posterior_of(model_of(random_duels(0)), 500)
    assert draws.warmup == 125 and draws.reference_converged
    assert 0.5 < draws.acceptance <= 1.0 and draws.longest_stay >= 1
    assert "have converged" in str(draws) and "4 chains of 500 draws for 16 duels" in repr(draws)
