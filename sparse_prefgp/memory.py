"""How much memory there is to be had, and how much this process had."""

from __future__ import annotations

import platform
from pathlib import Path

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
    try:
        import resource
    except ImportError:  # Windows
        return 0
    unit = 1 if platform.system() == "Darwin" else 1024
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


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
