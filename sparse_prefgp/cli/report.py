"""`sparse-prefgp report`: the results of studies as a page, figures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from sparse_prefgp.cli.console import Output, cells_table, sentences
from sparse_prefgp.cli.output_options import AsJson, Quiet

if TYPE_CHECKING:
    from sparse_prefgp.lab.report.tables import ReportTable

EXAMPLE = "Example: sparse-prefgp report boston --compare FITC VFE"


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Folders that ablate wrote; several become one report."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the report; report within DIR by default.", show_default=False
        ),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="Compare these two methods on the same seeds; named as in the report.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Only this metric; may be given again.", show_default=False),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write report.html, figures and LaTeX tables about studies that ablate ran."""
    with sentences(quiet, as_json) as console:
        from sparse_prefgp.lab.report import study_report

        with console.status("Reading the results …") as status:
            written = study_report(
                folders,
                out,
                compare=compare,
                metrics=metric or None,
                progress=lambda name: status.update(f"Drawing {name} …"),
            )
        _show(console, written.brief)
        failed = len(written.results.failures)
        if failed:
            total = len(written.results.runs)
            console.print(Text(f"{failed:,} of {total:,} runs failed; the page says why."))
        for note in written.notes:
            console.print(Text(f"Note: {note}", style="yellow"))
        console.print(
            Text(f"Written to {written.folder}, {len(written.files):,} files."), soft_wrap=True
        )
        console.manners.emit(written.to_dict())


def _show(console: Output, table: ReportTable) -> None:
    """Some of the metrics, a table for each data set."""
    for heading, rows in table.blocks:
        columns = {table.columns[0]: [name for name, _ in rows]}
        for i, column in enumerate(table.columns[1:]):
            columns[column] = [cells[i].plain for _, cells in rows]
        console.print(cells_table(heading, columns, left=("method",)))
