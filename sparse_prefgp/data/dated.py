"""When duels were, as a model of utilities in time sees it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.slices import sliced
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray


class Dated(NamedTuple):
    """When duels were, and when in slices."""

    dates: FloatArray
    """(e,) of each event: the mean day of its slice."""
    begin: FloatArray
    """Of each item by its number: that of the first slice in which something is learned of it; NaN
    where nothing is."""
    first: FloatArray
    """Of each item by its number: the day of its first duel; NaN where it takes part in none."""
    last: FloatArray
    """Of each item by its number: the day of its last duel; NaN where it takes part in none."""
    starts: FloatArray
    """Of each row of the items: the day of its first duel; NaN where it takes part in none."""

    @property
    def from_when(self) -> FloatArray:
        """Of each item by its number: the day of its first duel, or of the slice of that if later;
        NaN where it takes part in none."""
        return np.maximum(self.begin, self.first)

    @classmethod
    def of(cls, duels: Duels, slices: Any, learned: BoolArray | None = None) -> Dated:
        """Those of duels with dates.

        :param slices: as `slice_numbers` takes them.
        :param learned: (e,) which events tell something of utilities; None where all do.
        """
        events = duels.events
        assert events.time is not None
        times, place = sliced(events.time, slices, events.counts)
        number, sizes = duels.item[events.sides], events.sizes
        when, items = np.repeat(events.time, sizes), int(duels.item.max()) + 1
        tells = np.repeat(np.ones(len(place), bool) if learned is None else learned, sizes)
        return cls(
            times[place],
            _earliest(np.repeat(times[place], sizes)[tells], number[tells], items),
            _earliest(when, number, items),
            -_earliest(-when, number, items),
            _earliest(when, events.sides, duels.num_items),
        )


def _earliest(days: FloatArray, of: IntArray, size: int) -> FloatArray:
    """(size,) the least day of each number; NaN where it has none."""
    found = np.full(size, np.inf)
    np.minimum.at(found, of, days)
    return np.where(np.isinf(found), np.nan, found)
