"""Parts on the workers of a Dask cluster, each reading its own files.

What crosses the network is `Task` and `Reply`. A part is bound to one worker, in whose memory its
sites are; where that worker is gone or does not answer in time, the part is rebuilt on another.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
import uuid
import weakref
import zlib
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from sparse_prefgp.approximations import SummedApproximation
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.items import Items
from sparse_prefgp.models.hyperparameters import Description
from sparse_prefgp.models.streaming.algebra import Algebra
from sparse_prefgp.models.streaming.part import Part, Replies, Reply, Seen, Task, algebra_for
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.machine import usable_cores
from sparse_prefgp.support.mistakes import is_mistake
from sparse_prefgp.support.pickled_calls import run_pickled
from sparse_prefgp.support.workers import LOCAL, connect, dask, local_cluster

_log = logging.getLogger(__name__)
# Seconds: between two looks at the workers, for the scheduler's answer, for a part to be made (it
# imports TensorFlow), for a worker to turn up, and the least that a part has for an answer.
_POLL, _SCHEDULER, _BUILD, _WORKER, _LEAST = 0.5, 15.0, 600.0, 60.0, 60.0
# How much longer than the slowest part of the last round a part may take.
_PATIENCE = 10.0
# Relative difference of sums of features up to which only rounding is the cause.
_SAME = 1e-9


# On the worker.


class _Items(NamedTuple):
    """What tells a table of items from another."""

    shape: tuple[int, ...]
    ids: int
    """Checksum of the ids."""
    sums: FloatArray
    """(2, D) of the features, weighted so that no two rows count alike, and of their sizes:
    machines may round the last digit of a feature differently.
    """

    @classmethod
    def of(cls, table: Items) -> _Items:
        features = table.features
        weights = np.cos(np.arange(len(features)))
        sums = np.stack([weights @ features, np.abs(weights) @ np.abs(features)])
        ids = zlib.crc32("\0".join(map(str, table.ids or ())).encode())
        return cls(features.shape, ids, sums)

    def equals(self, other: _Items) -> bool:
        if (self.shape, self.ids) != (other.shape, other.ids):
            return False
        gap = np.abs(self.sums[0] - other.sums[0])
        return bool(np.all(gap <= _SAME * np.maximum(self.sums[1], 1.0)))


class _Blueprint(NamedTuple):
    """What a worker needs to make the parts of a run."""

    streams: tuple[Duels, ...]
    """Of all parts."""
    description: Description
    approximation: SummedApproximation
    size: int | None
    """Duels in a chunk; None chooses by m."""
    items: _Items | None
    """By which a worker checks that it reads the same items."""
    threads: int | None
    """Threads of a worker; None leaves them as the worker was started."""


class _Run(NamedTuple):
    """A run in the memory of a worker."""

    streams: tuple[Duels, ...]
    algebra: Algebra
    parts: dict[int, tuple[int, Part]]
    """Those that are here, by their numbers, and in which making of each."""


_runs: dict[str, _Run] = {}
# Parts of a run share their compiled passes, so that one works at a time.
_lock = threading.RLock()


def _build(run: str, number: int, generation: int, packed: bytes) -> int:
    """Make a part here; returns the number of its duels.

    :param packed: `_Blueprint`, pickled: only here the items are read, not by the scheduler.
    """
    with _lock:
        if run not in _runs:
            blueprint: _Blueprint = pickle.loads(packed)
            streams, table = blueprint.streams, blueprint.streams[0].known
            if blueprint.items is not None and not blueprint.items.equals(_Items.of(table)):
                name = "the table" if table.origin is None else repr(table.origin[1][0])
                raise ValueError(
                    f"{name} holds other items there than where the run was started; give all "
                    "machines the same file."
                )
            if blueprint.threads is not None:
                # NumPy was there before the environment of the worker was.
                threadpool_limits(blueprint.threads, user_api="blas")
            parameters = blueprint.description.rebuilt()
            algebra = algebra_for(streams, parameters, blueprint.approximation, blueprint.size)
            _runs[run] = _Run(streams, algebra, {})
        held = _runs[run]
        part = Part(held.streams[number], held.algebra)
        for _ in part.duels.chunks(held.algebra.size):
            break  # a file that cannot be read here is refused before any work
        held.parts[number] = generation, part
        return part.duels.num_rows


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, or its mistake: the traceback of another process names no line."""
    try:
        return function(*arguments)
    except Exception as error:
        if is_mistake(error) or isinstance(error, OSError):
            return ValueError(str(error))
        raise


def _work(run: str, number: int, generation: int, task: Task) -> Reply | None:
    """Let a part work; None if it is not here, or not the one that is meant."""
    with _lock:
        parts = _runs[run].parts if run in _runs else {}
        made, part = parts.get(number, (0, None))
        return part.work(task) if part is not None and made == generation else None


def _forget(run: str) -> None:
    """Let go of the parts of a run."""
    with _lock:
        _runs.pop(run, None)


# On the side of the coordinator.


def _let_go(distributed: Any, client: Any, cluster: Any, run: str) -> None:
    """Close what belongs to a run; workers that stay need not keep what nobody asks for."""
    if cluster is None:
        with suppress(Exception):
            alive = client.sync(client.scheduler.ncores, callback_timeout=_SCHEDULER)
            for worker in alive:
                call = client.submit(
                    run_pickled, pickle.dumps((_forget, (run,))), workers=[worker], pure=False
                )
                distributed.fire_and_forget(call)
    for one in (client, cluster):
        with suppress(Exception):  # of which there may be none
            one.close(timeout=_SCHEDULER)


def _let_go_later(*arguments: Any) -> None:
    """The same in a thread of its own: garbage is collected in any, also in Dask's."""
    with suppress(RuntimeError):
        threading.Thread(target=_let_go, args=arguments, daemon=True).start()


class Cluster:
    """Parts on a Dask cluster, as a `Pool`.

    :param scheduler: "local" for a cluster on this machine, else the address of a scheduler.
    :param timeout: seconds for an answer; None goes by the last round.
    :raises ValueError: a part that cannot be made, such as a file that a worker cannot read; duels
        that cannot be sent.
    :raises OSError: no scheduler at that address, or no worker.
    """

    def __init__(
        self,
        parts: Sequence[Duels],
        description: Description,
        approximation: SummedApproximation,
        size: int | None,
        scheduler: str,
        timeout: float | None,
    ) -> None:
        import cloudpickle

        distributed = dask()
        self._dask = distributed
        # What calls end with when the scheduler goes away, or the client after it.
        self._cut_off = (distributed.client.CancelledError, distributed.client.ClosedClientError)
        self.seen: Seen | None = None
        self.rows = tuple(part.num_rows for part in parts)
        self._timeout = timeout
        self._slowest = 0.0
        self._name = scheduler
        self._run = uuid.uuid4().hex
        # How often each item was compared is nobody's business there.
        scan = parts[0].batches.scan
        scan = replace(scan, totals=replace(scan.totals, comparisons=None))
        light = tuple(part.replacing(answers=replace(part.batches, scan=scan)) for part in parts)
        workers, threads = len(parts), None
        if scheduler == LOCAL:
            cores = usable_cores()
            workers = min(len(parts), cores)
            threads = cores // workers
            _log.debug("%s workers of %s threads for %s parts", workers, threads, len(parts))
        items = _Items.of(parts[0].known) if parts[0].has_items else None
        blueprint = _Blueprint(light, description, approximation, size, items, threads)
        self._packed: bytes = cloudpickle.dumps(blueprint)  # tells of duels that cannot be sent
        self._generation = [0] * len(parts)
        self._place: list[str] = [""] * len(parts)
        self._shunned: set[str] = set()
        self._cluster: Any = None
        self._client: Any = None
        self._let_go: weakref.finalize[..., Cluster] | None = None
        try:
            if threads is None:
                # That a scheduler goes away is reported here, in one sentence.
                logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
                hint = f", or {LOCAL!r}"
                self._client = connect(distributed, scheduler, hint, set_as_default=False)
            else:
                self._cluster = local_cluster(distributed, workers, threads)
                self._client = distributed.Client(self._cluster, set_as_default=False)
            # A model that is deleted without being closed.
            self._let_go = weakref.finalize(
                self, _let_go_later, distributed, self._client, self._cluster, self._run
            )
            self._let_go.atexit = False  # Dask closes what it has at exit
            self._make(range(len(parts)))
        except BaseException:
            self.close()
            raise

    def sites(self) -> list[FloatArray]:
        raise together.refused(scheduler=True, sites_here=True)

    def work(self, tasks: dict[int, Task]) -> Replies:
        patience = max(_LEAST, _PATIENCE * self._slowest)
        if self._timeout is not None:
            # Parts of one worker work one after the other.
            most = max(self._place.count(worker) for worker in set(self._place))
            patience = self._timeout * most
        if self._timeout is None and self._slowest == 0.0:
            patience = _BUILD  # the first work compiles
        started = time.perf_counter()
        calls = {
            k: self._submit(_work, self._place[k], self._run, k, self._generation[k], task)
            for k, task in tasks.items()
        }
        replies: Replies = {}
        # Where lost parts work again, the others have been counted.
        passed = sum(self.rows) - sum(self.rows[k] for k in tasks)
        with closing(self._collect(calls, patience)) as found:
            for k, reply, lost in found:
                replies[k] = lost or reply
                if not lost:
                    passed += self.rows[k]
                    if self.seen is not None:
                        self.seen(passed)
        self._slowest = time.perf_counter() - started
        return replies

    def rebuild(self, number: int) -> None:
        self._make([number])

    def close(self) -> None:
        if self._let_go is None or self._let_go.detach() is not None:
            _let_go(self._dask, self._client, self._cluster, self._run)
        self._client = self._cluster = None

    # Inside.

    def _make(self, numbers: Iterable[int]) -> None:
        """Rebuild parts, again elsewhere where a worker is lost meanwhile."""
        waiting = list(numbers)
        for _ in range(3):
            calls = {}
            for k in waiting:
                self._generation[k] += 1
                self._place[k] = self._choose()
                calls[k] = self._submit(
                    _build, self._place[k], self._run, k, self._generation[k], self._packed
                )
            waiting = []
            for k, rows, lost in self._collect(calls, _BUILD):
                if lost:
                    waiting.append(k)
                elif rows != self.rows[k]:
                    raise ValueError(
                        f"Part {k} has {rows} duels on the worker {self._place[k]} and "
                        f"{self.rows[k]} here; give all machines the same files."
                    )
            if not waiting:
                return
        raise ConnectionError(
            f"Part {waiting[0]} could not be made on any worker of {self._name!r}; check that they "
            "have memory enough and stay alive."
        )

    def _choose(self) -> str:
        """The worker with the fewest parts, if possible none that was lost before."""
        deadline = time.perf_counter() + _WORKER
        while True:
            alive = self._alive()
            good = alive - self._shunned or alive
            if good:
                return min(sorted(good), key=self._place.count)
            if time.perf_counter() > deadline:
                raise ConnectionError(
                    f"The scheduler at {self._name!r} has no worker; start some (dask worker), and "
                    "run again: nothing was fitted on fewer duels."
                )
            time.sleep(_POLL)

    def _alive(self) -> set[str]:
        """Addresses of the workers."""
        try:
            cores = self._client.sync(self._client.scheduler.ncores, callback_timeout=_SCHEDULER)
        except (OSError, RuntimeError, *self._cut_off) as error:
            raise self._gone() from error
        return set(cores)

    def _gone(self) -> ConnectionError:
        return ConnectionError(
            f"The scheduler at {self._name!r} does not answer any more; the run has stopped, and "
            "no model was made: start the scheduler and run again."
        )

    def _submit(self, function: Callable[..., Any], worker: str, *arguments: Any) -> Any:
        try:
            return self._client.submit(
                run_pickled,
                pickle.dumps((_called, (function, *arguments))),
                workers=[worker],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )
        except (OSError, RuntimeError, *self._cut_off) as error:
            raise self._gone() from error

    def _collect(self, calls: dict[int, Any], patience: float) -> Generator[tuple[int, Any, str]]:
        """Number, result and, for a call that is lost, why, as they come."""
        pending = dict(calls)
        try:
            yield from self._as_they_come(pending, patience)
        finally:
            for call in pending.values():  # nobody waits for these: none is to begin later
                with suppress(Exception):
                    call.release()

    def _as_they_come(
        self, pending: dict[int, Any], patience: float
    ) -> Generator[tuple[int, Any, str]]:
        deadline = time.perf_counter() + patience
        while pending:
            calls_left = list(pending.values())
            with suppress(TimeoutError, *self._cut_off), self._client.as_current():
                self._dask.wait(calls_left, timeout=_POLL, return_when="FIRST_COMPLETED")
            # Asked only where nothing has come, for it is one more message; or where calls were
            # taken back, as they all are when the scheduler goes away.
            answered = [call.status in ("finished", "error") for call in calls_left]
            alive = None if any(answered) else self._alive()
            for k, call in list(pending.items()):
                worker, lost, result = self._place[k], "", None
                if call.status == "finished":
                    try:
                        result = call.result(timeout=_SCHEDULER)
                        if result is None:
                            lost = f"the worker {worker} did not know it any more"
                    except Exception:  # gone between its answer and its being fetched
                        lost = f"the answer of the worker {worker} was lost"
                    if isinstance(result, ValueError):
                        raise ValueError(f"Part {k} failed on the worker {worker}: {result}")
                elif call.status == "error":
                    lost = self._failed(k, call)
                elif alive is not None and worker not in alive:
                    lost = f"the worker {worker} is gone"
                elif call.status in ("lost", "cancelled"):
                    lost = f"the call to the worker {worker} was lost"
                elif time.perf_counter() > deadline:
                    lost = f"the worker {worker} did not answer within {patience:g} s"
                else:
                    continue
                del pending[k]
                if lost:
                    self._shunned.add(worker)
                    with suppress(Exception):
                        call.cancel()
                yield k, result, lost

    def _failed(self, number: int, call: Any) -> str:
        """Why a call failed, where that is the worker's end and not the part's own fault."""
        try:
            error = call.exception(timeout=_SCHEDULER)
        except (OSError, *self._cut_off):
            return f"the answer of the worker {self._place[number]} was lost"
        if isinstance(error, self._dask.scheduler.KilledWorker):
            return f"the worker {self._place[number]} died"
        where = f"Part {number} failed on the worker {self._place[number]}"
        raise RuntimeError(f"{where}: {error!r}") from error
