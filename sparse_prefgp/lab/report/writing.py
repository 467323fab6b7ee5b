"""The folder of a report: page, figures and tables, put in place all at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from sparse_prefgp.disk.folders import check_place, check_replaceable, contents, replaced_folder
from sparse_prefgp.lab.ablation.execution import reasons
from sparse_prefgp.lab.ablation.runner import RUNS, STUDY
from sparse_prefgp.lab.measures import Measure
from sparse_prefgp.lab.report import tables
from sparse_prefgp.lab.report.figures import draw_all
from sparse_prefgp.lab.report.results import Results, read_results
from sparse_prefgp.lab.report.statistics import Difference, differences, notes_of, points_of
from sparse_prefgp.plotting.canvas import save
from sparse_prefgp.support.plain import Record, as_json_text
from sparse_prefgp.support.words import counted, some_of
from sparse_prefgp.tell.markup import as_latex, as_markdown
from sparse_prefgp.tell.page import as_html
from sparse_prefgp.tell.report import Picture, Report, Section, sections_of
from sparse_prefgp.tell.tables import Table, facts_table
from sparse_prefgp.workflow.folder import PROGRAM, ours

REPORT, PAGE, FIGURES, TABLES = "report", "report.html", "figures", "tables"
FIGURES_JSON = "report.json"
# The first that a study has stands for the quality of a method.
HEADLINES = ("nlp_nats", "kl_from_exact", "accuracy", "brier", "log_evidence")
MOST_PAIRED = 12  # methods in the table of every two
FAILURES_SHOWN, NOTES_SHOWN = 40, 5


@dataclass(frozen=True, eq=False)
class StudyReport:
    """A report as it was written: its first table, what to know before relying on it, and the
    differences of the comparison that was asked for."""

    folder: Path
    results: Results
    summary: Table
    notes: Sequence[str]
    differences: Sequence[Difference]

    def to_dict(self) -> Record:
        """Plain values: what `report.json` holds."""
        points = {measure: points_of(self.results, measure) for measure in self.results.measures}
        return {
            "program": PROGRAM,
            "studies": self.results.studies,
            "failed": [
                {"reason": reason, "runs": runs}
                for reason, runs in reasons(self.results.records).items()
            ],
            "notes": self.notes,
            "points": [
                {"measure": measure.name, **row}
                for measure, frame in points.items()
                for row in frame.reset_index().to_dict("records")
            ],
            "differences": [
                {**row._asdict(), "measure": row.measure.name} for row in self.differences
            ],
        }


def study_report(
    folders: str | Path | Iterable[str | Path],
    out: str | Path | None = None,
    *,
    compare: tuple[str, str] | None = None,
    metrics: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> StudyReport:
    """Write the report of one study or of several together.

    It holds `report.html`, a page that needs no other file; `figures/`, each as PNG and PDF;
    `tables/`, each in LaTeX and Markdown; and `report.json`.

    :param folders: where `sparse-prefgp ablate` wrote; the data sets of several studies become axes
        of the same figures.
    :param out: the folder to write; `report` within the folder of a single study by default. An
        earlier report is replaced.
    :param compare: two methods by their labels in the report, for a paired comparison by all
        metrics.
    :param metrics: only these; all by default.
    :param progress: called with the name of each figure before it is drawn.
    :raises ValueError: what `read_results` raises; an unknown method or metric; several studies
        without `out`; a place that cannot be written, or that holds something else.
    :raises ModuleNotFoundError: matplotlib, pandas or jinja2 is not installed.
    """
    places = [folders] if isinstance(folders, str | Path) else list(folders)
    if out is None and len(places) != 1:
        raise ValueError(
            f"{len(places)} studies were given and no place for the report of all; give one with "
            "--out."
        )
    results = read_results(places)
    target = Path(places[0], REPORT) if out is None else Path(out)
    _check_folder(target)
    check_place(Path(os.path.realpath(target)).parent, target)
    measures = results.measures
    if metrics is not None:
        wanted = [results.measure(name) for name in metrics]
        measures = [measure for measure in measures if measure in wanted]
    pair, compared = None, []
    if compare is not None:
        pair = results.method(compare[0]), results.method(compare[1])
        if pair[0] == pair[1]:
            raise ValueError(f"The method {pair[0]!r} is compared with itself; give two methods.")
        compared = [row for measure in measures for row in differences(results, measure, *pair)]
    headline = next((one for name in HEADLINES for one in measures if one.name == name), None)
    notes = list(_run_notes(results))
    if headline is not None:
        notes += notes_of(points_of(results, headline))
    if pair is not None and not compared:
        notes.append(
            f"{pair[0]} and {pair[1]} have no metric at the same m of the same data, so that "
            "nothing compares them."
        )
    summary = tables.summary_table(results, tables.first_measures(measures))
    report = StudyReport(target, results, summary, notes, compared)
    second = tables.summary_table(
        results, [one for one in measures if one.name in tables.SECOND], more=True
    )
    more, last = [second], []
    if pair is not None:
        more.append(tables.difference_table(tables.at_largest_m(compared), *pair))
        last.append(tables.difference_table(compared, *pair, name="comparison_every_m"))
    if headline is not None and len(results.methods) <= MOST_PAIRED:
        last.append(tables.pairs_table(results, headline))
    groups: dict[str, list[Table]] = {}
    for measure in measures:
        groups.setdefault(measure.group, []).append(tables.metric_table(results, measure))
    commits = results.runs.groupby("study", sort=False)["commit"].agg(_distinct)
    comment = "\n".join(f"Study {a}, commit {b or 'unknown'}." for a, b in commits.items())
    others = contents(target) - {PAGE, FIGURES, TABLES, FIGURES_JSON}
    with replaced_folder(target, _check_folder, keep=others) as new:
        (new / TABLES).mkdir()
        more, last = ([one for one in some if not one.is_empty] for some in (more, last))
        for table in [summary, *more, *chain(*groups.values()), *last]:
            if not table.is_empty:
                path = new / TABLES / table.name
                latex = as_latex(table, comment, fitted=True)
                path.with_suffix(".tex").write_text(latex, "utf-8")
                path.with_suffix(".md").write_text(as_markdown(table), "utf-8")
        pictures = _draw(new / FIGURES, results, measures, progress or (lambda name: None))
        why = reasons(results.records)
        failed = [f"Failed: {reason} ({some_of(why[reason], most=4)})" for reason in why]
        many = [f"{counted(sum(map(len, why.values())), 'run')} failed."] if why else []
        sections = [
            Section(sentences=_answers(results, headline)),
            Section(tables=[summary]),
            Section("Before you rely on this", many, [*failed[:FAILURES_SHOWN], *notes]),
            Section(tables=more),
            *(
                Section(group, tables=groups[group], pictures=pictures.get(group, ()))
                for group in groups
            ),
            Section("Comparisons", tables=last),
            *_what_was_run(results),
        ]
        runs, titles = results.runs, dict.fromkeys(study["title"] for study in results.studies)
        parts = [counted(len(runs), "run"), counted(runs["seed"].nunique(), "seed")]
        parts += [", ".join(dict.fromkeys(runs["name"])), "sparse-prefgp"]
        page = Report(" · ".join(titles), " · ".join(parts), sections_of(sections))
        (new / PAGE).write_text(as_html(page), "utf-8")
        (new / FIGURES_JSON).write_text(as_json_text(report.to_dict()), "utf-8")
    return report


def _check_folder(folder: Path) -> None:
    """Refuse a file, a study, and what is no earlier report."""
    known = contents(folder)
    if {STUDY, RUNS} & known:
        inside = str(folder / REPORT)
        raise ValueError(
            f"The output folder {str(folder)!r} holds a study; give another, such as {inside!r}."
        )
    if not ours(folder / FIGURES_JSON):
        check_replaceable(folder, sorted(known), "a report")


def _draw(
    folder: Path, results: Results, measures: Sequence[Measure], progress: Callable[[str], None]
) -> dict[str, list[Picture]]:
    """Figures as files, and as pictures of each family of measures."""
    folder.mkdir()
    pictures: dict[str, list[Picture]] = {}
    for about, figure in draw_all(results, measures):
        progress(about.name)
        path = folder / f"{about.name}.png"
        save(figure, path)
        figure.set_layout_engine("none")  # the PDF has the layout that the PNG was given
        # Its bytes depend on the picture alone, not on the time.
        metadata = {"CreationDate": None, "Producer": None, "Creator": None, "Title": about.title}
        figure.savefig(path.with_suffix(".pdf"), format="pdf", metadata=metadata)
        picture = Picture(about.name, about.title, about.caption, path)
        pictures.setdefault(about.group, []).append(picture)
    return pictures


def _answers(results: Results, headline: Measure | None) -> list[str]:
    """Which method is best by the main measure, a sentence for each data set."""
    if headline is None:
        return []
    points = points_of(results, headline)
    coins = [label for label, method in results.methods.items() if method.is_coin]
    points = points[points["paired"]].drop(coins, level="method", errors="ignore")
    sentences = []
    for data, own in points.groupby(level="data", sort=False):
        where: Any = (headline.better * own["mean"]).idxmax()
        best, method = own.loc[where], where[1] + (f" with m = {where[2]:,}" if where[2] else "")
        value = f"{best['mean']:.4g} {headline.unit}".rstrip()
        seeds = counted(len(best["seeds"]), "seed")
        sentences.append(
            f"{data}: the best {headline.label} is {value}, by {method}, over {seeds}."
        )
    return sentences


def _run_notes(results: Results) -> Iterator[str]:
    """What runs that succeeded give reason to doubt; notes that differ in a first number once."""
    done = [record for record in results.records if not record["reason"]]
    unsettled = [record["run"] for record in done if record.get("converged") is False]
    if unsettled:
        yield (
            f"Inference did not converge in {len(unsettled):,} of {len(done):,} runs, the first "
            f"{unsettled[0]!r}; their figures are counted all the same."
        )
    kinds: dict[str, list[str]] = {}
    for note in (note for record in done for note in record["notes"]):
        kinds.setdefault(note.partition(" ")[2], []).append(note)
    for alike in list(kinds.values())[:NOTES_SHOWN]:
        more = f", and {len(alike) - 1:,} more alike" if len(alike) > 1 else ""
        yield f"A run says: {alike[0].rstrip('.')}{more}."


def _what_was_run(results: Results) -> Iterator[Section]:
    for study in results.studies:
        runs = results.runs[results.runs["study"] == study["name"]]
        records = [record for record in results.records if record["study"] == study["name"]]
        failed = int((runs["status"] == "failed").sum())
        versions = {text for one in records for text in map(" ".join, one["versions"].items())}
        hours = sum(sum(record.get("seconds", {}).values()) for record in records) / 3600.0
        rows = [
            ("study", study["name"]),
            ("runs", f"{len(runs) - failed:,} done, {failed:,} failed"),
            ("seeds", ", ".join(str(seed) for seed in sorted(runs["seed"].unique()))),
            ("training duels (t)", _range(runs["duels"])),
            ("items (n)", _range(runs["items"])),
            ("commit", _distinct(runs["commit"])),
            ("machine", _distinct(runs["machine"])),
            ("versions", ", ".join(sorted(versions))),
            ("time of all runs together", f"{hours:.2g} h"),
        ]
        facts = facts_table("", [(label, text) for label, text in rows if text])
        yield Section(f"What was run: {study['title']}", tables=[facts])
        whole = json.dumps(study, indent=2, ensure_ascii=False)
        yield Section("The whole configuration", code=whole, folded=True)


def _distinct(values: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(filter(None, values)))


def _range(values: Any) -> str:
    known = values.dropna()
    if known.empty:
        return ""
    low, high = int(known.min()), int(known.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
