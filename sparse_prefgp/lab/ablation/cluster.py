"""Runs on `dask.distributed`: workers return records, and only this process writes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from threadpoolctl import threadpool_limits

from sparse_prefgp.lab.ablation.checksums import check_unchanged
from sparse_prefgp.lab.ablation.configuration import Study
from sparse_prefgp.lab.ablation.execution import (
    Record,
    execute,
    failed_record,
    is_fault,
    one_sentence,
)
from sparse_prefgp.lab.ablation.records import StudyFolder
from sparse_prefgp.lab.ablation.reference import Reference, make_reference
from sparse_prefgp.lab.ablation.runs import ReferenceKey, RunSettings, reference_of
from sparse_prefgp.support.machine import usable_cores
from sparse_prefgp.support.quiet import held_back_stderr
from sparse_prefgp.support.workers import LOCAL, connect, dask, local_cluster

SECONDS_FOR_A_WORKER = 60
# How often a run is begun again when it was lost on the way.
RETRIES = 2
# TensorFlow would run several operations of a run side by side.
_ONE_OPERATION = {"TF_NUM_INTEROP_THREADS": "1"}


def records_of(
    study: Study,
    runs: Sequence[RunSettings],
    folder: StudyFolder,
    address: str,
    workers: int | None,
) -> Iterator[Record]:
    """The records of runs as they come back, in any order.

    Exact models are made by workers too, each once, and kept in the folder by this process.

    :raises ConnectionError: a scheduler that does not answer.
    :raises ValueError: one that has no workers or goes away; what is not an address.
    """
    from distributed import as_completed

    with _client(address, workers) as client:
        folder.claim()  # no earlier: without a cluster nothing is done in it
        references = _references(study, runs, folder, client)
        waiting: dict[Any, RunSettings | None] = {
            future: None for future in references.values() if not isinstance(future, Reference)
        }
        for run in runs:
            key = reference_of(study, run)
            needed = references.get(key) if not run.is_baseline else None
            future = client.submit(
                _run, study, run, needed, folder.sums, pure=False, retries=RETRIES
            )
            waiting[future] = run
        del references
        for future in as_completed(list(waiting)):
            done = waiting.pop(future)
            if client.status != "running" or future.status in ("cancelled", "lost"):
                raise ValueError(
                    f"The dask scheduler {address!r} went away; the runs that came back are kept, "
                    "and the same call resumes from there."
                )
            if done is not None:
                yield _record(study, done, future)
            elif future.status == "finished":
                folder.keep_reference(future.result())


def _references(
    study: Study, runs: Sequence[RunSettings], folder: StudyFolder, client: Any
) -> dict[ReferenceKey, Any]:
    """The exact models that the runs need: those that are there, and futures of the others."""
    if not study.exact_reference:
        return {}
    keys = dict.fromkeys(reference_of(study, run) for run in runs if not run.is_baseline)
    found: dict[ReferenceKey, Any] = {}
    for key in keys:
        kept = folder.reference(key)
        if kept is None:
            kept = client.submit(_exact, study, key, folder.sums, pure=False, retries=RETRIES)
        found[key] = kept
    return found


def _run(
    study: Study, run: RunSettings, reference: Reference | None, sums: dict[str, str]
) -> Record:
    _use_one_thread()
    check_unchanged(study.data, sums)
    return execute(study, run, reference)


def _exact(study: Study, key: ReferenceKey, sums: dict[str, str]) -> Reference:
    _use_one_thread()
    check_unchanged(study.data, sums)
    return make_reference(study, key)


def _use_one_thread() -> None:
    """On a worker that somebody else started; those of a local cluster were born with it."""
    import tensorflow as tf

    with held_back_stderr():
        import_module("sparse_prefgp.models.preference_gp")
    threadpool_limits(1)
    with suppress(RuntimeError):  # it has computed already, and then with one
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def _record(study: Study, run: RunSettings, future: Any) -> Record:
    error, fault = future.exception(), False
    if error is None:
        return dict(future.result())
    if type(error).__name__ == "KilledWorker":
        reason = (
            "Workers died while they were at it, more than once; they may need more memory, or the "
            "run fewer duels or inducing inputs."
        )
    else:
        reason = f"It did not come back from its worker: {one_sentence(error)}"
        fault = is_fault(error)
    return failed_record(study, run, reason, fault)


@contextmanager
def _client(address: str, workers: int | None) -> Iterator[Any]:
    """A client of a cluster of our own, or of a scheduler that runs already."""
    distributed = dask()
    if address == LOCAL:
        with (
            local_cluster(distributed, workers or usable_cores(), 1, _ONE_OPERATION) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    loud = logging.getLogger("distributed")
    level = loud.level
    loud.setLevel(logging.CRITICAL)  # a refused connection is reported by us, in one sentence
    try:
        client = connect(distributed, address)
        try:
            _wait_for_worker(client, address)
            yield client
        finally:
            client.close()
    finally:
        loud.setLevel(level)


def _wait_for_worker(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=SECONDS_FOR_A_WORKER)
    except TimeoutError:
        raise ValueError(
            f"The dask scheduler at {address!r} has had no worker for {SECONDS_FOR_A_WORKER} "
            f"seconds; start some with dask worker {address}."
        ) from None
