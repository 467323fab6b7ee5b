"""What cells say, for whole columns: counts, weights, flags and labels; of tables and of streams.

A column is a pandas series, or an array; `where` names row i of it in messages.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from sparse_prefgp.data.duels import MAX_COUNT
from sparse_prefgp.data.flags import YES_AND_NO as YES_AND_NO
from sparse_prefgp.data.flags import Where as Where
from sparse_prefgp.data.flags import flags_of as flags_of
from sparse_prefgp.data.flags import refuse_cells
from sparse_prefgp.io.files import id_text, plain_ids, refuse_control, warn_of_blanks
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray, Texts, first_true

# Of grades on either side of a tie, where nobody names them.
_MOST_LEVELS = 50
# How messages call the items of a model.
OWN_ITEMS = "the model's own items"


def counts_of(column: Any, name: str, where: Where) -> IntArray:
    """How often each was seen.

    :raises ValueError: one that is not whole and positive, or too large, with its row.
    """
    number = _numbers(column)
    good = (number >= 1.0) & (number <= MAX_COUNT) & (number == np.floor(number))
    refuse_cells(~good, column, name, where, "give a whole number from 1 to 2**53")
    return number.astype(np.int64)


def weights_of(column: Any, name: str, where: Where) -> FloatArray:
    """As how many duels each counts.

    :raises ValueError: one that is not a positive number, with its row.
    """
    weights = _numbers(column)
    good = (weights > 0.0) & np.isfinite(weights)
    refuse_cells(~good, column, name, where, "give a positive number, or leave the duel out")
    return weights


def finite_of(column: Any, name: str, where: Where) -> FloatArray:
    """Finite numbers.

    :raises ValueError: what is not one, with its row.
    """
    values = _numbers(column)
    remedy = "give a number, or leave the duel out"
    refuse_cells(~np.isfinite(values), column, name, where, remedy)
    return values


def levels_of(given: Any) -> tuple[str, ...]:
    """Names of the levels of grades, from worst to best, as texts.

    :raises ValueError: fewer than two; one that is empty, or there twice; two spellings of one;
        numbers of both signs that are not symmetric.
    """
    texts = given.split(",") if isinstance(given, str) else given
    names = tuple(id_text(text) for text in texts)
    if len(names) < 2 or "" in names:
        raise ValueError(
            f"The levels of the grades are {', '.join(map(repr, names)) or 'none'}; give two or "
            'more from worst to best, such as --grades "worse,tie,better".'
        )
    for other, name in combinations(names, 2):
        if _alike(name) == _alike(other):
            raise ValueError(
                f"The levels {other!r} and {name!r} of the grades are one; give each once."
            )
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return names
    signed = min(numbers) < 0.0
    turned = [-number for number in reversed(numbers)]
    if numbers != sorted(numbers) or (signed and numbers != turned):
        raise ValueError(
            f"The levels {', '.join(names)} of the grades are not symmetric; give numbers that "
            "rise, and as many below 0 as above, such as -2,-1,0,1,2 (0 is a tie)."
        )
    return names


def named_levels(grade: str | None, levels: Any) -> tuple[str, ...] | None:
    """`levels_of` a column of grades; None where nobody names any.

    :raises ValueError: what `levels_of` raises; levels without the column.
    """
    together.check(levels_of_grades=levels is not None, no_grade=grade is None)
    return None if levels is None else levels_of(levels)


def grades_of(
    column: Any, name: str, where: Where, levels: tuple[str, ...] | None
) -> tuple[IntArray, tuple[str, ...]]:
    """By how many levels the first side of each row is better, and the names of the levels.

    :param levels: from `levels_of`; None for whole numbers, of which the largest says how many.
    :raises ValueError: a grade that is missing or not among the levels, or spelt in another way,
        with its row; without levels, one that is not a whole number, or not even one above 0.
    """
    texts = np.array([id_text(value) for value in column], dtype=object)
    if levels is None:
        numbers = _numbers(texts)
        bad = ~(numbers == np.floor(numbers)) | (np.abs(numbers) > _MOST_LEVELS)
        remedy = "give whole numbers, or name the levels from worst to best (grades=, --grades)"
        refuse_cells(bad, texts, name, where, remedy)
        largest = int(np.abs(numbers).max(initial=0))
        if not largest:
            raise ValueError(
                f"All grades (column {name!r}) are 0, ties, which say nothing of who is better; "
                "give another column."
            )
        names = tuple(str(level) for level in range(-largest, largest + 1))
        return numbers.astype(np.int64), names
    place = {text: i for i, text in enumerate(levels)}
    found = np.array([place.get(text, -1) for text in texts], dtype=np.int64)
    remedy = (
        f"give one of {', '.join(levels)}, written alike, or name all from worst to best "
        "(grades=, --grades)"
    )
    refuse_cells(found < 0, texts, name, where, remedy)
    largest = len(levels) // 2
    signed = found - largest
    if len(levels) % 2 == 0:
        signed = np.where(signed >= 0, signed + 1, signed)
    return signed, levels


def _alike(text: str) -> str:
    """The same for spellings of one word."""
    return " ".join(text.replace("_", " ").replace("-", " -").casefold().split())


def labels_of(column: Any, name: str, where: Where, what: str) -> Texts:
    """The label of each row: whole numbers if all are, else texts.

    :param what: what a label is.
    :raises ValueError: a label that is missing, with its row.
    """
    warn_of_blanks(column, f"The column {name!r}")
    texts = [id_text(value) for value in column]
    if "" in texts:
        raise missing_label(name, where(texts.index("")), what)
    refuse_control(texts, name, where)
    labels = np.empty(len(texts), dtype=object)
    labels[:] = plain_ids(texts)
    return labels


def missing_label(column: str, where: str, what: str) -> ValueError:
    """What to say of a row without its label."""
    return ValueError(f"The {what} (column {column!r}) is missing in {where}; give every row one.")


def refuse_itself(same: BoolArray, where: Where, shown: Callable[[int], str]) -> None:
    """Refuse duels of an item with itself.

    :param shown: how a message shows the item of row i.
    :raises ValueError: naming the first one.
    """
    for i in first_true(same):
        raise ValueError(
            f"The duel in {where(i)} is of {shown(i)} with itself; remove it, or correct its "
            "winner or loser."
        )


def unknown_item(
    column: str, text: str, where: str, items: str, what: str, meant: str = ""
) -> ValueError:
    """What to say of an id that no item has, or that is missing.

    :param items: where the items are from.
    :param what: what a row stands for.
    :param meant: which id it may be, as `Ids.meant` says it.
    """
    shown = f"the {column} {text!r}" if text else f"a missing {column}"
    add = "add that item"
    if items == OWN_ITEMS:
        add = "add it in a table, --items new.csv (items=),"
    return ValueError(
        f"{where[0].upper()}{where[1:]} has {shown}, which is not an item id of {items}; "
        f"{meant}{add} or remove the {what}."
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
