"""`sparse-prefgp rank`: all items by utility, with what is sure and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from sparse_prefgp.cli.console import (
    Cells,
    cells_table,
    chances,
    counting_bar,
    intervals,
    open_model,
    sentences,
)
from sparse_prefgp.cli.output_options import (
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
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.support.words import counted

if TYPE_CHECKING:
    from sparse_prefgp.analysis.ranking import Ranking

EXAMPLE = "Example: sparse-prefgp rank --model fitted --items next_month.csv --out ranking.csv"


def rank(
    model: Model,
    items: Items = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the whole ranking here (.csv).", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    order: Annotated[
        str | None,
        typer.Option(
            help="By expected utility (mean) or by the lower end of its interval (lower); by "
            "default lower where some items have more duels than others, else mean.",
            show_default=False,
        ),
    ] = None,
    min_comparisons: Annotated[
        int, typer.Option(help="Leave out items with fewer training duels, whatever these weigh.")
    ] = 0,
    top: Annotated[
        int | None,
        typer.Option(
            help="k of the probability of being in the top k; 10, or all items if fewer.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="How many items to print.")] = 20,
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
    """Rank items by utility: interval, probability of being best and in the top k, comparisons.

    Items with equal features share a row.
    """
    with sentences(quiet, as_json, threads) as console:
        check_file(out, overwrite, items)
        fitted = open_model(console, model)
        from sparse_prefgp.analysis.ranking import rank as rank_items

        with counting_bar(console, "Ranking") as progress:
            ranking = rank_items(
                fitted,
                items,
                order=order,
                min_comparisons=min_comparisons,
                top_k=top,
                level=level,
                candidates=candidates,
                samples=samples,
                rng=seeded(seed),
                progress=progress,
            )
        frame = ranking.frame
        if out is not None:
            write_file(out, frame.to_csv(index=False))
        console.print(_table(ranking, show))
        for note in ranking.notes():
            console.print(Text(note))
        if out is not None:
            console.print(Text(f"Written to {out}."), soft_wrap=True)
        console.manners.emit(ranking.to_dict())


def _table(ranking: Ranking, show: int) -> Cells:
    frame, total = ranking.frame.head(show), len(ranking.frame)
    top = f"top {ranking.top_k}"
    columns = {
        "rank": [f"{rank:,}" for rank in frame["rank"]],
        "item": [str(item) for item in frame["item_id"]],
        "utility": [f"{value:z.3f}" for value in frame["utility"]],
        "interval": intervals(frame["lower"], frame["upper"]),
        "best": chances(frame["p_best"]),
        top: chances(frame["p_top_k"]),
        "duels": [f"{count:,}" for count in frame["comparisons"]],
    }
    if frame["copies"].max() > 1:
        columns["copies"] = [f"{count:,}" for count in frame["copies"]]
    if frame["outside_range"].any():
        columns["outside"] = ["yes" if flag else "" for flag in frame["outside_range"]]
    title = "All items" if len(frame) == total else f"The first {len(frame):,} of {total:,} items"
    if ranking.left_out:
        title += f" with {counted(ranking.min_comparisons, 'duel')} or more"
    spare = ("outside", "copies", "duels", top, "best", "interval")
    return cells_table(title, columns, left=("item",), spare=spare)
