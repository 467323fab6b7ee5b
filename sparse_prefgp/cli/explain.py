"""`sparse-prefgp explain`: why one item is preferred, or whether the duels fit together at all."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from sparse_prefgp.cli.console import open_model, sentences
from sparse_prefgp.cli.output_options import AsJson, Items, Model, Quiet, Seed, Threads
from sparse_prefgp.support.randomness import seeded

EXAMPLE = "Example: sparse-prefgp explain --model fitted --first 12 --second 7"


def explain(
    model: Model,
    first: Annotated[str | None, typer.Option(help="Id of an item.", show_default=False)] = None,
    second: Annotated[
        str | None, typer.Option(help="Id of the item it is compared with.", show_default=False)
    ] = None,
    items: Items = None,
    simulations: Annotated[
        int, typer.Option(help="Without a pair: so often the votes are redrawn from the model.")
    ] = 200,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Why did it win? What each feature adds to the expected utility difference of two items.

    Without a pair: contradictions and circles among the model's duels, and whether it explains
    them.
    """
    with sentences(quiet, as_json, threads) as console:
        if (first is None) != (second is None):
            given, missing = ("--first", "--second") if second is None else ("--second", "--first")
            raise ValueError(f"{given} was given without {missing}; give both, or neither.")
        fitted = open_model(console, model)
        if first is None or second is None:
            from sparse_prefgp.analysis.consistency import consistency

            with console.status("Redrawing the votes …"):
                found = consistency(fitted.duels, fitted, simulations=simulations, rng=seeded(seed))
            console.print(Text(str(found)))
            console.manners.emit(found.to_dict())
            return
        from sparse_prefgp.analysis.explanation import explain as explain_pair

        with console.status("Explaining …"):
            explanation = explain_pair(fitted, first, second, items)
        console.print(Text(str(explanation)))
        console.manners.emit(explanation.to_dict())
