"""What is known of people with tastes of their own: of each, of nobody yet, and of a new one.

With r the covariance `k_1(x, ·) A_u'` of an input with the sites of person u, and G, alpha of that
block under the sites (`covariances/low_rank_blocks.py`),

    E f_u = a E u + r alpha      Cov f_u = c P⁻¹ c' + k_0 - a a' + k_1 - r G r'      c = a - r G Phi

A new person's sites join those of all others, which stay: EP on them alone, with the posterior of
the inducing values for a prior.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelPrior, DuelProblem
from sparse_prefgp.approximations.people import FeaturesOfItems, over_people
from sparse_prefgp.covariances import LowRankPlusBlocks
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix, pair_difference_variance
from sparse_prefgp.covariances.kernels import stacked_covariance as stacked
from sparse_prefgp.covariances.low_rank_base import LowRankIntermediates, Sums
from sparse_prefgp.covariances.low_rank_blocks import Own, weights_of
from sparse_prefgp.covariances.pic import pic_terms
from sparse_prefgp.covariances.residual import PEOPLE, ends_apart
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines import Engine
from sparse_prefgp.factors.sites import Sites, totals
from sparse_prefgp.models.outcomes import places_of
from sparse_prefgp.models.posterior import Posterior
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.words import shortened

# Numbers in one temporary array: about 16 MB.
_AT_ONCE = 2_000_000


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
    def blocks(self) -> LowRankPlusBlocks:
        assert self.prior.blocks is not None
        return self.prior.blocks

    @cached_property
    def kernel(self) -> gpflow.kernels.Kernel:
        """Of the utility of one person, whoever it is."""
        return gpflow.kernels.Sum([self.problem.kernel, self.taste])

    @cached_property
    def kept(self) -> LowRankIntermediates:
        """Inducing values and blocks under the sites."""
        return self.blocks.conditioned(self.precision, self.shift)

    @cached_property
    def sums(self) -> Sums:
        """What all sites say of the inducing values."""
        return self.blocks.sums(self.precision, self.shift, self.kept.own)

    def nobody(self, consensus: Posterior) -> Posterior:
        """q(f) of a person of whom nothing is known.

        :param consensus: q(g).
        """
        return Posterior(self.kernel, consensus.mean_function, consensus.features, consensus.terms)

    def person(self, number: int) -> Posterior:
        """q(f) of a person, by the number in the graph."""
        return _joined(self, self.blocks, number, self.kept)

    # Many people at once.

    @cached_property
    def _block_of(self) -> tuple[IntArray, IntArray]:
        """The bucket of each person's block, and its place there."""
        people = self.problem.graph.people
        assert people is not None
        bucket, slot = (np.full(int(people.max()) + 1, -1) for _ in range(2))
        padded = np.append(people, -1)
        for i, one in enumerate(self.blocks.buckets):
            number = padded[one.sites]
            place = np.broadcast_to(np.arange(len(number))[:, None], number.shape)
            there = number >= 0
            bucket[number[there]], slot[number[there]] = i, place[there]
        return bucket, slot

    def differences(self, pairs: tf.Tensor, numbers: IntArray) -> FloatArray:
        """Mean and variance of f_u(x) - f_u(x') for stacked pairs (N, 2, D), (N, 2).

        :param numbers: (N,) of the people.
        """
        found = np.empty((len(numbers), 2))
        bucket, slot = (each[numbers] for each in self._block_of)
        for i in np.unique(bucket):
            layout, part = self.blocks.buckets[i], self.kept.own[i]
            known = weights_of(part, self.kept.u)
            here = np.flatnonzero(bucket == i)
            b, width = layout.sites.shape[1], self.kept.u.mean.shape[0]
            p = layout.rows.shape[1] + 2
            size = max(1, _AT_ONCE // (p * p + b * (b + width)))
            for start in range(0, len(here), size):
                some = here[start : start + size]
                found[some] = self._differences(
                    tf.gather(pairs, some), numbers[some], slot[some], layout, known
                ).numpy()
        return found

    def _differences(
        self,
        pairs: tf.Tensor,
        numbers: IntArray,
        slot: IntArray,
        layout: Bucket,
        known: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
    ) -> tf.Tensor:
        """Of pairs whose people are in the blocks `slot` of one bucket."""
        graph, u = self.problem.graph, self.kept.u
        first, second = pairs[:, 0], pairs[:, 1]
        some = Bucket(*(values[slot] for values in layout))
        rows = tf.gather(as_float(graph.rows), some.rows)
        between = stacked(self.taste, tf.concat([pairs, rows], 1))
        related = (between[:, 0, 2:] - between[:, 1, 2:])[..., None]
        r = ends_apart(related, some)[..., 0]
        assert graph.people is not None
        own = np.append(graph.people, -1)[some.sites] == numbers[:, None]
        r = tf.where(own, r, tf.zeros_like(r))
        a = self.prior.features(first) - self.prior.features(second)
        weights, explained, scaled = (tf.gather(values, slot) for values in known)
        mean = tf.linalg.matvec(a, u.mean[:, 0]) + tf.reduce_sum(r * weights[..., 0], -1)
        if self.problem.mean_function is not None:
            ahead, behind = (self.problem.mean_function(x)[:, 0] for x in (first, second))
            mean += ahead - behind
        # c P⁻¹ c' - a a' - r G r', from the factor of P⁻¹ and M = G - G Phi P⁻¹ Phi'G.
        white = tf.matmul(a, u.inverse, transpose_b=True)
        crossed = tf.linalg.matvec(scaled, r, transpose_a=True)
        variance = tf.reduce_sum(white**2, -1) - tf.reduce_sum(a**2, -1)
        variance -= 2.0 * tf.reduce_sum(white * crossed, -1)
        variance -= tf.reduce_sum(tf.linalg.matvec(explained, r) * r, -1)
        variance += pair_difference_variance(self.kernel, first, second)
        same = tf.reduce_all(first == second, -1)
        return tf.stack([mean, tf.where(same, tf.zeros_like(variance), variance)], -1)

    def tastes(self, inputs: tf.Tensor) -> FloatArray:
        """Expected h_u of each person at inputs (N, D), (P, N)."""
        graph = self.problem.graph
        assert graph.people is not None
        weight = np.zeros(graph.num_sites + 1)
        for layout, part in zip(self.blocks.buckets, self.kept.own, strict=True):
            weight[layout.sites] = weights_of(part, self.kept.u)[0].numpy()[..., 0]
        number = int(graph.people.max()) + 1
        of_rows = np.zeros((graph.num_rows, number))
        np.add.at(of_rows, (graph.losers, graph.people), weight[:-1])
        np.add.at(of_rows, (graph.winners, graph.people), -weight[:-1])
        related = kernel_matrix(self.taste, inputs, as_float(graph.rows))
        return np.asarray(tf.matmul(related, of_rows).numpy().T)

    # A new person.

    def meet(self, graph: DuelGraph, engine: Engine) -> tuple[Posterior, Any]:
        """q(f) of a new person, and what EP did on the person's own sites.

        :param graph: of duels that are all this person's, on rows as the model has them.
        """
        problem = self.problem._replace(graph=graph)
        shared = FeaturesOfItems(self.prior.features, self.prior.jitter)
        prior = over_people(problem, shared)
        assert prior.blocks is not None
        among = _AmongKnown(prior.blocks, self.sums)
        zeros = tf.zeros([graph.num_sites], prior.offset.dtype)
        point = engine.run(among, prior.factors, Sites(zeros, zeros))
        counted = totals(point.sites, prior.factors.counts)
        kept = among.conditioned(*counted)
        return _joined(self, prior.blocks, 0, kept), point


class _AmongKnown(LowRankPlusBlocks):
    """The sites of one person next to those of all others, which stay as they are."""

    def __init__(self, own: LowRankPlusBlocks, known: Sums) -> None:
        self.__dict__.update(own.__dict__)
        self._known = known

    def sums(self, precision: tf.Tensor, shift: tf.Tensor, own: Own) -> Sums:
        mine = super().sums(precision, shift, own)
        return Sums(mine.precision + self._known.precision, mine.shift + self._known.shift)


def _joined(
    known: KnownPeople, blocks: LowRankPlusBlocks, number: int, kept: LowRankIntermediates
) -> Posterior:
    joining, features = pic_terms(blocks, {PEOPLE: number}, kept), known.prior.features
    return Posterior(
        known.kernel,
        known.problem.mean_function,
        lambda inputs: joining.features(inputs, features(inputs)),
        joining.posterior,
    )


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
