"""What the columns of a table of items hold: ids and features."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparse_prefgp.data.features import (
    AS_NUMBERS,
    holds_dates,
    numeric_column,
    require_pandas,
    text_column,
)
from sparse_prefgp.data.flags import refuse_cells
from sparse_prefgp.data.raw_items import RawItems
from sparse_prefgp.io.dates import in_iso
from sparse_prefgp.io.files import Table, column_names
from sparse_prefgp.io.ids import Ids
from sparse_prefgp.io.vectors import with_vectors
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_choice
from sparse_prefgp.support.words import shortened

MAX_LEVELS = 50
# From so many levels on, a column of numbers with units or of names is not taken for categories
# without a word; names are told by levels that are nearly as many as the rows.
MANY_LEVELS, NEARLY_ALL = 10, 0.8
# A number with a sign of money before it, or a unit after it.
NUMBER_WITHIN = (
    r"(?P<before>[-+]?(?:[A-Z]{0,2}[$€£¥₹~<>≈#]|EUR|USD|GBP|CHF)?)\s?[-+]?"
    r"\d+(?:[,'’]\d{3})*(?:[.,]\d+)?"
    r"(?P<after>\s?[^\d\s]\D{0,15})?"
)
MISSING_NUMBERS = ("nan", "na", "n/a", "none", "null", "<na>")
DECIMAL_COMMA = r"-?\d+,\d+"
THOUSANDS_COMMA = r"-?[1-9]\d{0,2},\d{3}"


# Names that say of a column of whole numbers that it counts or names the rows.
ID_NAME = re.compile(r"(.*[ _.-])?(id|ids|index|idx|key|number|nr|no)|unnamed: \d+", re.IGNORECASE)
# From here on 0, 1, 2, … in the order of the rows is not chance.
MANY_ROWS = 20
ID_REMEDY = (
    "says nothing about another item; leave it out, and each item has an effect of its own "
    "(--kernel item), or add columns that describe the items, along with which --kernel "
    "linear+matern52+item (kernel + spg.ItemEffect()) gives each one too"
)


@dataclass(frozen=True)
class ItemColumns:
    """What a table of items holds."""

    table: Table
    """The table itself."""
    items: RawItems
    """Its rows, every column but the id, and which of them are features; there may be none."""
    known: Ids
    """Finds rows by their ids."""


@dataclass(frozen=True)
class FeatureNames:
    """Which columns of the items are features; by default all that can be."""

    features: Sequence[str] | None = None
    """These alone."""
    ignore: Sequence[str] = ()
    """Columns, of either table, that are none."""
    never: Sequence[str] = ()
    """The same; these need not exist."""
    item: str | None = None
    """The column that says which item a row is of, which is none unless it is asked for."""
    order: str | None = None
    """Whether day or month stands first in dates, as `in_iso` takes it."""


def item_columns(items: Table, answers: Table, names: FeatureNames) -> ItemColumns:
    """Ids and features of a table of items.

    :param items: the table of items.
    :param answers: the other table, whose columns may be ignored too.
    :raises ValueError: what `read_duels` says of names, ids and feature columns.
    """
    features = names.features
    others = [column for column in items.frame.columns if column != items.id_column]
    ignored = column_names(names.ignore, "ignore")
    known = {*items.frame.columns, *answers.frame.columns, *answers.found}
    for name in ignored:
        check_choice("The column to ignore", name, known)
    wanted = others
    if features is not None:
        wanted = column_names(features, "features")
        if wanted and all(name == items.id_column for name in wanted):
            raise ValueError(
                f"The only feature asked for is the id {items.id_column!r}, which {ID_REMEDY}."
            )
        for name in wanted:
            together.check(
                asked_features=f"the feature {name!r}", items_without_features=not others
            )
            check_choice("A feature", name, others, f" ({items.name})")
    wanted = list(dict.fromkeys([*wanted, *items.beside]))
    none = {*ignored, *names.never, *([names.item] if features is None else ())}
    used = [c for c in wanted if c not in none]
    texts = tuple(c for c in used if c in items.texts)
    items, vectors = with_vectors(items, [c for c in used if c not in texts])
    plain = [c for c in used if c not in (*vectors, *texts)]
    items = in_iso(items, plain, names.order)
    numeric, categorical = feature_kinds(items, plain)
    if len(numeric) == 1 and not categorical and not vectors and not texts:
        why = said_of_id(items, numeric[0], named=features is not None)
        if why is not None:
            raise ValueError(why)
    ids, lookup = items.ids()
    kinds = tuple(numeric), tuple(categorical), vectors, texts
    raw = RawItems(items.frame[others], ids, items.row, *kinds)
    return ItemColumns(items, raw, Ids(lookup, items.name))


def said_of_id(items: Table, name: str, named: bool) -> str | None:
    """Why an only feature, of numbers, is evidently an id, in a sentence; None where it is none.

    :param named: somebody asked for it by name.
    """
    if holds_dates(items.frame[name]):
        return None
    values = numeric_column(items.frame, name, items.row)
    n = len(values)
    if n < 2 or not (values == np.floor(values)).all() or len(np.unique(values)) < n:
        return None
    if ID_NAME.fullmatch(name):
        return (
            f"The only feature column of {items.name} is {name!r}, by its name and values an id "
            f"(a whole number of its own for each item), which {ID_REMEDY}."
        )
    in_order = any(np.array_equal(values, np.arange(start, start + n)) for start in (0, 1))
    if in_order and n >= MANY_ROWS and not named:
        return (
            f"The only feature column of {items.name}, {name!r}, counts its rows from "
            f"{int(values[0])} to {int(values[-1])} like an id, which {ID_REMEDY}; if it is a "
            f"measurement, say so with --features {name} (features=[{name!r}])."
        )
    return None


def feature_kinds(table: Table, columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """The numeric and the categorical ones among these columns."""
    pd = require_pandas()
    numeric: list[str] = []
    categorical: list[str] = []
    dates = [name for name in columns if holds_dates(table.frame[name])]
    for name in columns:
        column = table.frame[name]
        if name in dates:
            numeric.append(name)
        elif isinstance(column.dtype, pd.CategoricalDtype):
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
                _warn_of_levels(table, name, column)
                categorical.append(name)
        else:
            raise ValueError(
                f"The column {name!r} of {table.name} is of type {column.dtype}, which is neither "
                f"numbers nor categories; convert it, or leave it out "
                f"{table.omit.format(name)}."
            )
    # Values are checked before anybody fits anything, in the training and the test part alike.
    for name in numeric:
        numeric_column(table.frame, name, table.row, name in dates)
    for name in categorical:
        text_column(table.frame, name, table.row)
    if dates:
        which = ", ".join(map(repr, dates))
        warnings.warn(
            f"The dates in {which} of {table.name} are read as days since 1970-01-01.",
            stacklevel=2,
        )
    return numeric, categorical


def _check_cells(table: Table, name: str, column: Any) -> None:
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
            f"{remedy}, or leave the column out {table.omit.format(name)}."
        )


def _is_numeric_text(table: Table, name: str, column: Any) -> bool:
    """Whether a text column holds numbers: all of it does, or it is refused for the odd one out."""
    pd = require_pandas()
    otherwise = f", or leave the column out {table.omit.format(name)}"
    present = ~np.asarray(column.isna(), dtype=bool)
    parsed = ~np.asarray(pd.to_numeric(column, errors="coerce").isna(), dtype=bool)
    texts = present & ~parsed
    # Written-out missing values are numbers for this purpose; they are refused as such later.
    written = column.astype(str).str.strip()
    commas = texts & np.asarray(written.str.fullmatch(DECIMAL_COMMA), dtype=bool)
    if commas.any() and 2 * (commas | parsed).sum() > present.sum():
        points = parsed & written.str.contains(".", regex=False)
        if points.any() or not table.decimal_commas:
            remedy = "write decimal points"
            if points.any():
                i = int(np.flatnonzero(points)[0])
                remedy += f", as {str(column.iloc[i])!r} in {table.row(i)}"
            elif written[commas].str.fullmatch(THOUSANDS_COMMA).all():
                remedy = "leave commas between thousands out"
            refuse_cells(commas, column, name, table.row, remedy + otherwise)
        parsed |= commas
        texts &= ~commas
    if not parsed.any():
        return not present.any()
    texts &= ~np.asarray(written.str.lower().isin(MISSING_NUMBERS), dtype=bool)
    if not texts.any():
        return True
    if parsed.sum() <= texts.sum():
        return False
    remedy = f"the others are numbers, so correct it{otherwise}"
    refuse_cells(texts, column, name, table.row, remedy)
    return False


def _check_levels(table: Table, name: str, column: Any) -> None:
    levels, n = int(column.nunique()), len(column)
    if levels > MAX_LEVELS:
        reason = f"{levels} levels, more than {MAX_LEVELS}"
    elif levels == n and n > 1:
        reason = f"a level of its own in each of its {n} rows"
    else:
        return
    remedy, number = "encode it as numbers", _number_within(column)
    if number is not None:
        reason += f", though most of its values look like numbers, such as {number!r}"
        remedy = AS_NUMBERS
    elif table.id_column is not None:
        remedy = f"let features be made of texts with --text {name} (text={name!r})"
    if number is None and table.id_column not in (None, "item_id"):
        remedy += f", or name it item_id if it holds the ids, now taken from {table.id_column!r}"
    raise ValueError(
        f"The text column {name!r} of {table.name} has {reason}, so it is not a feature; leave it "
        f"out {table.omit.format(name)}, or {remedy}."
    )


def _number_within(column: Any) -> str | None:
    """The first value that is a number with a sign or a unit around it, where most values are, with
    the same around them; None where they are not."""
    written = column[column.notna()].astype(str).str.strip()
    found = written.str.extract(f"^{NUMBER_WITHIN}$")
    there = np.asarray(found["before"].notna(), dtype=bool)
    if 2 * there.sum() <= len(written):
        return None
    around = (found["before"].str.lstrip("+-") + "|" + found["after"].fillna("").str.strip())[there]
    most = around.value_counts()
    if 2 * int(most.iloc[0]) <= len(written):
        return None
    return str(written[there][around == most.index[0]].iloc[0])


def _warn_of_levels(table: Table, name: str, column: Any) -> None:
    """Say of a column with many levels what it looks like: numbers, or names of the rows."""
    levels, n = int(column.nunique()), len(column)
    if levels < MANY_LEVELS:
        return
    number = _number_within(column)
    if number is not None:
        looks, remedy = f"most of its values look like numbers, such as {number!r}", AS_NUMBERS
    elif levels >= NEARLY_ALL * n:
        looks = f"these are nearly as many as its {n} rows, as if it held names"
        remedy = "keep it if rows of one level are alike"
    else:
        return
    warnings.warn(
        f"The text column {name!r} of {table.name} is read as {levels} categories, but {looks}; "
        f"{remedy}, or leave it out {table.omit.format(name)}.",
        stacklevel=3,
    )
