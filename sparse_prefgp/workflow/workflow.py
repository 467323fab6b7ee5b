"""From items and duels to a fitted, scored and written model: the one way, for every caller."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import default_rng

from sparse_prefgp.analysis.metrics import GRADES, OUTCOMES
from sparse_prefgp.analysis.verdicts import no_better_than_a_coin, said_of_a_coin
from sparse_prefgp.learning.notes import fit_notes, notes_of
from sparse_prefgp.support.machine import release_unused
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.words import some_of
from sparse_prefgp.workflow.automatic import Automatic, choose, linear_if_as_good, settled
from sparse_prefgp.workflow.checkpoints import Checkpoints
from sparse_prefgp.workflow.fit_metrics import (
    data_figures,
    fit_figures,
    people_figures,
    time_figures,
)
from sparse_prefgp.workflow.fit_sources import Sources
from sparse_prefgp.workflow.folder import (
    FIT_FILE,
    REFIT_FILE,
    check_folder,
    write_model,
)
from sparse_prefgp.workflow.holdout import (
    FitCallbacks,
    fit_model,
    hold,
    integrated,
    predict_held_out,
    prepare,
    refit_model,
)
from sparse_prefgp.workflow.in_time import decide_in_time
from sparse_prefgp.workflow.output import FitOutput, alone, check_page, write_fit
from sparse_prefgp.workflow.reporting import (
    ALIKE,
    COMPARING,
    FITTING,
    HOLDING,
    LOADING,
    PLACING,
    READING,
    REFITTING,
    SCORING,
    UNDATED,
    WRITING,
    Reporter,
)
from sparse_prefgp.workflow.settings import (
    DEFAULT_SPLIT,
    SUBSET,
    FitSettings,
    settings_from,
)
from sparse_prefgp.workflow.sites_files import sites_kept_if_done

if TYPE_CHECKING:
    from sparse_prefgp.analysis.scoring import HeldOut
    from sparse_prefgp.models import PreferenceGP

# What `fit` takes by name along with settings.
SOURCES = tuple(one.name for one in fields(Sources) if one.name not in ("items", "duels"))


class FitResult(NamedTuple):
    """A fit as it is reported: figures as in `metrics.json`, and what the optimiser says."""

    figures: Record
    report: Any


def fit(
    items: Any = None,
    duels: Any = None,
    settings: FitSettings | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    html: bool = False,
    reporter: Reporter | None = None,
    checkpoints: Checkpoints | None = None,
    **options: Any,
) -> FitOutput:
    """Split duels, fit a model to the training ones, score it on the others, and say what to know.

    What `sparse-prefgp fit` does.

    :param items: path or data frame with one row per item, as for `read_duels`; or an (n, D) array
        in which ids are row numbers; None for the items that the duels name, or besides `Duels` and
        streams, which have their own.
    :param duels: path or data frame with columns `winner` and `loser`, as for `read_duels`; a (t,
        2) array of row numbers, winner first; `Duels`, whose features stay in the units that they
        have; or, in chunks, what `stream_duels` gives or, with `stream=True`, takes. A folder of
        Parquet files is always read in chunks.
    :param settings: how the fit is made; by default made of the options.
    :param out: a folder to write to: model and metrics as soon as the model is fitted, the rest at
        the end.
    :param overwrite: that of an earlier fit may be replaced.
    :param html: write `report.html` too.
    :param reporter: called as the fit proceeds, see `Reporter`; by default nobody.
    :param checkpoints: what a killed fit resumes from.
    :param options: fields of `FitSettings`, such as `split="items"`, `kernel="se"`,
        `approximation="fitc"`, `inducing=64`, `test_fraction=0`, `stream=True`. Along with settings
        too: `choices` or `rankings`, in place of `duels`, as for `read_choices` and
        `read_rankings`; `ties`, a table of tied pairs; `embedding`, vectors of the items, `text`,
        columns of texts, `text_features`, what makes vectors of them, and `features`, `ignore` and
        `context`, columns, as for `read_duels`; `weight`, the column that says as how many duels
        each counts; `noise_by`, the column that says who judged, so that
        each has a noise and, of ties and grades, cuts of its own; `covariate`, columns, and
        `lean_by`, "COLUMN:COVARIATE" or several, columns whose labels lean by one of them; `grade`,
        the column of grades, and `grades`, their levels.
    :return: The model, how it was optimised, scores, figures and notes.
    :raises ValueError: an option that there is not, or given along with settings; what
        `FitSettings`, the readers, `split_duels` and `optimise` raise; a folder that holds
        something else, or to which another fit is writing.
    """
    columns = {name: options.pop(name) for name in SOURCES if name in options}
    sources = Sources(items=items, duels=duels, **columns)
    settings = settings_of(sources, settings, options)
    return run_fit(
        sources,
        settings,
        out=out,
        overwrite=overwrite,
        html=html,
        reporter=reporter,
        checkpoints=checkpoints,
    )


def run_fit(
    sources: Sources,
    settings: FitSettings,
    *,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    html: bool = False,
    reporter: Reporter | None = None,
    checkpoints: Checkpoints | None = None,
) -> FitOutput:
    """What `fit` does, of values that have been checked."""
    place = None if out is None else Path(out)
    check_page(html, place, settings)
    work = _OneFit(reporter or Reporter(), checkpoints or Checkpoints(), place)
    with alone(place), work.checkpoints.reporting():
        if place is not None:  # before a large table is read in vain
            check_folder(place, overwrite or work.checkpoints.resumes)
        try:
            return work.run(sources, settings, html)
        except KeyboardInterrupt as error:
            if not work.kept or str(error):
                raise
            raise KeyboardInterrupt(
                f"Stopped before the end; model and metrics are in {str(place)!r}."
            ) from error


class _OneFit:
    """One fit on its way: who hears of it, where it is kept, and what is known of it so far.

    :ivar warned: all warnings so far.
    :ivar kept: which models are on the disk.
    """

    def __init__(self, reporter: Reporter, checkpoints: Checkpoints, place: Path | None) -> None:
        self.reporter, self.checkpoints, self.place = reporter, checkpoints, place
        self.warned, self.kept = list[str](), list[str]()
        self.figures: Record = {}
        self.holdout: Any = None
        self.model: Any = None
        self.report: Any = None

    def run(self, sources: Sources, settings: FitSettings, html: bool) -> FitOutput:
        """From the table to what was written."""
        began, figures, reporter = perf_counter(), self.figures, self.reporter
        with heard(self.warned), sites_kept_if_done(settings, self.checkpoints.resumes):
            with reporter.started(READING, sources) as progress:
                table = sources.read(settings, progress)
            release_unused()
            reporter.done(READING, table)
            settings = settled(table, settings)
            chosen = self.chosen(table, settings)
            self.holdout = hold(table, settings if chosen is None else chosen.settings)
            holdout = self.holdout
            reporter.done(HOLDING, holdout)
            with reporter.started(LOADING):
                figures |= data_figures(holdout)
            if chosen is not None:
                figures["automatic"] = chosen.to_dict()
            is_open = settings.kernel is None
            self.fit(is_open)
            held_out = self.scored(self.beside(is_open))
            if not holdout.streamed and self.holdout.settings.refit:
                self.fit_again()
            figures["seconds"] = perf_counter() - began
            notes = figures["notes"] = self.notes()
            data = () if holdout.streamed else holdout.everything.summary().rows()
            output = FitOutput(
                self.model,
                self.report,
                self.holdout.settings,
                figures,
                held_out,
                tuple(notes),
                data,
            )
            if self.place is not None:
                with reporter.started(WRITING) as progress:
                    names, more = write_fit(self.place, output, html=html, progress=progress)
                figures |= more
                reporter.done(WRITING, names)
        return output

    def chosen(self, duels: Any, settings: FitSettings) -> Automatic | None:
        """What takes the place of `auto` in the settings, None without any."""
        if not settings.is_automatic:
            return None
        prepare(duels, settings)  # what can be refused is refused before the comparison
        place, resume = self.checkpoints.file()
        with self.reporter.started(COMPARING) as progress:
            chosen = choose(duels, settings, checkpoint=place, resume=resume, callback=progress)
        self.reporter.done(COMPARING, chosen)
        return chosen

    def fit(self, is_open: bool) -> None:
        """Fit the model of the training duels, and settle what only a fit can tell of the kernel.

        :param is_open: no kernel was named.
        """
        holdout, figures, settings = self.holdout, self.figures, self.holdout.settings
        rng = default_rng(settings.seed)
        with self.reporter.started(PLACING):
            inputs = holdout.first_inputs(rng)
        if inputs is not None and not isinstance(inputs, np.ndarray):  # a number that was found
            figures["automatic_inducing"] = inputs.to_dict()
            self.reporter.done(PLACING, inputs)
        with self.reporter.started(FITTING, holdout) as watch:
            watch = watch or FitCallbacks()
            # Of a subset nothing is kept.
            part = settings.stream and settings.gradients_kind == SUBSET
            checkpoint = None if part else self.checkpoints.stage(FIT_FILE)
            self.model, self.report = fit_model(holdout, watch, checkpoint, inputs, rng)
            dated, decided = self.model.inputs.layout.dated, None
            if not holdout.streamed and dated:
                decided = decide_in_time(holdout, self.model, self.report, watch, is_open)
            elif not holdout.streamed and settings.kernel is None:
                decided = linear_if_as_good(holdout, self.model, self.report, inputs)
            if decided is not None:
                self.holdout, self.model = decided.holdout, decided.model
                self.report = decided.report
                if decided.told:
                    figures["in_time" if dated else "next_to_linear"] = decided.told
            self.model = integrated(self.model, self.holdout.settings)
        self.keep("fit")
        if not holdout.streamed and dated:
            figures["in_time"] = {**figures.get("in_time", {}), **time_figures(self.model)}

    def fit_again(self) -> None:
        """The same of all duels."""
        with self.reporter.started(REFITTING, self.holdout) as watch:
            checkpoint = self.checkpoints.stage(REFIT_FILE)
            again, self.report = refit_model(
                self.holdout, self.model, watch or FitCallbacks(), checkpoint
            )
            self.model = integrated(again, self.holdout.settings)
        self.keep("refit_fit")

    def notes(self) -> list[str]:
        """What to know about the fit so far, each once."""
        return [*dict.fromkeys([*fit_notes(self.figures), *self.warned])]

    def keep(self, name: str) -> None:
        """On the disk at once, whatever comes after it."""
        found = self.figures[name] = fit_figures(self.holdout, self.model, self.report)
        self.figures["notes"] = self.notes()
        if self.place is not None:
            write_model(self.place, self.model, self.figures)
            self.kept.append(name)
        self.reporter.done(FITTING, FitResult(found, self.report))
        for note in notes_of(found):
            self.reporter.note(note)

    def beside(self, is_open: bool) -> PreferenceGP | None:
        """A plainer model of the same duels, to be scored next to it: with tastes one without,
        after what is known of people; of dates with no kernel named one without dates. None for
        others, or without held-out duels."""
        holdout, stage, name = self.holdout, ALIKE, "fit_alike"
        if holdout.streamed:
            return None
        if self.model.terms.taste is not None:
            self.figures["people"] = people_figures(self.model)
            alike = replace(holdout.settings, tastes=False, taste=None, starts=1)
            plain = replace(holdout, settings=alike)
        elif self.model.inputs.layout.dated and is_open:
            stage, name, plain = UNDATED, "fit_without_dates", holdout.without_dates()
        else:
            return None
        if not holdout.num_test:
            return None
        with self.reporter.started(stage, plain) as watch:
            model, report = fit_model(plain, watch or FitCallbacks())
        self.figures[name] = fit_figures(plain, model, report)
        return model

    def scored(self, plain: PreferenceGP | None) -> HeldOut | None:
        """What was predicted for the held-out duels, None where there are none."""
        holdout, figures = self.holdout, self.figures
        if not holdout.num_test:
            self.reporter.done(SCORING, figures)
            return None
        with self.reporter.started(SCORING):
            found = predict_held_out(holdout, self.model, plain)
            figures["held_out"] = found.scores()
            if found.parts:
                figures["held_out_people"] = found.part_scores()
        curve = found.abstention()
        if curve:
            figures["held_out_abstention"] = curve
        outcomes, grades = found.table(OUTCOMES), found.table(GRADES)
        if outcomes or holdout.streamed:
            figures["held_out_outcomes"] = outcomes
        if grades:
            figures["held_out_grades"] = grades
        unseen = found.unseen_scores() if holdout.settings.split == "duels" else {}
        if unseen:
            figures["held_out_unseen_pairs"] = unseen
        self.reporter.done(SCORING, figures)
        if no_better_than_a_coin(figures["held_out"]):
            unused = [] if holdout.streamed else holdout.table.unused_columns
            others = f" Columns that were not read: {some_of(unused)}." * bool(unused)
            warnings.warn(said_of_a_coin(figures["held_out"], others), stacklevel=2)
        return found


def settings_of(sources: Sources, settings: FitSettings | None, options: Record) -> FitSettings:
    """How these are fitted: `settings`, or what is made of options by name.

    :raises ValueError: what `settings_from` and `FitSettings` raise.
    """
    leans = sources.leaning.pairs
    usual = {
        "stream": sources.must_stream,
        "noise_by_group": sources.noise_by is not None,
        "tastes": sources.person is not None,
        "dated": sources.time is not None,
        "leans": leans,
        "terms": sources.terms,
    }
    found = settings_from(FitSettings, settings, options, "a fit", usual, also=SOURCES)
    if sources.time is not None and found.split == DEFAULT_SPLIT and "split" not in options:
        found = replace(found, split=f"time:{sources.time}")
    if leans and not found.leans:
        found = replace(found, leans=leans)
    return replace(found, stream=True) if sources.must_stream else found


@contextmanager
def heard(kept: list[str]) -> Iterator[None]:
    """Keep what the package warns of, each once, and let it be shown as ever."""
    before = warnings.showwarning

    def show(message: Any, category: Any, filename: str, *rest: Any, **more: Any) -> None:
        text = str(message)
        ours = issubclass(category, UserWarning) and "sparse_prefgp" in filename
        if ours and text not in kept:
            kept.append(text)
        before(message, category, filename, *rest, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before
