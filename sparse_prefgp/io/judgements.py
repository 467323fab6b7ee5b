"""What the columns of the duels say of each duel: ties, weights, groups, and its context."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.events import FLAGGED, Codes, kinds_of
from sparse_prefgp.data.events import TIE as TIED
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.row_names import JoinedRows, RowNames
from sparse_prefgp.data.table import DuelTable
from sparse_prefgp.io.columns import feature_kinds, parse_flags
from sparse_prefgp.io.files import Source, Table, column_names, id_text, listing, load, plain_ids
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.words import shortened

WINNER, LOSER, COUNT = "winner", "loser", "count"
ITEM_A, ITEM_B = "item_a", "item_b"
TIE = str(FLAGGED[TIED].column)


def kinds_in(table: Table) -> npt.NDArray[np.int8]:
    """The kind of event that each row of a table of duels is, by its columns of flags.

    :raises ValueError: a flag that is neither 0 nor 1, or two that are 1, with its row.
    """
    there = {i: kind for i, kind in FLAGGED.items() if kind.column in table.frame.columns}
    flags = {i: parse_flags(table, str(kind.column), kind.flags) for i, kind in there.items()}
    return kinds_of(flags, len(table.frame), table.row)


def followed_by_ties(duels: Table, source: Source) -> Table:
    """The duels, and below them the tied pairs of another table, with the column `tie`.

    Columns of the ties that the duels lack are left out, those of the duels that the ties lack are
    empty there.

    :raises ValueError: what `load` raises; a table without pairs; duels that have a column `tie`.
    """
    ties = load(source, "ties", lambda header: (ITEM_A, ITEM_B, WINNER, LOSER))
    if TIE in duels.frame.columns:
        raise ValueError(
            f"{duels.name} has a column {TIE!r}, but ties were given too; leave out one of them."
        )
    named = ties.frame
    if ITEM_A in named.columns or ITEM_B in named.columns:
        ties.require(ITEM_A)
        ties.require(ITEM_B)
        # Columns of one side keep their side.
        renamed = {}
        for name in named.columns:
            for old, new in ((ITEM_A, WINNER), (ITEM_B, LOSER)):
                if name == old or name.startswith(f"{old}_"):
                    renamed[name] = new + name.removeprefix(old)
        named = named.rename(columns=renamed)
    ties = replace(ties, frame=named)
    for name in (WINNER, LOSER):
        ties.require(name)
    if len(named) == 0:
        raise ValueError(f"There are no ties in {ties.name}; give at least one row.")
    common = [name for name in duels.frame.columns if name in named.columns]
    below = named[common].assign(**{TIE: 1})
    if COUNT in duels.frame.columns and COUNT not in common:
        below[COUNT] = 1
    frame = require_pandas().concat([duels.frame.assign(**{TIE: 0}), below], ignore_index=True)
    rows = JoinedRows.of(duels.row, len(duels.frame), ties.row)
    return replace(duels, frame=frame, row=rows)


def group_labels(
    values: Any, column: str, where: RowNames, what: str = "group"
) -> npt.NDArray[np.object_]:
    """The label of each row: whole numbers if all are, else texts.

    :raises ValueError: a label that is missing, with its row.
    """
    texts = [id_text(value) for value in values]
    if "" in texts:
        raise ValueError(
            f"The {what} (column {column!r}) is missing in {where(texts.index(''))}; give every "
            "duel one."
        )
    labels = np.empty(len(texts), dtype=object)
    labels[:] = plain_ids(texts)
    return labels


def labels_in(table: Table, column: str, what: str = "group") -> npt.NDArray[np.object_]:
    """The groups, or whatever labels a column of a table holds.

    :raises ValueError: no such column; a label that is missing, with its row.
    """
    table.require(column)
    return group_labels(table.frame[column], column, table.row, what)


def weighted_by(table: DuelTable, column: str) -> DuelTable:
    """The table with the weights that a column of the duels holds.

    :raises ValueError: no such column; a weight that is not a positive number, with its row.
    """
    values = _column(table, column, "weights")
    each = _positive(values, column, _rows_of(table))
    return table.saying(weights=each * table.counts)


def weights_in(table: Table, column: str) -> FloatArray:
    """The weights in a column of a table.

    :raises ValueError: no such column; a weight that is not a positive number, with its row.
    """
    table.require(column)
    return _positive(table.frame[column], column, table.row)


def _positive(values: Any, column: str, where: Callable[[int], str]) -> FloatArray:
    weights = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            weights[i] = float(value)
        except (TypeError, ValueError):
            weights[i] = np.nan
        if not (weights[i] > 0.0 and np.isfinite(weights[i])):
            raise ValueError(
                f"The weight (column {column!r}) in {where(i)} is {shortened(value)}; give a "
                "positive number, or leave the duel out."
            )
    return weights


def grouped_by(table: DuelTable, column: str) -> DuelTable:
    """The table with the groups that a column of the duels names.

    :raises ValueError: no such column; a missing name, with its row.
    """
    values = _column(table, column, "groups")
    labels = group_labels(values, column, _rows_of(table))
    return table.saying(judge=Codes.of(labels.tolist()))


def in_context(table: DuelTable, names: Sequence[str]) -> DuelTable:
    """Items by the context of their duels: each item in each context becomes an item of its own.

    Its features are those of the item and of the context, and its id tells both, such as
    `Ann @ surface=clay, home=1`.

    Warns of items in no duel, which have no context and are left out.

    :param table: whose items have no context yet.
    :param names: a column `name` of the duels belongs to the duel and so to both sides; a pair of
        columns `winner_name` and `loser_name` has a value for each side.
    :raises ValueError: no such columns; a name that is a column of the items too; a missing value;
        a column that cannot be a feature.
    """
    pd = require_pandas()
    wanted = column_names(names, "context")
    if not wanted:
        return table
    if not table.has_features:
        raise ValueError(
            f"The context {wanted[0]!r} was given, but the items have no features, so that each "
            "item in each context would be one of its own, unrelated to the others; leave the "
            "context out, or give items with features."
        )
    sides, shared = _sides(table, wanted)
    rows = _rows_of(table)
    stacked = pd.concat(sides, ignore_index=True)
    values = Table(
        stacked,
        "the duels",
        JoinedRows.of(rows, table.num_rows, rows),
        omit="of the context",
    )
    numeric, categorical = feature_kinds(values, wanted)

    texts = [[id_text(value) for value in stacked[name]] for name in wanted]
    codes = [pd.factorize(np.array(text, dtype=object))[0] for text in texts]
    both = np.concatenate([table.winners, table.losers])
    keys = np.column_stack([both, *codes])
    _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    number = number.reshape(-1).astype(np.int64)
    base = both[first]
    missing = table.num_items - len(np.unique(base))
    if missing:
        warnings.warn(
            f"{missing:,} of {table.num_items:,} items are in no duel, and so in no context; they "
            "are left out.",
            stacklevel=3,
        )
    items = table.items.iloc[base].reset_index(drop=True)
    for name in wanted:
        items[name] = stacked[name].iloc[first].to_numpy()
    ids = tuple(
        f"{table.item_ids[item]} @ "
        + ", ".join(f"{name}={text[i]}" for name, text in zip(wanted, texts, strict=True))
        for item, i in zip(base, first, strict=True)
    )
    return replace(
        table,
        items=items,
        item_ids=ids,
        events=replace(table.events, sides=number.reshape(2, -1).T.reshape(-1)),
        numeric=(*table.numeric, *numeric),
        categorical=(*table.categorical, *categorical),
        row_names=table.row_names.select(base),
        base_items=base,
        shared=tuple(shared),
    )


def _sides(table: DuelTable, names: Sequence[str]) -> tuple[list[Any], list[str]]:
    """The context of all winners and of all losers, and the names that both sides share."""
    pd = require_pandas()
    columns = table.context.columns
    won, lost, shared = {}, {}, []
    for name in names:
        if name in table.items.columns:
            raise ValueError(
                f"The context {name!r} is a column of the items too; rename one of them."
            )
        pair = f"{WINNER}_{name}", f"{LOSER}_{name}"
        if name in columns:
            shared.append(name)
            pair = name, name
        elif not all(side in columns for side in pair):
            raise ValueError(
                f"The context {name!r} is not a column of the duels, nor are {pair[0]!r} and "
                f"{pair[1]!r}; choose from {listing(columns) or 'none'}."
            )
        won[name], lost[name] = table.context[pair[0]], table.context[pair[1]]
    return [pd.DataFrame(won), pd.DataFrame(lost)], shared


def _column(table: DuelTable, column: str, what: str) -> Any:
    if column not in table.context.columns:
        raise ValueError(
            f"The column {column!r} for the {what} is not in the table of duels; choose from "
            f"{listing(table.context.columns) or 'none'}."
        )
    return table.context[column]


def _rows_of(table: DuelTable) -> RowNames:
    return table.duel_row_names or RowNames("the duels", None)
