"""Greedy variational EM (Titsias 2009): inducing inputs chosen among the items, one by one."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from sparse_prefgp.approximations.whitened import whitened
from sparse_prefgp.covariances.finite import feature_part
from sparse_prefgp.covariances.kernels import (
    as_float,
    between_inducing,
    kernel_matrix,
    with_inducing,
)
from sparse_prefgp.covariances.projected import ProjectedPoints
from sparse_prefgp.data.graph import incidence_transpose
from sparse_prefgp.engines import InferenceResult
from sparse_prefgp.learning.initial import EXPLAINED
from sparse_prefgp.learning.objective import cause_and_remedies
from sparse_prefgp.learning.optimise import NotFinite, optimise
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.checks import scale_is_free
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import AnyArray, FloatArray
from sparse_prefgp.support.checks import check_inducing_count, check_kind, check_number
from sparse_prefgp.support.linalg import MAX_CONDITION, cholesky_with_jitter

# So many additions in a row without a finite evidence: another item will not help.
_MOST_FAILURES = 10


@dataclass(frozen=True)
class GreedyStep:
    """One entry of the history of `greedy_em`."""

    phase: str
    """One of "start", "add" (E-like) or "optimise" (M-like)."""
    inducing: int
    """Number of inducing inputs after the step."""
    log_evidence: float
    """In nats, after inference at the engine's own tolerance."""
    log_prior: float
    """Log prior density at the same parameters."""
    reason: str
    """Why the phase stopped."""
    seconds: float
    """Since the beginning."""
    item: int | None = None
    """The item added, a row of `duels.items` (the first with its features); else None."""
    predicted_gain: float | None = None
    """Of the log evidence, for which the item was chosen (`addition_gains`)."""
    candidates: int = 0
    """How many items were scored."""


@dataclass(frozen=True)
class GreedyReport:
    """What `greedy_em` did."""

    history: tuple[GreedyStep, ...]
    reason: str
    """Either "count reached"; "nothing left" where the inducing inputs explain all other items; or
    "additions fail" where ten in a row had no finite evidence.
    """
    monotone: bool
    """Whether the bound is promised never to fall, by more than EP's own error: for `VFE()` only,
    and not with `Laplace`, whose error nothing bounds.
    """
    largest_fall: float
    """In nats, of log evidence plus log prior density between two entries of the history; 0 if it
    never fell.
    """
    seconds: float
    """In all; what the three leave is little."""
    inference: InferenceResult
    """Result of the last inference."""
    scoring_seconds: float = 0.0
    """Spent on scoring candidates."""
    inference_seconds: float = 0.0
    """Spent on inference after each addition."""
    optimising_seconds: float = 0.0
    """Spent on optimising."""
    unconverged: int = 0
    """Inferences after additions that did not converge."""
    failed_scores: int = 0
    """Candidates left out because their predicted gain was not finite."""
    failed_additions: int = 0
    """Items left out because the evidence with them was not finite."""
    failed_optimisations: int = 0
    """M-like steps left out for want of finite evidence and gradient to begin with."""
    failed_evaluations: int = 0
    """Evaluations that the other steps backed off from."""
    jitter: float = 0.0
    """The largest jitter that a factorisation took."""

    @property
    def log_evidence(self) -> float:
        return self.history[-1].log_evidence

    def __str__(self) -> str:
        first, last = self.history[0], self.history[-1]
        text = (
            f"log evidence {first.log_evidence:.3f} -> {last.log_evidence:.3f} nats with "
            f"{first.inducing} -> {last.inducing} inducing inputs in {self.seconds:.1f} s (scoring "
            f"{self.scoring_seconds:.1f} s, inference {self.inference_seconds:.1f} s, optimising "
            f"{self.optimising_seconds:.1f} s); {self.reason}"
        )
        if not self.monotone:
            text += "; this approximation does not promise that its evidence never falls"
        if self.largest_fall > 0.0:
            text += f"; largest fall {self.largest_fall:.1e} nats"
        if self.unconverged:
            text += f"; inference did not converge after {self.unconverged} additions"
        for number, what in (
            (self.failed_scores, "candidates had no finite predicted gain"),
            (self.failed_additions, "items had no finite evidence and were left out"),
            (self.failed_optimisations, "optimisations had nothing finite to begin with"),
            (self.failed_evaluations, "failed evaluations were backed off from"),
        ):
            if number:
                text += f"; {number} {what}"
        return text


def addition_gains(model: PreferenceGP, inputs: AnyArray) -> FloatArray:
    """What each candidate would add to Titsias' bound if it joined Z, at the sites as they are.

    With the sites held, T = diag(c tau) and s = c nu, the bound depends on Z through

        ½ h'P⁻¹h - ½ log|P| - sum c k~ / 4 sigma²,    P = I + Phi'T Phi,    h = Phi's

    An input x adds the column phi = A e to Phi, e = (k(X, x) - B b) / sqrt(k(x, x) - b'b) with
    b = L⁻¹ k(Z, x) and B the whitened features of the items X: what is left of its covariance, at
    right angles to the other inducing variables, in units of what is left of its variance. P and h
    grow by one row, k~ shrinks by phi², and with the block inverse and determinant the gain is

        ½ rho² / kappa - ½ log kappa + sum c phi² / 4 sigma²
        kappa = 1 + phi'T phi - q'P⁻¹q    q = Phi'T phi    rho = phi's - q'P⁻¹h

    Log evidence is stationary in the sites, so what is neglected is of second order in phi phi'.
    With `Variational()` the bound has ½ sum c tau k~ in place of the sum over k~: what takes k~
    into the expectations. Laplace's is held at the mode, whose move is neglected too.
    One sweep's work is shared; one product for all candidates then costs O(n m + t) for each.

    :param inputs: (J, D), in the units of `duels.items`.
    :return: (J,), in nats; -inf where Z explains the candidate already.
    :raises ValueError: an approximation without inducing inputs; effects of pairs; answers about
        sets.
    """
    inducing = _inducing(model)
    model.infer()
    problem, graph = model.problem(), model.graph
    part = feature_part(problem.of_rows)
    assert part is not None  # the model has refused an effect alone
    factor, _ = cholesky_with_jitter(between_inducing(inducing, part), MAX_CONDITION)
    rows, candidates = as_float(graph.rows), as_float(inputs)
    basis = whitened(problem, (factor, tf.zeros([], factor.dtype)))
    features = basis.features(rows).numpy()  # B, with the item effects
    explained = features[:, : inducing.num_inducing]
    b = tf.linalg.triangular_solve(factor, with_inducing(inducing, part, candidates))
    prior = part(candidates, full_cov=False).numpy()
    left = prior - tf.reduce_sum(b * b, 0).numpy()
    on_features = rows[:, : inducing.Z.shape[1]]
    useful = left > EXPLAINED * part(on_features, full_cov=False).numpy().max()
    gains = np.full(len(inputs), -np.inf)
    if not useful.any():
        return gains

    covariance = kernel_matrix(part, on_features, tf.boolean_mask(candidates, useful)).numpy()
    columns = (covariance - explained @ b.numpy()[:, useful]) / np.sqrt(left[useful])  # e
    nu, tau = model.inference.sites()
    precision = as_float(graph.counts * tau)
    weighted = graph.laplacian.matmul(precision, as_float(columns)).numpy()  # A'T phi
    inner = features.T @ graph.laplacian.matmul(precision, as_float(features)).numpy()
    lower = cho_factor(inner + np.eye(len(inner)), lower=True)
    summed = incidence_transpose(graph, as_float(graph.counts * nu)).numpy()  # A's
    h = features.T @ summed
    q = features.T @ weighted
    half = solve_triangular(lower[0], q, lower=True)
    kappa = 1.0 + np.sum(columns * weighted, 0) - np.sum(half * half, 0)
    rho = columns.T @ summed - q.T @ cho_solve(lower, h)
    residual = weighted  # A' of the weights of ½ k~ in the bound times A columns
    if not model.engine.takes_expectations:
        counts = as_float(problem.graph.counts) / problem.noise
        residual = problem.graph.laplacian.matmul(counts, as_float(columns)).numpy()
    trace = np.sum(columns * residual, 0)
    gains[useful] = 0.5 * rho**2 / kappa - 0.5 * np.log(kappa) + 0.5 * trace
    return gains


def greedy_em(
    model: PreferenceGP,
    count: int,
    rng: np.random.Generator,
    *,
    candidates: int = 64,
    additions: int = 1,
    m_step_iterations: int = 5,
    callback: Callable[[GreedyStep], None] | None = None,
) -> tuple[PreferenceGP, GreedyReport]:
    """Grow Z by training items, each the best of a random set, moving hyperparameters in between.

    The E-like step scores a random set of the items that are not in Z by `addition_gains`, adds the
    best and runs inference from the sites as they are; the M-like step runs `optimise` with Z held.
    With `VFE()` neither lowers the bound by more than EP's own error (Titsias 2009, section 3.1);
    that of `Variational()` is a bound without such an error.

    :param model: of an approximation with inducing inputs, with as many of them as to begin with,
        at any place, such as `initial_inputs("duels", duels, kernel, 1, rng)`; it stays as it is.
    :param count: inducing inputs at the end.
    :param candidates: in each random set.
    :param additions: items added for each M-like step; each of those compiles again, which takes
        some seconds.
    :param m_step_iterations: of L-BFGS; 0 leaves the hyperparameters alone.
    :param callback: called after each entry of the history.
    :return: a new model with `count` inducing inputs (fewer if they explain all other items), which
        are trainable if those of `model` are, and what was done. What fails on the way is left
        out, counted and reported.
    :raises ValueError: an approximation without inducing inputs, a count below the present one or
        above the distinct items, candidates or additions below 1, iterations below 0, nothing to
        optimise but Z, kernel and noise variance both free, no finite evidence to begin with.
    """
    check_kind("model", model, PreferenceGP, "a PreferenceGP")
    _check(model, count, candidates, additions, m_step_iterations)
    run = _Run(model, rng, callback)
    reason = ""
    while run.size < count and not (reason := run.add(candidates)):
        added = run.size - _inducing(model).num_inducing
        if m_step_iterations and (added % additions == 0 or run.size == count):
            run.optimise(m_step_iterations)
    return run.finish(reason or "count reached")


class _Run:
    """The growing model and the book that is kept of it."""

    def __init__(
        self,
        model: PreferenceGP,
        rng: np.random.Generator,
        callback: Callable[[GreedyStep], None] | None,
    ) -> None:
        # The data are shared: what is frozen need not be copied, and would thaw.
        self.model = copy.deepcopy(model, {id(model.duels): model.duels})
        self._rng = rng
        self._callback = callback
        self._trainable = bool(_inducing(model).Z.trainable)
        self._steps: list[GreedyStep] = []
        self._book: Any = Counter()  # fields of the report
        self._started = time.perf_counter()
        rows, row_of_item = model.duels.distinct_rows()
        items, where = np.unique(row_of_item, return_index=True)
        self._item_of_row = where[items >= 0]
        z = self._z()
        known = {row.tobytes() for row in z + 0.0}
        self._rows = rows
        self._open = np.array([row.tobytes() not in known for row in rows])
        self._book["unconverged"] += not self._infer(z).converged
        if not self._finite():
            raise ValueError(
                "The log evidence is not finite with the inducing inputs to begin with; "
                f"{cause_and_remedies(self.model.problem())}."
            )
        self._record("start", str(self.model.infer().status))

    @property
    def size(self) -> int:
        return int(_inducing(self.model).num_inducing)

    def _z(self) -> FloatArray:
        z: FloatArray = _inducing(self.model).Z.numpy().astype(np.float64)
        return z

    def add(self, candidates: int) -> str:
        """Add the best of a random set; where none can be added, why."""
        for _ in range(_MOST_FAILURES):
            found = self._choose(candidates)
            if found is None:
                return "nothing left"
            best, gain, scored = found
            self._open[best] = False
            before, sites = self._z(), self.model.inference.sites()
            result = self._infer(np.vstack([before, self._rows[best]]))
            if self._finite():
                self._book["unconverged"] += not result.converged
                reason = f"the best of {scored} candidates"
                self._record(
                    "add",
                    reason,
                    item=int(self._item_of_row[best]),
                    predicted_gain=gain,
                    candidates=scored,
                )
                return ""
            self._book["failed_additions"] += 1
            self.model.inference.start_from(*sites)
            self._infer(before)
        return "additions fail"

    def _choose(self, candidates: int) -> tuple[int, float, int] | None:
        """Row and predicted gain of the best of a random set, and how many were scored."""
        started = time.perf_counter()
        order = self._rng.permutation(np.flatnonzero(self._open))
        scored, found = 0, None
        # A set that Z explains already makes room for the next one.
        for begin in range(0, len(order), candidates):
            among = order[begin : begin + candidates]
            gains = addition_gains(self.model, self._rows[among])
            scored += len(among)
            finite = np.isfinite(gains)
            self._book["failed_scores"] += int(np.sum(~finite & ~np.isneginf(gains)))
            if finite.any():
                best = int(np.argmax(np.where(finite, gains, -np.inf)))
                found = int(among[best]), float(gains[best]), scored
                break
        self._book["scoring_seconds"] += time.perf_counter() - started
        return found

    def optimise(self, iterations: int) -> None:
        started = time.perf_counter()
        try:
            report = optimise(self.model, iterations)
        except NotFinite as error:  # the hyperparameters stay as they are
            self._book["failed_optimisations"] += 1
            message = str(error)
        else:
            self._book["failed_evaluations"] += report.failed_evaluations
            self._book["jitter"] = max(self._book["jitter"], report.inference.jitter)
            message = report.message
        self._book["optimising_seconds"] += time.perf_counter() - started
        self._record("optimise", message)

    def finish(self, reason: str) -> tuple[PreferenceGP, GreedyReport]:
        values = np.array([step.log_evidence + step.log_prior for step in self._steps])
        gpflow.set_trainable(self.model.inducing_variable, self._trainable)
        return self.model, GreedyReport(
            history=tuple(self._steps),
            reason=reason,
            monotone=self.model.approximation.grows_with_z and self.model.engine.keeps_growth,
            largest_fall=max(0.0, float(-np.diff(values).min(initial=0.0))),
            seconds=time.perf_counter() - self._started,
            **self._book,
            inference=self.model.infer(),
        )

    def _finite(self) -> bool:
        value = self.model.log_evidence() + float(self.model.log_prior_density())
        return bool(np.isfinite(value))

    def _infer(self, z: FloatArray) -> InferenceResult:
        started = time.perf_counter()
        # Sites do not depend on how many inducing inputs there are: inference resumes from them.
        self.model.inducing_variable = gpflow.inducing_variables.InducingPoints(z)
        gpflow.set_trainable(self.model.inducing_variable, False)
        result = self.model.infer()
        self._book["jitter"] = max(self._book["jitter"], result.jitter)
        self._book["inference_seconds"] += time.perf_counter() - started
        return result

    def _record(self, phase: str, reason: str, **chosen: Any) -> None:
        step = GreedyStep(
            phase=phase,
            inducing=self.size,
            log_evidence=self.model.log_evidence(),
            log_prior=float(self.model.log_prior_density()),
            reason=reason,
            seconds=time.perf_counter() - self._started,
            **chosen,
        )
        self._steps.append(step)
        if self._callback is not None:
            self._callback(step)


def _inducing(model: PreferenceGP) -> gpflow.inducing_variables.InducingPoints:
    points = model.inducing_variable
    model.allow(
        gain=True,
        no_inducing=points is None and model.approximation.name,
        projected_inputs=isinstance(points, ProjectedPoints),
        sets=model.graph.noises is not None,
    )
    assert points is not None
    return points


def _check(
    model: PreferenceGP, count: int, candidates: int, additions: int, m_step_iterations: int
) -> None:
    inducing = _inducing(model)
    check_inducing_count(count, len(model.duels.distinct_rows()[0]))
    present = inducing.num_inducing
    if count < present:
        raise ValueError(
            f"The model has {present} inducing inputs already, more than the {count} asked for; "
            "begin with fewer."
        )
    for name, value, least in (
        ("candidates", candidates, 1),
        ("additions", additions, 1),
        ("m_step_iterations", m_step_iterations, 0),
    ):
        check_number(name, value, least=least, whole=True)
    free = bool(m_step_iterations) and scale_is_free(model)
    together.check(free_kernel_variance=free, free_noise_variance=True)
    of_z = {id(v) for v in inducing.trainable_variables}
    if m_step_iterations and all(id(v) in of_z for v in model.trainable_variables):
        raise ValueError(
            "Nothing but the inducing inputs is trainable, which stay where the items are; pass "
            "m_step_iterations=0."
        )
