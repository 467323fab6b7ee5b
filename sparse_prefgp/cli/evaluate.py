"""`sparse-prefgp evaluate`: how well a saved model predicts duels it has not seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from sparse_prefgp.analysis.verdicts import is_reversed, score_parts
from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, open_model
from sparse_prefgp.cli.output_options import check_file, write_file
from sparse_prefgp.cli.shared_options import AboutSets, ModelAndTable, Shared, inputs_of
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = "Example: sparse-prefgp evaluate --model fitted --duels new_duels.csv"


@option_class
class EvaluateOptions(AboutSets):
    """What a model is scored on, and where to."""

    duels: Path | None = option()
    """Duels: columns winner and loser hold item ids; count and tie are optional. A folder of
    Parquet files is read in chunks.
    """
    out: Path | None = option()
    """Write the scores here (.json)."""
    overwrite: bool = same_as(Shared, "overwrite")
    seed: int = same_as(FitSettings, "seed")
    ahead: bool = option(False)
    """For utilities that move in time: also score the model updated day by day, each duel from the
    results of all days before it, next to Elo.
    """
    risk: float | None = option(above=0.0, below=1.0)
    """Say from which confidence on at most this share of verdicts is wrong, such as 0.1. For duels
    like those to come, that the model has not learned from.
    """
    confidence: float = option(0.95, above=0.0, below=1.0, needs="risk")
    """With which the risk is kept."""
    task: str | None = option(needs="risk")
    """The column of the task that a vote is on: one vote of each is tested, as votes of one task
    are not independent. By default one that is called task, question_id or the like; none for none.
    """
    trust: Path | None = option()
    """Write each duel with how probable it was here (.csv), the most surprising first."""


@command()
def evaluate(
    console: Output, saved: ModelAndTable, asked: Annotated[Record, EvaluateOptions]
) -> None:
    """Score a model on duels, choices or rankings whose outcome is known.

    Next to it stand, fitted to the same training data, a linear probit and a coin for duels, and
    a conditional logit and equal shares for choices and rankings.
    """
    out, trust = asked.pop("out", None), asked.pop("trust", None)
    overwrite, rng = asked.pop("overwrite", False), seeded(asked.pop("seed", 0))
    check_file(out, overwrite, *inputs_of(saved, asked), endings=[".json"])
    check_file(trust, overwrite, *inputs_of(saved, asked), endings=[".csv"])
    fitted = open_model(console, saved)
    from sparse_prefgp.analysis.evaluation import evaluate as score_model
    from sparse_prefgp.io.formats import csv_of
    from sparse_prefgp.support.plain import as_json_text

    with console.status("Scoring …"):
        given = {"rng": rng, "columns": saved.columns, "trust": trust is not None, **asked}
        scores = score_model(fitted, items=saved.items_of(fitted), **given)
    votes = scores.pop("votes", None)
    if trust is not None:
        write_file(trust, csv_of(votes))
    if out is not None:
        write_file(out, as_json_text(scores))
    told = [scores["threshold"]["sentence"]] if "threshold" in scores else []
    console.tell(*score_parts(scores, ""), *told, *_notes(scores, fitted.duels.held))
    console.finish(scores, out)


def _notes(scores: Record, held: bool) -> Iterator[str]:
    """What else there is to know; `held` is whether the duels of the model are kept."""
    what = "alternatives"
    if "answers" not in scores:
        what = "duels"
        if not held:
            yield (
                "Without a linear probit, and without pairs never seen in training: the model "
                "was fitted to a stream, whose duels are not kept."
            )
        if is_reversed(scores["held_out"]):
            yield (
                "The model is wrong more often than a coin: were winner and loser exchanged, in "
                "these duels or in those that it learned from?"
            )
        if scores["duels_in_blocks"]:
            yield (
                f"{scores['duels_in_blocks']:,} of the {scores['duels']:,} duels are of blocks "
                "that the model knows, and predicted from these too."
            )
    if scores["items_outside_range"]:
        yield (
            f"{scores['items_outside_range']:,} of the items in these {what} lie outside the range "
            "of the training items."
        )
