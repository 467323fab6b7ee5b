"""`sparse-prefgp bench`: what the package costs, as ratios within one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparse_prefgp.cli.console import import_tensorflow, sentences

EXAMPLE = "Example: sparse-prefgp bench sweep --out bench"


def bench(
    name: Annotated[str, typer.Argument(help="exact, sweep, svgp, or all.")] = "all",
    out: Annotated[
        Path | None, typer.Option(help="Folder for one JSON file per benchmark.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Small sizes, to see that it runs.")] = False,
    budget: Annotated[
        float | None,
        typer.Option(help="Seconds that svgp gives to each method on each set of duels."),
    ] = None,
) -> None:
    """Measure what the package costs, as ratios within one run on this machine.

    exact: exact EP in dense inverses. sweep: one sparse sweep as a share of the dense product it
    replaces. svgp: joint optimisation against GPflow's SVGP, by time to the same held-out score.
    """
    with sentences() as console:
        import json

        from rich.table import Table

        from sparse_prefgp import benchmarks

        names = benchmarks.chosen(name)
        import_tensorflow(console)
        for each in names:
            with console.status(f"Running {each}"):
                report = benchmarks.run(each, quick=quick, budget=budget)
            for content in report.tables:
                table = Table(title=content.title, title_justify="left")
                for index, column in enumerate(content.columns):
                    table.add_column(column, justify="right" if index else "left")
                for row in content.rows:
                    table.add_row(*row)
                console.print(table)
                for note in content.notes:
                    console.print(f"  {note}", highlight=False)
                console.print()
            if out is not None:
                out.mkdir(parents=True, exist_ok=True)
                path = out / f"{each}.json"
                path.write_text(json.dumps(report.as_json(), indent=2, allow_nan=False) + "\n")
                console.print(f"Wrote {path}")
