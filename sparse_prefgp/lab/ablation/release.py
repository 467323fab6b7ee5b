"""Giving back the memory of compiled functions, so that a thousand runs fit into one process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def released() -> Iterator[None]:
    """Forget at the end of the block what was compiled within it.

    TensorFlow keeps the graph of every function that holds a custom gradient in a registry without
    end, and TensorFlow Probability keeps tensors of traced bijectors: some 20 MB a fit. Compiled
    functions made in the block must not be used after it.
    """
    gradients, tensors = _gradients(), _bijector_tensors()
    before = set(gradients)
    try:
        yield
    finally:
        for name in set(gradients) - before:
            del gradients[name]
        tensors.clear()
        gc.collect()


def _gradients() -> dict[str, Any]:
    """TensorFlow's gradient functions by name; its own dictionary, for there is no public way."""
    from tensorflow.python.framework import ops

    return getattr(ops.gradient_registry, "_registry", {})


def _bijector_tensors() -> Any:
    """What the bijectors of all parameters remember; the same."""
    import tensorflow_probability as tfp

    cache = getattr(tfp.bijectors.Bijector, "_cache", None)
    return getattr(cache, "storage", {})
