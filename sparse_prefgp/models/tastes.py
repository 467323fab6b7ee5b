"""What is known of people with tastes of their own: of each, of nobody yet, and of a new one.

With r the covariance `k_1(x, ·) A_u'` of an input with the sites of person u, and G, alpha of that
block under the sites (`covariances/low_rank_blocks.py`),

    E f_u = a E u + r alpha      Cov f_u = c P⁻¹ c' + k_0 - a a' + k_1 - r G r'      c = a - r G Phi

all of it at the rows that the person's sites compare, `r = k_1(x, rows) A_u'`, whichever way the
covariance was computed. A new person's sites join those of all others, which stay: EP on them
alone, with the posterior of the inducing values for a prior.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelPrior, DuelProblem
from sparse_prefgp.approximations.people import FeaturesOfItems, over_people
from sparse_prefgp.covariances import LowRankPlusBlocks, LowRankPlusTastes
from sparse_prefgp.covariances.base import PosteriorTerms
from sparse_prefgp.covariances.kernels import (
    as_float,
    kernel_matrix,
    pair_difference_variance,
    stacked_covariance,
)
from sparse_prefgp.covariances.low_rank_base import LowRankIntermediates, Sums, terms_of
from sparse_prefgp.covariances.low_rank_blocks import Told
from sparse_prefgp.covariances.low_rank_tastes import ends_of_rows
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines import Engine, FixedPoint
from sparse_prefgp.factors.sites import Sites, totals
from sparse_prefgp.models.outcomes import places_of
from sparse_prefgp.models.posterior import Posterior
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.words import shortened

# Numbers in one temporary array: about 16 MB.
_AT_ONCE = 2_000_000


class Strangers(NamedTuple):
    """People of whom nothing is known, as a model with tastes expects them."""

    problem: DuelProblem
    """Kernels, mean function and noise; of whatever duels."""
    basis: FeaturesOfItems
    """Features of what all share."""
    known: Sums
    """What the sites of all known people say of the inducing values."""

    def nobody(self, consensus: Posterior) -> Posterior:
        """q(f) of a person of whom nothing is known.

        :param consensus: q(g).
        """
        assert self.problem.taste is not None
        kernel = gpflow.kernels.Sum([self.problem.kernel, self.problem.taste])
        return Posterior(kernel, consensus.mean_function, consensus.features, consensus.terms)

    def meet(self, graph: DuelGraph, engine: Engine) -> tuple[Posterior, FixedPoint]:
        """q(f) of a new person, and what EP did on the person's own sites.

        :param graph: of duels that are all this person's, on rows as the model has them.
        """
        problem = self.problem._replace(graph=graph)
        prior = over_people(problem, self.basis)
        assert prior.people is not None
        prior.people.known = self.known
        zeros = tf.zeros([graph.num_sites], prior.offset.dtype)
        point = engine.run(prior.covariance, prior.factors, Sites(zeros, zeros))
        counted = totals(point.sites, prior.factors.counts)
        return KnownPeople(problem, prior, *counted).group(np.zeros(1, np.int64)), point


@dataclass(frozen=True, eq=False)
class KnownPeople:
    """The people of a model under its sites."""

    problem: DuelProblem
    prior: DuelPrior
    precision: tf.Tensor
    """(t,) c tau of the sites."""
    shift: tf.Tensor
    """(t,) c nu."""

    @property
    def taste(self) -> gpflow.kernels.Kernel:
        assert self.problem.taste is not None
        return self.problem.taste

    @property
    def covariance(self) -> LowRankPlusBlocks | LowRankPlusTastes:
        assert self.prior.people is not None
        return self.prior.people

    @cached_property
    def kernel(self) -> gpflow.kernels.Kernel:
        """Of the utility of one person, whoever it is."""
        return gpflow.kernels.Sum([self.problem.kernel, self.taste])

    @cached_property
    def kept(self) -> LowRankIntermediates:
        """Inducing values and blocks under the sites."""
        return self.covariance.conditioned(self.precision, self.shift)

    @property
    def strangers(self) -> Strangers:
        """People of whom nothing is known."""
        sums = self.covariance.sums(self.precision, self.shift, self.kept.own)
        basis = FeaturesOfItems(self.prior.features, self.prior.jitter)
        return Strangers(self.problem, basis, sums)

    def group(self, numbers: IntArray) -> Posterior:
        """q of the average utility of some people, by their numbers in the graph.

        At their rows x' and with K of them it has the features [a, k_1(x, x')], for what their
        sites say of these rows adds up over people.
        """
        found = [self._of_rows(i, numbers[here]) for i, here in self._by_bucket(numbers)]
        rows = np.unique(np.concatenate([one.rows.reshape(-1) for one in found]))
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
        crossed = as_float(scaled) @ u.inverse
        explained = as_float(told - scaled @ scaled.T)
        reduction = tf.concat(
            [
                tf.concat([terms_of(u).reduction, tf.transpose(crossed)], 1),
                tf.concat([crossed, explained], 1),
            ],
            0,
        )
        terms = PosteriorTerms(tf.concat([u.mean[:, 0], as_float(weights)], 0), reduction)
        own = as_float(self.problem.graph.rows[rows])

        def features(inputs: tf.Tensor) -> tf.Tensor:
            shared = self.prior.features(inputs)
            return tf.concat([shared, kernel_matrix(self.taste, inputs, own)], 1)

        kernel = self.kernel if count == 1 else _average(self.problem.kernel, self.taste, count)
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

    def _by_bucket(self, numbers: IntArray) -> Iterator[tuple[int, IntArray]]:
        """Each bucket with blocks of these people, and the places of these among them."""
        bucket = self._block_of[0][numbers]
        for i in np.unique(bucket):
            yield int(i), np.flatnonzero(bucket == i)

    def _of_rows(self, i: int, numbers: IntArray) -> _OfRows:
        """What the sites of k people with blocks in one bucket say of the rows of each."""
        layout, slot = self.covariance.buckets[i], self._block_of[1][numbers]
        some = Bucket(*(values[slot] for values in layout))
        said = [tf.gather(values, slot) for values in self._told(i)]
        if not self.covariance.over_rows:
            people = self.problem.graph.people
            assert people is not None
            own = np.append(people, -1)[some.sites] == numbers[:, None]
            apart = ends_of_rows(some, said[0].dtype) * as_float(own[..., None])
            weights, explained, scaled = said
            said = [
                tf.matmul(apart, weights, transpose_a=True),
                tf.matmul(apart, tf.matmul(explained, apart), transpose_a=True),
                tf.matmul(apart, scaled, transpose_a=True),
            ]
        weights, explained, scaled = said
        told = explained + tf.matmul(scaled, scaled, transpose_b=True)
        return _OfRows(some.rows, weights[..., 0], told, scaled)

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
        for i, here in self._by_bucket(numbers):
            layout = self.covariance.buckets[i]
            b, p = layout.sites.shape[1], layout.rows.shape[1] + 2
            size = max(1, _AT_ONCE // (p * p + b * (p + self.kept.u.mean.shape[0])))
            for start in range(0, len(here), size):
                some = here[start : start + size]
                told = self._of_rows(i, numbers[some])
                found[some] = self._differences(tf.gather(pairs, some), told).numpy()
        return found

    def _differences(self, pairs: tf.Tensor, told: _OfRows) -> tf.Tensor:
        u, first, second = self.kept.u, pairs[:, 0], pairs[:, 1]
        rows = tf.gather(as_float(self.problem.graph.rows), told.rows)
        between = stacked_covariance(self.taste, tf.concat([pairs, rows], 1))
        r = between[:, 0, 2:] - between[:, 1, 2:]
        a = self.prior.features(first) - self.prior.features(second)
        mean = tf.linalg.matvec(a, u.mean[:, 0]) + tf.reduce_sum(r * told.weights, -1)
        if self.problem.mean_function is not None:
            ahead, behind = (self.problem.mean_function(x)[:, 0] for x in (first, second))
            mean += ahead - behind
        white = tf.matmul(a, u.inverse, transpose_b=True)
        white -= tf.linalg.matvec(told.scaled, r, transpose_a=True)
        variance = tf.reduce_sum(white**2, -1) - tf.reduce_sum(a**2, -1)
        variance -= tf.reduce_sum(tf.linalg.matvec(told.told, r) * r, -1)
        variance += pair_difference_variance(self.kernel, first, second)
        same = tf.reduce_all(first == second, -1)
        return tf.stack([mean, tf.where(same, tf.zeros_like(variance), variance)], -1)

    def tastes(self, inputs: tf.Tensor) -> FloatArray:
        """Expected h_u of each person at inputs (N, D), (P, N)."""
        graph = self.problem.graph
        assert graph.people is not None
        numbers = np.arange(int(graph.people.max()) + 1)
        of_rows = np.zeros((graph.num_rows, len(numbers)))
        for i, here in self._by_bucket(numbers):
            told = self._of_rows(i, here)
            np.add.at(of_rows, (told.rows, here[:, None]), told.weights.numpy())
        related = kernel_matrix(self.taste, inputs, as_float(graph.rows))
        return np.asarray(tf.matmul(related, of_rows).numpy().T)


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


def _average(
    shared: gpflow.kernels.Kernel, own: gpflow.kernels.Kernel, count: int
) -> gpflow.kernels.Kernel:
    """k_0 + k_1 / K, of the average utility of K people."""
    share = gpflow.kernels.Constant(1.0 / count)
    return gpflow.kernels.Sum([shared, gpflow.kernels.Product([share, own])])


def person_numbers(people: Any, pairs: int, names: tuple[Hashable, ...]) -> IntArray:
    """The number of each pair's person, (pairs,), -1 where it is None or unknown, of which a
    warning is given.

    Names are compared as they are, else as text: 7 and "7" are one person.

    :param names: of the people of the model.
    :raises ValueError: names of another length.
    """
    labels = np.asarray(people, dtype=object)
    if labels.shape not in ((), (pairs,)):
        raise ValueError(
            f"people has shape {labels.shape} for {pairs} pairs; give one name for all, or one for "
            "each."
        )
    asked = np.broadcast_to(labels, (pairs,)).tolist()
    found = places_of(asked, names)
    unknown = [i for i in np.flatnonzero(found < 0) if asked[i] is not None]
    if unknown:
        warnings.warn(
            f"The person {shortened(asked[unknown[0]])} is unknown to the model ({len(unknown):,} "
            f"of {pairs:,} pairs have unknown ones), and predicted as somebody of whom nothing is "
            "known.",
            stacklevel=4,
        )
    return found
