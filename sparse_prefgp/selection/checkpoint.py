"""Checkpoints: what a killed or interrupted run of `optimise` goes on from.

A folder with `checkpoint.json` and `arrays.npz`, replaced whole. It holds the optimiser's state and
the sites, to the bit, and of the model only what tells whether another one is the same; so whoever
goes on builds the model as before.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.folders import check_place, replaced_folder
from sparse_prefgp.model_folder import (
    CHECKPOINT,
    CHECKPOINT_FORMAT,
    checkpoint_foreign_files,
)
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.versions import versions

FORMAT, FORMAT_VERSION = CHECKPOINT_FORMAT, 1
_DESCRIPTION, _ARRAYS = CHECKPOINT, "arrays-{}.npz"
_PROBED_ROWS = 5
# The kernel on the same rows by the same versions, perhaps on another processor.
_SAME_KERNEL = 1e-9
_PARTS = {
    "duels": "other duels or items",
    "model": "another kernel, approximation, engine or choice of trainable parameters",
    "start": "other parameters or inducing inputs at the start",
    "settings": "another mode, seed or number of starts",
}


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


def has_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a checkpoint, readable or not."""
    return (Path(path) / _DESCRIPTION).is_file()


def check_writable(folder: Path) -> None:
    """Refuse a place where no checkpoint can be kept, before a long run is made in vain.

    Raises:
        ValueError: a folder with other things in it, a file, or a place that is not writable.
    """
    _check_replaceable(folder)
    check_place(Path(os.path.realpath(folder)).parent, folder)


def write(
    folder: Path, identity: dict[str, Any], arrays: dict[str, np.ndarray], words: dict[str, Any]
) -> None:
    """Replace the checkpoint in a folder, in one step.

    Args:
        folder: made if need be.
        identity: what `identify` gave.
        arrays: numbers by name.
        words: what JSON can hold.

    Raises:
        ValueError: what `check_writable` raises.
    """
    probe = {"probe": identity["probe"]}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays, **probe)
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": versions(),
        "fingerprints": identity["fingerprints"],
        "arrays_sha256": digest,
        **words,
    }
    description["checksum"] = _signature(description)
    text = json.dumps(description, indent=1)
    with replaced_folder(folder, _check_replaceable) as new:
        # Named by their contents, so that a description never meets the arrays of another.
        (new / _ARRAYS.format(digest[:12])).write_bytes(data)
        (new / _DESCRIPTION).write_text(text + "\n", encoding="utf-8")


def read(folder: Path, identity: dict[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and words that `write` was given.

    Raises:
        ValueError: damaged, of another version, or of other data or settings than `identity`.
    """
    where = f"The checkpoint in {str(folder)!r}"
    again = f"or remove that folder to begin again (rm -r {shlex.quote(str(folder))})"
    try:
        description = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
        if description["format"] != FORMAT:
            raise ValueError
        digest = description["arrays_sha256"]
        if not isinstance(description["versions"], dict):
            raise ValueError
        data = (folder / _ARRAYS.format(digest[:12])).read_bytes()
        written, now = description["versions"], versions()
        version = description["format_version"]
        prints = description["fingerprints"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{where} is damaged; copy it again, {again}.") from None
    other = [name for name in now if written.get(name) != now[name]]
    if version != FORMAT_VERSION:
        raise ValueError(
            f"{where} has format {version}, but this version reads {FORMAT_VERSION}; use the "
            f"version of sparse_prefgp that wrote it, {again}."
        )
    if other:
        name = other[0]
        raise ValueError(
            f"{where} was written with {name} {written.get(name, 'absent')}, but this is "
            f"{now[name]}; install that version, {again}."
        )
    signed = description.get("checksum") == _signature(description)
    if not signed or hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{where} is damaged; copy it again, {again}.")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, zipfile.BadZipFile):
        raise ValueError(f"{where} is damaged; copy it again, {again}.") from None
    for part, meaning in _PARTS.items():
        if prints.get(part) != identity["fingerprints"][part]:
            raise ValueError(f"{where} is of {meaning}; give what it was made with, {again}.")
    probe, here = arrays.pop("probe"), identity["probe"]
    if probe.shape != here.shape or not np.allclose(probe, here, rtol=_SAME_KERNEL, atol=0.0):
        raise ValueError(f"{where} is of {_PARTS['model']}; give what it was made with, {again}.")
    return arrays, description


def identify(model: PreferenceGP, settings: dict[str, Any]) -> dict[str, Any]:
    """Fingerprints of data, model, starting parameters and settings, and a probe of the kernel.

    The kernel's class and its parameters do not say all it computes with (its `active_dims`, for
    example), so that its values on a few rows stand for the rest.
    """
    graph = model.graph
    data = (graph.rows, graph.winners, graph.losers, graph.counts, graph.lower, graph.upper)
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
    values = [v.numpy() for v in model.variables]
    probe = model.problem().kernel(as_float(graph.rows[:_PROBED_ROWS])).numpy()
    return {
        "fingerprints": {
            "duels": _digest(data),
            "model": _digest([json.dumps(described, default=str).encode()]),
            "start": _digest(values),
            "settings": _digest([json.dumps(settings, sort_keys=True).encode()]),
        },
        "probe": probe,
    }


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


def _signature(description: dict[str, Any]) -> str:
    """Of everything in a description but itself; not finite numbers are allowed."""
    plain = {key: value for key, value in description.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode("utf-8")).hexdigest()


def _digest(parts: Any) -> str:
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.kind}{part.shape}".encode())
            part = np.ascontiguousarray(part).tobytes()
        found.update(part if isinstance(part, bytes) else np.asarray(part).tobytes())
    return found.hexdigest()


def _check_replaceable(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The checkpoint {str(folder)!r} is a file; give a folder.")
    foreign = checkpoint_foreign_files(folder) if folder.exists() else []
    if foreign:
        raise ValueError(
            f"The folder {str(folder)!r} holds {foreign[0]!r}, which is no part of a checkpoint "
            "and would be lost; give a new or empty folder."
        )
