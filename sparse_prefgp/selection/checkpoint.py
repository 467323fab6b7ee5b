"""Checkpoints: what a killed or interrupted run of `optimise` goes on from.

It holds the optimiser's state and the sites, to the bit, and of the model only what tells whether
another one is the same; so whoever goes on builds the model as before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.checkpoint_folder import digest_of, of_something_else
from sparse_prefgp.checkpoint_folder import read as read_folder
from sparse_prefgp.checkpoint_folder import write as write_folder
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.models import PreferenceGP

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
    "settings": "another mode, seed or number of starts",
}
_OTHER_START = "other parameters or inducing inputs at the start"


@dataclass(frozen=True)
class Checkpoint:
    """Where `optimise` keeps what it needs to go on, and how often.

    path: a folder, made if need be. every: iterations between two checkpoints. resume: go on from
    the checkpoint that is there; without one, begin.

    Raises:
        ValueError: every below 1.
    """

    path: str | os.PathLike[str]
    every: int = 10
    resume: bool = False

    def __post_init__(self) -> None:
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
    probe: the kernel there on a few rows.
    """

    fingerprints: Mapping[str, str]
    start: np.ndarray
    probe: np.ndarray


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
    arrays, words = read_folder(folder, identity.fingerprints, _MEANINGS)
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


def identify(model: PreferenceGP, settings: dict[str, Any]) -> Identity:
    """Fingerprints of data, model and settings, the starting parameters, a probe of the kernel.

    The kernel's class and its parameters do not say all it computes with (its `active_dims`, for
    example), so that its values on a few rows stand for the rest.
    """
    graph = model.graph
    data = [graph.rows, graph.winners, graph.losers, graph.counts, graph.lower, graph.upper]
    if graph.groups is not None:
        data.append(graph.groups)
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
    probe = model.problem().kernel(as_float(graph.rows[:_PROBED_ROWS])).numpy()
    return Identity(fingerprints, start, probe)


def _prior(parameter: gpflow.Parameter) -> str | None:
    if parameter.prior is None:
        return None
    arguments = parameter.prior.parameters
    shown = {
        name: np.asarray(value).tolist() if hasattr(value, "dtype") else repr(value)
        for name, value in arguments.items()
        if name != "name"
    }
    return f"{type(parameter.prior).__name__} {shown} {parameter.prior_on}"
