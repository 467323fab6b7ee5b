"""A sweep and a whole inference against the dense products, measured in the same run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import VFE, DuelPrior
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.engines.propagation import evaluate
from sparse_prefgp.factors.sites import Sites
from sparse_prefgp.lab.benchmarks.point import TOLERANCE, BenchmarkPoint
from sparse_prefgp.lab.benchmarks.problems import LENGTHSCALES, NOISE_VARIANCE, SPREAD, make_problem
from sparse_prefgp.lab.benchmarks.report import Bars, BenchmarkTable, Report, in_turns, milliseconds
from sparse_prefgp.lab.benchmarks.sweep import parts_of_a_sweep
from sparse_prefgp.models import PreferenceGP

PRODUCT = "Phi' (tau Phi), what a sweep replaces"
SWEEP = "one sweep"
SINGLE = "a sweep in single precision"
UNAVOIDABLE = "dense products it cannot avoid"
INFERENCE = f"EP to {TOLERANCE:g} from scratch"
# Above so many rows the product is taken on a tenth of them, times ten.
_WHOLE_PRODUCT = 200_000


def run(*, quick: bool = False, budget: float | None = None) -> Report:
    """At 1,000,000 duels between 10,000 items with 256 inducing inputs."""
    del budget  # nothing here is stopped by time
    return measure(2_000, 400, 32, 1) if quick else measure(1_000_000, 10_000, 256, 5)


def measure(t: int, n: int, m: int, repeats: int) -> Report:
    load = os.getloadavg()[0]
    memory = BenchmarkPoint(t, n, m).run()["memory_bytes"]
    model, single = _model(t, n, m), _model(t, n, m, single_precision=True)
    for each in (model, single):
        each.infer()
    prior, single_prior = (x.approximation.prior(x.problem()) for x in (model, single))
    sites = Sites(*map(tf.constant, model.sites()))
    features = prior.covariance.features.numpy()  # type: ignore[attr-defined]
    square = np.random.default_rng(0).standard_normal((m, m))
    product, share = dense_product(t, m)

    def sweep(prior: DuelPrior) -> Any:
        return evaluate(prior.covariance, prior.factors, sites).change.numpy()

    def unavoidable() -> None:
        np.matmul(features.T, features.copy())  # B'H; of B with itself BLAS would do half
        np.matmul(features, square)

    def build() -> Any:
        made = model.approximation.prior(model.problem())
        return made.covariance.features[0, 0].numpy()  # type: ignore[attr-defined]

    steps = parts_of_a_sweep(model.graph, prior, sites)
    taken = in_turns(
        {
            PRODUCT: product,
            SWEEP: lambda: sweep(prior),
            **{f"    {name}": step for name, step in steps.items()},
            UNAVOIDABLE: unavoidable,
            SINGLE: lambda: sweep(single_prior),
            INFERENCE: lambda: model.infer(restart=True),
            "    of it, kernel matrices and features": build,
            "EP in single precision": lambda: single.infer(restart=True),
        },
        repeats,
    )
    taken[PRODUCT] = [value / share for value in taken[PRODUCT]]
    result = model.infer()
    # The least of each: other work on the machine only adds, and most to a product on all threads.
    least = {name: min(values) for name, values in taken.items()}
    ratios = {name: value / least[PRODUCT] for name, value in least.items()}
    figures = {
        "t": t, "n": n, "m": m,
        "seconds": {name.strip(): value for name, value in least.items()},
        "all_seconds": {name.strip(): values for name, values in taken.items()},
        "of_product": {name.strip(): value for name, value in ratios.items()},
        "sweeps": result.sweeps, "converged": result.converged, "memory_bytes": memory,
        "rows_of_product": round(share * t), "load": (load, os.getloadavg()[0]),
        "single_precision_error": _difference(single, model),
    }  # fmt: skip
    return Report("roofline", (_table(figures, ratios, repeats),), figures, panels=(_bars(ratios),))


def _difference(model: PreferenceGP, exact: PreferenceGP) -> dict[str, float]:
    """Of the evidence in nats, and the largest of 1,000 posterior means (over their spread) and
    variances (relative)."""
    items = exact.duels.items[:1000]
    (mean, variance), (its_mean, its_variance) = (
        [x.numpy()[:, 0] for x in each.predict_f(items)] for each in (model, exact)
    )
    apart = (mean - mean.mean()) - (its_mean - its_mean.mean())
    return {
        "log_evidence": abs(model.log_evidence() - exact.log_evidence()),
        "mean": float(np.abs(apart).max() / its_mean.std()),
        "variance": float(np.abs(variance / its_variance - 1.0).max()),
    }


def _model(t: int, n: int, m: int, single_precision: bool = False) -> PreferenceGP:
    return PreferenceGP(
        make_problem(t, n, held_out=1).duels,
        gpflow.kernels.Matern52(variance=SPREAD**2, lengthscales=np.asarray(LENGTHSCALES)),
        approximation=VFE(over="items", single_precision=single_precision),
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


def _table(figures: dict[str, Any], ratios: dict[str, float], repeats: int) -> BenchmarkTable:
    t, n, m = (figures[x] for x in "tnm")
    share, error = figures["rows_of_product"], figures["single_precision_error"]
    note = "on all rows" if share == t else f"on {share:,} rows, times {t / share:g}"
    return BenchmarkTable(
        title=f"{t:,} duels, {n:,} items, {m} inducing inputs",
        columns=("what", "time", "of the dense product"),
        rows=tuple(
            (name, milliseconds(figures["seconds"][name.strip()]), f"{ratio:.3f}")
            for name, ratio in ratios.items()
        ),
        notes=(
            f"Phi' (tau Phi) in NumPy, float64, {note}; EP took {figures['sweeps']} sweeps",
            f"peak memory {figures['memory_bytes'] / 2**30:.2f} GiB above that after imports",
            f"single precision moves the log evidence by {error['log_evidence']:.1e} nats, means "
            f"by {error['mean']:.1e} of their spread, variances by {error['variance']:.1e} of each",
            f"the least of {repeats}, in turns; a first call, which traces and compiles, is not "
            f"counted; load {figures['load'][0]:.1f} before, {figures['load'][1]:.1f} after",
        ),
    )


def _bars(ratios: dict[str, float]) -> Bars:
    names = [SWEEP, *(x for x in ratios if x.startswith(" ") and "of it" not in x)]
    names += [UNAVOIDABLE, SINGLE]
    return Bars("share of the dense product", {name.strip(): ratios[name] for name in names})
