"""`sparse-prefgp evaluate`: how well a saved model predicts duels it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from sparse_prefgp.cli.console import (
    UNSEEN_HEADINGS,
    open_model,
    outcomes_table,
    scores_table,
    sentences,
)
from sparse_prefgp.cli.output_options import (
    AsJson,
    Items,
    Model,
    Overwrite,
    Quiet,
    Seed,
    Threads,
    check_file,
    write_file,
)
from sparse_prefgp.support.randomness import seeded

EXAMPLE = "Example: sparse-prefgp evaluate --model fitted --duels new_duels.csv"


def evaluate(
    model: Model,
    duels: Annotated[
        Path,
        typer.Option(
            help="Duels: columns winner and loser hold item ids; count and tie are optional. A "
            "folder of Parquet files is read in chunks."
        ),
    ],
    items: Items = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the scores here (.json).", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    noise_by: Annotated[
        str | None,
        typer.Option(
            help="Column of the duels that says who judged, for a model with noise by group.",
            show_default=False,
        ),
    ] = None,
    blocks: Annotated[
        str | None,
        typer.Option(
            help="Column of the duels that holds their blocks, for a model with pitc:COLUMN.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Score a model on labelled duels, next to a linear probit on its training duels and a coin."""
    with sentences(quiet, as_json, threads) as console:
        check_file(out, overwrite, items, duels, ending=".json")
        fitted = open_model(console, model)
        from sparse_prefgp.analysis.evaluation import evaluate as score_model
        from sparse_prefgp.analysis.scoring import LINEAR_PROBIT
        from sparse_prefgp.support.plain import as_json_text

        with console.status("Scoring …"):
            scores = score_model(
                fitted, duels, items, rng=seeded(seed), groups=noise_by, blocks=blocks
            )
        if out is not None:
            write_file(out, as_json_text(scores))
        title = "Scores of duels that one side won" if scores["ties"] else "Scores"
        console.print(scores_table(title, {"": scores["held_out"]}))
        if LINEAR_PROBIT not in scores["held_out"]:
            console.print(
                Text(
                    "Without a linear probit, and without pairs never seen in training: the model "
                    "was fitted to a stream, whose duels are not kept."
                ),
                soft_wrap=True,
            )
        if scores["held_out_outcomes"]:
            console.print(outcomes_table(scores["held_out_outcomes"]))
        if scores["held_out_unseen_pairs"]:
            parts = {
                UNSEEN_HEADINGS[name]: part
                for name, part in scores["held_out_unseen_pairs"].items()
            }
            console.print(scores_table("Of these, pairs never seen in training", parts))
        if scores["duels_in_blocks"]:
            console.print(
                Text(
                    f"{scores['duels_in_blocks']:,} of the {scores['duels']:,} duels are of blocks "
                    "that the model knows, and predicted from these too."
                ),
                soft_wrap=True,
            )
        if scores["items_outside_range"]:
            console.print(
                Text(
                    f"{scores['items_outside_range']:,} of the items in these duels lie outside "
                    "the range of the training items."
                )
            )
        if out is not None:
            console.print(Text(f"Written to {out}."), soft_wrap=True)
        console.manners.emit(scores)
