"""How utilities of items moved, as far as duels tell: against the average of those active then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.data.slices import days_of
from sparse_prefgp.support.arrays import FloatArray, IntArray


class Trajectories(NamedTuple):
    """Utilities of n items at d dates, less the average of the items active then."""

    items: IntArray
    """(n,) rows of `duels.items`, or numbers of items."""
    days: FloatArray
    """(d,) since 1970."""
    mean: FloatArray
    """(n, d) expected; NaN before the first duel of an item."""
    sd: FloatArray
    """(n, d) of the difference; NaN before the first duel of an item."""
    active: IntArray
    """(d,) how many items are averaged."""


# Of numbers of items (q,) at a day: features (q, p, D) of p rows of each, and weights (q, p) of
# these, each row of which adds up to 1.
Stand = Callable[[IntArray, float], tuple[FloatArray, FloatArray]]


def trajectories_of(
    model: Any,
    numbers: IntArray,
    dates: Any,
    active_within: float = 2.0,
    stand: Stand | None = None,
    among_active: bool = False,
) -> Trajectories:
    """See `InTimeModel.trajectories`: one sweep, which all dates are asked in.

    :param numbers: (n,) of items.
    :param stand: where items stand; by default at their rows of the date.
    :param among_active: of each date those active then alone.
    :return: whose `items` are the numbers.
    """
    given = np.asarray(dates)
    days = days_of(given, given.size if given.ndim == 1 else 1)
    if not len(days) or np.any(np.diff(days) <= 0.0):
        raise ValueError(f"dates has {len(days)} entries in no ascending order; sort them.")
    in_time, known = model.in_time, model.in_time.known

    def at_their_rows(numbers: IntArray, day: float) -> tuple[FloatArray, FloatArray]:
        rows = in_time.rows_at(day)[numbers]
        return model.duels.items[rows][:, None], np.ones((len(numbers), 1))

    stand = stand or at_their_rows
    asked, weights, places, counts = [], [], [], []
    for day in days:
        active = in_time.active(day, active_within)
        begun = known.from_when[numbers] <= day
        if among_active:
            begun &= np.isin(numbers, active)
        every = np.append(numbers[begun], active)
        features, weight = stand(every, day)
        q, p = weight.shape
        flat = np.column_stack([features.reshape(q * p, -1), np.repeat(every, p)])
        rows = model.inputs.rows(in_time.dated(flat, day))
        asked.append(tf.reshape(rows, [q, p, -1]))
        weights.append(weight)
        places.append(np.flatnonzero(begun))
        counts.append(len(active))
    found = in_time.posterior().joint_at_each(asked, weights)
    mean, sd = (np.full((len(numbers), len(days)), np.nan) for _ in range(2))
    for j, ((average, covariance), at, count) in enumerate(zip(found, places, counts, strict=True)):
        step = np.eye(len(at), len(average))
        step[:, len(at) :] -= 1.0 / count
        mean[at, j] = step @ average
        variance = np.sum((step @ covariance) * step, 1)
        sd[at, j] = np.sqrt(np.maximum(variance, 0.0))  # of the one item that is active it is 0
    return Trajectories(numbers, days, mean, sd, np.array(counts))
