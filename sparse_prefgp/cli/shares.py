"""`sparse-prefgp shares`: what share of people would choose each alternative of new sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, described_table, open_model
from sparse_prefgp.cli.output_options import check_file, write_file
from sparse_prefgp.cli.shared_options import SavedModel, Shared
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.support.options import option, same_as
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.tell.tables import first_of
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = (
    "Example: sparse-prefgp shares --model fitted --alternatives plans.csv --picture plans.png"
)


@dataclass(frozen=True, kw_only=True)
class SharesOptions:
    """Of which sets, and where to."""

    alternatives: Path = option(
        "A row for each alternative: item_id, or the features of the model; a column choice_set "
        "for more than one set. Or columns option_1, option_2, …"
    )
    out: Path | None = option("Write all shares here (.csv).", default=None)
    picture: Path | None = option("Draw the shares of the first set here (.png).", default=None)
    overwrite: bool = same_as(Shared, "overwrite")
    show: int = option("How many alternatives to print.", default=20, least=0)
    level: float = same_as(
        Shared,
        "level",
        help="Chance that an interval holds the truth, for example 0.95.",
        default=0.9,
    )
    draws: int = option("How many draws of the utilities.", default=2000, least=1, most=10_000_000)
    noise_by: str | None = option(
        "Column that says who chooses, if the model was fitted with --noise-by.", default=None
    )
    seed: int = same_as(FitSettings, "seed")


@command()
def shares(console: Output, saved: SavedModel, options: SharesOptions) -> None:
    """What share of people would choose each alternative of new sets, with intervals."""
    check_file(options.out, options.overwrite, *saved.files, options.alternatives)
    if options.picture is not None:
        check_file(options.picture, options.overwrite, options.alternatives, ending=".png")
    fitted = open_model(console, saved.model)
    from sparse_prefgp.analysis.shares import ADDED, OVER_PEOPLE
    from sparse_prefgp.analysis.shares import shares as shares_of

    with console.status("Drawing utilities …"):
        found = shares_of(
            fitted,
            options.alternatives,
            saved.items_of(fitted),
            level=options.level,
            draws=options.draws,
            rng=seeded(options.seed),
            groups=options.noise_by,
        )
    frame = found.frame
    if options.out is not None:
        write_file(options.out, csv_of(frame))
    if options.picture is not None:
        from sparse_prefgp import plotting
        from sparse_prefgp.plotting.canvas import save

        save(plotting.shares(found).figure, options.picture)
    some = frame.head(options.show)
    numbers = [name for name in some.columns if name in (*ADDED, *OVER_PEOPLE) and name != "sd"]
    names = [name for name in some.columns if name not in (*numbers, "sd")]
    title = first_of(len(some), len(frame), "alternatives")
    console.tell(described_table("shares", title, some, names, numbers), found.note)
    if options.picture is not None:
        console.print(Text(f"Drawn in {options.picture}."), soft_wrap=True)
    console.finish(found.to_dict(), options.out)
