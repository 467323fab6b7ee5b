"""Duels that are read in chunks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise

import numpy as np

from sparse_prefgp.data.answers import Answers, OfLabels
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.read_as import ReadAs
from sparse_prefgp.io.files import id_text
from sparse_prefgp.io.streams.blocks import Chunk, Source, ahead, joined, regular
from sparse_prefgp.io.streams.items import ItemTable
from sparse_prefgp.io.streams.parsing import labels_by_column, parsed
from sparse_prefgp.io.streams.scan import READ_ROWS, Scan, Totals, totals_of
from sparse_prefgp.support.arrays import FloatArray, IntArray, runs

# Parts are whole files where the largest is no more than so many times the average.
_UNEVEN = 1.25


@dataclass(frozen=True, eq=False)
class StreamedDuels(OfLabels):
    """Duels that are read in chunks, made by `stream_duels`."""

    source: Source
    """Where they are read from."""
    items: ItemTable | None
    """The table that ids refer to; None where features are inline."""
    transform: FeatureTransform | None
    """How inline features are standardised, None for as they are."""
    feature_names: tuple[str, ...] | None
    """Of the D features."""
    scan: Scan
    """What the first pass over all of them found."""
    said: Answers
    """None of the events, but with the names of judges and labels by the numbers that events have
    for them: those of the whole, or of some."""
    start: int
    """The rows of the source that belong to it."""
    stop: int
    """The rows of the source that belong to it."""
    blocks: IntArray | None = None
    """The number of each of its rows' block, ascending, where neither parts nor chunks may cut one;
    None without blocks.
    """

    @property
    def num_rows(self) -> int:
        """Events, each a row of the source."""
        return self.stop - self.start

    @property
    def num_sites(self) -> int:
        """t, those of all these rows; read only where some row has several."""
        return self.num_rows if self.scan.totals.sites == self.scan.rows else self.totals.sites

    def sites_of(self, chunk: Chunk) -> IntArray:
        """How many sites each event of a chunk has, (c,): z behind its doors, of each copy where
        answers about sets share noises."""
        sites = chunk.events.sites
        return sites * chunk.events.copies if self.scan.sets.any else sites

    def z_of_sites(self, chunk: Chunk) -> IntArray:
        """Which z behind the doors of a chunk's events each site is of."""
        sites = chunk.events.sites
        copies = chunk.events.copies if self.scan.sets.any else np.ones(len(sites), np.int64)
        event = np.repeat(np.arange(len(sites)), copies)
        return runs((np.cumsum(sites) - sites)[event], sites[event])

    @property
    def read_as(self) -> ReadAs | None:
        """How the columns were understood; None where nothing was to be."""
        read_as, of = self.source.read_as, self.scan.totals
        answers = {"win": of.duels - of.ties, **({"tie": of.ties} if of.ties else {})}
        return None if read_as is None else replace(read_as, answers=answers)

    @property
    def num_duels(self) -> int:
        """Duels of these rows, counts included."""
        return self.totals.duels

    @property
    def num_ties(self) -> int:
        """How many of them are ties; read only where there are any in the whole."""
        return self.totals.ties if self.scan.totals.ties else 0

    @cached_property
    def totals(self) -> Totals:
        """Numbers of these rows; those of a part are counted by a pass over it."""
        scan = self.scan
        if self.num_rows == scan.rows:
            low, high = map(self._in_units, (scan.totals.low, scan.totals.high))
            return scan.totals._replace(low=low, high=high)
        return totals_of(self.items, self.chunks(READ_ROWS), scan.sets.any)

    @cached_property
    def centre(self) -> FloatArray:
        """The mean of the items, or of the sides of duels that have features of their own, (D,)."""
        if self.items is not None:
            return np.mean(self.items.features, 0, dtype=np.float64)
        return np.asarray(self._in_units(self.scan.mean))

    def _in_units(self, features: FloatArray | None) -> FloatArray | None:
        """Inline features, (D,) or (c, D), as the model has them."""
        if self.transform is None or features is None:
            return features
        return (features - np.array(self.transform.mean)) / np.array(self.transform.scale)

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

        :raises ValueError: no rows, or rows that are not there.
        """
        if not 0 <= start < stop <= self.num_rows:
            raise ValueError(
                f"Rows {start} to {stop} are not part of the {self.num_rows} rows of {self!r}; "
                "give at least one row of it."
            )
        blocks = None if self.blocks is None else self.blocks[start:stop]
        return replace(self, start=self.start + start, stop=self.start + stop, blocks=blocks)

    def in_blocks(self, labels: Sequence[Hashable], what: str = "block") -> StreamedDuels:
        """The same stream with a block for each row.

        :param what: one of them is.
        :raises ValueError: labels for more or fewer rows, or a block whose rows do not follow on
            one another.
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
                    f"The {what} {labels[row]!r} begins again at row {row:,}, after rows of "
                    f"other {what}s; sort the rows by their {what}, or read the duels into memory."
                )
            begun.add(labels[row])
        numbers = np.zeros(len(labels), np.int64)
        numbers[changes] = 1
        return replace(self, blocks=np.cumsum(numbers))

    @cached_property
    def _block_ends(self) -> IntArray:
        """Where blocks end, the last one with the rows; every row without blocks."""
        if self.blocks is None:
            return np.arange(1, self.num_rows + 1)
        return np.append(np.flatnonzero(np.diff(self.blocks)) + 1, self.num_rows)

    def cut(self, parts: int) -> tuple[StreamedDuels, ...]:
        """Parts of nearly equal size, in the order of the rows: whole files, if their sizes allow.

        :raises ValueError: more parts than rows, so that one would have no duels.
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
        else:
            edges = np.clip(np.array(self.source.edges) - self.start, 0, self.num_rows)
            near = edges[np.argmin(np.abs(edges[:, None] - ends[None, :]), 0)]
            sizes = np.diff(near)
            if sizes.min() > 0 and sizes.max() * parts <= _UNEVEN * self.num_rows:
                ends = near
        return tuple(self.part(int(a), int(b)) for a, b in pairwise(ends))

    def chunks(self, size: int) -> Iterator[Chunk]:
        """All events in order, in chunks of at most `size` sites, read ahead by a thread.

        Each has whole events and whole blocks, at least one, and all but the last as many as fit.

        :raises ValueError: an unreadable file, a bad value, with its row, or other duels than
            before.
        """
        yield from ahead(self._chunks(size))

    def _chunks(self, size: int) -> Iterator[Chunk]:
        start, held, sites = 0, list[Chunk](), 0
        for chunk in chain(self._read(), [None]):
            if chunk is not None:
                held.append(chunk)
                sites += int(self.sites_of(chunk).sum())
            if not held or (chunk is not None and sites < size):
                continue
            whole, done = joined(held), 0
            for end in self._ends_in(whole, start, size, chunk is None):
                part = whole.take(slice(done, end), start + done)
                if self.blocks is not None:
                    part = part._replace(blocks=self.blocks[start + done : start + end])
                yield part
                done = end
            rest = whole.take(slice(done, None), 0)
            held = [rest] if len(rest.events) else []
            start, sites = start + done, int(self.sites_of(rest).sum())
        if start != self.num_rows:
            raise ValueError(
                f"{self.source.name} has given {start} rows where it gave "
                f"{self.num_rows} before; a stream must give the same duels each time."
            )

    def _ends_in(self, whole: Chunk, start: int, size: int, last: bool) -> Iterator[int]:
        """Where chunks end within events that have been read.

        :param start: number of the first of them.
        :param last: whether no more are to come.
        """
        sites = np.append(0, np.cumsum(self.sites_of(whole)))
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

    def _read(self) -> Iterator[Chunk]:
        """As they are read, from the block of the checksums that the first row lies in."""
        starts = self.scan.starts
        first, last = bisect_right(starts, self.start) - 1, bisect_left(starts, self.stop)
        position, sizes = starts[first], np.diff(starts[first : last + 1]).tolist()
        read = self.source.read(position, starts[last], max(sizes))
        texts = {column: [*map(id_text, names)] for column, names in self._labels_read.items()}
        labels = labels_by_column(self.source.roles, texts)
        for block, rows in enumerate(regular(read, sizes), start=first):
            chunk, digest = parsed(self.source, self.items, self.transform, rows, position, labels)
            length = len(chunk.events)
            if digest != self.scan.digests[block]:
                raise ValueError(
                    f"There are other duels from {self.source.where(position)} on than when they "
                    "were first read; leave files alone while they are in use, and do not shuffle "
                    "a dataset."
                )
            low, high = max(self.start - position, 0), min(self.stop - position, length)
            position += length
            if low < high:
                chunk = chunk.take(slice(low, high), 0)
                yield chunk._replace(events=self._named(chunk.events))

    @cached_property
    def _labels_read(self) -> dict[str, tuple[Hashable, ...]]:
        """All labels of each column that codes are read from."""
        roles, said = self.source.roles, self.scan.said
        of_roles = {column: said.columns[role].names for role, column in roles.codes.items()}
        return of_roles | {column: said.labels[x].names for x, column in roles.labels.items()}

    def _named(self, events: Answers) -> Answers:
        """With the names of all judges, people and labels of the stream, or with its own ones."""
        known = self._labels_read
        events = events.recoded(
            lambda codes: codes._replace(names=known.get(str(codes.column), codes.names))
        )
        if self.said is self.scan.said:
            return events
        judge = events.judge and events.judge.among(self.group_names or ())
        return events.saying(judge=judge).labelled_as(self.label_names)

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
            ends = chunk.start, chunk.start + len(chunk.events)
            rows = chosen[slice(*np.searchsorted(chosen, ends))] - chunk.start
            if len(rows):
                found.append(chunk.take(rows, 0)._replace(blocks=None))
        return self.in_memory(joined(found))

    def in_memory(self, chunk: Chunk) -> Duels:
        """Some of its rows as `Duels`."""
        events = chunk.events
        if chunk.features is not None:
            items, row = np.unique(chunk.features, axis=0, return_inverse=True)
            return Duels.from_events(
                items,
                events.saying(row.reshape(-1)[events.sides]),
                feature_names=self.feature_names,
                transform=self.transform,
                roles=self.source.remembered,
            )
        assert self.items is not None
        return Duels.from_events(self.items, events, roles=self.source.remembered)
