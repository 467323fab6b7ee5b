"""Columns of 0 and 1.

A column is a pandas series, or an array; `where` names row i of it in messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparse_prefgp.support.arrays import BoolArray
from sparse_prefgp.support.words import id_text, shortened

Where = Callable[[int], str]
YES_AND_NO = {"1": True, "true": True, "0": False, "false": False}


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
    bad = np.flatnonzero(~good)
    if bad.size:
        i = int(bad[0])
        raise ValueError(
            f"The column {name!r} has {shortened(cell(column, i))} in {where(i)}; give {meaning}."
        )
    return np.asarray(flags, dtype=bool)


def cell(column: Any, i: int) -> Any:
    """A cell, for a message."""
    return (column.iloc if hasattr(column, "iloc") else column)[i]
