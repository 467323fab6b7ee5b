"""What is known of the effects of pairs, and what duels of a pair are predicted with."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelPrior, DuelProblem
from sparse_prefgp.approximations.base import prior_variance
from sparse_prefgp.covariances import LowRankOverSets, LowRankWithPairs
from sparse_prefgp.covariances.pair_effect import Pairs, pair_effect

# Numbers of items are below it.
_BASE = 1 << 31


class PairPosterior(NamedTuple):
    """q of the effect of each pair that met: the lead of the item with the lower number."""

    pairs: Pairs
    column: int
    """Of the number of the item in a row."""
    variance: tf.Tensor
    """w² of a pair that never met."""
    mean: tf.Tensor
    """(P,)."""
    variances: tf.Tensor
    """(P,)."""
    crossed: tf.Tensor
    """(P, p) such that a crossed' is its covariance with a utility of features a."""

    def added(self, rows: tf.Tensor, step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """What the effect adds to mean and variance of the lead of the first of two, (N,) each.

        An item has none with itself, such as in another context.

        :param rows: (N, 2, D) of both.
        :param step: (N, p), features of the first less those of the second.
        """
        ends = tf.cast(tf.round(rows[:, :, self.column]), tf.int64)
        low, high = tf.reduce_min(ends, 1), tf.reduce_max(ends, 1)
        known = tf.constant(self.pairs.items @ np.array([_BASE, 1]), tf.int64)
        wanted = low * _BASE + high
        place = tf.minimum(tf.searchsorted(known, wanted), len(self.pairs.items) - 1)
        met = (low >= 0) & (low < high) & (tf.gather(known, place) == wanted)
        sign = tf.where(ends[:, 0] == low, tf.ones_like(step[:, 0]), -tf.ones_like(step[:, 0]))
        mean = sign * tf.gather(self.mean, place)
        crossed = tf.reduce_sum(step * tf.gather(self.crossed, place), -1)
        variance = tf.gather(self.variances, place) + 2.0 * sign * crossed
        unmet = tf.where(low == high, tf.zeros_like(variance), self.variance)
        return tf.where(met, mean, tf.zeros_like(mean)), tf.where(met, variance, unmet)


def pair_posterior(
    problem: DuelProblem,
    prior: DuelPrior,
    precision: tf.Tensor,
    shift: tf.Tensor,
) -> PairPosterior | None:
    """That of the effects in the kernel of a problem; None without.

    :param precision: (t,) c tau of the sites.
    :param shift: (t,) c nu.
    """
    effect = pair_effect(problem.kernel)
    if effect is None:
        return None
    graph = problem.graph
    pairs, variance = Pairs.of_graph(graph), tf.convert_to_tensor(effect.variance)
    covariance = cast(LowRankOverSets | LowRankWithPairs, prior.covariance)
    mean, explained, crossed = covariance.effects_of_pairs(pairs, variance, precision, shift)
    return PairPosterior(pairs, graph.layout.number, variance, mean, variance - explained, crossed)


def pair_share(model: Any) -> float | None:
    """What share of the prior variance of a duel, noise apart, is of its pair (`PairEffect`): the
    average over the duels; None without."""
    effect = pair_effect(model.kernel)
    if effect is None:
        return None
    variance = float(effect.variance.numpy())
    of_items = prior_variance(model.problem()).numpy()
    return float(np.average(variance / (variance + of_items), weights=model.graph.counts))
