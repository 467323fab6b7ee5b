"""`sparse-prefgp fit`: a person's own items and duels, from tables to a scored model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output
from sparse_prefgp.cli.shared_options import OwnClasses, Shared
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.support.plain import Record
from sparse_prefgp.workflow.fit_sources import Sources
from sparse_prefgp.workflow.settings import FitSettings

# Of a ranking that is not written.
_SHOWN = 10
EXAMPLE = "Example: sparse-prefgp fit battles.csv --out fitted"


@option_class
class Folder(OwnClasses):
    """What a fit is written to, and what is kept of one that is killed."""

    out: Path | None = option()
    """Folder for metrics.json, ranking.csv, model/ and pictures/: a new one or, with --overwrite,
    that of an earlier fit. Without it nothing is written.
    """
    overwrite: bool = same_as(Shared, "overwrite", needs="out")
    report: bool = option(False, needs="out")
    """Also write report.html: tables and pictures."""
    checkpoint_every: int = option(10, least=1, needs="out")
    """Optimiser steps between two checkpoints, kept in --out until the fit has succeeded."""
    resume: bool = same_as(Shared, "resume", needs="out")


@command()
def fit(
    console: Output,
    folder: Folder,
    sources: Sources,
    options: Annotated[Record, FitSettings],
) -> None:
    """Fit a preference model to your duels, score it on held-out ones, and rank the items."""
    # Imported here to keep `--help` quick.
    from sparse_prefgp.cli.fit_printer import Printer
    from sparse_prefgp.workflow.checkpoints import Checkpoints
    from sparse_prefgp.workflow.folder import CHECKPOINTS, check_folder
    from sparse_prefgp.workflow.workflow import run_fit, settings_of

    settings = settings_of(sources, None, options)
    every, resume, overwrite = folder.checkpoint_every, folder.resume, folder.overwrite
    place = None if folder.out is None else folder.out / CHECKPOINTS
    checkpoints = Checkpoints(place, "fit", every, resume, overwrite)
    if folder.out is not None and not checkpoints.there:  # before a note says that
        check_folder(folder.out, overwrite)
    output = run_fit(
        sources,
        settings,
        out=folder.out,
        overwrite=overwrite,
        html=folder.report,
        reporter=Printer(console, folder.out, show_columns=True),
        checkpoints=checkpoints,
    )
    output.close()
    if folder.out is None:
        if not output.streamed:
            from sparse_prefgp.analysis.ranking import rank

            console.tell(*rank(output.model).parts(_SHOWN))
        console.tell("Nothing is written; --out FOLDER keeps the model, its scores and pictures.")
    console.manners.emit(output.figures)
