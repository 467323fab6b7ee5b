"""What low rank plus blocks and plus tastes share: blocks of similar size are worked on at once.

Block by block z = A (Phi u + r), with residuals r of covariance R~: over the b sites of a block,
where A is the identity, or over the p rows that they compare, where it is loser less winner. Under
sites with precision T and shift s, G = (T⁻¹ + A R~ A')⁻¹ and n = (I - G A R~ A') s.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.base import SequentialOverSites, SequentialState
from sparse_prefgp.covariances.low_rank_base import InducingPosterior, LowRank, Sums
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.support.linalg import constant_matmul

# One after the other, sites change the covariance of all z, (t, t): 200 MB at so many.
SEQUENTIAL_UP_TO = 5000
# A bucket under the sites, as a form has it: `natural`, A'n (g, ·, 1), `half_log_det`, and more.
Part: TypeAlias = Any


class Told(NamedTuple):
    """What the sites of g blocks say besides the inducing values."""

    weights: tf.Tensor
    """(g, ·, 1) A'(n - G A Phi E u)."""
    explained: tf.Tensor
    """(g, ·, ·) A'(G - G A Phi P⁻¹ Phi'A'G) A."""
    scaled: tf.Tensor
    """(g, ·, m) A'G A Phi chol(P)⁻ᵀ."""


class LowRankInBuckets(SequentialOverSites, LowRank):
    """The covariance of z, never formed.

    :param features: for each bucket Phi, (g, ·, m).
    :param residuals: for each bucket R~, (g, ·, ·).
    :param buckets: how blocks and sites lie in them.
    :param num_sites: t.
    """

    # Whether blocks are over the rows that their sites compare.
    over_rows: ClassVar[bool] = False

    def __init__(
        self,
        features: Sequence[tf.Tensor],
        residuals: Sequence[tf.Tensor],
        buckets: Sequence[Bucket],
        num_sites: int,
    ) -> None:
        self._features, self.residuals = tuple(features), tuple(residuals)
        self._phi = tuple(map(tf.stop_gradient, features))
        self._r = tuple(map(tf.stop_gradient, residuals))
        self.buckets, self._num_sites = tuple(buckets), num_sites
        # Padding has the number t and is sorted to the end.
        places = np.concatenate([bucket.sites.reshape(-1) for bucket in buckets])
        self._place_of_site = np.argsort(places, kind="stable")[:num_sites]

    @abstractmethod
    def _part(self, number: int, precision: tf.Tensor, shift: tf.Tensor) -> Part:
        """The bucket of this number under its sites, (g, b, 1) twice."""

    @abstractmethod
    def _gram(self, number: int, part: Part) -> tf.Tensor:
        """Phi'A'G A Phi of a bucket, (m, m)."""

    @abstractmethod
    def told(self, number: int, part: Part, u: InducingPosterior) -> Told:
        """What the sites of a bucket say, by its number; `part` is of `own`."""

    @abstractmethod
    def _jointly(self, number: int, part: Part) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Of the z of a bucket (I - A R~ A'G) A Phi, (g, b, m), and given u = 0 mean (g, b, 1) and
        covariance (g, b, b)."""

    def _of_blocks(self, values: tf.Tensor) -> list[tf.Tensor]:
        """A' values of (t,), (g, ·, 1) of each bucket."""
        return spread(values, self.buckets)

    def _collect(self, values: Sequence[tf.Tensor]) -> tf.Tensor:
        """(g, b, k) per bucket to (t, k)."""
        flat = tf.concat([tf.reshape(value, [-1, value.shape[-1]]) for value in values], 0)
        return tf.gather(flat, self._place_of_site)

    # Conditioning.

    def own(self, precision: tf.Tensor, shift: tf.Tensor) -> tuple[Part, ...]:
        each = zip(*(spread(values, self.buckets) for values in (precision, shift)), strict=True)
        return tuple(self._part(i, *both) for i, both in enumerate(each))

    def sums(self, precision: tf.Tensor, shift: tf.Tensor, own: tuple[Part, ...]) -> Sums:
        inner, h = [], []
        for i, (phi, part) in enumerate(zip(self._phi, own, strict=True)):
            inner.append(self._gram(i, part))
            flat = tf.reshape(phi, [-1, phi.shape[-1]])
            h.append(tf.matmul(flat, tf.reshape(part.natural, [-1, 1]), transpose_a=True))
        return Sums(tf.add_n(inner), tf.add_n(h))

    def own_half_log_det(self, own: tuple[Part, ...]) -> tf.Tensor:
        return tf.add_n([part.half_log_det for part in own])

    def surrogate_under(
        self, precision: tf.Tensor, shift: tf.Tensor, u: InducingPosterior, own: tuple[Part, ...]
    ) -> tf.Tensor:
        # With C the covariance of z, d/dC = ½ (a a' - M), a = n - G A Phi E u the weights of z and
        # M = G - G A Phi P⁻¹ Phi'A'G. So d/dPhi = A'(a a' - M) A Phi = A'a (E u)' - A'G A Phi P⁻¹,
        # for Phi'A'a = E u and M A Phi = G A Phi P⁻¹; and d/dR~ is the block of A'd/dC A.
        total = tf.zeros([], u.mean.dtype)
        for i, (features, residual) in enumerate(zip(self._features, self.residuals, strict=True)):
            said = self.told(i, own[i], u)
            by_features = said.weights * u.mean[:, 0] - times(said.scaled, u.inverse)
            by_residual = tf.matmul(said.weights, said.weights, transpose_b=True) - said.explained
            total += tf.reduce_sum(tf.stop_gradient(by_features) * features)
            total += tf.reduce_sum(tf.stop_gradient(0.5 * by_residual) * residual)
        return total

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """left' K right, a scalar, for K the covariance of z; differentiable. (t,), (t,)."""
        sides = [self._of_blocks(left), self._of_blocks(right)]
        sums = []
        for side in sides:
            each = zip(self._features, side, strict=True)
            sums.append(tf.add_n([tf.reduce_sum(phi * values, [0, 1]) for phi, values in each]))
        total = tf.reduce_sum(sums[0] * sums[1])
        for residual, first, second in zip(self.residuals, *sides, strict=True):
            total += tf.reduce_sum(first * tf.matmul(residual, second))
        return total

    # One site after the other.

    def start(self, precision: tf.Tensor, shift: tf.Tensor) -> SequentialState:
        """The covariance of all z, (t, t), for residuals of all blocks become dependent.

        :raises ValueError: more than 5,000 sites.
        """
        t = self._num_sites
        check_sequential(t)
        u, own = self.conditioned(precision, shift)
        pieces, means = [], []
        covariance = tf.zeros([t + 1, t + 1], u.mean.dtype)
        for i, (bucket, part) in enumerate(zip(self.buckets, own, strict=True)):
            f, mean, s = self._jointly(i, part)
            pieces.append(times(f, u.inverse, transpose=True))
            means.append(times(f, u.mean) + mean)
            rows = np.broadcast_to(bucket.sites[:, :, None], s.shape)
            index = np.stack([rows, np.swapaxes(rows, 1, 2)], -1)
            covariance = tf.tensor_scatter_nd_add(covariance, index, s)
        scaled = self._collect(pieces)
        covariance = covariance[:t, :t] + constant_matmul(scaled, scaled, transpose_b=True)
        return SequentialState(covariance, self._collect(means)[:, 0])


def check_sequential(sites: int) -> None:
    """Refuse more sites than one covariance of all of them is kept for.

    :raises ValueError: more than 5,000.
    """
    if sites > SEQUENTIAL_UP_TO:
        raise ValueError(
            f"SequentialEP() keeps the covariance of all {sites:,} sites at once, since those of a "
            f"block or set depend on each other, and takes at most {SEQUENTIAL_UP_TO:,}; use "
            "ParallelEP()."
        )


def spread(values: tf.Tensor, buckets: Sequence[Bucket]) -> list[tf.Tensor]:
    """(t,) as (g, b, 1) of each bucket, 0 where there is no site."""
    padded = tf.concat([values, tf.zeros([1], values.dtype)], 0)
    return [tf.gather(padded, bucket.sites)[..., None] for bucket in buckets]


def times(stack: tf.Tensor, matrix: tf.Tensor, *, transpose: bool = False) -> tf.Tensor:
    """A stack (g, b, m) times one matrix (m, k), as a single product: (g, b, k)."""
    g, b, m = stack.shape
    flat = constant_matmul(tf.reshape(stack, [g * b, m]), matrix, transpose_b=transpose)
    return tf.reshape(flat, [g, b, -1])
