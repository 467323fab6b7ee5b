"""`sparse-prefgp suggest`: the duels, or sets, to ask next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, counting_bar, open_model
from sparse_prefgp.cli.shared_options import ModelAndTable, SavedModel, Shared, Written, repeated
from sparse_prefgp.support import together
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.support.words import dashed
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = "Example: sparse-prefgp suggest --model fitted --batch 20 --score bald --out ask.csv"

# By default.
BATCH = 10


@option_class
class MaybeModel(SavedModel):
    """A model, or none yet."""

    model: Path | None = same_as(SavedModel, "model", default=None)  # type: ignore[assignment]
    first_round: bool = option(False, needs=("items",), excludes=("model", "embedding"))
    """Without a model: random pairs of --items for a first round, in which every item is shown as
    often as every other.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is None and not self.first_round:
            raise ValueError(
                "No model was given; give the folder of one (--model), or ask for a first round "
                "of pairs (--first-round)."
            )


@option_class
class SuggestOptions:
    """How pairs are chosen."""

    pairs: Path | None = option()
    """Choose from these pairs alone: columns first and second (or winner and loser) hold item ids.
    """
    columns: Mapping[str, str] | None = same_as(ModelAndTable, "columns", needs=("pairs",))
    """Columns of --pairs that are called otherwise than in fit, such as surface=ground."""
    batch: int | None = option(least=1)
    """How many pairs or sets, all different; by default 10, in a first round so many that each item
    is shown twice.
    """
    set_size: int = option(2, least=2)
    """How many items are shown at a time, to choose one of: above 2 sets in place of pairs, by the
    score bald.
    """
    score: str | None = option()
    """bald (information), the default, and variance learn all utilities; eubo (expected utility of
    the better one) and thompson look for the best item; settle for who the first ones are.
    """
    top: int | None = option(least=1)
    """How many the first ones are that the score settle settles; by default 5, or one less than the
    items where these are fewer.
    """
    prices: Path | None = option()
    """For the score settle, with noise by judge: what a vote of each costs, in columns judge and
    price. Whoever is not there is not asked.
    """
    max_pairs: int = option(50_000, least=1)
    """If there are more pairs, look at this many: random ones or, when looking for the best item,
    those of the likeliest best items.
    """
    at: Sequence[str] = repeated()
    """Only duels in this context, for a model with contexts: surface=clay, repeatable; for
    utilities that move in time when, as date=2014-07-13.
    """
    seed: int = same_as(FitSettings, "seed")
    person: Any = same_as(Shared, "person")


@command()
def suggest(
    console: Output,
    saved: MaybeModel,
    written: Written,
    asked: Annotated[Record, SuggestOptions],
) -> None:
    """Suggest which duels or sets to ask next.

    Each is chosen as if those before it were asked already.
    """
    written.check(saved, asked)
    seed = asked.pop("seed", 0)
    rng = seeded(seed)
    if saved.model is None:
        for name in (one for one in asked if one != "batch"):  # which say how a model chooses
            raise together.refused(first_round=True, choosing=f"the option --{dashed(name)}")
        from sparse_prefgp.analysis.first_round import first_round

        console.show(first_round(saved.items, asked.get("batch"), rng), written, seed=seed)
        return
    fitted = open_model(console, saved)

    from sparse_prefgp.analysis.suggestion import suggest as suggest_pairs

    asked.setdefault("batch", BATCH)
    with counting_bar(console, "Choosing") as progress:
        items = saved.items_of(fitted)
        found = suggest_pairs(fitted, items, rng=rng, progress=progress, **asked)
    console.show(found, written, seed=seed)
