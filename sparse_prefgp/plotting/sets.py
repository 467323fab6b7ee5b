"""Shares of alternatives, and what attributes are worth, with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.plotting.canvas import (
    BLUE,
    GREY,
    SMALL,
    axes_or_new,
    draw_intervals,
    set_rows,
)
from sparse_prefgp.tell.tables import records

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sparse_prefgp.analysis.shares import Shares
    from sparse_prefgp.analysis.worth import Worth

# Of a name made of what an alternative is like.
_LONGEST = 24


def shares(found: Shares, *, which: int = 0, ax: Axes | None = None) -> Axes:
    """Shares of the alternatives of one set, the first on top, with their intervals.

    :param found: what `sparse_prefgp.shares` returned.
    :param which: the number of the set, from 0.
    :param ax: the axis to draw on; None makes a figure.
    :raises ValueError: a set that there is not.
    """
    from sparse_prefgp.analysis.shares import ADDED

    rows = np.flatnonzero(np.array(found.sets) == which)
    if not len(rows):
        raise ValueError(
            f"The set is number {which}, but there are {max(found.sets) + 1}; count from 0."
        )
    frame = found.frame.iloc[rows]
    share, lower, upper = (100.0 * frame[name].to_numpy() for name in ADDED[:3])
    ax = axes_or_new(ax)
    place = np.arange(len(rows))
    ax.barh(place, share, color=BLUE, alpha=0.35, height=0.6)
    draw_intervals(ax, share, place, lower, upper)
    ax.axvline(100.0 / len(rows), color=GREY, linewidth=1, linestyle="--")
    set_rows(ax, _names(frame))
    ax.set_xlim(left=0.0)
    ax.set_xlabel(f"share in %, {100 * found.level:g} % interval (dashed: equal shares)")
    if max(found.sets):
        ax.set_title(f"set {which + 1} of {max(found.sets) + 1:,}", fontsize=SMALL, loc="left")
    return ax


def worth(found: Worth, *, ax: Axes | None = None) -> Axes:
    """What a step of each attribute is worth, with intervals; by item, the spread over items.

    Of an interval without ends no line is drawn.

    :param found: what `sparse_prefgp.worth` returned.
    :param ax: the axis to draw on; None makes a figure.
    """
    frame = found.frame
    labels = [f"{a} {s}" for a, s in zip(frame["attribute"], frame["step"], strict=True)]
    rows = list(dict.fromkeys(labels))
    place = np.array([rows.index(label) for label in labels], dtype=float)
    value, lower, upper = (frame[name].to_numpy() for name in ("worth", "lower", "upper"))
    ends = frame["bounded"].to_numpy()
    ax = axes_or_new(ax)
    ax.axvline(0.0, color=GREY, linewidth=1)
    if "item" in frame:
        ax.plot(value, place, "|", color=BLUE, markersize=14, alpha=0.5)
    else:
        draw_intervals(ax, value, place, *np.where(ends, [lower, upper], value))
    set_rows(ax, rows)
    what = "each line an item" if "item" in frame else f"{100 * found.level:g} % interval"
    ax.set_xlabel(f"worth in {found.unit}, {what}")
    if not ends.all():
        ax.set_title("no line: the interval has no ends", fontsize=SMALL, loc="left")
    return ax


def _names(frame: Any) -> list[str]:
    """What tells the alternatives of a set apart: their ids, or the columns that differ."""
    from sparse_prefgp.analysis.shares import ADDED, OVER_PEOPLE

    columns = [name for name in frame.columns if name not in (*ADDED, *OVER_PEOPLE)]
    if "item_id" in columns:
        columns = ["item_id"]
    differ = [name for name in columns if frame[name].nunique() > 1]
    if differ == ["item_id"] or len(differ) == 1:
        return [str(value) for value in frame[differ[0]]]
    texts = [
        ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in row.items()
        )
        for row in records(frame[differ])
    ]
    if not differ or max(map(len, texts)) > _LONGEST:
        return [f"alternative {i + 1}" for i in range(len(frame))]
    return texts
