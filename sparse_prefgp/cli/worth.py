"""`sparse-prefgp worth`: what a step of each attribute is worth in units of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, open_model
from sparse_prefgp.cli.output_options import check_file, write_file
from sparse_prefgp.cli.shared_options import SavedModel, Shared, person_of
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.support.options import names, option, same_as
from sparse_prefgp.tell.tables import Column, Table, first_of, records

EXAMPLE = "Example: sparse-prefgp worth --model fitted --unit price --step time=10"


@dataclass(frozen=True, kw_only=True)
class WorthOptions:
    """In what, and where to."""

    unit: str = option("The feature that the others are measured in.", default="price")
    step: Sequence[str] = option(
        "Steps of numeric features in place of 1: time=10,changes=1.",
        default=(),
        kind=str,
        parse=names,
    )
    by_item: bool = option("At each item, not at the average one.", default=False)
    person: Sequence[str] = same_as(Shared, "person")
    out: Path | None = option("Write the table here (.csv).", default=None)
    picture: Path | None = option("Draw it here (.png).", default=None)
    overwrite: bool = same_as(Shared, "overwrite")
    show: int = option("How many rows to print.", default=30, least=0)
    level: float = same_as(
        Shared,
        "level",
        help="Chance that an interval holds the truth, for example 0.95.",
        default=0.9,
    )

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
    check_file(options.out, options.overwrite, *saved.files)
    if options.picture is not None:
        check_file(options.picture, options.overwrite, *saved.files, ending=".png")
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
    frame = found.frame
    if options.out is not None:
        write_file(options.out, csv_of(frame))
    if options.picture is not None:
        from sparse_prefgp import plotting
        from sparse_prefgp.plotting.canvas import save

        save(plotting.worth(found).figure, options.picture)
    some = frame.head(options.show)
    columns = [
        *(Column(name, name, str, left=True) for name in ("item", "attribute", "step")),
        Column("worth", f"worth in {options.unit}", ".4g"),
        Column("ends", f"{100 * options.level:g} % interval"),
    ]
    rows = records(some)
    for row in rows:
        ends = f"{row['lower']:.4g} to {row['upper']:.4g}"
        row["ends"] = ends if row["bounded"] else "without ends"
    title = "All attributes"
    if len(some) < len(frame):
        title = first_of(len(some), len(frame), "rows")
    console.tell(Table("worth", title, columns, rows), *found.notes)
    if options.picture is not None:
        console.print(Text(f"Drawn in {options.picture}."), soft_wrap=True)
    console.finish(found.to_dict(), options.out)
