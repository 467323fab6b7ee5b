"""Models whose utilities move in time, seen at a date that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What names the date among places, as in date=2014-07-13.
DATE = "date"
At = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]


def seen_at(model: Any, at: At = ()) -> tuple[Any, list[Any]]:
    """The model at the date that places name, by default that of the last duel, and the other
    places.

    :param at: text such as `date=2014-07-13`, mappings, or several of these.
    :return: the model itself, where its utilities do not move in time, or where it is a view at a
        date already and none is named.
    :raises ValueError: two dates, or what is no date; a date of a model without.
    """
    places = [at] if isinstance(at, str | Mapping) else list(at)
    rest: list[Any] = []
    dates: list[Any] = []
    for place in places:
        if isinstance(place, Mapping):
            more = {key: value for key, value in place.items() if key != DATE}
            dates += [place[DATE]] if DATE in place else []
            rest += [more] if more else []
            continue
        parts = [part.strip() for part in str(place).split(",")]
        dates += [part[len(DATE) + 1 :] for part in parts if part.startswith(f"{DATE}=")]
        kept = [part for part in parts if not part.startswith(f"{DATE}=")]
        rest += [",".join(kept)] if len(kept) < len(parts) and kept else []
        rest += [place] if len(kept) == len(parts) else []
    if not model.row_layout.dated:
        return model, places
    if len(dates) > 1:
        raise ValueError(
            f"Several dates were asked for, {dates[0]} and {dates[1]}; give one at a time (--at)."
        )
    if dates:
        return model.at(dates[0]), rest
    return model if model.is_view else model.at(model.last_date), rest
