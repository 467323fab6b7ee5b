"""Parting the rows of a duel table into a training and a test part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.table import DuelTable
from sparse_prefgp.support.arrays import BoolArray, IntArray
from sparse_prefgp.support.words import shortened

KINDS = "duels, items, group:COLUMN or time:COLUMN"


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of the duels for training and testing, each in ascending order."""

    train_rows: IntArray
    """Row numbers."""
    test_rows: IntArray
    """Row numbers."""
    dropped: int
    """Rows in neither part because one item (or group) is held out and the other kept."""
    description: str
    """One sentence that says how it was done."""
    unused: int = 0
    """Training rows left out because of `max_train`."""


def split_columns(how: str) -> tuple[str, ...]:
    """The columns named by `how`, which must never be features.

    :raises ValueError: an unknown kind of split.
    """
    return tuple(name for name in [_kind(how)[1]] if name)


def split_duels(
    table: DuelTable,
    how: str,
    test_fraction: float,
    rng: np.random.Generator,
    *,
    max_train: int | None = None,
) -> Split:
    """Part the rows of a table.

    Duels that come from one choice or ranking (`table.set_column`) are never parted: `duels` holds
    out whole sets, a set is as late as the latest of its duels, and one that would lie in both
    parts, or partly in neither, is dropped.

    :param table: the duels, one row each.
    :param how: `duels` (rows at random); `items` (a share of the compared items is held out: both
        held out is test, both kept is train, mixed rows are dropped); `group:COLUMN` (a share of
        the groups is held out whole); `time:COLUMN` (the last rows, cut between distinct dates, as
        near to the share as the dates allow). A column of the duels is preferred to one of the
        items; for the items' own, a duel is as late as the later of its items, and is dropped when
        the two are in groups of different parts.
    :param test_fraction: the share to hold out, in [0, 1); 0 keeps everything for training.
    :param rng: draws what is random.
    :param max_train: keep at most this many training rows: the last ones before the test part for
        `time`, a random choice otherwise.
    :raises ValueError: an unknown kind; a missing column or a missing value in it; a fraction
        outside [0, 1); `max_train` below 1; a part without duels; items without features held out.
    """
    kind, column = _kind(how)
    if not 0.0 <= test_fraction < 1.0:
        raise ValueError(
            f"The test fraction is {test_fraction}; give a number of at least 0 and below 1."
        )
    if max_train is not None and max_train < 1:
        raise ValueError(f"max_train is {max_train}; give a whole number of at least 1.")
    t = table.num_rows
    of_items = kind == "items" or (column in table.items and column not in table.context)
    if of_items and test_fraction > 0.0 and not table.has_features:
        raise ValueError(
            f"The split {how!r} holds out items, of which nothing is known, as they have no "
            "features; use duels, or a column of the duels (group:COLUMN, time:COLUMN)."
        )
    first, second = (None, None) if not column else _codes(table, column, kind == "time")
    sets = table.sets()
    moment = None
    if kind == "time" and first is not None and second is not None:
        moment = _latest(np.maximum(first, second), sets)

    held = np.zeros(t, dtype=bool)
    dropped = np.zeros(t, dtype=bool)
    if test_fraction == 0.0:
        all_of = f"All {t:,} duels" if t > 1 else "The one duel"
        description = f"{all_of} for training, none held out"
    elif kind == "duels":
        number = int(sets.max()) + 1
        what = "duels" if table.set_column is None else f"values of {table.set_column!r}"
        chosen = rng.permutation(number)[: _share(test_fraction, number, what)]
        held = np.isin(sets, chosen)
        description = f"Duels held out at random: {held.sum():,} of {t:,}"
        if table.set_column is not None:
            description = (
                f"Whole sets of duels held out at random: {len(chosen):,} of {number:,} {what} "
                f"({held.sum():,} of {t:,} duels)"
            )
    elif kind == "time" and moment is not None:
        held = moment >= _cut(moment, test_fraction, column)
        dates = len(np.unique(moment))
        after = len(np.unique(moment[held]))
        description = f"The last {after:,} of {dates:,} distinct values of {column!r} held out"
    else:
        if kind == "items":
            (first, second), what = table.sides(), "items"
        else:
            what = f"values of {column!r}"
        assert first is not None and second is not None
        units = np.unique(np.concatenate([first, second]))
        chosen = rng.permutation(units)[: _share(test_fraction, len(units), what)]
        won, lost = np.isin(first, chosen), np.isin(second, chosen)
        # A whole set is held out, kept or dropped.
        held, kept = ~_any(~(won & lost), sets), ~_any(won | lost, sets)
        dropped = ~held & ~kept
        description = f"{len(chosen):,} of {len(units):,} {what} held out"

    test = np.flatnonzero(held)
    train = np.flatnonzero(~held & ~dropped)
    for part, rows in (("training", train), ("test", test)):
        if len(rows) == 0 and (part == "training" or test_fraction > 0.0):
            raise ValueError(
                f"The {part} part of the split {how!r} with test fraction {test_fraction} has no "
                "duels; choose another fraction or another kind of split."
            )
    unused = 0
    if max_train is not None and len(train) > max_train:
        # Units that stay whole, those to keep first.
        units, first_row = np.unique(sets[train], return_index=True)
        if moment is not None:
            units = units[np.argsort(moment[train][first_row], kind="stable")[::-1]]
        else:
            units = rng.permutation(units)
        within = np.cumsum(np.bincount(sets[train])[units]) <= max_train
        if not within[0]:
            raise ValueError(
                f"max_train is {max_train}, fewer than the duels of one set of "
                f"{table.set_column!r}, which stay together; give a larger number."
            )
        kept_train = train[np.isin(sets[train], units[within])]
        unused = len(train) - len(kept_train)
        train = kept_train
    number = int(dropped.sum())
    if number:
        description += f"; {number:,} mixed duels dropped"
        if table.set_column is not None:
            description += f", with all others of their {table.set_column!r}"
    if unused:
        which = "earlier" if moment is not None else "randomly chosen"
        description += f"; {unused:,} {which} training duels left out"
    return Split(train, test, number, description + ".", unused)


def _any(mask: BoolArray, sets: IntArray) -> BoolArray:
    """For each row, whether the mask is true for any row of its set."""
    return np.asarray(np.bincount(sets, weights=mask)[sets] > 0)


def _latest(moment: IntArray, sets: IntArray) -> IntArray:
    """For each row, the latest moment of its set."""
    latest = np.full(int(sets.max()) + 1, moment.min())
    np.maximum.at(latest, sets, moment)
    return np.asarray(latest[sets])


def _kind(how: str) -> tuple[str, str]:
    kind, colon, column = str(how).partition(":")
    plain = kind in ("duels", "items") and not colon
    if not plain and not (kind in ("group", "time") and column):
        raise ValueError(f"The split {how!r} is unknown; use {KINDS}.")
    return kind, column


def _share(fraction: float, total: int, what: str) -> int:
    """How many to hold out: the nearest whole number that leaves something on both sides."""
    if total < 2:
        raise ValueError(
            f"A held-out part needs at least two different {what}, and there is {total}; use "
            "test fraction 0 or another kind of split."
        )
    return min(max(round(fraction * total), 1), total - 1)


def _cut(moment: IntArray, fraction: float, column: str) -> int:
    """The first held-out moment."""
    values, counts = np.unique(moment, return_counts=True)
    _share(fraction, len(values), f"values of {column!r}")
    held = len(moment) - np.cumsum(counts)[:-1]  # rows after each possible cut
    nearest = int(np.argmin(np.abs(held - fraction * len(moment))))
    return int(values[nearest + 1])


def _codes(table: DuelTable, column: str, ordered: bool) -> tuple[IntArray, IntArray]:
    """The column as whole numbers for the winner's and the loser's side of each duel."""
    pd = require_pandas()
    if column in table.context.columns:
        values = table.context[column]
        owner = "duels"
    elif column in table.items.columns:
        values = table.items[column]
        owner = "items"
    else:
        names = ", ".join(map(str, [*table.context.columns, *table.items.columns]))
        raise ValueError(
            f"The split column {column!r} is in neither table; choose from {names or 'none'}."
        )
    row_names = table.duel_row_names if owner == "duels" else table.row_names

    def where(row: int) -> str:
        return f"row {row} of the {owner} (counted from 0)" if row_names is None else row_names(row)

    missing = np.flatnonzero(np.asarray(values.isna(), dtype=bool))
    if missing.size:
        raise ValueError(
            f"The split column {column!r} has no value in {where(int(missing[0]))}; fill it in."
        )
    if ordered and not pd.api.types.is_numeric_dtype(values.dtype):
        values = _moments(values, column, where)
    # Codes of sorted values: equal values get equal codes and the order is kept.
    _, codes = np.unique(np.asarray(values if ordered else values.astype(str)), return_inverse=True)
    if owner == "duels":
        return codes, codes
    return codes[table.winners], codes[table.losers]


def _moments(values: Any, column: str, where: Callable[[int], str]) -> Any:
    """Numbers or dates that are not stored as numbers, in a form that sorts."""
    pd = require_pandas()
    if values.dtype.kind == "m":
        return values.to_numpy()
    dates = values
    if values.dtype.kind != "M" and not isinstance(values.dtype, pd.DatetimeTZDtype):
        texts = values.astype(str).str.strip()
        numbers = pd.to_numeric(texts, errors="coerce")
        bad = np.flatnonzero(np.asarray(numbers.isna(), dtype=bool))
        if not bad.size:
            return numbers.to_numpy()
        if 2 * len(bad) < len(values):
            row = int(bad[0])
            raise ValueError(
                f"The split column {column!r} has {shortened(texts.iloc[row])} in {where(row)}, "
                "where the other values are numbers; correct that value."
            )
        # One form only: 05/03/2020 is in March or in May.
        dates = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
        bad = np.flatnonzero(np.asarray(dates.isna(), dtype=bool))
        if bad.size:
            row = int(bad[0])
            raise ValueError(
                f"The split column {column!r} has {shortened(texts.iloc[row])} in {where(row)}, "
                "which is no date in ISO form; use dates such as 2024-01-31, or numbers."
            )
    # Without a zone, numpy sorts plain integers.
    return dates.dt.tz_convert(None).to_numpy() if dates.dt.tz is not None else dates.to_numpy()
