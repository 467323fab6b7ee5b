"""What this machine has for the process: memory and cores."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

from threadpoolctl import threadpool_info

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def free_memory() -> int | None:
    """Bytes that this process can still take without swapping, None where nothing tells.

    What Linux calls available, or what the limit of the container leaves if that is less.
    """
    known = [x for x in (_available(), _left_in_container()) if x is not None]
    return min(known, default=None)


def largest_resident() -> int:
    """Bytes of the largest resident set of this process so far; 0 where the system does not say."""
    if resource is None:
        return 0
    unit = 1 if platform.system() == "Darwin" else 1024
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


def usable_cores() -> int:
    """Cores that this process may use, as it is bound and as its container is limited."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:  # macOS, Windows
        cores = os.cpu_count() or 1
    try:
        quota, period = (_CGROUP / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, math.ceil(int(quota) / int(period))))


def usable_threads() -> int:
    """Threads that linear algebra takes as it was set (OMP_NUM_THREADS, --threads), or cores."""
    limits = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(1, min([usable_cores(), *limits]))


def _available() -> int | None:
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def _left_in_container() -> int | None:
    try:
        limit, used = ((_CGROUP / f"memory.{x}").read_text().strip() for x in ("max", "current"))
    except OSError:
        return None
    return None if limit == "max" else max(int(limit) - int(used), 0)
