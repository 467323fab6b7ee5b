"""Low rank over items for answers about sets: a Laplacian with a clique for each look.

z = Phi u + r as in `low_rank_blocks.py`, where each block is a look at a set, Phi = A B with the
features B of the items, and R the noise that alternatives share, with or without what the inducing
values leave unexplained. Sums over sites are then sums over the pairs of each clique,

    Σ Phi'G Phi = B'(Σ A'G A) B        A'G A a graph Laplacian of the places of a look

and the marginals need the explained variance of each pair alone. Looks that are equal have equal
sites: of c copies one is done, and counts c times.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.base import Column, SequentialState
from sparse_prefgp.covariances.looks_under_sites import (
    edges_at,
    marginals_of_looks,
    natural_at,
    packed_rows,
    packed_under_sites,
    slopes_of_looks,
)
from sparse_prefgp.covariances.low_rank import LowRankOverItems
from sparse_prefgp.covariances.low_rank_base import InducingPosterior, Sums
from sparse_prefgp.covariances.low_rank_blocks import SEQUENTIAL_UP_TO
from sparse_prefgp.data.graph import differences, incidence_transpose
from sparse_prefgp.data.looks import Looks
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.linalg import by_numpy

# For each form, what `packed_under_sites` gives.
Own: TypeAlias = tuple[tf.Tensor, ...]


class LowRankOverSets(LowRankOverItems):
    """`features` is B, (n, m); O(n m² + m Σ k²) a sweep.

    :param residuals: R of each form, (r, r, g).
    :param copies: (t,) how many equal ones each site stands for; those of a look have one number.
    :param single_precision: as of `LowRankOverItems`.
    """

    def __init__(
        self,
        features: tf.Tensor,
        looks: Looks,
        residuals: Sequence[tf.Tensor],
        copies: FloatArray,
        single_precision: bool = False,
    ) -> None:
        super().__init__(features, looks.pairs, single_precision)
        self._looks = looks
        self._residuals = tuple(residuals)
        self._r = tuple(map(tf.stop_gradient, residuals))
        self._copies = copies
        each = [copies[form.bucket.sites[:, 0]] for form in looks.forms]
        self._copies_of = [None if np.all(one == 1.0) else one for one in each]

    # Between (t,) per site and (r, g) per form.

    def _spread(self, values: tf.Tensor) -> list[tf.Tensor]:
        looks = self._looks
        pieces = tf.split(tf.gather(values, looks.order), looks.sizes)
        return [
            tf.reshape(piece, [len(form.places), -1])
            for piece, form in zip(pieces, looks.forms, strict=True)
        ]

    def _collect(self, values: Sequence[tf.Tensor]) -> tf.Tensor:
        flat = tf.concat([tf.reshape(value, [-1]) for value in values], 0)
        return tf.gather(flat, self._looks.place_of_site)

    def _summed(self, shift: tf.Tensor) -> tf.Tensor:
        return incidence_transpose(self._looks.sites, shift)[:, None]

    # Conditioning.

    def own(self, precision: tf.Tensor, shift: tf.Tensor) -> Own:
        single = [self._spread(values / self._copies) for values in (precision, shift)]
        found = []
        for form, *sides in zip(self._looks.forms, self._r, *single, strict=True):
            rows, g = packed_rows(form), sides[0].shape[-1]
            found.append(by_numpy(partial(packed_under_sites, form), *sides, shape=[rows, g]))
        return tuple(found)

    def _edges(self, own: Own) -> tf.Tensor:
        """W of each pair, of all looks and copies."""
        parts = []
        for form, packed, copies in zip(self._looks.forms, own, self._copies_of, strict=True):
            edges = packed[edges_at(form) : -1]
            parts.append(tf.reshape(edges if copies is None else edges * copies, [-1]))
        return self._looks.pairs_of_looks.sums(tf.concat(parts, 0))

    def _natural(self, own: Own) -> tf.Tensor:
        """n of each site, of all copies."""
        each = zip(self._looks.forms, own, strict=True)
        return self._copies * self._collect(
            [packed[natural_at(form) : edges_at(form)] for form, packed in each]
        )

    def sums(self, precision: tf.Tensor, shift: tf.Tensor, own: Own) -> Sums:
        back = tf.stop_gradient(self._back(self._natural(own)))
        return Sums(self._product(self._edges(own)), back)

    def own_half_log_det(self, own: Own) -> tf.Tensor:
        each = zip(own, self._copies_of, strict=True)
        return tf.add_n(
            [tf.reduce_sum(packed[-1] if c is None else packed[-1] * c) for packed, c in each]
        )

    def _explained(self, u: InducingPosterior) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean of each row of the graph, (n,), and the variance between each pair under q(u)."""
        mean = tf.matmul(self._constant, u.mean)[:, 0]
        return mean, self._squared_lengths(u.inverse)

    def marginals_under(self, u: InducingPosterior, own: Own) -> tuple[tf.Tensor, tf.Tensor]:
        explained = self._explained(u)
        found = []
        for form, r, packed in zip(self._looks.forms, self._r, own, strict=True):
            shape = [2, len(form.places), r.shape[-1]]
            of_looks = partial(marginals_of_looks, form)
            found.append(by_numpy(of_looks, r, packed, *explained, shape=shape))
        return self._collect([x[0] for x in found]), self._collect([x[1] for x in found])

    def surrogate_under(
        self, precision: tf.Tensor, shift: tf.Tensor, u: InducingPosterior, own: Own
    ) -> tf.Tensor:
        # As of `LowRankPlusBlocks`, d/dPhi and d/dR; the first over items is that of a Laplacian.
        explained = self._explained(u)
        total = self._linear(self._edges(own), self._natural(own), u.covariance, u.mean)
        pieces = zip(self._looks.forms, self._residuals, own, self._copies_of, strict=True)
        for form, residual, packed, copies in pieces:
            slopes = by_numpy(
                partial(slopes_of_looks, form), packed, *explained, shape=list(residual.shape)
            )
            weighted = slopes if copies is None else slopes * copies
            total += tf.reduce_sum(tf.stop_gradient(weighted) * residual)
        return total

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        total = tf.reduce_sum(self._back(left) * self._back(right))
        sides = self._spread(left), self._spread(right / self._copies)
        for residual, first, second in zip(self._residuals, *sides, strict=True):
            total += tf.reduce_sum(first[:, None] * residual * second)
        return total

    # One site after the other.

    def start(self, precision: tf.Tensor, shift: tf.Tensor) -> SequentialState:
        """The covariance of all z, (t, t), for sites of a look share noise.

        :raises ValueError: more than 5,000 sites.
        """
        t = len(self._copies)
        # Copies would share sites, but not z.
        assert all(c is None for c, r in zip(self._copies_of, self._r, strict=True) if len(r) > 1)
        if t > SEQUENTIAL_UP_TO:
            raise ValueError(
                f"SequentialEP() keeps the covariance of all {t:,} sites at once, since those of "
                f"a set share noise, and takes at most {SEQUENTIAL_UP_TO:,}; use ParallelEP()."
            )
        u, own = self.conditioned(precision, shift)
        mean, _ = self.marginals_under(u, own)
        looks = self._looks
        scaled = tf.matmul(self._constant, u.inverse, transpose_b=True)
        step = differences(looks.sites, scaled)
        left = tf.zeros([t, t], mean.dtype)
        noise = tf.zeros([t, t], mean.dtype)
        for form, r, packed in zip(looks.forms, self._r, own, strict=True):
            gain = tf.reshape(packed[: natural_at(form)], r.shape)
            ours, taken = (tf.transpose(x, [2, 0, 1]) for x in (r, gain))
            kept = tf.eye(len(form.places), dtype=mean.dtype) - tf.matmul(ours, taken)
            sites = form.bucket.sites
            rows = np.broadcast_to(sites[:, :, None], kept.shape)
            index = np.stack([rows, np.swapaxes(rows, 1, 2)], -1)
            left = tf.tensor_scatter_nd_add(left, index, kept)
            noise = tf.tensor_scatter_nd_add(noise, index, tf.matmul(kept, ours))
        scaled = tf.matmul(left, step)
        return SequentialState(noise + tf.matmul(scaled, scaled, transpose_b=True), mean)

    def column(self, state: SequentialState, site: tf.Tensor) -> Column:
        column = state.covariance[:, site]
        return Column(column, mean=state.mean[site], variance=column[site])
