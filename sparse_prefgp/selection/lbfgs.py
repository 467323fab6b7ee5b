"""L-BFGS whose whole state is a value, so that a run can be kept, continued and repeated.

SciPy's keeps its memory of steps to itself; with this one an interrupted run goes on exactly where
it was. Minimises; knows nothing of models.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Function = Callable[[FloatArray], tuple[float, FloatArray]]

MEMORY = 10
# Iterations over which it is said what they brought together.
WINDOW = 10
# Relative change of the value, and largest component of the gradient, that end a run: SciPy's.
SMALL_CHANGE = 2.220446049250313e-09
SMALL_GRADIENT = 1e-5
# The objective at loosely converged sites is no better than that.
PRECISION = 1e-7
# Wolfe conditions: share of the predicted fall, and share of the slope that may be left.
_SUFFICIENT, _CURVATURE = 1e-4, 0.9
_MAX_TRIALS = 20


class Outcome(Enum):
    """How an iteration ended; the text says why a run stops."""

    GOES_ON = "goes on"
    SMALL_GRADIENT = "converged: every component of the gradient is below 1e-5"
    SMALL_CHANGE = "converged: the last step changed the objective by less than 2e-9 of its value"
    NOTHING_TO_GAIN = (
        "converged: no step improves the objective, and its quadratic model promises less than "
        "1e-7 of its value"
    )
    NO_STEP = "no step along the gradient improves the objective any more"

    def __str__(self) -> str:
        return self.value

    @property
    def converged(self) -> bool:
        return self in (Outcome.SMALL_GRADIENT, Outcome.SMALL_CHANGE, Outcome.NOTHING_TO_GAIN)


@dataclass(frozen=True, eq=False)
class Point:
    """position (p,), the value there, and the gradient (p,)."""

    position: FloatArray
    value: float
    gradient: FloatArray

    @property
    def finite(self) -> bool:
        return math.isfinite(self.value) and bool(np.all(np.isfinite(self.gradient)))


@dataclass(frozen=True, eq=False)
class State:
    """Where a run is: the point, and the last steps with the changes of gradient they brought.

    steps, changes: (k, p), oldest first, k at most `MEMORY`. values: of the last points, this one
    last, at most `WINDOW` + 1.
    """

    point: Point
    steps: FloatArray
    changes: FloatArray
    values: FloatArray

    @classmethod
    def begin(cls, point: Point) -> State:
        """Without memory: the next direction is that of steepest descent."""
        nothing = np.zeros((0, len(point.position)))
        return cls(point, nothing, nothing, np.array([point.value]))

    @property
    def gained(self) -> float:
        """By how much the value fell in the last `WINDOW` iterations; NaN before there are so
        many."""
        if len(self.values) <= WINDOW:
            return math.nan
        return float(self.values[0] - self.values[-1])

    @property
    def promised(self) -> float:
        """By how much the value would fall to the minimum of the quadratic model."""
        return -0.5 * float(self.point.gradient @ direction_from(self))


def advance(state: State, function: Function) -> tuple[State, Outcome]:
    """One iteration (Nocedal 1980; Liu & Nocedal 1989) with a search for the Wolfe conditions.

    :param function: value and gradient at a position; a value or a gradient that is not finite
        means that the evaluation failed, and the search goes back towards the start of the step.
    :return: the new state, whose value is lower unless the outcome is `NO_STEP`.
    """
    point = state.point
    if np.max(np.abs(point.gradient)) <= SMALL_GRADIENT:
        return state, Outcome.SMALL_GRADIENT
    direction = direction_from(state)
    found = _search(function, point, direction, 1.0 if len(state.steps) else None)
    if found is None and len(state.steps):  # the memory may be to blame
        if state.promised <= PRECISION * max(abs(point.value), 1.0):
            return state, Outcome.NOTHING_TO_GAIN
        state = replace(State.begin(point), values=state.values)
        found = _search(function, point, direction_from(state), None)
    if found is None:
        return state, Outcome.NO_STEP
    values = np.append(state.values, found.value)[-WINDOW - 1 :]
    new = State(found, *_remembered(state, found), values)
    scale = max(abs(point.value), abs(found.value), 1.0)
    if point.value - found.value <= SMALL_CHANGE * scale:
        return new, Outcome.SMALL_CHANGE
    small = np.max(np.abs(found.gradient)) <= SMALL_GRADIENT
    return new, Outcome.SMALL_GRADIENT if small else Outcome.GOES_ON


def _remembered(state: State, found: Point) -> tuple[FloatArray, FloatArray]:
    step = found.position - state.point.position
    change = found.gradient - state.point.gradient
    if not step @ change > np.finfo(float).eps * (change @ change):
        return state.steps, state.changes  # would spoil positive definiteness
    return (
        np.concatenate([state.steps, step[None]])[-MEMORY:],
        np.concatenate([state.changes, change[None]])[-MEMORY:],
    )


def direction_from(state: State) -> FloatArray:
    """Minus the inverse Hessian of the memory times the gradient, by the two-loop recursion."""
    vector = state.point.gradient.copy()
    weights = []
    for s, y in zip(state.steps[::-1], state.changes[::-1], strict=True):
        weight = (s @ vector) / (s @ y)
        vector -= weight * y
        weights.append(weight)
    if weights:
        s, y = state.steps[-1], state.changes[-1]
        vector *= (s @ y) / (y @ y)
    for s, y, weight in zip(state.steps, state.changes, weights[::-1], strict=True):
        vector += s * (weight - (y @ vector) / (s @ y))
    return -vector


@dataclass(frozen=True)
class _Trial:
    """One end of the bracket: share of the direction, value and slope along it."""

    share: float
    value: float
    slope: float


def _search(
    function: Function, point: Point, direction: FloatArray, first: float | None
) -> Point | None:
    """A point along the direction that meets the (weak) Wolfe conditions, or at least the first.

    The bracket shrinks onto shares that meet both; a failed evaluation closes it from above.
    """
    start = _Trial(0.0, point.value, float(point.gradient @ direction))
    if not start.slope < 0.0:
        return None
    share = min(1.0, 1.0 / float(np.linalg.norm(direction))) if first is None else first
    low, high, ceiling = start, None, math.inf
    kept: Point | None = None
    for _ in range(_MAX_TRIALS):
        position = point.position + share * direction
        value, gradient = function(position)
        found = Point(position, value, gradient)
        if not found.finite:
            high, ceiling = None, share
        else:
            trial = _Trial(share, value, float(gradient @ direction))
            if value > start.value + _SUFFICIENT * share * start.slope:
                high, ceiling = trial, share
            elif trial.slope < _CURVATURE * start.slope:
                low, kept = trial, found
            else:
                return found
        if ceiling - low.share <= 1e-12 * ceiling:
            break
        share = _between(low, high, ceiling)
    # Where rounding hides every change, nothing was found.
    return kept if kept is not None and kept.value < start.value else None


def _between(low: _Trial, high: _Trial | None, ceiling: float) -> float:
    """The next share: the minimum of the cubic through both ends, kept away from them."""
    if not math.isfinite(ceiling):
        return 4.0 * low.share
    width = ceiling - low.share
    if high is None:  # nothing is known of a failed evaluation
        return low.share + 0.3 * width
    theta = low.slope + high.slope - 3.0 * (high.value - low.value) / width
    root = theta * theta - low.slope * high.slope
    share = low.share + 0.5 * width
    if root >= 0.0:
        gamma = math.sqrt(root)
        divisor = high.slope - low.slope + 2.0 * gamma
        if divisor != 0.0:
            share = high.share - width * (high.slope + gamma - theta) / divisor
    return min(max(share, low.share + 0.1 * width), ceiling - 0.1 * width)
