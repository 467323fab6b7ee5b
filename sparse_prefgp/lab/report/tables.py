"""Tables of a report, each in LaTeX (booktabs) and in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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

LARGE, SMALL = 1e6, 1e-3  # outside, numbers are written with a power of ten
MOST_DECIMALS = 5
ROUNDED = 1e-12  # an error that is smaller by so much is none
MEANING = "Mean ± standard error over paired seeds"
BOLD = "bold: the best and what is within one paired standard error of it"
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "–": "--",
    "×": r"$\times$",
    "\u00a0": "~",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
}
_LATEX |= {
    raised: f"$^{{{plain}}}$" for raised, plain in zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True)
}
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Cell:
    """A number with its error, or a text."""

    mean: float = math.nan
    error: float = math.nan
    best: bool = False
    """In bold."""
    alone: bool = False
    """A mean over fewer seeds."""
    text: str = ""

    @property
    def plain(self) -> str:
        """As it is read on a screen; a dash where there is no number."""
        return self.text or self._written(" ± ", "−", "{} × 10{}") + ("*" if self.alone else "")

    @property
    def markdown(self) -> str:
        text = self.plain.replace("|", "\\|").replace("*", "\\*")
        return f"**{text}**" if self.best else text

    @property
    def latex(self) -> str:
        if self.text:
            return latex_text(self.text)
        if not math.isfinite(self.mean):
            return "--"
        body = self._written(r" \pm ", "-", r"{} \times 10^{{{}}}")
        mark = r"^{*}" if self.alone else ""
        return f"$\\mathbf{{{body}}}{mark}$" if self.best else f"${body}{mark}$"

    def _written(self, plus_minus: str, minus: str, power: str) -> str:
        if not math.isfinite(self.mean):
            return "–"
        mean, error, exponent = digits(self.mean, self.error)
        body = mean.replace("-", minus) + (f"{plus_minus}{error}" if error else "")
        if exponent is None:
            return body
        raised = str(exponent) if "^" in power else str(exponent).translate(_RAISED)
        return power.format(f"({body})" if error else body, raised)


@dataclass(frozen=True)
class ReportTable:
    """A table for people."""

    name: str
    """Of its files."""
    title: str
    caption: str
    columns: tuple[str, ...]
    """Headings, the first of the names."""
    blocks: tuple[tuple[str, tuple[tuple[str, tuple[Cell, ...]], ...]], ...]
    """Heading of a part of the table, empty for none, and its rows of a name and cells."""

    @property
    def is_empty(self) -> bool:
        return not any(rows for _, rows in self.blocks)


def digits(mean: float, error: float) -> tuple[str, str, int | None]:
    """A mean and its error, two digits of the error; "" without one; a power of ten or None."""
    exponent = None
    if error < ROUNDED * abs(mean):
        error = 0.0
    size = max(abs(mean), error if error > 0.0 else 0.0)
    if size and not SMALL <= size < LARGE:
        exponent = math.floor(math.log10(size))
        mean, error = mean / 10.0**exponent, error / 10.0**exponent
    known = math.isfinite(error)
    if known and error > 0.0:
        decimals = 1 - math.floor(math.log10(error))
    elif mean:
        decimals = 3 - math.floor(math.log10(abs(mean)))
    else:
        decimals = 0
    decimals = min(max(decimals, 0), MOST_DECIMALS)
    shown = (f"{error:.{decimals}f}" if error > 0.0 else "0") if known else ""
    return f"{mean:z.{decimals}f}", shown, exponent


def metric_table(arrangement: Arrangement, metric: ReportedMetric) -> ReportTable:
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
    return ReportTable(
        metric.name,
        _sentence_case(metric.axis),
        f"{MEANING}{_direction(metric)}{_bold(metric)}{_legend(points.values())}.",
        columns,
        _named_blocks(blocks),
    )


def summary_table(arrangement: Arrangement, metrics: Sequence[ReportedMetric]) -> ReportTable:
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
    return ReportTable(
        "summary",
        "At the largest m that all methods with inducing inputs have",
        f"{MEANING}; {BOLD}, a coin apart{_legend(used)}.",
        ("method", "m", *(f"{metric.axis}{_arrow(metric)}" for metric in metrics)),
        _named_blocks(blocks),
    )


def difference_table(
    rows: Sequence[Difference], first: Method, second: Method, name: str = "comparison"
) -> ReportTable:
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
    return ReportTable(
        name,
        f"{first.label} less {second.label}",
        "Mean difference ± standard error over the seeds that both have, with its "
        f"{100 * LEVEL:.0f} % t interval; wins and losses are of {first.label}. Splits drawn from "
        "the same duels overlap, which makes intervals somewhat too narrow.",
        ("data", "m", "difference", "interval", "pairs", "won:lost", "seeds without partner"),
        tuple(blocks),
    )


def pairs_table(arrangement: Arrangement, metric: ReportedMetric) -> ReportTable:
    """Every two methods by one metric, at the largest m they share: row less column."""
    methods = [method for method in arrangement.methods if arrangement.has(metric, method)]
    blocks: dict[str, list[tuple[str, tuple[Cell, ...]]]] = {}
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
    return ReportTable(
        "pairs",
        f"Every two methods: {metric.axis}",
        f"Row less column at the largest m that both have, mean ± standard error of the paired "
        f"differences{_direction(metric)}; bold: the {100 * LEVEL:.0f} % t interval lies on the "
        "side of the row.",
        ("method", *(f"less {method.label}" for method in methods)),
        _named_blocks([(where, tuple(own)) for where, own in blocks.items()]),
    )


def exponent_table(exponents: Sequence[Exponent]) -> ReportTable:
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
    return ReportTable(
        "exponents",
        "Fitted exponents of cost",
        "Slopes of least squares on log-log axes ± standard error. Where a fixed cost weighs, the "
        "exponent is below that of large sizes.",
        ("method", "data", "in", "at", "exponent", "range", "points"),
        tuple(blocks),
    )


def to_markdown(table: ReportTable) -> str:
    """Title, caption and table; parts have a row of their own."""
    heads = [heading.replace("|", "\\|") for heading in table.columns]
    lines = [
        f"**{table.title}.** {table.caption}",
        "",
        f"| {' | '.join(heads)} |",
        f"|---|{'---:|' * (len(heads) - 1)}",
    ]
    for heading, rows in table.blocks:
        if heading:
            lines.append(f"| *{_markdown_text(heading)}* |{' |' * (len(heads) - 1)}")
        for name, cells in rows:
            lines.append(f"| {_markdown_text(name)} | {' | '.join(c.markdown for c in cells)} |")
    return "\n".join(lines) + "\n"


def to_latex(table: ReportTable, comment: str = "") -> str:
    """A `table` environment to \\input; it needs the package booktabs."""
    width = len(table.columns)
    lines = [f"% {line}" for line in comment.splitlines()]
    lines += [
        r"\begin{table}",
        r"\centering",
        f"\\caption{{{latex_text(table.title)}. {latex_text(table.caption)}}}",
        f"\\label{{tab:{table.name.replace('_', '-')}}}",
        f"\\begin{{tabular}}{{l{'r' * (width - 1)}}}",
        r"\toprule",
        " & ".join(map(latex_text, table.columns)) + r" \\",
    ]
    for heading, rows in table.blocks:
        lines.append(r"\midrule")
        if heading:
            lines.append(f"\\multicolumn{{{width}}}{{l}}{{\\emph{{{latex_text(heading)}}}}} \\\\")
        for name, cells in rows:
            lines.append(" & ".join([latex_text(name), *(c.latex for c in cells)]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    """Text in which no character has a meaning of LaTeX's own."""
    return "".join(_LATEX.get(character, character) for character in text)


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
    return f"({low_text} to {high_text}) × 10{str(exponent).translate(_RAISED)}"


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


def _named_blocks(
    blocks: Sequence[tuple[str, tuple[tuple[str, tuple[Cell, ...]], ...]]],
) -> tuple[tuple[str, tuple[tuple[str, tuple[Cell, ...]], ...]], ...]:
    return tuple((heading, rows) for heading, rows in blocks if rows)


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


def _markdown_text(text: str) -> str:
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return text
