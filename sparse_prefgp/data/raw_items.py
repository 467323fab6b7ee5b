"""Rows of items, or of people, as their table has them, before anything is standardised."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparse_prefgp.data.contexts import ItemRows
from sparse_prefgp.data.features import FeatureTransform, require_pandas
from sparse_prefgp.data.items import Items
from sparse_prefgp.data.row_names import RowNames
from sparse_prefgp.data.word_score import Won
from sparse_prefgp.support.arrays import FloatArray, IntArray, Texts


@dataclass(frozen=True, eq=False)
class RawItems:
    """n rows of a table, and which of its columns are features."""

    frame: Any
    """Data frame with n rows and every column but the id."""
    ids: tuple[Hashable, ...]
    """n distinct names of the rows."""
    row_names: RowNames
    """How a message names each row."""
    numeric: tuple[str, ...] = ()
    """Names of the numeric columns that are features."""
    categorical: tuple[str, ...] = ()
    """Names of the columns of categories that are features."""
    vectors: tuple[str, ...] = ()
    """Names of the columns of vectors, which are features."""
    texts: tuple[str, ...] = ()
    """Names of the columns of texts, of which features are made."""
    apart: tuple[str, ...] = ()
    """Numeric and categorical columns that stay features of their own where others are reduced,
    besides those of the context.
    """
    item: IntArray | None = None
    """(n,) which item each row is of, as a number; None where each is one."""
    item_rows: ItemRows | None = None
    """Names of these items, and the context of each row; None where each is an item."""

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, known: Items) -> RawItems:
        """Items as a table, whose columns are their features."""
        d, n = known.num_features, len(known)
        names = known.feature_names or tuple(f"column {j}" for j in range(d))
        frame = require_pandas().DataFrame(known.features, columns=list(names))
        ids = tuple(range(n)) if known.ids is None else known.ids
        rows = RowNames("the items", None)
        return cls(frame, ids, rows, names, item=known.item, item_rows=known.item_rows)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns that are features, or of which features are made."""
        return (*self.numeric, *self.categorical, *self.vectors, *self.texts)

    @property
    def num_features(self) -> int:
        """The number of columns that are features."""
        return len(self.feature_names)

    @property
    def context(self) -> tuple[str, ...]:
        """The columns that are no items' own, but their context's."""
        return () if self.item_rows is None else self.item_rows.columns

    def select(self, rows: IntArray) -> RawItems:
        """Some of the rows, by their numbers."""
        return replace(
            self,
            frame=self.frame.iloc[rows].reset_index(drop=True),
            ids=tuple(self.ids[i] for i in rows),
            row_names=self.row_names.select(rows),
            item=None if self.item is None else self.item[rows],
            item_rows=None if self.item_rows is None else self.item_rows.select(rows),
        )

    def in_contexts(
        self,
        base: IntArray,
        columns: Mapping[str, Any],
        kinds: tuple[Sequence[str], Sequence[str]],
        shared: Sequence[str],
        texts: Texts,
    ) -> RawItems:
        """Rows (k,) of these items in contexts, whose columns are features too.

        :param base: (k,) which of the items each is.
        :param columns: of the context, (k,) each.
        :param kinds: which of them are numeric, and which categorical.
        :param shared: those that belong to the duel.
        :param texts: (k, number of columns), the same as texts.
        """
        found, names = self.select(base), tuple(columns)
        ids, item_rows = ItemRows.placed(self.ids, self.item_rows, base, names, shared, texts)
        return replace(
            found,
            frame=found.frame.assign(**columns),
            ids=ids,
            numeric=(*self.numeric, *kinds[0]),
            categorical=(*self.categorical, *kinds[1]),
            item=base if found.item is None else found.item,
            item_rows=item_rows,
        )

    def learned_transform(self, won: Won | None = None) -> FeatureTransform:
        """What makes features of such rows, learned from these.

        :param won: as of `FeatureTransform.fit`.
        :raises ValueError: what `FeatureTransform.fit` raises.
        """
        return FeatureTransform.fit(
            self.frame,
            self.numeric,
            self.categorical,
            self.row_names,
            vectors=self.vectors,
            texts=self.texts,
            apart=(*self.context, *self.apart),
            items=None if self.item_rows is None else len({*self.item_rows.bases}),
            won=won,
        )

    def standardised(self, transform: FeatureTransform) -> Items:
        """The rows with features.

        :raises ValueError: what `FeatureTransform.apply` and `Items.of` raise.
        """
        values = transform.apply(self.frame, self.row_names)
        names = transform.feature_names
        return Items.of(values, self.ids, names, transform, self.item, self.item_rows)


class OfItems:
    """Views of the items between which answers are."""

    known: Items
    described: Items | RawItems
    """The same, or the table of them of which features are yet to be made."""

    @property
    def items(self) -> FloatArray:
        """(n, D) features, one row per item, read-only."""
        return self.known.features

    @property
    def item(self) -> IntArray:
        """(n,) which item each row is of; as a rule the row itself."""
        return np.arange(self.num_items) if self.described.item is None else self.described.item

    @property
    def item_ids(self) -> tuple[Hashable, ...] | None:
        """n names of the rows; None without."""
        return self.described.ids

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """D names; None without."""
        return self.known.feature_names

    @property
    def transform(self) -> FeatureTransform | None:
        """How the features were made of a raw table; None where they were given as they are."""
        return self.known.transform

    @property
    def item_rows(self) -> ItemRows | None:
        """Which item each row is, and in which context; None where each is an item."""
        return self.described.item_rows

    @property
    def num_items(self) -> int:
        """n, the number of items, compared or not."""
        return len(self.described)

    @property
    def num_features(self) -> int:
        """D, the number of feature columns."""
        return self.known.num_features

    @property
    def has_features(self) -> bool:
        """Whether items have any feature."""
        return self.described.num_features > 0
