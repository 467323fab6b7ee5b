"""Exact EP on disjoint pairs, in units of one dense inverse of the same size.

python -m experiments.benchmarks.exact
"""

from __future__ import annotations

from functools import partial

import numpy as np

import sparse_prefgp as spg
from experiments.benchmarks.shared import (
    NOISE_VARIANCE,
    Measured,
    main,
    make_problem,
    median_seconds,
    true_kernel,
)
from sparse_prefgp.tell.tables import Column, Table, flag


def measure(t: int, repeats: int) -> Measured:
    """Inference from cold sites, the kernel matrix included, at two tolerances."""
    duels = make_problem(t, 2 * t).duels
    half = np.random.default_rng(1).standard_normal((t, t))
    matrix = half @ half.T / t + np.eye(t)
    inverse = median_seconds(lambda: np.linalg.inv(matrix), repeats)
    runs = []
    for tolerance in (1e-8, 1e-4):
        model = spg.PreferenceGP(
            duels,
            true_kernel(),
            approximation=spg.Exact(),
            engine=spg.ParallelEP(tolerance=tolerance),
            noise_variance=NOISE_VARIANCE,
        )
        taken = median_seconds(partial(model.infer, restart=True), repeats)
        result = model.infer()
        runs.append(
            {
                "tolerance": tolerance,
                "sweeps": result.sweeps,
                "converged": result.converged,
                "seconds": taken,
                "inverses": taken / inverse,
                "inverses_per_sweep": taken / inverse / result.sweeps,
            }
        )
    table = Table(
        "exact",
        f"Exact EP, {t:,} disjoint pairs, {2 * t:,} items",
        (
            Column("tolerance", "tolerance", "g"),
            Column("sweeps", "sweeps"),
            Column("converged", "converged", flag),
            Column("seconds", "seconds", ".3f"),
            Column("inverses", "dense inverses", ".1f"),
            Column("inverses_per_sweep", "per sweep", ".2f"),
        ),
        runs,
        f"A dense inverse of a {t:,} × {t:,} matrix (numpy.linalg.inv): {inverse:.3f} s. Medians "
        f"of {repeats}; a first call of each is not counted.",
    )
    return table, {"t": t, "inverse_seconds": inverse, "runs": runs}


if __name__ == "__main__":
    main(__doc__, lambda quick: measure(200, 3) if quick else measure(1_000, 5))
