"""`sparse-prefgp trajectories`: who was good when, for a model of utilities that move in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sparse_prefgp.plotting as plotting
from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, open_model
from sparse_prefgp.cli.shared_options import Drawn, ModelFolder, Shared, repeated
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.support.plain import Record
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table, interval, records, with_intervals

EXAMPLE = "Example: sparse-prefgp trajectories --model fitted --item Brazil --item Spain"


@option_class
class TrajectoriesOptions(Drawn):
    """Of whom, from when to when, and where to."""

    item: Sequence[str] = repeated()
    """An item, repeatable; by default those who led most often."""
    since: str | None = option()
    """The first date; by default that of the first duel."""
    until: str | None = option()
    """The last date; by default that of the last duel."""
    dates: int = option(60, least=2, most=10_000)
    """How many dates at equal distances."""
    at: Sequence[str] = repeated()
    """Where items stand in contexts, in which: surface=clay, repeatable. By default the average
    over those of the training duels.
    """
    level: float = same_as(Shared, "level", default=0.9)


@command()
def trajectories(console: Output, saved: ModelFolder, options: TrajectoriesOptions) -> None:
    """Who was good when, for utilities that move in time.

    Utilities are above the average of the items active at each date, with intervals of that
    difference; a table says who led.
    """
    fitted = open_model(console, saved, options)
    from sparse_prefgp.analysis.history import SEASONS, grid_of, history, seasons

    days = grid_of(fitted, options.since, options.until, options.dates)
    with console.status("Looking back …"):
        grid = grid_of(fitted, options.since, options.until, SEASONS + 1)[1:]
        told = seasons(fitted, grid, at=options.at)
        frame = history(fitted, options.item or None, days, level=options.level, at=options.at)
    console.show(
        Trajectories(frame, told, options.level),
        options,
        draw=lambda: plotting.trajectories(fitted, found=frame),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories(Result):
    """Utilities of items at dates, and who led when."""

    rows_name = "trajectories"

    frame: Any
    seasons: list[Record]
    level: float

    def table(self, most: int | None = None) -> Table:
        """Where the items were at the end."""
        columns = [
            Column("item_id", "item", str, left=True),
            Column("date", "date", lambda date: str(date)[:10]),
            Column("utility", "utility", "z.3f"),
            Column("interval", "interval", interval),
        ]
        last = with_intervals(self.frame.groupby("item_id", sort=False).last().reset_index())
        return Table("trajectories", "At the end", columns, records(last)[:most])

    def parts(self, most: int | None = None) -> list[str | Table]:
        """Who led, and the table of the end."""
        places = ("first", "second", "third")
        columns = [
            Column("date", "date"),
            Column("active", "active", ","),
            *(Column(place, place, left=True) for place in places),
        ]
        leaders = [
            {
                **season,
                **{
                    place: f"{best['item']} {best['utility']:z.2f}"
                    for place, best in zip(places, season["best"], strict=False)
                },
            }
            for season in self.seasons
        ]
        return [
            Table("seasons", "Who led when", columns, leaders),
            self.table(most),
            "Utilities above the average of the items active at each date; intervals of that "
            f"difference hold {100 * self.level:g} %.",
        ]
