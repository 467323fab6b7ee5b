"""What a fit gives back, and how it is written."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.disk.folders import held
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.learning.notes import fit_notes, learned_from
from sparse_prefgp.support import together
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.versions import versions
from sparse_prefgp.tell.page import as_html
from sparse_prefgp.tell.report import Picture, Report, Section
from sparse_prefgp.workflow.fit_telling import COEFFICIENTS, RANKING, answer_sections, fit_report
from sparse_prefgp.workflow.folder import (
    PEOPLE,
    PICTURES,
    PROGRAM,
    REPORT,
    OptionalOutputs,
    check_folder,
    rank_items,
    write_model,
)
from sparse_prefgp.workflow.pictures import write_pictures
from sparse_prefgp.workflow.settings import FitSettings

if TYPE_CHECKING:
    from sparse_prefgp.analysis.ranking import Ranking
    from sparse_prefgp.analysis.scoring import HeldOut


@dataclass(frozen=True, eq=False)
class FitOutput:
    """A fitted model, and what there is to know about it."""

    model: Any
    """The one to keep, a `PreferenceGP`, or a `StreamedGP` from a fit in chunks."""
    report: Any
    """How it was optimised, as by `optimise`."""
    settings: FitSettings
    """With names in place of `auto`."""
    figures: Record
    """What `metrics.json` holds, but for the ranking, which is made when it is written."""
    held_out: HeldOut | None = None
    """What was predicted for the held-out duels, None without any."""
    notes: tuple[str, ...] = ()
    """What to know, one sentence each: what did not converge, what ran to a limit, and all
    warnings.
    """
    data: Sequence[tuple[str, str]] = ()
    """(label, value) rows on the duels."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"A fit has no {name!r}; what takes a model, takes its `.model` "
                "(spg.rank(fitted.model))."
            )

    @property
    def streamed(self) -> bool:
        """Whether it was fitted in chunks."""
        return self.settings.stream

    @property
    def scores(self) -> Record:
        """Of the held-out duels that one side won, for `model`, `linear_probit` and `coin`: the
        figures of `metrics.score`; of answers about sets those of `choices` and `rankings`; empty
        without held-out duels."""
        return {} if self.held_out is None else self.held_out.scores()

    def write(
        self, folder: str | os.PathLike[str], *, overwrite: bool = False, html: bool = False
    ) -> list[str]:
        """Write `metrics.json`, `model/`, `ranking.csv`, `pictures/` and, with `html`,
        `report.html`, as `sparse-prefgp fit` does.

        Of a fit in chunks there are no pictures, and no ranking without a table of items.

        :param folder: new, empty, or with `overwrite` that of an earlier fit.
        :return: the names of what was written.
        :raises ValueError: a folder that holds something else, or a finished fit, or to which
            another fit is writing; a page of a fit in chunks.
        """
        place = Path(folder)
        check_page(html, place, self.settings)
        with alone(place):
            check_folder(place, overwrite)
            return write_fit(place, self, html=html)[0]

    def close(self) -> None:
        """Let go of what a model that was fitted in chunks holds: workers, files, sites."""
        if self.streamed:
            self.model.close()

    def report_of(self, ranking: Ranking | None = None) -> Report:
        """All that there is to say, as `report.html` has it, without pictures.

        :param ranking: what `rank` returned.
        """
        return fit_report(self.figures, ranking, notes=self.notes, data_rows=self.data)

    def __str__(self) -> str:
        unit = self.figures["fit"]["unit"]
        which = f"the fit to all {unit}s: " if "refit_fit" in self.figures else ""
        how = [f"{which}{self.report.summary()}", *filter(None, [learned_from(self.figures)])]
        sections = [*answer_sections(self.figures, self.notes), Section(sentences=how)]
        return "\n\n".join(map(str, sections))


def write_fit(
    folder: Path,
    output: FitOutput,
    *,
    html: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[str], Record]:
    """Write `metrics.json`, `model/`, `ranking.csv`, `pictures/` and, if asked to, `report.html`.

    Model and metrics are on the disk before ranking and drawing begin. What fails of these is left
    out, with a warning, and named under `not_written` in the metrics. Of a model that was fitted
    in chunks there are no pictures and no page, and no ranking without a table of items.

    :param folder: made if need be; those files of an earlier fit are replaced.
    :param output: what to write.
    :param html: write `report.html` too.
    :param progress: called with how far the ranking is, as by `rank`.
    :return: The names of what was written, and what `metrics.json` holds.
    :raises ValueError: what `write_model` raises; another program has replaced the model meanwhile.
    """
    from sparse_prefgp.analysis.people import people as people_of

    model, figures = output.model, dict(output.figures)
    written = write_model(folder, model, figures)
    attempts = OptionalOutputs(folder)
    kept = "refit_fit" if "refit_fit" in figures else "fit"
    tables: Record = {}
    ranking = None
    if model.duels.has_items:
        ranking = attempts.made(RANKING, lambda: rank_items(model, output.settings.seed, progress))
        tables[RANKING] = None if ranking is None else ranking.frame
    if ranking is not None:
        negative = {"negative_variances_set_to_zero": ranking.negative_variances}
        figures |= {kept: {**figures[kept], **negative}, "ranking": ranking.figures()}
        figures["notes"] = [*dict.fromkeys([*fit_notes(figures), *output.notes])]
    if (coefficients := figures[kept].get("coefficients")) is not None:
        tables[COEFFICIENTS] = require_pandas().DataFrame(coefficients)
    if not output.streamed and model.terms.taste is not None:
        tables[PEOPLE] = attempts.made(PEOPLE, lambda: people_of(model))
    everything = {"program": PROGRAM, **figures, "versions": versions()}

    def write(new: Path) -> None:
        for name, table in tables.items():
            if table is not None:
                (new / name).write_text(csv_of(table), "utf-8")
        if output.streamed:
            return

        def draw() -> list[Picture]:
            return write_pictures(
                new / PICTURES,
                model,
                ranking,
                report=output.report,
                held_out=output.held_out,
                candidates=everything.get("automatic", {}).get("candidates", ()),
            )

        pictures = attempts.made(f"{PICTURES}/", draw)
        if pictures is None:
            shutil.rmtree(new / PICTURES, ignore_errors=True)

        def render() -> None:
            report = fit_report(
                everything,
                ranking,
                pictures or [],
                command=command_line(),
                notes=everything["notes"],
                data_rows=output.data,
            )
            (new / REPORT).write_text(as_html(report), "utf-8")

        if html:
            attempts.made(REPORT, render)

    more = [] if output.streamed else [f"{PICTURES}/", *([REPORT] if html else [])]
    return attempts.complete(everything, [*tables, *more], written, write)


def command_line() -> str | None:
    """How this program was called, when it was called from a shell."""
    called = Path(sys.argv[0]).name == PROGRAM
    return shlex.join([PROGRAM, *sys.argv[1:]]) if called else None


def alone(place: Path | None) -> AbstractContextManager[None]:
    """Nobody else writes to the folder of a fit."""
    return nullcontext() if place is None else held(place, "fit")


def check_page(html: bool, place: Path | None, settings: FitSettings) -> None:
    """Refuse a page without a folder, or of a fit in chunks.

    :raises ValueError: it is asked for.
    """
    together.check(chunks=settings.stream, report=html, no_folder=place is None)
