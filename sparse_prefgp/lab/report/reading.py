"""The folders that studies wrote, read and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.analysis.metrics import CalibrationBin
from sparse_prefgp.lab.layout import (
    COLUMNS,
    CSV,
    DIRECTIONS,
    DONE,
    FAILED,
    LAYOUT,
    PARQUET,
    RUNS,
    STATUSES,
    STUDY,
)
from sparse_prefgp.lab.report.vocabulary import CALIBRATION, ReportedMetric
from sparse_prefgp.support.words import spelt_like

if TYPE_CHECKING:
    import pandas as pd

NOTES_SHOWN = 5
_NUMBER = re.compile(r"\d[\d,.]*(e[-+]?\d+)?")
NUMBERS = ("inducing", "seed", "duels", "items", "value")


@dataclass(frozen=True)
class StudyRecord:
    """What `study.json` says, and where the study is."""

    folder: Path
    name: str
    title: str
    fingerprint: str
    configuration: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Results:
    """The results of one study or several."""

    studies: tuple[StudyRecord, ...]
    frame: pd.DataFrame
    """Long form, one row per run and metric, columns `COLUMNS`; numbers are float64. A failed run
    has one row without a metric.
    """
    records: tuple[Mapping[str, Any], ...]
    """What each run wrote of itself."""
    metrics: tuple[ReportedMetric, ...]
    """Those of the frame, in the order of a report."""
    notes: tuple[str, ...] = ()
    """What there is to know about the reading."""
    bins: Mapping[tuple[str, str], tuple[CalibrationBin, ...]] = field(default_factory=dict)
    """Of the calibration of held-out duels, by (study, run)."""

    @property
    def runs(self) -> pd.DataFrame:
        """One row per run, without metrics."""
        return self.frame.drop_duplicates(["study", "run"])[list(COLUMNS[:15])]

    @property
    def failures(self) -> pd.DataFrame:
        """The runs that failed."""
        runs = self.runs
        return runs[runs["status"] == FAILED]

    @property
    def values(self) -> pd.DataFrame:
        """The rows that hold a metric."""
        return self.frame[self.frame["metric"] != ""]

    def metric(self, name: str) -> ReportedMetric:
        """The metric of that name.

        :raises ValueError: there is none; the message has the nearest name.
        """
        for metric in self.metrics:
            if metric.name == name:
                return metric
        names = [metric.name for metric in self.metrics]
        near = spelt_like(name, names)
        hint = f"did you mean {near!r}? It has" if near else "it has"
        raise ValueError(f"The study has no metric {name!r}; {hint} {', '.join(names)}.")


def read_results(folders: Iterable[str | Path]) -> Results:
    """Read the results of studies, and check them.

    :param folders: those that `sparse-prefgp ablate` wrote to.
    :raises ValueError: no folder, a folder that holds no results, results of another layout, with a
        column missing or a value that cannot be, or without a single finished run; one run in two
        of the folders.
    """
    import pandas as pd

    places = [Path(folder) for folder in folders]
    if not places:
        raise ValueError("No folder was given; give one that sparse-prefgp ablate wrote to.")
    studies, frames, records, notes = [], [], [], []
    for place in places:
        study = _read_study(place)
        frame = _read_frame(place)
        written, remarks = _read_records(place, frame)
        studies.append(study)
        frames.append(frame)
        records += written
        notes += remarks
    _check_disjoint(places, frames)
    frame = pd.concat(frames, ignore_index=True)
    if not (frame["status"] == DONE).any():
        reason = next(filter(None, frame["reason"]), "")
        why = f", the first with {reason!r}" if reason else ""
        raise ValueError(
            f"No run of {_named(places)} has succeeded{why}; there is nothing to report."
        )
    bins, remarks = _read_bins(records, frame)
    return Results(tuple(studies), frame, tuple(records), _metrics(frame), (*notes, *remarks), bins)


def _read_study(folder: Path) -> StudyRecord:
    if not folder.is_dir():
        raise ValueError(
            f"The folder {str(folder)!r} does not exist; give one that sparse-prefgp ablate wrote "
            "to."
        )
    if not (folder / STUDY).is_file():
        raise ValueError(
            f"The folder {str(folder)!r} holds no {STUDY}, so that it is none that sparse-prefgp "
            "ablate wrote; give its --out."
        )
    values = _json(folder / STUDY)
    layout = values.get("layout")
    if layout != LAYOUT:
        raise ValueError(
            f"{str(folder / STUDY)!r} has layout {layout!r} and this version reads {LAYOUT}; "
            "upgrade sparse_prefgp, or run the study again."
        )
    name = str(values.get("name", folder.name))
    configuration = values.get("configuration", {})
    return StudyRecord(
        folder,
        name,
        str(values.get("title") or name),
        str(values.get("fingerprint", "")),
        configuration if isinstance(configuration, dict) else {},
    )


def _read_frame(folder: Path) -> pd.DataFrame:
    path = next((folder / name for name in (PARQUET, CSV) if (folder / name).is_file()), None)
    if path is None:
        raise ValueError(
            f"The folder {str(folder)!r} has no {PARQUET} or {CSV} yet; let the study come to its "
            "end with sparse-prefgp ablate, which resumes where it was stopped."
        )
    frame = _table(path)
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise ValueError(
            f"{str(path)!r} lacks the column {missing[0]!r}; it needs {', '.join(COLUMNS)}."
        )
    if frame.empty:
        raise ValueError(f"{str(path)!r} has no rows: the study has not finished any run yet.")
    frame = _typed(frame[list(COLUMNS)], path)
    _check_values(frame, path)
    return frame


def _table(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, OSError) as error:  # pandas and Arrow raise kinds of both
        line = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(
            f"{str(path)!r} cannot be read as a table ({line.rstrip('.')}); run sparse-prefgp "
            "ablate again, which writes it again."
        ) from None


def _typed(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Numbers as float64 with NaN for none, everything else as text."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in COLUMNS:
        column = frame[name]
        if name not in NUMBERS:
            columns[name] = column.astype(object).where(column.notna(), "").map(str)
            continue
        given = column.astype(object).where(column.notna(), "").map(str)
        empty = given.str.lower().isin(["", "nan", "none"])
        numbers = pd.to_numeric(given.where(~empty, None), errors="coerce").astype(np.float64)
        wrong = numbers.isna() & ~empty
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"{str(path)!r} has {given.iloc[row]!r} in the column {name!r} of row {row + 1}, "
                "where a number belongs."
            )
        columns[name] = numbers
    return pd.DataFrame(columns).reset_index(drop=True)


def _check_values(frame: pd.DataFrame, path: Path) -> None:
    measured = frame[frame["metric"] != ""]
    for name, part, known in (
        ("status", frame, STATUSES),
        ("direction", measured, DIRECTIONS),
    ):
        wrong = part[~part[name].isin(known)]
        if len(wrong):
            raise ValueError(
                f"{str(path)!r} has the {name} {wrong[name].iloc[0]!r} in row "
                f"{wrong.index[0] + 1}; it is one of {', '.join(known)}."
            )
    if frame["seed"].isna().any():
        row = int(np.flatnonzero(frame["seed"].isna())[0])
        raise ValueError(f"{str(path)!r} has no seed in row {row + 1}; every run has one.")
    twice = measured[measured.duplicated(["study", "run", "metric"])]
    if len(twice):
        raise ValueError(
            f"{str(path)!r} has the metric {twice['metric'].iloc[0]!r} of run "
            f"{twice['run'].iloc[0]!r} twice; each belongs there once."
        )


def _read_records(folder: Path, frame: pd.DataFrame) -> tuple[list[Mapping[str, Any]], list[str]]:
    """The records of runs, and what is odd about them; they only tell of circumstances."""
    records: list[Mapping[str, Any]] = []
    unreadable = 0
    for path in sorted((folder / RUNS).glob("*.json")):
        try:
            records.append(_json(path))
        except ValueError:
            unreadable += 1
    notes = []
    if unreadable:
        notes.append(f"{unreadable:,} records of runs in {str(folder)!r} cannot be read.")
    notes += _told_by_runs(records)
    known = set(frame["run"])
    late = sum(str(record.get("name")) not in known for record in records)
    if late:
        notes.append(
            f"{late:,} runs in {str(folder)!r} are not in its table of results yet, and not in "
            "this report; sparse-prefgp ablate adds them."
        )
    return records, notes


def _told_by_runs(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What runs that succeeded give reason to doubt, each sentence once."""
    done = [record for record in records if record.get("status") == DONE]
    notes = []
    unsettled = [str(record.get("name")) for record in done if record.get("converged") is False]
    if unsettled:
        notes.append(
            f"Inference did not converge in {len(unsettled):,} of {len(done):,} runs, the first "
            f"{unsettled[0]!r}; their figures are counted all the same."
        )
    alike: dict[str, list[str]] = {}  # sentences that differ in their numbers alone
    for note in (str(note) for record in done for note in record.get("notes") or ()):
        alike.setdefault(_NUMBER.sub("#", note), []).append(note)
    kinds = sorted(alike.values(), key=len, reverse=True)
    for kind in kinds[:NOTES_SHOWN]:
        more = len(kind) - 1
        also = f", {more:,} more with other numbers" if len(set(kind)) > 1 else f", {more:,} more"
        notes.append(f"A run says: {kind[0].rstrip('.')}{also if more else ''}.")
    if len(kinds) > NOTES_SHOWN:
        notes.append(f"{len(kinds) - NOTES_SHOWN:,} further kinds of notes are in the records.")
    return notes


def _read_bins(
    records: Sequence[Mapping[str, Any]], frame: pd.DataFrame
) -> tuple[dict[tuple[str, str], tuple[CalibrationBin, ...]], list[str]]:
    """The bins of runs that have a calibration error, and which of these have none."""
    scored = frame[(frame["metric"] == CALIBRATION) & (frame["status"] == DONE)]
    wanted = set(scored[["study", "run"]].itertuples(index=False, name=None))
    found = {}
    for record in records:
        run = (str(record.get("study")), str(record.get("name")))
        bins = _bins(record.get("calibration_bins"))
        if run in wanted and bins:
            found[run] = bins
    missing = sorted(run for _, run in wanted - found.keys())
    if not found or not missing:
        return found, []
    return found, [
        f"The records of {len(missing):,} runs, the first {missing[0]!r}, hold no bins of their "
        "calibration, so that these are not in the figure of reliability."
    ]


def _bins(values: Any) -> tuple[CalibrationBin, ...]:
    """As a record holds them; none where anything is not as it should be."""
    names = [one.name for one in fields(CalibrationBin)]
    try:
        bins = tuple(CalibrationBin(*(float(one[name]) for name in names)) for one in values)
    except (TypeError, ValueError, KeyError):
        return ()
    numbers = np.array([[getattr(one, name) for name in names] for one in bins])
    fine = np.isfinite(numbers).all() and all(one.duels > 0.0 for one in bins)
    return bins if fine else ()


def _check_disjoint(places: Sequence[Path], frames: Sequence[pd.DataFrame]) -> None:
    seen: dict[tuple[str, str], Path] = {}
    for place, frame in zip(places, frames, strict=True):
        runs = set(frame[["study", "run"]].itertuples(index=False, name=None))
        both = sorted(runs & seen.keys())
        if both:
            study, run = both[0]
            raise ValueError(
                f"The run {run!r} of the study {study!r} is in {str(seen[both[0]])!r} and in "
                f"{str(place)!r}; give one of them."
            )
        seen |= dict.fromkeys(runs, place)


def _metrics(frame: pd.DataFrame) -> tuple[ReportedMetric, ...]:
    """The metrics of a frame.

    :raises ValueError: one metric with two units or two directions.
    """
    found: dict[str, ReportedMetric] = {}
    columns = ["metric", "unit", "direction", "group"]
    for row in frame.loc[frame["metric"] != "", columns].drop_duplicates().itertuples(index=False):
        metric = ReportedMetric(*row)
        other = found.setdefault(metric.name, metric)
        if other != metric:
            raise ValueError(
                f"The metric {metric.name!r} is in {other.unit!r} ({other.direction}, "
                f"{other.group}) and in {metric.unit!r} ({metric.direction}, {metric.group}); "
                "studies of different versions need a report each."
            )
    return tuple(sorted(found.values(), key=lambda metric: metric.place))


def _json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        values = None
    if not isinstance(values, dict):
        raise ValueError(f"{str(path)!r} is not readable as JSON; run the study again.")
    return values


def _named(places: Sequence[Path]) -> str:
    return " and ".join(repr(str(place)) for place in places)
