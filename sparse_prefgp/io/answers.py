"""Answers about sets in tables: which row is of which set, and which alternative stands where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from sparse_prefgp.data.answers import (
    BEST_WORST,
    BEST_WORST_AT_ONCE,
    CHOICE,
    RANKING,
    TIE,
    TOP,
    Answers,
)
from sparse_prefgp.data.features import FeatureTransform, as_column, require_pandas
from sparse_prefgp.data.vectors import VectorRows, vector_rows
from sparse_prefgp.io.columns import ItemColumns
from sparse_prefgp.io.files import ITEM_ID, Table, id_text, ids_of, plain_ids, refuse_control
from sparse_prefgp.io.ids import is_zero
from sparse_prefgp.io.values import flags_of
from sparse_prefgp.io.vectors import with_vectors
from sparse_prefgp.support.arrays import BoolArray, IntArray, first_true
from sparse_prefgp.support.checks import Mistakes
from sparse_prefgp.support.words import CONTROL

# Of an alternative of which nobody said where it stands.
NOWHERE = 2**31
# Attributes that are in the name of an item, and characters of one that are.
_MOST_SHOWN, _LONGEST = 6, 40
# The feature that "none of these" has.
NONE = "none"


@dataclass(frozen=True)
class Sets:
    """Which set each row of a table belongs to."""

    code: IntArray
    """(rows,) numbers in order of first appearance."""
    ids: tuple[Any, ...]
    """What the sets are called."""
    column: str
    """The name of the column that says so."""
    what: str
    """What an answer is, for messages: a choice, a ranking."""

    @classmethod
    def of(cls, table: Table, column: str, what: str) -> Sets:
        """The sets of a table.

        :raises ValueError: a row of no set.
        """
        texts = ids_of(table.frame[column]).tolist()
        refuse_control(texts, column, table.row)
        if "" in texts:
            raise ValueError(
                f"The {what} (column {column!r}) is missing in {table.row(texts.index(''))}; say "
                f"which {what} the row belongs to."
            )
        code, names = require_pandas().factorize(np.array(texts, dtype=object))
        return cls(np.asarray(code, np.int64), plain_ids(names.tolist()), column, what)

    def refuse_twice(self, table: Table) -> None:
        """Refuse a set of two rows.

        :raises ValueError: see above.
        """
        for i in first_true(require_pandas().Series(self.code).duplicated()):
            first = int(np.argmax(self.code == self.code[i]))
            raise ValueError(
                f"The {self.what} {str(self.ids[self.code[i]])!r} in {table.row(i)} was used "
                f"before, in {table.row(first)}; give every {self.what} an id "
                "of its own, also across persons."
            )


@dataclass(frozen=True)
class Alternatives:
    """Alternatives that were shown, an entry for each: its item, its row, and where it stands."""

    sets: Sets
    item: IntArray
    """(s,) rows of the items."""
    row: IntArray
    """(s,) rows of the table."""
    level: IntArray
    """(s,) 0 for the best, then 1, …; the same for alternatives between which nobody chose."""

    @property
    def code(self) -> IntArray:
        """The set of each entry, (s,)."""
        return self.sets.code[self.row]

    @property
    def first_row(self) -> IntArray:
        """The first row of each set, (sets,)."""
        return np.asarray(np.unique(self.sets.code, return_index=True)[1])

    def count(self, which: Any = slice(None)) -> IntArray:
        """How many of these entries each set has, (sets,)."""
        return np.asarray(np.bincount(self.code[which], minlength=len(self.sets.ids)))

    def best_first(self) -> Alternatives:
        """Set by set, the best of each first."""
        order = np.lexsort((np.arange(len(self.item)), self.level, self.code))
        return replace(self, item=self.item[order], row=self.row[order], level=self.level[order])

    def events(self, kind: IntArray, ordered: IntArray | None = None) -> Answers:
        """One event for each set, in the order of the sets, between rows of the items.

        :param kind: (sets,) places in `KINDS`.
        :param ordered: (sets,) how many come first in order, of each top.
        """
        return Answers(
            self.item,
            np.append(0, np.cumsum(self.count())),
            kind=kind.astype(np.int8),
            ordered=ordered if np.any(kind == TOP) else None,
        )

    def check(
        self,
        table: Table,
        columns: ItemColumns,
        marked: Mapping[str, BoolArray] = MappingProxyType({}),
        asked: bool = False,
    ) -> None:
        """Refuse an item that is in a set twice, sets of fewer than two, and those in which not
        exactly one is marked.

        :param marked: flags (s,) of the entries by what a marked one is: chosen, best, worst.
        :param asked: a model is asked of them, so that rows of the table may have equal attributes.
        :raises ValueError: see above, a sentence for each mistake.
        """
        code, what, ids, mistakes = self.code, self.sets.what, self.sets.ids, Mistakes()
        key = code * len(columns.items.ids) + self.item
        order = np.argsort(key, kind="stable")
        twice = np.flatnonzero(key[order][1:] == key[order][:-1])
        if asked and columns.table.name == table.name:
            twice = twice[:0]  # the chances of two alternatives that are alike are equal
        for first, i in np.column_stack([order[twice], order[twice + 1]]):
            item = str(columns.items.ids[self.item[i]])
            nobody = ", or leave the cells empty if 0 is nobody" if is_zero(item) else ""
            name = f"the item {item!r}"
            if columns.table.name == table.name:  # made of the table itself
                name = f"the attributes of {table.row(int(self.row[first]))}"
            mistakes.add(
                f"{begin(table.row(int(self.row[i])))} has {name} a second time in the {what} "
                f"{str(ids[code[i]])!r}; keep one, and give every {what} an id of its own, also "
                f"across persons{nobody}."
            )
        size = self.count()
        for few in np.flatnonzero(size < 2):
            number = "one item only" if size[few] else "no item"
            for i in first_true(self.sets.code == few):
                mistakes.add(
                    f"The {what} {str(ids[few])!r} in {table.row(i)} has {number}; give at least "
                    "two, or remove it."
                )
        for name, flags in marked.items():
            number_of = self.count(flags)
            for bad in np.flatnonzero((number_of != 1) & (size > 1)):
                rows = self.row[(code == bad) & (flags if number_of[bad] else True)]
                first, second = (table.row(int(row)) for row in np.sort(rows)[:2])
                label = f"The {what} {str(ids[bad])!r}"
                if number_of[bad]:
                    mistakes.add(
                        f"{label} has two {name} options, in {first} and in {second}; mark one, "
                        f"and give every {what} an id of its own, also across persons (--person "
                        "COLUMN, person=, where numbers begin again for each)."
                    )
                else:
                    mistakes.add(
                        f"{label}, which begins in {first}, has no {name} option; mark one with 1, "
                        f"or remove the {what}."
                    )
        mistakes.stop()


def events_of_rankings(answers: Alternatives, ties: BoolArray) -> Answers:
    """Of answers whose levels are places; those at `NOWHERE` stand below all others.

    :param ties: (sets,) which are of two that share a place.
    """
    placed = answers.count(answers.level < NOWHERE)
    whole = placed >= answers.count() - 1
    kind = np.where(whole, RANKING, np.where(placed == 1, CHOICE, TOP))
    kind = np.where(ties, TIE, kind)
    return answers.events(kind, np.where(kind == TOP, placed, 0))


def events_of_best_worst(answers: Alternatives, at_once: bool) -> Answers:
    """Of answers with the best, or the chosen one, at level 0 and the worst at level 2; all others
    are at 1.

    Where there are two alternatives, or nobody said which is worst, it is a choice.
    """
    worst = answers.count(answers.level == 2)
    both = BEST_WORST_AT_ONCE if at_once else BEST_WORST
    return answers.events(np.where((answers.count() > 2) & (worst == 1), both, CHOICE))


def begin(sentence: str) -> str:
    """With a capital."""
    return sentence[0].upper() + sentence[1:]


# ---- items that are rows of the answers ----------------------------------------------------------


def items_of_rows(
    table: Table, attributes: Sequence[str], shown: Sequence[str] | None = None
) -> tuple[Table, IntArray]:
    """Items that rows of a table describe: rows with equal attributes are one item.

    :param shown: attributes that are in the ids; by default those that differ.
    :return: A table of the items, in the order of their first appearance, whose ids are their
        attributes, such as `Acme, large, 7.99`, and the item of each row, (rows,).
    """
    frame = table.frame[list(attributes)]
    vectors = {name: vector_rows(frame[name]) for name in attributes}
    coded = frame.assign(**{n: rows.codes() for n, rows in vectors.items() if rows is not None})
    number = coded.groupby(list(attributes), sort=False, dropna=False).ngroup().to_numpy()
    _, first = np.unique(number, return_index=True)
    items = frame.iloc[first].reset_index(drop=True)
    name = ITEM_ID
    while name in items.columns:  # what names the items is an attribute of their states
        name = f"row_of_{name}"
    if shown is None:
        plain = [name for name in attributes if vectors[name] is None]
        shown = [name for name in plain if frame[name].astype(str).nunique() > 1]
    items.insert(0, name, _names(items, shown))
    return replace(table.of_rows(items, first), id_column=name), number.astype(np.int64)


def _names(items: Any, shown: Sequence[str]) -> list[str]:
    """What items are called by these attributes, each otherwise: numbers by the name of their
    column too, where there are no words; where they would be alike, with a number."""
    pd = require_pandas()
    named = [n for n in shown if n != NONE and vector_rows(items[n]) is None][:_MOST_SHOWN]
    bare = any(not pd.api.types.is_numeric_dtype(items[n].dtype) for n in named)
    parts = []
    for name in named:
        texts = (CONTROL.sub(" ", id_text(value)) for value in items[name])
        short = (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…" for text in texts)
        parts.append([text if bare or not text else f"{name} {text}" for text in short])
    found = [", ".join(filter(None, each)) for each in zip(*parts, strict=True)] if parts else []
    found = found or [f"alternative {i + 1}" for i in range(len(items))]
    if NONE in items:
        is_none = items[NONE].to_numpy() == 1
        found = [NONE if none else name for name, none in zip(found, is_none, strict=True)]
    often = Counter(found)
    return [
        f"{name} ({i})".strip() if often[name] > 1 or not name else name
        for i, name in enumerate(found, 1)
    ]


def constant_in_sets(values: Any, code: IntArray) -> bool:
    """Whether a column is the same throughout each set."""
    rows = vector_rows(values)
    found = require_pandas().factorize(values.astype(str))[0] if rows is None else rows.codes()
    _, first = np.unique(code, return_index=True)
    return bool((found == found[first][code]).all())


# ---- none of these -------------------------------------------------------------------------------


def followed_by_none(items: Table, id: str) -> Table:
    """Items, and below them "none of these", which is like the average one but for a column `none`.

    :raises ValueError: an item of that id, or a column `none`, that is there already.
    """
    pd = require_pandas()
    items, vectors = with_vectors(items, [n for n in items.frame.columns if n != items.id_column])
    frame = items.frame.astype({items.id_column: object})
    if NONE in frame.columns:
        raise ValueError(
            f"{items.name} has a column {NONE!r}, which is the name of the feature of none of "
            "these (--none, none=); rename it."
        )
    if any(id_text(value) == id for value in frame[items.id_column]):
        raise ValueError(
            f"The id of none of these is {id!r} (--none, none=), which {items.name} has as an "
            "item; leave it out, or rename the item."
        )
    row = {name: _usual(frame[name]) for name in frame.columns if name != items.id_column}
    row[items.id_column] = id
    last = pd.DataFrame([row])
    for name in vectors:
        last[name] = as_column(VectorRows(np.asarray(row[name], dtype=np.float32)[None]))
    below = pd.concat([frame, last], ignore_index=True)
    numbers = np.append(np.arange(len(frame)), max(len(frame) - 1, 0))
    flags = np.append(np.zeros(len(frame)), 1.0)
    return items.of_rows(below.assign(**{NONE: flags}), numbers)


def with_none(
    table: Table, attributes: Sequence[str], like: FeatureTransform | None
) -> tuple[Table, list[str]]:
    """A table whose rows describe their alternatives, where one without any attribute is "none of
    these": like the average of the others, but for a column `none`; which may be there, as 1 in
    such a row and 0 in the others.

    :param like: how a model has made its features, to which it has learned what none is like; then
        what is filled in here only stands for it.
    :return: The table, and its attributes with `none` if there is any.
    :raises ValueError: a column `none` that holds something else.
    """
    knows = like is not None and NONE in like.raw_columns
    there = NONE in attributes
    if NONE in table.frame.columns and not there:
        return table, list(attributes)
    wanted = [name for name in attributes if name != NONE]
    some = table.frame[wanted]
    empty = np.zeros(len(some), dtype=bool)
    # No vector is missing.
    if wanted and not any(vector_rows(some[name]) is not None for name in wanted):
        empty = np.all([[not id_text(x) for x in some[name]] for name in wanted], axis=0)
    flags = empty
    if there:
        meaning = "1 for none of these and 0 for the others"
        flags = flags_of(table.frame[NONE], NONE, table.row, meaning)
        empty &= flags
    elif not (empty.any() or knows):
        return table, list(attributes)
    frame = table.frame.assign(**{NONE: flags.astype(float)})
    for name in wanted if empty.any() else ():
        usual = _usual(frame[name][~empty]) if like is None else like.stand_in(name)
        frame[name] = frame[name].where(~empty, usual)
    return replace(table, frame=frame), [*wanted, NONE]


def _usual(values: Any) -> Any:
    """The average of numbers and of vectors, the most common of texts."""
    pd = require_pandas()
    rows = vector_rows(values)
    if rows is not None:
        return sum(chunk.sum(0, dtype=np.float64) for _, chunk in rows.chunks()) / len(rows)
    numbers = pd.to_numeric(values, errors="coerce")
    if not numbers.isna().any():
        return float(numbers.mean())
    return values.mode(dropna=True).iloc[0]
