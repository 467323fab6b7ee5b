"""Finding items by their ids, by one rule for files and for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from sparse_prefgp.io.files import Table, coded_ids
from sparse_prefgp.io.values import unknown_item
from sparse_prefgp.support.arrays import IntArray, first_true
from sparse_prefgp.support.words import shortened, spelt_like

WHOLE_NUMBER = re.compile(r"[+-]?\d+(\.0*)?")


class Ids:
    """Finds the row of an id, given as text.

    As it is written, else as a whole number where that leaves no doubt: one file may hold 7 or 7.0
    and the other 007.

    :param name: where the items are from, for messages.
    """

    def __init__(self, lookup: Mapping[str, int], name: str = "the items") -> None:
        self._lookup = lookup
        self._by_number: dict[int, int] | None = None
        self.name = name

    def find(self, text: str) -> int | None:
        """The row, or None."""
        row = self._lookup.get(text)
        if row is None and WHOLE_NUMBER.fullmatch(text):
            if self._by_number is None:
                self._by_number = rows_by_number(self._lookup)
            row = self._by_number.get(_whole(text))
        return row

    def meant(self, text: str) -> str:
        """The beginning of a remedy for an id that there is not, see `meant_id`."""
        return meant_id(text, self._lookup)

    def rows_in(self, table: Table, column: str, what: str = "duel") -> IntArray:
        """The row of each id in a column of a table.

        :param what: what a row of the table stands for.
        :raises ValueError: an id that is missing or unknown; the message names the row.
        """
        codes, texts = coded_ids(table.frame[column])
        places = [self.find(text) for text in texts]
        rows = np.array([-1 if place is None else place for place in places], np.int64)[codes]
        for i in first_true(rows < 0):
            text = texts[codes[i]]
            raise unknown_item(column, text, table.row(i), self.name, what, self.meant(text))
        return rows


def meant_id(text: str, ids: Iterable[str]) -> str:
    """The beginning of a remedy: the id that was meant, by its spelling.

    Nothing where none comes near, and for numbers, of which the next one is another item.
    """
    near = None if not text or WHOLE_NUMBER.fullmatch(text) else spelt_like(text, ids)
    return "" if near is None else f"did you mean {shortened(near)}? Otherwise "


def rows_by_number(lookup: Mapping[str, int]) -> dict[int, int]:
    """The row of each whole number that only one id is."""
    rows: dict[int, int] = {}
    repeated: set[int] = set()
    for text, row in lookup.items():
        if WHOLE_NUMBER.fullmatch(text):
            number = _whole(text)
            if number in rows:
                repeated.add(number)
            rows[number] = row
    return {number: row for number, row in rows.items() if number not in repeated}


def is_zero(text: str) -> bool:
    """Whether an id is the number 0, by which some tables say nobody."""
    return WHOLE_NUMBER.fullmatch(text) is not None and _whole(text) == 0


def _whole(text: str) -> int:
    return int(text.split(".")[0])
