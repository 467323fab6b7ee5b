"""Tables in JSON: a record on each line, or a list of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.words import listing, shortened

JSON, JSON_LINES = ".json", (".jsonl", ".ndjson")
Record = Mapping[str, Any]


def records_in(text: str, ending: str, name: str) -> tuple[list[Record], IntArray | None, str]:
    """The records of a file, the line of each where it has one, and a sentence on what was
    recognised.

    :param name: of the file.
    :raises ValueError: what is no JSON, with its line; no records, or several lists of them.
    """
    if ending != JSON:
        return *_lines_in(text), ""
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":  # a record on each line
            return *_lines_in(text), ""
        raise ValueError(f"{error.msg} in line {error.lineno}") from None
    said = ""
    if isinstance(whole, dict):
        lists = [key for key, value in whole.items() if _is_of_records(value)]
        if len(lists) != 1:
            there = f"several lists of objects, {listing(lists)}" if lists else "no list of objects"
            raise ValueError(
                f"it has {there}, where one is needed, as a data frame writes it with "
                "orient='records'"
            )
        if len(whole) > 1:
            said = f"The rows of {name} are the list {lists[0]!r}; what is next to it is not read."
        whole = whole[lists[0]]
    if not _is_of_records(whole):
        raise ValueError("it is no list of objects, one for each row")
    return whole, None, said


def _is_of_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, dict) for x in value)


def _lines_in(text: str) -> tuple[list[Record], IntArray]:
    records: list[Record] = []
    numbers = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{error.msg} in line {number}") from None
        if not isinstance(record, dict):
            raise ValueError(f"line {number} is {shortened(line.strip())}, and no object")
        records.append(record)
        numbers.append(number)
    return records, np.array(numbers, dtype=np.int64)


def frame_of_records(
    records: Sequence[Record], id_columns: Callable[[list[str]], Sequence[str]]
) -> Any:
    """A data frame with a row for each record; fields within fields are columns such as `a.b`.

    :param id_columns: from the names of the columns to those that stay as they are written.
    :raises ValueError: two fields that would be one column.
    """
    pd = require_pandas()
    rows = []
    for number, record in enumerate(records):
        fields = list(_fields(record))
        row = dict(fields)
        if len(row) < len(fields):
            raise ValueError(f"record {number} has two fields of one name, such as a.b and b in a")
        rows.append(row)
    frame = pd.DataFrame(rows, dtype=object)
    ids = id_columns(list(frame.columns))
    return frame.assign(
        **{name: pd.Series(frame[name].tolist()) for name in frame.columns if name not in ids}
    )


def _fields(record: Record, within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _fields(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", value
