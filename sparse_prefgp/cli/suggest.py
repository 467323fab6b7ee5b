"""`sparse-prefgp suggest`: the duels to ask next."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from sparse_prefgp.cli.console import (
    Cells,
    cells_table,
    chances,
    counting_bar,
    open_model,
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

EXAMPLE = "Example: sparse-prefgp suggest --model fitted --batch 20 --score bald --out ask.csv"


class Score(StrEnum):
    """The scores of `suggestion.SCORES`, which cannot be imported before they are needed."""

    BALD = "bald"
    VARIANCE = "variance"
    EUBO = "eubo"
    THOMPSON = "thompson"
    HALLUCINATION = "hallucination"


def suggest(
    model: Model,
    items: Items = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Choose from these pairs alone: columns first and second (or winner and loser) "
            "hold item ids.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="How many pairs, all different.")] = 10,
    score: Annotated[
        Score,
        typer.Option(
            help="bald (information) and variance learn all utilities; eubo (expected utility of "
            "the better one), thompson and hallucination look for the best item."
        ),
    ] = Score.BALD,
    max_pairs: Annotated[
        int,
        typer.Option(
            help="Look at so many pairs at most: of more, at random ones or, when looking for the "
            "best item, at those of the likely best."
        ),
    ] = 50_000,
    out: Annotated[
        Path | None, typer.Option(help="Write the pairs here (.csv).", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Suggest which duels to ask next, each as if those before it were asked already."""
    with sentences(quiet, as_json, threads) as console:
        check_file(out, overwrite, items, pairs)
        _check_seed(seed)
        fitted = open_model(console, model)
        import numpy as np

        from sparse_prefgp.analysis.suggestion import suggest as suggest_pairs

        with counting_bar(console, "Choosing") as progress:
            found = suggest_pairs(
                fitted,
                items,
                pairs=pairs,
                batch=batch,
                score=score.value,
                max_pairs=max_pairs,
                rng=np.random.default_rng(seed),
                progress=progress,
            )
        if out is not None:
            write_file(out, found.frame.to_csv(index=False))
        console.print(_table(found.frame))
        for note in found.notes():
            console.print(Text(note))
        if out is not None:
            console.print(Text(f"Written to {out}."), soft_wrap=True)
        console.manners.emit({**found.to_dict(), "seed": seed})


TIE = "tie_probability"


def _check_seed(seed: int) -> None:
    from sparse_prefgp.support.checks import whole_number

    whole_number("seed", seed, 0)


def _table(frame: Any) -> Cells:
    columns = {
        "first": [str(item) for item in frame["first"]],
        "second": [str(item) for item in frame["second"]],
        "score": [f"{value:z.4f}" for value in frame["score"]],
        "probability": chances(frame["probability"]),
        **({"tie": chances(frame[TIE])} if TIE in frame.columns else {}),
        "difference": [f"{value:z.3f}" for value in frame["difference"]],
        "sd": [f"{value:.3f}" for value in frame["sd"]],
    }
    if frame["outside_range"].any():
        columns["outside"] = ["yes" if flag else "" for flag in frame["outside_range"]]
    return cells_table("Ask next", columns, left=("first", "second"), spare=("outside", "sd"))
