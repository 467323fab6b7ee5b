"""Duels read from files: how many a second, in what memory, and what parts send one another."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.engines import ParallelEP, PartitionedEP
from sparse_prefgp.io.streams import stream_duels
from sparse_prefgp.lab.benchmarks.point import BenchmarkPoint
from sparse_prefgp.lab.benchmarks.problems import LENGTHSCALES, NOISE_VARIANCE, SPREAD, write_duels
from sparse_prefgp.lab.benchmarks.report import BenchmarkTable, Line, LogAxes, Report
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.streaming import StreamedGP

ITEMS, INDUCING = 10_000, 128
HERE, WORKERS = "", "local"
# Duels -> where parts work -> the numbers of them.
Sizes = dict[int, dict[str, tuple[int, ...]]]
SIZES: Sizes = {
    1_000_000: {HERE: (1, 2, 4, 8), WORKERS: (1, 2, 4, 8)},
    10_000_000: {HERE: (1,)},
}
QUICK: Sizes = {600: {HERE: (1, 2), WORKERS: (2,)}}
PREFIX = 50_000
TIGHT = 1e-10


def run(*, quick: bool = False, budget: float | None = None) -> Report:
    """1,000,000 duels in 1, 2, 4 and 8 parts, here and on workers, and 10,000,000 in one."""
    del budget  # nothing here is stopped by time
    return measure(QUICK, 100, 8, 200) if quick else measure(SIZES, ITEMS, INDUCING, PREFIX)


def measure(sizes: Sizes, n: int, m: int, prefix: int) -> Report:
    """Each point in a process of its own; the first `prefix` rows in memory too."""
    tables, figures, lines = [], [], []
    for t, places in sizes.items():
        found: list[dict[str, Any]] = []
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_duels(folder, t, n)
            for place, parts in places.items():
                own = [BenchmarkPoint(t, n, m, p, name, place).run() for p in parts]
                label = f"t = {t:,}, {'Dask workers' if place else 'one process'}"
                lines.append(Line(label, tuple(map(float, parts)), tuple(map(_rate, own))))
                found += own
            apart = prefix_difference(folder, m, prefix)
        tables.append(_table(t, n, m, found, prefix, apart))
        figures.append({"t": t, "points": found, "prefix": prefix, "prefix_difference": apart})
    panel = LogAxes(x_label="parts", y_label="duels a second", lines=tuple(lines))
    numbers = m * (m + 1) // 2 + m
    return Report("stream", tuple(tables), {"series": figures, "numbers": numbers}, panels=(panel,))


def prefix_difference(folder: Path, m: int, rows: int) -> float:
    """Largest difference of posterior means and variances of all items, of the first rows of a
    stream against the same duels in memory, both by EP to 1e-10."""
    items = np.load(folder / "items.npy")
    part = stream_duels(folder / "duels", items).part(0, rows)
    (chunk,) = part.chunks(rows)
    z = items[np.random.default_rng(0).choice(len(items), m, replace=False)]
    prior: dict[str, Any] = {"inducing_variable": z, "noise_variance": NOISE_VARIANCE}

    def kernel() -> gpflow.kernels.Kernel:
        return gpflow.kernels.Matern52(variance=SPREAD**2, lengthscales=np.asarray(LENGTHSCALES))

    models = (
        StreamedGP(part, kernel(), engine=PartitionedEP(tolerance=TIGHT), **prior),
        PreferenceGP(part.in_memory(chunk), kernel(), engine=ParallelEP(tolerance=TIGHT), **prior),
    )
    one, other = (np.concatenate([np.ravel(x) for x in m.predict_f(items)]) for m in models)
    return float(np.abs(one - other).max())


def _rate(point: dict[str, Any]) -> float:
    return point["t"] * point["sweeps"] / point["seconds"]


def _table(
    t: int, n: int, m: int, found: list[dict[str, Any]], prefix: int, apart: float
) -> BenchmarkTable:
    numbers = m * (m + 1) // 2 + m
    rows = []
    for p in found:
        sent, received = (max(p[key]) for key in ("bytes_sent", "bytes_received"))
        rows.append(
            (
                "Dask" if p["scheduler"] else "here",
                str(p["parts"]),
                f"{p['seconds']:.1f} s",
                str(p["sweeps"]),
                f"{_rate(p):,.0f}",
                f"{p['memory_bytes'] / 2**30:.2f} GiB",
                f"{sent:,}",
                f"{received:,}",
                f"{max(sent, received) / (8 * numbers):.3f}",
            )
        )
    return BenchmarkTable(
        title=f"{t:,} duels from eight Parquet files, {n:,} items, {m} inducing inputs",
        columns=(
            "in",
            "parts",
            "to 1e-4",
            "rounds",
            "duels a second",
            "memory",
            "to a part",
            "back",
            "ratio",
        ),
        rows=tuple(rows),
        notes=(
            "here: one process, whose parts work one after the other, so that time does not fall "
            "with P; Dask: workers on this machine, one for each part, at most one for each core",
            "workers are started, and all is compiled, before the time begins, but with more than "
            "a million duels; a duel counts once in each round",
            "memory is the peak above that after imports, without that of workers",
            "to a part, back: bytes of a round, at most; ratio: the larger of the two to 8 (m (m + "
            f"1) / 2 + m) = {8 * numbers:,}",
            f"log evidence over P differs by {_spread([p['log_evidence'] for p in found]):.1e}, "
            "relative",
            f"the first {prefix:,} duels in memory have the posterior of those streamed within "
            f"{apart:.1e}",
        ),
    )


def _spread(values: list[float]) -> float:
    return (max(values) - min(values)) / abs(values[0])
