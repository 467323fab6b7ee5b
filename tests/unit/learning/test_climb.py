"""A run of L-BFGS on functions of which the minimum is known: walls, noise, curvature, rules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.optimize

from sparse_prefgp.learning.lbfgs import MEMORY, STOPPED, Curvature, LbfgsState, Settling, go_on
from sparse_prefgp.support.arrays import FloatArray
from tests.tolerances import FIXED_POINT

Function = Callable[[FloatArray], tuple[float, FloatArray]]


class Toy:
    """An objective without a model."""

    def __init__(self, function: Function, start: FloatArray) -> None:
        self.function, self.here, self.evaluations = function, start, 0

    def get(self) -> FloatArray:
        return self.here

    def set(self, flat: FloatArray) -> None:
        self.here = flat

    def log_prior(self) -> float:
        return 0.0

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        self.evaluations += 1
        self.here = flat
        return self.function(flat)


def run(
    function: Function, start: FloatArray, limit: int = 500, curvature: Curvature | None = None
) -> tuple[list[LbfgsState], Toy]:
    """The climb after each iteration, and at its end."""
    toy, seen = Toy(function, start), []
    first = LbfgsState.begin(toy, curvature)
    last = go_on(toy, first, limit, Settling(None, 1.0), seen.append)
    return [first, *seen, last], toy


def rosenbrock(x: FloatArray) -> tuple[float, FloatArray]:
    return float(scipy.optimize.rosen(x)), scipy.optimize.rosen_der(x)


def bowl(x: FloatArray) -> tuple[float, FloatArray]:
    return 1.5 * float(x @ x), 3.0 * x


def test_finds_the_minimum_by_the_steps_of_scipy() -> None:
    start = np.array([-1.2, 1.0, -0.5, 2.0, 0.3])
    climbs, toy = run(rosenbrock, start)
    theirs = scipy.optimize.minimize(rosenbrock, start, jac=True, method="L-BFGS-B")
    last = climbs[-1]
    assert last.converged and theirs.success
    np.testing.assert_allclose(last.position, 1.0, atol=1e3 * FIXED_POINT)
    assert abs(toy.evaluations - theirs.nfev) <= 3  # their last iterations end by other rules
    assert np.all(np.diff(last.values) < 0.0)
    assert last.history == tuple(-value for value in last.values[1:])
    assert len(last.curvature) == MEMORY


def test_a_search_that_promises_nothing_is_soon_over() -> None:
    def rough(x: FloatArray) -> tuple[float, FloatArray]:
        return 100.0 + 1e-8 * bool(x.any()), np.array([1e-3, 0.0])

    climbs, toy = run(rough, np.zeros(2), curvature=Curvature(np.eye(2), np.eye(2)))
    assert climbs[-1].converged and "promises less" in climbs[-1].ended
    assert not climbs[-1].position.any() and toy.evaluations <= 5


def test_where_no_step_can_be_evaluated_is_no_optimum() -> None:
    """A gradient of 10 of 186 nats, with a curvature learned from a jump that promises nothing."""
    start = np.zeros(2)

    def jumps(x: FloatArray) -> tuple[float, FloatArray]:
        return 186.0 + 0.1 * bool(x.any()), np.array([10.0, 0.0])

    learned = Curvature(np.array([[1e-6, 0.0]]), np.array([[10.0, 0.0]]))
    last = run(jumps, start, curvature=learned)[0][-1]
    assert last.promised < 1e-7 * 186.0
    assert last.iterations == 0 and not last.converged
    assert last.ended.startswith("no step improves the objective, though its gradient is far")

    def creeps(x: FloatArray) -> tuple[float, FloatArray]:
        return 186.0 - 1e-8 * bool(x.any()), np.array([10.0, 0.0])

    last = run(creeps, start)[0][-1]
    assert last.iterations == 1 and not last.converged and "far from 0" in last.ended


def test_ends_at_the_limit_and_resumes_to_the_same_minimum() -> None:
    start = np.array([-1.2, 1.0, -0.5, 2.0])
    climbs, _ = run(rosenbrock, start, limit=12)
    at_limit = climbs[-1]
    assert at_limit.iterations == 12 and not at_limit.ended and not at_limit.converged
    toy = Toy(rosenbrock, at_limit.position)
    again = go_on(toy, at_limit, 500, Settling(None, 1.0), lambda _: None)
    assert again.converged and again.values[:13] == at_limit.values
    np.testing.assert_allclose(again.position, 1.0, atol=1e3 * FIXED_POINT)
    assert go_on(toy, again, 500, Settling(None, 1.0), lambda _: None) is again


def test_what_the_quadratic_model_promises() -> None:
    """With one curvature in all directions a step tells it, and with it how far it is to 0."""
    first, second, *_ = run(bowl, np.array([2.0, -1.0, 5.0]))[0]
    assert first.promised == 0.5 * float(np.sum(first.gradient**2))
    assert second.promised == pytest.approx(second.value)


def test_the_root_of_the_curvature() -> None:
    rng = np.random.default_rng(0)
    hessian = np.diag([1.0, 3.0, 10.0, 0.2, 5.0])
    curvature = Curvature.unknown(5)
    for step in rng.normal(size=(3, 5)):
        curvature = curvature.with_step(step, hessian @ step)
    inverse = curvature.times(np.eye(5))
    root = np.stack([curvature.root()(row) for row in np.eye(5)])
    np.testing.assert_allclose(root @ root.T, inverse, rtol=1e-10, atol=1e-12)
    # The secant equation: what the last step showed is in it.
    np.testing.assert_allclose(
        curvature.times(curvature.changes[-1:].T)[:, 0], curvature.steps[-1], rtol=1e-10
    )
    against = curvature.with_step(np.ones(5), -np.ones(5))
    assert against is curvature  # would spoil positive definiteness


def test_known_curvature_makes_the_first_step_whole() -> None:
    """As much as is known from elsewhere, here from the function itself, is not learned again."""
    hessian = np.diag([1.0, 50.0, 2000.0])

    def narrow(x: FloatArray) -> tuple[float, FloatArray]:
        return 0.5 * float(x @ hessian @ x), hessian @ x

    known = Curvature.unknown(3)
    for step in np.eye(3):
        known = known.with_step(step, hessian @ step)
    start = np.array([30.0, -2.0, 1.0])
    plain, _ = run(narrow, start)
    climbs, _ = run(narrow, start, curvature=known)
    assert climbs[1].value < 1e-9 * climbs[0].value
    assert climbs[-1].iterations <= 3 < plain[-1].iterations


def test_walls_are_backed_off_from() -> None:
    """The minimum is at 1, but nothing beyond 0.8 can be evaluated."""
    failed = [0]

    def walled(x: FloatArray) -> tuple[float, FloatArray]:
        if x[0] > 0.8:
            failed[0] += 1
            return np.nan, np.full(1, np.nan)
        return float((x[0] - 1.0) ** 2), 2.0 * (x - 1.0)

    climbs, _ = run(walled, np.array([-3.0]))
    assert failed[0] > 0
    assert 0.79 < climbs[-1].position[0] <= 0.8
    assert climbs[-1].ended and np.all(np.isfinite(climbs[-1].values))


def test_walls_in_a_narrow_valley() -> None:
    """Half of a box around the way to the minimum fails; the rest still leads there."""
    failed = [0]

    def holed(x: FloatArray) -> tuple[float, FloatArray]:
        if 0.2 < x[0] < 0.4 and x[1] < 0.1:
            failed[0] += 1
            return np.nan, np.full(2, np.nan)
        return rosenbrock(x)

    climbs, _ = run(holed, np.array([-1.2, 1.0]))
    assert np.all(np.diff(climbs[-1].values) < 0.0) and climbs[-1].value < climbs[0].value


def test_no_step_where_the_gradient_is_wrong() -> None:
    climbs, _ = run(lambda x: (float(x @ x), -2.0 * x), np.array([1.0, 2.0]))
    assert not climbs[-1].converged and climbs[-1].ended.startswith("no step along the gradient")
    assert climbs[-1].iterations == 0 and climbs[-1].position is climbs[0].position


def test_at_the_minimum_nothing_more_is_evaluated() -> None:
    climbs, toy = run(bowl, np.zeros(2))
    assert toy.evaluations == 1 and climbs[-1].converged and climbs[-1].iterations == 0
    assert climbs[-1].ended == "converged: every component of the gradient is below 1e-5"


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scale_of_the_problem(scale: float) -> None:
    def scaled(x: FloatArray) -> tuple[float, FloatArray]:
        return float(scale * (x @ x)), 2.0 * scale * x

    last = run(scaled, np.array([1.0, -2.0]))[0][-1]
    assert last.converged and last.value < 1e-4


def test_noise_at_the_optimum_is_told_from_a_search_that_failed() -> None:
    """Where the model of the memory promises nothing, a search without gain has converged."""
    noise = np.random.default_rng(0)

    def rough(x: FloatArray) -> tuple[float, FloatArray]:
        value = 100.0 + float(x @ x)
        return value + 1e-7 * noise.random(), 2.0 * x + 1e-3  # the slope is a little wrong

    last = run(rough, np.ones(3))[0][-1]
    assert last.converged and abs(last.value - 100.0) < 1e-5


def test_what_is_not_finite_at_the_start_has_ended() -> None:
    climbs, _ = run(lambda x: (np.nan, np.full(2, np.nan)), np.ones(2))
    assert climbs[-1].ended == "not finite at the first parameters" and not climbs[-1].converged


def test_each_can_end_the_run() -> None:
    toy = Toy(rosenbrock, np.array([-1.2, 1.0]))

    def stop(climb: LbfgsState) -> None:
        np.testing.assert_array_equal(toy.here, climb.position)
        if climb.iterations == 3:
            raise StopIteration

    last = go_on(toy, LbfgsState.begin(toy), 100, Settling(None, 1.0), stop)
    assert last.iterations == 3 and last.ended == STOPPED and not last.converged
