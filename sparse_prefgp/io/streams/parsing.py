"""Rows as arrays: checked, summed up and standardised."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.features import FeatureTransform
from sparse_prefgp.io.streams.items import ItemTable
from sparse_prefgp.io.streams.rows import SIDES, Chunk, Rows, Source

FloatArray = npt.NDArray[np.float64]


def parsed(
    source: Source,
    items: ItemTable | None,
    transform: FeatureTransform | None,
    rows: Rows,
    position: int,
) -> tuple[Chunk, int]:
    """Rows as arrays, checked, and a checksum of them; `position` is that of the first.

    Raises:
        ValueError: naming the row.
    """
    sides: list[npt.NDArray[Any]]
    if items is None:
        sides = [_feature_rows(source, side, rows[side], position) for side in (0, 1)]
        same = (sides[0] == sides[1]).all(1)
    else:
        sides = []
        for name, values in zip(SIDES, rows[:2], strict=True):
            number = values if source.row_numbers else items.rows_of(values)
            bad = np.flatnonzero(number < 0)
            if bad.size:
                i = int(bad[0])
                raise ValueError(
                    f"The {name} {_shown(values[i])} in {source.where(position + i)} is not among "
                    "the items; add it there, or remove the duel."
                )
            sides.append(number)
        same = sides[0] == sides[1]
    if same.any():
        i = int(np.flatnonzero(same)[0])
        raise ValueError(
            f"The duel in {source.where(position + i)} is of an item with itself; remove it, or "
            "correct its winner or loser."
        )
    counts = np.ones(len(sides[0]))
    if rows.counts is not None:
        counts = _numbers(rows.counts)
        bad = np.flatnonzero(~((counts >= 1.0) & (counts == np.floor(counts))))
        if bad.size:
            i = int(bad[0])
            raise ValueError(
                f"The count in {source.where(position + i)} is {counts[i]:g}; counts are whole "
                "numbers of at least 1."
            )
    digest = 0
    for array in (*sides, counts):
        digest = zlib.crc32(array.tobytes(), digest)
    if transform is not None and items is None:
        mean, scale = np.array(transform.mean), np.array(transform.scale)
        sides = [(side - mean) / scale for side in sides]
    return Chunk(position, sides[0], sides[1], counts), digest


def _feature_rows(source: Source, side: int, values: Any, position: int) -> FloatArray:
    names = source.inline
    assert names is not None
    if isinstance(values, list):
        try:
            array = np.column_stack([_numbers(column) for column in values])
        except (TypeError, ValueError):
            raise ValueError(
                f"The features of {source.name} hold something that is no number; streams take "
                "numeric features only."
            ) from None
    else:
        array = np.asarray(values, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        i, j = bad[0]
        raise ValueError(
            f"The feature '{SIDES[side]}_{names[j]}' is missing or not finite in "
            f"{source.where(position + int(i))}; fill it in, or remove the duel."
        )
    return array


def _numbers(values: Any) -> FloatArray:
    if hasattr(values, "to_numpy"):
        values = values.to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def _shown(value: Any) -> str:
    plain = value.as_py() if hasattr(value, "as_py") else value
    plain = plain.decode(errors="replace") if isinstance(plain, bytes) else plain
    return "(missing)" if plain is None else repr(plain.item() if hasattr(plain, "item") else plain)
