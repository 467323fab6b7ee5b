"""What all commands share: tables, the progress bar, and errors as one sentence."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sparse_prefgp.analysis.verdicts import rows_in
from sparse_prefgp.cli.output_options import OutputOptions
from sparse_prefgp.io.answers import NONE
from sparse_prefgp.io.choices import CHOICE_SET
from sparse_prefgp.support.machine import short_of_memory
from sparse_prefgp.support.mistakes import is_mistake
from sparse_prefgp.support.quiet import held_back_stderr
from sparse_prefgp.support.words import escaped, id_text

if TYPE_CHECKING:
    from sparse_prefgp.learning.report import Progress
    from sparse_prefgp.models import PreferenceGP

MISTAKE = 2
INTERRUPTED, STOPPED = 130, "Stopped before the end; no file was left half written."
# Characters that names in a table have at least, and more than any table takes.
_LEAST_WIDTH, _UNBOUNDED = 12, 100_000
# Which Keras TensorFlow imports; read once.
_KERAS = "TF_USE_LEGACY_KERAS"
UNSEEN_TITLE = "Of these, pairs never compared in training"
SCORE_COLUMNS = {
    name: name.replace("_", " ")
    for name in ("accuracy", "nlp_nats", "nlp_bits", "brier", "calibration_error")
}
OUTCOME_COLUMNS = {
    "accuracy": "accuracy",
    "nlp_nats": "nlp nats",
    "tie_rate": "ties",
    "predicted_tie_rate": "ties predicted",
    "tie_calibration_error": "calibration of ties",
}

CHOICE_COLUMNS = {
    "nlp_nats": "nlp nats",
    "nlp_se": "± of it",
    "hit_rate": "hit rate",
    "brier": "brier",
    "calibration_error": "calibration error",
}
ANSWER_COLUMNS = {"nlp_nats": "nlp nats", "nlp_se": "± of it"}

GRADE_COLUMNS = {
    "accuracy": "accuracy",
    "nlp_nats": "nlp nats",
    "mean_distance": "levels off",
    "calibration_error": "calibration error",
}


@contextmanager
def sentences(
    quiet: bool = False, as_json: bool = False, threads: int | None = None
) -> Iterator[Output]:
    """Errors that a person can mend become one sentence and exit code 2; hands out a console.

    Faults of the program pass, and end it with exit code 1.

    Our warnings become notes, each once: on the console, or on the error stream where standard
    output is to hold the result alone.
    """
    try:
        manners = OutputOptions(quiet, as_json, threads)
        console = Output(manners)
        notes = (
            PlainConsole(stderr=True, highlight=False, soft_wrap=True)
            if manners.silent
            else console
        )
        with _notes(notes, console.notes):
            yield console
    except BrokenPipeError:  # whoever reads the output has had enough: not worth a sentence
        raise
    except OSError as error:
        _stop(f"Error: {_os_sentence(error)}", MISTAKE, error)
    except Exception as error:
        # Memory that did not suffice is the machine's, and not a fault of ours.
        sentence = str(error) if is_mistake(error) else short_of_memory(error)
        if not sentence:
            raise
        _stop(f"Error: {sentence}", MISTAKE, error)
    except KeyboardInterrupt as error:
        # Whoever raised it on purpose says what was kept.
        _stop(str(error) or STOPPED, INTERRUPTED, error)


class PlainConsole(Console):
    """A console on which no text that is shown steers the terminal."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """As of `rich`, control characters of texts escaped."""
        for segment in super().render(renderable, options):
            if segment.control is None:
                yield Segment(escaped(segment.text), segment.style)
            else:
                yield segment


class Output(PlainConsole):
    """The console of a command; silent where only mistakes or only the result are wanted."""

    def __init__(self, manners: OutputOptions | None = None) -> None:
        self.manners = manners or OutputOptions()
        self.notes: list[str] = []  # warnings so far
        super().__init__(highlight=False, quiet=self.manners.silent)

    def finish(self, result: Any, out: Path | None) -> None:
        """Say where it was written, if it was, and print the result, if as JSON."""
        if out is not None:
            self.print(Text(f"Written to {out}."), soft_wrap=True)
        self.manners.emit(result)


def _os_sentence(error: OSError) -> str:
    if error.strerror is None:  # one of ours, which is a sentence already
        return str(error)
    where = "" if error.filename is None else f" for {os.fsdecode(error.filename)!r}"
    return (
        f"The system reports {error.strerror!r}{where}; check that disk space and permissions "
        "suffice, or give another place."
    )


def _stop(message: str, code: int, error: BaseException) -> None:
    # One line, not wrapped, so that scripts can read it.
    typer.echo(escaped(" ".join(message.split())), err=True)
    raise typer.Exit(code) from error


@contextmanager
def _notes(console: Console, shown: list[str]) -> Iterator[None]:

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: str | None = None,
    ) -> None:
        text = str(message)
        # Other packages' deprecations mean nothing to whoever runs a command.
        if "sparse_prefgp" in filename and text not in shown:
            shown.append(text)
            console.print(Text(f"Note: {text}", style="yellow"))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def open_model(console: Output, path: Path) -> PreferenceGP:
    """A saved model, and TensorFlow with it."""
    from sparse_prefgp.disk.model_folder import find_model

    find_model(path)  # a wrong path is refused before anything slow
    import_tensorflow(console)
    from sparse_prefgp.disk.saving import load

    with console.status("Reading the model …"):
        return load(path)


def kept_from(path: Path) -> str:
    """What the folder of a fit says its model has learned from, where that is not all there was;
    empty otherwise."""
    from sparse_prefgp.disk.model_folder import find_model
    from sparse_prefgp.learning.notes import learned_from
    from sparse_prefgp.workflow.folder import METRICS, MODEL, PROGRAM

    place = find_model(path).resolve()
    if place.name != MODEL:
        return ""
    try:
        figures = json.loads((place.parent / METRICS).read_text(encoding="utf-8"))
        ours = figures["program"] == PROGRAM and "refit_fit" not in figures
        partly = ours and figures["data"]["train_duels"] < figures["data"]["duels"]
        return learned_from(figures) if partly else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def import_tensorflow(console: Output) -> None:
    """Import the slow packages without the notices they print at the start."""
    logging.getLogger("absl").setLevel(logging.ERROR)
    with console.status("Loading TensorFlow …"), held_back_stderr():
        import_packages(console.manners.limit_threads)


def import_packages(prepare: Callable[[], None]) -> None:
    """Import the slow packages without those parts that no command needs (docs/command-line.md).

    :param prepare: called when TensorFlow is there and nothing has computed yet.
    """
    with _older_keras():
        # Before TensorFlow: otherwise it brings its layers and experiments.
        import tensorflow_probability  # noqa: F401  isort: skip
        import tensorflow as tf

        prepare()
        tf.get_logger().setLevel(logging.ERROR)
        from check_shapes import set_rewrite_docstrings

        set_rewrite_docstrings(None)  # those of GPflow's functions, which take it a second to parse
        import sparse_prefgp.models.preference_gp  # noqa: F401


@contextmanager
def _older_keras() -> Iterator[None]:
    """TensorFlow imports one Keras whole; this one TensorFlow Probability imports in any case."""
    if "tensorflow" in sys.modules or _KERAS in os.environ:
        yield
        return
    os.environ[_KERAS] = "1"
    try:
        yield
    finally:
        del os.environ[_KERAS]


def rows_table(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """A table of labels and values."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for label, value in rows:
        table.add_row(Text(label), Text(value))
    return table


def scores_table(
    title: str,
    parts: Mapping[str, Mapping[str, Mapping[str, float]]],
    columns: Mapping[str, str] = SCORE_COLUMNS,
    unit: str = "duels",
) -> Table:
    """Scores, one row per predictor.

    :param parts: of the test duels, with their headings, which may be empty.
    :param columns: names of the scores, with their headings.
    :param unit: what was scored, the name of its number.
    """
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.padding = (0, 1, 0, 0)  # so that all columns fit in 80 characters
    table.add_column("", no_wrap=True)
    for heading in (*columns.values(), unit):
        table.add_column(heading, justify="right")
    for heading, scores in parts.items():
        if heading:
            table.add_row(Text(heading, style="italic"))
        for name, label in rows_in(scores):
            figures = scores[name]
            cells = [f"{figures[column]:.4f}" for column in columns]
            table.add_row(label, *cells, f"{figures[unit]:,}")
        table.add_section()
    return table


def outcomes_table(
    scores: Mapping[str, Mapping[str, float]], what: str = "Held-out duels"
) -> Table:
    """Scores of win, tie and loss over all duels, called `what`, one row per predictor."""
    return scores_table(f"{what}: win, tie or loss", {"": scores}, OUTCOME_COLUMNS)


def answers_tables(
    scores: Mapping[str, Mapping[str, Mapping[str, float]]], what: str = "Held-out"
) -> list[Table]:
    """Scores of choices and of other answers about sets, a table of each that there are."""
    shown = {"choices": (CHOICE_COLUMNS, "choices"), "rankings": (ANSWER_COLUMNS, "answers")}
    return [
        scores_table(f"{what} {name}", {"": scores[name]}, columns, unit)
        for name, (columns, unit) in shown.items()
        if name in scores
    ]


def grades_table(scores: Mapping[str, Mapping[str, float]], what: str = "Held-out duels") -> Table:
    """Scores of the grades over all duels that were graded, one row per predictor."""
    return scores_table(f"{what}: grades", {"": scores}, GRADE_COLUMNS)


@contextmanager
def progress_bar(
    console: Console, label: str, max_iterations: int, duels: float, unit: str
) -> Iterator[Callable[[Progress], None]]:
    """A bar over the iterations of `optimise`: evidence per unit, gradient, sweeps, time left.

    The time left is the most it can take: the optimiser often stops before the last iteration.
    "about" stands before the evidence of sites that have not converged.
    """
    columns: Sequence[Any] = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=8),  # so that a line of 80 characters holds all
        MofNCompleteColumn(),
        TextColumn("{task.fields[evidence]}"),
        TextColumn("{task.fields[effort]}"),
        TextColumn("{task.fields[left]}"),
    )
    with Bar(*columns, console=console) as bar:
        task = bar.add_task(label, total=max_iterations, evidence="preparing", effort="", left="")
        seen: list[float] = []  # seconds after each iteration

        def update(progress: Progress) -> None:
            seen.append(progress.seconds)
            # The first holds the compilation and says nothing about the rest.
            each = (seen[-1] - seen[0]) / max(len(seen) - 1, 1)
            total = progress.starts * max_iterations
            reached = (progress.start - 1) * max_iterations + progress.iteration
            several = f", start {progress.start}/{progress.starts}" if progress.starts > 1 else ""
            bar.update(
                task,
                description=label + several,
                total=total,
                completed=reached,
                evidence=f"evidence per {unit} {progress.log_evidence / duels:.4f}",
                effort=f"{progress.sweeps:,} sweeps",
                left=f"≤ {clock(each * (total - reached))} left" if len(seen) > 1 else "",
            )

        yield update
        done = int(bar.tasks[0].completed)
        # An optimiser that stopped early has finished, so the bar is full.
        bar.update(task, total=done, completed=done, left="")
        if not seen:
            bar.update(task, evidence="no step improves on the starting values")


@contextmanager
def counting_bar(console: Console, label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work whose size is known: called with what is done and the total."""
    columns: Sequence[Any] = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,}/{task.total:,}"),
        TimeRemainingColumn(),
    )
    bar = Bar(*columns, console=console)
    task = bar.add_task(label, total=1)
    # From the first step on: no bar of nothing stays where the work is refused.
    begun = False

    def update(done: int, total: int) -> None:
        nonlocal begun
        if not begun:
            begun = True
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield update
    finally:
        if begun:
            bar.stop()


@dataclass
class Cells:
    """A table of cells that always shows the columns named in `left`."""

    title: str
    columns: dict[str, list[str]]
    """Cells by heading."""
    left: Sequence[str]
    """Aligned there; they may fold, to no less than 12 characters or what they have."""
    spare: Sequence[str] = ()
    """Headings of columns that go, in this order, where the width does not suffice; a line below
    says which went.
    """
    padding: tuple[int, int, int, int] = (0, 2, 0, 0)
    """Of every cell: above, right, below, left."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The widest table that fits, and which columns it is without."""
        unbounded = options.update(max_width=_UNBOUNDED)
        spare = [name for name in self.spare if name in self.columns]
        gone: list[str] = []
        while True:
            narrow = self._table(gone, _LEAST_WIDTH)
            if Measurement.get(console, unbounded, narrow).maximum <= options.max_width:
                break
            if not spare:
                break
            gone.append(spare.pop(0))
        yield self._table(gone)
        if gone:
            names = " and ".join(filter(None, [", ".join(gone[:-1]), gone[-1]]))
            yield Text(f"In {options.max_width} characters there is no room for: {names}.")

    def _table(self, gone: Sequence[str], widest: int | None = None) -> Table:
        """Without some columns; those on the left at most so wide."""
        table = Table(title=self.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.padding = self.padding
        shown = {name: cells for name, cells in self.columns.items() if name not in gone}
        for name, cells in shown.items():
            if name in self.left:
                longest = max(cell_len(text) for text in (name, *cells))
                least = min(_LEAST_WIDTH, longest)
                table.add_column(name, overflow="fold", min_width=least, max_width=widest)
            else:
                table.add_column(name, justify="right", no_wrap=True)
        for row in zip(*shown.values(), strict=True):
            table.add_row(*map(Text, row))
        return table


def cells_table(
    title: str,
    columns: Mapping[str, Iterable[str]],
    left: Sequence[str],
    spare: Sequence[str] = (),
) -> Cells:
    """A table from columns of text; those in `left` are aligned there and may fold, and those in
    `spare` are left out, in this order, where they do not fit."""
    return Cells(title, {name: list(cells) for name, cells in columns.items()}, left, spare)


def intervals(lower: Iterable[float], upper: Iterable[float]) -> list[str]:
    """Intervals as text."""
    return [f"{low:z.3f} to {high:z.3f}" for low, high in zip(lower, upper, strict=True)]


def described(frame: Any, names: Sequence[str]) -> dict[str, list[str]]:
    """Columns of alternatives as text: missing cells are empty, and of an alternative of which
    nothing is said the first one is `none`."""
    columns = {name: [str(x) if id_text(x) else "" for x in frame[name]] for name in names}
    said = [name for name in names if name not in (CHOICE_SET, NONE)]
    for i in range(len(frame)):
        if said and not any(columns[name][i] for name in said):
            columns[said[0]][i] = NONE
    return columns


def chances(values: Iterable[float]) -> list[str]:
    """Probabilities as text; empty where none was computed."""
    return ["" if value != value else f"{value:.3f}" for value in values]


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
