"""`sparse-prefgp rank`: all items by utility, with what is sure and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, counting_bar, kept_from, open_model
from sparse_prefgp.cli.shared_options import SavedModel, Shared, Written, anchor_of, repeated
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = "Example: sparse-prefgp rank --model fitted --items next_month.csv --out ranking.csv"


@option_class
class RankOptions:
    """How items are ranked."""

    with_own: bool = option(False)
    """Rank the model's own items along with those of --items."""
    order: str | None = option()
    """By expected utility (mean) or by the lower end of its interval (lower); by default lower
    where some items have more duels than others, else mean.
    """
    min_comparisons: int = option(0, least=0)
    """Leave out items with fewer training duels, whatever these weigh."""
    top_k: int | None = option(flag="--top", least=1)
    """Give each item's chance to be among the first so many; 10 by default, or all items if there
    are fewer.
    """
    at: Sequence[str] = repeated()
    """Where items are ranked. surface=clay: on clay. surface=clay,home=1: on clay and at home.
    Given several times: on average over all contexts seen that agree with one of them. each: every
    item in every context, a row for each. last: at the last row of each item (--item of fit).
    date=2014-07-13: at this date, for utilities that move in time. By default on average over all
    contexts seen, and at the date of the last duel.
    """
    with_ranks: bool = option(False, flag="--ranks")
    """Also show the ranks that are not ruled out, likely ranks, groups that cannot be told apart,
    and Elo points."""
    anchor: Any = option(kind=str, parse=anchor_of, metavar="ITEM=POINTS")
    """The item that has these Elo points, or 1000; by default the average has 1000."""
    level: float = same_as(Shared, "level")
    person: Any = same_as(Shared, "person")
    candidates: int = option(1_000, least=1)
    """Largest number of items among which the best are looked for."""
    samples: int = option(10_000, least=1, most=10_000_000)
    """How many samples are drawn."""
    seed: int = same_as(FitSettings, "seed")


@command()
def rank(
    console: Output,
    saved: SavedModel,
    written: Written,
    asked: Annotated[Record, RankOptions],
) -> None:
    """Rank items by utility, with intervals.

    Each item has its probability of being the best and among the first few (--top), and its
    number of comparisons. Items with equal features share a row.
    """
    fitted = open_model(console, saved, written, asked)
    from sparse_prefgp.analysis.ranking import rank as rank_items

    if "anchor" in asked:
        asked["with_ranks"] = True
    rng = seeded(asked.pop("seed", 0))
    with counting_bar(console, "Ranking") as progress:
        ranking = rank_items(fitted, saved.items_of(fitted), rng=rng, progress=progress, **asked)
    console.show(ranking, written, kept_from(saved.model))
