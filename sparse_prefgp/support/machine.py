"""What this machine has for the process: memory, which is asked for first, and cores."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import sys
import warnings
from contextlib import suppress
from pathlib import Path

from threadpoolctl import threadpool_info, threadpool_limits

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_MEMINFO, _STATUS = Path("/proc/meminfo"), Path("/proc/self/status")
_CGROUP = Path("/sys/fs/cgroup")
# Limit, use and statistics of a container, in the second and the first version of control groups,
# and what of the use is files that were read, which the system takes back by itself.
_CONTAINERS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)
# Smaller arrays are not asked about.
ASKED_ABOVE = 256 << 20
MEMORY = "Memory did not suffice; fewer inducing inputs, or an approximation with some, need less."


class NotEnoughMemory(MemoryError, ValueError):
    """What was asked for takes more memory than is free."""


def release_unused() -> None:
    """Give back what is kept in reserve for more of the same: by Arrow, which holds the texts of
    tables, once they are read, and by the C library of Linux once arrays are gone: of 140,000
    battles 17 MB and 60 MB."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    if sys.platform == "linux":
        with suppress(AttributeError):  # a C library other than glibc
            ctypes.CDLL(None).malloc_trim(0)


def ask(needed: int, what: str, remedy: str) -> None:
    """Whether there is memory for something, before it is made.

    Where nothing tells what is free, a warning says how much it takes.

    :param needed: bytes; nothing is asked up to 256 MiB.
    :param what: takes them: a noun in the plural, at the beginning of a sentence.
    :param remedy: what to do instead, at the end of it.
    :raises NotEnoughMemory: more than is free.
    """
    if needed <= ASKED_ABOVE:
        return
    free, said = free_memory(), f"{what} take {needed / 2**30:.1f} GiB of memory"
    if free is None:
        warnings.warn(
            f"{said}, and nothing tells how much is free; {remedy} if that is too much.",
            stacklevel=3,
        )
    elif needed > free:
        raise NotEnoughMemory(f"{said}, where {free / 2**30:.1f} GiB are free; {remedy}.")


def short_of_memory(error: BaseException) -> str:
    """One sentence where an error is that memory did not suffice; empty for any other."""
    if isinstance(error, NotEnoughMemory):
        return str(error)
    tensorflow = sys.modules.get("tensorflow")
    kinds = (
        (MemoryError,)
        if tensorflow is None
        else (
            MemoryError,
            tensorflow.errors.ResourceExhaustedError,
        )
    )
    return MEMORY if isinstance(error, kinds) else ""


def free_memory() -> int | None:
    """Bytes that this process can still take without swapping, None where nothing tells.

    The least of what Linux calls available, what the limit of the container leaves, and what
    limits of the process (`ulimit -v`, `-d`) leave.
    """
    available = _kibibytes(_MEMINFO).get("MemAvailable")
    known = [available, *map(_left_in_container, _CONTAINERS), *_left_to_process()]
    return min((x for x in known if x is not None), default=None)


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


def _left_to_process() -> list[int]:
    """What the limits of address space and of data leave."""
    if resource is None:
        return []
    used, found = _kibibytes(_STATUS), []
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY and name in used:
            found.append(max(most - used[name], 0))
    return found


def _kibibytes(path: Path) -> dict[str, int]:
    """Lines `name: number kB` in bytes; none of what does not read so."""
    try:
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return {}
    return {x[0].rstrip(":"): 1024 * int(x[1]) for x in lines if len(x) == 3 and x[2] == "kB"}


def _left_in_container(names: tuple[str, str, str, str]) -> int | None:
    try:
        limit, used = ((_CGROUP / name).read_text().strip() for name in names[:2])
    except OSError:
        return None
    if limit == "max":
        return None
    try:
        told = dict(line.split() for line in (_CGROUP / names[2]).read_text().splitlines())
    except (OSError, ValueError):
        told = {}
    return max(int(limit) - int(used) + int(told.get(names[3], 0)), 0)


def limit_threads(number: int) -> None:
    """Let linear algebra, and TensorFlow if it has computed nothing yet, take so many."""
    import tensorflow as tf

    threadpool_limits(number)
    with suppress(RuntimeError):  # they cannot be changed any more once it has computed
        tf.config.threading.set_intra_op_parallelism_threads(number)
        tf.config.threading.set_inter_op_parallelism_threads(number)
