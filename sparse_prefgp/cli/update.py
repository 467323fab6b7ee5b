"""`sparse-prefgp update`: new duels for a saved model, inference resuming from where it was."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, open_model, progress_bar
from sparse_prefgp.cli.shared_options import AboutSets, ModelAndTable, Shared
from sparse_prefgp.disk.folders import contents, held
from sparse_prefgp.support.options import option, option_class, required, same_as
from sparse_prefgp.support.plain import Record

EXAMPLE = "Example: sparse-prefgp update --model fitted --duels new_duels.csv --out updated"


@option_class
class UpdateOptions(AboutSets):
    """What is added to a model, and where to."""

    duels: Path | None = option()
    """New duels: columns winner and loser hold item ids; count and tie too."""
    out: Path = required()
    """Folder for the new model: new, empty, or a saved model."""
    people: Path | None = option()
    """Features of new people, a row each, where the model has features of its people."""
    in_one_pass: bool = option(False, flag="--filter", needs="duels")
    """For utilities that move in time: take the new duels up in one pass, slice by slice, and leave
    the past as it is; by default inference on all duels follows.
    """
    slices: str | None = option(needs="in_one_pass")
    """Of this pass: year, quarter, month, week or day; by default those of the model."""
    max_iterations: int = option(0, least=0, excludes="in_one_pass")
    """Also learn the hyperparameters, in at most this many steps; where the model integrates over
    them, it does so again.
    """
    overwrite: bool = same_as(Shared, "overwrite")


@command()
def update(console: Output, saved: ModelAndTable, asked: Annotated[Record, UpdateOptions]) -> None:
    """Add duels, choices or rankings to a saved model.

    Hyperparameters stay as they are unless --max-iterations is given.
    """
    out, overwrite = asked.pop("out"), asked.pop("overwrite", False)
    steps = asked.pop("max_iterations", 0)
    from sparse_prefgp.disk.model_folder import check_model_place
    from sparse_prefgp.workflow.folder import check_not_of_a_fit

    with held(out, "update"):
        check_not_of_a_fit(out)
        check_model_place(out)
        if contents(out) and not overwrite:
            raise ValueError(
                f"The output folder {str(out)!r} holds a saved model; give another folder, or "
                "--overwrite."
            )
        fitted = open_model(console, saved)
        from sparse_prefgp.analysis.updating import update as add_duels
        from sparse_prefgp.disk.saving import save
        from sparse_prefgp.learning.integration import integrate
        from sparse_prefgp.learning.notes import about_integration
        from sparse_prefgp.learning.optimise import optimise

        with console.status("Adding the duels …"):
            items = saved.items_of(fitted)
            new, report = add_duels(fitted, items=items, columns=saved.columns, **asked)
        console.tell(str(report))
        result = report.to_dict()
        if steps:
            events, count = new.duels.events, new.graph.weight
            with progress_bar(console, "Fitting", steps, count, events.unit) as bar:
                optimised = optimise(new.at_mode, steps, callback=bar)
            console.tell(str(optimised))
            result["log_evidence_optimised"] = optimised.log_evidence
            if new.at_mode is not new:
                with console.status("Integrating over the hyperparameters …"):
                    new = integrate(new)
                console.tell(*about_integration(asdict(new.integration)))
                result["integration"] = asdict(new.integration)
        save(new, out)
        console.finish(result, out)
