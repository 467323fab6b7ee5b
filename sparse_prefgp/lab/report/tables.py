"""Tables of a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import permutations

from sparse_prefgp.lab.measures import HIGHER, LOWER, MEASURES, NEITHER, Measure
from sparse_prefgp.lab.report.results import NO_M, Frame, Results
from sparse_prefgp.lab.report.statistics import (
    LEVEL,
    Difference,
    best_of,
    differences,
    largest_common_m,
    points_of,
)
from sparse_prefgp.support.plain import Record
from sparse_prefgp.tell.tables import RAISED, Cell, Column, Row, Table, digits

MEANING = "Mean ± standard error over paired seeds"
BOLD = "bold: the best and what is within one paired standard error of it"
# Of the first table, next to method and m: of each line the first that a study has.
FIRST = (("nlp_nats",), ("accuracy",), ("evidence_gap", "log_evidence_per_duel"), ("fit_seconds",))
SECOND = ("brier", "calibration_error", "kl_from_exact", "log_evidence")
ALONE = "; *: over fewer seeds than the others"
ARROWS = {HIGHER: "\u00a0↑", LOWER: "\u00a0↓"}


def first_measures(measures: Sequence[Measure]) -> list[Measure]:
    """At most four that say the most: predictions, evidence, time."""
    names = [measure.name for measure in measures]
    known = [next((name for name in line if name in names), None) for line in FIRST]
    return [MEASURES[name] for name in known if name is not None] or list(measures[:4])


def summary_table(results: Results, measures: Sequence[Measure], *, more: bool = False) -> Table:
    """Some measures of every method, at the largest m that methods share.

    :param more: whether it follows another.
    """
    points = {measure: points_of(results, measure) for measure in measures}
    parts: dict[str, list[Record]] = {}
    for data in results.data:
        by_seed = {measure: results.by_seed(measure, data) for measure in measures}
        chosen: dict[str, int] = {}
        for measure in measures:
            chosen = {**largest_common_m(by_seed[measure]), **chosen}
        keys = [(method, chosen[method]) for method in results.methods if method in chosen]
        parts[data] = [{"method": method, "m": f"{m:,}" if m else "–"} for method, m in keys]
        rivals = [key for key in keys if not results.methods[key[0]].is_coin]
        for measure in measures:
            best = _best(by_seed[measure], rivals, measure)
            for row, key in zip(parts[data], keys, strict=True):
                row[measure.name] = _cell(points[measure], data, key, best)
    cells = [cell for rows in parts.values() for row in rows for cell in row.values()]
    alone = any(isinstance(cell, Cell) and cell.alone for cell in cells)
    columns = [Column("method", "method", left=True), Column("m", "m")]
    for measure, spare in zip(measures, (0, 3, 2, 1), strict=False):
        heading = f"{measure.short or measure.axis}{ARROWS.get(measure.better, '')}"
        columns.append(Column(measure.name, heading, spare=spare))
    short = {one.short.split(",")[0]: one.label for one in measures if one.short}
    words = "".join(f"; {word} is {label}" for word, label in short.items() if word != label)
    return Table(
        "summary_more" if more else "summary",
        f"{'More at' if more else 'At'} the largest m that all methods with inducing inputs have",
        columns,
        caption=f"{MEANING}; {BOLD}, a coin apart{words}{ALONE * alone}.",
        parts=list(parts.items()),
    )


def metric_table(results: Results, measure: Measure) -> Table:
    """A measure: rows are methods, columns m, parts the data; those without m come last."""
    points = points_of(results, measure)
    ms = sorted({m for *_, m in points.index}, key=lambda m: (m == NO_M, m))
    parts = []
    for data in results.data:
        by_seed = results.by_seed(measure, data)
        keys = [(method, m) for where, method, m in points.index if where == data]
        best = set()
        for m in set(ms) - {NO_M}:
            best |= _best(by_seed, [key for key in keys if key[1] == m], measure)
        rows = [
            {"method": method} | {str(m): _cell(points, data, (method, m), best) for m in ms}
            for method in dict.fromkeys(method for method, _ in keys)
        ]
        parts.append((data, sorted(rows, key=lambda row: (row["method"], NO_M) in keys)))
    columns = [Column("method", "method", left=True)]
    columns += [Column(str(m), f"m = {m:,}" if m else "no m") for m in ms]
    bold = "" if measure.better == NEITHER else f"; {BOLD} at that m"
    return Table(
        measure.name,
        measure.title,
        columns,
        caption=f"{MEANING}{measure.direction}{bold}{ALONE * bool(not points['paired'].all())}.",
        parts=parts,
    )


def difference_table(
    rows: Sequence[Difference], first: str, second: str, name: str = "comparison"
) -> Table:
    """A paired comparison of two methods, a part for each measure."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        lost = ", ".join(map(str, row.unmatched))
        cells = {
            "data": row.data + (f" (without partner: seeds {lost})" if lost else ""),
            "m": f"{row.m:,}" if row.m else "–",
            "difference": Cell(row.mean, row.error),
            "interval": _interval(row),
            "pairs": str(row.pairs),
            "won:lost": "–" if row.measure.better == NEITHER else f"{row.won}:{row.lost}",
        }
        parts.setdefault(f"{row.measure.axis}{row.measure.direction}", []).append(cells)
    names = ("data", "m", "difference", "interval", "pairs", "won:lost")
    return Table(
        name,
        f"{first} less {second}",
        [Column(name, name, left=name == "data") for name in names],
        caption="Mean difference ± standard error over the seeds that both have, with its "
        f"{100 * LEVEL:.0f} % t interval; wins and losses are of {first}. Splits drawn from the "
        "same duels overlap, which makes intervals somewhat too narrow.",
        parts=list(parts.items()),
    )


def at_largest_m(rows: Iterable[Difference]) -> list[Difference]:
    """Of the rows of `differences`, those of the largest m of each measure and data set."""
    return list({(row.measure, row.data): row for row in rows if row.pairs}.values())


def pairs_table(results: Results, measure: Measure) -> Table:
    """Every two methods by one measure, at the largest m they share: row less column."""
    known = set(results.figures.loc[measure.name].index.get_level_values("method"))
    methods = [method for method in results.methods if method in known]
    parts: dict[str, dict[str, Record]] = {data: {} for data in results.data}
    for first, second in permutations(methods, 2):
        for row in at_largest_m(differences(results, measure, first, second)):
            if row.data in parts:
                clear = min(row.interval, key=lambda end: measure.better * end)
                cells = parts[row.data].setdefault(first, {"": first, first: Cell()})
                cells[second] = Cell(row.mean, row.error, measure.better * clear > 0.0)
    columns = [Column(method, f"less {method}") for method in methods]
    return Table(
        "pairs",
        f"Every two methods: {measure.axis}",
        [Column("", "method", left=True), *columns],
        caption="Row less column at the largest m that both have, mean ± standard error of the "
        f"paired differences{measure.direction}; bold: the {100 * LEVEL:.0f} % t interval lies "
        "on the side of the row.",
        parts=[(data, list(rows.values())) for data, rows in parts.items()],
    )


def _best(
    by_seed: Frame, keys: Iterable[tuple[str, int]], measure: Measure
) -> set[tuple[str, int]]:
    return best_of(by_seed.loc[[key for key in keys if key in by_seed.index]], measure.better)


def _cell(points: Frame, data: str, key: tuple[str, int], best: set[tuple[str, int]]) -> Cell:
    if (data, *key) not in points.index:
        return Cell()
    point = points.loc[(data, *key)]
    alone = bool(point["seeds"]) and not point["paired"]
    return Cell(point["mean"], point["error"], key in best, alone)


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
