"""Which pair a person gets next, and on which side each item is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from sparse_prefgp.support.arrays import IntArray

# Before anything was learned each item is shown so often, against different ones.
FIRST_SHOWN = 2
# Of a person what was handed out and not answered, so that nothing is handed out twice.
HANDED_OUT = 8


class Pair(NamedTuple):
    """Numbers of items, by the sides on which they are shown."""

    left: int
    right: int

    @property
    def unordered(self) -> tuple[int, int]:
        """The same pair on whichever sides."""
        return min(self), max(self)


class Pairing:
    """Pairs for everybody: a balanced random round first, then those of a queue, with some random
    ones among them.

    A balanced random pair is of an item that was shown least often, and of one that was shown least
    often of those that it can meet.
    """

    def __init__(
        self,
        number: int,
        rng: np.random.Generator,
        explore: float = 0.1,
        repeat: bool = False,
    ) -> None:
        """:param number: of items.
        :param explore: the share of random pairs once there is a queue.
        :param repeat: whether a person may get a pair again that the person answered.
        """
        self._number, self._rng = number, rng
        self._explore, self._repeat = explore, repeat
        self._shown = np.zeros(number, dtype=np.int64)
        self._met: dict[str, set[tuple[int, int]]] = {}
        self._handed_out: dict[str, list[tuple[int, int]]] = {}
        self._queue: list[tuple[int, int]] = []

    def count(self, person: str, pair: Pair) -> None:
        """The person answered, or skipped, this pair."""
        self._shown[list(pair)] += 1
        self._met.setdefault(person, set()).add(pair.unordered)
        waiting = self._handed_out.get(person, [])
        if pair.unordered in waiting:
            waiting.remove(pair.unordered)

    def uncount(self, person: str, pair: Pair) -> None:
        """An answer was taken back, so that the pair may be asked again."""
        self._shown[list(pair)] -= 1
        self._met.get(person, set()).discard(pair.unordered)

    def refill(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Take these pairs in place of what was in the queue, the first to be asked first."""
        self._queue = [(min(one), max(one)) for one in pairs]

    def next(self, person: str) -> Pair | None:
        """A pair for this person; None where the person has answered all there are."""
        waiting = self._handed_out.setdefault(person, [])
        apart = set(waiting) | (set() if self._repeat else self._met.get(person, set()))
        pair = self._of_queue(apart) or self._balanced(apart)
        if pair is None:
            return None
        waiting.append(pair)
        del waiting[:-HANDED_OUT]
        return Pair(*(pair if self._rng.random() < 0.5 else pair[::-1]))

    def _of_queue(self, apart: set[tuple[int, int]]) -> tuple[int, int] | None:
        first_round = bool(self._queue) and int(self._shown.min()) < FIRST_SHOWN
        if not self._queue or first_round or self._rng.random() < self._explore:
            return None
        for place, pair in enumerate(self._queue):
            if pair not in apart:
                return self._queue.pop(place)
        return None

    def _balanced(self, apart: set[tuple[int, int]]) -> tuple[int, int] | None:
        order = least_shown(self._shown, self._rng)
        if len(apart) >= self._number * (self._number - 1) // 2:
            return None
        for first in order:
            met = {sum(pair) - first for pair in apart if first in pair}
            for second in order:
                if second != first and second not in met:
                    return int(min(first, second)), int(max(first, second))
        return None


def least_shown(shown: IntArray, rng: np.random.Generator) -> IntArray:
    """Items by how often they were shown, (n,), in random order where it is as often."""
    return np.lexsort((rng.random(len(shown)), shown))


def balanced_pairs(number: int, pairs: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Different random pairs in which every item occurs as often as every other, but for one.

    :param number: of items.
    :param pairs: how many.
    :raises ValueError: more than there are.
    """
    possible = number * (number - 1) // 2
    if pairs > possible:
        raise ValueError(
            f"{pairs:,} pairs were asked for, but {number:,} items make {possible:,}; ask for "
            "fewer (--batch)."
        )
    pairing = Pairing(number, rng)
    chosen = []
    for _ in range(pairs):
        pair = pairing.next("")
        assert pair is not None
        pairing.count("", pair)
        chosen.append((pair.left, pair.right))
    return chosen
