"""Where a run on streamed duels is, as explicit state: without sites, of which there are many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.selection.lbfgs import FloatArray, Outcome, Point, State

IntArray = npt.NDArray[np.int64]

_CLIMBS = ("first", "exact")


@dataclass(frozen=True, eq=False)
class Climb:
    """Iterations of L-BFGS on one objective.

    history: log evidence in nats after each, of what it is about. settled: that its last ten
    iterations brought next to nothing, in words; empty while they do not.
    """

    state: State
    outcome: Outcome = Outcome.GOES_ON
    history: tuple[float, ...] = ()
    settled: str = ""

    @property
    def iterations(self) -> int:
        return len(self.history)

    @property
    def ended(self) -> bool:
        """By itself, not at a limit."""
        return bool(self.settled) or self.outcome is not Outcome.GOES_ON

    @property
    def converged(self) -> bool:
        """At an optimum, or settled."""
        return bool(self.settled) or self.outcome.converged

    @property
    def why(self) -> str:
        """Why it ended by itself."""
        return self.settled or str(self.outcome)

    def over(self, limit: int) -> bool:
        """Whether nothing more is to be done under a limit of iterations."""
        return self.ended or self.iterations >= limit


@dataclass(frozen=True, eq=False)
class Reached:
    """Where a run is after some iterations; nothing in it is ever changed.

    evidence_start: log evidence of all duels at the first parameters, in nats. rows: numbers of
    those drawn for the subset, None for chunks. first: the climb on chunks, or on the subset.
    share: of the subset among all duels, and per_duel: its evidence at its end, before which they
    are None. exact: the climb on all duels after it. exact_start: the value that began at.
    evaluations: of all duels.
    """

    evidence_start: float
    rows: IntArray | None = None
    first: Climb | None = None
    share: float | None = None
    per_duel: float | None = None
    exact: Climb | None = None
    exact_start: float | None = None
    evaluations: int = 0
    seconds: float = 0.0

    @property
    def iterations(self) -> int:
        return sum(climb.iterations for climb in (self.first, self.exact) if climb is not None)

    @property
    def position(self) -> FloatArray | None:
        """Of the parameters; None before the first evaluation."""
        climb = self.exact or self.first
        return None if climb is None else climb.state.point.position


def as_arrays(reached: Reached) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays by name, and numbers and words for JSON."""
    arrays: dict[str, np.ndarray] = {} if reached.rows is None else {"rows": reached.rows}
    outcomes, settled = {}, {}
    for name in _CLIMBS:
        climb: Climb | None = getattr(reached, name)
        if climb is None:
            continue
        point = climb.state.point
        arrays |= {
            f"{name}_position": point.position,
            f"{name}_value": np.array(point.value),
            f"{name}_gradient": point.gradient,
            f"{name}_steps": climb.state.steps,
            f"{name}_changes": climb.state.changes,
            f"{name}_values": climb.state.values,
            f"{name}_history": np.array(climb.history, dtype=float),
        }
        outcomes[name], settled[name] = climb.outcome.name, climb.settled
    words = {
        "outcomes": outcomes,
        "settled": settled,
        "evidence_start": reached.evidence_start,
        "share": reached.share,
        "per_duel": reached.per_duel,
        "exact_start": reached.exact_start,
        "evaluations": reached.evaluations,
        "seconds": reached.seconds,
    }
    return arrays, words


def from_arrays(arrays: dict[str, np.ndarray], words: dict[str, Any]) -> Reached:
    """What `as_arrays` gave, to the bit."""
    found: dict[str, Any] = {"rows": arrays.get("rows")}
    for name, outcome in words["outcomes"].items():
        position, value, gradient, steps, changes, values, history = (
            arrays[f"{name}_{part}"]
            for part in ("position", "value", "gradient", "steps", "changes", "values", "history")
        )
        state = State(Point(position, float(value), gradient), steps, changes, values)
        past = tuple(float(x) for x in history)
        found[name] = Climb(state, Outcome[outcome], past, words["settled"][name])
    numbers = ("evidence_start", "share", "per_duel", "exact_start", "evaluations", "seconds")
    return Reached(**{name: words[name] for name in numbers}, **found)
