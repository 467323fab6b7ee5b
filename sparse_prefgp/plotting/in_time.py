"""Pictures of utilities that move in time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from sparse_prefgp.plotting.canvas import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    VERMILION,
    axes_or_new,
    drawable,
    legend_at_the_right,
    utility_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito's palette; of more items the colours begin again, dashed.
_COLOURS = (BLUE, VERMILION, "#009E73", ORANGE, "#CC79A7", "#56B4E9", BLACK)


def trajectories(
    model: Any,
    items: Sequence[Hashable] | None = None,
    dates: Any = None,
    *,
    level: float = 0.9,
    at: Any = (),
    found: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """How utilities of items moved, less the average of the items active at each date, with bands
    of that difference. The legend is in the order in which the lines end.

    :param model: a `PreferenceGP` whose utilities move in time.
    :param items: ids, or names; by default those who led most often, at most six.
    :param dates: as for `history`.
    :param level: of the bands.
    :param at: contexts, as for `history`.
    :param found: what `history` returned, which is then drawn as it is.
    :param ax: the axis to draw on; None makes a figure.
    :raises ValueError: what `history` raises.
    """
    from sparse_prefgp.analysis.history import history

    frame = history(model, items, dates, level=level, at=at) if found is None else found
    ax = axes_or_new(ax)
    names = list(dict.fromkeys(frame["item_id"]))
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    for i, (name, shown) in enumerate(zip(names, drawable(names), strict=True)):
        own = frame[frame["item_id"] == name]
        colour = _COLOURS[i % len(_COLOURS)]
        style = "-" if i < len(_COLOURS) else "--"
        date = own["date"].to_numpy().astype("datetime64[D]")
        ax.fill_between(date, own["lower"], own["upper"], color=colour, alpha=0.12, linewidth=0)
        ax.plot(date, own["utility"], style, color=colour, linewidth=1.6, label=shown)
    noise = 0.5 * model.likelihood.duel_noise
    ax.set_ylabel(utility_label("utility above the average of those active", noise))
    legend_at_the_right(ax)
    return ax
