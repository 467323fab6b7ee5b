"""Columns of items that hold texts, and items with all that was given along with them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sparse_prefgp.data.features import FeatureTransform, as_column, require_pandas, texts_in
from sparse_prefgp.data.texts import said_of_texts
from sparse_prefgp.data.vectors import VectorRows, checked_matrix
from sparse_prefgp.io.dates import REMEDY, in_iso
from sparse_prefgp.io.files import Source, Table, column_names, load_items
from sparse_prefgp.io.vectors import holds_vectors, with_embedding, with_vectors
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.words import shortened

Encoder = Callable[[list[str]], Any]


def with_texts(
    items: Source | None, text: str | Sequence[str], encode: Encoder | None = None
) -> Table:
    """Items of which some columns are texts, for whatever takes items.

    Features are made of them when a model is fitted: statistics of their surface, directions of
    their words, and a score by the words that won training duels, see `data/texts.py`. Missing
    texts are empty ones.

    :param items: path or data frame, as `read_duels` takes it.
    :param text: names of the columns.
    :param encode: makes vectors (n, E) of n texts, which become a block of features named `x
        vectors` for a column `x`. A saved model does not know it: items that it is asked about need
        the vectors too, `with_texts(items, text, encode)`.
    :raises ValueError: no items; a column that is missing or holds numbers; what `encode` returns
        is no (n, E) array of numbers.
    """
    names = column_names([text] if isinstance(text, str) else text, "text")
    if encode is not None and not callable(encode):
        raise ValueError(
            f"text_features is {shortened(encode)}, no function; give one that makes an array "
            "(n, E) of a list of n texts."
        )
    if items is None:
        raise together.refused(texts=True, no_items=True)
    table = load_items(items)
    found: dict[str, Any] = {}
    for name in names:
        table.require(name)
        texts = _checked_texts(
            table, name, "leave it out of --text (text=), to be a feature as it is"
        )
        if encode is not None:
            made = checked_matrix(encode(texts), f"What text_features made of {name!r}")
            if len(made) != len(texts):
                raise ValueError(
                    f"text_features made {len(made):,} vectors of {len(texts):,} texts of "
                    f"{name!r}; return one for each, in their order."
                )
            found[f"{name} vectors"] = as_column(VectorRows(made), table.frame.index)
    return replace(
        table,
        frame=table.frame.assign(**found),
        texts=(*table.texts, *(name for name in names if name not in table.texts)),
        beside=(*table.beside, *names, *found),
    )


def features_like(
    table: Table, transform: FeatureTransform, order: str | None = None
) -> FloatArray:
    """Features (n, D) of items that a fitted model is asked about.

    Their texts and vectors are checked, and warned of, as those that the model was fitted to.

    :param transform: how features were made.
    :param order: in which order day and month stood in the dates that the model has learned from.
    :raises ValueError: texts that are numbers or vectors; vectors that are not finite or of
        different lengths; what `FeatureTransform.apply` raises.
    """
    columns = table.frame.columns
    for name in transform.raw_columns:
        if name not in transform.vectors:
            table.require(name)
    for name in transform.text_columns:
        if name in columns and name not in table.texts:
            _checked_texts(table, name, "give the texts, of which the model has features")
    table, _ = with_vectors(table, [name for name in transform.vectors if name in columns])
    table = in_iso(table, transform.numeric_columns, order, REMEDY)
    return transform.apply(table.frame, table.row)


def _checked_texts(table: Table, name: str, remedy: str) -> list[str]:
    """A column of texts; says what they lack.

    :param remedy: against numbers or vectors in their place.
    :raises ValueError: a column of numbers or vectors.
    """
    column = table.frame[name]
    pd = require_pandas()
    what = None
    if pd.api.types.is_numeric_dtype(column.dtype) and not column.isna().all():
        what = f"numbers, such as {column.dropna().iloc[0]}"
    elif holds_vectors(column):
        what = "lists or vectors"
    if what is not None:
        raise ValueError(
            f"The column {name!r} of {table.name} holds {what}, and no texts; {remedy}."
        )
    texts = texts_in(table.frame, name)
    for said in said_of_texts(texts, table.row):
        warnings.warn(f"Of the texts {name!r}, {said}", stacklevel=4)
    return texts


def items_given(
    items: Source | None,
    embedding: Any = None,
    like: Any = None,
    *,
    text: str | Sequence[str] = (),
    text_features: Encoder | None = None,
) -> Any:
    """Items unchanged, or with vectors and texts if there are any.

    :param items: as for `read_duels`.
    :param embedding: as for `with_embedding`.
    :param like: the same.
    :param text: as for `with_texts`.
    :param text_features: its `encode`.
    :raises ValueError: what these two raise.
    """
    if not (embedding is None or (isinstance(embedding, list | tuple) and not embedding)):
        items = with_embedding(items, embedding, like)
    together.check(text_features=text_features is not None, no_texts=not text)
    return with_texts(items, text, text_features) if text else items
