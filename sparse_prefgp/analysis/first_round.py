"""Which pairs to ask before there is any answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.io.files import load_items
from sparse_prefgp.support.arrays import BoolArray, IntArray
from sparse_prefgp.support.checks import whole_number
from sparse_prefgp.support.randomness import generator
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table, first_of, records

# By default each item is shown so often, against different ones.
FIRST_SHOWN = 2


@dataclass(frozen=True, eq=False, repr=False)
class FirstRound(Result):
    """Pairs to ask first; `print` shows it as text."""

    rows_name = "pairs"

    frame: Any
    """Data frame with one row per pair: `first` and `second` (ids), by the sides to show them on.
    """
    items: int
    """How many items there are."""

    def table(self, most: int | None = None) -> Table:
        """The pairs, in the order in which to ask them."""
        shown = self.frame.iloc[:most]
        title = "Ask first"
        if len(shown) < len(self.frame):
            title = first_of(len(shown), len(self.frame), "pairs to ask first")
        columns = [Column(name, name, str, left=True) for name in ("first", "second")]
        return Table("pairs", title, columns, records(shown))

    def sentences(self) -> list[str]:
        """How they were chosen."""
        shown = np.unique(self.frame[["first", "second"]], return_counts=True)[1]
        fewest = int(shown.min()) if len(shown) == self.items else 0
        most = int(shown.max())
        times = f"{most:,} times" if fewest == most else f"{fewest:,} or {most:,} times"
        return [
            f"Different random pairs of {self.items:,} items, each shown {times}, on either side "
            "by chance."
        ]


def first_round(
    items: Any, pairs: int | None = None, rng: np.random.Generator | None = None
) -> FirstRound:
    """Balanced random pairs, for a first round without a model.

    :param items: path or data frame, whose id is the column `item_id`, else the first.
    :param pairs: how many; by default as many as there are items, so that each is shown twice.
    :param rng: of pairs and sides.
    :raises ValueError: fewer than two items, or more pairs than there are; what a table of items
        raises.
    """
    ids, _ = load_items(items).ids()
    number = len(ids)
    possible = number * (number - 1) // 2
    wanted = min(FIRST_SHOWN * number // 2, possible)
    pairs = wanted if pairs is None else whole_number("pairs", pairs, 1)
    if number < 2:
        raise ValueError("There is one item; a pair needs two.")
    if pairs > possible:
        raise ValueError(
            f"{pairs:,} pairs were asked for, but {number:,} items make {possible:,}; ask for "
            "fewer (--batch, pairs=)."
        )
    rng = generator(rng)
    shown = np.zeros(number, dtype=np.int64)
    taken: set[tuple[int, int]] = set()
    sides = []
    for _ in range(pairs):
        pair = balanced_pair(shown, taken, rng)
        assert pair is not None
        taken.add(pair)
        shown[list(pair)] += 1
        sides.append(pair if rng.random() < 0.5 else pair[::-1])
    first, second = zip(*sides, strict=True)
    frame = require_pandas().DataFrame(
        {"first": [ids[i] for i in first], "second": [ids[i] for i in second]}
    )
    return FirstRound(frame, number)


def balanced_pair(
    shown: IntArray,
    apart: Collection[tuple[int, int]],
    rng: np.random.Generator,
    suited: Callable[[int], BoolArray] | None = None,
    first_ones: BoolArray | None = None,
) -> tuple[int, int] | None:
    """A random pair of an item that was shown least often, and of one that was shown least often of
    those that it can meet; None where there is no such pair.

    :param shown: (n,) how often each item was.
    :param apart: pairs that are not wanted, the smaller number first.
    :param suited: of an item, (n,) which others it may meet; by default all.
    :param first_ones: (n,) items that may meet any, where others need not be tried; by default all.
    """
    if len(apart) >= len(shown) * (len(shown) - 1) // 2:
        return None
    ranked = np.lexsort((rng.random(len(shown)), shown))
    met: dict[int, set[int]] = {}
    for one, other in apart:
        met.setdefault(one, {one}).add(other)
        met.setdefault(other, {other}).add(one)
    for first in (ranked if first_ones is None else ranked[first_ones[ranked]]).tolist():
        others = ranked if suited is None else ranked[suited(first)[ranked]]
        not_wanted = met.get(first, {first})
        second = next((one for one in others.tolist() if one not in not_wanted), None)
        if second is not None:
            return min(first, second), max(first, second)
    return None
