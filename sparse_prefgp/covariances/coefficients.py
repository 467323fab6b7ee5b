"""Coefficients of covariates of a duel, and the lean of each judge: linear terms, exact.

With x the covariates of the winner less those of the loser, v has the term `- x beta`,
beta ~ N(0, diag(variances)); a judge j leans by another b_j ~ N(0, variance) of one of them. As a
kernel on rows that hold the covariates of their side, that is `sum variance_c x_c x'_c`, and
`variance x x'` where the judge is the same.
"""

from __future__ import annotations

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.finite import FiniteKernel
from sparse_prefgp.covariances.item_effect import numbered_kernel
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.data.rows import RowLayout
from sparse_prefgp.support.arrays import IntArray


class CovariateTerm(FiniteKernel):
    """The linear term of C covariates.

    :param variance: (C,) prior variances of the coefficients.
    :param layout: where the covariates stand in a row.
    """

    def __init__(self, variance: gpflow.Parameter, layout: RowLayout) -> None:
        first = layout.first_covariate
        super().__init__(active_dims=slice(first, first + layout.covariates))
        self.variance = variance

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        other = X if X2 is None else X2
        if X2 is None:
            return tf.matmul(X * self.variance, other, transpose_b=True)
        return tf.tensordot(X * self.variance, other, [[-1], [-1]])

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(X**2 * self.variance, -1)

    def num_own(self, graph: DuelGraph) -> int:
        return int(self.variance.shape[0])

    def own_features(self, graph: DuelGraph, inputs: tf.Tensor) -> tf.Tensor:
        values, _ = self.slice(inputs, None)
        return values * tf.sqrt(self.variance)

    def difference_variance(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        return self.K_diag(self.slice(second - first, None)[0])


class LeanTerm(FiniteKernel):
    """What each judge adds to one of the coefficients.

    :param variance: of all judges' leans.
    :param layout: where judges stand in a row.
    :param column: which covariate they lean by.
    """

    def __init__(self, variance: gpflow.Parameter, layout: RowLayout, column: int) -> None:
        super().__init__(active_dims=[layout.first_covariate + column, layout.judge])
        self.variance = variance

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        apart = gpflow.utilities.ops.difference_matrix(
            X[..., 1:], None if X2 is None else X2[..., 1:]
        )
        other = X if X2 is None else X2
        if X2 is None:
            product = tf.matmul(X[..., :1], other[..., :1], transpose_b=True)
        else:
            product = tf.tensordot(X[..., :1], other[..., :1], [[-1], [-1]])
        return tf.where(apart[..., 0] == 0.0, self.variance * product, tf.zeros_like(product))

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return self.variance * X[..., 0] ** 2

    def num_own(self, graph: DuelGraph) -> int:
        return len(self._judges(graph))

    def own_features(self, graph: DuelGraph, inputs: tf.Tensor) -> tf.Tensor:
        values, _ = self.slice(inputs, None)
        same = values[..., 1:] == tf.constant(self._judges(graph), values.dtype)[None, :]
        return tf.sqrt(self.variance) * values[..., :1] * tf.cast(same, values.dtype)

    def difference_variance(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        (a, _), (b, _) = self.slice(first, None), self.slice(second, None)
        same = tf.cast(a[..., 1] == b[..., 1], a.dtype)
        shared = 2.0 * same * a[..., 0] * b[..., 0]
        return self.variance * (a[..., 0] ** 2 + b[..., 0] ** 2 - shared)

    def _judges(self, graph: DuelGraph) -> IntArray:
        """Numbers of the judges that a row names."""
        column = self.active_dims[1]
        found: IntArray = np.unique(graph.rows[:, int(column)])
        return found[found >= 0]


def on_rows(
    kernel: gpflow.kernels.Kernel,
    layout: RowLayout,
    covariate_variance: gpflow.Parameter | None = None,
    lean: tuple[gpflow.Parameter, int] | None = None,
) -> gpflow.kernels.Kernel:
    """A kernel of items as one of rows, with the terms of their other columns.

    A copy that shares the parameters, unless rows hold nothing but features.

    :param covariate_variance: (C,), where there are covariates.
    :param lean: the variance of the judges' leans, and the covariate that they lean by.
    """
    if layout.plain:
        return kernel
    terms = [numbered_kernel(kernel, layout.features)]
    if covariate_variance is not None:
        terms.append(CovariateTerm(covariate_variance, layout))
    if lean is not None:
        terms.append(LeanTerm(lean[0], layout, lean[1]))
    return terms[0] if len(terms) == 1 else gpflow.kernels.Sum(terms)
