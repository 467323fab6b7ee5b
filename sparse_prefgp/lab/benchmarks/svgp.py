"""GPflow's own `SVGP` on duels, and the two ways to train it.

The latent function is g = f(winner) - f(loser), with inducing values u = f(Z) among the utilities,
so that kernel, Z and factors are those of `PreferenceGP` with `VFE`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.factors.truncated_normal import log_cdf
from sparse_prefgp.gpflow_blocks import DuelKernel, DuelLikelihood, ItemInducingPoints
from sparse_prefgp.lab.benchmarks.problems import NOISE_VARIANCE


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


@dataclass(frozen=True)
class NaturalGradients:
    """Settings of natural gradients with Adam."""

    batch: int | None = 1000
    """Duels in a mini-batch, None for all."""
    gamma: float = 0.1
    """Length of a natural step, reached by a log-linear ramp from 1e-3 over `ramp` steps."""
    ramp: int = 20
    rate: float = 0.01
    """Learning rate of Adam, on unconstrained hyperparameters and Z."""

    def __str__(self) -> str:
        batch = "full batch" if self.batch is None else f"batches of {self.batch:,}"
        return f"natural gradients ({self.gamma:g}) + Adam ({self.rate:g}), {batch}"


def train_natural(
    model: gpflow.models.SVGP, pairs: np.ndarray, budget: float, settings: NaturalGradients
) -> SvgpTrace:
    """Natural gradients on q(u), Adam on kernel and Z, in turns."""
    t = len(pairs)
    everything = _data(pairs)
    batch = None if settings.batch is None or settings.batch >= t else settings.batch
    gamma = tf.Variable(1e-3, dtype=gpflow.default_float(), trainable=False)
    natural = gpflow.optimizers.NaturalGradient(gamma=gamma)
    adam = tf.keras.optimizers.Adam(settings.rate)
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    trace = SvgpTrace(list(model.variables), budget)
    trace.begin()

    @tf.function(autograph=False)
    def step() -> None:
        data = everything
        if batch is not None:
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
            share = min(trace.steps / max(settings.ramp, 1), 1.0)
            gamma.assign(1e-3 * (settings.gamma / 1e-3) ** share)
            step()
            trace.keep(time.perf_counter() - started)
    except StopIteration:
        pass
    return trace


def scorer(
    model: gpflow.models.SVGP, winners: np.ndarray, losers: np.ndarray
) -> Callable[[], float]:
    """A function that gives the mean negative log predictive of held-out duels, in nats."""
    pairs = tf.constant(np.concatenate([winners, losers], 1), gpflow.default_float())

    @tf.function(autograph=False)
    def score() -> tf.Tensor:
        mean, variance = model.predict_f(pairs)
        return -tf.reduce_mean(log_cdf(mean / tf.sqrt(variance + 2.0 * NOISE_VARIANCE)))

    return lambda: float(score())


def _data(pairs: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
    dtype = gpflow.default_float()
    # GPflow wants a Y; the winner comes first in a pair, so it says nothing.
    return tf.constant(pairs, dtype), tf.ones([len(pairs), 1], dtype)
