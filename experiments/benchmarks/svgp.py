"""Joint optimisation of kernel and inducing inputs: EP's evidence against GPflow's `SVGP`.

python -m experiments.benchmarks.svgp

In `SVGP` the latent function is g = f(winner) - f(loser), with inducing values u = f(Z) among the
utilities, so that kernel, Z and factors are those of `PreferenceGP` with `VFE`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

import sparse_prefgp as spg
from experiments.benchmarks.shared import (
    FEATURES,
    NOISE_VARIANCE,
    Measured,
    Problem,
    main,
    make_problem,
)
from sparse_prefgp.gpflow import DuelKernel, DuelLikelihood, ItemInducingPoints
from sparse_prefgp.learning.objective import LOOSE_TOLERANCE
from sparse_prefgp.tell.tables import Column, Table

# A score counts as reached within this many nats: well below what held-out duels can tell apart.
MARGIN = 3e-4
# The bound that SVGP's compares with, and the approximation that often predicts best.
OURS = {"VFE with EP": spg.VFE(), "power ½ with EP": spg.PriorPower(0.5)}
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


CASES = [Case(t, t // 5, smooth) for t in (5_000, 20_000) for smooth in (True, False)]
QUICK = [Case(500, 100, smooth=True)]


def measure(cases: list[Case], m: int, held_out: int, budget: float) -> Measured:
    """Race all methods on each case, `budget` seconds each."""
    parts, figures = [], []
    for case in cases:
        problem = make_problem(case.duels, case.items, held_out, case.smooth)
        start = spg.kmeans_inputs(problem.duels.items, m, np.random.default_rng(0))
        runs = {name: train_ours(case, problem, start, budget, a) for name, a in OURS.items()}
        runs |= {name: train_rival(case, problem, start, budget, name) for name in RIVALS}
        curves = {name: curve for name, (_, curve) in runs.items()}
        rows = [
            {
                "method": name,
                "best": float(np.nanmin(scores)),
                "seconds": trace.total_seconds,
                "steps": trace.steps,
                "compile_seconds": trace.compile_seconds,
                "ended": trace.ended,
                **(reached(curves, name) if name in OURS else {}),
            }
            for name, (trace, (_, scores)) in runs.items()
        ]
        kernel = type(case.kernel()).__name__
        parts.append((f"{case.duels:,} duels between {case.items:,} items, {kernel}", rows))
        figures.append({"t": case.duels, "n": case.items, "kernel": kernel, "methods": rows})
    table = Table(
        "svgp",
        f"Against GPflow's SVGP, {m} inducing inputs, {budget:g} s each",
        (
            Column("method", "method", left=True),
            Column("best", "best held-out", ".4f"),
            Column("steps", "steps", ",d"),
            Column("compile_seconds", "compiling, s", ".1f"),
            Column("ours", "to target, s", ".2f"),
            Column("rival", "SVGP, s", ".2f"),
            Column("ended", "ended", left=True),
        ),
        parts=parts,
        caption=f"Held-out: mean negative log predictive of {held_out:,} duels between new items, "
        "nats; compiling and scoring are not in the times. The target is the worse of a method's "
        f"and the better SVGP's best score + {MARGIN:g}. Ours: L-BFGS on the evidence; {LBFGS}: "
        f"full batch; {NATURAL}: natural gradients + Adam in batches.",
    )
    return table, {"m": m, "margin_nats": MARGIN, "budget": budget, "cases": figures}


def reached(curves: dict[str, Curve], name: str) -> dict[str, float | None]:
    """Seconds to the score that both the method `name` and the better SVGP reach, of both."""
    best = {method: float(np.nanmin(scores)) for method, (_, scores) in curves.items()}
    target = max(best[name], min(best[rival] for rival in RIVALS)) + MARGIN

    def first(method: str) -> float:
        seconds, scores = curves[method]
        hits = np.flatnonzero(scores <= target)  # NaN compares false
        return float(seconds[hits[0]]) if len(hits) else np.inf

    found = {"ours": first(name), "rival": min(map(first, RIVALS))}
    return {"target": target, **{who: x if np.isfinite(x) else None for who, x in found.items()}}


def train_ours(
    case: Case, problem: Problem, start: np.ndarray, budget: float, approximation: Any
) -> tuple[SvgpTrace, Curve]:
    """Our fit from the inducing inputs `start`, and its held-out score along the way."""
    model = spg.PreferenceGP(
        problem.duels,
        case.kernel(),
        approximation=approximation,
        inducing_variable=start.copy(),
        noise_variance=NOISE_VARIANCE,
    )
    trace = SvgpTrace(list(model.trainable_variables), budget)
    trace.begin()
    started = time.perf_counter()
    report = spg.optimise(
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
    model.engine = spg.ParallelEP(tolerance=LOOSE_TOLERANCE)

    def score() -> float:
        return -float(np.mean(np.log(model.predict_duel(problem.winners, problem.losers))))

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
        trace = train_natural(model, pairs, budget)
    return trace, _score(trace, scorer(model, problem.winners, problem.losers))


def _score(trace: SvgpTrace, score: Callable[[], float]) -> Curve:
    scores = []
    for index in range(len(trace.values)):
        trace.restore(index)
        scores.append(score())
    return np.asarray(trace.seconds), np.asarray(scores)


class GaussHermiteLikelihood(DuelLikelihood):
    """`DuelLikelihood` with expectations as GPflow takes them, on 20 nodes of Gauss–Hermite.

    They cost less than exact ones and are good enough where the noise is not small.
    """

    def _variational_expectations(
        self, X: Any, Fmu: tf.Tensor, Fvar: tf.Tensor, Y: tf.Tensor
    ) -> tf.Tensor:
        plain = gpflow.likelihoods.ScalarLikelihood._variational_expectations
        return plain(self, X, Fmu, Fvar, Y)


def make_svgp(
    kernel: gpflow.kernels.Kernel, inducing: np.ndarray, num_data: int
) -> gpflow.models.SVGP:
    """Whitened, with a full covariance of the inducing values."""
    return gpflow.models.SVGP(
        DuelKernel(kernel),
        GaussHermiteLikelihood(NOISE_VARIANCE),
        ItemInducingPoints(inducing.copy()),
        num_data=num_data,
        whiten=True,
    )


@dataclass
class SvgpTrace:
    """Where an optimiser was, and when, by a clock that excludes compilation.

    Values are copied at most once in 0.05 s and in 3 % of the time so far, which costs nothing next
    to a step; they are scored when the clock has stopped.
    """

    variables: list[tf.Variable]
    budget: float
    seconds: list[float] = field(default_factory=list)
    values: list[list[np.ndarray]] = field(default_factory=list)
    compile_seconds: float = 0.0
    steps: int = 0
    ended: str = "time used up"
    total_seconds: float = 0.0
    _next: float = 0.0

    def begin(self) -> None:
        """The starting point, at time 0."""
        self._copy(0.0)

    def keep(self, now: float) -> None:
        """Copy the variables if it is time to.

        :raises StopIteration: the budget is used up, which SciPy's optimisers understand.
        """
        self.steps += 1
        self.total_seconds = now
        over = now >= self.budget
        if now >= self._next or over:
            self._copy(now)
            self._next = now + max(0.05, 0.03 * now)
        if over:
            raise StopIteration

    def _copy(self, now: float) -> None:
        self.seconds.append(now)
        self.values.append([v.numpy() for v in self.variables])

    def restore(self, index: int) -> None:
        for variable, value in zip(self.variables, self.values[index], strict=True):
            variable.assign(value)


def train_lbfgs(model: gpflow.models.SVGP, pairs: np.ndarray, budget: float) -> SvgpTrace:
    """Everything at once by full-batch L-BFGS."""
    data = _data(pairs)
    variables = tuple(model.trainable_variables)
    loss = model.training_loss_closure(data, compile=False)
    optimiser = gpflow.optimizers.Scipy()
    trace = SvgpTrace(list(variables), budget)
    trace.begin()

    started = time.perf_counter()
    # Compiled functions are cached by closure and variables, so the second call finds this one.
    optimiser.minimize(loss, variables, options={"maxiter": 0})
    trace.compile_seconds = time.perf_counter() - started

    started = time.perf_counter()
    result = optimiser.minimize(
        loss,
        variables,
        step_callback=lambda *_: trace.keep(time.perf_counter() - started),
        options={"maxiter": 100_000, "maxfun": 1_000_000},
    )
    if trace.total_seconds < budget:
        trace.ended = f"converged: {result.message}"
    return trace


# Lengths of natural steps: a log-linear ramp, over so many.
_FIRST_STEP, _STEP, _RAMP = 1e-3, 0.1, 20
# Of Adam, on unconstrained hyperparameters and Z.
_LEARNING_RATE = 0.01


def train_natural(model: gpflow.models.SVGP, pairs: np.ndarray, budget: float) -> SvgpTrace:
    """Natural gradients on q(u), Adam on kernel and Z, in turns, on mini-batches."""
    t = len(pairs)
    everything, batch = _data(pairs), min(1000, max(t // 5, 1))
    gamma = tf.Variable(_FIRST_STEP, dtype=gpflow.default_float(), trainable=False)
    natural = gpflow.optimizers.NaturalGradient(gamma=gamma)
    adam = tf.keras.optimizers.Adam(_LEARNING_RATE)
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    trace = SvgpTrace(list(model.variables), budget)
    trace.begin()

    @tf.function(autograph=False)
    def step() -> None:
        rows = tf.random.uniform([batch], 0, t, tf.int32)
        data = tuple(tf.gather(x, rows) for x in everything)
        loss = model.training_loss_closure(data, compile=False)
        variables = model.trainable_variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            value = loss()
        adam.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])

    adam.build(model.trainable_variables)
    tf.random.set_seed(0)
    adam_before = [v.numpy() for v in adam.variables]
    started = time.perf_counter()
    step()
    trace.compile_seconds = time.perf_counter() - started
    trace.restore(0)
    for variable, value in zip(adam.variables, adam_before, strict=True):
        variable.assign(value)

    started = time.perf_counter()
    try:
        while True:
            share = min(trace.steps / _RAMP, 1.0)
            gamma.assign(_FIRST_STEP * (_STEP / _FIRST_STEP) ** share)
            step()
            trace.keep(time.perf_counter() - started)
    except StopIteration:
        pass
    return trace


def scorer(
    model: gpflow.models.SVGP, winners: np.ndarray, losers: np.ndarray
) -> Callable[[], float]:
    """A function that gives the mean negative log predictive of held-out duels, in nats."""
    data = _data(np.concatenate([winners, losers], 1))

    @tf.function(autograph=False)
    def score() -> tf.Tensor:
        return -tf.reduce_mean(model.predict_log_density(data))

    return lambda: float(score())


def _data(pairs: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
    dtype = gpflow.default_float()
    # GPflow wants a Y; the winner comes first in a pair, so it says nothing.
    return tf.constant(pairs, dtype), tf.ones([len(pairs), 1], dtype)


if __name__ == "__main__":
    main(
        __doc__,
        lambda quick: (
            measure(QUICK, 20, 1_000, 5.0) if quick else measure(CASES, 100, 10_000, 30.0)
        ),
    )
