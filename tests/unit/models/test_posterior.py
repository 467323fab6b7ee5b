"""Predictions: shapes, joint and marginal, duels, chunks, mean functions."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.models import posterior as posterior_module
from tests.cases import random_duels
from tests.tolerances import IDENTITY, ROUNDING

NEW = np.random.default_rng(3).normal(size=(6, 2))
OTHER = np.random.default_rng(4).normal(size=(6, 2))
CONFIGURATIONS = {
    "exact-items": spg.Exact(over="items"),
    "exact-duels": spg.Exact(over="duels"),
    "vfe-items": spg.VFE(over="items"),
    "fitc-duels": spg.FITC(over="duels"),
    "subset": spg.SubsetOfData(9),
    "pitc": spg.PITC(3),
}


def build(approximation: object, **settings: object) -> spg.PreferenceGP:
    duels = random_duels(6, items=8, duels=14)
    settings = {
        "kernel": gpflow.kernels.Matern52(variance=1.5, lengthscales=[0.7, 1.2])
        + gpflow.kernels.Linear(variance=0.3),
        "noise_variance": 0.2,
        "inducing_variable": duels.items[:4] + 0.05 if approximation.needs_inducing else None,
        **settings,
    }
    return spg.PreferenceGP(duels, approximation=approximation, **settings)


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def model(request: pytest.FixtureRequest) -> spg.PreferenceGP:
    return build(CONFIGURATIONS[request.param])


@pytest.mark.covering(every=4)
def test_shapes_and_types(model: spg.PreferenceGP) -> None:
    mean, variance = model.predict_f(NEW)
    assert mean.shape == variance.shape == (6, 1)
    mean, covariance = model.predict_f(NEW, full_cov=True)
    assert mean.shape == (6, 1)
    assert covariance.shape == (1, 6, 6)
    assert model.predict_duel(NEW, OTHER).shape == (6,)
    assert mean.dtype == covariance.dtype == gpflow.default_float()
    mean, variance = model.predict_f(NEW[:1])
    assert mean.shape == variance.shape == (1, 1)
    assert model.predict_f(NEW[:0])[0].shape == (0, 1)
    assert model.predict_duel(NEW[:0], OTHER[:0]).shape == (0,)
    assert model.predict_f(NEW.tolist())[0].shape == (6, 1)


@pytest.mark.covering(every=3)
def test_marginal_is_the_diagonal_of_the_joint(model: spg.PreferenceGP) -> None:
    mean, variance = model.predict_f(NEW)
    joint_mean, covariance = model.predict_f(NEW, full_cov=True)
    np.testing.assert_allclose(mean, joint_mean, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(variance[:, 0], np.diag(covariance[0]), rtol=ROUNDING, atol=ROUNDING)
    assert np.linalg.eigvalsh(covariance[0]).min() > -IDENTITY


@pytest.mark.covering(every=3)
def test_duel_probability_from_the_joint(model: spg.PreferenceGP) -> None:
    mean, covariance = model.predict_f(np.concatenate([NEW, OTHER]), full_cov=True)
    mean, covariance = mean.numpy()[:, 0], covariance.numpy()[0]
    i, j = np.arange(6), np.arange(6, 12)
    variance = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
    expected = norm.cdf((mean[i] - mean[j]) / np.sqrt(variance + 2 * 0.2))
    np.testing.assert_allclose(model.predict_duel(NEW, OTHER), expected, rtol=IDENTITY)
    difference, spread = model.predict_difference(NEW, OTHER)
    np.testing.assert_allclose(difference, mean[i] - mean[j], atol=IDENTITY)
    np.testing.assert_allclose(spread, variance, atol=IDENTITY)


def test_the_two_outcomes_add_to_one(model: spg.PreferenceGP) -> None:
    total = model.predict_duel(NEW, OTHER) + model.predict_duel(OTHER, NEW)
    np.testing.assert_allclose(total, 1.0, rtol=ROUNDING)


def test_an_item_against_its_equal_is_a_coin(model: spg.PreferenceGP) -> None:
    items = model.duels.items
    np.testing.assert_array_equal(model.predict_duel(items, items.copy()), 0.5)
    difference, variance = model.predict_difference(NEW, NEW)
    np.testing.assert_array_equal(difference, 0.0)
    np.testing.assert_array_equal(variance, 0.0)


def test_training_winner_is_favoured(model: spg.PreferenceGP) -> None:
    duels = model.duels
    p = model.predict_duel(duels.items[duels.winners], duels.items[duels.losers]).numpy()
    assert np.average(p, weights=duels.counts) > 0.55


@pytest.mark.covering("exact-items")
def test_chunks_equal_one_by_one(model: spg.PreferenceGP, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(5).normal(size=(11, 2))
    partners = rows[::-1].copy()
    monkeypatch.setattr(posterior_module, "CHUNK", 4)
    mean, variance = model.predict_f(rows)
    p = model.predict_duel(rows, partners)
    for i in range(11):
        one_mean, one_variance = model.predict_f(rows[i : i + 1])
        one_p = model.predict_duel(rows[i : i + 1], partners[i : i + 1])
        np.testing.assert_allclose(mean[i], one_mean[0], rtol=ROUNDING, atol=ROUNDING)
        np.testing.assert_allclose(variance[i], one_variance[0], rtol=ROUNDING, atol=ROUNDING)
        np.testing.assert_allclose(p[i], one_p[0], rtol=ROUNDING)


def test_many_rows_go_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(spg.VFE())
    many = np.random.default_rng(6).normal(size=(3 * posterior_module.CHUNK + 5, 2))
    sizes = []
    marginal = posterior_module.Posterior.marginal

    def watched(self: object, inputs: object) -> object:
        sizes.append(inputs.shape[0])
        return marginal(self, inputs)

    monkeypatch.setattr(posterior_module.Posterior, "marginal", watched)
    mean, variance = model.predict_f(many)
    assert mean.shape == variance.shape == (len(many), 1)
    assert sizes == [posterior_module.CHUNK] * 3 + [5]
    assert np.all(np.isfinite(mean))
    last_mean, last_variance = model.predict_f(many[-3:])
    np.testing.assert_allclose(mean[-3:], last_mean, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(variance[-3:], last_variance, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("name", ["exact-items", "exact-duels", "vfe-items", "fitc-duels"])
def test_mean_function_is_added(name: str) -> None:
    slope = np.array([[1.5], [-0.5]])
    mean_function = gpflow.functions.Linear(A=slope, b=[2.0])
    # A prior so narrow that the data cannot move it: the mean function is all that is left.
    kernel = gpflow.kernels.SquaredExponential(variance=1e-12)
    model = build(CONFIGURATIONS[name], kernel=kernel, mean_function=mean_function)
    mean, variance = model.predict_f(NEW)
    np.testing.assert_allclose(mean, NEW @ slope + 2.0, rtol=IDENTITY, atol=IDENTITY)
    assert np.all(variance.numpy() <= 1e-12 * (1 + IDENTITY))
    expected = norm.cdf(((NEW - OTHER) @ slope)[:, 0] / np.sqrt(0.4))
    np.testing.assert_allclose(model.predict_duel(NEW, OTHER), expected, rtol=IDENTITY)


def test_far_away_the_prior_is_back() -> None:
    kernel = gpflow.kernels.Matern32(variance=1.5)
    for name in ("exact-items", "exact-duels", "vfe-items", "fitc-duels"):
        model = build(CONFIGURATIONS[name], kernel=kernel)
        mean, variance = model.predict_f(np.full((1, 2), 1e3))
        np.testing.assert_allclose(mean, 0.0, atol=IDENTITY)
        np.testing.assert_allclose(variance, 1.5, rtol=IDENTITY)


def test_log_of_tiny_probabilities_is_finite() -> None:
    model = build(
        spg.Exact(),
        noise_variance=1e-6,
        kernel=gpflow.kernels.SquaredExponential(variance=1e-12),
        mean_function=gpflow.functions.Linear(A=[[1e3], [0.0]]),
    )
    pair = Answers.between(np.array([0]), np.array([1]))
    (log_p,) = model.predict(pair, [[-1.0, 0.0], [1.0, 0.0]]).log_first
    assert np.isfinite(log_p) and log_p < -1e5


@pytest.mark.parametrize("call", ["predict_f", "predict_duel"])
def test_wrong_number_of_columns_is_refused(model: spg.PreferenceGP, call: str) -> None:
    wrong = np.zeros((2, 3))
    with pytest.raises(ValueError, match=r"2 features, but the new ones have 3.*same columns"):
        model.predict_f(wrong) if call == "predict_f" else model.predict_duel(wrong, wrong)


def test_items_with_equal_features_are_one() -> None:
    items = np.array([[0.0], [0.0], [1.0], [2.0]])
    twin = spg.Duels(items, [0, 1, 2, 0], [2, 2, 3, 1])
    merged = spg.Duels(items[1:], [0, 1], [1, 2], counts=[2, 1])
    kernel = gpflow.kernels.Matern52()
    with_twin, without = (spg.PreferenceGP(d, kernel) for d in (twin, merged))
    mean, covariance = with_twin.predict_f(items, full_cov=True)
    assert mean[0] == mean[1]
    np.testing.assert_allclose(covariance[0, 0], covariance[0, 1], rtol=ROUNDING, atol=ROUNDING)
    # The duel between the twins is a coin that tells nothing.
    assert with_twin.log_evidence() == pytest.approx(
        without.log_evidence() + np.log(0.5), abs=IDENTITY
    )
    np.testing.assert_allclose(mean, without.predict_f(items)[0], atol=IDENTITY)
