"""Who was good when: utilities that move, at dates on a grid, and who led then."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy import special

from sparse_prefgp.analysis.ranking import level_of_interval
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.slices import date_text, days_of
from sparse_prefgp.io.files import id_text
from sparse_prefgp.models.trajectories import Trajectories
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import whole_number
from sparse_prefgp.support.words import shortened

# Dates on a grid, and those at which a report names who led.
DATES, SEASONS = 60, 12
# Of those who led then, so many are drawn where nobody is named.
NAMED = 6


def grid_of(model: Any, since: Any = None, until: Any = None, number: int = DATES) -> FloatArray:
    """So many dates at equal distances, in days since 1970.

    :param since: the first one; by default the first on which an item is active.
    :param until: the last one; by default that of the last duel.
    :raises ValueError: utilities that do not move in time; what is no date; `until` not after
        `since`; fewer than two.
    """
    number = whole_number("number", number, 2)
    if not model.row_layout.dated:
        raise ValueError(
            "A history needs utilities that move in time, which the model has not; fit it with "
            "dates (fit --time), or add ItemInTime(spg.markov.Wiener()) to its kernel."
        )
    first = model.first_date if since is None else float(days_of(np.asarray([since]), 1)[0])
    last = model.last_date if until is None else float(days_of(np.asarray([until]), 1)[0])
    if not first < last:
        raise ValueError(
            f"The history ends on {date_text(last)}, not after its beginning on "
            f"{date_text(first)}; give a later end (until=, --until)."
        )
    return np.linspace(first, last, number)


def rows_of(model: Any, names: Sequence[Hashable]) -> IntArray:
    """The last row of each named item of a model.

    :raises ValueError: one that there is not.
    """
    place = {id_text(name): i for i, name in enumerate(_names(model))}
    for name in names:
        if id_text(name) not in place:
            raise ValueError(
                f"The item {shortened(name)} is none of the {len(set(place)):,} of the model; "
                "correct it (--item)."
            )
    return np.array([place[id_text(name)] for name in names], dtype=np.int64)


def history(
    model: Any,
    items: Sequence[Hashable] | None = None,
    dates: Any = None,
    *,
    level: float = 0.9,
) -> Any:
    """Utilities of items at dates, less the average of the items active then.

    :param model: a `PreferenceGP` whose utilities move in time.
    :param items: their ids, or names; by default those who led most often, at most six.
    :param dates: ascending, as `Duels(times=)` has them; by default 60 from the first duel to the
        last.
    :param level: of the intervals, which are of the difference from the average: levels alone are
        not known.
    :return: A data frame with `item_id`, `date`, `utility`, `sd`, `lower` and `upper`, a row for
        each item at each date from its first duel on.
    :raises ValueError: what `grid_of`, `rows_of` and `PreferenceGP.trajectories` raise; a level
        outside (0, 1).
    """
    level = level_of_interval(level)
    days = grid_of(model) if dates is None else dates
    names = leaders(model, days) if items is None else list(items)
    found = model.trajectories(rows_of(model, names), days)
    half = float(special.ndtri(0.5 + 0.5 * level)) * found.sd
    pd = require_pandas()
    frame = pd.DataFrame(
        {
            "item_id": np.repeat(np.array(names, dtype=object), len(found.days)),
            "date": np.tile(np.floor(found.days).astype("datetime64[D]"), len(names)),
            "utility": found.mean.ravel(),
            "sd": found.sd.ravel(),
            "lower": (found.mean - half).ravel(),
            "upper": (found.mean + half).ravel(),
        }
    )
    return frame[frame["utility"].notna()].reset_index(drop=True)


def leaders(model: Any, dates: Any, number: int = NAMED) -> list[Hashable]:
    """Those who were best at most of the dates, at most so many."""
    first = [season["best"][0]["item"] for season in seasons(model, dates, 1)]
    counts: dict[Hashable, int] = {}
    for name in first:
        counts[name] = counts.get(name, 0) + 1
    return sorted(counts, key=lambda name: -counts[name])[:number]


def seasons(model: Any, dates: Any = None, number: int = 3) -> list[dict[str, Any]]:
    """Who was best at each of some dates, of the items active then.

    :param dates: as for `history`; by default twelve from the first duel to the last.
    :param number: how many to name.
    :return: `date`, `active` (how many items are about) and `best`: the first ones with `item`,
        `utility` (less the average of those active) and `sd` of it.
    """
    days = grid_of(model, number=SEASONS + 1)[1:] if dates is None else dates
    names = _names(model)
    last_row = {int(item): row for row, item in enumerate(model.duels.item)}
    rows = np.array(list(last_row.values()))
    found: Trajectories = model.trajectories(rows, days)
    told = []
    for j, day in enumerate(found.days):
        about = np.isin(model.duels.item[rows], model.active_items(day))
        mean = np.where(about, found.mean[:, j], -np.inf)
        best = np.argsort(-mean, kind="stable")[: min(number, int(about.sum()))]
        told.append(
            {
                "date": date_text(day),
                "active": int(found.active[j]),
                "best": [
                    {
                        "item": names[rows[i]],
                        "utility": float(found.mean[i, j]),
                        "sd": float(found.sd[i, j]),
                    }
                    for i in best
                ],
            }
        )
    return told


def _names(model: Any) -> Sequence[Hashable]:
    """Of the item of each row."""
    duels = model.duels
    if duels.item_rows is not None:
        return tuple(duels.item_rows.names)
    return range(duels.num_items) if duels.item_ids is None else duels.item_ids
