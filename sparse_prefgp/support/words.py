"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 duel`, `1,200 duels`; the plural takes an s unless it is given."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def agreeing(number: int, one: str = "is", more: str = "are") -> str:
    """The verb of so many things."""
    return one if number == 1 else more
