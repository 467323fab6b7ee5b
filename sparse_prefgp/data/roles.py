"""By which columns of tables more is said of answers than who won: what a model remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparse_prefgp.data.answers import COLUMNS

# What each says of answers; codes have the role that is their name.
ROLES = {column.role: column for column in COLUMNS.values() if column.role is not None}
# Those of codes that may lean to a side.
LEANING = tuple(role for role, column in ROLES.items() if column.leans)
# By which names columns of battles are found that nobody named.
USUAL_NAMES: Mapping[str, Sequence[str]] = {
    "judge": ("judge", "judge_id", "annotator", "annotator_id", "rater", "worker", "worker_id"),
    "category": ("category",),
    "task": ("task", "task_id", "question_id", "prompt_id", "prompt", "question"),
    "date": ("date", "day", "time", "timestamp", "tstamp"),
}
NONE = "none"
# How dates were written whose numbers have two readings, such as 11/08/2023; next to the roles.
ORDER, DAY_FIRST, MONTH_FIRST = "order_of_dates", "day-first", "month-first"
# The last date, in days since 1970, of answers whose dates themselves are not kept.
LAST_DATE = "last_date"
# Covariates of which flags were made where they are 0, which are made again of every table.
FLAGGED = "flagged_where_0"


def columns_of_roles(named: Mapping[str, str]) -> dict[str, str]:
    """The column of each role: the one that was named, else that of its own name; and whatever else
    was named, such as how the table was read."""
    return {**{role: role for role in ROLES}, **named}


def order_of_dates(day_first: bool | None) -> str | None:
    """What it means that the day stands first."""
    return {True: DAY_FIRST, False: MONTH_FIRST}.get(day_first)  # type: ignore[arg-type]
