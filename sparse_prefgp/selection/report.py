"""What `optimise` tells: after each iteration, of each start, and at the end."""

from __future__ import annotations

from dataclasses import dataclass

from sparse_prefgp.engines import InferenceResult


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

    def __str__(self) -> str:
        text = (
            f"log evidence {self.log_evidence_start:.3f} -> {self.log_evidence:.3f} nats in "
            f"{self.iterations} iterations ({self._spent()}, {self.seconds:.1f} s); {self.message}"
        )
        parts = [text, *self._about_the_starts(), *self._about_the_subset()]
        if self.resumed_at:
            parts.append(f"resumed from iteration {self.resumed_at}")
        if self.rebuilt:
            parts.append(
                f"{len(self.rebuilt)} times a part was lost and made anew: {self.rebuilt[0]}"
            )
        if self.failed_evaluations:
            parts.append(f"{self.failed_evaluations} failed evaluations were backed off from")
        if self.unconverged_evaluations:
            parts.append(
                f"inference had not converged in {self.unconverged_evaluations} evaluations"
            )
        if self.warm:
            parts.append(
                "inference had not converged from cold sites, and went on from those it had"
            )
        if not self.inference.converged:
            parts.append(f"the last inference: {self.inference}")
        text = "; ".join(parts)
        return " ".join([text if not self.limits else f"{text}.", *self.limits])

    def _spent(self) -> str:
        if self.gradients is None:
            return f"{self.evaluations} evaluations, {self.sweeps} sweeps"
        how = "exact gradients from chunks"
        if self.subset is not None:
            how = f"gradients from {self.subset:,} random rows"
        return f"{how}, {self.evaluations} evaluations of all duels"

    def _about_the_starts(self) -> list[str]:
        parts = []
        if len(self.starts) > 1:
            parts.append(f"the best of {len(self.starts)} starts is number {self.kept + 1}")
        failed = [str(i + 1) for i, s in enumerate(self.starts) if s.log_evidence is None]
        if failed:
            parts.append(f"not finite at the first parameters of start {', '.join(failed)}")
        return parts

    def _about_the_subset(self) -> list[str]:
        parts = []
        if self.polish:
            parts.append(f"{self.polish} exact iterations gained {self.polished:.3f} nats")
        if self.evidence_left is not None:
            left = f"{self.evidence_left:.3g} nats"
            if self.all_rows:
                parts.append(f"further iterations would gain about {left}")
            else:
                parts.append(f"the subset cost about {left} that are still to gain")
        return parts
