"""What a benchmark hands over, and how it takes time and memory."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.support.versions import versions


@dataclass(frozen=True)
class BenchmarkTable:
    """One table to print: title, column headings, rows of text, and remarks below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


class Line(NamedTuple):
    """Named points of one line."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class LogAxes:
    """Lines on log-log axes; without lines, an empty place."""

    x_label: str
    y_label: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Bars:
    """Named values on one axis."""

    label: str
    values: dict[str, float]


@dataclass(frozen=True)
class Report:
    """Result of one benchmark: tables for people, figures for programs, panels for a picture."""

    name: str
    tables: tuple[BenchmarkTable, ...]
    figures: dict[str, Any]
    machine: dict[str, Any] = field(default_factory=lambda: machine())
    panels: tuple[LogAxes | Bars, ...] = ()

    def as_markdown(self) -> str:
        """The tables with their remarks."""
        parts = []
        for table in self.tables:
            rows = [table.columns, ("---",) * len(table.columns), *table.rows]
            lines = ["| " + " | ".join(row) + " |" for row in rows]
            parts += [f"## {table.title}", "\n".join(lines), *table.notes]
        return "\n\n".join(parts) + "\n"

    def as_json(self) -> dict[str, Any]:
        """All but the panels, whose numbers are among the figures."""
        found = asdict(self)
        del found["panels"]
        return found


def machine() -> dict[str, Any]:
    """What the times depend on, besides the code."""
    return {"system": platform.platform(), "cores": os.cpu_count(), **versions()}


def median_seconds(function: Callable[[], Any], repeats: int = 5) -> float:
    """Median time of a call. The first call, which may trace and compile, is not counted."""
    function()
    return float(np.median([seconds(function) for _ in range(repeats)]))


def in_turns(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Times of each function, called in turns, so that what else the machine does meets all alike.

    A first call of each, which may trace and compile, is not counted.
    """
    for function in functions.values():
        function()
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            taken[name].append(seconds(function))
    return taken


def seconds(function: Callable[[], Any]) -> float:
    """Time of one call."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def milliseconds(value: float) -> str:
    return f"{1e3 * value:.1f} ms"
