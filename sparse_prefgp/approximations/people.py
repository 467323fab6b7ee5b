"""People with tastes of their own: what is shared by low rank, each one's own in a block.

`f_u = g + h_u`, and the h_u are integrated out: besides `Phi Phi'` for g, z has the residual
`A_u K_1 A_u'` within the sites of each person u, whose sites are one block. What Phi leaves of g an
approximation treats as without tastes, but that their own tastes are noise to g.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import DuelPrior, DuelProblem, FeaturesOfItems
from sparse_prefgp.approximations.residual import Residual, ResidualOfDuels
from sparse_prefgp.approximations.set_residual import pseudo_root
from sparse_prefgp.covariances import LowRankPlusBlocks, LowRankPlusTastes
from sparse_prefgp.covariances.choice_likelihood import SETS, Looks, SharedNoise
from sparse_prefgp.covariances.coefficients import widened
from sparse_prefgp.covariances.finite import parts_of
from sparse_prefgp.covariances.kernels import (
    as_float,
    kernel_matrix,
    of_the_centre,
    stacked_covariance,
)
from sparse_prefgp.covariances.low_rank_buckets import spread
from sparse_prefgp.covariances.low_rank_tastes import ends_of_rows, undone
from sparse_prefgp.covariances.pair_effect import PairEffect
from sparse_prefgp.covariances.residual import (
    MAX_BLOCK,
    PEOPLE,
    Term,
    Unexplained,
    ends_apart,
    joined,
)
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.data.graph import squared_distances
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.linalg import MAX_CONDITION, cholesky_with_jitter, solved_rows
from sparse_prefgp.support.machine import ask

# Arrays of features, and of covariances, that meet in one sweep.
_FEATURES, _KERNELS = 6, 8
Features: TypeAlias = Callable[[tf.Tensor], tf.Tensor]


@dataclass(frozen=True, eq=False)
class ResidualOfPeople(Residual):
    """What the features leave of g within each person, bucket by bucket; its trace is known."""

    left: Iterable[tf.Tensor]
    """(g, b, b) `A_u (K_0 - Q_0) A_u'`; or of the rows, (g, p, p) `K_0 - Q_0`."""
    known: Iterable[tf.Tensor]
    """(g, b, b) N_u, the inverse of the covariance of all of v that is not g; or of the rows,
    (g, p, p) `A_u' N_u A_u`.
    """

    def trace(self) -> tf.Tensor:
        """sum over people of `tr[N_u A_u (K_0 - Q_0) A_u']`."""
        return tf.add_n(
            [tf.reduce_sum(n * left) for n, left in zip(self.known, self.left, strict=True)]
        )


def shift_of(
    kernel: gpflow.kernels.Kernel, factor: tf.Tensor, points: tf.Tensor
) -> tf.Tensor | None:
    """(m,) what whitened features of single utilities have besides those of `DuelProblem.of_rows`,
    the same for all: those of f(centre); None where nothing is centred.

    :param factor: L with K_uu = L L' at the points (m, D).
    """
    found = of_the_centre(kernel, points)
    return None if found is None else solved_rows(factor, found[:, None])[0]


def features_of_rows(problem: DuelProblem) -> FeaturesOfItems:
    """Of g itself, exact at all rows of the graph: `K_0 = L L'`, features `k_0 L⁻ᵀ`."""
    graph = problem.graph
    rows, kernel = as_float(graph.rows), problem.of_rows
    if all(isinstance(part, PairEffect) for part in parts_of(kernel)):  # of no item by itself
        nothing = tf.zeros([], rows.dtype)
        return FeaturesOfItems(lambda inputs: nothing * inputs[:, :1], nothing)
    factor, jitter = cholesky_with_jitter(kernel_matrix(kernel, rows), MAX_CONDITION)

    def features(inputs: tf.Tensor) -> tf.Tensor:
        related = kernel_matrix(kernel, rows, widened(inputs, graph.layout))
        return solved_rows(factor, related)

    return FeaturesOfItems(features, jitter, shift_of(kernel, factor, rows))


def over_people(
    problem: DuelProblem,
    basis: FeaturesOfItems,
    share: float = 0.0,
    correction: Callable[[Residual], tf.Tensor] | None = None,
) -> DuelPrior:
    """The prior of duels of people with tastes.

    :param share: of what the features leave of g that joins the noise, within sets as a block.
    :param correction: what is added to the log evidence; None for nothing.
    :raises ValueError: a person with more than 5,000 rows of duels, or of items, whichever are
        fewer.
    :raises NotEnoughMemory: more than is free.
    """
    graph, by_features = problem.graph, problem.by_features
    assert problem.taste is not None and graph.people is not None
    taste = problem.taste_of_rows
    terms: list[Term] = [Unexplained(taste, graph, graph.people, PEOPLE, columns=0)]
    items = basis.features(as_float(graph.rows))
    clipped = tf.zeros([], items.dtype)
    unexplained = None
    if graph.noises is not None:
        terms.append(SharedNoise(graph.noises, 0.5 * problem.noise))
        if share > 0.0:
            size = items.shape[1]
            terms.append(Unexplained(problem.of_rows, graph, graph.noises.look, SETS, share, size))
    elif share > 0.0:
        unexplained = ResidualOfDuels.beside(problem, lambda: squared_distances(graph, items))
        clipped = unexplained.clipped
    counted = as_float(graph.counts) / problem.noise
    covariance: LowRankPlusBlocks | LowRankPlusTastes
    buckets = graph.buckets(np.unique(graph.people, return_inverse=True)[1].reshape(-1))
    if graph.noises is None and _fewer_rows(buckets, items.shape[1]):
        check_rows(buckets)
        _ask([bucket.rows for bucket in buckets], items.shape[1])
        parts = [tf.gather(items, bucket.rows) for bucket in buckets]
        inputs = [tf.gather(as_float(graph.rows), bucket.rows) for bucket in buckets]
        kernels = [stacked_covariance(taste, each) for each in inputs]
        whole = parts
        if by_features is not None:
            # A block is one person's, whom its first site names.
            whole = [
                tf.concat([part, by_features.of(graph.people[bucket.sites[:, :1]], each)], -1)
                for part, each, bucket in zip(parts, inputs, buckets, strict=True)
            ]
        covariance = LowRankPlusTastes(whole, kernels, buckets, graph.num_sites)
        left = (
            stacked_covariance(problem.of_rows, each) - tf.matmul(part, part, transpose_b=True)
            for each, part in zip(inputs, parts, strict=True)
        )
        apart = map(ends_of_rows, buckets)
        known = (  # W = A'(c / D) A
            _known(kernel, tf.matmul(ends, each * ends, transpose_a=True))
            for kernel, each, ends in zip(kernels, spread(counted, buckets), apart, strict=True)
        )
    else:
        buckets = graph.buckets(joined({term.name: term.groups for term in terms}))
        _ask([bucket.sites for bucket in buckets], items.shape[1])
        parts = [features_of_sites(problem, bucket, items) for bucket in buckets]
        covariance = blocks = LowRankPlusBlocks(parts, terms, buckets, graph.num_sites)
        clipped = tf.maximum(clipped, blocks.clipped)
        shared = Unexplained(problem.of_rows, graph, graph.people, PEOPLE, columns=items.shape[1])
        left = (shared.within(*each) for each in zip(buckets, parts, strict=True))
        told: Iterable[tf.Tensor] = (tf.linalg.diag(x[..., 0]) for x in spread(counted, buckets))
        if graph.noises is not None:
            told = _told_of_looks(problem, buckets)
        known = (
            _known(terms[0].within(bucket, part), each)
            for bucket, part, each in zip(buckets, parts, told, strict=True)
        )
    prior = DuelPrior.of(
        problem,
        covariance,
        padded_for(problem, basis.of_inputs),
        basis.jitter,
        clipped=clipped,
        people=covariance,
        shared=basis,
    )
    if unexplained is not None:
        prior = replace(prior, factors=unexplained.as_noise(prior.factors, share, False))
    if correction is not None:
        added = correction(ResidualOfPeople(problem, left, known))
        prior = replace(prior, correction=added)
    return prior


def _ask(blocks: Sequence[IntArray], width: int) -> None:
    """Ask for the memory of what each person has of rows or of sites (g, p), and of `width`
    features of these.

    :raises NotEnoughMemory: more than is free.
    """
    numbers = sum(each.size * (_FEATURES * width + _KERNELS * each.shape[1]) for each in blocks)
    people = sum(len(each) for each in blocks)
    ask(
        8 * numbers,
        f"Tastes of {people:,} people",
        "use fewer inducing inputs, or duels of fewer people",
    )


def padded_for(problem: DuelProblem, features: Features) -> Features:
    """Features of what all share, in which features of people have no part."""
    by_features = problem.by_features
    if by_features is None:
        return features
    return lambda inputs: by_features.padded(features(inputs))


def features_of_sites(problem: DuelProblem, bucket: Bucket, items: tf.Tensor) -> tf.Tensor:
    """The rows of Phi of a bucket, (g, b, m).

    :param items: (n, m) features of what all share, of the rows of the graph.
    """
    graph, by_features = problem.graph, problem.by_features
    # Of the rows of each person there are more than of sites, m numbers each.
    winners, losers = (
        tf.gather(items, np.append(side, 0)[bucket.sites]) for side in (graph.winners, graph.losers)
    )
    shared = losers - winners
    if by_features is None or graph.people is None:
        return shared
    step = ends_apart(tf.gather(as_float(graph.rows), bucket.rows), bucket)
    # Padding compares a row with itself, whoever does.
    whose = np.append(graph.people, 0)[bucket.sites]
    return tf.concat([shared, by_features.of(whose, step)], -1)


def check_rows(buckets: Sequence[Bucket]) -> None:
    """Refuse a person who compares too many rows.

    :raises ValueError: more than 5,000.
    """
    largest = max(bucket.rows.shape[1] for bucket in buckets)
    if largest > MAX_BLOCK:
        raise ValueError(
            f"The duels of one person compare {largest:,} rows of items, and a taste is learned of "
            f"at most {MAX_BLOCK:,}; leave some of the duels out, or take one utility for all."
        )


def _fewer_rows(buckets: Sequence[Bucket], width: int) -> bool:
    """Whether the rows that people compare cost less than their duels, or these are too many."""
    cost = [0, 0]
    for bucket in buckets:
        for k, size in enumerate((bucket.rows.shape[1], bucket.sites.shape[1])):
            cost[k] += len(bucket.numbers) * size**2 * (size + width)
    return cost[0] < cost[1] or max(bucket.sites.shape[1] for bucket in buckets) > MAX_BLOCK


def _told_of_looks(problem: DuelProblem, buckets: Sequence[Bucket]) -> Iterator[tf.Tensor]:
    """W, (g, b, b), of answers about sets: the inverse of all their noise, whatever is a row's own.

    It is the inverse among the contrasts of a look, of which best and worst at once have fewer
    than rows.
    """
    graph = problem.graph
    forms = Looks.of_graph(graph).forms
    counted = 2.0 * as_float(graph.counts) / problem.noise  # c / sigma²
    for bucket, each in zip(buckets, spread(counted, buckets), strict=True):
        g, b = bucket.sites.shape
        place = np.full(graph.num_sites + 1, -1)
        place[bucket.sites] = np.arange(g * b).reshape(g, b)
        told = np.zeros((g * b, b))
        for form in forms:
            at, root = place[form.bucket.sites], pseudo_root(form.noise)
            at = at[at[:, 0] >= 0]
            told[at[:, :, None], at[:, None, :] % b] = root @ root
        yield each * as_float(told.reshape(g, b, b))


def _known(kernel: tf.Tensor, told: tf.Tensor) -> tf.Tensor:
    """N = W (I + K_1 W)⁻¹ of blocks, for the covariance K_1 of tastes and what sites tell, W."""
    found = tf.linalg.solve(undone(kernel, told), told, adjoint=True)
    return tf.linalg.matrix_transpose(found)
