"""`sparse-prefgp rank`: all items by utility, with what is sure and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from sparse_prefgp.cli.console import counting_bar, frame_table, open_model, sentences
from sparse_prefgp.cli.manners import (
    AsJson,
    Items,
    Level,
    Model,
    Overwrite,
    Quiet,
    Seed,
    Threads,
    check_file,
    write_file,
)

EXAMPLE = "Example: sparse-prefgp rank --model fitted --items next_month.csv --out ranking.csv"


def rank(
    model: Model,
    items: Items = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the whole ranking here (.csv).", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    top: Annotated[
        int | None,
        typer.Option(
            help="k of the probability of being in the top k; 10, or all items if fewer.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[int, typer.Option(help="How many items to print.")] = 20,
    level: Level = 0.95,
    candidates: Annotated[
        int, typer.Option(help="So many items are sampled jointly to find the best.")
    ] = 1000,
    samples: Annotated[int, typer.Option(help="How many joint samples.")] = 10_000,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Rank items by utility: interval, probability of being best and in the top k, comparisons."""
    with sentences(quiet, as_json, threads) as console:
        check_file(out, overwrite, items)
        fitted = open_model(console, model)
        from sparse_prefgp.analysis.ranking import rank as rank_items

        with counting_bar(console, "Ranking") as progress:
            ranking = rank_items(
                fitted,
                items,
                top_k=top,
                level=level,
                candidates=candidates,
                samples=samples,
                seed=seed,
                progress=progress,
            )
        frame = ranking.frame
        if out is not None:
            write_file(out, frame.to_csv(index=False))
        console.print(frame_table(f"The first of {len(frame):,} items", frame, show))
        for note in ranking.notes():
            console.print(Text(note))
        if out is not None:
            console.print(Text(f"Written to {out}."), soft_wrap=True)
        console.manners.emit(ranking.to_dict())
