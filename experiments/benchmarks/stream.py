"""Duels read from files: how many a second, in what memory, and what parts send one another.

python -m experiments.benchmarks.stream
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sparse_prefgp as spg
from experiments.benchmarks.scaling import Point, inference
from experiments.benchmarks.shared import (
    FEATURES,
    NOISE_VARIANCE,
    Measured,
    decide,
    gibibytes,
    in_own_process,
    main,
    random_utility,
    some_items,
    true_kernel,
)
from sparse_prefgp.tell.tables import Column, Table

HERE, WORKERS = None, "local"
# Duels -> where parts work -> the numbers of them.
Sizes = dict[int, dict[str | None, tuple[int, ...]]]
SIZES: Sizes = {
    1_000_000: {HERE: (1, 2, 4, 8), WORKERS: (1, 2, 4, 8)},
    10_000_000: {HERE: (1,)},
}
QUICK: Sizes = {600: {HERE: (1, 2), WORKERS: (2,)}}
TIGHT = 1e-10


def measure(sizes: Sizes, n: int, m: int, prefix: int) -> Measured:
    """Each point in a process of its own; the first `prefix` rows in memory too."""
    numbers = m * (m + 1) // 2 + m
    parts, figures = [], []
    for t, places in sizes.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_duels(folder, t, n)
            points = [
                in_own_process(inference, Point(t, n, m, number, name, place))
                for place, several in places.items()
                for number in several
            ]
            apart = prefix_difference(folder, m, prefix)
        rows = [
            {
                **point,
                "where": "Dask" if point["scheduler"] else "here",
                "rate": t * point["sweeps"] / point["seconds"],
                "ratio": max(*point["bytes_sent"], *point["bytes_received"]) / (8 * numbers),
            }
            for point in points
        ]
        parts.append((f"{t:,} duels; the first {prefix:,} are within {apart:.1e} of memory", rows))
        figures.append({"t": t, "points": rows, "prefix": prefix, "prefix_difference": apart})
    table = Table(
        "stream",
        f"Duels from eight Parquet files, {n:,} items, {m} inducing inputs",
        (
            Column("where", "in", left=True),
            Column("parts", "parts"),
            Column("seconds", "to 1e-4, s", ".1f"),
            Column("sweeps", "rounds"),
            Column("rate", "duels a second", ",.0f"),
            Column("memory_bytes", "memory", gibibytes),
            Column("ratio", "bytes", ".3f"),
        ),
        parts=parts,
        caption="Here: one process, whose parts work one after the other; Dask: workers on this "
        "machine, at most one for each core. A duel counts once in each round. Memory is the peak "
        "above that after imports, without workers; bytes: the most to or from a part in a round, "
        f"of 8 (m (m + 1) / 2 + m) = {8 * numbers:,}. What is the same for all is started and "
        "compiled before the time begins, but with more than a million duels.",
    )
    return table, {"series": figures, "numbers": numbers}


def write_duels(folder: Path, t: int, n: int, files: int = 8) -> None:
    """`t` duels between `n` items as Parquet files of ids in `duels/`, and `items.npy` next to it.

    One file at a time is in memory. Pairs are drawn with replacement.
    """
    rng = np.random.default_rng(0)
    items = rng.standard_normal((n, FEATURES))
    np.save(folder / "items.npy", items)
    values = random_utility(rng)(items)
    (folder / "duels").mkdir()
    ends = np.linspace(0, t, files + 1).astype(int)
    for number, size in enumerate(np.diff(ends)):
        first = rng.integers(n, size=size)
        pairs = np.stack([first, (first + rng.integers(1, n, size=size)) % n], 1)
        won, lost = decide(values[pairs], rng)
        rows = np.arange(size)
        table = pd.DataFrame({"winner": pairs[rows, won], "loser": pairs[rows, lost]})
        table.to_parquet(folder / "duels" / f"{number}.parquet", index=False)


def prefix_difference(folder: Path, m: int, rows: int) -> float:
    """Largest difference of posterior means and variances of all items, of the first rows of a
    stream against the same duels in memory, both by EP to 1e-10."""
    items = np.load(folder / "items.npy")
    part = spg.stream_duels(folder / "duels", items).part(0, rows)
    (chunk,) = part.chunks(rows)
    prior: Any = {"inducing_variable": some_items(items, m), "noise_variance": NOISE_VARIANCE}
    models = (
        spg.StreamedGP(part, true_kernel(), engine=spg.PartitionedEP(tolerance=TIGHT), **prior),
        spg.PreferenceGP(
            part.in_memory(chunk), true_kernel(), engine=spg.ParallelEP(tolerance=TIGHT), **prior
        ),
    )
    one, other = (np.concatenate([np.ravel(x) for x in m.predict_f(items)]) for m in models)
    return float(np.abs(one - other).max())


if __name__ == "__main__":
    main(
        __doc__,
        lambda quick: measure(QUICK, 100, 8, 200) if quick else measure(SIZES, 10_000, 128, 50_000),
    )
