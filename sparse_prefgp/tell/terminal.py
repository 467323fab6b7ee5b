"""Tables on a terminal, as wide as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparse_prefgp.support.words import and_so
from sparse_prefgp.tell.tables import Column, Table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table as RichTable

# Characters that names in a table have at least, and more than any table takes.
_LEAST_WIDTH, _UNBOUNDED = 12, 100_000


def as_rich(table: Table) -> Any:
    """A table for `rich.print`: columns that may be spared go where the width does not suffice,
    and a line below says which."""
    return _OnTerminal(table)


@dataclass(frozen=True)
class _OnTerminal:
    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        """The widest table that fits, and which columns it is without."""
        from rich.measure import Measurement
        from rich.text import Text

        unbounded = options.update(max_width=_UNBOUNDED)
        spare = sorted((c for c in self.table.shown if c.spare), key=lambda c: c.spare)
        gone: list[Column] = []
        while spare:
            narrow = self._drawn(gone, _LEAST_WIDTH)
            if Measurement.get(console, unbounded, narrow).maximum <= options.max_width:
                break
            gone.append(spare.pop(0))
        yield self._drawn(gone)
        if gone:
            names = and_so(column.heading for column in gone)
            yield Text(f"In {options.max_width} characters there is no room for: {names}.\n")

    def _drawn(self, gone: list[Column], widest: int | None = None) -> RichTable:
        """Without some columns; words at most so wide."""
        from rich import box
        from rich.cells import cell_len
        from rich.table import Table as RichTable
        from rich.text import Text

        table = self.table
        headed = bool(table.headings)
        title = Text(table.title) if table.title else None
        drawn = RichTable(title=title, title_justify="left", show_header=headed)
        if headed:
            drawn.box, drawn.pad_edge = box.SIMPLE_HEAD, False
            drawn.padding = (0, 1 if table.close else 2, 0, 0)
        else:
            drawn.box = box.SIMPLE
        blocks = [(heading, table.cells(rows)) for heading, rows in table.blocks]
        places = [i for i, column in enumerate(table.shown) if column not in gone]
        for i in places:
            column = table.shown[i]
            texts = [row[i].plain for _, rows in blocks for row in rows]
            if column.left and headed:
                longest = max(map(cell_len, (column.heading, *texts)))
                least = min(_LEAST_WIDTH, longest)
                drawn.add_column(
                    Text(column.heading), overflow="fold", min_width=least, max_width=widest
                )
            elif column.left:
                drawn.add_column(no_wrap=not i)
            else:
                drawn.add_column(Text(column.heading), justify="right", no_wrap=bool(widest))
        for heading, rows in blocks:
            if heading:
                drawn.add_row(Text(heading, style="italic"))
            for row in rows:
                drawn.add_row(*(Text(row[i].plain) for i in places))
            drawn.add_section()
        return drawn
