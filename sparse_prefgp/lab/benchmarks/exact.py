"""Exact EP on disjoint pairs, in units of one dense inverse of the same size."""

from __future__ import annotations

from functools import partial

import gpflow
import numpy as np

from sparse_prefgp.approximations import Exact
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.lab.benchmarks.problems import (
    LENGTHSCALES,
    NOISE_VARIANCE,
    SPREAD,
    make_problem,
)
from sparse_prefgp.lab.benchmarks.report import BenchmarkTable, Report, median_seconds
from sparse_prefgp.models import PreferenceGP


def run(*, quick: bool = False, budget: float | None = None) -> Report:
    """Total inference from cold sites, the kernel matrix included, at two tolerances."""
    del budget  # nothing here is stopped by time
    return measure(t=200 if quick else 1000, repeats=3 if quick else 5)


def measure(t: int, repeats: int) -> Report:
    problem = make_problem(t, 2 * t, held_out=1)
    rng = np.random.default_rng(1)
    half = rng.standard_normal((t, t))
    matrix = half @ half.T / t + np.eye(t)
    inverse = median_seconds(lambda: np.linalg.inv(matrix), repeats)

    rows, runs = [], []
    for tolerance in (1e-8, 1e-4):
        model = PreferenceGP(
            problem.duels,
            gpflow.kernels.Matern52(variance=SPREAD**2, lengthscales=np.asarray(LENGTHSCALES)),
            approximation=Exact(),
            engine=ParallelEP(tolerance=tolerance),
            noise_variance=NOISE_VARIANCE,
        )
        taken = median_seconds(partial(model.infer, restart=True), repeats)
        result = model.infer()
        ratio = taken / inverse
        runs.append(
            {
                "tolerance": tolerance,
                "sweeps": result.sweeps,
                "converged": result.converged,
                "seconds": taken,
                "inverses": ratio,
                "inverses_per_sweep": ratio / result.sweeps,
            }
        )
        rows.append(
            (
                f"{tolerance:g}",
                f"{result.sweeps}",
                "yes" if result.converged else "no",
                f"{taken:.3f} s",
                f"{ratio:.1f}",
                f"{ratio / result.sweeps:.2f}",
            )
        )
    table = BenchmarkTable(
        title=f"Exact EP, {t:,} disjoint pairs, {2 * t:,} items",
        columns=("tolerance", "sweeps", "converged", "time", "dense inverses", "per sweep"),
        rows=tuple(rows),
        notes=(
            f"one dense inverse of a {t:,} × {t:,} matrix (numpy.linalg.inv): {inverse:.3f} s",
            f"medians of {repeats}; from cold sites, kernel matrix included; "
            "a first call of each is not counted",
        ),
    )
    return Report("exact", (table,), {"t": t, "inverse_seconds": inverse, "runs": runs})
