"""Duels that are read in chunks: Parquet files or a `tf.data.Dataset`, never all at once.

Two schemas. *Ids*: columns `winner` and `loser` name rows of a table of items in memory. *Inline*:
columns `winner_x`, `loser_x`, … hold the features x, … of both sides. Either may have a column
`count`. Each row is a duel, or `count` equal ones, with a site of its own.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sparse_prefgp.duels import Duels, check_features
from sparse_prefgp.features import INSTALL_CLI, FeatureTransform
from sparse_prefgp.io.columns import item_columns
from sparse_prefgp.io.files import id_text, listing, load_items
from sparse_prefgp.io.judgements import COUNT, LOSER, TIE, WINNER

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Report = Callable[[int, int], None]

SIDES = (WINNER, LOSER)
# Rows read, and summed up by one checksum, at a time: some 4 MB of ids.
READ_ROWS = 1 << 18
# Parts are whole files where the largest is no more than so many times the average.
_UNEVEN = 1.25
# Numbers of inline features read at a time.
_READ_NUMBERS = 1 << 20
_PARQUET = (".parquet", ".pq")


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

    def count_rows(self) -> int:
        """How many rows there are."""

    @property
    def edges(self) -> tuple[int, ...]:
        """The first row of each file, and how many rows there are."""

    def read(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Rows start to stop, at most `size` at a time."""

    def where(self, row: int) -> str:
        """How a message names a row."""


# Items.


@dataclass(frozen=True, eq=False)
class ItemTable:
    """Items in memory: (n, D) features in model units, and ids as for `Duels`.

    origin: path and options of the file they were read from, which other processes read again
    rather than being sent the features; None for arrays.
    """

    features: FloatArray
    ids: tuple[Hashable, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    transform: FeatureTransform | None = None
    origin: tuple[Any, ...] | None = None

    @classmethod
    def of(
        cls, items: Any, features: Sequence[str] | None = None, ignore: Sequence[str] = ()
    ) -> ItemTable:
        """A table from an (n, D) array, or from a file or a data frame, then standardised.

        Raises:
            ValueError: what `read_duels` says of items.
        """
        if isinstance(items, ItemTable):
            return items
        if isinstance(items, np.ndarray):
            return cls(check_features(items, "items", None))
        table = load_items(items)
        found = item_columns(table, table, features=features, ignore=ignore, never_features=())
        frame = table.frame[found.others]
        transform = FeatureTransform.fit(frame, found.numeric, found.categorical, table.row)
        path = isinstance(items, str | os.PathLike)
        origin = (os.path.abspath(items), features, tuple(ignore)) if path else None
        return cls(
            transform.apply(frame, table.row),
            found.ids,
            transform.feature_names,
            transform,
            origin,
        )

    def __reduce__(self) -> Any:
        if self.origin is not None:
            return ItemTable.of, self.origin
        return ItemTable, (self.features, self.ids, self.feature_names, self.transform)

    @property
    def num_items(self) -> int:
        return len(self.features)

    def rows_of(self, values: Any) -> IntArray:
        """Row of each id in a column, -1 where it is unknown or missing.

        :param values: (c,) NumPy array, or pyarrow array.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_binary(column.type):
            column = column.cast(pa.string())
        if self.ids is None:
            number = _whole(column)
            inside = (number >= 0) & (number < self.num_items)
            return np.where(inside, number, -1)
        if self._numbers is not None:
            number = _whole(column)
            order, ordered = self._numbers
            place = np.minimum(np.searchsorted(ordered, number), len(ordered) - 1)
            return np.where(ordered[place] == number, order[place], -1)
        if not pa.types.is_string(column.type):
            column = column.cast(pa.string())
        found = pc.index_in(pc.utf8_trim_whitespace(column), value_set=self._texts)
        return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)

    @cached_property
    def _texts(self) -> Any:
        import pyarrow as pa

        assert self.ids is not None
        return pa.array([id_text(value) for value in self.ids])

    @cached_property
    def _numbers(self) -> tuple[IntArray, IntArray] | None:
        """For ids that are whole numbers, their rows and the ids in ascending order."""
        assert self.ids is not None
        if not isinstance(self.ids[0], int | np.integer):  # all are, or none (`plain_ids`)
            return None
        ids = np.asarray(self.ids, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        return order, ids[order]


def _whole(column: Any) -> IntArray:
    """A pyarrow column as whole numbers; -1 where there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if pa.types.is_string(column.type):
            column = pc.utf8_trim_whitespace(column)
        whole = column.cast(pa.int64())
    except pa.ArrowInvalid:  # the odd one out is found one by one
        return np.array([_one_whole(value.as_py()) for value in column], dtype=np.int64)
    return np.asarray(whole.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)


def _one_whole(value: Any) -> int:
    text = id_text(value)
    return int(text) if text.lstrip("-").isdigit() else -1


# Sources.


@dataclass(frozen=True)
class ParquetRows:
    """The rows of one or several Parquet files, one file after the other."""

    paths: tuple[str, ...]
    columns: tuple[str, ...] = ()
    inline: tuple[str, ...] | None = None
    sizes: tuple[int, ...] = ()

    @classmethod
    def of(cls, paths: Sequence[str | os.PathLike[str]]) -> ParquetRows:
        """The files, whose columns must be the same.

        Raises:
            ValueError: no file, one that is missing or not Parquet, or no schema of duels.
        """
        files = tuple(os.path.abspath(path) for path in paths)
        if not files:
            raise ValueError("There are no duels: the list of files is empty; give at least one.")
        first: tuple[str, ...] = ()
        for path in files:
            columns = tuple(_open_parquet(path).schema_arrow.names)
            first = first or columns
            if set(columns) != set(first):
                odd = sorted(set(columns) ^ set(first))[0]
                raise ValueError(
                    f"The column {odd!r} is not in all of the files ({files[0]!r} and {path!r} "
                    "differ); write all with the same columns."
                )
        return cls(files, first, _inline_names(first, f"{Path(files[0]).name}"))

    @property
    def name(self) -> str:
        more = f" and {len(self.paths) - 1} more files" if len(self.paths) > 1 else ""
        return f"{self.paths[0]}{more}"

    def count_rows(self) -> int:
        return sum(self._sizes())

    @property
    def edges(self) -> tuple[int, ...]:
        return (0, *np.cumsum(self._sizes()).tolist())

    def _sizes(self) -> tuple[int, ...]:
        return self.sizes or tuple(_open_parquet(path).metadata.num_rows for path in self.paths)

    def counted(self) -> ParquetRows:
        """The same with the number of rows of each file at hand."""
        return replace(self, sizes=self._sizes())

    def read(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        names = [name for name in (*self._side_columns(0), *self._side_columns(1), COUNT)]
        wanted = [name for name in names if name in self.columns]
        before = 0
        for path, rows in zip(self.paths, self._sizes(), strict=True):
            low, high = max(start - before, 0), min(stop - before, rows)
            before += rows
            if low >= high:
                continue
            for batch in _batches(path, low, high, size, wanted):
                yield self._rows(batch)

    def _side_columns(self, side: int) -> list[str]:
        if self.inline is None:
            return [SIDES[side]]
        return [f"{SIDES[side]}_{name}" for name in self.inline]

    def _rows(self, batch: Any) -> Rows:
        counts = batch.column(COUNT) if COUNT in self.columns else None
        if self.inline is None:
            return Rows(batch.column(WINNER), batch.column(LOSER), counts)
        won, lost = ([batch.column(name) for name in self._side_columns(k)] for k in (0, 1))
        return Rows(won, lost, counts)

    def where(self, row: int) -> str:
        for path, rows in zip(self.paths, self._sizes(), strict=True):
            if row < rows:
                return f"row {row} of {Path(path).name} (counted from 0)"
            row -= rows
        return f"row {row} past the end of {self.name}"


def _open_parquet(path: str) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ModuleNotFoundError(
            f"Reading Parquet needs pyarrow; install it with {INSTALL_CLI}."
        ) from error
    if not os.path.isfile(path):
        raise ValueError(f"The duels file {path!r} does not exist; correct the path.")
    try:
        return pq.ParquetFile(path, memory_map=True)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: BaseException) -> ValueError:
    reason = " ".join(str(error).split()).split(". ")[0].rstrip(".")
    return ValueError(
        f"The duels file {path!r} cannot be read ({reason}); streams are read from Parquet files."
    )


def _batches(path: str, low: int, high: int, size: int, columns: list[str]) -> Iterator[Any]:
    """Record batches of rows low to high of one file; row groups outside are not touched."""
    import pyarrow as pa

    file = _open_parquet(path)
    ends = np.cumsum([file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)])
    groups = [g for g, end in enumerate(ends) if end > low and (g == 0 or ends[g - 1] < high)]
    position = int(ends[groups[0] - 1]) if groups and groups[0] else 0
    try:
        for batch in file.iter_batches(batch_size=size, row_groups=groups, columns=columns):
            rows = batch.num_rows
            first, last = max(low - position, 0), min(high - position, rows)
            position += rows
            if first < last:
                yield batch.slice(first, last - first)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _inline_names(columns: Sequence[str], name: str) -> tuple[str, ...] | None:
    """The features of both sides among the columns; None where the sides are ids.

    Raises:
        ValueError: neither schema, a feature of one side only, or ties.
    """
    if TIE in columns:
        raise ValueError(
            f"{name} has a column {TIE!r}, but duels are streamed without ties; read the duels "
            "into memory (read_duels), or write a file of won duels."
        )
    if WINNER in columns and LOSER in columns:
        return None
    sides = [
        [c.removeprefix(f"{side}_") for c in columns if c.startswith(f"{side}_")] for side in SIDES
    ]
    if not sides[0] or not sides[1]:
        raise ValueError(
            f"{name} has neither the columns {WINNER!r} and {LOSER!r} nor features of both sides, "
            f"such as 'winner_age' and 'loser_age' (columns found: {listing(columns)}); rename "
            "them."
        )
    odd = sorted(set(sides[0]) ^ set(sides[1]))
    if odd:
        raise ValueError(
            f"{name} has the feature {odd[0]!r} of one side only; give 'winner_{odd[0]}' and "
            f"'loser_{odd[0]}'."
        )
    return tuple(sides[0])


class DatasetRows:
    """The elements of a `tf.data.Dataset`: mappings with the keys `winner`, `loser` and perhaps
    `count`, or tuples in that order; the sides are ids or (D,) features. Batched or not."""

    def __init__(self, dataset: Any) -> None:
        spec = dataset.element_spec
        if isinstance(spec, tuple) and len(spec) in (2, 3):
            dataset = dataset.map(lambda *x: dict(zip((*SIDES, COUNT), x, strict=False)))
            spec = dataset.element_spec
        if not isinstance(spec, dict) or not {*SIDES} <= set(spec):
            raise ValueError(
                f"The dataset has elements {spec}; give mappings with the keys 'winner' and "
                "'loser', or tuples of both."
            )
        rank = spec[WINNER].shape.rank
        numeric = spec[WINNER].dtype.is_floating
        if rank is None or rank - numeric not in (0, 1) or spec[LOSER].shape.rank != rank:
            raise ValueError(
                f"The dataset has winners of shape {spec[WINNER].shape} and losers of shape "
                f"{spec[LOSER].shape}; give ids, or vectors of features of floating type."
            )
        self._dataset = dataset.unbatch() if rank - numeric == 1 else dataset
        self.inline: tuple[str, ...] | None = None
        if numeric:
            width = spec[WINNER].shape[-1]
            if width is None:
                raise ValueError(
                    f"The dataset's features have shape {spec[WINNER].shape}, of unknown width; "
                    "set it with tf.ensure_shape."
                )
            self.inline = tuple(f"x{j}" for j in range(width))
        self._rows: int | None = None

    name = "the dataset"

    @property
    def edges(self) -> tuple[int, ...]:
        return (0, self.count_rows())

    def count_rows(self) -> int:
        if self._rows is None:
            known = int(self._dataset.cardinality())
            if known < 0:  # unknown, or infinite
                if known == -1:
                    raise ValueError("The dataset never ends; take(n) a number of duels of it.")
                known = sum(len(next(iter(batch.values()))) for batch in self._batched(READ_ROWS))
            self._rows = known
        return self._rows

    def read(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        for batch in self._batched(size, start, stop - start):
            yield Rows(batch[WINNER], batch[LOSER], batch.get(COUNT))

    def _batched(self, size: int, skip: int = 0, take: int = -1) -> Iterator[dict[str, Any]]:
        part = self._dataset.skip(skip).take(take).batch(size)
        return iter(part.as_numpy_iterator())

    def where(self, row: int) -> str:
        return f"element {row} of the dataset (counted from 0)"

    def __reduce__(self) -> Any:
        raise ValueError(
            "A tf.data.Dataset cannot be sent to other processes; write the duels to Parquet "
            "files, or leave the scheduler out."
        )


# The stream.


@dataclass(frozen=True)
class Scan:
    """What one pass over all rows found.

    rows: of the stream. duels: counts included. starts: the first row of each block, and the number
    of rows; a block lies within one file. digests: a checksum of each block. comparisons: (n,)
    duels of each item; for inline features mean, sd, low and high, (D,) each, of the raw features
    over both sides.
    """

    rows: int
    duels: int
    starts: tuple[int, ...]
    digests: tuple[int, ...]
    comparisons: IntArray | None = None
    mean: FloatArray | None = None
    sd: FloatArray | None = None
    low: FloatArray | None = None
    high: FloatArray | None = None


class Totals(NamedTuple):
    """Of some rows. duels: counts included. comparisons: (n,) duels of each item; for inline
    features low and high, (D,) each, in model units."""

    duels: int
    comparisons: IntArray | None
    low: FloatArray | None
    high: FloatArray | None


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
    """

    source: Source
    items: ItemTable | None
    transform: FeatureTransform | None
    feature_names: tuple[str, ...] | None
    scan: Scan
    start: int
    stop: int

    @property
    def num_rows(self) -> int:
        """t, each row with a site of its own."""
        return self.stop - self.start

    @property
    def num_duels(self) -> int:
        """Duels of these rows, counts included."""
        return self.totals.duels

    @cached_property
    def totals(self) -> Totals:
        """Numbers of these rows; those of a part are counted by a pass over it."""
        scan = self.scan
        if self.num_rows == scan.rows:
            low, high = scan.low, scan.high
            if self.transform is not None and low is not None and high is not None:
                mean, scale = np.array(self.transform.mean), np.array(self.transform.scale)
                low, high = (low - mean) / scale, (high - mean) / scale
            return Totals(scan.duels, scan.comparisons, low, high)
        return _totals(self.items, self.chunks(READ_ROWS))

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
        return replace(self, start=self.start + start, stop=self.start + stop)

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
        yield from _ahead(self._chunks(size))

    def _chunks(self, size: int) -> Iterator[Chunk]:
        start = self.start
        held: list[Chunk] = []
        rows = 0
        for chunk in self._blocks():
            held.append(chunk)
            rows += len(chunk.counts)
            while rows >= size:
                whole = _joined(held)
                yield _slice(whole, 0, size, start - self.start)
                held, rows, start = [_slice(whole, size, rows, 0)], rows - size, start + size
        if rows:
            yield _joined(held)._replace(start=start - self.start)
            start += rows
        if start != self.stop:
            raise ValueError(
                f"{self.source.name} has given {start - self.start} rows where it gave "
                f"{self.num_rows} before; a stream must give the same duels each time."
            )

    def _blocks(self) -> Iterator[Chunk]:
        """As they are read, from the block of the checksums that the first row lies in."""
        starts = self.scan.starts
        first, last = bisect_right(starts, self.start) - 1, bisect_left(starts, self.stop)
        position, sizes = starts[first], np.diff(starts[first : last + 1]).tolist()
        read = self.source.read(position, starts[last], max(sizes))
        for block, rows in enumerate(_regular(read, sizes), start=first):
            chunk, digest = parsed(self.source, self.items, self.transform, rows, position)
            length = len(chunk.counts)
            if digest != self.scan.digests[block]:
                raise ValueError(
                    f"{self.source.name} gives other duels from row {position} on than when it was "
                    "first read; leave files alone while they are in use, and do not shuffle a "
                    "dataset."
                )
            low, high = max(self.start - position, 0), min(self.stop - position, length)
            position += length
            if low < high:
                yield _slice(chunk, low, high, 0)

    def sample(self, size: int, rng: np.random.Generator) -> Duels:
        """`size` rows drawn without replacement, in memory; all of them where there are no more."""
        chosen = np.arange(self.num_rows)
        if size < self.num_rows:
            chosen = np.sort(rng.choice(self.num_rows, size, replace=False))
        found = []
        for chunk in self.chunks(READ_ROWS):
            here = chosen[np.searchsorted(chosen, chunk.start) :]
            rows = here[: np.searchsorted(here, chunk.start + len(chunk.counts))] - chunk.start
            if len(rows):
                found.append(Chunk(0, chunk.winners[rows], chunk.losers[rows], chunk.counts[rows]))
        return self.in_memory(_joined(found))

    def in_memory(self, chunk: Chunk) -> Duels:
        """Some of its rows as `Duels`."""
        counts = chunk.counts.astype(np.int64)
        if self.items is None:
            names = self.feature_names
            n = len(counts)
            items, row = np.unique(
                np.concatenate([chunk.winners, chunk.losers]), axis=0, return_inverse=True
            )
            row = row.reshape(-1)
            return Duels.from_rows(
                items, row[:n], row[n:], counts, feature_names=names, transform=self.transform
            )
        return Duels.from_rows(
            self.items.features,
            chunk.winners,
            chunk.losers,
            counts,
            item_ids=self.items.ids,
            feature_names=self.items.feature_names,
            transform=self.items.transform,
        )


def stream_duels(
    duels: Any,
    items: Any = None,
    *,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    standardise: bool = True,
    progress: Report | None = None,
) -> StreamedDuels:
    """Duels that are read in chunks, again and again, and never held in memory.

    All rows are read once here: counted, checked, and, for inline features, averaged.

    Args:
        duels: path of a Parquet file, of a folder of such files (read in the order of their names)
            or a list of paths; or a `tf.data.Dataset` that gives the same elements each time.
            Columns `winner` and `loser` hold ids; or `winner_x` and `loser_x` hold the feature x
            of both sides, and so on. An optional column `count` says how often. Elements of a
            dataset are mappings with these keys, or tuples; inline features are vectors there.
        items: for ids: path or data frame of items, as for `read_duels`, or an (n, D) array in
            which ids are row numbers. None for inline features.
        features, ignore: columns of the items, or inline features, to use or to leave out.
        standardise: subtract the mean and divide by the standard deviation of inline features,
            which is recorded in `transform`. Tables of items always are, arrays never.
        progress: called with the rows read so far and their number.

    Raises:
        ValueError: a file that is missing, empty or not Parquet; neither schema; ids without
            items, or items without ids; an unknown id, an item against itself, a feature that is
            not finite, a count that is not whole and positive (each with its row); no duels.
    """
    source = _source(duels)
    if source.inline is None and items is None:
        raise ValueError(
            f"The duels of {source.name} name items, but no items were given; give items=, or "
            "features of both sides in columns such as 'winner_age' and 'loser_age'."
        )
    if source.inline is not None and items is not None:
        raise ValueError(
            f"The duels of {source.name} have features of their own ({listing(source.inline)}), "
            "but items were given too; leave the items out, or name them in columns 'winner' and "
            "'loser'."
        )
    table = None if items is None else ItemTable.of(items, features, ignore)
    if table is None:
        source = _chosen(source, features, ignore)
    scan = _scan(source, table, progress)
    names = source.inline if table is None else table.feature_names
    transform = None if table is None else table.transform
    if table is None and standardise:
        transform = _standardised(source, scan)
        names = transform.feature_names
    return StreamedDuels(source, table, transform, names, scan, 0, scan.rows)


def is_stream(duels: Any) -> bool:
    """Whether a path is one of Parquet files in a folder, which are streamed."""
    return isinstance(duels, str | os.PathLike) and os.path.isdir(duels)


def _source(duels: Any) -> Source:
    if hasattr(duels, "element_spec"):
        return DatasetRows(duels)
    paths = [duels] if isinstance(duels, str | os.PathLike) else duels
    if not isinstance(paths, list | tuple):
        raise ValueError(
            f"The duels are of type {type(duels).__name__}; give Parquet files, a folder of them, "
            "or a tf.data.Dataset."
        )
    files: list[Any] = []
    for path in paths:
        if os.path.isdir(path):
            here = sorted(p for p in Path(path).iterdir() if p.suffix.lower() in _PARQUET)
            if not here:
                raise ValueError(
                    f"The folder {str(path)!r} has no Parquet files; give one that has."
                )
            files += here
        else:
            files.append(path)
    return ParquetRows.of(files).counted()


def _chosen(source: Source, features: Sequence[str] | None, ignore: Sequence[str]) -> Source:
    if features is None and not ignore:
        return source
    assert source.inline is not None
    for name in (*(features or ()), *ignore):
        if name not in source.inline:
            raise ValueError(
                f"The feature {name!r} is not among those of {source.name}; choose from "
                f"{listing(source.inline)}."
            )
    if not isinstance(source, ParquetRows):
        raise ValueError("Features of a dataset are chosen with dataset.map, not with features=.")
    kept = [name for name in features or source.inline if name not in ignore]
    if not kept:
        raise ValueError("All features are ignored; keep at least one.")
    return replace(source, inline=tuple(kept))


def _scan(source: Source, items: ItemTable | None, progress: Report | None) -> Scan:
    total = source.count_rows()
    if total == 0:
        raise ValueError(f"There are no duels in {source.name}; give at least one row.")
    every = READ_ROWS
    if source.inline is not None:
        every = max(_READ_NUMBERS // len(source.inline), 1)
    rows, duels = 0, 0.0
    digests: list[int] = []
    compared = None if items is None else np.zeros(items.num_items, dtype=np.int64)
    moments = _Moments()
    pieces = [range(a, b, every) for a, b in pairwise(source.edges)]
    starts = (*(start for piece in pieces for start in piece), total)
    sizes = np.diff(starts).tolist()
    for block in _ahead(_regular(source.read(0, total, every), sizes)):
        chunk, digest = parsed(source, items, None, block, rows)
        digests.append(digest)
        rows += len(chunk.counts)
        duels += float(chunk.counts.sum())
        if compared is not None:
            _compare(compared, chunk)
        else:
            moments.add(chunk.winners)
            moments.add(chunk.losers)
        if progress is not None:
            progress(rows, total)
    found = Scan(rows, int(duels), starts, tuple(digests), compared)
    if compared is not None:
        return found
    sd = np.sqrt(moments.squares / moments.count)
    return replace(found, mean=moments.mean, sd=sd, low=moments.low, high=moments.high)


def _totals(items: ItemTable | None, chunks: Iterator[Chunk]) -> Totals:
    duels = 0.0
    compared = None if items is None else np.zeros(items.num_items, dtype=np.int64)
    moments = _Moments()
    for chunk in chunks:
        duels += float(chunk.counts.sum())
        if compared is None:
            moments.add(chunk.winners)
            moments.add(chunk.losers)
        else:
            _compare(compared, chunk)
    if compared is not None:
        return Totals(int(duels), compared, None, None)
    return Totals(int(duels), None, moments.low, moments.high)


def _compare(compared: IntArray, chunk: Chunk) -> None:
    """Add the duels of a chunk to those of each item."""
    for ends in (chunk.winners, chunk.losers):
        number = np.bincount(ends, weights=chunk.counts, minlength=len(compared))
        compared += number.astype(np.int64)


class _Moments:
    """Mean, squares about it and range of rows that come in blocks (Chan, Golub & LeVeque 1983)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.squares = np.zeros(1)
        self.low, self.high = np.array([np.inf]), np.array([-np.inf])

    def add(self, rows: FloatArray) -> None:
        mean = rows.mean(0)
        total = self.count + len(rows)
        step = mean - self.mean
        self.squares = (
            self.squares + ((rows - mean) ** 2).sum(0) + step**2 * (self.count * len(rows) / total)
        )
        self.mean = self.mean + step * (len(rows) / total)
        self.low = np.minimum(self.low, rows.min(0))
        self.high = np.maximum(self.high, rows.max(0))
        self.count = total


def _standardised(source: Source, scan: Scan) -> FeatureTransform:
    assert scan.mean is not None and scan.sd is not None and source.inline is not None
    assert scan.low is not None and scan.high is not None
    constant = scan.high - scan.low <= 1e-14 * np.maximum(-scan.low, scan.high)
    if constant.any():
        name = source.inline[int(np.flatnonzero(constant)[0])]
        raise ValueError(
            f"The feature {name!r} of {source.name} is constant, so that it tells nothing apart; "
            f"leave it out (ignore=[{name!r}], --ignore {name})."
        )
    return FeatureTransform(source.inline, tuple(map(float, scan.mean)), tuple(map(float, scan.sd)))


def parsed(
    source: Source,
    items: ItemTable | None,
    transform: FeatureTransform | None,
    rows: Rows,
    position: int,
) -> tuple[Chunk, int]:
    """Rows as arrays, checked, and a checksum of them; `position` is that of the first.

    Raises:
        ValueError: naming the row.
    """
    sides: list[npt.NDArray[Any]]
    if items is None:
        sides = [_feature_rows(source, side, rows[side], position) for side in (0, 1)]
        same = (sides[0] == sides[1]).all(1)
    else:
        sides = []
        for name, values in zip(SIDES, rows[:2], strict=True):
            number = items.rows_of(values)
            bad = np.flatnonzero(number < 0)
            if bad.size:
                i = int(bad[0])
                raise ValueError(
                    f"The {name} {_shown(values[i])} in {source.where(position + i)} is not among "
                    "the items; add it there, or remove the duel."
                )
            sides.append(number)
        same = sides[0] == sides[1]
    if same.any():
        i = int(np.flatnonzero(same)[0])
        raise ValueError(
            f"The duel in {source.where(position + i)} is of an item with itself; remove it, or "
            "correct its winner or loser."
        )
    counts = np.ones(len(sides[0]))
    if rows.counts is not None:
        counts = _numbers(rows.counts)
        bad = np.flatnonzero(~((counts >= 1.0) & (counts == np.floor(counts))))
        if bad.size:
            i = int(bad[0])
            raise ValueError(
                f"The count in {source.where(position + i)} is {counts[i]:g}; counts are whole "
                "numbers of at least 1."
            )
    digest = 0
    for array in (*sides, counts):
        digest = zlib.crc32(array.tobytes(), digest)
    if transform is not None and items is None:
        mean, scale = np.array(transform.mean), np.array(transform.scale)
        sides = [(side - mean) / scale for side in sides]
    return Chunk(position, sides[0], sides[1], counts), digest


def _feature_rows(source: Source, side: int, values: Any, position: int) -> FloatArray:
    names = source.inline
    assert names is not None
    if isinstance(values, list):
        try:
            array = np.column_stack([_numbers(column) for column in values])
        except (TypeError, ValueError):
            raise ValueError(
                f"The features of {source.name} hold something that is no number; streams take "
                "numeric features only."
            ) from None
    else:
        array = np.asarray(values, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        i, j = bad[0]
        raise ValueError(
            f"The feature '{SIDES[side]}_{names[j]}' is missing or not finite in "
            f"{source.where(position + int(i))}; fill it in, or remove the duel."
        )
    return array


def _numbers(values: Any) -> FloatArray:
    if hasattr(values, "to_numpy"):
        values = values.to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def _shown(value: Any) -> str:
    plain = value.as_py() if hasattr(value, "as_py") else value
    plain = plain.decode(errors="replace") if isinstance(plain, bytes) else plain
    return "(missing)" if plain is None else repr(plain.item() if hasattr(plain, "item") else plain)


def _regular(blocks: Iterator[Rows], sizes: Sequence[int]) -> Iterator[Rows]:
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

    def joined(values: list[Any]) -> Any:
        if isinstance(values[0], list):
            return [joined(list(columns)) for columns in zip(*values, strict=True)]
        if values[0] is None:
            return None
        if isinstance(values[0], np.ndarray):
            return np.concatenate(values)
        import pyarrow as pa

        chunked = pa.chunked_array(values)
        return chunked.combine_chunks()

    return Rows(*(joined(list(values)) for values in zip(*blocks, strict=True)))


def _joined(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    return Chunk(
        chunks[0].start,
        np.concatenate([c.winners for c in chunks]),
        np.concatenate([c.losers for c in chunks]),
        np.concatenate([c.counts for c in chunks]),
    )


def _slice(chunk: Chunk, low: int, high: int, start: int) -> Chunk:
    return Chunk(start, chunk.winners[low:high], chunk.losers[low:high], chunk.counts[low:high])


def _ahead(iterator: Iterator[Any]) -> Iterator[Any]:
    """The same, with the next one being made by a thread while the last is worked on."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, None)
        while (block := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield block
