"""Low-rank covariances `K_vv ≈ Phi Phi'`, over duels and over items (docs/method.md, 3 and 4).

The variables are whitened inducing values, `u ~ N(0, I)`, and `z = Phi u`. Under sites with
precision `T` and shift `s`, `Lambda = Phi' T Phi` and `h = Phi' s`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import pairwise

import gpflow
import numpy as np
import tensorflow as tf
from scipy import sparse

from sparse_prefgp.covariances.base import Column, Intermediates, SequentialState
from sparse_prefgp.covariances.kernels import as_places
from sparse_prefgp.covariances.low_rank_base import InducingPosterior, LowRank, Sums
from sparse_prefgp.data.graph import (
    Links,
    differences,
    incidence_transpose,
    squared_distances_without_gradient,
)
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.custom_gradient import custom_gradient
from sparse_prefgp.support.linalg import (
    by_numpy,
    chunks,
    constant_matmul,
    product_plus_outer,
    squared_lengths,
    weighted_gram,
)


class WithoutBlocks(LowRank):
    """Sites that meet in the variables alone: each by itself is its features times these."""

    @abstractmethod
    def site_features(self, site: tf.Tensor) -> tf.Tensor:
        """Of one site, (m,)."""

    def own(self, precision: tf.Tensor, shift: tf.Tensor) -> Intermediates:
        return ()

    def own_half_log_det(self, own: Intermediates) -> tf.Tensor:
        return tf.zeros([], gpflow.default_float())

    def start(self, precision: tf.Tensor, shift: tf.Tensor) -> SequentialState:
        u = self.conditioned(precision, shift).u
        return SequentialState(u.covariance, u.mean[:, 0])

    def column(self, state: SequentialState, site: tf.Tensor) -> Column:
        features = self.site_features(site)
        covariance = tf.linalg.matvec(state.covariance, features)
        return Column(
            covariance,
            mean=tf.reduce_sum(features * state.mean),
            variance=tf.reduce_sum(features * covariance),
        )


class NoResidual(WithoutBlocks):
    """z = Phi u: what the two forms share, everything that happens among the inducing values."""

    @abstractmethod
    def _product(self, precision: tf.Tensor) -> tf.Tensor:
        """Phi' T Phi, (m, m), without gradient."""

    @abstractmethod
    def _back(self, shift: tf.Tensor) -> tf.Tensor:
        """Phi' s, (m, 1), with its gradient in Phi."""

    @abstractmethod
    def project(self, mean: tf.Tensor) -> tf.Tensor:
        """Phi mean for mean (m, 1), (t,), without gradient."""

    @abstractmethod
    def _squared_lengths(self, inverse: tf.Tensor) -> tf.Tensor:
        """|inverse row|² of each row of Phi, (t,), without gradient."""

    # For effects of levels beside Phi u, of which each site sees one (`levels.py`).

    @abstractmethod
    def grouped(self, weights: tf.Tensor, number: IntArray, size: int) -> tf.Tensor:
        """Sums of weights (t,) times rows of Phi over the sites of each level, (L, m), without
        gradient.

        :param number: (t,) the level of each site, below L = size.
        """

    @abstractmethod
    def along(self, table: tf.Tensor, number: IntArray) -> tf.Tensor:
        """Each row of Phi times the row of its level, (t,), of a table (L, m); without gradient."""

    @abstractmethod
    def pulled(self, weights: tf.Tensor, table: tf.Tensor, number: IntArray) -> tf.Tensor:
        """A scalar whose derivative in each row of Phi is its weight times the row of its level."""

    def sums(self, precision: tf.Tensor, shift: tf.Tensor, own: Intermediates) -> Sums:
        return Sums(self._product(precision), tf.stop_gradient(self._back(shift)))

    def marginals_under(
        self, u: InducingPosterior, own: Intermediates
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return self.project(u.mean), self._squared_lengths(u.inverse)

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(self._back(left) * self._back(right))


class LowRankOverDuels(NoResidual):
    """Phi itself, (t, m), whole or in chunks of rows: for fewer duels than items. O(t m²) a sweep.

    Many duels come in chunks, so that nothing besides Phi is ever as large as Phi.
    """

    def __init__(self, features: tf.Tensor | Sequence[tf.Tensor]) -> None:
        self._chunks = (features,) if tf.is_tensor(features) else tuple(features)
        self._constants = tuple(map(tf.stop_gradient, self._chunks))

    @cached_property
    def _sizes(self) -> list[int]:
        return [int(chunk.shape[0]) for chunk in self._chunks]

    def _split(self, values: tf.Tensor) -> list[tf.Tensor]:
        """Values of all sites, (t,), as those of each chunk."""
        return [values] if len(self._chunks) == 1 else tf.split(values, self._sizes)

    def _product(self, precision: tf.Tensor) -> tf.Tensor:
        each = zip(self._constants, self._split(precision), strict=True)
        return tf.add_n([weighted_gram(chunk, weights) for chunk, weights in each])

    def _back(self, shift: tf.Tensor) -> tf.Tensor:
        each = zip(self._chunks, self._split(shift), strict=True)
        return tf.add_n([tf.matmul(chunk, s[:, None], transpose_a=True) for chunk, s in each])

    def project(self, mean: tf.Tensor) -> tf.Tensor:
        return tf.concat([tf.matmul(chunk, mean)[:, 0] for chunk in self._constants], 0)

    def _squared_lengths(self, inverse: tf.Tensor) -> tf.Tensor:
        return tf.concat([squared_lengths(chunk, inverse) for chunk in self._constants], 0)

    def surrogate_under(
        self, precision: tf.Tensor, shift: tf.Tensor, u: InducingPosterior, own: Intermediates
    ) -> tf.Tensor:
        of_sites = (self._split(values) for values in (precision, shift))
        each, moment = zip(self._chunks, self._constants, *of_sites, strict=True), u.second_moment
        return tf.add_n(
            [
                _with_slope(chunk, partial(_slope, rows, moment, u.mean, s[:, None], weights))
                for chunk, rows, weights, s in each
            ]
        )

    def site_features(self, site: tf.Tensor) -> tf.Tensor:
        return tf.stop_gradient(self.features)[site]

    def _stretches(self) -> list[slice]:
        """The sites of each chunk."""
        ends = np.cumsum([0, *self._sizes]).tolist()
        return [slice(*both) for both in pairwise(ends)]

    def grouped(self, weights: tf.Tensor, number: IntArray, size: int) -> tf.Tensor:
        def add(weights: FloatArray, *chunks: FloatArray) -> FloatArray:
            each = zip(self._stretches(), chunks, strict=True)
            sums = [
                by_level(weights[at], number[at], np.arange(len(chunk)), (size, len(chunk))) @ chunk
                for at, chunk in each
            ]
            return np.asarray(sum(sums))

        return by_numpy(add, weights, *self._constants, shape=[size, self._constants[0].shape[1]])

    def along(self, table: tf.Tensor, number: IntArray) -> tf.Tensor:
        def multiply(table: FloatArray, *chunks: FloatArray) -> FloatArray:
            each = zip(self._stretches(), chunks, strict=True)
            return np.concatenate(
                [np.einsum("ik,ik->i", chunk, table[number[at]]) for at, chunk in each]
            )

        return by_numpy(multiply, table, *self._constants, shape=[len(number)])

    def pulled(self, weights: tf.Tensor, table: tf.Tensor, number: IntArray) -> tf.Tensor:
        def slope(at: slice, share: tf.Tensor) -> tf.Tensor:
            return share * weights[at, None] * tf.gather(table, as_places(number[at]))

        each = zip(self._chunks, self._stretches(), strict=True)
        return tf.add_n([_with_slope(chunk, partial(slope, at)) for chunk, at in each])

    @cached_property
    def features(self) -> tf.Tensor:
        """Phi in one piece, (t, m)."""
        return self._chunks[0] if len(self._chunks) == 1 else tf.concat(self._chunks, 0)


class LowRankOverItems(NoResidual):
    """`features` is B, (n, m), with Phi = A B: for shared items. O(n m² + t m) a sweep.

    :param single_precision: what inference gathers and sums over duels, the sparse product and the
        squared distances, in float32; all that is m × m, and the gradient, in the features' own
        type.
    :param diagonal: whether B is, as of items that share nothing: no product with it then.
    """

    def __init__(
        self,
        features: tf.Tensor,
        graph: Links,
        single_precision: bool = False,
        diagonal: bool = False,
    ) -> None:
        self.features, self._diagonal = features, diagonal
        self._constant = tf.stop_gradient(features)
        self._graph = graph
        self._gathered = self._constant
        if single_precision:
            # What all items share cancels in a duel, but would take digits from its float32.
            shared = tf.reduce_mean(self._constant, 0, keepdims=True)
            self._gathered = tf.cast(self._constant - shared, tf.float32)

    def _product(self, precision: tf.Tensor) -> tf.Tensor:
        gathered = self._gathered
        if self._diagonal:
            scale = tf.linalg.diag_part(self._constant)
            return scale[:, None] * self._graph.laplacian.dense(precision) * scale
        half = self._graph.laplacian.half_matmul(tf.cast(precision, gathered.dtype), gathered)
        # Of the rounded features on both sides, so that P stays that of one Phi.
        rounded, half = (tf.cast(x, self.features.dtype) for x in (gathered, half))
        product = constant_matmul(rounded, half, transpose_a=True)
        return product + tf.transpose(product)

    def _summed(self, shift: tf.Tensor) -> tf.Tensor:
        """A' s, (n, 1)."""
        return incidence_transpose(self._graph, shift)[:, None]

    def _back(self, shift: tf.Tensor) -> tf.Tensor:
        return tf.matmul(self.features, self._summed(shift), transpose_a=True)

    def project(self, mean: tf.Tensor) -> tf.Tensor:
        return differences(self._graph, tf.matmul(self._constant, mean)[:, 0])

    def _squared_lengths(self, inverse: tf.Tensor) -> tf.Tensor:
        inverse = tf.cast(inverse, self._gathered.dtype)
        if self._diagonal:
            scaled = tf.linalg.diag_part(self._constant)[:, None] * tf.transpose(inverse)
        else:
            scaled = constant_matmul(self._gathered, inverse, transpose_b=True)
        return tf.cast(squared_distances_without_gradient(self._graph, scaled), self.features.dtype)

    def surrogate_under(
        self, precision: tf.Tensor, shift: tf.Tensor, u: InducingPosterior, own: Intermediates
    ) -> tf.Tensor:
        weighted = self._graph.laplacian.matmul(precision, self._constant)
        slope = partial(_slope, weighted, u.second_moment, u.mean, self._summed(shift), None)
        return _with_slope(self.features, slope)

    def site_features(self, site: tf.Tensor) -> tf.Tensor:
        winners, losers = self._graph.edges
        return self._constant[losers[site]] - self._constant[winners[site]]

    def _by_level(
        self, weights: FloatArray, number: IntArray, size: int
    ) -> FloatArray | sparse.csr_matrix:
        """(L, n), by how much the sites of each level see each row of B."""
        graph, shape = self._graph, (size, self._graph.num_rows)
        if size * graph.num_rows <= len(number):
            lost, won = (
                np.bincount(graph.num_rows * number + ends, weights, size * graph.num_rows)
                for ends in (graph.losers, graph.winners)
            )
            return np.reshape(lost - won, shape)
        lost = by_level(weights, number, graph.losers, shape)
        return lost - by_level(weights, number, graph.winners, shape)

    def grouped(self, weights: tf.Tensor, number: IntArray, size: int) -> tf.Tensor:
        def add(weights: FloatArray, rows: FloatArray) -> FloatArray:
            return np.asarray(self._by_level(weights, number, size) @ rows)

        return by_numpy(add, weights, self._constant, shape=[size, self.features.shape[1]])

    def along(self, table: tf.Tensor, number: IntArray) -> tf.Tensor:
        graph = self._graph

        def multiply(table: FloatArray, rows: FloatArray) -> FloatArray:
            if len(table) * len(rows) <= len(number) * rows.shape[1]:
                product, first = np.ravel(table @ rows.T), len(rows) * number
                return product[first + graph.losers] - product[first + graph.winners]
            found = np.empty(len(number))
            for at in chunks(len(number), 8 * rows.shape[1]):
                step = rows[graph.losers[at]] - rows[graph.winners[at]]
                found[at] = np.einsum("ik,ik->i", step, table[number[at]])
            return found

        return by_numpy(multiply, table, self._constant, shape=[len(number)])

    def pulled(self, weights: tf.Tensor, table: tf.Tensor, number: IntArray) -> tf.Tensor:
        def multiply(weights: FloatArray, table: FloatArray) -> FloatArray:
            return np.asarray(self._by_level(weights, number, len(table)).T @ table)

        def slope(share: tf.Tensor) -> tf.Tensor:
            shape = self.features.shape.as_list()
            return share * by_numpy(multiply, weights, table, shape=shape)

        return _with_slope(self.features, slope)


class LowRankBesideColumns(LowRankOverItems):
    """Phi = (A B, X diag(scale)): items, and next to them the covariates of duels.

    :param features: B, (n, m).
    :param columns: X, (t, C), of the loser less of the winner.
    :param scale: (C,) standard deviations of their coefficients.
    """

    def __init__(
        self,
        features: tf.Tensor,
        graph: Links,
        columns: tf.Tensor,
        scale: tf.Tensor,
        single_precision: bool = False,
    ) -> None:
        super().__init__(features, graph, single_precision)
        self._scale = scale
        self._given = tf.convert_to_tensor(columns)
        self._columns = self._given * tf.stop_gradient(scale)
        self._m = features.shape[1]

    def _product(self, precision: tf.Tensor) -> tf.Tensor:
        weighted = precision[:, None] * self._columns
        crossed = constant_matmul(self._constant, self._of_rows(weighted), transpose_a=True)
        own = constant_matmul(self._columns, weighted, transpose_a=True)
        above = tf.concat([super()._product(precision), crossed], 1)
        return tf.concat([above, tf.concat([tf.transpose(crossed), own], 1)], 0)

    def _of_rows(self, values: tf.Tensor) -> tf.Tensor:
        """A' values, (n, C), of (t, C)."""
        return tf.stack([self._summed(each)[:, 0] for each in tf.unstack(values, axis=1)], 1)

    def _back(self, shift: tf.Tensor) -> tf.Tensor:
        own = self._scale[:, None] * tf.matmul(self._given, shift[:, None], transpose_a=True)
        return tf.concat([super()._back(shift), own], 0)

    def project(self, mean: tf.Tensor) -> tf.Tensor:
        own = tf.linalg.matvec(self._columns, mean[self._m :, 0])
        return super().project(mean[: self._m]) + own

    def _squared_lengths(self, inverse: tf.Tensor) -> tf.Tensor:
        of_items, own = inverse[:, : self._m], inverse[:, self._m :]
        crossed = constant_matmul(of_items, own, transpose_a=True)
        among = constant_matmul(own, own, transpose_a=True)
        between = differences(self._graph, tf.matmul(self._constant, crossed))
        more = 2.0 * between + tf.matmul(self._columns, among)
        return super()._squared_lengths(of_items) + tf.reduce_sum(more * self._columns, -1)

    def surrogate_under(
        self, precision: tf.Tensor, shift: tf.Tensor, u: InducingPosterior, own: Intermediates
    ) -> tf.Tensor:
        m, weighted = self._m, precision[:, None] * self._columns
        among = self._of_rows(weighted)
        rows = tf.concat([self._graph.laplacian.matmul(precision, self._constant), among], 1)
        moment, mean = u.second_moment, u.mean
        summed = self._summed(shift)

        def slope(share: tf.Tensor) -> tf.Tensor:
            return product_plus_outer(rows, -share * moment[:, :m], share * summed, mean[:m], None)

        # The same in X diag(scale), of which a scale sees its own column.
        crossed = tf.matmul(among, self._constant, transpose_a=True)
        own = tf.concat([crossed, tf.matmul(weighted, self._columns, transpose_a=True)], 1)
        seen = tf.matmul(self._columns, shift[:, None], transpose_a=True)[:, 0] * mean[m:, 0]
        slopes = seen - tf.reduce_sum(own * tf.transpose(moment[:, m:]), 1)
        by_scale = tf.stop_gradient(slopes / self._scale) * self._scale
        return _with_slope(self.features, slope) + tf.reduce_sum(by_scale)

    def site_features(self, site: tf.Tensor) -> tf.Tensor:
        return tf.concat([super().site_features(site), self._columns[site]], 0)

    def grouped(self, weights: tf.Tensor, number: IntArray, size: int) -> tf.Tensor:
        def add(weights: FloatArray, columns: FloatArray) -> FloatArray:
            each = [np.bincount(number, weights * column, size) for column in columns.T]
            return np.stack(each, 1)

        own = by_numpy(add, weights, self._columns, shape=[size, self._columns.shape[1]])
        return tf.concat([super().grouped(weights, number, size), own], 1)

    def along(self, table: tf.Tensor, number: IntArray) -> tf.Tensor:
        own = tf.reduce_sum(tf.gather(table[:, self._m :], as_places(number)) * self._columns, -1)
        return super().along(table[:, : self._m], number) + own

    def pulled(self, weights: tf.Tensor, table: tf.Tensor, number: IntArray) -> tf.Tensor:
        rows = weights[:, None] * tf.gather(table[:, self._m :], as_places(number))
        by_scale = tf.stop_gradient(tf.reduce_sum(rows * self._given, 0)) * self._scale
        return super().pulled(weights, table[:, : self._m], number) + tf.reduce_sum(by_scale)


def by_level(
    weights: FloatArray, number: IntArray, column: IntArray, shape: tuple[int, int]
) -> sparse.csr_matrix:
    """Weights (t,) in the rows of their levels and in these columns, those of one place summed."""
    return sparse.csr_matrix((weights, (number, column)), shape=shape)


def _slope(
    rows: tf.Tensor,
    moment: tf.Tensor,
    mean: tf.Tensor,
    summed: tf.Tensor,
    weights: tf.Tensor | None,
    share: tf.Tensor,
) -> tf.Tensor:
    """The derivative in Phi, `s (E u)' - T Phi E u u'`, times a scalar share.

    :param rows: (t, p), of Phi; without weights of T Phi.
    :param summed: s, (t, 1).
    """
    return product_plus_outer(rows, -share * moment, share * summed, mean, weights)


def _with_slope(values: tf.Tensor, slope: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """A scalar, 0, that depends on `values`.

    :param slope: makes its derivative, times a scalar, when it is asked for.
    """

    @custom_gradient
    def compute(x: tf.Tensor) -> tuple[tf.Tensor, object]:
        return tf.zeros([], x.dtype), slope

    return compute(values)
