"""Files of NumPy that are damaged end in one sentence."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sparse_prefgp.io.vectors import with_embedding
from sparse_prefgp.support.numpy_files import read_archive, read_arrays
from tests.damaging import DAMAGED_ARRAYS

ARRAY = np.arange(600.0).reshape(100, 6)


def archive() -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=ARRAY)
    return buffer.getvalue()


def single(header: bytes) -> bytes:
    """A `.npy` file with this header."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


HEADERS = (b"{'descr': '<f8', 'shape': (2", b"{1: 2, 'a': 3}", b"{[]: 1}", 5000 * b"-", b"\xff\n")


@pytest.mark.parametrize("damage", DAMAGED_ARRAYS.values(), ids=DAMAGED_ARRAYS)
def test_damaged_archives(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    refused(damage(archive()), tmp_path)


@pytest.mark.parametrize("header", HEADERS)
def test_damaged_headers(header: bytes, tmp_path: Path) -> None:
    refused(single(header), tmp_path)


def test_every_flipped_byte() -> None:
    """Whatever it does, nothing but a `ValueError` comes of it."""
    whole = archive()
    for place in range(0, len(whole), 7):
        try:
            read_arrays(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        except (ValueError, MemoryError):
            continue


def test_what_is_no_array() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a.npy", "text")
    with pytest.raises(ValueError, match="no array"):
        read_arrays(buffer.getvalue())
    alone = io.BytesIO()
    np.save(alone, ARRAY)
    np.testing.assert_array_equal(read_arrays(alone.getvalue()), ARRAY)
    with pytest.raises(ValueError, match="single array"):
        read_archive(alone.getvalue())


def refused(data: bytes, folder: Path) -> None:
    path = folder / "vectors.npz"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"cannot be read as vectors.*\.$") as caught:
        with_embedding(None, path)
    assert "\n" not in str(caught.value)
