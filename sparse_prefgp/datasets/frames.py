"""Data frames of duels and items, and what all data sets have to fulfil."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.datasets.registry import DataSet
from sparse_prefgp.io.choices import CHOICE_SET, CHOSEN, RANK

_IDS = ["winner", "loser", "item_a", "item_b", "home", "away"]


def duels_frame(ahead: Any, first: Any, second: Any, **columns: Any) -> Any:
    """Winners and losers of pairs, by whether the first of each is ahead, and more columns."""
    sides = {"winner": np.where(ahead, first, second), "loser": np.where(ahead, second, first)}
    columns = {name: np.asarray(column) for name, column in columns.items()}
    return require_pandas().DataFrame(sides | columns)


def numbered(rows: Any, name: str = "item_id") -> Any:
    """The rows with their numbers as the first column."""
    rows = rows.reset_index(drop=True)
    rows.insert(0, name, range(len(rows)))
    return rows


def as_known(known: DataSet, raw: Any) -> Any:
    """A public table with our names of its columns.

    :raises LookupError: a column is missing.
    :raises ValueError: no rows, a label that the registry does not know, an empty cell.
    """
    if known.columns:
        raw = raw[list(known.columns.values())].set_axis(list(known.columns), axis=1)
    if raw.empty or (known.columns and (raw.isna() | (raw == "")).any(axis=None)):
        raise ValueError("no rows or an empty cell")
    for column, labels in known.labels.items():
        wrong = raw[column][~raw[column].isin(labels)]
        if len(wrong):
            raise ValueError(f"the label {wrong.iloc[0]!r} in the column {column!r}")
    return raw


def check_tables(tables: Mapping[str, Any]) -> None:
    """Refuse tidy tables that no data set can have.

    :raises ValueError: a table without rows, an empty cell (but a rank), a duel of an item that is
        not there, a set of which not one alternative is chosen.
    """
    items = next(iter(tables.values()))
    for file, table in tables.items():
        ids = table.filter(_IDS)
        if table.empty or table.drop(columns=RANK, errors="ignore").isna().any(axis=None):
            raise ValueError(f"no rows or an empty cell in {file}")
        if ids.size and not ids.isin(set(items["item_id"])).all(axis=None):
            raise ValueError(f"an unknown item in {file}")
        if CHOSEN in table and (table.groupby(CHOICE_SET)[CHOSEN].sum() != 1).any():
            raise ValueError(f"a set without one chosen alternative in {file}")
