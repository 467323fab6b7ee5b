"""Files of tables as data frames: CSV by any of three separators, JSON, Parquet and Excel."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import itertools
import lzma
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.data.features import as_column, require_pandas
from sparse_prefgp.data.row_names import BELOW_HEADER, COUNTED, LINE, RECORD
from sparse_prefgp.data.vectors import VectorRows
from sparse_prefgp.io.json_files import JSON, JSON_LINES, frame_of_records, records_in
from sparse_prefgp.io.other_files import refuse_binary, refuse_other
from sparse_prefgp.io.votes import read_votes, votes_in
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.extras import needed
from sparse_prefgp.support.words import guarded, unguarded

FORMATS = "CSV or JSON (also gzipped), Parquet or Excel (.xlsx)"
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm")
PACKED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
# What stands for a missing number, as in pandas.
MISSING = (
    *("NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NaN", "nan", "-NaN", "-nan"),
    *("NULL", "null", "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
# Of a sheet, in which the header is looked for.
_TOP_ROWS = 30
# Bytes that are looked at at a time.
_CHUNK = 1 << 20
_LONGEST_CELL = 1_000_000
# In the parts of a workbook, which are XML: tags but not marked text, and what ends a cell or a
# text that cells share. Between these may be many runs of text.
_TAG = re.compile(rb"<(?!!\[CDATA\[)[^>]*>")
_ENDS_CELL = re.compile(rb"</(?:[\w.-]+:)?(?:si|c|v|comment)\s*>")
_BEFORE_XML = b"\xef\xbb\xbf\xff\xfe \t\r\n"  # marks of the encoding, and blanks
# Whole numbers too, which a column with decimal commas may hold.
_COMMA_NUMBER = re.compile(r"\s*[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?\s*")
# A line of a CSV file that is no row of it.
_ABOVE = re.compile(r"sep=.$|# [^,;\t]*$")

IdColumns = Callable[[list[str]], Sequence[str]]


class Loaded(NamedTuple):
    """What a file holds."""

    frame: Any
    numbers: IntArray | None = None
    """The row of the file that each row stands in; None where nobody sees rows by number."""
    rows: str = COUNTED
    """What a message calls a row, by its number and the table."""
    decimal_commas: bool = False
    """Whether a decimal comma is a number here."""
    said: str = ""
    """A sentence on what was recognised."""


def read_file(
    path: Path,
    role: str,
    id_columns: IdColumns,
    texts: Collection[str] = (),
    blank_rows: bool = False,
) -> Loaded:
    """A file as a data frame; texts, and ids whatever they look like, as they are written.

    :param role: what the rows are, for messages.
    :param id_columns: from the names of the columns to those that hold ids.
    :param texts: columns of texts, whatever they look like.
    :param blank_rows: lines of a CSV file with nothing but separators are rows too.
    :raises ValueError: a file that is missing, empty, not readable or of another kind; a column
        twice.
    :raises ModuleNotFoundError: the package that reads such files is not installed.
    """
    votes_file = votes_in(path)
    if votes_file is not None:
        votes = read_votes(votes_file)
        return Loaded(votes.frame, said=votes.said)
    if path.is_dir():
        parts = sorted(one for one in path.iterdir() if one.suffix.lower() in PARQUET)
        if parts:  # one table, whose answers may begin in one file and end in the next
            frames = [_read_parquet(one, role).frame for one in parts]
            return Loaded(require_pandas().concat(frames, ignore_index=True))
        raise ValueError(f"The {role} path {str(path)!r} is a folder; give one table.")
    if not path.is_file():
        raise ValueError(f"The {role} file {str(path)!r} does not exist; correct the path.")
    if path.stat().st_size == 0:
        raise _empty(path, role)
    ending = path.suffix.lower()
    unpacked = Path(path.stem).suffix.lower() if ending in PACKED else ending
    refuse_other(path, role, unpacked)
    if ending in PARQUET:
        return _read_parquet(path, role)
    if ending in EXCEL:
        return _read_excel(path, role)
    if unpacked in (*JSON_LINES, JSON):
        return _read_json(path, role, id_columns, unpacked)
    refuse_binary(path, role)
    return _read_csv(path, role, id_columns, texts, blank_rows)


def _read_json(path: Path, role: str, id_columns: IdColumns, ending: str) -> Loaded:
    try:
        with _text_of(path) as file:
            records, numbers, said = records_in(file.read(), ending, path.name)
        frame = frame_of_records(records, id_columns)
    except RecursionError:
        raise unreadable(path, role, ValueError("it is nested too deeply")) from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise unreadable(path, role, error) from None
    if not len(frame.columns):
        raise _empty(path, role)
    header = [_name(name) for name in frame.columns]
    refuse_repeated(header, path.name)
    lines = numbers is not None
    return Loaded(frame.set_axis(header, axis=1), numbers, LINE if lines else RECORD, said=said)


def _empty(path: Path, role: str, sheet: str = "") -> ValueError:
    return ValueError(f"The {role} file {str(path)!r} is empty{sheet}; give a header and rows.")


def refuse_repeated(columns: Sequence[str], table: str) -> None:
    """Refuse a column that is there twice.

    :raises ValueError: naming it.
    """
    twice = next((name for i, name in enumerate(columns) if name in columns[:i]), None)
    if twice is not None:
        raise ValueError(f"{table} has the column {twice!r} twice; rename one of them.")


def _read_parquet(path: Path, role: str) -> Loaded:
    needed("pyarrow", "pyarrow", "Reading Parquet")
    try:
        frame = _frame_of_parquet(path)
    except Exception as error:
        raise unreadable(path, role, error) from None
    return Loaded(frame)


def _frame_of_parquet(path: Path) -> Any:
    """As pandas reads it, but lists of one length, of numbers, as a column of vectors."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = parquet.read_schema(path)
    lists = [
        field.name
        for field in schema
        if pa.types.is_list(field.type)
        or pa.types.is_large_list(field.type)
        or pa.types.is_fixed_size_list(field.type)
    ]
    if not lists or len(set(schema.names)) < len(schema.names):
        return require_pandas().read_parquet(path)
    table = parquet.read_table(path, columns=lists)
    vectors = {name: _vectors_of_arrow(table.column(name)) for name in lists}
    found = {name: column for name, column in vectors.items() if column is not None}
    others = [name for name in schema.names if name not in found]
    frame = require_pandas().DataFrame(index=range(table.num_rows))
    if others:
        frame = require_pandas().read_parquet(path, columns=others)
    return frame.assign(**found)[[n for n in schema.names if n in {*frame.columns, *found}]]


def _vectors_of_arrow(column: Any) -> Any:
    """A column of vectors; None if they differ in length, or some are missing or no numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type.value_type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)) or not len(column):
        return None
    lengths = pc.list_value_length(column)
    width = lengths[0].as_py()
    if column.null_count or not width or not pc.all(pc.equal(lengths, width)).as_py():
        return None
    parts = [chunk.flatten() for chunk in column.chunks]
    if any(part.null_count for part in parts):
        return None
    with np.errstate(over="ignore"):  # what overflows is refused as not finite
        flat = [part.to_numpy(zero_copy_only=False).astype(np.float32) for part in parts]
    matrix = np.concatenate(flat).reshape(len(column), width)
    return as_column(VectorRows(matrix))


def _read_excel(path: Path, role: str) -> Loaded:
    pd = require_pandas()
    needed("openpyxl", "openpyxl", "Reading Excel files")
    _refuse_long_cells(path, role)
    # In texts NA, None and null may be names; only empty cells are missing.
    only_empty: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            sheets = [str(name) for name in book.sheet_names]
            top = book.parse(0, header=None, nrows=_TOP_ROWS, dtype=object, **only_empty)
            header, merged = _header_row(top), ""
            if header or (len(top) and not _is_full(top.iloc[:, 1:], 0)):
                merged = _merged_in_header(path, top, header)
            frame = book.parse(0, header=header, **only_empty) if len(top) else pd.DataFrame()
    except Exception as error:
        raise unreadable(path, role, error) from None
    if not len(top):
        sheet = f" (its first sheet, {sheets[0]!r})" if len(sheets) > 1 else ""
        raise _empty(path, role, sheet)
    if merged:
        raise ValueError(merged)
    written = [name for name in top.iloc[header] if isinstance(name, str)]
    refuse_repeated([name.strip() for name in written], path.name)
    said = []
    if len(sheets) > 1:
        said.append(
            f"Of the {len(sheets)} sheets of {path.name} the first, {sheets[0]!r}, is read."
        )
    if header:
        said.append(_said_of_titles(path, header))
    blank = np.asarray(frame.isna().all(axis=1), dtype=bool)
    return _without_blank(frame, blank, Loaded(frame, said=" ".join(said)), header + 1)


def _header_row(top: Any) -> int:
    """Which of the first rows of a sheet is the header, counted from 0: the first one, or below
    rows of titles the first whose cells are all texts."""
    if not len(top) or _is_full(top.iloc[:, 1:], 0):  # the first column often has no name
        return 0
    for i in range(1, len(top) - 1):
        cells = top.iloc[i].dropna()
        if len(cells) and _is_full(top, i) and all(isinstance(cell, str) for cell in cells):
            return i
    return 0


def _is_full(top: Any, i: int) -> bool:
    """Whether row i has a cell in each column that has one below it."""
    return not (top.iloc[i].isna() & top.iloc[i + 1 :].notna().any(axis=0)).any()


def _merged_in_header(path: Path, top: Any, header: int) -> str:
    """What to say of cells that are merged over several columns, down to the header and next to
    others, as titles are not; empty without."""
    book = needed("openpyxl", "openpyxl", "Reading Excel files").load_workbook(path)
    for cells in book.worksheets[0].merged_cells.ranges:
        row = cells.min_row
        wide = cells.max_col > cells.min_col
        if wide and row <= header + 1 and top.iloc[row - 1].notna().sum() > 1:
            return (
                f"Row {row} of {path.name} has cells that are merged over several columns "
                f"({cells.coord}) where names of columns are; give each column a name of its own, "
                "in one row."
            )
    return ""


def _refuse_long_cells(path: Path, role: str) -> None:
    """Refuse a workbook with a cell above 1 MB, without holding it: packed it may be small."""
    try:
        with zipfile.ZipFile(path) as book:
            for part in book.infolist():
                with book.open(part) as file:
                    too_long = any(length > _LONGEST_CELL for length in _lengths_of_cells(file))
                if too_long:
                    raise ValueError(
                        f"The {role} file {str(path)!r} has a cell of more than 1 MB (in "
                        f"{part.filename}); leave it out, or save the table as CSV or Parquet."
                    )
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError):
        return  # which the reader says


def _lengths_of_cells(file: Any) -> Iterator[int]:
    """Bytes of text in each cell of a part of a workbook, as far as it has been read: of a long one
    several times. None of what is no XML, such as pictures."""
    rest, so_far, begun = b"", 0, False
    while chunk := file.read(_CHUNK):
        chunk = chunk.replace(b"\0", b"")  # UTF-16 is as good as ASCII then
        if not begun:
            chunk = chunk.lstrip(_BEFORE_XML)
            if chunk and not chunk.startswith(b"<"):
                return
            begun = bool(chunk)
        whole, tag, rest = (rest + chunk).rpartition(b"<")
        rest = tag + rest  # which may be cut off
        cells = _TAG.sub(b"", _ENDS_CELL.sub(b"\0", whole)).split(b"\0")
        for number, length in enumerate(map(len, cells)):
            so_far = length if number else so_far + length
            yield so_far
        yield so_far + len(rest)


def _read_csv(
    path: Path, role: str, id_columns: IdColumns, words: Collection[str], blank_rows: bool
) -> Loaded:
    pd = require_pandas()
    # Blank lines are kept at first, so that messages can give the row of the file.
    options: dict[str, Any] = {
        "encoding": "utf-8-sig",
        "index_col": False,
        "skip_blank_lines": False,
        "skipinitialspace": True,
        "low_memory": False,
    }
    commas: list[str] = []
    try:
        titles = options["skiprows"] = _titles(path)
        options["sep"], written = _header(path, options)
        header = [_name(name) for name in written]
        # Ids are read as they are written: 007 is not 7, and NA may be a name.
        as_written = set(id_columns(header))
        converters = {name: str for name in written if _name(name) in as_written}
        texts = {name: str for name in written if _name(name) in words and name not in converters}
        # In texts NA, None and null may be names; only empty cells are missing there.
        options |= {"keep_default_na": False, "na_values": [""], "skip_blank_lines": blank_rows}
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            with _text_of(path) as file:
                frame = pd.read_csv(file, converters=converters, dtype=texts, **options)
        for name in frame.columns if len(set(written)) == len(written) else ():
            if name in texts or name in converters or frame[name].dtype.kind not in "OU":
                continue
            numbers = _numbers_among(frame[name])
            if numbers is None and options["sep"] == ";" and _has_decimal_commas(frame[name]):
                numbers = _numbers_among(frame[name].str.replace(",", "."))
                commas.append(name)
            if numbers is not None:
                frame[name] = numbers
    except pd.errors.EmptyDataError:
        raise _empty(path, role) from None
    except (OSError, EOFError, ValueError, zlib.error, pd.errors.ParserWarning) as error:
        raise unreadable(path, role, error) from None
    refuse_repeated(header, path.name)
    # Texts read by a converter are empty, not NaN, on a blank line.
    blank = np.full(len(frame), not blank_rows)
    for name in frame.columns:
        if not blank.any():
            break
        column = frame[name]
        empty = column.str.strip() == "" if name in converters else column.isna()
        blank &= np.asarray(empty, dtype=bool)
    said = [_said_of_titles(path, titles)] if titles else []
    if options["sep"] != ",":
        names = ", ".join(repr(_name(name)) for name in commas)
        with_commas = f", with decimal commas in {names}" if commas else ""
        separator = SEPARATORS[options["sep"]]
        said.append(f"{path.name} is read as separated by {separator}{with_commas}.")
    loaded = Loaded(frame, decimal_commas=options["sep"] == ";", said=" ".join(said))
    loaded = _without_blank(frame, blank, loaded, titles + 1)
    if not blank_rows:
        return loaded
    try:
        at = _rows_with_cells(path, options["sep"], titles + 1)
    except csv.Error:  # a very long cell
        at = np.empty(0, dtype=np.int64)
    if len(at) != len(blank):  # of a line that was left out it is not known which one
        return loaded._replace(numbers=None, rows=COUNTED)
    return loaded._replace(numbers=at)


def _numbers_among(texts: Any) -> Any:
    """A column of texts as numbers or truth values, where words such as NA stand for what is
    missing; None where other words are there."""
    pd = require_pandas()
    there = ~(texts.isna() | texts.isin(MISSING))
    known = texts[there]
    truths = {"true": True, "false": False}
    if len(known) and known.str.casefold().isin(truths).all():
        return known.str.casefold().map(truths).astype(object).reindex(texts.index)
    numbers = pd.to_numeric(known, errors="coerce")
    return None if numbers.isna().any() or not there.any() else numbers.reindex(texts.index)


def csv_of(frame: Any) -> str:
    """A data frame as a CSV file of ours: what a spreadsheet would take for a formula is `guarded`,
    which reading undoes."""
    texts = {
        name: frame[name].map(guarded) for name in frame.columns if frame[name].dtype.kind == "O"
    }
    return str(frame.assign(**texts).rename(columns=guarded).to_csv(index=False))


def _name(written: str) -> str:
    """The name of a column as it is written."""
    return unguarded(written.strip())


def _titles(path: Path) -> int:
    """How many lines stand above the header: single cells before an empty line, or such as `sep=;`
    and comments."""
    with _opened(path)(path, "rt", encoding="utf-8-sig") as file:
        lines = [line.strip() for line in itertools.islice(file, _TOP_ROWS)]
    found = {}
    for separator in SEPARATORS:
        try:
            cells = [next(csv.reader([line], delimiter=separator), []) for line in lines]
        except csv.Error:  # a very long cell
            return 0
        widths = [1 if _ABOVE.match(lines[i]) else len(row) for i, row in enumerate(cells)]
        header = next((i for i, width in enumerate(widths) if width > 1), 0)
        below = {width for width in widths[header + 1 :] if width}
        above = lines[:header]
        marked = all(map(_ABOVE.match, above)) or "" in above[1:]
        named = all(cell.strip() and not _COMMA_NUMBER.fullmatch(cell) for cell in cells[header])
        if header and marked and named and below == {widths[header]}:
            found[widths[header]] = header
        elif widths and widths[0] > 1:
            return 0
    return found[max(found)] if found else 0


def _said_of_titles(path: Path, titles: int) -> str:
    above = "row 1 above it is" if titles == 1 else f"the {titles} rows above it are"
    return f"The header of {path.name} is row {titles + 1}; {above} left out."


def _rows_with_cells(path: Path, separator: str, header: int) -> IntArray:
    """The row of each row below the header that is no empty line."""
    with _opened(path)(path, "rt", encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=separator)
        number = [i for i, row in enumerate(rows, 1) if len(row) > 1 or "".join(row).strip()]
    return np.array([i for i in number if i > header], dtype=np.int64)


def _opened(path: Path) -> Any:
    """What opens a file that may be packed."""
    return PACKED.get(path.suffix.lower(), open)


class _WithoutNull(io.RawIOBase):
    """The bytes of a file, in which a NUL is refused as it is met, at which pandas would end a cell
    without a word."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file, self._line = file, 1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._file.read(len(buffer))
        at = chunk.find(0)
        self._line += chunk.count(b"\n", 0, None if at < 0 else at)
        if at >= 0:
            raise ValueError(f"a NUL byte in line {self._line}")
        buffer[: len(chunk)] = chunk
        return len(chunk)


@contextmanager
def _text_of(path: Path) -> Iterator[Any]:
    """The text of a file, read once."""
    with _opened(path)(path, "rb") as file:
        buffered = io.BufferedReader(_WithoutNull(file), _CHUNK)
        yield io.TextIOWrapper(buffered, encoding="utf-8-sig", newline="")


def _header(path: Path, options: dict[str, Any]) -> tuple[str, list[str]]:
    """The separator that makes most columns of the first line, and their names as written."""
    pd = require_pandas()
    found: dict[str, list[str]] = {}
    for separator in SEPARATORS:
        # As a row, not as a header: pandas would rename a repeated column.
        first = pd.read_csv(path, header=None, nrows=1, dtype=str, sep=separator, **options)
        found[separator] = [name for name in first.iloc[0] if isinstance(name, str)]
    separator = max(found, key=lambda one: len(found[one]))  # the first of equal ones
    return separator, found[separator]


def _has_decimal_commas(column: Any) -> bool:
    """Whether all texts are numbers, and some of them have a decimal comma."""
    texts = column[~(column.isna() | column.isin(MISSING))].astype(str)
    return bool(texts.str.fullmatch(_COMMA_NUMBER.pattern).all() and texts.str.contains(",").any())


def _without_blank(frame: Any, blank: Any, loaded: Loaded, header: int = 1) -> Loaded:
    """Without blank rows, and with the row of the file that each of the others stands in.

    :param header: the row of the header.
    """
    numbers = np.arange(len(frame)) + header + 1
    if blank.any():
        kept = ~blank
        frame = frame[kept].reset_index(drop=True).infer_objects()
        numbers = numbers[kept]
    frame = frame.set_axis([_name(str(name)) for name in frame.columns], axis=1)
    return loaded._replace(frame=frame, numbers=numbers, rows=BELOW_HEADER.format(header=header))


def unreadable(
    path: Path | str, role: str, error: BaseException, remedy: str = f"give UTF-8 {FORMATS}"
) -> ValueError:
    """What to say of a file that cannot be read."""
    # The reader's own message may run over several sentences; the first one says it.
    text = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
    reason = text.split(". ")[0].rstrip(".")
    return ValueError(f"The {role} file {str(path)!r} cannot be read ({reason}); {remedy}.")
