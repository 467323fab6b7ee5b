"""Coefficients of covariates of a duel, and leans of judges and their like: linear terms, exact.

With x the covariates of the winner less those of the loser, v has the term `- x beta`,
beta ~ N(0, diag(variances)); each level j of a column of labels, such as each judge, leans by
another b_j ~ N(0, variance) of one of them. As a kernel on rows that hold the covariates of their
side, that is `sum variance_c x_c x'_c`, and `variance x x'` where the level is the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.finite import FiniteKernel, parts_of, sum_of
from sparse_prefgp.covariances.item_effect import numbered_kernel
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.data.rows import RowLayout
from sparse_prefgp.support.arrays import IntArray


class TermOfDuels(FiniteKernel):
    """A term that sees columns of the duel: all 0 in rows that end before them.

    Such rows are those of items of which nothing is said.
    """

    columns: list[int]
    variance: gpflow.Parameter
    level: int | None = None
    """The column that holds the level of a row, of a term with effects of levels."""

    @abstractmethod
    def num_own(self, graph: DuelGraph | None) -> int:
        """p, how many coefficients it has; without a graph of a term that knows its levels."""

    @abstractmethod
    def variances(self, graph: DuelGraph) -> tf.Tensor:
        """Prior variances (p,) of its coefficients."""

    def columns_of(self, graph: DuelGraph, inputs: tf.Tensor) -> tf.Tensor:
        """(N, p), what each coefficient is multiplied by in rows (N, ...)."""
        return self.multipliers(graph, self.said_columns(inputs))

    @abstractmethod
    def multipliers(self, graph: DuelGraph, said: tf.Tensor) -> tf.Tensor:
        """(..., p), what each coefficient is multiplied by, of `columns` (..., their number)."""

    def own_features(self, graph: DuelGraph, inputs: tf.Tensor) -> tf.Tensor:
        return self.columns_of(graph, inputs) * tf.sqrt(self.variances(graph))

    def slice(
        self, X: tf.Tensor, X2: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        return self.said_columns(X), None if X2 is None else self.said_columns(X2)

    def said_columns(self, rows: tf.Tensor) -> tf.Tensor:
        if rows.shape[-1] > max(self.columns):
            return tf.gather(rows, self.columns, axis=-1)
        return tf.zeros_like(rows[..., :1]) * tf.ones([len(self.columns)], rows.dtype)


def terms_of_duels(
    kernel: gpflow.kernels.Kernel,
) -> tuple[list[TermOfDuels], gpflow.kernels.Kernel | None]:
    """Those of a sum of kernels, and the sum of all else; None for nothing else."""
    parts = parts_of(kernel)
    own = [part for part in parts if isinstance(part, TermOfDuels)]
    return own, sum_of([part for part in parts if part not in own])


class CovariateTerm(TermOfDuels):
    """The linear term of C covariates.

    :param variance: (C,) prior variances of the coefficients.
    :param columns: the places of the covariates in a row.
    """

    def __init__(self, variance: gpflow.Parameter, columns: Iterable[int]) -> None:
        super().__init__()
        self.variance, self.columns = variance, list(columns)

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        return _product(X * self.variance, X if X2 is None else X2, X2 is None)

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(X**2 * self.variance, -1)

    def num_own(self, graph: DuelGraph | None) -> int:
        return len(self.columns)

    def variances(self, graph: DuelGraph) -> tf.Tensor:
        return tf.convert_to_tensor(self.variance)

    def multipliers(self, graph: DuelGraph, said: tf.Tensor) -> tf.Tensor:
        return said

    def difference_variance(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        return self.K_diag(self.said_columns(second) - self.said_columns(first))


class EntryTerm(CovariateTerm):
    """The linear term of one covariate, 1 of items whose first duel is after a day, 0 of others.

    :param variance: (1,) prior variance of the coefficient.
    :param column: the place in a row of the day of the item's first duel.
    :param after: the day, as the rows have it.
    """

    def __init__(self, variance: gpflow.Parameter, column: int, after: float) -> None:
        super().__init__(variance, [column])
        self.after = after

    def said_columns(self, rows: tf.Tensor) -> tf.Tensor:
        if rows.shape[-1] <= self.columns[0]:
            return super().said_columns(rows)
        return tf.cast(super().said_columns(rows) > self.after, rows.dtype)


class LeanTerm(TermOfDuels):
    """What each level of a column, such as each judge, adds to one of the coefficients.

    :param variance: of all levels' numbers.
    :param covariate: the place in a row of what these are multiplied by.
    :param level: the place of the number of the level.
    :param levels: how many there are; None for those of the graph, which chunks of duels have not
        all of.
    """

    def __init__(
        self, variance: gpflow.Parameter, covariate: int, level: int, levels: int | None = None
    ) -> None:
        super().__init__()
        self.variance, self.levels = variance, levels
        self.columns, self.level = [covariate, level], level

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        levels = None if X2 is None else X2[..., 1:]
        apart = gpflow.utilities.ops.difference_matrix(X[..., 1:], levels)[..., 0]
        other = X if X2 is None else X2
        product = self.variance * _product(X[..., :1], other[..., :1], X2 is None)
        return tf.where(apart == 0.0, product, tf.zeros_like(product))

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return self.variance * X[..., 0] ** 2

    def num_own(self, graph: DuelGraph | None) -> int:
        return len(self.numbers(graph))

    def variances(self, graph: DuelGraph) -> tf.Tensor:
        return tf.fill([self.num_own(graph)], tf.convert_to_tensor(self.variance))

    def multipliers(self, graph: DuelGraph, said: tf.Tensor) -> tf.Tensor:
        same = said[..., 1:] == tf.constant(self.numbers(graph), said.dtype)
        return said[..., :1] * tf.cast(same, said.dtype)

    def difference_variance(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        a, b = self.said_columns(first), self.said_columns(second)
        same = tf.cast(a[..., 1] == b[..., 1], a.dtype)
        shared = 2.0 * same * a[..., 0] * b[..., 0]
        return self.variance * (a[..., 0] ** 2 + b[..., 0] ** 2 - shared)

    def numbers(self, graph: DuelGraph | None) -> IntArray:
        """Of the levels: of all, or of those that a row names."""
        if self.levels is not None:
            return np.arange(self.levels)
        assert graph is not None
        found: IntArray = np.unique(graph.columns(self.columns[1:]))
        return found[found >= 0]


def _product(one: tf.Tensor, other: tf.Tensor, same_shape: bool) -> tf.Tensor:
    """one other', over all leading axes of the second where these are others."""
    if same_shape:
        return tf.matmul(one, other, transpose_b=True)
    return tf.tensordot(one, other, [[-1], [-1]])


def widened(inputs: tf.Tensor, layout: RowLayout) -> tf.Tensor:
    """Rows (..., D) of items as rows of the graph, of which nothing more is said."""
    spare = layout.width - inputs.shape[-1]
    if layout.plain or not spare:
        return inputs
    said = tf.zeros_like(inputs[..., :1]) * tf.ones([spare], inputs.dtype)
    if layout.levels:
        levels = layout.levels
        said = tf.concat([said[..., :-levels], said[..., -levels:] - 1.0], -1)
    return tf.concat([inputs, said], -1)


def mean_on_rows(
    function: Callable[[tf.Tensor], tf.Tensor] | None, layout: RowLayout
) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """A mean function of items as one of rows, of which it sees the features."""
    if function is None or layout.plain:
        return function
    return lambda rows: function(rows[:, : layout.features])


def on_rows(
    kernel: gpflow.kernels.Kernel, layout: RowLayout, terms: Sequence[TermOfDuels] = ()
) -> gpflow.kernels.Kernel:
    """A kernel of items as one of rows, with the terms of their other columns.

    A copy that shares the parameters, unless rows hold nothing but features.
    """
    if layout.plain:
        return kernel
    numbered = numbered_kernel(kernel, layout.features)
    return gpflow.kernels.Sum([numbered, *terms]) if terms else numbered
