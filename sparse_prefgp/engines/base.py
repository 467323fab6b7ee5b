"""What every engine returns, and the rules of its settings."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances import Covariance
from sparse_prefgp.covariances.base import Intermediates
from sparse_prefgp.evidence import Slopes
from sparse_prefgp.factors.links import Link, Probit
from sparse_prefgp.factors.sites import Cavity, Factors, Sites, Tilted, damp
from sparse_prefgp.support.checks import check_number, plain_scalars


class Status(Enum):
    """How inference ended; the text names causes and remedies."""

    CONVERGED = "converged: no site would move by more than the tolerance"
    MAX_SWEEPS = (
        "stopped at max_sweeps before the sites settled; raise the noise variance "
        "(--noise-variance), take another engine (--engine), or in Python raise max_sweeps, start "
        "with damping=0.5 or use SequentialEP()"
    )
    NOT_FINITE = (
        "stopped at a value that is not finite; the kernel matrix may not be positive definite "
        "or the parameters are extreme: raise the noise variance, lower the kernel's, or take "
        "fewer inducing inputs"
    )

    FILTERED = (
        "filtered: the sites of later duels are those of one pass, and no fixed point; "
        "infer(restart=True) finds one"
    )

    def __str__(self) -> str:
        return self.value


class SweepState(NamedTuple):
    """Everything that follows from the sites: one pass over the covariance."""

    sites: Sites
    proposal: Sites
    """The sites of one undamped sweep."""
    mean: tf.Tensor
    variance: tf.Tensor
    half_log_det: tf.Tensor
    kept: Intermediates
    cavity: Cavity
    """What the factors were compared with, by the engine's own rule."""
    tilted: Tilted
    """What the factors were compared with, by the engine's own rule."""
    change: tf.Tensor
    """The largest change by the proposal (`sites.largest_change`)."""


class FixedPoint(NamedTuple):
    """Where an engine stopped, as tensors, so that it can run inside a compiled function."""

    found: SweepState
    """What follows from the sites there."""
    log_z: tf.Tensor
    """log evidence without the approximation's correction."""
    slopes: Slopes
    """For its gradient."""
    sweeps: tf.Tensor
    """Passes over all sites."""
    damping: tf.Tensor
    """As it was at the end."""

    @property
    def sites(self) -> Sites:
        return self.found.sites

    def log_evidence(self, correction: tf.Tensor | float = 0.0) -> tf.Tensor:
        """In nats, a scalar; the correction is left out where expectations stand for it."""
        return self.log_z if self.slopes.inside is not None else self.log_z + correction


@dataclass(frozen=True)
class InferenceResult:
    """What inference did, for people."""

    converged: bool
    """Whether the sites settled to the tolerance."""
    sweeps: int
    """Number of sweeps that were made."""
    status: Status
    """How inference ended, with causes and remedies where it did not converge."""
    largest_change: float
    """max(|d tau| v, |d nu| sqrt v) of one more undamped sweep, free of scale."""
    damping: float
    """Share of each step taken at the end."""
    jitter: float = 0.0
    """What was added to a diagonal to factorise it."""
    clipped: float = 0.0
    """Largest rounding error that had made a residual variance negative."""

    def __str__(self) -> str:
        text = f"{self.status} ({self.sweeps} sweeps, largest change {self.largest_change:.1e}"
        if self.damping < 1.0:
            text += f", damping {self.damping:g}"
        if self.jitter > 0.0:
            text += f", jitter {self.jitter:.1e}"
        if self.clipped > 1e-10:  # below, it is the rounding of any sum
            text += f", residual variances down to -{self.clipped:.1e} set to 0"
        return text + ")"


class Engine(Protocol):
    """Finds sites for factors under a covariance of z.

    An engine that inherits from this class, as all of the package do by way of `Iteration`, has the
    facts at the end by default.
    """

    @property
    def tolerance(self) -> float:
        """On the largest change that one more undamped sweep would make."""

    @property
    def link_function(self) -> Link:
        """What a difference of utilities says about the outcome of a duel."""

    def with_tolerance(self, tolerance: float) -> Engine:
        """The same engine with another tolerance."""

    def run(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        """Iterate from `sites`; works eagerly and inside `tf.function`, without gradient."""

    def at(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        """What `run` would return if it stopped at `sites` at once."""

    # Facts that others ask for, in place of which engine it is.

    @property
    def matches_moments(self) -> bool:
        """Whether each site has the moments of its own factor: EP itself."""
        return False

    takes_expectations: ClassVar[bool] = False
    """What Z leaves of a duel's variance counts in the expectations of its factor, with
    approximations that let it, in place of their correction."""
    one_by_one: ClassVar[bool] = False
    """Sites are updated one after the other, those of each copy of an answer about a set too."""
    keeps_growth: ClassVar[bool] = True
    """Evidence that never falls as Z grows does not with this engine either, but for its own error.
    """

    @property
    def label(self) -> str:
        """Its class, and what makes it another engine than by default, for people."""
        return type(self).__name__


def describe(
    point: FixedPoint, tolerance: float, correction: tf.Tensor | float = 0.0, **extra: float
) -> InferenceResult:
    """The result of an eager run.

    :param correction: of the approximation, added to the log evidence.
    """
    found = point.found
    change = float(found.change)
    numbers = (change, point.log_evidence(correction), found.mean, found.variance)
    finite = all(np.all(np.isfinite(x)) for x in (*numbers, *found.cavity, *found.sites))
    converged = finite and change <= tolerance
    status = Status.CONVERGED if converged else Status.MAX_SWEEPS
    if not finite:
        status = Status.NOT_FINITE
    return InferenceResult(
        converged, int(point.sweeps), status, change, float(point.damping), **extra
    )


def constant_factors(factors: Factors) -> Factors:
    return Factors(*[None if x is None else tf.stop_gradient(x) for x in factors])


@dataclass(frozen=True)
class Iteration(Engine):
    """Settings that the engines share.

    :raises ValueError: damping outside (0, 1], tolerance not positive, max_sweeps below 1.
    """

    damping: float = 1.0
    """Share of each step taken at first, less where steps turn out too long (`Pace`)."""
    tolerance: float = 1e-8
    """On the largest change that one more undamped sweep would make."""
    max_sweeps: int = 500
    """Always finite; the result says when it was reached."""

    def __post_init__(self) -> None:
        plain_scalars(self)
        check_number("damping", self.damping, above=0.0, most=1.0, hint=" (1 is undamped)")
        check_number("tolerance", self.tolerance, above=0.0, hint=", such as 1e-8")
        check_number("max_sweeps", self.max_sweeps, least=1, whole=True)

    def with_tolerance(self, tolerance: float) -> Self:
        """The same engine with another tolerance."""
        return replace(self, tolerance=tolerance)


# Steps are too long where two of them take less than this share of themselves off the change; they
# are then shortened to this share. They are judged after so many sweeps: at first changes may rise
# without a cycle, and after a judgement both changes compared should be of steps as they are now.
_LEAST_GAIN, _SHORTER, _WAIT = 0.2, 0.7, 4
_SMALLEST_DAMPING = 1.0 / 64.0


class Pace(NamedTuple):
    """How long the steps are: the one rule for sweeps in memory and rounds of parts.

    Where a change is not below 1 - 0.2 damping of that two sweeps ago, the damping is multiplied by
    0.7, down to 1/64. The first four sweeps with any damping are not judged. Changes that alternate
    are compared with their own kind; and short steps may gain as much less as they are shorter,
    else damping would itself be a reason for more of it (docs/method.md, section 2).
    """

    damping: tf.Tensor
    """Share of each step."""
    last: tf.Tensor
    """The changes of the last two sweeps."""
    before: tf.Tensor
    """The changes of the last two sweeps."""
    wait: tf.Tensor
    """Sweeps until the next judgement."""

    @classmethod
    def start(cls, damping: float, dtype: tf.DType) -> Pace:
        never = tf.constant(np.inf, dtype)
        return cls(tf.constant(damping, dtype), never, never, tf.constant(_WAIT, tf.int32))

    def after(self, change: tf.Tensor) -> Pace:
        """The pace once a sweep has seen this change."""
        gained = change < (1.0 - _LEAST_GAIN * self.damping) * self.before
        shorten = (self.wait == 0) & tf.logical_not(gained)
        least = tf.cast(_SMALLEST_DAMPING, self.damping.dtype)
        shorter = tf.maximum(_SHORTER * self.damping, least)
        return Pace(
            tf.where(shorten, shorter, self.damping),
            change,
            self.last,
            tf.where(shorten, _WAIT, tf.maximum(self.wait - 1, 0)),
        )

    def forget(self) -> Pace:
        """The same damping, for changes that cannot be compared with those before."""
        never = tf.fill([], tf.cast(np.inf, self.last.dtype))
        return self._replace(last=never, before=never)


class IterationState(NamedTuple):
    """State of the loop of `SimultaneousIteration`."""

    evaluation: SweepState
    sweeps: tf.Tensor
    pace: Pace


@dataclass(frozen=True)
class SimultaneousIteration(Iteration):
    """One that finds the next sites of all from the same marginals."""

    @property
    def link_function(self) -> Probit:
        return Probit()

    @abstractmethod
    def evaluate(self, covariance: Covariance, factors: Factors, sites: Sites) -> SweepState:
        """Marginals, what the factors are compared with, and the sites of one undamped sweep."""

    @abstractmethod
    def ended(
        self, found: SweepState, factors: Factors, sweeps: tf.Tensor, damping: tf.Tensor
    ) -> FixedPoint:
        """The point where sweeps end, with what is not computed until then."""

    def at(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        """The state at `sites`, without a step."""
        factors = constant_factors(factors)
        found = self.evaluate(covariance, factors, sites)
        damping = tf.constant(self.damping, factors.upper.dtype)
        return self.ended(found, factors, tf.constant(1), damping)

    def run(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        """Take damped steps until no site would move by more than the tolerance."""
        factors = constant_factors(factors)
        first = self.evaluate(covariance, factors, sites)
        pace = Pace.start(self.damping, first.change.dtype).after(first.change)

        def unsettled(loop: IterationState) -> tf.Tensor:
            # A NaN compares false: the loop stops and the result says so.
            return (loop.evaluation.change > self.tolerance) & (loop.sweeps < self.max_sweeps)

        def step(loop: IterationState) -> Sites:
            here = loop.evaluation
            return damp(here.sites, here.proposal, loop.pace.damping)

        def seen(to: Sites, sweeps: tf.Tensor, pace: Pace) -> IterationState:
            new = self.evaluate(covariance, factors, to)
            return IterationState(new, sweeps + 1, pace.after(new.change))

        loop = IterationState(first, tf.constant(1), pace)
        if tf.executing_eagerly():
            del first
            while unsettled(loop):
                to, sweeps, pace = step(loop), loop.sweeps, loop.pace
                del loop  # a dozen arrays of all sites, which a loop of TensorFlow would hold
                loop = seen(to, sweeps, pace)
        else:
            (loop,) = tf.while_loop(
                unsettled,
                lambda loop: (seen(step(loop), loop.sweeps, loop.pace),),
                (loop,),
                parallel_iterations=1,
            )
        return self.ended(loop.evaluation, factors, loop.sweeps, loop.pace.damping)
