"""`sparse-prefgp report`: the results of studies as a page, figures and tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rich.text import Text

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output
from sparse_prefgp.support.options import option

EXAMPLE = "Example: sparse-prefgp report boston --compare FITC VFE"


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What is reported, and where to."""

    folders: list[Path] = option(metavar="DIR...", argument=True)
    """Folders that ablate wrote; several become one report."""
    out: Path | None = option(default=None)
    """Folder for the report; report within DIR by default."""
    compare: tuple[str, str] | None = option(default=None, metavar="A B")
    """Compare these two methods on the same seeds; named as in the report."""
    metric: list[str] | None = option(default=None)
    """Only this metric; may be given again."""


@command(threads=False)
def report(console: Output, options: ReportOptions) -> None:
    """Write report.html, figures and LaTeX tables about studies that ablate ran."""
    from sparse_prefgp.lab.report import study_report

    with console.status("Reading the results …") as status:
        written = study_report(
            options.folders,
            options.out,
            compare=options.compare,
            metrics=options.metric or None,
            progress=lambda name: status.update(f"Drawing {name} …"),
        )
    brief = written.brief
    # One for each data set.
    console.tell(
        *(replace(brief, title=name, caption="", parts=[("", rows)]) for name, rows in brief.blocks)
    )
    failed = len(written.results.failures)
    if failed:
        total = len(written.results.runs)
        console.tell(f"{failed:,} of {total:,} runs failed; the page says why.")
    for note in written.notes:
        console.print(Text(f"Note: {note}", style="yellow"))
    console.print(
        Text(f"Written to {written.folder}, {len(written.files):,} files."), soft_wrap=True
    )
    console.manners.emit(written.to_dict())
