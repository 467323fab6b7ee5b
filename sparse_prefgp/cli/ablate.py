"""`sparse-prefgp ablate`: a study of methods from a configuration, run by run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from sparse_prefgp.cli.command import PlainCommand, command
from sparse_prefgp.cli.console import (
    MISTAKE,
    Output,
    clock,
    import_tensorflow,
)
from sparse_prefgp.support.options import option
from sparse_prefgp.support.words import escaped
from sparse_prefgp.support.workers import LOCAL
from sparse_prefgp.tell.tables import facts_table

if TYPE_CHECKING:
    from sparse_prefgp.lab.ablation import Study, StudyProgress, StudyResult

EXAMPLE = (
    "Example: sparse-prefgp ablate configs/smoke/inducing_points.yaml --out out/smoke "
    "--dask --workers 2"
)
FAULT = 1
SECONDS_BETWEEN_LINES = 30.0


class Command(PlainCommand):
    """`--dask` may stand alone; it is followed by an address, or by nothing that looks like one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        complete = []
        for place, word in enumerate(args):
            complete.append(word)
            after = args[place + 1] if place + 1 < len(args) else ""
            if word == "--dask" and after != LOCAL and ":" not in after:
                complete.append(LOCAL)
        return list(super().parse_args(ctx, complete))


@dataclass(frozen=True, kw_only=True)
class AblateOptions:
    """Which study, where to, and who does the runs."""

    config: Path = option(metavar="CONFIG", argument=True)
    """The study, a YAML file such as those in configs/."""
    out: Path = option(metavar="DIR")
    """Folder for records and tables; that of the same study is continued."""
    dask: str | None = option(default=None, metavar="[ADDRESS]")
    """Run on processes of this machine, or on the workers of the scheduler at this address, such as
    tcp://10.0.0.1:8786.
    """
    workers: int | None = option(default=None, least=1, most=1_024, needs="dask")
    """Processes of --dask without an address; one per core by default."""
    retry_failed: bool = option(default=False)
    """Run again what failed before."""


@command()
def ablate(console: Output, options: AblateOptions) -> None:
    """Run a study of approximations, engines, kernels and inducing inputs.

    Each run has its record in DIR/runs as soon as it is done; the same command resumes after an
    interruption. All results are in DIR/results.parquet and DIR/results.csv.
    """
    # Imported here to keep `--help` quick.
    from sparse_prefgp.lab.ablation import expand, read_study, run_study

    study = read_study(options.config)
    console.print(Text(f"{study.title}: {len(expand(study)):,} runs"))
    import_tensorflow(console)
    with study_bar(console) as progress:
        result = run_study(
            study,
            options.out,
            dask=options.dask,
            workers=options.workers,
            retry_failed=options.retry_failed,
            callback=progress,
        )
    _tell(console, study, result)


def _tell(console: Output, study: Study, result: StudyResult) -> None:
    failed = len(result.failed)
    rows = [
        ("runs", result.runs),
        ("done now", f"{result.new:,} in {clock(result.seconds)}"),
        ("failed", failed),
        ("results", str(result.folder / "results.csv")),
    ]
    console.tell(facts_table(study.title, rows))
    for reason, number in Counter(reason for _, reason in result.failed).most_common():
        runs = next(name for name, why in result.failed if why == reason)
        more = f" and {number - 1:,} more" if number > 1 else ""
        console.print(Text(f"Failed: {runs}{more}: {reason}", style="yellow"))
    if failed:
        console.tell("Records of failed runs stay; --retry-failed does them again.")
    console.manners.emit(
        {
            "study": study.name,
            "folder": str(result.folder),
            "runs": result.runs,
            "new": result.new,
            "failed": [{"run": name, "reason": reason} for name, reason in result.failed],
            "seconds": result.seconds,
        }
    )
    if failed == result.runs:
        _end(result)


def _end(result: StudyResult) -> None:
    """Exit code 2, or 1 where the program is to blame, of a study without a single result."""
    name, reason = result.failed[0]
    text = f"Error: All {result.runs:,} runs failed; {name}, the first: {reason}"
    typer.echo(escaped(" ".join(text.split())), err=True)
    raise typer.Exit(FAULT if result.faults else MISTAKE)


@contextmanager
def study_bar(console: Output) -> Iterator[Callable[[StudyProgress], None]]:
    """A bar over the runs of a study, with the time left; lines where there is no terminal."""
    if not console.is_terminal:
        yield _lines(console)
        return
    columns: Any = (
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[doing]}"),
    )
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("", total=None, left="", doing="preparing")

        def update(progress: StudyProgress) -> None:
            left = "" if progress.left is None else f"about {clock(progress.left)} left"
            bar.update(
                task,
                completed=progress.done,
                total=progress.total,
                left=left if progress.done < progress.total else "",
                doing=progress.doing if progress.done < progress.total else "",
            )

        yield update


def _lines(console: Output) -> Callable[[StudyProgress], None]:
    """For a file: a line after the first run, after the last, and every 30 seconds between."""
    last = -math.inf

    def update(progress: StudyProgress) -> None:
        nonlocal last
        if progress.left is None or (
            progress.done < progress.total and progress.seconds - last < SECONDS_BETWEEN_LINES
        ):
            return
        last = progress.seconds
        left = f", about {clock(progress.left)} left" if progress.done < progress.total else ""
        failed = f", {progress.failed:,} failed" if progress.failed else ""
        summary = f"{progress.done:,} of {progress.total:,} runs in {clock(progress.seconds)}"
        console.tell(f"{summary}{failed}{left}")

    return update
