"""`sparse-prefgp shares`: what share of people would choose each alternative of new sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import sparse_prefgp.plotting as plotting
from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, open_model
from sparse_prefgp.cli.shared_options import Drawn, ModelAndTable, Shared
from sparse_prefgp.support.options import option, option_class, required, same_as
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = (
    "Example: sparse-prefgp shares --model fitted --alternatives plans.csv --picture plans.png"
)


@option_class
class SharesOptions:
    """Of which sets."""

    alternatives: Path = required()
    """A row for each alternative: item_id, or the features of the model; a column choice_set for
    more than one set. Or columns option_1, option_2, …
    """
    level: float = same_as(Shared, "level", default=0.9)
    """Chance that an interval holds the truth, for example 0.95."""
    draws: int = option(2_000, least=1, most=10_000_000)
    """How many draws of the utilities."""
    seed: int = same_as(FitSettings, "seed")


@command()
def shares(
    console: Output,
    saved: ModelAndTable,
    drawn: Drawn,
    asked: Annotated[Record, SharesOptions],
) -> None:
    """What share of people would choose each alternative of new sets, with intervals."""
    fitted = open_model(console, saved, drawn, asked)
    from sparse_prefgp.analysis.shares import shares as shares_of

    rng = seeded(asked.pop("seed", 0))
    with console.status("Drawing utilities …"):
        items = saved.items_of(fitted)
        found = shares_of(fitted, items=items, rng=rng, columns=saved.columns, **asked)
    console.show(found, drawn, draw=lambda: plotting.shares(found))
