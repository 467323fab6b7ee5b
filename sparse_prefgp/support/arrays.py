"""Types of arrays, for annotations, and runs of numbers."""

from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]


def first_true(flags: npt.ArrayLike) -> list[int]:
    """The first place that is true, for a loop that refuses it; nothing where none is."""
    places: list[int] = np.flatnonzero(flags)[:1].tolist()
    return places


def runs(starts: IntArray, sizes: IntArray) -> IntArray:
    """starts[0], starts[0] + 1, …, then starts[1], …: so many of each."""
    shift = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    return np.asarray(shift + np.arange(len(shift)))


def distinct(values: AnyArray, axis: int | None = None) -> tuple[AnyArray, IntArray]:
    """Different values, or rows along axis 0, ascending, and the number of each, flat."""
    found, number = np.unique(values, axis=axis, return_inverse=True)
    return found, number.reshape(-1)
