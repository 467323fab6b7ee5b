"""From items and duels to a fitted, scored and written model: the one way, for every caller."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from sparse_prefgp.analysis.metrics import GRADES, OUTCOMES
from sparse_prefgp.analysis.verdicts import no_better_than_a_coin, said_of_a_coin
from sparse_prefgp.learning.notes import fit_notes, notes_of
from sparse_prefgp.support.machine import release_unused
from sparse_prefgp.support.words import some_of
from sparse_prefgp.workflow.automatic import Automatic, choose, linear_if_as_good, settled
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
    Holdout,
    StreamHoldout,
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
    SilentReporter,
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
    from sparse_prefgp.learning.checkpoint import Checkpoint
    from sparse_prefgp.learning.report import OptimisationReport
    from sparse_prefgp.models import PreferenceGP

# What `fit` takes by name along with settings.
SOURCES = tuple(one.name for one in fields(Sources) if one.name not in ("items", "duels"))


class FitCheckpoints(Protocol):
    """What a killed fit resumes from."""

    @property
    def resumes(self) -> bool:
        """Whether there is something to resume from."""
        ...

    def stage(self, name: str) -> Checkpoint | None:
        """That of one run of the optimiser."""
        ...

    def comparison(self) -> tuple[Path | None, bool]:
        """Where a comparison keeps its fits, and whether it resumes from some."""
        ...

    def reporting(self) -> AbstractContextManager[None]:
        """Around the whole fit: says what was kept of it when it ends before its end."""
        ...


class FitResult(NamedTuple):
    """A fit as it is reported: figures as in `metrics.json`, and what the optimiser says."""

    figures: Mapping[str, Any]
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
    checkpoints: FitCheckpoints | None = None,
    **options: Any,
) -> FitOutput:
    """Split duels, fit a model to the training ones, score it on the others, and say what to know.

    What `sparse-prefgp fit` does.

    :param items: path or data frame with one row per item, as for `read_duels`; or an (n, D) array
        in which ids are row numbers; None for the items that the duels name, or besides `Duels` and
        streams, which have their own.
    :param duels: path or data frame with columns `winner` and `loser`, as for `read_duels`; a (t,
        2) array of row numbers, winner first; `Duels`, whose features stay in the units that they
        have; or, in chunks, `StreamedDuels` or, with `stream=True`, what `stream_duels` takes. A
        folder of Parquet files is always read in chunks.
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
    checkpoints: FitCheckpoints | None = None,
) -> FitOutput:
    """What `fit` does, of values that have been checked."""
    place = None if out is None else Path(out)
    check_page(html, place, settings)
    work = _OneFit(reporter or SilentReporter(), checkpoints or _NoCheckpoints(), place)
    with alone(place), work.checkpoints.reporting():
        if place is not None:  # before a large table is read in vain
            check_folder(place, overwrite or work.checkpoints.resumes)
        try:
            return _fitted(sources, settings, work, html)
        except KeyboardInterrupt as error:
            if not work.kept or str(error):
                raise
            raise KeyboardInterrupt(
                f"Stopped before the end; model and metrics are in {str(place)!r}."
            ) from error


def _fitted(sources: Sources, settings: FitSettings, work: _OneFit, html: bool) -> FitOutput:
    with heard(work.warned), sites_kept_if_done(settings, work.checkpoints.resumes):
        with work.reporter.started(READING, sources) as progress:
            table = sources.read(settings, progress)
        release_unused()
        work.reporter.done(READING, table)
        settings = settled(table, settings)
        chosen = work.chosen(table, settings)
        holdout = hold(table, settings if chosen is None else chosen.settings)
        work.reporter.done(HOLDING, holdout)
        with work.reporter.started(LOADING):
            figures = data_figures(holdout)
        if chosen is not None:
            figures["automatic"] = chosen.to_dict()
        is_open = settings.kernel is None
        holdout, model, report = work.fitted(holdout, figures, is_open)
        if isinstance(holdout, Holdout) and model.inputs.layout.dated:
            figures["in_time"] = {**figures.get("in_time", {}), **time_figures(model)}
        plain = work.beside(holdout, model, figures, is_open)
        held_out = work.scored(holdout, model, figures, plain)
        if isinstance(holdout, Holdout) and holdout.settings.refit:
            model, report = work.fitted_again(holdout, model, figures)
        figures["seconds"] = time.perf_counter() - work.began
        notes = figures["notes"] = work.notes(figures)
        data = () if isinstance(holdout, StreamHoldout) else holdout.everything.summary().rows()
        output = FitOutput(model, report, holdout.settings, figures, held_out, tuple(notes), data)
        if work.place is not None:
            with work.reporter.started(WRITING) as progress:
                names, more = write_fit(work.place, output, html=html, progress=progress)
            figures.update(more)
            work.reporter.done(WRITING, names)
    return output


@dataclass(frozen=True, eq=False)
class _OneFit:
    """One fit on its way: who hears of it, and where it is kept."""

    reporter: Reporter
    checkpoints: FitCheckpoints
    place: Path | None
    warned: list[str] = field(default_factory=list)
    """All warnings so far."""
    kept: list[str] = field(default_factory=list)
    """Which models are on the disk."""
    began: float = field(default_factory=time.perf_counter)

    def chosen(self, duels: Any, settings: FitSettings) -> Automatic | None:
        """What takes the place of `auto` in the settings, None without any."""
        if not settings.is_automatic:
            return None
        prepare(duels, settings)  # what can be refused is refused before the comparison
        place, resume = self.checkpoints.comparison()
        with self.reporter.started(COMPARING) as progress:
            chosen = choose(
                duels,
                settings,
                kernel=settings.kernel,
                approximation=settings.approximation,
                checkpoint=place,
                resume=resume,
                callback=progress,
            )
        self.reporter.done(COMPARING, chosen)
        return chosen

    def fitted(
        self, holdout: Holdout | StreamHoldout, figures: dict[str, Any], is_open: bool
    ) -> tuple[Holdout | StreamHoldout, Any, Any]:
        """The duels with the settings as they were decided, the model of the training ones, and
        what the optimiser says of it.

        :param is_open: no kernel was named.
        """
        rng = np.random.default_rng(holdout.settings.seed)
        with self.reporter.started(PLACING):
            inputs = holdout.first_inputs(rng)
        if inputs is not None and not isinstance(inputs, np.ndarray):  # a number that was found
            figures["automatic_inducing"] = inputs.to_dict()
            self.reporter.done(PLACING, inputs)
        with self.reporter.started(FITTING, holdout) as watch:
            # Of a subset nothing is kept.
            settings = holdout.settings
            part = settings.stream and settings.gradients_kind == SUBSET
            checkpoint = None if part else self.checkpoints.stage(FIT_FILE)
            model, report = fit_model(holdout, watch or FitCallbacks(), checkpoint, inputs, rng)
            holdout, model, report = self._decided(
                holdout, model, report, inputs, watch or FitCallbacks(), figures, is_open
            )
            model = integrated(model, holdout.settings)
        self._keep("fit", holdout, model, report, figures)
        return holdout, model, report

    @staticmethod
    def _decided(
        holdout: Holdout | StreamHoldout,
        model: Any,
        report: Any,
        inputs: Any,
        watch: FitCallbacks,
        figures: dict[str, Any],
        is_open: bool,
    ) -> tuple[Holdout | StreamHoldout, Any, Any]:
        """What `fitted` returns, after what only a fit can tell of the kernel."""
        if isinstance(holdout, StreamHoldout):
            return holdout, model, report
        if model.inputs.layout.dated:
            name, decided = "in_time", decide_in_time(holdout, model, report, watch, is_open)
        elif holdout.settings.kernel is None:
            name = "next_to_linear"
            decided = linear_if_as_good(holdout, model, report, inputs)
        else:
            return holdout, model, report
        if decided.told:
            figures[name] = decided.told
        return decided.holdout, decided.model, decided.report

    def fitted_again(
        self, holdout: Holdout, model: PreferenceGP, figures: dict[str, Any]
    ) -> tuple[PreferenceGP, OptimisationReport]:
        """The same of all duels."""
        with self.reporter.started(REFITTING, holdout) as watch:
            checkpoint = self.checkpoints.stage(REFIT_FILE)
            again, report = refit_model(holdout, model, watch or FitCallbacks(), checkpoint)
            again = integrated(again, holdout.settings)
        self._keep("refit_fit", holdout, again, report, figures)
        return again, report

    def notes(self, figures: Mapping[str, Any]) -> list[str]:
        """What to know about the fit so far, each once."""
        return [*dict.fromkeys([*fit_notes(figures), *self.warned])]

    def _keep(
        self,
        name: str,
        holdout: Holdout | StreamHoldout,
        model: Any,
        report: Any,
        figures: dict[str, Any],
    ) -> None:
        """On the disk at once, whatever comes after it."""
        found = figures[name] = fit_figures(holdout, model, report)
        figures["notes"] = self.notes(figures)
        if self.place is not None:
            write_model(self.place, model, figures)
            self.kept.append(name)
        self.reporter.done(FITTING, FitResult(found, report))
        for note in notes_of(found):
            self.reporter.note(note)

    def beside(
        self, holdout: Holdout | StreamHoldout, model: Any, figures: dict[str, Any], is_open: bool
    ) -> PreferenceGP | None:
        """A plainer model of the same duels, to be scored next to it: with tastes one without,
        after what is known of people; of dates with no kernel named one without dates. None for
        others, or without held-out duels."""
        if isinstance(holdout, StreamHoldout):
            return None
        stage, name = ALIKE, "fit_alike"
        if model.terms.taste is not None:
            figures["people"] = people_figures(model)
            plain = holdout.without_tastes()
        elif model.inputs.layout.dated and is_open:
            stage, name, plain = UNDATED, "fit_without_dates", holdout.without_dates()
        else:
            return None
        if not holdout.num_test:
            return None
        with self.reporter.started(stage, plain) as watch:
            found, report = fit_model(plain, watch or FitCallbacks())
        figures[name] = fit_figures(plain, found, report)
        return found

    def scored(
        self,
        holdout: Holdout | StreamHoldout,
        model: Any,
        figures: dict[str, Any],
        plain: PreferenceGP | None = None,
    ) -> HeldOut | None:
        """What was predicted for the held-out duels, None where there are none."""
        if not holdout.num_test:
            self.reporter.done(SCORING, figures)
            return None
        with self.reporter.started(SCORING):
            found = predict_held_out(holdout, model, plain)
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
            unused = [] if isinstance(holdout, StreamHoldout) else holdout.table.unused
            others = f" Columns that were not read: {some_of(unused)}." * bool(unused)
            warnings.warn(said_of_a_coin(figures["held_out"], others), stacklevel=2)
        return found


class _NoCheckpoints:
    resumes = False

    def stage(self, name: str) -> None:
        return None

    def comparison(self) -> tuple[None, bool]:
        return None, False

    def reporting(self) -> AbstractContextManager[None]:
        return nullcontext()


def settings_of(
    sources: Sources, settings: FitSettings | None, options: Mapping[str, Any]
) -> FitSettings:
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
