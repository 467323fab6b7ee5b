"""From a table to a printed and written fit: what `fit` and `demo` do alike."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from sparse_prefgp.checkpoint_folder import has_checkpoint
from sparse_prefgp.cli.console import (
    UNSEEN_HEADINGS,
    Output,
    counting_bar,
    import_tensorflow,
    progress_bar,
    rows_table,
    scores_table,
)
from sparse_prefgp.cli.select import compare_bar, print_comparison
from sparse_prefgp.features import FeatureTransform
from sparse_prefgp.folders import contents
from sparse_prefgp.io import DuelTable
from sparse_prefgp.studies.automatic import choose
from sparse_prefgp.studies.folder import (
    CHECKPOINTS,
    PROGRAM,
    FitOutput,
    check_folder,
    is_checkpoint,
    write_fit,
)
from sparse_prefgp.studies.holdout import (
    Holdout,
    HoldoutSettings,
    Scores,
    fit_figures,
    fit_model,
    idle_note,
    predict_held_out,
    prepare,
    refit_model,
    unseen_pair_scores,
)

if TYPE_CHECKING:
    from sparse_prefgp.selection import OptimisationReport
    from sparse_prefgp.selection.checkpoint import Checkpoint

NAMES_SHOWN = 10
FIT, REFIT = "fit", "refit"


@dataclass(frozen=True)
class Checkpoints:
    """What a killed fit goes on from, in `checkpoint/` within its output, on the same disk.

    every: optimiser steps between two; 0 for none. resume: go on from those that are there.

    Raises:
        ValueError: every below 0, or 0 with resume; a fit was interrupted here and `resume` was
            not given, so that its work would be lost.
    """

    out: Path
    every: int
    resume: bool = False

    def __post_init__(self) -> None:
        if self.every < 0:
            raise ValueError(
                f"A checkpoint every {self.every} steps makes no sense; give 0 for none, or more."
            )
        if self.resume and not self.every:
            raise ValueError("--resume needs checkpoints; leave --checkpoint-every 0 out.")
        if self.there and not self.resume:
            raise ValueError(
                f"{str(self.folder)!r} is the checkpoint of a fit that was interrupted; go on with "
                f"it by --resume, or remove it (rm -r {shlex.quote(str(self.folder))}) to begin "
                "again."
            )

    @property
    def folder(self) -> Path:
        return self.out / CHECKPOINTS

    @property
    def there(self) -> bool:
        return is_checkpoint(self.folder) and bool(contents(self.folder))

    def stage(self, name: str) -> Checkpoint | None:
        """That of one run of the optimiser; a later one has none when the earlier was cut off."""
        if not self.every:
            return None
        from sparse_prefgp.selection.checkpoint import Checkpoint

        place = self.folder / name
        return Checkpoint(place, self.every, self.resume and has_checkpoint(place))

    @contextmanager
    def told(self) -> Iterator[None]:
        """An interruption says what was kept; success removes it."""
        if self.resume and not self.there:
            warnings.warn(
                f"There is no checkpoint in {str(self.out)!r} to go on from; the fit begins at "
                "the beginning.",
                stacklevel=3,
            )
        try:
            yield
        except KeyboardInterrupt as error:
            if not self.there:
                raise
            raise KeyboardInterrupt(
                f"Stopped before the end; the fit so far is kept in {str(self.folder)!r}, and the "
                "same command with --resume goes on from there."
            ) from error
        if is_checkpoint(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)


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
    if out is not None:
        check_folder(out)
    elif report:
        raise ValueError("--report was given without --out; give a folder to write it to.")
    chosen = None
    if automatic is not None:
        prepare(table, settings)  # what can be refused is refused before the comparison
        with compare_bar(console) as progress:
            chosen = choose(
                table,
                settings,
                kernel=automatic[0],
                approximation=automatic[1],
                callback=progress,
            )
        settings = chosen.settings
        print_comparison(console, chosen.comparison)
        console.print(Text("The choice was made with the training duels alone."))
    holdout = prepare(table, settings)
    _print_data(console, holdout, show_columns)
    import_tensorflow(console)

    figures = _base_figures(holdout)
    if chosen is not None:
        figures["automatic"] = chosen.to_dict()
    with progress_bar(console, "Fitting", settings.max_iterations, _evidence_duels(holdout)) as bar:
        model, optimised = fit_model(
            holdout, bar, None if checkpoints is None else checkpoints.stage(FIT)
        )
    figures["fit"] = fit_figures(holdout, model, optimised)
    _print_fit(console, figures["fit"], optimised)

    held_out = None
    if holdout.num_test:
        with console.status("Scoring the held-out duels …"):
            held_out = predict_held_out(holdout, model)
            scores = held_out.scores()
            unseen = unseen_pair_scores(holdout, held_out) if settings.split == "duels" else {}
        figures["held_out"] = scores
        console.print(scores_table("Held-out duels", {"": scores}))
        if unseen:
            figures["held_out_unseen_pairs"] = unseen
            parts = {UNSEEN_HEADINGS[name]: part for name, part in unseen.items()}
            console.print(scores_table("Of these, pairs never seen in training", parts))
        _print_verdict(console, scores)

    if settings.refit:
        duels = _evidence_duels(holdout, holdout.everything.num_duels)
        with progress_bar(console, "Fitting to all duels", settings.max_iterations, duels) as bar:
            model, optimised = refit_model(
                holdout, model, bar, None if checkpoints is None else checkpoints.stage(REFIT)
            )
        figures["refit_fit"] = fit_figures(holdout, model, optimised)
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
    console.print(Text(holdout.split.description))
    number = holdout.num_inducing
    inducing = "" if number is None else f", {number:,} inducing inputs"
    test = f"; {holdout.num_test:,} test duels" if holdout.num_test else ""
    console.print(
        Text(
            f"Model: {settings.approximation_choice}, {settings.kernel_choice} kernel{inducing}, "
            f"{holdout.num_train:,} training duels{test}"
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
    variances = ", ".join(f"{name} {value:.3g}" for name, value in fit["kernel_variances"].items())
    console.print(Text(f"Kernel variance: {variances}"))
    inference = report.inference
    if inference.converged:
        text = f"Inference converged in {inference.sweeps} sweeps"
        if inference.jitter > 0.0:
            text += f"; {inference.jitter:.1e} was added to a diagonal to factorise it"
        console.print(Text(text))
    else:
        console.print(Text(f"Warning: inference {inference}", style="bold yellow"))
    notes = [idle_note(fit["idle_kernel_terms"])] if fit["idle_kernel_terms"] else []
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


def _print_verdict(console: Output, scores: Scores) -> None:
    gain = scores["linear_probit"]["nlp_nats"] - scores["model"]["nlp_nats"]
    word = "better" if gain >= 0 else "worse"
    console.print(
        Text(f"The model is {word} than the linear probit by {abs(gain):.4f} nats per duel.")
    )
