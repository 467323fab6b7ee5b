"""Effects of items integrated out beside low-rank features, against dense arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.covariances import LowRankWithEffects
from sparse_prefgp.data.graph import DuelGraph
from tests.reference.slow_effects import SlowEffects
from tests.tolerances import GRADIENT, IDENTITY

CASES = ["a row an item", "items in contexts", "more duels than fit a block"]


class Case:
    """A graph, features, sites, and the same in NumPy."""

    def __init__(self, name: str, variance: float = 0.6) -> None:
        rng = np.random.default_rng(CASES.index(name))
        rows, t = (60, 900) if name == CASES[2] else (11, 40)
        pairs = rng.permuted(np.tile(np.arange(rows), (t, 1)), axis=1)[:, :2]
        duels = spg.Duels(rng.normal(size=(rows, 2)), *pairs.T)
        graph = DuelGraph.from_duels(duels, numbered=True)
        if name == CASES[1]:  # of six items; some duels are of an item with itself
            column = graph.rows.copy()
            column[:, 2] = np.array([7, 3, 3, 20, 7, 5, 11, 11, 3, 0, 20])
            graph = replace(graph, own=column)
        item = np.unique(graph.rows[:, 2], return_inverse=True)[1]
        self.features = rng.normal(size=(graph.num_rows, 4))
        self.graph, self.variance = graph, variance
        self.tau = rng.gamma(1.0, size=graph.num_sites)
        self.nu = rng.normal(size=graph.num_sites)
        self.tau[3] = self.nu[3] = 0.0
        ends = graph.winners, graph.losers
        self.slow = SlowEffects(self.features, item, *ends, variance)

    @property
    def sites(self) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.constant(self.tau), tf.constant(self.nu)

    def fast(self, single_precision: bool = False) -> LowRankWithEffects:
        given = tf.constant(self.features), self.graph, tf.constant(self.variance, tf.float64)
        return LowRankWithEffects(*given, single_precision)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("variance", [1e-6, 0.6, 400.0])
def test_marginals_are_those_of_the_dense_covariance(name: str, variance: float) -> None:
    case = Case(name, variance)
    found = case.fast().marginals(*case.sites)
    mean, covariance = case.slow.posterior(case.tau, case.nu)
    phi = case.slow.variables()
    np.testing.assert_allclose(found.mean, phi @ mean, rtol=0, atol=IDENTITY)
    expected = np.einsum("ti,ij,tj->t", phi, covariance, phi)
    np.testing.assert_allclose(found.variance, expected, rtol=0, atol=IDENTITY)
    value = 0.5 * case.nu @ (phi @ mean) - float(found.half_log_det)
    assert value == pytest.approx(case.slow.value(case.tau, case.nu), rel=IDENTITY)


@pytest.mark.parametrize("name", CASES)
def test_predictions_know_features_and_effects_jointly(name: str) -> None:
    case = Case(name)
    terms = case.fast().predict(*case.sites)
    mean, covariance = case.slow.posterior(case.tau, case.nu)
    np.testing.assert_allclose(terms.weights, mean, rtol=0, atol=IDENTITY)
    np.testing.assert_allclose(
        np.eye(len(mean)) - terms.reduction, covariance, rtol=0, atol=IDENTITY
    )


@pytest.mark.parametrize("name", CASES)
def test_columns_are_those_of_the_dense_covariance(name: str) -> None:
    case = Case(name)
    fast = case.fast()
    state = fast.start(*case.sites)
    mean, covariance = case.slow.posterior(case.tau, case.nu)
    phi = case.slow.variables()
    for site in (0, 7):
        column = fast.column(state, tf.constant(site))
        np.testing.assert_allclose(column.covariance, covariance @ phi[site], atol=IDENTITY)
        assert float(column.mean) == pytest.approx(phi[site] @ mean, abs=IDENTITY)
        expected = phi[site] @ covariance @ phi[site]
        assert float(column.variance) == pytest.approx(expected, abs=IDENTITY)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("variance", [1e-3, 0.6])
def test_gradient_in_features_and_variance(name: str, variance: float) -> None:
    case = Case(name, variance)
    features, scale = tf.constant(case.features), tf.constant(variance, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch([features, scale])
        fast = LowRankWithEffects(features, case.graph, scale)
        kept = fast.marginals(*case.sites).kept
        loss = fast.surrogate(*case.sites, kept)
    by_features, by_variance = tape.gradient(loss, [features, scale])

    def value(**changed: object) -> float:
        return case.slow._replace(**changed).value(case.tau, case.nu)

    def slope(step: float, at: object) -> float:
        return (at(step) - at(-step)) / (2.0 * step)  # type: ignore[operator]

    expected = slope(1e-4 * variance, lambda h: value(variance=variance + h))
    assert float(by_variance) == pytest.approx(expected, rel=GRADIENT)
    for row, column in ((0, 0), (5, 3), (10, 1)):

        def moved(step: float, row: int = row, column: int = column) -> float:
            features = case.features.copy()
            features[row, column] += step
            return value(features=features)

        found = float(by_features[row, column])
        assert found == pytest.approx(slope(1e-4, moved), rel=GRADIENT, abs=GRADIENT)


def test_quadratic_form_and_its_gradient() -> None:
    case = Case(CASES[1])
    scale = tf.constant(case.variance, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(scale)
        fast = LowRankWithEffects(tf.constant(case.features), case.graph, scale)
        found = fast.quadratic(*case.sites)
    phi = case.slow.variables()
    assert float(found) == pytest.approx(case.tau @ phi @ phi.T @ case.nu, rel=IDENTITY)
    effects = phi[:, 4:] @ phi[:, 4:].T / case.variance
    expected = case.tau @ effects @ case.nu
    assert float(tape.gradient(found, scale)) == pytest.approx(expected, rel=IDENTITY)


def test_single_precision_is_for_sums_over_duels() -> None:
    case = Case(CASES[2])
    rounded, whole = (case.fast(single).marginals(*case.sites) for single in (True, False))
    gap = np.abs(rounded.mean - whole.mean).max()
    assert 0.0 < gap < 1e-5


def test_what_is_not_finite_stays_so() -> None:
    case = Case(CASES[0])
    shift = tf.constant(case.nu)
    found = case.fast().marginals(tf.fill(shift.shape, tf.constant(np.nan, tf.float64)), shift)
    assert np.isnan(float(found.half_log_det))
