"""`sparse-prefgp update`: new duels for a saved model, inference resuming from where it was."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, open_model, progress_bar
from sparse_prefgp.cli.shared_options import AboutSets, ModelAndTable, Shared
from sparse_prefgp.disk.folders import contents, held
from sparse_prefgp.support.options import option, same_as

EXAMPLE = "Example: sparse-prefgp update --model fitted --duels new_duels.csv --out updated"


@dataclass(frozen=True, kw_only=True)
class UpdateOptions(AboutSets):
    """What is added to a model, and where to."""

    duels: Path | None = option(default=None)
    """New duels: columns winner and loser hold item ids; count and tie too."""
    out: Path = option()
    """Folder for the new model: new, empty, or a saved model."""
    people: Path | None = option(default=None)
    """Features of new people, a row each, where the model has features of its people."""
    filter: bool = option(default=False, needs="duels")
    """For utilities that move in time: take the new duels up in one pass, slice by slice, and leave
    the past as it is; by default inference on all duels follows.
    """
    slices: str | None = option(default=None, needs="filter")
    """Of this pass: year, quarter, month, week or day; by default those of the model."""
    max_iterations: int = option(default=0, least=0, excludes="filter")
    """Also learn the hyperparameters, in at most this many steps."""
    overwrite: bool = same_as(Shared, "overwrite")


@command()
def update(console: Output, saved: ModelAndTable, options: UpdateOptions) -> None:
    """Add duels, choices or rankings to a saved model.

    Hyperparameters stay as they are unless --max-iterations is given.
    """
    with held(options.out, "update"):
        _update(console, saved, options)


def _update(console: Output, saved: ModelAndTable, options: UpdateOptions) -> None:
    from sparse_prefgp.disk.model_folder import check_model_place
    from sparse_prefgp.workflow.folder import check_not_of_a_fit

    check_not_of_a_fit(options.out)
    check_model_place(options.out)
    if contents(options.out) and not options.overwrite:
        raise ValueError(
            f"The output folder {str(options.out)!r} holds a saved model; give another folder, or "
            "--overwrite."
        )
    fitted = open_model(console, saved.model)
    from sparse_prefgp.analysis.updating import update as add_duels
    from sparse_prefgp.disk.saving import save
    from sparse_prefgp.learning.optimise import optimise

    with console.status("Adding the duels …"):
        new, report = add_duels(
            fitted,
            options.duels,
            saved.items_of(fitted),
            columns=saved.columns,
            people=options.people,
            in_one_pass=options.filter,
            slices=options.slices,
            **options.of_sets(),
        )
    console.tell(str(report))
    result = report.to_dict()
    if options.max_iterations:
        count = new.graph.weight
        unit = new.duels.events.unit
        with progress_bar(console, "Fitting", options.max_iterations, count, unit) as bar:
            optimised = optimise(new, options.max_iterations, callback=bar)
        console.tell(str(optimised))
        result["log_evidence_optimised"] = optimised.log_evidence
    save(new, options.out)
    console.finish(result, options.out)
