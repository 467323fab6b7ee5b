"""The noise of judges: its prior, and what is predicted for a judge who is not known."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy.special import ndtr

import sparse_prefgp as spg
from sparse_prefgp.analysis.acquisition import expected_reduction, information_rule
from sparse_prefgp.analysis.asked import AskedPairs
from sparse_prefgp.analysis.candidates import pool, random_pairs
from sparse_prefgp.data.answers import Answers, Codes
from sparse_prefgp.disk.model_folder import DESCRIPTION, checksum
from sparse_prefgp.factors.noise import ONE_NOISE, ratios_of_unknown
from sparse_prefgp.learning.checkpoint import identify
from sparse_prefgp.models.parameters import LogParameter
from tests.reference import slow_noise as slow
from tests.reference.slow_suggestion import variance_once_answered
from tests.tolerances import (
    EXPECTATION,
    GRADIENT,
    IDENTITY,
    MONTE_CARLO_STANDARD_ERRORS,
    NOISE_NODES,
    ROUNDING,
    TURNED_ENTROPY,
)

ITEMS, PAIRS, JUDGES = 9, 40, 10
RATIOS = np.linspace(0.2, 3.0, JUDGES)
MARGIN, NOISE = 0.4, 0.3  # sigma² per side


def duels(ties: bool = True, seed: int = 0) -> spg.Duels:
    rng = np.random.default_rng(seed)
    winners = rng.integers(0, ITEMS, PAIRS)
    losers = (winners + rng.integers(1, ITEMS, PAIRS)) % ITEMS
    return spg.Duels(
        rng.normal(size=(ITEMS, 2)),
        winners,
        losers,
        item_ids=[f"i{k}" for k in range(ITEMS)],
        ties=rng.random(PAIRS) < 0.3 if ties else None,
        groups=[f"judge {i % JUDGES}" for i in range(PAIRS)],
    )


def made(ties: bool = True, **options: Any) -> spg.PreferenceGP:
    data = duels(ties)
    model = spg.PreferenceGP(
        data,
        gpflow.kernels.SquaredExponential(variance=1.3),
        likelihood=spg.Probit(NOISE, by="judge", margin=MARGIN if ties else None),
        **options,
    )
    model.likelihood.noise_ratio.assign(RATIOS)
    return model


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    return made()


def sides(model: spg.PreferenceGP) -> tuple[np.ndarray, np.ndarray]:
    x = model.duels.items
    return x[[0, 1, 2, 3, 4]], x[[5, 6, 7, 8, 4]]


def differences(model: spg.PreferenceGP) -> list[tuple[float, float]]:
    mean, variance = (x.numpy() for x in model.predict_difference(*sides(model)))
    return list(zip(mean, np.maximum(variance, 0.0), strict=True))


def expected(model: spg.PreferenceGP) -> np.ndarray:
    """Win, tie and loss of nobody in particular, (5, 3)."""
    margin = 0.0 if model.likelihood.margin is None else MARGIN
    return np.array([slow.outcomes(m, v, 2 * NOISE, margin) for m, v in differences(model)])


# The prior.


def test_the_prior_is_the_density_of_the_log() -> None:
    model = made()
    model.likelihood.noise_ratio.assign(np.ones(JUDGES))
    at_one = -0.5 * JUDGES * math.log(2.0 * math.pi)
    assert at_one == pytest.approx(-9.19, abs=0.005)
    assert float(model.log_prior_density()) == pytest.approx(at_one, abs=IDENTITY)
    with tf.GradientTape() as tape:  # its mode
        density = model.log_prior_density()
    slope = tape.gradient(density, model.likelihood.noise_ratio.unconstrained_variable)
    np.testing.assert_allclose(slope, 0.0, atol=IDENTITY)
    for log_ratio in (-1.0, 1.0):
        model.likelihood.noise_ratio.assign(np.full(JUDGES, math.exp(log_ratio)))
        found = float(model.log_prior_density())
        assert found == pytest.approx(at_one - 0.5 * JUDGES, abs=IDENTITY)
    # One of one's own is a density of the log too.
    model.likelihood.noise_ratio.prior = tfp.distributions.Gamma(
        *(tf.constant(x, tf.float64) for x in (2.0, 1.0))
    )
    ratio = math.e
    density = JUDGES * (2.0 * math.log(ratio) - ratio)
    assert float(model.log_prior_density()) == pytest.approx(density, abs=IDENTITY)


def of_equal_judges() -> tuple[spg.PreferenceGP, np.ndarray, np.ndarray]:
    """A linear model of 3,000 duels under ten judges of the noise of the model, and utilities."""
    rng = np.random.default_rng(0)
    items = rng.normal(size=(30, 2))
    utility = items @ [1.2, -0.8]
    first, second = rng.permuted(np.tile(np.arange(30), (3000, 1)), axis=1)[:, :2].T
    won = utility[first] - utility[second] + rng.normal(size=3000) > 0
    data = spg.Duels(
        items,
        np.where(won, first, second),
        np.where(won, second, first),
        groups=rng.integers(0, JUDGES, 3000),
    )
    kernel = gpflow.kernels.Linear(np.ones(2))
    return spg.PreferenceGP(data, kernel, likelihood=spg.Probit(by="judge")), items, utility


@pytest.mark.slow
def test_equal_judges_are_found_equal_to_the_model() -> None:
    """With the mode of log r at -1 the mean of log r is -1.0, and predictions are too timid."""
    model, items, utility = of_equal_judges()
    spg.optimise(model, max_iterations=50)
    log_ratio = np.log(model.likelihood.noise_ratio.numpy())
    assert abs(log_ratio.mean()) < 0.1
    pairs = np.array([(i, j) for i in range(30) for j in range(30) if i != j])
    truth = ndtr(utility[pairs[:, 0]] - utility[pairs[:, 1]])
    mean, variance = (x.numpy() for x in model.predict_difference(*items[pairs.T]))

    def nats(p: np.ndarray) -> float:
        return float(-np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p)))

    # At the noise of the model itself, which is that of every judge.
    assert nats(ndtr(mean / np.sqrt(variance + 1.0))) == pytest.approx(nats(truth), abs=0.001)


@pytest.mark.slow
def test_new_judges_of_the_prior_are_predicted_best_by_the_average() -> None:
    model, items, utility = of_equal_judges()
    spg.optimise(model, max_iterations=50)
    rng = np.random.default_rng(1)
    first, second = rng.permuted(np.tile(np.arange(30), (100_000, 1)), axis=1)[:, :2].T
    noise = np.exp(0.5 * rng.normal(size=100_000)) * rng.normal(size=100_000)
    won = utility[first] - utility[second] + noise > 0
    winners, losers = np.where(won, first, second), np.where(won, second, first)
    mean, variance = (x.numpy() for x in model.predict_difference(items[winners], items[losers]))
    one = -np.log(ndtr(mean / np.sqrt(variance + 1.0)))
    averaged = -np.log(model.predict_duel(items[winners], items[losers]).numpy())
    d = utility[winners] - utility[losers]
    nodes, weights = slow.nodes()
    truth = -np.log(sum(w * ndtr(d / math.sqrt(r)) for r, w in zip(nodes, weights, strict=True)))
    assert averaged.mean() == pytest.approx(truth.mean(), abs=0.001)
    better = one - averaged
    assert better.mean() > MONTE_CARLO_STANDARD_ERRORS * better.std() / math.sqrt(len(better))


# A judge who is not known.


def test_an_unknown_judge_is_averaged_over(model: spg.PreferenceGP) -> None:
    a, b = sides(model)
    three = expected(model)
    np.testing.assert_allclose(model.predict_outcome(a, b), three, atol=IDENTITY)
    np.testing.assert_allclose(model.predict_duel(a, b), three[:, 0], atol=IDENTITY)
    # 20 nodes are nearly the integral over all ratios.
    (mean, variance), *_ = differences(model)
    whole = slow.won_by_integral(mean, variance, 2 * NOISE, MARGIN, 1.0)
    assert three[0, 0] == pytest.approx(whole, abs=NOISE_NODES)
    # Its slope, as of any prediction.
    first = tf.Variable(a)
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(model.predict_duel(first, b)[:2])
    slope = tape.gradient(value, first).numpy()[0, 0]
    values = []
    for step in (1e-5, -1e-5):
        moved = a.copy()
        moved[0, 0] += step
        values.append(np.sum(model.predict_duel(moved, b).numpy()[:2]))
    assert slope == pytest.approx((values[0] - values[1]) / 2e-5, rel=GRADIENT)


@pytest.mark.slow
def test_compiled_predictions_are_averaged_too(model: spg.PreferenceGP) -> None:
    a, b = (tf.constant(x) for x in sides(model))
    found = tf.function(model.predict_outcome)(a, b)
    np.testing.assert_allclose(found, expected(model), atol=IDENTITY)


def test_known_judges_have_their_own_noise_beside_unknown_ones(model: spg.PreferenceGP) -> None:
    a, b = sides(model)
    labels = ["judge 0", None, "judge 9", "nobody", "judge 3"]
    with pytest.warns(UserWarning, match="'nobody' is unknown .* averaged over the prior"):
        found = model.predict_outcome(a, b, groups=labels).numpy()
    np.testing.assert_allclose(found[[1, 3]], expected(model)[[1, 3]], atol=IDENTITY)
    names = model.duels.group_names
    for row in (0, 2, 4):
        mean, variance = differences(model)[row]
        sd = math.sqrt(variance + 2 * NOISE * RATIOS[names.index(labels[row])])
        won, lost = ndtr((mean - MARGIN) / sd), ndtr((-mean - MARGIN) / sd)
        np.testing.assert_allclose(found[row], [won, 1 - won - lost, lost], atol=IDENTITY)
    # All known: as if there were no others.
    one = model.predict_outcome(a[:1], b[:1], groups="judge 0").numpy()
    np.testing.assert_allclose(one, found[:1], rtol=ROUNDING)


@pytest.mark.slow
def test_predict_and_evaluate_without_groups(model: spg.PreferenceGP) -> None:
    pairs = pd.DataFrame({"first": ["i0", "i1"], "second": ["i5", "i6"]})
    frame = spg.predict(model, pairs)
    three = expected(model)
    np.testing.assert_allclose(frame["probability"], three[:2, 0], atol=IDENTITY)
    np.testing.assert_allclose(frame["tie_probability"], three[:2, 1], atol=IDENTITY)
    table = pd.DataFrame({"winner": ["i0", "i1"], "loser": ["i5", "i6"]})
    nats = spg.evaluate(model, table)["held_out"]["model"]["nlp_nats"]
    chance = three[:2, 0] / (three[:2, 0] + three[:2, 2])
    assert nats == pytest.approx(-np.log(chance).mean(), abs=IDENTITY)
    found = spg.explain(model, "i0", "i5")
    assert found.probability == pytest.approx(three[0, 0], abs=IDENTITY)


@pytest.mark.slow
def test_blocks_and_exports_are_averaged_too(model: spg.PreferenceGP, tmp_path: Path) -> None:
    a, b = sides(model)
    spg.export_saved_model(model, tmp_path / "out")
    served = tf.saved_model.load(str(tmp_path / "out")).predict_duel(a, b)
    np.testing.assert_allclose(served["probability"], expected(model)[:, 0], atol=IDENTITY)
    np.testing.assert_allclose(served["tie_probability"], expected(model)[:, 1], atol=IDENTITY)
    names = ["al", "bo"] * (PAIRS // 2)
    blocks = made(approximation=spg.PITC(names), inducing_variable=model.duels.items[:4])
    n = np.arange(len(a))
    asked = Answers.between(n, n + len(a), block=Codes.of(["al"] * len(a)))
    found = blocks.predict(asked, np.concatenate([a, b])).p[:, 0]
    posterior = blocks.posterior().joining("al")
    mean, variance = posterior.difference(tf.stack([tf.constant(a), tf.constant(b)], 1)).numpy().T
    for p, m, v in zip(found, mean, variance, strict=True):
        assert p == pytest.approx(slow.outcomes(m, max(v, 0.0), 2 * NOISE, MARGIN)[0], abs=IDENTITY)


def test_the_spread_of_the_prior_counts() -> None:
    model = made(ties=False)
    a, b = sides(model)
    dtype = np.float64
    model.likelihood.noise_ratio.prior = tfp.distributions.LogNormal(dtype(0.0), dtype(0.3))
    narrow = [slow.outcomes(m, v, 2 * NOISE, log_sd=0.3)[0] for m, v in differences(model)]
    np.testing.assert_allclose(model.predict_duel(a, b), narrow, atol=IDENTITY)
    pairs = pd.DataFrame({"winner": ["i0"], "loser": ["i5"], "judge": ["new"]})
    updated, _ = spg.update(model, pairs)
    assert float(updated.likelihood.noise_ratio.prior.scale) == 0.3
    assert isinstance(updated.likelihood.noise_ratio, LogParameter)
    model.likelihood.noise_ratio.prior = None
    with pytest.raises(ValueError, match="noise_ratio has no prior, which does not say how noisy"):
        model.predict_duel(a, b)
    assert model.predict_duel(a, b, groups="judge 0").numpy().shape == (5,)
    assert math.isfinite(model.log_evidence())


# What is saved.


@pytest.mark.slow
def test_a_model_saved_before_is_what_it_was_under_the_right_prior(tmp_path: Path) -> None:
    model = made()
    model.likelihood.noise_ratio = gpflow.Parameter(  # as it was: GPflow's own class
        RATIOS,
        transform=tfp.bijectors.Exp(),
        prior=tfp.distributions.Normal(np.float64(0.0), np.float64(1.0)),
        prior_on="unconstrained",
    )
    jacobian = float(model.log_prior_density())
    spg.save(model, tmp_path / "old")
    path = tmp_path / "old" / DESCRIPTION
    description = json.loads(path.read_text())
    for parameter in description["parameters"]:  # as files were before they said the power
        del parameter["power"]
        if parameter["what"].endswith("noise_ratio"):
            parameter["what"] = "the noise ratios"
    path.write_text(json.dumps(description | {"checksum": checksum(description)}))
    again = spg.load(tmp_path / "old")
    a, b = sides(model)
    np.testing.assert_array_equal(
        again.likelihood.noise_ratio.numpy(), model.likelihood.noise_ratio.numpy()
    )
    for judge in ("judge 0", "judge 9"):
        one, other = (m.predict_outcome(a, b, groups=judge).numpy() for m in (model, again))
        np.testing.assert_array_equal(one, other)
    right = -0.5 * np.sum(np.log(RATIOS) ** 2 + math.log(2.0 * math.pi))
    assert float(again.log_prior_density()) == pytest.approx(right, abs=IDENTITY)
    assert jacobian == pytest.approx(right - np.log(RATIOS).sum(), abs=IDENTITY)
    # Of today, to the bit.
    today = made()
    spg.save(today, tmp_path / "new")
    loaded = spg.load(tmp_path / "new")
    assert float(loaded.log_prior_density()) == float(today.log_prior_density())
    np.testing.assert_array_equal(loaded.predict_outcome(a, b), today.predict_outcome(a, b))


def test_a_checkpoint_of_the_other_prior_is_of_another_run() -> None:
    model, old = made(), made()
    old.likelihood.noise_ratio = gpflow.Parameter(
        RATIOS,
        transform=tfp.bijectors.Exp(),
        prior=tfp.distributions.Normal(np.float64(0.0), np.float64(1.0)),
        prior_on="unconstrained",
    )
    prints = [identify(x, {})[0]["model"] for x in (model, old, made())]
    assert prints[0] != prints[1] and prints[0] == prints[2]


# Duels to ask next.


@pytest.mark.parametrize("margin", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("log_sd", [0.3, 1.0, 2.0])
@pytest.mark.covering(every=5)
def test_information_from_an_unknown_judge_is_its_integral(margin: float, log_sd: float) -> None:
    noise, ratios = 0.6, ratios_of_unknown(0.0, log_sd)
    cases = [(m, v) for v in (1e-4, 0.05, 1.0, 50.0) for m in (0.0, 0.7, -4.0)]
    mean, variance = (np.array(x) for x in zip(*cases, strict=True))
    found = information_rule(noise, margin, ratios)(mean, variance)
    truth = [slow.information_gain(m, v, noise, margin, log_sd) for m, v in cases]
    np.testing.assert_allclose(found, truth, rtol=0.0, atol=TURNED_ENTROPY)
    zero = information_rule(noise, margin, ratios)(mean, 0.0 * variance)
    np.testing.assert_array_equal(zero, 0.0)


@pytest.mark.parametrize("margin", [0.0, 0.4, 5.0])
def test_one_noise_is_what_all_unknown_ones_tend_to(margin: float) -> None:
    mean, variance = np.linspace(-3.0, 3.0, 7), np.linspace(0.01, 4.0, 7)
    for function in (lambda m, v, *noise: information_rule(*noise)(m, v), expected_reduction):
        one = function(mean, variance, 0.7, margin, ONE_NOISE)
        many = function(mean, variance, 0.7, margin, ratios_of_unknown(0.0, 1e-7))
        np.testing.assert_allclose(many, one, rtol=0.0, atol=TURNED_ENTROPY)


@pytest.mark.parametrize("mean", [0.0, 0.4, -3.0])
@pytest.mark.parametrize("margin", [0.0, 0.2, 4.0])
def test_an_answer_of_an_unknown_judge_takes_what_it_takes_on_average(
    mean: float, margin: float
) -> None:
    variance, noise, other, cross = 1.3, 0.8, 2.0, 0.15
    one = np.array([mean]), np.array([variance])
    found = expected_reduction(*one, noise, margin, ratios_of_unknown(0.0, 1.0))[0]
    truth = variance_once_answered(mean, variance, noise, other, cross, margin, slow.nodes())
    assert other - found * cross**2 == pytest.approx(truth, rel=EXPECTATION)


@pytest.mark.parametrize("ties", [False, True])
def test_what_is_suggested_is_for_an_unknown_judge(ties: bool) -> None:
    model = made(ties)
    margin = MARGIN if ties else 0.0
    found = spg.suggest(model, batch=2, rng=np.random.default_rng(0))
    row = found.frame.iloc[0]
    worth = slow.information_gain(row["difference"], row["sd"] ** 2, 2 * NOISE, margin)
    assert row["score"] == pytest.approx(worth, abs=TURNED_ENTROPY)
    three = slow.outcomes(row["difference"], row["sd"] ** 2, 2 * NOISE, margin)
    assert row["probability"] == pytest.approx(three[0], abs=IDENTITY)
    state = AskedPairs(model, random_pairs(pool(model, None)[0], 100, np.random.default_rng(0)))
    mean, variance = state.mean.copy(), state.variance.copy()
    state.ask(3)
    left = variance_once_answered(
        mean[3], variance[3], 2 * NOISE, variance[3], variance[3], margin, slow.nodes()
    )
    assert state.variance[3] == pytest.approx(left, rel=IDENTITY)


# Draws of the exact posterior, and of votes.


def test_the_sampler_and_the_engine_predict_the_same_judge() -> None:
    model = made()
    a, b = sides(model)
    drawn = spg.sample_posterior(model, 1000, np.random.default_rng(0))
    check = spg.check_against_sampling(model, a, b, draws=drawn)
    # Without the average on both sides they would be 0.01 apart and more.
    assert check.new.probability.largest < 0.005
    spread = drawn.difference(a, b)
    # About its own draws of the difference, by hand.
    d = drawn.differences(a, b, np.random.default_rng(1)).reshape(-1, len(a))
    nodes, weights = slow.nodes()
    by_hand = sum(
        w * ndtr((d - MARGIN) / math.sqrt(2 * NOISE * r)).mean(0)
        for r, w in zip(nodes, weights, strict=True)
    )
    error = np.maximum(spread.probability_error, 1.0 / math.sqrt(len(d)))
    assert np.all(np.abs(by_hand - spread.probability) < MONTE_CARLO_STANDARD_ERRORS * error)
    half = tfp.distributions.LogNormal(np.float64(0.0), np.float64(0.5))
    model.likelihood.noise_ratio.prior = half
    with pytest.raises(ValueError, match="posterior of another model"):
        spg.check_against_sampling(model, a, b, draws=drawn)
