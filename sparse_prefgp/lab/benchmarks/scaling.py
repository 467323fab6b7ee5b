"""Time and memory against duels, items, inducing inputs and parts, with fitted exponents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparse_prefgp.lab.benchmarks.point import BenchmarkPoint
from sparse_prefgp.lab.benchmarks.report import BenchmarkTable, Line, LogAxes, Report
from sparse_prefgp.lab.report.statistics import power_law

# Below so many duels what is the same for all sizes hides how time grows.
_FITTED_FROM = 10_000
_DUELS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


@dataclass(frozen=True)
class Series:
    """Points along one axis, "t", "n", "m" or "parts"; what stays the same is in the name."""

    name: str
    axis: str
    points: tuple[BenchmarkPoint, ...]


def run(*, quick: bool = False, budget: float | None = None) -> Report:
    """Duels from 1,000 to 1,000,000 between shared and distinct items, and the other axes."""
    del budget  # nothing here is stopped by time
    return measure(_quick() if quick else _full())


def _full() -> list[Series]:
    shared = tuple(BenchmarkPoint(t, max(t // 20, 600), 128) for t in _DUELS)
    distinct = tuple(BenchmarkPoint(t, 2 * t, 128) for t in _DUELS)
    items = tuple(BenchmarkPoint(100_000, n, 128) for n in (1_000, 3_000, 10_000, 30_000, 100_000))
    inducing = tuple(BenchmarkPoint(100_000, 5_000, m) for m in (32, 64, 128, 256, 512))
    parts = tuple(BenchmarkPoint(100_000, 5_000, 128, parts=p) for p in (1, 2, 4, 8))
    return [
        Series("t, shared items (n = t / 20), m = 128", "t", shared),
        Series("t, distinct items (n = 2 t), m = 128", "t", distinct),
        Series("n, t = 100,000, m = 128", "n", items),
        Series("m, t = 100,000, n = 5,000", "m", inducing),
        Series("P, t = 100,000, n = 5,000, m = 128", "parts", parts),
    ]


def _quick() -> list[Series]:
    return [
        Series("t, m = 8", "t", (BenchmarkPoint(500, 100, 8), BenchmarkPoint(1_000, 200, 8))),
        Series("P, t = 500, m = 8", "parts", (BenchmarkPoint(500, 100, 8, parts=2),)),
    ]


def exponent(x: list[float], y: list[float]) -> tuple[float, float] | None:
    """Slope on log-log axes by least squares, and its standard error; None of fewer than three."""
    found = power_law(x, y)
    return None if found is None else found[:2]


def measure(series: list[Series]) -> Report:
    """Each point in a process of its own."""
    tables: list[BenchmarkTable] = []
    panels: list[LogAxes] = []
    figures: list[dict[str, Any]] = []
    for each in series:
        found = [point.run() for point in each.points]
        fitted = _fitted(each.axis, found)
        figures.append({"name": each.name, "axis": each.axis, "points": found, **fitted})
        tables.append(_table(each, found, fitted))
    for key, label in _SHOWN.items():
        scale = 2.0**-30 if key == "memory_bytes" else 1.0
        for axis in dict.fromkeys(each.axis for each in series):
            own = [f for f in figures if f["axis"] == axis and _known(f["points"], key)]
            panels.append(
                LogAxes(
                    x_label=_LABELS[axis],
                    y_label=label,
                    lines=tuple(_line(f, axis, key, scale) for f in own),
                )
            )
    return Report("scaling", tuple(tables), {"series": figures}, panels=tuple(panels))


_SHOWN = {
    "seconds": "from cold sites to 1e-4, s",
    "gradient_seconds": "evidence and gradient, s",
    "memory_bytes": "memory of inference, GiB",
}
_LABELS = {"t": "duels", "n": "items", "m": "inducing inputs", "parts": "parts"}


def _line(figure: dict[str, Any], axis: str, key: str, scale: float) -> Line:
    own = _known(figure["points"], key)
    return Line(
        figure["name"],
        tuple(float(p[axis]) for p in own),
        tuple(scale * max(p[key], 1e-6) for p in own),
    )


def _known(found: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """The points that have this figure."""
    return [p for p in found if p[key] is not None]


def _fitted(axis: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    own = [p for p in found if axis != "t" or p["t"] >= _FITTED_FROM]

    def slope(key: str) -> tuple[float, float] | None:
        points = _known(own, key)
        return exponent([float(p[axis]) for p in points], [max(p[key], 1e-9) for p in points])

    return {f"{name}_exponent": slope(key) for name, key in _EXPONENTS.items()}


_EXPONENTS = {
    "seconds": "seconds",
    "sweep": "sweep_seconds",
    "gradient": "gradient_seconds",
    "memory": "memory_bytes",
    "gradient_memory": "gradient_memory_bytes",
}


def _table(series: Series, found: list[dict[str, Any]], fitted: dict[str, Any]) -> BenchmarkTable:
    rows = tuple(
        (
            f"{p[series.axis]:,}",
            f"{p['seconds']:.2f} s",
            str(p["sweeps"]),
            f"{1e3 * p['sweep_seconds']:.0f} ms",
            "" if p["gradient_seconds"] is None else f"{p['gradient_seconds']:.2f} s",
            _gib(p["memory_bytes"]),
            _gib(p["gradient_memory_bytes"]),
            "yes" if p["converged"] else "no",
        )
        for p in found
    )
    notes = [
        f"{what} grows as {_LABELS[series.axis]}^({slope[0]:.2f} ± {slope[1]:.2f})"
        for what, slope in (
            ("time", fitted["seconds_exponent"]),
            ("a sweep", fitted["sweep_exponent"]),
            ("evidence with gradient", fitted["gradient_exponent"]),
            ("memory", fitted["memory_exponent"]),
            ("memory with gradient", fitted["gradient_memory_exponent"]),
        )
        if slope is not None
    ]
    return BenchmarkTable(
        title=f"Against {series.name}",
        columns=(
            _LABELS[series.axis],
            "to 1e-4",
            "sweeps",
            "a sweep",
            "gradient",
            "memory",
            "with gradient",
            "converged",
        ),
        rows=rows,
        notes=(
            *notes,
            "from cold sites with kernel matrices, compilation apart; memory is the peak above "
            "that after imports, each point in a process of its own; a gradient is left out in "
            "parts and where it would take more than half of the free memory",
        ),
    )


def _gib(count: int | None) -> str:
    return "" if count is None else f"{count / 2**30:.2f} GiB"
