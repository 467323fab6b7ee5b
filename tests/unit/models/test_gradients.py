"""The gradient of `training_loss` against central differences of the re-converged evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import sparse_prefgp as spg
from sparse_prefgp.approximations import Approximation
from tests.cases import ALL, FORMS, random_duels
from tests.tolerances import GRADIENT, GRADIENT_SOLVER

# Truncation of second order and rounding of the evidence are both far below GRADIENT.
STEP = 3e-5

Variables = Sequence[tf.Variable]


class Case:
    """A small model all of whose parameters are trainable, and its gradient."""

    def __init__(self, approximation: Approximation, kernel: gpflow.kernels.Kernel) -> None:
        duels = random_duels(5, items=7, duels=14)
        z = np.random.default_rng(8).normal(size=(3, 2))
        self.model = spg.PreferenceGP(
            duels,
            kernel,
            approximation=approximation,
            inducing_variable=z if approximation.needs_inducing else None,
            engine=spg.ParallelEP(tolerance=GRADIENT_SOLVER),
            noise_variance=0.2,
            mean_function=gpflow.functions.Linear(A=[[0.3], [-0.4]], b=[0.1]),
        )
        gpflow.set_trainable(self.model.likelihood.noise, True)
        gpflow.set_trainable(self.model.mean_function.b, False)
        self.model.warned_about_scale = True
        self.model.training_loss()  # warm the sites

    def groups(self) -> dict[str, Variables]:
        model = self.model
        groups = {
            "noise": model.likelihood.noise.trainable_variables,
            "mean": model.mean_function.trainable_variables,
        }
        if isinstance(model.kernel, gpflow.kernels.Stationary):
            groups["variance"] = model.kernel.variance.trainable_variables
            groups["lengthscales"] = model.kernel.lengthscales.trainable_variables
        else:
            groups["kernel"] = model.kernel.trainable_variables
        if model.inducing_variable is not None:
            groups["Z"] = model.inducing_variable.trainable_variables
        return groups

    def gradients(self) -> dict[str, list[np.ndarray]]:
        groups = self.groups()
        with tf.GradientTape() as tape:
            loss = self.model.training_loss()
        return {
            name: [tf.convert_to_tensor(g).numpy() for g in group]
            for name, group in tape.gradient(loss, groups).items()
        }

    def slope(self, variables: Variables, direction: Sequence[np.ndarray]) -> float:
        """Derivative of the loss along a direction, from evidences alone."""
        start = [v.numpy() for v in variables]

        def loss(step: float) -> float:
            for v, s, d in zip(variables, start, direction, strict=True):
                v.assign(s + step * d)
            value = -self.model.log_evidence()
            assert self.model.infer().converged
            return value

        rise = loss(STEP) - loss(-STEP)
        for v, s in zip(variables, start, strict=True):
            v.assign(s)
        return rise / (2 * STEP)

    def check(self, along: Callable[[list[np.ndarray]], list[list[np.ndarray]]]) -> None:
        groups, gradients = self.groups(), self.gradients()
        for name, variables in groups.items():
            gradient = gradients[name]
            size = np.sqrt(sum(float(np.sum(g**2)) for g in gradient))
            assert size > 1e-3, f"the data say nothing about {name}"
            for direction in along(gradient):
                expected = self.slope(variables, direction)
                actual = sum(float(np.sum(g * d)) for g, d in zip(gradient, direction, strict=True))
                assert actual == pytest.approx(expected, rel=GRADIENT, abs=GRADIENT * size), name


def steepest(gradient: list[np.ndarray]) -> list[list[np.ndarray]]:
    """The gradient's own direction: right if and only if its length is."""
    size = np.sqrt(sum(float(np.sum(g**2)) for g in gradient))
    return [[g / size for g in gradient]]


def random_direction(gradient: list[np.ndarray]) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(17)
    random = [rng.normal(size=g.shape) for g in gradient]
    length = np.sqrt(sum(float(np.sum(r**2)) for r in random))
    return [[r / length for r in random]]


def every_component(gradient: list[np.ndarray]) -> list[list[np.ndarray]]:
    directions = []
    for i, g in enumerate(gradient):
        for unit in np.eye(g.size):
            direction = [np.zeros_like(other) for other in gradient]
            direction[i] = unit.reshape(g.shape)
            directions.append(direction)
    return directions


def stationary() -> gpflow.kernels.Kernel:
    return gpflow.kernels.SquaredExponential(variance=1.4, lengthscales=[0.8, 1.1])


# Each approximation in one of the two forms; in the other one it is slow.
@pytest.mark.covering("DTC", "VFE", "TightVFE-diagonal")
@pytest.mark.parametrize("name", ALL)
def test_steepest_direction_over_items(name: str) -> None:
    Case(ALL[name](over="items"), stationary()).check(steepest)


@pytest.mark.covering("Exact", "TightVFE-logdet")
@pytest.mark.parametrize("name", ALL)
def test_random_direction_over_duels(name: str) -> None:
    Case(ALL[name](over="duels"), stationary()).check(random_direction)


@pytest.mark.slow
@pytest.mark.parametrize("over", FORMS)
@pytest.mark.parametrize("name", ALL)
def test_every_component(name: str, over: str) -> None:
    Case(ALL[name](over=over), stationary()).check(every_component)


def composite() -> gpflow.kernels.Kernel:
    k = gpflow.kernels
    return (
        k.Matern52(lengthscales=0.9, active_dims=[0]) * k.Periodic(k.SquaredExponential())
        + k.Linear(variance=0.4)
        + k.ArcCosine(order=1)
    )


@pytest.mark.covering("Exact")
@pytest.mark.parametrize("name", ["Exact", "TightVFE-logdet"])
def test_sums_products_and_non_stationary_kernels(name: str) -> None:
    Case(ALL[name](), composite()).check(random_direction)


def test_subset_of_data() -> None:
    Case(spg.SubsetOfData(9), stationary()).check(random_direction)


def test_sequential_engine() -> None:
    case = Case(spg.FITC(), stationary())
    parallel = case.gradients()
    case.model.engine = spg.SequentialEP(tolerance=GRADIENT_SOLVER)
    for name, gradient in case.gradients().items():
        for a, b in zip(gradient, parallel[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=GRADIENT, atol=GRADIENT)


def test_loss_is_the_negative_evidence() -> None:
    model = Case(spg.VFE(), stationary()).model
    assert float(model.training_loss()) == pytest.approx(-model.log_evidence(), rel=GRADIENT_SOLVER)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Exact", "FITC"])
def test_compiled_gradient_is_the_eager_one(name: str) -> None:
    case = Case(ALL[name](), stationary())
    variables = case.model.trainable_variables

    def loss_and_gradient() -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = case.model.training_loss()
        return loss, [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

    eager, compiled = loss_and_gradient(), tf.function(loss_and_gradient)()
    assert float(eager[0]) == pytest.approx(float(compiled[0]), rel=GRADIENT_SOLVER)
    for a, b in zip(eager[1], compiled[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=GRADIENT, atol=GRADIENT)


def test_priors_are_counted_in_the_loss_and_its_gradient() -> None:
    case = Case(spg.VFE(), stationary())
    model = case.model
    before, plain = float(model.training_loss()), case.gradients()["lengthscales"][0]
    model.kernel.lengthscales.prior = tfd.Gamma(np.float64(2.0), np.float64(3.0))
    parameter = model.kernel.lengthscales
    with tf.GradientTape() as tape:
        log_prior = parameter.log_prior_density()
    (expected,) = tape.gradient(log_prior, parameter.trainable_variables)
    assert float(log_prior) != 0.0
    assert float(model.training_loss()) == pytest.approx(before - float(log_prior), rel=GRADIENT)
    np.testing.assert_allclose(
        case.gradients()["lengthscales"][0], plain - expected, rtol=GRADIENT, atol=GRADIENT
    )
