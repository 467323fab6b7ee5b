"""How a message names a row of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparse_prefgp.support.arrays import IntArray


@dataclass(frozen=True)
class RowNames:
    """How a message names row i: as a spreadsheet shows a CSV file, else counted from 0."""

    table: str
    numbers: IntArray | None
    from_header: bool = True

    def __call__(self, i: int) -> str:
        if self.numbers is None or not self.from_header:
            row = i if self.numbers is None else self.numbers[i]
            return f"row {row} of {self.table} (counted from 0)"
        return f"row {self.numbers[i]} of {self.table} (the header is row 1)"

    def select(self, index: IntArray) -> RowNames:
        """The names of these rows."""
        numbers = index if self.numbers is None else self.numbers[index]
        return RowNames(self.table, numbers, self.numbers is not None and self.from_header)


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

    def select(self, index: IntArray) -> RowNames:
        return replace(self, numbers=index if self.numbers is None else self.numbers[index])
