"""The figure of a benchmark: lines on log-log axes, or bars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparse_prefgp.lab.benchmarks.report import Bars, LogAxes, Report
from sparse_prefgp.plotting.canvas import SMALL, axes_or_new, new_figure, save, set_rows

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9")
_MARKERS = "osd^v"
_COLUMNS = 4


def draw(report: Report, path: Path) -> None:
    """Write the panels of a report as one PNG."""
    columns = min(len(report.panels), _COLUMNS)
    rows = -(-len(report.panels) // columns)
    figure = new_figure((max(3.6 * columns, 6.0), 3.3 * rows))
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax, panel in zip(axes.flat, report.panels, strict=False):
        axes_or_new(ax)
        if isinstance(panel, Bars):
            _bars(ax, panel)
        elif panel.lines:
            _lines(ax, panel)
        else:
            ax.set_axis_off()
    for ax in axes.flat[len(report.panels) :]:
        ax.set_axis_off()
    save(figure, path)


def _lines(ax: Any, panel: LogAxes) -> None:
    for line, colour, marker in zip(panel.lines, _COLOURS, _MARKERS, strict=False):
        ax.loglog(line.x, line.y, marker + "-", color=colour, label=line.name, markersize=4)
    ticks = sorted({x for line in panel.lines for x in line.x})
    if len(ticks) <= 1 or ticks[-1] < 1000:  # few values that no power of ten is among
        ax.set_xticks(ticks, [f"{x:g}" for x in ticks])
        ax.xaxis.minorticks_off()
    heights = [y for line in panel.lines for y in line.y]
    if max(heights) < 12.0 * min(heights):  # logarithms would leave an axis without numbers
        ax.set_yscale("linear")
        ax.set_ylim(0.0, 1.3 * max(heights))
    ax.set_xlabel(panel.x_label, fontsize=SMALL)
    ax.set_ylabel(panel.y_label, fontsize=SMALL)
    ax.margins(y=0.2)
    ax.legend(fontsize=SMALL - 1.5, frameon=False)


def _bars(ax: Any, panel: Bars) -> None:
    names, values = list(panel.values), list(panel.values.values())
    ax.barh(range(len(names)), values, height=0.6, color=_COLOURS[0])
    for row, value in enumerate(values):
        ax.text(value, row, f" {value:.3f}", va="center", fontsize=SMALL)
    set_rows(ax, names)
    ax.margins(x=0.15)
    ax.set_xlabel(panel.label, fontsize=SMALL)
