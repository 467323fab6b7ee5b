"""Calls that only the process that makes them unpacks."""

from __future__ import annotations

import pickle
from typing import Any

from sparse_prefgp.streams import held_back_stderr


def call(packed: bytes) -> Any:
    """Call a function pickled with its arguments.

    A Dask scheduler unpickles what it passes on. This module needs nothing beyond Python, so that
    it neither imports TensorFlow there, which blocks it for seconds, nor opens files.
    """
    with held_back_stderr():  # the first call of a worker imports TensorFlow, which prints notices
        function, arguments = pickle.loads(packed)
    return function(*arguments)
