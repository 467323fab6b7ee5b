"""What a checkpoint looks like on the disk; light, without TensorFlow.

`checkpoint.json`, signed, and `arrays-….npz`, named by its contents, so that a description never
meets the arrays of another; replaced whole. It carries fingerprints of what it belongs to.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shlex
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.disk.folders import check_place, check_replaceable, replaced_folder
from sparse_prefgp.disk.model_folder import (
    CHECKPOINT,
    CHECKPOINT_FORMAT,
    checkpoint_foreign_files,
)
from sparse_prefgp.support.numpy_files import read_archive
from sparse_prefgp.support.versions import versions

FORMAT, FORMAT_VERSION = CHECKPOINT_FORMAT, 3
_DESCRIPTION, _ARRAYS = CHECKPOINT, "arrays-{}.npz"


def has_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a checkpoint, readable or not."""
    return (Path(path) / _DESCRIPTION).is_file()


def check_writable(folder: Path) -> None:
    """Refuse a place where no checkpoint can be kept, before a long run is made in vain.

    :raises ValueError: a folder with other things in it, a file, or a place that is not writable.
    """
    _check_replaceable(folder)
    check_place(Path(os.path.realpath(folder)).parent, folder)


def write(
    folder: Path,
    fingerprints: Mapping[str, str],
    arrays: Mapping[str, np.ndarray],
    words: Mapping[str, Any],
) -> None:
    """Replace the checkpoint in a folder, in one step.

    :param folder: made if need be.
    :param fingerprints: by name, of what it belongs to.
    :param arrays: numbers by name.
    :param words: what JSON can hold.
    :raises ValueError: what `check_writable` raises.
    """
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    data = buffer.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": versions(),
        "fingerprints": dict(fingerprints),
        "arrays_sha256": digest,
        **words,
    }
    description["checksum"] = _signature(description)
    text = json.dumps(description, indent=1)
    with replaced_folder(folder, _check_replaceable) as new:
        (new / _ARRAYS.format(digest[:12])).write_bytes(data)
        (new / _DESCRIPTION).write_text(text + "\n", encoding="utf-8")


def read(
    folder: Path, fingerprints: Mapping[str, str], meanings: Mapping[str, str]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and words that `write` was given.

    :param folder: with a checkpoint.
    :param fingerprints: of what resumes from it.
    :param meanings: for each fingerprint what it is of when they differ, such as "other duels".
    :raises ValueError: damaged, of another version, or of something else.
    """
    where, remedy = _where(folder), again(folder)
    try:
        description = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
        if description["format"] != FORMAT:
            raise ValueError
        digest = description["arrays_sha256"]
        data = (folder / _ARRAYS.format(digest[:12])).read_bytes()
        version = description["format_version"]
        prints = description["fingerprints"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{where} is damaged; copy it again, {remedy}.") from None
    if version != FORMAT_VERSION:
        raise ValueError(
            f"{where} has format {version}, but this version reads {FORMAT_VERSION}; use the "
            f"version of sparse_prefgp that wrote it, {remedy}."
        )
    signed = description.get("checksum") == _signature(description)
    if not signed or hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{where} is damaged; copy it again, {remedy}.")
    try:
        arrays = read_archive(data)
    except ValueError:
        raise ValueError(f"{where} is damaged; copy it again, {remedy}.") from None
    for part, meaning in meanings.items():
        if prints.get(part) != fingerprints[part]:
            raise of_something_else(folder, meaning)
    return arrays, description


class CheckpointFolder:
    """The checkpoint of a run: what is there at its beginning, and what takes its place.

    A write that fails brings one warning: hours of work are not thrown away because the disk is
    full.

    :param folder: made if need be.
    :param fingerprints: as for `read`.
    :param meanings: as for `read`.
    :param resume: whether something should be there.
    :param what: is resumed, in the warning that nothing is there.
    :ivar there: arrays and words of the checkpoint, whether the run resumes from it or not, so that
        that of another run is refused and not lost; None if there is none.
    :raises ValueError: what `check_writable` and `read` raise.
    """

    def __init__(
        self,
        folder: Path,
        fingerprints: Mapping[str, str],
        meanings: Mapping[str, str],
        resume: bool,
        what: str,
    ) -> None:
        self.folder, self._fingerprints, self._told = folder, fingerprints, False
        check_writable(folder)
        self.there = read(folder, fingerprints, meanings) if has_checkpoint(folder) else None
        if resume and self.there is None:
            warnings.warn(
                f"There is no checkpoint in {str(folder)!r} to resume from; the {what} begins at "
                "the beginning.",
                stacklevel=6,
            )

    def write(self, arrays: Mapping[str, np.ndarray], words: Mapping[str, Any]) -> bool:
        """Whether it could be written; called by what the run itself calls."""
        try:
            write(self.folder, self._fingerprints, arrays, words)
        except (OSError, ValueError) as error:
            if not self._told:
                warnings.warn(f"No checkpoint could be written: {error}", stacklevel=5)
            self._told = True
            return False
        return True


def of_something_else(folder: Path, meaning: str) -> ValueError:
    """The sentence on a checkpoint that belongs to something else."""
    return ValueError(
        f"{_where(folder)} is of {meaning}; give what it was made with, {again(folder)}."
    )


def digest_of(parts: Iterable[Any]) -> str:
    """A fingerprint of arrays and bytes."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.kind}{part.shape}".encode())
            part = np.ascontiguousarray(part).tobytes()
        found.update(part if isinstance(part, bytes) else np.asarray(part).tobytes())
    return found.hexdigest()


def _where(folder: Path) -> str:
    return f"The checkpoint in {str(folder)!r}"


def again(folder: Path) -> str:
    """How a sentence ends that could be mended by beginning again."""
    return f"or remove that folder to begin again (rm -r {shlex.quote(str(folder))})"


def _signature(description: dict[str, Any]) -> str:
    """Of everything in a description but itself; not finite numbers are allowed."""
    plain = {key: value for key, value in description.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode("utf-8")).hexdigest()


def _check_replaceable(folder: Path) -> None:
    foreign = checkpoint_foreign_files(folder) if folder.exists() else []
    check_replaceable(folder, foreign, "a checkpoint")
