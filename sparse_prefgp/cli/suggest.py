"""`sparse-prefgp suggest`: the duels, or sets, to ask next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, counting_bar, open_model
from sparse_prefgp.cli.output_options import check_file, write_file
from sparse_prefgp.cli.shared_options import SavedModel, Shared, person_of
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.support.options import option, same_as
from sparse_prefgp.tell.tables import Column, Table, chance, flag, records
from sparse_prefgp.workflow.settings import FitSettings

if TYPE_CHECKING:
    from sparse_prefgp.analysis.suggestion import Suggestions

EXAMPLE = "Example: sparse-prefgp suggest --model fitted --batch 20 --score bald --out ask.csv"


class Score(StrEnum):
    """The scores of `suggestion.SCORES`, which cannot be imported before they are needed."""

    BALD = "bald"
    VARIANCE = "variance"
    EUBO = "eubo"
    THOMPSON = "thompson"


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
        "one) and thompson look for the best item.",
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
    console.tell(_table(found), *found.notes())
    console.finish({**found.to_dict(), "seed": options.seed}, options.out)


def _table(found: Suggestions) -> Table:
    """Pairs or sets, as they are shown."""
    frame, title = found.frame, "Ask next"
    score = Column("score", "score", "z.4f")
    outside = [Column("outside_range", "outside", flag, spare=1)]
    if not frame["outside_range"].any():
        outside = []
    if found.set_size > 2:
        places = range(1, found.set_size + 1)
        options = [Column(f"option_{j}", f"option_{j}", str, left=True) for j in places]
        rows = [
            {**row, "shares": " ".join(chance(row[f"probability_{j}"]) for j in places)}
            for row in records(frame)
        ]
        columns = [*options, score, Column("shares", "probabilities"), *outside]
        return Table("sets", title, columns, rows)
    context = frame.columns[2 : frame.columns.get_loc("score")]
    columns = [
        *(Column(name, name, str, left=True) for name in ("first", "second")),
        score,
        Column("probability", "probability", chance),
        Column("tie_probability", "tie", chance),
        Column("difference", "difference", "z.3f"),
        Column("sd", "sd", ".3f", spare=2),
        *outside,
        *(Column(name, name, str, left=True) for name in context),
    ]
    return Table("pairs", title, columns, records(frame))
