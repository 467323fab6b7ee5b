"""Low rank over items, next to an independent effect of every item that is never approximated.

z = A (B u + F e) with A the differences of duels, u ~ N(0, I) whitened inducing values, F which
item each row is of, and effects e ~ N(0, s² I). The sites see e through the graph Laplacian
S = F'A'TAF alone, so that e is integrated out in closed form: with

    G = I + s² S    U = G⁻¹ F'A'TAB    B~ = B - s² F U    b = G⁻¹ F'(A's - A'TAB E u)

    Lambda = B~'A'TA B~ + s² U'U        h = B~'A's
    E z = A (B~ E u + s² F G⁻¹ F'A's)   Cov z = A (B~ P⁻¹ B~' + s² F G⁻¹ F') A'
    E e = s² b                          Cov e = s² G⁻¹ + s⁴ U P⁻¹ U'

and ½ log|P| over z gains ½ log|G|. This is the Woodbury identity with the diagonal taken first
(Lambda in the symmetric form of Joseph, in which no digits cancel); of G⁻¹ a sweep wants little
(`graph_inverse.py`). O(n³ + n² m + t m) a sweep for n items that have effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.base import Column, PosteriorTerms, SequentialState, WholeTerms
from sparse_prefgp.covariances.choice_likelihood import PairLinks
from sparse_prefgp.covariances.graph_inverse import GraphInverse
from sparse_prefgp.covariances.low_rank import LowRankOverItems
from sparse_prefgp.covariances.low_rank_base import InducingPosterior, LowRank, Sums
from sparse_prefgp.data.graph import DuelGraph, Laplacian, differences
from sparse_prefgp.data.graph import incidence_transpose as back
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.linalg import add_to_diagonal, by_numpy, constant_matmul, each_by_numpy


class ItemsOfRows:
    """Which item with an effect each row of a graph is of, and duels as links between items."""

    def __init__(self, graph: DuelGraph) -> None:
        column = graph.rows[:, graph.layout.number]
        self.numbers, of_row = np.unique(column, return_inverse=True)
        """Of the items, ascending."""
        self._of_row = of_row.reshape(-1)
        # Rows of duels with something said of them, or of contexts, are more than items.
        ends = self._of_row[graph.winners], self._of_row[graph.losers]
        self.links = PairLinks(len(self.numbers), *ends)

    @property
    def laplacian(self) -> Laplacian:
        """F'A'diag(weights) A F of any weights of duels."""
        found = self.links.laplacian
        assert isinstance(found, Laplacian)
        return found

    @cached_property
    def inverse(self) -> GraphInverse:
        """G⁻¹ of any weights."""
        return GraphInverse(self.laplacian.pairs, len(self.numbers))

    @classmethod
    def of_graph(cls, graph: DuelGraph) -> ItemsOfRows:
        """Those of a graph whose rows have the numbers of the items."""
        return graph.once("items of rows", lambda: cls(graph))

    def spread(self, values: tf.Tensor) -> tf.Tensor:
        """F values, (n, ...) of the items as those of the rows."""
        return tf.gather(values, self._of_row)

    def summed(self, values: tf.Tensor) -> tf.Tensor:
        """F' values, of rows (n, k) summed over each item."""
        return tf.math.unsorted_segment_sum(values, self._of_row, len(self.numbers))


class Own(NamedTuple):
    """What the sites make of the effects."""

    half_log_det: tf.Tensor
    """½ log|G|."""
    crossed: tf.Tensor
    """U, (n, m)."""
    summed: tf.Tensor
    """G⁻¹ F'A's, (n,)."""
    features: tf.Tensor
    """B~, (rows, m)."""
    mean: tf.Tensor
    """s² F G⁻¹ F'A's, (rows,), the mean of the effects where u is 0."""
    variance: tf.Tensor
    """Diagonal of A F G⁻¹ F'A', (t,)."""


class FeaturesBesideEffects(NamedTuple):
    """Features for u and for effects of which an input sees few, without their zeros."""

    of_u: Callable[[tf.Tensor], tf.Tensor]
    """Maps inputs (N, ...) to their features for u, (N, m)."""
    entries: Callable[[tf.Tensor], Sequence[tuple[tf.Tensor, tf.Tensor]]]
    """Maps inputs to the effects that each sees, by number, and how much of them, (N,) both."""
    number: int
    """n, how many effects there are."""

    def whole(self, inputs: tf.Tensor) -> tf.Tensor:
        """Both side by side, (N, m + n)."""
        of_u = self.of_u(inputs)
        effects = [
            value[:, None] * tf.one_hot(place, self.number, dtype=value.dtype)
            for place, value in self.entries(inputs)
        ]
        return tf.concat([of_u, tf.add_n(effects)], 1)

    def is_seen(self, inputs: tf.Tensor) -> bool:
        """Whether any input sees any effect, or may while nothing is computed yet."""
        values = [value for _, value in self.entries(inputs)]
        return not tf.executing_eagerly() or any(np.any(value != 0.0) for value in values)

    def told(
        self, terms: PosteriorTerms, *sides: tuple[float, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean a w and a R a' of sums of inputs (N, ...), each times its factor, (N,) each."""
        of_u = tf.add_n([factor * self.of_u(inputs) for factor, inputs in sides])
        seen = [
            (place, factor * value)
            for factor, inputs in sides
            for place, value in self.entries(inputs)
        ]
        m = of_u.shape[1]
        mean = tf.linalg.matvec(of_u, terms.weights[:m])
        explained = tf.reduce_sum(tf.matmul(of_u, terms.of_u(m)) * of_u, -1)
        for place, value in seen:
            mean += value * tf.gather(terms.weights[m:], place)
            explained += 2.0 * value * tf.reduce_sum(of_u * terms.with_u(m, place), -1)
            for other, other_value in seen:
                explained += value * other_value * terms.between(m, place, other)
        return mean, explained


def places_of(numbers: FloatArray, asked: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Where numbers (N,) are among some, ascending, and 1, or 0 for one that is not there."""
    known = tf.constant(numbers, asked.dtype)
    place = tf.minimum(tf.searchsorted(known, asked), len(numbers) - 1)
    return place, tf.cast(tf.gather(known, place) == asked, asked.dtype)


class LowRankWithEffects(LowRank):
    """`features` is B, (rows, m), over the rows of a graph; the effects are those of its items.

    :param variance: s², a scalar.
    :param single_precision: as of `LowRankOverItems`; what is n × n is not.
    """

    def __init__(
        self,
        features: tf.Tensor,
        graph: DuelGraph,
        variance: tf.Tensor,
        single_precision: bool = False,
    ) -> None:
        self.features, self._variance = features, variance
        self._graph, self._items = graph, ItemsOfRows.of_graph(graph)
        self._single = single_precision
        self._constant, self._scale = tf.stop_gradient(features), tf.stop_gradient(variance)

    # Conditioning.

    def own(self, precision: tf.Tensor, shift: tf.Tensor) -> Own:
        items, graph, m = self._items, self._graph, self._constant.shape[1]
        seen = items.summed(graph.laplacian.matmul(precision, self._constant))
        columns = tf.concat([seen, back(items.links, shift)[:, None]], 1)
        laplacian = items.laplacian
        n, pairs = laplacian.num_rows, len(laplacian.pairs)
        both, between, half_log_det = each_by_numpy(
            items.inverse.selected,
            *laplacian.entries(precision),
            self._scale,
            columns,
            shapes=[[n, m + 1], [pairs], []],
        )
        crossed, mean = both[:, :-1], both[:, -1]
        # Last of all is 0, of duels of an item with itself.
        between = tf.concat([between, tf.zeros([1], between.dtype)], 0)
        return Own(
            half_log_det,
            crossed,
            mean,
            self._constant - self._scale * items.spread(crossed),
            self._scale * items.spread(mean),
            tf.gather(between, laplacian.pair_of_site),
        )

    def _given(self, own: Own) -> LowRankOverItems:
        """What is left of u where the effects are integrated out: B~ in place of B."""
        return LowRankOverItems(own.features, self._graph, self._single)

    def sums(self, precision: tf.Tensor, shift: tf.Tensor, own: Own) -> Sums:
        seen = self._given(own).sums(precision, shift, ())
        own_part = constant_matmul(own.crossed, own.crossed, transpose_a=True)
        return Sums(seen.precision + self._scale * own_part, seen.shift)

    def own_half_log_det(self, own: Own) -> tf.Tensor:
        return own.half_log_det

    def marginals_under(self, u: InducingPosterior, own: Own) -> tuple[tf.Tensor, tf.Tensor]:
        mean, explained = self._given(own).marginals_under(u, ())
        variance = explained + self._scale * own.variance
        return mean + differences(self._graph, own.mean), variance

    def surrogate_under(
        self, precision: tf.Tensor, shift: tf.Tensor, u: InducingPosterior, own: Own
    ) -> tf.Tensor:
        # With the mean m of z: d/dB = A'(s - T m) (E u)' - A'TA B~ P⁻¹, and
        # d/ds² = ½ (|b|² - tr G⁻¹S + |U chol(P)⁻ᵀ|²), tr G⁻¹S = sum tau_i times the variance of a
        # duel under G⁻¹.
        given = self._given(own)
        given.features = self.features  # in which its slope is, of the rows of B~
        left = shift - precision * differences(self._graph, own.mean)
        total = given.surrogate_under(precision, left, u, ())
        unseen = left - precision * given.project(u.mean)
        # b = F'A'(s - T E z): what the sites say that the posterior mean does not yet.
        said = back(self._items.links, unseen)
        scaled = constant_matmul(own.crossed, u.inverse, transpose_b=True)
        slope = tf.reduce_sum(said**2) + tf.reduce_sum(scaled**2)
        slope -= tf.reduce_sum(precision * own.variance)
        return total + tf.stop_gradient(0.5 * slope) * self._variance

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        total = LowRankOverItems(self.features, self._graph).quadratic(left, right)
        each = [back(self._items.links, values) for values in (left, right)]
        return total + self._variance * tf.reduce_sum(each[0] * each[1])

    # Prediction: of u and e / s, whose features are those of u and s where an item is the same.

    def start(self, precision: tf.Tensor, shift: tf.Tensor) -> SequentialState:
        """Covariance and mean of both, (m + n, m + n) and (m + n,)."""
        u, own = self.conditioned(precision, shift)
        root = tf.sqrt(self._scale)
        half = constant_matmul(own.crossed, u.inverse, transpose_b=True)
        crossed = -root * constant_matmul(half, u.inverse)
        items, laplacian = self._items, self._items.laplacian
        entries, n = laplacian.entries(precision), laplacian.num_rows
        whole = by_numpy(items.inverse.whole, *entries, self._scale, shape=[n, n])
        of_effects = whole + self._scale * constant_matmul(half, half, transpose_b=True)
        covariance = tf.concat(
            [
                tf.concat([u.covariance, tf.transpose(crossed)], 1),
                tf.concat([crossed, of_effects], 1),
            ],
            0,
        )
        effects = own.summed - tf.linalg.matvec(own.crossed, u.mean[:, 0])
        return SequentialState(covariance, tf.concat([u.mean[:, 0], root * effects], 0))

    def predict(self, precision: tf.Tensor, shift: tf.Tensor) -> PosteriorTerms:
        covariance, mean = self.start(precision, shift)
        return WholeTerms(mean, add_to_diagonal(-covariance, 1.0))

    # One site after the other, O((m + n)²) each.

    def column(self, state: SequentialState, site: tf.Tensor) -> Column:
        winners, losers = self._graph.edges
        features = self._constant[losers[site]] - self._constant[winners[site]]
        m, root = self._constant.shape[1], tf.sqrt(self._scale)
        won, lost = (ends[site] + m for ends in self._items.links.edges)
        covariance = tf.linalg.matvec(state.covariance[:, :m], features)
        covariance += root * (state.covariance[:, lost] - state.covariance[:, won])

        def of_site(values: tf.Tensor) -> tf.Tensor:
            own = root * (values[lost] - values[won])
            return tf.reduce_sum(features * values[:m]) + own

        return Column(covariance, mean=of_site(state.mean), variance=of_site(covariance))
