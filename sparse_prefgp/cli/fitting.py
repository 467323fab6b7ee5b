"""From a table to a printed and written fit: what `fit` and `demo` do alike."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sparse_prefgp.cli.console import (
    import_tensorflow,
    progress_bar,
    rows_table,
    scores_table,
)
from sparse_prefgp.io import DuelTable
from sparse_prefgp.studies.folder import check_folder, write_fit
from sparse_prefgp.studies.holdout import (
    Holdout,
    HoldoutSettings,
    Scores,
    fit_figures,
    fit_model,
    predict_held_out,
    prepare,
    refit_model,
    unseen_pair_scores,
)

UNSEEN_TITLES = {
    "ordered": "Of these, ordered pairs never seen in training",
    "either_order": "Of these, pairs never seen in training in either order",
}


def run(console: Console, table: DuelTable, settings: HoldoutSettings, out: Path | None) -> None:
    """Split, fit, score, print, and write to `out` if given."""
    started = time.perf_counter()
    if out is not None:
        check_folder(out)
    holdout = prepare(table, settings)
    _print_data(console, holdout)
    import_tensorflow(console)

    figures = _base_figures(holdout)
    with progress_bar(console, "Fitting", settings.max_iterations, _evidence_duels(holdout)) as bar:
        model, report = fit_model(holdout, bar)
    figures["fit"] = fit_figures(holdout, model, report)
    _print_fit(console, figures["fit"])

    if holdout.num_test:
        with console.status("Scoring the held-out duels …"):
            held_out = predict_held_out(holdout, model)
            scores = held_out.scores()
            unseen = unseen_pair_scores(holdout, held_out) if settings.split == "duels" else {}
        figures["held_out"] = scores
        _print_scores(console, "Held-out duels", scores)
        _print_verdict(console, scores)
        if unseen:
            figures["held_out_unseen_pairs"] = unseen
            for part, part_scores in unseen.items():
                _print_scores(console, UNSEEN_TITLES[part], part_scores)

    if settings.refit:
        duels = _evidence_duels(holdout, holdout.everything.num_duels)
        with progress_bar(console, "Fitting to all duels", settings.max_iterations, duels) as bar:
            model, report = refit_model(holdout, model, bar)
        figures["refit_fit"] = fit_figures(holdout, model, report)
        _print_fit(console, figures["refit_fit"])

    if out is not None:
        figures["seconds"] = time.perf_counter() - started
        with console.status("Writing …"):
            write_fit(out, holdout, model, figures)
        part = "all duels" if settings.refit or not holdout.num_test else "the training duels"
        console.print(
            Text(f"Written to {out}: metrics.json, ranking.csv and model/ (fitted to {part}).")
        )


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


def _print_data(console: Console, holdout: Holdout) -> None:
    settings = holdout.settings
    console.print(rows_table("Data", holdout.everything.summary().rows()))
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


def _print_fit(console: Console, fit: dict[str, Any]) -> None:
    console.print(
        Text(
            f"Log evidence {fit['log_evidence']:,.2f} nats, {fit['log_evidence_per_duel']:.4f} per "
            f"duel, after {fit['iterations']} iterations in {fit['seconds']:.1f} s"
        )
    )
    if fit["converged"]:
        console.print(Text(f"Inference {fit['inference']}"))
    else:
        console.print(Text(f"Warning: inference {fit['inference']}", style="bold yellow"))
    if fit["failed_evaluations"]:
        console.print(
            Text(
                f"Note: {fit['failed_evaluations']} of {fit['evaluations']} evaluations failed and "
                "were backed off from",
                style="yellow",
            )
        )


def _print_scores(console: Console, title: str, scores: Scores) -> None:
    console.print(scores_table(title, scores))


def _print_verdict(console: Console, scores: Scores) -> None:
    gain = scores["linear_probit"]["nlp_nats"] - scores["model"]["nlp_nats"]
    word = "better" if gain >= 0 else "worse"
    console.print(
        Text(f"The model is {word} than the linear probit by {abs(gain):.4f} nats per duel.")
    )
