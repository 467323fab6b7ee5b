"""Joint optimisation of kernel and inducing inputs: EP's evidence against GPflow's `SVGP`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import gpflow
import numpy as np

from sparse_prefgp.approximations import VFE, Approximation, PriorPower
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.lab.benchmarks.problems import FEATURES, NOISE_VARIANCE, Problem, make_problem
from sparse_prefgp.lab.benchmarks.report import BenchmarkTable, Report
from sparse_prefgp.lab.benchmarks.svgp import (
    NaturalGradients,
    SvgpTrace,
    make_svgp,
    scorer,
    train_lbfgs,
    train_natural,
)
from sparse_prefgp.learning.optimise import LOOSE_TOLERANCE, optimise
from sparse_prefgp.models import PreferenceGP, kmeans_inputs

# A score counts as reached within this many nats: well below what held-out duels can tell apart.
MARGIN = 3e-4
# The bound that SVGP's compares with, and the approximation that often predicts best.
OURS: dict[str, Approximation] = {"VFE with EP": VFE(), "power ½ with EP": PriorPower(0.5)}
LBFGS = "SVGP, L-BFGS"
NATURAL = "SVGP, natural"
RIVALS = (LBFGS, NATURAL)
_MAX_ITERATIONS = 2000

Curve = tuple[np.ndarray, np.ndarray]  # seconds and held-out score of each snapshot


@dataclass(frozen=True)
class Case:
    """Duels, items, and whether utility and kernel are squared-exponential or Matérn-5/2.

    Both kernels are always run: how much the inducing inputs leave unexplained decides how far
    apart the bounds of the two sides are, and with it which side wins by how much.
    """

    duels: int
    items: int
    smooth: bool

    def kernel(self) -> gpflow.kernels.Kernel:
        kind = gpflow.kernels.SquaredExponential if self.smooth else gpflow.kernels.Matern52
        return kind(lengthscales=np.ones(FEATURES))

    @property
    def kernel_name(self) -> str:
        return "squared-exponential" if self.smooth else "Matérn-5/2"


def run(*, quick: bool = False, budget: float | None = None) -> Report:
    """5,000 and 20,000 duels between a fifth as many items, 100 inducing inputs, two kernels.

    :param budget: seconds of optimisation for each method on each set of duels.
    """
    if quick:
        return measure([Case(500, 100, smooth=True)], 20, 1000, budget or 5.0)
    cases = [Case(t, t // 5, smooth) for t in (5_000, 20_000) for smooth in (True, False)]
    return measure(cases, 100, 10_000, budget or 30.0)


def measure(cases: list[Case], m: int, held_out: int, budget: float) -> Report:
    """Race all methods on each case."""
    tables, figures = [], []
    for case in cases:
        problem = make_problem(case.duels, case.items, held_out, case.smooth)
        start = kmeans_inputs(problem.duels.items, m, np.random.default_rng(0))
        table, figure = _race(case, problem, start, budget)
        tables.append(table)
        figures.append(figure)
    return Report(
        "svgp", tuple(tables), {"margin_nats": MARGIN, "budget": budget, "cases": figures}
    )


def _race(
    case: Case, problem: Problem, start: np.ndarray, budget: float
) -> tuple[BenchmarkTable, dict[str, Any]]:
    t, n, m = len(problem.duels.winners), len(problem.duels.items), len(start)
    traces = {name: train_ours(case, problem, start, budget, a) for name, a in OURS.items()}
    for name in RIVALS:
        traces[name] = train_rival(case, problem, start, budget, name)
    runs = list(traces.items())
    curves = {name: curve for name, (_, curve) in runs}
    comparisons = {name: compare(curves, name) for name in OURS}
    figure: dict[str, Any] = {
        "t": t,
        "n": n,
        "kernel": case.kernel_name,
        "m": m,
        "held_out": len(problem.winners),
        "comparisons": {name: found.figures() for name, found in comparisons.items()},
        "methods": {
            name: {
                "best_nats": float(np.nanmin(curve[1])),
                "seconds": trace.total_seconds,
                "steps": trace.steps,
                "compile_seconds": trace.compile_seconds,
                "ended": trace.ended,
                "curve": [curve[0].tolist(), [x if np.isfinite(x) else None for x in curve[1]]],
            }
            for name, (trace, curve) in runs
        },
    }
    rows = tuple(
        (
            name,
            f"{np.nanmin(curve[1]):.4f}",
            f"{trace.steps:,}",
            f"{1e3 * trace.total_seconds / max(trace.steps, 1):.0f} ms",
            f"{trace.compile_seconds:.1f} s",
        )
        for name, (trace, curve) in runs
    )
    table = BenchmarkTable(
        title=f"{t:,} duels between {n:,} items, {m} inducing inputs, {case.kernel_name}",
        columns=(
            "method",
            "best held-out",
            "steps",
            "a step",
            "compiling",
        ),
        rows=rows,
        notes=(
            f"held-out: mean negative log predictive of {len(problem.winners):,} duels between "
            "new items, nats; compiling and scoring are not in the times",
            *(str(found) for found in comparisons.values()),
            f"ours: L-BFGS on the evidence; {LBFGS}: full batch; {NATURAL}: {_batches(t)}",
            *(f"{name}: {trace.total_seconds:.1f} s, {trace.ended}" for name, (trace, _) in runs),
        ),
    )
    return table, figure


@dataclass(frozen=True)
class RaceResult:
    """One of ours against the better SVGP."""

    name: str
    target: float
    """The worse of the two best scores + `MARGIN`, which both reach."""
    ours: float
    """Seconds until then."""
    rival: float
    """Seconds until then, of the SVGP that is there first."""

    @property
    def ratio(self) -> float:
        return self.rival / self.ours if self.ours > 0.0 else float("inf")

    def figures(self) -> dict[str, Any]:
        """For JSON, which has no infinity: null stands for never."""
        values = {**asdict(self), "ratio": self.ratio}
        return {
            key: None if isinstance(x, float) and not np.isfinite(x) else x
            for key, x in values.items()
        }

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.ours:.2f} s to {self.target:.4f} nats, the worse of its own and "
            f"SVGP's best score + {MARGIN:g}; the better SVGP {self.rival:.2f} s, "
            f"{self.ratio:.1f} times as long"
        )


def compare(curves: dict[str, Curve], name: str) -> RaceResult:
    """Time to the score that both the method `name` and the better SVGP reach."""
    best = {method: float(np.nanmin(scores)) for method, (_, scores) in curves.items()}
    target = max(best[name], min(best[rival] for rival in RIVALS)) + MARGIN

    def reached(method: str) -> float:
        seconds, scores = curves[method]
        hits = np.flatnonzero(scores <= target)  # NaN compares false
        return float(seconds[hits[0]]) if len(hits) else float("inf")

    return RaceResult(name, target, reached(name), min(map(reached, RIVALS)))


def train_ours(
    case: Case, problem: Problem, start: np.ndarray, budget: float, approximation: Approximation
) -> tuple[SvgpTrace, Curve]:
    """Our fit from the inducing inputs `start`, and its held-out score along the way."""
    model = PreferenceGP(
        problem.duels,
        case.kernel(),
        approximation=approximation,
        inducing_variable=start.copy(),
        noise_variance=NOISE_VARIANCE,
    )
    trace = SvgpTrace(list(model.trainable_variables), budget)
    trace.begin()
    started = time.perf_counter()
    report = optimise(
        model,
        _MAX_ITERATIONS,
        callback=lambda _: trace.keep(time.perf_counter() - started),
        least_gain=None,
    )
    trace.compile_seconds = report.compile_seconds
    trace.seconds = [max(s - report.compile_seconds, 0.0) for s in trace.seconds]
    if trace.total_seconds < budget:
        trace.ended = report.message
    trace.total_seconds -= report.compile_seconds

    # As exact as while optimising; scores of many snapshots take long enough.
    model.engine = ParallelEP(tolerance=LOOSE_TOLERANCE)

    def score() -> float:
        return -float(np.mean(model.predict_log_duel(problem.winners, problem.losers)))

    return trace, _score(trace, score)


def train_rival(
    case: Case, problem: Problem, start: np.ndarray, budget: float, name: str
) -> tuple[SvgpTrace, Curve]:
    """The same by one of `RIVALS`."""
    duels = problem.duels
    pairs = np.concatenate([duels.items[duels.winners], duels.items[duels.losers]], 1)
    model = make_svgp(case.kernel(), start, len(pairs))
    if name == LBFGS:
        trace = train_lbfgs(model, pairs, budget)
    else:
        trace = train_natural(model, pairs, budget, _batches(len(pairs)))
    return trace, _score(trace, scorer(model, problem.winners, problem.losers))


def _batches(duels: int) -> NaturalGradients:
    return NaturalGradients(batch=min(1000, max(duels // 5, 1)))


def _score(trace: SvgpTrace, score: Callable[[], float]) -> Curve:
    scores = []
    for index in range(len(trace.values)):
        trace.restore(index)
        scores.append(score())
    return np.asarray(trace.seconds), np.asarray(scores)
