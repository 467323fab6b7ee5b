"""Calls that make no sense: whose fault an error is, and what generated ones end with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("pandas")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app
from sparse_prefgp.support.checks import whole_number
from sparse_prefgp.support.mistakes import is_mistake
from tests.malformed_calls import SAVED, World, calls, is_quick, make_world

FITTED = ("--model", str(SAVED / "fit" / "model"))


def test_a_hundred_of_them(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    make_world(tmp_path / "source")
    world = World(tmp_path / "source", tmp_path / "work")
    wrong = []
    for words in islice(filter(is_quick, calls(1000)), 100):
        code, problem = world.call(words)
        wrong += [(code, words, problem)] if problem else []
    assert not wrong


@pytest.mark.slow
def test_two_thousand_of_them() -> None:
    words = [sys.executable, "-m", "tests.malformed_calls", "--calls", "2000"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=SAVED.parents[2])
    assert done.returncode == 0, done.stdout


def of_numpy(*_: Any, **__: Any) -> Any:
    return np.ones(3) + np.ones(2)


def of_algebra(*_: Any, **__: Any) -> Any:
    return np.linalg.cholesky(-np.eye(2))


def of_tensorflow(*_: Any, **__: Any) -> Any:
    import tensorflow as tf

    return tf.linalg.cholesky(-tf.eye(2, dtype=tf.float64))


def of_python(*_: Any, **__: Any) -> Any:
    return int("many")


def of_ours(*_: Any, **__: Any) -> Any:
    return whole_number("number", "many", 0)


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("rank", *FITTED), "sparse_prefgp.analysis.ranking.rank"),
        (("evaluate", *FITTED, "--duels", "d.csv"), "sparse_prefgp.analysis.evaluation.evaluate"),
        (("fit", "--duels", "d.csv", "--out", "new"), "sparse_prefgp.io.read_duels"),
        (("select", "--duels", "d.csv"), "sparse_prefgp.io.read_duels"),
    ],
)
@pytest.mark.covering(every=4)
def test_an_error_of_somebody_else_is_a_fault(
    words: tuple[str, ...], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1 and a traceback, never a sentence on what the user did wrong."""
    monkeypatch.chdir(tmp_path)
    for raising in (of_numpy, of_algebra, of_tensorflow, of_python):
        monkeypatch.setattr(place, raising)
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 1 and not isinstance(result.exception, SystemExit)
        assert "Error:" not in result.stderr
    monkeypatch.setattr(place, of_ours)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert result.stderr == "Error: number is 'many'; give a whole number, at least 0.\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("raising", "ours"),
    [(of_numpy, False), (of_algebra, False), (of_python, False), (of_ours, True)],
)
def test_whose_error_it_is(raising: Callable[[], Any], ours: bool) -> None:
    """Also where it was caught and raised again on its way."""
    with pytest.raises(ValueError) as caught:
        try:
            raising()
        except ValueError as error:
            raise error
    assert is_mistake(caught.value) is ours
    with pytest.raises(KeyError) as other:
        {}["a"]
    assert not is_mistake(other.value)
