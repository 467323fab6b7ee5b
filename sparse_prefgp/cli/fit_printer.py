"""A fit on the terminal: bars while it runs, and what came of each stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.text import Text

from sparse_prefgp.analysis.metrics import ONE_UTILITY
from sparse_prefgp.analysis.verdicts import (
    called_right,
    legend,
    verdict,
    verdicts,
    verdicts_on_sets,
)
from sparse_prefgp.cli.console import (
    UNSEEN_TITLE,
    Output,
    answers_tables,
    counting_bar,
    grades_table,
    import_tensorflow,
    outcomes_table,
    progress_bar,
    rows_table,
    scores_table,
)
from sparse_prefgp.cli.select import compare_bar, print_comparison
from sparse_prefgp.cli.streaming import passes_bar
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.support.words import counted, some_of
from sparse_prefgp.workflow import reporting as stages
from sparse_prefgp.workflow.automatic import NUMBER_NOTE, Automatic
from sparse_prefgp.workflow.fit_report import PEOPLE_PARTS, people_lines, time_lines
from sparse_prefgp.workflow.folder import COEFFICIENTS
from sparse_prefgp.workflow.holdout import FitCallbacks, Holdout, StreamHoldout
from sparse_prefgp.workflow.model_names import DEFAULT_ENGINE
from sparse_prefgp.workflow.workflow import FitResult


class Printer:
    """Prints a fit; see `Reporter`."""

    def __init__(self, console: Output, out: Path | None, show_columns: bool = False) -> None:
        """Print to a console.

        :param out: folder of the output, or None.
        :param show_columns: print how the columns of a table from files were read.
        """
        self._console, self._out, self._show_columns = console, out, show_columns
        self._holdout: Holdout | StreamHoldout | None = None
        self._noted: set[str] = set()

    def started(self, stage: str, about: Any = None) -> AbstractContextManager[Any]:
        """A bar or a spinner; loads TensorFlow when it is time."""
        console = self._console
        if stage == stages.READING and about.can_stream:
            return counting_bar(console, "Reading the duels")
        if stage == stages.COMPARING:
            return compare_bar(console)
        if stage == stages.LOADING:
            import_tensorflow(console)
        if stage == stages.PLACING and not isinstance(self._holdout, StreamHoldout):
            return console.status("Placing inducing inputs …")
        if stage in (stages.FITTING, stages.ALIKE, stages.REFITTING):
            return self._bar(about, stage)
        if stage == stages.SCORING:
            return console.status("Scoring the held-out duels …")
        if stage == stages.WRITING:
            if not isinstance(self._holdout, StreamHoldout):
                return counting_bar(console, "Ranking the items and drawing")
            if self._holdout.train.items is not None:
                return counting_bar(console, "Ranking the items")
        return nullcontext()

    def done(self, stage: str, result: Any) -> None:
        """Print what came of it."""
        if stage == stages.HOLDING:
            self._holdout = result
            if isinstance(result, StreamHoldout):
                _print_stream(self._console, result)
            else:
                _print_data(self._console, result, self._show_columns)
        elif stage == stages.COMPARING:
            _print_choice(self._console, result)
        elif stage == stages.PLACING:
            reached = result.share <= result.threshold
            self._console.print(Text(f"Found: {result}", style="" if reached else "yellow"))
        elif stage == stages.FITTING:
            _print_fit(self._console, result)
        elif stage == stages.SCORING:
            assert self._holdout is not None
            _print_scores(self._console, self._holdout, result)
        elif stage == stages.WRITING:
            self._print_written(result)

    def note(self, text: str) -> None:
        """In yellow, and once."""
        if text not in self._noted:
            self._noted.add(text)
            self._console.print(Text(f"Note: {text}", style="yellow"))

    def _bar(self, holdout: Any, stage: str) -> AbstractContextManager[Any]:
        return (
            passes_bar(self._console) if holdout.streamed else _steps(self._console, holdout, stage)
        )

    def _print_written(self, names: Sequence[str]) -> None:
        holdout = self._holdout
        assert holdout is not None
        everything = holdout.settings.refit or not holdout.num_test
        noun = holdout.noun
        self._console.print(Text(f"Written to {self._out}: {', '.join(names)}"), soft_wrap=True)
        part = f"all {noun}" if everything else f"the training {noun} alone"
        remedy = "" if everything or holdout.streamed else "; --refit fits it to all of them"
        self._console.print(Text(f"The model that is kept was fitted to {part}{remedy}."))


@contextmanager
def _steps(console: Output, holdout: Holdout, stage: str) -> Iterator[FitCallbacks]:
    """A bar over the steps of the optimiser."""
    settings = holdout.settings
    # As how many duels those of the evidence count, known before the model is there.
    whole = holdout.everything if stage == stages.REFITTING else holdout.train
    duels = settings.approximation_choice.size or float(whole.effective_counts.sum())
    label = {
        stages.FITTING: "Fitting",
        stages.ALIKE: "Fitting one utility for all",
        stages.REFITTING: f"Fitting to all {whole.events.noun}",
    }[stage]
    unit = whole.events.unit
    with progress_bar(console, label, settings.max_iterations, duels, unit) as bar:
        yield FitCallbacks(bar)


def _print_choice(console: Output, chosen: Automatic) -> None:
    print_comparison(console, chosen.comparison)
    console.print(Text("The choice was made with the training part alone."))
    if chosen.settings.inducing_share is not None:
        console.print(Text(NUMBER_NOTE))


def _print_stream(console: Output, holdout: StreamHoldout) -> None:
    rows = holdout.num_test
    held = f"{rows:,} rows" if rows else "none"
    how = f"the last {held}" if holdout.split == "last rows" and rows else held
    by = "" if holdout.split == "last rows" else f", by {holdout.split}"
    console.print(Text(f"{holdout.train!r}; held out{by}: {how}"))
    transform = holdout.train.transform
    if transform is not None and transform.reduced is not None:
        console.print(Text(f"Features made of {transform.reduced}"))


def _print_data(console: Output, holdout: Holdout, show_columns: bool) -> None:
    settings, sets = holdout.settings, holdout.everything.events.has_sets
    noun = holdout.noun
    console.print(rows_table("Data", holdout.everything.summary().rows()))
    transform = holdout.train.transform
    if show_columns and transform is not None:
        for line in column_lines(transform):
            console.print(Text(line))
    if not holdout.table.has_features:
        own = "a utility in time" if settings.kernel_choice.in_time else "an effect"
        rival = "conditional logit is equal shares" if sets else "linear probit is a coin"
        if holdout.train.covariate_names:
            rival = "linear probit knows the covariates alone"
        text = f"Items without features: each has {own} of its own; a {rival}"
        console.print(Text(text))
    console.print(Text(holdout.split.description))
    number = holdout.num_inducing
    inducing = "" if number is None else f", {number:,} inducing inputs"
    if settings.inducing_share is not None:
        inducing = ", inducing inputs whose number is found first"
    test = f"; {holdout.num_test:,} test {noun}" if holdout.num_test else ""
    engine = "" if settings.engine == DEFAULT_ENGINE else f", engine {settings.engine_choice}"
    console.print(
        Text(
            f"Model: {settings.approximation_choice}, {settings.kernel_choice} kernel{inducing}"
            f"{engine}, {holdout.num_train:,} training {noun}{test}"
        )
    )


def column_lines(transform: FeatureTransform) -> list[str]:
    """Which columns were read as numbers, levels, texts and vectors, and what a reduction keeps."""
    reduced = transform.reduced
    parts = (transform,) if reduced is None else (transform, reduced.inputs)
    coded = [
        f"{name} ({len(levels)} levels)"
        for part in parts
        for name, levels in zip(part.categorical, part.categories, strict=True)
    ]
    read = [
        f"{text.column} ({counted(len(text.transform.statistics), 'statistic')}, "
        f"{counted(text.transform.directions.size, 'direction')} of "
        f"{counted(len(text.transform.directions.words), 'word')})"
        for text in transform.texts
    ]
    kinds: dict[str, Sequence[str]] = {
        "Numeric features": transform.numeric_columns,
        "Categorical, one-hot encoded": coded,
        "Texts": read,
    }
    if reduced is not None:
        kept = reduced.reduction.shares().items()
        kinds["Reduced, with the share of the variance that is kept"] = [
            f"{name} {100.0 * share:.0f} %" for name, share in sorted(kept, key=lambda one: one[1])
        ]
    return [f"{kind}: {some_of(names)}" for kind, names in kinds.items() if names]


def _print_fit(console: Output, fitted: FitResult) -> None:
    fit, report = fitted
    how = ""
    if fit.get("gradients"):
        of = "exact gradients from chunks"
        if fit["subset"] is not None:
            of = f"gradients from {fit['subset']:,} random rows"
        how = f" ({of}, {fit['evaluations']:,} evaluations of all duels)"
    unit = fit["unit"]
    if fit["weight"] is not None:
        unit = f"unit of weight (weights add up to {fit['weight']:,.4g})"
    lines = [
        f"Log evidence {fit['log_evidence']:,.2f} nats, {fit['log_evidence_per_duel']:z.4f} per "
        f"{unit}, after {counted(fit['iterations'], 'iteration')} in {fit['seconds']:.1f} s{how}"
    ]
    starts = fit.get("starts", ())
    if len(starts) > 1:
        values = [start["log_evidence"] for start in starts]
        shown = ", ".join("not finite" if v is None else f"{v:,.2f}" for v in values)
        number = fit["kept_start"] + 1
        lines.append(f"Best of {len(values)} starts: number {number} (log evidence {shown})")
    if fit["optimiser_converged"]:
        lines.append(f"The optimiser {fit['optimiser_message']}")
    variances = ", ".join(f"{name} {value:.3g}" for name, value in fit["kernel_variances"].items())
    lines.append(f"Kernel variance, in units of the noise: {variances}")
    if fit["margin"] is not None:
        known = "as given" if fit["fixed_margin"] else "learned"
        lines.append(f"Margin within which a duel is a tie: {fit['margin']:.3g}, {known}")
    rows, leans = fit.get("coefficients") or [], fit.get("leans") or []
    for row in rows[: len(rows) - sum(lean["groups"] for lean in leans)]:
        lines.append(
            f"Coefficient of {row['name']}: {row['mean']:.3g} (90 % interval {row['lower']:.3g} to "
            f"{row['upper']:.3g})"
        )
    for lean in leans:
        lines.append(
            f"{counted(lean['groups'], 'label')} in {lean['by']} lean by {lean['covariate']} with "
            f"the standard deviation {lean['variance'] ** 0.5:.3g}; each is in {COEFFICIENTS}"
        )
    if fit["grades"] is not None:
        cuts = ", ".join(f"{cut:.3g}" for cut in fit["cuts"])
        unsaid = fit["grades"]["steps_by_prior"]
        note = (
            "; by the prior, as nobody used a grade next to it: step " + ", ".join(map(str, unsaid))
            if unsaid
            else ""
        )
        lines.append(f"Cuts of the grades: {cuts}{note}")
    for ratios, what, whose in (
        (fit.get("noise_ratios"), "Noise variance", "that"),
        (fit.get("cut_scales"), "Margin and cuts", "those"),
    ):
        if ratios is None:
            continue
        several = (
            f"{ratios['min']:.2g} to {ratios['max']:.2g} times {whose} of the model, median "
            f"{ratios['median']:.2g}"
        )
        one = f"{ratios['median']:.2g} times {whose} of the model"
        groups = ratios["groups"]
        text = f"{groups:,} groups: {several}" if groups > 1 else f"the one group: {one}"
        lines.append(f"{what} of {text}")
    if fit["converged"] and how:
        lines.append(f"Inference {fit['inference']}")
    elif fit["converged"]:
        lines.append(f"Inference converged in {counted(report.inference.sweeps, 'sweep')}")
    for line in lines:
        console.print(Text(line))


def _print_scores(
    console: Output, holdout: Holdout | StreamHoldout, figures: Mapping[str, Any]
) -> None:
    scores, outcomes = figures["held_out"], figures.get("held_out_outcomes")
    if "model" not in scores:  # of answers about sets
        for table in answers_tables(scores):
            console.print(table)
        for part, each in scores.items():
            for line in verdicts_on_sets(each, "choice" if part == "choices" else "answer"):
                console.print(Text(line))
        _print_people(console, figures)
        return
    title = "Held-out duels that one side won" if outcomes else "Held-out duels"
    if scores:
        console.print(Text(called_right(scores, with_ties=bool(outcomes))))
        console.print(scores_table(title, {"": scores}))
        console.print(Text(legend(scores)))
        console.print()
    if outcomes:
        console.print(outcomes_table(outcomes))
    if figures.get("held_out_grades"):
        console.print(grades_table(figures["held_out_grades"]))
    # With tastes a pair is new where this person was not asked: those parts are of people.
    unseen = {} if "held_out_people" in figures else figures.get("held_out_unseen_pairs")
    if unseen and "either_order" in unseen:
        console.print(scores_table(UNSEEN_TITLE, {"": unseen["either_order"]}))
    for line in verdicts(scores):
        console.print(Text(line))
    _print_people(console, figures)
    for line in time_lines(figures.get("in_time")):
        console.print(Text(line))


def _print_people(console: Output, figures: Mapping[str, Any]) -> None:
    """With tastes: known and new people apart, how much is personal, and who differs most."""
    for name, part in figures.get("held_out_people", {}).items():
        heading = PEOPLE_PARTS[name]
        if "model" in part:
            console.print(scores_table(heading, {"": part}))
        else:
            console.print(Text(heading, style="bold"))
            for table in answers_tables(part):
                console.print(table)
        for each in [part] if "model" in part else part.values():
            if ONE_UTILITY in each:
                unit = "duel" if "model" in part else "answer"
                console.print(Text(verdict(each, ONE_UTILITY, unit)))
    for line in people_lines(figures.get("people")):
        console.print(Text(line))
