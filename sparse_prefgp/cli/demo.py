"""`sparse-prefgp demo`: the same path as `fit`, on duels made without any download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from sparse_prefgp.cli.console import sentences
from sparse_prefgp.cli.output_options import AsJson, Overwrite, Quiet, Seed, Threads

EXAMPLE = "Example: sparse-prefgp demo"


def demo(
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the files that fit writes.", show_default=False),
    ] = None,
    duels: Annotated[int, typer.Option(help="How many duels to make.")] = 5000,
    approximation: Annotated[str, typer.Option(help="As for fit.")] = "vfe",
    inducing: Annotated[int | None, typer.Option(help="As for fit.", show_default=False)] = None,
    kernel: Annotated[str, typer.Option(help="As for fit.")] = "linear+matern52",
    max_iterations: Annotated[int, typer.Option(help="As for fit.")] = 50,
    seed: Seed = 0,
    report: Annotated[
        bool, typer.Option("--report", metavar="", help="With --out, also write report.html.")
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Fit thousands of duels made from a data set that ships inside scikit-learn."""
    given = dict(locals())
    with sentences(quiet, as_json, threads) as console:
        from sparse_prefgp.cli.fit_printer import Printer
        from sparse_prefgp.workflow.examples import NOISE_SHARE, diabetes_duels
        from sparse_prefgp.workflow.folder import check_folder
        from sparse_prefgp.workflow.settings import FitSettings
        from sparse_prefgp.workflow.workflow import fit

        if out is not None:
            check_folder(out, overwrite)
        settings = FitSettings.of_options(given)
        tables = diabetes_duels(duels, seed)
        console.print(
            Text(
                "442 patients from scikit-learn's diabetes data are the items. In each duel two of "
                "them, drawn at random, are compared by how far the disease has progressed after "
                "a year; the larger value wins, after each has got noise of "
                f"{NOISE_SHARE:g} standard deviations."
            )
        )
        printer = Printer(console, out)
        more: dict[str, Any] = {"overwrite": overwrite, "html": report, "reporter": printer}
        output = fit(*tables, settings, out=out, **more)
        console.manners.emit(output.figures)
        console.print(
            Text(
                "Next, your own data: sparse-prefgp fit --items items.csv --duels duels.csv "
                "--out fitted"
            ),
            soft_wrap=True,  # a command is copied, so it must stay in one line
        )
