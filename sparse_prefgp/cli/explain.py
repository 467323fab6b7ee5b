"""`sparse-prefgp explain`: why one item is preferred, or whether the duels fit together at all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, open_model
from sparse_prefgp.cli.shared_options import SavedModel, Shared
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.support.plain import Record

EXAMPLE = "Example: sparse-prefgp explain --model fitted --first 12 --second 7"


@option_class
class PairItems(SavedModel):
    """The model, and the items that a pair may be of."""

    items: Path | None = same_as(SavedModel, "items", needs="first")
    embedding: Any = same_as(SavedModel, "embedding", needs="first")


@option_class
class ExplainOptions:
    """Which pair."""

    first: str | None = option(needs="second")
    """Id of an item."""
    second: str | None = option(needs="first")
    """Id of the item it is compared with."""
    at: str | None = option(needs="first")
    """For a model with contexts, that of the pair: surface=clay, or first_home=1,second_home=0; for
    utilities that move in time when: date=2014-07-13. Both with a comma between them.
    """
    person: Any = same_as(Shared, "person", needs="first")


@command()
def explain(console: Output, saved: PairItems, asked: Annotated[Record, ExplainOptions]) -> None:
    """Why did it win? What each feature adds to the difference of two utilities.

    Without a pair: contradictions and circles among the model's duels.
    """
    fitted = open_model(console, saved)
    from sparse_prefgp.analysis.consistency import consistency
    from sparse_prefgp.analysis.explanation import explain as explain_pair

    found: Any
    with console.status("Explaining …" if asked else "Counting …"):
        if asked:
            found = explain_pair(fitted, items=saved.items_of(fitted), **asked)
        else:
            found = consistency(fitted.duels)
    console.show(found)
