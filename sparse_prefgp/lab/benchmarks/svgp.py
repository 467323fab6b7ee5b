"""GPflow's own `SVGP` on duels: the kernel, the likelihood and the two ways to train it.

The latent function is g = f(winner) - f(loser), with inducing values u = f(Z) among the utilities,
so that kernel, Z and factors are those of `PreferenceGP` with `VFE`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from sparse_prefgp.covariances.kernels import pair_difference_variance
from sparse_prefgp.factors.truncated_normal import log_cdf
from sparse_prefgp.lab.benchmarks.problems import NOISE_VARIANCE

_SQRT2 = float(np.sqrt(2.0))
_SQRT_2_OVER_PI = float(np.sqrt(2.0 / np.pi))


class DifferenceKernel(gpflow.kernels.Kernel):
    """Covariance of f(winner) - f(loser) for f with the kernel `base`.

    Its inputs are (t, 2 D): the features of the winner, then those of the loser.
    """

    def __init__(self, base: gpflow.kernels.Kernel) -> None:
        super().__init__()
        self.base = base

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        won, lost = _ends(X)
        won2, lost2 = (won, lost) if X2 is None else _ends(X2)
        k = self.base
        return k(won, won2) + k(lost, lost2) - k(won, lost2) - k(lost, won2)

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return pair_difference_variance(self.base, *_ends(X))


def _ends(pairs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    winners, losers = tf.split(pairs, 2, axis=-1)
    return winners, losers


@gpflow.covariances.Kuu.register(gpflow.inducing_variables.InducingPoints, DifferenceKernel)
def _kuu(
    inducing: gpflow.inducing_variables.InducingPoints,
    kernel: DifferenceKernel,
    *,
    jitter: float = 0.0,
) -> tf.Tensor:
    return gpflow.covariances.Kuu(inducing, kernel.base, jitter=jitter)


@gpflow.covariances.Kuf.register(
    gpflow.inducing_variables.InducingPoints, DifferenceKernel, gpflow.base.TensorLike
)
def _kuf(
    inducing: gpflow.inducing_variables.InducingPoints, kernel: DifferenceKernel, pairs: tf.Tensor
) -> tf.Tensor:
    winners, losers = _ends(pairs)
    return kernel.base(inducing.Z, winners) - kernel.base(inducing.Z, losers)


@tf.custom_gradient
def log_normal_cdf(b: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """log Phi with a slope that holds in the tail. Its second derivative is not defined."""

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        return upstream * _SQRT_2_OVER_PI / tfp.math.erfcx(-b / _SQRT2)

    return log_cdf(b), gradient


class DuelLikelihood(gpflow.likelihoods.ScalarLikelihood):
    """P(winner wins | g) = Phi(g / sqrt(2 sigma²)), exact, with Gauss–Hermite expectations.

    GPflow's `Bernoulli` is 0.998 Phi + 0.001, another model. Y is not used.
    """

    def __init__(self, noise_variance: float) -> None:
        super().__init__()
        self._scale = float(np.sqrt(2.0 * noise_variance))

    def _scalar_log_prob(self, X: tf.Tensor, F: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        del X, Y
        return log_normal_cdf(F / self._scale)

    def _conditional_mean(self, X: tf.Tensor, F: tf.Tensor) -> tf.Tensor:
        del X
        return tf.exp(log_normal_cdf(F / self._scale))

    def _conditional_variance(self, X: tf.Tensor, F: tf.Tensor) -> tf.Tensor:
        p = self._conditional_mean(X, F)
        return p * (1.0 - p)


def make_svgp(
    kernel: gpflow.kernels.Kernel, inducing: np.ndarray, num_data: int
) -> gpflow.models.SVGP:
    """Whitened, with a full covariance of the inducing values."""
    return gpflow.models.SVGP(
        DifferenceKernel(kernel),
        DuelLikelihood(NOISE_VARIANCE),
        gpflow.inducing_variables.InducingPoints(inducing.copy()),
        num_data=num_data,
        whiten=True,
    )


@dataclass
class Trace:
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


def train_lbfgs(model: gpflow.models.SVGP, pairs: np.ndarray, budget: float) -> Trace:
    """Everything at once by full-batch L-BFGS."""
    data = _data(pairs)
    variables = tuple(model.trainable_variables)
    loss = model.training_loss_closure(data, compile=False)
    optimiser = gpflow.optimizers.Scipy()
    trace = Trace(list(variables), budget)
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
) -> Trace:
    """Natural gradients on q(u), Adam on kernel and Z, in turns."""
    t = len(pairs)
    everything = _data(pairs)
    batch = None if settings.batch is None or settings.batch >= t else settings.batch
    gamma = tf.Variable(1e-3, dtype=gpflow.default_float(), trainable=False)
    natural = gpflow.optimizers.NaturalGradient(gamma=gamma)
    adam = tf.keras.optimizers.Adam(settings.rate)
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    trace = Trace(list(model.variables), budget)
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
