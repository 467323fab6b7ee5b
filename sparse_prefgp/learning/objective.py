"""Loss and gradient of a model as functions of one flat vector: in memory, or from chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import compress

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelProblem
from sparse_prefgp.covariances.finite import feature_part
from sparse_prefgp.covariances.item_in_time import time_term
from sparse_prefgp.covariances.kernels import as_float, between_inducing
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.base import Traced
from sparse_prefgp.models.parameters import (
    assign_flat,
    flat_gradient,
    flat_values,
    leaves_of,
    pieces_of,
    with_leaves,
)
from sparse_prefgp.models.streaming import StreamedGP
from sparse_prefgp.models.streaming.inference import StreamProgress
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.linalg import MAX_CONDITION, cholesky_with_jitter

# Loss, gradient and log prior density.
Compiled = Callable[[], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]

# Enough while optimising: it costs 1e-10 in the evidence and 2e-6 in the gradient.
LOOSE_TOLERANCE = 1e-4
# Where utilities move in time, whose sweeps are dear: it costs a fifth of them less, and football
# ends within .003 nats of where it does with the other.
LOOSE_IN_TIME = 1e-3
# What helps where nothing is known to be wrong.
REMEDIES = (
    "raise the noise variance (--noise-variance), which is as good as lowering the kernel's, take "
    "fewer inducing inputs (--inducing), or another kernel"
)
# Above this many times the noise, the variance of a difference has too few digits left.
_LARGEST_RATIO = 1e12


@dataclass(frozen=True)
class EvaluationCounts:
    """What was spent."""

    evaluations: int = 0
    """Evaluations of loss and gradient."""
    failed: int = 0
    """Evaluations that were not finite."""
    unconverged: int = 0
    """Evaluations at which inference had not converged."""
    sweeps: int = 0
    """Sweeps of inference in memory; 0 for chunks."""
    seconds: float = 0.0


class Objective:
    """Minus log evidence and log prior density, in nats, of one flat vector of parameters (p,), and
    what evaluations of it have cost."""

    failure = "gradient of the log evidence"
    """What was not finite at the last evaluation that failed."""

    def __init__(self, model: PreferenceGP | StreamedGP, variables: list[tf.Variable]) -> None:
        self._variables = variables
        self._density = model.log_prior_density
        # Parameters that were evaluated last, and their log prior density.
        self._last: tuple[FloatArray, float] | None = None
        self._evaluations = self._failed = self._unconverged = 0
        self._earlier = EvaluationCounts()
        self._started = time.perf_counter()

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient; NaN where the evaluation failed. The model has the parameters."""
        raise NotImplementedError

    def get(self) -> FloatArray:
        return flat_values(self._variables).astype(float)

    def set(self, flat: FloatArray) -> None:
        assign_flat(flat, self._variables)

    def of_variables(self, flat: FloatArray) -> Iterator[tuple[tf.Variable, FloatArray]]:
        """Each variable, and what a vector (p,) has for it."""
        return zip(self._variables, pieces_of(flat, self._variables), strict=True)

    def log_prior(self) -> float:
        """Log prior density of the parameters as they are."""
        if self._last is not None and np.array_equal(self._last[0], self.get()):
            return self._last[1]
        return float(self._density())

    @property
    def counts(self) -> EvaluationCounts:
        before = self._earlier
        return EvaluationCounts(
            before.evaluations + self._evaluations,
            before.failed + self._failed,
            before.unconverged + self._unconverged,
            before.sweeps + self._sweeps(),
            before.seconds + time.perf_counter() - self._started,
        )

    def count_from(self, counts: EvaluationCounts) -> None:
        """Add what an interrupted run had spent."""
        self._earlier = counts

    def close(self) -> None:
        """Leave the model as it would be without."""

    def _sweeps(self) -> int:
        return 0


class InChunks(Objective):
    """Of all duels of a `StreamedGP`, with the exact gradient, chunk by chunk.

    Before it is used the evidence is known to be finite at the first parameters.
    """

    def __init__(
        self, model: StreamedGP, progress: Callable[[StreamProgress], None] | None = None
    ) -> None:
        super().__init__(model, list(model.trainable_variables))
        self._model, self._progress = model, progress

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        self.set(flat)
        self._evaluations += 1
        tolerance = max(self._model.engine.tolerance, LOOSE_TOLERANCE)
        try:
            value, found = self._model.evidence_and_gradient(tolerance, self._progress)
        except tf.errors.InvalidArgumentError:  # some builds raise where others give NaN
            value, found = np.nan, []
        if np.isfinite(value):
            density, slope = self._prior()
            self._last = self.get(), density
            gradient = np.concatenate([g.reshape(-1) for g in found]) + slope
            if np.all(np.isfinite(gradient)):
                return -value - density, -gradient
        self._failed += 1
        return np.nan, np.full(len(flat), np.nan)

    def _prior(self) -> tuple[float, FloatArray]:
        """Log prior density in nats, with its gradient."""
        with tf.GradientTape() as tape:
            density = self._density()
        return float(density), flat_gradient(tape, density, self._variables).numpy()


class InMemory(Objective):
    """Of a `PreferenceGP`; each call starts from the sites of the last one.

    Inference is to a loose tolerance; the model's engine is put back by `close`.
    """

    def __init__(self, model: PreferenceGP, variables: list[tf.Variable]) -> None:
        super().__init__(model, variables)
        self.model = model
        self._engine = model.engine
        enough = LOOSE_TOLERANCE if time_term(model.kernel) is None else LOOSE_IN_TIME
        self._loose = model.engine.with_tolerance(max(model.engine.tolerance, enough))
        self._compiled: Compiled | None = None
        self.compile_seconds = 0.0
        # Of the last evaluation that failed: TensorFlow's words, if any.
        self.error = ""
        self._sweeps_before = model.inference.total_sweeps

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        self.set(flat)
        function = self._compiled or self._compile()
        error = ""
        try:
            loss, gradient, density = (x.numpy() for x in function())
            self._last = self.get(), float(density)
        except tf.errors.InvalidArgumentError as raised:  # some builds raise, others give NaN
            loss, gradient = np.nan, np.full(len(flat), np.nan)
            error = raised.message.strip().splitlines()[0]
        self._evaluations += 1
        if not (np.isfinite(loss) and np.all(np.isfinite(gradient))):
            self._failed += 1
            self.failure = "gradient of the log evidence" if np.isfinite(loss) else "log evidence"
            self.error = error
            return np.nan, np.full(len(flat), np.nan)
        self._unconverged += self.model.inference.last_change > self._loose.tolerance
        return float(loss), gradient.astype(float)

    def close(self) -> None:
        self.model.engine = self._engine

    def _sweeps(self) -> int:
        return self.model.inference.total_sweeps - self._sweeps_before

    def _compile(self) -> Compiled:
        """Loss and gradient in three parts, of which the second has all that is large.

        Transforms and priors stay out of that: TensorFlow Probability remembers what it has
        transformed for ever, and with it the graph that it is part of.
        """
        started = time.perf_counter()
        model, variables, leaves = self.model, self._variables, leaves_of(self.model)
        trainable = [leaf.trainable for leaf in leaves]
        model.engine = self._loose  # what is traced has the engine of the moment in it
        key = [*map(id, leaves), *trainable, repr(self._loose), id(model.graph)]
        if model.traced.key == key:  # of the fit whose hyperparameters are integrated out
            self._compiled = model.traced.function
            return self._compiled

        @tf.function(autograph=False)
        def parameters() -> list[tf.Tensor]:
            return list(map(tf.convert_to_tensor, leaves))

        @tf.function(autograph=False)
        def loss_and_slopes(values: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
            learned = list(compress(values, trainable))
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(learned)
                loss = with_leaves(model, values).training_loss()
            zero = tf.UnconnectedGradients.ZERO
            return loss, tape.gradient(loss, learned, unconnected_gradients=zero)

        @tf.function(autograph=False)
        def in_variables(
            loss: tf.Tensor, slopes: list[tf.Tensor]
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                learned = list(map(tf.convert_to_tensor, compress(leaves, trainable)))
                density = self._density()
            upstream = [*slopes, -tf.ones_like(density)]
            gradient = flat_gradient(tape, [*learned, density], variables, upstream)
            return loss - density, gradient, density

        # Each is of one signature: TensorFlow would warn of many models in one process, as if one
        # function were traced again and again.
        first = parameters.get_concrete_function()
        second = loss_and_slopes.get_concrete_function(first())
        third = in_variables.get_concrete_function(*second.structured_outputs)

        def loss_and_gradient() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            return third(*second(first()))

        self._compiled = loss_and_gradient
        model.traced = Traced(key, loss_and_gradient)
        self.compile_seconds += time.perf_counter() - started
        return loss_and_gradient


def cause_and_remedies(problem: DuelProblem) -> str:
    """Why a log evidence is not finite, and what can be set to make it so: the end of a sentence
    without its stop."""
    rows = as_float(problem.graph.rows)
    variance = problem.kernel(rows, full_cov=False).numpy()
    if not np.all(np.isfinite(variance)):
        return (
            f"the kernel is not finite on the items, whose features reach "
            f"{np.max(np.abs(rows)):.3g}: standardise them, or take another kernel or smaller "
            "parameters"
        )
    if problem.mean_function is not None:
        mean = tf.convert_to_tensor(problem.mean_function(rows)).numpy()
        if not np.all(np.isfinite(mean)):
            return "the mean function is not finite on the items: change it, or leave it out"
    noise = problem.noise.numpy()
    if not np.max(variance) <= _LARGEST_RATIO * np.min(noise):
        return (
            f"the kernel's variance is {np.max(variance):.2g} and the noise of a duel "
            f"{np.min(noise):.2g}: raise the noise variance (--noise-variance), or lower the "
            "kernel's"
        )
    if problem.inducing_variable is not None:
        k_uu = between_inducing(problem.inducing_variable, feature_part(problem.kernel))
        if not np.all(np.isfinite(cholesky_with_jitter(k_uu, MAX_CONDITION)[0].numpy())):
            return (
                "the kernel matrix of the inducing inputs is not positive definite: take fewer "
                "(--inducing), remove those that nearly coincide, or take another kernel"
            )
    return REMEDIES
