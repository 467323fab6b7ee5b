"""Reliability of predictions: the bins that runs recorded, pooled over paired seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sparse_prefgp.analysis.metrics import CalibrationBin
from sparse_prefgp.lab.report.methods import Arrangement, Key
from sparse_prefgp.lab.report.statistics import points_of
from sparse_prefgp.lab.report.vocabulary import ReportedMetric


@dataclass(frozen=True)
class PooledBin:
    """Held-out duels of all seeds whose confidence max(p, 1 - p) is in [lower, upper)."""

    lower: float
    upper: float
    duels: float
    """How many, where several runs of a seed count as one."""
    confidence: float
    """Their mean confidence, and the share that the predicted winner won."""
    share_won: float
    """Their mean confidence, and the share that the predicted winner won."""
    error: float
    """Standard error of share_won over seeds, NaN where fewer than two seeds have such duels."""


@dataclass(frozen=True)
class Reliability:
    """The bins of a method on a panel at its m, pooled over these seeds."""

    key: Key
    seeds: tuple[int, ...]
    bins: tuple[PooledBin, ...]


def reliabilities(arrangement: Arrangement, metric: ReportedMetric) -> list[Reliability]:
    """Of every point of the calibration error whose runs recorded bins, over the same seeds."""
    found = []
    for point in points_of(arrangement, metric):
        recorded = arrangement.bins.get(point.key, {})
        runs = {seed: recorded[seed] for seed in point.seeds if seed in recorded}
        if runs:
            found.append(Reliability(point.key, tuple(runs), pooled_bins(runs)))
    return found


def pooled_bins(
    runs: Mapping[int, Sequence[Sequence[CalibrationBin]]],
) -> tuple[PooledBin, ...]:
    """Bins of all seeds together, each duel of a seed counted once.

    Seeds are drawn, not duels: with w duels of a seed in a bin and a share a of them won, the
    share R = sum(w a) / sum(w) of S seeds has the variance S / (S - 1) sum((w (a - R))²) / sum(w)²
    of a ratio of two means (Cochran 1977, Sampling Techniques).

    :param runs: by seed, the bins of each of its runs; several runs of a seed count as one.
    """
    rows: dict[tuple[float, float], dict[int, list[tuple[float, float, float]]]] = {}
    for seed, of_seed in runs.items():
        for one in (one for bins in of_seed for one in bins):
            weighted = (one.duels, one.duels * one.confidence, one.duels * one.accuracy)
            by_seed = rows.setdefault((one.lower, one.upper), {})
            by_seed.setdefault(seed, []).append(weighted)
    found = []
    for (lower, upper), by_seed in sorted(rows.items()):
        sums = np.array([np.sum(own, axis=0) / len(runs[seed]) for seed, own in by_seed.items()])
        duels, confidence, won = sums.sum(axis=0)
        share, seeds = won / duels, len(sums)
        residuals = sums[:, 2] - share * sums[:, 0]
        variance = seeds / (seeds - 1) * (residuals @ residuals) / duels**2 if seeds > 1 else None
        error = math.nan if variance is None else math.sqrt(variance)
        values = (duels, confidence / duels, share, error)
        found.append(PooledBin(lower, upper, *map(float, values)))
    return tuple(found)
