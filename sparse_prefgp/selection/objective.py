"""Loss and gradient of a model as functions of one flat vector, with the sites they start from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparse_prefgp.covariances import Covariance
from sparse_prefgp.engines import Engine, FixedPoint, ParallelEP
from sparse_prefgp.links import Link
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.selection.lbfgs import Point
from sparse_prefgp.sites import Factors, Sites, damp

FloatArray = npt.NDArray[np.float64]
Compiled = Callable[[], tuple[tf.Tensor, tf.Tensor]]

# Enough while optimising: it costs 1e-10 in the evidence and 2e-6 in the gradient.
LOOSE_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Counts:
    """What was spent.

    evaluations: of loss and gradient. failed: of these, not finite. unconverged: inference had
    not converged though it was let. alternated: from sites that took one sweep only.
    """

    evaluations: int = 0
    failed: int = 0
    unconverged: int = 0
    alternated: int = 0
    sweeps: int = 0
    seconds: float = 0.0


class OneSweep(Engine):
    """An engine that takes the sites as the last call proposed them, and proposes the next.

    A call costs one pass over the covariance. A proposal that is not finite is not kept.
    """

    def __init__(self, engine: ParallelEP, sites: tuple[FloatArray, FloatArray]) -> None:
        self._engine = engine
        self.nu, self.tau = (tf.Variable(x, trainable=False) for x in sites)

    @property
    def tolerance(self) -> float:
        return self._engine.tolerance

    @property
    def link_function(self) -> Link:
        return self._engine.link_function

    def with_tolerance(self, tolerance: float) -> Engine:
        return OneSweep(self._engine.with_tolerance(tolerance), (self.nu.numpy(), self.tau.numpy()))

    def run(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        del sites  # those of the last evaluation, of which the proposal is one sweep ahead
        here = Sites(self.nu.read_value(), self.tau.read_value())
        found = self._engine.at(covariance, factors, here)
        ahead = damp(here, found.proposal, tf.constant(self._engine.damping, here.nu.dtype))
        good = tf.math.is_finite(found.log_z)
        for value in ahead:
            good &= tf.reduce_all(tf.math.is_finite(value))
        self.nu.assign(tf.where(good, ahead.nu, here.nu))
        self.tau.assign(tf.where(good, ahead.tau, here.tau))
        return found

    def at(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        """The state at `sites`."""
        return self._engine.at(covariance, factors, sites)


class Objective:
    """Minus log evidence and log prior density, in nats, with the gradient, as NumPy.

    Each call goes on from the sites of the last one. `alternated` chooses between inference to
    the loose tolerance and one sweep a call; the model's engine is put back by `close`.
    """

    def __init__(
        self, model: PreferenceGP, variables: list[tf.Variable], alternates: bool = False
    ) -> None:
        self.model = model
        self.alternated = False
        self._variables = variables
        self._sizes = [int(np.prod(v.shape)) for v in variables]
        self._engine = model.engine
        self._loose = model.engine.with_tolerance(max(model.engine.tolerance, LOOSE_TOLERANCE))
        self._one_sweep: OneSweep | None = None
        if alternates:
            assert isinstance(self._loose, ParallelEP)
            self._one_sweep = OneSweep(self._loose, model.sites())
        self._compiled: dict[bool, Compiled] = {}
        self.compile_seconds = 0.0
        # Of the last evaluation that failed: what was not finite, and TensorFlow's words if any.
        self.failure = self.error = ""
        self._evaluations = self._failed = self._unconverged = self._swept = 0
        self._earlier = Counts()
        self._sweeps_before = model.total_sweeps()
        self._started = time.perf_counter()

    @property
    def counts(self) -> Counts:
        before = self._earlier
        return Counts(
            before.evaluations + self._evaluations,
            before.failed + self._failed,
            before.unconverged + self._unconverged,
            before.alternated + self._swept,
            before.sweeps + self.model.total_sweeps() - self._sweeps_before,
            before.seconds + time.perf_counter() - self._started,
        )

    def go_on_from(self, counts: Counts) -> None:
        """Add what an interrupted run had spent."""
        self._earlier = counts

    def get(self) -> FloatArray:
        return np.concatenate([v.numpy().reshape(-1) for v in self._variables]).astype(float)

    def set(self, flat: FloatArray) -> None:
        pieces = np.split(flat, np.cumsum(self._sizes)[:-1])
        for variable, piece in zip(self._variables, pieces, strict=True):
            variable.assign(piece.reshape(variable.shape))

    def sites(self) -> dict[str, FloatArray]:
        """Everything the next evaluation depends on besides the parameters."""
        nu, tau = self.model.sites()
        found = {"site_nu": nu.copy(), "site_tau": tau.copy()}
        if self._one_sweep is not None:
            found["next_nu"] = self._one_sweep.nu.numpy().copy()
            found["next_tau"] = self._one_sweep.tau.numpy().copy()
        return found

    def set_sites(self, sites: dict[str, FloatArray]) -> None:
        """Go on from what `sites` gave."""
        self.model.start_from(sites["site_nu"], sites["site_tau"])
        if self._one_sweep is not None:
            self._one_sweep.nu.assign(sites["next_nu"])
            self._one_sweep.tau.assign(sites["next_tau"])

    def forget_sites(self) -> None:
        """Begin at zero."""
        zero = {name: np.zeros_like(value) for name, value in self.sites().items()}
        self.set_sites(zero)

    def settled(self) -> bool:
        """Whether inference had converged, to the loose tolerance, in the last evaluation."""
        return self.model.last_change() <= self._loose.tolerance

    def point(self, flat: FloatArray) -> Point:
        return Point(flat, *self(flat))

    def converged_point(self, flat: FloatArray) -> Point:
        """With inference to the loose tolerance, whatever the mode; one sweep a call goes on
        from its sites."""
        alternated, self.alternated = self.alternated, False
        try:
            point = self.point(flat)
        finally:
            self.alternated = alternated
        if self._one_sweep is not None and point.finite:
            nu, tau = self.model.sites()
            self._one_sweep.nu.assign(nu)
            self._one_sweep.tau.assign(tau)
        return point

    def __call__(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient at unconstrained values (p,); NaN where the evaluation failed."""
        self.set(flat)
        function = self._compiled.get(self.alternated) or self._compile()
        error = ""
        try:
            loss, gradient = (x.numpy() for x in function())
        except tf.errors.InvalidArgumentError as raised:  # some builds raise, others give NaN
            loss, gradient = np.nan, np.full(len(flat), np.nan)
            error = raised.message.strip().splitlines()[0]
        self._evaluations += 1
        self._swept += self.alternated
        if not (np.isfinite(loss) and np.all(np.isfinite(gradient))):
            self._failed += 1
            self.failure = "gradient of the log evidence" if np.isfinite(loss) else "log evidence"
            self.error = error
            return np.nan, np.full(len(flat), np.nan)
        self._unconverged += not self.alternated and not self.settled()
        return float(loss), gradient.astype(float)

    def close(self) -> None:
        self.model.engine = self._engine

    def _compile(self) -> Compiled:
        started = time.perf_counter()
        model, variables = self.model, self._variables
        # What is traced has the engine of the moment in it.
        model.engine = self._one_sweep if self.alternated and self._one_sweep else self._loose
        sites = self.sites()

        @tf.function(autograph=False)
        def loss_and_gradient() -> tuple[tf.Tensor, tf.Tensor]:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                loss = model.training_loss()
            gradients = tape.gradient(
                loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
            )
            flat = [tf.reshape(tf.convert_to_tensor(g), [-1]) for g in gradients]
            return loss, tf.concat(flat, 0)

        swept = model.total_sweeps()
        try:
            loss_and_gradient()  # tracing alone leaves part of the compiling to the first call
        except tf.errors.InvalidArgumentError:
            pass  # the evaluation that follows counts it
        # That call is in no account, and a run that is continued makes it another time.
        self.set_sites(sites)
        self._sweeps_before += model.total_sweeps() - swept
        self._compiled[self.alternated] = loss_and_gradient
        self.compile_seconds += time.perf_counter() - started
        return loss_and_gradient
