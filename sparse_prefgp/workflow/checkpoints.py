"""Checkpoints of a fit or a comparison: a folder with a file for each thing that takes long."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sparse_prefgp.disk.folders import contents
from sparse_prefgp.support.mistakes import is_mistake
from sparse_prefgp.workflow.folder import CANDIDATES, is_checkpoint

if TYPE_CHECKING:
    from sparse_prefgp.learning.checkpoint import Checkpoint


@dataclass
class Checkpoints:
    """What a killed command resumes from; it is removed when the command has succeeded."""

    folder: Path | None = None
    """Where, on the same disk as the output; None keeps nothing."""
    what: str = "fit"
    every: int = 1
    """Optimiser steps between two."""
    resume: bool = False
    """From those that are there."""
    overwrite: bool = False
    """Replace those that are there, of a command that nobody runs any more."""
    _begun: bool = False

    @property
    def there(self) -> bool:
        """Whether there is one."""
        return bool(self.folder and is_checkpoint(self.folder) and contents(self.folder))

    @property
    def resumes(self) -> bool:
        """Whether a command that was interrupted is resumed."""
        return self.resume and self.there

    def stage(self, name: str) -> Checkpoint | None:
        """That of one run of the optimiser."""
        from sparse_prefgp.learning.checkpoint import Checkpoint

        path, resume = self.file(name)
        return None if path is None else Checkpoint(path, self.every, resume)

    def file(self, name: str = CANDIDATES) -> tuple[Path | None, bool]:
        """A file, by default that in which a comparison keeps its fits, and whether to resume from
        it. Of what is replaced nothing stays; before that the command may still be refused."""
        if self.folder is None:
            return None, False
        if self.overwrite and not self.resume and not self._begun:
            self._remove()
        self._begun = True
        path = self.folder / name
        return path, self.resume and path.exists()

    @property
    def _kept(self) -> str:
        return (
            f"{self.what} so far is kept in {str(self.folder)!r}, and the same command with "
            "--resume begins there."
        )

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Success removes it; an interruption, or a failure such as a full disk, says where it is.

        A mistake passes unchanged: the same command would make it again.

        :raises ValueError: one was interrupted here and is neither resumed nor replaced, so that
            its work would be lost.
        """
        if self.there and not (self.resume or self.overwrite):
            raise ValueError(
                f"{str(self.folder)!r} is the checkpoint of a {self.what} that was interrupted; "
                "resume it with --resume, or begin again with --overwrite."
            )
        if self.resume and not self.there:
            warnings.warn(
                f"There is no checkpoint in {str(self.folder)!r} to resume from; the {self.what} "
                "begins at the beginning.",
                stacklevel=3,
            )
        try:
            yield
        except KeyboardInterrupt as error:
            if not self.there:
                raise
            raise KeyboardInterrupt(f"Stopped before the end; the {self._kept}") from error
        except Exception as error:
            if self.there and not is_mistake(error):
                warnings.warn(f"The {self._kept}", stacklevel=3)
            raise
        self._remove()

    def _remove(self) -> None:
        if self.folder is not None and is_checkpoint(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)
