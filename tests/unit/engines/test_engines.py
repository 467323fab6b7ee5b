"""Engines: settings, status, damping, agreement with one another."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.covariances import DenseOverDuels
from sparse_prefgp.engines import propagation
from sparse_prefgp.engines.base import Pace, describe
from sparse_prefgp.factors import array_moments
from sparse_prefgp.factors.sites import Factors, Sites
from tests.cases import DUEL_CASES, case_duels, case_model, random_duels
from tests.reference.slow_parallel_ep import slow_parallel_ep
from tests.tolerances import FIXED_POINT, IDENTITY, ROUNDING, SOLVER, TAIL

ENGINES = [spg.ParallelEP, spg.SequentialEP]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"damping": 0.0}, "damping is 0.0; give a number, above 0"),
        ({"damping": 1.1}, "damping is 1.1; give a number, above 0 and at most 1"),
        ({"damping": float("nan")}, "damping is nan; give a number, above 0"),
        ({"tolerance": 0.0}, "tolerance is 0.0; give a number, above 0"),
        ({"tolerance": float("nan")}, "tolerance is nan; give a number, above 0"),
        ({"max_sweeps": 0}, "max_sweeps is 0; give a whole number, at least 1"),
    ],
)
def test_bad_settings_are_refused(engine: type, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        engine(**settings)


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_are_values(engine: type) -> None:
    assert engine(tolerance=1e-3) == engine(tolerance=1e-3) != engine()
    with pytest.raises(AttributeError):
        engine().damping = 0.5


@pytest.mark.parametrize("engine", ENGINES)
def test_one_sweep_is_reported_as_too_few(engine: type) -> None:
    result = case_model(DUEL_CASES[1], spg.VFE(), engine(max_sweeps=1)).infer()
    assert not result.converged
    assert result.status is spg.results.Status.MAX_SWEEPS
    assert result.sweeps == 1
    assert result.largest_change > 1e-8
    assert "raise max_sweeps" in str(result)


@pytest.mark.parametrize("engine", ENGINES)
def test_sweeps_are_never_more_than_asked(engine: type) -> None:
    result = case_model(DUEL_CASES[2], spg.FITC(), engine(max_sweeps=3)).infer()
    assert result.sweeps == 3
    assert not result.converged


@pytest.mark.parametrize("engine", ENGINES)
def test_convergence_is_reported(engine: type) -> None:
    result = case_model(DUEL_CASES[1], spg.VFE(), engine()).infer()
    assert result.converged
    assert result.status is spg.results.Status.CONVERGED
    assert result.largest_change <= 1e-8
    assert 2 <= result.sweeps < 60
    assert "converged" in str(result)
    assert result.jitter == 0.0


class Indefinite(gpflow.kernels.Kernel):
    """No covariance at all: -10 off the diagonal, 1 on it."""

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        second = X if X2 is None else X2
        same = tf.reduce_all(X[..., :, None, :] == second[..., None, :, :], -1)
        return tf.where(same, tf.ones([], X.dtype), -10.0 * tf.ones([], X.dtype))

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return tf.ones(tf.shape(X)[:-1], X.dtype)


@pytest.mark.parametrize("engine", ENGINES)
def test_indefinite_covariance_between_duels_does_not_pass_for_converged(engine: type) -> None:
    # Positive on the diagonal, indefinite as a matrix.
    bad = tf.constant([[1.0, 5.0, -5.0], [5.0, 1.0, 5.0], [-5.0, 5.0, 1.0]], tf.float64)
    noise = tf.fill([3], tf.constant(0.01, tf.float64))
    factors = Factors(tf.ones(3, tf.float64), noise, None, tf.zeros(3, tf.float64))
    point = engine().run(DenseOverDuels(bad), factors, Sites.zeros(3, tf.float64))
    assert not describe(point, engine().tolerance).converged


@pytest.mark.parametrize("engine", ENGINES)
def test_broken_kernel_matrix_is_reported_without_an_exception(engine: type) -> None:
    model = spg.PreferenceGP(
        random_duels(0), Indefinite(), approximation=spg.Exact(over="items"), engine=engine()
    )
    result = model.infer()
    assert not result.converged
    assert result.status is spg.results.Status.NOT_FINITE
    assert "not finite" in str(result)
    assert not np.isfinite(model.log_evidence())


def test_broken_inducing_matrix_is_reported() -> None:
    model = spg.PreferenceGP(
        random_duels(0),
        Indefinite(),
        approximation=spg.VFE(),
        inducing_variable=np.random.default_rng(0).normal(size=(3, 2)),
    )
    assert model.infer().status is spg.results.Status.NOT_FINITE
    assert not np.isfinite(model.log_evidence())


def test_a_model_recovers_after_a_failed_inference() -> None:
    model = case_model(DUEL_CASES[1], spg.FITC())
    before = model.log_evidence()
    model.kernel.variance.unconstrained_variable.assign(np.nan)
    assert model.infer().status is spg.results.Status.NOT_FINITE
    model.kernel.variance.assign(DUEL_CASES[1]["variance"])
    assert model.infer().converged
    assert model.log_evidence() == pytest.approx(before, abs=IDENTITY)


def _paces(damping: float, changes: list[float]) -> list[float]:
    """The damping after each of the changes."""
    pace, found = Pace.start(damping, tf.float64), []
    for change in changes:
        pace = pace.after(tf.constant(change, tf.float64))
        found.append(float(pace.damping))
    return found


def test_steps_become_shorter_where_two_of_them_gain_too_little() -> None:
    # Of two alternating changes each is compared with its own kind, after four without judgement.
    alternating = [1.0, 9.0, 2.0, 9.0, 1.5, 7.19, 1.19, 6.0, 7.0, 8.0, 9.0, 9.0, 9.0]
    expected = [1.0] * 7 + [0.7] * 5 + [0.49]
    assert _paces(1.0, alternating) == pytest.approx(expected, rel=ROUNDING)
    # Steps of 0.5 need gain half as much: 0.89 is below 1 - 0.2 · 0.5 = 0.9, and 0.91 is not.
    assert _paces(0.5, [1.0] * 4 + [0.89, 0.89]) == [0.5] * 6
    assert _paces(0.5, [1.0] * 4 + [0.91]) == pytest.approx([0.5] * 4 + [0.35], rel=ROUNDING)
    # Constant changes: every fifth sweep, down to 1/64.
    constant = _paces(1.0, [1.0] * 80)
    assert constant[3:10] == pytest.approx([1.0] + [0.7] * 5 + [0.49], rel=ROUNDING)
    assert constant[-1] == 1.0 / 64.0


def test_a_pace_that_forgets_compares_with_nothing_before() -> None:
    pace = Pace.start(1.0, tf.float64)
    for change in (1.0, 0.9, 0.7, 0.6):
        pace = pace.after(tf.constant(change, tf.float64))
    pace = pace.forget()
    for change in (5.0, 5.0):
        pace = pace.after(tf.constant(change, tf.float64))
        assert float(pace.damping) == 1.0
    assert float(pace.after(tf.constant(5.0, tf.float64)).damping) == pytest.approx(0.7)


def _contradictory(
    seed: int, items: int, duels: int, reversed_share: float, noise_variance: float
) -> np.ndarray:
    """K_vv of duels by a utility with a squared exponential kernel, a share of them reversed."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(items, 2))
    kernel = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1))
    utility = np.linalg.cholesky(kernel + 1e-9 * np.eye(items)) @ rng.normal(size=items)
    first = rng.integers(0, items, duels)
    second = (first + 1 + rng.integers(0, items - 1, duels)) % items
    lead = utility[first] - utility[second]
    lead += np.sqrt(2.0 * noise_variance) * rng.normal(size=duels)
    ahead = (lead > 0.0) ^ (rng.random(duels) < reversed_share)
    winners, losers = np.where(ahead, first, second), np.where(ahead, second, first)
    incidence = np.zeros((duels, items))
    np.add.at(incidence, (np.arange(duels), losers), 1.0)
    np.add.at(incidence, (np.arange(duels), winners), -1.0)
    return incidence @ kernel @ incidence.T


@pytest.mark.covering("problem0-60")
@pytest.mark.parametrize(
    ("problem", "most"),
    [
        # Whole steps fall into a 2-cycle of which no change is above those before it.
        ((58, 8, 12 + (7 * 58) % 29, 0.0, 0.01), 60),
        # Short steps gain little: a rule that asks as much of them shortens them for ever.
        ((4, 10, 100, 0.2, 1e-3), 160),
    ],
)
def test_problems_on_which_whole_steps_cycle_are_settled(problem: tuple, most: int) -> None:
    matrix, noise = _contradictory(*problem), 2.0 * problem[-1]
    whole = slow_parallel_ep(matrix, noise, 1.0, 1e-8, 500).changes
    assert len(whole) == 500
    np.testing.assert_allclose(whole[-4:-2], whole[-2:], rtol=1e-3)
    assert whole[-1] > 0.01

    t = len(matrix)
    factors = Factors(
        tf.ones(t, tf.float64),
        tf.fill([t], tf.constant(noise, tf.float64)),
        None,
        tf.zeros(t, tf.float64),
    )
    engine = spg.ParallelEP()
    point = engine.run(DenseOverDuels(tf.constant(matrix)), factors, Sites.zeros(t, tf.float64))
    result = describe(point, engine.tolerance)
    assert result.converged, str(result)
    assert result.sweeps <= most
    assert 0.3 < result.damping < 1.0
    damped = slow_parallel_ep(matrix, noise, 0.3, SOLVER, 5000)
    np.testing.assert_allclose(point.found.mean, damped.mean, rtol=0, atol=FIXED_POINT)
    np.testing.assert_allclose(point.found.variance, damped.variance, rtol=0, atol=FIXED_POINT)


@pytest.mark.covering("ParallelEP-0.8")
@pytest.mark.parametrize("damping", [0.3, 0.8])
@pytest.mark.parametrize("engine", ENGINES)
def test_damping_does_not_move_the_fixed_point(engine: type, damping: float) -> None:
    case = DUEL_CASES[3]
    engine = engine(damping=damping, tolerance=SOLVER)
    model = case_model(case, spg.Exact(), engine)
    reference = case_model(case, spg.Exact())
    assert model.infer().converged
    assert model.infer().sweeps > reference.infer().sweeps or isinstance(engine, spg.SequentialEP)
    assert model.log_evidence() == pytest.approx(reference.log_evidence(), abs=IDENTITY)


@pytest.mark.parametrize("seed", range(2))
def test_very_low_noise_with_contradictions_converges(seed: int) -> None:
    # Every duel also the other way round.
    duels = random_duels(seed, items=8, duels=30)
    both = spg.Duels(
        duels.items,
        np.concatenate([duels.winners, duels.losers]),
        np.concatenate([duels.losers, duels.winners]),
    )
    model = spg.PreferenceGP(
        both,
        gpflow.kernels.SquaredExponential(),
        approximation=spg.VFE(),
        inducing_variable=duels.items[:4].copy(),
        noise_variance=1e-4,
    )
    result = model.infer()
    assert result.converged, str(result)
    assert np.isfinite(model.log_evidence())


def test_large_counts_converge() -> None:
    duels = spg.Duels(np.array([[0.0], [1.0]]), [0, 1], [1, 0], counts=[100_000, 99_900])
    model = spg.PreferenceGP(duels, gpflow.kernels.SquaredExponential())
    result = model.infer()
    assert result.converged, str(result)
    p = float(model.predict_duel([[0.0]], [[1.0]])[0])
    assert p == pytest.approx(100_000 / 199_900, abs=1 / np.sqrt(199_900))


@pytest.mark.covering("Exact-duels")
@pytest.mark.parametrize("over", ["items", "duels"])
@pytest.mark.parametrize("row", ["Exact", "VFE"])
def test_sequential_and_parallel_agree_with_counts(row: str, over: str) -> None:
    duels = random_duels(3, items=4, duels=15)
    assert duels.counts.max() > 1
    models = [
        spg.PreferenceGP(
            duels,
            gpflow.kernels.Matern32(),
            approximation=getattr(spg, row)(over=over),
            inducing_variable=None if row == "Exact" else duels.items[:2].copy(),
            engine=engine(tolerance=SOLVER),
            noise_variance=0.1,
        )
        for engine in ENGINES
    ]
    assert all(m.infer().converged for m in models)
    first, second = (m.log_evidence() for m in models)
    assert first == pytest.approx(second, abs=IDENTITY)
    for a, b in zip(*(m.predict_f(duels.items, full_cov=True) for m in models), strict=True):
        np.testing.assert_allclose(a, b, atol=IDENTITY, rtol=IDENTITY)


def test_engine_can_be_changed() -> None:
    model = spg.PreferenceGP(
        case_duels(DUEL_CASES[1]), gpflow.kernels.SquaredExponential(), engine=spg.ParallelEP()
    )
    model.infer()
    model.engine = spg.ParallelEP(max_sweeps=1, tolerance=1e-14)
    assert not model.infer(restart=True).converged


def test_one_pass_over_arrays_is_that_over_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    model = case_model(DUEL_CASES[2], spg.FITC(), spg.ParallelEP())
    prior = model.approximation.prior(model.problem())
    rng = np.random.default_rng(0)
    size = model.graph.num_sites
    sites = Sites(tf.constant(0.1 * rng.normal(size=size)), tf.constant(rng.uniform(0, 0.3, size)))

    def found() -> list[tf.Tensor]:
        state = spg.ParallelEP().evaluate(prior.covariance, prior.factors, sites)
        every = tf.nest.flatten((state, propagation.ends(state, prior.factors)))
        return [x for x in every if x is not None]

    with monkeypatch.context() as tensors:
        tensors.setattr(propagation, "_plain", lambda *_: False)
        plain = found()
    monkeypatch.setattr(array_moments, "LENGTH", size // 2 - 1)
    for one, other in zip(found(), plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=TAIL, atol=ROUNDING)
    sites = sites._replace(nu=tf.fill([size], tf.constant(np.nan, tf.float64)))
    assert np.isnan(spg.ParallelEP().evaluate(prior.covariance, prior.factors, sites).change)
