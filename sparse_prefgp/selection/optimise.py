"""Joint optimisation of hyperparameters and inducing inputs by L-BFGS on the evidence."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import gpflow
import numpy as np
import scipy.optimize
import tensorflow as tf

from sparse_prefgp.engines import InferenceResult
from sparse_prefgp.models import PreferenceGP

# Enough while optimising: it costs 1e-10 in the evidence and 2e-6 in the gradient.
LOOSE_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Progress:
    """After each iteration: what a progress bar shows.

    log_evidence in nats, without log prior density; gradient_norm: the largest component, in
    unconstrained units; sweeps so far; seconds since the start.
    """

    iteration: int
    max_iterations: int
    log_evidence: float
    gradient_norm: float
    sweeps: int
    seconds: float


@dataclass(frozen=True)
class OptimisationReport:
    """What `optimise` did.

    log_evidence_start, log_evidence: in nats, at the first and the last parameters, the last from
    a tight run of inference from cold sites; log_prior_start, log_prior: log prior density of the
    parameters at both, which is maximised too.
    failed_evaluations: not finite, backed off from. unconverged_evaluations: inference had not
    converged, though the value was finite. message: why the optimiser stopped.
    inference: of the last run. history: log evidence after each iteration.
    """

    iterations: int
    evaluations: int
    failed_evaluations: int
    unconverged_evaluations: int
    sweeps: int
    log_evidence_start: float
    log_evidence: float
    log_prior_start: float
    log_prior: float
    converged: bool
    message: str
    seconds: float
    compile_seconds: float
    inference: InferenceResult
    history: tuple[float, ...]

    def __str__(self) -> str:
        text = (
            f"log evidence {self.log_evidence_start:.3f} -> {self.log_evidence:.3f} nats in "
            f"{self.iterations} iterations ({self.evaluations} evaluations, {self.sweeps} sweeps, "
            f"{self.seconds:.1f} s); {self.message}"
        )
        if self.failed_evaluations:
            text += f"; {self.failed_evaluations} failed evaluations were backed off from"
        if self.unconverged_evaluations:
            text += f"; inference had not converged in {self.unconverged_evaluations} evaluations"
        if not self.inference.converged:
            text += f"; the last inference: {self.inference}"
        return text


class _Objective:
    """Loss and gradient as NumPy, on one flat vector of unconstrained values."""

    def __init__(self, model: PreferenceGP, variables: list[tf.Variable]) -> None:
        self._model = model
        self._variables = variables
        self._sizes = [int(np.prod(v.shape)) for v in variables]
        self.evaluations = self.failed = self.unconverged = 0
        self.compile_seconds = 0.0
        self._good: tuple[float, np.ndarray] | None = None

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

        self._loss_and_gradient = loss_and_gradient

    def get(self) -> np.ndarray:
        return np.concatenate([v.numpy().reshape(-1) for v in self._variables]).astype(float)

    def set(self, flat: np.ndarray) -> None:
        pieces = np.split(flat, np.cumsum(self._sizes)[:-1])
        for variable, piece in zip(self._variables, pieces, strict=True):
            variable.assign(piece.reshape(variable.shape))

    def best(self) -> np.ndarray:
        """The parameters with the lowest loss seen."""
        assert self._good is not None
        return self._good[1]

    def compile(self) -> None:
        started = time.perf_counter()
        self._loss_and_gradient()  # tracing alone leaves part of the compiling to the first call
        self.compile_seconds = time.perf_counter() - started

    def __call__(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        self.set(flat)
        loss, gradient = (x.numpy() for x in self._loss_and_gradient())
        self.evaluations += 1
        if np.isfinite(loss) and np.all(np.isfinite(gradient)):
            model = self._model
            self.unconverged += model.last_change() > model.engine.tolerance
            if self._good is None or loss < self._good[0]:
                self._good = (float(loss), flat.copy())
            return float(loss), gradient.astype(float)
        self.failed += 1
        if self._good is None:
            raise ValueError(
                "The log evidence is not finite at the starting parameters; lower the kernel "
                "variance, raise the noise variance, or remove inducing inputs that nearly "
                "coincide."
            )
        # A wall that rises away from the best point so far: the line search backs off.
        best, where = self._good
        step = flat - where
        height = 10.0 * (1.0 + abs(best))
        return best + height, height * step / max(float(step @ step), 1e-300)


def optimise(
    model: PreferenceGP,
    max_iterations: int = 200,
    *,
    free_scale: bool = False,
    callback: Callable[[Progress], None] | None = None,
) -> OptimisationReport:
    """Maximise log evidence plus log prior density over all trainable parameters, Z included.

    L-BFGS (Liu & Nocedal 1989) with sites warm-started from one evaluation to the next and
    inference at a loose tolerance; at the end one run at the engine's own tolerance from cold
    sites. The model is left at the best parameters found.

    :param max_iterations: of L-BFGS.
    :param free_scale: let kernel variance and noise variance both move; duels determine only
        their ratio, so that something else (a prior) must pin the scale.
    :param callback: called after each iteration with a `Progress`.
    :raises ValueError: nothing is trainable, the scale is free without `free_scale`, or the
        evidence is not finite at the start.
    """
    if max_iterations < 1:
        raise ValueError(f"max_iterations must be at least 1, not {max_iterations}.")
    if free_scale:
        gpflow.set_trainable(model.noise_variance, True)
        model.silence_scale_warning()
    elif model.scale_is_free():
        raise ValueError(
            "Kernel variance and noise variance are both trainable, but duels determine only their "
            "ratio; fix one with gpflow.set_trainable or pass free_scale=True."
        )
    variables = list(model.trainable_variables)
    if not variables:
        raise ValueError("The model has no trainable parameter; see gpflow.set_trainable.")

    started = time.perf_counter()
    engine = model.engine
    sweeps_before = model.total_sweeps()
    history: list[float] = []
    model.engine = engine.with_tolerance(max(engine.tolerance, LOOSE_TOLERANCE))
    try:
        objective = _Objective(model, variables)
        objective.compile()
        begin = objective.get()
        first, _ = objective(begin)
        first_prior = _log_prior(model)
        last: list[tuple[float, np.ndarray]] = []

        def watched(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = objective(flat)
            last[:] = [(value, gradient)]
            return value, gradient

        def after(intermediate_result: scipy.optimize.OptimizeResult) -> None:
            history.append(-float(intermediate_result.fun) - _log_prior(model))
            if callback is not None:
                callback(
                    Progress(
                        iteration=len(history),
                        max_iterations=max_iterations,
                        log_evidence=history[-1],
                        gradient_norm=float(np.max(np.abs(last[0][1]))),
                        sweeps=model.total_sweeps() - sweeps_before,
                        seconds=time.perf_counter() - started,
                    )
                )

        found = scipy.optimize.minimize(
            watched,
            begin,
            jac=True,
            method="L-BFGS-B",
            callback=after,
            options={"maxiter": max_iterations, "maxfun": 20 * max_iterations},
        )
        objective.set(objective.best())
    finally:
        model.engine = engine
    inference = model.infer(restart=True)
    return OptimisationReport(
        iterations=int(found.nit),
        evaluations=objective.evaluations,
        failed_evaluations=objective.failed,
        unconverged_evaluations=objective.unconverged,
        sweeps=model.total_sweeps() - sweeps_before,
        log_evidence_start=-first - first_prior,
        log_evidence=model.log_evidence(),
        log_prior_start=first_prior,
        log_prior=_log_prior(model),
        converged=bool(found.success),
        message=str(found.message).rstrip(". "),
        seconds=time.perf_counter() - started,
        compile_seconds=objective.compile_seconds,
        inference=inference,
        history=tuple(history),
    )


def _log_prior(model: PreferenceGP) -> float:
    """Log prior density of the trainable parameters as they are."""
    return float(model.log_prior_density())
