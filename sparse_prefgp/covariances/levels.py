"""Low rank, next to effects of many levels of which each site sees one: these are eliminated.

z = Phi u + x_l e_l with u ~ N(0, I), l the level of a site (its judge, say), x (q,) what it sees
of it, and whitened effects e_l ~ N(0, I), (q,) of each of L levels. The sites of different levels
meet in u alone, so that with the sums over the sites of each level

    S = Σ T x x'    R = Σ T x Phi    b = Σ s x    G = (I + S)⁻¹

u has the Schur complement `P = I + Lambda - Σ R'G R` and the shift `h - Σ R'G b`, and
`e | u ~ N(G (b - R u), G)`. ½ log|P| over z gains ½ Σ log|I + S|. O(t m + L m²) a sweep, besides
what Phi takes. (Henderson 1984 absorbs such effects in mixed-model equations.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from sparse_prefgp.covariances.base import Intermediates, LevelTerms, PosteriorTerms
from sparse_prefgp.covariances.low_rank import NoResidual, WithoutBlocks
from sparse_prefgp.covariances.low_rank_base import (
    InducingPosterior,
    Sums,
    condition,
)
from sparse_prefgp.covariances.pair_effect import Pairs
from sparse_prefgp.data.graph import Groups
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.linalg import add_to_diagonal

# `LevelsPosterior`, where others have one of u alone.
JointPosterior: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class Levels:
    """Which level each site sees, and what of it."""

    number: IntArray
    """(t,) 0, 1, … below `size`."""
    values: FloatArray
    """(t, q)."""
    size: int
    """L."""

    @cached_property
    def groups(self) -> Groups:
        """The sites of each level."""
        return Groups(self.number, self.size)

    @cached_property
    def tensors(self) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The numbers, (t,), and q columns of values, (t,)."""
        with tf.init_scope():
            columns = [tf.constant(column) for column in self.values.T.copy()]
            return tf.constant(self.number, tf.int32), columns


class LevelSums(NamedTuple):
    """What sites say of u and of all e, without gradient."""

    of_u: Sums
    blocks: tf.Tensor
    """S, (L, q, q)."""
    rows: tf.Tensor
    """R, (L, q, m)."""
    shifts: tf.Tensor
    """b, (L, q)."""

    @property
    def each(self) -> tuple[tf.Tensor, ...]:
        """All that there is."""
        return (*self.of_u.each, *self[1:])

    def posterior(self) -> LevelsPosterior:
        """Of u and e ~ N(0, I) under these sites alone."""
        of_u = self.of_u._replace(precision=add_to_diagonal(self.of_u.precision, 1.0))
        return LevelsPosterior.of(
            self._replace(of_u=of_u, blocks=add_to_diagonal(self.blocks, 1.0))
        )


class LevelsPosterior(NamedTuple):
    """The Gaussian over u and all e, (m + L q,) in this order."""

    u: InducingPosterior
    gain: tf.Tensor
    """G, (L, q, q), the covariance of e given u."""
    crossed: tf.Tensor
    """G R, (L, q, m)."""
    effects: tf.Tensor
    """E e, (L, q)."""
    half_log_det: tf.Tensor
    """½ log|P| of both."""

    @classmethod
    def of(cls, precision: LevelSums) -> LevelsPosterior:
        """That with this precision and shift, the prior included."""
        of_u, blocks, rows, shifts = precision
        gain = tf.linalg.inv(blocks)
        crossed = tf.matmul(gain, rows)
        flat = tf.reshape(crossed, [-1, crossed.shape[-1]])
        rest = of_u.precision - tf.matmul(tf.reshape(rows, flat.shape), flat, transpose_a=True)
        seen = tf.matmul(flat, tf.reshape(shifts, [-1, 1]), transpose_a=True)
        u = condition(0.5 * (rest + tf.transpose(rest)), of_u.shift - seen)
        alone = tf.linalg.matvec(gain, shifts)
        effects = alone - tf.reshape(tf.matmul(flat, u.mean), shifts.shape)
        more = 0.5 * tf.reduce_sum(tf.linalg.slogdet(blocks).log_abs_determinant)
        return cls(u, gain, crossed, effects, u.half_log_det + more)

    @property
    def mean(self) -> tf.Tensor:
        """(m + L q, 1)."""
        return tf.concat([self.u.mean, tf.reshape(self.effects, [-1, 1])], 0)

    @property
    def with_u(self) -> tf.Tensor:
        """-Cov[e, u] = G R P⁻¹, (L, q, m)."""
        return tf.tensordot(self.crossed, self.u.covariance, 1)

    @property
    def terms(self) -> LevelTerms:
        """What prediction needs, for whitened features of the inputs."""
        crossed = tf.reshape(self.crossed, [-1, self.crossed.shape[-1]])
        return LevelTerms(self.mean[:, 0], self.u.covariance, self.gain, crossed)

    def own(self, with_u: tf.Tensor) -> tf.Tensor:
        """Cov e of each level, (L, q, q).

        :param with_u: the property.
        """
        return self.gain + tf.matmul(with_u, self.crossed, transpose_b=True)

    @property
    def covariance(self) -> tf.Tensor:
        """(m + L q, m + L q)."""
        return add_to_diagonal(-self.terms.reduction, 1.0)


class LowRankWithLevels(WithoutBlocks):
    """Of z = Phi u + x_l e_l, with the effects of each level eliminated.

    :param base: of Phi u alone.
    :param levels: of the sites.
    :param scale: (q,) by which the values are multiplied: standard deviations of the effects.
    """

    def __init__(self, base: NoResidual, levels: Levels, scale: tf.Tensor) -> None:
        self._base, self._scale = base, scale
        self._number, self._size = levels.number, levels.size
        self._at, self._values = levels.tensors
        self._groups = levels.groups
        fixed = tf.unstack(tf.stop_gradient(scale))
        self._x = [x * s for x, s in zip(self._values, fixed, strict=True)]

    def _summed(self, each: Sequence[tf.Tensor]) -> tf.Tensor:
        """Sums over the sites of each level, (L, k) of k times (t,)."""
        return tf.stack([self._groups.sums(values) for values in each], 1)

    def _of_sites(self, each: tf.Tensor) -> tf.Tensor:
        """Σ x_k each_k of the level of every site, (t,), of (L, q)."""
        return self._times_x(tf.unstack(tf.gather(each, self._at), axis=1))

    def _times_x(self, each: Sequence[tf.Tensor]) -> tf.Tensor:
        """Σ x_k each_k, (t,), of q times (t,)."""
        return tf.add_n([x * values for x, values in zip(self._x, each, strict=True)])

    # Conditioning.

    def sums(self, precision: tf.Tensor, shift: tf.Tensor, own: Intermediates) -> Any:
        """`LevelSums`."""
        weighted = [precision * x for x in self._x]
        q, n = len(self._x), self._size
        squares = self._summed([w * x for w in weighted for x in self._x])
        rows = [self._base.grouped(w, self._number, n) for w in weighted]
        return LevelSums(
            self._base.sums(precision, shift, own),
            tf.reshape(squares, [n, q, q]),
            tf.stack(rows, 1),
            self._summed([shift * x for x in self._x]),
        )

    def marginals_under(self, u: JointPosterior, own: Intermediates) -> tuple[tf.Tensor, tf.Tensor]:
        mean, variance = self._base.marginals_under(u.u, own)
        with_u = u.with_u
        variance -= 2.0 * self._times_x(self._along(with_u))
        among = tf.unstack(u.own(with_u), axis=1)
        variance += self._times_x([self._of_sites(each) for each in among])
        return mean + self._of_sites(u.effects), variance

    def _along(self, with_u: tf.Tensor) -> list[tf.Tensor]:
        """-Cov[e_k, Phi u] of the level of every site, q times (t,)."""
        tables = tf.unstack(with_u, axis=1)
        return [self._base.along(table, self._number) for table in tables]

    def surrogate_under(
        self, precision: tf.Tensor, shift: tf.Tensor, u: JointPosterior, own: Intermediates
    ) -> tf.Tensor:
        # d/dPhi = (s - T E z) (E u)' - T Cov[z, u], and the same of x with e. Cov[z, u] is
        # (Phi - x G R) P⁻¹.
        left = shift - precision * self._of_sites(u.effects)
        with_u = u.with_u
        total = self._base.surrogate_under(precision, left, u.u, own)
        for x, table in zip(self._x, tf.unstack(with_u, axis=1), strict=True):
            total += self._base.pulled(precision * x, table, self._number)
        unseen = left - precision * self._base.project(u.u.mean)
        effects = tf.unstack(tf.gather(u.effects, self._at), axis=1)
        among, along = tf.unstack(u.own(with_u), axis=1), self._along(with_u)
        slopes = []
        for k, values in enumerate(self._values):
            with_effect = self._of_sites(among[k]) - along[k]
            slope = unseen * effects[k] - precision * with_effect
            slopes.append(tf.reduce_sum(values * slope))
        return total + tf.reduce_sum(tf.stop_gradient(tf.stack(slopes)) * self._scale)

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        both = [self._summed([values * x for x in self._values]) for values in (left, right)]
        own = tf.reduce_sum(both[0] * both[1], 0) * self._scale**2
        return self._base.quadratic(left, right) + tf.reduce_sum(own)

    # One site after the other, O((m + L q)²) each.

    def site_features(self, site: tf.Tensor) -> tf.Tensor:
        x = tf.stack([values[site] for values in self._x])
        effects = tf.one_hot(self._at[site], self._size, dtype=x.dtype)[:, None] * x
        return tf.concat([self._base.site_features(site), tf.reshape(effects, [-1])], 0)


class LowRankWithPairs(LowRankWithLevels):
    """The same of pairs of items and the effect of each, which is of no item by itself."""

    def predict(self, precision: tf.Tensor, shift: tf.Tensor) -> PosteriorTerms:
        effects: JointPosterior = self.conditioned(precision, shift).u
        return effects.u.terms

    def effects_of_pairs(
        self, pairs: Pairs, variance: tf.Tensor, precision: tf.Tensor, shift: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """As of `LowRankOverSets`: levels are these pairs, and the scale is of this variance."""
        effects: JointPosterior = self.conditioned(precision, shift).u
        (scale,) = tf.unstack(self._scale)
        with_u = effects.with_u
        explained = 1.0 - effects.own(with_u)[:, 0, 0]
        return scale * effects.effects[:, 0], scale**2 * explained, -scale * with_u[:, 0]
