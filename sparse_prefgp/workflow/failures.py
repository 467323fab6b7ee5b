"""Why a fit failed, as one plain sentence for a table."""

from __future__ import annotations

import re

from sparse_prefgp.support.machine import short_of_memory

# What TensorFlow puts around its own words: names of graph nodes and operations, its trace.
_NODES = re.compile(r"\{\{.*?\}\}|\[\[\{\{.*?\}\}\]\]|\[Op:[^\]]*\].*")
_TRACE = ("Graph execution error", "Detected at node", "File ", "Stack trace", "[[{{")
_LONGEST = 160


def failures() -> tuple[type[Exception], ...]:
    """What one candidate may fail by without ending a comparison; anything else is a bug."""
    import tensorflow as tf

    return (ValueError, ArithmeticError, MemoryError, RuntimeError, tf.errors.OpError)


def reason_of(error: Exception) -> str:
    """The first line of what an error says, without what only TensorFlow's authors can read."""
    import tensorflow as tf

    if sentence := short_of_memory(error):
        return sentence
    lines = [line.strip() for line in str(error).splitlines()]
    if not isinstance(error, tf.errors.OpError):
        return next(filter(None, lines), type(error).__name__)
    plain = (_NODES.sub("", line).strip() for line in lines if not line.startswith(_TRACE))
    text = next(filter(None, plain), type(error).__name__)
    if len(text) > _LONGEST:
        text = text[:_LONGEST].rsplit(" ", 1)[0] + " …"
    return f"TensorFlow reports {text.rstrip('.')!r}."
