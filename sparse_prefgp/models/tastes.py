"""What is known of people with tastes of their own, by what they said.

With r the covariance `k_1(x, ·) A_u'` of an input with the sites of person u, and G, alpha of that
block under the sites (`covariances/low_rank_blocks.py`),

    E f_u = a E u + r alpha      Cov f_u = c P⁻¹ c' + k_0 - a a' + k_1 - r G r'      c = a - r G Phi

all of it at the rows that the person's sites compare, `r = k_1(x, rows) A_u'`, whichever way the
covariance was computed. Where people have features, a has those of `s_u' W x` too
(`covariances/by_features.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from scipy import sparse

from sparse_prefgp.approximations import DuelProblem
from sparse_prefgp.approximations.base import FeaturesOfItems
from sparse_prefgp.covariances import LowRankPlusBlocks, LowRankPlusTastes
from sparse_prefgp.covariances.base import WholeTerms
from sparse_prefgp.covariances.kernels import (
    as_float,
    pair_difference_variance,
    stacked_covariance,
    with_rows,
)
from sparse_prefgp.covariances.low_rank_base import InducingPosterior
from sparse_prefgp.covariances.low_rank_buckets import Told
from sparse_prefgp.covariances.low_rank_tastes import ends_of_rows
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.models.posterior import CHUNK, Conditioned, Posterior, moments_of_pairs
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

# Numbers in one temporary array: about 16 MB.
_AT_ONCE = 2_000_000
# Pairs times rows of a person from which each person is done alone, without copies for each pair.
_WORTH_EACH = 512


@dataclass(frozen=True, eq=False)
class KnownPeople(Conditioned):
    """The people of a model under its sites."""

    @property
    def covariance(self) -> LowRankPlusBlocks | LowRankPlusTastes:
        assert self.prior.people is not None
        return self.prior.people

    @property
    def shared(self) -> FeaturesOfItems:
        """Features (N, m) of what all share."""
        assert self.prior.shared is not None
        return self.prior.shared

    def group(self, numbers: IntArray) -> Posterior:
        """q of the average utility of some people, by their numbers in the graph.

        At their rows x' and with K of them it has the features [a, k_1(x, x')], for what their
        sites say of these rows adds up over people.
        """
        found = [self._of_rows(i, numbers[here]) for i, here in self._by_bucket(numbers)]
        none = np.zeros(0, np.int64)
        rows = np.unique(np.concatenate([none, *(one.rows.reshape(-1) for one in found)]))
        size, width, count = len(rows), self.kept.u.mean.shape[0], len(numbers)
        weights, told = np.zeros(size), np.zeros((size, size))
        scaled = np.zeros((size, width))
        for one in found:
            place = np.searchsorted(rows, one.rows)
            np.add.at(weights, place, one.weights.numpy())
            np.add.at(told, (place[:, :, None], place[:, None, :]), one.told.numpy())
            np.add.at(scaled, place, one.scaled.numpy())
        u = self.kept.u
        weights, told, scaled = weights / count, told / count**2, scaled / count
        crossed = np.asarray(as_float(scaled) @ u.inverse)
        explained = told - scaled @ scaled.T
        reduction = np.block([[u.terms.reduction.numpy(), crossed.T], [crossed, explained]])
        terms = WholeTerms(tf.concat([u.mean[:, 0], as_float(weights)], 0), as_float(reduction))
        own = as_float(self.problem.graph.rows[rows])

        by_features, more = self.problem.by_features, []
        if by_features is not None:
            average = by_features.people[numbers].mean(0)
            more = by_features.prior(average)

        def features(inputs: tf.Tensor) -> tf.Tensor:
            found = [self.shared.of_inputs(inputs)]
            if by_features is not None:
                found.append(by_features.with_features(average, inputs))
            return tf.concat([*found, with_rows(self.problem.taste_of_rows, inputs, own)], 1)

        taste = self.problem.taste
        if count > 1:  # k_1 / K, of the average
            taste = gpflow.kernels.Product([gpflow.kernels.Constant(1.0 / count), taste])
        kernel = gpflow.kernels.Sum([self.problem.kernel, taste, *more])
        return Posterior(kernel, self.problem.mean_function, features, terms)

    # Many people at once.

    @cached_property
    def _block_of(self) -> tuple[IntArray, IntArray]:
        """The bucket of each person's block, and its place there."""
        people = self.problem.graph.people
        assert people is not None
        bucket, slot = (np.full(int(people.max()) + 1, -1) for _ in range(2))
        padded = np.append(people, -1)
        for i, one in enumerate(self.covariance.buckets):
            number = padded[one.sites]
            place = np.broadcast_to(np.arange(len(number))[:, None], number.shape)
            there = number >= 0
            bucket[number[there]], slot[number[there]] = i, place[there]
        return bucket, slot

    def have_duels(self, numbers: IntArray) -> BoolArray:
        """Whose duels inference works on, (N,): not of who only tied, where ties tell the margin
        alone."""
        bucket = self._block_of[0]
        within = np.minimum(numbers, len(bucket) - 1)
        return (numbers == within) & (bucket[within] >= 0)

    def _by_bucket(self, numbers: IntArray) -> Iterator[tuple[int, IntArray]]:
        """Each bucket with blocks of these people, and the places of these among them."""
        there = np.flatnonzero(self.have_duels(numbers))
        bucket = self._block_of[0][numbers[there]]
        for i in np.unique(bucket):
            yield int(i), there[bucket == i]

    def _of_rows(self, i: int, numbers: IntArray) -> _OfRows:
        """What the sites of k people with blocks in one bucket say of the rows of each."""
        layout, slot = self.covariance.buckets[i], self._block_of[1][numbers]
        some = Bucket(*(values[slot] for values in layout))
        said = [tf.gather(values, slot) for values in self._told(i)]
        if not self.covariance.over_rows:
            apart = self._own_ends(some, numbers)
            weights, explained, scaled = said
            said = [
                tf.matmul(apart, weights, transpose_a=True),
                tf.matmul(apart, tf.matmul(explained, apart), transpose_a=True),
                tf.matmul(apart, scaled, transpose_a=True),
            ]
        weights, explained, scaled = said
        told = explained + tf.matmul(scaled, scaled, transpose_b=True)
        return _OfRows(some.rows, weights[..., 0], told, scaled)

    def _weights_of_rows(self, i: int, numbers: IntArray) -> tf.Tensor:
        """(k, p) A'alpha of k people with blocks in one bucket."""
        slot = self._block_of[1][numbers]
        weights = tf.gather(self._told(i).weights, slot)
        if not self.covariance.over_rows:
            some = Bucket(*(values[slot] for values in self.covariance.buckets[i]))
            apart = self._own_ends(some, numbers)
            weights = tf.matmul(apart, weights, transpose_a=True)
        return weights[..., 0]

    def _own_ends(self, some: Bucket, numbers: IntArray) -> tf.Tensor:
        """A of k people, (k, b, p), without the sites of others in their blocks."""
        people = self.problem.graph.people
        assert people is not None
        own = np.append(people, -1)[some.sites] == numbers[:, None]
        return ends_of_rows(some) * as_float(own[..., None])

    def _told(self, i: int) -> Told:
        if i not in self._held:
            self._held[i] = self.covariance.told(i, self.kept.own[i], self.kept.u)
        return self._held[i]

    @cached_property
    def _held(self) -> dict[int, Told]:
        return {}

    def differences(self, pairs: tf.Tensor, numbers: IntArray) -> FloatArray:
        """Mean and variance of f_u(x) - f_u(x') for stacked pairs (N, 2, D), (N, 2).

        :param numbers: (N,) of the people.
        """
        found = np.empty((len(numbers), 2))
        for start in range(0, len(numbers), 10 * CHUNK):
            some = slice(start, start + 10 * CHUNK)
            found[some] = self._differences(pairs[some], numbers[some])
        return found

    def _differences(self, ends: tf.Tensor, numbers: IntArray) -> FloatArray:
        found = np.empty((len(numbers), 2))
        pairs = PairsBefore.of(self.problem, self.shared, self.kept.u, ends, numbers)
        for i, here in self._by_bucket(numbers):
            layout = self.covariance.buckets[i]
            b, p = layout.sites.shape[1], layout.rows.shape[1] + 2
            here = here[np.argsort(numbers[here], kind="stable")]
            people, first = np.unique(numbers[here], return_index=True)
            if p * len(here) > _WORTH_EACH * len(people):
                for u, some in zip(people, np.split(here, first[1:]), strict=True):
                    told = self._of_rows(i, np.array([u]))
                    found[some] = self._given(pairs.take(some), told).numpy()
                continue
            size = max(1, _AT_ONCE // (p * p + b * (p + self.kept.u.mean.shape[0])))
            for start in range(0, len(here), size):
                some = here[start : start + size]
                told = self._of_rows(i, numbers[some])
                found[some] = self._given(pairs.take(some), told).numpy()
        return found

    def _given(self, pairs: PairsBefore, told: _OfRows) -> tf.Tensor:
        rows = tf.gather(as_float(self.problem.graph.rows), told.rows)
        if len(told.rows) == 1:  # of one person, whose pairs all are
            ends = tf.reshape(pairs.ends, [-1, pairs.ends.shape[-1]])
            both = tf.reshape(
                with_rows(self.problem.taste_of_rows, ends, rows[0]), [-1, 2, rows.shape[1]]
            )
            r = both[:, 0] - both[:, 1]
            known, of_u = r @ told.told[0], r @ told.scaled[0]
        else:
            between = stacked_covariance(
                self.problem.taste_of_rows, tf.concat([pairs.ends, rows], 1)
            )
            r = between[:, 0, 2:] - between[:, 1, 2:]
            known = tf.linalg.matvec(told.told, r)
            of_u = tf.linalg.matvec(told.scaled, r, transpose_a=True)
        mean = pairs.mean + tf.reduce_sum(r * told.weights, -1)
        variance = tf.reduce_sum((pairs.white - of_u) ** 2, -1) + pairs.left
        variance -= tf.reduce_sum(known * r, -1)
        return moments_of_pairs(pairs.ends[:, 0], pairs.ends[:, 1], mean, variance)

    def tastes(self, inputs: tf.Tensor, people: int) -> FloatArray:
        """Expected h_u of so many people at inputs (N, D), and what features of people say,
        (people, N)."""
        graph, numbers = self.problem.graph, np.arange(people)
        related = with_rows(self.problem.taste_of_rows, inputs, as_float(graph.rows)).numpy()
        found = np.zeros((len(numbers), len(inputs)))
        for i, here in self._by_bucket(numbers):
            slot = self._block_of[1][numbers[here]]
            rows = self.covariance.buckets[i].rows[slot]
            weights = self._weights_of_rows(i, numbers[here]).numpy()
            places = np.repeat(np.arange(len(here)), rows.shape[1])
            size = len(here), graph.num_rows
            of_rows = sparse.csr_matrix((weights.reshape(-1), (places, rows.reshape(-1))), size)
            found[here] = of_rows @ related.T
        by_features = self.problem.by_features
        if by_features is not None:
            # A step of one in each feature of a person, at each input.
            one = by_features.with_features(np.eye(by_features.people.shape[1])[:, None], inputs)
            told = tf.linalg.matvec(one, self.kept.u.mean[-by_features.columns :, 0])
            found += by_features.people[numbers] @ told.numpy()
        return found


class PairsBefore(NamedTuple):
    """Pairs of items for people, before these people's own duels."""

    ends: tf.Tensor
    """(k, 2, D)."""
    white: tf.Tensor
    """(k, m) a chol(P)⁻ᵀ, a the features of the difference."""
    mean: tf.Tensor
    """(k,) a E u, with that of the mean function."""
    left: tf.Tensor
    """(k,) k_0 + k_1 of the difference, less what the features of k_0 have of it."""

    @classmethod
    def of(
        cls,
        problem: DuelProblem,
        shared_features: FeaturesOfItems,
        u: InducingPosterior,
        ends: tf.Tensor,
        numbers: IntArray,
    ) -> PairsBefore:
        """Stacked pairs (N, 2, D), and what is known of each.

        :param shared_features: of what all share.
        :param numbers: (N,) of the people.
        """
        kernel, parts = gpflow.kernels.Sum([problem.kernel, problem.taste]), []
        for start in range(0, len(numbers), CHUNK):
            some = slice(start, start + CHUNK)
            first, second = ends[some, 0], ends[some, 1]
            a = shared = shared_features.features(first) - shared_features.features(second)
            if problem.by_features is not None:  # of which the features leave nothing
                a = tf.concat([a, problem.by_features.of(numbers[some], first - second)], -1)
            mean = tf.linalg.matvec(a, u.mean[:, 0])
            if problem.mean_function is not None:
                mean += (problem.mean_function(first) - problem.mean_function(second))[:, 0]
            left = pair_difference_variance(kernel, first, second)
            left -= tf.reduce_sum(shared**2, -1)
            white = tf.matmul(a, u.inverse, transpose_b=True)
            parts.append(cls(ends[some], white, mean, left))
        return cls(*(tf.concat(each, 0) for each in zip(*parts, strict=True)))

    def take(self, which: IntArray) -> PairsBefore:
        """Of some pairs."""
        return PairsBefore(*(tf.gather(each, which) for each in self))


class _OfRows(NamedTuple):
    """What the sites of k people say of the rows of each."""

    rows: IntArray
    """(k, p) of the graph; those that none of the person's sites compares count 0."""
    weights: tf.Tensor
    """(k, p) A'alpha."""
    told: tf.Tensor
    """(k, p, p) A'G A."""
    scaled: tf.Tensor
    """(k, p, m) A'G Phi chol(P)⁻ᵀ."""
