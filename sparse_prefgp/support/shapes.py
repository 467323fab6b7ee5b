"""Checks of shapes around what users compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import check_shapes as library
import tensorflow as tf

F = TypeVar("F", bound=Callable[..., Any])


def as_written(function: F) -> F:
    """A function that AutoGraph leaves alone when it is compiled: it is TensorFlow as it stands,
    and its errors stay one sentence."""
    return cast(F, tf.autograph.experimental.do_not_convert(function))


def check_shapes(*specs: str) -> Callable[[F], F]:
    """The library's `check_shapes`, of a function that stays as it is written."""

    def checked(function: F) -> F:
        return as_written(library.check_shapes(*specs)(function))

    return checked
