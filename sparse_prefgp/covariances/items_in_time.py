"""The covariance of duels between items whose utilities move in time, exact across items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from check_shapes import inherit_check_shapes

from sparse_prefgp.covariances.base import Covariance, Marginals, PosteriorTerms, WholeTerms
from sparse_prefgp.covariances.kalman_filter import (
    Filtered,
    Moves,
    Plan,
    Seen,
    Smoothed,
    filtered,
    smoothed,
)
from sparse_prefgp.covariances.markov import MarkovKernel
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.linalg import each_by_numpy


class ItemsInTime(Covariance):
    """z = u_loser - u_winner + X w: utilities in time, next to effects that stay, and k whitened
    columns, w ~ N(0, I).

    O(p N²) a slice for p of N active numbers (`kalman_filter.py`), twice a sweep, in NumPy;
    TensorFlow differentiates only what the steps of a Markov kernel are as functions of its
    parameters.

    :param plan: of the sites.
    :param kernel: of one item.
    :param columns: X, (t, k); k may be 0.
    :param variances: of the effects.
    """

    def __init__(
        self, plan: Plan, kernel: MarkovKernel, columns: tf.Tensor, variances: tf.Tensor
    ) -> None:
        self._plan = plan
        spans = tf.constant(plan.spans, columns.dtype)
        self._columns, self._start, self._variances = columns, kernel.start(), variances
        self._exponents, self._added = kernel.exponents(spans), kernel.added(spans)
        transitions = kernel.transitions(spans)
        moved = self._start, transitions, self._added, variances, columns
        self._constants = tuple(map(tf.stop_gradient, moved))
        # Of the last sweep, for the gradient at the same sites.
        self._last: tuple[Sequence[FloatArray], Filtered] | None = None

    @inherit_check_shapes
    def marginals(self, precision: tf.Tensor, shift: tf.Tensor) -> Marginals:
        t = self._columns.shape[0]

        def sweep(*values: FloatArray) -> tuple[Any, ...]:
            if not all(np.all(np.isfinite(x)) for x in values):
                return np.full(t, np.nan), np.full(t, np.nan), np.nan  # for an engine to see
            found = self._smoothed(values)
            both = found.mean[:, 0], found.variance
            return (*map(self._as_given, both), found.half_log_det)

        inside = precision, shift, *self._constants
        mean, variance, half_log_det = each_by_numpy(sweep, *inside, shapes=[[t], [t], []])
        return Marginals(mean, variance, half_log_det, kept=())

    def surrogate(self, precision: tf.Tensor, shift: tf.Tensor, kept: Any) -> tf.Tensor:
        tensors = self._start, self._added, self._exponents, self._variances, self._columns

        def slopes(*values: FloatArray) -> tuple[FloatArray, ...]:
            found = self._smoothed(values, slopes=True)
            assert found.slopes is not None
            t, s = (values[i][self._plan.order] for i in (0, 1))
            by_columns = (s - t * found.mean[:, 0])[:, None] * found.weights[:, 0]
            by_columns -= t[:, None] * (found.rows @ found.covariance)
            start, added, exponents, effects = found.slopes
            return 0.5 * start, 0.5 * added, exponents, 0.5 * effects, self._as_given(by_columns)

        shapes = [x.shape.as_list() for x in tensors]
        found = each_by_numpy(slopes, precision, shift, *self._constants, shapes=shapes)
        each = zip(map(tf.stop_gradient, found), tensors, strict=True)
        return tf.add_n([tf.reduce_sum(slope * x) for slope, x in each])

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        # ½ s'K s is the surrogate's own value at T = 0, and K s the mean.
        nothing = tf.zeros_like(left)
        ends = [tf.stop_gradient(x) for x in (left + right, left - right)]
        above, below = (self.surrogate(nothing, shift, ()) for shift in ends)
        slope = 0.5 * (above - below)
        there = self.marginals(nothing, tf.stop_gradient(right)).mean
        value = tf.reduce_sum(left * there)
        return value + slope - tf.stop_gradient(slope)

    def predict(self, precision: tf.Tensor, shift: tf.Tensor) -> PosteriorTerms:
        """Of w alone: utilities are asked for by date (`TimePosterior`)."""

        def sweep(*values: FloatArray) -> tuple[FloatArray, ...]:
            found = self._smoothed(values)
            return found.weights[:, 0], found.covariance

        k = self._columns.shape[1]
        inside = precision, shift, *self._constants
        weights, covariance = each_by_numpy(sweep, *inside, shapes=[[k], [k, k]])
        return WholeTerms(weights, tf.eye(k, dtype=weights.dtype) - covariance)

    def _as_given(self, values: FloatArray) -> FloatArray:
        """Values (t, ...) in the order of the plan as those in the order of the sites."""
        found = np.empty_like(values)
        found[self._plan.order] = values
        return found

    def _smoothed(self, values: Sequence[FloatArray], slopes: bool = False) -> Smoothed:
        """Under sites, by precision and shift, P, A, Q, variances of effects, and X."""
        precision, shift, start, transitions, added, variances, columns = values
        plan, order = self._plan, self._plan.order
        moves = Moves(start, transitions, added, variances)
        seen = Seen(precision[order], shift[order, None], columns[order])
        last, self._last = self._last, None  # let go of it before as much is made again
        # Slopes are asked for after a sweep at the same sites. A sweep itself is always made: in a
        # compiled function parameters change from call to call, columns too.
        small = values[:6]
        same = slopes and last is not None and all(map(np.array_equal, last[0], small))
        forward = last[1] if same and last is not None else None
        last = None
        if forward is None:
            forward = filtered(plan, moves, seen)
        found = smoothed(plan, moves, seen, forward, slopes)
        self._last = tuple(x.copy() for x in small), forward
        return found
