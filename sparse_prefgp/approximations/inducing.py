"""What the inducing-point approximations share: the rows of docs/method.md, section 3, are one file
each, or one with its relatives (`dtc.py`, `vfe.py`, `fitc.py`).

With `Q = Phi Phi'` the covariance of z that the inducing values explain and k~ the diagonal of the
residual `K_vv - Q`, a row is two decisions: how much of k~ joins the noise of each duel, and what
is added to the log evidence. s² stands for sigma², c for counts.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import (
    Approximation,
    DuelPrior,
    DuelProblem,
    ask_for_squares,
    build_factors,
    prior_variance,
)
from sparse_prefgp.approximations.duel_terms import (
    Border,
    TermsOfDuels,
    beside_items,
    over_items_alone,
    with_levels,
    without_levels,
)
from sparse_prefgp.approximations.exact import check_over
from sparse_prefgp.approximations.in_time import InTime, over_time
from sparse_prefgp.approximations.layout import ARRAYS_OVER_ITEMS, ask_for_features, choose_layout
from sparse_prefgp.approximations.pair_residual import ResidualOfPairs
from sparse_prefgp.approximations.people import FeaturesOfItems, over_people, shift_of
from sparse_prefgp.approximations.residual import Residual, ResidualOfDuels
from sparse_prefgp.approximations.set_residual import ResidualOfSets
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
from sparse_prefgp.covariances.finite import feature_part, finite_parts
from sparse_prefgp.covariances.item_effect import ItemEffect, beside_effects
from sparse_prefgp.covariances.item_in_time import Apart, beside_time
from sparse_prefgp.covariances.kernels import (
    as_float,
    between_inducing,
    with_inducing,
)
from sparse_prefgp.covariances.low_rank_effects import ItemsOfRows, effects_of_items
from sparse_prefgp.covariances.pair_effect import looks_of_pairs, pair_effect, shared_effects
from sparse_prefgp.covariances.residual import (
    SETS,
    SharedNoise,
    Term,
    Unexplained,
    ends_apart,
    shared_noises,
)
from sparse_prefgp.data.graph import DuelGraph, Noises, differences, squared_distances
from sparse_prefgp.data.looks import Looks
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_number, plain_scalars
from sparse_prefgp.support.linalg import (
    MAX_CONDITION,
    cholesky_with_jitter,
    own_squared_lengths,
    solved_rows,
)


@dataclass(frozen=True)
class SummedApproximation(Approximation):
    """One that reaches duels through inducing values, so that it can be made of chunks of them."""

    @property
    def single_precision(self) -> bool:
        """Whether sums over duels are in float32 while inference runs."""
        return False

    @abstractmethod
    def over_duels(
        self, problem: DuelProblem, basis: Whitened, chunk: int, look: bool = True
    ) -> DuelPrior:
        """The prior of the duels of a problem by their own features, `chunk` made at a time.

        :param look: whether residual or correction are wanted.
        """


@dataclass(frozen=True)
class InducingApproximation(SummedApproximation):
    """What the rows share: K_uu = L L', whitened features, k~. To be derived from.

    A row of one's own says `residual_share`, the share of k~ that joins the noise, `correction`, or
    both, and with `register` it has a name; `is_bound` only where that is proved.
    """

    over: str | None = field(default=None, kw_only=True, repr=False)
    """One of "items" or "duels" to force the form of the algebra; None takes the cheaper one."""
    single_precision: bool = field(default=False, kw_only=True, repr=False)
    """Sums and gathers over duels in float32 while inference runs, in the form over items only
    (docs/benchmarks.md has the error); the form over duels warns that it has none.
    """

    def __post_init__(self) -> None:
        plain_scalars(self)
        check_over(self.over)
        label = f"The residual_share of {self.name}"
        check_number(label, self.residual_share, least=0.0, most=1.0)

    @property
    def summed_over_duels(self) -> bool:
        return True

    @property
    def penalises_residual(self) -> bool:
        return type(self).correction is not InducingApproximation.correction

    @property
    def bounds_by_expectation(self) -> bool:
        """Whether the correction is what taking k~ into the expectations gives a Gaussian v."""
        return False

    def correction(self, left: Residual) -> tf.Tensor:
        """What is added to log Z, a scalar; nothing by default."""
        return tf.zeros([], gpflow.default_float())

    def select(self, graph: DuelGraph) -> DuelGraph:
        """The same; in the form over duels copies of an answer about a set are apart: each has
        noises of its own."""
        return graph.one_by_one() if self.over == "duels" else graph

    def prior(self, problem: DuelProblem) -> DuelPrior:
        graph, effect = problem.graph, pair_effect(problem.kernel)
        if (apart_from_time := beside_time(problem.kernel)) is not None:
            return self._beside_time(problem, apart_from_time)
        if problem.taste is not None:
            return self._over_people(problem, whitened(problem), look=True)
        if effect is None and graph.noises is None:
            terms = TermsOfDuels.of(problem.kernel, graph)
            over_columns = self._over_columns(problem, terms)
            if over_columns is not None:
                return over_columns
            apart = None if self.over == "duels" else beside_effects(problem.kernel, graph)
            if apart is not None:
                return self._beside_effects(problem._replace(kernel=apart[0]), apart[1])
            if terms.leans:
                return with_levels(self._over_rows(without_levels(problem, terms)), terms, graph)
            return self._over_rows(problem)
        basis = whitened(problem)
        n, p = graph.num_rows, basis.size
        needed = ARRAYS_OVER_ITEMS * n * p * basis.factor.dtype.size
        ask_for_features(n, graph.num_sites, p, needed)
        if effect is not None:
            return self._over_pairs(problem, basis, tf.convert_to_tensor(effect.variance))
        assert graph.noises is not None
        if self.over == "duels":
            return self._over_blocks(problem, basis, graph.noises)
        return self.over_items(problem, basis, basis.features(as_float(graph.rows)))

    def _over_rows(self, problem: DuelProblem) -> DuelPrior:
        """The prior of duels over the rows of the graph, or over duels."""
        basis, graph = whitened(problem), problem.graph
        layout = choose_layout(self.over, graph, basis.size, basis.factor.dtype.size)
        if layout.over_items:
            return self.over_items(problem, basis, basis.features(as_float(graph.rows)))
        if self.single_precision:
            warnings.warn(
                f"single_precision is for the form over items; {graph.num_sites:,} duels between "
                f"{graph.num_rows:,} items take the form over duels, in float64.",
                stacklevel=3,
            )
        return self.over_duels(problem, basis, layout.chunk)

    def _over_people(self, problem: DuelProblem, basis: Whitened, look: bool) -> DuelPrior:
        """The prior of duels of people with tastes; `look`: whether a correction is wanted."""
        added = self.correction if look and self.penalises_residual else None
        try:
            return over_people(problem, basis.of_items, self.residual_share, added)
        except NotImplementedError as unknown:
            called = f"{self.name}()"
            raise together.refused(tastes=True, approximations_of_one_utility=called) from unknown

    def _beside_time(self, problem: DuelProblem, terms: Apart) -> DuelPrior:
        """The prior of duels between items whose utilities move in time, which is filtered; the
        inducing values explain the other terms."""
        rest = problem._replace(kernel=terms.others)
        basis = whitened(rest)
        layout = choose_layout("duels", problem.graph, basis.size, basis.factor.dtype.size)
        columns = tf.concat(features_of_duels(basis, problem.graph, layout.chunk), 0)
        covariance = over_time(problem, terms, columns)
        prior = self._complete(rest, basis, covariance, own_squared_lengths(columns))
        return replace(prior, in_time=InTime(terms, basis.of_inputs, columns))

    def _over_columns(self, problem: DuelProblem, terms: TermsOfDuels) -> DuelPrior | None:
        """The prior over items and coefficients, leans apart; None where items are no fewer than
        rows of duels, or duels."""
        graph = problem.graph
        if self.over == "duels" or not graph.layout.covariates or terms.others is None:
            return None
        if len(graph.items[0]) >= min(graph.num_rows, graph.num_sites):
            return None
        alone = problem._replace(graph=over_items_alone(graph), kernel=terms.others)
        basis = whitened(alone)
        n, p = len(graph.items[0]), basis.size + int(terms.border_scale(graph).shape[0])
        needed = ARRAYS_OVER_ITEMS * n * p * basis.factor.dtype.size
        ask_for_features(n, graph.num_sites, p, needed)
        items = basis.features(as_float(alone.graph.rows))
        prior = self.over_items(alone, basis, items, border=terms.border_beside(graph))
        prior = replace(prior, features=beside_items(terms, graph, basis.of_inputs))
        return with_levels(prior, terms, graph) if terms.leans else prior

    def _beside_effects(self, problem: DuelProblem, effect: ItemEffect) -> DuelPrior:
        """The prior of duels whose items have effects, which are integrated out.

        :param problem: without them.
        """
        basis, graph = whitened(problem), problem.graph
        variance = tf.convert_to_tensor(effect.variance)
        features = basis.features(as_float(graph.rows))
        covariance = LowRankWithEffects(features, graph, variance, self.single_precision)
        explained = squared_distances(graph, features)
        prior = self._complete(problem, basis, covariance, explained)

        items, column = ItemsOfRows.of_graph(graph), graph.layout.number
        seen = partial(effects_of_items, items, column, tf.sqrt(variance))
        beside = FeaturesBesideEffects(basis.of_inputs, seen, len(items.numbers))
        return replace(prior, features=beside.whole, beside=beside)

    def _over_pairs(self, problem: DuelProblem, basis: Whitened, effects: tf.Tensor) -> DuelPrior:
        """The prior of duels whose pairs have effects of their own, of this variance."""
        graph = problem.graph
        features = basis.features(as_float(graph.rows))
        left = ResidualOfPairs.of(problem, features)
        residuals = shared_effects(graph, effects)
        if self.residual_share > 0.0:
            each = zip(residuals, left.within(), strict=True)
            residuals = [shared + self.residual_share * within for shared, within in each]
        looks, ones = looks_of_pairs(graph), np.ones(graph.num_sites)
        covariance = LowRankOverSets(features, looks, residuals, ones, self.single_precision)
        factors, offset = build_factors(problem, problem.noise)
        correction = self.correction(left)
        return DuelPrior(
            covariance, factors, offset, correction, basis.of_inputs, basis.jitter, left.clipped
        )

    def _over_blocks(self, problem: DuelProblem, basis: Whitened, noises: Noises) -> DuelPrior:
        """The prior of answers about sets, whose alternatives share noises, in blocks of rows."""
        graph, share = problem.graph, self.residual_share
        shared = SharedNoise(noises, 0.5 * problem.noise)
        buckets = graph.buckets(noises.look)
        items = basis.features(as_float(graph.rows))
        parts = [ends_apart(tf.gather(items, bucket.rows), bucket) for bucket in buckets]
        terms: list[Term] = [shared]
        if share > 0.0:
            terms.append(Unexplained(problem.of_rows, graph, noises.look, SETS, share))
        covariance = LowRankPlusBlocks(parts, terms, buckets, graph.num_sites)
        factors, offset = build_factors(problem, problem.own_noise)
        correction = self.correction(ResidualOfSets.of(problem, items))
        return DuelPrior(
            covariance,
            factors,
            offset,
            correction,
            basis.of_inputs,
            basis.jitter,
            covariance.clipped,
        )

    def _over_sets(
        self,
        problem: DuelProblem,
        basis: Whitened,
        features: tf.Tensor,
        look: bool,
    ) -> DuelPrior:
        """The prior of answers about sets by the features of their items, as `over_items`."""
        graph, share = problem.graph, self.residual_share
        assert graph.noises is not None
        looks = Looks.of_graph(graph)
        factors, offset = build_factors(problem, problem.own_noise)
        correction = clipped = tf.zeros([], factors.noise.dtype)
        residuals = shared_noises(looks, graph.noises.own, 0.5 * problem.noise)
        if look or share > 0.0:
            left = ResidualOfSets.of(problem, features)
            clipped = left.clipped
            if look:
                correction = self.correction(left)
            if share > 0.0:
                each = zip(residuals, left.within(), strict=True)
                residuals = [noise + share * unexplained for noise, unexplained in each]
        covariance = LowRankOverSets(
            features, looks, residuals, graph.counts, self.single_precision
        )
        return DuelPrior(
            covariance, factors, offset, correction, basis.of_inputs, basis.jitter, clipped
        )

    def over_items(
        self,
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
            return self._over_sets(problem, basis, features, look)
        covariance = LowRankOverItems(features, graph, self.single_precision)
        if border is not None:
            covariance = LowRankBesideColumns(features, graph, *border, self.single_precision)
        explained = squared_distances(graph, features) if look else None
        return self._complete(problem, basis, covariance, explained)

    def over_duels(
        self, problem: DuelProblem, basis: Whitened, chunk: int, look: bool = True
    ) -> DuelPrior:
        """The prior of the duels of a problem by their own features, `chunk` made at a time.

        Answers about sets are made by the features of their sides, as one.
        """
        graph = problem.graph
        if problem.taste is not None:
            return self._over_people(problem, basis, look)
        if graph.noises is not None:
            return self._over_sets(problem, basis, basis.features(as_float(graph.rows)), look)
        features = features_of_duels(basis, problem.graph, chunk)
        explained = tf.concat([*map(own_squared_lengths, features)], 0) if look else None
        return self._complete(problem, basis, LowRankOverDuels(features), explained)

    def _complete(
        self,
        problem: DuelProblem,
        basis: Whitened,
        covariance: Covariance,
        explained: tf.Tensor | None,
    ) -> DuelPrior:
        """Factors, residual and correction next to a covariance: of all duels, or of a chunk.

        :param explained: |Phi_i|², (t,); None where neither residual nor correction is wanted.
        """
        whole, offset = build_factors(problem, problem.noise)
        zero = tf.zeros([], whole.noise.dtype)
        if explained is None:
            assert self.residual_share == 0.0
            return DuelPrior(covariance, whole, offset, zero, basis.of_inputs, basis.jitter, zero)
        left = ResidualOfDuels(problem, lambda: prior_variance(problem) - explained)
        factors = left.as_noise(whole, self.residual_share, self.bounds_by_expectation)
        correction = self.correction(left)
        return DuelPrior(
            covariance, factors, offset, correction, basis.of_inputs, basis.jitter, left.clipped
        )


Pairs = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class Whitened(NamedTuple):
    """What all duels of a problem share: L with K_uu = L L', and the jitter that took."""

    factor: tf.Tensor
    jitter: tf.Tensor
    size: int
    """p, how many inducing values there are, item effects among them."""
    features: Callable[[tf.Tensor], tf.Tensor]
    """Maps inputs (N, D) to B = K_xu L⁻ᵀ, (N, p), of which differences alone count."""
    pairs: Pairs
    """Maps rows of losers and of winners, (t, D) each, to Phi, (t, p), the difference of their
    features.
    """
    shift: tf.Tensor | None
    """(p,) what features of single utilities have besides (`shift_of`); None for nothing."""

    @property
    def of_items(self) -> FeaturesOfItems:
        """The features apart from all else."""
        return FeaturesOfItems(self.features, self.jitter, self.shift)

    @property
    def of_inputs(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """Those of single utilities."""
        return self.of_items.of_inputs


def factorise(problem: DuelProblem) -> tuple[tf.Tensor, tf.Tensor]:
    """L with K_uu = L L', (m, m), and the jitter that took.

    :raises NotEnoughMemory: more inducing inputs than there is memory for.
    """
    assert problem.inducing_variable is not None
    m = problem.inducing_variable.Z.shape[0] or 0
    ask_for_squares(m, f"Covariances of {m:,} inducing inputs", "take fewer")
    k_uu = between_inducing(problem.inducing_variable, feature_part(problem.of_rows))
    return cholesky_with_jitter(k_uu, MAX_CONDITION)


def whitened(
    problem: DuelProblem, factorised: tuple[tf.Tensor, tf.Tensor] | None = None
) -> Whitened:
    """The inducing values of a problem, whitened.

    :param factorised: what `factorise` gave; None to ask it.
    """
    factor, jitter = factorise(problem) if factorised is None else factorised
    graph, inducing = problem.graph, problem.inducing_variable
    part, own = feature_part(problem.of_rows), finite_parts(problem.kernel)
    size = factor.shape[0] + sum(kernel.num_own(graph) for kernel in own)

    def own_features(inputs: tf.Tensor) -> list[tf.Tensor]:
        return [kernel.own_features(graph, inputs) for kernel in own]

    def features(inputs: tf.Tensor) -> tf.Tensor:
        found = solved_rows(factor, with_inducing(inducing, part, _seen(problem, inputs)))
        return tf.concat([found, *own_features(inputs)], 1) if own else found

    def pairs(losers: tf.Tensor, winners: tf.Tensor) -> tf.Tensor:
        found = solved_rows(factor, related_to_pairs(problem, losers, winners))
        each = zip(own_features(losers), own_features(winners), strict=True)
        return tf.concat([found, *(a - b for a, b in each)], 1) if own else found

    shift = None
    if part is not None and inducing is not None:
        shift = shift_of(part, factor, inducing.Z)
    if shift is not None and own:
        shift = tf.pad(shift, [[0, size - shift.shape[0]]])
    return Whitened(factor, jitter, size, features, pairs, shift)


def _seen(problem: DuelProblem, rows: tf.Tensor) -> tf.Tensor:
    """What inducing inputs see of rows (N, ...): the features, (N, D)."""
    apart = bool(finite_parts(problem.kernel))
    if problem.graph is not None:
        apart = apart or not problem.graph.layout.plain
    return rows[..., : problem.num_features] if apart else rows


def related_to_pairs(problem: DuelProblem, losers: tf.Tensor, winners: tf.Tensor) -> tf.Tensor:
    """K_uz, (m, t), for the rows (t, D) of both ends of each duel."""
    if problem.compiled is not None:
        return problem.compiled.related(losers, winners)
    inducing, kernel = problem.inducing_variable, problem.of_rows
    part = feature_part(kernel)
    losers, winners = (_seen(problem, rows) for rows in (losers, winners))
    return with_inducing(inducing, part, losers) - with_inducing(inducing, part, winners)


def features_of_duels(basis: Whitened, graph: DuelGraph, size: int) -> list[tf.Tensor]:
    """Phi, (t, p), in chunks of rows: features of the loser less those of the winner of each site.

    :param size: sites of a chunk. There is one chunk where items are fewer than duels, whose
        features are then those of all items; else no array holds the features of all items.
    """
    rows = as_float(graph.rows)
    t = graph.num_sites
    if graph.num_rows < t:
        return [differences(graph, basis.features(rows))]
    winners, losers = graph.edges
    parts: list[tf.Tensor] = []
    for start in range(0, t, size):
        at = slice(start, start + size)
        # One after the other in a compiled function too, else all chunks are in memory at once.
        with tf.control_dependencies(parts[-1:]):
            parts.append(basis.pairs(*(tf.gather(rows, ends[at]) for ends in (losers, winners))))
    return parts
