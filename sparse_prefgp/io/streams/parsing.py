"""Rows as arrays: checked, summed up and standardised."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.answers import Answers, Codes, arrays_of
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.roles import ROLES
from sparse_prefgp.io.files import refuse_control
from sparse_prefgp.io.judgements import Roles, measures_of, outcome_of
from sparse_prefgp.io.streams.blocks import FLAGS, SIDES, Chunk, Coded, Rows, Source
from sparse_prefgp.io.streams.items import ItemTable
from sparse_prefgp.io.values import finite_of, missing_label, refuse_itself
from sparse_prefgp.support.arrays import FloatArray


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
            sides.append(_feature_rows(source, name, rows, where))
            continue
        context = [rows[pair[k]] for pair in source.context_pairs]
        sides.append(items.known_rows(rows[name], context, name, where))
    if items is None:
        same = (sides[0] == sides[1]).all(1)
    else:
        same = np.equal(*(items.base[side] for side in sides))
    refuse_itself(same, where, lambda i: "an item")
    e, roles, covariates = len(same), source.roles, source.covariate_columns
    read = {roles.count_column, roles.weight, roles.grade, *FLAGS, *chain(*covariates)}
    columns = {name: _array(values) for name, values in rows.items() if name in read}
    codes = {column: known.of(rows[column], where) for column, known in labels.items()}
    said: dict[str, Any] = {
        **outcome_of(columns, roles, where, e),
        **measures_of(columns, roles, where, e, covariates),
        **{role: codes[column] for role, column in roles.codes.items()},
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
        first = np.sort(np.unique(places, return_index=True)[1])
        new = [texts[place] for place in places[first]]
        refuse_control(new, str(self.column), lambda i: where(int(first[i])))
        for text in new:
            self._numbers.setdefault(text, len(self._numbers))
        return Codes(coded.numbered(self._numbers), self.texts, self.column)


def _feature_rows(
    source: Source, side: str, rows: Mapping[str, Any], where: Callable[[int], str]
) -> FloatArray:
    assert source.inline is not None
    names = [f"{side}_{name}" for name in source.inline]
    return np.column_stack([finite_of(_array(rows[name]), name, where) for name in names])


def _array(values: Any) -> npt.NDArray[Any]:
    """A column of Arrow, or an array, as an array; dates as days."""
    arrow = hasattr(values, "to_numpy")
    array = np.asarray(values.to_numpy(zero_copy_only=False) if arrow else values)
    if array.dtype.kind == "M":
        return np.asarray((array - np.datetime64(0, "D")) / np.timedelta64(1, "D"))
    return array
