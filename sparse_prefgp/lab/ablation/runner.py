"""All runs of a study, one after another in this process or on a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sparse_prefgp.disk.folders import held
from sparse_prefgp.lab.ablation.checksums import check_unchanged
from sparse_prefgp.lab.ablation.cluster import records_of
from sparse_prefgp.lab.ablation.configuration import Study
from sparse_prefgp.lab.ablation.execution import Record, execute
from sparse_prefgp.lab.ablation.named import check_named
from sparse_prefgp.lab.ablation.preflight import check_study
from sparse_prefgp.lab.ablation.records import StudyFolder
from sparse_prefgp.lab.ablation.reference import Reference, make_reference
from sparse_prefgp.lab.ablation.runs import (
    ReferenceKey,
    RunSettings,
    expand,
    reference_of,
)
from sparse_prefgp.lab.layout import FAILED

SECONDS_BETWEEN_TABLES = 10.0
TABLES_SHARE = 20.0  # times what the last one took, so that tables take 5 % of the time at most


@dataclass(frozen=True)
class StudyProgress:
    """Before the first run, and after each."""

    done: int
    """Of `total`, those of earlier calls and those that failed included."""
    total: int
    doing: str
    """What is next, on a cluster what came back last."""
    seconds: float
    """Since the start."""
    left: float | None
    """A guess from the runs of this call, None before one is done."""
    failed: int = 0
    """How many of those done."""


@dataclass(frozen=True)
class StudyResult:
    """What became of a study."""

    folder: Path
    runs: int
    """All of them."""
    new: int
    """How many were done now, the others earlier."""
    failed: tuple[tuple[str, str], ...]
    """Name and reason."""
    faults: int
    """How many of the failed ones the program is to blame for, not data, settings or the machine.
    """
    seconds: float
    """Of this call."""


def run_study(
    study: Study,
    out: str | Path,
    *,
    dask: str | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    callback: Callable[[StudyProgress], None] | None = None,
) -> StudyResult:
    """Do the runs of a study that are not done yet, and write the table of all.

    What would fail for every seed is refused before anything is written.

    A run that fails is a row with its reason. Each has its record as soon as it is done, so that a
    call that was killed is continued by the next; the table is written now and then too.

    :param study: what `read_study` gives.
    :param out: folder, new, empty or of the same study, which is continued.
    :param dask: None for this process; `local` for a cluster on this machine; the address of a
        running scheduler, such as `tcp://10.0.0.1:8786`.
    :param workers: processes of the local cluster; by default one per core.
    :param retry_failed: do those again that failed.
    :param callback: called before the first run and after each.
    :raises ValueError: a folder that belongs to something else, or to which another call is
        writing, an unknown data set, what `check_study` refuses, data that change while the study
        runs, a scheduler that does not answer or has no workers, `workers` without a local cluster.
    :raises ConnectionError: a data set that cannot be fetched.
    :raises KeyboardInterrupt: Ctrl-C; the message says what was kept, and where.
    """
    if workers is not None and dask != "local":
        raise ValueError(
            f"{workers} workers were asked for, which a local cluster has; add --dask, or leave "
            "their number out."
        )
    if workers is not None and workers < 1:
        raise ValueError(f"The number of workers is {workers}; give a whole number of at least 1.")
    if study.data.set is not None:
        check_named(study.data)
    with held(Path(out), "study"):
        return _Session(study, Path(out), retry_failed, callback).finish(dask, workers)


class _Session:
    """One call of `run_study`."""

    def __init__(
        self,
        study: Study,
        out: Path,
        retry_failed: bool,
        callback: Callable[[StudyProgress], None] | None,
    ) -> None:
        self._started = time.perf_counter()
        self._study, self._callback = study, callback
        self._runs = expand(study)
        self._folder = StudyFolder(out, study)
        self._records = self._folder.finished(self._runs)
        self._todo = [
            run
            for run in self._runs
            if run.name not in self._records
            or (retry_failed and self._records[run.name]["status"] == FAILED)
        ]
        self._earlier = len(self._runs) - len(self._todo)
        self._new = 0
        self._begun = self._started
        self._next_table = 0.0  # by the clock; the first comes with the first record

    def finish(self, dask: str | None, workers: int | None) -> StudyResult:
        try:
            if self._todo:
                check_study(self._study)
                self._do(dask, workers)
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(
                f"Interrupted after {self._earlier + self._new} of {len(self._runs)} runs; they "
                f"are kept in {str(self._folder.folder)!r}, and the same call resumes from there."
            ) from error
        finally:
            # Also of what was done before something went wrong.
            self._write_tables()
        failed = self._failed()
        return StudyResult(
            self._folder.folder,
            len(self._runs),
            self._new,
            tuple((record["name"], record["reason"]) for record in failed),
            sum(record.get("fault", False) for record in failed),
            time.perf_counter() - self._started,
        )

    def _do(self, dask: str | None, workers: int | None) -> None:
        if dask is None:
            self._tell(self._todo[0].name)
            records = self._here()
        else:
            self._tell("preparing the cluster")
            records = records_of(self._study, self._todo, self._folder, dask, workers)
        self._begun = time.perf_counter()
        for record in records:
            self._folder.keep(record)
            self._records[record["name"]] = record
            self._new += 1
            if time.perf_counter() >= self._next_table:
                self._write_tables()
            behind = dask is not None or self._new == len(self._todo)
            self._tell(record["name"] if behind else self._todo[self._new].name)

    def _write_tables(self) -> None:
        """So that a process that is killed leaves a table of what was done."""
        began = time.perf_counter()
        there = [self._records[run.name] for run in self._runs if run.name in self._records]
        if there:
            self._folder.write_tables(there)
        now = time.perf_counter()
        self._next_table = now + max(SECONDS_BETWEEN_TABLES, TABLES_SHARE * (now - began))

    def _failed(self) -> list[Record]:
        there = (self._records[run.name] for run in self._runs if run.name in self._records)
        return [record for record in there if record["status"] == FAILED]

    def _here(self) -> Iterator[Record]:
        """Those of this process, in order; runs with the same exact model follow one another."""
        self._folder.claim()
        last: Reference | None = None
        for run in self._todo:
            needed = needs_reference(self._study, run)
            key = reference_of(self._study, run)
            check_unchanged(self._study.data, self._folder.sums)
            if needed and (last is None or last.key != key):
                last = self._reference(key)
            yield execute(self._study, run, last if needed else None)

    def _reference(self, key: ReferenceKey) -> Reference:
        found = self._folder.reference(key)
        if found is None:
            found = make_reference(self._study, key)
            self._folder.keep_reference(found)
        return found

    def _tell(self, doing: str) -> None:
        if self._callback is None:
            return
        now = time.perf_counter()
        left = (
            (now - self._begun) / self._new * (len(self._todo) - self._new) if self._new else None
        )
        done = self._earlier + self._new
        seconds, failed = now - self._started, len(self._failed())
        self._callback(StudyProgress(done, len(self._runs), doing, seconds, left, failed))


def needs_reference(study: Study, run: RunSettings) -> bool:
    """Whether a run is compared with an exact model, or has its hyperparameters from one."""
    return study.exact_reference and not run.is_baseline
