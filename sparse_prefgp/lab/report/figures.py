"""Figures of a report: measures against m, and quality against time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparse_prefgp.lab.measures import COST, HIGHER, LOWER, MEASURES, Measure
from sparse_prefgp.lab.report.results import NO_M, SETTINGS, Frame, Method, Results, setting_label
from sparse_prefgp.lab.report.statistics import notes_of, points_of
from sparse_prefgp.plotting import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# With those of the canvas, what is left of Okabe & Ito's palette but for its yellow.
COLOURS = (canvas.BLUE, canvas.VERMILION, "#009E73", canvas.ORANGE, "#CC79A7", "#56B4E9")
MARKERS, DASHES = "osD^vP", ("-", "--", ":")
MOST_LINES = 8  # in one axis; with more methods, settings go into axes of their own
MOST_AXES, COLUMNS = 9, 3
DECADES = 12  # of a logarithmic axis: what is smaller by more is rounding
WIDE = 30.0  # a signed measure beyond is on an axis that is logarithmic on both sides of 0
AGAINST_M = "number of inducing inputs m"
AGAINST_TIME = ("nlp_nats", "kl_from_exact", "accuracy")


class About(NamedTuple):
    """The words that go with a figure."""

    name: str
    """Of its files."""
    group: str
    title: str
    caption: str


class Facet(NamedTuple):
    """One axis: some data, and the methods in it with their names in the legend."""

    label: str
    data: str
    methods: Mapping[str, str]


class Look(NamedTuple):
    """Of the line of a method, the same in all figures."""

    color: str
    marker: str
    linestyle: str


def draw_all(results: Results, measures: Sequence[Measure]) -> Iterator[tuple[About, Figure]]:
    """All figures of a report, one after the other."""
    for measure in measures:
        yield from draw_against_m(results, measure)
    for measure in measures:
        if measure.name in AGAINST_TIME and MEASURES["fit_seconds"] in results.measures:
            yield from draw_against_time(results, measure)


def draw_against_m(results: Results, measure: Measure) -> Iterator[tuple[About, Figure]]:
    """Curves with bands of one standard error, and lines of methods without m."""
    points = points_of(results, measure)
    if measure.group == COST:  # of a baseline next to none, which would only stretch the axis
        points = _without(points, results, "is_baseline")
    if not len(points[(points.index.get_level_values("m") != NO_M) & points["mean"].notna()]):
        return
    looks = looks_of(results)

    def draw(ax: Axes, facet: Facet) -> None:
        _set_scale(ax, points, measure)
        ax.set_xscale("log", base=2)
        own = points.xs(facet.data)
        for method, name in facet.methods.items():
            curve = own[[key[0] == method and key[1] != NO_M for key in own.index]]
            x = curve.index.get_level_values("m").to_numpy(float)
            _draw_band(ax, x, curve, points, measure, looks[method], name)
        ms = sorted({m for method, m in own.index if method in facet.methods} - {NO_M})
        if ms:
            ax.set_xlim(ms[0] / 1.25, ms[-1] * 1.25)
            ax.set_xticks(ms, [f"{m:,}" for m in ms])
            ax.minorticks_off()
        _draw_levels(ax, facet, own, measure, looks)

    words = [f"Mean and standard error over paired seeds{measure.direction}."]
    if NO_M in points.index.get_level_values("m"):
        words.append("Horizontal lines are methods without inducing inputs.")
    cut = int((points["mean"] <= _floor(points, measure)).sum())
    if cut:
        words.append(f"{cut:,} values that are 0 or nearly so stand at the lower edge.")
    caption = " ".join([*words, *notes_of(points)])
    about = About(measure.name, measure.group, f"{measure.title} against m", caption)
    yield from _figures(about, facets_of(results, points), draw, (AGAINST_M, measure.axis))


def draw_against_time(results: Results, measure: Measure) -> Iterator[tuple[About, Figure]]:
    """Quality against the time to fit: a path for each method, along m."""
    seconds = results.by_seed(MEASURES["fit_seconds"])
    points = _without(points_of(results, measure), results, "is_coin")
    points = points[points["mean"].notna() & points.index.isin(seconds.index)]
    looks = looks_of(results)

    def draw(ax: Axes, facet: Facet) -> None:
        _set_scale(ax, points, measure)
        ax.set_xscale("log")
        for method, name in facet.methods.items():
            own = points[[key[:2] == (facet.data, method) for key in points.index]]
            seeds = zip(own.index, own["seeds"], strict=True)
            x = [seconds.loc[key, list(of_point)].mean() for key, of_point in seeds]
            y = np.maximum(own["mean"], _floor(points, measure))
            largest = max((m for *_, m in own.index), default=NO_M) or 1
            sizes = [15.0 + 45.0 * (m or largest) / largest for *_, m in own.index]
            color, marker, dashes = looks[method]
            ax.plot(x, y, color=color, linestyle=dashes, linewidth=1.2, alpha=0.8)
            ax.scatter(x, y, sizes, color=color, marker=marker, label=name)

    about = About(
        f"{measure.name}_against_time",
        COST,
        f"{measure.title} against time",
        "One path for each method, from its smallest m (small) to its largest (large); methods "
        "without inducing inputs are single points.",
    )
    facets = facets_of(results, points) if set(points.index.get_level_values("m")) - {NO_M} else []
    yield from _figures(about, facets, draw, ("time to fit (s)", measure.axis))


def facets_of(results: Results, points: Frame) -> list[Facet]:
    """Axes: one for each data, or with many methods one for each data and setting."""
    colour = _coloured(results)
    facets = []
    for data in results.data:
        present = {method for where, method, _ in points.index if where == data}
        own = [method for label, method in results.methods.items() if label in present]
        curves = [method for method in own if method.has_m]
        others = [] if colour is None else [name for name in SETTINGS if name != colour]
        varied = [name for name in others if len({one.settings[name] for one in curves}) > 1]
        rests = dict.fromkeys(tuple(one.settings[name] for name in varied) for one in curves)
        for rest in rests or ([()] if own else []):
            wanted = dict(zip(varied, rest, strict=True))
            # Whether a method has these settings, as far as it has them at all.
            inside = {
                one.label: _colour_label(one, colour)
                for one in own
                if one.is_baseline
                or all(
                    one.settings[name] in (value, "none") or (name == SETTINGS[0] and not one.has_m)
                    for name, value in wanted.items()
                )
            }
            words = [setting_label(name, value) for name, value in wanted.items()]
            facets.append(Facet(", ".join([data, *words]), data, inside))
    return facets


def looks_of(results: Results) -> Mapping[str, Look]:
    """The line of each method: baselines grey, exact inference black, colours for the others."""
    colour = _coloured(results)
    looks: dict[str, Look] = {}
    numbers: dict[str, int] = {}
    # Curves take the first colours.
    for method in sorted(results.methods.values(), key=lambda method: not method.has_m):
        if method.is_baseline:
            looks[method.label] = Look(canvas.GREY, "x", ":" if method.is_coin else "-.")
        elif method.settings["approximation"] == "exact":
            number = sum(look.color == canvas.BLACK for look in looks.values())
            dashes = "--" if colour else ("--", "-.", ":")[number % 3]
            looks[method.label] = Look(canvas.BLACK, "*", dashes)
        else:
            i = numbers.setdefault(_colour_label(method, colour), len(numbers))
            dashes = DASHES[i // len(COLOURS) % len(DASHES)]
            color, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
            looks[method.label] = Look(color, marker, dashes)
    return looks


def _coloured(results: Results) -> str | None:
    """The setting that colours tell, if there are too many methods for one axis: the
    approximation, unless there is but one; None where each method has its own colour."""
    curves = [method for method in results.methods.values() if method.has_m]
    if len(curves) <= MOST_LINES:
        return None
    counts = {name: len({method.settings[name] for method in curves}) for name in SETTINGS}
    return SETTINGS[0] if counts[SETTINGS[0]] > 1 else max(counts, key=counts.__getitem__)


def _colour_label(method: Method, colour: str | None) -> str:
    """The name where other settings stand above the axis, as matplotlib draws it."""
    name = (colour or "") if method.has_m else "approximation"
    text = method.label if colour is None else setting_label(name, method.settings[name])
    return canvas.drawable([text], 60)[0]


def _without(points: Frame, results: Results, what: str) -> Frame:
    labels = [label for label, method in results.methods.items() if getattr(method, what)]
    return points.drop(labels, level="method", errors="ignore")


def _figures(
    about: About,
    facets: Sequence[Facet],
    draw: Callable[[Axes, Facet], None],
    labels: tuple[str, str],
) -> Iterator[tuple[About, Figure]]:
    """Figures of at most nine axes, those of the same data with equal heights."""
    for start in range(0, len(facets), MOST_AXES):
        part = facets[start : start + MOST_AXES]
        columns = min(len(part), COLUMNS)
        rows = -(-len(part) // columns)
        wide = (3.6 * columns + 0.4, 2.9 * rows + 0.8)
        figure = canvas.new_figure((7.0, 4.8) if len(part) == 1 else wide)
        places = [figure.add_subplot(rows, columns, i + 1) for i in range(len(part))]
        axes = [canvas.axes_or_new(ax) for ax in places]
        for ax, facet in zip(axes, part, strict=True):
            draw(ax, facet)
            title, pad = canvas.drawable([facet.label], 60)[0], 18.0 if ax.texts else 6.0
            ax.set_title(title, fontsize=canvas.SMALL, loc="left", pad=pad, **canvas.name_style())
        for data in dict.fromkeys(facet.data for facet in part):
            own = [ax for ax, facet in zip(axes, part, strict=True) if facet.data == data]
            limits = np.array([ax.get_ylim() for ax in own])
            for ax in own:
                ax.set_ylim(limits[:, 0].min(), limits[:, 1].max())
                _plain_ticks(ax.yaxis)
                if labels[0] != AGAINST_M:
                    _plain_ticks(ax.xaxis)
        figure.supxlabel(labels[0], fontsize=canvas.SMALL + 1)
        figure.supylabel(labels[1], fontsize=canvas.SMALL + 1)
        known: dict[str, Any] = {}
        for ax in axes:
            handles, names = ax.get_legend_handles_labels()
            known = {**dict(zip(names, handles, strict=True)), **known}
        longest = max(map(len, known), default=1)
        columns = max(1, int(figure.get_size_inches()[0] * 12 / (longest + 5)))
        font = {"size": canvas.SMALLEST, "family": list(canvas.font_names())}
        figure.legend(
            known.values(),
            known,
            loc="outside upper left",
            ncols=min(columns, len(known) or 1),
            frameon=False,
            prop=font,
        )
        number = "" if start == 0 else f"_{start // MOST_AXES + 1}"
        yield about._replace(name=about.name + number), figure


def _floor(points: Frame, measure: Measure) -> float:
    """The lower edge of a logarithmic axis."""
    return float(points["mean"].max()) * 10.0**-DECADES if measure.falls else -math.inf


def _set_scale(ax: Axes, points: Frame, measure: Measure) -> None:
    """Logarithmic for what falls by orders, on both sides of 0 for a wide signed range."""
    means = points["mean"].dropna()
    if measure.falls and (means > 0.0).any():
        ax.set_yscale("log")
    elif (means < 0.0).any() and measure.name.endswith("gap") and means.abs().max() > WIDE:
        ax.set_yscale("symlog", linthresh=1.0)
        ax.axhline(0.0, color=canvas.GREY, linewidth=0.8)


def _draw_band(
    ax: Axes, x: Any, curve: Frame, points: Frame, measure: Measure, look: Look, label: str
) -> None:
    """A curve, its band of one standard error, and hollow markers where seeds are not paired."""
    known = curve["mean"].notna().to_numpy()
    x, curve = x[known], curve[known]
    if not len(curve):
        return
    mean, error = curve["mean"].to_numpy(float), np.nan_to_num(curve["error"].to_numpy(float))
    drawn = np.maximum(mean, _floor(points, measure))
    # On a logarithmic axis a band that reaches 0 ends a little below the curve.
    low = np.maximum(mean - error, 0.5 * drawn) if measure.falls else mean - error
    ax.fill_between(x, low, drawn + error, color=look.color, alpha=0.15, linewidth=0)
    ax.plot(x, drawn, **look._asdict(), markersize=4.5, linewidth=1.4, label=label)
    alone = ~curve["paired"].to_numpy(bool)
    ax.plot(x[alone], drawn[alone], look.marker, markersize=4.5, mfc="white", mec=look.color)


def _draw_levels(
    ax: Axes, facet: Facet, points: Frame, measure: Measure, looks: Mapping[str, Look]
) -> None:
    """Horizontal lines of methods without m; one that is much worse than the curves is named above
    the axis, and a better one never is: the axis reaches to it."""
    low, high = ax.get_ylim()
    is_linear, far = ax.get_yscale() == "linear", []
    lowest = -math.inf if measure.better == LOWER else low - (high - low)
    highest = math.inf if measure.better == HIGHER else high + (high - low)
    for (method, m), point in points.dropna(subset=["mean"]).iterrows():
        if m != NO_M or method not in facet.methods:
            continue
        look, name = looks[method], facet.methods[method]
        mean, error = point["mean"], point["error"]
        if is_linear and not lowest <= mean <= highest:
            far.append(f"{name} {mean:.3g} {'↑' if mean > high else '↓'}")
        elif ax.get_yscale() != "log" or mean > 0.0:
            color, _, dashes = look
            ax.axhline(mean, color=color, linestyle=dashes, linewidth=1.2, label=name)
            if error > 0.0 and (is_linear or error < mean):
                ax.axhspan(mean - error, mean + error, color=color, alpha=0.1, linewidth=0)
    if far:
        size, text = canvas.SMALLEST, f"beyond the axis: {', '.join(far)}"
        ax.text(0.0, 1.01, text, fontsize=size, color=canvas.GREY, transform=ax.transAxes)


def _plain_ticks(axis: Any) -> None:
    """0.1, 1, 10 in place of powers, and no crowd of minor labels."""
    from matplotlib.ticker import LogLocator, NullFormatter

    if axis.get_scale() == "log":
        low, high = axis.get_view_interval()
        subs = (1.0,) if high > 300.0 * low else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(subs=subs, numticks=8))
        axis.set_minor_formatter(NullFormatter())
    if axis.get_scale() != "linear":
        axis.set_major_formatter("{x:g}")
