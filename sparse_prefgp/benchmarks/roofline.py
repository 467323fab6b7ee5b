"""A sweep and a whole inference against the dense products, measured in the same run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import VFE
from sparse_prefgp.benchmarks.point import TOLERANCE, Point
from sparse_prefgp.benchmarks.problems import LENGTHSCALES, NOISE_VARIANCE, SPREAD, make_problem
from sparse_prefgp.benchmarks.report import Bars, Report, Table, median_seconds, milliseconds
from sparse_prefgp.benchmarks.sweep import parts_of_a_sweep
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.engines.propagation import evaluate
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.sites import Sites

# Above so many rows the product is taken on a tenth of them, times ten.
_WHOLE_PRODUCT = 200_000


def run(*, quick: bool = False, budget: float | None = None) -> Report:
    """At 1,000,000 duels between 10,000 items with 256 inducing inputs."""
    del budget  # nothing here is stopped by time
    return measure(2_000, 400, 32, 1) if quick else measure(1_000_000, 10_000, 256, 5)


def measure(t: int, n: int, m: int, repeats: int) -> Report:
    load = os.getloadavg()[0]
    memory = Point(t, n, m).run()["memory_bytes"]
    model = _model(t, n, m)
    infer = median_seconds(lambda: model.infer(restart=True), min(repeats, 3))
    result = model.infer()
    prior = model.approximation.prior(model.problem())
    sites = Sites(*map(tf.constant, model.sites()))

    def sweep() -> Any:
        return evaluate(prior.covariance, prior.factors, sites).change.numpy()

    def build() -> Any:
        made = model.approximation.prior(model.problem())
        return made.covariance.features[0, 0].numpy()  # type: ignore[attr-defined]

    features = prior.covariance.features.numpy()  # type: ignore[attr-defined]
    product, share = dense_product(t, m)
    # What must be multiplied densely: B'H and B times the inverse factor.
    square = np.random.default_rng(0).standard_normal((m, m))
    unavoidable = [
        lambda: features.T @ features.copy(),
        lambda: features @ square,
    ]
    steps = parts_of_a_sweep(model.graph, prior, sites)
    taken: dict[str, Any] = {
        "dense product": median_seconds(product, repeats) / share,
        "sweep": median_seconds(sweep, repeats),
        "unavoidable": sum(median_seconds(each, repeats) for each in unavoidable),
        "inference": infer,
        "prior": median_seconds(build, min(repeats, 3)),
        "parts": {name: median_seconds(step, repeats) for name, step in steps.items()},
    }
    figures: dict[str, Any] = {
        "t": t, "n": n, "m": m, "seconds": taken, "sweeps": result.sweeps,
        "converged": result.converged, "memory_bytes": memory, "rows_of_product": int(share * t),
        "load": (load, os.getloadavg()[0]),
        "sweep_over_product": taken["sweep"] / taken["dense product"],
        "inference_over_product": taken["inference"] / taken["dense product"],
    }  # fmt: skip
    return Report("roofline", (_table(figures),), figures, panels=(_bars(taken),))


def _model(t: int, n: int, m: int) -> PreferenceGP:
    return PreferenceGP(
        make_problem(t, n, held_out=1).duels,
        gpflow.kernels.Matern52(variance=SPREAD**2, lengthscales=np.asarray(LENGTHSCALES)),
        approximation=VFE(),
        inducing_variable=np.random.default_rng(1).standard_normal((m, len(LENGTHSCALES))),
        engine=ParallelEP(tolerance=TOLERANCE),
        noise_variance=NOISE_VARIANCE,
    )


def dense_product(t: int, m: int) -> tuple[Callable[[], Any], float]:
    """Phi' (tau Phi) in NumPy, float64, and the share of the t rows that it is taken on."""
    rows = t if t <= _WHOLE_PRODUCT else t // 10
    rng = np.random.default_rng(0)
    phi, tau = rng.standard_normal((rows, m)), rng.random(rows)
    return lambda: phi.T @ (tau[:, None] * phi), rows / t


def _table(figures: dict[str, Any]) -> Table:
    taken = figures["seconds"]
    product = taken["dense product"]
    t, n, m = (figures[x] for x in "tnm")
    rows = [
        ("Phi' (tau Phi), what a sweep replaces", product),
        ("one sweep", taken["sweep"]),
        *((f"    {name}", value) for name, value in taken["parts"].items()),
        ("the dense products it cannot avoid", taken["unavoidable"]),
        (f"EP to {TOLERANCE:g} from scratch, {figures['sweeps']} sweeps", taken["inference"]),
        ("    of it, kernel matrices and features", taken["prior"]),
    ]
    share = figures["rows_of_product"]
    note = "on all rows" if share == t else f"on {share:,} rows, times {t / share:g}"
    return Table(
        title=f"{t:,} duels, {n:,} items, {m} inducing inputs",
        columns=("what", "time", "of the dense product"),
        rows=tuple((name, milliseconds(x), f"{x / product:.3f}") for name, x in rows),
        notes=(
            f"Phi' (tau Phi) in NumPy, float64, {note}",
            f"peak memory {figures['memory_bytes'] / 2**30:.2f} GiB above that after imports",
            "medians; a first call, which traces and compiles, is not counted; load "
            f"{figures['load'][0]:.1f} before, {figures['load'][1]:.1f} after",
        ),
    )


def _bars(taken: dict[str, Any]) -> Bars:
    product = taken["dense product"]
    named = {"one sweep": taken["sweep"], **taken["parts"]}
    named["dense products it cannot avoid"] = taken["unavoidable"]
    return Bars("share of the dense product", {name: x / product for name, x in named.items()})
