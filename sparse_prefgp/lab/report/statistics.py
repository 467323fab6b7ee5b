"""Means over paired seeds, paired comparisons, and exponents of cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from scipy import stats

from sparse_prefgp.lab.layout import COST, HIGHER, NEITHER
from sparse_prefgp.lab.report.methods import Arrangement, BySeed, Key, Method, Panel
from sparse_prefgp.lab.report.vocabulary import PEAK_MEMORY, ReportedMetric

LEVEL = 0.95
POINTS_OF_A_SLOPE = 3
# MiB. To trace and compile a graph takes up to some 130 MiB, whatever the sizes of the arrays.
MEMORY_OF_GRAPHS = 256.0
_GRAPHS = f"all values are below {MEMORY_OF_GRAPHS:.0f} MiB, which tracing and compiling may take"
T = TypeVar("T")


@dataclass(frozen=True)
class CurvePoint:
    """One point of a curve."""

    key: Key
    mean: float
    """Over `seeds`, the error is that of the mean and NaN for one seed."""
    error: float
    """Over `seeds`, the error is that of the mean and NaN for one seed."""
    seeds: tuple[int, ...]
    missing: tuple[int, ...]
    """Seeds that other points of the panel have."""
    paired: bool
    """Whether `seeds` are those of all paired points. mean is NaN where no seed has a value."""


@dataclass(frozen=True)
class Difference:
    """A paired comparison: first less second."""

    where: str
    """Data set, or several of them together, of which each then counts once."""
    m: tuple[int | None, int | None]
    metric: ReportedMetric
    mean: float
    error: float
    interval: tuple[float, float]
    """Of `LEVEL`, by Student's t; NaN with fewer than two pairs."""
    pairs: int
    """How many seeds (data sets) both have."""
    wins: int
    """Of the first; ties are neither."""
    losses: int
    """Of the first; ties are neither."""
    unmatched: tuple[int, ...]
    """Seeds that only one of them has."""


class GeometricMean(NamedTuple):
    """Of the runs at x, with the standard error of the mean of their logs to either side.

    low and high are NaN for a single run.
    """

    x: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Exponent:
    """Cost as constant times x to the power `slope`, over points from x = low to x = high."""

    where: str
    method: Method
    metric: ReportedMetric
    variable: str
    m: int | None
    slope: float
    error: float
    constant: float
    points: int
    low: float
    high: float
    means: tuple[GeometricMean, ...]
    """Of the runs that it is fitted to, by x."""


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """Mean and its standard error, s / sqrt(number); NaN where there are too few values."""
    array = np.fromiter(values, dtype=np.float64)
    if array.size == 0:
        return math.nan, math.nan
    if array.size == 1:
        return float(array[0]), math.nan
    return float(array.mean()), float(array.std(ddof=1) / math.sqrt(array.size))


def paired_seeds(seeds: Mapping[T, frozenset[int]]) -> tuple[frozenset[int], frozenset[T]]:
    """Seeds that points have in common, and the points that were left out to find them.

    Points with the fewest seeds are left out, one after the other, until at least half of all
    seeds are common to the rest: one point that mostly failed must not take its seeds from all
    others.
    """
    rest = {point: own for point, own in seeds.items() if own}
    everything = frozenset().union(*rest.values())
    outside: set[T] = set()
    while rest:
        common = frozenset.intersection(*rest.values())
        if 2 * len(common) >= len(everything):
            return common, frozenset(outside)
        fewest = min(rest, key=lambda point: len(rest[point]))
        outside.add(fewest)
        del rest[fewest]
    return frozenset(), frozenset(outside)


def points_of(arrangement: Arrangement, metric: ReportedMetric) -> list[CurvePoint]:
    """All points of a metric, seeds paired within each panel.

    Points whose runs all failed are among them where their method has the metric elsewhere.
    """
    cells = arrangement.cells.get(metric.name, {})
    methods = {key.method for key in cells}
    points = []
    for panel in arrangement.panels:
        own = {key: _finite(by_seed) for key, by_seed in cells.items() if key.panel == panel}
        tried = [key for key in arrangement.failed if key.panel == panel and key.method in methods]
        for key in tried:
            own.setdefault(key, {})
        if not any(own.values()):
            continue
        common, outside = paired_seeds({key: frozenset(own[key]) for key in own})
        everything = frozenset().union(*own.values())
        for key in sorted(own, key=lambda key: _order(arrangement, key)):
            paired = bool(own[key]) and key not in outside
            seeds = sorted(common if paired else own[key])
            mean, error = mean_and_error(own[key][seed] for seed in seeds)
            missing = tuple(sorted(everything - own[key].keys()))
            points.append(CurvePoint(key, mean, error, tuple(seeds), missing, paired))
    return points


def notes_of(points: Sequence[CurvePoint]) -> list[str]:
    """What is missing among the points of a metric, and what that did to the others."""
    notes = []
    for panel in dict.fromkeys(point.key.panel for point in points):
        own = [point for point in points if point.key.panel == panel]
        empty = [point for point in own if not point.seeds]
        alone = [point for point in own if point.seeds and not point.paired]
        short = [point for point in own if point.paired and point.missing]
        if empty:
            notes.append(f"{panel.label}: no value for {_places(empty)}.")
        if short:
            left_out = sorted({seed for point in short for seed in point.missing})
            notes.append(
                f"{panel.label}: {_seeds(left_out)} left out throughout, missing for "
                f"{_places(short)}."
            )
        if alone:
            notes.append(
                f"{panel.label}: {_places(alone)} {'is a mean' if len(alone) == 1 else 'are means'}"
                " over fewer seeds than the others."
            )
    return notes


def best_of(values: Mapping[T, BySeed], direction: str) -> frozenset[T]:
    """The best by mean over common seeds, and those within one paired standard error of it."""
    finite = {name: _finite(by_seed) for name, by_seed in values.items()}
    finite = {name: by_seed for name, by_seed in finite.items() if by_seed}
    if direction == NEITHER or len(finite) < 2:
        return frozenset()
    common, outside = paired_seeds({name: frozenset(by_seed) for name, by_seed in finite.items()})
    rivals = {
        name: np.array([by_seed[seed] for seed in sorted(common)])
        for name, by_seed in finite.items()
        if name not in outside
    }
    if len(rivals) < 2:
        return frozenset()
    sign = 1.0 if direction == HIGHER else -1.0
    best = max(rivals, key=lambda name: sign * float(rivals[name].mean()))
    near = set()
    for name, own in rivals.items():
        behind, error = mean_and_error(sign * (rivals[best] - own))
        if behind <= (0.0 if math.isnan(error) else error):
            near.add(name)
    return frozenset(near)


def compare_methods(
    arrangement: Arrangement, metric: ReportedMetric, first: Method, second: Method
) -> list[Difference]:
    """First less second on the same seeds of the same data, for every m that both have.

    A method without inducing inputs is compared with every m of the other. Where there are several
    data sets and the metric has one scale on all, a row for all of them follows, in which the mean
    over the seeds of each counts once. Sizes or splits of one data set share its duels and are not
    independent, so that such a row holds one size and one split. What `is_flat` has no row.
    """
    found: dict[tuple[int | None, int | None], list[tuple[Panel, Difference]]] = {}
    for panel, ms, one, two in _meetings(arrangement, metric, first, second):
        if is_flat(metric, [v * metric.factor for v in (*one.values(), *two.values())]):
            continue
        common = sorted(one.keys() & two.keys())
        differences = [one[seed] - two[seed] for seed in common]
        unmatched = tuple(sorted(one.keys() ^ two.keys()))
        row = _difference(panel.label, ms, metric, differences, unmatched)
        found.setdefault(ms, []).append((panel, row))
    rows = []
    for ms in sorted(found, key=lambda ms: tuple(m or 0 for m in ms)):
        rows += [row for _, row in found[ms]]
        if metric.is_on_one_scale:
            rows += _over_data_sets(found[ms], metric, ms)
    return rows


def notes_of_comparison(
    arrangement: Arrangement, metric: ReportedMetric, first: Method, second: Method
) -> list[str]:
    """Where two methods are not compared, because what they take tells nothing of methods."""
    left_out: dict[str, list[str]] = {}
    for panel, ms, one, two in _meetings(arrangement, metric, first, second):
        if is_flat(metric, [v * metric.factor for v in (*one.values(), *two.values())]):
            left_out.setdefault(panel.label, []).extend(f"{m:,}" for m in {*ms} if m is not None)
    alike: dict[str, list[str]] = {}
    for where, known in left_out.items():
        alike.setdefault(f"{' at m = ' if known else ''}{', '.join(known)}", []).append(where)
    return [
        f"{'; '.join(wheres)}: {first.label} and {second.label} are not compared by "
        f"{metric.label}{at}: {_GRAPHS}."
        for at, wheres in alike.items()
    ]


def at_largest_m(rows: Iterable[Difference]) -> list[Difference]:
    """Of the rows of `compare_methods`, those of the largest m of each metric and data set."""
    return list({(row.metric, row.where): row for row in rows if row.pairs}.values())


def exponents_of(arrangement: Arrangement, metric: ReportedMetric) -> list[Exponent]:
    """Slopes of a cost in m, and in t where the number of training duels was varied.

    What `is_flat` has none.
    """
    found = []
    for line, pairs in _lines(arrangement, metric).items():
        fitted = power_law(*zip(*pairs, strict=True))
        if fitted is None or is_flat(metric, [value for _, value in pairs]):
            continue
        slope, error, constant, points = fitted
        x = [pair[0] for pair in pairs]
        found.append(
            Exponent(
                line.where,
                line.method,
                metric,
                line.variable,
                line.m,
                slope,
                error,
                constant,
                points,
                min(x),
                max(x),
                geometric_means(pairs),
            )
        )
    order = {method: i for i, method in enumerate(arrangement.methods)}
    return sorted(found, key=lambda e: (e.variable, e.where, order[e.method], e.m or 0))


def is_flat(metric: ReportedMetric, values: Sequence[float]) -> bool:
    """Whether these values, in the unit shown, are memory that may be all of graphs."""
    return metric.name == PEAK_MEMORY and 0.0 < max(values, default=0.0) <= MEMORY_OF_GRAPHS


def notes_of_memory(arrangement: Arrangement, metric: ReportedMetric) -> list[str]:
    """Which data have no exponents and no ranks, because all may be the memory of graphs."""
    by_data: dict[str, list[float]] = {}
    for key, by_seed in arrangement.cells.get(metric.name, {}).items():
        if not key.method.is_baseline:
            values = by_data.setdefault(_without_size(arrangement, key.panel), [])
            values += [value * metric.factor for value in _finite(by_seed).values()]
    all_flat = {where for where, values in by_data.items() if is_flat(metric, values)}
    notes = [
        f"{where}: {metric.label} is {_range(by_data[where], metric)} whatever the method: "
        f"{_GRAPHS}, so that nothing is fitted to it or ranked by it."
        for where in by_data
        if where in all_flat
    ]
    flat: dict[tuple[str, str], dict[_Line, list[float]]] = {}
    for line, pairs in _lines(arrangement, metric).items():
        values = [value for _, value in pairs]
        if line.data not in all_flat and is_flat(metric, values) and _has_slope(pairs):
            flat.setdefault((line.where, line.variable), {})[line] = values
    alike: dict[tuple[str, str], dict[str, list[float]]] = {}
    for (where, variable), lines in flat.items():
        names = _listed([_at(line.method, line.m) for line in lines])
        alike.setdefault((variable, names), {})[where] = [v for own in lines.values() for v in own]
    return notes + [
        f"{'; '.join(found)}: {metric.label} has no exponent in {variable} for {names} "
        f"({_range([v for own in found.values() for v in own], metric)}): of each, {_GRAPHS}."
        for (variable, names), found in alike.items()
    ]


def geometric_means(pairs: Iterable[tuple[float, float]]) -> tuple[GeometricMean, ...]:
    """Of the y at each x, from pairs (x, y); y that are not positive are left out."""
    logs: dict[float, list[float]] = {}
    for x, y in pairs:
        if y > 0.0:
            logs.setdefault(x, []).append(math.log(y))
    means = []
    for x in sorted(logs):
        mean, error = mean_and_error(logs[x])
        ends = (math.exp(mean), math.exp(mean - error), math.exp(mean + error))
        means.append(GeometricMean(x, *ends))
    return tuple(means)


def power_law(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float, int] | None:
    """Least squares of log y on log x: slope, its standard error, constant, number of points.

    None with fewer than three different x; values that are not positive are left out.
    """
    x_array, y_array = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    kept = (x_array > 0.0) & (y_array > 0.0)
    if len(np.unique(x_array[kept])) < POINTS_OF_A_SLOPE:
        return None
    line = stats.linregress(np.log(x_array[kept]), np.log(y_array[kept]))
    # SciPy has no number for the error of a flat line that all points lie on.
    error = 0.0 if np.ptp(y_array[kept]) == 0.0 else float(line.stderr)
    return float(line.slope), error, math.exp(line.intercept), int(kept.sum())


class _Line(NamedTuple):
    """Of a cost, along m or t."""

    variable: str
    where: str
    data: str
    """Where, without a size."""
    method: Method
    m: int | None


def _lines(
    arrangement: Arrangement, metric: ReportedMetric
) -> dict[_Line, list[tuple[float, float]]]:
    """(x, cost) of all single runs along each line; baselines cost next to nothing."""
    if metric.group != COST:
        return {}
    lines: dict[_Line, list[tuple[float, float]]] = {}
    for key, by_seed in arrangement.cells.get(metric.name, {}).items():
        values = [value * metric.factor for value in _finite(by_seed).values()]
        if key.method.is_baseline or not values:
            continue
        data = _without_size(arrangement, key.panel)
        if key.m is not None:
            line = lines.setdefault(_Line("m", key.panel.label, data, key.method, None), [])
            line += [(float(key.m), value) for value in values]
        if key.panel.duels is not None:
            line = lines.setdefault(_Line("t", data, data, key.method, key.m), [])
            line += [(arrangement.duels[key], value) for value in values]
    return lines


def largest_common_m(
    arrangement: Arrangement, metric: ReportedMetric, panel: Panel
) -> dict[Method, int | None]:
    """For each method of a panel the m to compare at: the largest that all have which have any.

    Where they have none in common, each has its own largest.
    """
    cells = arrangement.cells.get(metric.name, {})
    own = {
        method: {
            m
            for m in arrangement.ms(metric, panel, method)
            if _finite(cells[Key(panel, method, m)])
        }
        for method in arrangement.methods
    }
    own = {method: ms for method, ms in own.items() if ms}
    sets = [{m for m in ms if m is not None} for ms in own.values()]
    common = set.intersection(*filter(None, sets)) if any(sets) else set()
    chosen: dict[Method, int | None] = {}
    for method, ms in own.items():
        known = {m for m in ms if m is not None}
        chosen[method] = (max(common) if common else max(known)) if known else None
    return chosen


def _difference(
    where: str,
    ms: tuple[int | None, int | None],
    metric: ReportedMetric,
    differences: Sequence[float],
    unmatched: tuple[int, ...],
) -> Difference:
    mean, error = mean_and_error(differences)
    half = (
        float(stats.t.ppf(0.5 + LEVEL / 2, len(differences) - 1)) * error if error >= 0 else error
    )
    sign = {HIGHER: 1.0, NEITHER: 0.0}.get(metric.direction, -1.0)
    return Difference(
        where,
        ms,
        metric,
        mean,
        error,
        (mean - half, mean + half),
        len(differences),
        sum(sign * value > 0 for value in differences),
        sum(sign * value < 0 for value in differences),
        unmatched,
    )


def _over_data_sets(
    rows: Sequence[tuple[Panel, Difference]],
    metric: ReportedMetric,
    ms: tuple[int | None, int | None],
) -> list[Difference]:
    """A row over data sets for each split and size that several of them have."""
    means: dict[str, list[float]] = {}
    for panel, row in rows:
        if row.pairs:
            # What stands behind the data set's name where it has several panels.
            condition = panel.label.removeprefix(panel.data)
            means.setdefault(condition, []).append(row.mean)
    return [
        _difference(f"{len(own)} data sets, each once{condition}", ms, metric, own, ())
        for condition, own in means.items()
        if len(own) > 1
    ]


def _meetings(
    arrangement: Arrangement, metric: ReportedMetric, first: Method, second: Method
) -> Iterator[tuple[Panel, tuple[int | None, int | None], BySeed, BySeed]]:
    """Where two methods meet: panel, the m of both, and the values by seed of both."""
    cells = arrangement.cells.get(metric.name, {})
    for panel in arrangement.panels:
        for ms in _matched(arrangement, metric, panel, first, second):
            one, two = (
                _finite(cells[Key(panel, method, m)])
                for method, m in zip((first, second), ms, strict=True)
            )
            yield panel, ms, one, two


def _matched(
    arrangement: Arrangement, metric: ReportedMetric, panel: Panel, first: Method, second: Method
) -> list[tuple[int | None, int | None]]:
    """The m of both to compare at."""
    pairs = [
        (a, b)
        for a in arrangement.ms(metric, panel, first)
        for b in arrangement.ms(metric, panel, second)
        if a == b or a is None or b is None
    ]
    return sorted(pairs, key=lambda pair: tuple(m or 0 for m in pair))


def _finite(by_seed: BySeed) -> BySeed:
    return {seed: value for seed, value in by_seed.items() if math.isfinite(value)}


def _order(arrangement: Arrangement, key: Key) -> tuple[int, int]:
    return arrangement.methods.index(key.method), key.m or 0


def _has_slope(pairs: Sequence[tuple[float, float]]) -> bool:
    return power_law(*zip(*pairs, strict=True)) is not None


def _without_size(arrangement: Arrangement, panel: Panel) -> str:
    several = {other.split for other in arrangement.panels if other.data == panel.data}
    return f"{panel.data}, {panel.split}" if len(several) > 1 else panel.data


def _places(points: Sequence[CurvePoint]) -> str:
    return _listed([_at(point.key.method, point.key.m) for point in points])


def _at(method: Method, m: int | None) -> str:
    return method.label + ("" if m is None else f" at m = {m:,}")


def _listed(names: Sequence[str], most: int = 3) -> str:
    more = len(names) - most
    return "; ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _range(values: Sequence[float], metric: ReportedMetric) -> str:
    return f"{min(values):,.0f} to {max(values):,.0f} {metric.shown_unit}"


def _seeds(seeds: Sequence[int]) -> str:
    many = len(seeds) > 1
    return f"seed{'s' if many else ''} {', '.join(map(str, seeds))} {'are' if many else 'is'}"
