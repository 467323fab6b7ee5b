"""One run of the optimiser as explicit state: nested, or alternated with safeguards.

Nested: inference converges, to a loose tolerance, for every gradient. Alternated: sites and
parameters move together, one sweep an evaluation (Hernández-Lobato & Hernández-Lobato 2016 do so
along the gradient; here L-BFGS takes the steps). At sites that have not converged the evidence is
off in the second order and the gradient in the first, so that every few steps, and before anything
is called an optimum, the evidence is evaluated at converged sites: where it fell, the run returns
to the last point that was checked, and goes on nested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sparse_prefgp.selection.lbfgs import WINDOW, Outcome, Point, State, advance
from sparse_prefgp.selection.objective import FloatArray, Objective
from sparse_prefgp.selection.settling import Settling

NESTED, ALTERNATED = "nested", "alternated"
MODES = (NESTED, ALTERNATED)
# Steps between two evaluations at converged sites while alternating; what they brought is told from
# one to the next.
CHECK_EVERY = WINDOW


@dataclass(frozen=True, eq=False)
class Run:
    """Where a run of the optimiser is after some iterations; nothing in it is ever changed.

    alternated: whether it still alternates. checked: the best point seen at converged sites.
    setbacks: returns to `checked`. sites: what the next evaluation starts from. history: log
    evidence in nats after each iteration; settled: whether its sites had converged.
    ended: why it stopped, empty while it goes on; converged: at an optimum, or settled.
    """

    state: State
    alternated: bool
    checked: Point
    sites: dict[str, FloatArray]
    setbacks: int = 0
    history: tuple[float, ...] = ()
    settled: tuple[bool, ...] = ()
    ended: str = ""
    converged: bool = False

    @property
    def iterations(self) -> int:
        return len(self.history)


def begin(objective: Objective, position: FloatArray, mode: str) -> Run | None:
    """A run of no iterations; None if the evidence is not finite there."""
    objective.alternated = False
    point = objective.converged_point(position)
    if not point.finite:
        return None
    return Run(State.begin(point), mode == ALTERNATED, point, objective.sites())


def step(objective: Objective, run: Run, settling: Settling) -> Run:
    """The run after one more iteration; the model is left at its parameters.

    The objective must hold the sites of the run, as the last step left them.
    """
    before = run.state.point
    objective.alternated = run.alternated
    state, outcome = advance(run.state, objective)
    run = replace(run, state=state)
    if not run.alternated:
        run = replace(run, checked=state.point)
        if outcome is not Outcome.GOES_ON:
            run = replace(run, ended=str(outcome), converged=outcome.converged)
        if not run.converged:
            run = _settle(run, state.gained, settling)
    elif outcome is not Outcome.GOES_ON or (run.iterations + 1) % CHECK_EVERY == 0:
        setbacks, value = run.setbacks, run.checked.value
        run = _check(objective, run)
        if outcome is not Outcome.GOES_ON:
            run = replace(run, alternated=False)
        elif run.setbacks == setbacks:
            run = _settle(run, value - run.checked.value, settling)
    objective.set(run.state.point.position)
    run = replace(run, sites=objective.sites())
    if state.point is before:
        return run
    prior = float(objective.model.log_prior_density())
    return replace(
        run,
        history=(*run.history, -run.state.point.value - prior),
        settled=(*run.settled, objective.settled()),
    )


def _settle(run: Run, gained: float, settling: Settling) -> Run:
    """The run, ended if what its last ten iterations gained, at converged sites, says so."""
    settled = settling.settled(gained, run.state.promised)
    return replace(run, ended=settled, converged=True) if settled else run


def finish(objective: Objective, run: Run) -> Run:
    """The run with its last point checked, so that `checked` is the best of it."""
    if not run.alternated or run.state.point is run.checked:
        return run
    return _check(objective, run)


def _check(objective: Objective, run: Run) -> Run:
    """Evaluate at converged sites; back to the last such point if the evidence fell."""
    point = objective.converged_point(run.state.point.position)
    rounding = 1e-9 * (1.0 + abs(run.checked.value))
    if point.finite and point.value <= run.checked.value + rounding:
        state = replace(run.state, point=point, values=np.array([point.value]))
        return replace(run, state=state, checked=point)
    # Nothing that was learned on the way can be relied on.
    again = objective.converged_point(run.checked.position)
    best = again if again.finite else run.checked
    return replace(
        run,
        state=State.begin(best),
        checked=best,
        alternated=False,
        setbacks=run.setbacks + 1,
    )


def as_arrays(run: Run) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """The run as arrays by name, and as numbers and words for JSON."""
    state, checked = run.state, run.checked
    arrays = {
        "position": state.point.position,
        "gradient": state.point.gradient,
        "steps": state.steps,
        "changes": state.changes,
        "checked_position": checked.position,
        "checked_gradient": checked.gradient,
        "values": np.array([state.point.value, checked.value]),
        "last_values": state.values,
        "history": np.array(run.history, dtype=float),
        "settled": np.array(run.settled, dtype=bool),
        **run.sites,
    }
    words = {
        "alternated": run.alternated,
        "setbacks": run.setbacks,
        "ended": run.ended,
        "converged": run.converged,
        "sites": sorted(run.sites),
    }
    return arrays, words


def from_arrays(arrays: dict[str, np.ndarray], words: dict[str, object]) -> Run:
    """What `as_arrays` gave, to the bit."""
    value, checked = (float(x) for x in arrays["values"])
    names = words["sites"]
    assert isinstance(names, list) and isinstance(words["setbacks"], int)
    point = Point(arrays["position"], value, arrays["gradient"])
    return Run(
        State(point, arrays["steps"], arrays["changes"], arrays["last_values"]),
        bool(words["alternated"]),
        Point(arrays["checked_position"], checked, arrays["checked_gradient"]),
        {name: arrays[name] for name in names},
        words["setbacks"],
        tuple(float(x) for x in arrays["history"]),
        tuple(bool(x) for x in arrays["settled"]),
        str(words["ended"]),
        bool(words["converged"]),
    )
