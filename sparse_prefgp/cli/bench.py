"""`sparse-prefgp bench`: what the package costs, as ratios within one run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, import_tensorflow
from sparse_prefgp.support.options import option

if TYPE_CHECKING:
    from sparse_prefgp.lab.benchmarks import Report

EXAMPLE = "Example: sparse-prefgp bench sweep --out bench"


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What is measured, and where to."""

    name: str = option(default="all", argument=True)
    """exact, sweep, sets, roofline, engines, svgp, optimise, stream, scaling, or all."""
    out: Path | None = option(default=None)
    """Folder for the tables and numbers of each, as Markdown and JSON, and a figure of some."""
    quick: bool = option(default=False)
    """Small sizes, to see that it runs."""
    budget: float | None = option(default=None, above=0.0)
    """Seconds that svgp gives to each method on each set of duels."""


@command()
def bench(console: Output, options: BenchOptions) -> None:
    """Measure what the package costs, as ratios within one run on this machine.

    exact: exact EP in dense inverses. sweep: one sparse sweep as a share of the dense product
    it replaces. sets: a sweep over choices and rankings next to as many rows of duels.
    roofline: a sweep, a whole inference and its memory at a million duels, next to the dense
    products. engines: each engine to its fixed point, as ratios to ParallelEP. svgp: joint
    optimisation against GPflow's SVGP, by time to the same held-out score. optimise: from warm
    sites against cold ones, learned against k-means inducing inputs. stream: duels read from
    files, in parts. scaling: time and memory against duels, items, inducing inputs and parts.
    """
    results = {}
    from sparse_prefgp.disk.folders import check_place, write_file
    from sparse_prefgp.lab import benchmarks

    names = benchmarks.chosen(options.name)
    benchmarks.check_budget(options.budget, names)
    if options.out is not None:
        check_place(options.out.absolute(), options.out)
    import_tensorflow(console)
    for each in names:
        with console.status(f"Running {each} …"):
            budget = options.budget if each == benchmarks.TIMED else None
            report = benchmarks.run(each, quick=options.quick, budget=budget)
        _show(report, console)
        results[each] = report.as_json()
        if options.out is not None:
            path = options.out / f"{each}.json"
            write_file(path, json.dumps(report.as_json(), indent=2, allow_nan=False) + "\n")
            write_file(path.with_suffix(".md"), report.as_markdown())
            console.tell(f"Wrote {path} and {path.with_suffix('.md').name}")
            if report.panels:
                from sparse_prefgp.lab.benchmarks.drawing import draw

                draw(report, path.with_suffix(".png"))
                console.tell(f"Wrote {path.with_suffix('.png')}")
    console.manners.emit(results)


def _show(report: Report, console: Output) -> None:
    for content in report.tables:
        table = Table(title=content.title, title_justify="left", box=box.SIMPLE_HEAD)
        for index, column in enumerate(content.columns):
            table.add_column(column, justify="right" if index else "left")
        for row in content.rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
        console.tell(*content.notes)
        console.print()
