"""Low rank plus tastes, over the rows that each person compares: for many duels between few items.

z = A (B u + h), of each person with A, B and h of the p rows that the person's duels compare:
whitened inducing values `u ~ N(0, I)` and `h ~ N(0, K_1)`, the person's own. Under sites with
precision T and shift s, with `W = A'TA` and

    V = (I + K_1 W)⁻¹        S = V K_1        F = V B

the posterior of u is `N(P⁻¹h, P⁻¹)`, `P = I + Σ B'W V B`, `h = Σ B'V'A's`, and B u + h at the rows
has mean `F P⁻¹h + S A's` and covariance `F P⁻¹F' + S`. It is what `low_rank_blocks.py` says of
blocks of people, at O(p³ + p² m) a person however many duels there are; nothing cancels in S,
however strong tastes are, and K_1 may be singular.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.base import Column, SequentialState
from sparse_prefgp.covariances.low_rank_base import InducingPosterior, LowRank, Sums
from sparse_prefgp.covariances.low_rank_blocks import Told, check_sequential
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.support.linalg import constant_matmul


class _Part(NamedTuple):
    """A bucket of people under the sites."""

    told: tf.Tensor
    """(g, p, p) W V = A'G A."""
    features: tf.Tensor
    """(g, p, m) F."""
    left: tf.Tensor
    """(g, p, p) S."""
    shift: tf.Tensor
    """(g, p, 1) A's."""
    natural: tf.Tensor
    """(g, p, 1) A'n = V'A's."""
    half_log_det: tf.Tensor
    """½ log|I + K_1 W|, summed."""


Own: TypeAlias = tuple[_Part, ...]


class LowRankPlusTastes(LowRank):
    """The covariance of z, never formed.

    :param features: for each bucket (g, p, m), B of the rows of each person; rows that none of the
        person's duels compares do not count.
    :param kernels: for each bucket (g, p, p), K_1 between them.
    :param buckets: how people and sites lie in them.
    :param num_sites: t.
    """

    over_rows: ClassVar[bool] = True

    def __init__(
        self,
        features: Sequence[tf.Tensor],
        kernels: Sequence[tf.Tensor],
        buckets: Sequence[Bucket],
        num_sites: int,
    ) -> None:
        self._features, self._kernels = tuple(features), tuple(kernels)
        self.buckets = tuple(buckets)
        self._phi = tuple(map(tf.stop_gradient, features))
        self._k = tuple(map(tf.stop_gradient, kernels))
        self._apart = tuple(ends_of_rows(one, features[0].dtype) for one in buckets)
        self._num_sites = num_sites
        # Padding has the number t and is sorted to the end.
        places = np.concatenate([bucket.sites.reshape(-1) for bucket in buckets])
        self._place_of_site = np.argsort(places, kind="stable")[:num_sites]
        self.clipped = tf.zeros([], features[0].dtype)

    def _spread(self, values: tf.Tensor) -> list[tf.Tensor]:
        padded = tf.concat([values, tf.zeros([1], values.dtype)], 0)
        return [tf.gather(padded, bucket.sites)[..., None] for bucket in self.buckets]

    def _collect(self, values: Sequence[tf.Tensor]) -> tf.Tensor:
        """(g, b) per bucket to (t,)."""
        flat = tf.concat([tf.reshape(value, [-1]) for value in values], 0)
        return tf.gather(flat, self._place_of_site)

    # Conditioning.

    def own(self, precision: tf.Tensor, shift: tf.Tensor) -> Own:
        pieces = zip(
            self._phi, self._k, self._apart, *map(self._spread, (precision, shift)), strict=True
        )
        return tuple(_part(*piece) for piece in pieces)

    def sums(self, precision: tf.Tensor, shift: tf.Tensor, own: Own) -> Sums:
        width, dtype = self._phi[0].shape[-1], self._phi[0].dtype
        inner, h = tf.zeros([width, width], dtype), tf.zeros([width, 1], dtype)
        for phi, part in zip(self._phi, own, strict=True):
            flat = tf.reshape(phi, [-1, width])
            told = tf.reshape(tf.matmul(part.told, phi), [-1, width])
            inner += constant_matmul(flat, told, transpose_a=True)
            h += tf.matmul(flat, tf.reshape(part.natural, [-1, 1]), transpose_a=True)
        return Sums(0.5 * (inner + tf.transpose(inner)), h)

    def own_half_log_det(self, own: Own) -> tf.Tensor:
        return tf.add_n([part.half_log_det for part in own])

    def marginals_under(self, u: InducingPosterior, own: Own) -> tuple[tf.Tensor, tf.Tensor]:
        means, variances = [], []
        for bucket, part in zip(self.buckets, own, strict=True):
            mean = _times(part.features, u.mean) + tf.matmul(part.left, part.shift)
            scaled = _times(part.features, u.inverse, transpose=True)
            covariance = part.left + tf.matmul(scaled, scaled, transpose_b=True)
            means.append(_difference(mean[..., 0], bucket))
            variances.append(_variance(covariance, bucket))
        return self._collect(means), self._collect(variances)

    def surrogate_under(
        self, precision: tf.Tensor, shift: tf.Tensor, u: InducingPosterior, own: Own
    ) -> tf.Tensor:
        # As in `low_rank_blocks.py`, at the rows: Phi = A B and R~ = A K_1 A'.
        total = tf.zeros([], u.mean.dtype)
        for i, (features, kernel) in enumerate(zip(self._features, self._kernels, strict=True)):
            said = self.told(i, own[i], u)
            by_features = said.weights * u.mean[:, 0] - _times(said.scaled, u.inverse)
            by_kernel = tf.matmul(said.weights, said.weights, transpose_b=True) - said.explained
            total += tf.reduce_sum(tf.stop_gradient(by_features) * features)
            total += tf.reduce_sum(tf.stop_gradient(0.5 * by_kernel) * kernel)
        return total

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """left' K right, a scalar, for K the covariance of z; differentiable. (t,), (t,)."""
        sides = [
            [
                tf.matmul(apart, values, transpose_a=True)
                for apart, values in zip(self._apart, self._spread(side), strict=True)
            ]
            for side in (left, right)
        ]
        sums = [
            tf.add_n(
                [
                    tf.reduce_sum(features * values, [0, 1])
                    for features, values in zip(self._features, side, strict=True)
                ]
            )
            for side in sides
        ]
        total = tf.reduce_sum(sums[0] * sums[1])
        for kernel, first, second in zip(self._kernels, *sides, strict=True):
            total += tf.reduce_sum(first * tf.matmul(kernel, second))
        return total

    def told(self, number: int, part: _Part, u: InducingPosterior) -> Told:
        """What the sites say of the rows of the people of one bucket, by its number: with A' and A
        on either side, (g, p, 1), (g, p, p) and (g, p, m)."""
        crossed = tf.matmul(part.told, self._phi[number])
        scaled = _times(crossed, u.inverse, transpose=True)
        explained = part.told - tf.matmul(scaled, scaled, transpose_b=True)
        return Told(part.natural - _times(crossed, u.mean), explained, scaled)

    # One site after the other.

    def start(self, precision: tf.Tensor, shift: tf.Tensor) -> SequentialState:
        """The covariance of all z, (t, t), as of `LowRankPlusBlocks`.

        :raises ValueError: more than 5,000 sites.
        """
        t = self._num_sites
        check_sequential(t)
        u, own = self.conditioned(precision, shift)
        pieces, means = [], []
        covariance = tf.zeros([t + 1, t + 1], u.mean.dtype)
        for bucket, apart, part in zip(self.buckets, self._apart, own, strict=True):
            f = tf.matmul(apart, part.features)
            pieces.append(tf.reshape(_times(f, u.inverse, transpose=True), [-1, f.shape[-1]]))
            mean = _times(part.features, u.mean) + tf.matmul(part.left, part.shift)
            means.append(_difference(mean[..., 0], bucket))
            s = tf.matmul(tf.matmul(apart, part.left), apart, transpose_b=True)
            rows = np.broadcast_to(bucket.sites[:, :, None], s.shape)
            index = np.stack([rows, np.swapaxes(rows, 1, 2)], -1)
            covariance = tf.tensor_scatter_nd_add(covariance, index, s)
        scaled = tf.gather(tf.concat(pieces, 0), self._place_of_site)
        covariance = covariance[:t, :t] + constant_matmul(scaled, scaled, transpose_b=True)
        return SequentialState(covariance, self._collect(means))

    def column(self, state: SequentialState, site: tf.Tensor) -> Column:
        column = state.covariance[:, site]
        return Column(column, mean=state.mean[site], variance=column[site])

    def left_out(self, precision: tf.Tensor, shift: tf.Tensor, site: tf.Tensor) -> None:
        return None


def ends_of_rows(bucket: Bucket, dtype: tf.DType) -> tf.Tensor:
    """A, (g, b, p): the loser of each site less its winner among the rows of its person."""
    places = np.arange(bucket.rows.shape[1])
    losers = bucket.losers[..., None] == places
    winners = bucket.winners[..., None] == places
    return tf.constant(losers.astype(np.float64) - winners, dtype)


def undone(kernels: tf.Tensor, told: tf.Tensor) -> tf.Tensor:
    """I + K_1 W, (g, p, p)."""
    product = tf.matmul(kernels, told)
    one = tf.ones([], product.dtype)
    return tf.linalg.set_diag(product, tf.linalg.diag_part(product) + one)


def _part(
    phi: tf.Tensor, kernel: tf.Tensor, apart: tf.Tensor, precision: tf.Tensor, shift: tf.Tensor
) -> _Part:
    """One bucket under the sites: (g, p, m), (g, p, p), (g, b, p), and (g, b, 1) twice."""
    told = tf.matmul(apart, precision * apart, transpose_a=True)
    said = tf.matmul(apart, shift, transpose_a=True)
    matrix = undone(kernel, told)
    size = phi.shape[-1]
    solved = tf.linalg.solve(matrix, tf.concat([phi, kernel], -1))
    features, left = solved[..., :size], solved[..., size:]
    # W V = W - W S W, with S symmetric but for rounding.
    left = 0.5 * (left + tf.linalg.matrix_transpose(left))
    through = tf.linalg.solve(matrix, told, adjoint=True)  # V'W = (W V)'
    return _Part(
        told=0.5 * (through + tf.linalg.matrix_transpose(through)),
        features=features,
        left=left,
        shift=said,
        natural=tf.linalg.solve(matrix, said, adjoint=True),
        half_log_det=0.5 * tf.reduce_sum(tf.linalg.slogdet(matrix).log_abs_determinant),
    )


def _difference(values: tf.Tensor, bucket: Bucket) -> tf.Tensor:
    """Loser minus winner of each site, (g, p) to (g, b)."""
    ahead = tf.gather(values, bucket.losers, axis=1, batch_dims=1)
    return ahead - tf.gather(values, bucket.winners, axis=1, batch_dims=1)


def _variance(covariance: tf.Tensor, bucket: Bucket) -> tf.Tensor:
    """Of loser minus winner of each site, (g, p, p) to (g, b)."""
    diagonal = tf.linalg.diag_part(covariance)
    rows = tf.gather(covariance, bucket.losers, axis=1, batch_dims=1)
    between = tf.gather(rows, bucket.winners, axis=2, batch_dims=2)
    own = tf.add_n(
        [
            tf.gather(diagonal, ends, axis=1, batch_dims=1)
            for ends in (bucket.losers, bucket.winners)
        ]
    )
    return own - 2.0 * between


def _times(stack: tf.Tensor, matrix: tf.Tensor, *, transpose: bool = False) -> tf.Tensor:
    """A stack (g, p, m) times one matrix (m, k), as a single product: (g, p, k)."""
    g, p, m = stack.shape
    flat = constant_matmul(tf.reshape(stack, [g * p, m]), matrix, transpose_b=transpose)
    return tf.reshape(flat, [g, p, -1])
