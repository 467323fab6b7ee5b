"""Rows of duels as they are read, and the passing on of blocks of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sparse_prefgp.io.judgements import LOSER, WINNER

FloatArray = npt.NDArray[np.float64]

SIDES = (WINNER, LOSER)
# Columns of duels beside `tie`: what they evidently say would be lost.
UNREAD = ("ties", "weight", "weights")


class Rows(NamedTuple):
    """Some rows as they are read.

    winners, losers: ids or rows of features, a list of columns for Parquet. counts: None for ones.
    """

    winners: Any
    losers: Any
    counts: Any


class Chunk(NamedTuple):
    """Duels as the numerics take them.

    start: number of the first row among those of the stream. winners, losers: (c,) rows of the
    items, or (c, D) features. counts: (c,).
    """

    start: int
    winners: npt.NDArray[Any]
    losers: npt.NDArray[Any]
    counts: FloatArray


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
    return Chunk(
        chunks[0].start,
        np.concatenate([c.winners for c in chunks]),
        np.concatenate([c.losers for c in chunks]),
        np.concatenate([c.counts for c in chunks]),
    )


def slice_of(chunk: Chunk, low: int, high: int, start: int) -> Chunk:
    return Chunk(start, chunk.winners[low:high], chunk.losers[low:high], chunk.counts[low:high])


def ahead(iterator: Iterator[Any]) -> Iterator[Any]:
    """The same, with the next one being made by a thread while the last is worked on."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, None)
        while (block := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield block
