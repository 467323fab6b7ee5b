"""Ways to optimise: from warm sites and from cold ones, learned and k-means inducing inputs.

python -m experiments.benchmarks.optimise
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

import sparse_prefgp as spg
from experiments.benchmarks.shared import FEATURES, NOISE_VARIANCE, Measured, main, make_problem
from sparse_prefgp.covariances import Covariance
from sparse_prefgp.engines import Engine, FixedPoint
from sparse_prefgp.factors.links import Link
from sparse_prefgp.factors.sites import Factors, Sites
from sparse_prefgp.learning.objective import LOOSE_TOLERANCE
from sparse_prefgp.results import Progress
from sparse_prefgp.tell.tables import Column, Table

# An evidence counts as reached within this many nats a duel.
MARGIN = 1e-4
# EP for every gradient: from the sites of the one before, to the loose tolerance of `optimise`, or
# from zero sites to its usual tolerance.
WARM, COLD = "warm", "cold"


@dataclass(frozen=True)
class ColdEP(Engine):
    """`ParallelEP` that forgets the sites it is given, at a tolerance that nobody loosens."""

    engine: spg.ParallelEP

    @property
    def tolerance(self) -> float:
        return self.engine.tolerance

    @property
    def link_function(self) -> Link:
        return self.engine.link_function

    def with_tolerance(self, tolerance: float) -> Engine:
        del tolerance
        return self

    def at(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        return self.engine.at(covariance, factors, sites)

    def run(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        zero = Sites(tf.zeros_like(sites.nu), tf.zeros_like(sites.tau))
        return self.engine.run(covariance, factors, zero)


def measure(t: int, n: int, m: int, iterations: int, held_out: int, repeats: int) -> Measured:
    """Both comparisons, for a squared-exponential and a Matérn-5/2 kernel and utility."""
    parts = []
    for kind in (gpflow.kernels.SquaredExponential, gpflow.kernels.Matern52):
        smooth = kind is gpflow.kernels.SquaredExponential
        problem = make_problem(t, n, held_out, smooth)
        start = spg.kmeans_inputs(problem.duels.items, m, np.random.default_rng(0))

        def model(kind: Any = kind, problem: Any = problem, start: Any = start) -> Any:
            return spg.PreferenceGP(
                problem.duels,
                kind(lengthscales=np.ones(FEATURES)),
                inducing_variable=start.copy(),
                noise_variance=NOISE_VARIANCE,
            )

        runs = [
            {way: trace(model(), way, iterations) for way in (WARM, COLD)} for _ in range(repeats)
        ]
        curves = {way: evidence(model(), runs[0][way]["values"]) / t for way in (WARM, COLD)}
        target = min(float(np.max(curve)) for curve in curves.values()) - MARGIN
        fixed = model()
        gpflow.set_trainable(fixed.inducing_variable, False)
        held = {"report": spg.optimise(fixed, iterations, least_gain=None), "model": fixed}
        rows = []
        for name, run in (("warm", runs[0][WARM]), ("cold", runs[0][COLD]), ("k-means held", held)):
            report, learned = run["report"], run["model"]
            log_p = np.log(learned.predict_duel(problem.winners, problem.losers))
            row = {
                "way": name,
                "evidence": report.log_evidence / t,
                "evaluations": report.evaluations,
                "sweeps": report.sweeps / report.evaluations,
                "held_out": -float(np.mean(log_p)),
            }
            if name in curves:
                hit = int(np.flatnonzero(curves[name] >= target)[0])
                taken = [float(one[name]["seconds"][hit]) for one in runs]
                row |= {"iterations": hit + 1, "seconds": float(np.median(taken)), "all": taken}
            rows.append(row)
        parts.append((f"{kind.__name__}, to {target:.4f} nats a duel", rows))
    table = Table(
        "optimise",
        f"{t:,} duels between {n:,} items, {m} inducing inputs",
        (
            Column("way", "way", left=True),
            Column("evidence", "evidence a duel", ".4f"),
            Column("seconds", "to target, s", ".2f"),
            Column("iterations", "iterations"),
            Column("evaluations", "evaluations"),
            Column("sweeps", "sweeps each", ".1f"),
            Column("held_out", "held-out nats", ".4f"),
        ),
        parts=parts,
        caption=f"The target is what both reach, less {MARGIN:g}; medians of {repeats} in turn, "
        "without compiling. K-means held: inducing inputs that are not learned.",
    )
    return table, {"t": t, "n": n, "m": m, "margin": MARGIN, "cases": dict(parts)}


def trace(model: spg.PreferenceGP, way: str, iterations: int) -> dict[str, Any]:
    """A run: seconds after each iteration, without compiling, and parameters there."""
    seconds: list[float] = []
    values: list[list[np.ndarray]] = []
    started = time.perf_counter()

    def keep(progress: Progress) -> None:
        seconds.append(time.perf_counter() - started)
        values.append([v.numpy() for v in model.trainable_variables])

    if way == COLD:
        model.engine = ColdEP(spg.ParallelEP())
    report = spg.optimise(model, iterations, callback=keep, least_gain=None)
    # Both have compiled all they need when the first iteration ends.
    passed = np.asarray(seconds) - report.compile_seconds
    return {"seconds": passed, "values": values, "report": report, "model": model}


def evidence(model: spg.PreferenceGP, values: list[list[np.ndarray]]) -> np.ndarray:
    """Log evidence at converged sites after each iteration, nats, whatever the run had seen."""
    model.engine = spg.ParallelEP(tolerance=LOOSE_TOLERANCE)
    found = []
    for parameters in values:
        for variable, value in zip(model.trainable_variables, parameters, strict=True):
            variable.assign(value)
        found.append(model.log_evidence())
    return np.asarray(found)


if __name__ == "__main__":
    main(
        __doc__,
        lambda quick: (
            measure(500, 100, 20, 20, 1_000, 1)
            if quick
            else measure(5_000, 1_000, 100, 100, 10_000, 3)
        ),
    )
