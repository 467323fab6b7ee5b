"""What a benchmark hands over, and how it takes time and memory."""

from __future__ import annotations

import ctypes
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


def peak_megabytes(function: Callable[[], Any]) -> float | None:
    """By how much a call raises resident memory at its peak; None where Linux does not tell.

    Memory that earlier calls freed is handed back first, or the call would hide in it.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # resets the high-water mark
        before = _status_megabytes("VmRSS")
        function()
        return max(_status_megabytes("VmHWM") - before, 0.0)
    except (OSError, AttributeError):
        return None


def _status_megabytes(key: str) -> float:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) / 1024
    raise OSError(f"no {key} in /proc/self/status")


def milliseconds(value: float) -> str:
    return f"{1e3 * value:.1f} ms"
