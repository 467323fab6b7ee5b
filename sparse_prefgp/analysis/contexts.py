"""Items of a model with contexts: the rows that tables of duels and pairs ask for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.analysis.items import (
    ItemSet,
    Texts,
    feature_columns,
    is_array,
    known_items,
    named_rows,
    of_rows,
    unknown_levels,
)
from sparse_prefgp.data.contexts import Contexts, ItemRows, row_id
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import FeatureTransform, require_pandas
from sparse_prefgp.data.roles import ORDER
from sparse_prefgp.io.files import Table, id_text, load_items
from sparse_prefgp.io.judgements import LOSER, WINNER
from sparse_prefgp.io.texts import features_like
from sparse_prefgp.io.values import OWN_ITEMS, refuse_itself
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.words import listing


def has_contexts(model: Predicts, items: Any = None) -> bool:
    """Whether items are to be put into contexts: the model knows some, and the items given do not
    stand in theirs, with a column for each, already."""
    rows = model.duels.item_rows
    if rows is None or not rows.columns or isinstance(items, ItemSet):
        return False
    if items is None:
        return True
    return not is_array(items) and not set(rows.columns) <= set(load_items(items).frame.columns)


def bases_of(model: Predicts, items: Any = None) -> ItemSet:
    """The items of a raw table, and after them those of the model that are not among them; as of
    `candidates_of`.

    :raises ValueError: what `resolve_items` raises of a table.
    """
    own = candidates_of(model)
    return own if items is None else candidates_of(model, items).followed_by(own)


def candidates_of(model: Predicts, items: Any = None) -> ItemSet:
    """The items of a raw table, by default those of the model, as their table has them: without
    contexts. What stands in columns of these has no meaning, and none is known to the model."""
    duels, rows = model.duels, _rows(model.duels)
    if items is None:
        first = np.sort(np.unique(list(map(id_text, rows.bases)), return_index=True)[1])
        own = rows.select(first)
        return _without_contexts(own.names, own.bases, duels.items[first], {}, OWN_ITEMS)
    table, transform = load_items(items), duels.transform
    assert transform is not None  # contexts are columns of tables
    ids, _ = table.ids()
    # Some value for each column of the context, to be replaced.
    some = dict.fromkeys(rows.columns, 0.0) | dict.fromkeys(transform.dates, "1970-01-01")
    some |= {name: transform.levels(name)[0] for name in transform.categorical}
    frame = table.frame.assign(**{name: some[name] for name in rows.columns})
    features = features_like(replace(table, frame=frame), transform, duels.roles.get(ORDER))
    unknown = unknown_levels(duels, features, frame)
    return _without_contexts(named_rows(duels, table, ids), ids, features, unknown, table.name)


def _without_contexts(
    names: tuple[Hashable, ...],
    ids: tuple[Hashable, ...],
    features: FloatArray,
    levels: Mapping[str, Texts],
    name: str,
) -> ItemSet:
    n = len(ids)
    rows = ItemRows(names, ids, (), (), np.empty((n, 0), dtype=object))
    nothing = np.zeros(n, dtype=np.int64)
    return ItemSet(ids, features, nothing - 1, nothing, {}, levels, name, rows)


def _rows(duels: Duels) -> ItemRows:
    assert duels.item_rows is not None
    return duels.item_rows


def in_rows(
    model: Predicts, bases: ItemSet, base: IntArray, values: npt.NDArray[np.object_]
) -> ItemSet:
    """Items in contexts, (k,) rows.

    :param base: (k,) which of the bases each is.
    :param values: (k, number of columns) the context of each, as text.
    :raises ValueError: a value that cannot be one of its column.
    """
    duels = model.duels
    rows, transform = _rows(duels), duels.transform
    assert transform is not None
    some = bases.select(base)
    features = some.inputs  # a copy, as what is chosen by numbers is
    frame = require_pandas().DataFrame(values, columns=list(rows.columns))
    for name in rows.columns:
        if name not in transform.categorical:
            frame[name] = _numbers(frame[name])
    place = np.array(feature_columns(duels), dtype=object)
    levels = {**some.levels_never_seen}
    for name in rows.columns:
        if name not in place:  # the same in all training duels
            continue
        units = transform.units(name)
        if units is None:
            part = FeatureTransform((), (), (), (name,), (transform.levels(name),))
        else:
            dates = (name,) if name in transform.dates else ()
            part = FeatureTransform((name,), units[:1], units[1:], dates=dates)
        block = part.apply(frame, lambda i: f"the context {values[i].tolist()}")
        features[:, place == name] = block
        if name in transform.categorical:
            levels[name] = np.where(block.any(1), "", frame[name]).astype(object)
    made = replace(rows, names=tuple(some.names), bases=some.ids, values=values)
    both = zip(some.ids, values, strict=True)
    ids = tuple(row_id(one, rows.columns, value) for one, value in both)
    return of_rows(model, ids, features, made, levels, bases.name)


def _numbers(texts: Any) -> list[Any]:
    """Texts as numbers where they are some; what is none is refused by the column."""
    found: list[Any] = []
    for text in texts:
        try:
            found.append(float(text))
        except ValueError:
            found.append(text)
    return found


# ---- tables ------------------------------------------------------------------------------------


def met(
    model: Predicts, items: Any, table: Table, sides: tuple[str, str], what: str = "duel"
) -> tuple[ItemSet, Table]:
    """The items that a table of duels or pairs may name, and the table with ids of rows.

    Of a model without contexts the table is as it was. Else its ids are those of the items, and
    columns of the context say in which context each side is.

    :param sides: the columns of ids.
    :raises ValueError: an id that is unknown or missing, with its row; a column of the context that
        is missing, or empty in a row.
    """
    if not has_contexts(model, items):
        return known_items(model, items), table
    bases = bases_of(model, items)
    base = [bases.by_id.rows_in(table, side, what) for side in sides]
    if what == "duel":
        same = base[0] == base[1]
        refuse_itself(same, table.row, lambda i: f"item {str(bases.ids[base[0][i]])!r}")
    values = _contexts_of(model.duels, table, sides)
    found = in_rows(model, bases, np.concatenate(base), values)
    names = np.empty(len(found), dtype=object)
    names[:] = [id_text(value) for value in found.ids]
    k = len(table.frame)
    frame = table.frame.assign(**{sides[0]: names[:k], sides[1]: names[k:]})
    _, first = np.unique(names.astype(str), return_index=True)
    return found.select(np.sort(first)), replace(table, frame=frame)


def _contexts_of(duels: Duels, table: Table, sides: tuple[str, str]) -> npt.NDArray[np.object_]:
    """The contexts of the first sides of all rows of a table, and then of the second ones."""
    rows, frame = _rows(duels), table.frame
    found = np.empty((2, len(frame), len(rows.columns)), dtype=object)
    for j, name in enumerate(rows.columns):
        of_sides = [tuple(f"{s}_{name}" for s in w) for w in (sides, (WINNER, LOSER))]
        same = [(name, name)]  # a column of the duel; where each side has its own, what both have
        pairs = [*same, *of_sides] if name in rows.shared else [*of_sides, *same]
        pair = next((pair for pair in pairs if all(c in frame.columns for c in pair)), None)
        if pair is None:
            columns = " and ".join(repr(x) for x in dict.fromkeys(pairs[0]))
            raise ValueError(
                f"The model knows its items by the context {name!r} (--context), but {table.name} "
                f"has no {columns}; add what it was (columns found: {listing(frame.columns)})."
            )
        for values, column in zip(found, pair, strict=True):
            texts = [id_text(value) for value in frame[column]]
            if "" in texts:
                row = table.row(texts.index(""))
                raise ValueError(
                    f"Column {column!r} has no value in {row}; fill in the context of that side."
                )
            values[:, j] = texts
    return found.reshape(-1, len(rows.columns))


# ---- stated contexts ---------------------------------------------------------------------------


def contexts_at(model: Predicts, at: Sequence[str | Mapping[str, Any]] = ()) -> Contexts:
    """The contexts of the training duels, or those of them that agree with any of some stated ones.

    :param at: such as `surface=clay, home=1`, or the same as a mapping; a column that is not named
        may be any.
    :raises ValueError: a model without contexts; what `stated` and `Contexts.where` raise.
    """
    rows = model.duels.item_rows
    if rows is None or not rows.columns:
        raise together.refused(context=f"the context {at[0]!r}", no_contexts=True)
    seen = rows.contexts(model.duels.comparisons)
    return seen.where([stated(one) for one in at]) if at else seen


def stated(context: str | Mapping[str, Any]) -> dict[str, str]:
    """A context in words, such as `surface=clay, home=1`, by its columns.

    :raises ValueError: words that are not of that form.
    """
    if isinstance(context, Mapping):
        return {str(name): id_text(value) for name, value in context.items()}
    found: dict[str, str] = {}
    for part in context.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ValueError(
                f"The context {context!r} is not of the form surface=clay,home=1; correct it "
                "(--at)."
            )
        found[name.strip()] = value.strip()
    return found
