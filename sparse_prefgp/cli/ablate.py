"""`sparse-prefgp ablate`: a study of methods from a configuration, run by run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import MISTAKE, Output, clock, counting_bar, import_tensorflow
from sparse_prefgp.cli.shared_options import repeated
from sparse_prefgp.support.options import option, option_class, required
from sparse_prefgp.support.own_modules import OwnModules
from sparse_prefgp.support.words import escaped
from sparse_prefgp.tell.tables import facts_table

if TYPE_CHECKING:
    from sparse_prefgp.lab.ablation.runner import StudyProgress

EXAMPLE = (
    "Example: sparse-prefgp ablate configs/smoke/inducing_points.yaml --out out/smoke --workers 2"
)
FAULT = 1


@option_class
class AblateOptions:
    """Which study, where to, and who does the runs."""

    config: Path = required(metavar="CONFIG", argument=True)
    """The study, a YAML file such as those in configs/."""
    out: Path = required(metavar="DIR")
    """Folder for records and tables; that of the same study is continued."""
    workers: int | None = option(least=1, most=1_024)
    """Processes to spread the runs over, one thread each; this one alone by default."""
    dask: str | None = option(metavar="ADDRESS", excludes="workers")
    """Run on the workers of the Dask scheduler at this address, such as tcp://10.0.0.1:8786."""
    modules: Sequence[str] = repeated(flag="--import", metavar="MODULE")
    """Import this Python module first, which registers kernels or approximations that the study
    names; from the folder of the study or from this one. May be given again.
    """
    retry_failed: bool = option(False)
    """Run again what failed before."""


@command()
def ablate(console: Output, options: AblateOptions) -> None:
    """Run a study of approximations, engines, kernels and inducing inputs.

    Each run has its record in DIR/runs as soon as it is done; the same command resumes after an
    interruption. All results are in DIR/runs.parquet, and `report` makes a page of them.
    """
    from sparse_prefgp.lab.ablation import expand, read_study, run_study
    from sparse_prefgp.lab.ablation.execution import failed_runs, reasons

    folders = (str(options.config.resolve().parent), str(Path.cwd()))
    own = OwnModules(tuple(options.modules), folders)
    own.load()
    study = read_study(options.config)
    console.tell(f"{study.title}: {len(expand(study)):,} runs")
    import_tensorflow(console)
    with _progress(console) as progress:
        given = {name: getattr(options, name) for name in ("workers", "dask", "retry_failed")}
        result = run_study(study, options.out, own=own, callback=progress, **given)
    rows = [
        ("runs", result.runs),
        ("done now", f"{result.new:,} in {clock(result.seconds)}"),
        ("failed", len(result.failed)),
        ("results", f"{result.folder}, of which sparse-prefgp report makes a page"),
    ]
    console.tell(facts_table(study.title, rows))
    why = reasons(result.failed)
    for reason, runs in why.items():
        more = f" and {len(runs) - 1:,} more" if len(runs) > 1 else ""
        console.print(Text(f"Failed: {runs[0]}{more}: {reason}", style="yellow"))
    if why:
        console.tell("Records of failed runs stay; --retry-failed does them again.")
    console.manners.emit(result._asdict() | {"folder": str(result.folder), "failed": why})
    text = failed_runs(result.failed)
    if len(result.failed) == result.runs:  # 1 where the program is to blame
        typer.echo(escaped(f"Error: All {' '.join(text.split())}"), err=True)
        raise typer.Exit(FAULT if any(one.get("fault") for one in result.failed) else MISTAKE)
    if text and console.manners.silent:
        warnings.warn(text, stacklevel=1)


@contextmanager
def _progress(console: Output) -> Iterator[Callable[[StudyProgress], None]]:
    """A bar over the runs or exact models; where there is no terminal, a line after each."""
    if console.is_terminal:
        with counting_bar(console, "runs") as bar:
            yield lambda progress: bar(progress.done, progress.total, progress.what)
        return

    def update(progress: StudyProgress) -> None:
        failed = f", {progress.failed:,} failed" if progress.failed else ""
        left = "" if progress.left is None else f", about {clock(progress.left)} left"
        done = f"{progress.done:,} of {progress.total:,} {progress.what}"
        console.tell(f"{done} in {clock(progress.seconds)}{failed}{left}")

    yield update
