"""Rows as arrays: checked, summed up and standardised."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.events import FLAGGED, Answers, Codes, Events, kinds_of, kinds_of_grades
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.io.files import id_text, refuse_control
from sparse_prefgp.io.judgements import Roles, differences_of
from sparse_prefgp.io.streams.blocks import SIDES, Chunk, Coded, Source, StreamBlock, plain_cell
from sparse_prefgp.io.streams.items import ItemTable
from sparse_prefgp.io.values import (
    counts_of,
    flags_of,
    grades_of,
    missing_label,
    refuse_itself,
    unknown_item,
    weights_of,
)
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.words import CONTROL


def parsed(
    source: Source,
    items: ItemTable | None,
    transform: FeatureTransform | None,
    rows: StreamBlock,
    position: int,
    judges: Labels,
    people: Labels,
    labels: Mapping[str, Labels],
) -> tuple[Chunk, int]:
    """Rows as arrays, checked, and a checksum of them; `position` is that of the first.

    :param judges: who judged the rows before; those of these rows are added.
    :param people: the same of whose preferences they are.
    :param labels: the same of each column of labels.
    :raises ValueError: naming the row.
    """

    def where(i: int) -> str:
        return source.where(position + i)

    sides: list[npt.NDArray[Any]]
    if items is None:
        sides = [_feature_rows(source, side, rows[side], position) for side in (0, 1)]
        same = (sides[0] == sides[1]).all(1)
    else:
        sides = []
        for name, values, context in zip(SIDES, rows[:2], rows.contexts, strict=True):
            number = values if source.row_numbers else items.rows_of(values, context)
            bad = np.flatnonzero(number < 0)
            if bad.size:
                text = id_text(plain_cell(values[int(bad[0])]))
                raise unknown_item(
                    name, text, where(int(bad[0])), "the items", "duel", items.meant(text)
                )
            sides.append(number)
        same = items.base[sides[0]] == items.base[sides[1]]
    refuse_itself(same, where, lambda i: "an item")
    counts = np.ones(len(sides[0]))
    if rows.counts is not None:
        counts = counts_of(_array(rows.counts), source.roles.count_column, where).astype(np.float64)
    flags = {
        number: flags_of(_array(values), str(kind.column), where, kind.flags)
        for (number, kind), values in zip(FLAGGED.items(), rows.flags, strict=True)
        if values is not None
    }
    if rows.said is None:
        kind = kinds_of(flags, len(counts), where)
    else:
        kind = rows.said.kind
    weights = None
    if rows.weights is not None:
        weights = weights_of(_array(rows.weights), source.roles.weight or "weight", where)
    digest = 0
    answer = None if rows.said is None else rows.said.answer
    if rows.grades is not None and source.roles.grade is not None:
        answer = _graded(source.roles, rows.grades, flags, where)
        kind = kinds_of_grades(answer)
    levels = None if answer is None else answer.numbers
    judge = None if rows.judges is None else judges.of(rows.judges, where)
    person = None if rows.people is None else people.of(rows.people, where)
    said = None
    if rows.covariates:
        names = [name for each in source.covariate_columns for name in each]
        columns = dict(zip(names, map(_array, rows.covariates), strict=True))
        said = differences_of(source.covariate_columns, columns, where)
    more = {
        column: labels[column].of(values, where)
        for column, values in zip(source.roles.labels, rows.labels, strict=True)
    }
    every = (judge, person, *more.values())
    who = [None if codes is None else codes.numbers for codes in every]
    sets: list[npt.NDArray[Any]] = []
    if rows.said is not None and rows.said.has_sets:
        sets = [rows.said.sides, rows.said.offsets, *rows.said.said()]
    for array in (*sides, counts, kind, weights, levels, *who, said, *sets):
        if array is not None:
            digest = zlib.crc32(array.tobytes(), digest)
    if transform is not None and items is None:
        mean, scale = np.array(transform.mean), np.array(transform.scale)
        sides = [(side - mean) / scale for side in sides]
    features = None
    if items is None:  # the rows of an event lie side by side
        features = np.stack(sides, 1).reshape(2 * len(counts), -1)
        sides = list(np.arange(2 * len(counts)).reshape(-1, 2).T)
    if rows.said is not None:
        return Chunk(position, rows.said), digest
    totals = None if weights is None else weights * counts
    events = Events.between(
        sides[0],
        sides[1],
        counts,
        kind=kind,
        weights=totals,
        judge=judge,
        answer=answer,
        covariates=said,
        covariate_names=() if said is None else source.roles.covariates,
    )
    return Chunk(position, replace(events, person=person, labels=more), features), digest


class Labels:
    """Who judged, whose preference it is, or other labels, numbered in the order of their first
    appearance over all rows of a stream.

    :param column: that says so.
    :param what: a label is, for messages.
    :param names: of those who are known already, as texts.
    """

    def __init__(self, column: str | None, what: str, names: Sequence[str] = ()) -> None:
        self.column, self._what = column, what
        self._numbers = {name: i for i, name in enumerate(names)}

    @property
    def texts(self) -> tuple[str, ...]:
        """All so far."""
        return tuple(self._numbers)

    def of(self, values: Any, where: Callable[[int], str]) -> Codes:
        """The label of each of some rows.

        :raises ValueError: a label that is missing, with its row.
        """
        coded = Coded.of(values)
        places, texts, missing = coded.places, coded.texts, coded.missing()
        if missing is not None:
            raise missing_label(str(self.column), where(missing), self._what)
        bad = np.array([CONTROL.search(text) is not None for text in texts], dtype=bool)
        if bad.any():
            here = np.flatnonzero(bad[places])
            refuse_control(
                [texts[places[i]] for i in here], str(self.column), lambda i: where(int(here[i]))
            )
        used = np.unique(places, return_index=True)
        for place in places[np.sort(used[1])]:  # in the order of the rows
            self._numbers.setdefault(texts[place], len(self._numbers))
        known = np.array([self._numbers.get(text, -1) for text in texts], dtype=np.int64)
        return Codes(known[places], self.texts, self.column)


def _graded(
    roles: Roles, values: Any, flags: dict[int, Any], where: Callable[[int], str]
) -> Answers:
    """Grades of rows.

    :raises ValueError: what `grades_of` raises; a column of ties besides.
    """
    if flags:
        other = FLAGGED[next(iter(flags))].column
        raise together.refused(grade=True, said_by_grades=f"the column {other!r}")
    return Answers.of(*grades_of(_array(values), str(roles.grade), where, roles.levels))


def _feature_rows(source: Source, side: int, values: Any, position: int) -> FloatArray:
    assert source.inline is not None
    names = [f"{SIDES[side]}_{name}" for name in source.inline]
    if isinstance(values, list):
        columns = zip(values, names, strict=True)
        array = np.column_stack([_numbers(column, n, source, position) for column, n in columns])
    else:
        array = np.asarray(values, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        i, j = bad[0]
        raise ValueError(
            f"The feature {names[j]!r} is missing or not finite in "
            f"{source.where(position + int(i))}; fill it in, or remove the duel."
        )
    return array


def _numbers(values: Any, name: str, source: Source, position: int) -> FloatArray:
    """A column as numbers, NaN where there is none.

    :raises ValueError: one that is not a number, with its row.
    """
    column = _array(values)
    if column.dtype.kind == "M":  # dates, as days
        return np.asarray((column - np.datetime64(0, "D")) / np.timedelta64(1, "D"))
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        i = next((i for i, value in enumerate(column) if not _is_number(value)), 0)
        raise ValueError(
            f"The column {name!r} has {_shown(values[i])} in {source.where(position + i)}, which "
            "is not a number; correct it, or leave the column out."
        ) from None


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return value is None
    return True


def _array(values: Any) -> npt.NDArray[Any]:
    """A column of Arrow, or an array, as an array."""
    arrow = hasattr(values, "to_numpy")
    return np.asarray(values.to_numpy(zero_copy_only=False) if arrow else values)


def _shown(value: Any) -> str:
    plain = plain_cell(value)
    return repr(plain) if id_text(plain) else "(missing)"
