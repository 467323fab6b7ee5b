"""Choices from sets and rankings, expanded to duels."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.events import Events
from sparse_prefgp.data.features import numeric_column, require_pandas
from sparse_prefgp.data.table import DuelTable
from sparse_prefgp.io.columns import FeatureNames, ItemColumns, item_columns
from sparse_prefgp.io.files import (
    ITEM_ID,
    Source,
    Table,
    id_text,
    items_named_in,
    load,
    load_items,
    plain_ids,
)
from sparse_prefgp.io.judgements import COUNT, Roles, placed, said_by
from sparse_prefgp.io.reading import table_of
from sparse_prefgp.io.values import YES_AND_NO, flags_of
from sparse_prefgp.support.arrays import BoolArray, IntArray

CHOICE_SET, CHOSEN, OPTION = "choice_set", "chosen", "option"
RANKING, RANK = "ranking", "rank"
FLAGS = "1 for the chosen option and 0 for the others"


def read_choice_table(
    items: Source | None,
    choices: Source,
    *,
    choice_set: str = CHOICE_SET,
    item_id: str = ITEM_ID,
    chosen: str = CHOSEN,
    options: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    never_features: Sequence[str] = (),
    weights: str | None = None,
    groups: str | None = None,
    context: Sequence[str] = (),
    item: str | None = None,
) -> DuelTable:
    """Read choices of one item from a set; the chosen item beats each other option.

    A warning says how many choices became how many duels, which are not independent.

    :param items: as in `read_table`.
    :param choices: path or data frame, in one of two forms. Long, a row for each option: columns
        `choice_set` (which choice it belongs to), `item_id` and `chosen` (1 for the chosen option,
        else 0). Wide, a row for each choice: `chosen` holds the id of the chosen item and the
        columns `option_1`, `option_2`, … the ids of the options, of which smaller sets leave some
        empty; without such columns, all others but `choice_set`, `count` and those in `ignore` and
        `never_features` are options. Where no row of the wide form lists its chosen item among the
        options, they are the others.
    :param choice_set: names of these columns.
    :param item_id: names of these columns.
    :param chosen: names of these columns.
    :param options: names of the columns of the wide form that hold options.
    :param features: as in `read_table`.
    :param ignore: as in `read_table`.
    :param never_features: as in `read_table`.
    :param weights: as in `read_table`, the same in all rows of a set.
    :param groups: as in `read_table`, the same in all rows of a set.
    :param context: as in `read_table`, the same in all rows of a set.
    :param item: as in `read_table`.
    :return: One row per duel, in the order of the choices. Its context has every column that is the
        same throughout each choice; `set_column` names the choice, so that splits keep it whole.
    :raises ValueError: what `read_table` raises; a choice with no chosen option, with two, with one
        option only, or with an item twice; a value of `chosen` that is neither 0 nor 1.
    """
    roles = Roles(weights=weights, groups=groups)
    more = (*roles.named, *map(str, ignore), *map(str, never_features), *map(str, context))
    skipped = {choice_set, COUNT, *more}

    def wide_options(header: Sequence[str]) -> list[str] | None:
        """The columns that hold options, None in the long form."""
        if options is not None:
            return [str(name) for name in options]
        numbered = _numbered(header, OPTION)
        if numbered:
            return numbered
        if item_id in header:
            return None
        return [name for name in header if name != chosen and name not in skipped]

    def id_columns(header: list[str]) -> list[str]:
        wide = wide_options(header)
        return [choice_set, *([item_id] if wide is None else [chosen, *wide])]

    item_table = None if items is None else load_items(items)
    table = load(choices, "choices", id_columns)
    wide = wide_options(list(table.frame.columns))
    for name in [choice_set, item_id, chosen] if wide is None else [chosen, *wide]:
        table.require(name)
    table.refuse_empty("choices")
    if item_table is None:
        item_table = items_named_in(table, [item_id] if wide is None else [chosen, *wide])
    columns = item_columns(item_table, table, FeatureNames(features, ignore, never_features, item))
    if wide is None:
        sets = _sets_of(table, choice_set, "choice")
        option = columns.known.rows_in(table, item_id, "choice")
        best = flags_of(table.frame[chosen], chosen, table.row, FLAGS)
        answers = _Answers(sets, option, np.arange(len(option)), best)
        used = [item_id, chosen]
    else:
        if options is None and not _numbered(wide, OPTION) and _only_flags(table, chosen):
            raise ValueError(
                f"The column {chosen!r} of {table.name} holds only 0 and 1, as where each row is "
                f"an option, but there is no column {item_id!r}; name the one that holds the item "
                "(item_id=), or those that hold the options (options=)."
            )
        sets = _sets_of(table, choice_set, "choice", one_each=True)
        answers = _wide_choices(table, chosen, wide, columns, sets)
        used = [chosen, *wide]
    _check(answers, table, columns, "choice")
    _check_chosen(answers, table)
    winner = np.empty(len(answers.sets.ids), dtype=np.int64)
    winner[answers.code[answers.best]] = np.flatnonzero(answers.best)
    losing = np.flatnonzero(~answers.best)
    losing = losing[np.argsort(answers.code[losing], kind="stable")]
    detail = "" if wide is None else f" among the options in {_quoted(wide)}"
    pairs = winner[answers.code[losing]], losing
    found = _expanded(columns, table, answers, pairs, used, roles, f"choices{detail}")
    return placed(found, columns.table, context, item)


def read_ranking_table(
    items: Source | None,
    rankings: Source,
    *,
    ranking: str = RANKING,
    item_id: str = ITEM_ID,
    rank: str = RANK,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    never_features: Sequence[str] = (),
    weights: str | None = None,
    groups: str | None = None,
    context: Sequence[str] = (),
    item: str | None = None,
) -> DuelTable:
    """Read rankings; each item beats all that stand below it.

    A warning says how many rankings became how many duels, which are not independent.

    :param items: as in `read_table`.
    :param rankings: path or data frame, in one of two forms. Wide, a row for each ranking: columns
        `rank_1` (the best), `rank_2`, … hold item ids, of which shorter rankings leave the last
        ones empty. Long, a row for each place: columns `ranking`, `item_id` and `rank` (a number,
        the smallest is the best).
    :param ranking: names of these columns; those of the wide form begin with `rank`.
    :param item_id: names of these columns; those of the wide form begin with `rank`.
    :param rank: names of these columns; those of the wide form begin with `rank`.
    :param features: as in `read_table`.
    :param ignore: as in `read_table`.
    :param never_features: as in `read_table`.
    :param weights: as in `read_table`, the same in all rows of a set.
    :param groups: as in `read_table`, the same in all rows of a set.
    :param context: as in `read_table`, the same in all rows of a set.
    :param item: as in `read_table`.
    :return: One row per duel, k (k - 1) / 2 for a ranking of k items, as in `read_choice_table`.
    :raises ValueError: what `read_table` raises; an item twice in a ranking, two items at one rank,
        one item only, a gap in the wide form.
    """

    def id_columns(header: list[str]) -> list[str]:
        return [ranking, *(_numbered(header, rank) or [item_id])]

    item_table = None if items is None else load_items(items)
    table = load(rankings, "rankings", id_columns)
    wide = _numbered(list(table.frame.columns), rank)
    if wide:
        for place in range(1, len(wide) + 1):
            table.require(f"{rank}_{place}")
    else:
        for name in (ranking, item_id, rank):
            table.require(name)
    table.refuse_empty("rankings")
    if item_table is None:
        item_table = items_named_in(table, wide or [item_id])
    columns = item_columns(item_table, table, FeatureNames(features, ignore, never_features, item))
    sets = _sets_of(table, ranking, "ranking", one_each=bool(wide))
    if wide:
        answers, used = _wide_rankings(table, wide, columns, sets), wide
    else:
        answers, used = _long_rankings(table, item_id, rank, columns, sets), [item_id, rank]
    _check(answers, table, columns, "ranking")
    roles, pairs = Roles(weights=weights, groups=groups), _all_below(answers.code)
    found = _expanded(columns, table, answers, pairs, used, roles, "rankings")
    return placed(found, columns.table, context, item)


def read_choices(
    items: Source | None,
    choices: Source,
    *,
    choice_set: str = CHOICE_SET,
    item_id: str = ITEM_ID,
    chosen: str = CHOSEN,
    options: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    weights: str | None = None,
    groups: str | None = None,
    context: Sequence[str] = (),
    item: str | None = None,
) -> Duels:
    """Read items and choices from sets into `Duels` with standardised features.

    Arguments and warning are those of `read_choice_table`, units those of `read_duels`; for a
    training and a test part, split the table, which keeps sets whole.

    :raises ValueError: what `read_choice_table` and `read_duels` raise.
    """
    return read_choice_table(
        items,
        choices,
        choice_set=choice_set,
        item_id=item_id,
        chosen=chosen,
        options=options,
        features=features,
        ignore=ignore,
        weights=weights,
        groups=groups,
        context=context,
        item=item,
    ).to_duels()


def read_rankings(
    items: Source | None,
    rankings: Source,
    *,
    ranking: str = RANKING,
    item_id: str = ITEM_ID,
    rank: str = RANK,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    weights: str | None = None,
    groups: str | None = None,
    context: Sequence[str] = (),
    item: str | None = None,
) -> Duels:
    """Read items and rankings into `Duels` with standardised features.

    Arguments and warning are those of `read_ranking_table`, units those of `read_duels`; for a
    training and a test part, split the table, which keeps rankings whole.

    :raises ValueError: what `read_ranking_table` and `read_duels` raise.
    """
    return read_ranking_table(
        items,
        rankings,
        ranking=ranking,
        item_id=item_id,
        rank=rank,
        features=features,
        ignore=ignore,
        weights=weights,
        groups=groups,
        context=context,
        item=item,
    ).to_duels()


# ---- sets --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sets:
    """Which set each row of a table belongs to."""

    code: IntArray
    """(rows,) numbers in order of first appearance."""
    ids: tuple[Any, ...]
    """What the sets are called."""
    column: str
    """The name of the column that says so."""


@dataclass(frozen=True)
class _Answers:
    """Options or places, one entry each: the item, the row of the table, whether it was chosen."""

    sets: _Sets
    item: IntArray
    row: IntArray
    best: BoolArray

    @property
    def code(self) -> IntArray:
        """The set of each entry."""
        return self.sets.code[self.row]


def _sets_of(table: Table, column: str, what: str, one_each: bool = False) -> _Sets:
    """The sets of a table; `one_each`: every row is one, and the column may be missing."""
    if one_each and column not in table.frame.columns:
        number = np.arange(len(table.frame))
        return _Sets(number, tuple(number.tolist()), column)
    lookup: dict[str, int] = {}
    code = np.empty(len(table.frame), dtype=np.int64)
    first: list[int] = []
    for i, value in enumerate(table.frame[column]):
        text = id_text(value)
        if not text:
            raise ValueError(
                f"The {what} (column {column!r}) is missing in {table.row(i)}; say which {what} "
                "the row belongs to."
            )
        if one_each and text in lookup:
            raise ValueError(
                f"The {what} {text!r} in {table.row(i)} was used before, in "
                f"{table.row(first[lookup[text]])}; give every {what} an id of its own, also "
                "across persons."
            )
        if text not in lookup:
            lookup[text] = len(lookup)
            first.append(i)
        code[i] = lookup[text]
    return _Sets(code, plain_ids(list(lookup)), column)


def _numbered(header: Sequence[str], prefix: str) -> list[str]:
    """Columns such as option_1, option_2, …, by their numbers."""
    pattern = re.compile(re.escape(prefix) + r"_([1-9]\d*)")
    found = [(int(hit[1]), name) for name in header if (hit := pattern.fullmatch(name))]
    return [name for _, name in sorted(found)]


def _only_flags(table: Table, column: str) -> bool:
    return {id_text(value).lower() for value in table.frame[column]} <= set(YES_AND_NO)


def _wide_choices(
    table: Table, chosen: str, options: list[str], columns: ItemColumns, sets: _Sets
) -> _Answers:
    best = columns.known.rows_in(table, chosen, "choice")
    matrix = _matrix(table, options, columns, "choice")
    listed = (matrix == best[:, None]).any(axis=1)
    if listed.any() and not listed.all():
        i = int(np.flatnonzero(~listed)[0])
        raise ValueError(
            f"The chosen item {str(columns.ids[best[i]])!r} in {table.row(i)} is not among its "
            "options, as it is in other rows; correct the row."
        )
    if not listed.any():
        matrix = np.column_stack([best, matrix])
    row, column = np.nonzero(matrix >= 0)
    item = matrix[row, column]
    # Of an item listed twice only the first is the chosen one; the repetition is refused later.
    return _Answers(sets, item, row, column == np.argmax(matrix == best[:, None], axis=1)[row])


def _wide_rankings(table: Table, places: list[str], columns: ItemColumns, sets: _Sets) -> _Answers:
    matrix = _matrix(table, places, columns, "ranking")
    gap = (matrix[:, :-1] < 0) & (matrix[:, 1:] >= 0)
    if gap.any():
        i, k = (int(x) for x in np.argwhere(gap)[0])
        raise ValueError(
            f"{_begin(table.row(i))} has an item at {places[k + 1]!r} but none at {places[k]!r}; "
            "fill the places from the first, and leave only the last ones empty."
        )
    row, column = np.nonzero(matrix >= 0)
    return _Answers(sets, matrix[row, column], row, column == 0)


def _long_rankings(
    table: Table, item_id: str, rank: str, columns: ItemColumns, sets: _Sets
) -> _Answers:
    item = columns.known.rows_in(table, item_id, "ranking")
    place = numeric_column(table.frame, rank, table.row)
    order = np.lexsort((place, sets.code))
    code, sorted_place = sets.code[order], place[order]
    tied = np.flatnonzero((code[1:] == code[:-1]) & (sorted_place[1:] == sorted_place[:-1]))
    if tied.size:
        first, second = sorted(int(order[tied[0] + k]) for k in (0, 1))
        raise ValueError(
            f"{_begin(table.row(second))} has the same {rank} as {table.row(first)}, "
            f"{sorted_place[tied[0]]:g}, in the ranking {str(sets.ids[code[tied[0]]])!r}; give "
            "each item a place of its own, or leave one out."
        )
    return _Answers(sets, item[order], order, np.r_[True, code[1:] != code[:-1]])


def _matrix(table: Table, names: list[str], columns: ItemColumns, what: str) -> IntArray:
    """Items (rows, names), -1 where a cell is empty."""
    return np.column_stack([columns.known.rows_in(table, c, what, True) for c in names])


def _check(answers: _Answers, table: Table, columns: ItemColumns, what: str) -> None:
    code = answers.code
    key = code * len(columns.ids) + answers.item
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(key[order][1:] == key[order][:-1])
    if twice.size:
        first, second = order[twice[0]], order[twice[0] + 1]
        raise ValueError(
            f"{_begin(table.row(int(answers.row[second])))} has the item "
            f"{str(columns.ids[answers.item[first]])!r} a second time in the {what} "
            f"{str(answers.sets.ids[code[first]])!r}; keep one, and give every {what} an id of its "
            "own, also across persons."
        )
    size = np.bincount(code, minlength=len(answers.sets.ids))
    few = np.flatnonzero(size < 2)
    if few.size:
        i = int(np.flatnonzero(answers.sets.code == few[0])[0])
        number = "one item only" if size[few[0]] else "no item"
        raise ValueError(
            f"The {what} {str(answers.sets.ids[few[0]])!r} in {table.row(i)} has {number}; give at "
            "least two, or remove it."
        )


def _check_chosen(answers: _Answers, table: Table) -> None:
    code = answers.code
    number = np.bincount(code[answers.best], minlength=len(answers.sets.ids))
    bad = np.flatnonzero(number != 1)
    if not bad.size:
        return
    name = str(answers.sets.ids[bad[0]])
    rows = answers.row[code == bad[0]]
    if number[bad[0]] == 0:
        raise ValueError(
            f"The choice {name!r}, which begins in {table.row(int(rows[0]))}, has no chosen "
            "option; mark one with 1, or remove the choice."
        )
    first, second = answers.row[(code == bad[0]) & answers.best][:2]
    raise ValueError(
        f"The choice {name!r} has two chosen options, in {table.row(int(first))} and in "
        f"{table.row(int(second))}; mark one, and give every choice an id of its own, also across "
        "persons."
    )


def _all_below(code: IntArray) -> tuple[IntArray, IntArray]:
    """All pairs (better, worse) of entries of one set, which stand together, best first."""
    better, worse = [], []
    for step in range(1, int(np.bincount(code).max())):
        above = np.flatnonzero(code[step:] == code[:-step])
        better.append(above)
        worse.append(above + step)
    first, second = np.concatenate(better), np.concatenate(worse)
    order = np.lexsort((second, first))
    return first[order], second[order]


def _expanded(
    columns: ItemColumns,
    table: Table,
    answers: _Answers,
    pairs: tuple[IntArray, IntArray],
    used: Sequence[str],
    roles: Roles,
    what: str,
) -> DuelTable:
    """The duels between pairs of entries of the answers, better and worse, and the warning."""
    sets, (winning, losing) = answers.sets, pairs
    rows = answers.row[losing]
    context = table.frame.drop(columns=list(used))
    kept = [name for name in context.columns if _same_in_sets(context[name], sets.code)]
    for name in (COUNT, *roles.named):
        if name in context.columns and name not in kept:
            raise ValueError(
                f"The column {name!r} of {table.name} differs within a set of {sets.column!r}; "
                f"give all its rows the same {name}."
            )
    duels = Events.between(answers.item[winning], answers.item[losing])
    events = said_by(table, roles, duels, rows)
    context = context[[name for name in kept if name != COUNT]].iloc[rows].reset_index(drop=True)
    context[sets.column] = np.asarray(sets.ids)[sets.code[rows]]
    warnings.warn(
        f"{len(sets.ids):,} {what} were expanded to {len(losing):,} duels; those of one set are "
        "not independent, so that the uncertainty is understated.",
        stacklevel=3,
    )
    return table_of(
        columns,
        events,
        context,
        table.row.select(rows),
        sets.column,
    )


def _same_in_sets(values: Any, code: IntArray) -> bool:
    found, _ = require_pandas().factorize(values.astype(str))
    _, first = np.unique(code, return_index=True)
    return bool((found == found[first][code]).all())


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _begin(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
