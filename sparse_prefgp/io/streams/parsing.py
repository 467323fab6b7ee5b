"""Rows as arrays: checked, summed up and standardised."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.answers import Answers, Codes, arrays_of
from sparse_prefgp.data.roles import ROLES
from sparse_prefgp.io.files import refuse_control
from sparse_prefgp.io.judgements import TIE, Roles, measures_of, outcome_of
from sparse_prefgp.io.streams.blocks import SIDES, Coded, Rows, Source
from sparse_prefgp.io.streams.items import Lookup
from sparse_prefgp.io.values import finite_of, missing_label, refuse_itself
from sparse_prefgp.support.arrays import FloatArray, first_true


def parsed(
    source: Source,
    lookup: Lookup | None,
    rows: Rows,
    position: int,
    labels: Mapping[str, dict[str, int]],
) -> tuple[Answers, FloatArray | None, int]:
    """Rows as events, checked, features of their sides where these are inline, and a checksum;
    `position` is that of the first row.

    :param lookup: how rows of items are found; None where features are inline.
    :param labels: of who judged, of people and of other labels, by column, those of the rows
        before; those of these rows are added.
    :raises ValueError: naming the row.
    """
    if isinstance(rows, Answers):
        return rows, None, _checksum([rows.sides, rows.offsets], rows)

    def where(i: int) -> str:
        return source.where(position + i)

    def codes(column: str, what: str) -> Codes:
        coded, numbers = Coded.of(rows[column]), labels[column]
        for i in first_true(coded.missing):
            raise missing_label(column, where(i), what)
        first = np.sort(np.unique(coded.places, return_index=True)[1])
        new = [coded.texts[place] for place in coded.places[first]]
        refuse_control(new, column, lambda i: where(int(first[i])))
        for text in new:
            numbers.setdefault(text, len(numbers))
        return Codes(coded.numbered(numbers), tuple(numbers), column)

    sides: list[npt.NDArray[Any]] = []
    for k, name in enumerate(SIDES):
        if lookup is None:
            names = [f"{name}_{x}" for x in source.inline or ()]
            sides.append(np.column_stack([finite_of(_array(rows[x]), x, where) for x in names]))
            continue
        context = [rows[pair[k]] for pair in source.context_pairs]
        sides.append(lookup.known_rows(rows[name], context, name, where))
    if lookup is None:
        same = (sides[0] == sides[1]).all(1)
    else:
        same = np.equal(*map(lookup.item_of, sides))
    refuse_itself(same, where, lambda i: "an item")
    e, roles, covariates = len(same), source.roles, source.covariate_columns
    read = {roles.count_column, roles.weight, roles.grade, TIE, *chain(*covariates)}
    columns = {name: _array(values) for name, values in rows.items() if name in read}
    said: dict[str, Any] = {
        **outcome_of(columns, roles, where),
        **measures_of(columns, roles, where, e, covariates),
        **{role: codes(column, ROLES[role].words[0]) for role, column in roles.codes.items()},
        "covariate_names": roles.covariates,
        "labels": {name: codes(column, "label") for name, column in roles.labels.items()},
    }
    if lookup is not None:
        events = Answers.between(*sides, **said)
        return events, None, _checksum([events.sides], events)
    # The rows of an event lie side by side.
    events = Answers.between(*np.arange(2 * e).reshape(-1, 2).T, **said)
    return events, np.stack(sides, 1).reshape(2 * e, -1), _checksum(sides, events)


def _checksum(arrays: Sequence[npt.NDArray[Any]], events: Answers) -> int:
    """Of these and all else that events say."""
    digest = 0
    for array in (*arrays, *arrays_of(events.columns)):
        digest = zlib.crc32(np.ascontiguousarray(array).data, digest)
    return digest


def labels_by_column(
    roles: Roles, known: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> dict[str, dict[str, int]]:
    """Who judged, whose preference it is and other labels, by the columns that say so, numbered in
    the order of their first appearance over all rows of a stream.

    :param known: labels that were met already, as texts.
    """
    columns = *roles.labels.values(), *roles.codes.values()
    return {name: {x: i for i, x in enumerate(known.get(name, ()))} for name in columns}


def _array(values: Any) -> npt.NDArray[Any]:
    """A column of Arrow, or an array, as an array; dates as days."""
    arrow = hasattr(values, "to_numpy")
    array = np.asarray(values.to_numpy(zero_copy_only=False) if arrow else values)
    if array.dtype.kind == "M":
        return np.asarray((array - np.datetime64(0, "D")) / np.timedelta64(1, "D"))
    return array
