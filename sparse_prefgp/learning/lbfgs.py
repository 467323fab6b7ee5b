"""A run of L-BFGS on one objective: where it is, what it has learned, and why it ended.

The directions and the search along them are SciPy's L-BFGS-B (Byrd, Lu, Nocedal & Zhu 1995); here
are the rules by which a run ends, and what happens to evaluations that fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import LbfgsInvHessProduct, minimize

from sparse_prefgp.learning.notes import WINDOW
from sparse_prefgp.learning.objective import Objective
from sparse_prefgp.support.arrays import FloatArray

# Iterations over which it is said what they brought together, at least.
SHORT = 3
MEMORY = 10
# Relative change of the value, and largest component of the gradient, that end a run: SciPy's.
SMALL_CHANGE = 2.220446049250313e-09
SMALL_GRADIENT = 1e-5
# The objective at loosely converged sites is no better than that.
PRECISION = 1e-7
# Of a step that failed, where the next one is tried.
_BACK_OFF = 0.3
# Tries along a direction that promises less than `PRECISION`; SciPy makes 20.
_TRIES = 3

STOPPED = "stopped by the callback"
NOT_FINITE = "not finite at the first parameters"
_GRADIENT = "converged: every component of the gradient is below 1e-5"
_CHANGE = "converged: the last step changed the objective by less than 2e-9 of its value"
_NOTHING = (
    "converged: no step improves the objective, and its quadratic model promises less than 1e-7 of "
    "its value"
)
_NO_STEP = "no step along the gradient improves the objective any more"
_STEEP = (
    "no step improves the objective, though its gradient is far from 0: its evaluations are not "
    "exact enough here, as with next to no noise; raise the noise variance (--noise-variance)"
)
# No optimum has a component of the gradient above this share of the value: to change the value by
# less than `PRECISION` there it would have to bend by hundreds of times itself a unit.
_LARGEST_SLOPE = 1e-2


def window(parameters: int) -> int:
    """Ten iterations, or as many as there are numbers to learn where these are fewer.

    After so many the quadratic model of L-BFGS has seen every direction that there is.
    """
    return max(SHORT, min(WINDOW, parameters))


@dataclass(frozen=True)
class Settling:
    """What a window of iterations must bring for a run to continue."""

    least_gain: float | None
    """In nats per duel; None: a run continues to an optimum or its limit."""
    duels: float
    """How many the objective is about, as often as they count."""
    unit: str = "duel"
    """What one of them is called."""

    def settled(self, gained: float, promised: float, iterations: int = WINDOW) -> str:
        """Why the run ends now; empty while it runs.

        A step that is still promised more is waited for: slow iterations are not always the last.

        :param gained: nats by the last iterations, NaN before there are so many.
        :param promised: nats up to the optimum of the quadratic model of the optimiser.
        :param iterations: how many the last ones are.
        """
        if self.least_gain is None or math.isnan(gained):
            return ""
        enough = self.least_gain * self.duels
        if gained >= enough or promised >= enough:
            return ""
        return (
            f"settled: the last {iterations} iterations together brought {gained / self.duels:.1e} "
            f"nats per {self.unit}"
        )


@dataclass(frozen=True, eq=False)
class Curvature:
    """What steps (k, p) and the changes of gradient (k, p) that they brought say of the Hessian."""

    steps: FloatArray
    changes: FloatArray

    @classmethod
    def unknown(cls, size: int) -> Curvature:
        return cls(np.zeros((0, size)), np.zeros((0, size)))

    def __len__(self) -> int:
        return len(self.steps)

    def with_step(self, step: FloatArray, change: FloatArray) -> Curvature:
        """With one more, the last `MEMORY` of them; as it is where the function is not convex."""
        if not step @ change > np.finfo(float).eps * (change @ change):
            return self
        return Curvature(
            np.concatenate([self.steps, step[None]])[-MEMORY:],
            np.concatenate([self.changes, change[None]])[-MEMORY:],
        )

    def times(self, vectors: FloatArray) -> FloatArray:
        """The inverse Hessian of L-BFGS times (p, k); the identity while nothing is known."""
        if not len(self):
            return vectors
        # SciPy's begins with the identity, L-BFGS with this multiple of it.
        root = math.sqrt(self._scale)
        inverse = LbfgsInvHessProduct(self.steps / root, self.changes * root)
        return np.asarray(root * (inverse @ (root * vectors)))

    def promised(self, gradient: FloatArray) -> float:
        """By how much the value would fall to the minimum of the quadratic model."""
        return 0.5 * float(gradient @ self.times(gradient[:, None])[:, 0])

    def root(self) -> Callable[[FloatArray], FloatArray]:
        """Multiplication by A, symmetric, with A A' the inverse Hessian."""
        if not len(self):
            return lambda vector: vector
        # Outside what the steps span it is a multiple of the identity.
        basis = np.linalg.qr(np.concatenate([self.steps, self.changes]).T)[0]
        values, within = np.linalg.eigh(basis.T @ self.times(basis))
        basis, root = basis @ within, math.sqrt(self._scale)
        scale = np.sqrt(np.maximum(values, 0.0)) - root
        return lambda vector: root * vector + basis @ (scale * (basis.T @ vector))

    @property
    def _scale(self) -> float:
        return float(self.steps[-1] @ self.changes[-1] / (self.changes[-1] @ self.changes[-1]))


@dataclass(frozen=True, eq=False)
class LbfgsState:
    """Where a run is after some iterations; nothing in it is ever changed."""

    position: FloatArray
    """(p,), the best parameters so far, with value, gradient (p,), log prior density there and
    curvature.
    """
    value: float
    gradient: FloatArray
    log_prior: float
    curvature: Curvature
    values: tuple[float, ...]
    """Of the objective, at the first parameters and after each iteration."""
    history: tuple[float, ...] = ()
    """log evidence in nats after each."""
    ended: str = ""
    """Why it ended by itself, empty while it runs or if only a limit stopped it."""
    converged: bool = False
    """At an optimum, or settled."""

    @classmethod
    def begin(
        cls,
        objective: Objective,
        curvature: Curvature | None = None,
        before: LbfgsState | None = None,
    ) -> LbfgsState:
        """At the parameters of the objective, or where a run was that counts on; ended if that is
        not finite there."""
        here = objective.get() if before is None else before.position
        value, gradient = objective(here)
        if curvature is None:
            curvature = Curvature.unknown(len(here)) if before is None else before.curvature
        prior = objective.log_prior()
        ended = "" if math.isfinite(value) else NOT_FINITE
        earlier, history = ((), ()) if before is None else (before.values[:-1], before.history)
        return cls(here, value, gradient, prior, curvature, (*earlier, value), history, ended)

    @property
    def iterations(self) -> int:
        return len(self.history)

    @property
    def log_evidence(self) -> float:
        """In nats, at `position`."""
        return -self.value - self.log_prior

    @property
    def is_steep(self) -> bool:
        """Whether this can be no optimum, whatever the quadratic model promises."""
        return bool(np.max(np.abs(self.gradient)) > _LARGEST_SLOPE * max(abs(self.value), 1.0))

    @property
    def promised(self) -> float:
        """Nats up to the optimum of the quadratic model."""
        return self.curvature.promised(self.gradient)

    @property
    def promises_nothing(self) -> bool:
        """Whether the quadratic model promises no more than evaluations can tell."""
        return bool(len(self.curvature)) and self.promised <= PRECISION * max(abs(self.value), 1.0)

    def over(self, limit: int) -> bool:
        """Whether nothing more is to be done under a limit of iterations."""
        return bool(self.ended) or self.iterations >= limit

    def moved(
        self, to: FloatArray, value: float, gradient: FloatArray, log_prior: float
    ) -> LbfgsState:
        """After one more iteration."""
        curvature = self.curvature.with_step(to - self.position, gradient - self.gradient)
        values = (*self.values, value)
        history = (*self.history, -value - log_prior)
        return LbfgsState(to, value, gradient, log_prior, curvature, values, history)

    def judged(self, settling: Settling) -> LbfgsState:
        """The same, ended where a rule says so."""
        before, here = self.values[-2], self.value
        why = ""
        if np.max(np.abs(self.gradient)) <= SMALL_GRADIENT:
            why = _GRADIENT
        elif before - here <= SMALL_CHANGE * max(abs(before), abs(here), 1.0):
            why = _CHANGE
        elif len(self.values) > (last := window(len(self.position))):
            why = settling.settled(self.values[-1 - last] - here, self.promised, last)
        if why == _CHANGE and self.is_steep:
            return replace(self, ended=_STEEP)
        return replace(self, ended=why, converged=bool(why))


def go_on(
    objective: Objective,
    climb: LbfgsState,
    limit: int,
    settling: Settling,
    each: Callable[[LbfgsState], None],
    resumed: bool = False,
) -> LbfgsState:
    """The run at its end, by itself or at a limit of iterations.

    :param each: called after each iteration, the model being at its parameters; it may raise
        `StopIteration` to end the run there.
    :param resumed: what is known of the curvature at the beginning gives way to what later steps
        show, as it would have without a stop.
    """
    if not climb.over(limit) and np.max(np.abs(climb.gradient)) <= SMALL_GRADIENT:
        return replace(climb, ended=_GRADIENT, converged=True)
    while not climb.over(limit):
        search = _Search(objective, climb, settling, each)
        search.run(min(limit, climb.iterations + MEMORY) if resumed else limit)
        before, climb = climb, search.climb
        if climb.over(limit) or climb.iterations > before.iterations:
            continue
        if not len(climb.curvature):
            climb = replace(climb, ended=_NO_STEP)
        elif not climb.promises_nothing:
            # What was learned of the curvature may be to blame.
            climb = replace(climb, curvature=Curvature.unknown(len(climb.position)))
        elif climb.is_steep:
            climb = replace(climb, ended=_STEEP)
        else:
            climb = replace(climb, ended=_NOTHING, converged=True)
    return climb


class _Fruitless(Exception):
    """Of tries along a direction that promises nothing."""


class _Search:
    """One call of SciPy's optimiser from where a climb is, until it or the climb ends."""

    def __init__(
        self,
        objective: Objective,
        climb: LbfgsState,
        settling: Settling,
        each: Callable[[LbfgsState], None],
    ) -> None:
        self.climb = climb
        self._objective, self._settling, self._each = objective, settling, each
        self._trial = (climb.position, climb.value, climb.gradient)
        # In coordinates in which the curvature known so far is one and the same in all directions,
        # and in units of which the first step is no longer than 1, so that SciPy takes it whole.
        self._root = climb.curvature.root()
        self._unit = max(2.0 * climb.promised, 1e-300) if len(climb.curvature) else 1.0
        self._start = climb.position
        self._place = np.zeros(len(climb.position))
        self._tries = 0

    def run(self, limit: int) -> None:
        # How it ends is decided after each step, so that SciPy's own rules are out of the way.
        options = {
            "maxcor": MEMORY,
            "maxiter": limit - self.climb.iterations,
            "maxfun": np.iinfo(np.int32).max,
            "ftol": 0.0,
            "gtol": 0.0,
        }
        with suppress(_Fruitless):
            minimize(
                self._value,
                np.zeros(len(self._start)),
                jac=True,
                method="L-BFGS-B",
                callback=self._step,
                options=options,
            )

    def _value(self, place: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient for SciPy; where the evaluation fails, of a wall to back off from."""
        self._place = place.copy()
        if place.any():
            if self._tries >= _TRIES and self.climb.promises_nothing:
                raise _Fruitless
            self._tries += 1
            position = self._start + math.sqrt(self._unit) * self._root(place)
            self._trial = (position, *self._objective(position))
        position, value, gradient = self._trial
        if not math.isfinite(value):
            # On a parabola along the step that has its minimum at a share of it; it is above
            # the last point, so that no step ends there.
            step = position - self.climb.position
            slope = float(self.climb.gradient @ step)
            bend = -slope / _BACK_OFF
            value = self.climb.value + slope + 0.5 * bend
            gradient = self.climb.gradient + bend / float(step @ step) * step
        return value / self._unit, self._root(gradient) / math.sqrt(self._unit)

    def _step(self, intermediate_result: Any) -> None:
        """After each iteration of SciPy."""
        if not np.array_equal(intermediate_result.x, self._place):
            self._value(intermediate_result.x)  # not what was evaluated last
        position, value, gradient = self._trial
        if not value < self.climb.value:
            raise StopIteration  # rounding hides every change: the search has found nothing
        self._objective.set(position)
        self._tries = 0
        moved = self.climb.moved(position, value, gradient, self._objective.log_prior())
        self.climb = moved.judged(self._settling)
        try:
            self._each(self.climb)
        except StopIteration:
            self.climb = replace(self.climb, ended=STOPPED, converged=False)
        if self.climb.ended:
            raise StopIteration
