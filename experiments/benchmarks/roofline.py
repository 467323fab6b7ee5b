"""A sweep and a whole inference against the dense products, measured in the same run.

python -m experiments.benchmarks.roofline
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

import sparse_prefgp as spg
from experiments.benchmarks.scaling import TOLERANCE, Point, inference
from experiments.benchmarks.shared import (
    NOISE_VARIANCE,
    Measured,
    gibibytes,
    in_own_process,
    in_turns,
    main,
    make_problem,
    some_items,
    true_kernel,
)
from experiments.benchmarks.sweep import OF_PRODUCT, parts_of_a_sweep
from sparse_prefgp.approximations import DuelPrior
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.factors.sites import Sites
from sparse_prefgp.tell.tables import Table

PRODUCT = "Phi' (tau Phi), what a sweep replaces"
# Above so many rows the product is taken on a tenth of them, times ten.
_WHOLE_PRODUCT = 200_000


def measure(t: int, n: int, m: int, repeats: int) -> Measured:
    """The least of each: other work only adds, and most to a product on all threads."""
    load = os.getloadavg()[0]
    peak = in_own_process(inference, Point(t, n, m))["memory_bytes"]
    duels = make_problem(t, n).duels
    model, single = (_model(duels, m, precision) for precision in (False, True))
    for one in (model, single):
        one.infer()
    prior, single_prior = (x.approximation.prior(x.problem()) for x in (model, single))
    sites = Sites(*map(tf.constant, model.inference.sites()))
    features = prior.covariance.features.numpy()
    square = np.random.default_rng(0).standard_normal((m, m))
    counted = t if t <= _WHOLE_PRODUCT else t // 10
    phi = np.random.default_rng(0).standard_normal((counted, m))
    tau = np.random.default_rng(1).random(counted)

    def sweep(prior: DuelPrior) -> Any:
        return ParallelEP().evaluate(prior.covariance, prior.factors, sites).change.numpy()

    def unavoidable() -> None:
        np.matmul(features.T, features.copy())  # B'H; of B with itself BLAS would do half
        np.matmul(features, square)

    parts = parts_of_a_sweep(model.graph, prior, sites)
    taken = in_turns(
        {
            PRODUCT: lambda: phi.T @ (tau[:, None] * phi),
            "one sweep": lambda: sweep(prior),
            **{f"of it {name}": part for name, part in parts.items()},
            "dense products it cannot avoid": unavoidable,
            "a sweep in single precision": lambda: sweep(single_prior),
            f"EP to {TOLERANCE:g} from scratch": lambda: model.infer(restart=True),
            "of it kernel matrices and features": lambda: (
                model.approximation.prior(model.problem()).covariance.features[0, 0].numpy()
            ),
            "EP in single precision": lambda: single.infer(restart=True),
        },
        repeats,
    )
    taken[PRODUCT] = [value * t / counted for value in taken[PRODUCT]]
    product, result = min(taken[PRODUCT]), model.infer()
    rows = [
        {"what": name, "seconds": min(values), "ratio": min(values) / product}
        for name, values in taken.items()
    ]
    apart = abs(model.log_evidence() - single.log_evidence())
    table = Table(
        "roofline",
        f"{t:,} duels, {n:,} items, {m} inducing inputs",
        OF_PRODUCT,
        rows,
        f"The product in NumPy, float64, on {counted:,} rows, scaled to all; EP took "
        f"{result.sweeps} sweeps; peak memory {gibibytes(peak)} above that after imports; single "
        f"precision moves the log evidence by {apart:.1e} nats. The least of {repeats}, in turns; "
        f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after.",
    )
    return table, {
        "t": t, "n": n, "m": m, "rows": rows, "all_seconds": taken, "sweeps": result.sweeps,
        "converged": result.converged, "memory_bytes": peak, "rows_of_product": counted,
        "single_precision_log_evidence_error": apart,
    }  # fmt: skip


def _model(duels: spg.Duels, m: int, single_precision: bool) -> spg.PreferenceGP:
    return spg.PreferenceGP(
        duels,
        true_kernel(),
        approximation=spg.VFE(over="items", single_precision=single_precision),
        inducing_variable=some_items(duels.items, m),
        engine=spg.ParallelEP(tolerance=TOLERANCE),
        noise_variance=NOISE_VARIANCE,
    )


if __name__ == "__main__":
    main(
        __doc__,
        lambda quick: measure(2_000, 400, 32, 1) if quick else measure(1_000_000, 10_000, 256, 5),
    )
