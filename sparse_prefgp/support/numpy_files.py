"""Files of NumPy that may be damaged, or anybody's."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np


def read_arrays(source: Path | bytes) -> np.ndarray | dict[str, np.ndarray]:
    """The array of a `.npy` file, or those of a `.npz` file by name; the contents tell which.

    :param source: a path, whose single array is mapped and not read as a whole; or what it holds.
    :raises ValueError: anything else, Python objects, or a damaged file.
    """
    opened: Any = source
    mapped: Any = "r"
    if isinstance(source, bytes):
        opened, mapped = io.BytesIO(source), None
    try:
        found = np.load(opened, mmap_mode=mapped, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found as file:
            arrays = {name: file[name] for name in file.files}
    except MemoryError:
        raise
    except Exception as error:  # of its tokenizer, of the unpacking, of the archive and others
        raise ValueError(str(error)) from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{name} is no array")
    return arrays


def read_archive(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of a `.npz` file.

    :raises ValueError: as `read_arrays`, and for a single array.
    """
    arrays = read_arrays(data)
    if not isinstance(arrays, dict):
        raise ValueError("it is a single array")
    return arrays
