"""Rows as arrays: checked, summed up and standardised."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.answers import (
    FLAGGED,
    Answers,
    Codes,
    Grades,
    arrays_of,
    kinds_of,
    kinds_of_grades,
)
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.roles import ROLES
from sparse_prefgp.io.files import id_text, refuse_control
from sparse_prefgp.io.judgements import Roles, differences_of
from sparse_prefgp.io.streams.blocks import SIDES, Chunk, Coded, Rows, Source, plain_cell
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
    rows: Rows,
    position: int,
    labels: Mapping[str, Labels],
) -> tuple[Chunk, int]:
    """Rows as arrays, checked, and a checksum of them; `position` is that of the first.

    :param labels: of who judged, of people and of other labels, by column, those of the rows
        before; those of these rows are added.
    :raises ValueError: naming the row.
    """
    if isinstance(rows, Answers):
        return Chunk(position, rows), _checksum([rows.sides, rows.offsets], rows)

    def where(i: int) -> str:
        return source.where(position + i)

    sides: list[npt.NDArray[Any]] = []
    for k, name in enumerate(SIDES):
        if items is None:
            sides.append(_feature_rows(source, name, rows, position))
            continue
        number = items.rows_of(rows[name], [rows[pair[k]] for pair in source.context_pairs])
        for i in np.flatnonzero(number < 0)[:1].tolist():
            text = id_text(plain_cell(rows[name][i]))
            raise unknown_item(name, text, where(i), "the items", "duel", items.meant(text))
        sides.append(number)
    if items is None:
        same = (sides[0] == sides[1]).all(1)
    else:
        same = np.equal(*(items.base[side] for side in sides))
    refuse_itself(same, where, lambda i: "an item")
    e, roles = len(same), source.roles
    column, counts = roles.count_column, None
    if column in rows:
        counts = counts_of(_array(rows[column]), column, where)
    flags = {
        number: flags_of(_array(rows[str(kind.column)]), str(kind.column), where, kind.flags)
        for number, kind in FLAGGED.items()
        if kind.column in rows
    }
    kind, answer = kinds_of(flags, e, where) if flags else None, None
    if roles.grade is not None:
        answer = _graded(roles, rows[roles.grade], flags, where)
        kind = kinds_of_grades(answer)
    weights = None
    if roles.weight is not None:
        weights = weights_of(_array(rows[roles.weight]), roles.weight, where)
        weights = weights if counts is None else weights * counts
    values = None
    if source.covariate_columns:
        columns = {name: _array(rows[name]) for each in source.covariate_columns for name in each}
        values = differences_of(source.covariate_columns, columns, where)
    codes = {column: known.of(rows[column], where) for column, known in labels.items()}
    said: dict[str, Any] = {
        "counts": counts,
        "kind": kind,
        "weights": weights,
        **{role: codes[column] for role, column in roles.codes.items()},
        "answer": answer,
        "covariates": values,
        "covariate_names": roles.covariates,
        "labels": {name: codes[column] for name, column in roles.labels.items()},
    }
    if items is not None:
        events = Answers.between(*sides, **said)
        return Chunk(position, events), _checksum([events.sides], events)
    # The rows of an event lie side by side.
    events = Answers.between(*np.arange(2 * e).reshape(-1, 2).T, **said)
    digest = _checksum(sides, events)
    if transform is not None:
        mean, scale = np.array(transform.mean), np.array(transform.scale)
        sides = [(side - mean) / scale for side in sides]
    return Chunk(position, events, np.stack(sides, 1).reshape(2 * e, -1)), digest


def _checksum(arrays: Sequence[npt.NDArray[Any]], events: Answers) -> int:
    """Of these and all else that events say."""
    digest = 0
    for array in (*arrays, *arrays_of(events.columns)):
        digest = zlib.crc32(np.ascontiguousarray(array).data, digest)
    return digest


def labels_by_column(
    roles: Roles, known: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> dict[str, Labels]:
    """Of all columns of labels that roles name.

    :param known: labels that were met already, as texts.
    """
    columns = {column: "label" for column in roles.labels.values()}
    columns |= {column: ROLES[role].words[0] for role, column in roles.codes.items()}
    return {column: Labels(column, what, known.get(column, ())) for column, what in columns.items()}


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
) -> Grades:
    """Grades of rows.

    :raises ValueError: what `grades_of` raises; a column of ties besides.
    """
    if flags:
        other = FLAGGED[next(iter(flags))].column
        raise together.refused(grade=True, said_by_grades=f"the column {other!r}")
    return Grades.of(*grades_of(_array(values), str(roles.grade), where, roles.levels))


def _feature_rows(source: Source, side: str, rows: Mapping[str, Any], position: int) -> FloatArray:
    assert source.inline is not None
    names = [f"{side}_{name}" for name in source.inline]
    array = np.column_stack([_numbers(rows[name], name, source, position) for name in names])
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
