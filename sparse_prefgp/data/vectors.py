"""Rows of a matrix as they stand in memory or in a file: vectors of items, read in chunks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.flags import Where
from sparse_prefgp.support.arrays import AnyArray, IntArray
from sparse_prefgp.support.words import agreeing, counted, shortened

# Numbers that are held at a time while a matrix is read.
_AT_A_TIME = 1 << 22
Chunk = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class VectorRows:
    """Some rows of a matrix, which is never copied as a whole."""

    matrix: Any
    """(N, E) array of numbers, perhaps memory-mapped."""
    index: IntArray | None = None
    """(n,) rows of it; None for all in their order."""

    def __len__(self) -> int:
        return len(self.matrix) if self.index is None else len(self.index)

    @property
    def width(self) -> int:
        """E, the length of a vector."""
        return int(self.matrix.shape[1])

    def select(self, index: IntArray | slice) -> VectorRows:
        """Some of the rows, by their numbers or a slice."""
        here = np.arange(len(self)) if self.index is None else self.index
        return VectorRows(self.matrix, here[index])

    def chunk(self, start: int, stop: int) -> Chunk:
        """Rows from `start` to before `stop`, in single precision."""
        rows = slice(start, stop) if self.index is None else self.index[start:stop]
        with np.errstate(over="ignore"):  # what overflows is refused as not finite
            return np.asarray(self.matrix[rows], dtype=np.float32)

    def chunks(self) -> Iterator[tuple[int, Chunk]]:
        """All rows in single precision, some at a time, each time with the number of the first."""
        step = rows_at_a_time(self.width)
        for start in range(0, len(self), step):
            yield start, self.chunk(start, min(start + step, len(self)))

    def followed_by(self, other: VectorRows) -> VectorRows:
        """These and then those; copied only if they are of different matrices."""
        if self.matrix is other.matrix:
            both = [np.arange(len(x)) if x.index is None else x.index for x in (self, other)]
            return VectorRows(self.matrix, np.concatenate(both))
        return VectorRows(np.concatenate([x.chunk(0, len(x)) for x in (self, other)]))

    def codes(self) -> IntArray:
        """(n,) a number for each, equal for equal vectors; in the order of first appearance."""
        known: dict[bytes, int] = {}
        found = [
            known.setdefault(row.tobytes(), len(known))
            for _, chunk in self.chunks()
            for row in chunk + np.float32(0.0)  # -0 is 0
        ]
        return np.array(found, dtype=np.int64)

    def check(self, name: str, where: Where) -> None:
        """Refuse what is not finite, and warn of vectors that are all zero.

        :param name: of their column. where: names row i in messages.
        :raises ValueError: a number that is missing or infinite, or too large for single precision.
        """
        zeros, first = 0, -1
        for start, chunk in self.chunks():
            refuse_not_finite(self, chunk, start, name, where)
            none = np.flatnonzero(~chunk.any(1))
            if none.size:
                zeros, first = zeros + len(none), first if zeros else start + int(none[0])
        if zeros:
            warnings.warn(
                f"{zeros:,} of {len(self):,} vectors of {name!r} {agreeing(zeros, 'is', 'are')} "
                f"zero throughout, the first in {where(first)}; as a rule such a vector is missing,"
                " and items without one are better left out.",
                stacklevel=3,
            )


def refuse_not_finite(rows: VectorRows, chunk: Chunk, start: int, name: str, where: Where) -> None:
    """Refuse numbers of a chunk that are missing or infinite.

    :param start: the row that the chunk begins with.
    :raises ValueError: the first, with its row and its place in the vector.
    """
    if np.isfinite(chunk).all():
        return
    i, j = (int(x) for x in np.argwhere(~np.isfinite(chunk))[0])
    value = rows.matrix[start + i if rows.index is None else rows.index[start + i]][j]
    why = ", too large for single precision" if np.isfinite(value) else ""
    shown = "a missing value (NaN)" if np.isnan(value) else str(value)
    raise ValueError(
        f"The vectors of {name!r} have {shown}{why} in {where(start + i)}, at place {j} (counted "
        "from 0); make that vector again, or leave the item out."
    )


def rows_at_a_time(width: int) -> int:
    """How many rows of so many numbers are worked on together."""
    return max(1, _AT_A_TIME // max(width, 1))


def checked_matrix(values: Any, what: str) -> AnyArray:
    """An array of vectors, as it is given.

    :param what: how a message names it.
    :raises ValueError: an array that is not (n, E) with E >= 1, or not of real numbers; masked
        numbers.
    """
    try:
        array = values if isinstance(values, np.ndarray) else np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{what} cannot be read as an array, as where vectors have different lengths; give one "
            "of float32, such as np.stack(vectors).astype(np.float32)."
        ) from None
    if np.ma.is_masked(array):
        raise ValueError(
            f"{what} has masked numbers; give an array without, and leave out items that lack some."
        )
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{what} holds values of type {array.dtype}, not numbers; give an array of float32, "
            "such as np.stack(vectors).astype(np.float32)."
        )
    if array.ndim != 2 or array.shape[1] == 0:
        shown = " x ".join(map(str, array.shape)) or "none"
        has = f"{counted(array.ndim, 'dimension')} ({shown})"
        if array.ndim == 2:
            has = f"vectors without numbers ({shown})"
        raise ValueError(
            f"{what} has {has}; give two dimensions, a row for each item and a column for each "
            "number of its vector."
        )
    return array


def stacked(cells: Any, name: str, where: Where) -> npt.NDArray[np.float32]:
    """Vectors that stand in the cells of a column as lists or arrays, (n, E).

    :raises ValueError: a cell without a vector, one of another length or not of numbers, with its
        row.
    """
    found: list[npt.NDArray[np.float32]] = []
    for i, cell in enumerate(cells):
        try:
            with np.errstate(over="ignore"):
                vector = np.asarray(cell, dtype=np.float32)
        except (TypeError, ValueError):
            vector = None
        if vector is None or vector.ndim != 1 or isinstance(cell, str):
            shown, remedy = "no vector", "give one, or leave the item out"
            if not missing_cell(cell):
                text = isinstance(cell, str)
                shown = shortened(cell if text else np.asarray(cell, dtype=object).tolist())
                shown = f"{'' if text else 'the list '}{shown}, no vector of numbers,"
                remedy = (
                    f"mend it, or leave out the column with --ignore {name} (ignore=[{name!r}])"
                )
            raise ValueError(f"Column {name!r} has {shown} in {where(i)}; {remedy}.")
        if len(vector) == 0:
            raise ValueError(
                f"Column {name!r} has a vector without numbers in {where(i)}; give one, or leave "
                "the item out."
            )
        if found and len(vector) != len(found[0]):
            raise ValueError(
                f"Column {name!r} has a vector of {len(vector)} numbers in {where(i)}, but the "
                f"first has {len(found[0])}; give vectors of one length."
            )
        found.append(vector)
    return np.stack(found)


def vector_rows(column: Any) -> VectorRows | None:
    """The vectors of a column of a data frame, or of an (n, E) array; None of any other column."""
    rows = getattr(getattr(column, "array", None), "rows", None)
    if isinstance(rows, VectorRows):
        return rows
    if isinstance(column, VectorRows):
        return column
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return VectorRows(column)
    return None


def missing_cell(cell: Any) -> bool:
    """Whether a cell of a column of vectors holds nothing."""
    return cell is None or (isinstance(cell, float | np.floating) and bool(np.isnan(cell)))
