"""`sparse-prefgp report`: the results of studies as a page, figures and tables."""

from __future__ import annotations

import warnings
from pathlib import Path

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output
from sparse_prefgp.support.options import option, option_class, required

EXAMPLE = "Example: sparse-prefgp report boston --compare FITC VFE"


@option_class
class ReportOptions:
    """What is reported, and where to."""

    folders: list[Path] = required(metavar="DIR...", argument=True)
    """Folders that ablate wrote; several become one report."""
    out: Path | None = option()
    """Folder for the report; report within DIR by default."""
    compare: tuple[str, str] | None = option(metavar="A B")
    """Compare these two methods on the same seeds; named as in the report."""
    metric: list[str] | None = option()
    """Only this metric; may be given again."""


@command(threads=False)
def report(console: Output, options: ReportOptions) -> None:
    """Write report.html, figures and LaTeX tables about studies that ablate ran."""
    from sparse_prefgp.lab.ablation.execution import failed_runs
    from sparse_prefgp.lab.report import study_report

    if options.compare is not None and options.compare[1].startswith("-"):
        raise ValueError(f"--compare has {options.compare[0]!r} alone; give two methods.")
    with console.status("Reading the results …") as status:
        written = study_report(
            options.folders,
            options.out,
            compare=options.compare,
            metrics=options.metric,
            progress=lambda name: status.update(f"Drawing {name} …"),
        )
    console.tell(written.summary)
    if failed := failed_runs(written.results.records):
        warnings.warn(failed, stacklevel=1)
    for note in written.notes:
        console.note(note)
    page = written.folder / "report.html"
    console.say(f"Written to {page}, with tables and figures in the same folder.")
    console.manners.emit(written.to_dict())
