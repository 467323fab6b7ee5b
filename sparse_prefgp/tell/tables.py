"""Tables of what a result says, whoever shows them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

LARGE, SMALL = 1e6, 1e-3  # outside, numbers are written with a power of ten
MOST_DECIMALS = 5
ROUNDED = 1e-12  # an error that is smaller by so much is none
MISSING = "–"
# Key of rows that are compared with no other: they are never the best.
APART = "apart"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SIGN = re.compile(r"(?<![\w)\]-])-(?=[\d.])")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """A number with its error, or a text."""

    mean: float = math.nan
    error: float = math.nan
    best: bool = False
    """In bold."""
    alone: bool = False
    """A mean over fewer seeds."""
    text: str | None = None

    @property
    def plain(self) -> str:
        """As it is read on a screen; a dash where there is no number."""
        if self.text is not None:
            return self.text
        return self.written(" ± ", "−", "{} × 10{}") + ("*" if self.alone else "")

    def written(self, plus_minus: str, minus: str, power: str) -> str:
        """The number in the signs of some notation."""
        if not math.isfinite(self.mean):
            return MISSING
        mean, error, exponent = digits(self.mean, self.error)
        body = mean.replace("-", minus) + (f"{plus_minus}{error}" if error else "")
        if exponent is None:
            return body
        raised = str(exponent) if "^" in power else str(exponent).translate(RAISED)
        return power.format(f"({body})" if error else body, raised)


def digits(mean: float, error: float) -> tuple[str, str, int | None]:
    """A mean and its error, two digits of the error; "" without one; a power of ten or None."""
    exponent = None
    if error < ROUNDED * abs(mean):
        error = 0.0
    size = max(abs(mean), error if error > 0.0 else 0.0)
    if size and not SMALL <= size < LARGE:
        exponent = math.floor(math.log10(size))
        mean, error = mean / 10.0**exponent, error / 10.0**exponent
    known = math.isfinite(error)
    if known and error > 0.0:
        decimals = 1 - math.floor(math.log10(error))
    elif mean:
        decimals = 3 - math.floor(math.log10(abs(mean)))
    else:
        decimals = 0
    decimals = min(max(decimals, 0), MOST_DECIMALS)
    shown = (f"{error:.{decimals}f}" if error > 0.0 else "0") if known else ""
    return f"{mean:z.{decimals}f}", shown, exponent


class Column(NamedTuple):
    """What of each row is shown, and how."""

    key: str
    heading: str
    shown: str | Callable[[Any], str] = ""
    """A format, or a function of the value."""
    better: int = 0
    """1 where more is better, -1 where less is: the best of several rows is bold."""
    left: bool = False
    """Words, aligned there; numbers are aligned on the right."""
    spare: int = 0
    """Above 0 it goes where the width does not suffice, 1 first; 1 and 2
    are not shown on telephones."""

    def cell(self, row: Row, best: float | None = None) -> Cell:
        """That of a row; empty where the row has nothing of the kind, a dash where it is not known.

        :param best: the value that is bold.
        """
        value = row.get(self.key)
        if isinstance(value, Cell):
            return value
        if self.key not in row:
            return Cell(text="")
        if callable(self.shown):
            text = self.shown(value)
        elif value is None or value != value:
            text = MISSING
        else:
            text = f"{value:{self.shown}}"
        return Cell(text=text, best=best is not None and value == best)


@dataclass(frozen=True)
class Table:
    """Rows under headings; `print` shows it as text."""

    name: str
    """Of its files."""
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row] = ()
    """Values by the keys of columns."""
    caption: str = ""
    """How to read it."""
    parts: Sequence[tuple[str, Sequence[Row]]] = ()
    """In place of rows, those of each part under its heading."""
    close: bool = False
    """One blank between columns on a terminal, where others have two."""

    @property
    def blocks(self) -> list[tuple[str, Sequence[Row]]]:
        """Parts with rows, and their headings; that of the only part is empty."""
        return [(heading, rows) for heading, rows in self.parts or (("", self.rows),) if rows]

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows."""
        return not self.blocks

    @property
    def shown(self) -> list[Column]:
        """Columns of which some row has something; all where there are no rows."""
        if self.is_empty:
            return list(self.columns)
        return [c for c in self.columns if any(c.key in r for _, rows in self.blocks for r in rows)]

    @property
    def headings(self) -> list[str]:
        """Of the columns that are shown; none where all are empty, as of labels and values."""
        found = [column.heading for column in self.shown]
        return found if any(found) else []

    def cells(self, rows: Sequence[Row]) -> list[list[Cell]]:
        """Those of some rows, of which the best by each column are bold."""
        best = {column: _best(column, rows) for column in self.shown}
        return [
            [c.cell(row, None if row.get(APART) else value) for c, value in best.items()]
            for row in rows
        ]

    def part(self, start: int, stop: int | None, title: str) -> Table:
        """Some of the rows, under another title."""
        return replace(self, rows=self.rows[start:stop], title=title)

    def __str__(self) -> str:
        lines: list[str | list[str]] = [self.headings] if self.headings else []
        for heading, rows in self.blocks:
            lines += [heading] if heading else []
            lines += [[cell.plain for cell in row] for row in self.cells(rows)]
        whole = [line for line in lines if not isinstance(line, str)]
        widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
        texts = [
            line
            if isinstance(line, str)
            else "  ".join(
                text.ljust(width) if column.left else text.rjust(width)
                for text, width, column in zip(line, widths, self.shown, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*filter(None, [self.title]), *texts, *filter(None, [self.caption])])


def _best(column: Column, rows: Sequence[Row]) -> float | None:
    values = [
        row[column.key]
        for row in rows
        if column.better and not row.get(APART) and row.get(column.key) is not None
    ]
    if len(values) < 2:
        return None
    return (max if column.better > 0 else min)(values)


def facts(rows: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Labels and values as text, without those that are None."""
    return [
        (label, value if isinstance(value, str) else f"{value:,}")
        for label, value in rows
        if value is not None
    ]


def facts_table(title: str, rows: Iterable[tuple[str, Any]]) -> Table:
    """Labels and values, without headings and without values that are None."""
    columns = [Column("label", "", left=True), Column("value", "", left=True)]
    values = [{"label": label, "value": text} for label, text in facts(rows)]
    return Table("facts", title, columns, values)


def first_of(number: int, total: int, noun: str) -> str:
    """The title of a table of so many of all rows: `All items`, `The first 20 of 442 items`."""
    if number == total:
        return f"All {noun}"
    return f"The first {number:,} of {total:,} {noun}"


def records(frame: Any) -> list[dict[str, Any]]:
    """Rows of a data frame."""
    found: list[dict[str, Any]] = frame.to_dict("records")
    return found


def with_intervals(frame: Any) -> Any:
    """A data frame, `interval` added: the ends `lower` and `upper`."""
    return frame.assign(interval=list(zip(frame["lower"], frame["upper"], strict=True)))


def chance(p: float | None) -> str:
    """A probability; a dash where none was computed."""
    return MISSING if p is None or p != p else f"{p:.3f}"


def flag(value: Any) -> str:
    """`yes`, or nothing."""
    return "yes" if value else ""


def score_text(value: float | None) -> str:
    """A score to four decimals."""
    return "not finite" if value is None or not np.isfinite(value) else f"{value:.4f}"


def ends_in(shown: str) -> Callable[[Sequence[float]], str]:
    """What shows the two ends of an interval in a format; a dash where they are not known."""
    return lambda ends: MISSING if ends[0] != ends[0] else f"{ends[0]:{shown}} to {ends[1]:{shown}}"


def interval(ends: Sequence[float]) -> str:
    """Its two ends."""
    return f"{ends[0]:z.3f} to {ends[1]:z.3f}"


def with_error(pair: Sequence[float | None]) -> str:
    """A score and its standard error; a dash where it is not known."""
    value, error = pair
    return MISSING if value is None or value != value else f"{value:z.4f} ± {error:.4f}"


def typeset(text: str) -> str:
    """With minus signs as long as a plus."""
    return _SIGN.sub("−", text)
