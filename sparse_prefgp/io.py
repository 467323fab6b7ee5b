"""Reading items and duels from CSV, gzipped CSV, Parquet and pandas data frames."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.duels import MAX_COUNT, Duels, check_total, shortened
from sparse_prefgp.features import (
    INSTALL_CLI,
    FeatureTransform,
    numeric_column,
    require_pandas,
    text_column,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Source = Any  # a path, or a pandas data frame

MAX_LEVELS = 50
ITEM_ID, WINNER, LOSER, COUNT = "item_id", "winner", "loser", "count"
WHOLE_NUMBER = re.compile(r"[+-]?\d+(\.0*)?")
MISSING_NUMBERS = ("nan", "na", "n/a", "none", "null", "<na>")
DECIMAL_COMMA = r"-?\d+,\d+"


@dataclass(frozen=True, eq=False, repr=False)
class DuelTable:
    """Items and duels as they were read, one row per duel, before anything is standardised.

    Attributes:
        items: data frame with n rows and every column of the items table but the id.
        item_ids: n ids, in row order.
        winners, losers: (t,) row numbers in `items`.
        counts: (t,) how often each duel was seen, or None for once each.
        context: data frame with t rows: the other columns of the duels table.
        numeric, categorical: the names of the columns of `items` that are features.
        row_names: how a message names each row of `items`.
        duel_row_names: the same for the rows of the duels, or None.
    """

    items: Any
    item_ids: tuple[Hashable, ...]
    winners: IntArray
    losers: IntArray
    counts: IntArray | None
    context: Any
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    row_names: _RowNames
    duel_row_names: _RowNames | None = None

    @property
    def num_rows(self) -> int:
        """t, the number of rows of the duels table."""
        return len(self.winners)

    @property
    def num_items(self) -> int:
        """n, the number of items, compared or not."""
        return len(self.item_ids)

    def select(self, rows: npt.ArrayLike) -> DuelTable:
        """The table with these rows of the duels (numbers, or a mask of length t); all items stay.

        Raises:
            ValueError: a row that is not there.
        """
        index = self._rows(rows)
        return DuelTable(
            self.items,
            self.item_ids,
            self.winners[index],
            self.losers[index],
            None if self.counts is None else self.counts[index],
            self.context.iloc[index].reset_index(drop=True),
            self.numeric,
            self.categorical,
            self.row_names,
            None if self.duel_row_names is None else self.duel_row_names.select(index),
        )

    def to_duels(
        self,
        rows: npt.ArrayLike | None = None,
        standardise_on: npt.ArrayLike | None = None,
        *,
        transform: FeatureTransform | None = None,
        only_compared: bool = False,
    ) -> Duels:
        """Validated duels of some rows, with standardised features.

        Args:
            rows: rows of the duels to keep (numbers, or a mask of length t); default all.
            standardise_on: the training rows, whose items set means, standard deviations and
                levels. Default: the items in `rows`, or every item when `rows` is left out.
            transform: use this recorded transform instead of learning one.
            only_compared: leave out items that are in none of the kept duels.

        Raises:
            ValueError: no duels, no feature that varies, a feature that is missing or not a
                number, or both `standardise_on` and `transform`.
        """
        if transform is not None and standardise_on is not None:
            raise ValueError("Both standardise_on and transform were given; give one of them.")
        index = np.arange(self.num_rows) if rows is None else self._rows(rows)
        if len(index) == 0:
            raise ValueError("There are no duels in the chosen rows; choose at least one row.")
        used = self._compared(index)
        if transform is None:
            if standardise_on is not None:
                training = self._compared(self._rows(standardise_on))
            else:
                training = np.arange(self.num_items) if rows is None else used
            if len(training) == 0:
                raise ValueError("standardise_on has no rows; choose at least one training row.")
            transform = FeatureTransform.fit(
                self.items.iloc[training],
                self.numeric,
                self.categorical,
                lambda i: self.row_names(int(training[i])),
            )
        kept = used if only_compared else np.arange(self.num_items)
        position = np.zeros(self.num_items, dtype=np.int64)
        position[kept] = np.arange(len(kept))
        features = transform.apply(self.items.iloc[kept], lambda i: self.row_names(int(kept[i])))
        return Duels._from_rows(
            features,
            position[self.winners[index]],
            position[self.losers[index]],
            None if self.counts is None else self.counts[index],
            item_ids=[self.item_ids[i] for i in kept],
            feature_names=transform.feature_names,
            transform=transform,
        )

    def _compared(self, index: IntArray) -> IntArray:
        return np.unique(np.concatenate([self.winners[index], self.losers[index]]))

    def _rows(self, rows: npt.ArrayLike) -> IntArray:
        array = np.asarray(rows)
        if array.dtype == bool and array.shape == (self.num_rows,):
            return np.flatnonzero(array)
        if array.size == 0:
            return np.empty(0, dtype=np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(
                f"rows has shape {array.shape} and type {array.dtype}; give row numbers or a mask "
                f"of length {self.num_rows}."
            )
        bad = array[(array < 0) | (array >= self.num_rows)]
        if bad.size:
            raise ValueError(
                f"rows has {bad[0]}, which is no row; the duels go from 0 to {self.num_rows - 1}."
            )
        return array.astype(np.int64)

    def __repr__(self) -> str:
        return (
            f"DuelTable(num_items={self.num_items}, num_rows={self.num_rows}, "
            f"features={[*self.numeric, *self.categorical]})"
        )


def read_table(
    items: Source,
    duels: Source,
    *,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    counts: str | npt.ArrayLike | None = None,
    never_features: Sequence[str] = (),
) -> DuelTable:
    """Read items and duels, one row per duel.

    Args:
        items: path of a CSV, gzipped CSV or Parquet file, or a data frame, with one row per item.
            The id is the column `item_id`, else the first. Every other numeric, boolean or
            categorical (text) column is a feature unless ignored.
        duels: the same with one row per duel: columns `winner` and `loser` hold item ids; an
            optional column `count` says how often; the others are context.
        features: use only these columns as features.
        ignore: columns, of either table, that are no features.
        counts: name of the count column, or (t,) counts; default the column `count` if there.
        never_features: columns that are no features, such as those a split is made by; unlike
            those of `ignore` they need not exist.

    Raises:
        ValueError: a file that is missing, empty or not readable; a missing column; an id that is
            missing, repeated or unknown; an item against itself; counts that are not whole and
            positive; a feature value that is missing or infinite; text where numbers are needed;
            a text column with more than 50 levels or one level per row; no feature column.
    """
    item_table = _load_items(items)
    duel_table = _load(duels, "duels", (WINNER, LOSER))
    for name in (WINNER, LOSER):
        duel_table.require(name)
    count_name = counts if isinstance(counts, str) else COUNT
    if isinstance(counts, str):
        duel_table.require(counts)
    if len(duel_table.frame) == 0:
        raise ValueError(f"There are no duels in {duel_table.name}; give at least one row.")

    others = [column for column in item_table.frame.columns if column != item_table.id_column]
    ignored = _names(ignore, "ignore")
    known = {*item_table.frame.columns, *duel_table.frame.columns}
    for name in ignored:
        if name not in known:
            raise ValueError(
                f"The column {name!r} to ignore is in neither table; correct its name (columns of "
                f"{item_table.name}: {_listing(item_table.frame.columns)})."
            )
    wanted = others
    if features is not None:
        wanted = _names(features, "features")
        for name in wanted:
            if name not in others:
                raise ValueError(
                    f"The feature {name!r} is no column of {item_table.name}; choose from "
                    f"{_listing(others)}."
                )
    numeric, categorical = _feature_kinds(
        item_table, [c for c in wanted if c not in ignored and c not in never_features]
    )

    ids, lookup = item_table.ids()
    winners = _match(duel_table, WINNER, lookup, item_table.name)
    losers = _match(duel_table, LOSER, lookup, item_table.name)
    same = np.flatnonzero(winners == losers)
    if same.size:
        i = int(same[0])
        raise ValueError(
            f"The duel in {duel_table.row(i)} is of item {str(ids[winners[i]])!r} with itself; "
            "remove it, or correct its winner or loser."
        )
    number: IntArray | None = None
    if counts is not None and not isinstance(counts, str):
        given = np.asarray(counts)
        if given.shape != (len(winners),):
            raise ValueError(
                f"counts has shape {given.shape} for {len(winners)} rows of duels; give one each."
            )
        number = _counts(duel_table, "counts", given)
    elif count_name in duel_table.frame.columns:
        number = _counts(duel_table, count_name, duel_table.frame[count_name])
    context = duel_table.frame.drop(columns=[WINNER, LOSER])
    return DuelTable(
        item_table.frame[others],
        ids,
        winners,
        losers,
        number,
        context.drop(columns=[count_name], errors="ignore"),
        tuple(numeric),
        tuple(categorical),
        item_table.row,
        duel_table.row,
    )


def read_duels(
    items: Source,
    duels: Source,
    *,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    counts: str | npt.ArrayLike | None = None,
) -> Duels:
    """Read items and duels into `Duels` with standardised features.

    Means, standard deviations and levels are those of all items and are recorded in
    `duels.transform`. Arguments are those of `read_table`; for a training and a test part, split
    the table first and use `DuelTable.to_duels`.

    Raises:
        ValueError: what `read_table` raises; a missing, infinite or otherwise unusable feature
            value; every feature column constant.
    """
    table = read_table(items, duels, features=features, ignore=ignore, counts=counts)
    return table.to_duels()


def read_items(path: Source, like: Any) -> FloatArray:
    """Features (n, D) of raw items, in the units of `duels.items`.

    Args:
        path: CSV, gzipped CSV or Parquet file, or a data frame, with the feature columns.
        like: `Duels` made by `read_duels`, a model of such duels, or a `FeatureTransform`.

    Raises:
        ValueError: `like` records no transform; a missing feature column; a value that is missing
            or not a number; an unreadable or empty file.
    """
    transform = _transform_of(like)
    table = _load(path, "items", ())
    return transform.apply(table.frame, table.row)


def read_items_with_ids(path: Source, like: Any) -> tuple[tuple[Hashable, ...], FloatArray]:
    """Ids and features of raw items, as `read_items`; the id column as in `read_table`.

    Raises:
        ValueError: what `read_items` raises; an id that is missing or repeated.
    """
    transform = _transform_of(like)
    table = _load_items(path)
    ids, _ = table.ids()
    return ids, transform.apply(table.frame, table.row)


# ---- tables ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _RowNames:
    """How a message names row i: as a spreadsheet shows a CSV file, else counted from 0."""

    table: str
    numbers: IntArray | None
    from_header: bool = True

    def __call__(self, i: int) -> str:
        if self.numbers is None or not self.from_header:
            row = i if self.numbers is None else self.numbers[i]
            return f"row {row} of {self.table} (counted from 0)"
        return f"row {self.numbers[i]} of {self.table} (the header is row 1)"

    def select(self, index: IntArray) -> _RowNames:
        """The names of these rows."""
        numbers = index if self.numbers is None else self.numbers[index]
        return _RowNames(self.table, numbers, self.numbers is not None and self.from_header)


@dataclass(frozen=True)
class _Table:
    frame: Any
    name: str
    row: _RowNames
    id_column: Any = None

    def require(self, column: str) -> None:
        if column not in self.frame.columns:
            raise ValueError(
                f"{self.name} has no column {column!r}; add or rename one (columns found: "
                f"{_listing(self.frame.columns)})."
            )

    def ids(self) -> tuple[tuple[Hashable, ...], dict[str, int]]:
        """The ids in row order, and the row of each id as text."""
        texts = [_id_text(value) for value in self.frame[self.id_column]]
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
        # Whole numbers stay numbers unless that would lose something, such as leading zeros.
        if all(re.fullmatch(r"0|-?[1-9]\d{0,17}", text) for text in lookup):
            return tuple(int(text) for text in texts), lookup
        return tuple(texts), lookup


def _load_items(source: Source) -> _Table:
    table = _load(source, "items", None)
    id_column = ITEM_ID if ITEM_ID in table.frame.columns else table.frame.columns[0]
    if len(table.frame) == 0:
        raise ValueError(f"There are no items in {table.name}; give at least one row.")
    return _Table(table.frame, table.name, table.row, id_column)


def _load(source: Source, role: str, id_columns: tuple[str, ...] | None) -> _Table:
    """A table with plain row numbers; `id_columns` None means the item id, whichever it is."""
    pd = require_pandas()
    if isinstance(source, pd.DataFrame):
        frame = source.reset_index() if source.index.name == ITEM_ID else source
        frame = frame.reset_index(drop=True)
        table = _Table(frame, f"the {role} frame", _RowNames(f"the {role} frame", None))
    else:
        try:
            path = Path(source)
        except TypeError:
            raise ValueError(
                f"The {role} are of type {type(source).__name__}; give the path of a CSV or "
                "Parquet file, or a pandas data frame."
            ) from None
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
            table = _Table(frame, path.name, _RowNames(path.name, None))
        else:
            table = _load_csv(path, role, id_columns)
    columns = [str(column) for column in table.frame.columns]
    if not columns:
        raise ValueError(f"{table.name} has no columns, so it is empty; give a header and rows.")
    _refuse_repeated(columns, table.name)
    return _Table(table.frame.set_axis(columns, axis=1), table.name, table.row)


def _load_csv(path: Path, role: str, id_columns: tuple[str, ...] | None) -> _Table:
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
        if id_columns is None:
            id_columns = (ITEM_ID,) if ITEM_ID in header else tuple(header[:1])
        # Ids are read as they are written: 007 is not 7, and NA may be a name.
        converters = {name: str.strip for name in written if name.strip() in id_columns}
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
    return _Table(frame, path.name, _RowNames(path.name, numbers))


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


def _names(values: Sequence[str], label: str) -> list[str]:
    if isinstance(values, str):
        raise ValueError(f"{label} is the text {values!r}; give a list of column names.")
    return [str(value) for value in values]


def _listing(columns: Iterable[Any]) -> str:
    names = [str(column) for column in columns]
    shown = ", ".join(names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")


# ---- columns -----------------------------------------------------------------------------------


def _feature_kinds(table: _Table, columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """The numeric and the categorical ones among these columns."""
    pd = require_pandas()
    numeric: list[str] = []
    categorical: list[str] = []
    for name in columns:
        column = table.frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            _check_levels(table, name, column)
            categorical.append(name)
        elif pd.api.types.is_numeric_dtype(column.dtype) and column.dtype.kind != "c":
            numeric.append(name)
        elif pd.api.types.is_string_dtype(column.dtype) or column.dtype == object:
            _check_cells(table, name, column)
            if _is_numeric_text(table, name, column):
                numeric.append(name)
            else:
                _check_levels(table, name, column)
                categorical.append(name)
        else:
            raise ValueError(
                f"The column {name!r} of {table.name} is of type {column.dtype}, which is neither "
                f"numbers nor categories; convert it, or leave it out with --ignore {name} "
                f"(ignore=[{name!r}])."
            )
    # Values are checked before anybody fits anything, in the training and the test part alike.
    for name in numeric:
        numeric_column(table.frame, name, table.row)
    for name in categorical:
        text_column(table.frame, name, table.row)
    if not numeric and not categorical:
        raise ValueError(
            f"{table.name} has no feature column left (columns found: "
            f"{_listing(table.frame.columns)}); add one, or ignore fewer."
        )
    return numeric, categorical


def _check_cells(table: _Table, name: str, column: Any) -> None:
    """Refuse cells that are neither a number nor text, which pandas cannot handle either."""
    for i, value in enumerate(column):
        if isinstance(value, (list, tuple, set, dict, np.ndarray)):
            problem, remedy = f"of type {type(value).__name__}", "give a number or text"
        elif isinstance(value, int) and abs(value) > sys.float_info.max:
            problem, remedy = "too large for double precision", "rescale the column"
        else:
            continue
        raise ValueError(
            f"The column {name!r} has {shortened(value)} in {table.row(i)}, which is {problem}; "
            f"{remedy}, or leave the column out with --ignore {name} (ignore=[{name!r}])."
        )


def _is_numeric_text(table: _Table, name: str, column: Any) -> bool:
    """Whether a text column holds numbers: all of it does, or it is refused for the odd one out."""
    pd = require_pandas()
    present = ~np.asarray(column.isna(), dtype=bool)
    parsed = ~np.asarray(pd.to_numeric(column, errors="coerce").isna(), dtype=bool)
    texts = present & ~parsed
    # Written-out missing values are numbers for this purpose; they are refused as such later.
    written = column.astype(str).str.strip()
    commas = texts & np.asarray(written.str.fullmatch(DECIMAL_COMMA), dtype=bool)
    if commas.any() and 2 * (commas | parsed).sum() > present.sum():
        i = int(np.flatnonzero(commas)[0])
        raise ValueError(
            f"The column {name!r} has {str(column.iloc[i])!r} in {table.row(i)}, a number with a "
            f"decimal comma; write decimal points, or leave the column out with --ignore {name} "
            f"(ignore=[{name!r}])."
        )
    if not parsed.any():
        return not present.any()
    texts &= ~np.asarray(written.str.lower().isin(MISSING_NUMBERS), dtype=bool)
    if not texts.any():
        return True
    if parsed.sum() <= texts.sum():
        return False
    i = int(np.flatnonzero(texts)[0])
    raise ValueError(
        f"The column {name!r} has {str(column.iloc[i])!r} in {table.row(i)} where numbers are "
        f"needed; correct that value, or leave the column out with --ignore {name} "
        f"(ignore=[{name!r}])."
    )


def _check_levels(table: _Table, name: str, column: Any) -> None:
    levels, n = int(column.nunique()), len(column)
    if levels > MAX_LEVELS:
        reason = f"{levels} levels, more than {MAX_LEVELS}"
    elif levels == n and n > 1:
        reason = f"a level of its own in each of its {n} rows"
    else:
        return
    raise ValueError(
        f"The text column {name!r} of {table.name} has {reason}, so it is no feature; leave it out "
        f"with --ignore {name} (ignore=[{name!r}]), or encode it as numbers."
    )


def _id_text(value: Any) -> str:
    """An id as text: whole numbers alike whether stored as 3, 3.0 or '3'; missing is empty."""
    if isinstance(value, str):
        return value.strip()
    if value is None or value != value or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _match(table: _Table, column: str, lookup: dict[str, int], items_name: str) -> IntArray:
    """Row of each id in the items table."""
    result = np.empty(len(table.frame), dtype=np.int64)
    by_number: dict[int, int] | None = None
    for i, value in enumerate(table.frame[column]):
        text = _id_text(value)
        row = lookup.get(text)
        if row is None and WHOLE_NUMBER.fullmatch(text):
            # One file may hold 7 or 7.0 and the other 007; only where that leaves no doubt.
            if by_number is None:
                by_number = _rows_by_number(lookup)
            row = by_number.get(_whole(text))
        if row is None:
            shown = f"the {column} {text!r}" if text else f"a missing {column}"
            raise ValueError(
                f"{table.row(i)[0].upper()}{table.row(i)[1:]} has {shown}, which is no item id of "
                f"{items_name}; add that item or remove the duel."
            )
        result[i] = row
    return result


def _rows_by_number(lookup: dict[str, int]) -> dict[int, int]:
    rows: dict[int, int] = {}
    repeated: set[int] = set()
    for text, row in lookup.items():
        if WHOLE_NUMBER.fullmatch(text):
            number = _whole(text)
            if number in rows:
                repeated.add(number)
            rows[number] = row
    return {number: row for number, row in rows.items() if number not in repeated}


def _whole(text: str) -> int:
    return int(text.split(".")[0])


def _counts(table: _Table, name: str, values: Any) -> IntArray:
    result = np.empty(len(values), dtype=np.int64)
    for i, value in enumerate(values):
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        except (TypeError, ValueError):
            number = float("nan")
        if number > MAX_COUNT:
            raise ValueError(
                f"The column {name!r} has {shortened(value)} in {table.row(i)}, which is above "
                f"2**53 ({MAX_COUNT}); give a smaller count."
            )
        if not (number >= 1.0 and number.is_integer()):
            raise ValueError(
                f"The column {name!r} has {str(value)!r} in {table.row(i)}; give a whole number of "
                "at least 1."
            )
        result[i] = int(number)
    check_total(result, table.row)
    return result


def _transform_of(like: Any) -> FeatureTransform:
    if isinstance(like, FeatureTransform):
        return like
    transform = getattr(like, "transform", None)
    if transform is None:
        transform = getattr(getattr(like, "duels", None), "transform", None)
    if not isinstance(transform, FeatureTransform):
        raise ValueError(
            f"like is a {type(like).__name__} that records no feature transform; give duels made "
            "by read_duels, or a model of such duels."
        )
    return transform
