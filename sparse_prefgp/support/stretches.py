"""Functions of many values, some at a time, so that what they make on the way stays small."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import tensorflow as tf

# That of all functions of sites: of two hundred arrays on the way, 26 MiB.
LENGTH = 1 << 14
Found = TypeVar("Found")


def by_stretches(function: Callable[..., Found]) -> Callable[..., Found]:
    """`function` of nested (t,) tensors or None, t known, called with `LENGTH` of all at a time.

    :param function: of each value by itself; what it returns is nested (t,) tensors or None too.
    """

    @wraps(function)
    def whole(*each: Any) -> Found:
        size = next(x.shape[0] for x in tf.nest.flatten(each) if x is not None)
        if size <= LENGTH:
            return function(*each)

        def stretch(start: int) -> Any:
            return tf.nest.map_structure(
                lambda x: None if x is None else tf.slice(x, [start], [LENGTH]), each
            )

        # All stretches have one length, and are compiled once: the last one begins earlier.
        starts = [*range(0, size - LENGTH, LENGTH), size - LENGTH]
        parts: list[Found] = []
        for start in starts:
            # One after the other in a graph too, else all are in memory at once.
            with tf.control_dependencies([x for x in tf.nest.flatten(parts[-1:]) if x is not None]):
                parts.append(function(*stretch(start)))
        again = (len(parts) - 1) * LENGTH - starts[-1]

        def joined(*of_site: Any) -> tf.Tensor | None:
            *others, last = of_site
            return None if last is None else tf.concat([*others, last[again:]], 0)

        found: Found = tf.nest.map_structure(joined, *parts)
        return found

    return whole
