"""A file of what a run that takes long has reached, whole or not at all; light, without TensorFlow.

It carries fingerprints of what it belongs to, so that nothing else is resumed from it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sparse_prefgp.disk.folders import check_place, write_file

_T = TypeVar("_T")


class KeptFile:
    """A file that is replaced every so often.

    A write that fails brings one warning: hours of work are not thrown away because the disk is
    full.

    :param path: of a file that may not be there yet.
    :param fingerprints: by name, of what it belongs to.
    :param meanings: for each fingerprint what it is of when they differ, such as "other duels".
    :raises ValueError: a folder, or a place where nothing can be written.
    """

    def __init__(
        self, path: Path, fingerprints: Mapping[str, str], meanings: Mapping[str, str]
    ) -> None:
        self.path, self.fingerprints, self._meanings = path, dict(fingerprints), meanings
        self._told = False
        if path.is_dir():
            raise ValueError(f"The checkpoint {str(path)!r} is a folder; give a file in it.")
        check_place(Path(os.path.realpath(path)).parent, path)

    def read(
        self, reached: Callable[[bytes], tuple[Mapping[str, str], _T]], resume: bool, run: str
    ) -> _T | None:
        """What is there; None where there is no file, of which a warning tells if it was wanted.

        :param reached: makes of the content its fingerprints and what was reached.
        :param run: what it is, in words.
        :raises ValueError: a file that is damaged, or of something else.
        """
        if not self.path.exists():
            if resume:
                warnings.warn(
                    f"There is no checkpoint {str(self.path)!r} to resume from; the {run} begins "
                    "at the beginning.",
                    stacklevel=6,
                )
            return None
        try:
            fingerprints, state = reached(self.path.read_bytes())
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            raise ValueError(
                f"{str(self.path)!r} is no checkpoint of this version, or damaged; give another "
                f"file, {self.again}."
            ) from None
        for part, meaning in self._meanings.items():
            if fingerprints.get(part) != self.fingerprints[part]:
                raise self.of(meaning)
        return state

    def of(self, meaning: str) -> ValueError:
        """The sentence on a checkpoint that belongs to something else."""
        return ValueError(
            f"The checkpoint {str(self.path)!r} is of {meaning}; give what it was made with, "
            f"{self.again}."
        )

    @property
    def again(self) -> str:
        """How a sentence ends that could be mended by beginning again."""
        return f"or remove it to begin again (rm {shlex.quote(str(self.path))})"

    def write(self, content: bytes | str) -> bool:
        """Whether it could be written; called by what the run itself calls."""
        try:
            write_file(self.path, content)
        except (OSError, ValueError) as error:
            if not self._told:
                warnings.warn(f"No checkpoint could be written: {error}", stacklevel=5)
            self._told = True
            return False
        return True


def digest_of(parts: Iterable[Any]) -> str:
    """A fingerprint of arrays, bytes and texts."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.kind}{part.shape}".encode())
            part = np.ascontiguousarray(part).tobytes()
        digest.update(part if isinstance(part, bytes) else str(part).encode())
    return digest.hexdigest()
