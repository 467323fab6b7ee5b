"""Utilities of items that have several rows: averages over them, under the joint posterior.

The utility of item i is g_i = sum_r w_ir f(x_r) over its rows r, with weights that add up to 1.
All that a ranking asks of a posterior is linear in f, so that g has one of its own,

    E g_i = sum_r w_ir E f(x_r)   Cov[g_i, g_l] = sum_r sum_s w_ir w_ls Cov[f(x_r), f(x_s)]

whose inputs are numbers of items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.models.posterior import Posterior
from sparse_prefgp.support.arrays import FloatArray, IntArray

# Numbers of a covariance between rows that are made at a time.
_NUMBERS = 4_000_000


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """The rows of each of m items, at most p, as arrays of one shape."""

    inputs: tf.Tensor
    """(m, p, D), filled up with the first row of the item."""
    weights: tf.Tensor
    """(m, p), zero where filled up; each row of it adds up to 1."""

    @classmethod
    def of(cls, inputs: FloatArray, owner: IntArray, weights: FloatArray) -> WeightedRows:
        """Of rows (r, D) of items `owner` (r,), 0 to m - 1, each of which has one.

        :param weights: (r,) not negative; an item whose rows weigh nothing counts them equally.
        """
        order = np.argsort(owner, kind="stable")
        count = np.bincount(owner)
        start = np.cumsum(count) - count
        place = np.arange(count.max())
        there = place < count[:, None]
        row = order[np.where(there, start[:, None] + place, start[:, None])]
        weight = np.where(there, weights[row], 0.0)
        total = weight.sum(1, keepdims=True)
        weight = np.where(total > 0.0, weight, there)
        return cls(as_float(inputs[row]), as_float(weight / weight.sum(1, keepdims=True)))

    def rows_of(self, items: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Rows (N, p, D) and weights (N, p) of numbers of items (N, 1)."""
        number = tf.cast(items[:, 0], tf.int64)
        return tf.gather(self.inputs, number), tf.gather(self.weights, number)

    def averages_of(self, function: Callable[[tf.Tensor], tf.Tensor]) -> Any:
        """The function of numbers of items (N, 1) whose values (N, q) are averages of a function of
        rows (N p, D)."""

        def found(items: tf.Tensor) -> tf.Tensor:
            x, weights = self.rows_of(items)
            values = function(tf.reshape(x, [-1, x.shape[-1]]))
            shape = tf.concat([tf.shape(weights), tf.shape(values)[1:]], 0)
            return tf.einsum("np,npq->nq", weights, tf.reshape(values, shape))

        return found


class AveragedKernel(gpflow.kernels.Kernel):
    """The prior covariance of averages over rows, of numbers of items (N, 1)."""

    def __init__(self, kernel: gpflow.kernels.Kernel, rows: WeightedRows) -> None:
        super().__init__()
        self.kernel, self._rows = kernel, rows

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        x, w = self._rows.rows_of(X)
        if X2 is None:
            # The diagonal has what rows have beyond their covariance with equal ones: white noise.
            return tf.linalg.set_diag(self._between(x, w, x, w), self.K_diag(X))
        return self._between(x, w, *self._rows.rows_of(X2))

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        x, w = self._rows.rows_of(X)
        return tf.einsum("np,npq,nq->n", w, kernel_matrix(self.kernel, x), w)

    def _between(self, x: tf.Tensor, w: tf.Tensor, z: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        """(N, M), some of the N at a time, as rows are many."""
        others, (n, p) = tf.reshape(z, [-1, z.shape[-1]]), w.shape
        size = max(1, _NUMBERS // (p * int(others.shape[0])))
        parts = []
        for start in range(0, n, size):
            rows, weights = x[start : start + size], w[start : start + size]
            flat = tf.reshape(rows, [-1, rows.shape[-1]])
            between = kernel_matrix(self.kernel, flat, others)
            between = tf.reshape(between, tf.concat([tf.shape(weights), tf.shape(v)], 0))
            parts.append(tf.einsum("np,npmq,mq->nm", weights, between, v))
        return tf.concat(parts, 0)


def averaged(posterior: Posterior, rows: WeightedRows) -> Posterior:
    """The posterior of averages over rows, whose inputs are numbers of items (N, 1)."""

    def of(part: Posterior) -> Posterior:
        mean, kernel = part.mean_function, AveragedKernel(part.kernel, rows)
        mean = None if mean is None else rows.averages_of(mean)
        return Posterior(kernel, mean, rows.averages_of(part.features), part.terms)

    return posterior.mapped(of)
