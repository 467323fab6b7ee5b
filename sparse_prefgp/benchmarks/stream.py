"""Duels read from files: how many a second, in what memory, and what parts send one another."""

from __future__ import annotations

from sparse_prefgp.benchmarks.point import Point
from sparse_prefgp.benchmarks.report import Line, Panel, Report, Table


def run(*, quick: bool = False, budget: float | None = None) -> Report:
    """1,000,000 duels between 10,000 items with 128 inducing inputs, in 1, 2, 4 and 8 parts."""
    del budget  # nothing here is stopped by time
    return measure(600, 100, 8, (1, 2)) if quick else measure(1_000_000, 10_000, 128, (1, 2, 4, 8))


def measure(t: int, n: int, m: int, parts: tuple[int, ...]) -> Report:
    """Each P in a process of its own."""
    found = [Point(t, n, m, parts=p, streamed=True).run() for p in parts]
    numbers = m * (m + 1) // 2 + m
    rows, rates = [], []
    for p in found:
        rate = t * p["sweeps"] / p["seconds"]
        rates.append(rate)
        sent, received = (max(p[key]) for key in ("bytes_sent", "bytes_received"))
        rows.append(
            (
                str(p["parts"]),
                f"{p['seconds']:.1f} s",
                str(p["sweeps"]),
                f"{rate:,.0f}",
                f"{p['memory_bytes'] / 2**30:.2f} GiB",
                f"{sent:,}",
                f"{received:,}",
                f"{max(sent, received) / (8 * numbers):.3f}",
            )
        )
    table = Table(
        title=f"{t:,} duels from eight Parquet files, {n:,} items, {m} inducing inputs",
        columns=(
            "parts",
            "to 1e-4",
            "rounds",
            "duels a second",
            "memory",
            "bytes to a part",
            "back",
            "of 8 (m (m + 1) / 2 + m)",
        ),
        rows=tuple(rows),
        notes=(
            "parts one after the other in one process, so that time does not fall with P; a first "
            "pass, compilation included; a duel counts once in each round",
            "memory is the peak above that after imports, making of the duels included",
            f"log evidence over P differs by {_spread([p['log_evidence'] for p in found]):.1e}, "
            "relative",
        ),
    )
    panel = Panel(
        x_label="parts",
        y_label="duels a second",
        lines=(Line("in one process", tuple(map(float, parts)), tuple(rates)),),
    )
    return Report("stream", (table,), {"points": found, "numbers": numbers}, panels=(panel,))


def _spread(values: list[float]) -> float:
    return (max(values) - min(values)) / abs(values[0])
