"""What a run measures: metrics by name, time by phase, memory, and where it ran."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from sparse_prefgp.lab.layout import AGAINST_EXACT, COST, EVIDENCE, HELD_OUT, HIGHER, LOWER, NEITHER
from sparse_prefgp.support.machine import largest_resident

# Name -> unit, direction that is better, group; in the order of the table.
METRICS: dict[str, tuple[str, str, str]] = {
    "accuracy": ("share", HIGHER, HELD_OUT),
    "nlp_nats": ("nats", LOWER, HELD_OUT),
    "nlp_bits": ("bits", LOWER, HELD_OUT),
    "nlp_median_nats": ("nats", LOWER, HELD_OUT),
    "confident_errors": ("duels", LOWER, HELD_OUT),
    "brier": ("squared probability", LOWER, HELD_OUT),
    "calibration_error": ("probability", LOWER, HELD_OUT),
    "auc": ("share", HIGHER, HELD_OUT),
    "kendall_tau": ("correlation", HIGHER, HELD_OUT),
    "kl_from_exact": ("nats", LOWER, AGAINST_EXACT),
    "kl_to_exact": ("nats", LOWER, AGAINST_EXACT),
    "marginal_kl_from_exact": ("nats per item", LOWER, AGAINST_EXACT),
    "marginal_kl_to_exact": ("nats per item", LOWER, AGAINST_EXACT),
    "evidence_gap": ("nats", NEITHER, AGAINST_EXACT),
    "mean_rmse": ("utility", LOWER, AGAINST_EXACT),
    "mean_largest": ("utility", LOWER, AGAINST_EXACT),
    "sd_rmse": ("utility", LOWER, AGAINST_EXACT),
    "sd_largest": ("utility", LOWER, AGAINST_EXACT),
    "probability_rmse": ("probability", LOWER, AGAINST_EXACT),
    "probability_largest": ("probability", LOWER, AGAINST_EXACT),
    "log_evidence": ("nats", HIGHER, EVIDENCE),
    "log_evidence_per_duel": ("nats", HIGHER, EVIDENCE),
    "lower_bound": ("nats", HIGHER, EVIDENCE),
    "fit_seconds": ("s", LOWER, COST),
    "sweep_seconds": ("s", LOWER, COST),
    "gradient_seconds": ("s", LOWER, COST),
    "sweeps": ("sweeps", LOWER, COST),
    "iterations": ("iterations", NEITHER, COST),
    "peak_memory_bytes": ("bytes", LOWER, COST),
}


class Metric(NamedTuple):
    """A figure with what it is in, and which way is better."""

    name: str
    value: float
    unit: str
    direction: str
    group: str


def metrics_of(values: dict[str, float]) -> list[Metric]:
    """Figures by name, in the order of `METRICS`."""
    unknown = set(values) - set(METRICS)
    assert not unknown, unknown
    return [
        Metric(name, float(values[name]), *about)
        for name, about in METRICS.items()
        if name in values
    ]


class Phases:
    """Wall seconds by phase; `seconds` holds them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


class PeakMemory:
    """How far memory of this process grows above its start while the block runs, in bytes.

    `start` is what the process had at first, after memory that earlier work left free was given
    back; `largest` the most that it had; `growth` their difference. Where the system has /proc it
    is resident memory without mapped files such as libraries, looked at every 10 ms; elsewhere it
    is the largest resident set of the process since it began, as `how` says.

    What TensorFlow and the allocator keep for later is in `start` of what comes later: the first
    run of a process, and the first of its size, grow by more than those after them.
    """

    interval = 0.01

    def __init__(self) -> None:
        self._statm = Path("/proc/self/statm")
        self.sampled = self._statm.is_file()
        self.how = (
            "growth of the process's own resident memory above the start of the run, sampled every "
            "10 ms"
            if self.sampled
            else "growth of the largest resident set of the process, 0 where an earlier one was "
            "larger"
        )
        self.how += "; earlier runs in the process can make it smaller"
        give_back_memory()
        self.start = self.largest = self._now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def growth(self) -> int:
        """Of the largest above the start."""
        return self.largest - self.start

    def __enter__(self) -> PeakMemory:
        if self.sampled:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self.sampled:
            self._thread.join()
        self.largest = max(self.largest, self._now())

    def _watch(self) -> None:
        while not self._stop.wait(self.interval):
            self.largest = max(self.largest, self._now())

    def _now(self) -> int:
        if self.sampled:
            _, resident, shared, *_ = self._statm.read_text().split()
            return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
        return largest_resident()


def give_back_memory() -> None:
    """Collect garbage, and let the allocator return free pages to the system where it can.

    glibc keeps freed memory for later, up to what the largest work before had needed.
    """
    gc.collect()
    # The C library of this process; other ones have no such function.
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit of the checkout that the package runs from, with `-dirty` after it where files of
    the package differ; empty outside a checkout."""
    package = Path(__file__).resolve().parents[2]
    root = package.parent
    if not (root / "pyproject.toml").is_file():
        return ""
    try:
        head = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", package.name)
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("-dirty" if changed else "")


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=20, check=True
    )
    return done.stdout.strip()


@lru_cache(maxsize=1)
def hardware() -> dict[str, Any]:
    """What times and memory depend on besides the code."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": _memory(),
        "host": platform.node(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
