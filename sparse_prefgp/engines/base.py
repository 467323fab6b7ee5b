"""What every engine returns, and the rules of its settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, Protocol, Self

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances import Covariance
from sparse_prefgp.evidence import log_evidence
from sparse_prefgp.sites import (
    Cavity,
    Factors,
    Sites,
    Tilted,
    cavities,
    largest_change,
    match_all_moments,
    totals,
)


class Status(Enum):
    """How inference ended; the text names causes and remedies."""

    CONVERGED = "converged: no site would move by more than the tolerance"
    MAX_SWEEPS = (
        "stopped at max_sweeps before the sites settled; raise max_sweeps, start with damping=0.5, "
        "raise the noise variance, or use SequentialEP()"
    )
    NOT_FINITE = (
        "stopped at a value that is not finite; the kernel matrix may not be positive definite "
        "or the parameters are extreme: lower the kernel variance, raise the noise variance, or "
        "remove inducing inputs that nearly coincide"
    )

    def __str__(self) -> str:
        return self.value


class Evaluation(NamedTuple):
    """Everything that follows from the sites: one pass over the covariance."""

    sites: Sites
    proposal: Sites
    mean: tf.Tensor
    variance: tf.Tensor
    half_log_det: tf.Tensor
    kept: tuple[tf.Tensor, ...]
    cavity: Cavity
    tilted: Tilted
    change: tf.Tensor


class FixedPoint(NamedTuple):
    """Where an engine stopped, as tensors, so that it can run inside a compiled function.

    kept: what the covariance wants back for the gradient (`Marginals.kept`).
    sweeps: passes over all sites; change: the largest change that one more undamped sweep would
    make (`sites.largest_change`); damping: as it was at the end.
    """

    sites: Sites
    cavity: Cavity
    tilted: Tilted
    mean: tf.Tensor
    variance: tf.Tensor
    half_log_det: tf.Tensor
    kept: tuple[tf.Tensor, ...]
    sweeps: tf.Tensor
    change: tf.Tensor
    damping: tf.Tensor

    def log_evidence(self, counts: tf.Tensor, correction: tf.Tensor | float = 0.0) -> tf.Tensor:
        return log_evidence(
            self.sites, self.cavity, self.tilted, self.half_log_det, counts, correction
        )


@dataclass(frozen=True)
class InferenceResult:
    """What inference did, for people.

    converged, sweeps, status: whether, after how many sweeps, and why not.
    largest_change: max(|d tau| v, |d nu| sqrt v) of one more undamped sweep, free of scale.
    damping: share of each step taken at the end. jitter: what was added to a diagonal to
    factorise it. clipped: largest rounding error that had made a residual variance negative.
    """

    converged: bool
    sweeps: int
    status: Status
    largest_change: float
    damping: float
    jitter: float = 0.0
    clipped: float = 0.0

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
    """Finds sites for factors under a covariance of z."""

    @property
    def tolerance(self) -> float:
        """On the largest change that one more undamped sweep would make."""

    def with_tolerance(self, tolerance: float) -> Engine:
        """The same engine with another tolerance."""

    def run(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        """Iterate from `sites`; works eagerly and inside `tf.function`, without gradient."""


def evaluate(covariance: Covariance, factors: Factors, sites: Sites) -> Evaluation:
    """Marginals, cavities and the sites that one undamped sweep would give."""
    marginals = covariance.marginals(*totals(sites, factors.counts))
    cavity = cavities(marginals, sites)
    proposal, tilted = match_all_moments(cavity, factors)
    change = largest_change(sites, proposal, marginals.variance)
    mean, variance, half_log_det, kept, _ = marginals
    return Evaluation(sites, proposal, mean, variance, half_log_det, kept, cavity, tilted, change)


def fixed_point(evaluation: Evaluation, sweeps: tf.Tensor, damping: tf.Tensor) -> FixedPoint:
    return FixedPoint(
        evaluation.sites,
        evaluation.cavity,
        evaluation.tilted,
        evaluation.mean,
        evaluation.variance,
        evaluation.half_log_det,
        evaluation.kept,
        sweeps,
        evaluation.change,
        damping,
    )


def describe(point: FixedPoint, tolerance: float, **extra: float) -> InferenceResult:
    """The result of an eager run."""
    change = float(point.change)
    finite = math.isfinite(change) and math.isfinite(float(point.half_log_det))
    finite = finite and all(np.all(np.isfinite(x)) for x in (*point.cavity, *point.sites))
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
class Iteration:
    """Settings that the EP engines share.

    damping: share of each step taken, at first. tolerance: on the largest change that one more
    undamped sweep would make. max_sweeps: always finite; the result says when it was reached.

    :raises ValueError: damping outside (0, 1], tolerance not positive, max_sweeps below 1.
    """

    damping: float = 1.0
    tolerance: float = 1e-8
    max_sweeps: int = 500

    def __post_init__(self) -> None:
        for name in ("damping", "tolerance", "max_sweeps"):
            if not isinstance(getattr(self, name), int | float | np.number):
                raise ValueError(f"{name} must be a number, not {getattr(self, name)!r}.")
        if not 0.0 < self.damping <= 1.0:
            raise ValueError(f"damping must be in (0, 1] (1 is undamped), not {self.damping}.")
        if not self.tolerance > 0.0:
            raise ValueError(f"tolerance must be positive, not {self.tolerance}; try 1e-8.")
        if self.max_sweeps < 1 or self.max_sweeps != int(self.max_sweeps):
            raise ValueError(
                f"max_sweeps must be a whole number of at least 1, not {self.max_sweeps}."
            )

    def with_tolerance(self, tolerance: float) -> Self:
        """The same engine with another tolerance."""
        return replace(self, tolerance=tolerance)
