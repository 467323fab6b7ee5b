"""What `optimise` tells: after each iteration, of each start, and at the end."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sparse_prefgp.engines import InferenceResult
from sparse_prefgp.learning.notes import how_of_gradients, notes_of


@dataclass(frozen=True)
class Progress:
    """After each iteration: what a progress bar shows."""

    iteration: int
    max_iterations: int
    log_evidence: float
    """In nats, without log prior density, of the duels that `of` names."""
    gradient_norm: float
    """The largest component, in unconstrained units."""
    sweeps: int
    """So far; 0 from chunks."""
    seconds: float
    """Since the start."""
    start: int = 1
    """Number of the present start, of `starts`, from 1."""
    starts: int = 1
    of: str = "all duels"
    """One of "all duels", and of a stream "chunks", "memory" (all of it as well) or "subset"."""
    per_duel: float = float("nan")
    """Log evidence per duel of these duels."""


@dataclass(frozen=True)
class StartReport:
    """What came of one start."""

    iterations: int
    log_evidence: float | None
    """At its best parameters in nats, at a loose tolerance; None where the evidence was not finite
    at its first parameters.
    """
    log_prior: float
    """Log prior density at its best parameters."""
    converged: bool
    """At an optimum, or settled."""
    message: str
    """Why the start ended."""
    limit_reached: bool = False
    """Whether only the limit of iterations ended it."""


@dataclass(frozen=True)
class OptimisationReport:
    """What `optimise` did."""

    iterations: int
    """On chunks, on the subset, or on all duels in memory."""
    evaluations: int
    """Evaluations of the evidence of all duels with its gradient."""
    log_evidence_start: float
    """In nats, at the first parameters."""
    log_evidence: float
    """In nats, at the last parameters, from a tight run of inference from cold sites."""
    log_prior_start: float
    """Log prior density at the first parameters, which is maximised too."""
    log_prior: float
    """Log prior density at the last parameters."""
    converged: bool
    """At an optimum, or settled by `least_gain`."""
    message: str
    """Why the optimiser stopped."""
    seconds: float
    inference: InferenceResult
    """Result of the last run, a `StreamedResult` for a stream."""
    history: tuple[float, ...]
    """Log evidence after each iteration."""
    failed_evaluations: int = 0
    """Evaluations that were not finite, which the search backed off from."""
    unconverged_evaluations: int = 0
    """Evaluations at which inference had not converged, though the value was finite."""
    sweeps: int = 0
    compile_seconds: float = 0.0
    starts: tuple[StartReport, ...] = ()
    """A report of each start."""
    kept: int = 0
    """The number, from 0, of the start whose parameters the model has, and whose iterations and
    history these are; evaluations, sweeps and seconds are those of all.
    """
    resumed_at: int = 0
    """Iterations that were read from a checkpoint, of all starts and of polish too; evaluations and
    seconds are those of all runs.
    """
    warm: bool = False
    """Inference resumed from the optimiser's sites, because from cold ones it had not converged."""
    limits: tuple[str, ...] = ()
    """A sentence for each end that the parameters have run to (`learning/limits.py`), such as a
    lengthscale at its lower limit.
    """
    own_lengthscales: str = ""
    """What came of a lengthscale for each column after one for all; empty where none was asked
    for."""
    restarted: str = ""
    """What is to be said of a start without a term next to which another one died; the last of
    `starts`.
    """
    gradients: str | None = None
    """Of streamed duels "chunks", "memory" (all of them were read into it) or "subset"; else None.
    """
    subset: int | None = None
    """How many rows the subset has that gradients are drawn from; None for chunks."""
    subset_per_duel: float | None = None
    """Evidence per duel of the subset at its own best parameters."""
    evidence_left: float | None = None
    """What exact iterations are expected to gain beyond, in nats, by the gradient of all duels and
    the curvature learned on the subset; None for chunks.
    """
    polish: int = 0
    """Iterations on all duels after the subset."""
    polished: float = 0.0
    """What the exact iterations that were made did gain, in nats."""
    all_rows: bool = False
    """Whether the subset left no row out, so that it cost nothing."""
    last_gain: float | None = None
    """What the last ten iterations together brought, in nats per duel; None of fewer."""
    rebuilt: tuple[str, ...] = ()
    """Parts that were lost on the way and rebuilt, in words."""

    def figures(self) -> dict[str, Any]:
        """What `metrics.json` says of it, ready for JSON; `notes_of` makes sentences of it."""
        inference = self.inference
        found = {
            "log_evidence": self.log_evidence,
            "converged": inference.converged,
            "inference": str(inference),
            "jitter": inference.jitter,
            "clipped": inference.clipped,
            "seconds": self.seconds,
            "iterations": self.iterations,
            "resumed_at": self.resumed_at,
            "optimiser_converged": self.converged,
            "optimiser_message": self.message,
            "last_gain": self.last_gain,
            "limits": list(self.limits),
            "restarted": self.restarted,
            "own_lengthscales": self.own_lengthscales,
            "evaluations": self.evaluations,
            "failed_evaluations": self.failed_evaluations,
            "unconverged_evaluations": self.unconverged_evaluations,
        }
        if self.gradients is None:
            return found | {
                "sweeps": self.sweeps,
                "inference_sweeps": inference.sweeps,
                "starts": [asdict(start) for start in self.starts],
                "kept_start": self.kept,
                "warm": self.warm,
            }
        more = {
            name: getattr(self, name)
            for name in ("gradients", "subset", "evidence_left", "all_rows", "polish", "polished")
        }
        return found | more | {"rebuilt": list(self.rebuilt)}

    def summary(self) -> str:
        """How it went, without what there is to know about it."""
        spent = f"{self.evaluations} evaluations, {self.sweeps} sweeps"
        if self.gradients is not None:
            how = how_of_gradients(self.gradients, self.subset)
            spent = f"{how}, {self.evaluations} evaluations of all duels"
        text = (
            f"log evidence {self.log_evidence_start:.3f} -> {self.log_evidence:.3f} nats in "
            f"{self.iterations} iterations ({spent}, {self.seconds:.1f} s)"
        )
        if self.converged:
            text += f"; {self.message}"
        if len(self.starts) > 1:
            text += f"; the best of {len(self.starts)} starts is number {self.kept + 1}"
        return text

    def __str__(self) -> str:
        text = self.summary()
        notes = notes_of(self.figures())
        return " ".join([f"{text}." if notes else text, *notes])
