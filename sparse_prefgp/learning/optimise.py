"""Joint optimisation of hyperparameters and inducing inputs by L-BFGS on the evidence.

One driver for duels in memory, for streamed ones and for a random subset of those.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.covariances.projected import seen_by_inducing
from sparse_prefgp.engines import InferenceResult, ParallelEP
from sparse_prefgp.learning.checkpoint import Checkpoint, CheckpointWriter, RunState
from sparse_prefgp.learning.dying import death_in
from sparse_prefgp.learning.lbfgs import NOT_FINITE, Curvature, LbfgsState, Settling, go_on
from sparse_prefgp.learning.limits import limits_of, small_lengthscales
from sparse_prefgp.learning.notes import WINDOW
from sparse_prefgp.learning.objective import (
    LOOSE_TOLERANCE,
    REMEDIES,
    InChunks,
    InMemory,
    Objective,
    cause_and_remedies,
)
from sparse_prefgp.learning.report import OptimisationReport, Progress, StartReport
from sparse_prefgp.learning.ties import fit_tie_margin
from sparse_prefgp.models import PreferenceGP, kmeans_inputs
from sparse_prefgp.models.checks import lost_effects, scale_is_free
from sparse_prefgp.models.integrated import IntegratedGP
from sparse_prefgp.models.likelihood import MARGIN_ONLY
from sparse_prefgp.models.preference_gp import replace as replace_answers
from sparse_prefgp.models.streaming import StreamedGP
from sparse_prefgp.models.streaming.inference import StreamProgress
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import AnyArray, IntArray
from sparse_prefgp.support.checks import check_choice, check_number
from sparse_prefgp.support.defaults import LEAST_GAIN
from sparse_prefgp.support.machine import release_unused
from sparse_prefgp.support.randomness import seed_of

__all__ = [
    "LOOSE_TOLERANCE",
    "NotFinite",
    "OptimisationReport",
    "Progress",
    "StartReport",
    "optimise",
]

CHUNKS, MEMORY, SUBSET, ALL = "chunks", "memory", "subset", "all duels"
GRADIENTS = (CHUNKS, SUBSET)
DEFAULT_SUBSET = 20_000
# Iterations at most, in memory and of streamed duels.
DEFAULT_ITERATIONS, DEFAULT_STREAMED_ITERATIONS = 200, 100
# Standard deviation of the log of what a start multiplies a positive parameter by: a factor of two.
SPREAD = 0.7


class NotFinite(ValueError):
    """No start has a log evidence and a gradient that are finite: there is nothing to improve."""


def optimise(
    model: PreferenceGP | StreamedGP,
    max_iterations: int | None = None,
    *,
    free_scale: bool = False,
    callback: Callable[[Progress], None] | None = None,
    starts: int | None = None,
    gradients: str | None = None,
    subset: int | None = None,
    polish: int | None = None,
    rng: np.random.Generator | None = None,
    progress: Callable[[StreamProgress], None] | None = None,
    least_gain: float | None = LEAST_GAIN,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
) -> OptimisationReport:
    """Maximise log evidence plus log prior density over all trainable parameters, Z included.

    L-BFGS (Liu & Nocedal 1989), SciPy's, with sites warm-started from one evaluation to the next
    and inference at a loose tolerance; at the end one run at the engine's own tolerance from cold
    sites. The model is left at the best parameters found, also by a run that an exception ends.

    An evaluation that fails (a kernel matrix that is not positive definite, a value or gradient
    that is not finite) is backed off from and counted. A start whose first parameters fail is a
    line of the report; only where that is so of every start there is nothing to report.

    Where a term of the kernel died under a bound next to a linear term of more than 16 features,
    a warning says so, and one more start begins without that linear term; the better result is
    kept (`learning/dying.py`). Of a `StreamedGP` it only says so.

    :param max_iterations: of L-BFGS, for each start; 200, or 100 for a `StreamedGP`.
    :param free_scale: let kernel variance and noise variance both move; duels determine only
        their ratio, so that something else (a prior) must pin the scale. In memory.
    :param callback: called after each iteration with a `Progress`, the model being at its
        parameters; it may raise `StopIteration` to end the run there.
    :param starts: how many first parameters to try: the model's own (1, the default), and perturbed
        ones with other inducing inputs (`perturb`); the best result is kept. In memory.
    :param gradients: of a `StreamedGP`. "chunks", the default: the exact gradient of all duels,
        summed chunk by chunk, each of which costs some sweeps over all of them; the same in memory
        where they fit (`StreamedGP.fits_in_memory`), as the report then says. "subset": that of a
        random subset in memory, with inference on all duels at the end; the report says what that
        cost in evidence.
    :param subset: rows of the subset, 20,000 by default.
    :param polish: exact iterations after those on the subset, 0 by default.
    :param rng: perturbs the starts, begun by seed 0 by default; or draws the subset.
    :param progress: called after each chunk of a stream, in this process.
    :param least_gain: a start has settled, and ends, when its last ten iterations (or as many as
        there are parameters, at least three, where these are fewer) together brought less than
        this in log evidence and log prior, in nats per duel (a duel counts as often as its count
        and weight say; in a stream, as its count), and the quadratic model of L-BFGS promises no
        more than that up to the optimum. Scores of new duels hardly move after that, though a
        plateau cannot be told from an end; evidences may be off by it times the duels and more.
        None continues to the optimum, or to the limit.
    :param checkpoint: where to keep what a killed run can resume from, and whether to resume; a
        path alone starts over, unless what is there belongs to another run, which is refused. A
        resumed run starts from the parameters reached: iterations count on, what the steps have
        shown of the curvature is known, and what is finished is not done again, but sites begin at
        zero, so that it ends near where the uninterrupted run would have, within what `least_gain`
        leaves open. A run
        that has ended leaves its checkpoint there, so that a larger `max_iterations` can resume
        one that reached the limit. Size of the chunks, place of the sites and scheduler may be
        others. Of `gradients="subset"` nothing is kept.
    :raises ValueError: an `IntegratedGP`, nothing is trainable, the scale is free without
        `free_scale`, the evidence is not finite at the first parameters of any start, nothing that
        several starts could differ in, a number that makes no sense, an argument for the other
        kind of model, a streamed model without its duels, a checkpoint of other data, settings or
        format, or past the limit.
    :raises Interrupted: a KeyboardInterrupt that left a checkpoint.
    """
    streamed = isinstance(model, StreamedGP)
    asked: dict[str, Any] = {
        "max_iterations": max_iterations,
        "starts": starts,
        "gradients": gradients,
        "subset": subset,
        "polish": polish,
        "progress": progress,
    }
    asked = {name: value for name, value in asked.items() if value is not None}
    together.check(
        streamed=streamed,
        free_scale=free_scale,
        starts="starts" in asked,
        in_memory=not streamed,
        gradients="gradients" in asked,
        subset_rows="subset" in asked,
        polish="polish" in asked,
        progress="progress" in asked,
    )
    asked.setdefault(
        "max_iterations", DEFAULT_STREAMED_ITERATIONS if streamed else DEFAULT_ITERATIONS
    )
    settings = _Settings(
        least_gain=least_gain,
        callback=callback,
        checkpoint=checkpoint,
        seed=0 if streamed else seed_of(rng),
        rng=rng,
        **asked,
    )
    if isinstance(model, IntegratedGP):
        raise ValueError(
            "The hyperparameters of this model are integrated out, so that its predictions would "
            "not follow what is learned; optimise the model at the mode (model.at_mode) and "
            "integrate that again: spg.integrate(model.at_mode)."
        )
    if free_scale:
        gpflow.set_trainable(model.likelihood.noise, True)
        model.warned_about_scale = True
    else:
        free = scale_is_free(model)
        together.check(free_kernel_variance=free, free_noise_variance=True)
    if not model.trainable_variables:
        raise ValueError("The model has no trainable parameter; see gpflow.set_trainable.")
    run = _Streamed(model, settings) if streamed else _InMemory(model, settings)
    try:
        report = run.made()
    except BaseException as error:
        run.left_by(error)
        raise
    for sentence in small_lengthscales(model):  # which only kernels of one's own can have
        warnings.warn(sentence, stacklevel=2)
    if isinstance(model, PreferenceGP) and model.likelihood.ties == MARGIN_ONLY:
        fit_tie_margin(model)
    return report


def perturb(model: PreferenceGP, seed: int, start: int) -> bool:
    """Move the model from its first parameters to those of another start.

    Trainable positive parameters (lengthscales, variances) are multiplied by exp(0.7 ε) with
    normal ε; trainable inducing inputs become the k-means centres of another seed. What is fixed,
    takes both signs, or would leave the range of its transform stays.

    :param seed: decide the numbers drawn, whatever the other starts do.
    :param start: decide the numbers drawn, whatever the other starts do.
    :return: whether anything moved.
    """
    rng = np.random.default_rng([seed, start])
    inducing = None if model.inducing_variable is None else model.inducing_variable.Z
    moved = False
    for parameter in model.trainable_parameters:
        value = parameter.numpy()
        if inducing is not None and parameter is inducing:
            rows = seen_by_inducing(model.kernel, model.duels.distinct_rows()[0])
            parameter.assign(kmeans_inputs(rows, len(value), rng))
            moved |= not np.array_equal(value, parameter.numpy())
            continue
        factor = np.exp(SPREAD * rng.standard_normal(value.shape))
        if parameter.transform is None or not np.all(value > 0.0):
            continue
        proposed = parameter.transform.inverse(value * factor).numpy()
        if np.all(np.isfinite(proposed)):
            parameter.unconstrained_variable.assign(proposed)
            moved = True
    return moved


@dataclass(frozen=True)
class _Settings:
    """What `optimise` was given, with the defaults in place."""

    max_iterations: int
    least_gain: float | None
    callback: Callable[[Progress], None] | None
    checkpoint: Checkpoint | str | os.PathLike[str] | None
    seed: int
    rng: np.random.Generator | None
    starts: int = 1
    gradients: str = CHUNKS
    subset: int = DEFAULT_SUBSET
    polish: int = 0
    progress: Callable[[StreamProgress], None] | None = None

    def __post_init__(self) -> None:
        check_choice("gradients", self.gradients, GRADIENTS)
        for name, least in (
            ("max_iterations", 1),
            ("starts", 1),
            ("seed", 0),
            ("subset", 1),
            ("polish", 0),
        ):
            check_number(name, getattr(self, name), least=least, whole=True)
        if self.least_gain is not None:
            hint = (
                ", nats per duel, such as 1e-5, or none to continue to the optimum (None; on the "
                "command line 0)"
            )
            label = "The least gain of ten iterations"
            check_number(label, self.least_gain, above=0.0, hint=hint)

    def keeper(self, model: PreferenceGP | StreamedGP) -> CheckpointWriter | None:
        """Of what decides a run of the model."""
        place = self.checkpoint
        if place is None:
            return None
        if not isinstance(place, Checkpoint):
            place = Checkpoint(place)
        decisive = {"starts": self.starts, "seed": self.seed, "least_gain": self.least_gain}
        return CheckpointWriter(place, model, decisive)


class _Run:
    """One call of `optimise`: what it has reached, and what is kept and shown of that.

    A run is a sequence of legs, each a climb on an objective.
    """

    _unit = "duel"  # what one of the answers is called

    def __init__(
        self,
        main: InMemory | InChunks,
        settings: _Settings,
        keeper: CheckpointWriter | None,
    ) -> None:
        self._main, self._settings, self._keeper = main, settings, keeper
        self._begun_at = main.get()
        self._reached = RunState()
        if keeper is not None and keeper.found is not None:
            self._reached = keeper.found
            made = max((leg.iterations for leg in self._reached.legs), default=0)
            if made > settings.max_iterations:
                raise ValueError(
                    f"The run in {str(keeper.file.path)!r} has made {made} iterations, past the "
                    f"limit of {settings.max_iterations}; give a limit of at least {made}, "
                    f"{keeper.file.again}."
                )
        self._resumed_at = self._reached.iterations
        main.count_from(self._reached.counts)

    def made(self) -> OptimisationReport:
        """The report, after all that is to be done."""
        raise NotImplementedError

    def left_by(self, error: BaseException) -> None:
        """Whatever it was, it must not leave the model at some trial of the line search, nor take
        what was reached since the last checkpoint with it.

        :raises Interrupted: in place of a KeyboardInterrupt, where there is a checkpoint.
        """
        place = self._place()
        self._main.set(self._begun_at if place is None else place.position)
        interrupted = None if self._keeper is None else self._keeper.interrupted()
        if interrupted is not None and isinstance(error, KeyboardInterrupt):
            raise interrupted from error

    def _place(self) -> LbfgsState | None:
        """Where the model is to be left; None for where it was."""
        raise NotImplementedError

    def _leg(self, number: int) -> LbfgsState | None:
        legs = self._reached.legs
        return legs[number] if number < len(legs) else None

    def _keep(self, reached: RunState, iteration: int | None = None) -> None:
        self._reached = replace(reached, counts=self._main.counts)
        if self._keeper is not None:
            self._keeper.keep(self._reached, iteration)

    def _climb(
        self,
        number: int,
        objective: Objective,
        limit: int,
        duels: float,
        of: str = ALL,
        curvature: Curvature | None = None,
    ) -> LbfgsState:
        """Make a leg, or what is left of it; the model is left at its end."""

        def with_leg(climb: LbfgsState) -> RunState:
            return replace(self._reached, legs=(*self._reached.legs[:number], climb))

        def each(climb: LbfgsState) -> None:
            self._keep(with_leg(climb), climb.iterations)
            if self._settings.callback is None:
                return
            counts, evidence, starts = self._main.counts, climb.history[-1], self._settings.starts
            progress = Progress(
                iteration=climb.iterations,
                max_iterations=limit,
                log_evidence=evidence,
                gradient_norm=float(np.max(np.abs(climb.gradient))),
                sweeps=counts.sweeps,
                seconds=counts.seconds,
                start=number + 1 if starts > 1 else 1,
                starts=starts,
                of=of,
                per_duel=evidence / duels,
            )
            self._settings.callback(progress)

        climb = self._leg(number)
        resumed = climb is not None
        if climb is None or not climb.over(limit):
            climb = LbfgsState.begin(objective, curvature, climb)
            if number == 0 and np.isnan(self._reached.first[0]):
                first = (climb.log_evidence, climb.log_prior)
                self._reached = replace(self._reached, first=first)
            if climb.ended:  # there is nothing to keep
                self._reached = with_leg(climb)
                return climb
            self._keep(with_leg(climb))
        enough = Settling(self._settings.least_gain, duels, self._unit)
        end = go_on(objective, climb, limit, enough, each, resumed)
        objective.set(end.position)
        if end is not climb:
            self._keep(with_leg(end))
        return end

    def _report(
        self,
        leg: LbfgsState,
        duels: float,
        inference: InferenceResult,
        evidence: float,
        **more: Any,
    ) -> OptimisationReport:
        """Of the leg that counts, made of so many duels."""
        counts, first, last = self._main.counts, self._reached.first, None
        if len(leg.values) > WINDOW:
            last = float(leg.values[-1 - WINDOW] - leg.value) / duels
        about = {
            "iterations": leg.iterations,
            "converged": leg.converged,
            "message": self._why(leg),
            "history": leg.history,
            "last_gain": last,
            **more,
        }
        return OptimisationReport(
            evaluations=counts.evaluations,
            failed_evaluations=counts.failed,
            unconverged_evaluations=counts.unconverged,
            sweeps=counts.sweeps,
            log_evidence_start=first[0],
            log_evidence=evidence,
            log_prior_start=first[1],
            log_prior=self._main.log_prior(),
            seconds=counts.seconds,
            inference=inference,
            resumed_at=self._resumed_at,
            **about,
        )

    def _why(self, leg: LbfgsState) -> str:
        limit = self._settings.max_iterations
        return leg.ended or f"the limit of {limit} iterations was reached"


class _InMemory(_Run):
    """Duels in memory: a leg for each start."""

    def __init__(self, model: PreferenceGP, settings: _Settings) -> None:
        self._model, starts = model, settings.starts
        self._unit = model.duels.events.unit
        lost = lost_effects(model)
        if lost is not None:
            warnings.warn(lost, stacklevel=4)
        self._objective = InMemory(model, list(model.trainable_variables))
        if starts > 1:  # before the first one, whose work would be lost
            first = self._objective.get()
            moved = perturb(model, settings.seed, 1)
            self._objective.set(first)
            if not moved:
                raise ValueError(
                    f"Nothing can be perturbed for {starts} starts: no positive parameter and no "
                    "inducing input is trainable; use starts=1."
                )
        super().__init__(self._objective, settings, settings.keeper(model))
        # Of the best leg that was made here, at its end.
        self._sites: tuple[AnyArray, AnyArray] | None = None

    def _place(self) -> LbfgsState | None:
        legs = [leg for leg in self._reached.legs if leg.ended != NOT_FINITE]
        return min(legs, key=lambda leg: leg.value, default=None)  # of equal ones the first

    def made(self) -> OptimisationReport:
        settings, objective, model = self._settings, self._objective, self._model
        duels = float(model.graph.counts.sum())
        try:
            for start in range(settings.starts):
                other = partial(perturb, model, settings.seed, start) if start else None
                self._start(start, duels, other)
            restarted = self._restarted(duels)
        finally:
            objective.close()
        best = self._place()
        if best is None:
            of_all = f" of all {settings.starts} starts" if settings.starts > 1 else ""
            because = f" ({objective.error})" if objective.error else ""
            raise NotFinite(
                f"The {objective.failure} is not finite at the first parameters{of_all}{because}; "
                f"{cause_and_remedies(model.problem())}."
            )
        objective.set(best.position)
        inference = model.infer(restart=True)
        warm = False
        if not inference.converged and self._sites is not None:
            warm = True
            model.inference.start_from(*self._sites)
            inference = model.infer()
        return self._report(
            best,
            duels,
            inference,
            model.log_evidence(),
            compile_seconds=objective.compile_seconds,
            starts=tuple(
                StartReport(
                    leg.iterations,
                    None if leg.ended == NOT_FINITE else leg.log_evidence,
                    leg.log_prior,
                    leg.converged,
                    self._why(leg),
                    limit_reached=not leg.ended,
                )
                for leg in self._reached.legs
            ),
            kept=self._reached.legs.index(best),
            warm=warm,
            limits=limits_of(model),
            restarted=restarted,
        )

    def _start(self, number: int, duels: float, begin: Callable[[], object] | None) -> LbfgsState:
        """Climb from other parameters than the model's own, where `begin` moves it to these."""
        known = self._leg(number)
        if known is None and begin is not None:
            self._objective.set(self._begun_at)
            begin()
            none = map(np.zeros_like, self._model.inference.sites())
            self._model.inference.start_from(*none)
        climb = self._climb(number, self._objective, self._settings.max_iterations, duels)
        if climb is not known and climb is self._place():
            self._sites = self._model.inference.sites()
        return climb

    def _restarted(self, duels: float) -> str:
        """Climb once more without a term next to which another one died; what is to be said."""
        best, number = self._place(), self._settings.starts
        if best is None:
            return ""
        self._objective.set(best.position)
        death = death_in(self._model)
        if death is None:
            return ""
        climb = self._start(number, duels, death.begin_without_others)
        told = death.told(best.value - climb.value, self._model.approximation.name)
        warnings.warn(told, stacklevel=5)
        return told


class _Streamed(_Run):
    """Streamed duels: one leg on all of them, or one on a subset and one on all after it.

    Where all of them fit into memory, they are read once, and the leg is made there.
    """

    def __init__(self, model: StreamedGP, settings: _Settings) -> None:
        if model.stream is None:
            raise together.refused(loaded=True, duels_needed="optimise")
        self._model, self._gradients = model, settings.gradients
        self._rows: IntArray | None = None
        keeper = None
        if settings.gradients != SUBSET:
            keeper = settings.keeper(model)
        else:
            together.check(
                gradients_of_a_subset=True,
                noise_by_group=model.likelihood.noise_ratio is not None,
                checkpoint=settings.checkpoint is not None,
            )
            drawn = np.random.default_rng() if settings.rng is None else settings.rng
            self._rows = model.stream.draw(settings.subset, drawn)
        whole = self._whole() if self._rows is None and model.fits_in_memory else None
        if whole is not None:
            self._gradients = MEMORY
        super().__init__(whole or InChunks(model, settings.progress), settings, keeper)
        self._rebuilt_before = len(model.rebuilt)

    def _place(self) -> LbfgsState | None:
        return self._reached.legs[-1] if self._reached.legs else None

    def made(self) -> OptimisationReport:
        model, settings = self._model, self._settings
        if self._gradients != MEMORY and np.isnan(self._reached.first[0]):
            before, evidence = model.infer(progress=settings.progress), model.log_evidence()
            if not np.isfinite(evidence):
                raise NotFinite(
                    f"The log evidence is not finite at the first parameters ({before}); "
                    f"{REMEDIES}."
                )
            self._keep(RunState((evidence, self._main.log_prior())))
        place, total = self._place(), model.duels.num_duels
        if place is not None:
            self._main.set(place.position)
        more: dict[str, Any] = {}
        if self._rows is None:
            self._climb(0, self._main, settings.max_iterations, total, self._gradients)
        else:
            known = self._on_subset()
            exact = self._climb(1, self._main, settings.polish, total, curvature=known)
            assert model.stream is not None
            more = {
                "last_gain": None,
                "subset": len(self._rows),
                "subset_per_duel": self._reached.per_duel,
                "evidence_left": exact.promised,
                "polish": exact.iterations,
                "polished": exact.values[0] - exact.value,
                "all_rows": len(self._rows) == model.stream.num_rows,
            }
        first_leg = self._reached.legs[0]
        if first_leg.ended == NOT_FINITE:
            raise NotFinite(
                f"The {self._main.failure} is not finite at the first parameters; {REMEDIES}."
            )
        # Duels that were learned in memory need not stay there next to a chunk.
        counts, self._main = self._main.counts, InChunks(model)
        self._main.count_from(counts)
        release_unused()
        inference = model.infer(restart=True, progress=settings.progress)
        death, ends = death_in(model), limits_of(model)
        if death is not None:
            ends = (*ends, death.advised(model.approximation.name))
            warnings.warn(ends[-1], stacklevel=4)
        return self._report(
            first_leg,
            total,
            inference,
            model.log_evidence(),
            gradients=self._gradients,
            rebuilt=model.rebuilt[self._rebuilt_before :],
            limits=ends,
            **more,
        )

    def _on_subset(self) -> Curvature:
        """Climb on the subset, moving the parameters of the model itself; what that teaches of the
        curvature of all duels."""
        model, settings = self._model, self._settings
        assert self._rows is not None
        part = self._in_memory(self._rows)
        objective = InMemory(part, list(model.trainable_variables))
        number = part.duels.num_duels
        leg = self._climb(0, objective, settings.max_iterations, number, SUBSET)
        objective.close()
        self._reached = replace(self._reached, per_duel=part.log_evidence() / number)
        # Curvature grows with the number of duels.
        share = number / model.duels.num_duels
        return Curvature(leg.curvature.steps, leg.curvature.changes / share)

    def _whole(self) -> InMemory | None:
        """Of all duels in memory; None where those who judge come there in another order, and have
        parameters of their own."""
        variables = list(self._model.trainable_variables)
        assert self._model.stream is not None
        whole = self._in_memory(np.arange(self._model.stream.num_rows))
        shared = {*map(id, variables)} == {*map(id, whole.trainable_variables)}
        return InMemory(whole, variables) if shared else None

    def _in_memory(self, rows: IntArray) -> PreferenceGP:
        """A model of some rows whose parameters are those of the model itself."""
        model = self._model
        assert model.stream is not None
        duels, engine = model.stream.select(rows), model.engine
        release_unused()
        alike = ParallelEP(engine.damping, engine.tolerance, engine.max_sweeps)
        return replace_answers(model, duels, engine=alike, shared=True)
