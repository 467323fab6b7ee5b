"""One sparse sweep over items, as a ratio to the dense product it replaces.

python -m experiments.benchmarks.sweep
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import tensorflow as tf

import sparse_prefgp as spg
from experiments.benchmarks.shared import (
    NOISE_VARIANCE,
    Measured,
    main,
    make_problem,
    median_seconds,
    milliseconds,
    some_items,
    true_kernel,
)
from sparse_prefgp.approximations import DuelPrior
from sparse_prefgp.data.graph import DuelGraph, squared_distances_without_gradient
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.engines.propagation import cavities
from sparse_prefgp.factors.sites import Sites, match_all_moments, totals
from sparse_prefgp.support.linalg import add_to_diagonal, constant_matmul, inverse_lower
from sparse_prefgp.tell.tables import Column, Table

_SETTLING_SWEEPS = 4
# Of a table of what takes how long.
OF_PRODUCT = (
    Column("what", "what", left=True),
    Column("seconds", "time", milliseconds),
    Column("ratio", "of the dense product", ".3f"),
)


def measure(t: int, n: int, m: int, repeats: int) -> Measured:
    """A sweep as it is and compiled, its parts, and the dense product."""
    duels = make_problem(t, n).duels
    graph, prior, sites = settled(duels, m, "items")
    step = compiled_sweep(prior, sites)
    features = prior.covariance.features.numpy()
    phi = features[graph.losers] - features[graph.winners]
    tau = totals(sites, prior.factors.counts)[0].numpy()
    product = median_seconds(lambda: phi.T @ (tau[:, None] * phi), repeats)
    what: dict[str, Callable[[], Any]] = {
        "one sweep, eager": lambda: (
            ParallelEP().evaluate(prior.covariance, prior.factors, sites).change.numpy()
        ),
        "one sweep, compiled": step,
        **{f"of it {name}": part for name, part in parts_of_a_sweep(graph, prior, sites).items()},
    }
    taken = {name: median_seconds(function, repeats) for name, function in what.items()}
    rows = [
        {"what": name, "seconds": value, "ratio": value / product} for name, value in taken.items()
    ]
    table = Table(
        "sweep",
        f"One sweep over items, {t:,} duels, {n:,} items, {m} inducing inputs",
        OF_PRODUCT,
        rows,
        f"The dense product Phi' (tau Phi) in NumPy, float64: {milliseconds(product)}. Medians of "
        f"{repeats}; a first call, which traces and compiles, is not counted.",
    )
    return table, {"t": t, "n": n, "m": m, "product_seconds": product, "rows": rows}


def settled(duels: spg.Duels, m: int, over: str | None) -> tuple[DuelGraph, DuelPrior, Sites]:
    """The graph, the prior of VFE with m of the items, and sites after some sweeps."""
    model = spg.PreferenceGP(
        duels,
        true_kernel(),
        approximation=spg.VFE(over=over),
        inducing_variable=some_items(duels.items, m),
        noise_variance=NOISE_VARIANCE,
    )
    prior = model.approximation.prior(model.problem())
    start = Sites.zeros(model.graph.num_sites, gpflow.default_float())
    engine = spg.ParallelEP(max_sweeps=_SETTLING_SWEEPS)
    return model.graph, prior, engine.run(prior.covariance, prior.factors, start).sites


def compiled_sweep(prior: DuelPrior, sites: Sites) -> Callable[[], Any]:
    """One sweep from these sites."""

    @tf.function(autograph=False)
    def compiled(nu: tf.Tensor, tau: tf.Tensor) -> tf.Tensor:
        result = ParallelEP().evaluate(prior.covariance, prior.factors, Sites(nu, tau))
        # All that the next sweep needs, so that nothing is pruned away.
        return result.proposal, result.change, result.half_log_det

    return lambda: compiled(*sites)[1].numpy()


def parts_of_a_sweep(
    graph: DuelGraph, prior: DuelPrior, sites: Sites
) -> dict[str, Callable[[], Any]]:
    """The steps of a sweep, each on results of the one before that are already there."""
    features = prior.covariance.features
    precision, shift = totals(sites, prior.factors.counts)
    half = graph.laplacian.half_matmul(precision, features)
    inner = tf.matmul(features, half, transpose_a=True)
    inner += tf.transpose(inner)

    def invert() -> tf.Tensor:
        factor = tf.linalg.cholesky(add_to_diagonal(inner, tf.ones([], inner.dtype)))
        return inverse_lower(factor)

    inverse = invert()
    scaled = tf.matmul(features, inverse, transpose_b=True)
    cavity = cavities(prior.covariance.marginals(precision, shift), sites)
    steps: dict[str, Callable[[], tf.Tensor]] = {
        "half Laplacian times B": lambda: graph.laplacian.half_matmul(precision, features),
        "B' H": lambda: constant_matmul(features, half, transpose_a=True),
        "Cholesky and inverse": invert,
        "scaled features": lambda: constant_matmul(features, inverse, transpose_b=True),
        "squared distances": lambda: squared_distances_without_gradient(graph, scaled),
        "moment matching": lambda: match_all_moments(cavity, prior.factors)[0].tau,
    }

    def waiting(step: Callable[[], tf.Tensor]) -> Callable[[], Any]:
        return lambda: tf.reshape(step(), [-1])[0].numpy()  # reading a number waits for the step

    return {name: waiting(step) for name, step in steps.items()}


if __name__ == "__main__":
    main(
        __doc__,
        lambda quick: measure(2_000, 400, 32, 3) if quick else measure(100_000, 10_000, 256, 15),
    )
