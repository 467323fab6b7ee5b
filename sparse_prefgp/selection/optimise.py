"""Joint optimisation of hyperparameters and inducing inputs by L-BFGS on the evidence."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import gpflow
import numpy as np

from sparse_prefgp.checks import check_least_gain
from sparse_prefgp.engines import InferenceResult, ParallelEP
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.checks import lost_effects
from sparse_prefgp.parts import StreamedGP
from sparse_prefgp.selection.causes import cause_and_remedies
from sparse_prefgp.selection.checkpoint import Book, Checkpoint, Interrupted, Packed, identify
from sparse_prefgp.selection.limits import limits_of, warn_of_lengthscales
from sparse_prefgp.selection.objective import LOOSE_TOLERANCE, Counts, Objective
from sparse_prefgp.selection.search import (
    ALTERNATED,
    MODES,
    NESTED,
    Run,
    as_arrays,
    begin,
    finish,
    from_arrays,
    step,
)
from sparse_prefgp.selection.settling import LEAST_GAIN, Settling
from sparse_prefgp.selection.starts import perturb

__all__ = ["LOOSE_TOLERANCE", "OptimisationReport", "Progress", "StartReport", "optimise"]


@dataclass(frozen=True)
class Progress:
    """After each iteration: what a progress bar shows.

    log_evidence in nats, without log prior density; gradient_norm: the largest component, in
    unconstrained units; sweeps so far; seconds since the start. settled: whether the evidence is
    that of converged sites, which it seldom is while alternating. start: number of the present
    start, of `starts`, from 1.
    """

    iteration: int
    max_iterations: int
    log_evidence: float
    gradient_norm: float
    sweeps: int
    seconds: float
    settled: bool = True
    start: int = 1
    starts: int = 1


@dataclass(frozen=True)
class StartReport:
    """What came of one start.

    log_evidence, log_prior: of its best parameters in nats, at a loose tolerance; None where the
    evidence was not finite at its first parameters. converged: at an optimum, or settled.
    message: why it stopped. setbacks: returns
    of the alternated mode to the last point at which the evidence was checked. limit_reached:
    whether only the limit of iterations ended it.
    """

    iterations: int
    log_evidence: float | None
    log_prior: float
    converged: bool
    message: str
    setbacks: int = 0
    limit_reached: bool = False


class NotFinite(ValueError):
    """No start has a log evidence and a gradient that are finite: there is nothing to improve."""


@dataclass(frozen=True)
class OptimisationReport:
    """What `optimise` did.

    log_evidence_start, log_evidence: in nats, at the first and the last parameters, the last from
    a tight run of inference from cold sites; log_prior_start, log_prior: log prior density of the
    parameters at both, which is maximised too.
    failed_evaluations: not finite, backed off from. unconverged_evaluations: inference had not
    converged, though the value was finite. alternated_evaluations: from sites that took a single
    sweep on purpose. converged: at an optimum, or settled by `least_gain`; message: why the
    optimiser stopped. limits: a sentence for each end that the parameters have run to
    (`selection/limits.py`), such as a lengthscale at its lower limit.
    inference: of the last run; warm: it went on from the sites of the optimiser, because from cold
    ones it had not converged. history: log evidence after each iteration; where `settled` is
    False it is that of sites that had not converged. setbacks: how often the alternated mode fell
    in evidence and went back. starts: what came of each; kept: the number, from 0, of the one
    whose parameters the model has, and whose iterations and history these are; evaluations, sweeps
    and seconds are those of all. resumed_at: iterations that were read from a checkpoint.
    """

    iterations: int
    evaluations: int
    failed_evaluations: int
    unconverged_evaluations: int
    sweeps: int
    log_evidence_start: float
    log_evidence: float
    log_prior_start: float
    log_prior: float
    converged: bool
    message: str
    seconds: float
    compile_seconds: float
    inference: InferenceResult
    history: tuple[float, ...]
    mode: str = NESTED
    settled: tuple[bool, ...] = ()
    alternated_evaluations: int = 0
    setbacks: int = 0
    starts: tuple[StartReport, ...] = ()
    kept: int = 0
    resumed_at: int = 0
    warm: bool = False
    limits: tuple[str, ...] = ()

    def __str__(self) -> str:
        mode = "" if self.mode == NESTED else f"{self.mode}, "
        text = (
            f"log evidence {self.log_evidence_start:.3f} -> {self.log_evidence:.3f} nats in "
            f"{self.iterations} iterations ({mode}{self.evaluations} evaluations, {self.sweeps} "
            f"sweeps, {self.seconds:.1f} s); {self.message}"
        )
        if len(self.starts) > 1:
            text += f"; the best of {len(self.starts)} starts is number {self.kept + 1}"
        failed = [str(i + 1) for i, s in enumerate(self.starts) if s.log_evidence is None]
        if failed:
            text += f"; not finite at the first parameters of start {', '.join(failed)}"
        if self.resumed_at:
            text += f"; {self.resumed_at} iterations came from a checkpoint"
        if self.setbacks:
            text += f"; {self.setbacks} returns to the last checked evidence"
        if self.failed_evaluations:
            text += f"; {self.failed_evaluations} failed evaluations were backed off from"
        if self.unconverged_evaluations:
            text += f"; inference had not converged in {self.unconverged_evaluations} evaluations"
        if self.warm:
            text += "; inference had not converged from cold sites, and went on from those it had"
        if not self.inference.converged:
            text += f"; the last inference: {self.inference}"
        return " ".join([text if not self.limits else f"{text}.", *self.limits])


def optimise(
    model: PreferenceGP,
    max_iterations: int = 200,
    *,
    free_scale: bool = False,
    callback: Callable[[Progress], None] | None = None,
    mode: str = NESTED,
    starts: int = 1,
    seed: int = 0,
    least_gain: float | None = LEAST_GAIN,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
) -> OptimisationReport:
    """Maximise log evidence plus log prior density over all trainable parameters, Z included.

    L-BFGS (Liu & Nocedal 1989) with sites warm-started from one evaluation to the next and
    inference at a loose tolerance; at the end one run at the engine's own tolerance from cold
    sites. The model is left at the best parameters found, also by a run that an exception ends.

    An evaluation that fails (a kernel matrix that is not positive definite, a value or gradient
    that is not finite) is backed off from and counted. A start whose first parameters fail is a
    line of the report; only where that is so of every start there is nothing to report.

    :param max_iterations: of L-BFGS, for each start.
    :param free_scale: let kernel variance and noise variance both move; duels determine only
        their ratio, so that something else (a prior) must pin the scale.
    :param callback: called after each iteration with a `Progress`, the model being at its
        parameters; it may raise `StopIteration` to end the run there.
    :param mode: "nested", or "alternated": sites take one sweep for each gradient in place of as
        many as they need, with the evidence checked at converged sites every ten iterations; the
        last steps to an optimum are nested. For `ParallelEP`.
    :param starts: how many first parameters to try: the model's own, and perturbed ones with
        other inducing inputs (`selection/starts.py`); the best result is kept.
    :param seed: of the perturbations.
    :param least_gain: a start has settled, and ends, when its last ten iterations together brought
        less than this in log evidence and log prior, in nats a duel (a duel counts as often as its
        count and weight say), and the quadratic model of L-BFGS promises no more than that up to
        the optimum. Scores of new duels hardly move after that, though a plateau cannot be told
        from an end; evidences may be off by it times the duels and more. None goes on to the
        optimum, or to the limit.
    :param checkpoint: where to keep what a killed run needs to go on, and whether to go on; a path
        alone begins anew, unless what is there belongs to another run, which is refused. A
        continued run takes the steps that the uninterrupted one would have taken. A run that has
        ended leaves its checkpoint there, so that a larger `max_iterations` can go on from one
        that reached the limit; a limit under which an uninterrupted run would not have come to
        where the checkpoint is, is refused.
    :raises ValueError: nothing is trainable, the scale is free without `free_scale`, the evidence
        is not finite at the first parameters of any start, nothing that several starts could
        differ in, an unknown mode or one that the engine lacks, a `least_gain` that is not
        positive, a checkpoint of other data, settings or versions, or past the limit.
    :raises Interrupted: a KeyboardInterrupt that left a checkpoint.
    """
    _check_numbers(model, max_iterations, mode, starts, seed)
    check_least_gain(least_gain)
    if free_scale:
        gpflow.set_trainable(model.noise_variance, True)
        model.silence_scale_warning()
    elif model.scale_is_free():
        raise ValueError(
            "Kernel variance and noise variance are both trainable, but duels determine only their "
            "ratio; fix one with gpflow.set_trainable or pass free_scale=True."
        )
    lost = lost_effects(model)
    if lost is not None:
        warnings.warn(lost, stacklevel=2)
    variables = list(model.trainable_variables)
    if not variables:
        raise ValueError("The model has no trainable parameter; see gpflow.set_trainable.")

    book = None
    if checkpoint is not None:
        if not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        settings = {"mode": mode, "starts": starts, "seed": seed, "least_gain": least_gain}
        identity = identify(model, settings, "another mode, seed, number of starts or least gain")
        book = Book(checkpoint, identity, _packed, _unpacked)
        _check_limit(book, max_iterations)
    objective = Objective(model, variables, alternates=mode == ALTERNATED)
    settling = Settling(least_gain, float(model.graph.counts.sum()))
    first = objective.get()
    done, run, resumed_at = _Done(), None, 0
    if starts > 1:
        _check_perturbable(model, seed, starts)
        objective.set(first)
    try:
        if book is not None and book.found is not None:
            done, run, counts = book.found
            objective.go_on_from(counts)
            objective.set_sites(run.sites)
            resumed_at = run.iterations

        for start in range(len(done.starts), starts):
            if run is None:
                if start:
                    objective.set(first)
                    perturb(model, seed, start)
                    objective.forget_sites()
                run = begin(objective, objective.get(), mode)
                if start == 0 and run is not None:
                    prior = _log_prior(model)
                    done = replace(done, evidence=-run.checked.value - prior, prior=prior)
            while run is not None and not run.ended and run.iterations < max_iterations:
                before, run = run.iterations, step(objective, run, settling)
                if book is not None:
                    due = run.iterations > 0 and book.due(run.iterations)
                    book.keep(_Reached(done, run, objective.counts), due)
                if callback is not None and run.iterations > before:
                    try:
                        callback(_progress(objective, run, max_iterations, start, starts))
                    except StopIteration:
                        run = replace(run, ended="stopped by the callback", converged=False)
            if run is None:
                objective.set(first)
            else:
                run = finish(objective, run)
                objective.set(run.checked.position)
            done = done.with_start(run, max_iterations, _log_prior(model))
            run = None
        if book is not None:
            book.close()
        if done.best is None:
            raise _not_finite(objective, starts)
        objective.set(done.best.checked.position)
    except BaseException as error:
        # Whatever it was, it must not leave the model at some trial of the line search, nor take
        # what was reached since the last checkpoint with it.
        reached = done.better(run)
        objective.set(first if reached is None else reached.checked.position)
        if book is not None and book.interrupted() and isinstance(error, KeyboardInterrupt):
            assert book.latest is not None
            raise Interrupted(book.folder, book.latest.run.iterations) from error
        raise
    finally:
        objective.close()
    report = _report(model, objective, done, mode, resumed_at)
    warn_of_lengthscales(model, stacklevel=3)
    return report


@dataclass(frozen=True, eq=False)
class _Done:
    """What the starts that have ended left, and log evidence and prior at the first parameters."""

    starts: tuple[StartReport, ...] = ()
    best: Run | None = None
    kept: int = 0
    evidence: float = float("nan")
    prior: float = 0.0

    def better(self, run: Run | None) -> Run | None:
        """The best run so far; of two equal ones the first."""
        runs = [one for one in (self.best, run) if one is not None]
        return min(runs, key=lambda one: one.checked.value, default=None)

    def with_start(self, run: Run | None, max_iterations: int, prior: float) -> _Done:
        if run is None:
            nothing = StartReport(0, None, prior, False, "not finite at the first parameters")
            return replace(self, starts=(*self.starts, nothing))
        message = run.ended or f"the limit of {max_iterations} iterations was reached"
        found = StartReport(
            run.iterations,
            -run.checked.value - prior,
            prior,
            run.converged,
            message,
            run.setbacks,
            limit_reached=not run.ended,
        )
        new = replace(self, starts=(*self.starts, found))
        if self.better(run) is self.best:
            return new
        return replace(new, best=run, kept=len(self.starts))


class _Reached(NamedTuple):
    """What a checkpoint holds."""

    done: _Done
    run: Run
    counts: Counts


def _check_limit(book: Book[_Reached], max_iterations: int) -> None:
    """Refuse to go on under a limit that would have ended what was found elsewhere."""
    if book.found is None:
        return
    done, run, _ = book.found
    for number, start in enumerate(done.starts, start=1):
        if start.limit_reached and start.iterations != max_iterations:
            raise book.ended_at_limit(f"Start {number}", start.iterations, max_iterations)
    most = max(run.iterations, *(start.iterations for start in done.starts), 0)
    if most > max_iterations:
        raise book.past_limit(most, max_iterations)


def _packed(reached: _Reached) -> Packed:
    done, run, counts = reached
    arrays, words = as_arrays(run)
    all_words: dict[str, Any] = {
        "run": words,
        "counts": asdict(counts),
        "starts": [asdict(start) for start in done.starts],
        "kept": done.kept,
        "best": None,
    }
    arrays["first"] = np.array([done.evidence, done.prior])
    if done.best is not None:
        best, all_words["best"] = as_arrays(done.best)
        arrays |= {f"best_{name}": value for name, value in best.items()}
    return arrays, all_words


def _unpacked(arrays: dict[str, np.ndarray], words: dict[str, Any]) -> _Reached:
    best = None
    if words["best"] is not None:
        prefix = "best_"
        own = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
        best = from_arrays(own, words["best"])
    evidence, prior = (float(x) for x in arrays["first"])
    starts = tuple(StartReport(**start) for start in words["starts"])
    done = _Done(starts, best, words["kept"], evidence, prior)
    return _Reached(done, from_arrays(arrays, words["run"]), Counts(**words["counts"]))


def _check_numbers(
    model: PreferenceGP, max_iterations: int, mode: str, starts: int, seed: int
) -> None:
    if isinstance(model, StreamedGP):
        raise ValueError("Duels of a StreamedGP are not in memory; use optimise_streamed.")
    for name, value, least in (
        ("max_iterations", max_iterations, 1),
        ("starts", starts, 1),
        ("seed", seed, 0),
    ):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value}.")
    if mode not in MODES:
        raise ValueError(f"There is no mode {mode!r}; choose one of {', '.join(MODES)}.")
    if mode == ALTERNATED and not isinstance(model.engine, ParallelEP):
        raise ValueError(
            f"The alternated mode takes single sweeps of ParallelEP, which "
            f"{type(model.engine).__name__} does not have; use mode='nested'."
        )


def _check_perturbable(model: PreferenceGP, seed: int, starts: int) -> None:
    """Before the first start, whose work would be lost. Leaves the model perturbed."""
    if not perturb(model, seed, 1):
        raise ValueError(
            f"Nothing can be perturbed for {starts} starts: no positive parameter and no inducing "
            "input is trainable; use starts=1."
        )


def _not_finite(objective: Objective, starts: int) -> NotFinite:
    where = "at the first parameters" + (f" of all {starts} starts" if starts > 1 else "")
    because = f" ({objective.error})" if objective.error else ""
    return NotFinite(
        f"The {objective.failure} is not finite {where}{because}; "
        f"{cause_and_remedies(objective.model.problem())}."
    )


def _progress(
    objective: Objective, run: Run, max_iterations: int, start: int, starts: int
) -> Progress:
    counts = objective.counts
    return Progress(
        iteration=run.iterations,
        max_iterations=max_iterations,
        log_evidence=run.history[-1],
        gradient_norm=float(np.max(np.abs(run.state.point.gradient))),
        sweeps=counts.sweeps,
        seconds=counts.seconds,
        settled=run.settled[-1],
        start=start + 1,
        starts=starts,
    )


def _report(
    model: PreferenceGP, objective: Objective, done: _Done, mode: str, resumed_at: int
) -> OptimisationReport:
    run, start = done.best, done.starts[done.kept]
    assert run is not None
    inference = model.infer(restart=True)
    warm = not inference.converged
    if warm:
        objective.set_sites(run.sites)
        inference = model.infer()
    counts = objective.counts
    return OptimisationReport(
        iterations=start.iterations,
        evaluations=counts.evaluations,
        failed_evaluations=counts.failed,
        unconverged_evaluations=counts.unconverged,
        sweeps=counts.sweeps,
        log_evidence_start=done.evidence,
        log_evidence=model.log_evidence(),
        log_prior_start=done.prior,
        log_prior=_log_prior(model),
        converged=start.converged,
        message=start.message,
        seconds=counts.seconds,
        compile_seconds=objective.compile_seconds,
        inference=inference,
        history=run.history,
        mode=mode,
        settled=run.settled,
        alternated_evaluations=counts.alternated,
        setbacks=start.setbacks,
        starts=done.starts,
        kept=done.kept,
        resumed_at=resumed_at,
        warm=warm,
        limits=limits_of(model),
    )


def _log_prior(model: PreferenceGP) -> float:
    """Log prior density of the trainable parameters as they are."""
    return float(model.log_prior_density())
