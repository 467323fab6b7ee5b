"""The items that ids in a stream refer to."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.flags import Where
from sparse_prefgp.data.items import Items, check_features
from sparse_prefgp.data.raw_items import RawItems
from sparse_prefgp.io.columns import FeatureNames, item_columns
from sparse_prefgp.io.files import column_names, id_text, load_items
from sparse_prefgp.io.ids import Ids
from sparse_prefgp.io.judgements import of_named_items
from sparse_prefgp.io.streams.blocks import Coded, plain_cell
from sparse_prefgp.io.values import unknown_item
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, IntArray, Texts, first_true

# No more digits than surely fit.
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def items_of(
    items: Any,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    others: Sequence[str] = (),
    item: str | None = None,
) -> Items:
    """Items of an (n, D) array, or of a file or a data frame, then standardised; or those of
    `Duels`, or `Items`, as they are there.

    :param others: columns of the duels, which may be ignored too.
    :param item: column that says which item each row is of, as of `read_duels`.
    :raises ValueError: what `read_duels` says of items.
    """
    if isinstance(items, Items | Duels):
        return items if isinstance(items, Items) else items.known
    if isinstance(items, np.ndarray):
        return Items(check_features(items, "items", None))
    raw = raw_items(items, features, ignore, others, item)
    found = raw.standardised(raw.learned_transform())
    if not isinstance(items, str | os.PathLike):
        return found
    options = os.path.abspath(items), features, tuple(ignore), others, item
    return replace(found, origin=(items_of, options))


def raw_items(
    items: Any,
    features: Sequence[str] | None,
    ignore: Sequence[str],
    others: Sequence[str],
    item: str | None,
) -> RawItems:
    """A table of items, read and checked; arguments as of `items_of`.

    :raises ValueError: what `read_duels` says of items.
    """
    table = load_items(items)
    here = table.frame.columns
    ignore = [n for n in column_names(ignore, "ignore") if n in here or n not in others]
    found = item_columns(table, table, FeatureNames(features, ignore, item=item))
    told = bool(found.items.feature_names)
    together.check(chunks=True, items_without_features=not told and table.name)
    return found.items if item is None else of_named_items(found.items, table, item)


@dataclass(frozen=True, eq=False)
class Lookup:
    """How rows of items are found by their ids, and by their contexts where they have any."""

    items: Items
    """As given; of items in contexts nothing but the ids count."""
    met: Met | None = None
    """The rows of items in contexts; None where each item is a row."""

    def item_of(self, rows: IntArray) -> IntArray:
        """The row of the items as given that each is of, whatever its context."""
        return rows if self.met is None else self.met.base[rows]

    def rows_of(self, values: Any, context: Sequence[Any] = ()) -> IntArray:
        """Row of each id in a column, -1 where it is unknown or missing.

        :param values: (c,) NumPy array, or pyarrow array.
        :param context: (c,) columns of the context, for items that have one.
        :raises ValueError: a context that no row has.
        """
        base = self._items_called(values)
        if self.met is None:
            return base
        codes = [
            Coded.of(column).numbered({text: i for i, text in enumerate(known)})
            for column, known in zip(context, self.met.values, strict=True)
        ]
        keys, (order, ordered) = self.met.keys(base, codes), self.met.in_order
        place = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
        there = (ordered[place] == keys) & np.all(np.array(codes) >= 0, axis=0)
        if np.any((base >= 0) & ~there):
            raise ValueError(
                "There are items in contexts that were not there when the duels were first read; "
                "leave files alone while they are in use."
            )
        return np.where(base >= 0, order[place], -1)

    def _items_called(self, values: Any) -> IntArray:
        """Row of each id among the items as given, -1 where it is none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_binary(column.type):
            column = column.cast(pa.string())
        if self.items.ids is None:
            number, known = _whole(column)
            return np.where(known & (number >= 0) & (number < len(self.items)), number, -1)
        if self._numbers is not None:
            number, known = _whole(column)
            order, ordered = self._numbers
            place = np.minimum(np.searchsorted(ordered, number), len(ordered) - 1)
            return np.where(known & (ordered[place] == number), order[place], -1)
        if not pa.types.is_string(column.type):
            column = column.cast(pa.string())
        found = pc.index_in(pc.utf8_trim_whitespace(column), value_set=self._texts)
        rows = np.array(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
        find = cache(self._by_rule.find)  # ids that are written otherwise, such as 7 for 007
        for i in np.flatnonzero(rows < 0):
            row = find(id_text(column[int(i)].as_py()))
            rows[i] = -1 if row is None else row
        return rows

    def known_rows(
        self, values: Any, context: Sequence[Any], column: str, where: Where
    ) -> IntArray:
        """As `rows_of`, of a column in a message.

        :raises ValueError: an id that is unknown or missing, with its row.
        """
        rows = self.rows_of(values, context)
        for i in first_true(rows < 0):
            text = id_text(plain_cell(values[i]))
            meant = "" if self.items.ids is None else self._by_rule.meant(text)
            raise unknown_item(column, text, where(i), "the items", "duel", meant)
        return rows

    @cached_property
    def _by_rule(self) -> Ids:
        return Ids({id_text(value): row for row, value in enumerate(self.items.ids or ())})

    @cached_property
    def _texts(self) -> Any:
        import pyarrow as pa

        return pa.array([id_text(value) for value in self.items.ids or ()])

    @cached_property
    def _numbers(self) -> tuple[IntArray, IntArray] | None:
        """For ids that are whole numbers, their rows and the ids in ascending order."""
        assert self.items.ids is not None
        if not isinstance(self.items.ids[0], int | np.integer):  # all are, or none (`plain_ids`)
            return None
        ids = np.asarray(self.items.ids, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        return order, ids[order]


@dataclass(frozen=True, eq=False)
class Met:
    """The distinct items in contexts that take part in duels."""

    base: IntArray
    """(k,) which of the items each is."""
    codes: IntArray
    """(k, number of columns) its context, as places among the values."""
    values: tuple[Mapping[str, Any], ...]
    """The values of each column, by their texts."""

    def contexts(self) -> Texts:
        """(k, number of columns), as texts."""
        columns = [np.array([*values], dtype=object) for values in self.values]
        return np.stack([one[code] for one, code in zip(columns, self.codes.T, strict=True)], 1)

    @cached_property
    def in_order(self) -> tuple[IntArray, IntArray]:
        """Rows in the order of their keys, and these."""
        keys = self.keys(self.base, list(self.codes.T))
        order = np.argsort(keys, kind="stable")
        return order, keys[order]

    def keys(self, base: IntArray, codes: Sequence[IntArray]) -> IntArray:
        """A number for each item in a context."""
        keys = base
        for column, values in zip(codes, self.values, strict=True):
            keys = keys * len(values) + column
        return keys


def _whole(column: Any) -> tuple[IntArray, BoolArray]:
    """A pyarrow column as whole numbers, and where it has one: any number may be an id."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if pa.types.is_string(column.type):
            column = pc.utf8_trim_whitespace(column)
        whole = column.cast(pa.int64())
    except pa.ArrowInvalid:  # the odd one out is found one by one
        texts = (id_text(value.as_py()) for value in column)
        numbers = [int(text) if _WHOLE.fullmatch(text) else None for text in texts]
        return _whole(pa.array(numbers, pa.int64()))
    known = np.asarray(whole.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    number = np.asarray(whole.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    return number, known
