"""How a message names a row of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparse_prefgp.support.arrays import IntArray

# What a message calls a row, by its number and the table.
BELOW_HEADER = "row {{}} of {{}} (the header is row {header})"
COUNTED = "row {} of {} (counted from 0)"
LINE = "line {} of {}"
RECORD = "record {} of {} (counted from 0)"


@dataclass(frozen=True)
class RowNames:
    """How a message names row i: as whoever sees the file counts its rows, else from 0."""

    table: str
    numbers: IntArray | None = None
    form: str = COUNTED

    def __call__(self, i: int) -> str:
        return self.form.format(i if self.numbers is None else self.numbers[i], self.table)

    def select(self, index: IntArray) -> RowNames:
        """The names of these rows."""
        return replace(self, numbers=index if self.numbers is None else self.numbers[index])


@dataclass(frozen=True)
class JoinedRows(RowNames):
    """How a message names the rows of two tables, one below the other.

    The rows from `size` on are those of `below`; `numbers` says which rows these are, None for all.
    """

    above: RowNames | None = None
    below: RowNames | None = None
    size: int = 0

    @classmethod
    def of(cls, above: RowNames, size: int, below: RowNames) -> JoinedRows:
        """`size` rows of one table, and below them those of another."""
        return cls(above.table, None, above=above, below=below, size=size)

    def __call__(self, i: int) -> str:
        assert self.above is not None and self.below is not None
        row = i if self.numbers is None else int(self.numbers[i])
        return self.above(row) if row < self.size else self.below(row - self.size)
