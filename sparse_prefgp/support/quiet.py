"""What libraries print of their own accord."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def warnings_alone(logger: logging.Logger) -> Iterator[None]:
    """Keep what a library logs to itself, but for warnings and errors."""
    before = logger.level
    logger.setLevel(max(before, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def held_back_stderr() -> Iterator[None]:
    """Keep what libraries print to the error stream to themselves, unless the block fails.

    TensorFlow's compiled part prints notices before it reads its own log level. Where there is no
    error stream, or no place for a temporary file, nothing is held back.
    """
    with ExitStack() as stack:
        try:
            visible = os.dup(2)
            stack.callback(os.close, visible)
            held = stack.enter_context(tempfile.TemporaryFile())
        except OSError:
            yield
            return
        if sys.stderr is not None:
            sys.stderr.flush()
        stack.callback(os.dup2, visible, 2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except Exception:
            os.dup2(visible, 2)
            held.seek(0)
            os.write(2, held.read())
            raise
