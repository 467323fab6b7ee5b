"""Folders and files that are written next to their place and then put there, by one process at a
time, so that nothing is left half way.

A folder that is there already stays the same folder, with its permissions and whoever works in it:
new names are moved in first, then files that both have are replaced, each in one step, and what is
no longer wanted goes last. A link stays a link: what it leads to is written.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked
    fcntl = None  # type: ignore[assignment]

_UNFINISHED, _LOCK = ".sparse-prefgp-unfinished", ".sparse-prefgp-lock"
_NEW, _TRY = "new", ".try."
# All that a folder of ours for a moment can hold; the last two are of versions up to 0.2.0.
_FOR_A_MOMENT = {_NEW, "lock", "lock.new"}
_MARK = "sparse-prefgp "
# Whoever writes one thing waits for another who does; whoever writes for hours is not waited for.
_PATIENCE, _BETWEEN_TRIES = 10.0, 0.05
_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())


@contextmanager
def held(path: Path, what: str = "program", seconds: float = 0.0) -> Iterator[None]:
    """Let nobody else write to a file or a folder, which may not be there yet.

    The lock is the system's, on a file next to the place: it ends with the process, however that
    ends. Within the block it can be taken again. Nothing is locked where the system cannot.

    :param what: is being done, in words for whoever is refused.
    :param seconds: to wait for somebody who writes.
    :raises ValueError: somebody else writes there, or nothing can be made there.
    """
    target = Path(os.path.realpath(path))
    if fcntl is None or target in _held.get():
        yield
        return
    place = _beside(target)
    if target.is_symlink():
        raise ValueError(f"The output {str(path)!r} is a link that leads to itself; remove it.")
    check_place(target if target.is_dir() else place, path)
    check_place(place, path)
    missing = [folder for folder in (place, *place.parents) if not folder.exists()]
    lock = place / f".{target.name}{_LOCK}"
    file, locked = _locked(lock, path, time.monotonic() + seconds)
    before = _held.set(_held.get() | {target} if locked else _held.get())
    try:
        if locked:
            with contextlib.suppress(OSError):  # a full disk: the lock holds without words
                os.truncate(lock, 0)
                # Not by `file`, which would try again when it is closed.
                os.write(file.fileno(), f"{_MARK}{what}".encode())
        yield
    finally:
        _held.reset(before)
        if locked:
            lock.unlink(missing_ok=True)
        file.close()
        for folder in missing:  # in which nothing came to be
            with contextlib.suppress(OSError):
                folder.rmdir()


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
    :raises ValueError: what `check` and `held` raise, or a place that cannot be written.
    """
    check(folder)
    target = Path(os.path.realpath(folder))
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(folder, seconds=_PATIENCE))
            new = stack.enter_context(beside(folder))
            new.mkdir()  # with the permissions of any new folder
        except OSError as error:
            raise ValueError(
                f"The output folder {str(folder)!r} cannot be made ({error.strerror}); give "
                "another place."
            ) from None
        yield new
        check(folder)  # again: writing can take long enough for somebody to add a file
        for path in new.rglob("*"):
            if path.is_file():
                _flush(path)
        if target.exists():
            _merge(new, target, keep)
        else:
            os.rename(new, target)
        _flush_folder(target)
        _flush_folder(target.parent)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, with folders that it needs; text is UTF-8.

    :raises ValueError: what `held` raises.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    with held(path, seconds=_PATIENCE), beside(path) as new:
        new.write_bytes(data)
        _flush(new)
        os.replace(new, target)
        _flush_folder(target.parent)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Where something may lie for the time of the block, on the disk of a file or folder.

    What killed processes left there of the same file or folder goes, if that is `held`.
    """
    target = Path(os.path.realpath(path))
    place = _beside(target)
    if target in _held.get():
        for left in place.glob(f".{glob.escape(target.name)}.*{_UNFINISHED}"):
            if _is_for_a_moment(left):
                shutil.rmtree(left, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=_UNFINISHED, dir=place))
    try:
        yield scratch / _NEW
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def contents(folder: Path) -> set[str]:
    """Names in a folder, without what a killed process of ours left; empty if there is none."""
    if not folder.is_dir():
        return set()
    return {path.name for path in folder.iterdir() if not _is_for_a_moment(path)}


def has_format(path: Path, name: str) -> bool:
    """Whether it is a file of JSON that says to be of a format of that name."""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["format"] == name)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def check_replaceable(folder: Path, foreign: Collection[str], what: str) -> None:
    """Refuse a file in place of a folder, and one with other things in it.

    :param foreign: what is in it and is no part of what is written there, and `what` that is.
    :raises ValueError: naming what would be lost.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The output {str(folder)!r} is a file; give a folder.")
    for name in foreign:
        raise ValueError(
            f"The folder {str(folder)!r} holds {name!r}, which is no part of {what} and would be "
            "lost; give a new or empty folder."
        )


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
        tempfile.mkdtemp(prefix=_TRY, suffix=_UNFINISHED, dir=place)
    except OSError as error:
        raise ValueError(
            f"{cannot}: {str(place)!r} is not writable ({error.strerror}); give another place."
        ) from None
    finally:
        # That of a killed process too; whoever else is trying it does not miss it.
        for tried in place.glob(f"{_TRY}*{_UNFINISHED}"):
            with contextlib.suppress(OSError):
                tried.rmdir()


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


def _flush(path: Path) -> None:
    """Ask the system to bring a file to the disk before it is moved."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    """The same for the names in a folder, where the system can."""
    with contextlib.suppress(OSError):
        _flush(folder)


def _beside(target: Path) -> Path:
    """The folder of what is there for a moment; nothing can be moved into a mount point from
    outside."""
    return target if os.path.ismount(target) else target.parent


def _locked(lock: Path, path: Path, until: float) -> tuple[TextIO, bool]:
    """A file that is open, and whether it is locked, which not every system can.

    :raises ValueError: somebody else has locked it.
    """
    while True:
        lock.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = open(lock, "a+", encoding="utf-8", errors="replace", opener=_no_link)
        except FileNotFoundError:
            continue  # whoever made the folder has just removed it
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(lock)):
                return file, True
        except BlockingIOError:
            if time.monotonic() >= until:
                file.seek(0)
                raise ValueError(
                    f"Another {file.read(100).removeprefix(_MARK) or 'program'} is writing to "
                    f"{str(path)!r}; wait until it has ended, or give another place."
                ) from None
            time.sleep(_BETWEEN_TRIES)
        except FileNotFoundError:
            pass  # whoever held it has just removed it
        except OSError:
            lock.unlink(missing_ok=True)
            return file, False
        file.close()


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _is_for_a_moment(path: Path) -> bool:
    """Whether it is a lock of ours, or a folder in which a process of ours writes or wrote."""
    if not path.name.startswith(".") or path.is_symlink():
        return False
    try:
        if path.name.endswith(_LOCK) and path.is_file():
            text = path.read_text(encoding="utf-8")
            return not text or text.startswith(_MARK)
        ours = path.name.endswith(_UNFINISHED)
        return ours and {inner.name for inner in path.iterdir()} <= _FOR_A_MOMENT
    except (OSError, ValueError):
        return False
