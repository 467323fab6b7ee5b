"""Vectors of items: columns of lists, and NumPy files or arrays next to the table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.features import FeatureTransform, as_column, require_pandas
from sparse_prefgp.data.row_names import RowNames
from sparse_prefgp.data.vectors import (
    VectorRows,
    checked_matrix,
    missing_cell,
    stacked,
    vector_rows,
)
from sparse_prefgp.io.files import ITEM_ID, Source, Table, id_text, load_items
from sparse_prefgp.io.ids import Ids
from sparse_prefgp.support.numpy_files import read_arrays
from sparse_prefgp.support.words import shortened

# The name of vectors that nobody named.
EMBEDDING = "embedding"
_IDS = "ids"
_NAMED = re.compile(r"([^=/\\]+)=(.+)", re.DOTALL)


def with_vectors(items: Table, columns: Sequence[str]) -> tuple[Table, tuple[str, ...]]:
    """A table in which columns of lists, or of arrays, are columns of vectors; and which these are.

    :param columns: those that count; the others stay as they are.
    :raises ValueError: vectors of different lengths, missing ones, or some that are not finite,
        with the row.
    """
    found: dict[str, Any] = {}
    for name in columns:
        column = items.frame[name]
        rows = vector_rows(column)
        if rows is None and _holds_lists(column):
            rows = VectorRows(stacked(column, name, items.row))
        if rows is not None:
            rows.check(name, items.row)
            found[name] = as_column(rows, column.index)
    return replace(items, frame=items.frame.assign(**found)), tuple(found)


def with_embedding(items: Source | None, embedding: Any, like: Any = None) -> Table:
    """Items with vectors next to their table, for whatever takes items.

    :param items: path or data frame, as `read_duels` takes it; None for items of which nothing but
        vectors is known, whose ids are those of the vectors, or row numbers.
    :param embedding: an (n, E) array of numbers, the path of a `.npy` file with one, whose rows are
        in the order of the items, or of a `.npz` file with one and `ids`; or a mapping from names
        to these, for several blocks. A `.npy` file is not read as a whole.
    :param like: a fitted model, whose only vectors these are whatever their name; by default a file
        gives the name, and an array is `embedding`.
    :raises ValueError: a file that is missing or no such file; an array that is not (n, E) or not
        of numbers; another number of rows than there are items; ids that are missing, there twice
        or none of the items'; a column of that name in the table.
    """
    blocks = [_read(name, source) for name, source in _named(embedding, like).items()]
    if not blocks:
        raise ValueError("No vectors were given; give an array or a file for embedding.")
    table = _items_of(blocks) if items is None else load_items(items)
    found = {}
    for block in blocks:
        if block.name in table.frame.columns:
            raise ValueError(
                f"The vectors {block.name!r} ({block.source}) have the name of a column of "
                f"{table.name}; name them otherwise, as in --embedding other={block.source} "
                "(embedding={'other': …})."
            )
        found[block.name] = as_column(block.placed(table), table.frame.index)
    frame, beside = table.frame.assign(**found), (*table.beside, *found)
    return replace(table, frame=frame, beside=beside)


def paths_of(embedding: Any) -> tuple[Path, ...]:
    """The files among what was given."""
    return tuple(Path(source) for _, source in _each(embedding) if _is_path(source))


class _Block(NamedTuple):
    """Vectors that were given."""

    name: str
    source: str
    """How a message names where they are from."""
    matrix: npt.NDArray[Any]
    ids: tuple[str, ...] | None = None
    """Of its rows, as texts; None for the order of the items."""

    def placed(self, table: Table) -> VectorRows:
        """The vectors of the items of a table, in their order.

        :raises ValueError: another number of rows; an item without a vector.
        """
        n = len(table.frame)
        if self.ids is None:
            if len(self.matrix) != n:
                begin = re.sub("^the ", "The ", self.source)
                raise ValueError(
                    f"{begin} has {len(self.matrix):,} rows, but {table.name} has "
                    f"{n:,} items; give a vector for each, in their order, or a .npz file with "
                    "their ids."
                )
            return VectorRows(self.matrix)
        theirs = Ids({text: i for i, text in enumerate(self.ids)})
        texts = [id_text(value) for value in table.frame[table.id_column]]
        rows = [theirs.find(text) for text in texts]
        missing = [i for i, row in enumerate(rows) if row is None]
        if missing:
            i, share = missing[0], f"{len(missing):,} of {n:,}"
            raise ValueError(
                f"The item {texts[i]!r} in {table.row(i)} has no vector in {self.source} (ids such "
                f"as {self.ids[0]!r}; {share} items have none); add it, or leave the item out."
            )
        return VectorRows(self.matrix, np.array(rows, dtype=np.int64))


def _named(embedding: Any, like: Any) -> dict[str, Any]:
    """Vectors by their names."""
    found: dict[str, Any] = {}
    for name, source in _each(embedding):
        if name in found:
            raise ValueError(
                f"There are two blocks of vectors named {name!r}; name them, as in --embedding "
                "a=FILE.npy --embedding b=OTHER.npy (embedding={'a': …, 'b': …})."
            )
        found[name] = source
    transform = like if like is None or isinstance(like, FeatureTransform) else like.duels.transform
    known = () if transform is None else transform.vectors
    if len(known) == len(found) == 1:
        return dict(zip(known, found.values(), strict=True))
    for name in found if like is not None else ():
        if name not in known:
            has, remedy = "none", "leave them out"
            if known:
                has = ", ".join(map(repr, known))
                remedy = f"name them as there, as in --embedding {known[0]}=FILE.npy, or {remedy}"
            raise ValueError(
                f"The vectors {name!r} are none of the model's, which has {has}; {remedy}."
            )
    return found


def _each(embedding: Any) -> list[tuple[str, Any]]:
    """Names of vectors, and where they are."""
    if isinstance(embedding, Mapping):
        return [(str(name), source) for name, source in embedding.items()]
    several = isinstance(embedding, list | tuple) and all(map(_is_path, embedding))
    return [*map(_own_name, embedding if several else [embedding])]


def _is_path(source: Any) -> bool:
    return isinstance(source, str | Path)


def _own_name(source: Any) -> tuple[str, Any]:
    """The name of vectors, and where they are: `name=FILE`, a file, or an array."""
    if not _is_path(source):
        return EMBEDDING, source
    named = _NAMED.fullmatch(str(source))
    if named is not None and not Path(source).exists():
        return named[1].strip(), Path(named[2])
    return Path(source).stem, source


def _read(name: str, source: Any) -> _Block:
    if not _is_path(source):
        what = f"The array of vectors {name!r}"
        return _Block(name, f"the array {name!r}", checked_matrix(source, what))
    path = Path(source)
    if path.is_dir():
        raise ValueError(f"The vectors {str(path)!r} are a folder; give a .npy or .npz file.")
    if not path.is_file():
        raise ValueError(f"The file of vectors {str(path)!r} does not exist; correct the path.")
    try:
        found = read_arrays(path)
    except ValueError as error:
        if "Object arrays" in str(error) or "Python objects" in str(error):
            raise ValueError(
                f"The file {path.name} holds Python objects, which are not read; save an array of "
                "numbers, such as np.stack(vectors).astype(np.float32), and ids as texts "
                "(np.array(ids, dtype=str))."
            ) from None
        raise ValueError(
            f"The file {str(path)!r} cannot be read as vectors; give a .npy file with an array (n, "
            "E), as np.save writes it, or a .npz file with one and ids."
        ) from None
    if isinstance(found, np.ndarray):
        return _Block(name, path.name, checked_matrix(found, f"The file {path.name}"))
    return _of_archive(name, path, found)


def _of_archive(name: str, path: Path, arrays: dict[str, npt.NDArray[Any]]) -> _Block:
    others = [key for key in arrays if key != _IDS]
    if len(others) != 1:
        raise ValueError(
            f"The file {path.name} has {len(others)} arrays besides 'ids' "
            f"({', '.join(others) or 'none'}); give one, a row for each id."
        )
    matrix = checked_matrix(arrays[others[0]], f"The array {others[0]!r} of {path.name}")
    if _IDS not in arrays:
        return _Block(name, path.name, matrix)
    ids = arrays[_IDS]
    if ids.ndim != 1 or ids.dtype.kind not in "iufU" or len(ids) != len(matrix):
        raise ValueError(
            f"The ids of {path.name} have shape {ids.shape} and type {ids.dtype}; give texts or "
            f"whole numbers, one for each of its {len(matrix):,} vectors."
        )
    texts = tuple(id_text(value) for value in ids.tolist())
    first: dict[str, int] = {}
    for i, text in enumerate(texts):
        if not text or first.setdefault(text, i) != i:
            shown = f"the id {shortened(text)} twice" if text else "an empty id"
            raise ValueError(f"The file {path.name} has {shown}; give each item one vector.")
    return _Block(name, path.name, matrix, texts)


def _items_of(blocks: Sequence[_Block]) -> Table:
    """A table of the items that vectors are of."""
    ids = next((block.ids for block in blocks if block.ids is not None), None)
    texts = [str(i) for i in range(len(blocks[0].matrix))] if ids is None else list(ids)
    name = f"the items of {blocks[0].source}"
    frame = require_pandas().DataFrame({ITEM_ID: texts})
    return Table(frame, name, RowNames(name), ITEM_ID)


def holds_vectors(column: Any) -> bool:
    """Whether it is a column of vectors, or the first cell that holds anything is a list."""
    return vector_rows(column) is not None or _holds_lists(column)


def _holds_lists(column: Any) -> bool:
    """Whether the first cell that holds anything is a list or an array."""
    if np.dtype(object) != getattr(column, "dtype", None):
        return False
    present = (cell for cell in column if not missing_cell(cell))
    return isinstance(next(present, None), list | tuple | np.ndarray)
