"""Draws given answers about sets: the truth of the cases, and that of drawing and throwing away."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import gpflow
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import sparse_prefgp as spg
from sparse_prefgp.analysis.importance import importance_sampling, summarise
from sparse_prefgp.data.answers import (
    BEST_WORST,
    BEST_WORST_AT_ONCE,
    CHOICE,
    RANKING,
    TOP,
    WIN,
    Answers,
    Codes,
    Covariates,
)
from sparse_prefgp.sampling import exact_problem
from sparse_prefgp.sampling import target as target_module
from sparse_prefgp.sampling.diagnostics import standard_error
from sparse_prefgp.sampling.draws import PosteriorDraws, sample_posterior
from sparse_prefgp.sampling.proposals import propose
from sparse_prefgp.sampling.target import exact_target, utility_features
from tests.reference.slow_sets import rejected, rows_of
from tests.tolerances import IDENTITY, MONTE_CARLO_STANDARD_ERRORS
from tests.unit.models.test_sets import CASES, OF_SETS, model_of, said, sets

SE = MONTE_CARLO_STANDARD_ERRORS
# In standard errors, of the evidence and the moments of answers about sets.
OF_THE_CASES = 5.0


def of(model: Any, draws: int = 2000, seed: int = 0, **more: Any) -> PosteriorDraws:
    return sample_posterior(model, draws, np.random.default_rng(seed), **more)


@pytest.mark.parametrize("name", OF_SETS)
@pytest.mark.covering(every=12)
def test_evidence_and_means_of_the_cases(name: str) -> None:
    case = CASES[name]
    model, truth = model_of(case), case["truth"]
    found = importance_sampling(model, 20_000, np.random.default_rng(1))
    error = math.hypot(found.standard_error, truth["standard_error"])
    assert abs(found.log_evidence - truth["log_evidence"]) < OF_THE_CASES * error
    assert found.standard_error < 0.003
    # 0.96 and more but where alternatives are drawn in place of rows.
    assert found.effective_samples > 0.85 * found.samples
    draws = of(model)
    assert draws.converged
    utilities = draws.utilities(np.random.default_rng(2), np.array(case["test_X"]))
    errors = np.hypot(standard_error(utilities), truth["mean_standard_error"])
    away = np.abs(utilities.mean((0, 1)) - truth["mean"])
    assert np.max(away / errors) < OF_THE_CASES


SAID = [
    ("best_worst_at_once", [3, 0, 1, 2], 0),
    ("ranking", [0, 3, 4], 0),
    ("choice", [4, 1], 0),
]
ITEMS = np.random.default_rng(4).uniform(size=(5, 2))
EVENTS = sets(
    [BEST_WORST_AT_ONCE, RANKING, WIN],
    [sides for _, sides, _ in SAID],
    judge=Codes.of(["a", "b", "b"]),
)
SLOPE = np.array([0.7, -0.4])


def judged(**more: Any) -> spg.PreferenceGP:
    """Two judges and a prior mean; more rows than contrasts in one of the sets."""
    model = spg.PreferenceGP(
        spg.Duels.from_events(ITEMS, more.pop("events", EVENTS)),
        gpflow.kernels.SquaredExponential(1.3, [0.5, 0.7]),
        likelihood=spg.Probit(0.3, by="judge"),
        mean_function=gpflow.functions.Linear(SLOPE[:, None], [0.2]),
        **more,
    )
    model.likelihood.noise_ratio.assign(
        [{"a": 0.5, "b": 2.0}[name] for name in model.duels.group_names]
    )
    return model


@pytest.mark.slow
def test_against_what_is_left_of_many_draws() -> None:
    k = gpflow.kernels.SquaredExponential(1.3, [0.5, 0.7])(ITEMS).numpy()
    mean = ITEMS @ SLOPE + 0.2
    rng = np.random.default_rng(0)
    slow = rejected(k, mean, SAID, [0.15, 0.6, 0.6], 2_000_000, rng)
    model = judged()
    found = importance_sampling(model, 20_000, np.random.default_rng(1))
    error = math.hypot(slow.error / slow.share, found.standard_error)
    assert abs(found.log_evidence - math.log(slow.share)) < SE * error
    assert found.reliable and error < 0.02
    utilities = of(model, 4000).utilities(rng, ITEMS)
    kept = slow.utilities[None]
    errors = np.hypot(standard_error(utilities), np.std(kept, 1)[0] / np.sqrt(kept.shape[1]))
    assert np.max(np.abs(utilities.mean((0, 1)) - kept.mean((0, 1))) / errors) < SE
    spread = [(x - x.mean((0, 1))) ** 2 for x in (utilities, kept)]
    errors = np.hypot(standard_error(spread[0]), np.std(spread[1], 1)[0] / np.sqrt(kept.shape[1]))
    assert np.max(np.abs(spread[0].mean((0, 1)) - spread[1].mean((0, 1))) / errors) < SE


@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE()], ids=repr)
@pytest.mark.covering(every=2)
def test_covariates_of_alternatives(approximation: spg.Approximation) -> None:
    """Against the integral over the box, and the bounds below it."""
    answers = [("choice", [3, 0, 1, 2], 0), ("ranking", [0, 3, 4], 0), ("choice", [2, 1, 4], 0)]
    x = np.random.default_rng(5).normal(size=(10, 2))
    events = sets([CHOICE, RANKING, CHOICE], [sides for _, sides, _ in answers])
    events = events.saying(covariates=Covariates(x, ("place", "length")))
    model = spg.PreferenceGP(
        spg.Duels.from_events(ITEMS, events),
        gpflow.kernels.SquaredExponential(1.3, [0.5, 0.7]),
        noise_variance=0.3,
        terms=[spg.Coefficients([0.4, 1.5])],
        approximation=approximation,
        inducing_variable=ITEMS[:3] + 0.05 if approximation.needs_inducing else None,
    )
    over = rows_of(5, answers)
    told = over.sides @ x
    k = gpflow.kernels.SquaredExponential(1.3, [0.5, 0.7])(ITEMS).numpy()
    covariance = over.items @ k @ over.items.T + told @ np.diag([0.4, 1.5]) @ told.T
    covariance += 0.3 * over.noise
    box = multivariate_normal(np.zeros(len(told)), covariance, maxpts=400_000, abseps=1e-9)
    truth = float(box.logcdf(np.zeros(len(told)), rng=np.random.default_rng(0)))
    found = importance_sampling(model, 20_000, np.random.default_rng(1))
    assert abs(found.log_evidence - truth) < SE * found.standard_error + 1e-4
    assert found.standard_error < 0.003
    assert model.lower_bound() < truth


def test_draws_are_answered_so() -> None:
    """Every v is in the order that was said, prior means included."""
    draws = of(judged(), 50, warmup=0)
    slots = draws._prior.slots
    # Alternatives where rows outnumber what they tell apart, else rows.
    assert draws.v.shape[2] == 4 + 2 + 1 == len(slots.noise)
    place = np.empty(len(draws.site), int)
    place[draws.site] = np.arange(len(draws.site))
    v = draws.v[:, :, place]
    by_rows, by_utilities = sorted(slots.looks, key=lambda look: len(look.noise))
    assert by_rows.pairs is None and by_utilities.pairs is not None
    y = v[:, :, by_utilities.slots]
    for better, worse in by_utilities.pairs:
        assert np.all(y[..., better] >= y[..., worse])
    assert np.sum(slots.site >= 0) == 3 and np.all(v[..., slots.site >= 0] <= 0.0)
    assert "for 7 rows of answers" in str(draws)


@pytest.mark.parametrize("zero", [True, False])
def test_sites_only_cost_samples(zero: bool) -> None:
    """Without any to look ahead, and with others, weights are right on average."""
    case = CASES["best_and_worst_shared_noise"]
    target = exact_target(exact_problem(model_of(case))).target
    scale = 0.0 if zero else 0.4
    led = replace(
        target,
        nu=scale * target.nu,
        tau=scale * target.tau,
        orders=tuple(x._replace(nu=0.0 * x.nu, tau=scale * x.tau) for x in target.orders),
    )
    value, error, effective = summarise(propose(led, 20_000, np.random.default_rng(0))[1])
    error = math.hypot(error, case["truth"]["standard_error"])
    assert abs(value - case["truth"]["log_evidence"]) < SE * error
    assert effective < 12_000


@pytest.mark.parametrize(
    ("kind", "chance"),
    [(CHOICE, 5), (RANKING, 120), (TOP, 20), (BEST_WORST, 20), (BEST_WORST_AT_ONCE, 20)],
)
def test_equal_utilities(kind: int, chance: int) -> None:
    """Nothing tells five alternatives apart: all answers have one probability."""
    duels = spg.Duels.from_events(np.zeros((5, 1)), sets([kind], [[1, 0, 2, 4, 3]]))
    model = spg.PreferenceGP(duels, gpflow.kernels.Matern52())
    found = importance_sampling(model, 10_000, np.random.default_rng(0))
    assert abs(found.log_evidence + math.log(chance)) < SE * found.standard_error
    assert found.effective_samples > 8000


def test_what_approximates_and_how_copies_are_given_does_not_matter() -> None:
    case = CASES["prior_mean_and_counts"]
    other = {"approximation": spg.FITC(), "inducing_variable": np.array(case["X"][:3])}
    apart = spg.Duels.from_events(np.array(case["X"]), said(case, apart=True))
    models = [model_of(case), model_of(case, **other)]
    models.append(
        spg.PreferenceGP(
            apart,
            models[0].kernel,
            noise_variance=case["noise_variance"],
            mean_function=models[0].mean_function,
        )
    )
    first, *others = (importance_sampling(m, 200, np.random.default_rng(3)) for m in models)
    for found in others:
        np.testing.assert_allclose(found.log_evidence, first.log_evidence, rtol=IDENTITY)
    draws = of(models[0], 20)
    for model in models:
        draws.check_of(model)
    assert draws.v.shape[2] == 3 * 3 + 2 * 2 + 2 + 3


def test_draws_of_other_answers_are_refused() -> None:
    case = CASES["three_choices_of_4"]
    draws = of(model_of(case), 20)
    events = said(case)
    ranked = events.saying(kind=np.full_like(events.kind, RANKING))
    for other in (
        spg.Duels.from_events(np.array(case["X"]), ranked),
        spg.Duels(np.array(case["X"]), [0], [1]),
    ):
        model = spg.PreferenceGP(other, model_of(case).kernel)
        with pytest.raises(ValueError, match="another model"):
            draws.check_of(model)


def test_features_of_utilities() -> None:
    """F F' is the covariance of utilities less their mean, K P that with whitened ones."""
    k = gpflow.kernels.SquaredExponential(1.3, 0.4)(ITEMS).numpy() + 1e3
    features, projection = utility_features(k)
    centre = np.eye(5) - 0.2
    np.testing.assert_allclose(features @ features.T, centre @ k @ centre, atol=IDENTITY * 1e3)
    assert features.shape == (5, 4)
    np.testing.assert_allclose(centre @ k @ projection, features, atol=IDENTITY * 1e3)


@pytest.mark.slow
@pytest.mark.parametrize("approximation", [spg.Exact(), spg.VFE()], ids=repr)
def test_the_check_of_a_model(approximation: spg.Approximation) -> None:
    case = CASES["three_choices_of_4"]
    z = np.array(case["X"]) if approximation.needs_inducing else None
    model = model_of(case, approximation=approximation, inducing_variable=z)
    x = np.array(case["test_X"])
    check = spg.check_against_sampling(model, x[1:], x[:3], rng=np.random.default_rng(0))
    assert check.converged and check.own.pairs == 9
    assert check.new is not None
    for part in (check.own, check.new):  # EP itself is good to .003 standard deviations here
        assert part.mean.rmse < 0.01 + SE * part.mean.monte_carlo
        assert part.sd.rmse < 0.03 and part.probability.rmse < 0.01


def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "SAMPLED_UP_TO", 17)
    model = model_of(CASES["prior_mean_and_counts"])
    message = "up to 17 rows of single answers, but there are 18"
    with pytest.raises(ValueError, match=message):
        of(model, 10)
    with pytest.raises(ValueError, match=message):
        importance_sampling(model, 10)


def test_a_choice_between_two_is_a_duel() -> None:
    x = ITEMS[:3]
    pairs = [[0, 1], [2, 1], [1, 0]]
    duels = spg.Duels(x, [0, 2, 1], [1, 1, 0])
    chosen = spg.Duels.from_events(x, sets([CHOICE] * 3, pairs))
    kernel = gpflow.kernels.SquaredExponential()
    found = [
        importance_sampling(spg.PreferenceGP(d, kernel), 10_000, np.random.default_rng(0))
        for d in (duels, chosen)
    ]
    error = math.hypot(*(one.standard_error for one in found))
    assert abs(found[0].log_evidence - found[1].log_evidence) < SE * error
    assert isinstance(chosen.events, Answers) and chosen.events.has_sets
