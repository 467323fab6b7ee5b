"""What `optimise` tells: after each iteration, of each start, and at the end."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sparse_prefgp.engines import InferenceResult
from sparse_prefgp.learning.notes import notes_of


@dataclass(frozen=True)
class Progress:
    """After each iteration: what a progress bar shows.

    log_evidence in nats, without log prior density, of what `of` says: "all duels", "chunks" (all
    of a stream) or the "subset"; per_duel: over those duels. gradient_norm: the largest component,
    in unconstrained units; sweeps so far, 0 for a stream; seconds since the start. start: number of
    the present start, of `starts`, from 1.
    """

    iteration: int
    max_iterations: int
    log_evidence: float
    gradient_norm: float
    sweeps: int
    seconds: float
    start: int = 1
    starts: int = 1
    of: str = "all duels"
    per_duel: float = float("nan")


@dataclass(frozen=True)
class StartReport:
    """What came of one start.

    log_evidence, log_prior: of its best parameters in nats, at a loose tolerance; None where the
    evidence was not finite at its first parameters. converged: at an optimum, or settled.
    message: why it stopped. limit_reached: whether only the limit of iterations ended it.
    """

    iterations: int
    log_evidence: float | None
    log_prior: float
    converged: bool
    message: str
    limit_reached: bool = False


@dataclass(frozen=True)
class OptimisationReport:
    """What `optimise` did.

    log_evidence_start, log_evidence: in nats, at the first and the last parameters, the last from
    a tight run of inference from cold sites; log_prior_start, log_prior: log prior density of the
    parameters at both, which is maximised too. evaluations: of the evidence of all duels with its
    gradient; failed_evaluations: not finite, backed off from. unconverged_evaluations: inference
    had not converged, though the value was finite. converged: at an optimum, or settled by
    `least_gain`; message: why the optimiser stopped. limits: a sentence for each end that the
    parameters have run to (`selection/limits.py`), such as a lengthscale at its lower limit.
    inference: of the last run, a `StreamedResult` for a stream. history: log evidence after each
    iteration, of what it is about. resumed_at: iterations that were read from a checkpoint, of all
    starts and of polish too; evaluations and seconds are those of all runs.

    For duels in memory: warm: inference went on from the sites of the optimiser, because from cold
    ones it had not converged. starts: what came of each; kept: the number, from 0, of the one whose
    parameters the model has, and whose iterations and history these are; evaluations, sweeps and
    seconds are those of all.

    For streamed duels: gradients: "chunks" or "subset", None in memory. subset: how many rows that
    was drawn from, None for chunks. iterations: on chunks or on the subset; polish: on all duels
    after the subset. subset_per_duel: evidence per duel of the subset at its own best parameters.
    evidence_left: what exact iterations are expected to gain beyond, in nats, by the gradient of
    all duels and the curvature learned on the subset; None for chunks. polished: what those that
    were made did gain. all_rows: the subset left none out, so that it cost nothing. rebuilt: parts
    that were lost on the way and made anew, in words.
    """

    iterations: int
    evaluations: int
    log_evidence_start: float
    log_evidence: float
    log_prior_start: float
    log_prior: float
    converged: bool
    message: str
    seconds: float
    inference: InferenceResult
    history: tuple[float, ...]
    failed_evaluations: int = 0
    unconverged_evaluations: int = 0
    sweeps: int = 0
    compile_seconds: float = 0.0
    starts: tuple[StartReport, ...] = ()
    kept: int = 0
    resumed_at: int = 0
    warm: bool = False
    limits: tuple[str, ...] = ()
    gradients: str | None = None
    subset: int | None = None
    subset_per_duel: float | None = None
    evidence_left: float | None = None
    polish: int = 0
    polished: float = 0.0
    all_rows: bool = False
    rebuilt: tuple[str, ...] = ()

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
            "limits": list(self.limits),
            "evaluations": self.evaluations,
            "failed_evaluations": self.failed_evaluations,
            "unconverged_evaluations": self.unconverged_evaluations,
        }
        if self.gradients is None:
            return found | {
                "sweeps": self.sweeps,
                "starts": [asdict(start) for start in self.starts],
                "kept_start": self.kept,
                "warm": self.warm,
            }
        more = {
            name: getattr(self, name)
            for name in ("gradients", "subset", "evidence_left", "all_rows", "polish", "polished")
        }
        return found | more | {"rebuilt": list(self.rebuilt)}

    def __str__(self) -> str:
        text = (
            f"log evidence {self.log_evidence_start:.3f} -> {self.log_evidence:.3f} nats in "
            f"{self.iterations} iterations ({self._spent()}, {self.seconds:.1f} s)"
        )
        if self.converged:
            text += f"; {self.message}"
        if len(self.starts) > 1:
            text += f"; the best of {len(self.starts)} starts is number {self.kept + 1}"
        notes = notes_of(self.figures())
        return " ".join([f"{text}." if notes else text, *notes])

    def _spent(self) -> str:
        if self.gradients is None:
            return f"{self.evaluations} evaluations, {self.sweeps} sweeps"
        how = "exact gradients from chunks"
        if self.subset is not None:
            how = f"gradients from {self.subset:,} random rows"
        return f"{how}, {self.evaluations} evaluations of all duels"


# The name that it had for duels in chunks.
StreamedReport = OptimisationReport
