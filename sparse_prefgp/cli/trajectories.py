"""`sparse-prefgp trajectories`: who was good when, for a model of utilities that move in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, open_model
from sparse_prefgp.cli.output_options import check_file, write_file
from sparse_prefgp.cli.shared_options import ModelFolder, Shared
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.support.options import option, same_as
from sparse_prefgp.tell.tables import Column, Table, interval, records, with_intervals

EXAMPLE = "Example: sparse-prefgp trajectories --model fitted --item Brazil --item Spain"


@dataclass(frozen=True, kw_only=True)
class TrajectoriesOptions:
    """Of whom, from when to when, and where to."""

    item: Sequence[str] = option(
        "An item, repeatable; by default those who led most often.",
        default=(),
        kind=list[str],
        parse=tuple,
    )
    since: str | None = option("The first date; by default that of the first duel.", default=None)
    until: str | None = option("The last date; by default that of the last duel.", default=None)
    dates: int = option("How many dates at equal distances.", default=60, least=2, most=10_000)
    at: Sequence[str] = option(
        "Where items stand in contexts, in which: surface=clay, repeatable. By default the average "
        "over those of the training duels.",
        default=(),
        kind=list[str],
        parse=tuple,
    )
    level: float = same_as(Shared, "level", default=0.9)
    out: Path | None = option("Write all trajectories here (.csv).", default=None)
    picture: Path | None = option("Draw them here (.png).", default=None)
    overwrite: bool = same_as(Shared, "overwrite")


@command()
def trajectories(console: Output, saved: ModelFolder, options: TrajectoriesOptions) -> None:
    """Who was good when, for utilities that move in time.

    Utilities are above the average of the items active at each date, with intervals of that
    difference; a table says who led.
    """
    check_file(options.out, options.overwrite)
    check_file(options.picture, options.overwrite, options.out, ending=".png")
    fitted = open_model(console, saved.model)
    from sparse_prefgp.analysis.history import SEASONS, grid_of, history, seasons

    days = grid_of(fitted, options.since, options.until, options.dates)
    with console.status("Looking back …"):
        grid = grid_of(fitted, options.since, options.until, SEASONS + 1)[1:]
        told = seasons(fitted, grid, at=options.at)
        frame = history(fitted, options.item or None, days, level=options.level, at=options.at)
    if options.out is not None:
        write_file(options.out, csv_of(frame))
    if options.picture is not None:
        from sparse_prefgp.plotting import trajectories as draw
        from sparse_prefgp.plotting.canvas import save

        save(draw(fitted, found=frame).figure, options.picture)
    places = ("first", "second", "third")
    leaders = [
        {
            "date": one["date"],
            "active": one["active"],
            **{head: "" for head in places},
            **{
                head: f"{best['item']} {best['utility']:z.2f}"
                for head, best in zip(places, one["best"], strict=False)
            },
        }
        for one in told
    ]
    of_seasons = [
        Column("date", "date"),
        Column("active", "active", ","),
        *(Column(head, head, left=True) for head in places),
    ]
    of_items = [
        Column("item_id", "item", str, left=True),
        Column("date", "date", lambda date: str(date)[:10]),
        Column("utility", "utility", "z.3f"),
        Column("interval", "interval", interval),
    ]
    last = with_intervals(frame.groupby("item_id", sort=False).last().reset_index())
    console.tell(
        Table("seasons", "Who led when", of_seasons, leaders),
        Table("trajectories", "At the end", of_items, records(last)),
        "Utilities above the average of the items active at each date; intervals of that "
        f"difference hold {100 * options.level:g} %.",
    )
    moved = records(frame.assign(date=frame["date"].astype(str)))
    console.finish({"seasons": told, "trajectories": moved}, options.out)
