"""What all pictures share: figures without pyplot, colours, names that can be drawn."""

from __future__ import annotations

import math
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.extras import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SIZE = (7.0, 4.5)  # inches
# Rows with names that fit this height, and inches for each one more.
ROWS, ROW_HEIGHT = 20, 0.19
DPI = 150
# Okabe & Ito's palette, which stays distinct for all common kinds of colour blindness.
BLUE, ORANGE, VERMILION = "#0072B2", "#E69F00", "#D55E00"
BLACK, GREY, PALE = "#000000", "#767676", "#DDDDDD"
SEQUENTIAL = "cividis"
SMALL, SMALLEST = 9, 8  # points
NAME_WIDTH = 30  # columns of a terminal; letters of East Asian scripts take two
MISSING = "□"
# Next to the font that comes with matplotlib, for scripts that it lacks; used where installed.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Noto Emoji",
    "Symbola",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Arial Unicode MS",
)


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure that draws with Agg, needs no screen and is known to nobody else.

    :raises ModuleNotFoundError: matplotlib is not installed; the message says how to install it.
    """
    needed("matplotlib", "matplotlib", "A picture")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def axes_or_new(ax: Axes | None, rows: int = 0) -> Axes:
    """The axis as given, or that of a new figure; either with the plain look of all pictures.

    :param rows: of names, for which a new figure is made high enough.
    """
    if ax is None:
        width, height = SIZE
        ax = new_figure((width, height + ROW_HEIGHT * max(0, rows - ROWS))).add_subplot()
    ax.set_axisbelow(True)
    ax.grid(color=PALE, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL)
    return ax


def save(figure: Any, path: Path) -> None:
    """Write a PNG whose bytes depend on the picture alone, not on the time or the writer."""
    figure.savefig(path, dpi=DPI, format="png", metadata={"Software": None})


def utility_label(what: str, noise_variance: float | None) -> str:
    """`what`, and on a second line the scale of utilities, where it is known."""
    if noise_variance is None:
        return what
    return f"{what}\n({math.sqrt(2.0 * noise_variance):.2g} = sd of the noise of a duel)"


def chance_text(p: float | None) -> str:
    """A sampled probability in per cent: no sample is not never, and all of them not always."""
    if p is None or math.isnan(p):
        return "–"
    if p < 0.0005:
        return "< 0.1\u00a0%"
    return "> 99.9\u00a0%" if p >= 0.9995 else f"{100 * p:.1f}\u00a0%"


def sd_of(variances: FloatArray) -> FloatArray:
    """Standard deviations; a variance that rounding made negative counts as 0, with a warning."""
    negative = int(np.count_nonzero(variances < 0.0))
    if negative:
        warnings.warn(
            f"Rounding made {negative} of {variances.size} variances negative; the picture shows "
            "0 for them.",
            stacklevel=3,
        )
    return np.sqrt(np.maximum(variances, 0.0))


# Names.


def drawable(names: Iterable[object], width: int = NAME_WIDTH) -> list[str]:
    """Names as matplotlib can draw them: on one line, shortened in the middle, never as formulas.

    Characters that no installed font has become □.
    """
    return [shortened_name(str(name), width).replace("$", r"\$") for name in names]


def shortened_name(name: str, width: int = NAME_WIDTH) -> str:
    """The name in at most `width` columns; the middle goes, for ids often differ at their ends."""
    known = _characters()
    spaced = (" " if c.isspace() or unicodedata.category(c) == "Cc" else c for c in name)
    text = "".join(c if c == " " or ord(c) in known else MISSING for c in spaced)
    if _width(text) <= width:
        return text
    head, tail = 0, 0  # two thirds of what is kept are from the start
    while True:
        longer = (head + 1, tail) if head <= 2 * tail else (head, tail + 1)
        if _width(text[: longer[0]]) + _width(text[len(text) - longer[1] :]) >= width:
            return f"{text[:head].rstrip()}…{text[len(text) - tail :].lstrip()}"
        head, tail = longer


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


@lru_cache(maxsize=1)
def font_names() -> tuple[str, ...]:
    """The installed fonts among those that names are drawn with, in order of preference."""
    from matplotlib.font_manager import fontManager

    installed = {entry.name for entry in fontManager.ttflist}
    return tuple(name for name in _FONTS if name in installed)


@lru_cache(maxsize=1)
def _characters() -> frozenset[int]:
    """Code points that at least one of the fonts has."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    found: set[int] = set()
    for name in font_names():
        found.update(FT2Font(findfont(FontProperties(family=name))).get_charmap())
    return frozenset(found)


def name_style() -> dict[str, Any]:
    """Text properties for names of items and features."""
    return {"fontfamily": list(font_names())}


def legend_above(ax: Axes) -> None:
    """A legend on top of the axis, where it hides nothing."""
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=4,
        frameon=False,
        borderaxespad=0.2,
        borderpad=0.2,
        handletextpad=0.4,
        columnspacing=1.2,
        prop={"size": SMALL, "family": list(font_names())},
    )


def legend_at_the_right(ax: Axes) -> None:
    """A legend to the right of the axis, its lines in the order in which they end, the highest
    first."""
    lines: Any = ax.get_legend_handles_labels()[0]
    ax.legend(
        handles=sorted(lines, key=lambda line: -float(line.get_ydata()[-1])),
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        prop={"size": SMALLEST, "family": list(font_names())},
    )


def draw_intervals(
    ax: Axes,
    values: Any,
    rows: Any,
    lower: Any,
    upper: Any,
    *,
    color: str = BLUE,
    linewidth: float | None = 1.3,
) -> None:
    """A point for each row, and the interval that it lies in."""
    ax.errorbar(
        values,
        rows,
        xerr=np.abs(np.stack([lower, upper]) - values),
        fmt="o",
        color=color,
        markersize=5,
        capsize=2.5,
        linewidth=linewidth,
    )


def set_rows(ax: Axes, names: Sequence[object]) -> None:
    """Names next to the rows 0, 1, … of an axis, the first on top; few rows are not spread wide."""
    count = len(names)
    ax.set_yticks(np.arange(count), drawable(names), fontsize=SMALL, **name_style())
    margin = max(0.6, 0.5 * (5 - count))
    ax.set_ylim(count - 1 + margin, -margin)
