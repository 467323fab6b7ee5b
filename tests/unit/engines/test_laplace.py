"""Laplace's approximation: against SciPy on dense matrices, gradients, convergence."""

from __future__ import annotations

from dataclasses import replace

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import norm

import sparse_prefgp as spg
from sparse_prefgp.analysis.certificates import evidence_report
from sparse_prefgp.approximations import DuelProblem
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.evidence import differentiable_log_evidence
from sparse_prefgp.factors.links import LOGIT_NOISE
from sparse_prefgp.factors.sites import Sites
from tests.cases import DUEL_CASES, ROWS, case_model, random_duels, run_problem
from tests.reference.slow_engines import (
    DenseProblem,
    SlowLaplace,
    dense_problem,
    logit_probability,
    slow_laplace,
    slow_predictions,
)
from tests.together import refused
from tests.tolerances import FIXED_POINT, GRADIENT, GRADIENT_SOLVER, IDENTITY
from tests.unit.models.test_gradients import (
    STEP,
    Case,
    Variables,
    random_direction,
    stationary,
    steepest,
)

LINKS = ("probit", "logit")
NOISE = 0.3
Z = np.random.default_rng(8).normal(size=(3, 2))
PLACES = np.random.default_rng(9).normal(size=(4, 2))


def laplace(link: str) -> spg.Laplace:
    return spg.Laplace(link=link, tolerance=GRADIENT_SOLVER)


def slow(graph: DuelGraph, row: str, link: str) -> tuple[DenseProblem, SlowLaplace, float]:
    """The dense problem, its mode, and the log evidence with the correction."""
    side = 0.5 * LOGIT_NOISE if link == "logit" else NOISE
    dense = dense_problem(graph, stationary(), row.removesuffix("_0.5"), side, Z, PLACES)
    found = slow_laplace(dense.covariance, dense.factors(LOGIT_NOISE if link == "logit" else None))
    return dense, found, found.log_evidence + dense.correction


@pytest.mark.covering("logit-exact", "logit-vfe", "logit-tight_vfe", "probit-exact")
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("link", LINKS)
def test_mode_evidence_and_predictions_are_those_of_scipy(link: str, row: str) -> None:
    duels = random_duels(3, items=5, duels=12)
    assert duels.counts.max() > 1
    approximation = ROWS[row]()
    model = spg.PreferenceGP(
        duels,
        stationary(),
        approximation=approximation,
        inducing_variable=Z if approximation.needs_inducing else None,
        engine=laplace(link),
        noise_variance=NOISE,
    )
    assert model.infer().converged
    dense, found, evidence = slow(model.graph, row, link)
    assert model.log_evidence() == pytest.approx(evidence, rel=FIXED_POINT)
    mean, covariance = slow_predictions(found, dense.covariance, dense.across, dense.prior)
    mine, spread = model.predict_f(PLACES, full_cov=True)
    np.testing.assert_allclose(mine[:, 0], mean, rtol=FIXED_POINT, atol=FIXED_POINT)
    np.testing.assert_allclose(spread[0], covariance, rtol=FIXED_POINT, atol=FIXED_POINT)
    # One pair: P(first beats second).
    m = mean[0] - mean[1]
    v = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    wanted = norm.cdf(m / np.sqrt(v + 2 * NOISE)) if link == "probit" else logit_probability(m, v)
    assert float(model.predict_duel(PLACES[:1], PLACES[1:2])[0]) == pytest.approx(
        wanted, rel=FIXED_POINT
    )


def boxed(duels: spg.Duels) -> DuelGraph:
    """Some wins, some losses, some ties: limits on both sides, one side, and none."""
    graph = DuelGraph.from_duels(duels)
    lower = np.full(graph.num_sites, -np.inf)
    upper = np.full(graph.num_sites, -0.2)
    lower[::3], upper[::3] = -0.2, 0.3
    lower[1::3], upper[1::3] = 0.25, np.inf
    upper[-1], lower[-1] = np.inf, -np.inf
    return replace(graph, lower=lower, upper=upper)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["exact", "fitc"])
@pytest.mark.parametrize("link", LINKS)
def test_limits_on_both_sides(link: str, row: str) -> None:
    graph = boxed(random_duels(5, items=7, duels=12))
    approximation = ROWS[row]()
    inducing = Z if approximation.needs_inducing else None
    engine = laplace(link)
    _, point, value = run_problem(graph, stationary(), approximation, NOISE, inducing, engine)
    _, found, evidence = slow(graph, row, link)
    assert value == pytest.approx(evidence, rel=FIXED_POINT)
    where = np.repeat(np.arange(graph.num_sites), graph.counts.astype(int))
    np.testing.assert_allclose(
        point.found.mean.numpy()[where], found.mode, rtol=FIXED_POINT, atol=FIXED_POINT
    )


@pytest.mark.covering("logit-exact")
@pytest.mark.parametrize("row", ["exact", "fitc"])
@pytest.mark.parametrize("link", LINKS)
def test_gradient_with_limits_on_both_sides(link: str, row: str) -> None:
    """In lengthscale, noise and mean function, which moves the limits."""
    graph, approximation, engine = boxed(random_duels(5)), ROWS[row](), laplace(link)
    kernel, mean = stationary(), gpflow.functions.Linear(A=[[0.3], [-0.4]], b=[0.0])
    z = gpflow.inducing_variables.InducingPoints(Z) if approximation.needs_inducing else None
    side = tf.Variable(NOISE, dtype=tf.float64)
    variables = [kernel.lengthscales.unconstrained_variable, mean.A.unconstrained_variable]
    variables += [side] if link == "probit" else []

    def value() -> tf.Tensor:
        noise = tf.convert_to_tensor(side)
        problem = DuelProblem(graph, kernel, mean, noise, z, logistic=link == "logit")
        prior = approximation.prior(problem)
        point = engine.run(
            prior.covariance, prior.factors, Sites.zeros(graph.num_sites, tf.float64)
        )
        total = point.log_evidence(prior.correction)
        return differentiable_log_evidence(
            prior, point.sites, point.slopes, point.found.kept, total
        )

    with tf.GradientTape() as tape:
        total = value()
    for variable, gradient in zip(variables, tape.gradient(total, variables), strict=True):
        start, g = variable.numpy(), tf.convert_to_tensor(gradient).numpy()
        direction = g / np.sqrt(np.sum(g**2))
        ends = []
        for sign in (1, -1):
            variable.assign(start + sign * STEP * direction)
            ends.append(float(value()))
        variable.assign(start)
        slope = (ends[0] - ends[1]) / (2 * STEP)
        assert slope == pytest.approx(np.sum(g * direction), rel=GRADIENT)


class LaplaceCase(Case):
    """All parameters free; logistic noise is what it is."""

    def __init__(self, name: str, link: str, over: str | None = None) -> None:
        super().__init__(ROWS[name](over=over), stationary())
        self.model.engine = laplace(link)

    def groups(self) -> dict[str, Variables]:
        groups = super().groups()
        if not self.model.engine.link_function.has_normal_noise:
            del groups["noise"]
        return groups


@pytest.mark.covering("probit-exact", "probit-fitc")
@pytest.mark.parametrize("name", ["exact", "vfe", "fitc"])
@pytest.mark.parametrize("link", LINKS)
def test_gradient_of_a_mode_that_moves(link: str, name: str) -> None:
    LaplaceCase(name, link).check(steepest)


@pytest.mark.slow
@pytest.mark.parametrize("over", ["items", "duels"])
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("link", LINKS)
def test_gradient_along_a_random_direction(link: str, name: str, over: str) -> None:
    LaplaceCase(name, link, over).check(random_direction)


def test_noise_has_no_say_with_logit_factors() -> None:
    case = LaplaceCase("fitc", "logit")
    before = case.model.log_evidence()
    probability = case.model.predict_duel(PLACES[:1], PLACES[1:2])
    case.model.likelihood.noise.assign(7.0)
    assert case.model.log_evidence() == pytest.approx(before, rel=IDENTITY)
    np.testing.assert_allclose(
        case.model.predict_duel(PLACES[:1], PLACES[1:2]), probability, rtol=IDENTITY
    )


@pytest.mark.parametrize("link", LINKS)
def test_warm_starts_take_fewer_steps(link: str) -> None:
    model = case_model(DUEL_CASES[3], spg.VFE(), spg.Laplace(link=link))
    cold = model.infer()
    assert cold.converged and 3 <= cold.sweeps < 20
    evidence = model.log_evidence()
    model.kernel.variance.assign(1.02 * model.kernel.variance)
    warm = model.infer()
    assert warm.converged and warm.sweeps < cold.sweeps
    model.kernel.variance.assign(model.kernel.variance / 1.02)
    assert model.log_evidence() == pytest.approx(evidence, abs=IDENTITY)


@pytest.mark.parametrize("link", LINKS)
def test_a_bad_start_is_recovered_from(link: str) -> None:
    """A z far out on the wrong side, where whole steps overshoot."""
    model = case_model(DUEL_CASES[2], spg.Exact(), spg.Laplace(link=link))
    good = model.log_evidence()
    size = model.graph.num_sites
    model.inference.start_from(np.linspace(-300.0, 300.0, size), np.full(size, 1e-3))
    assert model.infer().converged
    assert model.log_evidence() == pytest.approx(good, abs=IDENTITY)


def test_too_few_steps_are_reported() -> None:
    model = case_model(DUEL_CASES[3], spg.VFE(), spg.Laplace(max_sweeps=2))
    result = model.infer()
    assert not result.converged and result.sweeps == 2
    assert result.status is spg.results.Status.MAX_SWEEPS
    model.kernel.variance.unconstrained_variable.assign(np.nan)
    assert model.infer(restart=True).status is spg.results.Status.NOT_FINITE


@pytest.mark.slow
def test_compiled_gradient_is_the_eager_one() -> None:
    case = LaplaceCase("vfe", "logit")
    variables = [v for group in case.groups().values() for v in group]

    def gradient() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = case.model.training_loss()
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

    for a, b in zip(gradient(), tf.function(gradient)(), strict=True):
        np.testing.assert_allclose(a, b, rtol=GRADIENT, atol=GRADIENT)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="link is 'cauchit'; choose from probit, logit"):
        spg.Laplace(link="cauchit")
    with pytest.raises(ValueError, match=r"link is \['probit'\]; choose from probit, logit"):
        spg.Laplace(link=["probit"])  # type: ignore[arg-type]
    model = case_model(DUEL_CASES[0], spg.VFE(), spg.Laplace(link="logit"))
    for call in (model.lower_bound, model.lower_bounds, lambda: evidence_report(model)):
        with refused("logistic", "lower_bounds"):
            call()


def test_the_lower_bound_holds_for_the_mode_too() -> None:
    model = case_model(DUEL_CASES[1], spg.VFE(), spg.Laplace())
    assert model.lower_bound() < case_model(DUEL_CASES[1], spg.Exact()).log_evidence()
