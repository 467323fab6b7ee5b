"""Checkpoints: the parameters from which a killed or interrupted run of an optimiser starts again.

They are kept with the steps that were done, what these brought and have shown of the curvature, and
what is finished. Sites are not: they begin at zero. The model itself is not kept, only fingerprints
of it: to resume, build the model as before.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import gpflow
import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.disk.kept_file import KeptFile, digest_of
from sparse_prefgp.learning.lbfgs import Curvature, LbfgsState
from sparse_prefgp.learning.objective import EvaluationCounts
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.streaming import StreamedGP
from sparse_prefgp.support.arrays import AnyArray
from sparse_prefgp.support.checks import check_kind, check_number
from sparse_prefgp.support.numpy_files import read_archive

# What stays as it is may itself have been computed (k-means, the fit before a refit), so that its
# last digits are by the order of sums, which the number of threads decides.
_SAME_VALUE = 1e-6
_MEANINGS = {
    "duels": "other duels or items",
    "model": "another kernel, approximation, engine or choice of trainable parameters",
    "settings": "another seed, number of starts or least gain",
}


@dataclass(frozen=True)
class Checkpoint:
    """Where `optimise` keeps what a later call can resume from, and how often.

    :raises ValueError: every that is not a whole number of at least 1; no path.
    """

    path: str | os.PathLike[str]
    """A file, made if need be with its folder."""
    every: int = 10
    """Iterations between two checkpoints, of which a killed run loses no more."""
    resume: bool = False
    """From the checkpoint that is there; without one, begin."""

    def __post_init__(self) -> None:
        check_kind("The path of the checkpoint", self.path, (str, os.PathLike), "that of a file")
        check_number("every", self.every, least=1, whole=True, hint=", iterations")


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
    per_duel: float | None = None
    """log evidence of the subset at its end."""
    counts: EvaluationCounts = field(default_factory=EvaluationCounts)
    """What was spent."""

    @property
    def iterations(self) -> int:
        return sum(leg.iterations for leg in self.legs)

    def to_arrays(self) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        """Arrays by name, and numbers and words for JSON."""
        arrays = {}
        for number, leg in enumerate(self.legs):
            arrays[f"position_{number}"] = leg.position
            arrays[f"steps_{number}"] = leg.curvature.steps
            arrays[f"changes_{number}"] = leg.curvature.changes
        legs = [
            [leg.log_prior, leg.values, leg.history, leg.ended, leg.converged] for leg in self.legs
        ]
        return arrays, {"first": self.first, "legs": legs, "counts": asdict(self.counts)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], words: Mapping[str, Any]) -> RunState:
        """What `to_arrays` gave; nothing is known of gradients and curvature."""
        legs = []
        for number, (log_prior, values, history, ended, converged) in enumerate(words["legs"]):
            place = arrays[f"position_{number}"]
            gradient = np.full(len(place), np.nan)
            curvature = Curvature(arrays[f"steps_{number}"], arrays[f"changes_{number}"])
            known = (place, values[-1], gradient, log_prior, curvature, tuple(values))
            legs.append(LbfgsState(*known, tuple(history), ended, converged))
        evidence, prior = words["first"]
        counts = EvaluationCounts(**words["counts"])
        return cls((evidence, prior), tuple(legs), counts=counts)


def identify(
    model: PreferenceGP | StreamedGP, settings: Mapping[str, Any]
) -> tuple[dict[str, str], AnyArray]:
    """Fingerprints of data, model and settings, and the values of all that is not learned.

    :param model: with its duels.
    :param settings: what JSON can hold.
    """
    if isinstance(model, StreamedGP):
        assert model.stream is not None
        data = _summed_up(model.stream)
    else:
        events = model.duels.events
        data = [model.graph.own, events.sides, events.offsets, model.graph.counts, *events.said()]
    kernels = [part for part in model.submodules if isinstance(part, gpflow.kernels.Kernel)]
    parameters = sorted(gpflow.utilities.parameter_dict(model).items())
    described = [
        [
            [type(kernel).__name__, getattr(kernel, "active_dims", 0), getattr(kernel, "slices", 0)]
            for kernel in kernels
        ],
        type(model.mean_function).__name__,
        repr(model.approximation),
        repr(model.engine),
        gpflow.default_float().__name__,
        [
            [path, list(p.shape), p.trainable, type(p.transform).__name__, _prior(p)]
            for path, p in parameters
        ],
    ]
    fixed = [np.ravel(p.numpy()).astype(float) for _, p in parameters if not p.trainable]
    fingerprints = {
        "duels": digest_of(data),
        "model": digest_of([json.dumps(described, default=str)]),
        "settings": digest_of([json.dumps(settings, sort_keys=True)]),
    }
    return fingerprints, np.concatenate([np.zeros(0), *fixed])


def _summed_up(duels: Duels) -> list[AnyArray]:
    """What stands for streamed duels: which rows, the checksums of all, and the features."""
    stream, transform = duels.batches, duels.transform
    rows, digests = [stream.start, stream.stop, *stream.scan.starts], stream.scan.digests
    data = [np.array(rows), np.array(digests)]
    if duels.has_items:
        data.append(duels.items)
    elif transform is not None:
        data += [np.array(transform.mean), np.array(transform.scale)]
    return data


def _prior(parameter: gpflow.Parameter) -> str | None:
    if parameter.prior is None:
        return None
    shown = {
        name: np.asarray(value).tolist() if hasattr(value, "dtype") else repr(value)
        for name, value in parameter.prior.parameters.items()
        if name != "name"
    }
    # A class of its own may take the prior for the density of something else.
    kinds = f"{type(parameter.prior).__name__} of {type(parameter).__name__}"
    return f"{kinds} {shown} {parameter.prior_on}"


class _Kept(NamedTuple):
    state: RunState
    fixed: AnyArray
    """Values of all parameters that are not learned."""


def _reached(content: bytes) -> tuple[dict[str, str], _Kept]:
    arrays = read_archive(content)
    words = json.loads(str(arrays["words"]))
    state = RunState.from_arrays(arrays, words)
    return dict(words["fingerprints"]), _Kept(state, arrays["fixed"])


class CheckpointWriter:
    """The checkpoint of one run.

    :param checkpoint: where, how often, and whether to resume.
    :param model: with its duels.
    :param settings: what JSON can hold, of all else that decides the run.
    :ivar found: what the run resumes from; None to begin.
    :raises ValueError: a place that cannot be written to, a checkpoint that is damaged, of another
        format or of another run.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        model: PreferenceGP | StreamedGP,
        settings: Mapping[str, Any],
    ) -> None:
        fingerprints, self._fixed = identify(model, settings)
        self.file = KeptFile(Path(checkpoint.path), fingerprints, _MEANINGS)
        self._every = checkpoint.every
        there = self.file.read(_reached, checkpoint.resume, "run")
        if there is not None:  # that of another run is refused and not lost
            off = np.abs(there.fixed - self._fixed)
            if not np.all(off <= _SAME_VALUE * (1.0 + np.abs(there.fixed))):
                raise self.file.of("other values of parameters that stay as they are")
        self._latest = self.found = there.state if there and checkpoint.resume else None

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
        return Interrupted(self.file.path, self._latest.iterations)

    def _write(self) -> bool:
        assert self._latest is not None
        arrays, words = self._latest.to_arrays()
        words["fingerprints"] = self.file.fingerprints
        buffer = io.BytesIO()
        np.savez(buffer, **arrays, fixed=self._fixed, words=np.array(json.dumps(words)))
        return self.file.write(buffer.getvalue())
