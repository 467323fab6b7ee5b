"""What it takes to learn of items that are names alone: each has a utility of its own."""

from __future__ import annotations

from typing import Any

from sparse_prefgp.support.machine import ask

# From so many on, rankings come late.
MANY_NAMES = 3_000
# Measured: square matrices of double precision at a time, processor seconds of a thousand items.
_MATRICES, _SECONDS = 16, 20.0
_REMEDY = "columns that describe the items (--items) make it quick"


def names_alone(items: Any) -> bool:
    """Whether a table of items has nothing but their names."""
    return len(items.columns) == 1


def memory_of(number: int) -> int:
    """Bytes that so many items take which are names alone."""
    return 8 * _MATRICES * number**2


def said_of_names(items: Any) -> str:
    """That learning takes long, in a sentence; empty where it does not."""
    number = len(items)
    if not names_alone(items) or number <= MANY_NAMES:
        return ""
    hours = _SECONDS * (number / 1000.0) ** 3 / 3600.0
    return (
        f"Of {number:,} items that are names alone, ranking and learned pairs come late: to learn "
        f"takes some {memory_of(number) / 2**30:.1f} GiB of memory and {hours:.1f} hours of a "
        f"processor each time; {_REMEDY}."
    )


def ask_for_names(items: Any) -> None:
    """Whether there is memory to learn of items, where these are names alone.

    :raises NotEnoughMemory: more is needed than is free.
    """
    if names_alone(items):
        number = len(items)
        what = f"The covariances of {number:,} items that are names alone"
        ask(memory_of(number), what, _REMEDY)
