"""A model at a date, where its utilities move in time."""

from __future__ import annotations

from typing import Any

from sparse_prefgp.analysis.boards import at_a_date


def seen_on(model: Any, at: Any) -> Any:
    """The model at a date, such as `date=2014-07-13`; the model itself without one.

    :raises ValueError: a date of utilities that do not move, or what is none.
    """
    if not at:
        return model
    found, rest = at_a_date(model, at)
    if rest:
        raise ValueError(
            f"{rest[0] if isinstance(rest, list | tuple) else rest!s} was asked for (--at), which "
            "is no date of utilities that move in time; give date=2014-07-13, or leave it out."
        )
    return found
