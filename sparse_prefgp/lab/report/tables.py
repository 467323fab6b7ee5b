"""Tables of a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sparse_prefgp.lab.measures import HIGHER, LOWER, MEASURES, NEITHER, Measure
from sparse_prefgp.lab.report.results import NO_M, Frame, Results
from sparse_prefgp.lab.report.statistics import (
    LEVEL,
    Difference,
    Exponent,
    best_of,
    differences,
    largest_common_m,
    points_of,
)
from sparse_prefgp.tell.tables import RAISED, Cell, Column, Row, Table, digits

MEANING = "Mean ± standard error over paired seeds"
BOLD = "bold: the best and what is within one paired standard error of it"
# Of the first table, next to method and m: of each line the first that a study has.
FIRST = (("nlp_nats",), ("accuracy",), ("evidence_gap", "log_evidence_per_duel"), ("fit_seconds",))
SECOND = ("brier", "calibration_error", "kl_from_exact", "log_evidence")
ARROWS = {HIGHER: "\u00a0↑", LOWER: "\u00a0↓"}


def first_measures(measures: Sequence[Measure]) -> list[Measure]:
    """At most four that say the most: predictions, evidence, time."""
    names = [measure.name for measure in measures]
    known = [next((name for name in line if name in names), None) for line in FIRST]
    return [MEASURES[name] for name in known if name is not None] or list(measures[:4])


def summary_table(results: Results, measures: Sequence[Measure], name: str = "summary") -> Table:
    """Some measures of every method, at the largest m that methods share."""
    points = {measure: points_of(results, measure) for measure in measures}
    alone = False
    parts = []
    for data in results.data:
        by_seed = {measure: results.by_seed(measure, data) for measure in measures}
        chosen: dict[str, int] = {}
        for measure in measures:
            chosen = {**largest_common_m(by_seed[measure]), **chosen}
        keys = [(method, chosen[method]) for method in results.methods if method in chosen]
        rivals = [key for key in keys if not results.methods[key[0]].is_coin]
        rows = []
        best = {
            measure: best_of(_rows(by_seed[measure], rivals), measure.better)
            for measure in measures
        }
        for method, m in keys:
            cells = {
                measure.name: _cell(
                    points[measure], (data, method, m), (method, m) in best[measure]
                )
                for measure in measures
            }
            alone = alone or any(cell.alone for cell in cells.values())
            rows.append({"method": method, "m": f"{m:,}" if m else "–", **cells})
        parts.append((data, rows))
    columns = [Column("method", "method", left=True), Column("m", "m")]
    columns += [
        Column(
            measure.name,
            f"{measure.short or measure.axis}{ARROWS.get(measure.better, '')}",
            spare=number,
        )
        for measure, number in zip(measures, (0, 1, 1, 2), strict=False)
    ]
    shown = "".join(
        f"; {one.short.split(',')[0]} is {one.label}"
        for one in measures
        if one.short and one.short.split(",")[0] != one.label
    )
    return Table(
        name,
        "At the largest m that all methods with inducing inputs have",
        columns,
        caption=f"{MEANING}; {BOLD}, a coin apart{shown}{_star(alone)}.",
        parts=_headed(parts),
    )


def metric_table(results: Results, measure: Measure) -> Table:
    """A measure: rows are methods, columns m, parts the data; those without m come last."""
    points = points_of(results, measure)
    ms = sorted({m for _, _, m in points.index}, key=lambda m: (m == NO_M, m))
    parts = []
    for data in results.data:
        by_seed = results.by_seed(measure, data)
        keys = [(method, m) for where, method, m in points.index if where == data]
        best = {
            key
            for m in ms
            if m != NO_M
            for key in best_of(_rows(by_seed, [key for key in keys if key[1] == m]), measure.better)
        }
        methods = dict.fromkeys(method for method, _ in keys)
        rows = [
            {
                "method": method,
                **{
                    str(m): _cell(points, (data, method, m), (method, m) in best)
                    if (method, m) in keys
                    else Cell()
                    for m in ms
                },
            }
            for method in sorted(methods, key=lambda name: (name, NO_M) in keys)
        ]
        parts.append((data, rows))
    columns = [Column("method", "method", left=True)]
    columns += [Column(str(m), f"m = {m:,}" if m else "no m") for m in ms]
    bold = "" if measure.better == NEITHER else f"; {BOLD} at that m"
    return Table(
        measure.name,
        _sentence_case(measure.axis),
        columns,
        caption=f"{MEANING}{measure.direction}{bold}{_star(not points['paired'].all())}.",
        parts=_headed(parts),
    )


def difference_table(
    rows: Sequence[Difference], first: str, second: str, name: str = "comparison"
) -> Table:
    """A paired comparison of two methods, a part for each measure."""
    parts = [
        (
            f"{measure.axis}{measure.direction}",
            [_difference_row(row) for row in rows if row.measure == measure],
        )
        for measure in dict.fromkeys(row.measure for row in rows)
    ]
    columns = [
        Column("data", "data", left=True),
        Column("m", "m"),
        Column("difference", "difference"),
        Column("interval", "interval"),
        Column("pairs", "pairs"),
        Column("score", "won:lost"),
    ]
    return Table(
        name,
        f"{first} less {second}",
        columns,
        caption="Mean difference ± standard error over the seeds that both have, with its "
        f"{100 * LEVEL:.0f} % t interval; wins and losses are of {first}. Splits drawn from the "
        "same duels overlap, which makes intervals somewhat too narrow.",
        parts=parts,
    )


def _difference_row(row: Difference) -> Row:
    lost = ", ".join(map(str, row.unmatched))
    return {
        "data": row.data + (f" (without partner: seeds {lost})" if lost else ""),
        "m": f"{row.m:,}" if row.m else "–",
        "difference": Cell(row.mean, row.error),
        "interval": _interval(row),
        "pairs": str(row.pairs),
        "score": "–" if row.measure.better == NEITHER else f"{row.won}:{row.lost}",
    }


def at_largest_m(rows: Iterable[Difference]) -> list[Difference]:
    """Of the rows of `differences`, those of the largest m of each measure and data set."""
    return list({(row.measure, row.data): row for row in rows if row.pairs}.values())


def pairs_table(results: Results, measure: Measure) -> Table:
    """Every two methods by one measure, at the largest m they share: row less column."""
    known = results.figures.loc[measure.name].index.get_level_values("method")
    methods = [method for method in results.methods if method in set(known)]
    parts: dict[str, list[dict[str, object]]] = {}
    for first in methods:
        by_data: dict[str, dict[str, Cell]] = {}
        for second in methods:
            rows = differences(results, measure, first, second) if first != second else []
            for row in at_largest_m(rows):
                clear = min(row.interval, key=lambda end: measure.better * end)
                cell = Cell(row.mean, row.error, measure.better * clear > 0.0)
                by_data.setdefault(row.data, {})[second] = cell
        for data in results.data:
            if data in by_data:
                cells = {second: by_data[data].get(second, Cell()) for second in methods}
                parts.setdefault(data, []).append({"": first, **cells})
    columns = [Column("", "method", left=True)]
    columns += [Column(method, f"less {method}") for method in methods]
    return Table(
        "pairs",
        f"Every two methods: {measure.axis}",
        columns,
        caption="Row less column at the largest m that both have, mean ± standard error of the "
        f"paired differences{measure.direction}; bold: the {100 * LEVEL:.0f} % t interval lies "
        "on the side of the row.",
        parts=_headed(list(parts.items())),
    )


def exponent_table(exponents: Sequence[Exponent]) -> Table:
    """Fitted exponents of cost."""
    names = ("method", "data", "in", "at", "exponent", "range", "points")
    parts = [
        (
            measure.axis,
            [
                {
                    "method": one.method,
                    "data": one.data,
                    "in": one.variable,
                    "at": f"m = {one.m:,}" if one.m else "–",
                    "exponent": Cell(one.slope, one.error),
                    "range": f"{one.low:,.0f} to {one.high:,.0f}",
                    "points": str(one.points),
                }
                for one in exponents
                if one.measure == measure
            ],
        )
        for measure in dict.fromkeys(one.measure for one in exponents)
    ]
    return Table(
        "exponents",
        "Fitted exponents of cost",
        [Column(name, name, left=name == "method") for name in names],
        caption="Slopes of least squares on log-log axes ± standard error. Where a fixed cost "
        "weighs, such as that of compiling, the exponent is below that of large sizes.",
        parts=parts,
    )


def _headed(parts: Sequence[tuple[str, Sequence[Row]]]) -> Sequence[tuple[str, Sequence[Row]]]:
    """Without parts that have no rows."""
    return [(heading, rows) for heading, rows in parts if rows]


def _rows(by_seed: Frame, keys: Iterable[tuple[str, int]]) -> Frame:
    return by_seed.loc[[key for key in keys if key in by_seed.index]]


def _cell(points: Frame, key: tuple[str, str, int], best: bool) -> Cell:
    if key not in points.index:
        return Cell()
    point = points.loc[key]
    return Cell(point["mean"], point["error"], best, bool(point["seeds"]) and not point["paired"])


def _interval(row: Difference) -> str:
    """To as many digits as the difference itself."""
    if not math.isfinite(row.interval[0]):
        return "–"
    mean, _, exponent = digits(row.mean, row.error)
    decimals = len(mean.partition(".")[2])
    low, high = (
        f"{value / 10.0 ** (exponent or 0):z.{decimals}f}".replace("-", "−")
        for value in row.interval
    )
    if exponent is None:
        return f"{low} to {high}"
    return f"({low} to {high}) × 10{str(exponent).translate(RAISED)}"


def _star(alone: bool) -> str:
    return "; *: over fewer seeds than the others" if alone else ""


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]
