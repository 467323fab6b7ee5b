"""What a benchmark hands over, and how it takes time and memory."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Table:
    """One table to print: title, column headings, rows of text, and remarks below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """Result of one benchmark: tables for people, figures for programs."""

    name: str
    tables: tuple[Table, ...]
    figures: dict[str, Any]
    machine: dict[str, Any] = field(default_factory=lambda: machine())

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def machine() -> dict[str, Any]:
    """What the times depend on, besides the code."""
    packages = ("tensorflow", "gpflow", "numpy", "scipy")
    return {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def median_seconds(function: Callable[[], Any], repeats: int = 5) -> float:
    """Median time of a call. The first call, which may trace and compile, is not counted."""
    function()
    return float(np.median([seconds(function) for _ in range(repeats)]))


def seconds(function: Callable[[], Any]) -> float:
    """Time of one call."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def milliseconds(value: float) -> str:
    return f"{1e3 * value:.1f} ms"
