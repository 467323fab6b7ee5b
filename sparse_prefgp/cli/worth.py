"""`sparse-prefgp worth`: what a step of each attribute is worth in units of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import sparse_prefgp.plotting as plotting
from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, open_model
from sparse_prefgp.cli.shared_options import Drawn, SavedModel, Shared
from sparse_prefgp.io.forms import pairs_of_words
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.support.plain import Record

EXAMPLE = "Example: sparse-prefgp worth --model fitted --unit price --step time=10"


def steps_of(text: str) -> dict[str, float]:
    """Such as `time=10,changes=1`, by feature.

    :raises ValueError: what is not a name, = and a number.
    """
    try:
        return {name: float(value) for name, value in pairs_of_words(text).items()}
    except ValueError:
        raise ValueError(
            f"{text!r} is no list of features, = and numbers; write such as time=10,changes=1."
        ) from None


@option_class
class WorthOptions:
    """In what."""

    unit: str = option("price")
    """The feature that the others are measured in."""
    steps: Mapping[str, float] | None = option(flag="--step", kind=str, parse=steps_of)
    """Steps of numeric features in place of 1: time=10,changes=1."""
    by_item: bool = option(False)
    """At each item, not at the average one."""
    person: Any = same_as(Shared, "person")
    level: float = same_as(Shared, "level", default=0.9)
    """Chance that an interval holds the truth, for example 0.95."""


@command()
def worth(
    console: Output,
    saved: SavedModel,
    drawn: Drawn,
    asked: Annotated[Record, WorthOptions],
) -> None:
    """What a step of each attribute is worth in units of another, such as the price."""
    fitted = open_model(console, saved, drawn, asked)
    from sparse_prefgp.analysis.worth import worth as worth_of

    found = worth_of(fitted, items=saved.items_of(fitted), **asked)
    console.show(found, drawn, draw=lambda: plotting.worth(found))
