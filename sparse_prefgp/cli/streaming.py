"""The bar of a fit in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from sparse_prefgp.cli.console import Output, clock
from sparse_prefgp.workflow.holdout import FitCallbacks

if TYPE_CHECKING:
    from sparse_prefgp.learning.report import Progress
    from sparse_prefgp.models.streaming.inference import StreamProgress


@contextmanager
def passes_bar(
    console: Output,
) -> Iterator[FitCallbacks]:
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
