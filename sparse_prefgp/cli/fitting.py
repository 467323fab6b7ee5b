"""From a table to a printed and written fit: what `fit` and `demo` do alike."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from sparse_prefgp.cli.checkpoints import Checkpoints
from sparse_prefgp.cli.console import (
    UNSEEN_HEADINGS,
    Output,
    counting_bar,
    import_tensorflow,
    outcomes_table,
    print_margin,
    progress_bar,
    rows_table,
    scores_table,
)
from sparse_prefgp.cli.select import compare_bar, print_comparison
from sparse_prefgp.features import FeatureTransform
from sparse_prefgp.io import DuelTable
from sparse_prefgp.metrics import PREDICTOR_NAMES
from sparse_prefgp.studies.automatic import NUMBER_NOTE, Automatic, choose
from sparse_prefgp.studies.choices import DEFAULT_ENGINE
from sparse_prefgp.studies.folder import (
    FIT_STAGE,
    PROGRAM,
    REFIT_STAGE,
    FitOutput,
    write_fit,
    write_model,
)
from sparse_prefgp.studies.holdout import (
    Holdout,
    HoldoutSettings,
    Scores,
    first_inputs,
    fit_figures,
    fit_model,
    idle_note,
    predict_held_out,
    prepare,
    refit_model,
)

if TYPE_CHECKING:
    from sparse_prefgp.selection import AutoInputs, OptimisationReport
    from sparse_prefgp.selection.checkpoint import Checkpoint

NAMES_SHOWN = 10


def run(
    console: Output,
    table: DuelTable,
    settings: HoldoutSettings,
    out: Path | None,
    show_columns: bool = False,
    report: bool = False,
    checkpoints: Checkpoints | None = None,
    automatic: tuple[str, str] | None = None,
) -> None:
    """Split, fit, score, print, and write to `out` if given.

    show_columns: print how the columns were read, which nobody knows of a table from files.
    report: write the HTML page too. checkpoints: for a fit that may be killed. automatic: kernel
    and approximation where one of them is `auto`, to be chosen with the training duels.
    """
    with nullcontext() if checkpoints is None else checkpoints.told():
        _run(console, table, settings, out, show_columns, report, checkpoints, automatic)


def _run(
    console: Output,
    table: DuelTable,
    settings: HoldoutSettings,
    out: Path | None,
    show_columns: bool,
    report: bool,
    checkpoints: Checkpoints | None,
    automatic: tuple[str, str] | None,
) -> None:
    started = time.perf_counter()
    if report and out is None:
        raise ValueError("--report was given without --out; give a folder to write it to.")
    chosen = None
    if automatic is not None:
        prepare(table, settings)  # what can be refused is refused before the comparison
        chosen = _choose(console, table, settings, automatic, checkpoints)
        settings = chosen.settings
    holdout = prepare(table, settings)
    settings = holdout.settings
    _print_data(console, holdout, show_columns)
    import_tensorflow(console)

    figures = _base_figures(holdout)
    if chosen is not None:
        figures["automatic"] = chosen.to_dict()
    inputs = _first_inputs(console, holdout, figures)
    with progress_bar(console, "Fitting", settings.max_iterations, _evidence_duels(holdout)) as bar:
        model, optimised = fit_model(holdout, bar, _stage(checkpoints, FIT_STAGE), inputs)
    figures["fit"] = fit_figures(holdout, model, optimised)
    if out is not None:
        write_model(out, model, figures)
    _print_fit(console, figures["fit"], optimised)

    held_out = None
    if holdout.num_test:
        with console.status("Scoring the held-out duels …"):
            held_out = predict_held_out(holdout, model)
            scores = held_out.scores()
            unseen = held_out.unseen_scores() if settings.split == "duels" else {}
        figures["held_out"] = scores
        title = "Held-out duels that one side won" if held_out.outcomes else "Held-out duels"
        console.print(scores_table(title, {"": scores}))
        if held_out.outcomes:
            figures["held_out_outcomes"] = held_out.outcomes
            console.print(outcomes_table(held_out.outcomes))
        if unseen:
            figures["held_out_unseen_pairs"] = unseen
            parts = {UNSEEN_HEADINGS[name]: part for name, part in unseen.items()}
            console.print(scores_table("Of these, pairs never seen in training", parts))
        _print_verdict(console, scores, "linear_probit" if table.has_features else "coin")

    if settings.refit:
        duels = _evidence_duels(holdout, holdout.everything.num_duels)
        with progress_bar(console, "Fitting to all duels", settings.max_iterations, duels) as bar:
            model, optimised = refit_model(holdout, model, bar, _stage(checkpoints, REFIT_STAGE))
        figures["refit_fit"] = fit_figures(holdout, model, optimised)
        if out is not None:
            write_model(out, model, figures)
        _print_fit(console, figures["refit_fit"], optimised)

    if out is not None:
        figures["seconds"] = time.perf_counter() - started
        output = FitOutput(
            model,
            optimised,
            figures,
            held_out,
            settings.seed,
            console.notes,
            _command(),
            holdout.everything.summary().rows(),
        )
        with counting_bar(console, "Ranking the items and drawing") as progress:
            written, figures = write_fit(out, output, html=report, progress=progress)
        part = "all duels" if settings.refit or not holdout.num_test else "the training duels"
        console.print(
            Text(f"Written to {out}: {', '.join(written)} (the model is fitted to {part})."),
            soft_wrap=True,
        )
    console.manners.emit(figures)


def _stage(checkpoints: Checkpoints | None, name: str) -> Checkpoint | None:
    return None if checkpoints is None else checkpoints.stage(name)


def _choose(
    console: Output,
    table: DuelTable,
    settings: HoldoutSettings,
    automatic: tuple[str, str],
    checkpoints: Checkpoints | None,
) -> Automatic:
    """Compare, and say what was chosen."""
    place, resume = (None, False) if checkpoints is None else checkpoints.comparison()
    with compare_bar(console) as progress:
        chosen = choose(
            table,
            settings,
            kernel=automatic[0],
            approximation=automatic[1],
            checkpoint=place,
            resume=resume,
            callback=progress,
        )
    print_comparison(console, chosen.comparison)
    console.print(Text("The choice was made with the training duels alone."))
    if settings.inducing_share is not None:
        console.print(Text(NUMBER_NOTE))
    return chosen


def _first_inputs(
    console: Output, holdout: Holdout, figures: dict[str, Any]
) -> np.ndarray | AutoInputs | None:
    """First inducing inputs; a number that was found is printed and put into the figures."""
    with console.status("Placing inducing inputs …"):
        inputs = first_inputs(holdout)
    if inputs is not None and not isinstance(inputs, np.ndarray):
        figures["automatic_inducing"] = inputs.to_dict()
        reached = inputs.share <= inputs.threshold
        console.print(Text(f"Found: {inputs}", style="" if reached else "yellow"))
    return inputs


def _command() -> str | None:
    """How this program was called, when it was called from a shell."""
    called = Path(sys.argv[0]).name == PROGRAM
    return shlex.join([PROGRAM, *sys.argv[1:]]) if called else None


def _evidence_duels(holdout: Holdout, of: int | None = None) -> int:
    """How many duels the evidence is about, known before the model is there."""
    subset = holdout.settings.approximation_choice.size
    return subset or of or holdout.num_train


def _base_figures(holdout: Holdout) -> dict[str, Any]:
    settings, split = holdout.settings, holdout.split
    return {
        "split": settings.split,
        "split_description": split.description,
        "test_fraction": settings.test_fraction,
        "seed": settings.seed,
        "refit": settings.refit,
        "data": {
            "items": holdout.table.num_items,
            "features": list(holdout.train.feature_names or ()),
            "duels": holdout.everything.num_duels,
            "ties": holdout.everything.num_ties,
            "train_duels": holdout.num_train,
            "test_duels": holdout.num_test,
            "dropped_rows": split.dropped,
            "unused_rows": split.unused,
        },
    }


def _print_data(console: Output, holdout: Holdout, show_columns: bool) -> None:
    settings = holdout.settings
    console.print(rows_table("Data", holdout.everything.summary().rows()))
    transform = holdout.train.transform
    if show_columns and transform is not None:
        for line in column_lines(transform):
            console.print(Text(line))
    if not holdout.table.has_features:
        text = "Items without features: each has an effect of its own; a linear probit is a coin"
        console.print(Text(text))
    console.print(Text(holdout.split.description))
    number = holdout.num_inducing
    inducing = "" if number is None else f", {number:,} inducing inputs"
    if settings.inducing_share is not None:
        inducing = ", inducing inputs whose number is found first"
    test = f"; {holdout.num_test:,} test duels" if holdout.num_test else ""
    engine = "" if settings.engine == DEFAULT_ENGINE else f", engine {settings.engine_choice}"
    console.print(
        Text(
            f"Model: {settings.approximation_choice}, {settings.kernel_choice} kernel{inducing}"
            f"{engine}, {holdout.num_train:,} training duels{test}"
        )
    )


def column_lines(transform: FeatureTransform) -> list[str]:
    """Which columns were read as numbers and which as levels."""
    coded = [
        f"{name} ({len(levels)} levels)"
        for name, levels in zip(transform.categorical, transform.categories, strict=True)
    ]
    kinds = {"Numeric features": transform.numeric, "Categorical, one-hot encoded": coded}
    return [f"{kind}: {_shortened(names)}" for kind, names in kinds.items() if names]


def _shortened(names: Sequence[str]) -> str:
    rest = len(names) - NAMES_SHOWN
    # "and 1 more" is no shorter than the name.
    if rest <= 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_SHOWN])} and {rest} more"


def _print_fit(console: Output, fit: dict[str, Any], report: OptimisationReport) -> None:
    console.print(
        Text(
            f"Log evidence {fit['log_evidence']:,.2f} nats, {fit['log_evidence_per_duel']:.4f} per "
            f"duel, after {report.iterations} iterations in {report.seconds:.1f} s"
        )
    )
    if len(report.starts) > 1:
        values = [start.log_evidence for start in report.starts]
        shown = ", ".join("not finite" if v is None else f"{v:,.2f}" for v in values)
        console.print(
            Text(f"Best of {len(values)} starts: number {report.kept + 1} (log evidence {shown})")
        )
    if report.converged:
        console.print(Text(f"The optimiser {report.message}"))
    variances = ", ".join(f"{name} {value:.3g}" for name, value in fit["kernel_variances"].items())
    console.print(Text(f"Kernel variance: {variances}"))
    print_margin(console, fit)
    ratios = fit["noise_ratios"]
    if ratios is not None:
        console.print(
            Text(
                f"Noise variance of {ratios['groups']:,} groups: {ratios['min']:.2g} to "
                f"{ratios['max']:.2g} times that of the model, median {ratios['median']:.2g}"
            )
        )
    inference = report.inference
    if inference.converged:
        text = f"Inference converged in {inference.sweeps} sweeps"
        if inference.jitter > 0.0:
            text += f"; {inference.jitter:.1e} was added to a diagonal to factorise it"
        console.print(Text(text))
    else:
        console.print(Text(f"Warning: inference {inference}", style="bold yellow"))
    notes = [idle_note(fit["idle_kernel_terms"])] if fit["idle_kernel_terms"] else []
    notes += fit["limits"]
    if report.resumed_at:
        notes.append(f"{report.resumed_at} iterations came from a checkpoint")
    if not report.converged and report.iterations >= fit["max_iterations"]:
        notes.append(
            f"the limit of {fit['max_iterations']} iterations ended the fit; more may help"
        )
    elif not report.converged:
        notes.append(f"the optimiser stopped early: {report.message}")
    if report.failed_evaluations:
        notes.append(
            f"{report.failed_evaluations} of {report.evaluations} evaluations failed and were "
            "backed off from"
        )
    if report.unconverged_evaluations:
        notes.append(
            f"inference had not converged in {report.unconverged_evaluations} of "
            f"{report.evaluations} evaluations"
        )
    for note in notes:
        console.print(Text(f"Note: {note}", style="yellow"))


def _print_verdict(console: Output, scores: Scores, other: str) -> None:
    gain = scores[other]["nlp_nats"] - scores["model"]["nlp_nats"]
    word = "better" if gain >= 0 else "worse"
    console.print(
        Text(
            f"The model is {word} than the {PREDICTOR_NAMES[other]} by {abs(gain):.4f} nats per "
            "duel."
        )
    )
