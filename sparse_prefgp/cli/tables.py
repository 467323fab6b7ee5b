"""What `fit` and `select` are given alike: tables, columns, and how to read them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ItemTable = Annotated[
    Path,
    typer.Option(
        "--items",
        help="Items: CSV, Excel (.xlsx) or Parquet, a row each. The id is the column item_id, "
        "else the first; other numeric or categorical columns are features.",
    ),
]
OptionalItems = Annotated[
    Path | None,
    typer.Option(
        "--items",
        help="Items: CSV, Excel (.xlsx) or Parquet, a row each. The id is the column item_id, "
        "else the first; other numeric or categorical columns are features. Without it, or "
        "without features, each item has an effect of its own (Bradley-Terry).",
        show_default=False,
    ),
]
Duels = Annotated[
    Path | None,
    typer.Option(
        "--duels",
        help="Duels: columns winner and loser hold item ids; count is optional.",
        show_default=False,
    ),
]
Choices = Annotated[
    Path | None,
    typer.Option(
        "--choices",
        help="Instead of duels, choices of one item from a set: a row for each option with "
        "columns choice_set, item_id and chosen (1 or 0), or a row for each choice with "
        "columns chosen, option_1, option_2, …",
        show_default=False,
    ),
]
Rankings = Annotated[
    Path | None,
    typer.Option(
        "--rankings",
        help="Instead of duels, rankings, best first: columns rank_1, rank_2, … hold item ids; "
        "or a row for each item with columns ranking, item_id and rank.",
        show_default=False,
    ),
]
Features = Annotated[
    str | None,
    typer.Option("--features", help="Use only these columns: a,b,c.", show_default=False),
]
Ignore = Annotated[
    str | None,
    typer.Option("--ignore", help="Columns that are not features: x,y.", show_default=False),
]
NoiseVariance = Annotated[
    float,
    typer.Option(
        "--noise-variance", help="Of each side of a duel; 0.5 is the standard probit scale."
    ),
]
Ties = Annotated[
    Path | None,
    typer.Option(
        "--ties",
        help="Tied pairs: columns item_a and item_b hold item ids. A column tie (1 or 0) in the "
        "duels says the same.",
        show_default=False,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weight",
        help="Column of the duels: as how many duels each counts in the fit.",
        show_default=False,
    ),
]
NoiseBy = Annotated[
    str | None,
    typer.Option(
        "--noise-by",
        help="Column of the duels that says who judged: each has a noise of its own.",
        show_default=False,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="Columns of the duels that become features: surface for both sides, or home where "
        "winner_home and loser_home hold a value for each.",
        show_default=False,
    ),
]
FixedInducing = Annotated[
    bool,
    typer.Option(
        "--fixed-inducing", metavar="", help="Leave inducing inputs where k-means puts them."
    ),
]
LeastGain = Annotated[
    float,
    typer.Option(
        help="Stop where ten steps together bring less than so many nats a duel; 0 continues to "
        "the optimum, or to the most steps."
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        metavar="",
        help="Go on with what was killed or interrupted: the same command.",
    ),
]


def names(text: str) -> list[str]:
    """Words separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def optional_names(text: str | None) -> list[str] | None:
    """The same of what may be left out."""
    return None if text is None else names(text)
