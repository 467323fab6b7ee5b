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

from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.covariances.low_rank_base import InducingPosterior
from sparse_prefgp.covariances.low_rank_buckets import LowRankInBuckets, Told, spread, times
from sparse_prefgp.covariances.residual import ends_apart
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.support.linalg import add_to_diagonal, constant_matmul


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


class LowRankPlusTastes(LowRankInBuckets):
    """Over the rows of people: `features` are B, and rows that none of a person's duels compares do
    not count; `residuals` are K_1."""

    over_rows: ClassVar[bool] = True

    @cached_property
    def _apart(self) -> tuple[tf.Tensor, ...]:
        return tuple(map(ends_of_rows, self.buckets))

    def _part(self, number: int, precision: tf.Tensor, shift: tf.Tensor) -> _Part:
        phi, kernel, apart = self._phi[number], self._r[number], self._apart[number]
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

    def _gram(self, number: int, part: _Part) -> tf.Tensor:
        phi = self._phi[number]
        both = (tf.reshape(x, [-1, phi.shape[-1]]) for x in (phi, tf.matmul(part.told, phi)))
        inner = constant_matmul(*both, transpose_a=True)
        return 0.5 * (inner + tf.transpose(inner))

    def marginals_under(
        self, u: InducingPosterior, own: tuple[_Part, ...]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        means, variances = [], []
        for bucket, part in zip(self.buckets, own, strict=True):
            mean = times(part.features, u.mean) + tf.matmul(part.left, part.shift)
            scaled = times(part.features, u.inverse, transpose=True)
            covariance = part.left + tf.matmul(scaled, scaled, transpose_b=True)
            means.append(ends_apart(mean, bucket))
            variances.append(_variance(covariance, bucket)[..., None])
        return self._collect(means)[:, 0], self._collect(variances)[:, 0]

    def _of_blocks(self, values: tf.Tensor) -> list[tf.Tensor]:
        each = zip(self._apart, spread(values, self.buckets), strict=True)
        return [tf.matmul(apart, one, transpose_a=True) for apart, one in each]

    def told(self, number: int, part: _Part, u: InducingPosterior) -> Told:
        crossed = tf.matmul(part.told, self._phi[number])
        scaled = times(crossed, u.inverse, transpose=True)
        explained = part.told - tf.matmul(scaled, scaled, transpose_b=True)
        return Told(part.natural - times(crossed, u.mean), explained, scaled)

    def _jointly(self, number: int, part: _Part) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        apart = self._apart[number]
        of_rows = part.features, tf.matmul(part.left, part.shift), part.left
        f, mean, half = (tf.matmul(apart, x) for x in of_rows)
        return f, mean, tf.matmul(half, apart, transpose_b=True)


def ends_of_rows(bucket: Bucket) -> tf.Tensor:
    """A, (g, b, p): the loser of each site less its winner among the rows of its person."""
    places = np.arange(bucket.rows.shape[1])
    losers = bucket.losers[..., None] == places
    winners = bucket.winners[..., None] == places
    return as_float(losers.astype(np.float64) - winners)


def undone(kernels: tf.Tensor, told: tf.Tensor) -> tf.Tensor:
    """I + K_1 W, (g, p, p)."""
    return add_to_diagonal(tf.matmul(kernels, told), 1.0)


def _variance(covariance: tf.Tensor, bucket: Bucket) -> tf.Tensor:
    """Of loser minus winner of each site, (g, p, p) to (g, b)."""
    diagonal = tf.linalg.diag_part(covariance)
    rows = tf.gather(covariance, bucket.losers, axis=1, batch_dims=1)
    between = tf.gather(rows, bucket.winners, axis=2, batch_dims=2)
    lost, won = (
        tf.gather(diagonal, ends, axis=1, batch_dims=1) for ends in (bucket.losers, bucket.winners)
    )
    return lost + won - 2.0 * between
