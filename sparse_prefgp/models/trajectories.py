"""How utilities of items moved, as far as duels tell: against the average of those active then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparse_prefgp.data.slices import days_of
from sparse_prefgp.support.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from sparse_prefgp.models.preference_gp import PreferenceGP


class Trajectories(NamedTuple):
    """Utilities of n items at d dates, less the average of the items active then."""

    items: IntArray
    """(n,) rows of `duels.items`."""
    days: FloatArray
    """(d,) since 1970."""
    mean: FloatArray
    """(n, d) expected; NaN before the first duel of an item."""
    sd: FloatArray
    """(n, d) of the difference; NaN before the first duel of an item."""
    active: IntArray
    """(d,) how many items are averaged."""


def trajectories_of(
    model: PreferenceGP, items: IntArray, dates: Any, active_within: float
) -> Trajectories:
    """See `PreferenceGP.trajectories`: one sweep, which all dates are asked in."""
    given = np.asarray(dates)
    days = days_of(given, given.size if given.ndim == 1 else 1)
    if not len(days) or np.any(np.diff(days) <= 0.0):
        raise ValueError(f"dates has {len(days)} entries in no ascending order; sort them.")
    n = model.duels.num_items
    for i in items[(items < 0) | (items >= n)][:1]:
        raise ValueError(f"items has {i}, which is no row of the items; give 0 to {n - 1}.")
    known = model._dated
    assert known is not None
    last_row = {int(number): row for row, number in enumerate(model.duels.item)}
    asked, places, counts = [], [], []
    for day in days:
        active = model.active_items(day, active_within)
        others = np.array([last_row[int(number)] for number in active])
        begun = known.from_when[model.duels.item[items]] <= day
        rows = model.item_inputs(np.append(items[begun], others), at=day)
        asked.append(model._inputs(rows))
        places.append(np.flatnonzero(begun))
        counts.append(len(others))
    found = model.posterior_in_time().joint_at_each(asked)
    mean, sd = (np.full((len(items), len(days)), np.nan) for _ in range(2))
    for j, ((average, covariance), at, count) in enumerate(zip(found, places, counts, strict=True)):
        step = np.zeros((len(at), len(average)))
        step[np.arange(len(at)), np.arange(len(at))] = 1.0
        step[:, len(at) :] -= 1.0 / count
        mean[at, j] = step @ average
        variance = np.einsum("ij,jk,ik->i", step, covariance, step)
        sd[at, j] = np.sqrt(np.maximum(variance, 0.0))  # of the one item that is active it is 0
    return Trajectories(items, days, mean, sd, np.array(counts))
