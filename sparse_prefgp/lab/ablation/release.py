"""Giving back the memory of compiled functions, so that a thousand runs fit into one process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sparse_prefgp.support.lazy import late

# There is no public way: TensorFlow's registry of gradients only grows (its issues 27492, 97697).
ops = late("tensorflow.python.framework.ops")
probability = late("tensorflow_probability")


@contextmanager
def released() -> Iterator[None]:
    """Forget at the end of the block what was compiled within it.

    TensorFlow keeps the graph of every function that holds a custom gradient in a registry without
    end, and TensorFlow Probability keeps tensors of traced bijectors: some 20 MB a fit, of which
    neither alone gives anything back. Compiled functions made in the block must not be used after
    it. Where both have moved to other places, nothing is forgotten.
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
    """TensorFlow's gradient functions by name; its own dictionary."""
    try:
        found: dict[str, Any] = ops.gradient_registry._registry
    except (ImportError, AttributeError):
        return {}
    return found


def _bijector_tensors() -> Any:
    """What the bijectors of all parameters remember; the same."""
    cache = getattr(probability.bijectors.Bijector, "_cache", None)
    return getattr(cache, "storage", {})
