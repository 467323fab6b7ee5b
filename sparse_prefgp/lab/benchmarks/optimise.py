"""Ways to optimise: from warm sites and from cold ones, learned and k-means inducing inputs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances import Covariance
from sparse_prefgp.engines import Engine, FixedPoint, ParallelEP
from sparse_prefgp.factors.links import Link
from sparse_prefgp.factors.sites import Factors, Sites
from sparse_prefgp.lab.benchmarks.problems import FEATURES, NOISE_VARIANCE, Problem, make_problem
from sparse_prefgp.lab.benchmarks.report import BenchmarkTable, Report
from sparse_prefgp.learning.objective import LOOSE_TOLERANCE
from sparse_prefgp.learning.optimise import OptimisationReport, Progress, optimise
from sparse_prefgp.models import PreferenceGP, kmeans_inputs

# An evidence counts as reached within this many nats a duel.
MARGIN = 1e-4
# The ways take turns, and the median of their times is reported.
REPEATS = 3
# EP for every gradient: from the sites of the one before, to the loose tolerance of `optimise`, or
# from zero sites to its usual tolerance.
WARM, COLD = "warm", "cold"


def run(*, quick: bool = False, budget: float | None = None) -> Report:
    """5,000 duels between 1,000 items, 100 inducing inputs, two kernels."""
    del budget  # every run has the same number of iterations
    if quick:
        return measure(500, 100, 20, iterations=20, held_out=1000, repeats=1)
    return measure(5_000, 1_000, 100, iterations=100, held_out=10_000, repeats=REPEATS)


def measure(t: int, n: int, m: int, iterations: int, held_out: int, repeats: int) -> Report:
    """Both comparisons, for a squared-exponential and a Matérn-5/2 kernel and utility."""
    tables, figures = [], []
    for smooth in (True, False):
        problem = make_problem(t, n, held_out, smooth)
        name = "squared-exponential" if smooth else "Matérn-5/2"
        start = kmeans_inputs(problem.duels.items, m, np.random.default_rng(0))
        table, figure = _case(problem, start, smooth, name, iterations, repeats)
        tables.append(table)
        figures.append({"t": t, "n": n, "m": m, "kernel": name, **figure})
    return Report("optimise", tuple(tables), {"margin_nats_per_duel": MARGIN, "cases": figures})


@dataclass(frozen=True)
class ColdEP(Engine):
    """`ParallelEP` that forgets the sites it is given, at a tolerance that nobody loosens."""

    engine: ParallelEP

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


@dataclass(frozen=True, eq=False)
class OptimiserTrace:
    """One run: seconds and parameters after each iteration, without the time for compiling."""

    seconds: np.ndarray
    values: list[list[np.ndarray]]
    report: OptimisationReport
    model: PreferenceGP


def _case(
    problem: Problem, start: np.ndarray, smooth: bool, name: str, iterations: int, repeats: int
) -> tuple[BenchmarkTable, dict[str, Any]]:
    t = len(problem.duels.winners)
    runs: dict[str, list[OptimiserTrace]] = {WARM: [], COLD: []}
    for _ in range(repeats):
        for way, traces in runs.items():
            traces.append(_trace(_model(problem, start, smooth), way, iterations))
    judge = _model(problem, start, smooth)
    # The evidence at converged sites, whatever the run itself had seen.
    curves = {way: _evidence(judge, traces[0]) / t for way, traces in runs.items()}
    target = min(float(np.max(curve)) for curve in curves.values()) - MARGIN
    hits = {way: int(np.flatnonzero(curve >= target)[0]) for way, curve in curves.items()}
    taken = {
        way: float(np.median([trace.seconds[hits[way]] for trace in traces]))
        for way, traces in runs.items()
    }
    ratio = taken[COLD] / taken[WARM]
    fixed = _model(problem, start, smooth)
    gpflow.set_trainable(fixed.inducing_variable, False)
    fixed_report = optimise(fixed, iterations, least_gain=None)
    warm = runs[WARM][0]
    rows, methods = [], {}
    for way, traces in runs.items():
        report = traces[0].report
        rows.append(
            (
                way,
                f"{report.log_evidence / t:.4f}",
                f"{taken[way]:.2f} s",
                f"{hits[way] + 1}",
                f"{report.evaluations}",
                f"{report.sweeps / report.evaluations:.1f}",
            )
        )
        methods[way] = {
            "log_evidence_per_duel": report.log_evidence / t,
            "seconds_to_target": taken[way],
            "iterations_to_target": hits[way] + 1,
            "iterations": report.iterations,
            "evaluations": report.evaluations,
            "sweeps": report.sweeps,
            "all_seconds_to_target": [float(x.seconds[hits[way]]) for x in traces],
        }
    places = {
        "k-means": (fixed, fixed_report),
        "learned": (warm.model, warm.report),
    }
    scores = {key: _held_out(model, problem) for key, (model, _) in places.items()}
    notes = [
        f"to {target:.4f} nats a duel, which both reach: from warm sites it takes 1/{ratio:.2f} of "
        "the time where inference starts from zero for every gradient "
        f"(medians of {repeats}, in turn, without compiling)",
        *(
            f"inducing inputs {key}: evidence {report.log_evidence / t:.4f} nats a duel, held-out "
            f"negative log predictive {scores[key]:.4f}"
            for key, (_, report) in places.items()
        ),
    ]
    table = BenchmarkTable(
        title=f"{t:,} duels between {len(problem.duels.items):,} items, {len(start)} inducing "
        f"inputs, {name}",
        columns=(
            "way",
            "evidence a duel",
            "to target",
            "iterations",
            "evaluations",
            "sweeps each",
        ),
        rows=tuple(rows),
        notes=tuple(notes),
    )
    return table, {
        "target": target,
        "cold_over_warm": ratio,
        "ways": methods,
        "inducing": {
            key: {
                "log_evidence_per_duel": report.log_evidence / t,
                "held_out_nats": scores[key],
                "iterations": report.iterations,
            }
            for key, (_, report) in places.items()
        },
    }


def _model(problem: Problem, start: np.ndarray, smooth: bool) -> PreferenceGP:
    kind = gpflow.kernels.SquaredExponential if smooth else gpflow.kernels.Matern52
    return PreferenceGP(
        problem.duels,
        kind(lengthscales=np.ones(FEATURES)),
        inducing_variable=start.copy(),
        noise_variance=NOISE_VARIANCE,
    )


def _trace(model: PreferenceGP, way: str, iterations: int) -> OptimiserTrace:
    seconds: list[float] = []
    values: list[list[np.ndarray]] = []
    started = time.perf_counter()

    def keep(progress: Progress) -> None:
        seconds.append(time.perf_counter() - started)
        values.append([v.numpy() for v in model.trainable_variables])

    if way == COLD:
        model.engine = ColdEP(ParallelEP())
    report = optimise(model, iterations, callback=keep, least_gain=None)
    # Both have compiled all they need when the first iteration ends.
    return OptimiserTrace(np.asarray(seconds) - report.compile_seconds, values, report, model)


def _evidence(model: PreferenceGP, trace: OptimiserTrace) -> np.ndarray:
    """Log evidence at converged sites after each iteration, nats."""
    model.engine = ParallelEP(tolerance=LOOSE_TOLERANCE)
    found = []
    for values in trace.values:
        for variable, value in zip(model.trainable_variables, values, strict=True):
            variable.assign(value)
        found.append(model.log_evidence())
    return np.asarray(found)


def _held_out(model: PreferenceGP, problem: Problem) -> float:
    return -float(np.mean(model.predict_log_duel(problem.winners, problem.losers)))
