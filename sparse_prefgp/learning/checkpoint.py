"""Checkpoints: what a killed or interrupted run of an optimiser resumes from.

A resumed run is a warm start: parameters, inducing inputs among them, iterations done, what they
have shown of the curvature, and what is finished. Sites begin at zero. The model itself is not
kept, only fingerprints of it: to resume, build the model as before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.disk.checkpoint_folder import (
    CheckpointFolder,
    again,
    digest_of,
    of_something_else,
)
from sparse_prefgp.io.streams import StreamedDuels
from sparse_prefgp.learning.lbfgs import Curvature, LbfgsState
from sparse_prefgp.learning.objective import EvaluationCounts
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.streaming import StreamedGP
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.words import shortened

_PROBED_ROWS = 5
# A start that was itself computed (k-means, the fit before a refit) has its last digits by the
# order of sums, which the number of threads decides, and an optimiser spreads them; what somebody
# else would start from differs by far more. Of unconstrained parameters and standardised inputs,
# which are of order one: relative to 1 + |value|.
_SAME_START = 1e-6
# Relative to the largest value, at a start that may differ by so much: lengthscales and variances
# move the kernel by a few times their own relative change.
_SAME_KERNEL = 1e-5
_MEANINGS = {
    "duels": "other duels or items",
    "model": "another kernel, approximation, engine or choice of trainable parameters",
}
_OTHER_START = "other parameters or inducing inputs at the start"


@dataclass(frozen=True)
class Checkpoint:
    """Where `optimise` keeps what a later call can resume from, and how often.

    :raises ValueError: every that is not a whole number of at least 1; no path.
    """

    path: str | os.PathLike[str]
    """A folder, made if need be."""
    every: int = 10
    """Iterations between two checkpoints, of which a killed run loses no more."""
    resume: bool = False
    """From the checkpoint that is there; without one, begin."""

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise ValueError(f"A checkpoint was asked for at {self.path!r}; give a folder's path.")
        if isinstance(self.every, bool) or not isinstance(self.every, int | np.integer):
            raise ValueError(
                f"A checkpoint every {shortened(self.every)} iterations makes no sense; give a "
                "whole number."
            )
        if self.every < 1:
            raise ValueError(
                f"A checkpoint every {self.every} iterations makes no sense; give at least 1."
            )

    @property
    def folder(self) -> Path:
        return Path(self.path)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run that left a checkpoint; the message says where and how to resume."""

    def __init__(self, path: Path, iteration: int) -> None:
        super().__init__(
            f"Interrupted after iteration {iteration}; what was reached is kept in {str(path)!r}, "
            "and the same call with resume=True in its Checkpoint resumes from there."
        )


@dataclass(frozen=True, eq=False)
class RunState:
    """What a run has reached; nothing in it is ever changed."""

    first: tuple[float, float] = (float("nan"), 0.0)
    """log evidence and log prior density at the first parameters, nats."""
    legs: tuple[LbfgsState, ...] = ()
    """What the run climbs one after the other, all but the last of them over: a climb for each
    start, or one on the subset and one on all duels after it.
    """
    rows: IntArray | None = None
    """Numbers of those drawn for the subset."""
    per_duel: float | None = None
    """log evidence of the subset at its end."""
    counts: EvaluationCounts = field(default_factory=EvaluationCounts)
    """What was spent."""

    @property
    def iterations(self) -> int:
        return sum(leg.iterations for leg in self.legs)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays by name, and numbers and words for JSON."""
        arrays = {} if self.rows is None else {"rows": self.rows}
        for number, leg in enumerate(self.legs):
            own = {"position": leg.position, "gradient": leg.gradient, **vars(leg.curvature)}
            own |= {"values": np.array(leg.values), "history": np.array(leg.history)}
            arrays |= {f"{name}_{number}": value for name, value in own.items()}
        words = {
            "first": self.first,
            "legs": [[leg.log_prior, leg.ended, leg.converged] for leg in self.legs],
            "per_duel": self.per_duel,
            "counts": asdict(self.counts),
        }
        return arrays, words

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], words: Mapping[str, Any]) -> RunState:
        """What `to_arrays` gave."""
        legs = []
        for number, (log_prior, ended, converged) in enumerate(words["legs"]):
            position, gradient, steps, changes, values, history = (
                arrays[f"{name}_{number}"]
                for name in ("position", "gradient", "steps", "changes", "values", "history")
            )
            curvature, before = Curvature(steps, changes), tuple(values.tolist())
            known = (position, before[-1], gradient, log_prior, curvature, before)
            legs.append(LbfgsState(*known, tuple(history.tolist()), ended, converged))
        evidence, prior = words["first"]
        counts = EvaluationCounts(**words["counts"])
        return cls((evidence, prior), tuple(legs), arrays.get("rows"), words["per_duel"], counts)


@dataclass(frozen=True, eq=False)
class RunIdentity:
    """What tells whether a run is the one that left a checkpoint."""

    fingerprints: Mapping[str, str]
    """Of duels, model and settings."""
    start: np.ndarray
    """All parameters, unconstrained, at the start."""
    probe: np.ndarray
    """The kernel there on a few rows."""
    meaning: str
    """What the settings are when they differ."""


def identify(
    model: PreferenceGP | StreamedGP, settings: dict[str, Any], meaning: str = "other settings"
) -> RunIdentity:
    """Fingerprints of data, model and settings, the starting parameters, a probe of the kernel.

    The kernel's class and its parameters do not say all it computes with (its `active_dims`, for
    example), so that its values on a few rows stand for the rest.

    :param model: with its duels.
    :param settings: what JSON can hold.
    :param meaning: what they are of when they differ, such as "another seed".
    """
    if isinstance(model, StreamedGP):
        assert model.stream is not None
        data = _summed_up(model.stream)
        # Inline features have no items, but their range.
        z = model.inducing_variable.Z.numpy()
        rows = np.concatenate([model.duels.items[:_PROBED_ROWS], z[:_PROBED_ROWS]])
        probe = kernel_matrix(model.kernel, as_float(rows)).numpy()
    else:
        graph = model.graph
        data = [graph.rows, graph.winners, graph.losers, graph.counts, graph.lower, graph.upper]
        if graph.groups is not None:
            data.append(graph.groups)
        if graph.noises is not None:  # a choice has the same sites as duels of its alternatives
            data += [graph.noises.draws, graph.noises.look]
        if model.duels.events.answer is not None:  # of which limits tell only the last level
            data.append(model.duels.events.answer.numbers)
        probe = kernel_matrix(model.problem().kernel, as_float(graph.rows[:_PROBED_ROWS])).numpy()
    parts = [model.kernel, *model.kernel.submodules]
    kinds = [type(part).__name__ for part in parts if isinstance(part, gpflow.kernels.Kernel)]
    parameters = [
        [path, list(p.shape), p.trainable, type(p.transform).__name__, _prior(p)]
        for path, p in sorted(gpflow.utilities.parameter_dict(model).items())
    ]
    described = [
        kinds,
        type(model.mean_function).__name__,
        repr(model.approximation),
        repr(model.engine),
        gpflow.default_float().__name__,
        parameters,
    ]
    fingerprints = {
        "duels": digest_of(data),
        "model": digest_of([json.dumps(described, default=str).encode()]),
        "settings": digest_of([json.dumps(settings, sort_keys=True).encode()]),
    }
    start = np.concatenate([np.ravel(v.numpy()).astype(float) for v in model.variables])
    return RunIdentity(fingerprints, start, probe, meaning)


def _summed_up(stream: StreamedDuels) -> list[np.ndarray]:
    """What stands for streamed duels: which rows, the checksums of all, and the features."""
    scan, transform = stream.scan, stream.transform
    data = [np.array([stream.start, stream.stop, *scan.starts]), np.array(scan.digests)]
    if stream.items is not None:
        data.append(stream.items.features)
    elif transform is not None:
        data += [np.array(transform.mean), np.array(transform.scale)]
    return data


def _prior(parameter: gpflow.Parameter) -> str | None:
    if parameter.prior is None:
        return None
    arguments = parameter.prior.parameters
    shown = {
        name: np.asarray(value).tolist() if hasattr(value, "dtype") else repr(value)
        for name, value in arguments.items()
        if name != "name"
    }
    # A class of its own may take the prior for the density of something else.
    kind = "" if type(parameter) is gpflow.Parameter else f" of {type(parameter).__name__}"
    return f"{type(parameter.prior).__name__} {shown} {parameter.prior_on}{kind}"


class CheckpointWriter:
    """The checkpoint of one run.

    :param checkpoint: where, how often, and whether to resume.
    :param identity: of the run.
    :ivar folder: where.
    :ivar found: what the run resumes from; None to begin.
    :raises ValueError: a place that cannot be written to, a checkpoint that is damaged, of another
        format or of another run.
    """

    def __init__(self, checkpoint: Checkpoint, identity: RunIdentity) -> None:
        self.folder = checkpoint.folder
        self.found: RunState | None = None
        self._every, self._identity = checkpoint.every, identity
        meanings = {**_MEANINGS, "settings": identity.meaning}
        self._store = CheckpointFolder(
            self.folder, identity.fingerprints, meanings, checkpoint.resume, "run"
        )
        if self._store.there is not None:
            there = self._checked(*self._store.there)
            self.found = there if checkpoint.resume else None
        self._latest = self.found

    def keep(self, latest: RunState, iteration: int | None = None) -> None:
        """What the run has reached, at hand for an interruption; on the disk where it is due.

        :param iteration: within the present leg; None at its beginning or end, which is due.
        """
        self._latest = latest
        if iteration is None or iteration % self._every == 0:
            self._write()

    def interrupted(self) -> Interrupted | None:
        """What Ctrl-C raises after what was reached has been kept; None if it could not be."""
        if self._latest is None or not self._write():
            return None
        return Interrupted(self.folder, self._latest.iterations)

    def past_limit(self, made: int, limit: int, what: str = "iterations") -> ValueError:
        """The sentence on a limit that is below what was done."""
        return ValueError(
            f"The run in {str(self.folder)!r} has made {made} {what} already, past the "
            f"limit of {limit}; give a limit of at least {made}, {again(self.folder)}."
        )

    def ended_at_limit(self, what: str, made: int, limit: int) -> ValueError:
        """The sentence on a part of the run, over now, that ended at another limit."""
        return ValueError(
            f"{what} of the run in {str(self.folder)!r} ended at its limit of {made} iterations "
            f"and is over, so that a limit of {limit} comes too late: give {made}, "
            f"{again(self.folder)}."
        )

    def _checked(self, arrays: dict[str, np.ndarray], words: dict[str, Any]) -> RunState:
        """What is there, if the run began where this one does."""
        identity = self._identity
        start, probe = arrays.pop("start"), arrays.pop("probe")
        if not _close(start, identity.start, _SAME_START * (1.0 + np.abs(identity.start))):
            raise of_something_else(self.folder, _OTHER_START)
        if not _close(probe, identity.probe, _SAME_KERNEL * np.max(np.abs(identity.probe))):
            raise of_something_else(self.folder, _MEANINGS["model"])
        return RunState.from_arrays(arrays, words)

    def _write(self) -> bool:
        assert self._latest is not None
        arrays, words = self._latest.to_arrays()
        arrays |= {"start": self._identity.start, "probe": self._identity.probe}
        return self._store.write(arrays, words)


def _close(one: np.ndarray, other: np.ndarray, within: Any) -> bool:
    return one.shape == other.shape and bool(np.all(np.abs(one - other) <= within))
