"""Low-rank covariances `K_vv ≈ Phi Phi'`, over duels and over items (docs/method.md, 3 and 4).

The variables are whitened inducing values, `u ~ N(0, I)`, and `z = Phi u`. Under sites with
precision `T` and shift `s` the posterior of u is `N(P⁻¹ h, P⁻¹)` with `P = I + Phi' T Phi` and
`h = Phi' s`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import tensorflow as tf
from check_shapes import check_shapes

from sparse_prefgp.covariances.base import (
    Column,
    Covariance,
    Marginals,
    PosteriorTerms,
    SequentialState,
)
from sparse_prefgp.graph import (
    DuelGraph,
    differences,
    incidence_transpose,
    squared_distances_without_gradient,
)
from sparse_prefgp.linalg import add_to_diagonal, constant_matmul, inverse_lower


class _LowRank(Covariance, ABC):
    """What the two forms share: everything that happens among the m inducing values."""

    def __init__(self, features: tf.Tensor) -> None:
        self.features = features
        self._constant = tf.stop_gradient(features)

    @abstractmethod
    def _weighted(self, precision: tf.Tensor) -> tf.Tensor:
        """What `features` must be multiplied with from the left to give Phi' T Phi."""

    @abstractmethod
    def _product(self, precision: tf.Tensor) -> tf.Tensor:
        """Phi' T Phi, (m, m), without gradient."""

    @abstractmethod
    def _summed(self, shift: tf.Tensor) -> tf.Tensor:
        """The same for h = Phi' s, (rows of `features`, 1)."""

    @abstractmethod
    def _project(self, values: tf.Tensor) -> tf.Tensor:
        """From values per row of `features` to values per site."""

    @abstractmethod
    def _squared_lengths(self, scaled: tf.Tensor) -> tf.Tensor:
        """|scaled row of each site|², (t,)."""

    @abstractmethod
    def _site_features(self, site: tf.Tensor) -> tf.Tensor:
        """Row of Phi of one site, (m,)."""

    def _mean(self, inverse: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
        h = tf.matmul(self._constant, self._summed(shift), transpose_a=True)
        return tf.matmul(inverse, tf.matmul(inverse, h), transpose_a=True)

    def _condition(self, precision: tf.Tensor, shift: tf.Tensor) -> tuple[tf.Tensor, ...]:
        one = tf.ones([], self._constant.dtype)
        factor = tf.linalg.cholesky(add_to_diagonal(self._product(precision), one))
        inverse = inverse_lower(factor)
        return factor, inverse, self._mean(inverse, shift)

    @check_shapes(
        "precision: [t]",
        "shift: [t]",
        "return.mean: [t]",
        "return.variance: [t]",
        "return.half_log_det: []",
    )
    def marginals(self, precision: tf.Tensor, shift: tf.Tensor) -> Marginals:
        factor, inverse, mean = self._condition(precision, shift)
        mean_of_z, variance = self.marginals_under(inverse, mean)
        return Marginals(
            mean=mean_of_z,
            variance=variance,
            half_log_det=tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor))),
            kept=(inverse, mean),
        )

    @abstractmethod
    def part(self, start: int, stop: int) -> _LowRank:
        """The covariance of sites start to stop alone."""

    def sums(self, precision: tf.Tensor, shift: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Phi' T Phi (m, m) and Phi' s (m, 1), without gradient."""
        return (
            self._product(precision),
            tf.matmul(self._constant, self._summed(shift), transpose_a=True),
        )

    def marginals_under(self, inverse: tf.Tensor, mean: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of each z, (t,), where u ~ N(mean, inverse' inverse), mean (m, 1)."""
        scaled = constant_matmul(self._constant, inverse, transpose_b=True)
        return (
            self._project(tf.matmul(self._constant, mean)[:, 0]),
            self._squared_lengths(scaled),
        )

    def surrogate(
        self, precision: tf.Tensor, shift: tf.Tensor, kept: tuple[tf.Tensor, ...]
    ) -> tf.Tensor:
        # d(½ h'P⁻¹h - ½ log|P|)/d features = (s - T features mu) mu' - T features P⁻¹
        inverse, mean = kept
        weighted = self._weighted(precision)
        covariance = tf.matmul(inverse, inverse, transpose_a=True)
        slope = tf.matmul(self._summed(shift) - tf.matmul(weighted, mean), mean, transpose_b=True)
        slope -= constant_matmul(weighted, covariance)
        return tf.reduce_sum(tf.stop_gradient(slope) * self.features)

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        rows = tf.concat([self._summed(left), self._summed(right)], 1)
        both = tf.matmul(self.features, rows, transpose_a=True)  # Phi' left, Phi' right
        return tf.reduce_sum(both[:, 0] * both[:, 1])

    def posterior_terms(self, precision: tf.Tensor, shift: tf.Tensor) -> PosteriorTerms:
        _, inverse, mean = self._condition(precision, shift)
        covariance = tf.matmul(inverse, inverse, transpose_a=True)
        identity = tf.eye(tf.shape(inverse)[0], dtype=inverse.dtype)
        return PosteriorTerms(mean[:, 0], identity - covariance)

    def start(self, precision: tf.Tensor, shift: tf.Tensor) -> SequentialState:
        _, inverse, mean = self._condition(precision, shift)
        return SequentialState(tf.matmul(inverse, inverse, transpose_a=True), mean[:, 0])

    def column(self, state: SequentialState, site: tf.Tensor) -> Column:
        features = self._site_features(site)
        covariance = tf.linalg.matvec(state.covariance, features)
        return Column(
            covariance,
            mean=tf.reduce_sum(features * state.mean),
            variance=tf.reduce_sum(features * covariance),
        )

    def left_out(self, precision: tf.Tensor, shift: tf.Tensor, site: tf.Tensor) -> None:
        return None


class LowRankOverDuels(_LowRank):
    """`features` is Phi itself, (t, m): for fewer duels than items. O(t m²) a sweep."""

    def part(self, start: int, stop: int) -> LowRankOverDuels:
        return LowRankOverDuels(self.features[start:stop])

    def _weighted(self, precision: tf.Tensor) -> tf.Tensor:
        return precision[:, None] * self._constant

    def _product(self, precision: tf.Tensor) -> tf.Tensor:
        return constant_matmul(self._constant, self._weighted(precision), transpose_a=True)

    def _summed(self, shift: tf.Tensor) -> tf.Tensor:
        return shift[:, None]

    def _project(self, values: tf.Tensor) -> tf.Tensor:
        return values

    def _squared_lengths(self, scaled: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(scaled * scaled, -1)

    def _site_features(self, site: tf.Tensor) -> tf.Tensor:
        return self._constant[site]


class LowRankOverItems(_LowRank):
    """`features` is B, (n, m), with Phi = A B: for shared items. O(n m² + t m) a sweep."""

    def __init__(self, features: tf.Tensor, graph: DuelGraph) -> None:
        super().__init__(features)
        self._graph = graph

    def part(self, start: int, stop: int) -> LowRankOverItems:
        return LowRankOverItems(self.features, self._graph.part(start, stop))

    def _weighted(self, precision: tf.Tensor) -> tf.Tensor:
        return self._graph.laplacian.matmul(precision, self._constant)

    def _product(self, precision: tf.Tensor) -> tf.Tensor:
        half = self._graph.laplacian.half_matmul(precision, self._constant)
        product = constant_matmul(self._constant, half, transpose_a=True)
        return product + tf.transpose(product)

    def _summed(self, shift: tf.Tensor) -> tf.Tensor:
        return incidence_transpose(self._graph, shift)[:, None]

    def _project(self, values: tf.Tensor) -> tf.Tensor:
        return differences(self._graph, values)

    def _squared_lengths(self, scaled: tf.Tensor) -> tf.Tensor:
        return squared_distances_without_gradient(self._graph, scaled)

    def _site_features(self, site: tf.Tensor) -> tf.Tensor:
        winners, losers = self._graph.edges
        return self._constant[losers[site]] - self._constant[winners[site]]
