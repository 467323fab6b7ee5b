"""Low rank plus blocks, `Phi Phi' + blockdiag(R~)` (docs/method.md, section 10).

z = Phi u + r with whitened inducing values `u ~ N(0, I)` and residuals r, independent of u and
between blocks, with covariance R~ within one. Under sites with precision T and shift s, block by
block,

    G = T^½ (I + T^½ R~ T^½)⁻¹ T^½    n = (I - G R~) s    S = R~ - R~ G R~    F = Phi - R~ G Phi

the posterior of u is `N(P⁻¹h, P⁻¹)`, `P = I + Σ Phi'G Phi`, `h = Σ Phi'n`, and z has mean
`F P⁻¹h + S s` and covariance `F P⁻¹F' + S`. Quiñonero-Candela & Rasmussen (2005) call the prior the
partially independent training conditional, PITC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.base import Column, SequentialState
from sparse_prefgp.covariances.low_rank_base import (
    InducingPosterior,
    LowRank,
    LowRankIntermediates,
    Sums,
)
from sparse_prefgp.covariances.residual import Term, summed
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.linalg import constant_matmul
from sparse_prefgp.support.machine import ask

# One after the other, sites change the covariance of all z, (t, t): 200 MB at so many.
SEQUENTIAL_UP_TO = 5000
# Matrices of a block that a sweep has at once.
_SQUARES = 5


class _Part(NamedTuple):
    """A bucket of blocks under the sites, with G = half' half."""

    half: tf.Tensor
    """(g, b, b) L⁻¹ T^½ for L L' = I + T^½ R~ T^½."""
    white: tf.Tensor
    """(g, b, m) half Phi, so that Phi'G Phi = white' white."""
    natural: tf.Tensor
    """(g, b, 1) n."""
    half_log_det: tf.Tensor
    """½ log|I + T^½ R~ T^½|, summed."""


# One for each bucket.
Own: TypeAlias = tuple[_Part, ...]


class Told(NamedTuple):
    """What the sites of g blocks say besides the inducing values."""

    weights: tf.Tensor
    """(g, b, 1) n - G Phi E u."""
    explained: tf.Tensor
    """(g, b, b) G - G Phi P⁻¹ Phi'G."""
    scaled: tf.Tensor
    """(g, b, m) G Phi chol(P)⁻ᵀ."""


class BlockUnderSites(NamedTuple):
    """One block of b sites under the sites, at the posterior of u."""

    terms: tuple[Term, ...]
    """Those of R~ that the block was asked for by."""
    sites: IntArray
    """(b,) their numbers."""
    features: tf.Tensor
    """(b, m) Phi of the block."""
    weights: tf.Tensor
    """(b, 1) n - H E u, with H = G Phi."""
    explained: tf.Tensor
    """(b, b) G - H P⁻¹ H'."""
    crossed: tf.Tensor
    """(b, m) H P⁻¹."""


class LowRankPlusBlocks(LowRank):
    """The covariance of z, never formed: O(t b² + t b m + t m²) a sweep for blocks of b sites.

    :param features: for each bucket (g, b, m), rows of Phi, zero where there is no site.
    :param terms: whose sum is R~; `clipped` is by how much rounding had made it negative.
    :param buckets: how blocks and sites lie in them.
    :param num_sites: t.
    :raises NotEnoughMemory: more than is free.
    """

    # Whether `told` is of the rows that the sites of a block compare, and not of the sites.
    over_rows: ClassVar[bool] = False

    def __init__(
        self,
        features: Sequence[tf.Tensor],
        terms: Sequence[Term],
        buckets: Sequence[Bucket],
        num_sites: int,
    ) -> None:
        self._features, self._terms, self.buckets = tuple(features), tuple(terms), tuple(buckets)
        squares = sum(bucket.sites.size * bucket.sites.shape[1] for bucket in buckets)
        ask(
            _SQUARES * 8 * squares,
            f"Covariances within the blocks of {num_sites:,} distinct duels",
            "take smaller blocks",
        )
        self._residuals, self.clipped = summed(terms, buckets, features)
        self._phi = tuple(map(tf.stop_gradient, features))
        self._r = tuple(map(tf.stop_gradient, self._residuals))
        self._num_sites = num_sites
        # Padding has the number t and is sorted to the end.
        places = np.concatenate([bucket.sites.reshape(-1) for bucket in buckets])
        self._place_of_site = np.argsort(places, kind="stable")[:num_sites]

    @property
    def residuals(self) -> tuple[tf.Tensor, ...]:
        """R~ of each bucket, (g, b, b)."""
        return self._residuals

    # Between (t,) per site and (g, b, 1) per bucket.

    def _spread(self, values: tf.Tensor) -> list[tf.Tensor]:
        padded = tf.concat([values, tf.zeros([1], values.dtype)], 0)
        return [tf.gather(padded, bucket.sites)[..., None] for bucket in self.buckets]

    def _collect(self, values: Sequence[tf.Tensor]) -> tf.Tensor:
        """(g, b, k) per bucket to (t, k)."""
        flat = tf.concat([tf.reshape(value, [-1, value.shape[-1]]) for value in values], 0)
        return tf.gather(flat, self._place_of_site)

    # Conditioning.

    def own(self, precision: tf.Tensor, shift: tf.Tensor) -> Own:
        pieces = zip(self._phi, self._r, *map(self._spread, (precision, shift)), strict=True)
        return tuple(_part(*piece) for piece in pieces)

    def sums(self, precision: tf.Tensor, shift: tf.Tensor, own: Own) -> Sums:
        width = self._phi[0].shape[-1]
        dtype = self._phi[0].dtype
        inner, h = tf.zeros([width, width], dtype), tf.zeros([width, 1], dtype)
        for phi, part in zip(self._phi, own, strict=True):
            white = tf.reshape(part.white, [-1, width])
            inner += constant_matmul(white, white, transpose_a=True)
            flat = tf.reshape(phi, [-1, width])
            h += tf.matmul(flat, tf.reshape(part.natural, [-1, 1]), transpose_a=True)
        return Sums(inner, h)

    def own_half_log_det(self, own: Own) -> tf.Tensor:
        return tf.add_n([part.half_log_det for part in own])

    def marginals_under(self, u: InducingPosterior, own: Own) -> tuple[tf.Tensor, tf.Tensor]:
        means, variances = [], []
        for phi, r, part in zip(self._phi, self._r, own, strict=True):
            half_r = tf.matmul(part.half, r)
            f = phi - tf.matmul(half_r, part.white, transpose_a=True)
            means.append(_times(f, u.mean) + tf.matmul(r, part.natural))  # S s = R~ n
            scaled = _times(f, u.inverse, transpose=True)
            left = tf.linalg.diag_part(r) - tf.reduce_sum(half_r * half_r, 1)
            variances.append((left + tf.reduce_sum(scaled * scaled, -1))[..., None])
        return self._collect(means)[:, 0], self._collect(variances)[:, 0]

    def surrogate_under(
        self, precision: tf.Tensor, shift: tf.Tensor, u: InducingPosterior, own: Own
    ) -> tf.Tensor:
        # With C the covariance, d/dC = ½ (a a' - M), a = n - G Phi E u the weights of z and
        # M = G - G Phi P⁻¹ Phi'G. So d/dPhi = (a a' - M) Phi = a (E u)' - G Phi P⁻¹, for
        # Phi'a = E u and M Phi = G Phi P⁻¹; and d/dR~ is the block of d/dC.
        total = tf.zeros([], u.mean.dtype)
        pieces = zip(self._features, self._residuals, own, strict=True)
        for features, residual, part in pieces:
            weights, explained, scaled = _weights(part, u)
            by_features = weights * u.mean[:, 0] - _times(scaled, u.inverse)
            by_residual = tf.matmul(weights, weights, transpose_b=True) - explained
            total += tf.reduce_sum(tf.stop_gradient(by_features) * features)
            total += tf.reduce_sum(tf.stop_gradient(0.5 * by_residual) * residual)
        return total

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """left' K right, a scalar, for K the covariance of z; differentiable. (t,), (t,)."""
        sides = [self._spread(left), self._spread(right)]
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
        for residual, first, second in zip(self._residuals, *sides, strict=True):
            total += tf.reduce_sum(first * tf.matmul(residual, second))
        return total

    # Prediction.

    def told(self, number: int, part: _Part, u: InducingPosterior) -> Told:
        """What the sites of the blocks of one bucket say, by its number; `part` is of `own`."""
        del number
        return Told(*_weights(part, u))

    def block(self, groups: Mapping[str, int], kept: LowRankIntermediates) -> BlockUnderSites:
        """The block that has this group of each of these terms, by its name.

        `kept` is what `conditioned` gave under the sites.
        """
        u, own = kept
        terms = tuple(term for term in self._terms if term.name in groups)
        bucket, slot, size = self._find(terms, groups)
        half, white, natural = (x[slot : slot + 1] for x in own[bucket][:3])
        alone = own[bucket]._replace(half=half, white=white, natural=natural)
        weights, explained, scaled = _weights(alone, u)
        return BlockUnderSites(
            terms,
            self.buckets[bucket].sites[slot, :size],
            self._phi[bucket][slot, :size],
            weights[0, :size],
            explained[0, :size, :size],
            tf.matmul(scaled[0, :size], u.inverse),
        )

    def _find(self, terms: Sequence[Term], groups: Mapping[str, int]) -> tuple[int, int, int]:
        """Bucket, place in it, and number of sites of the one block that has these groups."""
        wanted = [np.flatnonzero(term.groups == groups[term.name]) for term in terms]
        found = {
            (i, int(slot))
            for i, bucket in enumerate(self.buckets)
            for sites in wanted
            for slot in np.flatnonzero(np.isin(bucket.sites, sites).any(1))
        }
        ((i, slot),) = found
        return i, slot, int(np.sum(self.buckets[i].sites[slot] < self._num_sites))

    def inducing_values(
        self, precision: tf.Tensor, shift: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Mean and variance of Phi u under q(u), (t,) each, and KL[q(u) || p(u)].

        KL = ½ (tr P⁻¹ - m + |E u|² + log|P|).
        """
        u = self.conditioned(precision, shift).u
        means = [_times(phi, u.mean) for phi in self._phi]
        scaled = [_times(phi, u.inverse, transpose=True) for phi in self._phi]
        variances = [tf.reduce_sum(x * x, -1, keepdims=True) for x in scaled]
        trace = tf.reduce_sum(u.inverse**2)
        width = tf.cast(self._phi[0].shape[-1], trace.dtype)
        kl = 0.5 * (trace - width + tf.reduce_sum(u.mean**2)) + u.half_log_det
        return self._collect(means)[:, 0], self._collect(variances)[:, 0], kl

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
        for phi, r, part, bucket in zip(self._phi, self._r, own, self.buckets, strict=True):
            half_r = tf.matmul(part.half, r)
            f = phi - tf.matmul(half_r, part.white, transpose_a=True)
            pieces.append(_times(f, u.inverse, transpose=True))
            means.append(_times(f, u.mean) + tf.matmul(r, part.natural))
            s = r - tf.matmul(half_r, half_r, transpose_a=True)
            rows = np.broadcast_to(bucket.sites[:, :, None], s.shape)
            index = np.stack([rows, np.swapaxes(rows, 1, 2)], -1)
            covariance = tf.tensor_scatter_nd_add(covariance, index, s)
        scaled = self._collect(pieces)
        covariance = covariance[:t, :t] + constant_matmul(scaled, scaled, transpose_b=True)
        return SequentialState(covariance, self._collect(means)[:, 0])

    def column(self, state: SequentialState, site: tf.Tensor) -> Column:
        column = state.covariance[:, site]
        return Column(column, mean=state.mean[site], variance=column[site])

    def left_out(self, precision: tf.Tensor, shift: tf.Tensor, site: tf.Tensor) -> None:
        return None


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


def _part(phi: tf.Tensor, r: tf.Tensor, precision: tf.Tensor, shift: tf.Tensor) -> _Part:
    """One bucket under the sites: (g, b, m), (g, b, b), and (g, b, 1) twice."""
    root = tf.sqrt(precision)
    scaled = root * r * tf.linalg.matrix_transpose(root)
    one = tf.ones([], r.dtype)
    factor = tf.linalg.cholesky(tf.linalg.set_diag(scaled, tf.linalg.diag_part(scaled) + one))
    half = tf.linalg.triangular_solve(factor, tf.linalg.diag(root[..., 0]))
    taken = tf.matmul(half, tf.matmul(r, shift))
    return _Part(
        half=half,
        white=tf.matmul(half, phi),
        natural=shift - tf.matmul(half, taken, transpose_a=True),
        half_log_det=_sum_log_diagonal(factor),
    )


def _weights(part: _Part, u: InducingPosterior) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """a = n - G Phi E u (g, b, 1), M = G - G Phi P⁻¹ Phi'G (g, b, b), G Phi chol(P)⁻ᵀ (g, b, m)."""
    half, white = part.half, part.white
    weights = part.natural - tf.matmul(half, _times(white, u.mean), transpose_a=True)
    scaled = tf.matmul(half, _times(white, u.inverse, transpose=True), transpose_a=True)
    explained = tf.matmul(half, half, transpose_a=True)
    explained -= tf.matmul(scaled, scaled, transpose_b=True)
    return weights, explained, scaled


def _times(stack: tf.Tensor, matrix: tf.Tensor, *, transpose: bool = False) -> tf.Tensor:
    """A stack (g, b, m) times one matrix (m, k), as a single product: (g, b, k)."""
    g, b, m = stack.shape
    flat = constant_matmul(tf.reshape(stack, [g * b, m]), matrix, transpose_b=transpose)
    return tf.reshape(flat, [g, b, -1])


def _sum_log_diagonal(factor: tf.Tensor) -> tf.Tensor:
    """½ log det of the matrix, or the sum over a stack, whose Cholesky factor is given."""
    return tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))
