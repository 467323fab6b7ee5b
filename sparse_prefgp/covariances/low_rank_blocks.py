"""Low rank plus blocks, `Phi Phi' + blockdiag(R~)` (docs/method.md, section 10).

z = Phi u + r with whitened inducing values `u ~ N(0, I)` and residuals r, independent of u and
between blocks, with covariance R~ within one. Under sites with precision T and shift s, block by
block,

    G = T^½ (I + T^½ R~ T^½)⁻¹ T^½    n = (I - G R~) s    S = R~ - R~ G R~    F = Phi - R~ G Phi

the posterior of u is `N(P⁻¹h, P⁻¹)`, `P = I + Σ Phi'G Phi`, `h = Σ Phi'n`, and z has mean
`F P⁻¹h + S s` and covariance `F P⁻¹F' + S`. Quiñonero-Candela & Rasmussen (2005) call the prior the
partially independent training conditional, PITC.

New inputs may join a block: with a their features and r their residual covariance with its sites,
`k(x, z) - a Phi'`,

    E f = a E u + r (n - H E u)              H = G Phi of the block
    Cov f = k - a a' - r G r' + (a - r H) P⁻¹ (a - r H)'

the partially independent conditional, PIC (Snelson & Ghahramani 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.base import PosteriorTerms, WholeTerms
from sparse_prefgp.covariances.low_rank_base import InducingPosterior, LowRankIntermediates
from sparse_prefgp.covariances.low_rank_buckets import LowRankInBuckets, Told, times
from sparse_prefgp.covariances.residual import BLOCKS, Term, Unexplained, summed
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.support.linalg import add_to_diagonal, constant_matmul, half_log_det_of
from sparse_prefgp.support.machine import ask

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


class PICTerms(NamedTuple):
    """The posterior with blocks joined to the inducing values, and the features it needs."""

    posterior: PosteriorTerms
    """For the features [a, r] that `features` makes, (N, m + b)."""
    features: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    """Of inputs (N, D) and their features a (N, m)."""


class LowRankPlusBlocks(LowRankInBuckets):
    """Over sites: O(t b² + t b m + t m²) a sweep for blocks of b.

    :param features: for each bucket (g, b, m), rows of Phi, zero where there is no site.
    :param terms: whose sum is R~; `clipped` is by how much rounding had made it negative.
    :param buckets: how blocks and sites lie in them.
    :param num_sites: t.
    :raises NotEnoughMemory: more than is free.
    """

    def __init__(
        self,
        features: Sequence[tf.Tensor],
        terms: Sequence[Term],
        buckets: Sequence[Bucket],
        num_sites: int,
    ) -> None:
        squares = sum(bucket.sites.size * bucket.sites.shape[1] for bucket in buckets)
        ask(
            _SQUARES * 8 * squares,
            f"Covariances within the blocks of {num_sites:,} distinct duels",
            "take smaller blocks",
        )
        self._terms = tuple(terms)
        residuals, self.clipped = summed(terms, buckets, features)
        super().__init__(features, residuals, buckets, num_sites)

    def _part(self, number: int, precision: tf.Tensor, shift: tf.Tensor) -> _Part:
        r, root = self._r[number], tf.sqrt(precision)
        scaled = root * r * tf.linalg.matrix_transpose(root)
        factor = tf.linalg.cholesky(add_to_diagonal(scaled, 1.0))
        half = tf.linalg.triangular_solve(factor, tf.linalg.diag(root[..., 0]))
        taken = tf.matmul(half, tf.matmul(r, shift))
        return _Part(
            half=half,
            white=tf.matmul(half, self._phi[number]),
            natural=shift - tf.matmul(half, taken, transpose_a=True),
            half_log_det=half_log_det_of(factor),
        )

    def _gram(self, number: int, part: _Part) -> tf.Tensor:
        white = tf.reshape(part.white, [-1, part.white.shape[-1]])
        return constant_matmul(white, white, transpose_a=True)

    def marginals_under(
        self, u: InducingPosterior, own: tuple[_Part, ...]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        means, variances = [], []
        for phi, r, part in zip(self._phi, self._r, own, strict=True):
            half_r = tf.matmul(part.half, r)
            f = phi - tf.matmul(half_r, part.white, transpose_a=True)
            means.append(times(f, u.mean) + tf.matmul(r, part.natural))  # S s = R~ n
            scaled = times(f, u.inverse, transpose=True)
            left = tf.linalg.diag_part(r) - tf.reduce_sum(half_r * half_r, 1)
            variances.append((left + tf.reduce_sum(scaled * scaled, -1))[..., None])
        return self._collect(means)[:, 0], self._collect(variances)[:, 0]

    def _jointly(self, number: int, part: _Part) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        r = self._r[number]
        half_r = tf.matmul(part.half, r)
        f = self._phi[number] - tf.matmul(half_r, part.white, transpose_a=True)
        return f, tf.matmul(r, part.natural), r - tf.matmul(half_r, half_r, transpose_a=True)

    # Prediction.

    def told(self, number: int, part: _Part, u: InducingPosterior) -> Told:
        half, white = part.half, part.white
        weights = part.natural - tf.matmul(half, times(white, u.mean), transpose_a=True)
        scaled = tf.matmul(half, times(white, u.inverse, transpose=True), transpose_a=True)
        explained = tf.matmul(half, half, transpose_a=True)
        return Told(weights, explained - tf.matmul(scaled, scaled, transpose_b=True), scaled)

    def joining(self, block: int, kept: LowRankIntermediates) -> PICTerms:
        """Of new inputs that join a block of PITC, by its number.

        `kept` is what `conditioned` gave under the sites.
        """
        u, own = kept
        term = cast(Unexplained, next(term for term in self._terms if term.name == BLOCKS))
        members = np.flatnonzero(term.groups == block)
        # Bucket and place in it of the one block that has these.
        ((bucket, slot),) = {
            (i, int(slot))
            for i, bucket in enumerate(self.buckets)
            for slot in np.flatnonzero(np.isin(bucket.sites, members).any(1))
        }
        sites = self.buckets[bucket].sites[slot]
        size = int(np.sum(sites < self._num_sites))
        sites, theirs = sites[:size], self._phi[bucket][slot, :size]
        half, white, natural = (x[slot : slot + 1] for x in own[bucket][:3])
        alone = own[bucket]._replace(half=half, white=white, natural=natural)
        told = self.told(bucket, alone, u)
        weights = tf.concat([u.mean, told.weights[0, :size]], 0)[:, 0]
        crossed = tf.matmul(told.scaled[0, :size], u.inverse)
        reduction = tf.concat(
            [
                tf.concat([u.terms.reduction, tf.transpose(crossed)], 1),
                tf.concat([crossed, told.explained[0, :size, :size]], 1),
            ],
            0,
        )

        def joined(inputs: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
            related = term.with_inputs(inputs, features, sites, theirs)
            same = tf.cast(term.groups[sites] == block, features.dtype)
            return tf.concat([features, related * same], 1)

        return PICTerms(WholeTerms(weights, reduction), joined)

    def inducing_values(
        self, precision: tf.Tensor, shift: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Mean and variance of Phi u under q(u), (t,) each, and KL[q(u) || p(u)].

        KL = ½ (tr P⁻¹ - m + |E u|² + log|P|).
        """
        u = self.conditioned(precision, shift).u
        means = [times(phi, u.mean) for phi in self._phi]
        scaled = [times(phi, u.inverse, transpose=True) for phi in self._phi]
        variances = [tf.reduce_sum(x * x, -1, keepdims=True) for x in scaled]
        trace = tf.reduce_sum(u.inverse**2)
        width = tf.cast(self._phi[0].shape[-1], trace.dtype)
        kl = 0.5 * (trace - width + tf.reduce_sum(u.mean**2)) + u.half_log_det
        return self._collect(means)[:, 0], self._collect(variances)[:, 0], kl
