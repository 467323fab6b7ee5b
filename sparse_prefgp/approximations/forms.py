"""The forms that the algebra of inducing values takes, by what answers are about and the terms.

Each makes a covariance and what the inducing values leave of it; the approximation says how much of
that is noise, and what it costs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import gpflow
import tensorflow as tf

from sparse_prefgp.approximations.base import (
    Approximation,
    DuelPrior,
    DuelProblem,
    InTime,
)
from sparse_prefgp.approximations.duel_terms import (
    Border,
    TermsOfDuels,
    beside_items,
    over_items_alone,
    with_levels,
    without_levels,
)
from sparse_prefgp.approximations.in_time import over_time
from sparse_prefgp.approximations.layout import ARRAYS_OVER_ITEMS, ask_for_features, choose_layout
from sparse_prefgp.approximations.people import over_people
from sparse_prefgp.approximations.residual import Residual, ResidualOfDuels, ResidualOfSites
from sparse_prefgp.approximations.set_residual import ResidualOfPairs, ResidualOfSets
from sparse_prefgp.approximations.whitened import Whitened, features_of_duels, whitened
from sparse_prefgp.covariances import (
    Covariance,
    FeaturesBesideEffects,
    LowRankBesideColumns,
    LowRankOverDuels,
    LowRankOverItems,
    LowRankOverSets,
    LowRankPlusBlocks,
    LowRankWithEffects,
)
from sparse_prefgp.covariances.choice_likelihood import SETS, SharedNoise
from sparse_prefgp.covariances.item_effect import beside_effects
from sparse_prefgp.covariances.item_in_time import beside_time
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.covariances.low_rank_effects import ItemsOfRows, places_of
from sparse_prefgp.covariances.pair_effect import pair_effect
from sparse_prefgp.covariances.residual import Term, Unexplained, ends_apart
from sparse_prefgp.data.graph import DuelGraph, squared_distances
from sparse_prefgp.support import together
from sparse_prefgp.support.linalg import own_squared_lengths


@dataclass(frozen=True)
class SummedApproximation(Approximation):
    """One that reaches duels through inducing values, so that it can be made of chunks of them."""

    @property
    def single_precision(self) -> bool:
        """Whether sums over duels are in float32 while inference runs."""
        return False

    bounds_by_expectation: ClassVar[bool] = False
    """The correction is what taking k~ into the expectations gives a Gaussian v."""

    @property
    def over(self) -> str | None:
        """The form of the algebra that was asked for; None for the cheaper one."""
        return None

    def correction(self, left: Residual) -> tf.Tensor:
        """What is added to log Z, a scalar; nothing by default."""
        return tf.zeros([], gpflow.default_float())

    def over_duels(
        self, problem: DuelProblem, basis: Whitened, chunk: int, look: bool = True
    ) -> DuelPrior:
        """The prior of the duels of a problem by their own features, `chunk` made at a time.

        Answers about sets are made by the features of their sides, as one.

        :param look: whether residual or correction are wanted.
        """
        graph = problem.graph
        if problem.taste is not None:
            return _of_people(self, problem, basis, look)
        if graph.noises is not None:
            return _over_looks(self, problem, basis, basis.features(as_float(graph.rows)), look)
        features = features_of_duels(basis, graph, chunk)
        left = ResidualOfDuels.beside(
            problem, lambda: tf.concat([*map(own_squared_lengths, features)], 0)
        )
        return _completed(self, problem, basis, LowRankOverDuels(features), left, look)


Form: TypeAlias = Callable[[SummedApproximation, DuelProblem], DuelPrior]


def form_of(problem: DuelProblem, over: str | None) -> Form:
    """The form for a problem.

    :param over: "items" or "duels" where the user has decided.
    """
    graph, kernel = problem.graph, problem.kernel
    if beside_time(kernel) is not None:
        return _in_time
    if problem.taste is not None:
        return _of_people
    if graph.noises is not None and over == "duels":
        return _in_blocks
    if graph.noises is not None or pair_effect(kernel) is not None:
        return _of_looks
    terms = TermsOfDuels.of(kernel, graph)
    if over != "duels":
        apart = graph.layout.covariates and terms.others is not None
        if apart and len(graph.items[0]) < min(graph.num_rows, graph.num_sites):
            return _beside_columns
        if beside_effects(kernel, graph) is not None:
            return _beside_effects
    return _beside_levels if terms.leans else _over_rows


def _over_rows(row: SummedApproximation, problem: DuelProblem) -> DuelPrior:
    """Over the rows of the graph, or over duels."""
    basis, graph = whitened(problem), problem.graph
    layout = choose_layout(row.over, graph, basis.size, basis.factor.dtype.size)
    if layout.over_items:
        return over_items(row, problem, basis, basis.features(as_float(graph.rows)))
    if row.single_precision:
        warnings.warn(
            f"single_precision is for the form over items; {graph.num_sites:,} duels between "
            f"{graph.num_rows:,} items take the form over duels, in float64.",
            stacklevel=3,
        )
    return row.over_duels(problem, basis, layout.chunk)


def _beside_levels(row: SummedApproximation, problem: DuelProblem) -> DuelPrior:
    """The same, leans by one column of levels apart."""
    terms = TermsOfDuels.of(problem.kernel, problem.graph)
    return with_levels(_over_rows(row, without_levels(problem, terms)), terms, problem.graph)


def _beside_columns(row: SummedApproximation, problem: DuelProblem) -> DuelPrior:
    """Over items and coefficients, leans apart."""
    graph = problem.graph
    terms = TermsOfDuels.of(problem.kernel, graph)
    alone = problem._replace(graph=over_items_alone(graph), kernel=terms.others)
    basis, border = whitened(alone), terms.border_beside(graph)
    items = _features(basis, alone.graph, border[1].shape[0])
    prior = over_items(row, alone, basis, items, border=border)
    prior = replace(prior, features=beside_items(terms, graph, basis.of_inputs))
    return with_levels(prior, terms, graph) if terms.leans else prior


def _beside_effects(row: SummedApproximation, problem: DuelProblem) -> DuelPrior:
    """Over items whose effects are integrated out."""
    apart, graph = beside_effects(problem.kernel, problem.graph), problem.graph
    assert apart is not None
    kernel, effect = apart
    problem = problem._replace(kernel=kernel)
    basis, variance = whitened(problem), tf.convert_to_tensor(effect.variance)
    features = basis.features(as_float(graph.rows))
    covariance = LowRankWithEffects(features, graph, variance, row.single_precision)
    left = ResidualOfDuels.beside(problem, lambda: squared_distances(graph, features))
    items, column, scale = ItemsOfRows.of_graph(graph), graph.layout.number, tf.sqrt(variance)

    def seen(inputs: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        place, known = places_of(items.numbers, inputs[:, column])
        return [(place, scale * known)]

    beside = FeaturesBesideEffects(basis.of_inputs, seen, len(items.numbers))
    prior = _completed(row, problem, basis, covariance, left)
    return replace(prior, features=beside.whole, beside=beside)


def _in_time(row: SummedApproximation, problem: DuelProblem) -> DuelPrior:
    """Of items whose utilities move, which is filtered; inducing values explain other terms."""
    terms = beside_time(problem.kernel)
    assert terms is not None
    rest = problem._replace(kernel=terms.others)
    basis = whitened(rest)
    layout = choose_layout("duels", problem.graph, basis.size, basis.factor.dtype.size)
    columns = tf.concat(features_of_duels(basis, problem.graph, layout.chunk), 0)
    covariance = over_time(problem, terms, columns)
    left = ResidualOfDuels.beside(rest, lambda: own_squared_lengths(columns))
    prior = _completed(row, rest, basis, covariance, left)
    return replace(prior, in_time=InTime(terms, basis.of_inputs, columns))


def _of_people(
    row: SummedApproximation,
    problem: DuelProblem,
    basis: Whitened | None = None,
    look: bool = True,
) -> DuelPrior:
    """Of people with tastes."""
    items = whitened(problem) if basis is None else basis
    try:
        return over_people(problem, items, row.residual_share, row.correction if look else None)
    except NotImplementedError as unknown:
        called = f"{row.name}()"
        raise together.refused(tastes=True, approximations_of_one_utility=called) from unknown


def _of_looks(row: SummedApproximation, problem: DuelProblem) -> DuelPrior:
    """Over items, of answers about sets, or of duels whose pairs have effects of their own."""
    basis = whitened(problem)
    return _over_looks(row, problem, basis, _features(basis, problem.graph))


def _in_blocks(row: SummedApproximation, problem: DuelProblem) -> DuelPrior:
    """Of answers about sets, whose alternatives share noises, in blocks of rows."""
    graph, share, basis = problem.graph, row.residual_share, whitened(problem)
    assert graph.noises is not None
    buckets, items = graph.buckets(graph.noises.look), _features(basis, graph)
    parts = [ends_apart(tf.gather(items, bucket.rows), bucket) for bucket in buckets]
    terms: list[Term] = [SharedNoise(graph.noises, 0.5 * problem.noise)]
    if share > 0.0:
        terms.append(Unexplained(problem.of_rows, graph, graph.noises.look, SETS, share))
    covariance = LowRankPlusBlocks(parts, terms, buckets, graph.num_sites)
    return _completed(row, problem, basis, covariance, ResidualOfSets.of(problem, items))


def over_items(
    row: SummedApproximation,
    problem: DuelProblem,
    basis: Whitened,
    features: tf.Tensor,
    look: bool = True,
    border: Border | None = None,
) -> DuelPrior:
    """The prior of the duels of a problem by the features of their items.

    :param features: B, (n, p).
    :param look: whether residual or correction are wanted.
    :param border: coefficients of covariates besides, not in the problem's kernel.
    """
    graph = problem.graph
    if graph.noises is not None:
        return _over_looks(row, problem, basis, features, look)
    covariance = LowRankOverItems(features, graph, row.single_precision)
    if border is not None:
        covariance = LowRankBesideColumns(features, graph, *border, row.single_precision)
    left = ResidualOfDuels.beside(problem, lambda: squared_distances(graph, features))
    return _completed(row, problem, basis, covariance, left, look)


def _over_looks(
    row: SummedApproximation,
    problem: DuelProblem,
    basis: Whitened,
    features: tf.Tensor,
    look: bool = True,
) -> DuelPrior:
    kind = ResidualOfPairs if problem.graph.noises is None else ResidualOfSets
    left = kind.of(problem, features)
    residuals = [left.shared(form) for form in left.looks.forms]
    if row.residual_share > 0.0:
        each = zip(residuals, left.looks.forms, strict=True)
        residuals = [shared + row.residual_share * left.within(form) for shared, form in each]
    covariance = LowRankOverSets(features, left.looks, residuals, left.copies, row.single_precision)
    return _completed(row, problem, basis, covariance, left, look)


def _features(basis: Whitened, graph: DuelGraph, more: int = 0) -> tf.Tensor:
    """Of all rows of the graph, (n, p), for which there is memory, next to so many columns."""
    n, p = graph.num_rows, basis.size + more
    needed = ARRAYS_OVER_ITEMS * n * p * basis.factor.dtype.size
    ask_for_features(n, graph.num_sites, p, needed)
    return basis.features(as_float(graph.rows))


def _completed(
    row: SummedApproximation,
    problem: DuelProblem,
    basis: Whitened,
    covariance: Covariance,
    left: ResidualOfSites,
    look: bool = True,
) -> DuelPrior:
    """Factors and correction next to a covariance: of all answers, or of a chunk.

    :param look: whether residual or correction are wanted.
    """
    prior = DuelPrior.of(problem, covariance, basis.of_inputs, basis.jitter)
    if look or row.residual_share > 0.0:
        factors = left.as_noise(prior.factors, row.residual_share, row.bounds_by_expectation)
        prior = replace(prior, factors=factors, clipped=left.clipped)
    return replace(prior, correction=row.correction(left)) if look else prior
