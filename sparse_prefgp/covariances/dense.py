"""Full covariances over duels, `K_vv`, and over items, `K` (docs/method.md, sections 2 and 4)."""

from __future__ import annotations

from abc import abstractmethod

import tensorflow as tf
from check_shapes import inherit_check_shapes

from sparse_prefgp.covariances.base import (
    Column,
    Marginals,
    PosteriorTerms,
    SequentialCovariance,
    SequentialOverSites,
    SequentialState,
    WholeTerms,
)
from sparse_prefgp.data.graph import DuelGraph, differences, incidence_transpose
from sparse_prefgp.support.linalg import (
    add_to_diagonal,
    cholesky_with_jitter,
    constant_matmul,
    half_log_det_of,
    inverse_lower,
)


class _Dense(SequentialCovariance):
    """What both have of a matrix K."""

    _matrix: tf.Tensor

    @abstractmethod
    def _terms(self, precision: tf.Tensor, shift: tf.Tensor, kept: tf.Tensor) -> WholeTerms:
        """a = s - T mean, and what conditioning takes off, between the sites or the items."""

    def surrogate(self, precision: tf.Tensor, shift: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
        # d/dK = ½ (a a' - reduction), GPML eq. 5.9: no gradient of a Cholesky factor is taken.
        terms = self._terms(precision, shift, kept)
        slope = 0.5 * (terms.weights[:, None] * terms.weights[None, :] - terms.reduction)
        return tf.reduce_sum(tf.stop_gradient(slope) * self._matrix)


class DenseOverDuels(SequentialOverSites, _Dense):
    """`K_vv` itself, (t, t), positive semi-definite, singular allowed. O(t³) a sweep.

    :param matrix: (t, t).
    :param noise_free: the factors have no noise of their own (the v-form, D = 0). Dividing a site
        out then loses its digits, and cavities are computed without the site instead
        (docs/method.md, section 2).
    """

    def __init__(self, matrix: tf.Tensor, *, noise_free: bool = False) -> None:
        self._matrix = matrix
        self._constant = tf.stop_gradient(matrix)
        self._noise_free = noise_free

    def _factor(self, root: tf.Tensor) -> tf.Tensor:
        # B = I + T^½ K T^½ is positive definite whatever K and T >= 0 are. GPML eq. 3.26
        scaled = root[:, None] * self._constant * root[None, :]
        return tf.linalg.cholesky(add_to_diagonal(scaled, 1.0))

    def _covariance(self, factor: tf.Tensor, root: tf.Tensor) -> tf.Tensor:
        half = tf.linalg.triangular_solve(factor, root[:, None] * self._constant)
        return self._constant - constant_matmul(half, half, transpose_a=True)

    @inherit_check_shapes
    def marginals(self, precision: tf.Tensor, shift: tf.Tensor) -> Marginals:
        root = tf.sqrt(precision)
        factor = self._factor(root)
        half_log_det = half_log_det_of(factor)
        if not self._noise_free:
            half = tf.linalg.triangular_solve(factor, root[:, None] * self._constant)
            mean = tf.linalg.matvec(self._constant, self._weights(factor, root, shift))
            variance = tf.linalg.diag_part(self._constant) - tf.reduce_sum(half * half, 0)
            return Marginals(mean, variance, half_log_det, kept=factor)
        covariance = self._covariance(factor, root)
        inverse = inverse_lower(factor)
        q = tf.reduce_sum(inverse * inverse, 0)  # diagonal of B⁻¹ = 1 - tau v
        informative = q < 0.5
        safe = tf.where(informative, precision, tf.ones_like(precision))
        variance = tf.where(informative, (1.0 - q) / safe, tf.linalg.diag_part(covariance))
        # m_c = sum over j ≠ i of Sigma_ij nu_j / q_i, v_c = v_i / q_i
        others = tf.linalg.set_diag(covariance, tf.zeros_like(shift))
        from_others = tf.linalg.matvec(others, shift)
        return Marginals(
            mean=from_others + variance * shift,
            variance=variance,
            half_log_det=half_log_det,
            kept=factor,
            left_out=(from_others / q, variance / q),
        )

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(left * tf.linalg.matvec(self._matrix, right))

    def predict(self, precision: tf.Tensor, shift: tf.Tensor) -> PosteriorTerms:
        return self._terms(precision, shift, self._factor(tf.sqrt(precision)))

    def _terms(self, precision: tf.Tensor, shift: tf.Tensor, kept: tf.Tensor) -> WholeTerms:
        # T^½ B⁻¹ T^½, with the Cholesky factor of B.
        root = tf.sqrt(precision)
        inverse = inverse_lower(kept) * root[None, :]
        reduction = constant_matmul(inverse, inverse, transpose_a=True)
        return WholeTerms(self._weights(kept, root, shift), reduction)

    def _weights(self, factor: tf.Tensor, root: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
        """a = s - T mean, for which the mean is K a, as `T^½ B⁻¹ T^-½ s`.

        Sites that contradict each other at low noise cancel there; K s alone, from which as much
        would be taken off, is larger than the mean by K T.
        """
        zero = tf.zeros_like(shift)
        rest = tf.where(
            root > 0.0, zero, shift
        )  # of sites without precision, to which T^-½ is none
        said = tf.math.divide_no_nan(shift, root) - root * tf.linalg.matvec(self._constant, rest)
        return rest + root * tf.linalg.cholesky_solve(factor, said[:, None])[:, 0]

    def start(self, precision: tf.Tensor, shift: tf.Tensor) -> SequentialState:
        root = tf.sqrt(precision)
        factor = self._factor(root)
        mean = tf.linalg.matvec(self._constant, self._weights(factor, root, shift))
        return SequentialState(self._covariance(factor, root), mean)

    def left_out(
        self, precision: tf.Tensor, shift: tf.Tensor, site: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor] | None:
        if not self._noise_free:
            return None
        without = tf.one_hot(site, tf.shape(precision)[0], 0.0, 1.0, dtype=precision.dtype)
        state = self.start(precision * without, shift * without)
        return state.mean[site], state.covariance[site, site]


class DenseOverItems(_Dense):
    """`K` over the n distinct items of a graph, (n, n): exact inference in O(n³ + t) a sweep.

    z = A f, f = L u with `K = L L'` and `u ~ N(0, I)`; L is never inverted, so a nearly singular K
    is harmless. `jitter` is what was added to the diagonal of K to factorise it (most often 0).
    """

    def __init__(self, matrix: tf.Tensor, graph: DuelGraph) -> None:
        self._matrix = matrix
        self._graph = graph
        self._root, self.jitter = cholesky_with_jitter(tf.stop_gradient(matrix))

    def _condition(
        self, precision: tf.Tensor, shift: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Cholesky factor of P, C with Sigma = C C' the covariance of f, and A' s."""
        weighted = self._graph.laplacian.matmul(precision, self._root)
        inner = constant_matmul(self._root, weighted, transpose_a=True)
        factor = tf.linalg.cholesky(add_to_diagonal(inner, 1.0))
        half = constant_matmul(self._root, inverse_lower(factor), transpose_b=True)
        return factor, half, incidence_transpose(self._graph, shift)

    @inherit_check_shapes
    def marginals(self, precision: tf.Tensor, shift: tf.Tensor) -> Marginals:
        factor, half, summed = self._condition(precision, shift)
        covariance = constant_matmul(half, half, transpose_b=True)
        # The diagonal of A Sigma A'.
        winners, losers = self._graph.edges
        own = tf.linalg.diag_part(covariance)
        between = tf.gather_nd(covariance, tf.stack([winners, losers], 1))
        return Marginals(
            mean=differences(self._graph, tf.linalg.matvec(covariance, summed)),
            variance=tf.gather(own, winners) + tf.gather(own, losers) - 2.0 * between,
            half_log_det=half_log_det_of(factor),
            kept=half,
        )

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        both = [incidence_transpose(self._graph, values) for values in (left, right)]
        return tf.reduce_sum(both[0] * tf.linalg.matvec(self._matrix, both[1]))

    def predict(self, precision: tf.Tensor, shift: tf.Tensor) -> PosteriorTerms:
        return self._terms(precision, shift, self._condition(precision, shift)[1])

    def _terms(self, precision: tf.Tensor, shift: tf.Tensor, kept: tf.Tensor) -> WholeTerms:
        # W - W Sigma W with Sigma = C C'.
        summed = incidence_transpose(self._graph, shift)
        weighted = self._graph.laplacian.matmul(precision, kept)  # W C
        weights = summed - tf.linalg.matvec(
            weighted, tf.linalg.matvec(kept, summed, transpose_a=True)
        )
        reduction = self._graph.laplacian.dense(precision) - constant_matmul(
            weighted, weighted, transpose_b=True
        )
        return WholeTerms(weights, reduction)

    def start(self, precision: tf.Tensor, shift: tf.Tensor) -> SequentialState:
        _, half, summed = self._condition(precision, shift)
        covariance = constant_matmul(half, half, transpose_b=True)
        return SequentialState(covariance, tf.linalg.matvec(covariance, summed))

    def column(self, state: SequentialState, site: tf.Tensor) -> Column:
        winners, losers = self._graph.edges
        winner, loser = winners[site], losers[site]
        column = state.covariance[:, loser] - state.covariance[:, winner]
        return Column(
            column,
            mean=state.mean[loser] - state.mean[winner],
            variance=column[loser] - column[winner],
        )
