"""People with tastes of their own: what is shared by low rank, each one's own in a block.

`f_u = g + h_u`, and the h_u are integrated out: besides `Phi Phi'` for g, z has the residual
`A_u K_1 A_u'` within the sites of each person u, whose sites are one block. What Phi leaves of g an
approximation treats as without tastes, but that their own tastes are noise to g.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from sparse_prefgp.approximations.base import DuelPrior, DuelProblem, build_factors, prior_variance
from sparse_prefgp.covariances import LowRankPlusBlocks
from sparse_prefgp.covariances.coefficients import widened
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.covariances.residual import (
    PEOPLE,
    SETS,
    SharedNoise,
    Tastes,
    Term,
    Unexplained,
    ends_apart,
    joined,
)
from sparse_prefgp.data.graph import squared_distances
from sparse_prefgp.support.linalg import MAX_CONDITION, cholesky_with_jitter, solved_rows


class FeaturesOfItems(NamedTuple):
    """The features of g: what all people share."""

    of: Callable[[tf.Tensor], tf.Tensor]
    """Maps inputs (N, D) to features (N, p)."""
    jitter: tf.Tensor
    """What was added to a diagonal to have them."""


class LeftOfPeople(NamedTuple):
    """What the features leave of g within the sites of each person, bucket by bucket."""

    left: tuple[tf.Tensor, ...]
    """(g, b, b) `A_u (K_0 - Q_0) A_u'`."""
    others: tuple[tf.Tensor, ...]
    """(g, b, b) `R_u + D / c`: all of v that is not g."""

    def trace(self) -> tf.Tensor:
        """sum over people of `tr[(R_u + D / c)⁻¹ A_u (K_0 - Q_0) A_u']`."""
        each = zip(self.others, self.left, strict=True)
        found = [tf.linalg.cholesky_solve(tf.linalg.cholesky(n), left) for n, left in each]
        return tf.add_n([tf.reduce_sum(tf.linalg.trace(one)) for one in found])


def features_of_rows(problem: DuelProblem) -> FeaturesOfItems:
    """Of g itself, exact at all rows of the graph: `K_0 = L L'`, features `k_0 L⁻ᵀ`."""
    graph = problem.graph
    rows = as_float(graph.rows)
    factor, jitter = cholesky_with_jitter(kernel_matrix(problem.kernel, rows), MAX_CONDITION)

    def features(inputs: tf.Tensor) -> tf.Tensor:
        related = kernel_matrix(problem.kernel, rows, widened(inputs, graph.layout))
        return solved_rows(factor, related)

    return FeaturesOfItems(features, jitter)


def over_people(
    problem: DuelProblem,
    basis: FeaturesOfItems,
    share: float = 0.0,
    correction: Callable[[LeftOfPeople], tf.Tensor] | None = None,
) -> DuelPrior:
    """The prior of duels of people with tastes.

    :param share: of what the features leave of g that joins the noise, within sets as a block.
    :param correction: what is added to the log evidence; None for nothing.
    """
    graph = problem.graph
    assert problem.taste is not None and graph.people is not None
    terms: list[Term] = [Tastes(problem.taste, graph, graph.people)]
    noise = problem.own_noise
    items = basis.of(as_float(graph.rows))
    clipped = tf.zeros([], items.dtype)
    if graph.noises is not None:
        terms.append(SharedNoise(graph.noises, 0.5 * problem.noise))
        if share > 0.0:
            terms.append(Unexplained(problem.kernel, graph, graph.noises.look, SETS, share))
    elif share > 0.0:
        raw = prior_variance(problem) - squared_distances(graph, items)
        diagonal = tf.maximum(raw, tf.zeros_like(raw))
        clipped = tf.stop_gradient(tf.reduce_max(diagonal - raw))
        noise += share * diagonal
    buckets = graph.buckets(joined({term.name: term.groups for term in terms}))
    parts = [ends_apart(tf.gather(items, bucket.rows), bucket) for bucket in buckets]
    covariance = LowRankPlusBlocks(parts, terms, buckets, graph.num_sites)
    factors, offset = build_factors(problem, noise)
    added = tf.zeros([], items.dtype)
    if correction is not None:
        shared = Unexplained(problem.kernel, graph, graph.people, PEOPLE)
        each = tf.concat([noise / as_float(graph.counts), tf.ones_like(noise[:1])], 0)
        left, others = [], []
        for bucket, features, own in zip(buckets, parts, covariance.residuals, strict=True):
            left.append(shared.within(bucket, features))
            others.append(own + tf.linalg.diag(tf.gather(each, bucket.sites)))
        added = correction(LeftOfPeople(tuple(left), tuple(others)))
    return DuelPrior(
        covariance,
        factors,
        offset,
        added,
        basis.of,
        basis.jitter,
        tf.maximum(clipped, covariance.clipped),
        blocks=covariance,
    )
