"""No inducing inputs: exact over items or over duels, and exact on a subset of the duels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import (
    Approximation,
    DuelPrior,
    DuelProblem,
    InTime,
    ask_for_squares,
    sample_duels,
)
from sparse_prefgp.approximations.duel_terms import (
    TermsOfDuels,
    beside_items,
    over_items_alone,
    with_levels,
    with_pairs,
)
from sparse_prefgp.approximations.in_time import exact_columns, over_time
from sparse_prefgp.approximations.people import features_of_rows, over_people
from sparse_prefgp.covariances import (
    Covariance,
    DenseOverDuels,
    DenseOverItems,
    LowRankBesideColumns,
    LowRankOverSets,
)
from sparse_prefgp.covariances.choice_likelihood import SharedNoise
from sparse_prefgp.covariances.coefficients import widened
from sparse_prefgp.covariances.finite import parts_of
from sparse_prefgp.covariances.item_effect import ItemEffect
from sparse_prefgp.covariances.item_in_time import beside_time
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix, with_rows
from sparse_prefgp.covariances.pair_effect import (
    PairEffect,
    looks_of_pairs,
    pair_effect,
    shared_effects,
)
from sparse_prefgp.covariances.residual import summed
from sparse_prefgp.data.graph import DuelGraph, differences
from sparse_prefgp.support.checks import check_choice, check_number, plain_scalars
from sparse_prefgp.support.machine import ask


@dataclass(frozen=True)
class Exact(Approximation):
    """The GP prior itself: `K_vv + 2 sigma² I` (docs/method.md, section 1).

    Works over items, O(n³ + t) a sweep, when there are fewer distinct items than distinct duels,
    and over duels, O(t³), otherwise; with covariates over items and coefficients where these are
    fewer.
    """

    needs_inducing: ClassVar[bool] = False
    is_bound: ClassVar[bool] = True  # the evidence itself
    over: str | None = field(default=None, kw_only=True, repr=False)
    """One of "items" or "duels" to decide it by hand; None chooses."""

    def __post_init__(self) -> None:
        check_over(self.over)

    def prior(self, problem: DuelProblem) -> DuelPrior:
        graph = problem.graph
        if problem.taste is not None:
            _ask(graph.num_rows, "items")
            return over_people(problem, features_of_rows(problem))
        if (terms := beside_time(problem.kernel)) is not None:
            # Filtered, next to terms of finitely many features.
            own_features = exact_columns(problem, terms.others)
            columns = differences(graph, own_features(as_float(graph.rows)))
            filtered = over_time(problem, terms, columns)
            in_time = InTime(terms, own_features, columns)
            return DuelPrior.of(problem, filtered, own_features, in_time=in_time)
        effect, apart = pair_effect(problem.kernel), graph.noises is None
        if self.over is None and apart and (over_columns := _over_columns(problem)) is not None:
            return over_columns
        if effect is not None:
            return self._over_pairs(problem, tf.convert_to_tensor(effect.variance))
        rows, kernel = as_float(graph.rows), problem.of_rows
        winners, losers = graph.edges
        over_items = apart and is_over_items(self.over, graph)
        size = graph.num_rows if over_items else max(graph.num_sites, graph.num_rows)
        _ask(size, "items" if over_items else "distinct duels")
        covariance: Covariance
        if over_items:
            covariance = dense = DenseOverItems(kernel_matrix(kernel, rows), graph)
            jitter = dense.jitter
        else:
            between = _between_duels(kernel_matrix(kernel, rows), graph)
            if graph.noises is not None:
                everything = graph.buckets(np.zeros(graph.num_sites, np.int64))
                term = SharedNoise(graph.noises, 0.5 * problem.noise)
                nothing = tf.zeros([1, graph.num_sites, 1], between.dtype)
                between += summed((term,), everything, (nothing,))[0][0][0]
            covariance = DenseOverDuels(between)
            jitter = 0.0

        def features(inputs: tf.Tensor) -> tf.Tensor:
            inputs = widened(inputs, graph.layout)
            if over_items:
                return with_rows(kernel, inputs, rows)
            ahead, behind = (
                with_rows(kernel, inputs, tf.gather(rows, ends)) for ends in (losers, winners)
            )
            return ahead - behind

        return DuelPrior.of(problem, covariance, features, jitter)

    def _over_pairs(self, problem: DuelProblem, effects: tf.Tensor) -> DuelPrior:
        """Over items, next to effects of this variance of pairs, each of its own duels alone."""
        graph = problem.graph
        _ask(graph.num_rows, "items")
        basis = features_of_rows(problem)
        items, looks = basis.features(as_float(graph.rows)), looks_of_pairs(graph)
        apart = graph.num_rows == len(np.unique(graph.rows[:, graph.layout.number]))
        of_one = all(isinstance(x, ItemEffect | PairEffect) for x in parts_of(problem.kernel))
        covariance = LowRankOverSets(
            items,
            looks,
            [shared_effects(form, graph, effects) for form in looks.forms],
            np.ones(graph.num_sites),
            diagonal=apart and of_one and items.shape[0] == items.shape[1],
        )
        return DuelPrior.of(problem, covariance, basis.of_inputs, basis.jitter)

    def select(self, graph: DuelGraph) -> DuelGraph:
        """The same, copies of an answer about a set apart: each has noises of its own."""
        return graph.one_by_one()


@dataclass(frozen=True)
class SubsetOfData(Approximation):
    """Exact inference on `size` duels drawn without replacement; the others are not used.

    Its log evidence is that of the subset and does not compare with the others'.
    """

    needs_inducing: ClassVar[bool] = False
    uses_all_duels: ClassVar[bool] = False
    size: int = 1000
    """How many duels."""
    seed: int = 0
    """Of the draw."""

    def __post_init__(self) -> None:
        plain_scalars(self)
        check_number("The size of SubsetOfData", self.size, least=1, whole=True)

    def prior(self, problem: DuelProblem) -> DuelPrior:
        return Exact().prior(problem)

    def select(self, graph: DuelGraph) -> DuelGraph:
        total = int(graph.counts.sum())
        # Weights that are not whole numbers add up to less; what draws the subset says that of
        # them.
        if self.size > total and np.all(graph.counts == np.floor(graph.counts)):
            raise ValueError(
                f"SubsetOfData(size={self.size}) asks for more than the {total} duels there are; "
                "lower the size or use Exact()."
            )
        return sample_duels(graph, self.size, np.random.default_rng(self.seed)).one_by_one()


def is_over_items(over: str | None, graph: DuelGraph) -> bool:
    """Whether the algebra runs over items: as asked, else wherever items are fewer than sites."""
    return graph.num_rows < graph.num_sites if over is None else over == "items"


def _ask(size: int, of: str) -> None:
    """Ask for the memory of exact inference with matrices of size × size.

    :raises NotEnoughMemory: more than is free.
    """
    ask_for_squares(
        size,
        f"Exact covariances of {size:,} {of}",
        "use an approximation with inducing inputs, such as --approximation vfe (VFE())",
    )


def _over_columns(problem: DuelProblem) -> DuelPrior | None:
    """Over items and coefficients, leans or pairs apart; None where rows or duels are fewer."""
    graph, pairs = problem.graph, pair_effect(problem.kernel)
    terms = TermsOfDuels.of(problem.kernel, graph)
    if not (terms.border or terms.leans) or terms.others is None:
        return None
    if pairs is not None:  # leans and pairs meet: one of them is eliminated
        terms = terms._replace(border=terms.border + terms.leans, leans=())
    size = len(graph.items[0]) + int(terms.border_scale(graph).shape[0])
    leans = sum(term.num_own(graph) for term in terms.leans)
    if size + leans >= min(graph.num_rows, graph.num_sites):
        return None
    _ask(size, "items and coefficients")
    columns = int(terms.border_scale(graph).shape[0])
    ask(
        32 * graph.num_sites * columns,
        f"{columns:,} coefficients and leans of {graph.num_sites:,} duels",
        "leave leans or effects of pairs out",
    )
    alone = problem._replace(graph=over_items_alone(graph), kernel=terms.others)
    basis = features_of_rows(alone)
    items = basis.features(as_float(alone.graph.rows))
    covariance = LowRankBesideColumns(items, alone.graph, *terms.border_beside(graph))
    features = beside_items(terms, graph, basis.of_inputs)
    prior = DuelPrior.of(alone, covariance, features, basis.jitter)
    if pairs is not None:
        return with_pairs(prior, pairs, graph)
    return with_levels(prior, terms, graph) if terms.leans else prior


def check_over(over: str | None) -> None:
    if over is not None:
        check_choice("over", over, ("items", "duels"), " (None: whichever costs less)")


def _between_duels(matrix: tf.Tensor, graph: DuelGraph) -> tf.Tensor:
    """`A K A'`, (t, t), from K over rows, picked entry by entry: no n × t array on the way."""
    winners, losers = graph.edges
    flat = tf.reshape(matrix, [-1])

    def pick(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        return tf.gather(flat, first[:, None] * graph.num_rows + second[None, :])

    between = pick(losers, winners)
    return pick(losers, losers) + pick(winners, winners) - between - tf.transpose(between)
