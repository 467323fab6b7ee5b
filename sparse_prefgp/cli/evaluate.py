"""`sparse-prefgp evaluate`: how well a saved model predicts duels it has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from sparse_prefgp.analysis.verdicts import is_reversed, score_parts
from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, open_model
from sparse_prefgp.cli.output_options import check_file, write_file
from sparse_prefgp.cli.shared_options import SavedModel, Shared
from sparse_prefgp.support.options import option, same_as
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.workflow.fit_sources import Sources
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = "Example: sparse-prefgp evaluate --model fitted --duels new_duels.csv"


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What a model is scored on, and where to."""

    duels: Path | None = option(
        "Duels: columns winner and loser hold item ids; count and tie are optional. A folder of "
        "Parquet files is read in chunks.",
        default=None,
    )
    choices: Path | None = same_as(Sources, "choices")
    rankings: Path | None = same_as(Sources, "rankings")
    best_worst: Path | None = same_as(Sources, "best_worst")
    at_once: bool = same_as(Sources, "at_once")
    unranked_last: bool = same_as(Sources, "unranked_last")
    out: Path | None = option("Write the scores here (.json).", default=None)
    overwrite: bool = same_as(Shared, "overwrite")
    seed: int = same_as(FitSettings, "seed")
    noise_by: str | None = same_as(Shared, "noise_by")
    blocks: str | None = same_as(Shared, "blocks", needs="duels")
    grade: str | None = same_as(Shared, "grade", needs="duels")
    time: str | None = same_as(Shared, "time", needs="duels")
    ahead: bool = option(
        "For utilities that move in time: also score the model updated day by day, each duel from "
        "the results of all days before it, next to Elo.",
        default=False,
        needs="duels",
    )


@command()
def evaluate(console: Output, saved: SavedModel, options: EvaluateOptions) -> None:
    """Score a model on duels, choices or rankings whose outcome is known.

    Next to it stand, fitted to the same training data, a linear probit and a coin for duels, and
    a conditional logit and equal shares for choices and rankings.
    """
    sources = (options.duels, options.choices, options.rankings, options.best_worst)
    check_file(options.out, options.overwrite, *saved.files, *sources, ending=".json")
    flags = {name: True for name in ("at_once", "unranked_last") if getattr(options, name)}
    fitted = open_model(console, saved.model)
    from sparse_prefgp.analysis.evaluation import evaluate as score_model
    from sparse_prefgp.analysis.rivals import LINEAR_PROBIT
    from sparse_prefgp.support.plain import as_json_text

    with console.status("Scoring …"):
        scores = score_model(
            fitted,
            options.duels,
            saved.items_of(fitted),
            rng=seeded(options.seed),
            groups=options.noise_by,
            blocks=options.blocks,
            grade=options.grade,
            time=options.time,
            ahead=options.ahead,
            choices=options.choices,
            rankings=options.rankings,
            best_worst=options.best_worst,
            **flags,
        )
    if options.out is not None:
        write_file(options.out, as_json_text(scores))
    console.tell(*score_parts(scores, ""))
    if "answers" in scores:
        _tell_outside(console, scores, "alternatives")
        console.finish(scores, options.out)
        return
    if LINEAR_PROBIT not in scores["held_out"]:
        console.print(
            Text(
                "Without a linear probit, and without pairs never seen in training: the model "
                "was fitted to a stream, whose duels are not kept."
            ),
            soft_wrap=True,
        )
    if is_reversed(scores["held_out"]):
        console.print(
            Text(
                "The model is wrong more often than a coin: were winner and loser exchanged, in "
                "these duels or in those that it learned from?",
                style="yellow",
            )
        )
    if scores["duels_in_blocks"]:
        console.print(
            Text(
                f"{scores['duels_in_blocks']:,} of the {scores['duels']:,} duels are of blocks "
                "that the model knows, and predicted from these too."
            ),
            soft_wrap=True,
        )
    _tell_outside(console, scores, "duels")
    console.finish(scores, options.out)


def _tell_outside(console: Output, scores: Mapping[str, Any], what: str) -> None:
    if scores["items_outside_range"]:
        console.tell(
            f"{scores['items_outside_range']:,} of the items in these {what} lie outside the range "
            "of the training items."
        )
