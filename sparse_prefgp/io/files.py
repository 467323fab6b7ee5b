"""Tables from CSV, gzipped CSV and Parquet files and data frames, whose rows can be named."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.features import INSTALL_CLI, require_pandas
from sparse_prefgp.data.row_names import RowNames

Source = Any  # a path, or a pandas data frame

ITEM_ID = "item_id"


@dataclass(frozen=True)
class Table:
    """A data frame as it was read.

    `row` names its rows, `id_column` is that of the items, `omit` is how a message tells to leave
    out the column `{0}`.
    """

    frame: Any
    name: str
    row: RowNames
    id_column: Any = None
    omit: str = "with --ignore {0} (ignore=[{0!r}])"

    def require(self, column: str) -> None:
        """Refuse a table without this column."""
        if column not in self.frame.columns:
            raise ValueError(
                f"{self.name} has no column {column!r}; add or rename one (columns found: "
                f"{listing(self.frame.columns)})."
            )

    def ids(self) -> tuple[tuple[Hashable, ...], dict[str, int]]:
        """The ids in row order, and the row of each id as text."""
        texts = [id_text(value) for value in self.frame[self.id_column]]
        lookup: dict[str, int] = {}
        for i, text in enumerate(texts):
            if not text:
                raise ValueError(
                    f"The id (column {self.id_column!r}) is missing in {self.row(i)}; give every "
                    "item an id."
                )
            if text in lookup:
                raise ValueError(
                    f"The item id {text!r} in {self.row(i)} was used before, in "
                    f"{self.row(lookup[text])}; give every item its own id."
                )
            lookup[text] = i
        return plain_ids(texts), lookup


def load_items(source: Source) -> Table:
    """A table of items, whose id is the column `item_id`, else the first."""
    table = load(source, "items", lambda header: [_item_id(header)])
    id_column = _item_id(list(table.frame.columns))
    if len(table.frame) == 0:
        raise ValueError(f"There are no items in {table.name}; give at least one row.")
    return Table(table.frame, table.name, table.row, id_column)


def items_named_in(table: Table, columns: Sequence[str]) -> Table:
    """A table of the items whose ids these columns hold, in order of first appearance.

    Nothing else is known of them. Empty cells are no ids.
    """
    pd = require_pandas()
    cells = table.frame[list(columns)].to_numpy(dtype=object).ravel()
    ids = dict.fromkeys(text for text in map(id_text, cells) if text)
    name = f"the ids in {table.name}"
    return Table(pd.DataFrame({ITEM_ID: list(ids)}), name, RowNames(name, None), ITEM_ID)


def load(source: Source, role: str, id_columns: Callable[[list[str]], Sequence[str]]) -> Table:
    """A table with plain row numbers.

    :param source: path or data frame.
    :param role: what the rows are, for messages.
    :param id_columns: from the names of the columns to those that hold ids, read as they are
        written.
    :raises ValueError: a file that is missing, empty or not readable, no columns, a column twice.
    """
    pd = require_pandas()
    if isinstance(source, pd.DataFrame):
        frame = source.reset_index() if source.index.name == ITEM_ID else source
        frame = frame.reset_index(drop=True)
        table = Table(frame, f"the {role} frame", RowNames(f"the {role} frame", None))
    else:
        try:
            path = Path(source)
        except TypeError:
            raise ValueError(
                f"The {role} are of type {type(source).__name__}; give the path of a CSV or "
                "Parquet file, or a pandas data frame."
            ) from None
        if path.is_dir():
            raise ValueError(f"The {role} path {str(path)!r} is a folder; give one table.")
        if not path.is_file():
            raise ValueError(f"The {role} file {str(path)!r} does not exist; correct the path.")
        if path.stat().st_size == 0:
            raise ValueError(f"The {role} file {str(path)!r} is empty; give a header and rows.")
        if path.suffix.lower() in (".parquet", ".pq"):
            try:
                frame = pd.read_parquet(path)
            except ImportError as error:
                raise ModuleNotFoundError(
                    f"Reading Parquet needs pyarrow; install it with {INSTALL_CLI}."
                ) from error
            except Exception as error:
                raise _unreadable(path, role, error) from None
            if frame.index.name == ITEM_ID:
                frame = frame.reset_index()
            frame = frame.reset_index(drop=True)
            table = Table(frame, path.name, RowNames(path.name, None))
        else:
            table = _load_csv(path, role, id_columns)
    columns = [str(column) for column in table.frame.columns]
    if not columns:
        raise ValueError(f"{table.name} has no columns, so it is empty; give a header and rows.")
    _refuse_repeated(columns, table.name)
    return Table(table.frame.set_axis(columns, axis=1), table.name, table.row)


def _item_id(columns: list[str]) -> str:
    return ITEM_ID if ITEM_ID in columns or not columns else columns[0]


def _load_csv(path: Path, role: str, id_columns: Callable[[list[str]], Sequence[str]]) -> Table:
    pd = require_pandas()
    # Blank lines are kept at first, so that messages can give the row of the file.
    options: dict[str, Any] = {
        "encoding": "utf-8-sig",
        "index_col": False,
        "skip_blank_lines": False,
        "skipinitialspace": True,
        "low_memory": False,
    }
    try:
        # As a row, not as a header: pandas would rename a repeated column.
        first = pd.read_csv(path, header=None, nrows=1, dtype=str, **options)
        written = [name for name in first.iloc[0] if isinstance(name, str)]
        header = [name.strip() for name in written]
        _refuse_other_separator(header, path, role)
        # Ids are read as they are written: 007 is not 7, and NA may be a name.
        as_written = set(id_columns(header))
        converters = {name: str.strip for name in written if name.strip() in as_written}
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(path, converters=converters, **options)
            # In texts NA, None and null may be names; only empty cells are missing there.
            texts = [
                name
                for name in frame.columns
                if name in written
                and name not in converters
                and pd.api.types.infer_dtype(frame[name], skipna=True) == "string"
                and frame[name].isna().any()
            ]
            if texts and len(set(written)) == len(written):
                only_empty = {"keep_default_na": False, "na_values": [""], "dtype": str}
                again = pd.read_csv(path, usecols=texts, **only_empty, **options)
                frame[texts] = again[texts]
    except pd.errors.EmptyDataError:
        raise ValueError(
            f"The {role} file {str(path)!r} is empty; give a header and rows."
        ) from None
    except _WrongSeparator:
        raise
    except (OSError, EOFError, ValueError, pd.errors.ParserWarning) as error:
        raise _unreadable(path, role, error) from None
    _refuse_repeated(header, path.name)
    numbers = np.arange(2, len(frame) + 2)
    # Texts read by a converter are empty, not NaN, on a blank line.
    blank = np.ones(len(frame), dtype=bool)
    for name in frame.columns:
        if not blank.any():
            break
        column = frame[name]
        blank &= np.asarray((column == "") if name in converters else column.isna(), dtype=bool)
    if blank.any():
        kept = ~blank
        frame = frame[kept].reset_index(drop=True).infer_objects()
        numbers = numbers[kept]
    frame.columns = [str(name).strip() for name in frame.columns]
    return Table(frame, path.name, RowNames(path.name, numbers))


class _WrongSeparator(ValueError):
    """A header that is not separated by commas; says more than the reader's own error."""


def _refuse_other_separator(header: Sequence[str], path: Path, role: str) -> None:
    for mark, what in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and mark in header[0]:
            raise _WrongSeparator(
                f"The {role} file {str(path)!r} has the header {header[0]!r}, separated by {what}; "
                "separate the columns by commas (and write decimal points in numbers)."
            )


def _refuse_repeated(columns: Sequence[str], table: str) -> None:
    twice = next((name for i, name in enumerate(columns) if name in columns[:i]), None)
    if twice is not None:
        raise ValueError(f"{table} has the column {twice!r} twice; rename one of them.")


def _unreadable(path: Path, role: str, error: BaseException) -> ValueError:
    # The reader's own message may run over several sentences; the first one says it.
    text = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
    reason = text.split(". ")[0].rstrip(".")
    return ValueError(
        f"The {role} file {str(path)!r} cannot be read ({reason}); give a comma-separated UTF-8 "
        "file (.csv, .csv.gz) or Parquet."
    )


def id_text(value: Any) -> str:
    """An id as text: whole numbers alike whether stored as 3, 3.0 or '3'; missing is empty."""
    if isinstance(value, str):
        return value.strip()
    # pandas' NA first: whether it differs from itself it does not say.
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return ""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


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


def listing(columns: Iterable[Any]) -> str:
    """At most twenty names, for a message."""
    names = [str(column) for column in columns]
    shown = ", ".join(names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
