"""What `fit` and `select` are given alike: tables, columns, and how to read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sparse_prefgp.io import DuelTable

ItemTable = Annotated[
    Path,
    typer.Option(
        "--items",
        help="Items: CSV, gzipped CSV or Parquet, a row each. The id is the column item_id, "
        "else the first; other numeric or categorical columns are features.",
    ),
]
OptionalItems = Annotated[
    Path | None,
    typer.Option(
        "--items",
        help="Items: CSV, gzipped CSV or Parquet, a row each. The id is the column item_id, "
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
    typer.Option("--ignore", help="Columns that are no features: x,y.", show_default=False),
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
        help="Stop where ten steps together bring less than so many nats a duel; 0 goes on to the "
        "optimum, or to the most steps."
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


@dataclass(frozen=True)
class Tables:
    """Items, and duels, choices or rankings of them: one of the three. Items may be left out.

    features, ignore, context: names of columns, separated by commas. ties: of duels only. weight,
    noise_by: a column each.
    """

    items: Path | None
    duels: Path | None = None
    choices: Path | None = None
    rankings: Path | None = None
    features: str | None = None
    ignore: str | None = None
    ties: Path | None = None
    weight: str | None = None
    noise_by: str | None = None
    context: str | None = None

    @property
    def files(self) -> tuple[Path | None, ...]:
        return self.items, self.duels, self.choices, self.rankings, self.ties

    def read(self, split: str) -> DuelTable:
        """The table; columns that the split names are no features.

        Raises:
            ValueError: none of the three, or more than one; ties of choices or rankings;
                what the readers raise.
        """
        from sparse_prefgp.io import (
            read_choice_table,
            read_ranking_table,
            read_table,
            with_judgements,
        )
        from sparse_prefgp.splits import split_columns

        readers = (
            ("--duels", read_table, self.duels),
            ("--choices", read_choice_table, self.choices),
            ("--rankings", read_ranking_table, self.rankings),
        )
        given = [(name, reader, path) for name, reader, path in readers if path is not None]
        if len(given) != 1:
            found = " and ".join(name for name, *_ in given)
            problem = f"{found} were given" if given else "none was given"
            raise ValueError(f"Give one of --duels, --choices and --rankings; {problem}.")
        ((name, reader, path),) = given
        if self.ties is not None and name != "--duels":
            raise ValueError(f"--ties was given with {name}; ties go with --duels alone.")
        options: dict[str, Any] = {} if self.ties is None else {"ties": self.ties}
        table = reader(
            self.items,
            path,
            features=None if self.features is None else names(self.features),
            ignore=() if self.ignore is None else names(self.ignore),
            never_features=split_columns(split),
            **options,
        )
        return with_judgements(
            table,
            weights=self.weight,
            groups=self.noise_by,
            context=() if self.context is None else names(self.context),
        )


def names(text: str) -> list[str]:
    """Words separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
