"""`sparse-prefgp update`: new duels for a saved model, inference resuming from where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from sparse_prefgp.cli.console import open_model, progress_bar, sentences
from sparse_prefgp.cli.output_options import AsJson, Items, Model, Overwrite, Quiet, Threads

EXAMPLE = "Example: sparse-prefgp update --model fitted --duels new_duels.csv --out updated"


def update(
    model: Model,
    duels: Annotated[
        Path,
        typer.Option(help="New duels: columns winner and loser hold item ids; count and tie too."),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for the new model: new, empty, or a saved model.")
    ],
    items: Items = None,
    noise_by: Annotated[
        str | None,
        typer.Option(help="Column of the duels that says who judged, for a model with such noise."),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="Column of the duels: as how many each counts.")
    ] = None,
    blocks: Annotated[
        str | None, typer.Option(help="Column of the duels: their blocks, for pitc:COLUMN.")
    ] = None,
    max_iterations: Annotated[
        int, typer.Option(help="Also move the hyperparameters, by at most so many steps.")
    ] = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Add duels to a saved model; hyperparameters stay unless --max-iterations is given."""
    with sentences(quiet, as_json, threads) as console:
        from sparse_prefgp.disk.folders import check_place, contents
        from sparse_prefgp.disk.model_folder import check_replaceable
        from sparse_prefgp.workflow.folder import check_not_of_a_fit

        if max_iterations < 0:
            raise ValueError(
                f"The number of iterations is {max_iterations}; give a whole number of at least 0."
            )
        check_place(out.absolute().parent, out)
        check_not_of_a_fit(out)
        check_replaceable(out)
        if contents(out) and not overwrite:
            raise ValueError(
                f"The output folder {str(out)!r} holds a saved model; give another folder, or "
                "--overwrite."
            )
        fitted = open_model(console, model)
        from sparse_prefgp.analysis.updating import update as add_duels
        from sparse_prefgp.disk.saving import save
        from sparse_prefgp.learning.optimise import optimise

        with console.status("Adding the duels …"):
            new, report = add_duels(
                fitted, duels, items, groups=noise_by, weights=weight, blocks=blocks
            )
        console.print(Text(str(report)))
        result = report.to_dict()
        if max_iterations:
            count = new.weight_used
            with progress_bar(console, "Fitting", max_iterations, count) as bar:
                optimised = optimise(new, max_iterations, callback=bar)
            console.print(Text(str(optimised)))
            result["log_evidence_optimised"] = optimised.log_evidence
        save(new, out)
        console.print(Text(f"Written to {out}."), soft_wrap=True)
        console.manners.emit(result)
