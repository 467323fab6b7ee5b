"""Low rank over items for answers about sets: a Laplacian with a clique for each look.

z = Phi u + r as in `low_rank_blocks.py`, where each block is a look at a set, Phi = A B with the
features B of the items, and R the noise that alternatives share, with or without what the inducing
values leave unexplained. Sums over sites are then sums over the pairs of each clique,

    Σ Phi'G Phi = B'(Σ A'G A) B        A'G A a graph Laplacian of the places of a look

and the marginals need the explained variance of each pair alone. Looks that are equal have equal
sites: of c copies one is done, and counts c times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.base import SequentialOverSites, SequentialState
from sparse_prefgp.covariances.choice_likelihood import (
    Looks,
    LooksUnderSites,
    StarsUnderSites,
)
from sparse_prefgp.covariances.low_rank import LowRankOverItems
from sparse_prefgp.covariances.low_rank_base import (
    InducingPosterior,
    Sums,
)
from sparse_prefgp.covariances.low_rank_buckets import check_sequential
from sparse_prefgp.covariances.pair_effect import Pairs, signs_of
from sparse_prefgp.data.graph import differences, incidence_transpose
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.linalg import chunks, each_by_numpy


class Own(NamedTuple):
    """What the sites make of the looks."""

    edges: tf.Tensor
    """W between each pair, of all looks and copies, (number of pairs,)."""
    natural: tf.Tensor
    """n of each site, of all copies, (t,)."""
    half_log_det: tf.Tensor
    """½ log|I + T^½ R T^½|, summed."""
    kept: tuple[tf.Tensor, ...]
    """What `under_sites` kept of each form."""


class LowRankOverSets(SequentialOverSites, LowRankOverItems):
    """`features` is B, (n, m); O(n m² + m Σ k²) a sweep.

    :param residuals: R of each form, (r, r, g), or (g,) times 1 1'.
    :param copies: (t,) how many equal ones each site stands for; those of a look have one number.
    :param single_precision: as of `LowRankOverItems`.
    :param diagonal: as of `LowRankOverItems`.
    """

    def __init__(
        self,
        features: tf.Tensor,
        looks: Looks,
        residuals: Sequence[tf.Tensor],
        copies: FloatArray,
        single_precision: bool = False,
        diagonal: bool = False,
    ) -> None:
        super().__init__(features, looks.pairs, single_precision, diagonal)
        self._looks = looks
        self._residuals = tuple(residuals)
        self._r = tuple(map(tf.stop_gradient, residuals))
        self._copies = copies
        self._parts = [
            (StarsUnderSites if residual.shape.rank == 1 else LooksUnderSites)(form, copies)
            for form, residual in zip(looks.forms, residuals, strict=True)
        ]

    def _by_form(self, arrays: Sequence[FloatArray]) -> Iterator[tuple[Any, ...]]:
        """The looks of each form, what was kept of them, R, and what all forms share, of arrays of
        what is shared, what was kept of each form, and R of each."""
        n = len(self._parts)
        each = zip(self._parts, arrays[-2 * n : -n], arrays[-n:], strict=True)
        return ((*of_form, *arrays[: -2 * n]) for of_form in each)

    def _summed(self, shift: tf.Tensor) -> tf.Tensor:
        return incidence_transpose(self._looks.sites, shift)[:, None]

    # Conditioning.

    def own(self, precision: tf.Tensor, shift: tf.Tensor) -> Own:
        t = len(self._copies)

        def compute(
            precision: FloatArray, shift: FloatArray, *residuals: FloatArray
        ) -> tuple[Any, ...]:
            natural, half_log_det, edges, kept = np.empty(t), 0.0, [], []
            for part, residual in zip(self._parts, residuals, strict=True):
                sites = part.of_one(precision), part.of_one(shift)
                under_sites, between, each = part.under_sites(residual, *sites)
                natural[part.sites] = part.of_all(under_sites[part.natural])
                edges.append(part.of_all(between).reshape(-1))
                half_log_det += float(np.sum(part.of_all(each)))
                kept.append(under_sites)
            return self._looks.summed_over_pairs(edges), natural, half_log_det, *kept

        shapes = [[None, part.sites.shape[1]] for part in self._parts]
        shapes = [[self._looks.pairs.num_sites], [t], [], *shapes]
        edges, natural, half_log_det, *kept = each_by_numpy(
            compute, precision, shift, *self._r, shapes=shapes
        )
        return Own(edges, natural, half_log_det, tuple(kept))

    def sums(self, precision: tf.Tensor, shift: tf.Tensor, own: Own) -> Sums:
        return super().sums(own.edges, own.natural, own)

    def own_half_log_det(self, own: Own) -> tf.Tensor:
        return own.half_log_det

    def _explained(self, u: InducingPosterior) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean of each row of the graph, (n,), and the variance between each pair under q(u)."""
        mean = tf.matmul(self._constant, u.mean)[:, 0]
        return mean, self._squared_lengths(u.inverse)

    def marginals_under(self, u: InducingPosterior, own: Own) -> tuple[tf.Tensor, tf.Tensor]:
        t = len(self._copies)

        def compute(*arrays: FloatArray) -> FloatArray:
            found = np.empty((2, t))
            for part, kept, residual, *explained in self._by_form(arrays):
                both = part.marginals(residual, kept, *explained)
                found[0][part.sites], found[1][part.sites] = both  # by rows is three times as fast
            return found

        inside = *self._explained(u), *own.kept, *self._r
        mean, variance = each_by_numpy(compute, *inside, shapes=[[t], [t]])
        return mean, variance

    def surrogate_under(
        self, precision: tf.Tensor, shift: tf.Tensor, u: InducingPosterior, own: Own
    ) -> tf.Tensor:
        # As of `LowRankPlusBlocks`, d/dPhi and d/dR; the first over items is that of a Laplacian.
        def compute(*arrays: FloatArray) -> list[FloatArray]:
            return [
                part.of_all(part.slopes(residual, kept, *explained))
                for part, kept, residual, *explained in self._by_form(arrays)
            ]

        shapes = [residual.shape.as_list() for residual in self._residuals]
        inside = *self._explained(u), *own.kept, *self._r
        slopes = each_by_numpy(compute, *inside, shapes=shapes)
        total = super().surrogate_under(own.edges, own.natural, u, own)
        for slope, residual in zip(slopes, self._residuals, strict=True):
            total += tf.reduce_sum(tf.stop_gradient(slope) * residual)
        return total

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        total = super().quadratic(left, right)
        single = right / self._copies
        for part, residual in zip(self._parts, self._residuals, strict=True):
            # A residual (g,) is the same of all rows.
            first, second = (tf.gather(values, part.sites) for values in (left, single))
            total += tf.reduce_sum(first[:, None] * residual * second)
        return total

    def _gains(self, own: Own) -> list[tf.Tensor]:
        """G of each form, (r, r, g)."""

        def gains(*arrays: FloatArray) -> list[FloatArray]:
            return [part.gain(r, kept) for part, kept, r in self._by_form(arrays)]

        shapes = [[len(part.sites), *part.sites.shape] for part in self._parts]
        return each_by_numpy(gains, *own.kept, *self._r, shapes=shapes)

    # Prediction.

    def effects_of_pairs(
        self, pairs: Pairs, variance: tf.Tensor, precision: tf.Tensor, shift: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Of the effect of each pair, where looks are the duels of one: its mean (P,), by how much
        its variance is less than before, (P,), and its covariance (P, m) with u.

        :param variance: of each before, a scalar.
        """
        # As of inputs that join a block (`low_rank_blocks.py`): with c these covariances,
        # E = c (n - H E u) and c G c' - c H P⁻¹ H'c'.
        u, own = self.conditioned(precision, shift)
        means, explained, crossed = [], [], []
        pieces = zip(self._looks.forms, self._parts, self._gains(own), strict=True)
        row = (self._constant.shape[1] or 1) * self._constant.dtype.size
        for form, part, gain in pieces:
            each = variance * signs_of(form, pairs)
            natural = tf.gather(own.natural / self._copies, part.sites)
            taken = tf.einsum("ijg,jg->ig", gain, each)
            alone = tf.reduce_sum(each * natural, 0), tf.reduce_sum(each * taken, 0)
            for some in chunks(part.sites.shape[1], row):  # looks are many, and m may be too
                at = [form.bucket.rows[some][:, end] for end in form.places.T]
                ends = [tf.gather(self._constant, rows) for rows in at]
                back = tf.einsum("ig,gim->gm", taken[:, some], ends[1] - ends[0])
                means.append(alone[0][some] - tf.linalg.matvec(back, u.mean[:, 0]))
                scaled = tf.matmul(back, u.inverse, transpose_b=True)
                explained.append(alone[1][some] - tf.reduce_sum(scaled * scaled, -1))
                crossed.append(-tf.matmul(scaled, u.inverse))
        numbers = np.concatenate([form.bucket.numbers for form in self._looks.forms])
        order = np.argsort(numbers)
        return tuple(tf.gather(tf.concat(x, 0), order) for x in (means, explained, crossed))

    # One site after the other.

    def start(self, precision: tf.Tensor, shift: tf.Tensor) -> SequentialState:
        """The covariance of all z, (t, t), for sites of a look share noise.

        :raises ValueError: more than 5,000 sites.
        """
        t = len(self._copies)
        # Copies would share sites, but not z.
        assert all(part.copies is None for part in self._parts if len(part.sites) > 1)
        check_sequential(t)
        u, own = self.conditioned(precision, shift)
        mean, _ = self.marginals_under(u, own)
        scaled = tf.matmul(self._constant, u.inverse, transpose_b=True)
        step = differences(self._looks.sites, scaled)
        left = tf.zeros([t, t], mean.dtype)
        noise = tf.zeros([t, t], mean.dtype)
        for part, taken, r in zip(self._parts, self._gains(own), self._r, strict=True):
            rows, g = part.sites.shape
            whole = tf.broadcast_to(r, [rows, rows, g])
            ours, taken = (tf.transpose(x, [2, 0, 1]) for x in (whole, taken))
            kept = tf.eye(rows, dtype=mean.dtype) - tf.matmul(ours, taken)
            first = np.broadcast_to(part.sites.T[:, :, None], [g, rows, rows])
            index = np.stack([first, np.swapaxes(first, 1, 2)], -1)
            left = tf.tensor_scatter_nd_add(left, index, kept)
            noise = tf.tensor_scatter_nd_add(noise, index, tf.matmul(kept, ours))
        scaled = tf.matmul(left, step)
        return SequentialState(noise + tf.matmul(scaled, scaled, transpose_b=True), mean)
