"""When duels were, as a model of utilities in time sees it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.slices import sliced
from sparse_prefgp.support.arrays import BoolArray, FloatArray


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
        first, last = (np.full(int(duels.item.max()) + 1, end) for end in (np.inf, -np.inf))
        np.minimum.at(first, number, np.repeat(events.time, sizes))
        np.maximum.at(last, number, np.repeat(events.time, sizes))
        begin = np.full(len(first), np.inf)
        tells = np.repeat(np.ones(len(place), bool) if learned is None else learned, sizes)
        np.minimum.at(begin, number[tells], np.repeat(times[place], sizes)[tells])
        none = np.isinf(first)
        first[none] = last[none] = begin[np.isinf(begin)] = np.nan
        starts = np.full(duels.num_items, np.inf)
        np.minimum.at(starts, events.sides, np.repeat(events.time, sizes))
        starts[np.isinf(starts)] = np.nan
        return cls(times[place], begin, first, last, starts)
