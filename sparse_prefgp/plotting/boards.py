"""Boards: points with their intervals, ranks, and who beats whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.plotting.canvas import (
    BLUE,
    GREY,
    ORANGE,
    PALE,
    SEQUENTIAL,
    SIZE,
    SMALL,
    SMALLEST,
    axes_or_new,
    draw_intervals,
    drawable,
    legend_above,
    name_style,
    new_figure,
    set_rows,
)
from sparse_prefgp.support.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of a matrix, whose names are still read.
MOST_IN_MATRIX = 20


def points(frame: Any, *, level: float, top: int = 30, ax: Axes | None = None) -> Axes:
    """Elo points of the first models with their intervals.

    :param frame: rows of a board in the order of their ranks.
    :param level: of the intervals.
    :param top: at most so many models.
    :param ax: the axis to draw on; None makes a figure.
    """
    shown = frame.head(top)
    ax = axes_or_new(ax, len(shown))
    _intervals(ax, shown, "elo", level)
    set_rows(ax, shown["model"].tolist())
    return ax


def _intervals(ax: Axes, rows: Any, column: str, level: float) -> None:
    """Elo points of a column with the ends of their intervals, a row each."""
    mean, lower, upper = (rows[f"{column}{end}"].to_numpy() for end in ("", "_lower", "_upper"))
    draw_intervals(ax, mean, np.arange(len(rows)), lower, upper, linewidth=None)
    ax.set_xlabel(f"Elo points, {100 * level:g} % interval")


def ranks(frame: Any, *, level: float, top: int = 30, ax: Axes | None = None) -> Axes:
    """Ranks of the first models: likely ones, and all that are not ruled out.

    :param frame: rows of a board in the order of their ranks.
    :param level: of the sets of ranks.
    :param top: at most so many models.
    :param ax: the axis to draw on; None makes a figure.
    """
    shown = frame.head(top)
    ax = axes_or_new(ax, len(shown))
    rows = np.arange(len(shown))
    for name, colour, width, label in (
        ("rank", PALE, 7, f"not ruled out at {100 * level:g} %"),
        ("likely", ORANGE, 4, f"likely ({100 * level:g} % of the samples)"),
    ):
        low, high = shown[f"{name}_low"].to_numpy(), shown[f"{name}_high"].to_numpy()
        ax.hlines(rows, low - 0.3, high + 0.3, color=colour, linewidth=width, label=label)
    ax.plot(shown["rank"], rows, "o", color=BLUE, markersize=4, label="rank")
    set_rows(ax, shown["model"].tolist())
    ax.set_xlabel("rank")
    legend_above(ax)
    return ax


def who_beats_whom(models: list[str], predicted: FloatArray, seen: FloatArray) -> Axes:
    """Scores of models (rows) against others (columns), predicted next to seen.

    :param models: c names, the best first; of more than 20 the first.
    :param predicted: (c, c) expected scores.
    :param seen: (c, c) shares of points won; NaN where two never met.
    """
    some = slice(0, MOST_IN_MATRIX)
    names = drawable(models[some], 18)
    width, height = SIZE
    figure = new_figure((width * 1.45, height * 1.05))
    axes = figure.subplots(1, 2, sharey=True)
    for one, values, title in zip(axes, (predicted, seen), ("predicted", "seen"), strict=True):
        shown = np.array(values[some, some])
        np.fill_diagonal(shown, np.nan)
        one.set_facecolor(PALE)
        drawn = one.imshow(shown, vmin=0.0, vmax=1.0, cmap=SEQUENTIAL)
        place = np.arange(len(names))
        one.set_xticks(place, names, rotation=90, fontsize=SMALLEST, **name_style())
        one.set_yticks(place, names, fontsize=SMALLEST, **name_style())
        one.tick_params(length=0)
        one.set_title(title, fontsize=SMALL, loc="left")
    bar = figure.colorbar(drawn, ax=axes, shrink=0.8)
    bar.set_label("score of the row against the column, a tie half", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALLEST)
    first: Axes = axes[0]
    return first


def worths(rows: Any, *, level: float, ax: Axes | None = None) -> Axes:
    """What each bias is worth in Elo points, with its interval.

    :param rows: data frame with `name`, `points`, `points_lower` and `points_upper`.
    :param level: of the intervals.
    :param ax: the axis to draw on; None makes a figure.
    """
    ax = axes_or_new(ax, len(rows))
    ax.axvline(0.0, color=GREY, linewidth=1)
    _intervals(ax, rows, "points", level)
    set_rows(ax, rows["name"].tolist())
    return ax
