"""`sparse-prefgp rank`: all items by utility, with what is sure and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, counting_bar, kept_from, open_model
from sparse_prefgp.cli.output_options import check_file, write_file
from sparse_prefgp.cli.shared_options import SavedModel, Shared, person_of
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.support.options import option, same_as
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = "Example: sparse-prefgp rank --model fitted --items next_month.csv --out ranking.csv"


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """How items are ranked, and where to."""

    out: Path | None = option("Write the whole ranking here (.csv).", default=None)
    overwrite: bool = same_as(Shared, "overwrite")
    with_own: bool = option(
        "Rank the model's own items along with those of --items.", default=False
    )
    order: str | None = option(
        "By expected utility (mean) or by the lower end of its interval (lower); by default lower "
        "where some items have more duels than others, else mean.",
        default=None,
    )
    min_comparisons: int = option(
        "Leave out items with fewer training duels, whatever these weigh.", default=0, least=0
    )
    top: int | None = option(
        "Give each item's chance to be among the first so many; 10 by default, or all items if "
        "there are fewer.",
        default=None,
        least=1,
    )
    show: int = option("How many items to print.", default=20, least=0)
    at: Sequence[str] = option(
        "Where items are ranked. surface=clay: on clay. surface=clay,home=1: on clay and at home. "
        "Given several times: on average over all contexts seen that agree with one of them. each: "
        "every item in every context, a row for each. last: at the last row of each item (--item "
        "of fit). date=2014-07-13: at this date, for utilities that move in time. By default on "
        "average over all contexts seen, and at the date of the last duel.",
        default=(),
        kind=list[str],
        parse=tuple,
    )
    level: float = same_as(Shared, "level")
    person: Sequence[str] = same_as(Shared, "person")
    candidates: int = option(
        "Largest number of items among which the best are looked for.", default=1000, least=1
    )
    samples: int = option("How many samples are drawn.", default=10_000, least=1, most=10_000_000)
    seed: int = same_as(FitSettings, "seed")


@command()
def rank(console: Output, saved: SavedModel, options: RankOptions) -> None:
    """Rank items by utility, with intervals.

    Each item has its probability of being the best and among the first few (--top), and its
    number of comparisons. Items with equal features share a row.
    """
    check_file(options.out, options.overwrite, *saved.files)
    fitted = open_model(console, saved.model)
    from sparse_prefgp.analysis.ranking import rank as rank_items

    with counting_bar(console, "Ranking") as progress:
        ranking = rank_items(
            fitted,
            saved.items_of(fitted),
            with_own=options.with_own,
            order=options.order,
            min_comparisons=options.min_comparisons,
            top_k=options.top,
            level=options.level,
            candidates=options.candidates,
            samples=options.samples,
            rng=seeded(options.seed),
            at=options.at,
            person=person_of(options.person),
            progress=progress,
        )
    if options.out is not None:
        write_file(options.out, csv_of(ranking.frame))
    notes = filter(None, [*ranking.notes(), kept_from(saved.model)])
    console.tell(ranking.table(options.show), *notes)
    console.finish(ranking.to_dict(), options.out)
