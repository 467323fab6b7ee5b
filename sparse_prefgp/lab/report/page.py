"""The report of a study: its sections."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sparse_prefgp.lab.report.reading import Results
from sparse_prefgp.lab.report.vocabulary import GROUPS
from sparse_prefgp.support.words import counted
from sparse_prefgp.tell.report import Picture, Report, Section, sections_of
from sparse_prefgp.tell.tables import Table, facts_table

FAILURES_SHOWN = 40
DIGITS_OF_FINGERPRINT = 12


class SavedFigure(NamedTuple):
    """A figure of a family of metrics."""

    group: str
    picture: Picture


def page_of(
    results: Results,
    *,
    title: str,
    summary: Sequence[str],
    notes: Sequence[str],
    first: Sequence[Table],
    tables: Mapping[str, Sequence[Table]],
    last: Sequence[Table],
    figures: Sequence[SavedFigure],
) -> Report:
    """All that a study says.

    :param results: what is reported.
    :param title: of the page.
    :param summary: the answer, a sentence each.
    :param notes: warnings, a sentence each.
    :param first: tables for the top: summary and comparisons.
    :param tables: those of each family of metrics.
    :param last: tables for the end: exponents and all pairs.
    :param figures: in the order to show them.
    """
    groups = list(dict.fromkeys([*GROUPS, *tables, *(figure.group for figure in figures)]))
    reasons = failure_rows(results)[:FAILURES_SHOWN]
    failed = [f"{counted(len(results.failures), 'run')} failed."] if reasons else []
    why = [f"Failed: {reason} ({runs})" for reason, runs in reasons]
    sections = [
        Section(sentences=summary),
        Section("Before you rely on this", failed, [*why, *notes]),
        Section(tables=_with_rows(first)),
        *(
            Section(
                GROUPS.get(group, group),
                tables=_with_rows(tables.get(group, ())),
                pictures=[figure.picture for figure in figures if figure.group == group],
            )
            for group in groups
        ),
        Section("Exponents and pairs", tables=_with_rows(last)),
    ]
    for study in results.studies:
        rows = facts_table("", _study_rows(results, study.name))
        sections.append(Section(f"What was run: {study.title}", tables=[rows]))
        whole = _configuration(study.configuration)
        sections.append(Section("The whole configuration", code=whole, folded=True))
    return Report(title, _subtitle(results), sections_of(sections))


def _with_rows(tables: Sequence[Table]) -> list[Table]:
    return [table for table in tables if not table.is_empty]


def failure_rows(results: Results) -> list[tuple[str, str]]:
    """Reasons of failed runs, the most frequent first, each with the runs it ended."""
    failures = results.failures
    counts = Counter(failures["reason"])
    return [
        (reason or "no reason given", _listed(failures.loc[failures["reason"] == reason, "run"]))
        for reason, _ in counts.most_common()
    ]


def circumstances(results: Results, study: str) -> list[tuple[str, str]]:
    """(label, text) of what the records of a study's runs say of commit, machine and versions."""
    records = [record for record in results.records if record.get("study") == study]
    rows = [("commit", _distinct(record.get("commit") for record in records))]
    rows += _merged(records, "hardware")
    rows += _merged(records, "versions")
    seconds = sum(
        float(value)
        for record in records
        for value in (record.get("phases") or {}).values()
        if isinstance(value, int | float)
    )
    if seconds:
        rows.append(("time of all runs together", _duration(seconds)))
    return [(label, text) for label, text in rows if text]


def _subtitle(results: Results) -> str:
    runs = results.runs
    seeds = runs["seed"].nunique()
    parts = [
        f"{len(runs):,} run{'' if len(runs) == 1 else 's'}",
        f"{seeds:,} seed{'' if seeds == 1 else 's'}",
        ", ".join(dict.fromkeys(runs["data"])),
        "sparse-prefgp",
    ]
    return " · ".join(parts)


def _study_rows(results: Results, name: str) -> list[tuple[str, str]]:
    runs = results.runs
    own = runs[runs["study"] == name]
    (study, *_) = [study for study in results.studies if study.name == name]
    failed = int((own["status"] == "failed").sum())
    rows = [
        ("study", name),
        ("fingerprint", study.fingerprint[:DIGITS_OF_FINGERPRINT]),
        ("runs", f"{len(own) - failed:,} done, {failed:,} failed"),
        ("seeds", ", ".join(str(int(seed)) for seed in sorted(own["seed"].unique()))),
        ("training duels (t)", _range(own["duels"])),
        ("items (n)", _range(own["items"])),
    ]
    return [(label, text) for label, text in rows + circumstances(results, name) if text]


def _configuration(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) if values else ""


def _merged(records: Sequence[Mapping[str, Any]], key: str) -> list[tuple[str, str]]:
    """Entries of a mapping, or a text, that each record has under `key`."""
    parts = [record.get(key) for record in records]
    names = dict.fromkeys(name for part in parts if isinstance(part, dict) for name in part)
    rows = [
        (str(name).replace("_", " "), _distinct(p.get(name) for p in parts if isinstance(p, dict)))
        for name in names
    ]
    plain = _distinct(part for part in parts if isinstance(part, str))
    return [*rows, *([(key, plain)] if plain else [])]


def _distinct(values: Any) -> str:
    known = dict.fromkeys(str(value) for value in values if value not in (None, ""))
    return " and ".join(known)


def _range(values: Any) -> str:
    known = values.dropna()
    if known.empty:
        return ""
    low, high = int(known.min()), int(known.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _listed(names: Any, most: int = 4) -> str:
    shown = [str(name) for name in names]
    more = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {more:,} more" if more > 0 else "")
