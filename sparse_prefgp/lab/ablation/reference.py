"""Exact EP on the training duels of a seed: what approximations are compared with."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.lab.ablation.configuration import FIXED, JOINT, Study
from sparse_prefgp.lab.ablation.fitting import (
    KernelValues,
    Predictions,
    compared_items,
    held_out,
    predictions,
    start_model,
)
from sparse_prefgp.lab.ablation.measures import Phases
from sparse_prefgp.lab.ablation.runs import (
    NONE,
    ReferenceKey,
    RunSettings,
    reference_of,
)
from sparse_prefgp.support.numpy_files import read_archive
from sparse_prefgp.workflow.failures import reason_of
from sparse_prefgp.workflow.holdout import Holdout

# Of the names of unconstrained values in a file.
_FREE = "free"


@dataclass(frozen=True)
class LearningRecord:
    """How a model was learned."""

    fit_seconds: float
    """From the training duels to converged sites."""
    iterations: int = 0
    evaluations: int = 0
    """Of evidence and gradient, which took `gradient_seconds` each without compilation; 0 where
    nothing was learned.
    """
    gradient_seconds: float = float("nan")
    sweeps: int = 0
    optimiser: str = ""
    """What it says of itself."""
    notes: tuple[str, ...] = ()
    """What is odd."""


@dataclass(frozen=True, eq=False)
class Reference:
    """An exact model, or one sentence why there is none."""

    key: ReferenceKey
    reason: str = ""
    hyperparameters: KernelValues | None = None
    """None without a model."""
    predictions: Predictions | None = None
    """None without a model."""
    log_evidence: float = float("nan")
    """None without a model."""
    converged: bool = False
    learning: LearningRecord | None = None
    """None without a model."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By phase."""

    def to_bytes(self) -> bytes:
        """For a file; `from_bytes` reads it."""
        assert self.hyperparameters and self.predictions and self.learning
        arrays = dict(self.predictions._asdict())
        arrays |= {
            f"{_FREE}{name}": np.asarray(v) for name, v in self.hyperparameters.kernel.items()
        }
        words = {
            "key": vars(self.key),
            "margin": self.hyperparameters.margin,
            "log_evidence": self.log_evidence,
            "converged": self.converged,
            "learning": vars(self.learning),
            "seconds": self.seconds,
        }
        buffer = io.BytesIO()
        np.savez(buffer, words=np.array(json.dumps(words)), **arrays)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Reference:
        """Read what `to_bytes` made.

        :raises ValueError: something else, or damaged.
        """
        try:
            arrays = read_archive(data)
            words = json.loads(str(arrays.pop("words")))
            if not all(name.startswith(_FREE) for name in arrays.keys() - Predictions._fields):
                raise KeyError("of a version that kept the values themselves")
            predicted = Predictions(*(arrays.pop(name) for name in Predictions._fields))
            notes = tuple(words["learning"].pop("notes"))
            return cls(
                ReferenceKey(**words["key"]),
                "",
                KernelValues(
                    {name.removeprefix(_FREE): value for name, value in arrays.items()},
                    words["margin"],
                ),
                predicted,
                words["log_evidence"],
                words["converged"],
                LearningRecord(**words["learning"], notes=notes),
                words["seconds"],
            )
        except (ValueError, KeyError, TypeError):
            raise ValueError("is damaged") from None


def make_reference(study: Study, key: ReferenceKey) -> Reference:
    """Fit the exact model, or say why not; only an interruption is raised.

    Nothing is learned where the key asks for the values under `at`.
    """
    clock = Phases()
    run = RunSettings(
        data=study.data.label,
        split=study.split.by,
        kernel=key.kernel,
        approximation="exact",
        engine="ep",
        inducing=None,
        inducing_inputs=NONE,
        hyperparameters=FIXED if key.at else JOINT,
        max_train=key.max_train,
        seed=key.seed,
    )
    try:
        with clock("data"):
            holdout, _ = held_out(study, run)
        _check_size(holdout, study.exact_limit)
        return replace(_fitted(study, run, holdout, clock), seconds=clock.seconds)
    except Exception as error:  # whatever it was, it is the reason
        return Reference(key, _one_line(error), seconds=clock.seconds)


def _fitted(study: Study, run: RunSettings, holdout: Holdout, clock: Phases) -> Reference:
    model, learning = learned(study, run, holdout, None, clock)
    with clock("predict"):
        found = predictions(model, holdout, compared_items(holdout, run.seed))
    value = model.log_evidence()
    if not (np.isfinite(value) and all(np.all(np.isfinite(part)) for part in found)):
        raise ValueError("A prediction or the evidence of the exact model is not a finite number.")
    return Reference(
        reference_of(study, run),
        hyperparameters=KernelValues.of(model),
        predictions=found,
        log_evidence=value,
        converged=model.infer().converged,
        learning=learning,
    )


def learned(
    study: Study,
    run: RunSettings,
    holdout: Holdout,
    given: KernelValues | None,
    clock: Phases,
) -> tuple[Any, LearningRecord]:
    """A model with everything learned that the run learns, and with converged sites.

    :param given: as for `start_model`.
    """
    from sparse_prefgp.learning.optimise import optimise

    with clock("start"):
        model = start_model(study, run, holdout, given)
    report = None
    if model.trainable_variables:
        with clock("fit"):
            # Evidences are compared, so that what is left to the optimum counts.
            report = optimise(model, study.iterations, least_gain=None)
    with clock("infer"):
        result = model.infer()
    seconds = sum(clock.seconds.get(name, 0.0) for name in ("start", "fit", "infer"))
    notes = [] if result.converged else [f"Inference {result}."]
    if result.jitter > 0.0:
        notes.append(f"{result.jitter:.1e} was added to a diagonal to factorise it.")
    if report is None:
        return model, LearningRecord(seconds, sweeps=model.total_sweeps(), notes=tuple(notes))
    notes += report.limits
    if report.failed_evaluations:
        notes.append(f"{report.failed_evaluations} failed evaluations were backed off from.")
    if report.unconverged_evaluations:
        notes.append(
            f"Inference had not converged in {report.unconverged_evaluations} evaluations."
        )
    # Nothing but the evaluations takes time worth the name.
    each = (report.seconds - report.compile_seconds) / max(report.evaluations, 1)
    return model, LearningRecord(
        fit_seconds=seconds,
        iterations=report.iterations,
        evaluations=report.evaluations,
        gradient_seconds=each,
        sweeps=report.sweeps,
        optimiser=str(report),
        notes=tuple(notes),
    )


def _check_size(holdout: Holdout, limit: int) -> None:
    items, pairs = len(holdout.train.distinct_rows()[0]), holdout.train.num_pairs
    if min(items, pairs) > limit:
        raise ValueError(
            f"{items:,} distinct training items and {pairs:,} distinct pairs are more than "
            f"exact_limit, {limit:,}."
        )


def _one_line(error: Exception) -> str:
    return " ".join(reason_of(error).split())


def read_reference(path: Path) -> Reference | None:
    """What was kept in a file, None where there is none.

    :raises ValueError: a damaged file.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return Reference.from_bytes(data)
    except ValueError:
        raise ValueError(
            f"The exact model in {str(path)!r} is damaged; remove that file, and it is made again."
        ) from None
