"""Dates in tables of new duels and pairs, for models whose utilities move in time."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sparse_prefgp.analysis.boards import at_a_date
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_choice

# The column of dates where nobody names one.
DATE_COLUMN = "date"


def time_column(
    model: Any,
    columns: Collection[str],
    time: str | None,
    source: str,
    needed: bool = True,
    kept: bool = False,
) -> str | None:
    """The column of a table that has the dates; None for a model that has no use for them.

    :param time: the column that was named; by default it is `date`.
    :param source: whose columns they are, in messages.
    :param needed: refuse a table without; else the date of the model holds for all rows.
    :param kept: dates are kept with the duels, even if utilities do not move.
    :raises ValueError: dates for a model whose utilities do not move; no such column.
    """
    if not (model.row_layout.dated or kept):
        if time is None:
            return None
        raise together.refused(still=True, dates=f"the column of dates {time!r}")
    if time is not None or needed:
        hint = f" ({source}; --time, time=)"
        check_choice("The column of dates", time or DATE_COLUMN, columns, hint)
    return time or (DATE_COLUMN if DATE_COLUMN in columns else None)


def seen_on(model: Any, at: Any) -> Any:
    """The model at a date, such as `date=2014-07-13`; the model itself without one.

    :raises ValueError: a date of utilities that do not move, or what is none.
    """
    if not at:
        return model
    found, rest = at_a_date(model, at)
    if rest:
        raise ValueError(
            f"{rest[0] if isinstance(rest, list | tuple) else rest!s} was asked for (--at), which "
            "is no date of utilities that move in time; give date=2014-07-13, or leave it out."
        )
    return found
