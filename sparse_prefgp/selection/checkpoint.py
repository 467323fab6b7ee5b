"""Checkpoints: what a killed or interrupted run of an optimiser goes on from.

It holds the optimiser's state to the bit, for duels in memory with the sites, and of the model only
what tells whether another one is the same; so whoever goes on builds the model as before.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import gpflow
import numpy as np

from sparse_prefgp.checkpoint_folder import (
    Attempts,
    again,
    check_writable,
    digest_of,
    has_checkpoint,
    of_something_else,
)
from sparse_prefgp.checkpoint_folder import read as read_folder
from sparse_prefgp.checkpoint_folder import write as write_folder
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.duels import shortened
from sparse_prefgp.io.streams import StreamedDuels
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.parts import StreamedGP

Packed = tuple[dict[str, np.ndarray], dict[str, Any]]
T = TypeVar("T")

_PROBED_ROWS = 5
# The kernel on the same rows by the same versions, perhaps on another processor.
_SAME_KERNEL = 1e-9
# A start that was itself computed (k-means, the fit before a refit) has its last digits by the
# order of sums, which the number of threads decides, and an optimiser spreads them; what somebody
# else would start from differs by far more. Of unconstrained parameters and standardised inputs,
# which are of order one: relative to 1 + |value|.
_SAME_START = 1e-6
# At a start that differs by so much, relative to the largest value: lengthscales and variances
# move it by a few times their own relative change.
_NEAR_KERNEL = 1e-5
_MEANINGS = {
    "duels": "other duels or items",
    "model": "another kernel, approximation, engine or choice of trainable parameters",
}
_OTHER_START = "other parameters or inducing inputs at the start"


@dataclass(frozen=True)
class Checkpoint:
    """Where `optimise` or `optimise_streamed` keeps what it needs to go on, and how often.

    path: a folder, made if need be. every: iterations between two checkpoints. resume: go on from
    the checkpoint that is there; without one, begin.

    Raises:
        ValueError: every that is no whole number of at least 1; no path.
    """

    path: str | os.PathLike[str]
    every: int = 10
    resume: bool = False

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
    """Ctrl-C during a run that left a checkpoint; the message says where and how to go on."""

    def __init__(self, path: Path, iteration: int) -> None:
        super().__init__(
            f"Interrupted after iteration {iteration}; what was reached is kept in {str(path)!r}, "
            "and the same call with resume=True in its Checkpoint goes on from there."
        )


@dataclass(frozen=True, eq=False)
class Identity:
    """What tells whether a run is the one that left a checkpoint.

    fingerprints: of duels, model and settings. start: all parameters, unconstrained, at the start.
    probe: the kernel there on a few rows. meaning: what the settings are when they differ.
    """

    fingerprints: Mapping[str, str]
    start: np.ndarray
    probe: np.ndarray
    meaning: str


def write(
    folder: Path, identity: Identity, arrays: dict[str, np.ndarray], words: dict[str, Any]
) -> None:
    """Replace the checkpoint in a folder, in one step; see `checkpoint_folder.write`."""
    own = {"start": identity.start, "probe": identity.probe}
    write_folder(folder, identity.fingerprints, {**arrays, **own}, words)


def read(folder: Path, identity: Identity) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and words that `write` was given.

    Raises:
        ValueError: damaged, of another version, or of other data or settings than `identity`.
    """
    meanings = {**_MEANINGS, "settings": identity.meaning}
    arrays, words = read_folder(folder, identity.fingerprints, meanings)
    start, probe = arrays.pop("start"), arrays.pop("probe")
    here = identity.start
    allowed = _SAME_START * (1.0 + np.abs(here))
    if start.shape != here.shape or not np.all(np.abs(start - here) <= allowed):
        raise of_something_else(folder, _OTHER_START)
    if not _same_kernel(probe, identity.probe, exact_start=np.array_equal(start, here)):
        raise of_something_else(folder, _MEANINGS["model"])
    return arrays, words


def _same_kernel(probe: np.ndarray, here: np.ndarray, *, exact_start: bool) -> bool:
    if probe.shape != here.shape:
        return False
    if exact_start:
        return np.allclose(probe, here, rtol=_SAME_KERNEL, atol=0.0)
    return bool(np.max(np.abs(probe - here)) <= _NEAR_KERNEL * np.max(np.abs(here)))


def identify(
    model: PreferenceGP | StreamedGP, settings: dict[str, Any], meaning: str = "other settings"
) -> Identity:
    """Fingerprints of data, model and settings, the starting parameters, a probe of the kernel.

    The kernel's class and its parameters do not say all it computes with (its `active_dims`, for
    example), so that its values on a few rows stand for the rest.

    Args:
        model: with its duels.
        settings: what JSON can hold.
        meaning: what they are of when they differ, such as "another seed".
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
    return Identity(fingerprints, start, probe, meaning)


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


class Book(Generic[T]):
    """The checkpoint of one run: what was found in it, and what goes into it.

    Attributes:
        folder: where.
        found: what the run goes on from; None to begin.
        latest: what was given to `keep` last.

    Args:
        checkpoint: where, how often, and whether to go on.
        identity: of the run.
        pack: what a run has reached, as arrays and words; unpack: the reverse.

    Raises:
        ValueError: a place that cannot be written to, a checkpoint that is damaged, of another
            version or of another run.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        identity: Identity,
        pack: Callable[[T], Packed],
        unpack: Callable[[dict[str, np.ndarray], dict[str, Any]], T],
    ) -> None:
        self.folder = folder = checkpoint.folder
        self.found: T | None = None
        self.latest: T | None = None
        self._every = checkpoint.every
        self._identity = identity
        self._pack = pack
        self._attempts = Attempts()
        check_writable(folder)
        if not checkpoint.resume:
            if has_checkpoint(folder):
                read(folder, identity)  # that of another run is not lost
            return
        if has_checkpoint(folder):
            self.found = self.latest = unpack(*read(folder, identity))
        else:
            warnings.warn(
                f"There is no checkpoint in {str(folder)!r} to go on from; the run begins at the "
                "beginning.",
                stacklevel=4,
            )

    def due(self, iterations: int) -> bool:
        """Whether a checkpoint is to be written after so many iterations."""
        return iterations % self._every == 0

    def keep(self, latest: T, write: bool) -> None:
        """What the run has reached, on the disk or, for an interruption, at hand."""
        self.latest = latest
        if write:
            self._write()

    def close(self) -> None:
        """Keep how the run ended, so that what follows it can be repeated from there."""
        if self.latest is not None:
            self._write()

    def interrupted(self) -> bool:
        """Whether what was reached is kept now."""
        return self.latest is not None and self._write()

    def past_limit(self, made: int, limit: int, what: str = "iterations") -> ValueError:
        """The sentence on a limit that an uninterrupted run would have stopped at before."""
        return ValueError(
            f"The run in {str(self.folder)!r} has gone on for {made} {what} already, past the "
            f"limit of {limit}; give a limit of at least {made}, {again(self.folder)}."
        )

    def ended_at_limit(self, what: str, made: int, limit: int) -> ValueError:
        """The sentence on a part of the run, over now, that ended at another limit."""
        return ValueError(
            f"{what} of the run in {str(self.folder)!r} ended at its limit of {made} iterations, "
            f"and only its result was kept; a limit of {limit} would have ended it elsewhere: "
            f"give {made}, {again(self.folder)}."
        )

    def _write(self) -> bool:
        latest = self.latest
        assert latest is not None
        return self._attempts.succeed(
            lambda: write(self.folder, self._identity, *self._pack(latest))
        )
