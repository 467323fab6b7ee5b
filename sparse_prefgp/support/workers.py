"""Who works for this process: others of this machine, or those of a Dask scheduler."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from sparse_prefgp.support.extras import needed

# Where a process reads how many threads it is to take.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
LOCAL = "local"
SECONDS_TO_ANSWER = 10
SECONDS_FOR_A_WORKER = 60
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}


def local_cluster(distributed: Any, workers: int, threads: int) -> Any:
    """A `distributed.LocalCluster` of processes with one task at a time each.

    Ctrl-C is for the process that started them: it goes to all of a terminal, and workers would
    end with tracebacks of their own.

    :param threads: of linear algebra in each.
    """
    with _interrupts_blocked():
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            memory_limit=0,  # sites are in memory for good, which is not a leak
            env={**_QUIET, **dict.fromkeys(_THREADS, str(threads))},
        )


def dask() -> Any:
    """`distributed`.

    :raises ModuleNotFoundError: it is not installed.
    """
    what = "Working on a scheduler"
    needed("dask", "dask", what, "scale")
    return needed("distributed", "distributed", what, "scale")


def connect(distributed: Any, address: str, instead: str = "", **options: Any) -> Any:
    """A `distributed.Client` of a scheduler that runs already.

    :param instead: what else may be given, in the sentences of refusals.
    :raises ConnectionError: none answers there.
    :raises ValueError: what is not an address.
    """
    try:
        return distributed.Client(address, timeout=SECONDS_TO_ANSWER, **options)
    except OSError as error:
        raise ConnectionError(
            f"There is no Dask scheduler at {address!r}; start one (dask scheduler) and its "
            f"workers (dask worker), or give the address it prints{instead}."
        ) from error
    except ValueError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(
            f"{address!r} is not an address of a Dask scheduler ({reason}); give one such as "
            f"tcp://10.0.0.1:8786{instead}."
        ) from None


@contextmanager
def processes(workers: int) -> Iterator[Executor]:
    """A pool of so many, which end with this one, however that ends."""
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_follow_parent)
    try:
        yield pool
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _follow_parent() -> None:
    """Ctrl-C is for the process that started this one, and whoever kills that kills this too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def client_of(address: str) -> Iterator[Any]:
    """A client of a scheduler that runs already and has a worker.

    :raises ConnectionError: none answers there.
    :raises ValueError: what is not an address, or a scheduler without workers.
    """
    client = connect(dask(), address)
    try:
        client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
        yield client
    except TimeoutError:
        raise ValueError(
            f"The Dask scheduler at {address!r} has had no worker for {SECONDS_FOR_A_WORKER} "
            f"seconds; start some with dask worker {address}."
        ) from None
    finally:
        client.close()


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
