"""Folders that are written next to their place and then put there, so that nothing is left half
way.

A folder that is there already stays the same folder, with its permissions and whoever works in it:
new names are moved in first, then files that both have are replaced, each in one step, and what is
no longer wanted goes last.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_UNFINISHED = ".sparse-prefgp-unfinished"
_LOCK, _NEW_LOCK = "lock", "lock.new"
_MARK = "sparse-prefgp\n"
_SECONDS_TO_LOCK = 1.0


@contextmanager
def replaced_folder(
    folder: Path, check: Callable[[Path], None], keep: Collection[str] = ()
) -> Iterator[Path]:
    """A new folder to write into, whose files take the place of those in `folder` at the end.

    A folder that does not exist yet appears in one step. Where it exists, a process killed in the
    short time of moving leaves whole files, old or new ones.

    :param folder: made if need be; left as it was when anything goes wrong in the block.
    :param check: refuses contents that must not be replaced; called before and after the block.
    :param keep: names that stay where they are, unless there are new ones of them.
    :raises ValueError: what `check` raises, or a place that cannot be written.
    """
    check(folder)
    check_place(Path(os.path.realpath(folder)).parent, folder)
    target = Path(os.path.realpath(folder))
    # Nothing can be moved into a mount point from outside.
    place = target if os.path.ismount(target) else target.parent
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
            if target.exists():
                _merge(new, target, keep)
            else:
                os.rename(new, target)
            _flush_folder(target)
            _flush_folder(target.parent)
    finally:
        _remove(scratch)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, with folders that it needs; text is UTF-8."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # those of any new file, which mkstemp does not give
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def contents(folder: Path) -> set[str]:
    """Names in a folder, without what a killed process of ours left; empty if there is none."""
    if not folder.is_dir():
        return set()
    return {path.name for path in folder.iterdir() if not _is_unfinished(path)}


def check_place(place: Path, folder: Path) -> None:
    """Refuse a place, existing or not, in which nothing can be made; `folder` names it.

    :raises ValueError: the nearest part that exists is a file or cannot be written to.
    """
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    cannot = f"The output {str(folder)!r} cannot be made"
    if not place.is_dir():
        raise ValueError(f"{cannot}: {str(place)!r} is a file; give another place.")
    try:
        # Permissions alone do not tell: root may write where a file system lets nobody write.
        os.rmdir(tempfile.mkdtemp(prefix=".try.", suffix=_UNFINISHED, dir=place))
    except OSError as error:
        raise ValueError(
            f"{cannot}: {str(place)!r} is not writable ({error.strerror}); give another place."
        ) from None


def _merge(new: Path, target: Path, keep: Collection[str] = ()) -> None:
    """Make `target` hold what `new` holds, names that it lacks first."""
    wanted = sorted(path.name for path in new.iterdir())
    known = contents(target)
    for name in sorted(wanted, key=lambda name: name in known):
        if (new / name).is_dir() and (target / name).is_dir():
            _merge(new / name, target / name)
        else:
            os.replace(new / name, target / name)
    for name in known - set(wanted) - set(keep):
        path = target / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    _flush_folder(target)


def _flush(folder: Path) -> None:
    """Ask the system to bring files to the disk before they are moved."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """The same for the names in a folder, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, which ends with the process however that ends; nothing where there are none."""
    # In one step: a lock without its mark would be nobody's.
    mark = path.with_name(_NEW_LOCK)
    mark.write_text(_MARK, encoding="utf-8")
    os.replace(mark, path)
    if fcntl is None:
        yield
        return
    with path.open("r+") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _is_unfinished(path: Path) -> bool:
    """Whether this is a folder in which a process of ours writes or wrote."""
    if not (path.name.startswith(".") and path.name.endswith(_UNFINISHED) and path.is_dir()):
        return False
    if path.is_symlink():
        return False
    try:
        return (path / _LOCK).read_text(encoding="utf-8") == _MARK
    except (OSError, ValueError):
        return False


def _remove_unfinished(place: Path, name: str) -> None:
    """Remove what killed processes left of earlier attempts at the same folder."""
    if fcntl is None:
        return
    for left in place.glob(f".{glob.escape(name)}.*{_UNFINISHED}"):
        if not _is_unfinished(left):
            # Killed before the lock was there, or after it was gone: nothing else is left.
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > _SECONDS_TO_LOCK:
                    if {path.name for path in left.iterdir()} == {_NEW_LOCK}:
                        (left / _NEW_LOCK).unlink()
                    left.rmdir()
            continue
        try:
            with (left / _LOCK).open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # somebody is writing there
        _remove(left)


def _remove(scratch: Path) -> None:
    """Remove a folder of ours, its lock last, so that the rest of a killed removal is known."""
    with contextlib.suppress(OSError):
        for path in scratch.iterdir():
            if path.name != _LOCK:
                shutil.rmtree(path, ignore_errors=True)
        (scratch / _LOCK).unlink(missing_ok=True)
        scratch.rmdir()
