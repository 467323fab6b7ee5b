"""Processor time of each test, written by `pytest --processor-times FILE`, and what it says.

A fixture that several tests share is counted by itself, not with the test that came first.
`python -m tests.processor_time FILE...` takes the median of several runs.
"""

from __future__ import annotations

import csv
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest

LIMIT = 2.0  # seconds, for tests that are not marked slow
FIXTURE = "fixture"
FIELDS = ("kind", "name", "seconds")

_began = pytest.StashKey[float]()
_shared: Counter[str] = Counter()  # by fixture, of the test and the phase of the moment


def processor_seconds() -> float:
    """Of this process, all its threads, and those of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Times(NamedTuple):
    """Seconds by name: of tests that are not slow, of slow ones, and of shared fixtures."""

    test: dict[str, float]
    slow: dict[str, float]
    fixture: dict[str, float]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processor-times", metavar="FILE", help="write each test's processor time")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--processor-times")
    if path and not hasattr(config, "workerinput"):  # the workers of xdist report to the first
        config.pluginmanager.register(Recorder(Path(path).resolve()))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _shared.clear()
    item.stash[_began] = processor_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
    if fixturedef.scope == "function":
        return (yield)
    name = f"{fixturedef.baseid or '.'}::{fixturedef.argname}"
    begun = Begun()
    # Of what is to be done in the end, the first that is added is the last that is done.
    fixturedef.addfinalizer(lambda: begun.ended(name))
    try:
        return (yield)
    finally:
        begun.ended(name)
        fixturedef.addfinalizer(begun.again)


class Begun:
    """The set-up or the end of a shared fixture, within which others may be set up or end."""

    def __init__(self) -> None:
        self.again()

    def again(self) -> None:
        self.at, self.within = processor_seconds(), sum(_shared.values())

    def ended(self, name: str) -> None:
        _shared[name] += processor_seconds() - self.at - (sum(_shared.values()) - self.within)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    now = processor_seconds()
    report.processor = {
        "seconds": now - item.stash[_began] - sum(_shared.values()),
        "shared": dict(_shared),
    }
    _shared.clear()
    item.stash[_began] = now
    return report


class Recorder:
    """Writes what the reports of all workers say, as they come."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("w", newline="", encoding="utf-8", buffering=1)
        self.rows = csv.writer(self.file)
        self.rows.writerow(FIELDS)

    def pytest_runtest_logreport(self, report: Any) -> None:
        kind = "slow" if "slow" in report.keywords else "test"
        self.rows.writerow((kind, report.nodeid, f"{report.processor['seconds']:.3f}"))
        for name, seconds in report.processor["shared"].items():
            self.rows.writerow((FIXTURE, name, f"{seconds:.3f}"))

    def pytest_unconfigure(self) -> None:
        self.file.close()


def medians(paths: Sequence[Path]) -> Times:
    """The median of each name over the runs that have it; a run has several rows of a name."""
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for path in paths:
        run: Counter[tuple[str, str]] = Counter()
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                run[row["kind"], row["name"]] += float(row["seconds"])
        for name, seconds in run.items():
            found[name].append(seconds)
    times = Times({}, {}, {})
    for (kind, name), runs in found.items():
        getattr(times, kind)[name] = median(runs)
    return times


def lines(times: Times) -> list[str]:
    """What is spent altogether and by file, and every test without the mark above the limit."""
    files: Counter[str] = Counter()
    for name, seconds in times.test.items():
        files[name.partition("::")[0]] += seconds

    def listed(values: dict[str, float]) -> list[str]:
        return [f"  {s:7.1f} s  {name}" for name, s in sorted(values.items(), key=lambda v: -v[1])]

    above = {name: seconds for name, seconds in times.test.items() if seconds > LIMIT}
    written = [
        f"Processor time: {sum(times.test.values()):.0f} s for {len(times.test)} tests, "
        f"{sum(times.slow.values()):.0f} s for {len(times.slow)} marked slow, "
        f"{sum(times.fixture.values()):.0f} s for the fixtures they share.",
        "The files that take most, without what is marked slow:",
        *listed(dict(files.most_common(10))),
        "The shared fixtures that take most:",
        *listed(dict(Counter(times.fixture).most_common(10))),
        f"Tests above {LIMIT:g} s that are not marked slow: {len(above) or 'none'}.",
        *listed(above),
    ]
    return written


if __name__ == "__main__":
    print("\n".join(lines(medians([Path(name) for name in sys.argv[1:]]))))
