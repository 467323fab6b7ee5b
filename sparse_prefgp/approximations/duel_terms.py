"""Terms that see what is said of a duel, apart from those of its items.

Coefficients are a border of columns next to the features of the items; the leans by the column
with the most levels are eliminated (`covariances/levels.py`), others are columns of the border.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias, cast

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import DuelPrior, DuelProblem
from sparse_prefgp.covariances import FeaturesBesideEffects, LowRankWithLevels, LowRankWithPairs
from sparse_prefgp.covariances.coefficients import TermOfDuels, terms_of_duels, widened
from sparse_prefgp.covariances.finite import parts_of, sum_of
from sparse_prefgp.covariances.levels import Levels
from sparse_prefgp.covariances.low_rank import NoResidual
from sparse_prefgp.covariances.low_rank_effects import places_of
from sparse_prefgp.covariances.pair_effect import PairEffect, Pairs
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.arrays import FloatArray

# X, (t, p), of the losers less of the winners, and (p,) standard deviations of its coefficients.
Border: TypeAlias = tuple[tf.Tensor, tf.Tensor]


class TermsOfDuels(NamedTuple):
    """The terms of a kernel on rows that see columns of the duel."""

    border: tuple[TermOfDuels, ...]
    """Coefficients, and leans with fewer levels."""
    leans: tuple[TermOfDuels, ...]
    """Of one column of levels."""
    others: gpflow.kernels.Kernel | None
    """All else that the kernel is a sum of."""

    @classmethod
    def of(cls, kernel: gpflow.kernels.Kernel, graph: DuelGraph | None) -> TermsOfDuels:
        """Those of a kernel; of any graph, where leans know the number of their levels."""
        own, others = terms_of_duels(kernel)
        leans = [term for term in own if term.level is not None]
        sizes = [len(term.numbers(graph)) for term in leans]
        column = leans[int(np.argmax(sizes))].level if leans else None
        eliminated = [term for term in leans if term.level == column]
        border = [term for term in own if term not in eliminated]
        return cls(tuple(border), tuple(eliminated), others)

    @property
    def scale(self) -> tf.Tensor:
        """(q,) standard deviations of the leans of a level."""
        return tf.sqrt(tf.stack([tf.convert_to_tensor(term.variance) for term in self.leans]))

    def border_scale(self, graph: DuelGraph) -> tf.Tensor:
        """(p,) standard deviations of the coefficients of the border."""
        return tf.sqrt(tf.concat([term.variances(graph) for term in self.border], 0))

    def columns(self, graph: DuelGraph) -> tf.Tensor:
        """X of the border, (t, p), of the losers less of the winners."""

        def lay_out() -> tf.Tensor:
            with tf.init_scope():
                sides = [
                    term.multipliers(graph, tf.constant(graph.of_sides(term.columns)))
                    for term in self.border
                ]
                won, lost = tf.concat(sides, -1)
                return lost - won

        return graph.once(f"border {[term.columns for term in self.border]}", lay_out)

    def border_beside(self, graph: DuelGraph) -> Border:
        """X and the standard deviations of its coefficients."""
        return self.columns(graph), self.border_scale(graph)

    def numbers(self, graph: DuelGraph | None) -> FloatArray:
        """(L,) of the levels that lean, ascending."""
        return self.leans[0].numbers(graph).astype(float)

    def levels(self, graph: DuelGraph) -> Levels:
        """What each site sees of which level."""

        def lay_out() -> Levels:
            numbers, column = self.numbers(graph), self.leans[0].columns[1]
            # A side of which nothing is said names nobody.
            named = graph.of_sides([column]).max(0)[:, 0]
            level = np.minimum(np.searchsorted(numbers, named), len(numbers) - 1)
            known = numbers[level] == named
            won, lost = graph.of_sides([term.columns[0] for term in self.leans])
            return Levels(level, (lost - won) * known[:, None], len(numbers))

        return graph.once(f"levels {[term.columns for term in self.leans]}", lay_out)

    def entries(
        self, graph: DuelGraph | None, inputs: tf.Tensor
    ) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Which effect each row (N, ...) sees by each lean, (N,), and how much of it, (N,)."""
        numbers = self.numbers(graph)
        found = []
        for k, (term, scale) in enumerate(zip(self.leans, tf.unstack(self.scale), strict=True)):
            values, number = tf.unstack(term.said_columns(inputs), axis=1)
            place, known = places_of(numbers, number)
            found.append((place * len(self.leans) + k, scale * values * known))
        return found

    def features(
        self, of_u: Callable[[tf.Tensor], tf.Tensor], graph: DuelGraph | None
    ) -> FeaturesBesideEffects:
        """Those of rows for u, (N, m), and what else they see."""
        number = len(self.leans) * len(self.numbers(graph))
        return FeaturesBesideEffects(of_u, partial(self.entries, graph), number)


def without_levels(problem: DuelProblem, terms: TermsOfDuels) -> DuelProblem:
    """A problem whose kernel lacks the leans that are eliminated."""
    own, others = terms_of_duels(problem.kernel)
    gone = [term.columns for term in terms.leans]  # terms are made anew for each kernel on rows
    kept = [
        *([] if others is None else parts_of(others)),
        *(term for term in own if term.columns not in gone),
    ]
    return problem._replace(kernel=sum_of(kept))


def with_levels(prior: DuelPrior, terms: TermsOfDuels, graph: DuelGraph) -> DuelPrior:
    """The prior of a problem without the leans of one column of levels, with these."""
    base = cast(NoResidual, prior.covariance)
    layout, of_u = graph.layout, prior.features

    def features(inputs: tf.Tensor) -> tf.Tensor:
        return of_u(widened(inputs, layout))

    beside = terms.features(features, graph)
    covariance = LowRankWithLevels(base, terms.levels(graph), terms.scale)
    return replace(prior, covariance=covariance, features=beside.whole, beside=beside)


def with_pairs(prior: DuelPrior, effect: PairEffect, graph: DuelGraph) -> DuelPrior:
    """The prior of a problem without effects of pairs, with them."""
    base, pairs = cast(NoResidual, prior.covariance), Pairs.of_graph(graph)
    levels = graph.once(
        "levels of pairs", lambda: Levels(pairs.number, pairs.sign[:, None], len(pairs.items))
    )
    scale = tf.sqrt(tf.convert_to_tensor(effect.variance))[None]
    return replace(prior, covariance=LowRankWithPairs(base, levels, scale))


def over_items_alone(graph: DuelGraph) -> DuelGraph:
    """The sites of a graph between its items, whatever else was said of them."""

    def lay_out() -> DuelGraph:
        items, item = graph.items
        layout = graph.layout._replace(covariates=0, levels=0)
        ends = item[graph.winners], item[graph.losers]
        alone = replace(graph, own=items, item=None, further=None, layout=layout)
        return replace(alone, winners=ends[0], losers=ends[1])

    return graph.once("over items alone", lay_out)


def beside_items(
    terms: TermsOfDuels, graph: DuelGraph, of_items: Callable[[tf.Tensor], tf.Tensor]
) -> Callable[[tf.Tensor], tf.Tensor]:
    """The features of rows, (N, m + p), next to those of their items, (N, m), the border."""
    scale = terms.border_scale(graph)

    def features(inputs: tf.Tensor) -> tf.Tensor:
        inputs = widened(inputs, graph.layout)
        items = of_items(inputs[:, : graph.layout.first_covariate])
        border = tf.concat([term.columns_of(graph, inputs) for term in terms.border], 1)
        return tf.concat([items, border * scale], 1)

    return features
