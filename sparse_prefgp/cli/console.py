"""What all commands share: tables, the progress bar, and errors as one sentence."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.segment import Segment
from rich.text import Text

from sparse_prefgp.cli.output_options import FORMS, OutputOptions, write_file
from sparse_prefgp.support.extras import require_gpflow
from sparse_prefgp.support.machine import short_of_memory
from sparse_prefgp.support.mistakes import is_mistake
from sparse_prefgp.support.quiet import held_back_stderr
from sparse_prefgp.support.words import escaped
from sparse_prefgp.tell.tables import Table
from sparse_prefgp.tell.terminal import as_rich

if TYPE_CHECKING:
    from sparse_prefgp.learning.report import Progress
    from sparse_prefgp.models import PreferenceGP
    from sparse_prefgp.tell.result import Result

MISTAKE = 2
INTERRUPTED, STOPPED = 130, "Stopped before the end; no file was left half written."
# Which Keras TensorFlow imports; read once.
_KERAS = "TF_USE_LEGACY_KERAS"


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
        sentence = str(error)  # one of ours is a sentence already
        if error.strerror is not None:
            where = "" if error.filename is None else f" for {os.fsdecode(error.filename)!r}"
            sentence = (
                f"The system reports {error.strerror!r}{where}; check that disk space and "
                "permissions suffice, or give another place."
            )
        _stop(f"Error: {sentence}", MISTAKE, error)
    except Exception as error:
        # Memory that did not suffice is the machine's, and not a fault of ours.
        words = str(error) if is_mistake(error) else short_of_memory(error)
        if not words:
            raise
        _stop(f"Error: {words}", MISTAKE, error)
    except KeyboardInterrupt as error:
        # Whoever raised it on purpose says what was kept.
        _stop(str(error) or STOPPED, INTERRUPTED, error)


class PlainConsole(Console):
    """A console on which no text that is shown steers the terminal."""

    def say(self, text: str) -> None:
        """Print a text in one line, however wide: commands and paths are copied."""
        self.print(Text(text), soft_wrap=True)

    def note(self, text: str) -> None:
        """Print what to know, in yellow."""
        self.print(Text(f"Note: {text}", style="yellow"))

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

    def tell(self, *parts: str | Table) -> None:
        """Print sentences and tables, these with their captions."""
        for part in parts:
            if isinstance(part, str):
                self.print(Text(part))
                continue
            self.print(as_rich(part))
            if part.caption:
                self.print(Text(part.caption))
                self.print()

    def show(
        self,
        result: Result,
        written: Any = None,
        *sentences: str | Table,
        draw: Callable[[], Any] | None = None,
        **figures: Any,
    ) -> None:
        """Write, draw and print a result; an empty sentence is none.

        :param written: options such as `Written`, of which it has some or all.
        :param draw: makes its picture, matplotlib axes.
        :param figures: more of them, for JSON.
        """
        out, picture = getattr(written, "out", None), getattr(written, "picture", None)
        if out is not None:
            write_file(out, FORMS[out.suffix.lower()](result))
        parts = result.parts(getattr(written, "show", None))
        self.tell(*(part for part in (*parts, *sentences) if part != ""))
        if picture is not None and draw is not None:
            from sparse_prefgp.plotting.canvas import save

            save(draw().figure, picture)
            self.say(f"Drawn in {picture}.")
        self.finish({**result.to_dict(), **figures}, out)

    def finish(self, result: Any, out: Path | None) -> None:
        """Say where it was written, if it was, and print the result, if as JSON."""
        if out is not None:
            self.say(f"Written to {out}.")
        self.manners.emit(result)


def _stop(message: str, code: int, error: BaseException) -> None:
    # One line, not wrapped, so that scripts can read it.
    typer.echo(escaped(" ".join(message.split())), err=True)
    raise typer.Exit(code) from error


@contextmanager
def _notes(console: PlainConsole, shown: list[str]) -> Iterator[None]:

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
            console.note(text)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def open_model(console: Output, saved: Any, written: Any = None, asked: Any = None) -> PreferenceGP:
    """A saved model, and TensorFlow with it.

    :param saved: the options that name it.
    :param written: those of files that are to be written, which are checked first.
    :param asked: others that may name files to be read.
    """
    from sparse_prefgp.disk.model_folder import find_model

    path = saved.model
    if written is not None:
        written.check(saved, asked or {})
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
    from sparse_prefgp.workflow.folder import METRICS, MODEL, ours

    place = find_model(path).resolve()
    figures = ours(place.parent / METRICS) if place.name == MODEL else None
    if not figures or "refit_fit" in figures:
        return ""
    data = figures.get("data", {})
    partly = data.get("train_duels", 0) < data.get("duels", 0)
    return learned_from(figures) if partly else ""


def import_tensorflow(console: Output) -> None:
    """Import the slow packages without the notices they print at the start."""
    logging.getLogger("absl").setLevel(logging.ERROR)
    with console.status("Loading TensorFlow …"), held_back_stderr():
        import_packages(console.manners.limit_threads)


def import_packages(prepare: Callable[[], None]) -> None:
    """Import the slow packages without those parts that no command needs (docs/command-line.md).

    :param prepare: called when TensorFlow is there and nothing has computed yet.
    """
    require_gpflow()
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
def counting_bar(console: Console, label: str) -> Iterator[Callable[..., None]]:
    """A bar for work whose size is known: called with what is done, the total, and another label
    while it is of something else."""
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

    def update(done: int, total: int, description: str = label) -> None:
        nonlocal begun
        if not begun:
            begun = True
            bar.start()
        bar.update(task, completed=done, total=total, description=description)

    try:
        yield update
    finally:
        if begun:
            bar.stop()


def clock(seconds: float) -> str:
    """Hours, if any, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
