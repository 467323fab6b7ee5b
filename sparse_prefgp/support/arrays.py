"""Types of arrays, for annotations, and runs of numbers."""

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]


def runs(starts: IntArray, sizes: IntArray) -> IntArray:
    """starts[0], starts[0] + 1, …, then starts[1], …: so many of each."""
    shift = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
    return np.asarray(shift + np.arange(len(shift)))
