"""What each engine takes to its fixed point, as ratios to `ParallelEP`.

python -m experiments.benchmarks.engines
"""

from __future__ import annotations

from typing import Any

import numpy as np

import sparse_prefgp as spg
from experiments.benchmarks.shared import (
    NOISE_VARIANCE,
    Measured,
    in_turns,
    main,
    make_problem,
    true_kernel,
)
from sparse_prefgp.tell.tables import Column, Table, flag

AT_ONCE = {
    "ParallelEP": spg.ParallelEP(),
    "ParallelEP, power 0.5": spg.ParallelEP(site_power=0.5),
    "Variational": spg.Variational(),
    "Laplace, probit": spg.Laplace(),
    "Laplace, logit": spg.Laplace(link="logit"),
}
# These take t small steps a sweep, and are called once.
ONE_BY_ONE = {
    "ParallelEP": spg.ParallelEP(),
    "SequentialEP": spg.SequentialEP(),
    "SequentialEP, power 0.5": spg.SequentialEP(site_power=0.5),
}


def measure(t: int, n: int, m: int, repeats: int) -> Measured:
    """From zero sites to each engine's own tolerance."""
    duels = make_problem(t, n).duels
    inputs = spg.kmeans_inputs(duels.items, m, np.random.default_rng(0))
    parts = {
        f"all sites at once, medians of {repeats}": timed(duels, inputs, AT_ONCE, repeats),
        "one site after the other, one repeat": timed(duels, inputs, ONE_BY_ONE, 1),
    }
    table = Table(
        "engines",
        f"To the fixed point: {t:,} duels, {n:,} items, {m} inducing inputs",
        (
            Column("engine", "engine", left=True),
            Column("seconds", "seconds", ".3f"),
            Column("ratio", "of ParallelEP", ".2f"),
            Column("sweeps", "sweeps"),
            Column("converged", "converged", flag),
            Column("log_evidence", "log evidence", ".2f"),
        ),
        parts=[*parts.items()],
        caption="A first call of each, which traces and compiles, is not counted.",
    )
    return table, {"t": t, "n": n, "m": m, **parts}


def timed(
    duels: spg.Duels, inputs: np.ndarray, engines: dict[str, Any], repeats: int
) -> list[dict[str, Any]]:
    """A row for each engine, called in turns."""
    models = {
        name: spg.PreferenceGP(
            duels,
            true_kernel(),
            inducing_variable=inputs,
            engine=engine,
            noise_variance=NOISE_VARIANCE,
        )
        for name, engine in engines.items()
    }
    runs = {name: lambda model=model: model.infer(restart=True) for name, model in models.items()}
    taken = {name: float(np.median(values)) for name, values in in_turns(runs, repeats).items()}
    return [
        {
            "engine": name,
            "seconds": taken[name],
            "ratio": taken[name] / taken["ParallelEP"],
            "sweeps": model.infer().sweeps,
            "converged": model.infer().converged,
            "log_evidence": model.log_evidence(),
        }
        for name, model in models.items()
    ]


if __name__ == "__main__":
    main(
        __doc__,
        lambda quick: measure(1_000, 200, 20, 1) if quick else measure(10_000, 2_000, 200, 5),
    )
