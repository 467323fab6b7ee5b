"""Rows of Parquet files."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.data.read_as import ReadAs
from sparse_prefgp.data.row_names import RowNames
from sparse_prefgp.io.files import Table
from sparse_prefgp.io.formats import unreadable
from sparse_prefgp.io.forms import Stated
from sparse_prefgp.io.judgements import (
    LOSER,
    WINNER,
    Roles,
    context_columns,
    covariate_columns,
)
from sparse_prefgp.io.sides import MARGIN, SIDE, TIE, TwoSides, as_read, settle
from sparse_prefgp.io.streams.blocks import (
    NO_ROLES,
    SIDES,
    UNREAD,
    Rows,
    Source,
    named_columns,
    remedy,
)
from sparse_prefgp.io.verdicts import Pair
from sparse_prefgp.support.checks import check_choice
from sparse_prefgp.support.extras import needed
from sparse_prefgp.support.words import listing

PLAIN = Stated()
_PARQUET_ONLY = "streams are read from Parquet files"
# On which the form of rows is settled.
_FIRST_ROWS = 1 << 18


class Renamed(NamedTuple):
    """Files whose columns are read by other names than they have."""

    path: Any
    called: Mapping[str, str]
    """By these names, the columns in the files."""


@dataclass(frozen=True)
class ParquetRows(Source):
    """The rows of one or several Parquet files, one file after the other."""

    paths: tuple[str, ...]
    columns: tuple[str, ...] = ()
    inline: tuple[str, ...] | None = None
    roles: Roles = NO_ROLES
    covariate_columns: tuple[tuple[str, ...], ...] = ()
    context: tuple[str, ...] = ()
    context_pairs: tuple[Pair, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)
    two: TwoSides | None = None
    """How rows of two sides become duels."""
    form: Stated = PLAIN
    read_as: ReadAs | None = None

    @classmethod
    def of(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        ignore: Sequence[str] = (),
        roles: Roles = NO_ROLES,
        context: tuple[str, ...] = (),
        called: Mapping[str, str] = MappingProxyType({}),
        form: Stated = PLAIN,
    ) -> ParquetRows:
        """The files, whose columns must be the same.

        Which columns are sides, and what verdicts mean, is settled on the first rows.

        :param called: as of `Renamed`; by default columns are read by the names that they have.
        :raises ValueError: no file, one that is missing or not Parquet, or no schema of duels; no
            such column as the roles name; columns that seem to be weights or ties, unless
            ignored.
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
        name = Path(files[0]).name
        two, read_as = None, ReadAs("winner and loser", {WINNER: WINNER, LOSER: LOSER})
        made = _two_sides(files, first, form, roles.grade, name)
        if made is not None:
            two, read_as, side, first = made
            roles = replace(roles, covariates=(*roles.covariates, *([SIDE] if side else [])))
        first = tuple(called) or first
        if TIE in ignore and TIE in first:
            raise ValueError(
                f"The column {TIE!r} of {name} cannot be ignored, as ties would count as wins; "
                "leave the rows out that have 1 there."
            )
        for column, what in named_columns(roles):
            check_choice(f"The column of {what}", column, first, f" ({name})")
        said = covariate_columns(first, roles.covariates, name)
        left = [column for column in first if column not in {*chain(*said)}]
        inline = _inline_names(left, name, {*ignore, roles.weight})
        pairs = context_columns(first, context, name)
        shown = read_as if inline is None else replace(read_as, form="features of both sides")
        return cls(
            *(files, first, inline, roles, said, context, pairs),
            *(dict(called), two, form, shown),
        )

    @property
    def remembered(self) -> Mapping[str, str]:
        sides = {} if self.two is None else {**self.form.remembered(), **self.two.remembered}
        return {**self.roles.by_role, **sides}

    @property
    def name(self) -> str:
        more = f" and {len(self.paths) - 1} more files" if len(self.paths) > 1 else ""
        return f"{self.paths[0]}{more}"

    def count_rows(self) -> int:
        return self.edges[-1]

    @cached_property
    def edges(self) -> tuple[int, ...]:
        sizes = [_open_parquet(path).metadata.num_rows for path in self.paths]
        return (0, *np.cumsum(sizes).tolist())

    def read(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        names = [*SIDES, self.roles.count_column, TIE]
        if self.inline is not None:
            names += [f"{side}_{name}" for side in SIDES for name in self.inline]
        names += [column for column, _ in named_columns(self.roles)]
        names += chain(*self.covariate_columns, *self.context_pairs)
        wanted = {name: self.called.get(name, name) for name in names if name in self.columns}
        columns, two, position = {*wanted.values()}, self.two, start
        if two is not None:
            columns |= {*two.used, *two.covariates, *chain(*two.of_sides.values())}
            columns &= {*pq_columns(self.paths[0])}

        def where(i: int) -> str:
            return self.where(position + i)

        for path, (first, last) in zip(self.paths, pairwise(self.edges), strict=True):
            low, high = max(start, first) - first, min(stop, last) - first
            for batch in _batches(path, low, high, size, columns) if low < high else ():
                if two is None:
                    yield {name: batch.column(column) for name, column in wanted.items()}
                    continue
                made = two.meetings(batch.to_pandas(), where)
                position += batch.num_rows
                frame = made.frame if TIE in made.frame else made.frame.assign(**{TIE: 0})
                yield {name: frame[column].to_numpy() for name, column in wanted.items()}

    def where(self, row: int) -> str:
        names, edges = [Path(path).name for path in self.paths], self.edges
        file = bisect_right(edges, row) - 1
        shown = names[file] if names.count(names[file]) == 1 else self.paths[file]
        return f"row {row - edges[file]} of {shown} (counted from 0)"


def pq_columns(path: str | os.PathLike[str]) -> list[str]:
    """The columns of a Parquet file, unread."""
    return list(_open_parquet(os.fspath(path)).schema_arrow.names)


def _two_sides(
    files: Sequence[str], columns: tuple[str, ...], form: Stated, grade: str | None, name: str
) -> tuple[TwoSides, ReadAs, bool, tuple[str, ...]] | None:
    """How rows of two sides become duels, what was understood, whether the side is a covariate, and
    the columns that duels have; None of duels and of features of both sides.

    :raises ValueError: what `settle` raises; a form whose rows are not a duel each.
    """
    inline = [column for column in columns if column.startswith((f"{WINNER}_", f"{LOSER}_"))]
    if {WINNER, LOSER} <= {*columns} or inline:
        return None
    frame = next(_batches(files[0], 0, _FIRST_ROWS, _FIRST_ROWS, list(columns))).to_pandas()
    table = Table(frame, name, RowNames(name))
    two = settle(table, form, grade)
    if two is None:
        return None
    made = two.meetings(frame, table.row)
    if not two.one_each or MARGIN in made.frame:
        rows = sum(_open_parquet(path).metadata.num_rows for path in files)
        size = sum(os.path.getsize(path) for path in files)
        raise ValueError(
            f"{name} has {two.form}, whose rows are not a win or a tie each, and cannot be read in "
            f"chunks; read it whole, without --stream ({rows:,} rows, {size / 2**20:,.0f} MiB on "
            "disk), or write winner, loser and count."
        )
    read_as, side = as_read(two, made, form)
    read_as = read_as.noting(
        f"Settled on the first {len(frame):,} rows, whose verdicts are counted"
    )
    there = dict.fromkeys((*made.frame.columns, TIE))
    return two, read_as, side, tuple(there)


def _open_parquet(path: str) -> Any:
    pa = needed("pyarrow", "pyarrow", "Reading Parquet")
    pq = needed("pyarrow.parquet", "pyarrow", "Reading Parquet")
    if not os.path.isfile(path):
        raise ValueError(f"The duels file {path!r} does not exist; correct the path.")
    try:
        return pq.ParquetFile(path, memory_map=True)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, "duels", error, _PARQUET_ONLY) from None


def _batches(path: str, low: int, high: int, size: int, columns: Collection[str]) -> Iterator[Any]:
    """Record batches of rows low to high of one file; row groups outside are not touched."""
    import pyarrow as pa

    file = _open_parquet(path)
    missing = set(columns) - set(file.schema_arrow.names)
    if missing:
        raise ValueError(
            f"The duels file {path!r} has no column {min(missing)!r} any more, as it had at first; "
            "leave files alone while they are in use."
        )
    ends = np.cumsum([file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)])
    groups = [g for g, end in enumerate(ends) if end > low and (g == 0 or ends[g - 1] < high)]
    position = int(ends[groups[0] - 1]) if groups and groups[0] else 0
    try:
        read = {"batch_size": size, "row_groups": groups, "columns": sorted({*columns})}
        for batch in file.iter_batches(**read):
            rows = batch.num_rows
            first, last = max(low - position, 0), min(high - position, rows)
            position += rows
            if first < last:
                yield batch.slice(first, last - first)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, "duels", error, _PARQUET_ONLY) from None


def _inline_names(
    columns: Sequence[str], name: str, known: Collection[str | None]
) -> tuple[str, ...] | None:
    """The features of both sides among the columns; None where the sides are ids.

    :param known: columns that are weights, or ignored.
    :raises ValueError: neither schema, a feature of one side only, or what seems to be weights or
        ties.
    """
    for other in UNREAD:
        if other in columns and other not in known:
            raise ValueError(
                f"{name} has a column {other!r}, which nothing was said of; {remedy(other)}, or "
                f"ignore it (ignore=[{other!r}], --ignore {other})."
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
