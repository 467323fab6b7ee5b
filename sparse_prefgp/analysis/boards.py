"""What a ranking is of: items, wherever their rows are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparse_prefgp.analysis.averaging import WeightedRows, averaged
from sparse_prefgp.analysis.contexts import (
    bases_of,
    candidates_of,
    contexts_at,
    has_contexts,
    in_rows,
)
from sparse_prefgp.analysis.items import ItemSet, known_items, numbered_inputs, resolve_items
from sparse_prefgp.data.answers import Codes
from sparse_prefgp.data.contexts import Contexts, ItemRows, in_words, names_of_rows
from sparse_prefgp.data.slices import date_text, rows_in_force
from sparse_prefgp.io.files import id_text
from sparse_prefgp.models.posterior import Posterior
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

EACH, LAST, DATE = "each", "last", "date"
# An average is over so many rows of an item at least, where it has them, and over so many rows of
# all items together where that allows more of each: time goes by the square of their number.
ROWS_OF_EACH, ROWS_OF_ALL = 10, 10_000
At = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Board:
    """Items to be ranked, and a posterior of their utilities."""

    items: ItemSet
    inputs: FloatArray
    """What the posterior takes, a row for each."""
    posterior: Posterior
    rows_of_each: int = 1
    """The largest number of rows that an item has."""
    averaged: str = ""
    """Over what a utility is averaged, in words; empty where it is not."""
    contexts: IntArray | None = None
    """(n,) numbers of the contexts that the items are in, where each is one of several: of the
    columns that both sides of a duel share, so that items of different ones never meet."""


def at_a_date(model: Any, at: Any) -> tuple[Any, Any]:
    """The model whose utilities are those of the date in `at`, itself or as `date=2014-07-13` among
    places, and what else it says; the model itself where they do not move in time.

    :raises ValueError: two dates, or one that is none.
    """
    if not model.inputs.layout.dated:
        return model, at
    places = list(at) if isinstance(at, list | tuple) else [at]
    rest: list[Any] = []
    dates: list[Any] = []
    for place in places:
        if isinstance(place, Mapping):
            dates += [place[DATE]] if DATE in place else []
            rest.append({key: value for key, value in place.items() if key != DATE})
        elif isinstance(place, str) and ("=" in place or place in (EACH, LAST)):
            parts = [part.strip() for part in place.split(",")]
            told = [part for part in parts if part.startswith(f"{DATE}=")]
            dates += [part.removeprefix(f"{DATE}=") for part in told]
            rest.append(",".join(part for part in parts if part not in told))
        else:
            dates.append(place)
    if len(dates) > 1:
        raise ValueError(
            f"Several dates were asked for, {dates[0]} and {dates[1]}; give one at a time (at=, "
            "--at)."
        )
    return (model.in_time.at(dates[0]) if dates else model), [*filter(None, rest)]


def own_active(
    model: Any, found: ItemSet, within: float = 2.0, given: int = 0
) -> tuple[ItemSet, str]:
    """Of the items of a model itself those that are active at its date, and this in words; all of
    them, and no words, where utilities do not move in time.

    :param given: how many of the first are not the model's own, and stay.
    """
    if not model.inputs.layout.dated:
        return found, ""
    active, words = _active(model, found.names, within)
    active[:given] = True
    return found.select(np.flatnonzero(active)), words


def bases_now(
    model: Any, bases: ItemSet, given: int = 0, within: float = 2.0
) -> tuple[IntArray, str]:
    """One row of each item of a table, see `rows_now`; of the model's own items those that are
    active at its date, and this in words.

    :param given: how many of the first rows are not the model's own, and stay.
    """
    base = rows_now(model, bases.ids, bases.names)
    if given == len(bases.ids) or not model.inputs.layout.dated:
        return base, ""
    active, words = _active(model, [bases.names[i] for i in base], within)
    return base[active | (base < given)], words


def _active(model: Any, names: Sequence[Any], within: float) -> tuple[BoolArray, str]:
    """Which of these names are of items that are active, and this in words."""
    known, in_time = names_of(model.duels), model.in_time
    rows = in_time.rows_at()[in_time.active(within=within)]
    about = {id_text(known[row]) for row in rows}
    active = np.array([id_text(name) in about for name in names], dtype=bool)
    return active, (
        f"Utilities are those of {date_text(in_time.date)}, of items with a duel before and not "
        f"more than {within:g} years since the last one."
    )


def names_of(duels: Any) -> Sequence[Hashable]:
    """The name of the item of each row of some duels."""
    found = names_of_rows(duels.item_ids, duels.item_rows)
    return range(duels.num_items) if found is None else found


def rows_now(model: Any, bases: Sequence[Any], names: Sequence[Any]) -> IntArray:
    """One row of each name, in the order of the names' first appearance: where utilities move in
    time that in force at the date of the model, else the last one.

    :param bases: ids of the rows in their table.
    """
    if not model.inputs.layout.dated:
        return last_rows(names)
    own = model.duels.item_rows
    ids = own.bases if own is not None else names_of(model.duels)
    began: dict[str, float] = {}
    for base, start in zip(ids, model.in_time.row_starts.tolist(), strict=True):
        text = id_text(base)
        began[text] = float(np.fmin(began.get(text, np.nan), start))
    starts = np.array([began.get(id_text(base), np.nan) for base in bases])
    return rows_in_force(_codes(names), starts, model.in_time.date)


def board_of(
    model: Predicts, items: Any, at: At, active_within: float = 2.0, with_own: bool = False
) -> Board:
    """Items by the rows that they are ranked at, see `rank`.

    :raises ValueError: contexts asked of a model without; what `contexts_at` and `resolve_items`
        raise.
    """
    places = [at] if isinstance(at, str | Mapping) else list(at)
    word = next((place for place in places if place in (EACH, LAST)), None)
    if word is not None and len(places) > 1:
        raise ValueError(f"{word!r} was asked for along with other places; give it alone (--at).")
    if not has_contexts(model, items):
        return _without_contexts(model, items, places, active_within, with_own)
    named = [] if word is not None else places
    contexts, bases = contexts_at(model, named), candidates_of(model, items)
    given = 0 if items is None else len(bases.ids)
    if with_own:
        bases = bases_of(model, items)
    base, when = bases_now(model, bases, given, active_within)
    count = len(contexts)
    rows = in_rows(model, bases, np.repeat(base, count), np.tile(contexts.values, (len(base), 1)))
    if word == EACH:
        apart = np.tile(_of_duels(model, contexts), len(base))
        return replace(_as_they_are(model, rows), contexts=apart, averaged=when)
    owner, weight = np.repeat(np.arange(len(base)), count), np.tile(contexts.counts, len(base))
    words = f"{when} {_over(contexts, bool(named))}".strip()
    return _averaged(model, rows, owner, weight.astype(float), words, contexts)


def _of_duels(model: Predicts, contexts: Contexts) -> IntArray:
    """(c,) numbers of what contexts are in the columns that both sides share."""
    rows = model.duels.item_rows
    assert rows is not None
    shared = [contexts.columns.index(name) for name in rows.shared]
    return Codes.of([tuple(value[shared]) for value in contexts.values]).numbers


def _over(contexts: Contexts, named: bool) -> str:
    """The contexts of an average, in words."""
    shown = [
        in_words(dict(zip(contexts.columns, value, strict=True))) for value in contexts.values[:6]
    ]
    if len(contexts) == 1:
        return f"Utilities are those at {shown[0]}."
    more = f" and {len(contexts) - 6:,} more" if len(contexts) > 6 else ""
    which = "that were asked for" if named else "of the training duels"
    return (
        f"Utilities are averages over the {len(contexts):,} contexts {which}, by how often each "
        f"occurs ({'; '.join(shown)}{more})."
    )


def _without_contexts(
    model: Predicts, items: Any, places: list[Any], active_within: float, with_own: bool
) -> Board:
    found, when = resolve_items(model, items), ""
    if items is None:
        found, when = own_active(model, found, active_within)
    elif with_own:
        given = len(found)
        found, when = own_active(model, known_items(model, found), active_within, given)
    if places and places[0] not in (EACH, LAST):
        contexts_at(model, places)  # refused, if only for items that stand in their contexts
        columns = f"columns of the context in {found.name}"
        raise together.refused(context=f"the context {places[0]}", context_columns=columns)
    own = model.duels.item_rows
    if own is None or own.column is None or found.rows is None or places == [EACH]:
        return replace(_as_they_are(model, found), averaged=when)
    names = found.rows.names
    if places == [LAST]:
        last = "Utilities are those at the last row of each item."
        return _by_name(model, found.select(last_rows(names)), f"{when} {last}".strip())
    if model.inputs.layout.dated:
        now = found.select(rows_now(model, found.rows.bases, names))
        words = "Each item stands at the row that its latest duel by then had."
        return _by_name(model, now, f"{when} {words}".strip())
    code = _codes(names)
    kept = _some_of_each(code, np.asarray(found.comparisons, dtype=float))
    few = len(kept) < len(found)
    text = "Utilities are averages over the rows of each item, by the duels of each"
    if few:
        text += f", of at most {_most(code):,} rows, evenly spaced"
    weights = found.comparisons[kept].astype(float)
    return _averaged(model, found.select(kept), code[kept], weights, f"{text}.")


def _codes(names: Sequence[Any]) -> IntArray:
    """A number for each name, in order of appearance."""
    return Codes.of([id_text(name) for name in names]).numbers


def last_rows(names: Sequence[Any]) -> IntArray:
    """The last row of each name, in the order of the names' first appearance."""
    last = {id_text(name): i for i, name in enumerate(names)}
    return np.array(list(last.values()), dtype=np.int64)


def _most(code: IntArray) -> int:
    return max(ROWS_OF_EACH, ROWS_OF_ALL // (int(code.max()) + 1))


def _some_of_each(code: IntArray, weights: FloatArray) -> IntArray:
    """Rows of items `code` that an average takes: all, or of many evenly spaced ones with duels."""
    most, kept = _most(code), []
    order = np.argsort(code, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(code))[:-1]):
        used = rows[weights[rows] > 0.0] if (weights[rows] > 0.0).any() else rows
        if len(used) > most:
            used = used[np.round(np.linspace(0, len(used) - 1, most)).astype(int)]
        kept.append(used)
    return np.sort(np.concatenate(kept))


def _as_they_are(model: Predicts, items: ItemSet) -> Board:
    return Board(items, numbered_inputs(model, items), model.posterior())


def _by_name(model: Predicts, items: ItemSet, words: str) -> Board:
    """Rows that stand for their items, with all duels of these."""
    assert items.rows is not None
    board = _as_they_are(model, items)
    return replace(
        board,
        items=replace(
            items,
            ids=items.rows.names,
            comparisons=_duels_of(model, items.rows, items.comparisons),
        ),
        averaged=words,
    )


def _duels_of(
    model: Predicts, rows: ItemRows, otherwise: IntArray, contexts: Contexts | None = None
) -> IntArray:
    """The training duels of the item of each row, in these contexts, by default in all."""
    own = model.duels.item_rows
    assert own is not None
    counts = model.duels.comparisons
    if contexts is not None:
        wanted = set(map(tuple, contexts.values.tolist()))
        counts = np.where([tuple(row) in wanted for row in own.values.tolist()], counts, 0)
    total: Counter[str] = Counter()
    for name, count in zip(own.names, counts.tolist(), strict=True):
        total[id_text(name)] += count
    each = zip(map(id_text, rows.names), otherwise.tolist(), strict=True)
    return np.array([total.get(name, k) for name, k in each], dtype=np.int64)


def _averaged(
    model: Predicts,
    rows: ItemSet,
    owner: IntArray,
    weights: FloatArray,
    words: str,
    contexts: Contexts | None = None,
) -> Board:
    """Items, each the average over its rows.

    :param owner: (r,) the number of the item of each row, in order of the first appearance.
    :param contexts: those in which duels are counted, by default all.
    """
    assert rows.rows is not None
    inputs = numbered_inputs(model, rows)
    _, first = np.unique(owner, return_index=True)
    outside = {
        name: (np.bincount(owner, weights=mask) > 0.0)
        for name, mask in rows.outside_by_feature.items()
    }
    levels: dict[str, Any] = {}
    for name, found in rows.levels_never_seen.items():
        some = np.flatnonzero(found)
        levels[name] = np.full(len(first), "", dtype=object)
        levels[name][owner[some]] = found[some]
    items = rows.select(first)
    assert items.rows is not None
    items = replace(
        items,
        ids=items.rows.names,
        inputs=np.arange(len(first), dtype=float)[:, None],
        comparisons=_duels_of(model, items.rows, items.comparisons, contexts),
        outside_by_feature=outside,
        levels_never_seen=levels,
    )
    weighted = WeightedRows.of(inputs, owner, weights)
    posterior = averaged(model.posterior(), weighted)
    return Board(items, items.inputs, posterior, weighted.weights.shape[1], words)
