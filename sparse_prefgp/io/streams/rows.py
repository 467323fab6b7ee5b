"""Rows of duels as they are read, and the passing on of blocks of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sparse_prefgp.io.judgements import LOSER, TIE, TIE_FLAGS, WINNER

FloatArray = npt.NDArray[np.float64]

SIDES = (WINNER, LOSER)
# Columns of duels that nobody named: what they evidently say would be lost.
WEIGHTS = ("weight", "weights")
UNREAD = ("ties", *WEIGHTS)


def remedy(column: str) -> str:
    """What to do about one of `UNREAD`."""
    if column == "ties":
        return f"call it {TIE!r} if it has {TIE_FLAGS}"
    return f"give weights={column!r} (--weight {column})"


class Rows(NamedTuple):
    """Some rows as they are read.

    winners, losers: ids or rows of features, a list of columns for Parquet. counts, ties, weights:
    None for ones, for wins, and for ones.
    """

    winners: Any
    losers: Any
    counts: Any
    ties: Any = None
    weights: Any = None


class Chunk(NamedTuple):
    """Duels as the numerics take them.

    start: number of the first row among those of the stream. winners, losers: (c,) rows of the
    items, or (c, D) features. counts: (c,). ties: (c,) which ended in a tie, None for none.
    weights: (c,) of a duel each, None for ones. blocks: (c,) the number of each row's block,
    ascending, where the stream has blocks, of which a chunk then has whole ones.
    """

    start: int
    winners: npt.NDArray[Any]
    losers: npt.NDArray[Any]
    counts: FloatArray
    ties: npt.NDArray[np.bool_] | None = None
    weights: FloatArray | None = None
    blocks: npt.NDArray[np.int64] | None = None

    @property
    def effective_counts(self) -> FloatArray:
        """As how many duels each row counts in the likelihood, (c,)."""
        return self.counts if self.weights is None else self.counts * self.weights

    def rows(self, which: Any, start: int) -> Chunk:
        """Some of its rows, by a slice or by their numbers."""
        columns: list[Any] = [None if x is None else x[which] for x in self[1:]]
        return Chunk(start, *columns)


class Source(Protocol):
    """Where rows come from: the same ones in the same order, as often as they are asked for."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def inline(self) -> tuple[str, ...] | None:
        """Names of the features of both sides, None where the sides are ids."""

    @property
    def row_numbers(self) -> bool:
        """Whether the sides are rows of the items, not ids of them."""

    def count_rows(self) -> int:
        """How many rows there are."""

    @property
    def edges(self) -> tuple[int, ...]:
        """The first row of each file, and how many rows there are."""

    def read(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Rows start to stop, at most `size` at a time."""

    def where(self, row: int) -> str:
        """How a message names a row."""


def regular(blocks: Iterator[Rows], sizes: Sequence[int]) -> Iterator[Rows]:
    """The same rows in blocks of these sizes; what is left where there are fewer rows."""
    held: list[Rows] = []
    rows, wanted = 0, list(reversed(sizes))
    for block in blocks:
        held.append(block)
        rows += _length(block)
        while wanted and rows >= wanted[-1]:
            spare = rows - wanted.pop()
            last = held[-1]
            cut = _length(last) - spare
            yield _concatenated([*held[:-1], _cut(last, 0, cut)])
            held = [_cut(last, cut, cut + spare)] if spare else []
            rows = spare
    if rows:
        yield _concatenated(held)


def _length(block: Rows) -> int:
    side = block.winners
    return len(side[0]) if isinstance(side, list) else len(side)


def _cut(block: Rows, start: int, stop: int) -> Rows:
    def one(values: Any) -> Any:
        if isinstance(values, list):
            return [one(column) for column in values]
        return None if values is None else values[start:stop]

    return Rows(*map(one, block))


def _concatenated(blocks: list[Rows]) -> Rows:
    if len(blocks) == 1:
        return blocks[0]

    def one(values: list[Any]) -> Any:
        if isinstance(values[0], list):
            return [one(list(columns)) for columns in zip(*values, strict=True)]
        if values[0] is None:
            return None
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)
        import pyarrow as pa

        chunked = pa.chunked_array(values)
        return chunked.combine_chunks()

    return Rows(*(one(list(values)) for values in zip(*blocks, strict=True)))


def joined(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    columns: list[Any] = [
        None if column[0] is None else np.concatenate(column)
        for column in zip(*(chunk[1:] for chunk in chunks), strict=True)
    ]
    return Chunk(chunks[0].start, *columns)


def ahead(iterator: Iterator[Any]) -> Iterator[Any]:
    """The same, with the next one being made by a thread while the last is worked on."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, None)
        while (block := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield block
