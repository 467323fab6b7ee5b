"""Duels that are read in chunks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.duels import Duels
from sparse_prefgp.features import FeatureTransform
from sparse_prefgp.io.streams.items import ItemTable
from sparse_prefgp.io.streams.parsing import parsed
from sparse_prefgp.io.streams.rows import Chunk, Source, ahead, joined, regular
from sparse_prefgp.io.streams.scan import READ_ROWS, Scan, Totals, totals_of

IntArray = npt.NDArray[np.int64]

# Parts are whole files where the largest is no more than so many times the average.
_UNEVEN = 1.25


@dataclass(frozen=True, eq=False)
class StreamedDuels:
    """Duels that are read in chunks, made by `stream_duels`.

    Attributes:
        source: where they are read from.
        items: the table that ids refer to; None where features are inline.
        transform: how inline features are standardised, None for as they are.
        feature_names: of the D features.
        scan: what the first pass over all of them found.
        start, stop: the rows of the source that belong to it.
        blocks: the number of each of its rows' block, ascending, where neither parts nor chunks
            may cut one; None without blocks.
    """

    source: Source
    items: ItemTable | None
    transform: FeatureTransform | None
    feature_names: tuple[str, ...] | None
    scan: Scan
    start: int
    stop: int
    blocks: IntArray | None = None

    @property
    def num_rows(self) -> int:
        """t, each row with a site of its own."""
        return self.stop - self.start

    @property
    def num_duels(self) -> int:
        """Duels of these rows, counts included."""
        return self.totals.duels

    @property
    def num_ties(self) -> int:
        """How many of them are ties; read only where there are any in the whole."""
        return self.totals.ties if self.scan.ties else 0

    @cached_property
    def totals(self) -> Totals:
        """Numbers of these rows; those of a part are counted by a pass over it."""
        scan = self.scan
        if self.num_rows == scan.rows:
            low, high = scan.low, scan.high
            if self.transform is not None and low is not None and high is not None:
                mean, scale = np.array(self.transform.mean), np.array(self.transform.scale)
                low, high = (low - mean) / scale, (high - mean) / scale
            return Totals(scan.duels, scan.ties, scan.comparisons, low, high)
        return totals_of(self.items, self.chunks(READ_ROWS))

    @property
    def num_features(self) -> int:
        if self.items is not None:
            return int(self.items.features.shape[1])
        assert self.source.inline is not None
        return len(self.source.inline)

    def __repr__(self) -> str:
        schema = "inline features"
        if self.items is not None:
            schema = f"between {self.items.num_items:,} items"
        return f"StreamedDuels({self.num_rows:,} rows {schema}, from {self.source.name})"

    def part(self, start: int, stop: int) -> StreamedDuels:
        """Rows start to stop of this stream.

        Raises:
            ValueError: no rows, or rows that are not there.
        """
        if not 0 <= start < stop <= self.num_rows:
            raise ValueError(
                f"Rows {start} to {stop} are no part of the {self.num_rows} rows of {self!r}; give "
                "at least one row of it."
            )
        blocks = None if self.blocks is None else self.blocks[start:stop]
        return replace(self, start=self.start + start, stop=self.start + stop, blocks=blocks)

    def in_blocks(self, labels: Sequence[Hashable]) -> StreamedDuels:
        """The same stream with a block for each row.

        Raises:
            ValueError: labels for more or fewer rows, or a block whose rows do not follow on one
                another.
        """
        if len(labels) != self.num_rows:
            raise ValueError(
                f"There are blocks for {len(labels):,} duels, but {self.num_rows:,} rows of duels; "
                "give one block for each row of the stream."
            )
        changes = [i for i in range(1, len(labels)) if labels[i] != labels[i - 1]]
        begun: set[Hashable] = set()
        for row in (0, *changes):
            if labels[row] in begun:
                raise ValueError(
                    f"The block {labels[row]!r} begins again at row {row:,}, after rows of other "
                    "blocks; sort the rows by their block, or read the duels into memory."
                )
            begun.add(labels[row])
        numbers = np.zeros(len(labels), np.int64)
        numbers[changes] = 1
        return replace(self, blocks=np.cumsum(numbers))

    @property
    def _block_ends(self) -> IntArray:
        """Where blocks end, the last one with the rows; every row without blocks."""
        if self.blocks is None:
            return np.arange(1, self.num_rows + 1)
        return np.append(np.flatnonzero(np.diff(self.blocks)) + 1, self.num_rows)

    def _sizes(self, size: int) -> Iterator[int]:
        """How many rows each chunk has: `size`, or whole blocks, at least one, up to it."""
        if self.blocks is None:
            yield from repeat(size)
            return
        ends, start = self._block_ends, 0
        while start < self.num_rows:
            first, last = np.searchsorted(ends, [start, start + size], side="right")
            stop = int(ends[max(first, last - 1)])
            yield stop - start
            start = stop

    def cut(self, parts: int) -> tuple[StreamedDuels, ...]:
        """Parts of nearly equal size, in the order of the rows: whole files, if their sizes allow.

        Raises:
            ValueError: more parts than rows, so that one would have no duels.
        """
        if parts > self.num_rows:
            raise ValueError(
                f"{parts} parts of {self.num_rows} duels would leave a part without duels; take at "
                f"most {self.num_rows} parts."
            )
        ends = np.linspace(0, self.num_rows, parts + 1).astype(int)
        if self.blocks is not None:
            whole = np.concatenate([[0], self._block_ends])
            if parts >= len(whole):
                raise ValueError(
                    f"{parts} parts of {len(whole) - 1} blocks of duels would leave a part without "
                    f"duels; take at most {len(whole) - 1} parts."
                )
            inner = np.searchsorted(whole, ends[1:-1])
            every = np.arange(1, parts)  # a block for each part, before and after
            inner = np.maximum.accumulate(np.maximum(inner - every, 0)) + every
            inner = np.minimum(inner, len(whole) - 1 - parts + every)
            ends = np.concatenate([[0], whole[inner], [self.num_rows]])
            return tuple(self.part(int(a), int(b)) for a, b in pairwise(ends))
        edges = np.clip(np.array(self.source.edges) - self.start, 0, self.num_rows)
        near = edges[np.argmin(np.abs(edges[:, None] - ends[None, :]), 0)]
        sizes = np.diff(near)
        if sizes.min() > 0 and sizes.max() * parts <= _UNEVEN * self.num_rows:
            ends = near
        return tuple(self.part(int(a), int(b)) for a, b in pairwise(ends))

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All rows in order, `size` at a time, the last chunk shorter; read ahead by a thread.

        Raises:
            ValueError: an unreadable file, a bad value, with its row, or other duels than before.
        """
        yield from ahead(self._chunks(size))

    def _chunks(self, size: int) -> Iterator[Chunk]:
        start = self.start
        held: list[Chunk] = []
        rows, sizes = 0, self._sizes(size)
        wanted = next(sizes)
        for chunk in self._blocks():
            held.append(chunk)
            rows += len(chunk.counts)
            while rows >= wanted:
                whole = joined(held)
                yield self._labelled(whole.rows(slice(wanted), start - self.start))
                held, rows = [whole.rows(slice(wanted, rows), 0)], rows - wanted
                start += wanted
                wanted = next(sizes, size)
        if rows:
            yield self._labelled(joined(held)._replace(start=start - self.start))
            start += rows
        if start != self.stop:
            raise ValueError(
                f"{self.source.name} has given {start - self.start} rows where it gave "
                f"{self.num_rows} before; a stream must give the same duels each time."
            )

    def _labelled(self, chunk: Chunk) -> Chunk:
        if self.blocks is None:
            return chunk
        return chunk._replace(blocks=self.blocks[chunk.start : chunk.start + len(chunk.counts)])

    def _blocks(self) -> Iterator[Chunk]:
        """As they are read, from the block of the checksums that the first row lies in."""
        starts = self.scan.starts
        first, last = bisect_right(starts, self.start) - 1, bisect_left(starts, self.stop)
        position, sizes = starts[first], np.diff(starts[first : last + 1]).tolist()
        read = self.source.read(position, starts[last], max(sizes))
        for block, rows in enumerate(regular(read, sizes), start=first):
            chunk, digest = parsed(self.source, self.items, self.transform, rows, position)
            length = len(chunk.counts)
            if digest != self.scan.digests[block]:
                raise ValueError(
                    f"There are other duels from {self.source.where(position)} on than when they "
                    "were first read; leave files alone while they are in use, and do not shuffle "
                    "a dataset."
                )
            low, high = max(self.start - position, 0), min(self.stop - position, length)
            position += length
            if low < high:
                yield chunk.rows(slice(low, high), 0)

    def sample(self, size: int, rng: np.random.Generator) -> Duels:
        """`size` rows drawn without replacement, in memory; all of them where there are no more."""
        return self.take(self.draw(size, rng))

    def draw(self, size: int, rng: np.random.Generator) -> IntArray:
        """Numbers of the rows that `sample` takes, ascending; nothing is read."""
        if size >= self.num_rows:
            return np.arange(self.num_rows)
        return np.sort(rng.choice(self.num_rows, size, replace=False))

    def take(self, chosen: IntArray) -> Duels:
        """Rows by their numbers, ascending, in memory."""
        found = []
        for chunk in self.chunks(READ_ROWS):
            here = chosen[np.searchsorted(chosen, chunk.start) :]
            rows = here[: np.searchsorted(here, chunk.start + len(chunk.counts))] - chunk.start
            if len(rows):
                found.append(chunk.rows(rows, 0))
        return self.in_memory(joined(found))

    def in_memory(self, chunk: Chunk) -> Duels:
        """Some of its rows as `Duels`."""
        counts = chunk.counts.astype(np.int64)
        judged: dict[str, Any] = {"ties": chunk.ties, "weights": chunk.weights}
        if self.items is None:
            names = self.feature_names
            n = len(counts)
            items, row = np.unique(
                np.concatenate([chunk.winners, chunk.losers]), axis=0, return_inverse=True
            )
            row = row.reshape(-1)
            return Duels.from_rows(
                items,
                row[:n],
                row[n:],
                counts,
                feature_names=names,
                transform=self.transform,
                **judged,
            )
        return Duels.from_rows(
            self.items.features,
            chunk.winners,
            chunk.losers,
            counts,
            item_ids=self.items.ids,
            feature_names=self.items.feature_names,
            transform=self.items.transform,
            **judged,
        )
