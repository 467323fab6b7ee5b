"""Items in the contexts of duels that are read in chunks: one pass finds which there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.contexts import ItemRows
from sparse_prefgp.data.features import FeatureTransform, require_pandas
from sparse_prefgp.data.row_names import RowNames
from sparse_prefgp.io.columns import feature_kinds
from sparse_prefgp.io.dates import REMEDY, in_iso
from sparse_prefgp.io.files import Table, id_text
from sparse_prefgp.io.judgements import refuse_columns_of_items
from sparse_prefgp.io.streams.blocks import SIDES, Coded, Source, plain_cell
from sparse_prefgp.io.streams.items import ItemTable, Places, RawItems
from sparse_prefgp.io.values import unknown_item
from sparse_prefgp.support.arrays import IntArray

# Rows read at a time.
_ROWS = 1 << 18


@dataclass(frozen=True, eq=False)
class Met:
    """The distinct items in contexts that take part in duels."""

    base: IntArray
    """(k,) which of the items each is."""
    codes: IntArray
    """(k, number of columns) its context, as places among the values."""
    texts: tuple[tuple[str, ...], ...]
    """The values of each column, as texts."""
    values: tuple[tuple[Any, ...], ...]
    """The same as they are."""

    def contexts(self) -> npt.NDArray[np.object_]:
        """(k, number of columns), as texts."""
        columns = [np.array(texts, dtype=object) for texts in self.texts]
        return np.stack([one[code] for one, code in zip(columns, self.codes.T, strict=True)], 1)


@dataclass(frozen=True, eq=False)
class InContexts:
    """Items that a stream puts into the contexts of its duels."""

    ids: ItemTable
    """Of the items, of which nothing but the ids count."""
    place: Callable[[Met], ItemTable]
    """Makes the table of rows of what was met."""

    def table(self, source: Source) -> ItemTable:
        """The rows that the duels of a source are between.

        :raises ValueError: an unknown item, or a missing context, with its row.
        """
        return self.place(met_in(source, self.ids))


def met_in(source: Source, ids: ItemTable) -> Met:
    """All items of a source in their contexts, in the order of items and of values.

    :raises ValueError: an unknown item, or a missing context, with its row.
    """
    columns = [dict[str, Any]() for _ in source.context]
    found = np.empty((0, 1 + len(columns)), dtype=np.int64)
    position = 0
    for block in source.read(0, source.count_rows(), _ROWS):
        sides = [found]
        assert not isinstance(block, Answers)
        for k, side in enumerate(SIDES):
            values = block[side]
            base = ids.rows_of(values)
            for i in np.flatnonzero(base < 0)[:1]:
                text, where = id_text(plain_cell(values[int(i)])), source.where(position + int(i))
                raise unknown_item(side, text, where, "the items", "duel", ids.meant(text))
            codes = []
            for known, pair in zip(columns, source.context_pairs, strict=True):
                coded = Coded.of(block[pair[k]])
                missing = coded.missing()
                if missing is not None:
                    raise ValueError(
                        f"Column {pair[k]!r} has no value in "
                        f"{source.where(position + missing)}; fill in the context of that side."
                    )
                for text, value in zip(coded.texts, coded.values, strict=True):
                    if text:
                        known.setdefault(text, value)
                number = {text: i for i, text in enumerate(known)}
                places = np.array([number.get(text, -1) for text in coded.texts], dtype=np.int64)
                codes.append(places[coded.places])
            sides.append(np.column_stack([base, *codes]))
        position += len(sides[1])
        found = np.unique(np.concatenate(sides), axis=0)
    texts = tuple(tuple(known) for known in columns)
    values = tuple(tuple(known.values()) for known in columns)
    return Met(found[:, 0], found[:, 1:], texts, values)


def placed(raw: RawItems, source: Source) -> InContexts:
    """Items of a table, standardised as rows in their contexts.

    :raises ValueError: a context that is a column of the items, or cannot be a feature.
    """
    columns, names = raw.columns, source.context
    refuse_columns_of_items(names, columns.others)
    table = columns.table
    ids = ItemTable(np.empty((len(columns.ids), 0)), columns.ids)

    def place(met: Met) -> ItemTable:
        pd = require_pandas()
        said = pd.DataFrame(
            {
                name: pd.Series(list(values)).iloc[code].to_numpy()
                for name, values, code in zip(names, met.values, met.codes.T, strict=True)
            }
        )
        # A duel has two sides, so that no value of a column is there once.
        twice = pd.concat([said, said], ignore_index=True)
        rows = RowNames("the contexts of the duels", None)
        values = Table(twice, "the duels", rows, omit="of the context")
        values = in_iso(values, names, remedy=REMEDY)
        numeric, categorical = feature_kinds(values, list(names))
        frame = table.frame[columns.others].iloc[met.base].reset_index(drop=True)
        for name in names:
            frame[name] = values.frame[name][: len(said)]
        kinds = (*columns.numeric, *numeric), (*columns.categorical, *categorical)
        where = table.row.select(met.base)
        transform = FeatureTransform.fit(
            frame,
            *kinds,
            where,
            vectors=columns.vectors,
            texts=columns.texts,
            apart=names,
            items=len(np.unique(met.base)),
        )
        shared = [n for n, pair in zip(names, source.context_pairs, strict=True) if pair == (n, n)]
        item_ids, item_rows = ItemRows.placed(
            columns.ids, raw.item_rows, met.base, names, shared, met.contexts()
        )
        return in_rows(
            transform.apply(frame, where),
            item_ids,
            transform,
            met,
            ids,
            met.base if raw.item is None else raw.item[met.base],
            item_rows,
        )

    return InContexts(ids, place)


def in_rows(
    features: Any,
    item_ids: Sequence[Any],
    transform: FeatureTransform | None,
    met: Met,
    ids: ItemTable,
    item: IntArray | None = None,
    item_rows: ItemRows | None = None,
) -> ItemTable:
    """The table of the rows of what was met.

    :param features: (k, D).
    :param item_ids: (k,) of the rows.
    :param ids: of the items, as `InContexts`.
    :param item: (k,) which item each is of.
    :param item_rows: their names and contexts.
    """
    names = None if transform is None else transform.feature_names
    places = Places(ids, met.base, met.codes, met.texts)
    ids_of_rows = tuple(item_ids)
    return ItemTable(features, ids_of_rows, names, transform, item, item_rows, places=places)
