"""Columns of 0 and 1.

A column is a pandas series, or an array; `where` names row i of it in messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparse_prefgp.support.arrays import BoolArray, first_true
from sparse_prefgp.support.words import id_text, shortened

Where = Callable[[int], str]
IMPUTATION_HINT = "fill in a value such as the column median (imputation), or leave out that item"
YES_AND_NO = {
    **dict.fromkeys(("1", "true", "yes", "y"), True),
    **dict.fromkeys(("0", "false", "no", "n"), False),
}


def flags_of(column: Any, name: str, where: Where, meaning: str) -> BoolArray:
    """A column of 0 and 1, or of false and true.

    :param meaning: what a message tells to give.
    :raises ValueError: anything else, with its row.
    """
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        flags, good = values == 1, (values == 0) | (values == 1)
    else:
        found = [YES_AND_NO.get(id_text(value).lower()) for value in values]
        flags = np.array([flag is True for flag in found], dtype=bool)
        good = np.array([flag is not None for flag in found], dtype=bool)
    refuse_cells(~good, column, name, where, f"give {meaning}")
    return np.asarray(flags, dtype=bool)


def refuse_cells(bad: Any, column: Any, name: str, where: Where, remedy: str) -> None:
    """Refuse a column with cells that are bad, (rows,), by the first of them.

    :raises ValueError: naming its row, and what to do.
    """
    for i in first_true(np.asarray(bad, dtype=bool)):
        value = (column.iloc if hasattr(column, "iloc") else column)[i]
        shown = shortened(value) if id_text(value) else "a missing value"
        raise ValueError(f"The column {name!r} has {shown} in {where(i)}; {remedy}.")
