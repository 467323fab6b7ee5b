"""Ctrl-C in each command: exit code 130, one sentence, nothing half written."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("pandas")

from typer.testing import CliRunner

import sparse_prefgp.models.preference_gp  # noqa: F401  TensorFlow is not imported half twice
from sparse_prefgp.cli.app import app
from sparse_prefgp.disk.folders import write_file
from tests.killing import ROOT

FIT = ROOT / "tests" / "data" / "saved" / "fit"
PACKAGE = str(ROOT / "sparse_prefgp")
TABLES = f"--items {FIT}/items.csv --duels {FIT}/duels.csv"
MODEL = f"--model {FIT}/model"
STUDY = ROOT / "configs" / "smoke" / "inducing_points.yaml"
# What a shell begins in the background ignores Ctrl-C.
PROGRAM = """
import signal
from sparse_prefgp.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begun", flush=True)
main()
"""
# `{}` is what is written.
COMMANDS = {
    "fit": f"{TABLES} --out {{}} --max-iterations 3 --quiet",
    "leaderboard": f"{FIT}/duels.csv --out {{}} --max-iterations 3 --quiet",
    "select": f"{TABLES} --out {{}}.csv --kernels se --max-iterations 3",
    "update": f"{MODEL} --duels {FIT}/duels.csv --out {{}}",
    "rank": f"{MODEL} --out {{}}.csv",
    "predict": f"{MODEL} --pairs {FIT}/pairs.csv --out {{}}.csv",
    "evaluate": f"{MODEL} --duels {FIT}/duels.csv --out {{}}.json",
    "explain": f"{MODEL} --first i0 --second i1",
    "shares": f"{MODEL} --alternatives {FIT}/items.csv --out {{}}.csv",
    "worth": f"{MODEL} --unit size --out {{}}.csv",
    "trajectories": f"{MODEL} --out {{}}.csv",
    "meet": f"{MODEL} --duels {FIT}/duels.csv --out {{}}.csv",
    "suggest": f"{MODEL} --out {{}}.csv",
    "ablate": f"{STUDY} --out {{}}",
    "report": f"{FIT} --out {{}}",
    "datasets": "demo --out {}",
    "demo": "",
}


@contextmanager
def interrupted_at(number: int) -> Iterator[list[int]]:
    """Ctrl-C at the so manieth call of a function of the package.

    Not of a generator: Python loses what is raised where one is thrown away.
    """
    calls = [0]

    def counted(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        ours = event == "call" and code.co_filename.startswith(PACKAGE)
        if ours and not code.co_flags & inspect.CO_GENERATOR:
            calls[0] += 1
            if calls[0] == number:
                sys.setprofile(None)
                raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def test_every_command_is_here() -> None:
    # A page of ask ends by it, and says what was collected: test_ask.py.
    assert {*COMMANDS, "ask"} == {command.name for command in app.registered_commands}


@pytest.mark.parametrize("number", [5, 40, 400])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.covering(every=24)
def test_wherever_it_comes(command: str, number: int, tmp_path: Path) -> None:
    words = [command, *COMMANDS[command].format(tmp_path / "new").split()]
    with interrupted_at(number) as calls:
        result = CliRunner().invoke(app, words)
    if calls[0] < number:  # it had come to its end before
        return
    assert result.exit_code == 130, (result.output, result.exception)
    assert len(result.stderr.splitlines()) <= 1, result.stderr
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_in_the_last_moment_of_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replaced(*_: Any) -> None:
        raise KeyboardInterrupt

    (tmp_path / "old.csv").write_text("old")
    monkeypatch.setattr("os.replace", replaced)
    for name in ("old.csv", "new.csv"):
        with pytest.raises(KeyboardInterrupt):
            write_file(tmp_path / name, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["old.csv"]
    assert (tmp_path / "old.csv").read_text() == "old"


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.1, 1.0, 4.0, 7.0])
@pytest.mark.parametrize("command", ["fit", "select", "rank", "ablate", "demo"])
def test_from_a_terminal(command: str, seconds: float, tmp_path: Path) -> None:
    """A real process, from while it imports on; a fit may have written what is whole."""
    words = [command, *COMMANDS[command].format(tmp_path / "new").split()]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], cwd=ROOT, **pipes)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=600)[1]
    print(f"{command} after {seconds} s: {process.returncode}, {said.strip()}")
    # What TensorFlow says on its first use is none of ours.
    lines = [
        line for line in said.splitlines() if not line.startswith(("WARNING: All log", "I0000"))
    ]
    lines = [
        line for line in lines if "tensorflow/" not in line and "rebuild TensorFlow" not in line
    ]
    if process.returncode == -signal.SIGINT:  # all was done, and Python was ending
        assert not lines
    elif process.returncode != 0:
        assert process.returncode == 130, said
        assert len(lines) <= 1
    assert not [path for path in tmp_path.rglob(".*") if "sparse-prefgp" in path.name]
