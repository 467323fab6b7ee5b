"""Results that say where to look for what they have not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def says(sentence: str) -> Callable[[Any, str], Any]:
    """A `__getattr__` that says so, to be kept from type checkers, which would believe any name.

    :param sentence: with `{name}` for what was asked for.
    """

    def find(self: Any, name: str) -> Any:
        if hasattr(type(self), name):  # a property that failed: by its own error
            return object.__getattribute__(self, name)
        raise AttributeError(sentence.format(name=repr(name)))

    return find
