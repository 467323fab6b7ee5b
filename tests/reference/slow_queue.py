"""Whom a pair may still be asked, one person and one answer after another."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def slow_left(
    answers: Sequence[tuple[str, str, str]], invited: Collection[str], pair: tuple[str, str]
) -> int:
    """How many of those invited, or else of those who have answered anything, never answered the
    pair in either order; of answers (left, right, person)."""
    number = 0
    for person in sorted({*invited} or {one[2] for one in answers}):
        met = False
        for left, right, who in answers:
            same = (left, right) == pair or (right, left) == pair
            met = met or (who == person and same)
        number += not met
    return number
