"""Which pair a person gets next, and on which side each item is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from sparse_prefgp.analysis.first_round import FIRST_SHOWN, balanced_pair
from sparse_prefgp.support.arrays import BoolArray, FloatArray

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


class Utilities(NamedTuple):
    """What is known of items, (n,) each; NaN of one of which nothing is."""

    mean: FloatArray
    variance: FloatArray
    duel_noise: float

    def differ(self, first: int, least: float) -> BoolArray:
        """Of which items (n,) one is expected to beat the other with this chance or more, as far as
        their utilities are independent."""
        variance = self.variance[first] + self.variance + self.duel_noise
        return ~(ndtr(np.abs(self.mean[first] - self.mean) / np.sqrt(variance)) < least)


class Pairing:
    """Pairs for everybody: a balanced random round first, then those of a queue, with some random
    ones among them."""

    def __init__(
        self,
        number: int,
        rng: np.random.Generator,
        explore: float = 0.1,
        repeat: bool = False,
        closest: float = 0.5,
    ) -> None:
        """:param number: of items.
        :param explore: the share of random pairs once there is a queue.
        :param repeat: whether a person may get a pair again that the person answered.
        :param closest: pairs whose better one wins with a smaller chance are not asked.
        """
        self._number, self._rng = number, rng
        self._explore, self._repeat, self._closest = explore, repeat, closest
        self._suited: Callable[[int], BoolArray] | None = None
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

    def refill(self, pairs: Iterable[tuple[int, int]], utilities: Utilities | None = None) -> None:
        """Take these pairs in place of what was in the queue, the first to be asked first.

        :param utilities: as they are known now, by which random pairs are nearly even.
        """
        self._queue = [(min(one), max(one)) for one in pairs]
        if utilities is not None and self._closest > 0.5:
            self._suited = partial(utilities.differ, least=self._closest)

    def has_met(self, person: str, pair: Pair) -> bool:
        """Whether the person answered this pair, and may not again."""
        return not self._repeat and pair.unordered in self._met.get(person, ())

    def next(self, person: str, held: Collection[tuple[int, int]] = ()) -> Pair | None:
        """A pair for this person; None where the person has answered all there are.

        :param held: pairs that the person's page has, the smaller number first.
        """
        waiting = self._handed_out.setdefault(person, [])
        apart = {*waiting, *held} | (set() if self._repeat else self._met.get(person, set()))
        pair = self._of_queue(apart)
        if pair is None:
            pair = balanced_pair(self._shown, apart, self._rng, self._suited)
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
