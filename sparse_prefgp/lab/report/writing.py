"""The folder of a report: page, figures and tables, put in place all at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sparse_prefgp.disk.folders import check_place, contents, replaced_folder
from sparse_prefgp.lab.layout import RUNS, STUDY
from sparse_prefgp.lab.report.calibration import reliabilities
from sparse_prefgp.lab.report.figures import DrawnFigure, draw_all
from sparse_prefgp.lab.report.methods import Arrangement, Method, arrange
from sparse_prefgp.lab.report.page import (
    SavedFigure,
    circumstances,
    failure_rows,
    page_of,
)
from sparse_prefgp.lab.report.reading import Results, read_results
from sparse_prefgp.lab.report.statistics import (
    Difference,
    Exponent,
    at_largest_m,
    compare_methods,
    exponents_of,
    notes_of,
    notes_of_comparison,
    notes_of_memory,
    points_of,
)
from sparse_prefgp.lab.report.tables import (
    difference_table,
    exponent_table,
    metric_table,
    pairs_table,
    summary_table,
)
from sparse_prefgp.lab.report.vocabulary import (
    AGAINST_TIME,
    BRIEF,
    CALIBRATION,
    HEADLINES,
    SUMMARY,
    ReportedMetric,
)
from sparse_prefgp.plotting.canvas import save
from sparse_prefgp.support.plain import as_json_text
from sparse_prefgp.tell.markup import as_latex, as_markdown
from sparse_prefgp.tell.page import as_html
from sparse_prefgp.tell.report import Picture
from sparse_prefgp.tell.tables import Table
from sparse_prefgp.workflow.folder import PROGRAM

REPORT, PAGE, FIGURES, TABLES = "report", "report.html", "figures", "tables"
FIGURES_JSON = "report.json"
MOST_PAIRED = 12  # methods in the table of every two


@dataclass(frozen=True, eq=False)
class StudyReport:
    """A report as it was written."""

    folder: Path
    """Where it is, and the names in it."""
    files: tuple[str, ...]
    """Where it is, and the names in it."""
    results: Results
    """What it reports."""
    arrangement: Arrangement
    """What it reports."""
    brief: Table
    """Some metrics for the terminal."""
    differences: tuple[Difference, ...] = ()
    """Of the comparison that was asked for."""
    exponents: tuple[Exponent, ...] = ()
    """Fitted to costs."""
    notes: tuple[str, ...] = ()
    """What to know before relying on it."""
    compared: tuple[Method, Method] | None = field(default=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: what `report.json` holds."""
        return _plain(self)


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

    :param folders: where `sparse-prefgp ablate` wrote; of several studies the data sets become
        panels of the same figures.
    :param out: the folder to write; `report` within the folder of a single study by default. An
        earlier report is replaced.
    :param compare: two methods by their labels in the report, for a paired comparison by all
        metrics.
    :param metrics: only these; all by default.
    :param progress: called with the name of each figure and table before it is made.
    :raises ValueError: what `read_results` raises; an unknown method or metric; several studies
        without `out`; a place that cannot be written, or that holds other files.
    :raises ModuleNotFoundError: matplotlib, pandas or jinja2 is not installed.
    """
    places = [folders] if isinstance(folders, str | Path) else list(folders)
    target = _target([Path(place) for place in places], out)
    check_report_folder(target)
    results = read_results(places)
    arrangement = arrange(results)
    chosen = results.metrics
    if metrics is not None:
        wanted = {results.metric(name).name for name in metrics}
        chosen = tuple(metric for metric in results.metrics if metric.name in wanted)
    pair = None if compare is None else _pair(arrangement, *compare)
    return _write(results, arrangement, chosen, pair, target, progress or (lambda name: None))


def check_report_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made, or whose files are not those of an earlier report.

    :raises ValueError: naming what is in the way.
    """
    _check_contents(folder)
    check_place(Path(os.path.realpath(folder)).parent, folder)


def _target(places: Sequence[Path], out: str | Path | None) -> Path:
    if out is not None:
        return Path(out)
    if len(places) > 1:
        raise ValueError(
            f"{len(places)} studies were given and no place for the report of all; give one "
            "with --out."
        )
    if places and not places[0].is_dir():
        raise ValueError(
            f"The folder {str(places[0])!r} does not exist; give one that sparse-prefgp ablate "
            "wrote to."
        )
    return places[0] / REPORT if places else Path(REPORT)


def _check_contents(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The output {str(folder)!r} is a file; give a folder.")
    present = _files(folder)
    if not present:
        return
    if STUDY in contents(folder) or RUNS in contents(folder):
        raise ValueError(
            f"The output folder {str(folder)!r} holds a study; give another, such as "
            f"{str(folder / REPORT)!r}."
        )
    foreign = sorted(present - _written_before(folder))
    if foreign:
        raise ValueError(
            f"The output folder {str(folder)!r} holds {foreign[0]!r}, which no report of "
            f"{PROGRAM} wrote and which would be lost; give a new or empty folder."
        )


def _files(folder: Path) -> set[str]:
    """Names of files, and of empty folders, relative to the folder."""
    found: set[str] = set()
    for name in contents(folder):
        path = folder / name
        inner = _files(path) if path.is_dir() and not path.is_symlink() else set()
        found |= {f"{name}/{each}" for each in inner} or {name}
    return found


def _written_before(folder: Path) -> set[str]:
    try:
        values = json.loads((folder / FIGURES_JSON).read_text(encoding="utf-8"))
        if values["program"] != PROGRAM:
            return set()
        return {str(name) for name in values["files"]} | {FIGURES, TABLES}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _pair(arrangement: Arrangement, first: str, second: str) -> tuple[Method, Method]:
    one, two = arrangement.method(first), arrangement.method(second)
    if one == two:
        raise ValueError(f"The method {one.label!r} is compared with itself; give two methods.")
    return one, two


def _write(
    results: Results,
    arrangement: Arrangement,
    metrics: Sequence[ReportedMetric],
    pair: tuple[Method, Method] | None,
    target: Path,
    progress: Callable[[str], None],
) -> StudyReport:
    summary = summary_table(arrangement, _among(metrics, SUMMARY))
    shown = _among(metrics, BRIEF)
    names = ("method", "m", *(metric.name.replace("_", " ") for metric in shown))
    brief = summary_table(arrangement, shown)
    headed = [c._replace(heading=name) for c, name in zip(brief.columns, names, strict=True)]
    brief = replace(brief, columns=headed)
    exponents = [exponent for metric in metrics for exponent in exponents_of(arrangement, metric)]
    differences: list[Difference] = []
    if pair is not None:
        for metric in metrics:
            differences += compare_methods(arrangement, metric, *pair)
    headline = _headline(metrics)
    notes = [*results.notes, *arrangement.notes]
    if headline is not None:
        notes += notes_of(points_of(arrangement, headline))
    not_compared: list[str] = []
    for metric in metrics:
        notes += notes_of_memory(arrangement, metric)
        if pair is not None:
            not_compared += notes_of_comparison(arrangement, metric, *pair)
    notes += not_compared
    first, last = [summary], [exponent_table(exponents)]
    comparison = []
    if pair is not None:
        comparison.append(difference_table(differences, *pair))
        first.append(difference_table(at_largest_m(differences), *pair))
        if not differences and not not_compared:
            notes.append(
                f"{pair[0].label} and {pair[1].label} have no metric at the same m of the same "
                "data, so that nothing compares them."
            )
    if headline is not None and len(arrangement.methods) <= MOST_PAIRED:
        last.append(pairs_table(arrangement, headline))
    by_metric = {metric: metric_table(arrangement, metric) for metric in metrics}
    everything = [summary, *comparison, *by_metric.values(), *last]
    with replaced_folder(target, _check_contents) as new:
        comment = _comment(results)
        (new / TABLES).mkdir()
        for table in everything:
            if table.is_empty:
                continue
            progress(table.name)
            path = new / TABLES / table.name
            _with_ending(path, ".tex").write_text(as_latex(table, comment), encoding="utf-8")
            _with_ending(path, ".md").write_text(as_markdown(table), encoding="utf-8")
        figures = _draw(new / FIGURES, arrangement, metrics, progress)
        page = page_of(
            results,
            title=_page_title(results),
            summary=_answers(arrangement, headline),
            notes=notes,
            first=first,
            tables=_by_group(by_metric),
            last=[*last, *comparison],
            figures=figures,
        )
        (new / PAGE).write_text(as_html(page), encoding="utf-8")
        report = StudyReport(
            target,
            tuple(sorted({*_files(new), FIGURES_JSON})),
            results,
            arrangement,
            brief,
            tuple(differences),
            tuple(exponents),
            tuple(notes),
            pair,
        )
        (new / FIGURES_JSON).write_text(as_json_text(report.to_dict()), encoding="utf-8")
    return report


def _draw(
    folder: Path,
    arrangement: Arrangement,
    metrics: Sequence[ReportedMetric],
    progress: Callable[[str], None],
) -> list[SavedFigure]:
    folder.mkdir()
    quality = [metric for metric in metrics if metric.name in AGAINST_TIME]
    shown = []
    for drawn in draw_all(arrangement, metrics, quality):
        progress(drawn.name)
        path = folder / f"{drawn.name}.png"
        save(drawn.figure, path)
        drawn.figure.set_layout_engine("none")  # the PDF has the layout that the PNG was given
        _save_pdf(drawn, path.with_suffix(".pdf"))
        shown.append(
            SavedFigure(drawn.group, Picture(drawn.name, drawn.title, drawn.caption, path))
        )
    return shown


def _save_pdf(drawn: DrawnFigure, path: Path) -> None:
    """A PDF whose bytes depend on the picture alone, not on the time."""
    metadata = {"CreationDate": None, "Producer": None, "Creator": None, "Title": drawn.title}
    drawn.figure.savefig(path, format="pdf", metadata=metadata)


def _headline(metrics: Sequence[ReportedMetric]) -> ReportedMetric | None:
    by_name = {metric.name: metric for metric in metrics}
    return next((by_name[name] for name in HEADLINES if name in by_name), None)


def _among(metrics: Sequence[ReportedMetric], names: Sequence[str]) -> list[ReportedMetric]:
    """Those of these names; the first few where none is."""
    return [metric for metric in metrics if metric.name in names] or list(metrics[: len(BRIEF)])


def _answers(arrangement: Arrangement, headline: ReportedMetric | None) -> list[str]:
    """Which method is best by the main metric, a sentence for each panel."""
    if headline is None or headline.direction not in ("higher", "lower"):
        return []
    sign = 1.0 if headline.direction == "higher" else -1.0
    sentences = []
    for panel in arrangement.panels:
        points = [
            p
            for p in points_of(arrangement, headline)
            if p.key.panel == panel and p.paired and not p.key.method.is_coin
        ]
        if not points:
            continue
        best = max(points, key=lambda p: sign * p.mean)
        m = "" if best.key.m is None else f" with m = {best.key.m:,}"
        sentences.append(
            f"{panel.label}: the best {headline.label} is {best.mean * headline.factor:.4g} "
            f"{headline.shown_unit}, by {best.key.method.label}{m}, over {len(best.seeds)} "
            f"seed{'' if len(best.seeds) == 1 else 's'}."
        )
    return sentences


def _by_group(tables: dict[ReportedMetric, Table]) -> dict[str, list[Table]]:
    groups: dict[str, list[Table]] = {}
    for metric, table in tables.items():
        groups.setdefault(metric.group, []).append(table)
    return groups


def _page_title(results: Results) -> str:
    return " · ".join(dict.fromkeys(study.title for study in results.studies))


def _comment(results: Results) -> str:
    """What was run, for the head of a LaTeX file."""
    lines = []
    for study in results.studies:
        commit = dict(circumstances(results, study.name)).get("commit", "unknown")
        lines.append(f"Study {study.name}, fingerprint {study.fingerprint[:12]}, commit {commit}.")
    return "\n".join(" ".join(line.split()) for line in lines)


def _with_ending(path: Path, ending: str) -> Path:
    """Unlike `with_suffix`, this keeps a dot in the name."""
    return path.with_name(path.name + ending)


def _plain(report: StudyReport) -> dict[str, Any]:
    arrangement = report.arrangement
    return {
        "program": PROGRAM,
        "files": list(report.files),
        "studies": [
            {"name": study.name, "title": study.title, "fingerprint": study.fingerprint}
            for study in report.results.studies
        ],
        "runs": len(report.results.runs),
        "failed": [
            {"reason": reason, "runs": runs} for reason, runs in failure_rows(report.results)
        ],
        "notes": list(report.notes),
        "methods": [method.label for method in arrangement.methods],
        "points": [
            {
                "data": point.key.panel.label,
                "method": point.key.method.label,
                "m": point.key.m,
                "metric": metric.name,
                "unit": metric.unit,
                "mean": point.mean,
                "standard_error": point.error,
                "seeds": list(point.seeds),
                "paired": point.paired,
            }
            for metric in report.results.metrics
            for point in points_of(arrangement, metric)
        ],
        "reliability": [
            {
                "data": curve.key.panel.label,
                "method": curve.key.method.label,
                "m": curve.key.m,
                "seeds": list(curve.seeds),
                "bins": [asdict(one) for one in curve.bins],
            }
            for metric in report.results.metrics
            if metric.name == CALIBRATION
            for curve in reliabilities(arrangement, metric)
        ],
        "compared": None if report.compared is None else [m.label for m in report.compared],
        "differences": [
            {
                "data": row.where,
                "m": list(row.m),
                "metric": row.metric.name,
                "mean": row.mean,
                "standard_error": row.error,
                "interval": list(row.interval),
                "pairs": row.pairs,
                "wins": row.wins,
                "losses": row.losses,
                "unmatched_seeds": list(row.unmatched),
            }
            for row in report.differences
        ],
        "exponents": [
            {
                "data": e.where,
                "method": e.method.label,
                "metric": e.metric.name,
                "variable": e.variable,
                "m": e.m,
                "exponent": e.slope,
                "standard_error": e.error,
                "points": e.points,
            }
            for e in report.exponents
        ],
    }
