"""A fit on the terminal: bars while it runs, and what came of each stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from sparse_prefgp.cli.console import (
    Output,
    clock,
    counting_bar,
    import_tensorflow,
    progress_bar,
)
from sparse_prefgp.cli.select import compare_bar
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.support.words import counted, some_of
from sparse_prefgp.tell.tables import facts_table
from sparse_prefgp.workflow import reporting as stages
from sparse_prefgp.workflow.automatic import NUMBER_NOTE
from sparse_prefgp.workflow.fit_telling import KERNEL, answer_parts, facts_of
from sparse_prefgp.workflow.holdout import FitCallbacks, Holdout, StreamHoldout
from sparse_prefgp.workflow.model_names import DEFAULT_ENGINE

if TYPE_CHECKING:
    from sparse_prefgp.learning.report import Progress
    from sparse_prefgp.models.streaming.inference import StreamProgress


class Printer(stages.Reporter):
    """Prints a fit."""

    def __init__(self, console: Output, out: Path | None, show_columns: bool = False) -> None:
        """Print to a console.

        :param out: folder of the output, or None.
        :param show_columns: print how the columns of a table from files were read.
        """
        self._console, self._out, self._show_columns = console, out, show_columns
        self._holdout: Any = None
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
        if stage == stages.PLACING and not self._holdout.streamed:
            return console.status("Placing inducing inputs …")
        if stage in (stages.FITTING, stages.ALIKE, stages.UNDATED, stages.REFITTING):
            return _passes(console) if about.streamed else _steps(console, about, stage)
        if stage == stages.SCORING:
            return console.status("Scoring the held-out duels …")
        if stage == stages.WRITING:
            if not self._holdout.streamed:
                return counting_bar(console, "Ranking the items and drawing")
            if self._holdout.train.items is not None:
                return counting_bar(console, "Ranking the items")
        return nullcontext()

    def done(self, stage: str, result: Any) -> None:
        """Print what came of it."""
        if stage == stages.READING and result.read_as is not None:
            self._console.tell(*result.read_as.lines())
        elif stage == stages.HOLDING:
            self._holdout = result
            if result.streamed:
                _print_stream(self._console, result)
            else:
                _print_data(self._console, result, self._show_columns)
        elif stage == stages.COMPARING:
            choice = "The choice was made with the training part alone."
            self._console.tell(*result.comparison.parts(), choice)
            if result.settings.inducing_share is not None:
                self._console.tell(NUMBER_NOTE)
        elif stage == stages.PLACING:
            reached = result.share <= result.threshold
            self._console.print(Text(f"Found: {result}", style="" if reached else "yellow"))
        elif stage == stages.FITTING:
            kernel = str(self._holdout.settings.kernel_choice)  # that the fit began with
            told = [
                str(fact)
                for fact in facts_of(result.figures)
                if fact.told or (fact.label == KERNEL and fact.text != kernel)
            ]
            self._console.tell(*told)
        elif stage == stages.SCORING:
            self._console.tell(*answer_parts(result))
        elif stage == stages.WRITING:
            holdout, noun = self._holdout, self._holdout.train.noun
            everything = holdout.settings.refit or not holdout.num_test
            self._console.say(f"Written to {self._out}: {', '.join(result)}")
            part = f"all {noun}" if everything else f"the training {noun} alone"
            remedy = "" if everything or holdout.streamed else "; --refit fits it to all of them"
            self._console.tell(f"The model that is kept was fitted to {part}{remedy}.")

    def note(self, text: str) -> None:
        """In yellow, and once."""
        if text not in self._noted:
            self._noted.add(text)
            self._console.note(text)


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
        stages.UNDATED: "Fitting without dates",
        stages.REFITTING: f"Fitting to all {whole.events.noun}",
    }[stage]
    unit = whole.events.unit
    with progress_bar(console, label, settings.max_iterations, duels, unit) as bar:
        yield FitCallbacks(bar)


@contextmanager
def _passes(console: Output) -> Iterator[FitCallbacks]:
    """A bar over the rows of each pass: duels a second and time left of it; steps of the optimiser,
    evidence per duel, and the time left if it takes all of its steps. In 80 columns."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=4),
        TextColumn("{task.fields[rows]}"),
        TextColumn("{task.fields[speed]}"),
        TextColumn("{task.fields[steps]}"),
    )
    began: Progress | None = None
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("Preparing", total=1, rows="", speed="", steps="")

        def step(at: Progress) -> None:
            nonlocal began
            if began is None or began.of != at.of:
                began = at
            done, left = at.iteration - began.iteration, at.max_iterations - at.iteration
            steps = f"step {at.iteration}/{at.max_iterations} {at.per_duel:.4f}"
            if done:
                steps += f" ≤ {clock(left * (at.seconds - began.seconds) / done)}"
            bar.update(task, steps=steps)
            if at.of in ("memory", "subset"):  # where no pass moves the bar
                name = "In memory" if at.of == "memory" else "Of a subset"
                bar.update(task, description=name, total=at.max_iterations, completed=at.iteration)

        def progress(at: StreamProgress) -> None:
            name = f"{at.what} {at.round}" if at.round else at.what
            bar.update(
                task,
                description=name.capitalize(),
                total=at.total,
                completed=at.rows,
                rows=f"{_short(at.rows)}/{_short(at.total)}",
                speed=f"{_short(at.duels_per_second)} duels/s {clock(at.seconds_left)} left",
            )

        yield FitCallbacks(step, progress)


def _short(number: float) -> str:
    """In at most five characters."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= unit:
            scaled = number / (1e3 if name == "k" else unit)
            return f"{scaled:.0f}{name}" if scaled >= 99.95 else f"{scaled:.1f}{name}"
    return f"{number:.0f}"


def _print_stream(console: Output, holdout: StreamHoldout) -> None:
    rows = holdout.num_test
    held = f"{rows:,} rows" if rows else "none"
    how = f"the last {held}" if holdout.split == "last rows" and rows else held
    by = "" if holdout.split == "last rows" else f", by {holdout.split}"
    console.tell(f"{holdout.train!r}; held out{by}: {how}")
    transform = holdout.train.transform
    if transform is not None and transform.reduced is not None:
        console.tell(f"Features made of {transform.reduced}")


def _print_data(console: Output, holdout: Holdout, show_columns: bool) -> None:
    settings, noun = holdout.settings, holdout.train.noun
    rows = holdout.everything.summary().rows()
    if holdout.table.read_as is not None:  # which has told what is not used
        rows = [row for row in rows if not row[0].startswith("columns of the ")]
    console.tell(facts_table("Data", rows))
    transform = holdout.train.transform
    if show_columns and transform is not None:
        console.tell(*column_lines(transform))
    if not holdout.table.has_features:
        own = "a utility in time" if settings.kernel_choice.in_time else "an effect"
        known = "; a linear probit knows the covariates alone" * bool(holdout.train.covariate_names)
        console.tell(f"Items without features: each has {own} of its own{known}")
    console.tell(holdout.split.description)
    number = holdout.num_inducing
    inducing = "" if number is None else f", {number:,} inducing inputs"
    if settings.inducing_share is not None:
        inducing = ", inducing inputs whose number is found first"
    test = f"; {holdout.num_test:,} test {noun}" if holdout.num_test else ""
    engine = "" if settings.engine == DEFAULT_ENGINE else f", engine {settings.engine_choice}"
    console.tell(
        f"Model: {settings.approximation_choice}, {settings.kernel_choice} kernel{inducing}"
        f"{engine}, {holdout.num_train:,} training {noun}{test}"
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
        f"{counted(len(text.transform.directions.terms.names), 'word')}; "
        f"{text.transform.scored or 'no score of words'})"
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
