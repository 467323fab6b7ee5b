"""What libraries print of their own accord."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back_stderr() -> Iterator[None]:
    """Keep what libraries print to the error stream to themselves, unless the block fails.

    TensorFlow's compiled part prints notices before it reads its own log level.
    """
    sys.stderr.flush()
    visible = os.dup(2)
    try:
        with tempfile.TemporaryFile() as held:
            os.dup2(held.fileno(), 2)
            try:
                yield
            except Exception:
                os.dup2(visible, 2)
                held.seek(0)
                os.write(2, held.read())
                raise
    finally:
        os.dup2(visible, 2)
        os.close(visible)
