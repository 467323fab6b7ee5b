"""One sparse sweep over items, as a ratio to the dense product it replaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import VFE, DuelPrior
from sparse_prefgp.data.graph import DuelGraph, squared_distances_without_gradient
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.engines.propagation import cavities, evaluate
from sparse_prefgp.factors.sites import Sites, match_all_moments, totals
from sparse_prefgp.lab.benchmarks.problems import (
    LENGTHSCALES,
    NOISE_VARIANCE,
    SPREAD,
    make_problem,
)
from sparse_prefgp.lab.benchmarks.report import (
    BenchmarkTable,
    Report,
    median_seconds,
    milliseconds,
)
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.support.linalg import add_to_diagonal, constant_matmul, inverse_lower

_SETTLING_SWEEPS = 4


def run(*, quick: bool = False, budget: float | None = None) -> Report:
    """One sweep at 100,000 duels between 10,000 items with 256 inducing inputs."""
    del budget  # nothing here is stopped by time
    return measure(2_000, 400, 32, 3) if quick else measure(100_000, 10_000, 256, 15)


def measure(t: int, n: int, m: int, repeats: int) -> Report:
    model = PreferenceGP(
        make_problem(t, n, held_out=1).duels,
        gpflow.kernels.Matern52(variance=SPREAD**2, lengthscales=np.asarray(LENGTHSCALES)),
        approximation=VFE(over="items"),
        inducing_variable=np.random.default_rng(1).standard_normal((m, len(LENGTHSCALES))),
        noise_variance=NOISE_VARIANCE,
    )
    prior = model.approximation.prior(model.problem())
    engine = ParallelEP(max_sweeps=_SETTLING_SWEEPS)
    start = Sites.zeros(t, gpflow.default_float())
    sites = engine.run(prior.covariance, prior.factors, start).sites

    def eager() -> Any:
        return evaluate(prior.covariance, prior.factors, sites).change.numpy()

    @tf.function(autograph=False)
    def compiled(nu: tf.Tensor, tau: tf.Tensor) -> tf.Tensor:
        result = evaluate(prior.covariance, prior.factors, Sites(nu, tau))
        # All that the next sweep needs, so that nothing is pruned away.
        return result.proposal, result.change, result.half_log_det

    taken = {
        "eager": median_seconds(eager, repeats),
        "compiled": median_seconds(lambda: compiled(*sites)[1].numpy(), repeats),
    }
    parts = {
        name: median_seconds(part, repeats)
        for name, part in parts_of_a_sweep(model.graph, prior, sites).items()
    }
    product = median_seconds(_dense_product(model.graph, prior, sites), repeats)

    figures = {
        "t": t,
        "n": n,
        "m": m,
        "product_seconds": product,
        "seconds": taken,
        "ratio": {name: value / product for name, value in taken.items()},
        "part_seconds": parts,
    }
    rows = [
        (f"one sweep, {name}", milliseconds(value), f"{value / product:.3f}")
        for name, value in taken.items()
    ]
    rows += [
        (f"    {name}", milliseconds(value), f"{value / product:.3f}")
        for name, value in parts.items()
    ]
    table = BenchmarkTable(
        title=f"One sweep over items, {t:,} duels, {n:,} items, {m} inducing inputs",
        columns=("what", "time", "of the dense product"),
        rows=tuple(rows),
        notes=(
            f"dense product Phi' (tau Phi) in NumPy, float64, {t:,} × {m}: {milliseconds(product)}",
            f"medians of {repeats}; a first call, which traces and compiles, is not counted; "
            "parts are timed eagerly, one by one",
        ),
    )
    return Report("sweep", (table,), figures)


def parts_of_a_sweep(
    graph: DuelGraph, prior: DuelPrior, sites: Sites
) -> dict[str, Callable[[], Any]]:
    """The steps of a sweep, each on results of the one before that are already there."""
    features = prior.covariance.features  # type: ignore[attr-defined]
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


def _dense_product(graph: DuelGraph, prior: DuelPrior, sites: Sites) -> Callable[[], Any]:
    features = prior.covariance.features.numpy()  # type: ignore[attr-defined]
    phi = features[graph.losers] - features[graph.winners]
    tau = totals(sites, prior.factors.counts)[0].numpy()
    return lambda: phi.T @ (tau[:, None] * phi)
