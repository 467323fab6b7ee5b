"""Calls that only the process that makes them unpacks."""

from __future__ import annotations

import pickle
import sys
import threading
from typing import Any

from sparse_prefgp.support.quiet import held_back_stderr

# The error stream is that of the whole process: one thread at a time holds it back.
_lock = threading.Lock()


def run_pickled(pickled: bytes) -> Any:
    """Call a function pickled with its arguments.

    A Dask scheduler unpickles what it passes on. This module needs nothing beyond Python and what
    itself needs nothing else, so that it neither imports TensorFlow there, which blocks it for
    seconds, nor opens files.
    """
    with _lock:
        if "tensorflow" in sys.modules:
            function, arguments = pickle.loads(pickled)
        else:
            with held_back_stderr():  # the first call imports TensorFlow, which prints notices
                function, arguments = pickle.loads(pickled)
    return function(*arguments)
