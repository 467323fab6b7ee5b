"""`sparse-prefgp suggest`: the duels, or sets, to ask next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rich.text import Text

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import (
    Cells,
    Output,
    cells_table,
    chances,
    counting_bar,
    open_model,
)
from sparse_prefgp.cli.output_options import check_file, write_file
from sparse_prefgp.cli.shared_options import SavedModel, Shared, person_of
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.support.options import option, same_as
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = "Example: sparse-prefgp suggest --model fitted --batch 20 --score bald --out ask.csv"


class Score(StrEnum):
    """The scores of `suggestion.SCORES`, which cannot be imported before they are needed."""

    BALD = "bald"
    VARIANCE = "variance"
    EUBO = "eubo"
    THOMPSON = "thompson"
    HALLUCINATION = "hallucination"


@dataclass(frozen=True, kw_only=True)
class SuggestOptions:
    """How pairs are chosen, and where to."""

    pairs: Path | None = option(
        "Choose from these pairs alone: columns first and second (or winner and loser) hold item "
        "ids.",
        default=None,
    )
    batch: int = option("How many pairs or sets, all different.", default=10, least=1)
    set_size: int = option(
        "How many items are shown at a time, to choose one of: above 2 sets in place of pairs, by "
        "the score bald.",
        default=2,
        least=2,
    )
    score: Score = option(
        "bald (information) and variance learn all utilities; eubo (expected utility of the better "
        "one), thompson and hallucination look for the best item.",
        default=Score.BALD,
    )
    max_pairs: int = option(
        "If there are more pairs, look at this many: random ones or, when looking for the best "
        "item, those of the likeliest best items.",
        default=50_000,
        least=1,
    )
    at: Sequence[str] = option(
        "Only duels in this context, for a model with contexts: surface=clay, repeatable; for "
        "utilities that move in time when, as date=2014-07-13.",
        default=(),
        kind=list[str],
        parse=tuple,
    )
    out: Path | None = option("Write the pairs here (.csv).", default=None)
    overwrite: bool = same_as(Shared, "overwrite")
    seed: int = same_as(FitSettings, "seed")
    person: Sequence[str] = same_as(Shared, "person")


@command()
def suggest(console: Output, saved: SavedModel, options: SuggestOptions) -> None:
    """Suggest which duels or sets to ask next.

    Each is chosen as if those before it were asked already.
    """
    check_file(options.out, options.overwrite, *saved.files, options.pairs)
    fitted = open_model(console, saved.model)
    import numpy as np

    from sparse_prefgp.analysis.suggestion import suggest as suggest_pairs

    with counting_bar(console, "Choosing") as progress:
        found = suggest_pairs(
            fitted,
            saved.items_of(fitted),
            pairs=options.pairs,
            batch=options.batch,
            set_size=options.set_size,
            score=options.score.value,
            max_pairs=options.max_pairs,
            at=options.at,
            person=person_of(options.person),
            rng=np.random.default_rng(options.seed),
            progress=progress,
        )
    if options.out is not None:
        write_file(options.out, csv_of(found.frame))
    console.print(_table(found.frame) if found.set_size == 2 else _sets_table(found))
    for note in found.notes():
        console.print(Text(note))
    console.finish({**found.to_dict(), "seed": options.seed}, options.out)


TIE = "tie_probability"


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
    context = [name for name in frame.columns[2 : frame.columns.get_loc("score")]]
    columns |= {name: [str(value) for value in frame[name]] for name in context}
    left = ("first", "second", *context)
    return cells_table("Ask next", columns, left=left, spare=("outside", "sd"))


def _sets_table(found: Any) -> Cells:
    frame, places = found.frame, range(1, found.set_size + 1)
    left = [f"option_{j}" for j in places]
    shares = [chances(frame[f"probability_{j}"]) for j in places]
    columns = {name: [str(item) for item in frame[name]] for name in left}
    columns["score"] = [f"{value:z.4f}" for value in frame["score"]]
    columns["probabilities"] = [" ".join(row) for row in zip(*shares, strict=True)]
    if frame["outside_range"].any():
        columns["outside"] = ["yes" if flag else "" for flag in frame["outside_range"]]
    return cells_table("Ask next", columns, left=tuple(left), spare=("outside",))
