"""Dates, and the slices of time in which they are taken together."""

from __future__ import annotations

import datetime
import warnings
from typing import Any

import numpy as np

from sparse_prefgp.support.arrays import FloatArray, IntArray, distinct, first_true
from sparse_prefgp.support.checks import check_shape
from sparse_prefgp.support.words import shortened

DAYS_A_YEAR = 365.25
# From the coarsest on, and how many days each has.
SLICES = {"year": DAYS_A_YEAR, "quarter": 91.3125, "month": 30.4375, "week": 7.0, "day": 1.0}
AUTO = "auto"
# Digits alone that are a year.
_YEARS = range(1000, 3000)
# 9999-12-31, in days since 1970.
_LAST_DAY = 2_932_896
# Fewer slices than these say too little of how utilities move.
FEWEST = 20


def check_slices(slices: Any) -> Any:
    """A name of `SLICES`, "auto", how many days a slice has, or (S - 1,) days at which another one
    begins, ascending.

    :raises ValueError: anything else.
    """
    if isinstance(slices, str):
        if slices in (AUTO, *SLICES):
            return slices
    elif not isinstance(slices, bool) and isinstance(slices, int | float | np.number):
        if np.isfinite(slices) and slices > 0:
            return float(slices)
    else:
        days = np.asarray(slices)
        ascending = days.ndim == 1 and days.dtype.kind in "iuf" and bool(np.all(np.diff(days) > 0))
        if ascending and np.all(np.isfinite(days)):
            return days.astype(np.float64)
    raise ValueError(
        f"slices is {shortened(slices)}; give {', '.join(map(repr, (AUTO, *SLICES)))}, how many "
        "days a slice has, or days in ascending order at which another slice begins."
    )


def date_text(day: float) -> str:
    """A day since 1970, as 2014-07-13."""
    return str(np.datetime64(int(np.floor(day)), "D"))


def slice_numbers(days: FloatArray, slices: Any) -> IntArray:
    """In which slice each of some days since 1970 is: whole numbers that rise with time.

    :param slices: a name of `SLICES`, how many days a slice has, or days at which another begins.
    """
    if isinstance(slices, float):
        return np.floor(days / slices).astype(np.int64)
    if not isinstance(slices, str):
        return np.searchsorted(slices, days, side="right")
    whole = np.floor(days).astype(np.int64)
    if slices == "day":
        return whole
    if slices == "week":
        return (whole + 3) // 7  # from Monday on; the first day of 1970 was a Thursday
    months = whole.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return months // {"month": 1, "quarter": 3, "year": 12}[slices]


def sliced(
    days: FloatArray, slices: Any, counts: IntArray | None = None
) -> tuple[FloatArray, IntArray]:
    """The mean day of each slice that has any, ascending, and the place of each day among them.

    :param counts: how often each day counts; None for once.
    """
    _, place = distinct(slice_numbers(days, slices))
    each = np.ones_like(days) if counts is None else counts
    return np.bincount(place, each * days) / np.bincount(place, each), place


def rows_in_force(owner: IntArray, starts: FloatArray, day: float) -> IntArray:
    """(I,) the row in force at a day, of each of I owners.

    It is the one that began last by then. Where none had, it is the last of those that never begin,
    and where all begin later the first to begin.

    :param owner: (n,) of each row, 0 to I - 1, each of which has one.
    :param starts: (n,) the day on which each row begins; NaN for never.
    """
    never = np.isnan(starts)
    begun = ~never & (starts <= day)
    key = np.select([begun, never], [starts, 0.0], -starts)
    order = np.lexsort((np.arange(len(owner)), key, 2 * begun + never, owner))
    return np.asarray(order[np.cumsum(np.bincount(owner)) - 1])


def days_of(times: Any, t: int) -> FloatArray:
    """Days since 1970 of dates, (t,).

    :param times: numbers of days, `datetime64`, dates of Python or texts such as 2026-06-11.
    :raises ValueError: another shape or kind, or a date that is missing.
    """
    given = np.asarray(times)
    check_shape("times", given, t, hint=", one for each duel")
    if given.dtype.kind in "UO":
        given = np.array([_date_of(value, i) for i, value in enumerate(given)], "datetime64[us]")
    if given.dtype.kind == "M":
        missing = np.isnat(given)
        days = given.astype("datetime64[us]").astype(np.int64) / 86_400e6
    elif given.dtype.kind in "iuf":
        days = given.astype(np.float64)
        missing = ~np.isfinite(days)
        far = np.flatnonzero(np.abs(np.where(missing, 0.0, days)) > _LAST_DAY)
        if len(far):
            raise ValueError(
                f"times has {days[far[0]]:.0f}, which as days since 1970 is beyond the year 9999; "
                "give dates as datetime64 or text such as 2026-06-11."
            )
    else:
        raise _no_date(given[0].item(), 0)
    for i in first_true(missing):
        raise ValueError(f"times has no date for duel {i}; give one, or leave the duel out.")
    return days


def day_of(date: Any) -> float:
    """Days since 1970 of one date.

    :param date: as `days_of` takes them; texts of digits as tables have them: a year is taken for
        its middle, 20140713 is a date, and other numbers are days.
    :raises ValueError: what is no date.
    """
    try:
        if isinstance(date, str) and date.strip().isdecimal() and len(date.strip()) != 8:
            number = int(date)
            if number in _YEARS:
                return float(np.mean(days_of(np.array([str(number), str(number + 1)]), 2)))
            date = float(number)
        return float(days_of(np.asarray([date]), 1)[0])
    except ValueError:
        raise ValueError(
            f"{shortened(date)} is no date; give one such as 2026-06-11, or a number of days since "
            "1970."
        ) from None


def warn_of_years(times: Any, days: FloatArray) -> None:
    """Say where numbers of days are those that years would be.

    :param times: as the caller has them.
    """
    years = len(days) and np.asarray(times).dtype.kind in "iuf"
    if years and np.all((days == np.floor(days)) & (days >= 1800) & (days <= 2100)):
        warnings.warn(
            f"The dates {days.min():.0f} to {days.max():.0f} are taken for days since 1970, "
            f"{date_text(days.min())} to {date_text(days.max())}; if they are years, give them as "
            "text such as 2014-07-01.",
            stacklevel=5,
        )


def _date_of(value: Any, i: int) -> np.datetime64:
    try:
        if isinstance(value, str) and value.strip().isdecimal():
            text = value.strip()
            if len(text) == 8:
                value = f"{text[:4]}-{text[4:6]}-{text[6:]}"
            elif int(text) not in _YEARS:  # NumPy would make a far year of it
                raise ValueError
        if isinstance(value, str | datetime.date | np.datetime64):
            return np.datetime64(value, "us")
    except ValueError:
        pass
    raise _no_date(value, i)


def _no_date(value: Any, i: int) -> ValueError:
    return ValueError(
        f"times has {shortened(value)} for duel {i}, which is no date; give days since 1970 as "
        "numbers, or dates as datetime64 or text such as 2026-06-11."
    )
