"""Tables of a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from sparse_prefgp.lab.layout import HIGHER, LOWER, NEITHER
from sparse_prefgp.lab.report.methods import Arrangement, Key, Method
from sparse_prefgp.lab.report.statistics import (
    LEVEL,
    CurvePoint,
    Difference,
    Exponent,
    at_largest_m,
    best_of,
    compare_methods,
    is_flat,
    largest_common_m,
    points_of,
)
from sparse_prefgp.lab.report.vocabulary import ReportedMetric
from sparse_prefgp.tell.tables import RAISED, Cell, Column, Table, digits

MEANING = "Mean ± standard error over paired seeds"
BOLD = "bold: the best and what is within one paired standard error of it"
Rows = Sequence[tuple[str, Sequence[Cell]]]


def named_table(
    name: str,
    title: str,
    caption: str,
    headings: Sequence[str],
    parts: Iterable[tuple[str, Rows]],
) -> Table:
    """A table of named rows, as a report has them.

    :param headings: the first is that of the names.
    :param parts: with their headings.
    """
    columns = [Column(str(i), heading, left=not i) for i, heading in enumerate(headings)]
    blocks = [
        (
            where,
            [
                {"0": label, **{str(i): cell for i, cell in enumerate(cells, 1)}}
                for label, cells in rows
            ],
        )
        for where, rows in parts
    ]
    return Table(name, title, columns, caption=caption, parts=blocks)


def metric_table(arrangement: Arrangement, metric: ReportedMetric) -> Table:
    """A metric: rows are methods, columns m, parts the data sets; those without m come last."""
    points = {point.key: point for point in points_of(arrangement, metric)}
    ms: list[int | None] = [*sorted({key.m for key in points if key.m is not None})]
    columns = ("method", *(f"m = {m:,}" for m in ms))
    if any(key.m is None for key in points):
        ms.append(None)
        columns = (*columns, "no m")
    blocks = []
    for panel in arrangement.panels:
        methods = list(dict.fromkeys(key.method for key in points if key.panel == panel))
        without = {method for method in methods if Key(panel, method, None) in points}
        best: set[Key] = set()
        for m in ms[: len(ms) - (None in ms)]:
            keys = {method: Key(panel, method, m) for method in methods}
            near = _best(arrangement, metric, keys)
            best |= {keys[method] for method in near}
        rows = []
        for method in sorted(methods, key=without.__contains__):
            keys_of_row = [Key(panel, method, m) for m in ms]
            cells = tuple(_cell(points.get(key), metric, key in best) for key in keys_of_row)
            rows.append((method.label, cells))
        blocks.append((panel.label, tuple(rows)))
    return named_table(
        metric.name,
        _sentence_case(metric.axis),
        f"{MEANING}{_direction(metric)}{_bold(metric)}{_legend(points.values())}.",
        columns,
        blocks,
    )


def summary_table(arrangement: Arrangement, metrics: Sequence[ReportedMetric]) -> Table:
    """Some metrics of every method, at the largest m that methods share."""
    points = {
        metric: {point.key: point for point in points_of(arrangement, metric)} for metric in metrics
    }
    blocks = []
    used: list[CurvePoint] = []
    for panel in arrangement.panels:
        chosen: dict[Method, int | None] = {}
        for metric in metrics:
            chosen = {**largest_common_m(arrangement, metric, panel), **chosen}
        keys = {method: Key(panel, method, m) for method, m in chosen.items()}
        rivals = {method: key for method, key in keys.items() if not method.is_coin}
        best = {metric: _best(arrangement, metric, rivals) for metric in metrics}
        rows = []
        for method in sorted(keys, key=arrangement.methods.index):
            m, found = chosen[method], [points[metric].get(keys[method]) for metric in metrics]
            used += [point for point in found if point is not None]
            cells = [
                _cell(point, metric, method in best[metric])
                for point, metric in zip(found, metrics, strict=True)
            ]
            rows.append((method.label, (Cell(text="–" if m is None else f"{m:,}"), *cells)))
        blocks.append((panel.label, tuple(rows)))
    return named_table(
        "summary",
        "At the largest m that all methods with inducing inputs have",
        f"{MEANING}; {BOLD}, a coin apart{_legend(used)}.",
        ("method", "m", *(f"{metric.axis}{_arrow(metric)}" for metric in metrics)),
        blocks,
    )


def difference_table(
    rows: Sequence[Difference], first: Method, second: Method, name: str = "comparison"
) -> Table:
    """A paired comparison of two methods, a part for each metric."""
    blocks = []
    for metric in dict.fromkeys(row.metric for row in rows):
        own = [
            (
                row.where,
                (
                    Cell(text=_ms(row.m)),
                    Cell(row.mean * metric.factor, row.error * metric.factor),
                    Cell(text=_interval(row, metric)),
                    Cell(text=f"{row.pairs}"),
                    Cell(text="–" if metric.direction == NEITHER else f"{row.wins}:{row.losses}"),
                    Cell(text=", ".join(map(str, row.unmatched)) or "none"),
                ),
            )
            for row in rows
            if row.metric == metric
        ]
        blocks.append((f"{metric.axis}{_direction(metric)}", tuple(own)))
    return named_table(
        name,
        f"{first.label} less {second.label}",
        "Mean difference ± standard error over the seeds that both have, with its "
        f"{100 * LEVEL:.0f} % t interval; wins and losses are of {first.label}. Splits drawn from "
        "the same duels overlap, which makes intervals somewhat too narrow.",
        ("data", "m", "difference", "interval", "pairs", "won:lost", "seeds without partner"),
        blocks,
    )


def pairs_table(arrangement: Arrangement, metric: ReportedMetric) -> Table:
    """Every two methods by one metric, at the largest m they share: row less column."""
    methods = [method for method in arrangement.methods if arrangement.has(metric, method)]
    blocks: dict[str, list[tuple[str, Sequence[Cell]]]] = {}
    for first in methods:
        found = [
            {row.where: row for row in at_largest_m(_compared(arrangement, metric, first, second))}
            for second in methods
        ]
        for panel in arrangement.panels:
            rows = [of_second.get(panel.label) for of_second in found]
            if any(rows):
                cells = tuple(Cell() if row is None else _difference_cell(row) for row in rows)
                blocks.setdefault(panel.label, []).append((first.label, cells))
    return named_table(
        "pairs",
        f"Every two methods: {metric.axis}",
        f"Row less column at the largest m that both have, mean ± standard error of the paired "
        f"differences{_direction(metric)}; bold: the {100 * LEVEL:.0f} % t interval lies on the "
        "side of the row.",
        ("method", *(f"less {method.label}" for method in methods)),
        blocks.items(),
    )


def exponent_table(exponents: Sequence[Exponent]) -> Table:
    """Fitted exponents of cost."""
    blocks = []
    for metric in dict.fromkeys(exponent.metric for exponent in exponents):
        rows = [
            (
                exponent.method.label,
                (
                    Cell(text=exponent.where),
                    Cell(text=exponent.variable),
                    Cell(text="–" if exponent.m is None else f"m = {exponent.m:,}"),
                    Cell(exponent.slope, exponent.error),
                    Cell(text=f"{exponent.low:,.0f} to {exponent.high:,.0f}"),
                    Cell(text=f"{exponent.points}"),
                ),
            )
            for exponent in exponents
            if exponent.metric == metric
        ]
        blocks.append((metric.axis, tuple(rows)))
    return named_table(
        "exponents",
        "Fitted exponents of cost",
        "Slopes of least squares on log-log axes ± standard error. Where a fixed cost weighs, the "
        "exponent is below that of large sizes.",
        ("method", "data", "in", "at", "exponent", "range", "points"),
        blocks,
    )


def _best(
    arrangement: Arrangement, metric: ReportedMetric, keys: Mapping[Method, Key]
) -> frozenset[Method]:
    """What is in bold; nothing where no value tells anything of its method."""
    cells = arrangement.cells.get(metric.name, {})
    values = {method: cells[key] for method, key in keys.items() if key in cells}
    known = [
        v * metric.factor
        for by_seed in values.values()
        for v in by_seed.values()
        if math.isfinite(v)
    ]
    return frozenset() if is_flat(metric, known) else best_of(values, metric.direction)


def _cell(point: CurvePoint | None, metric: ReportedMetric, best: bool) -> Cell:
    if point is None:
        return Cell()
    mean, error = point.mean * metric.factor, point.error * metric.factor
    return Cell(mean, error, best, bool(point.seeds) and not point.paired)


def _compared(
    arrangement: Arrangement, metric: ReportedMetric, first: Method, second: Method
) -> list[Difference]:
    return [] if first == second else compare_methods(arrangement, metric, first, second)


def _difference_cell(row: Difference) -> Cell:
    factor = row.metric.factor
    return Cell(row.mean * factor, row.error * factor, _is_clear(row))


def _is_clear(row: Difference) -> bool:
    """Whether the whole interval is on the side of the first."""
    low, high = row.interval
    return (row.metric.direction == HIGHER and low > 0.0) or (
        row.metric.direction == LOWER and high < 0.0
    )


def _interval(row: Difference, metric: ReportedMetric) -> str:
    """To as many digits as the difference itself."""
    low, high = (value * metric.factor for value in row.interval)
    if not math.isfinite(low):
        return "–"
    mean, _, exponent = digits(row.mean * metric.factor, row.error * metric.factor)
    decimals = len(mean.partition(".")[2])
    low_text, high_text = (
        f"{value / 10.0 ** (exponent or 0):z.{decimals}f}".replace("-", "−")
        for value in (low, high)
    )
    if exponent is None:
        return f"{low_text} to {high_text}"
    return f"({low_text} to {high_text}) × 10{str(exponent).translate(RAISED)}"


def _ms(ms: tuple[int | None, int | None]) -> str:
    known = sorted({m for m in ms if m is not None})
    return f"{known[0]:,}" if known else "–"


def _direction(metric: ReportedMetric) -> str:
    return "" if metric.direction == NEITHER else f"; {metric.direction} is better"


def _bold(metric: ReportedMetric) -> str:
    return "" if metric.direction == NEITHER else f"; {BOLD} at that m"


def _arrow(metric: ReportedMetric) -> str:
    return {HIGHER: "\u00a0↑", LOWER: "\u00a0↓"}.get(metric.direction, "")


def _legend(points: Iterable[CurvePoint]) -> str:
    alone = any(point.seeds and not point.paired for point in points)
    return "; *: over fewer seeds than the others" if alone else ""


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]
