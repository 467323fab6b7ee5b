"""Vectors as one column of a pandas data frame: rows move, the matrix stays where it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype

from sparse_prefgp.data.vectors import VectorRows
from sparse_prefgp.support.arrays import BoolArray


class VectorDtype(ExtensionDtype):
    """The type of a column of vectors, such as `vector[768]`."""

    type = np.ndarray
    _metadata = ("width",)

    def __init__(self, width: int) -> None:
        self.width = width

    @classmethod
    def construct_array_type(cls) -> Any:
        """What holds such values."""
        return VectorColumn

    @property
    def name(self) -> str:  # type: ignore[override]
        """With the length of the vectors."""
        return f"vector[{self.width}]"


class VectorColumn(ExtensionArray):
    """A column of vectors without missing ones, which cannot be changed.

    :param rows: the vectors.
    """

    def __init__(self, rows: VectorRows) -> None:
        self.rows = rows

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> VectorColumn:
        if isinstance(scalars, VectorColumn):
            return scalars
        return cls(VectorRows(np.stack([np.asarray(one, dtype=np.float32) for one in scalars])))

    @property
    def dtype(self) -> VectorDtype:
        """With the length of the vectors."""
        return VectorDtype(self.rows.width)

    @property
    def nbytes(self) -> int:
        """Of the matrix, which other columns may show rows of too."""
        return int(self.rows.matrix.nbytes)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, (int, np.integer)):
            row = int(item) + (len(self) if item < 0 else 0)
            if not 0 <= row < len(self):
                raise IndexError(f"There is no row {item} of {len(self)}.")
            return self.rows.chunk(row, row + 1)[0]
        if isinstance(item, slice):
            return VectorColumn(self.rows.select(item))
        index = pd.api.indexers.check_array_indexer(self, item)
        return VectorColumn(self.rows.select(np.arange(len(self))[index]))

    def __iter__(self) -> Iterator[Any]:
        for _, chunk in self.rows.chunks():
            yield from chunk

    def take(
        self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None
    ) -> VectorColumn:
        """Some of the rows.

        :raises ValueError: a row that is to be filled in, as no vector is missing.
        """
        index = np.asarray(indices, dtype=np.int64)
        if allow_fill and (index < 0).any():
            raise ValueError("A column of vectors has no missing ones; give every row a vector.")
        return VectorColumn(self.rows.select(index))

    def isna(self) -> BoolArray:
        """None is missing."""
        return np.zeros(len(self), dtype=bool)

    def copy(self) -> VectorColumn:
        """The same vectors, which cannot be changed."""
        return VectorColumn(self.rows)

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[VectorColumn]) -> VectorColumn:
        rows = to_concat[0].rows
        for one in to_concat[1:]:
            rows = rows.followed_by(one.rows)
        return cls(rows)

    def _formatter(self, boxed: bool = False) -> Any:
        return lambda vector: f"vector of {len(vector)}"
