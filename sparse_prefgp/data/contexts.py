"""What the rows of items are: each is an item, and perhaps an item in a context."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparse_prefgp.data.answers import Codes
from sparse_prefgp.data.kept import in_tuples
from sparse_prefgp.support.arrays import IntArray, Texts


def names_of_rows(
    ids: Sequence[Hashable] | None, rows: ItemRows | None
) -> Sequence[Hashable] | None:
    """(n,) the name of the item of each row; None for items without ids.

    :param ids: (n,) of the rows.
    :param rows: which item each is; None where each row is one.
    """
    return ids if rows is None else rows.names


@dataclass(frozen=True, eq=False)
class ItemRows:
    """Of which item each of n rows is, and in which context."""

    names: tuple[Hashable, ...]
    """(n,) the name of the item of each row: what is ranked."""
    bases: tuple[Hashable, ...]
    """(n,) the id of its row in the table of items, which has no contexts."""
    columns: tuple[str, ...]
    """Names of the context; none where rows are states of items alone."""
    shared: tuple[str, ...]
    """Those of them that are one column of the duels, the same on both sides."""
    values: Texts
    """(n, number of columns) the context of each row, as text."""
    column: str | None = None
    """The column of the table of items that names them; None where a row of it is an item."""

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def placed(
        cls,
        ids: Sequence[Hashable],
        before: ItemRows | None,
        base: IntArray,
        columns: Sequence[str],
        shared: Sequence[str],
        texts: Texts,
    ) -> tuple[tuple[Hashable, ...], ItemRows]:
        """Rows (k,) of items in contexts, and the ids of these rows.

        :param ids: (n,) of the items in their table.
        :param before: which item each of these is; None where each is one.
        :param base: (k,) which of them each row is of.
        :param columns: of the context.
        :param shared: those that belong to the duel.
        :param texts: (k, number of columns).
        """
        bases = tuple(ids[i] for i in base)
        found = cls(
            bases if before is None else before.select(base).names,
            bases,
            tuple(columns),
            tuple(shared),
            texts,
            None if before is None else before.column,
        )
        return tuple(row_id(b, columns, row) for b, row in zip(bases, texts, strict=True)), found

    @property
    def num_items(self) -> int:
        """How many items the rows are of."""
        return len(set(self.names))

    def select(self, index: IntArray) -> ItemRows:
        """Some of the rows, by their numbers."""
        return replace(
            self,
            names=tuple(self.names[i] for i in index),
            bases=tuple(self.bases[i] for i in index),
            values=self.values[index],
        )

    def followed_by(self, other: ItemRows) -> ItemRows:
        """These rows and then those."""
        return replace(
            self,
            names=self.names + other.names,
            bases=self.bases + other.bases,
            values=np.concatenate([self.values, other.values]),
        )

    def contexts(self, comparisons: IntArray) -> Contexts:
        """The distinct contexts of the rows that were compared, with how often each was.

        :param comparisons: (n,) duels of each row.
        """
        code = Codes.of([tuple(row) for row in self.values.tolist()]).numbers
        counts = np.bincount(code, weights=comparisons).astype(np.int64)
        first = np.unique(code, return_index=True)[1]
        used = np.flatnonzero(counts)
        return Contexts(self.columns, self.values[first[used]], counts[used])

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and texts, ready for JSON."""
        return {**vars(self), "values": self.values.tolist()}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> ItemRows:
        """The inverse of `to_dict`."""
        shape = len(found["names"]), len(found["columns"])
        values = np.array(found["values"], dtype=object).reshape(shape)
        return cls(**{name: in_tuples(x) for name, x in found.items()} | {"values": values})


@dataclass(frozen=True, eq=False)
class Contexts:
    """Distinct contexts, and how often duels had each."""

    columns: tuple[str, ...]
    values: Texts
    """(c, number of columns), as text."""
    counts: IntArray
    """(c,) sides of duels, counts included."""

    def __len__(self) -> int:
        return len(self.counts)

    def where(self, wanted: Sequence[dict[str, str]]) -> Contexts:
        """Those that agree with any of some stated ones, each of which names some of the columns.

        :raises ValueError: a column that is none of the context; a value, or values together, that
            no duel had.
        """
        chosen = np.zeros(len(self), dtype=bool)
        for stated in wanted:
            agree = np.ones(len(self), dtype=bool)
            for name, value in stated.items():
                if name not in self.columns:
                    raise ValueError(
                        f"The model knows no context {name!r}; it knows "
                        f"{', '.join(map(repr, self.columns)) or 'none'}."
                    )
                here = self.values[:, self.columns.index(name)]
                if not (here == value).any():
                    raise ValueError(
                        f"No duel of the model has {name}={value}; choose from "
                        f"{', '.join(sorted(set(here)))}."
                    )
                agree &= here == value
            if not agree.any():
                raise ValueError(f"No duel of the model has {in_words(stated)} together.")
            chosen |= agree
        return Contexts(self.columns, self.values[chosen], self.counts[chosen])


def in_words(context: dict[str, str]) -> str:
    """A context as it stands in ids, such as `surface=clay, home=1`."""
    return ", ".join(f"{name}={value}" for name, value in context.items())


def row_id(base: Hashable, columns: Sequence[str], values: Sequence[str]) -> Hashable:
    """The id of a row: that of the item, and its context if it has any."""
    if not columns:
        return base
    return f"{base} @ {in_words(dict(zip(columns, values, strict=True)))}"
