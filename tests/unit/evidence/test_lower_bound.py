"""The rigorous lower bound: its figures, its parts, and that it is one."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp import evidence
from sparse_prefgp.approximations import DuelProblem
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.evidence import LowerBounds, lower_bounds
from sparse_prefgp.factors.sites import Sites
from tests.cases import ALL, DUEL_CASES, FORMS, case_duels, case_kernel, case_model, random_duels
from tests.reference.slow_approximations import squared_exponential
from tests.reference.slow_lower_bound import slow_lower_bounds
from tests.tolerances import EP_ERROR, EVIDENCE, IDENTITY

LOOSE = spg.ParallelEP(tolerance=1e-6)


def problem_of(
    graph: DuelGraph,
    kernel: gpflow.kernels.Kernel,
    noise_variance: float,
    inducing: np.ndarray | None,
    mean_function: gpflow.functions.MeanFunction | None = None,
) -> DuelProblem:
    z = None if inducing is None else gpflow.inducing_variables.InducingPoints(inducing)
    return DuelProblem(graph, kernel, mean_function, tf.constant(noise_variance, tf.float64), z)


def constant_sites(nu: np.ndarray, tau: np.ndarray) -> Sites:
    return Sites(tf.constant(nu, tf.float64), tf.constant(tau, tf.float64))


def test_figures_of_the_reference_cases() -> None:
    """Method section 3: (a) -193 and -4290, (b) -61.9 and -211.8, by rank -55.2 and -147.3."""
    published = {
        2: {"expected": -192.65, "diagonal": -61.93, "rank": -55.15},
        4: {"expected": -4289.9, "diagonal": -211.77, "rank": -147.32, "pairs": -196.87},
    }
    for index, figures in published.items():
        bounds = case_model(DUEL_CASES[index], spg.VFE(), LOOSE).lower_bounds()
        for name, value in figures.items():
            assert bounds.rows[name] == pytest.approx(value, abs=0.05)
        assert bounds.row == "logdet"
        assert bounds.value == max(bounds.rows.values())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.covering(every=12)
def test_against_dense_matrices(name: str) -> None:
    """With repeated and opposite duels, and a mean function."""
    given = random_duels(3, items=6, duels=14)
    slope = np.array([0.4, -0.3])
    approximation = ALL[name](over=FORMS[len(name) % 2])
    z = given.items[:3] + 0.2
    model = spg.PreferenceGP(
        given,
        gpflow.kernels.SquaredExponential(variance=1.4, lengthscales=0.8),
        approximation=approximation,
        inducing_variable=z if approximation.needs_inducing else None,
        engine=LOOSE,
        noise_variance=0.1,
        mean_function=gpflow.functions.Linear(A=slope[:, None], b=[0.0]),
    )
    found = model.lower_bounds()
    graph = model.graph
    assert graph.counts.max() > 1
    repeat = np.repeat(np.arange(graph.num_sites), graph.counts.astype(int))
    nu, tau = model.inference.sites()
    winners, losers = graph.winners[repeat], graph.losers[repeat]
    expected = slow_lower_bounds(
        graph.rows,
        winners,
        losers,
        squared_exponential(1.4, 0.8),
        0.1,
        nu[repeat],
        tau[repeat],
        z if approximation.needs_inducing else None,
        offset=(graph.rows[losers] - graph.rows[winners]) @ slope,
    )
    assert set(found.rows) == set(expected)
    for row, value in expected.items():
        assert found.rows[row] == pytest.approx(value, abs=IDENTITY, rel=IDENTITY), row
    assert model.lower_bound() == max(found.rows.values())
    assert found.kl > 0.0


@pytest.mark.parametrize("index", [0, 1, 3])
def test_exact_inference_is_nearly_certified(index: int) -> None:
    """At moderate noise q(f) of exact EP loses little more than EP's own error."""
    model = case_model(DUEL_CASES[index], spg.Exact(), LOOSE)
    assert model.lower_bounds().rows.keys() == {"expected"}
    assert model.lower_bound() < model.log_evidence() + EP_ERROR
    assert model.lower_bound() == pytest.approx(model.log_evidence(), abs=3 * EP_ERROR)


def test_exact_over_items_and_over_duels_agree() -> None:
    bounds = [
        case_model(DUEL_CASES[1], spg.Exact(over=over)).lower_bound() for over in ("items", "duels")
    ]
    assert bounds[0] == pytest.approx(bounds[1], abs=EVIDENCE)


def test_all_items_as_inducing_inputs_is_exact() -> None:
    case = DUEL_CASES[1]
    exact = case_model(case, spg.Exact()).lower_bound()
    for approximation in (spg.VFE(), spg.FITC()):
        model = case_model(case, approximation, inducing=np.array(case["items"]))
        assert model.lower_bound() == pytest.approx(exact, abs=EVIDENCE)


def test_a_subset_is_bounded_on_all_duels() -> None:
    case = DUEL_CASES[3]
    exact = case_model(case, spg.Exact()).lower_bound()
    subset = case_model(case, spg.SubsetOfData(20, seed=1))
    assert subset.log_evidence() > exact
    assert subset.lower_bound() < exact
    assert subset.all_duels.counts.sum() == 40.0
    everyone = case_model(case, spg.SubsetOfData(40))
    assert everyone.lower_bound() == pytest.approx(exact, abs=EVIDENCE)


def test_a_subset_with_a_mean_function_and_item_effects() -> None:
    given = random_duels(5, items=6, duels=15)
    bounds = []
    for approximation in (spg.Exact(), spg.SubsetOfData(15)):
        model = spg.PreferenceGP(
            given,
            gpflow.kernels.SquaredExponential() + spg.ItemEffect(0.3),
            approximation=approximation,
            mean_function=gpflow.functions.Linear(A=[[0.5], [0.2]], b=[0.0]),
        )
        bounds.append(model.lower_bound())
    assert bounds[0] == pytest.approx(bounds[1], abs=EVIDENCE)


def test_item_effects_leave_less_to_the_residual() -> None:
    given = random_duels(6, items=8, duels=30)
    kernel = gpflow.kernels.SquaredExponential(lengthscales=2.0) + spg.ItemEffect(0.5)
    exact = spg.PreferenceGP(given, kernel, approximation=spg.Exact())
    sparse = spg.PreferenceGP(
        given, kernel, approximation=spg.VFE(), inducing_variable=given.items[:6]
    )
    assert sparse.lower_bound() < exact.log_evidence() + EP_ERROR
    assert sparse.lower_bound() == pytest.approx(exact.log_evidence(), abs=0.5)


def test_no_log_determinant_above_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    model = case_model(DUEL_CASES[1], spg.VFE(), LOOSE)
    with_it = model.lower_bounds()
    monkeypatch.setattr(evidence, "LOG_DET_UP_TO", 11)
    without = model.lower_bounds()
    assert with_it.row == "logdet"
    assert without.row == "rank"
    assert without.value < with_it.value


def test_one_row_that_is_not_finite_hides_no_other() -> None:
    bounds = LowerBounds({"expected": -3.0, "logdet": float("nan"), "rank": float("-inf")}, 1.0)
    assert (bounds.row, bounds.value) == ("expected", -3.0)
    assert np.isnan(LowerBounds({"expected": float("nan")}, 1.0).value)


coordinates = st.floats(-2.0, 2.0)
sites = st.lists(st.tuples(st.floats(-4.0, 4.0), st.floats(0.0, 30.0)), min_size=2, max_size=2)


@settings(max_examples=30, deadline=None)
@given(
    items=st.lists(coordinates, min_size=3, max_size=3),
    inducing=st.none() | coordinates,
    natural=sites,
    noise=st.floats(1e-3, 2.0),
    variance=st.floats(0.01, 20.0),
    flip=st.booleans(),
)
@pytest.mark.slow
def test_never_above_the_exact_evidence_of_two_duels(
    items: list[float],
    inducing: float | None,
    natural: list[tuple[float, float]],
    noise: float,
    variance: float,
    flip: bool,
) -> None:
    """Any sites, not only EP's: the bound must hold for every q."""
    x = np.array(items)[:, None]
    winners, losers = np.array([0, 2 if flip else 1]), np.array([1, 1 if flip else 2])
    graph = DuelGraph(
        x, winners, losers, np.ones(2), np.full(2, -np.inf), np.zeros(2), np.arange(3)
    )
    kernel = gpflow.kernels.SquaredExponential(variance=variance)
    nu, tau = np.array(natural).T
    found = lower_bounds(
        problem_of(graph, kernel, noise, None if inducing is None else np.array([[inducing]])),
        constant_sites(nu, tau),
    )
    a = np.zeros((2, 3))
    a[[0, 1], losers], a[[0, 1], winners] = 1.0, -1.0
    v = a @ kernel(x).numpy() @ a.T + 2 * noise * np.eye(2)
    # P(v < 0) = 1/4 + arcsin(correlation) / 2 pi
    correlation = v[0, 1] / np.sqrt(v[0, 0] * v[1, 1])
    truth = np.log(0.25 + np.arcsin(correlation) / (2 * np.pi))
    assert max(found.rows.values()) <= truth + IDENTITY


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    natural=st.tuples(st.floats(-4.0, 4.0), st.floats(0.0, 30.0)),
    apart=st.floats(0.0, 3.0),
    inducing=st.none() | coordinates,
    noise=st.floats(1e-3, 2.0),
    slope=st.floats(-2.0, 2.0),
    limits=st.sampled_from([(-np.inf, -0.4), (-0.4, 0.4), (0.4, np.inf), (1.0, 1.2)]),
)
def test_never_above_the_exact_evidence_of_a_win_or_a_tie(
    natural: tuple[float, float],
    apart: float,
    inducing: float | None,
    noise: float,
    slope: float,
    limits: tuple[float, float],
) -> None:
    """One duel with any limits and a prior mean: an interval of one normal."""
    x = np.array([[0.0], [apart]])
    one = np.ones(1)
    graph = DuelGraph(
        x, np.array([0]), np.array([1]), one, limits[0] * one, limits[1] * one, np.arange(2)
    )
    kernel = gpflow.kernels.Matern52()
    mean_function = gpflow.functions.Linear(A=[[slope]], b=[0.0])
    z = None if inducing is None else np.array([[inducing]])
    found = lower_bounds(
        problem_of(graph, kernel, noise, z, mean_function),
        constant_sites(natural[0] * one, natural[1] * one),
    )
    k = kernel(x).numpy()
    sd = np.sqrt(k[0, 0] + k[1, 1] - 2 * k[0, 1] + 2 * noise)
    a, b = (np.array(limits) - slope * apart) / sd
    truth = np.log(norm.cdf(b) - norm.cdf(a) if a + b < 0 else norm.sf(a) - norm.sf(b))
    assert max(found.rows.values()) <= truth + IDENTITY


def test_the_best_q_of_one_win_reaches_the_truth_at_high_noise() -> None:
    """The bound is not only valid: with a factor that is nearly linear it is nearly the truth."""
    case = dict(DUEL_CASES[0], winners=[0], losers=[1], noise_variance=50.0)
    model = spg.PreferenceGP(case_duels(case), case_kernel(case), noise_variance=50.0)
    assert model.lower_bound() == pytest.approx(model.log_evidence(), abs=EP_ERROR / 10)
    assert model.lower_bound() < model.log_evidence()
