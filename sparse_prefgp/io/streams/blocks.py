"""Rows of duels as they are read, and the passing on of blocks of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.read_as import ReadAs
from sparse_prefgp.data.roles import ROLES
from sparse_prefgp.io.files import id_text
from sparse_prefgp.io.judgements import LOSER, TIE, TIE_FLAGS, WINNER, Roles
from sparse_prefgp.io.verdicts import Pair
from sparse_prefgp.support.arrays import BoolArray, IntArray

SIDES = (WINNER, LOSER)
# Columns of duels that nobody named: what they evidently say would be lost.
WEIGHTS = ("weight", "weights")
UNREAD = ("ties", *WEIGHTS)


def remedy(column: str) -> str:
    """What to do about one of `UNREAD`."""
    if column == "ties":
        return f"call it {TIE!r} if it has {TIE_FLAGS}"
    return f"give weights={column!r} (--weight {column})"


# Nothing but who won.
NO_ROLES = Roles()


def named_columns(roles: Roles) -> tuple[tuple[str, str], ...]:
    """The columns that roles name, each with what it holds; covariates apart, which may be two."""
    named = (
        (roles.count if isinstance(roles.count, str) else None, "counts"),
        (roles.weight, "weights"),
        (roles.grade, "grades"),
        *((column, ROLES[role].words[1]) for role, column in roles.codes.items()),
        *((name, "labels") for name in roles.labels.values()),
    )
    return tuple((name, what) for name, what in named if name is not None)


# Some rows as they are read: columns of a file by name, or events that are in memory.
Rows = Mapping[str, Any] | Answers


class Coded(NamedTuple):
    """A column as places among its distinct values."""

    places: IntArray
    """(c,)."""
    texts: tuple[str, ...]
    """Of the distinct values; empty for what is missing."""
    values: tuple[Any, ...]
    """The values themselves."""

    @classmethod
    def of(cls, values: Any) -> Coded:
        """A pyarrow column, or an array."""
        import pyarrow as pa

        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        places = np.asarray(coded.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
        # A last one for what is missing, which -1 is the place of.
        found = [*map(plain_cell, coded.dictionary), None]
        return cls(places % len(found), tuple(id_text(x) for x in found), tuple(found))

    def numbered(self, numbers: Mapping[str, int]) -> IntArray:
        """(c,) the number of each text; -1 where it has none."""
        known = [numbers.get(text, -1) for text in self.texts]
        return np.array(known, dtype=np.int64)[self.places]

    @property
    def missing(self) -> BoolArray:
        """(c,) which have no value."""
        return np.array([not text for text in self.texts], dtype=bool)[self.places]


def plain_cell(value: Any) -> Any:
    """A cell as Python has it."""
    plain = value.as_py() if hasattr(value, "as_py") else value
    plain = plain.decode(errors="replace") if isinstance(plain, bytes) else plain
    return plain.item() if hasattr(plain, "item") else plain


class Source:
    """Where rows come from: the same ones in the same order, as often as they are asked for."""

    columns: tuple[str, ...] = ()
    """All that may be ignored."""
    inline: tuple[str, ...] | None = None
    """Names of the features of both sides, None where the sides are ids."""
    roles: Roles = NO_ROLES
    """The columns that were named."""
    read_as: ReadAs | None = None
    """How the columns were understood; None where nothing was to be."""
    covariate_columns: tuple[tuple[str, ...], ...] = ()
    """The column of each covariate, or the two columns of both sides."""
    context: tuple[str, ...] = ()
    """Names of the context."""
    context_pairs: tuple[Pair, ...] = ()
    """The columns of winner and loser for each of them, as of `context_columns`."""

    @property
    def name(self) -> str:
        """For messages."""
        raise NotImplementedError

    @property
    def remembered(self) -> Mapping[str, str]:
        """The columns of roles that a model of them remembers."""
        return self.roles.by_role

    @property
    def edges(self) -> tuple[int, ...]:
        """The first row of each file, and how many rows there are."""
        return (0, self.count_rows())

    def count_rows(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    def read(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        """Rows start to stop, at most `size` at a time."""
        raise NotImplementedError

    def where(self, row: int) -> str:
        """How a message names a row."""
        raise NotImplementedError


def regular(blocks: Iterator[Rows], sizes: Sequence[int]) -> Iterator[Rows]:
    """The same rows in blocks of these sizes; what is left where there are fewer rows."""
    held: list[Rows] = []
    rows, wanted = 0, list(reversed(sizes))
    for block in blocks:
        held.append(block)
        rows += length_of(block)
        while wanted and rows >= wanted[-1]:
            spare = rows - wanted.pop()
            last = held[-1]
            end = length_of(last) - spare
            yield _concatenated([*held[:-1], _cut(last, 0, end)])
            held = [_cut(last, end, end + spare)] if spare else []
            rows = spare
    if rows:
        yield _concatenated(held)


def length_of(rows: Rows) -> int:
    """How many there are."""
    return len(rows) if isinstance(rows, Answers) else len(next(iter(rows.values())))


def _cut(rows: Rows, start: int, stop: int) -> Rows:
    if isinstance(rows, Answers):
        return rows.take(slice(start, stop))
    return {name: values[start:stop] for name, values in rows.items()}


def _concatenated(blocks: list[Rows]) -> Rows:
    if len(blocks) == 1:
        return blocks[0]
    events = [block for block in blocks if isinstance(block, Answers)]
    if events:
        return events[0].followed_by(*events[1:])
    columns = [block for block in blocks if not isinstance(block, Answers)]
    return {name: _stacked([block[name] for block in columns]) for name in columns[0]}


def _stacked(values: list[Any]) -> Any:
    """A column of several blocks, of NumPy or Arrow."""
    if isinstance(values[0], np.ndarray):
        return np.concatenate(values)
    import pyarrow as pa

    return pa.chunked_array(values).combine_chunks()


def ahead(iterator: Iterator[Any]) -> Iterator[Any]:
    """The same, with the next one being made by a thread while the last is worked on."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, None)
        while (block := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield block
