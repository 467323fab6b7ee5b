"""Hyperparameters of streamed duels: exact gradients from chunks, or from a random subset."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparse_prefgp.checkpoint_folder import digest_of
from sparse_prefgp.checks import check_least_gain
from sparse_prefgp.duels import shortened
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.parts import StreamedGP, StreamedResult
from sparse_prefgp.parts.model import StreamProgress
from sparse_prefgp.selection.causes import REMEDIES
from sparse_prefgp.selection.checkpoint import Book, Checkpoint, Interrupted, identify
from sparse_prefgp.selection.climb import Climb, IntArray, Reached, as_arrays, from_arrays
from sparse_prefgp.selection.lbfgs import Function, Point, State, advance
from sparse_prefgp.selection.limits import limits_of, warn_of_lengthscales
from sparse_prefgp.selection.objective import LOOSE_TOLERANCE, Objective
from sparse_prefgp.selection.settling import LEAST_GAIN, Settling

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
    resumed_at: iterations, of polish too, that were read from a checkpoint; evaluations and seconds
    are those of all runs. rebuilt: parts that were lost on the way and made anew, in words.
    limits: as in `OptimisationReport`.
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
    resumed_at: int = 0
    rebuilt: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

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
        if self.resumed_at:
            text += f"; {self.resumed_at} iterations came from a checkpoint"
        if self.rebuilt:
            text += f"; {len(self.rebuilt)} times a part was lost and made anew: {self.rebuilt[0]}"
        if not self.inference.converged:
            text += f"; the last inference: {self.inference}"
        return " ".join([text if not self.limits else f"{text}.", *self.limits])


def optimise_streamed(
    model: StreamedGP,
    max_iterations: int = 100,
    *,
    gradients: str = CHUNKS,
    subset: int = DEFAULT_SUBSET,
    polish: int = 0,
    least_gain: float | None = LEAST_GAIN,
    rng: np.random.Generator | None = None,
    callback: Callable[[StreamedStep], None] | None = None,
    progress: Callable[[StreamProgress], None] | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
) -> StreamedReport:
    """Maximise log evidence plus log prior density of streamed duels, as `optimise`.

    The model is left at the best parameters found, also by a run that an exception ends.

    :param max_iterations: of L-BFGS.
    :param gradients: "chunks": the exact gradient of all duels, summed chunk by chunk; each costs
        some sweeps over all of them. "subset": that of a random subset in memory, with inference on
        all duels at the end; the report says what that cost in evidence.
    :param subset: rows of the subset.
    :param polish: exact iterations after those on the subset.
    :param least_gain: as for `optimise`, of the chunks or the subset, and of the exact iterations
        after it; a duel counts as often as its count, whatever its weight.
    :param rng: draws the subset.
    :param callback: after each iteration. progress: after each chunk, in this process.
    :param checkpoint: as for `optimise`, written at the beginning and the end of each stage too.
        It has no sites, of which there are as many as duels: a continued run begins inference at
        zero, and so ends where the uninterrupted one would have within the tolerance of inference.
        The rows of a subset are those drawn at first; an `rng` that draws others is refused. Size
        of the chunks, place of the sites, scheduler and both limits may be others.
    :raises ValueError: nothing is trainable, kernel variance and noise both are, the evidence is
        not finite at the first parameters, a number that makes no sense, a model without its duels,
        a checkpoint of other duels, model, settings or versions, or past the limit.
    :raises Interrupted: a KeyboardInterrupt that left a checkpoint.
    """
    _check(model, max_iterations, gradients, subset, polish)
    check_least_gain(least_gain)
    rows = None
    if gradients == SUBSET:
        assert model.stream is not None
        rows = model.stream.draw(subset, np.random.default_rng() if rng is None else rng)
    book = None
    if checkpoint is not None:
        if not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        settings = {
            "gradients": gradients,
            "subset": None if rows is None else len(rows),
            "drawn": None if rows is None or rng is None else digest_of([rows]),
            "least_gain": least_gain,
        }
        identity = identify(model, settings, "other gradients, another subset, seed or least gain")
        book = Book(checkpoint, identity, as_arrays, from_arrays)
        _check_limit(book, max_iterations, polish)
    run = _Run(model, rows, max_iterations, polish, least_gain, book, callback, progress)
    try:
        run.climb()
        inference = model.infer(restart=True, progress=progress)
        evidence = model.log_evidence()
    except BaseException as error:
        # The model must not stay at some trial of the line search.
        run.go_back()
        if book is not None and book.interrupted() and isinstance(error, KeyboardInterrupt):
            assert book.latest is not None
            raise Interrupted(book.folder, book.latest.iterations) from error
        raise
    warn_of_lengthscales(model, stacklevel=3)
    return run.report(inference, evidence)


class _Run:
    """One call of `optimise_streamed`: what it has reached, and what is kept of that."""

    def __init__(
        self,
        model: StreamedGP,
        rows: IntArray | None,
        max_iterations: int,
        polish: int,
        least_gain: float | None,
        book: Book[Reached] | None,
        callback: Callable[[StreamedStep], None] | None,
        progress: Callable[[StreamProgress], None] | None,
    ) -> None:
        self._model, self._rows = model, rows
        self._max_iterations, self._polish = max_iterations, polish
        self._least_gain = least_gain
        self._book, self._callback, self._progress = book, callback, progress
        self._full = _Full(model, progress)
        self._rebuilt_before = len(model.rebuilt)
        self._started = time.perf_counter()
        self._begun_at = self._full.prior.get()
        self._reached = found = None if book is None else book.found
        self._resumed_at = 0 if found is None else found.iterations
        self._earlier = 0.0 if found is None else found.seconds
        self._full.evaluations = 0 if found is None else found.evaluations

    def climb(self) -> None:
        """From what was reached to the last parameters."""
        total = self._model.duels.num_duels
        if self._reached is None:
            self._keep(Reached(self._evidence_start(), self._rows))
        self.go_back()
        if self._rows is None:
            if self._at.first is None:
                self._keep(replace(self._at, first=Climb(State.begin(self._full.point()))))
            self._iterate("first", self._full, CHUNKS, total, self._max_iterations)
        else:
            if self._at.exact is None:
                self._on_subset()
                self._begin_exact()
            self._iterate("exact", self._full, "all duels", total, self._polish)
        if self._book is not None:
            self._book.close()

    def go_back(self) -> None:
        """Put the model at what was reached."""
        position = None if self._reached is None else self._reached.position
        self._full.prior.set(self._begun_at if position is None else position)

    def report(self, inference: StreamedResult, evidence: float) -> StreamedReport:
        at = self._at
        first, exact = at.first, at.exact
        assert first is not None
        extra: dict[str, Any] = {}
        if exact is not None:
            assert at.rows is not None and at.exact_start is not None
            stream = self._model.stream
            extra = {
                "subset": len(at.rows),
                "subset_per_duel": at.per_duel,
                "evidence_left": exact.state.promised,
                "polish": exact.iterations,
                "polished": at.exact_start - exact.state.point.value,
                "all_rows": stream is not None and len(at.rows) == stream.num_rows,
            }
        limit = f"the limit of {self._max_iterations} iterations"
        return StreamedReport(
            CHUNKS if at.rows is None else SUBSET,
            first.iterations,
            at.evaluations,
            at.evidence_start,
            evidence,
            first.converged,
            first.why if first.ended else limit,
            self._seconds,
            inference,
            first.history,
            resumed_at=self._resumed_at,
            rebuilt=self._model.rebuilt[self._rebuilt_before :],
            limits=limits_of(self._model),
            **extra,
        )

    @property
    def _at(self) -> Reached:
        assert self._reached is not None
        return self._reached

    @property
    def _seconds(self) -> float:
        return self._earlier + time.perf_counter() - self._started

    def _keep(self, reached: Reached, write: bool = True) -> None:
        spent: dict[str, Any] = {"evaluations": self._full.evaluations, "seconds": self._seconds}
        self._reached = replace(reached, **spent)
        if self._book is not None:
            self._book.keep(self._reached, write)

    def _evidence_start(self) -> float:
        before = self._model.infer(progress=self._progress)
        found = self._model.log_evidence()
        if not np.isfinite(found):
            raise ValueError(
                f"The log evidence is not finite at the first parameters ({before}); {REMEDIES}."
            )
        return found

    def _on_subset(self) -> None:
        """Climb on a random subset, moving the parameters of the model itself."""
        at, model, limit = self._at, self._model, self._max_iterations
        if at.first is not None and at.per_duel is not None and at.first.over(limit):
            return
        assert model.stream is not None and at.rows is not None
        duels = model.stream.take(at.rows)
        part = PreferenceGP(
            duels,
            model.kernel,
            approximation=model.approximation,
            inducing_variable=model.inducing_variable,
            engine=ParallelEP(tolerance=model.engine.tolerance),
            mean_function=model.mean_function,
            margin=None if model.margin is None else 1.0,  # its own, below
        )
        part.noise_variance, part.margin = model.noise_variance, model.margin
        objective = Objective(part, list(part.trainable_variables))
        first = at.first or Climb(State.begin(objective.point(objective.get())))
        self._keep(replace(at, first=first, share=None, per_duel=None), write=False)
        self._iterate("first", objective, SUBSET, duels.num_duels, limit)
        objective.close()
        share = duels.num_duels / model.duels.num_duels
        per_duel = part.log_evidence() / duels.num_duels
        self._keep(replace(self._at, share=share, per_duel=per_duel))

    def _begin_exact(self) -> None:
        """All duels where the subset led, with what it taught of the curvature."""
        at = self._at
        assert at.first is not None and at.share is not None
        state, point = at.first.state, self._full.point()
        # Curvature grows with the number of duels.
        start = np.array([point.value])
        exact = Climb(State(point, state.steps, state.changes / at.share, start))
        self._keep(replace(at, exact=exact, exact_start=point.value))

    def _iterate(
        self, name: str, function: _Full | Objective, of: str, duels: int, limit: int
    ) -> None:
        """Go on with a climb, at most to so many iterations; the parameters are left at its end."""
        evaluate: Function = function
        settling = Settling(self._least_gain, duels)
        prior = function.prior if isinstance(function, _Full) else _Prior(function.model)
        climb: Climb = getattr(self._at, name)
        while not climb.over(limit):
            before = climb.state.point
            state, outcome = advance(climb.state, evaluate)
            prior.set(state.point.position)
            climb, moved = replace(climb, state=state, outcome=outcome), state.point is not before
            if not outcome.converged:
                climb = replace(climb, settled=settling.settled(state.gained, state.promised))
            if moved:
                evidence = -state.point.value - prior.density()[0]
                climb = replace(climb, history=(*climb.history, evidence))
            due = self._book is not None and self._book.due(climb.iterations)
            changed: dict[str, Any] = {name: climb}
            self._keep(replace(self._at, **changed), moved and due)
            if moved and self._callback is not None:
                self._callback(self._step(climb, of, duels, limit))

    def _step(self, climb: Climb, of: str, duels: int, limit: int) -> StreamedStep:
        evidence = climb.history[-1]
        norm = float(np.max(np.abs(climb.state.point.gradient)))
        return StreamedStep(
            climb.iterations, limit, of, evidence, evidence / duels, norm, self._seconds
        )


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


def _check_limit(book: Book[Reached], max_iterations: int, polish: int) -> None:
    """Refuse to go on under a limit that would have ended what was found elsewhere."""
    found = book.found
    if found is None or found.first is None:
        return
    made = found.first.iterations
    if found.exact is not None and not found.first.ended and made != max_iterations:
        raise book.ended_at_limit("The subset", made, max_iterations)
    if made > max_iterations:
        raise book.past_limit(made, max_iterations)
    if found.exact is not None and found.exact.iterations > polish:
        raise book.past_limit(found.exact.iterations, polish, "exact iterations (polish)")


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
            raise ValueError(
                f"{name} must be a whole number of at least {least}, not {shortened(value)}."
            )
    if model.stream is None:
        raise ValueError(
            "The model was loaded without its duels, which optimise_streamed needs; make a "
            "StreamedGP of the stream."
        )
    if not model.trainable_variables:
        raise ValueError("The model has no trainable parameter; see gpflow.set_trainable.")
    if model.scale_is_free():
        raise ValueError(
            "Kernel variance and noise variance are both trainable, but duels determine only their "
            "ratio; fix one with gpflow.set_trainable."
        )
