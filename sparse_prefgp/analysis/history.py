"""Who was good when: utilities that move, at dates on a grid, and who led then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from sparse_prefgp.analysis.boards import at_a_date, names_of, rows_now
from sparse_prefgp.analysis.contexts import candidates_of, contexts_at, has_contexts, in_rows
from sparse_prefgp.analysis.ranking import level_of_interval
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.slices import date_text, day_of
from sparse_prefgp.io.files import id_text
from sparse_prefgp.io.ids import meant_id
from sparse_prefgp.models.trajectories import Stand, trajectories_of
from sparse_prefgp.support import together
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
    model.allow(trajectories=True)
    first = model.in_time.first_date if since is None else day_of(since)
    last = model.in_time.last_date if until is None else day_of(until)
    if not first < last:
        raise ValueError(
            f"The history ends on {date_text(last)}, not after its beginning on "
            f"{date_text(first)}; give a later end (until=, --until)."
        )
    return np.linspace(first, last, number)


def numbers_of(model: Any, names: Sequence[Hashable]) -> IntArray:
    """The number of each named item of a model.

    :raises ValueError: one that there is not.
    """
    place = {id_text(name): i for i, name in enumerate(names_of(model.duels))}
    for name in names:
        if id_text(name) not in place:
            raise ValueError(
                f"The item {shortened(name)} is none of the {len(set(place)):,} of the model; "
                f"{meant_id(id_text(name), place)}correct it (--item)."
            )
    return np.array([model.duels.item[place[id_text(name)]] for name in names], dtype=np.int64)


def _stand(model: Any, at: Any) -> Stand | None:
    """In which contexts items stand, or at which of their rows; None for items of one row each.

    :raises ValueError: contexts asked of a model without, or a date; what `contexts_at` raises.
    """
    told = [at] if isinstance(at, str | Mapping) else list(at)
    _, places = at_a_date(model, told)
    if len(places) < len(told):
        raise together.refused(history=True, date=f"the date {told[0]}")
    if not has_contexts(model):
        if places:
            contexts_at(model, places)  # refused
        return None
    contexts, bases, names = contexts_at(model, places), candidates_of(model), names_of(model.duels)
    weight, count = contexts.counts / contexts.counts.sum(), len(contexts)

    def stand(numbers: IntArray, day: float) -> tuple[FloatArray, FloatArray]:
        now = model.in_time.at(np.float64(day))
        base = rows_now(now, bases.ids, bases.names)
        place = {id_text(bases.names[i]): i for i in base}
        rows = [place[id_text(names[row])] for row in now.in_time.rows_at()[numbers]]
        values = np.tile(contexts.values, (len(rows), 1))
        found = in_rows(model, bases, np.repeat(rows, count), values)
        features = found.inputs[:, : model.duels.num_features]
        return features.reshape(len(rows), count, -1), np.tile(weight, (len(rows), 1))

    return stand


def history(
    model: Any,
    items: Sequence[Hashable] | None = None,
    dates: Any = None,
    *,
    level: float = 0.9,
    at: Any = (),
) -> Any:
    """Utilities of items at dates, less the average of the items active then.

    An item with several rows is followed through them: at each date it stands at that which its
    latest duel by then had. In contexts it is the average over those of the training duels, as in
    `rank`.

    :param model: a `PreferenceGP` whose utilities move in time.
    :param items: their ids, or names; by default those who led most often, at most six.
    :param dates: ascending, as `Duels(times=)` has them; by default 60 from the first duel to the
        last.
    :param level: of the intervals, which are of the difference from the average: levels alone are
        not known.
    :param at: contexts, as in `rank`: averaged over those seen that agree with any of them.
    :return: A data frame with `item_id`, `date`, `utility`, `sd`, `lower` and `upper`, a row for
        each item at each date from its first duel on.
    :raises ValueError: what `grid_of`, `numbers_of` and `model.in_time.trajectories` raise; a
        level outside (0, 1); what `contexts_at` raises.
    """
    level = level_of_interval(level)
    days = grid_of(model) if dates is None else dates
    names = leaders(model, days, at=at) if items is None else list(items)
    found = trajectories_of(model, numbers_of(model, names), days, stand=_stand(model, at))
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


def leaders(model: Any, dates: Any, at: Any = ()) -> list[Hashable]:
    """Those who were best at most of the dates, at most six.

    :param at: as for `history`.
    """
    first = [season["best"][0]["item"] for season in seasons(model, dates, 1, at)]
    return [name for name, _ in Counter(first).most_common(NAMED)]


def seasons(model: Any, dates: Any = None, number: int = 3, at: Any = ()) -> list[dict[str, Any]]:
    """Who was best at each of some dates, of the items active then.

    :param dates: as for `history`; by default twelve from the first duel to the last.
    :param number: how many to name.
    :param at: as for `history`.
    :return: `date`, `active` (how many items are about) and `best`: the first ones with `item`,
        `utility` (less the average of those active) and `sd` of it.
    """
    days = grid_of(model, number=SEASONS + 1)[1:] if dates is None else dates
    names = names_of(model.duels)
    rows = model.in_time.rows_at()
    every = np.arange(len(rows))
    found = trajectories_of(model, every, days, stand=_stand(model, at), among_active=True)
    told = []
    for j, day in enumerate(found.days):
        about = np.isin(found.items, model.in_time.active(day))
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
