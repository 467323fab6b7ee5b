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

from sparse_prefgp.cli.console import Output, counting_bar, import_tensorflow, scores_table
from sparse_prefgp.cli.tables import names
from sparse_prefgp.io.streams import stream_duels
from sparse_prefgp.studies.folder import check_folder

if TYPE_CHECKING:
    from sparse_prefgp.parts.model import StreamProgress
    from sparse_prefgp.selection.streamed import StreamedStep
    from sparse_prefgp.studies.streamed import StreamSettings


def refuse(options: Mapping[str, Any]) -> None:
    """Refuse options that need all duels at once; `options` has what was given, by name.

    Raises:
        ValueError: naming the first.
    """
    for name, value in options.items():
        if value:
            raise ValueError(
                f"{name} needs all duels in memory, which --stream never has; leave it out, or "
                "leave out --stream."
            )


def run_streamed(
    console: Output,
    duels: Path | None,
    items: Path | None,
    settings: StreamSettings,
    out: Path,
    features: str | None,
    ignore: str | None,
) -> None:
    """Read, fit, score, print, and write to `out`."""
    started = time.perf_counter()
    if duels is None:
        raise ValueError("Give --duels: Parquet files or a folder of them; none was given.")
    check_folder(out)
    with counting_bar(console, "Reading the duels") as bar:
        stream = stream_duels(
            duels,
            items,
            features=None if features is None else names(features),
            ignore=() if ignore is None else names(ignore),
            progress=bar,
        )
    from sparse_prefgp.studies.streamed import (
        StreamHoldout,
        fit_streamed,
        score_streamed,
        streamed_figures,
        write_streamed,
    )

    holdout = StreamHoldout.of(stream, settings.plain.test_fraction)
    held = 0 if holdout.test is None else holdout.test.num_rows
    console.print(Text(f"{stream!r}; the last {held:,} rows are held out"))
    import_tensorflow(console)
    with _passes(console) as (step, progress):
        model, report = fit_streamed(holdout, settings, step=step, progress=progress)
    figures = streamed_figures(holdout, settings, model, report)
    console.print(Text(str(report)))
    console.print(Text(f"Inference {report.inference}"))
    if holdout.test is not None:
        with console.status("Scoring the held-out duels …"):
            figures["held_out"] = score_streamed(holdout, model, settings.plain.seed)
        console.print(scores_table("Held-out duels", {"": figures["held_out"]}))
    figures["seconds"] = time.perf_counter() - started
    written, figures = write_streamed(out, model, figures, settings.plain.seed)
    model.close()
    part = "all duels" if holdout.test is None else "the training duels"
    console.print(
        Text(f"Written to {out}: {', '.join(written)} (the model is fitted to {part})."),
        soft_wrap=True,
    )
    console.manners.emit(figures)


@contextmanager
def _passes(
    console: Output,
) -> Iterator[tuple[Callable[[StreamedStep], None], Callable[[StreamProgress], None]]]:
    """A bar over the rows of each pass: duels a second, time left, iterations, evidence."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=8),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TextColumn("{task.fields[speed]}"),
        TextColumn("{task.fields[evidence]}"),
    )
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("Preparing", total=1, speed="", evidence="")

        def step(at: StreamedStep) -> None:
            evidence = f"iteration {at.iteration}/{at.max_iterations} {at.per_duel:.4f} per duel"
            bar.update(task, evidence=evidence)

        def progress(at: StreamProgress) -> None:
            name = f"{at.what} {at.round}" if at.round else at.what
            minutes, seconds = divmod(round(at.seconds_left), 60)
            bar.update(
                task,
                description=name.capitalize(),
                total=at.total,
                completed=at.rows,
                speed=f"{at.duels_per_second:,.0f} duels/s, {minutes}:{seconds:02d} left",
            )

        yield step, progress
