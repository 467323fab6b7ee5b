"""Answers that are read in chunks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain, pairwise
from typing import TypeAlias

import numpy as np

from sparse_prefgp.data.answers import Answers, Codes
from sparse_prefgp.data.batches import Batches, Totals
from sparse_prefgp.io.files import id_text
from sparse_prefgp.io.streams.blocks import Source, ahead, regular
from sparse_prefgp.io.streams.items import Lookup
from sparse_prefgp.io.streams.parsing import labels_by_column, parsed
from sparse_prefgp.io.streams.scan import READ_ROWS, Scan
from sparse_prefgp.support.arrays import FloatArray, IntArray

# Parts are whole files where the largest is no more than so many times the average.
_UNEVEN = 1.25
# Events, and the features of their sides (s, D) where they have some of their own.
Batch: TypeAlias = tuple[Answers, FloatArray | None]


@dataclass(frozen=True, eq=False, repr=False)
class Stream(Batches):
    """Where the answers of `Duels` are read in chunks, made by `stream_duels`."""

    source: Source
    """Where they are read from."""
    lookup: Lookup | None
    """How rows of items are found; None where features are inline."""
    scan: Scan
    """What the first pass over all of them found."""
    said: Answers
    """None of the events, but with the names of judges and labels by the numbers that events have
    for them: those of the whole, or of some."""
    start: int
    """The rows of the source that belong to it."""
    stop: int
    """The rows of the source that belong to it."""
    blocks: Codes | None = None
    """The block of each of its rows, in ascending order, where neither parts nor chunks may cut
    one; None without blocks.
    """

    def __len__(self) -> int:
        return self.stop - self.start

    def __repr__(self) -> str:
        return f"{len(self):,} rows from {self.source.name}"

    @property
    def has_items(self) -> bool:  # type: ignore[override]
        return self.scan.totals.has_items

    @property
    def has_sets(self) -> bool:  # type: ignore[override]
        return self.scan.totals.has_sets

    @property
    def num_sites(self) -> int:
        """t, those of all these rows; read only where some row has several."""
        of_all = self.scan.totals
        return len(self) if of_all.sites == self.scan.rows else self.totals.sites

    @cached_property
    def totals(self) -> Totals:  # type: ignore[override]
        """Of these rows, features as they are in the source; those of a part are counted by a pass
        over it."""
        of_all = self.scan.totals
        if len(self) == self.scan.rows:
            return replace(of_all, said=self.said)
        n = None if of_all.comparisons is None else len(of_all.comparisons)
        chunks = (Totals.of(events, n, features) for events, features in self.chunks(READ_ROWS))
        found = replace(reduce(Totals.plus, chunks), said=self.said, squares=of_all.squares)
        return replace(found, about_sets=of_all.about_sets)

    def part(self, start: int, stop: int) -> Stream:
        """As `Duels.part`."""
        if not 0 <= start < stop <= len(self):
            raise ValueError(
                f"Rows {start} to {stop} are not part of the {self!r}; give at least one of them."
            )
        blocks = self.blocks and self.blocks.take(slice(start, stop))
        return replace(self, start=self.start + start, stop=self.start + stop, blocks=blocks)

    def in_blocks(self, labels: Sequence[Hashable], what: str = "block") -> Stream:
        """As `Duels.in_blocks`."""
        if len(labels) != len(self):
            raise ValueError(
                f"There are blocks for {len(labels):,} duels, but {len(self):,} rows of duels; "
                "give one block for each row of the stream."
            )
        blocks = Codes.of(labels)
        for row in np.flatnonzero(np.diff(blocks.numbers.astype(np.int64)) < 0)[:1] + 1:
            raise ValueError(
                f"The {what} {labels[row]!r} begins again at row {row:,}, after rows of "
                f"other {what}s; sort the rows by their {what}, or read the duels into memory."
            )
        return replace(self, blocks=blocks)

    @cached_property
    def _block_ends(self) -> IntArray:
        """Where blocks end, the last one with the rows; every row without blocks."""
        if self.blocks is None:
            return np.arange(1, len(self) + 1)
        changes = self.blocks.numbers[1:] != self.blocks.numbers[:-1]
        return np.append(np.flatnonzero(changes) + 1, len(self))

    def cut(self, parts: int) -> tuple[Stream, ...]:
        """As `Duels.cut`."""
        rows = len(self)
        if parts > rows:
            raise ValueError(
                f"{parts} parts of {rows} duels would leave a part without duels; take at "
                f"most {rows} parts."
            )
        ends = np.linspace(0, rows, parts + 1).astype(int)
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
            ends = np.concatenate([[0], whole[inner], [rows]])
        else:
            edges = np.clip(np.array(self.source.edges) - self.start, 0, rows)
            near = edges[np.argmin(np.abs(edges[:, None] - ends[None, :]), 0)]
            sizes = np.diff(near)
            if sizes.min() > 0 and sizes.max() * parts <= _UNEVEN * rows:
                ends = near
        return tuple(self.part(int(a), int(b)) for a, b in pairwise(ends))

    def chunks(self, size: int) -> Iterator[Batch]:
        """As `Duels.chunks`, with features as they are in the source."""
        yield from ahead(self._chunks(size))

    def _chunks(self, size: int) -> Iterator[Batch]:
        start, held, sites = 0, list[Batch](), 0
        for batch in chain(self._read(), [None]):
            if batch is not None:
                held.append(batch)
                sites += int(batch[0].sites_next_to(self.has_sets).sum())
            if not held or (batch is not None and sites < size):
                continue
            whole, done = _joined(held), 0
            for end in self._ends_in(whole[0], start, size, batch is None):
                events, features = _some(whole, slice(done, end))
                if self.blocks is not None:
                    events = events.saying(block=self.blocks.take(slice(start + done, start + end)))
                yield events, features
                done = end
            rest = _some(whole, slice(done, None))
            held = [rest] if len(rest[0]) else []
            start, sites = start + done, int(rest[0].sites_next_to(self.has_sets).sum())
        if start != len(self):
            raise ValueError(
                f"{self.source.name} has given {start} rows where it gave "
                f"{len(self)} before; a stream must give the same duels each time."
            )

    def _ends_in(self, whole: Answers, start: int, size: int, last: bool) -> Iterator[int]:
        """Where chunks end within events that have been read.

        :param start: number of the first of them.
        :param last: whether no more are to come.
        """
        sites = np.append(0, np.cumsum(whole.sites_next_to(self.has_sets)))
        ends = np.arange(1, len(sites))
        if self.blocks is not None:
            ends = self._block_ends - start
            ends = ends[(ends > 0) & (ends < len(sites))]
        up_to, unit, done = sites[ends], 0, 0
        while unit < len(ends):
            unit = max(int(np.searchsorted(up_to, done + size, side="right")), unit + 1)
            if unit == len(ends) and not last and sites[-1] - done < size:
                return  # more may fit
            yield int(ends[unit - 1])
            done = int(up_to[unit - 1])

    def _read(self) -> Iterator[Batch]:
        """As they are read, from the block of the checksums that the first row lies in."""
        starts = self.scan.starts
        first, last = bisect_right(starts, self.start) - 1, bisect_left(starts, self.stop)
        position, sizes = starts[first], np.diff(starts[first : last + 1]).tolist()
        read = self.source.read(position, starts[last], max(sizes))
        texts = {column: [*map(id_text, names)] for column, names in self._labels_read.items()}
        labels = labels_by_column(self.source.roles, texts)
        for block, rows in enumerate(regular(read, sizes), start=first):
            events, features, digest = parsed(self.source, self.lookup, rows, position, labels)
            length = len(events)
            if digest != self.scan.digests[block]:
                raise ValueError(
                    f"There are other duels from {self.source.where(position)} on than when they "
                    "were first read; leave files alone while they are in use, and do not shuffle "
                    "a dataset."
                )
            low, high = max(self.start - position, 0), min(self.stop - position, length)
            position += length
            if low < high:
                events, features = _some((events, features), slice(low, high))
                yield self._named(events), features

    @cached_property
    def _labels_read(self) -> dict[str, tuple[Hashable, ...]]:
        """All labels of each column that codes are read from."""
        roles, said = self.source.roles, self.scan.totals.said
        of_roles = {column: said.columns[role].names for role, column in roles.codes.items()}
        return of_roles | {column: said.labels[x].names for x, column in roles.labels.items()}

    def _named(self, events: Answers) -> Answers:
        """With the names of all judges, people and labels of the stream, or with its own ones."""
        known = self._labels_read
        events = events.recoded(
            lambda codes: codes._replace(names=known.get(str(codes.column), codes.names))
        )
        if self.said is self.scan.totals.said:
            return events
        judge = events.judge and events.judge.among(self.group_names or ())
        return events.saying(judge=judge).labelled_as(self.label_names)

    def take(self, rows: IntArray) -> Batch:
        """Rows by their numbers, ascending."""
        found, start = list[Batch](), 0
        for events, features in self.chunks(READ_ROWS):
            stop = start + len(events)
            here = rows[slice(*np.searchsorted(rows, (start, stop)))] - start
            if len(here):
                found.append(_some((events.saying(block=None), features), here))
            start = stop
        return _joined(found)


def _some(batch: Batch, which: slice | IntArray) -> Batch:
    """Some events of a batch."""
    events, features = batch[0].take(which), batch[1]
    if features is None:
        return events, None
    return events.saying(np.arange(len(events.sides))), features[events.sides]


def _joined(batches: Sequence[Batch]) -> Batch:
    """Batches that follow on one another."""
    (first, features), *others = batches
    if not others:
        return first, features
    events = first.followed_by(*(batch[0] for batch in others))
    if features is None:
        return events, None
    features = np.concatenate([sides for _, sides in batches if sides is not None])
    return events.saying(np.arange(len(features))), features
