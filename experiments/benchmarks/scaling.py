"""Time and memory against duels, items, inducing inputs and parts, with fitted exponents.

python -m experiments.benchmarks.scaling
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure
from scipy.stats import linregress

import sparse_prefgp as spg
from experiments.benchmarks.shared import (
    NOISE_VARIANCE,
    Measured,
    gibibytes,
    in_own_process,
    main,
    make_problem,
    memory,
    seconds,
    some_items,
    true_kernel,
)
from sparse_prefgp.support.machine import free_memory
from sparse_prefgp.tell.tables import Column, Table

TOLERANCE = 1e-4
# Below so many duels what is the same for all sizes hides how time grows.
_FITTED_FROM = 10_000
# A gradient keeps some fourteen (n, m) arrays of the kernel between the items and inducing inputs.
_ARRAYS_OF_A_GRADIENT = 14
# Duels of a stream up to which it is inferred twice.
_COMPILED_BEFORE = 1_000_000
_DUELS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


@dataclass(frozen=True)
class Point:
    """t duels between n items (2 t: all distinct) with m inducing inputs, VFE."""

    t: int
    n: int
    m: int
    parts: int = 0
    """0 for `PreferenceGP`, else P of `PartitionedEP`."""
    folder: str = ""
    """Where the files of a stream are; empty for duels in memory, of which parts are made too."""
    scheduler: str | None = None
    """"local" for parts on Dask workers of this machine; None for one after the other here."""


SERIES = {
    ("t, shared items (n = t / 20), m = 128", "t"): [
        Point(t, max(t // 20, 600), 128) for t in _DUELS
    ],
    ("t, distinct items (n = 2 t), m = 128", "t"): [Point(t, 2 * t, 128) for t in _DUELS],
    ("n, t = 100,000, m = 128", "n"): [
        Point(100_000, n, 128) for n in (1_000, 3_000, 10_000, 30_000, 100_000)
    ],
    ("m, t = 100,000, n = 5,000", "m"): [Point(100_000, 5_000, m) for m in (32, 64, 128, 256, 512)],
    ("P, t = 100,000, n = 5,000, m = 128", "parts"): [
        Point(100_000, 5_000, 128, parts) for parts in (1, 2, 4, 8)
    ],
}
QUICK = {
    ("t, m = 8", "t"): [Point(500, 100, 8), Point(1_000, 200, 8)],
    ("P, t = 500, m = 8", "parts"): [Point(500, 100, 8, parts=2)],
}
COLUMNS = (
    Column("size", "size", ",d"),
    Column("seconds", "to 1e-4, s", ".2f"),
    Column("sweeps", "sweeps"),
    Column("sweep_seconds", "a sweep, s", ".3f"),
    Column("gradient_seconds", "gradient, s", ".2f"),
    Column("memory_bytes", "memory", gibibytes),
)
EXPONENTS = ("seconds", "sweep_seconds", "gradient_seconds", "memory_bytes")


def measure(series: dict[tuple[str, str], list[Point]]) -> Measured:
    """Each point in a process of its own."""
    parts, figures = [], []
    for (name, axis), points in series.items():
        rows = [
            {**in_own_process(inference, point), "size": getattr(point, axis)} for point in points
        ]
        slopes = {key: exponent(axis, rows, key) for key in EXPONENTS}
        fitted = "; ".join(
            f"{key} grow as {axis}^({slope[0]:.2f} ± {slope[1]:.2f})"
            for key, slope in slopes.items()
            if slope is not None
        )
        parts.append((f"against {name}{'; ' * bool(fitted)}{fitted}", rows))
        figures.append({"name": name, "axis": axis, "points": rows, "exponents": slopes})
    table = Table(
        "scaling",
        "Time and memory",
        COLUMNS,
        parts=parts,
        caption="From cold sites with kernel matrices, compilation apart; memory is the peak above "
        "that after imports. A gradient is left out in parts and where it would take more than "
        "half of the free memory.",
    )
    return table, {"series": figures}


def exponent(axis: str, rows: list[dict[str, Any]], key: str) -> tuple[float, float] | None:
    """Slope on log-log axes by least squares, and its standard error; None of fewer than three."""
    known = [
        (row["size"], row[key])
        for row in rows
        if row.get(key) and (axis != "t" or row["t"] >= _FITTED_FROM)
    ]
    if len(known) < 3:
        return None
    line = linregress(*np.log(known).T)
    return float(line.slope), float(line.stderr)


def inference(point: Point) -> dict[str, Any]:
    """From cold sites to 1e-4, kernel matrices included; memory above imports, without workers.

    Of a stream of many duels the first inference is taken, compilation included.
    """
    imported = memory("VmRSS")
    duels: Any
    if point.folder:
        items = np.load(Path(point.folder) / "items.npy")
        duels = spg.stream_duels(Path(point.folder) / "duels", items)
    else:
        duels = make_problem(point.t, point.n).duels
        items = duels.items
    prior = {"inducing_variable": some_items(items, point.m), "noise_variance": NOISE_VARIANCE}
    model: Any
    if point.parts:
        model = spg.StreamedGP(
            duels if point.folder else spg.stream_duels(duels),
            true_kernel(),
            engine=spg.PartitionedEP(parts=point.parts, tolerance=TOLERANCE),
            scheduler=point.scheduler,
            **prior,
        )
    else:
        model = spg.PreferenceGP(
            duels, true_kernel(), engine=spg.ParallelEP(tolerance=TOLERANCE), **prior
        )
    if point.scheduler or point.t <= _COMPILED_BEFORE:
        model.infer()  # compiles, and starts workers
    taken = seconds(lambda: model.infer(restart=True))
    result = model.infer()
    rounds = list(getattr(result, "rounds", ()))
    found = {
        **asdict(point),
        "folder": "files" if point.folder else "",  # not the place of a folder that is gone
        "seconds": taken,
        "sweeps": result.sweeps,
        "sweep_seconds": taken / result.sweeps,
        "converged": result.converged,
        "log_evidence": model.log_evidence(),
        "memory_bytes": memory("VmHWM") - imported,
        "bytes_sent": [max(one.bytes_sent) for one in rounds],
        "bytes_received": [max(one.bytes_received) for one in rounds],
    }
    if point.parts:
        model.close()
        return found
    free, needed = free_memory(), _ARRAYS_OF_A_GRADIENT * 8 * point.n * point.m
    if free is None or needed <= free // 2:
        found["gradient_seconds"] = gradient_seconds(model)
    return found


def gradient_seconds(model: spg.PreferenceGP) -> float:
    """Of the evidence with its gradient, from converged sites, compiled before."""

    @tf.function(autograph=False)
    def gradient() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        found: list[tf.Tensor] = tape.gradient(loss, model.trainable_variables)
        return found

    gradient()
    return seconds(lambda: [value.numpy() for value in map(tf.convert_to_tensor, gradient())])


def draw(figures: dict[str, Any], path: Path) -> None:
    """Time, gradient and memory against each axis."""
    axes_of = list(dict.fromkeys(series["axis"] for series in figures["series"]))
    shown = ("seconds", "gradient_seconds", "memory_bytes")
    figure = Figure((3.6 * len(axes_of), 3.3 * len(shown)), layout="constrained")
    grid = figure.subplots(len(shown), len(axes_of), squeeze=False)
    for key, row in zip(shown, grid, strict=True):
        for axis, ax in zip(axes_of, row, strict=True):
            for series in figures["series"]:
                known = [(p["size"], p[key]) for p in series["points"] if key in p]
                if series["axis"] == axis and known:
                    ax.loglog(*zip(*known, strict=True), "o-", label=series["name"])
            ax.set(xlabel=axis, ylabel=key)
            if ax.lines:
                ax.legend(fontsize=7)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main(__doc__, lambda quick: measure(QUICK if quick else SERIES), draw)
