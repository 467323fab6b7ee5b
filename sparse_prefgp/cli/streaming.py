"""`sparse-prefgp fit --stream`: duels that are read in chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from sparse_prefgp.cli.checkpoints import Checkpoints
from sparse_prefgp.cli.console import (
    Output,
    counting_bar,
    import_tensorflow,
    outcomes_table,
    print_margin,
    scores_table,
)
from sparse_prefgp.cli.tables import Tables, names
from sparse_prefgp.io.streams import PARQUET, is_stream, stream_duels
from sparse_prefgp.studies.folder import FIT_STAGE, write_model, write_ranked

if TYPE_CHECKING:
    from sparse_prefgp.parts.model import StreamProgress
    from sparse_prefgp.selection.streamed import StreamedStep
    from sparse_prefgp.studies.streamed import StreamHoldout, StreamSettings


def refuse(options: Mapping[str, Any], duels: Path | None = None) -> None:
    """Refuse options that need all duels at once; `options` has what was given, by name.

    duels: where they are; a folder is streamed without being told.

    Raises:
        ValueError: naming the first.
    """
    remedy = "leave out --stream"
    if is_stream(duels):
        remedy = "give one table in place of a folder, without --stream"
    for name, value in options.items():
        if value:
            raise ValueError(
                f"{name} needs all duels in memory, which a fit in chunks never has; leave it out, "
                f"or {remedy}."
            )


def refuse_without_stream(options: Mapping[str, Any]) -> None:
    """Refuse options of a fit in chunks where there is none; `options` as for `refuse`.

    Raises:
        ValueError: naming the first.
    """
    for name, value in options.items():
        if value:
            raise ValueError(
                f"{name} is about a fit in chunks, but --stream was not given; give it, or leave "
                f"{name} out."
            )


def run_streamed(
    console: Output,
    tables: Tables,
    settings: StreamSettings,
    out: Path,
    checkpoints: Checkpoints,
) -> None:
    """Read, fit, score, print, and write to `out`."""
    from sparse_prefgp.studies.streamed import sites_kept_if_done

    with checkpoints.told(), sites_kept_if_done(settings, checkpoints.resumes):
        _run(console, tables, settings, out, checkpoints)


def _run(
    console: Output,
    tables: Tables,
    settings: StreamSettings,
    out: Path,
    checkpoints: Checkpoints,
) -> None:
    started = time.perf_counter()
    holdout = _holdout(console, tables, settings)
    from sparse_prefgp.studies.streamed import (
        fit_streamed,
        score_streamed,
        streamed_figures,
    )

    import_tensorflow(console)
    with _passes(console) as (step, progress):
        model, report = fit_streamed(
            holdout,
            settings,
            step=step,
            progress=progress,
            checkpoint=checkpoints.stage(FIT_STAGE),
        )
    figures = streamed_figures(holdout, settings, model, report)
    write_model(out, model, figures)
    console.print(Text(str(report)))
    console.print(Text(f"Inference {report.inference}"))
    print_margin(console, figures["fit"])
    if holdout.test is not None:
        with console.status("Scoring the held-out duels …"):
            found = score_streamed(holdout, model, settings.plain.seed)
            scores, outcomes = found.scores(), found.outcomes
            figures["held_out"], figures["held_out_outcomes"] = scores, outcomes
        title = "Held-out duels"
        if holdout.test.num_ties:
            title += " that one side won"
        if scores:
            console.print(scores_table(title, {"": scores}))
        if outcomes:
            console.print(outcomes_table(outcomes))
    figures["seconds"] = time.perf_counter() - started
    written, figures = write_ranked(out, model, figures, settings.plain.seed)
    model.close()
    part = "all duels" if holdout.test is None else "the training duels"
    console.print(
        Text(f"Written to {out}: {', '.join(written)} (the model is fitted to {part})."),
        soft_wrap=True,
    )
    console.manners.emit(figures)


def in_tables(tables: Tables) -> bool:
    """Whether duels come from tables that are read whole, not from Parquet files or folders."""
    duels = tables.duels
    return duels is None or not (is_stream(duels) or duels.suffix.lower() in PARQUET)


def _holdout(console: Output, tables: Tables, settings: StreamSettings) -> StreamHoldout:
    from sparse_prefgp.studies.streamed import StreamHoldout

    plain = settings.plain
    if in_tables(tables):
        holdout = StreamHoldout.of_table(tables.read(plain.split), plain)
        held = "none" if holdout.test is None else f"{holdout.test.num_rows:,} rows"
        console.print(Text(f"{holdout.train!r}; held out, by {plain.split}: {held}"))
        return holdout
    with counting_bar(console, "Reading the duels") as bar:
        stream = stream_duels(
            tables.duels,
            tables.items,
            features=None if tables.features is None else names(tables.features),
            ignore=() if tables.ignore is None else names(tables.ignore),
            weights=tables.weight,
            progress=bar,
        )
    holdout = StreamHoldout.of(stream, plain.test_fraction)
    rows = 0 if holdout.test is None else holdout.test.num_rows
    console.print(Text(f"{stream!r}; the last {rows:,} rows are held out"))
    return holdout


@contextmanager
def _passes(
    console: Output,
) -> Iterator[tuple[Callable[[StreamedStep], None], Callable[[StreamProgress], None]]]:
    """A bar over the rows of each pass: duels a second and time left of it; steps of the optimiser,
    evidence per duel, and the time left if it takes all of its steps. In 80 columns."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=4),
        TextColumn("{task.fields[rows]}"),
        TextColumn("{task.fields[speed]}"),
        TextColumn("{task.fields[steps]}"),
    )
    began: StreamedStep | None = None
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("Preparing", total=1, rows="", speed="", steps="")

        def step(at: StreamedStep) -> None:
            nonlocal began
            if began is None or began.of != at.of:
                began = at
            done, left = at.iteration - began.iteration, at.max_iterations - at.iteration
            steps = f"step {at.iteration}/{at.max_iterations} {at.per_duel:.4f}"
            if done:
                steps += f" ≤ {_clock(left * (at.seconds - began.seconds) / done)}"
            bar.update(task, steps=steps)

        def progress(at: StreamProgress) -> None:
            name = f"{at.what} {at.round}" if at.round else at.what
            bar.update(
                task,
                description=name.capitalize(),
                total=at.total,
                completed=at.rows,
                rows=f"{_short(at.rows)}/{_short(at.total)}",
                speed=f"{_short(at.duels_per_second)} duels/s {_clock(at.seconds_left)} left",
            )

        yield step, progress


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _short(number: float) -> str:
    """In at most five characters."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= unit:
            scaled = number / (1e3 if name == "k" else unit)
            return f"{scaled:.0f}{name}" if scaled >= 99.95 else f"{scaled:.1f}{name}"
    return f"{number:.0f}"
