"""Folders that are written whole or not at all, even when the process is killed half way."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_UNFINISHED = ".unfinished"
_LOCK = "lock"


@contextmanager
def replaced_folder(folder: Path, check: Callable[[Path], None]) -> Iterator[Path]:
    """A new folder to write into, which takes the place of `folder` when the block succeeds.

    Where the system can exchange two folders (Linux, macOS), that is one step: whoever looks sees
    the old folder or the new one. Elsewhere, and on a mount point, files are moved one by one,
    new names first and files that both have last.

    Args:
        folder: made if need be; left as it was when anything goes wrong.
        check: refuses contents that must not be replaced; called before and after the block.

    Raises:
        ValueError: what `check` raises, or a place that cannot be written.
    """
    check(folder)
    check_place(Path(os.path.realpath(folder)).parent, folder)
    target = Path(os.path.realpath(folder))
    # A mount point cannot be moved, and nothing can be renamed into it from outside.
    mounted = os.path.ismount(target)
    place = target if mounted else target.parent
    try:
        place.mkdir(parents=True, exist_ok=True)
        _remove_unfinished(place, target.name)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=_UNFINISHED, dir=place))
    except OSError as error:
        raise ValueError(
            f"The output folder {str(folder)!r} cannot be made ({error.strerror}); give another "
            "place."
        ) from None
    try:
        with _locked(scratch / _LOCK):
            new = scratch / "new"
            new.mkdir()  # with the permissions of any new folder, which mkdtemp does not give
            yield new
            check(folder)  # again: writing can take long enough for somebody to add a file
            _flush(new)
            _put_in_place(new, target, mounted)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def contents(folder: Path) -> set[str]:
    """Names in a folder, without what a killed process left there; empty if there is none."""
    if not folder.is_dir():
        return set()
    return {path.name for path in folder.iterdir() if path.suffix != _UNFINISHED}


def check_place(place: Path, folder: Path) -> None:
    """Refuse a place, existing or not, in which nothing can be made; `folder` names it.

    Raises:
        ValueError: the nearest part that exists is a file or cannot be written to.
    """
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    cannot = f"The output folder {str(folder)!r} cannot be made"
    if not place.is_dir():
        raise ValueError(f"{cannot}: {str(place)!r} is a file; give another place.")
    try:
        # Permissions alone do not tell: root may write where a file system lets nobody write.
        os.rmdir(tempfile.mkdtemp(prefix=".try.", suffix=_UNFINISHED, dir=place))
    except OSError as error:
        raise ValueError(
            f"{cannot}: {str(place)!r} is not writable ({error.strerror}); give another place."
        ) from None


def _put_in_place(new: Path, target: Path, mounted: bool) -> None:
    if not mounted:
        if not target.exists():
            os.rename(new, target)
            return
        if _exchange(new, target):
            return
    _merge(new, target)


def _exchange(first: Path, second: Path) -> bool:
    """Let two folders change places in one step; False where the system cannot."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            code = library.renamex_np(os.fsencode(first), os.fsencode(second), 2)
        else:
            here = -100  # paths are relative to the working directory
            code = library.renameat2(here, os.fsencode(first), here, os.fsencode(second), 2)
    except (OSError, AttributeError, TypeError):
        return False
    if code == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.EBUSY):
        return False
    raise OSError(number, os.strerror(number), str(second))


def _merge(new: Path, target: Path) -> None:
    """Make `target` hold what `new` holds, file by file, names that it lacks first."""
    target.mkdir(exist_ok=True)
    wanted = sorted(path.name for path in new.iterdir())
    known = contents(target)
    for name in sorted(wanted, key=lambda name: name in known):
        if (new / name).is_dir() and (target / name).is_dir():
            _merge(new / name, target / name)
        else:
            os.replace(new / name, target / name)
    for name in known - set(wanted):
        path = target / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _flush(folder: Path) -> None:
    """Ask the system to bring the files to the disk, so that a power cut loses none of them."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, which ends with the process however that ends; nothing where there are none."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _remove_unfinished(place: Path, name: str) -> None:
    """Remove what killed processes left of earlier attempts at the same folder."""
    try:
        import fcntl
    except ImportError:
        return
    for left in place.glob(f".{glob.escape(name)}.*{_UNFINISHED}"):
        try:
            with (left / _LOCK).open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # somebody is writing there, or it is not ours to judge
        shutil.rmtree(left, ignore_errors=True)
