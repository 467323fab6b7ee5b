"""Which pair a person gets next, and on which side each item is."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from sparse_prefgp.analysis.first_round import FIRST_SHOWN, balanced_pair
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

# Of a person what was handed out and not answered, so that nothing is handed out twice.
HANDED_OUT = 8
_CHUNK_NUMBERS = 1_000_000


class Pair(NamedTuple):
    """Numbers of items, by the sides on which they are shown."""

    left: int
    right: int

    @property
    def unordered(self) -> tuple[int, int]:
        """The same pair on whichever sides."""
        return min(self), max(self)


@dataclass(frozen=True, eq=False)
class Uneven:
    """Pairs of which one is expected to beat the other with the chance `least` or more, as far as
    their utilities are independent; those with an item of which nothing is known are among them."""

    mean: FloatArray
    """(n,) of utilities, NaN where nothing is known."""
    variance: FloatArray
    duel_noise: float
    least: float
    numbers: IntArray = field(init=False)
    """(n,) in how many such pairs each item is: of 10,000 items this takes a second."""

    def __post_init__(self) -> None:
        number = len(self.mean)
        step = max(1, _CHUNK_NUMBERS // number)
        parts = [np.arange(i, min(i + step, number)) for i in range(0, number, step)]
        counts = np.concatenate([self._of(part[:, None]).sum(1) for part in parts])
        object.__setattr__(self, "numbers", counts - np.isnan(self.mean))  # not with itself

    def others(self, first: int) -> BoolArray:
        """(n,) with which others an item makes such a pair."""
        return self._of(np.array(first))

    def _of(self, first: IntArray) -> BoolArray:
        variance = self.variance[first] + self.variance + self.duel_noise
        needed = float(ndtri(self.least)) ** 2 * variance
        even: BoolArray = (self.mean[first] - self.mean) ** 2 < needed
        return ~even


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
        self._uneven: Uneven | None = None
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

    def refill(self, pairs: Iterable[tuple[int, int]], uneven: Uneven | None = None) -> None:
        """Take these pairs in place of what was in the queue, the first to be asked first.

        :param uneven: pairs to which random ones are kept.
        """
        self._queue = [(min(one), max(one)) for one in pairs]
        self._uneven = uneven

    def has_met(self, person: str, pair: Pair) -> bool:
        """Whether the person answered this pair, and may not again."""
        return not self._repeat and pair.unordered in self._met.get(person, ())

    def next(self, person: str, held: Collection[tuple[int, int]] = ()) -> Pair | None:
        """A pair for this person; None where the person has answered all that may be asked.

        :param held: pairs that the person's page has, the smaller number first.
        """
        waiting = self._handed_out.setdefault(person, [])
        apart = {*waiting, *held} | (set() if self._repeat else self._met.get(person, set()))
        pair = self._of_queue(apart)
        if pair is None:
            pair = self._random(apart)
        if pair is None:  # what was handed out and not answered, as before a reload
            left = [one for one in waiting if one not in held]
            if not left:
                return None
            pair = left[0]
            waiting.remove(pair)
        waiting.append(pair)
        del waiting[:-HANDED_OUT]
        return Pair(*(pair if self._rng.random() < 0.5 else pair[::-1]))

    def has_met_all(self, person: str) -> bool:
        """Whether the person answered every pair there is."""
        return len(self._met.get(person, ())) >= self._number * (self._number - 1) // 2

    def _random(self, apart: set[tuple[int, int]]) -> tuple[int, int] | None:
        # In the first round too little is known to leave any out: nothing might ever be learned.
        if self._uneven is None or self._is_first_round():
            return balanced_pair(self._shown, apart, self._rng)
        uneven = self._uneven
        return balanced_pair(self._shown, apart, self._rng, uneven.others, uneven.numbers > 0)

    def _of_queue(self, apart: set[tuple[int, int]]) -> tuple[int, int] | None:
        if not self._queue or self._is_first_round() or self._rng.random() < self._explore:
            return None
        for place, pair in enumerate(self._queue):
            if pair not in apart:
                return self._queue.pop(place)
        return None

    def _is_first_round(self) -> bool:
        return bool(np.any(self._shown < FIRST_SHOWN))
