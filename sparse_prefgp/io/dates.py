"""Columns of dates: when each duel was, in days since 1970."""

from __future__ import annotations

import datetime
import re
import warnings
from typing import Any

import numpy as np

from sparse_prefgp.data.features import days_in, require_pandas
from sparse_prefgp.data.flags import Where, refuse_cells
from sparse_prefgp.io.files import id_text
from sparse_prefgp.io.values import missing_label
from sparse_prefgp.support.arrays import FloatArray

REMEDY = "write all dates in the one form 2024-01-31"
_ZONE = re.compile(r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
# Whole numbers that are years, and those that are dates such as 20240131.
_YEARS, _COMPACT = (1000, 2999), (10000101, 29991231)


def dates_of(column: Any, name: str, where: Where, done: bool = False) -> FloatArray:
    """Days since 1970-01-01 of a column of dates, (n,); one with a zone is taken in UTC.

    Dates in ISO form, as text or stored as dates; years alone, of which a warning tells; numbers
    such as 20240131; all other numbers are days since 1970.

    :param name: of the column.
    :param where: names a row in a message.
    :param done: what the rows tell of has happened: of dates to come a warning tells.
    :raises ValueError: a date that is missing, or none, with its row; some with a zone and some
        without.
    """
    pd = require_pandas()
    values = pd.Series(column).reset_index(drop=True)
    missing = np.flatnonzero([not id_text(value) for value in values])
    if missing.size:
        raise missing_label(name, where(int(missing[0])), "date")
    numbers = None
    if values.dtype.kind in "iuf":
        numbers = values.to_numpy(np.float64)
    elif values.dtype.kind not in "Mb" and not isinstance(values.dtype, pd.DatetimeTZDtype):
        texts = values.astype(str).str.strip()
        converted = pd.to_numeric(texts, errors="coerce")
        if not converted.isna().any():
            numbers = converted.to_numpy(np.float64)
        else:
            _refuse_mixed_zones(texts, name, where)
    if numbers is None:
        days = days_in(values, name, where, REMEDY)
    else:
        days = _of_numbers(numbers, name, where)
    if done:
        _warn_of_future(days, name, where)
    return days


def _of_numbers(numbers: FloatArray, name: str, where: Where) -> FloatArray:
    refuse_cells(~np.isfinite(numbers), numbers, name, where, REMEDY)
    whole = bool(np.all(numbers == np.floor(numbers)))
    if whole and _within(numbers, _YEARS):
        warnings.warn(
            f"The dates (column {name!r}) are years alone: each duel is taken to be in the middle "
            "of its year, so that slices of time below a year tell nothing more.",
            stacklevel=5,
        )
        starts = (numbers[:, None].astype(np.int64) + np.array([0, 1]) - 1970).astype("M8[Y]")
        return np.asarray(starts.astype("M8[D]").astype(np.float64).mean(1))
    if whole and _within(numbers, _COMPACT):
        texts = [f"{n[:4]}-{n[4:6]}-{n[6:]}" for n in numbers.astype(np.int64).astype(str)]
        return days_in(require_pandas().Series(texts), name, where, REMEDY)
    return numbers


def _within(numbers: FloatArray, ends: tuple[int, int]) -> bool:
    return bool(np.all((numbers >= ends[0]) & (numbers <= ends[1])))


def _refuse_mixed_zones(texts: Any, name: str, where: Where) -> None:
    zoned = np.array([_ZONE.search(text) is not None for text in texts], dtype=bool)
    if zoned.any() and not zoned.all():
        with_zone, without = int(np.argmax(zoned)), int(np.argmin(zoned))
        raise ValueError(
            f"Column {name!r} has {texts[with_zone]!r} with a time zone in {where(with_zone)}, and "
            f"{texts[without]!r} without one in {where(without)}; give all dates one, or none."
        )


def _warn_of_future(days: FloatArray, name: str, where: Where) -> None:
    # A day more, for zones ahead.
    today = (datetime.datetime.now(datetime.UTC).date() - datetime.date(1970, 1, 1)).days + 2
    late = np.flatnonzero(days >= today)
    if late.size:
        i = int(late[np.argmax(days[late])])
        date = np.datetime64(int(np.floor(days[i])), "D")
        warnings.warn(
            f"The date {date} (column {name!r}) in {where(i)} is yet to come, as are those of "
            f"{late.size:,} of {len(days):,} rows; correct them unless the duels are made.",
            stacklevel=5,
        )
