"""Dask: workers on this machine, or those of a scheduler."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from sparse_prefgp.support.extras import needed

# Where a process reads how many threads it is to take.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
LOCAL = "local"
SECONDS_TO_ANSWER = 10
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}


def local_cluster(distributed: Any, workers: int, threads: int, env: dict[str, str]) -> Any:
    """A `distributed.LocalCluster` of processes with one task at a time each.

    Ctrl-C is for the process that started them: it goes to all of a terminal, and workers would
    end with tracebacks of their own.

    :param threads: of linear algebra in each.
    :param env: more of their environment.
    """
    with _interrupts_blocked():
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            memory_limit=0,  # sites are in memory for good, which is not a leak
            env={**_QUIET, **dict.fromkeys(_THREADS, str(threads)), **env},
        )


def dask() -> Any:
    """`distributed`.

    :raises ModuleNotFoundError: it is not installed.
    """
    what = "Working on a scheduler"
    needed("dask", "dask", what, "scale")
    return needed("distributed", "distributed", what, "scale")


def connect(distributed: Any, address: str, **options: Any) -> Any:
    """A `distributed.Client` of a scheduler that runs already.

    :raises ConnectionError: none answers there.
    :raises ValueError: what is not an address.
    """
    try:
        return distributed.Client(address, timeout=SECONDS_TO_ANSWER, **options)
    except OSError as error:
        raise ConnectionError(
            f"There is no Dask scheduler at {address!r}; start one (dask scheduler) and its "
            f"workers (dask worker), or give the address it prints, or {LOCAL!r}."
        ) from error
    except ValueError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(
            f"{address!r} is not an address of a Dask scheduler ({reason}); give one such as "
            f"tcp://10.0.0.1:8786, or {LOCAL!r}."
        ) from None


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Ctrl-C waits until the end of the block; processes and threads begun in it never hear it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # It unblocks what is blocked when the first process makes it.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
