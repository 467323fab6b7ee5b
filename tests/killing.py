"""Commands that end themselves at a certain point, so that no test has to hit it in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sparse_prefgp.disk import folders

ROOT = Path(__file__).resolve().parents[1]

_PROGRAM = """
import os, signal, sys
from sparse_prefgp.disk.kept_file import KeptFile
write, left = KeptFile.write, int(sys.argv.pop(1))
whom, number = sys.argv.pop(1), int(sys.argv.pop(1))
def write_and_end(*args, **words):
    global left
    done, left = write(*args, **words), left - 1
    if left == 0:
        os.kill(0 if whom == "group" else os.getpid(), number)
    return done
KeptFile.write = write_and_end
# What a shell begins in the background ignores it, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
from sparse_prefgp.cli.app import app
app()
"""


def started(
    words: Sequence[str],
    writes: int = 0,
    number: signal.Signals = signal.SIGKILL,
    group: bool = False,
    **more: Any,
) -> subprocess.Popen[str]:
    """The command line in a process of its own.

    :param writes: after so many writes of a checkpoint it sends itself the signal; 0 for never.
    :param number: of the signal.
    :param group: whether all processes of its group get the signal, as from a terminal.
    :param more: for `subprocess.Popen`.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    whom = "group" if group else "itself"
    program = [sys.executable, "-c", _PROGRAM, str(writes), whom, str(int(number)), *words]
    options: dict[str, Any] = {"env": environment, "text": True, **more}
    return subprocess.Popen(program, **options)


def kill_after(writes: int, words: Sequence[str]) -> None:
    """Run a command until it has written so many checkpoints, and end it as kill -9 does."""
    with started(words, writes) as process:
        process.wait(timeout=600)
    assert process.returncode == -signal.SIGKILL


def run_whole(words: Sequence[str]) -> None:
    """Run a command to its end."""
    with started(words) as process:
        process.wait(timeout=600)
    assert process.returncode == 0


@contextmanager
def writing_elsewhere(path: Path, what: str) -> Iterator[None]:
    """Somebody else writes to a file or folder, who knows nothing of this block."""
    fcntl = pytest.importorskip("fcntl")
    lock = path.parent / f".{path.name}{folders._LOCK}"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{folders._MARK}{what}")
        file.flush()
        yield
