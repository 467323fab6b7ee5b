"""Columns of dates: in whatever order their numbers stand, and in days since 1970."""

from __future__ import annotations

import datetime
import itertools
import re
import warnings
import zoneinfo
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparse_prefgp.data.features import days_in, holds_dates, require_pandas
from sparse_prefgp.data.flags import Where, refuse_cells
from sparse_prefgp.data.roles import DAY_FIRST, MONTH_FIRST
from sparse_prefgp.io.files import Table, id_text
from sparse_prefgp.io.values import missing_label
from sparse_prefgp.support.arrays import FloatArray, first_true

REMEDY = "write all dates in the one form 2024-01-31"
TELL = "say which it is with --day-first or --month-first (day_first=True or False)"
# Two numbers and a year, with a time of day or without; and a date that begins with its year.
_NUMBERS = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})(?:,? +(.*))?")
_YEAR_FIRST = re.compile(r"(\d{4})([./-])(\d{1,2})\2(\d{1,2})(?:,? +(.*))?")
_CLOCK = re.compile(r"(\d{1,2})(:\d{2})(:\d{2})? ?([AaPp][Mm])?")
_NAMED_ZONE = re.compile(r"(\d{4}-\d{2}-\d{2}[T ][\d:.]+) ?([A-Za-z_]{2,}(?:/[\w/+-]+)?)")
# Cells of a column by which it may be seen not to hold dates.
_LOOKED_AT = 100
# Zones that all of whoever writes them mean alike, besides Europe/Paris and the like.
_CLEAR_ZONES = ("UTC", "GMT")
# Of years of two digits, from here on they are of the century before.
_LAST_CENTURY = 69
_ZONE = re.compile(r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
# Days since 1970 after which no date is meant.
_LAST = 1_000_000
# Whole numbers that are years, and those that are dates such as 20240131.
_YEARS, _COMPACT = (1000, 2999), (10000101, 29991231)
# Numbers that are seconds since 1970, of dates from 1973 on; no day is so late.
_SECONDS, _SECONDS_A_DAY = (1e8, 1e10), 86_400.0


def in_iso(
    table: Table, columns: Sequence[str], order: str | None = None, remedy: str = TELL
) -> Table:
    """A table in which dates such as 31/12/2024, and those with a zone by name, are in ISO form.

    A note says in which order day, month and year were read, and what shows it.

    :param columns: those that may hold dates; others, and dates in ISO form, stay as they are.
    :param order: `DAY_FIRST` or `MONTH_FIRST`; by default a number above 12 shows which is the day.
    :param remedy: what a message says to do where no number shows it.
    :return: The table, whose `orders` have the columns that were read so.
    :raises ValueError: dates of which nothing shows the order, or one in another order than the
        others; years of two digits that may stand first; a zone that nobody knows.
    """
    frame, orders = {}, dict(table.orders)
    for name in columns:
        column = table.frame[name]
        if column.dtype.kind in "biufcmM":
            continue
        present = (value for value in column if id_text(value))
        if not any(map(_may_be_date, itertools.islice(present, _LOOKED_AT))):
            continue
        texts = [id_text(value).strip() for value in column]
        most = sum(map(bool, texts)) / 2
        matches = [_NUMBERS.fullmatch(text) for text in texts]
        if sum(match is not None for match in matches) > most:
            read = _order(table, name, matches, order, remedy)
            orders |= {} if read is None else {name: read}
            first = read != MONTH_FIRST
            frame[name] = [
                (text or None) if match is None else _of_match(match, first)
                for text, match in zip(texts, matches, strict=True)
            ]
        elif sum(map(_may_be_date, texts)) > most:
            frame[name] = [_of_text(table, name, i, text) or None for i, text in enumerate(texts)]
    if not frame:
        return table
    return replace(table, frame=table.frame.assign(**frame), orders=orders)


def is_dated(column: Any) -> bool:
    """Whether most cells of a column, of which there are some, are dates in whatever form."""
    texts = [id_text(value).strip() for value in column]
    others = sum(map(_may_be_date, texts)) if column.dtype.kind not in "biufcmM" else 0
    return bool(texts) and (holds_dates(column) or 2 * others > len(texts))


def _may_be_date(value: Any) -> bool:
    """Whether it is a date in a form that is not ISO."""
    text = id_text(value).strip()
    return any(form.fullmatch(text) for form in (_NUMBERS, _YEAR_FIRST, _NAMED_ZONE))


def _order(
    table: Table,
    name: str,
    matches: Sequence[re.Match[str] | None],
    order: str | None,
    remedy: str,
) -> str | None:
    """Which number is the day, which a note tells; None where it makes no difference."""
    rows = [i for i, match in enumerate(matches) if match is not None]
    there = [match for match in matches if match is not None]
    numbers = np.array([(int(each[1]), int(each[3]), int(each[4])) for each in there])
    one, other, year = numbers.T
    short = any(len(each[4]) == 2 for each in there)

    def shown(i: int) -> str:
        return f"{there[i][0]!r} in {table.row(rows[i])}"

    year_first = all(len(each[4]) == 2 for each in there) and other.max() <= 12 and year.max() <= 31
    if order is None and year_first and len(np.unique(year)) > len(np.unique(one)):
        raise ValueError(
            f"The dates in {name!r} have years of two digits, which may stand first or last, such "
            f"as {shown(0)}; write years with four."
        )
    shows = {DAY_FIRST: np.flatnonzero(one > 12), MONTH_FIRST: np.flatnonzero(other > 12)}
    if order is None and all(each.size for each in shows.values()):
        day, month = (shown(int(each[0])) for each in shows.values())
        raise ValueError(
            f"The dates in {name!r} begin with the day in {day}, but with the month in {month}; "
            f"{REMEDY}."
        )
    if order is None and not any(each.size for each in shows.values()):
        for i in first_true(one != other):
            readings = " or ".join(_of_match(there[i], first) for first in (True, False))
            raise ValueError(f"The date {shown(i)} (column {name!r}) may be {readings}; {remedy}.")
        return None
    read = order or (MONTH_FIRST if shows[MONTH_FIRST].size else DAY_FIRST)
    against = shows[MONTH_FIRST if read == DAY_FIRST else DAY_FIRST]
    words = {DAY_FIRST: "day/month/year", MONTH_FIRST: "month/day/year"}[read]
    if against.size:
        raise ValueError(
            f"The dates in {name!r} are to be {words}, which {shown(int(against[0]))} is not; "
            f"{REMEDY}."
        )
    why = f", as {shown(int(shows[read][0]))} shows" if shows[read].size else ""
    years = "; years of two digits are from 1969 to 2068" if short else ""
    warnings.warn(f"The dates in {name!r} are {words}{why}{years}.", stacklevel=4)
    return read


def _of_match(match: re.Match[str], day_first: bool) -> str:
    """A date that two numbers and a year make, in ISO form."""
    day, month = (match[1], match[3]) if day_first else (match[3], match[1])
    year = int(match[4])
    if len(match[4]) == 2:
        year += 1900 if year >= _LAST_CENTURY else 2000
    return f"{year:04}-{int(month):02}-{int(day):02}{_clock(match[5])}"


def _clock(text: str | None) -> str:
    """A time of day, with a blank before it, in 24 hours."""
    match = _CLOCK.fullmatch(text or "")
    if match is None:
        return f" {text}" if text else ""
    hour = int(match[1])
    if match[4]:
        hour = hour % 12 + 12 * (match[4].lower() == "pm")
    return f" {hour:02}{match[2]}{match[3] or ''}"


def _of_text(table: Table, name: str, i: int, text: str) -> str:
    """A date that begins with its year, or has a zone by name, in ISO form; others unchanged."""
    zoned = _NAMED_ZONE.fullmatch(text)
    if zoned is not None:
        try:
            if "/" not in zoned[2] and zoned[2] not in _CLEAR_ZONES:
                raise zoneinfo.ZoneInfoNotFoundError
            zone = zoneinfo.ZoneInfo(zoned[2])
            moment = datetime.datetime.fromisoformat(zoned[1]).replace(tzinfo=zone)
            return moment.astimezone(datetime.UTC).isoformat()
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
            raise ValueError(
                f"The column {name!r} has {text!r} in {table.row(i)}, of a time or zone that is "
                "not known; write Europe/Paris or the like, or its distance from UTC, such as "
                "2024-01-31 18:30+01:00."
            ) from None
    match = _YEAR_FIRST.fullmatch(text)
    if match is None:
        return text
    return f"{match[1]}-{int(match[3]):02}-{int(match[4]):02}{_clock(match[5])}"


def dates_of(column: Any, name: str, where: Where, done: bool = False) -> FloatArray:
    """Days since 1970-01-01 of a column of dates, (n,); one with a zone is taken in UTC.

    Dates in ISO form, as text or stored as dates; years alone, of which a warning tells; numbers
    such as 20240131; seconds since 1970, of which another tells; all other numbers are days since
    1970.

    :param name: of the column.
    :param where: names a row in a message.
    :param done: what the rows tell of has happened: of dates to come a warning tells.
    :raises ValueError: a date that is missing, or none, with its row; some with a zone and some
        without.
    """
    pd = require_pandas()
    values = pd.Series(column).reset_index(drop=True)
    for i in first_true([not id_text(value) for value in values]):
        raise missing_label(name, where(i), "date")
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
    if _within(numbers, _SECONDS):
        warnings.warn(
            f"The dates (column {name!r}) are taken for seconds since 1970, UTC.", stacklevel=5
        )
        return numbers / _SECONDS_A_DAY
    late = np.abs(numbers) > _LAST
    refuse_cells(late, numbers, name, where, "numbers are days or seconds since 1970")
    return numbers


def _within(numbers: FloatArray, ends: tuple[float, float]) -> bool:
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
