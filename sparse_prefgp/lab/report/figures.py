"""Figures of a report: metrics against m, quality against time, cost on log-log axes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparse_prefgp.lab.layout import COST, HIGHER, LOWER
from sparse_prefgp.lab.report.calibration import Reliability, reliabilities
from sparse_prefgp.lab.report.methods import (
    NOTHING,
    SETTINGS,
    Arrangement,
    Key,
    Method,
    Panel,
)
from sparse_prefgp.lab.report.statistics import (
    CurvePoint,
    Exponent,
    exponents_of,
    notes_of,
    notes_of_memory,
    points_of,
)
from sparse_prefgp.lab.report.vocabulary import (
    CALIBRATION,
    FIT_SECONDS,
    ReportedMetric,
    approximation_label,
    setting_label,
)
from sparse_prefgp.plotting.canvas import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    SMALL,
    SMALLEST,
    VERMILION,
    axes_or_new,
    drawable,
    font_names,
    name_style,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# With those of the canvas, what is left of Okabe & Ito's palette but for its yellow.
COLOURS = (BLUE, VERMILION, "#009E73", ORANGE, "#CC79A7", "#56B4E9")
MARKERS, DASHES = "osD^vP", ("-", "--", ":")
MOST_LINES = 8  # in one panel; with more methods, settings go into panels of their own
MOST_PANELS, COLUMNS = 9, 3
DECADES = 12  # of a logarithmic axis: what is smaller by more is rounding
NEAR = 1.0  # worse lines without m are drawn up to so many heights of the curves beyond them
FEWEST_TICKS = 3
LETTERS_PER_INCH = 18  # of the smallest
UNBROKEN = "\u00a0"
GAP = 3.0  # points between an axis and the words above it
MOST_CURVES_WITH_BARS = 4  # of reliability, in one panel
LINEAR_WITHIN = 1.0  # of an axis that is logarithmic on both sides of 0


class DrawnFigure(NamedTuple):
    """A figure, and the words that go with it."""

    name: str
    """Of its files."""
    group: str
    title: str
    caption: str
    figure: Figure


class Scale(NamedTuple):
    """Of the vertical axis."""

    kind: str
    floor: float = -math.inf
    """What is not above it cannot be drawn on a logarithmic axis."""


class Facet(NamedTuple):
    """One axis: a panel, and the methods in it with their names in the legend."""

    label: str
    panel: Panel
    methods: Mapping[Method, str]


@dataclass(frozen=True)
class LineStyle:
    """Of the line of a method."""

    colour: str
    marker: str
    dashes: str


def draw_all(
    arrangement: Arrangement, metrics: Sequence[ReportedMetric], quality: Sequence[ReportedMetric]
) -> Iterator[DrawnFigure]:
    """All figures of a report, one after the other.

    :param quality: metrics to be drawn against the time to fit.
    """
    for metric in metrics:
        yield from draw_metric(arrangement, metric)
        if metric.name == CALIBRATION:
            yield from draw_reliability(arrangement, metric)
    for metric in quality:
        yield from draw_against_time(arrangement, metric)
    for metric in metrics:
        yield from draw_against_duels(arrangement, metric)


def draw_metric(arrangement: Arrangement, metric: ReportedMetric) -> Iterator[DrawnFigure]:
    """A metric against m; cost on log-log axes with fitted exponents in the legend."""
    points = [point for point in points_of(arrangement, metric) if not _idle(point, metric)]
    if not any(point.key.m is not None and point.seeds for point in points):
        return
    scale = scale_of(metric, points)
    facets = facets_of(arrangement, points)
    looks = looks_of(arrangement)
    notes = notes_of(points) + notes_of_scale(points, metric, scale)
    notes += notes_of_memory(arrangement, metric)
    slopes = {
        (e.where, e.method): e for e in exponents_of(arrangement, metric) if e.variable == "m"
    }
    for number, part in enumerate(_parts(facets), 1):
        figure, axes = _grid(len(part))
        for ax, facet in zip(axes, part, strict=True):
            own = [p for p in points if p.key.panel == facet.panel]
            _draw_curves(ax, facet, own, metric, scale, looks, slopes)
        _equal_limits(axes, part)
        for ax, facet in zip(axes, part, strict=True):
            own = [p for p in points if p.key.panel == facet.panel]
            _draw_levels(ax, facet, own, metric, scale, looks)
        _finish_values(axes, part, scale)
        _label(figure, axes, "number of inducing inputs m", metric.axis)
        _legend(figure, axes)
        _footnote(figure, notes)
        what = "Mean and standard error over paired seeds" + (
            "" if metric.direction == "none" else f"; {metric.direction} is better"
        )
        yield DrawnFigure(
            metric.name + ("" if number == 1 else f"_{number}"),
            metric.group,
            f"{_title(metric)} against m",
            " ".join([f"{what}.", _about_lines(points), *notes]).replace("  ", " ").strip(),
            figure,
        )


def draw_reliability(arrangement: Arrangement, metric: ReportedMetric) -> Iterator[DrawnFigure]:
    """Share won against predicted confidence, at the smallest and the largest m.

    :param metric: the calibration error, whose points say which seeds are paired.
    """
    curves = {
        curve.key: curve
        for curve in reliabilities(arrangement, metric)
        if not curve.key.method.is_coin  # never sure of anything: a single point
    }
    everything = points_of(arrangement, metric)
    points = [point for point in everything if point.key in curves]
    notes = notes_of(everything)  # at any m, for that is what the paired seeds are
    ends = {panel: _ends(points, panel) for panel in arrangement.panels}
    axes_of = [(f, m) for f in facets_of(arrangement, points) for m in ends[f.panel]]
    columns = max((len(own) for own in ends.values()), default=1)
    columns = COLUMNS if columns == 1 else columns
    for number, part in enumerate(_parts(axes_of, MOST_PANELS // columns * columns), 1):
        figure, axes = _grid(len(part), columns)
        looks = looks_of(arrangement)
        crowded = False
        for ax, (facet, m) in zip(axes, part, strict=True):
            ax.plot([0.5, 1.0], [0.5, 1.0], "--", color=GREY, linewidth=1.0, label="_calibrated")
            keys = {
                label: Key(facet.panel, method, m if method.has_m else None)
                for method, label in facet.methods.items()
            }
            own = {label: curves[key] for label, key in keys.items() if key in curves}
            crowded |= len(own) > MOST_CURVES_WITH_BARS
            for label, curve in own.items():
                look, bars = looks[curve.key.method], len(own) <= MOST_CURVES_WITH_BARS
                _reliability(ax, curve, look, _legend_name(label), bars)
            _name(ax, facet.label + ("" if m is None else f", m = {m:,}"))
        lowest = min(0.45, *(ax.get_ylim()[0] for ax in axes))
        for ax in axes:
            ax.set_xlim(0.49, 1.01)
            ax.set_ylim(max(lowest, -0.02), 1.02)
        _label(figure, axes, "confidence of the prediction", "share won", columns)
        _legend(figure, axes)
        _footnote(figure, notes)
        yield DrawnFigure(
            "reliability" + ("" if number == 1 else f"_{number}"),
            metric.group,
            "Reliability of predictions",
            " ".join(
                [
                    "Share of held-out duels that the predicted winner won, against the "
                    "probability that it was given, in ten equal bins pooled over paired seeds; "
                    "on the dashed line predictions are calibrated, below it too sure. Larger "
                    "markers stand for more duels. Bars: standard error over seeds"
                    + (f", up to {MOST_CURVES_WITH_BARS} curves." if crowded else "."),
                    *notes,
                ]
            ),
            figure,
        )


def draw_against_time(arrangement: Arrangement, metric: ReportedMetric) -> Iterator[DrawnFigure]:
    """Quality against the time to fit: a path for each method, along m."""
    times = {key: seeds for key, seeds in arrangement.cells.get(FIT_SECONDS, {}).items()}
    points = [
        point
        for point in points_of(arrangement, metric)
        if point.seeds and point.key in times and not point.key.method.is_coin
    ]
    x = {point.key: _mean(times[point.key], point.seeds) for point in points}
    points = [point for point in points if x[point.key] > 0.0]
    if not any(point.key.m is not None for point in points):
        return
    scale = scale_of(metric, points)
    looks = looks_of(arrangement)
    for number, part in enumerate(_parts(facets_of(arrangement, points)), 1):
        figure, axes = _grid(len(part))
        for ax, facet in zip(axes, part, strict=True):
            _set_scale(ax, scale)
            ax.set_xscale("log")
            for method in facet.methods:
                own = [p for p in points if p.key.panel == facet.panel and p.key.method == method]
                if own:
                    _path(ax, facet.methods[method], own, x, metric, scale, looks[method])
            _plain_ticks(ax.xaxis)
            _name(ax, facet.label)
        _finish_values(axes, part, scale)
        _label(figure, axes, "time to fit (s)", metric.axis)
        _legend(figure, axes)
        notes = notes_of_scale(points, metric, scale)
        _footnote(figure, notes)
        yield DrawnFigure(
            f"{metric.name}_against_time" + ("" if number == 1 else f"_{number}"),
            COST,
            f"{_title(metric)} against time",
            " ".join(
                [
                    "One path for each method, from its smallest m (small) to its largest (large); "
                    "methods without inducing inputs are single points.",
                    *notes,
                ]
            ),
            figure,
        )


def draw_against_duels(arrangement: Arrangement, metric: ReportedMetric) -> Iterator[DrawnFigure]:
    """A cost against the number of training duels, where that was varied, on log-log axes."""
    exponents = [e for e in exponents_of(arrangement, metric) if e.variable == "t"]
    if not exponents:
        return
    largest = {
        e.method: max(o.m or 0 for o in exponents if o.method == e.method) for e in exponents
    }
    several_m = len({e.method for e in exponents}) == 1
    shown = [e for e in exponents if several_m or (e.m or 0) == largest[e.method]]
    looks = looks_of(arrangement)
    wheres = list(dict.fromkeys(e.where for e in shown))
    for number, part in enumerate(_parts(wheres), 1):
        figure, axes = _grid(len(part))
        for ax, where in zip(axes, part, strict=True):
            ax.set_xscale("log")
            ax.set_yscale("log")
            own = [e for e in shown if e.where == where]
            for i, exponent in enumerate(own):
                look = _look(i) if several_m else looks[exponent.method]
                _draw_slope(ax, exponent, look)
            _plain_ticks(ax.xaxis)
            _plain_ticks(ax.yaxis)
            ax.legend(frameon=False, prop=_font(SMALLEST))
            _name(ax, where)
        _label(figure, axes, "training duels t", metric.axis)
        caption = (
            "Geometric means of all runs, with the standard error of the mean of their logs; the "
            "lines are fitted to the logs of single runs. Exponents, with their standard errors, "
            "stand in the legend."
        )
        if not several_m and len(shown) < len(exponents):
            caption += " Each method at its largest m; the table of exponents has all."
        yield DrawnFigure(
            f"{metric.name}_against_t" + ("" if number == 1 else f"_{number}"),
            COST,
            f"{_title(metric)} against the number of duels",
            caption,
            figure,
        )


def _ends(points: Sequence[CurvePoint], panel: Panel) -> tuple[int | None, ...]:
    """The smallest and the largest m that all methods of a panel have, or that any has."""
    by_method: dict[Method, set[int]] = {}
    for point in points:
        if point.key.panel == panel and point.key.m is not None:
            by_method.setdefault(point.key.method, set()).add(point.key.m)
    if not by_method:
        return (None,)
    ms = set.intersection(*by_method.values()) or set.union(*by_method.values())
    return tuple(sorted({min(ms), max(ms)}))


def scale_of(metric: ReportedMetric, points: Iterable[CurvePoint]) -> Scale:
    """Logarithmic for what falls by orders, on both sides of 0 for a wide signed range."""
    means = np.array([p.mean for p in points if math.isfinite(p.mean)]) * metric.factor
    if metric.falls and (means > 0.0).any():
        return Scale("log", float(means.max()) * 10.0**-DECADES)
    if (means < 0.0).any() and metric.name.endswith("gap") and np.abs(means).max() > 30:
        return Scale("symlog")
    return Scale("linear")


def notes_of_scale(points: Sequence[CurvePoint], metric: ReportedMetric, scale: Scale) -> list[str]:
    """What an axis cuts off or bends."""
    if scale.kind == "symlog":
        return [f"The axis is linear within ±{LINEAR_WITHIN:g} and logarithmic beyond."]
    cut = [p for p in points if p.mean * metric.factor <= scale.floor]
    if not cut:
        return []
    zeros = sum(p.mean <= 0.0 for p in cut)
    parts = [f"{zeros:,} of 0 or less"] if zeros else []
    if len(cut) > zeros:
        parts.append(f"{len(cut) - zeros:,} below {scale.floor:.0e} {metric.shown_unit}".rstrip())
    return [f"Values cut off at the lower edge (triangles): {' and '.join(parts)}."]


def facets_of(arrangement: Arrangement, points: Sequence[CurvePoint]) -> list[Facet]:
    """Axes: one for each panel, or with many methods one for each panel and setting."""
    position = _coloured(arrangement)
    facets = []
    for panel in arrangement.panels:
        present = {p.key.method for p in points if p.key.panel == panel}
        own = [method for method in arrangement.methods if method in present]
        curves = [method for method in own if method.has_m]
        if position is None or not curves:
            if own:
                facets.append(Facet(panel.label, panel, {m: m.label for m in own}))
            continue
        names = [name for i, name in enumerate(SETTINGS) if i != position]
        varied = _varied(curves)
        for rest in dict.fromkeys(_without(method.settings, position) for method in curves):
            settings = dict(zip(names, rest, strict=True))
            inside = {
                method: _value_label(method, position)
                for method in own
                if method.is_baseline or method.agrees(_settings_for(method, settings))
            }
            words = [setting_label(settings[name]) for name in names if name in varied]
            label = ", ".join([panel.label, *(word for word in words if word not in NOTHING)])
            facets.append(Facet(label, panel, inside))
    return facets


def looks_of(arrangement: Arrangement) -> Mapping[Method, LineStyle]:
    """The line of each method, the same in all figures."""
    position = _coloured(arrangement)
    others = [m for m in arrangement.methods if not (m.is_baseline or m.is_exact)]
    others.sort(key=lambda method: not method.has_m)  # curves take the first colours
    names = [m.label if position is None else _value_label(m, position) for m in others]
    order = list(dict.fromkeys(names))
    looks = {m: _look(order.index(name)) for m, name in zip(others, names, strict=True)}
    exact = [m for m in arrangement.methods if m.is_exact]
    for i, method in enumerate(exact):
        # Where settings have axes of their own, each has but one of them.
        looks[method] = LineStyle(
            BLACK, "*", "--" if position is not None else ("--", "-.", ":")[i % 3]
        )
    baselines = [m for m in arrangement.methods if m.is_baseline]
    return looks | {m: LineStyle(GREY, "x", ":" if m.is_coin else "-.") for m in baselines}


def _look(i: int) -> LineStyle:
    return LineStyle(
        COLOURS[i % len(COLOURS)],
        MARKERS[i % len(MARKERS)],
        DASHES[i // len(COLOURS) % len(DASHES)],
    )


def _coloured(arrangement: Arrangement) -> int | None:
    """Position of the setting that colours tell, if there are too many methods for one axis.

    It is the approximation, unless there is but one; None where each method has its own colour.
    """
    curves = [method for method in arrangement.methods if method.has_m]
    if len(curves) <= MOST_LINES:
        return None
    counts = [len({method.settings[i] for method in curves}) for i in range(len(SETTINGS))]
    return 0 if counts[0] > 1 else int(np.argmax(counts))


def _value_label(method: Method, position: int) -> str:
    """The name where other settings stand above the axis."""
    if position == 0 or not method.has_m:
        return approximation_label(method.approximation)
    return setting_label(method.settings[position])


def _settings_for(method: Method, settings: Mapping[str, str]) -> Mapping[str, str]:
    """What a method must agree with; one without m stands in for any approximation."""
    if method.has_m:
        return settings
    return {name: value for name, value in settings.items() if name != "approximation"}


def _varied(curves: Sequence[Method]) -> set[str]:
    return {
        name
        for i, name in enumerate(SETTINGS)
        if len({method.settings[i] for method in curves}) > 1
    }


def _without(settings: tuple[str, ...], position: int) -> tuple[str, ...]:
    return settings[:position] + settings[position + 1 :]


def _idle(point: CurvePoint, metric: ReportedMetric) -> bool:
    """The cost of a baseline: next to none, it would only stretch the axis."""
    return metric.group == COST and point.key.method.is_baseline


def _draw_curves(
    ax: Axes,
    facet: Facet,
    points: Sequence[CurvePoint],
    metric: ReportedMetric,
    scale: Scale,
    looks: Mapping[Method, LineStyle],
    slopes: Mapping[tuple[str, Method], Exponent],
) -> None:
    _set_scale(ax, scale)
    ax.set_xscale("log", base=2)
    curves = {
        method: [p for p in points if p.key.method == method and p.key.m is not None and p.seeds]
        for method in facet.methods
    }
    curves = {method: own for method, own in curves.items() if own}
    bottom = _bottom(curves.values(), metric, scale)
    for method, own in curves.items():
        label = _legend_name(facet.methods[method], slopes.get((facet.panel.label, method)))
        _curve(ax, own, metric, scale, looks[method], label, bottom)
    ms = sorted({int(p.key.m or 0) for own in curves.values() for p in own})
    if ms:
        ax.set_xlim(ms[0] / 1.25, ms[-1] * 1.25)
        ax.set_xticks(ms, [f"{m:,}" for m in ms])
        ax.minorticks_off()


def _finish_values(axes: Sequence[Axes], facets: Sequence[Facet], scale: Scale) -> None:
    """Limits and ticks of the vertical axes, once everything is drawn."""
    _equal_limits(axes, facets)
    if scale.kind != "linear":
        for ax in axes:
            _plain_ticks(ax.yaxis)


def _equal_limits(axes: Sequence[Axes], facets: Sequence[Facet]) -> None:
    """Where axes show the same data, so that heights can be compared."""
    for panel in dict.fromkeys(facet.panel for facet in facets):
        own = [ax for ax, facet in zip(axes, facets, strict=True) if facet.panel == panel]
        limits = [ax.get_ylim() for ax in own]
        for ax in own:
            lowest, highest = min(low for low, _ in limits), max(high for _, high in limits)
            ax.set_ylim(lowest, highest, auto=True)  # lines may still widen them


def _curve(
    ax: Axes,
    points: Sequence[CurvePoint],
    metric: ReportedMetric,
    scale: Scale,
    look: LineStyle,
    label: str,
    bottom: float,
) -> None:
    ms = np.array([float(p.key.m or 0) for p in points])
    means = np.array([p.mean for p in points]) * metric.factor
    errors = np.nan_to_num(np.array([p.error for p in points]) * metric.factor)
    fine = means > scale.floor
    ax.plot(ms[fine], means[fine], look.dashes, color=look.colour, linewidth=1.4)
    lower = np.minimum(errors, means - bottom) if scale.kind == "log" else errors
    (drawn, *_) = ax.errorbar(
        ms[fine],
        means[fine],
        yerr=np.maximum([lower[fine], errors[fine]], 0.0),
        fmt=look.marker,
        linestyle="none",
        color=look.colour,
        markersize=4.5,
        capsize=2,
        linewidth=1.0,
    )
    drawn.set_label("_points")
    # Of the legend: line and marker together.
    ax.plot([], [], look.dashes, marker=look.marker, color=look.colour, markersize=4.5, label=label)
    alone = np.array([not p.paired for p in points]) & fine
    if alone.any():
        hollow: dict[str, Any] = {
            "markerfacecolor": "white",
            "markeredgecolor": look.colour,
            "zorder": 4,
        }
        ax.plot(ms[alone], means[alone], look.marker, markersize=4.5, label="_alone", **hollow)
    _cut_marks(ax, ms[~fine], look)


def _cut_marks(ax: Axes, x: Any, look: LineStyle) -> None:
    """Triangles at the lower edge, for values that a logarithmic axis does not reach."""
    if not len(x):
        return
    ax.plot(
        x,
        np.zeros(len(x)),
        "v",
        color=look.colour,
        transform=ax.get_xaxis_transform(),
        label="_cut",
        clip_on=False,
        zorder=5,
    )


def _bottom(curves: Iterable[Sequence[CurvePoint]], metric: ReportedMetric, scale: Scale) -> float:
    """Where error bars end on a logarithmic axis, which has no 0."""
    if scale.kind != "log":
        return -math.inf
    means = [p.mean * metric.factor for own in curves for p in own]
    positive = [value for value in means if value > scale.floor]
    return 0.5 * min(positive) if positive else scale.floor


def _draw_levels(
    ax: Axes,
    facet: Facet,
    points: Sequence[CurvePoint],
    metric: ReportedMetric,
    scale: Scale,
    looks: Mapping[Method, LineStyle],
) -> None:
    """Horizontal lines, and the name of the axis with those that are too far from the curves.

    What is better than the curves is never left out, however far it is.
    """
    low, high = ax.get_ylim()
    span = high - low
    far: dict[str, list[str]] = {"↑": [], "↓": []}
    for point in points:
        if point.key.method not in facet.methods or point.key.m is not None or not point.seeds:
            continue
        value, error = point.mean * metric.factor, point.error * metric.factor
        if scale.kind == "log" and value <= scale.floor:
            continue
        look = looks[point.key.method]
        label = _legend_name(facet.methods[point.key.method])
        lowest = -math.inf if metric.direction == LOWER else low - NEAR * span
        highest = math.inf if metric.direction == HIGHER else high + NEAR * span
        if scale.kind != "linear" or lowest <= value <= highest:
            ax.axhline(value, color=look.colour, linestyle=look.dashes, linewidth=1.2, label=label)
            if error > 0.0 and (scale.kind != "log" or value > error):
                ax.axhspan(value - error, value + error, color=look.colour, alpha=0.1, linewidth=0)
        else:
            far["↑" if value > high else "↓"].append(f"{label} {value:.3g}".replace(" ", UNBROKEN))
    texts = [f"{arrow}{UNBROKEN}{', '.join(names)}" for arrow, names in far.items() if names]
    _name(ax, facet.label, "   ".join(texts))


def _path(
    ax: Axes,
    name: str,
    points: Sequence[CurvePoint],
    seconds: Mapping[Any, float],
    metric: ReportedMetric,
    scale: Scale,
    look: LineStyle,
) -> None:
    fine = [p for p in points if p.mean * metric.factor > scale.floor]
    x = [seconds[p.key] for p in fine]
    y = [p.mean * metric.factor for p in fine]
    ax.plot(x, y, look.dashes, color=look.colour, linewidth=1.2, alpha=0.8)
    largest = max(p.key.m or 1 for p in points)
    sizes = [15.0 + 45.0 * (p.key.m or largest) / largest for p in fine]
    ax.scatter(x, y, sizes, color=look.colour, marker=look.marker, label=_legend_name(name))
    _cut_marks(ax, [seconds[p.key] for p in points if p not in fine], look)


def _reliability(ax: Axes, curve: Reliability, look: LineStyle, label: str, bars: bool) -> None:
    x = [one.confidence for one in curve.bins]
    y = [one.share_won for one in curve.bins]
    duels = np.array([one.duels for one in curve.bins])
    errors = np.nan_to_num([one.error for one in curve.bins])
    line: dict[str, Any] = {"color": look.colour, "linewidth": 1.0}
    if bars:
        ax.errorbar(x, y, yerr=errors, fmt="none", capsize=2, **line)
    ax.plot(x, y, look.dashes, alpha=0.8, label="_line", **line)
    ax.scatter(x, y, 10.0 + 60.0 * duels / duels.max(), color=look.colour, marker=look.marker)
    # Of the legend: markers of one size.
    ax.plot([], [], look.dashes, marker=look.marker, markersize=4.5, label=label, **line)


def _draw_slope(ax: Axes, exponent: Exponent, look: LineStyle) -> None:
    """The line of one exponent, and the geometric means of the runs it is fitted to."""
    x, means, low, high = np.array(exponent.means).T
    (drawn, *_) = ax.errorbar(
        x,
        means,
        yerr=np.nan_to_num([means - low, high - means]),
        fmt=look.marker,
        linestyle="none",
        color=look.colour,
        markersize=5,
        capsize=2,
        linewidth=1.0,
    )
    drawn.set_label("_points")
    name = exponent.method.label + ("" if exponent.m is None else f", m = {exponent.m:,}")
    ends = np.array([exponent.low, exponent.high])
    fitted = exponent.constant * ends**exponent.slope
    label = _legend_name(name, exponent)
    ax.plot(ends, fitted, look.dashes, color=look.colour, linewidth=1.2, label=label)


def _legend_name(name: str, exponent: Exponent | None = None) -> str:
    """As matplotlib draws it: the name as it is, the exponent as a formula."""
    (shown,) = drawable([name], 60)
    if exponent is None:
        return shown
    power = f"{exponent.slope:.2f} \\pm {exponent.error:.2f}"
    return f"{shown}: $\\propto {exponent.variable}^{{{power}}}$"


def _set_scale(ax: Axes, scale: Scale) -> None:
    if scale.kind == "log":
        ax.set_yscale("log")
    elif scale.kind == "symlog":
        ax.set_yscale("symlog", linthresh=LINEAR_WITHIN)
        ax.axhline(0.0, color=GREY, linewidth=0.8)


def _plain_ticks(axis: Any) -> None:
    """0.1, 1, 10 in place of powers where these are few, and no crowd of minor labels."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    low, high = axis.get_view_interval()
    narrow = False
    if axis.get_scale() == "log":
        subs = (1.0,) if high > 10**2.5 * low else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(subs=subs, numticks=8))
        axis.set_minor_formatter(NullFormatter())
        narrow = sum(low <= tick <= high for tick in axis.get_majorticklocs()) < FEWEST_TICKS
        if narrow:  # as on a linear axis, from which it hardly differs
            axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], min_n_ticks=FEWEST_TICKS))
            axis.set_minor_locator(NullLocator())
    if narrow or (high < 1e6 and (low > 1e-4 or axis.get_scale() == "symlog")):
        axis.set_major_formatter(
            FuncFormatter(lambda value, position: f"{value:,.10g}".replace("-", "−"))
        )


def _grid(number: int, most: int = COLUMNS) -> tuple[Figure, list[Axes]]:
    columns = min(number, most)
    rows = math.ceil(number / columns)
    size = (7.0, 4.8) if number == 1 else (3.6 * columns + 0.4, 2.9 * rows + 0.8)
    figure = new_figure(size)
    axes = [axes_or_new(figure.add_subplot(rows, columns, i + 1)) for i in range(number)]
    return figure, axes


def _name(ax: Axes, text: str, note: str = "") -> None:
    """The name of an axis, and between the two what it leaves out."""
    # The layout will make the axis wider yet.
    width = int(LETTERS_PER_INCH * ax.bbox.width / ax.figure.dpi)
    lines = [line.replace(UNBROKEN, " ") for line in textwrap.wrap(note, width)]
    if lines:
        ax.annotate(
            "\n".join(lines),
            (0.0, 1.0),
            (0.0, GAP),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=SMALLEST,
            color=GREY,
            **name_style(),
        )
    pad = 2 * GAP + 1.25 * SMALLEST * len(lines)
    label = drawable([text], 60)[0]
    ax.set_title(label, fontsize=SMALL, loc="left", pad=pad, **name_style())


def _label(figure: Figure, axes: Sequence[Axes], x: str, y: str, most: int = COLUMNS) -> None:
    columns = min(len(axes), most)
    for ax in axes[-columns:]:  # the lowest of each column
        ax.set_xlabel(x)
    if len(axes) == 1:
        axes[0].set_ylabel(y)
    else:
        figure.supylabel(y, fontsize=10)


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One for all axes, above them; where labels differ by axis (exponents), one in each."""
    found: dict[str, Any] = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        found |= {label: found.get(label, h) for h, label in zip(handles, labels, strict=True)}
    if len(axes) > 1 and any(r"\propto" in label for label in found):
        for ax in axes:
            ax.legend(frameon=False, prop=_font(SMALLEST))
        return
    names = list(found)
    # Of a formula, only what is seen counts.
    longest = max(
        (len(name.replace(r"\propto", "").replace(r"\pm", "")) for name in names), default=1
    )
    width = figure.get_size_inches()[0]
    columns = max(1, int(width * 12 / (longest + 5)))
    figure.legend(
        list(found.values()),
        names,
        loc="outside upper left",
        ncols=min(columns, len(names) or 1),
        frameon=False,
        prop=_font(SMALL),
    )


def _footnote(figure: Figure, notes: Sequence[str]) -> None:
    """What is missing stands below the figure too, for whoever has the figure alone."""
    if not notes:
        return
    width = int(15 * figure.get_size_inches()[0])
    lines = [line for note in notes for line in textwrap.wrap(drawable([note], 400)[0], width)]
    if len(lines) > 4:
        lines = [*lines[:3], "… and more, in the report."]
    figure.legend(
        handles=[],
        title="\n".join(lines),
        title_fontsize=SMALLEST,
        loc="outside lower left",
        frameon=False,
        alignment="left",
    )


def _font(size: float) -> dict[str, Any]:
    return {"size": size, "family": list(font_names())}


def _about_lines(points: Sequence[CurvePoint]) -> str:
    flat = [p for p in points if p.key.m is None and p.seeds]
    return "Horizontal lines: methods without inducing inputs." if flat else ""


def _mean(by_seed: Mapping[int, float], seeds: Sequence[int]) -> float:
    known = [by_seed[seed] for seed in seeds if math.isfinite(by_seed.get(seed, math.nan))]
    return float(np.mean(known)) if known else math.nan


def _parts(items: Sequence[Any], most: int = MOST_PANELS) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


def _title(metric: ReportedMetric) -> str:
    text = metric.label if metric.name != "nlp_bits" else f"{metric.label} in bits"
    return text[:1].upper() + text[1:]
