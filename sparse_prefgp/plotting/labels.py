"""Names next to points, none on top of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.plotting.canvas import SMALLEST, drawable, name_style
from sparse_prefgp.support.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Where a name is tried: degrees away from its own direction, and points from its point.
_TURNS = (0, 25, -25, 50, -50, 80, -80, 110, -110, 145, -145, 180)
_GAPS = (3.0, 9.0)
# Room around a name, in points.
_ROOM = 1.0
# Of a line, so many places are kept free.
_PLACES = 60


def label_points(
    ax: Axes,
    points: FloatArray,
    names: Sequence[object],
    directions: FloatArray,
    *,
    lines: FloatArray | None = None,
    **style: Any,
) -> None:
    """Write names next to points, the first ones first; one without room is left out.

    The limits and labels of the axis must be there already.

    :param points: (n, 2) in units of the axis.
    :param directions: (n, 2), to which side of its point each name is best.
    :param lines: (k, 2, 2), both ends of lines that no name is to cross, in units of the axis.
    :param style: of the texts.
    """
    root: Any = ax.figure.canvas.figure
    root.draw_without_rendering()  # only the layout says where points are
    pixels = root.dpi / 72.0
    free = points
    if lines is not None:  # places near to each other
        share = np.linspace(0.0, 1.0, _PLACES)[:, None, None]
        along = lines[:, 0] + share * (lines[:, 1] - lines[:, 0])
        free = np.concatenate([points, along.reshape(-1, 2)])
    free = ax.transData.transform(free)
    frame = np.asarray(ax.get_window_extent().get_points())
    taken: list[FloatArray] = []
    places = ax.transData.transform(points)
    for point, place, towards, name in zip(
        points, places, directions, drawable(names), strict=True
    ):
        text = ax.annotate(
            name,
            (float(point[0]), float(point[1])),
            xytext=(0.0, 0.0),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=SMALLEST,
            **{**name_style(), **style},
        )
        extent = text.get_window_extent()
        half = np.array([extent.width, extent.height]) / 2.0 + _ROOM * pixels
        for offset in _offsets(towards, half, pixels):
            box = place + offset + np.stack([-half, half])
            inside = np.all(box[0] >= frame[0]) and np.all(box[1] <= frame[1])
            covers = np.any(np.all((free > box[0]) & (free < box[1]), axis=1))
            meets = any(np.all(box[0] < end) and np.all(start < box[1]) for start, end in taken)
            if inside and not (covers or meets):
                text.set_position(tuple(offset / pixels))
                taken.append(box)
                break
        else:
            text.remove()


def _offsets(towards: FloatArray, half: FloatArray, pixels: float) -> Iterator[FloatArray]:
    """Where the middle of a name may be, from its point, in pixels; the best places first."""
    angle = np.arctan2(towards[1], towards[0])
    for gap in _GAPS:
        for turn in np.deg2rad(_TURNS):
            unit = np.array([np.cos(angle + turn), np.sin(angle + turn)])
            yield unit * (gap * pixels + float(np.abs(unit) @ half))
