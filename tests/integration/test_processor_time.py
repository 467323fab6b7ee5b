"""The recorder of processor times: what is counted with which test, by a clock set by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processor_time import Times, lines, medians

ROOT = Path(__file__).resolve().parents[2]

# In place of the processor's clock, one that stands still unless a test moves it.
CLOCK = """
from tests import processor_time

class Clock:
    now = 0.0

    def __call__(self):
        return self.now

processor_time.processor_seconds = Clock()
"""

TESTS = """
import pytest
from tests import processor_time

def work(seconds):
    processor_time.processor_seconds.now += seconds

@pytest.fixture(scope="session")
def inner():
    work(100)
    yield
    work(400)

@pytest.fixture(scope="module")
def outer(inner):
    work(10)
    yield
    work(40)

@pytest.fixture
def own():
    work(2)
    yield
    work(3)

def test_first(outer, own):
    work(1)

@pytest.mark.slow
def test_second(outer):
    work(7)
"""


@pytest.mark.covering("0")
@pytest.mark.parametrize("workers", ["0", "1"])
def test_each_second_is_counted_once(workers: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CLOCK)
    (tmp_path / "test_made.py").write_text(TESTS)
    command = ["-m", "pytest", "-p", "tests.processor_time", "-n", workers]
    done = subprocess.run(
        [sys.executable, *command, "--rootdir", ".", "--processor-times", "times.csv"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert medians([tmp_path / "times.csv"]) == Times(
        test={"test_made.py::test_first": 6},
        slow={"test_made.py::test_second": 7},
        fixture={"test_made.py::outer": 50, "test_made.py::inner": 500},
    )


def test_medians_and_what_is_above_the_limit(tmp_path: Path) -> None:
    runs = [(1.9, 2.1, 50), (9, 2.3, 40), (1.5, 0.1, 30)]
    for number, (quick, late, slow) in enumerate(runs):
        rows = ["kind,name,seconds", f"test,a.py::quick,{quick}", f"test,a.py::late,{late}"]
        rows += [f"slow,a.py::slow,{slow}", f"fixture,.::model,{number}"]
        (tmp_path / f"{number}.csv").write_text("\n".join(rows))
    times = medians(sorted(tmp_path.iterdir()))
    assert times == Times(
        test={"a.py::quick": 1.9, "a.py::late": 2.1},
        slow={"a.py::slow": 40},
        fixture={".::model": 1},
    )
    first, *_, heading, above = lines(times)
    assert "4 s for 2 tests, 40 s for 1 marked slow, 1 s for the fixtures" in first
    assert heading == "Tests above 2 s that are not marked slow: 1."
    assert above.split() == ["2.1", "s", "a.py::late"]
    assert lines(Times({"a.py::quick": 1.9}, {}, {}))[-1].endswith("not marked slow: none.")
