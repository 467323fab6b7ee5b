"""The variational engine: against the bound maximised directly, and GPflow's `SVGP`."""

from __future__ import annotations

from collections.abc import Callable

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.factors.expectations import expected_log_cdf, expected_log_factor
from sparse_prefgp.gpflow_blocks import DuelKernel, ItemInducingPoints
from tests.cases import DUEL_CASES, ROWS, case_model, incidence, random_duels, run_problem
from tests.reference.slow_engines import dense_problem, slow_variational
from tests.tolerances import (
    FIXED_POINT,
    GRADIENT,
    GRADIENT_SOLVER,
    IDENTITY,
    SOLVER,
    SVGP_BOUND,
    SVGP_PROBABILITY,
)
from tests.unit.engines.test_laplace import NOISE, PLACES, Z, boxed
from tests.unit.models.test_gradients import Case, random_direction, stationary, steepest


def engine() -> spg.Variational:
    return spg.Variational(tolerance=SOLVER)


@pytest.mark.covering("exact-wins")
@pytest.mark.parametrize("limits", ["wins", "both"])
@pytest.mark.parametrize("row", ["exact", "vfe", "fitc", "tight_vfe"])
def test_the_fixed_point_is_the_largest_bound(row: str, limits: str) -> None:
    """By BFGS over mean and Cholesky factor of q; k~ is inside the expectations for VFE alone."""
    duels = random_duels(5, items=6, duels=9)
    graph = boxed(duels) if limits == "both" else spg.PreferenceGP(duels, stationary()).graph
    approximation = ROWS[row]()
    inducing = Z if approximation.needs_inducing else None
    _, point, value = run_problem(graph, stationary(), approximation, NOISE, inducing, engine())
    dense = dense_problem(graph, stationary(), row, NOISE, Z, PLACES)
    inside = dense.inside if row == "vfe" else np.zeros(len(dense.noise))
    found = slow_variational(dense.covariance, dense.factors(), inside)
    wanted = found.bound + (0.0 if row == "vfe" else dense.correction)
    assert value == pytest.approx(wanted, rel=FIXED_POINT)
    where = np.repeat(np.arange(graph.num_sites), graph.counts.astype(int))
    for mine, theirs in ((point.found.mean, found.mean), (point.found.variance, found.variance)):
        np.testing.assert_allclose(
            mine.numpy()[where], theirs, rtol=FIXED_POINT, atol=10 * FIXED_POINT
        )


class ExactLikelihood(gpflow.likelihoods.ScalarLikelihood):
    """Phi(g / sqrt(2 sigma²)) with expectations by panels, exact to 1e-12."""

    def __init__(self, noise: float) -> None:
        super().__init__()
        self._noise = 2.0 * noise

    def _variational_expectations(
        self, X: tf.Tensor, Fmu: tf.Tensor, Fvar: tf.Tensor, Y: tf.Tensor
    ) -> tf.Tensor:
        del X, Y
        noise = tf.fill(tf.shape(Fmu)[:1], tf.constant(self._noise, Fmu.dtype))
        return expected_log_cdf(Fmu[:, 0], Fvar[:, 0], noise)

    def _scalar_log_prob(self, X: tf.Tensor, F: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError

    def _conditional_mean(self, X: tf.Tensor, F: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError

    def _conditional_variance(self, X: tf.Tensor, F: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError


def svgp_at_its_optimum(duels: spg.Duels, z: np.ndarray, noise: float) -> gpflow.models.SVGP:
    """Natural gradients on the full batch, which converge in some ten steps."""
    model = gpflow.models.SVGP(
        DuelKernel(stationary()),
        ExactLikelihood(noise),
        ItemInducingPoints(z.copy()),
        num_data=len(duels.winners),
        whiten=True,
    )
    pairs = np.concatenate([duels.items[duels.winners], duels.items[duels.losers]], 1)
    loss = model.training_loss_closure((pairs, np.zeros((len(pairs), 1))), compile=True)
    step = gpflow.optimizers.NaturalGradient(gamma=0.7)
    for _ in range(40):
        step.minimize(loss, [(model.q_mu, model.q_sqrt)])
    return model


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.5, 0.02])
def test_gpflows_svgp_at_its_optimum_is_the_fixed_point(noise: float) -> None:
    """Bounds to 1e-4 of their value, probabilities to 1e-3: the same kernel, Z and factors."""
    rng = np.random.default_rng(3)
    items = rng.normal(size=(12, 2))
    pairs = rng.permuted(np.tile(np.arange(12), (30, 1)), axis=1)[:, :2]
    pairs = np.unique(pairs, axis=0)  # SVGP knows no counts
    duels = spg.Duels(items, pairs[:, 0], pairs[:, 1])
    model = spg.PreferenceGP(
        duels,
        stationary(),
        approximation=spg.VFE(),
        inducing_variable=items[:5].copy(),
        engine=engine(),
        noise_variance=noise,
    )
    assert model.infer().converged
    svgp = svgp_at_its_optimum(duels, items[:5], noise)
    data = np.concatenate([items[pairs[:, 0]], items[pairs[:, 1]]], 1)
    bound = float(svgp.elbo((data, np.zeros((len(pairs), 1)))))
    assert model.log_evidence() == pytest.approx(bound, rel=SVGP_BOUND)
    new = rng.normal(size=(2, 20, 2))
    mean, variance = svgp.predict_f(np.concatenate([new[0], new[1]], 1))
    from scipy.stats import norm

    theirs = norm.cdf(mean[:, 0] / np.sqrt(variance[:, 0] + 2 * noise))
    np.testing.assert_allclose(model.predict_duel(new[0], new[1]), theirs, atol=SVGP_PROBABILITY)


@pytest.mark.parametrize("row", ["exact", "vfe"])
@pytest.mark.covering(every=2)
def test_the_value_is_the_bound_at_q_and_below_the_evidence(row: str) -> None:
    """As `lower_bounds` computes it from the same q, by its own quadrature in NumPy."""
    model = case_model(DUEL_CASES[1], ROWS[row](), engine())
    assert model.log_evidence() == pytest.approx(model.lower_bounds().rows["expected"], rel=SOLVER)
    assert model.log_evidence() < case_model(DUEL_CASES[1], spg.Exact()).log_evidence()


@pytest.mark.slow
def test_low_noise_settles_by_damping_itself() -> None:
    result = case_model(DUEL_CASES[2], spg.Exact(), spg.Variational(damping=1.0)).infer()
    assert result.converged and result.damping < 1.0


class VariationalCase(Case):
    """All parameters free."""

    def __init__(self, name: str, over: str | None = None) -> None:
        super().__init__(ROWS[name](over=over), stationary())
        self.model.engine = spg.Variational(tolerance=GRADIENT_SOLVER)


@pytest.mark.covering("vfe")
@pytest.mark.parametrize("name", ["exact", "vfe", "fitc"])
def test_gradient(name: str) -> None:
    VariationalCase(name).check(steepest)


@pytest.mark.slow
@pytest.mark.parametrize("over", ["items", "duels"])
@pytest.mark.parametrize("name", ROWS)
def test_gradient_along_a_random_direction(name: str, over: str) -> None:
    VariationalCase(name, over).check(random_direction)


@pytest.mark.slow
def test_compiled_gradient_is_the_eager_one() -> None:
    case = VariationalCase("vfe")
    variables = case.model.trainable_variables

    def gradient() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = case.model.training_loss()
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

    for a, b in zip(gradient(), tf.function(gradient)(), strict=True):
        np.testing.assert_allclose(a, b, rtol=GRADIENT, atol=GRADIENT)


def test_equal_duels_share_a_site() -> None:
    """Their bound is that of separate duels, which the q of the sites gives by hand."""
    duels = random_duels(3, items=4, duels=15)
    model = spg.PreferenceGP(
        duels,
        stationary(),
        approximation=spg.Exact(),
        engine=engine(),
        noise_variance=NOISE,
    )
    graph = model.graph
    assert graph.counts.max() > 1
    a = np.repeat(incidence(graph), graph.counts.astype(int), 0)
    mean, covariance = (x.numpy()[..., 0] if x.ndim == 2 else x[0] for x in _joint(model))
    z, v = a @ mean, np.einsum("ti,ij,tj->t", a, covariance, a)
    expected = expected_log_factor(z, v, np.full(len(z), 2 * NOISE), None, np.zeros(len(z)))
    prior = stationary()(graph.rows).numpy()
    kl = 0.5 * (
        np.trace(np.linalg.solve(prior, covariance))
        + mean @ np.linalg.solve(prior, mean)
        - len(mean)
        + np.linalg.slogdet(prior)[1]
        - np.linalg.slogdet(covariance)[1]
    )
    assert model.log_evidence() == pytest.approx(expected.sum() - kl, rel=FIXED_POINT)


def _joint(model: spg.PreferenceGP) -> tuple[tf.Tensor, np.ndarray]:
    mean, covariance = model.predict_f(model.graph.rows, full_cov=True)
    return mean, covariance.numpy()


@pytest.mark.parametrize("make", [spg.Variational, spg.Laplace, spg.ParallelEP])
def test_settings_are_checked(make: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"damping is 0\.0; give a number, above 0"):
        make(damping=0.0)
    with pytest.raises(ValueError, match="damping is 'half'; give a number, above 0"):
        make(damping="half")
    with pytest.raises(ValueError, match=r"max_sweeps is 2\.5; give a whole number, at least 1"):
        make(max_sweeps=2.5)


def test_too_few_sweeps_and_broken_parameters_are_reported() -> None:
    model = case_model(DUEL_CASES[1], spg.VFE(), spg.Variational(max_sweeps=2))
    assert model.infer().status is spg.results.Status.MAX_SWEEPS
    good = case_model(DUEL_CASES[1], spg.VFE(), engine())
    before = good.log_evidence()
    good.kernel.variance.unconstrained_variable.assign(np.nan)
    assert good.infer().status is spg.results.Status.NOT_FINITE
    good.kernel.variance.assign(DUEL_CASES[1]["variance"])
    assert good.log_evidence() == pytest.approx(before, abs=IDENTITY)
