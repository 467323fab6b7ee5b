"""Full covariances over duels, `K_vv`, and over items, `K` (docs/method.md, sections 2 and 4)."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from check_shapes import inherit_check_shapes

from sparse_prefgp.covariances.base import (
    Column,
    Marginals,
    PosteriorTerms,
    SequentialCovariance,
    SequentialState,
    WholeTerms,
)
from sparse_prefgp.data.graph import DuelGraph, differences, incidence_transpose
from sparse_prefgp.support.linalg import (
    add_to_diagonal,
    cholesky_with_jitter,
    constant_matmul,
    inverse_lower,
)


class _Factor(NamedTuple):
    """What `surrogate` wants back of exact inference over sites."""

    lower: tf.Tensor
    """Cholesky factor of I + T^½ K T^½, (t, t)."""


class _Half(NamedTuple):
    """What `surrogate` wants back of exact inference over items."""

    half: tf.Tensor
    """C with C C' the posterior covariance of f, (n, n)."""


class DenseOverDuels(SequentialCovariance):
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
        return tf.linalg.cholesky(add_to_diagonal(scaled, tf.ones([], scaled.dtype)))

    def _covariance(self, factor: tf.Tensor, root: tf.Tensor) -> tf.Tensor:
        half = tf.linalg.triangular_solve(factor, root[:, None] * self._constant)
        return self._constant - constant_matmul(half, half, transpose_a=True)

    @inherit_check_shapes
    def marginals(self, precision: tf.Tensor, shift: tf.Tensor) -> Marginals:
        root = tf.sqrt(precision)
        factor = self._factor(root)
        half_log_det = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))
        if self._noise_free:
            return self._marginals_left_out(factor, root, precision, shift, half_log_det)
        half = tf.linalg.triangular_solve(factor, root[:, None] * self._constant)
        mean = tf.linalg.matvec(self._constant, self._weights(factor, root, shift))
        variance = tf.linalg.diag_part(self._constant) - tf.reduce_sum(half * half, 0)
        return Marginals(mean, variance, half_log_det, kept=_Factor(factor))

    def _marginals_left_out(
        self,
        factor: tf.Tensor,
        root: tf.Tensor,
        precision: tf.Tensor,
        shift: tf.Tensor,
        half_log_det: tf.Tensor,
    ) -> Marginals:
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
            kept=_Factor(factor),
            left_out=(from_others / q, variance / q),
        )

    def surrogate(self, precision: tf.Tensor, shift: tf.Tensor, kept: _Factor) -> tf.Tensor:
        # d/dK = ½ (a a' - T^½ B⁻¹ T^½), a = s - T mean. GPML eq. 5.9
        terms = self._terms(precision, shift, kept.lower)
        slope = 0.5 * (terms.weights[:, None] * terms.weights[None, :] - terms.reduction)
        return tf.reduce_sum(tf.stop_gradient(slope) * self._matrix)

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(left * tf.linalg.matvec(self._matrix, right))

    def predict(self, precision: tf.Tensor, shift: tf.Tensor) -> PosteriorTerms:
        return self._terms(precision, shift, self._factor(tf.sqrt(precision)))

    def _terms(self, precision: tf.Tensor, shift: tf.Tensor, factor: tf.Tensor) -> PosteriorTerms:
        root = tf.sqrt(precision)
        inverse = inverse_lower(factor) * root[None, :]
        reduction = constant_matmul(inverse, inverse, transpose_a=True)
        return WholeTerms(self._weights(factor, root, shift), reduction)

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

    def column(self, state: SequentialState, site: tf.Tensor) -> Column:
        column = state.covariance[:, site]
        return Column(column, mean=state.mean[site], variance=column[site])

    def left_out(
        self, precision: tf.Tensor, shift: tf.Tensor, site: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor] | None:
        if not self._noise_free:
            return None
        without = tf.one_hot(site, tf.shape(precision)[0], 0.0, 1.0, dtype=precision.dtype)
        state = self.start(precision * without, shift * without)
        return state.mean[site], state.covariance[site, site]


class DenseOverItems(SequentialCovariance):
    """`K` over the n distinct items of a graph, (n, n): exact inference in O(n³ + t) a sweep.

    z = A L u with `K = L L'` and `u ~ N(0, I)`; L is never inverted, so a nearly singular K is
    harmless. `jitter` is what was added to the diagonal of K to factorise it (most often 0).
    """

    def __init__(self, matrix: tf.Tensor, graph: DuelGraph) -> None:
        self._matrix = matrix
        self._graph = graph
        self._root, self.jitter = cholesky_with_jitter(tf.stop_gradient(matrix))

    def _condition(
        self, precision: tf.Tensor, shift: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Cholesky factor of P, C with Sigma = C C' the covariance of f, and A' s."""
        weighted = self._weighted(precision, self._root)
        inner = constant_matmul(self._root, weighted, transpose_a=True)
        factor = tf.linalg.cholesky(add_to_diagonal(inner, tf.ones([], inner.dtype)))
        half = constant_matmul(self._root, inverse_lower(factor), transpose_b=True)
        return factor, half, self._back(shift)

    @inherit_check_shapes
    def marginals(self, precision: tf.Tensor, shift: tf.Tensor) -> Marginals:
        factor, half, summed = self._condition(precision, shift)
        covariance = constant_matmul(half, half, transpose_b=True)
        return Marginals(
            mean=self._forward(tf.linalg.matvec(covariance, summed)),
            variance=self._variances(covariance),
            half_log_det=tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor))),
            kept=_Half(half),
        )

    def surrogate(self, precision: tf.Tensor, shift: tf.Tensor, kept: _Half) -> tf.Tensor:
        # d/dK = ½ (a a' - W + W Sigma W): no gradient of a Cholesky factor is taken.
        terms = self._terms(precision, shift, kept.half)
        slope = 0.5 * (terms.weights[:, None] * terms.weights[None, :] - terms.reduction)
        return tf.reduce_sum(tf.stop_gradient(slope) * self._matrix)

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        both = [self._back(values) for values in (left, right)]
        return tf.reduce_sum(both[0] * tf.linalg.matvec(self._matrix, both[1]))

    def predict(self, precision: tf.Tensor, shift: tf.Tensor) -> PosteriorTerms:
        return self._terms(precision, shift, self._condition(precision, shift)[1])

    def _terms(self, precision: tf.Tensor, shift: tf.Tensor, half: tf.Tensor) -> PosteriorTerms:
        summed = self._back(shift)
        weighted = self._weighted(precision, half)  # W C
        weights = summed - tf.linalg.matvec(
            weighted, tf.linalg.matvec(half, summed, transpose_a=True)
        )
        reduction = self._weights(precision) - constant_matmul(weighted, weighted, transpose_b=True)
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

    def left_out(self, precision: tf.Tensor, shift: tf.Tensor, site: tf.Tensor) -> None:
        return None

    # z = A f, and what becomes of A: (t, n), the incidence matrix of the graph.

    def _back(self, values: tf.Tensor) -> tf.Tensor:
        """A' values of (t,), (n,)."""
        return incidence_transpose(self._graph, values)

    def _forward(self, values: tf.Tensor) -> tf.Tensor:
        """A values of (n,), (t,)."""
        return differences(self._graph, values)

    def _weights(self, precision: tf.Tensor) -> tf.Tensor:
        """W = A' T A, (n, n)."""
        return self._graph.laplacian.dense(precision)

    def _weighted(self, precision: tf.Tensor, dense: tf.Tensor) -> tf.Tensor:
        """W dense of (n, k), (n, k)."""
        return self._graph.laplacian.matmul(precision, dense)

    def _variances(self, covariance: tf.Tensor) -> tf.Tensor:
        """Diagonal of A covariance A', (t,)."""
        winners, losers = self._graph.edges
        item_variance = tf.linalg.diag_part(covariance)
        between = tf.gather_nd(covariance, tf.stack([winners, losers], 1))
        return tf.gather(item_variance, winners) + tf.gather(item_variance, losers) - 2.0 * between
