"""Which pair a person gets next, and on which side each item is."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np

from sparse_prefgp.analysis.first_round import FIRST_SHOWN, balanced_pair

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
    ones among them."""

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

    def has_met(self, person: str, pair: Pair) -> bool:
        """Whether the person answered this pair, and may not again."""
        return not self._repeat and pair.unordered in self._met.get(person, ())

    def next(self, person: str, held: Collection[tuple[int, int]] = ()) -> Pair | None:
        """A pair for this person; None where the person has answered all there are.

        :param held: pairs that the person's page has, the smaller number first.
        """
        waiting = self._handed_out.setdefault(person, [])
        apart = {*waiting, *held} | (set() if self._repeat else self._met.get(person, set()))
        pair = self._of_queue(apart) or balanced_pair(self._shown, apart, self._rng)
        if pair is None:  # what was handed out and not answered, as before a reload
            left = [one for one in waiting if one not in held]
            if not left:
                return None
            pair = left[0]
            waiting.remove(pair)
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
