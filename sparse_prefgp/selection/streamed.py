"""Hyperparameters of streamed duels: exact gradients from chunks, or from a random subset."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.parts import StreamedGP, StreamedResult
from sparse_prefgp.parts.model import StreamProgress
from sparse_prefgp.selection.lbfgs import Function, Outcome, Point, State, advance, direction_from
from sparse_prefgp.selection.objective import LOOSE_TOLERANCE, Objective

FloatArray = npt.NDArray[np.float64]

CHUNKS, SUBSET = "chunks", "subset"
GRADIENTS = (CHUNKS, SUBSET)
DEFAULT_SUBSET = 20_000


@dataclass(frozen=True)
class StreamedStep:
    """After each iteration. of: what the evidence is about, all duels or the subset of them.

    log_evidence: in nats, per_duel over those duels; gradient_norm: the largest component.
    """

    iteration: int
    max_iterations: int
    of: str
    log_evidence: float
    per_duel: float
    gradient_norm: float
    seconds: float


@dataclass(frozen=True)
class StreamedReport:
    """What `optimise_streamed` did.

    gradients: "chunks" or "subset". subset: how many rows that was drawn from, None for chunks.
    iterations: on chunks or on the subset; polish: on all duels after the subset. evaluations: of
    the evidence of all duels with its gradient. log_evidence_start, log_evidence: of all duels, in
    nats, at the first and the last parameters, from inference at the engine's tolerance.
    subset_per_duel: evidence per duel of the subset at its own best parameters. evidence_left: what
    exact iterations are expected to gain beyond, in nats, by the gradient of all duels and the
    curvature learned on the subset; None for chunks. polished: what those that were made did gain.
    all_rows: the subset left none out, so that it cost nothing.
    message: why it stopped. history: log evidence after each iteration, of what it is about.
    """

    gradients: str
    iterations: int
    evaluations: int
    log_evidence_start: float
    log_evidence: float
    converged: bool
    message: str
    seconds: float
    inference: StreamedResult
    history: tuple[float, ...]
    subset: int | None = None
    subset_per_duel: float | None = None
    evidence_left: float | None = None
    polish: int = 0
    polished: float = 0.0
    all_rows: bool = False

    def __str__(self) -> str:
        if self.subset is None:
            how = "exact gradients from chunks"
        else:
            how = f"gradients from {self.subset:,} random rows"
        text = (
            f"log evidence {self.log_evidence_start:.3f} -> {self.log_evidence:.3f} nats in "
            f"{self.iterations} iterations ({how}, {self.evaluations} evaluations of all duels, "
            f"{self.seconds:.1f} s); {self.message}"
        )
        if self.polish:
            text += f"; {self.polish} exact iterations gained {self.polished:.3f} nats"
        if self.evidence_left is not None:
            left = f"{self.evidence_left:.3g} nats"
            if self.all_rows:
                text += f"; further iterations would gain about {left}"
            else:
                text += f"; the subset cost about {left} that are still to gain"
        if not self.inference.converged:
            text += f"; the last inference: {self.inference}"
        return text


def optimise_streamed(
    model: StreamedGP,
    max_iterations: int = 100,
    *,
    gradients: str = CHUNKS,
    subset: int = DEFAULT_SUBSET,
    polish: int = 0,
    rng: np.random.Generator | None = None,
    callback: Callable[[StreamedStep], None] | None = None,
    progress: Callable[[StreamProgress], None] | None = None,
) -> StreamedReport:
    """Maximise log evidence plus log prior density of streamed duels, as `optimise`.

    :param max_iterations: of L-BFGS.
    :param gradients: "chunks": the exact gradient of all duels, summed chunk by chunk; each costs
        some sweeps over all of them. "subset": that of a random subset in memory, with inference on
        all duels at the end; the report says what that cost in evidence.
    :param subset: rows of the subset.
    :param polish: exact iterations after those on the subset.
    :param rng: draws the subset.
    :param callback: after each iteration. progress: after each chunk, in this process.
    :raises ValueError: nothing is trainable, kernel variance and noise both are, the evidence is
        not finite at the first parameters, a number that makes no sense.
    """
    _check(model, max_iterations, gradients, subset, polish)
    started = time.perf_counter()
    full = _Full(model, progress)
    before = model.infer(progress=progress)
    evidence_start = model.log_evidence()
    if not np.isfinite(evidence_start):
        raise ValueError(
            f"The log evidence is not finite at the first parameters ({before}); lower the kernel "
            "variance, raise the noise variance, or remove inducing inputs that nearly coincide."
        )

    def told(of: str, duels: int) -> Callable[[int, State, float], None]:
        def tell(iteration: int, state: State, log_evidence: float) -> None:
            if callback is not None:
                norm = float(np.max(np.abs(state.point.gradient)))
                seconds = time.perf_counter() - started
                most = max_iterations if of == gradients else polish
                callback(
                    StreamedStep(
                        iteration, most, of, log_evidence, log_evidence / duels, norm, seconds
                    )
                )

        return tell

    total = model.duels.num_duels
    extra: dict[str, float | int | bool | None] = {}
    if gradients == CHUNKS:
        climbed = _climb(full, State.begin(full.point()), max_iterations, told(CHUNKS, total))
    else:
        rng = np.random.default_rng() if rng is None else rng
        climbed, share, per_duel, rows = _on_subset(model, subset, max_iterations, rng, told)
        state = climbed.state
        # Curvature grows with the number of duels.
        state = State(full.point(), state.steps, state.changes / share)
        exact = _climb(full, state, polish, told("all duels", total)) if polish else None
        at = state if exact is None else exact.state
        extra = {
            "subset": rows,
            "subset_per_duel": per_duel,
            "evidence_left": -0.5 * float(at.point.gradient @ direction_from(at)),
            "polish": 0 if exact is None else len(exact.history),
            "polished": state.point.value - at.point.value,
            "all_rows": model.stream is not None and rows == model.stream.num_rows,
        }
    inference = model.infer(restart=True, progress=progress)
    return StreamedReport(
        gradients,
        len(climbed.history),
        full.evaluations,
        evidence_start,
        model.log_evidence(),
        climbed.outcome.converged,
        str(climbed.outcome) if climbed.ended else f"the limit of {max_iterations} iterations",
        time.perf_counter() - started,
        inference,
        climbed.history,
        **extra,  # type: ignore[arg-type]
    )


class _Climbed(NamedTuple):
    """Where a run of L-BFGS ended; ended: by itself, not at the limit."""

    state: State
    outcome: Outcome
    ended: bool
    history: tuple[float, ...]


class _Prior:
    """Parameters of a model as one vector, and their log prior density."""

    def __init__(self, model: StreamedGP | PreferenceGP) -> None:
        self._model = model
        self.variables = list(model.trainable_variables)
        self._sizes = [int(np.prod(v.shape)) for v in self.variables]

    def get(self) -> FloatArray:
        return np.concatenate([v.numpy().reshape(-1) for v in self.variables]).astype(float)

    def set(self, flat: FloatArray) -> None:
        pieces = np.split(flat, np.cumsum(self._sizes)[:-1])
        for variable, piece in zip(self.variables, pieces, strict=True):
            variable.assign(piece.reshape(variable.shape))

    def density(self) -> tuple[float, FloatArray]:
        """In nats, with its gradient."""
        with tf.GradientTape() as tape:
            density = self._model.log_prior_density()
        found = tape.gradient(
            density, self.variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return float(density), np.concatenate([g.numpy().reshape(-1) for g in found])


class _Full:
    """Minus log evidence of all duels and log prior density, with the exact gradient."""

    def __init__(
        self, model: StreamedGP, progress: Callable[[StreamProgress], None] | None
    ) -> None:
        self._model, self._progress = model, progress
        self.prior = _Prior(model)
        self.evaluations = 0

    def point(self) -> Point:
        """At the parameters as they are."""
        here = self.prior.get()
        return Point(here, *self(here))

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        self.prior.set(flat)
        self.evaluations += 1
        tolerance = max(self._model.engine.tolerance, LOOSE_TOLERANCE)
        try:
            value, found = self._model.evidence_and_gradient(tolerance, self._progress)
        except tf.errors.InvalidArgumentError:  # some builds raise where others give NaN
            value, found = np.nan, []
        if not np.isfinite(value):
            return np.nan, np.full(len(flat), np.nan)
        density, slope = self.prior.density()
        gradient = np.concatenate([g.reshape(-1) for g in found]) + slope
        return -value - density, -gradient


def _climb(
    function: _Full | Objective,
    state: State,
    limit: int,
    tell: Callable[[int, State, float], None],
) -> _Climbed:
    """At most so many iterations; the parameters are left at the last point."""
    history: list[float] = []
    outcome, ended = Outcome.GOES_ON, False
    evaluate: Function = function
    prior = function.prior if isinstance(function, _Full) else _Prior(function.model)
    while len(history) < limit and not ended:
        before = state.point
        state, outcome = advance(state, evaluate)
        prior.set(state.point.position)
        ended = outcome is not Outcome.GOES_ON
        if state.point is not before:
            history.append(-state.point.value - prior.density()[0])
            tell(len(history), state, history[-1])
    return _Climbed(state, outcome, ended, tuple(history))


def _on_subset(
    model: StreamedGP,
    size: int,
    limit: int,
    rng: np.random.Generator,
    told: Callable[[str, int], Callable[[int, State, float], None]],
) -> tuple[_Climbed, float, float, int]:
    """Climb on a random subset, moving the parameters of `model` itself.

    :return: the climb, the share of all duels, evidence per duel of the subset, its rows.
    """
    stream = model.stream
    assert stream is not None
    rows = min(size, stream.num_rows)
    duels = stream.sample(rows, rng)
    part = PreferenceGP(
        duels,
        model.kernel,
        approximation=model.approximation,
        inducing_variable=model.inducing_variable,
        engine=ParallelEP(tolerance=model.engine.tolerance),
        mean_function=model.mean_function,
    )
    part.noise_variance = model.noise_variance
    objective = Objective(part, list(part.trainable_variables))
    first = State.begin(objective.point(objective.get()))
    climbed = _climb(objective, first, limit, told(SUBSET, duels.num_duels))
    objective.close()
    per_duel = part.log_evidence() / duels.num_duels
    return climbed, duels.num_duels / model.duels.num_duels, per_duel, rows


def _check(
    model: StreamedGP, max_iterations: int, gradients: str, subset: int, polish: int
) -> None:
    if not isinstance(model, StreamedGP):
        raise ValueError(
            f"optimise_streamed takes a StreamedGP, not {type(model).__name__}; use optimise."
        )
    if gradients not in GRADIENTS:
        raise ValueError(
            f"There are no gradients from {gradients!r}; choose one of {', '.join(GRADIENTS)}."
        )
    for name, value, least in (
        ("max_iterations", max_iterations, 1),
        ("subset", subset, 1),
        ("polish", polish, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    if not model.trainable_variables:
        raise ValueError("The model has no trainable parameter; see gpflow.set_trainable.")
    if model.scale_is_free():
        raise ValueError(
            "Kernel variance and noise variance are both trainable, but duels determine only their "
            "ratio; fix one with gpflow.set_trainable."
        )
