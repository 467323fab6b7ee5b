"""Items in the contexts of duels that are read in chunks: one pass finds which there are."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.items import Items
from sparse_prefgp.data.raw_items import RawItems
from sparse_prefgp.data.row_names import RowNames
from sparse_prefgp.io.columns import feature_kinds
from sparse_prefgp.io.dates import REMEDY, in_iso
from sparse_prefgp.io.files import Table
from sparse_prefgp.io.judgements import refuse_columns_of_items
from sparse_prefgp.io.streams.blocks import SIDES, Coded, Source
from sparse_prefgp.io.streams.items import Lookup, Met
from sparse_prefgp.support.arrays import first_true

# Rows read at a time.
_ROWS = 1 << 18


@dataclass(frozen=True, eq=False)
class InContexts:
    """Items that a stream puts into the contexts of its duels."""

    ids: tuple[Hashable, ...]
    """Of the items."""
    place: Callable[[Met], Items]
    """Makes the rows of what was met."""

    def found_in(self, source: Source) -> tuple[Items, Lookup]:
        """The rows that the duels of a source are between, and how these are found.

        :raises ValueError: an unknown item, or a missing context, with its row.
        """
        ids = Items(np.empty((len(self.ids), 0)), self.ids)
        met = met_in(source, Lookup(ids))
        return self.place(met), Lookup(ids, met)


def met_in(source: Source, ids: Lookup) -> Met:
    """All items of a source in their contexts, in the order of items and of values.

    :raises ValueError: an unknown item, or a missing context, with its row.
    """
    columns = tuple(dict[str, Any]() for _ in source.context)
    found = np.empty((0, 1 + len(columns)), dtype=np.int64)
    position = 0

    def where(i: int) -> str:
        return source.where(position + i)

    for block in source.read(0, source.count_rows(), _ROWS):
        sides = [found]
        assert not isinstance(block, Answers)
        for k, side in enumerate(SIDES):
            codes = [ids.known_rows(block[side], (), side, where)]
            for known, pair in zip(columns, source.context_pairs, strict=True):
                coded = Coded.of(block[pair[k]])
                for i in first_true(coded.missing):
                    raise ValueError(
                        f"Column {pair[k]!r} has no value in {where(i)}; fill in the context of "
                        "that side."
                    )
                for text, value in zip(coded.texts, coded.values, strict=True):
                    if text:
                        known.setdefault(text, value)
                codes.append(coded.numbered({text: i for i, text in enumerate(known)}))
            sides.append(np.column_stack(codes))
        position += len(sides[1])
        found = np.unique(np.concatenate(sides), axis=0)
    return Met(found[:, 0], found[:, 1:], columns)


def placed(raw: RawItems, source: Source) -> InContexts:
    """Items of a table, standardised as rows in their contexts.

    :raises ValueError: a context that is a column of the items, or cannot be a feature.
    """
    names = source.context
    refuse_columns_of_items(names, raw.frame.columns)

    def place(met: Met) -> Items:
        pd = require_pandas()
        # A duel has two sides, so that no value of a column is there once.
        twice = pd.DataFrame(
            {
                name: pd.Series([*values.values()]).iloc[np.tile(code, 2)].to_numpy()
                for name, values, code in zip(names, met.values, met.codes.T, strict=True)
            }
        )
        rows = RowNames("the contexts of the duels")
        values = Table(twice, "the duels", rows, omit="of the context")
        values = in_iso(values, names, remedy=REMEDY)
        kinds = feature_kinds(values, list(names))
        columns = {name: values.frame[name].array[: len(met.base)] for name in names}
        shared = [n for n, pair in zip(names, source.context_pairs, strict=True) if pair == (n, n)]
        found = raw.in_contexts(met.base, columns, kinds, shared, met.contexts())
        return found.standardised(found.learned_transform())

    return InContexts(raw.ids, place)
