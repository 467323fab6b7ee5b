"""Tables whose rows can be named, from files and data frames, and the ids in them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.flags import YES_AND_NO, Where
from sparse_prefgp.data.row_names import RowNames
from sparse_prefgp.io.formats import FORMATS, IdColumns, Loaded, read_file, refuse_repeated
from sparse_prefgp.support.arrays import IntArray, Texts
from sparse_prefgp.support.words import (
    CONTROL,
    and_so,
    counted,
    grouped,
    listing,
    shortened,
    squeezed,
    unguarded,
)
from sparse_prefgp.support.words import id_text as id_text

Source = Any  # a path, or a pandas data frame

ITEM_ID = "item_id"


@dataclass(frozen=True)
class Table:
    """A data frame as it was read."""

    frame: Any
    name: str
    row: RowNames
    """Names its rows in messages."""
    id_column: Any = None
    """That of the items."""
    omit: str = "with --ignore {0} (ignore=[{0!r}])"
    """How a message tells to leave out the column `{0}`."""
    decimal_commas: bool = False
    """Whether numbers may have decimal commas."""
    beside: tuple[str, ...] = ()
    """Columns that were given next to the table, and so are features whichever of its own are."""
    texts: tuple[str, ...] = ()
    """Columns that were said to hold texts."""
    found: tuple[str, ...] = ()
    """The columns as they were read, before any was added or renamed."""
    orders: Mapping[str, str] = field(default_factory=dict)
    """In which order day and month were written, by the columns of dates for which it counts."""

    def of_rows(self, frame: Any, rows: IntArray) -> Table:
        """A table of another frame, each of whose rows is made of one of these."""
        return replace(self, frame=frame, row=self.row.select(rows))

    @property
    def columns_found(self) -> str:
        """The columns that were read, for a message."""
        return listing(self.found or self.frame.columns)

    def require(self, *columns: str, remedy: str = "") -> None:
        """Refuse a table without these columns.

        :param columns: their names.
        :param remedy: what the message advises besides adding or renaming them.
        :raises ValueError: one is not there.
        """
        missing = [column for column in columns if column not in self.frame.columns]
        if missing:
            name = re.sub("^the ", "The ", self.name)
            several = len(missing) > 1
            raise ValueError(
                f"{name} has no column{'s' * several} {and_so(map(repr, missing))}; add or "
                f"rename {'them' if several else 'one'}{remedy} (columns found: "
                f"{self.columns_found})."
            )

    def refuse_added(self, names: Iterable[str]) -> None:
        """Refuse a column that is named like one that is added."""
        for name in names:
            if name in self.frame.columns:
                raise ValueError(
                    f"{self.name} has a column {name!r}, which is the name of a column that is "
                    "added; rename it."
                )

    def refuse_empty(self, rows: str) -> None:
        """Refuse a table without rows.

        :param rows: what they are.
        """
        if len(self.frame) == 0:
            raise ValueError(f"There are no {rows} in {self.name}; give at least one row.")

    def ids(self, what: str = "item") -> tuple[tuple[Hashable, ...], dict[str, int]]:
        """The ids in row order, and the row of each id as text.

        :param what: what a row is.
        :raises ValueError: an id that is missing, or there twice, with its row.
        """
        texts = [id_text(value) for value in self.frame[self.id_column]]
        refuse_control(texts, str(self.id_column), self.row)
        lookup: dict[str, int] = {}
        for i, text in enumerate(texts):
            if not text:
                raise ValueError(
                    f"The id (column {self.id_column!r}) is missing in {self.row(i)}; give every "
                    f"{what} an id."
                )
            if text in lookup:
                raise ValueError(
                    f"The {what} id {text!r} in {self.row(i)} was used before, in "
                    f"{self.row(lookup[text])}; give every {what} its own id."
                )
            lookup[text] = i
        return plain_ids(texts), lookup


def refuse_control(texts: Sequence[str], name: str, where: Where) -> None:
    """Refuse ids with control characters, which steer terminals and are seen nowhere.

    :param texts: a column of ids.
    :raises ValueError: naming the first one.
    """
    if not CONTROL.search("".join(texts)):
        return
    i = next(i for i, text in enumerate(texts) if CONTROL.search(text))
    raise ValueError(
        f"The column {name!r} has {shortened(texts[i])} in {where(i)}, an id with a control "
        "character in it; leave that out."
    )


def coded_ids(column: Any) -> tuple[IntArray, list[str]]:
    """The place of each cell of a column of ids among distinct ones, (rows,), and these as texts,
    in the order of their first appearance."""
    strings = isinstance(column.dtype, require_pandas().StringDtype)
    if strings or column.dtype.kind in "iufb":
        codes, values = column.factorize(use_na_sentinel=False)
        return np.asarray(codes, np.int64), [id_text(value) for value in values]
    # Equal cells may look otherwise, such as 1 and True.
    codes, texts = require_pandas().factorize(
        np.array([id_text(value) for value in column], dtype=object)
    )
    return np.asarray(codes, np.int64), [str(text) for text in texts]


def ids_of(column: Any) -> Texts:
    """A column of ids as texts, (rows,)."""
    codes, texts = coded_ids(column)
    return np.array(texts, dtype=object)[codes]


def are_flags(column: Any, *others: str) -> bool:
    """Whether a column holds nothing but 0 and 1, yes and no and the like, and these texts."""
    return {text.casefold() for text in ids_of(column)} <= {*YES_AND_NO, *others}


def load_items(source: Source, texts: Collection[str] = ()) -> Table:
    """A table of items, whose id is the column `item_id`, else the first.

    :param texts: columns of words, as `load` takes them.
    """
    return load_with_ids(source, "items", ITEM_ID, texts)


def load_with_ids(source: Source, rows: str, id_name: str, texts: Collection[str] = ()) -> Table:
    """A table whose id is the column of this name, else the first.

    :param rows: what they are.
    :param texts: as `load` takes them.
    :raises ValueError: what `load` raises; no rows.
    """

    def id_column(columns: Sequence[str]) -> str:
        return id_name if id_name in columns or not columns else columns[0]

    table = load(source, rows, lambda header: [id_column(header)], texts)
    table.refuse_empty(rows)
    return replace(table, id_column=id_column([*table.frame.columns]))


def items_named_in(table: Table, columns: Sequence[str]) -> Table:
    """A table of the items whose ids these columns hold, in order of first appearance.

    Nothing else is known of them. Empty cells are not ids.

    :raises ValueError: an id that is the name of a column of the table, such as `home`.
    """
    pd = require_pandas()
    first: dict[str, int] = {}  # the cell, counted row by row, in which each stands first
    for j, name in enumerate(columns):
        codes, texts = coded_ids(table.frame[name])
        _, rows = np.unique(codes, return_index=True)
        refuse_control(texts, name, lambda i, rows=rows: table.row(int(rows[i])))  # type: ignore[misc]
        for text, row in zip(texts, rows.tolist(), strict=True):
            cell = row * len(columns) + j
            first[text] = min(first.get(text, cell), cell)
    first.pop("", None)
    ids = sorted(first, key=lambda text: first[text])
    named = {squeezed(column): column for column in table.frame.columns}
    for text in ids:
        if squeezed(text) in named:
            i, j = divmod(first[text], len(columns))
            raise ValueError(
                f"The {columns[j]} {text!r} in {table.row(i)} is the name of a column "
                f"({named[squeezed(text)]!r}), which is no item; write the id of the item that it "
                "stands for, or rename the column, or give a table of items (--items) with this id."
            )
    name = f"the ids in {table.name}"
    return Table(pd.DataFrame({ITEM_ID: list(ids)}), name, RowNames(name), ITEM_ID)


def load(
    source: Source,
    role: str,
    id_columns: IdColumns,
    texts: Collection[str] = (),
    blank_rows: bool = False,
) -> Table:
    """A table whose rows can be named.

    :param source: path or data frame, or what was read of them.
    :param role: what the rows are, for messages.
    :param id_columns: from the names of the columns to those that hold ids, read as they are
        written.
    :param texts: columns that a model knows as words, so that `01` is not 1 where a file has only
        numbers there.
    :param blank_rows: of a CSV file lines with nothing but separators are kept; lines with nothing
        at all are left out.
    :raises ValueError: a file that is missing, empty or not readable, no columns, a column twice.
    """
    pd = require_pandas()
    if isinstance(source, Table):  # that was read already
        return source
    if isinstance(source, pd.DataFrame):
        loaded, name = Loaded(source), f"the {role} frame"
    else:
        try:
            path = Path(source)
        except TypeError:
            raise ValueError(
                f"The {role} are of type {type(source).__name__}; give the path of a file "
                f"({FORMATS}), or a pandas data frame."
            ) from None
        loaded, name = read_file(path, role, id_columns, texts, blank_rows), path.name
    frame = loaded.frame
    frame = (frame.reset_index() if frame.index.name == ITEM_ID else frame).reset_index(drop=True)
    columns = [str(column) for column in frame.columns]
    if not columns:
        raise ValueError(f"{name} has no columns, so it is empty; give a header and rows.")
    refuse_repeated(columns, name)
    for column in columns:
        if CONTROL.search(column):
            raise ValueError(
                f"{name} has the column {shortened(column)}, a name with a control character in "
                "it; rename it."
            )
    if loaded.said:
        warnings.warn(loaded.said, stacklevel=3)
    frame = _without_blanks(frame.set_axis(columns, axis=1), id_columns(columns), name)
    return Table(
        _unguarded(frame, name),
        name,
        RowNames(name, loaded.numbers, loaded.rows),
        decimal_commas=loaded.decimal_commas,
        found=tuple(columns),
    )


def _without_blanks(frame: Any, columns: Iterable[str], name: str) -> Any:
    """Ids without blanks around them, and a note on those that are there with and without."""
    known = [column for column in dict.fromkeys(columns) if column in frame.columns]
    texts = frame[known].select_dtypes(["object", "string", "category"])
    plain = {
        cell: cell.strip() for column in texts for cell in texts[column] if isinstance(cell, str)
    }
    warn_of_blanks(plain, re.sub("^the ", "The ", name))
    if all(cell == text for cell, text in plain.items()):
        return frame
    return frame.assign(
        **{
            column: [plain[cell] if isinstance(cell, str) else cell for cell in texts[column]]
            for column in texts.select_dtypes(["object", "string"])
        }
    )


def warn_of_blanks(cells: Iterable[Any], name: str) -> None:
    """Say of names that are there with blanks around them and without that they are one.

    :param cells: of which those that are no texts do not count.
    :param name: whose they are, at the beginning of the sentence.
    """
    spelt = grouped(dict.fromkeys(cell for cell in cells if isinstance(cell, str)), str.strip)
    joined = [alike for text, alike in spelt.items() if text and len(alike) > 1]
    if not joined:
        return
    others = len(joined) - 1
    more = f", as are those of {counted(others, 'other name')}" if others else ""
    warnings.warn(
        f"{name} has {and_so(map(repr, joined[0]))}, which are taken for one{more}: "
        "blanks around a name are no part of it; give them other names if they are several.",
        stacklevel=2,
    )


def _unguarded(frame: Any, name: str) -> Any:
    """Texts as they are read: without the apostrophe that keeps a spreadsheet from taking them for
    formulas; a note names one that is there with and without it."""
    texts = frame.select_dtypes(["object", "string"])
    plain: dict[str, str] = {}
    changed = []
    for column in texts:
        marked = (x for x in texts[column] if isinstance(x, str) and x[:1] == "'")
        found = {x: unguarded(x) for x in marked if unguarded(x) != x}
        changed += [column] if found else []
        plain.update(found)
    if not plain:
        return frame
    cells = {x for column in texts for x in texts[column] if isinstance(x, str)}
    both = next((text for text in plain if plain[text] in cells), None)
    if both is not None:
        warnings.warn(
            f"{name} has {shortened(both)} and {shortened(plain[both])}, which are taken for one: "
            "an apostrophe before what a spreadsheet takes for a formula is no part of it; give "
            "them other names if they are two.",
            stacklevel=4,
        )
    return frame.assign(**{column: texts[column].replace(plain) for column in changed})


def plain_ids(texts: Sequence[str]) -> tuple[Hashable, ...]:
    """Ids as whole numbers, unless that would lose something, such as leading zeros."""
    if all(re.fullmatch(r"0|-?[1-9]\d{0,17}", text) for text in texts):
        return tuple(int(text) for text in texts)
    return tuple(texts)


def column_names(values: Sequence[str], label: str) -> list[str]:
    """Names given by a caller, as texts.

    :raises ValueError: one text in place of a list.
    """
    if isinstance(values, str):
        raise ValueError(f"{label} is the text {values!r}; give a list of column names.")
    return [str(value) for value in values]
