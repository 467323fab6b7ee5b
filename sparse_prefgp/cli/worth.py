"""`sparse-prefgp worth`: what a step of each attribute is worth in units of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparse_prefgp import plotting
from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, open_model
from sparse_prefgp.cli.shared_options import Drawn, SavedModel, Shared, person_of
from sparse_prefgp.support.options import names, option, same_as

EXAMPLE = "Example: sparse-prefgp worth --model fitted --unit price --step time=10"


@dataclass(frozen=True, kw_only=True)
class WorthOptions(Drawn):
    """In what, and where to."""

    unit: str = option(default="price")
    """The feature that the others are measured in."""
    step: Sequence[str] = option(default=(), kind=str, parse=names)
    """Steps of numeric features in place of 1: time=10,changes=1."""
    by_item: bool = option(default=False)
    """At each item, not at the average one."""
    person: Sequence[str] = same_as(Shared, "person")
    level: float = same_as(Shared, "level", default=0.9)
    """Chance that an interval holds the truth, for example 0.95."""

    def steps(self) -> dict[str, float]:
        """By feature.

        :raises ValueError: what is not a name, = and a number.
        """
        found = {}
        for text in self.step:
            name, equals, value = text.partition("=")
            try:
                found[name] = float(value)
            except ValueError:
                equals = ""
            if not name or not equals:
                raise ValueError(
                    f"--step has {text!r}; give the name of a feature, = and a number, such as "
                    "time=10."
                )
        return found


@command()
def worth(console: Output, saved: SavedModel, options: WorthOptions) -> None:
    """What a step of each attribute is worth in units of another, such as the price."""
    options.check(*saved.files)
    steps = options.steps()
    fitted = open_model(console, saved.model)
    from sparse_prefgp.analysis.worth import worth as worth_of

    found = worth_of(
        fitted,
        options.unit,
        steps=steps,
        by_item=options.by_item,
        items=saved.items_of(fitted),
        level=options.level,
        person=person_of(options.person),
    )
    console.show(found, options, draw=lambda: plotting.worth(found))
