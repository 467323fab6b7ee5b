"""All runs of a study: in this process, in several, or on Dask; only this one writes."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.fetching import sha256
from sparse_prefgp.disk.folders import check_place, check_replaceable, contents, held, write_file
from sparse_prefgp.lab.ablation.duels import parted, sources
from sparse_prefgp.lab.ablation.execution import DONE, FAILED, execute, failure, new_record
from sparse_prefgp.lab.ablation.fitting import Reference, make_reference, read_reference
from sparse_prefgp.lab.ablation.runs import RunSettings, expand, reference_of
from sparse_prefgp.lab.ablation.study import Study
from sparse_prefgp.lab.measures import MEASURES
from sparse_prefgp.support.machine import limit_threads
from sparse_prefgp.support.own_modules import OwnModules
from sparse_prefgp.support.plain import Record, plain
from sparse_prefgp.support.quiet import held_back_stderr
from sparse_prefgp.support.workers import client_of, processes

PROGRAM = "sparse-prefgp ablate"
STUDY, RUNS, REFERENCES, TABLE = "study.json", "runs", "references", "runs.parquet"
# How often Dask begins a run again whose worker was lost.
RETRIES = 2


class StudyProgress(NamedTuple):
    """Before the first run and exact model, and after each."""

    what: str
    """`runs`, or `exact models`, which runs are compared with."""
    done: int
    """Of `total`, runs of earlier calls and those that failed included."""
    total: int
    failed: int
    """Of the runs."""
    seconds: float
    """Since the start."""
    left: float | None
    """A guess from the runs of this call, None before one is done and while others wait."""


class StudyResult(NamedTuple):
    """What became of a study: all runs, how many were done now, and the records of failed ones."""

    folder: Path
    runs: int
    new: int
    failed: tuple[Record, ...]
    seconds: float
    """Of this call."""


def run_study(
    study: Study,
    out: str | Path,
    *,
    workers: int | None = None,
    dask: str | None = None,
    own: OwnModules | None = None,
    retry_failed: bool = False,
    callback: Callable[[StudyProgress], None] | None = None,
) -> StudyResult:
    """Do the runs of a study that are not done yet, and write the table of all.

    Each run has its record as soon as it is done, so that a call that was killed is continued by
    the next; one that fails is a record with its reason.

    :param out: a folder, new, empty or of the same study, which is continued.
    :param workers: processes to spread the runs over, one thread each; None for this one alone. A
        script that asks for some does so under `if __name__ == "__main__"`.
    :param dask: the address of a running scheduler, such as `tcp://10.0.0.1:8786`.
    :param own: modules that register what the study names; they are imported here and
        where runs are done, and a folder that has runs of others is refused.
    :param retry_failed: do those again that failed.
    :param callback: called before the first run and after each; so too of exact models.
    :raises ValueError: a folder that belongs to something else, or to which another call is
        writing; duels that cannot be parted; a scheduler without workers; data that change.
    :raises ConnectionError: a data set that cannot be fetched, a scheduler that does not answer.
    :raises ChildProcessError: a process was killed.
    :raises KeyboardInterrupt: Ctrl-C; the message says what was kept, and where.
    """
    folder, started, own = Path(out), perf_counter(), own or OwnModules()
    with held(folder, "study"):
        settings = study.model_dump(mode="json")
        modules = {name: sha256(path) for name, path in own.load().items()}
        files = sources(study.data)
        about = {"program": PROGRAM, "study": settings, "sources": files | modules}
        is_new = _check_folder(folder, about)
        runs, records = expand(study), read_records(folder)
        done = [one["run"] for one in records.values() if one["status"] == DONE or not retry_failed]
        todo = [run for run in runs if run.name not in done]
        numbers = {run.name: number for number, run in enumerate(runs)}
        new = 0

        def tell(models: tuple[int, int] | None = None) -> None:
            seconds = perf_counter() - started
            failed = sum(record["status"] == FAILED for record in records.values())
            left = seconds / new * (len(todo) - new) if new and models is None else None
            what = "runs" if models is None else "exact models"
            reached = models or (len(runs) - len(todo) + new, len(runs))
            if callback is not None:
                callback(StudyProgress(what, *reached, failed, seconds, left))

        try:
            if todo:
                # What no seed can do is refused before anything is written.
                first = parted(study.data, study.split, todo[0].max_train, todo[0].seed)
                study.check_features(first.table.standardised(first.split.train_rows).num_features)
                with _spreading(workers, dask, own) as spread:
                    if is_new:
                        write_file(folder / STUDY, json.dumps(about, indent=1) + "\n")
                    tell()
                    for record in _records(study, todo, folder, spread, files, tell):
                        record = plain(record | {"number": numbers[record["run"]]})
                        text = json.dumps(record, indent=1, allow_nan=False)
                        write_file(folder / RUNS / f"{record['run']}.json", text + "\n")
                        records[record["run"]] = record
                        new += 1
                        tell()
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(
                f"Interrupted after {len(runs) - len(todo) + new} of {len(runs)} runs; they are "
                f"kept in {str(folder)!r}, and the same call resumes from there."
            ) from error
        finally:
            if records:
                # One row a run: what it is, how it went, and its figures, by name.
                nested = ("metrics", "notes", "seconds", "versions", "traceback")
                rows = [
                    {name: value for name, value in record.items() if name not in nested}
                    | {name: record["metrics"].get(name) for name in MEASURES}
                    for record in sorted(records.values(), key=lambda record: record["number"])
                ]
                whole = dict.fromkeys(("inducing", "max_train"), "Int64")
                frame = require_pandas().DataFrame(rows).astype(whole)
                buffer = io.BytesIO()
                frame.astype(dict.fromkeys(MEASURES, float)).to_parquet(buffer, index=False)
                write_file(folder / TABLE, buffer.getvalue())
    failed = tuple(record for record in records.values() if record["status"] == FAILED)
    return StudyResult(folder, len(runs), new, failed, perf_counter() - started)


def read_records(folder: Path) -> dict[str, Record]:
    """The records of the runs of a folder, in the order of the study, by name.

    :raises ValueError: one that cannot be read.
    """
    records = []
    for path in (folder / RUNS).glob("*.json"):
        try:
            record = json.loads(path.read_text("utf-8"))
            if record["run"] != path.stem or not isinstance(record["metrics"], dict):
                raise ValueError
            record["number"] = int(record["number"])
            records.append(record)
        except (OSError, ValueError, KeyError, TypeError):
            raise ValueError(
                f"The record {str(path)!r} is damaged or of another version; remove that file, and "
                "its run is done again."
            ) from None
    return {one["run"]: one for one in sorted(records, key=lambda record: record["number"])}


def read_about(folder: Path) -> Record:
    """What `study.json` says: the whole study, and checksums of the files it is of.

    :raises ValueError: it is damaged or of another program.
    """
    path = folder / STUDY
    try:
        about = json.loads(path.read_text("utf-8"))
        if about["program"] != PROGRAM or not isinstance(about["study"]["name"], str):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(
            f"{str(path)!r} is damaged, or of another program or version; give another folder."
        ) from None
    return dict(about)


def _check_folder(folder: Path, about: Record) -> bool:
    """Whether a folder is new; refuse one of something else."""
    is_new = not (folder / STUDY).exists()
    check_replaceable(folder, sorted(contents(folder)) if is_new else (), "a study")
    check_place(Path(os.path.realpath(folder)), folder)
    if is_new:
        return True
    here, there = (_compared(one) for one in (about, read_about(folder)))
    others = [name for name in here | there if here.get(name) != there.get(name)]
    if others and others[0] not in about["study"]:
        file = (about["study"]["data"]["files"] or {}).get(others[0], others[0])
        raise ValueError(
            f"The file {file!r} has other contents than when the study in {str(folder)!r} began; "
            "give another folder, or the file as it was."
        )
    if others:
        raise ValueError(
            f"The output folder {str(folder)!r} belongs to another study, {there['name']!r} with "
            f"another {others[0]!r}; give another folder, or the configuration that it was made "
            "with."
        )
    return False


def _compared(about: Record) -> Record:
    """What decides the runs: not the title, the order of what is listed, or where files are."""
    study = about["study"] | about["sources"]
    del study["title"]
    if study["data"]["files"] is not None:
        study["data"] = {**study["data"], "files": study["data"]["files"]["ignore"]}
    return {
        name: sorted(value, key=str) if isinstance(value, list) else value
        for name, value in study.items()
    }


# Of a function and its arguments in each call; yields these with results or errors.
Spread = Callable[[Callable[..., Any], Sequence[Any]], Iterator[Any]]


def _records(
    study: Study,
    todo: Sequence[RunSettings],
    folder: Path,
    spread: Spread,
    files: dict[str, str],
    tell: Callable[[tuple[int, int]], None],
) -> Iterator[Record]:
    """Of runs whose exact model is there, or that need none, and then of the others."""
    keys = {run: reference_of(study, run) for run in todo}
    paths = {key: folder / REFERENCES / f"{key.name}.npz" for key in keys.values() if key}
    known: dict[Any, Reference | None] = {key: read_reference(path) for key, path in paths.items()}
    missing = {key for key in paths if known[key] is None}

    def records(runs: Iterable[RunSettings]) -> Iterator[Record]:
        calls = [(run, known.get(keys[run])) for run in runs]
        for (run, _), result in spread(partial(_unchanged, files, execute, study), calls):
            if isinstance(result, BaseException):
                result = new_record(study, run) | failure(result)
            yield result

    yield from records(run for run in todo if keys[run] not in missing)
    calls = [(key,) for key in paths if key in missing]
    models = spread(partial(_unchanged, files, make_reference, study), calls)
    for number in range(len(calls)):
        tell((number, len(calls)))
        (key,), result = next(models)
        if isinstance(result, BaseException):
            result = Reference(key, failure(result)["reason"])
        known[key] = result
        if not result.reason:  # one that could not be made is tried again another time
            write_file(paths[key], result.to_bytes())
    yield from records(run for run in todo if keys[run] in missing)


def _unchanged(
    files: dict[str, str], function: Callable[..., Any], study: Study, *arguments: Any
) -> Any:
    """Call a function of a study, here or in a worker, if its data are those it began with."""
    changed = sorted(dict(sources(study.data).items() ^ files.items()))
    if changed:
        raise ValueError(
            f"The data {study.data.label!r} are not those that the study began with, by "
            f"{', '.join(changed)}; put back the same files, on all machines, or give another "
            "output folder."
        )
    return function(study, *arguments)


@contextmanager
def _spreading(workers: int | None, dask: str | None, own: OwnModules) -> Iterator[Spread]:
    """Who does the runs: this process, some of this machine, or those of a scheduler."""
    if dask is not None:
        with client_of(dask) as client:
            yield partial(_spread, client.get_executor(pure=False, retries=RETRIES), own)
    elif workers is not None:
        with processes(workers) as pool:
            yield partial(_spread, pool, own)
    else:
        yield lambda function, calls: ((call, function(*call)) for call in calls)


def _spread(
    executor: Executor, own: OwnModules, function: Callable[..., Any], calls: Sequence[Any]
) -> Iterator[Any]:
    futures = {executor.submit(_in_worker, own, function, *one): one for one in calls}
    for future in as_completed(futures):
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                "A process that did runs was killed; what is done is kept, and the same call "
                "resumes from there. If the system killed it for want of memory, take fewer "
                "workers or smaller runs."
            ) from error
        if type(error).__name__ == "KilledWorker":
            error = ChildProcessError(
                "Workers died while they were at it; they may need more memory."
            )
        yield futures[future], future.result() if error is None else error


def _in_worker(own: OwnModules, function: Callable[..., Any], *arguments: Any) -> Any:
    """What another process does: with one thread, for its neighbours have the other cores."""
    with held_back_stderr():
        import_module("sparse_prefgp.models.preference_gp")
    limit_threads(1)
    own.load()
    return function(*arguments)
