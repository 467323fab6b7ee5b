"""Expectation propagation, all sites at once, with damping that adapts itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from sparse_prefgp.covariances import Covariance
from sparse_prefgp.engines.base import (
    Evaluation,
    FixedPoint,
    Iteration,
    constant_factors,
    evaluate,
    fixed_point,
)
from sparse_prefgp.sites import Factors, Sites, damp

_SMALLEST_DAMPING = 1.0 / 64.0


class _Loop(NamedTuple):
    evaluation: Evaluation
    sweeps: tf.Tensor
    damping: tf.Tensor
    stalled: tf.Tensor


@dataclass(frozen=True)
class ParallelEP(Iteration):
    """Update every site from the same marginals (docs/method.md, section 2).

    damping: share of each step taken at first; halved whenever two sweeps in a row do not bring
        the largest change below the smallest seen so far.
    tolerance: on the largest change an undamped sweep would make.
    max_sweeps: always finite; the result says when it was reached.
    """

    def run(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        factors = constant_factors(factors)
        dtype = factors.upper.dtype
        first = evaluate(covariance, factors, sites)
        start = _Loop(
            first,
            tf.constant(1),
            tf.constant(self.damping, dtype),
            tf.constant(0),
        )
        best = first.change

        def unsettled(loop: _Loop, best: tf.Tensor) -> tf.Tensor:
            # A NaN compares false: the loop stops and the result says so.
            return (loop.evaluation.change > self.tolerance) & (loop.sweeps < self.max_sweeps)

        def sweep(loop: _Loop, best: tf.Tensor) -> tuple[_Loop, tf.Tensor]:
            old = loop.evaluation
            new = evaluate(covariance, factors, damp(old.sites, old.proposal, loop.damping))
            stalled = tf.where(new.change < best, 0, loop.stalled + 1)
            halve = stalled >= 2
            damping = tf.where(halve, 0.5 * loop.damping, loop.damping)
            return (
                _Loop(
                    new,
                    loop.sweeps + 1,
                    tf.maximum(damping, tf.cast(_SMALLEST_DAMPING, dtype)),
                    tf.where(halve, 0, stalled),
                ),
                tf.minimum(best, new.change),
            )

        loop, _ = tf.while_loop(unsettled, sweep, (start, best), parallel_iterations=1)
        return fixed_point(loop.evaluation, loop.sweeps, loop.damping)
