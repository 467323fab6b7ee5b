"""What cells say, for whole columns: counts, weights, flags and labels; of tables and of streams.

A column is a pandas series, or an array; `where` names row i of it in messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.duels import MAX_COUNT
from sparse_prefgp.io.files import id_text, plain_ids
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.words import shortened

Where = Callable[[int], str]
YES_AND_NO = {"1": True, "true": True, "0": False, "false": False}


def counts_of(column: Any, name: str, where: Where) -> IntArray:
    """How often each was seen.

    :raises ValueError: one that is not whole and positive, or too large, with its row.
    """
    number = _numbers(column)
    bad = np.flatnonzero(~((number >= 1.0) & (number <= MAX_COUNT) & (number == np.floor(number))))
    if bad.size:
        i = int(bad[0])
        value = _cell(column, i)
        if number[i] > MAX_COUNT:
            raise ValueError(
                f"The column {name!r} has {shortened(value)} in {where(i)}, which is above "
                f"2**53 ({MAX_COUNT}); give a smaller count."
            )
        raise ValueError(
            f"The column {name!r} has {str(value)!r} in {where(i)}; give a whole number of at "
            "least 1."
        )
    return number.astype(np.int64)


def weights_of(column: Any, name: str, where: Where) -> FloatArray:
    """As how many duels each counts.

    :raises ValueError: one that is not a positive number, with its row.
    """
    weights = _numbers(column)
    bad = np.flatnonzero(~((weights > 0.0) & np.isfinite(weights)))
    if bad.size:
        i = int(bad[0])
        raise ValueError(
            f"The weight (column {name!r}) in {where(i)} is {shortened(_cell(column, i))}; give a "
            "positive number, or leave the duel out."
        )
    return weights


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
            f"The column {name!r} has {shortened(_cell(column, i))} in {where(i)}; give {meaning}."
        )
    return np.asarray(flags, dtype=bool)


def labels_of(column: Any, name: str, where: Where, what: str) -> npt.NDArray[np.object_]:
    """The label of each row: whole numbers if all are, else texts.

    :param what: what a label is.
    :raises ValueError: a label that is missing, with its row.
    """
    texts = [id_text(value) for value in column]
    if "" in texts:
        raise ValueError(
            f"The {what} (column {name!r}) is missing in {where(texts.index(''))}; give every "
            "duel one."
        )
    labels = np.empty(len(texts), dtype=object)
    labels[:] = plain_ids(texts)
    return labels


def refuse_itself(same: BoolArray, where: Where, shown: Callable[[int], str]) -> None:
    """Refuse duels of an item with itself.

    :param shown: how a message shows the item of row i.
    :raises ValueError: naming the first one.
    """
    if same.any():
        i = int(np.flatnonzero(same)[0])
        raise ValueError(
            f"The duel in {where(i)} is of {shown(i)} with itself; remove it, or correct its "
            "winner or loser."
        )


def unknown_item(column: str, text: str, where: str, items: str, what: str) -> ValueError:
    """What to say of an id that no item has, or that is missing.

    :param items: where the items are from. what: what a row stands for.
    """
    shown = f"the {column} {text!r}" if text else f"a missing {column}"
    return ValueError(
        f"{where[0].upper()}{where[1:]} has {shown}, which is not an item id of {items}; add that "
        f"item or remove the {what}."
    )


def _numbers(column: Any) -> FloatArray:
    """A column as numbers, NaN where there is none."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")
    except (TypeError, ValueError):
        return float("nan")


def _cell(column: Any, i: int) -> Any:
    """A cell, for a message."""
    return (column.iloc if hasattr(column, "iloc") else column)[i]
