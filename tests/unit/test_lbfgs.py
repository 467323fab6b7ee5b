"""Our L-BFGS against SciPy's, across walls, and continued from a kept state."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from sparse_prefgp.selection.lbfgs import (
    MEMORY,
    WINDOW,
    FloatArray,
    Function,
    Outcome,
    Point,
    State,
    advance,
)
from tests.tolerances import FIXED_POINT


def rosenbrock(x: FloatArray) -> tuple[float, FloatArray]:
    return float(scipy.optimize.rosen(x)), scipy.optimize.rosen_der(x)


def run(function: Function, x: FloatArray, limit: int = 500) -> tuple[list[State], Outcome]:
    states = [State.begin(Point(x, *function(x)))]
    for _ in range(limit):
        state, outcome = advance(states[-1], function)
        if outcome is not Outcome.GOES_ON:
            return [*states, state], outcome
        states.append(state)
    return states, outcome


def test_finds_the_minimum_in_about_as_many_evaluations_as_scipy() -> None:
    count = [0]

    def counted(x: FloatArray) -> tuple[float, FloatArray]:
        count[0] += 1
        return rosenbrock(x)

    start = np.array([-1.2, 1.0, -0.5, 2.0, 0.3])
    states, outcome = run(counted, start)
    theirs = scipy.optimize.minimize(rosenbrock, start, jac=True, method="L-BFGS-B")
    assert outcome.converged and theirs.success
    np.testing.assert_allclose(states[-1].point.position, 1.0, atol=1e3 * FIXED_POINT)
    assert count[0] < 1.5 * theirs.nfev
    values = [state.point.value for state in states]
    assert np.all(np.diff(values) < 0.0)
    assert len(states[-1].steps) == MEMORY


def test_what_the_last_iterations_gained() -> None:
    states, _ = run(rosenbrock, np.array([-1.2, 1.0, -0.5]))
    values = [state.point.value for state in states]
    assert len(values) > 2 * WINDOW
    for i, state in enumerate(states):
        assert state.values.tolist() == values[max(0, i - WINDOW) : i + 1]
        if i < WINDOW:
            assert np.isnan(state.gained)
        else:
            assert state.gained == values[i - WINDOW] - values[i]


def test_what_the_quadratic_model_promises() -> None:
    """With one curvature in all directions a step tells it, and with it how far it is to 0."""

    def bowl(x: FloatArray) -> tuple[float, FloatArray]:
        return 1.5 * float(x @ x), 3.0 * x

    first, second, *_ = run(bowl, np.array([2.0, -1.0, 5.0]))[0]
    assert first.promised == 0.5 * float(np.sum(first.point.gradient**2))
    assert second.promised == pytest.approx(second.point.value)


def test_goes_on_to_the_bit() -> None:
    start = np.array([-1.2, 1.0, -0.5])
    states, outcome = run(rosenbrock, start)
    state = states[12]
    for expected in states[13:]:
        state, last = advance(state, rosenbrock)
        np.testing.assert_array_equal(state.point.position, expected.point.position)
    assert last is outcome


def test_walls_are_backed_off_from() -> None:
    """The minimum is at 1, but nothing beyond 0.8 can be evaluated."""
    failed = [0]

    def walled(x: FloatArray) -> tuple[float, FloatArray]:
        if x[0] > 0.8:
            failed[0] += 1
            return np.nan, np.full(1, np.nan)
        return float((x[0] - 1.0) ** 2), 2.0 * (x - 1.0)

    states, outcome = run(walled, np.array([-3.0]))
    assert failed[0] > 0
    assert 0.79 < states[-1].point.position[0] <= 0.8
    assert outcome is not Outcome.GOES_ON


def test_no_step_where_the_gradient_is_wrong() -> None:
    states, outcome = run(lambda x: (float(x @ x), -2.0 * x), np.array([1.0, 2.0]))
    assert outcome is Outcome.NO_STEP and not outcome.converged
    assert len(states) == 2 and states[1].point is states[0].point


def test_at_the_minimum_nothing_is_evaluated() -> None:
    def never(x: FloatArray) -> tuple[float, FloatArray]:
        raise AssertionError

    state = State.begin(Point(np.ones(2), 0.0, np.zeros(2)))
    assert advance(state, never) == (state, Outcome.SMALL_GRADIENT)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scale_of_the_problem(scale: float) -> None:
    def bowl(x: FloatArray) -> tuple[float, FloatArray]:
        return float(scale * (x @ x)), 2.0 * scale * x

    states, outcome = run(bowl, np.array([1.0, -2.0]))
    assert outcome.converged
    assert scale * float(states[-1].point.position @ states[-1].point.position) < 1e-4


def test_noise_at_the_optimum_is_told_from_a_search_that_failed() -> None:
    """Where the model of the memory promises nothing, a search without gain has converged."""
    noise = np.random.default_rng(0)

    def rough(x: np.ndarray) -> tuple[float, np.ndarray]:
        value = 100.0 + float(x @ x)
        return value + 1e-7 * noise.random(), 2.0 * x + 1e-3  # the slope is a little wrong

    state = State.begin(Point(np.ones(3), *rough(np.ones(3))))
    outcome = Outcome.GOES_ON
    for _ in range(100):
        state, outcome = advance(state, rough)
        if outcome is not Outcome.GOES_ON:
            break
    assert outcome.converged and abs(state.point.value - 100.0) < 1e-5

    def uphill(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float(x @ x), -2.0 * x  # a gradient of the wrong sign

    state, outcome = advance(State.begin(Point(np.ones(3), *uphill(np.ones(3)))), uphill)
    assert outcome is Outcome.NO_STEP and not outcome.converged
