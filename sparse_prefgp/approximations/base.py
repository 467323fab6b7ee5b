"""What an approximation is given and what it hands over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances import (
    Covariance,
    FeaturesBesideEffects,
    LowRankPlusBlocks,
    LowRankPlusTastes,
)
from sparse_prefgp.covariances.by_features import ByFeatures
from sparse_prefgp.covariances.item_in_time import Apart
from sparse_prefgp.covariances.kernels import (
    as_float,
    as_places,
    centred,
    difference_variance,
    pair_difference_variance,
)
from sparse_prefgp.covariances.projected import num_features_of
from sparse_prefgp.data.graph import ChunkLinks, DuelGraph, Links, differences
from sparse_prefgp.factors.links import logistic_noise
from sparse_prefgp.factors.noise import duel_noise
from sparse_prefgp.factors.sites import Factors, portions_of
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, distinct
from sparse_prefgp.support.machine import ask

# Square matrices that meet where sites are found, and with the gradient of the evidence.
_SQUARES, _SQUARES_OF_GRADIENT = 10, 13
# Of sites at a time, so that what a compiled kernel makes on the way stays small: of two hundred
# arrays 26 MiB.
_STRETCH = 1 << 14


def ask_for_squares(size: int, what: str, remedy: str) -> None:
    """Ask for the memory that inference with matrices of size × size takes.

    :raises NotEnoughMemory: more than is free.
    """
    number = _SQUARES if tf.executing_eagerly() else _SQUARES_OF_GRADIENT
    ask(number * 8 * size**2, what, remedy)


class CompiledKernel(NamedTuple):
    """The kernel as functions of rows (t, D) of losers and of winners, compiled for many chunks."""

    related: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    """K_uz, (m, t)."""
    variance: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    """Of each difference, (t,), 0 between equal rows."""


class DuelProblem(NamedTuple):
    """The model before any approximation: a GP prior over utilities, duels, and their noise."""

    graph: DuelGraph
    kernel: gpflow.kernels.Kernel
    mean_function: gpflow.functions.MeanFunction | None
    noise_variance: tf.Tensor
    """sigma² per side, so a difference has noise 2 sigma²."""
    inducing_variable: gpflow.inducing_variables.InducingPoints | None
    noise_ratio: tf.Tensor | None = None
    """(number of groups,), by what a group multiplies the noise; None where all duels share one."""
    cuts: tf.Tensor | None = None
    """(K,), ascending: by how much v must pass 0 for a win (the margin) and for each level beyond
    it; None is 0."""
    logistic: bool = False
    """Whether the noise is logistic; noise variance and ratios do not count then."""
    compiled: CompiledKernel | None = None
    """What replaces the kernel on pairs of rows, if anything."""
    cut_scale: tf.Tensor | None = None
    """(number of groups,), by what a group multiplies the cuts; None where all share them."""
    taste: gpflow.kernels.Kernel | None = None
    """Of what each person prefers besides what all do; None where all are one."""
    by_features: ByFeatures | None = None
    """What features of people say of that; None where they have none."""
    centre: FloatArray | None = None
    """(D,) about which linear terms are; None for the origin."""

    @property
    def num_features(self) -> int:
        """D, of the inducing inputs, or of what they are projected from."""
        assert self.inducing_variable is not None
        return num_features_of(self.inducing_variable)

    @property
    def of_rows(self) -> gpflow.kernels.Kernel:
        """The kernel between rows of duels and inducing inputs, of which differences alone count:
        its linear terms are about the centre."""
        return centred(self.kernel, self.centre)

    @property
    def taste_of_rows(self) -> gpflow.kernels.Kernel:
        """The same of tastes."""
        return centred(self.taste, self.centre)

    @property
    def noise(self) -> tf.Tensor:
        """2 sigma² of each site, or what stands for it, (t,)."""
        if self.logistic:
            return logistic_noise(*map(as_float, (self.graph.lower, self.graph.upper)))
        if self.noise_ratio is None or self.graph.groups is None:
            return tf.fill([self.graph.num_sites], duel_noise(self.noise_variance))
        return duel_noise(
            self.noise_variance, tf.gather(self.noise_ratio, as_places(self.graph.groups))
        )

    @property
    def own_noise(self) -> tf.Tensor:
        """What of it is the site's own, (t,): less than all where sites share noises of a set."""
        noises = self.graph.noises
        return self.noise if noises is None else 0.5 * as_float(noises.own) * self.noise


@dataclass(frozen=True, eq=False)
class FeaturesOfItems:
    """The features of g: what all people share."""

    features: Callable[[tf.Tensor], tf.Tensor]
    """Maps inputs (N, D) to features (N, p), of which differences alone count."""
    jitter: tf.Tensor
    """What was added to a diagonal to have them."""
    shift: tf.Tensor | None = None
    """(p,) what those of single utilities have besides (`shift_of`); None for nothing."""

    def of_inputs(self, inputs: tf.Tensor) -> tf.Tensor:
        """The features of single utilities."""
        found = self.features(inputs)
        return found if self.shift is None else found + self.shift


class InTime(NamedTuple):
    """What a posterior wants to know besides the covariance."""

    terms: Apart
    features: Callable[[tf.Tensor], tf.Tensor]
    """Maps rows (N, ...) to the features of which the columns are differences, (N, k)."""
    columns: tf.Tensor
    """X, (t, k)."""

    def left(self, first: tf.Tensor, second: tf.Tensor | None = None) -> FloatArray:
        """What features leave of the variance of the other terms, (N,): by inducing inputs, or of
        a judge that is not known.

        :param first: rows (N, D).
        :param second: rows whose utility is taken off; None for none.
        """
        others = self.terms.others
        if others is None:
            return np.zeros(first.shape[0])
        columns = self.features(first)
        if second is None:
            whole = others(first, full_cov=False)
        else:
            columns -= self.features(second)
            whole = pair_difference_variance(others, first, second)
        return np.maximum(np.asarray(whole - tf.reduce_sum(columns**2, 1)), 0.0)


@dataclass(frozen=True, eq=False)
class DuelPrior:
    """The prior over z that an engine works on, and what goes with it."""

    covariance: Covariance
    """Of z, zero mean (a prior mean is in the limits of the factors)."""
    factors: Factors
    """Counts, noise variance D_i and limits of each site."""
    offset: tf.Tensor
    """(t,) difference of the prior means, loser minus winner, already taken off the limits."""
    correction: tf.Tensor
    """Scalar, added to log Z."""
    features: Callable[[tf.Tensor], tf.Tensor]
    """Maps new inputs (N, D) to the features (N, p) that the covariance's `predict` names."""
    jitter: tf.Tensor
    """Scalar, what was added to a diagonal to factorise it."""
    clipped: tf.Tensor
    """Scalar >= 0, the largest amount by which rounding had made a residual negative; such
    residuals are set to 0.
    """
    blocks: LowRankPlusBlocks | None = None
    """The covariance, where it has residuals in blocks besides the inducing values; else None."""
    labels: Sequence[int | str] = ()
    """Of the blocks, by their numbers."""
    people: LowRankPlusBlocks | LowRankPlusTastes | None = None
    """The covariance, where people have tastes of their own; else None."""
    shared: FeaturesOfItems | None = None
    """What all share, where people have tastes of their own."""
    beside: FeaturesBesideEffects | None = None
    """`features` without their zeros, where effects of items are integrated out; else None."""
    in_time: InTime | None = None
    """Of utilities that move in time; else None."""

    @classmethod
    def of(
        cls,
        problem: DuelProblem,
        covariance: Covariance,
        features: Callable[[tf.Tensor], tf.Tensor],
        jitter: tf.Tensor | float = 0.0,
        **more: Any,
    ) -> DuelPrior:
        """That of a problem, nothing corrected or clipped unless the fields in `more` say so."""
        factors, offset = build_factors(problem)
        zero = tf.zeros([], factors.noise.dtype)
        more = {"correction": zero, "clipped": zero, **more}
        return cls(covariance, factors, offset, features=features, jitter=jitter + zero, **more)


@dataclass(frozen=True)
class Approximation(ABC):
    """A small frozen value that turns a problem into a prior over z.

    Its facts are what others ask it, in place of which approximation it is:
    """

    needs_inducing: ClassVar[bool] = True
    """it works with inducing inputs Z."""
    uses_all_duels: ClassVar[bool] = True
    """Its evidence is about all duels, and the posterior knows them all."""
    is_bound: ClassVar[bool] = False
    """Its log evidence is that of the exact model or below, but for the engine's own error."""
    grows_with_z: ClassVar[bool] = False
    """Its log evidence never falls when a training item joins Z."""
    has_blocks: ClassVar[bool] = False
    """Duels of one block share what Z leaves unexplained, and new items may join a block."""

    @abstractmethod
    def prior(self, problem: DuelProblem) -> DuelPrior:
        """Build the prior over z; differentiable in every parameter of the problem."""

    def select(self, graph: DuelGraph) -> DuelGraph:
        """The part of the duels that is used: all of them, for all approximations but one."""
        return graph

    @property
    def is_exact(self) -> bool:
        """Whether the prior is the GP's own, over all duels."""
        return not self.needs_inducing and self.uses_all_duels

    @property
    def summed_over_duels(self) -> bool:
        """Whether prior and correction are sums over duels, as streams and parts need."""
        return False

    @property
    def residual_share(self) -> float:
        """The share of k~, what Z leaves of a duel's variance, that joins its noise."""
        return 0.0

    @property
    def sees_residual(self) -> bool:
        """Whether inference sees what Z leaves unexplained: as noise, or within blocks."""
        return self.has_blocks or self.residual_share > 0.0

    @property
    def penalises_residual(self) -> bool:
        """Whether the evidence falls with what the inducing variables leave unexplained."""
        return False

    @property
    def labels(self) -> tuple[int | str, ...] | None:
        """The labels of blocks that were given for each duel; None where none were."""
        return None

    @property
    def block_of_duel(self) -> tuple[int | str, ...] | None:
        """The label of each duel's block, as duels were given; None where none were."""
        return None

    def followed_by(self, blocks: Sequence[int | str]) -> Approximation:
        """The same for duels after which others come, of which each lies in the block named.

        :raises ValueError: it has no `labels`.
        """
        blocks = f"the approximation {self.name}(), which has no blocks,"
        raise together.refused(no_blocks=blocks, joining="new duels that join one")

    @property
    def name(self) -> str:
        return type(self).__name__


def prior_variance(problem: DuelProblem, links: Links | None = None) -> tf.Tensor:
    """Var[f(loser) - f(winner)] under the prior for each site, (t,).

    :param links: other sites between the rows of the graph, in place of its own.
    """
    graph = problem.graph
    between = graph if links is None else links
    n = graph.num_rows
    if n * n < between.num_sites:  # each pair of rows once; for a few nothing is compiled
        pairs = ChunkLinks(n, *np.divmod(np.arange(n * n), n))
        of_pairs = problem if n * n > _STRETCH else problem._replace(compiled=None)
        winners, losers = between.edges
        return tf.gather(prior_variance(of_pairs, pairs), n * winners + losers)
    if problem.compiled is None:
        return difference_variance(problem.kernel, graph, links)
    rows = as_float(graph.rows)
    winners, losers = between.edges
    size = winners.shape[0]
    # All stretches have one length, and are compiled once: the last one begins earlier.
    starts = [*range(0, size - _STRETCH, _STRETCH), max(size - _STRETCH, 0)]
    parts: list[tf.Tensor] = []
    for start in starts:
        ends = (tf.gather(rows, side[start : start + _STRETCH]) for side in (losers, winners))
        # One after the other in a graph too, else all are in memory at once.
        with tf.control_dependencies(parts[-1:]):
            parts.append(problem.compiled.variance(*ends))
    *others, last = parts
    return tf.concat([*others, last[len(others) * _STRETCH - starts[-1] :]], 0)


def build_factors(problem: DuelProblem) -> tuple[Factors, tf.Tensor]:
    """The factors of all sites with their own noise, and the offset (t,) taken off their limits."""
    graph, noise = problem.graph, problem.own_noise
    known = np.zeros(graph.num_sites), graph.counts, graph.lower, graph.upper
    name = f"as {noise.dtype.name}"
    offset, counts, lower, upper = graph.once(name, lambda: [*map(as_float, known)])
    lower = None if graph.one_sided else lower
    if problem.mean_function is not None:
        mean = problem.mean_function(as_float(graph.rows))
        offset = differences(graph, mean[:, 0])
        lower, upper = None if lower is None else lower - offset, upper - offset
    if problem.cuts is not None:
        below, above = _shifts(problem, problem.cuts)
        upper += above
        lower = None if lower is None else lower + below
    portions = portions_of(graph.counts)
    if portions is not None:
        portions = as_float(portions)
    return Factors(counts, noise, lower, upper, portions=portions), offset


def _shifts(problem: DuelProblem, cuts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """By how much the cuts move lower and upper limits, (t,) each, or a scalar."""
    graph = problem.graph
    scale = None
    if problem.cut_scale is not None and graph.groups is not None:
        groups = graph.once("groups", lambda: as_places(np.asarray(graph.groups)))
        scale = tf.gather(problem.cut_scale, groups)
    if graph.cuts is None:  # wins alone
        above = -cuts[0] if scale is None else -cuts[0] * scale
        return tf.zeros_like(above), above
    table = tf.concat([-tf.reverse(cuts, [0]), tf.zeros_like(cuts[:1]), cuts], 0)
    places = graph.once("cuts", lambda: as_places(np.asarray(graph.cuts)))
    moved = tf.gather(table, places + cuts.shape[0])
    if scale is not None:
        moved *= scale[:, None]
    return moved[:, 0], moved[:, 1]


def sample_duels(graph: DuelGraph, size: int, rng: np.random.Generator) -> DuelGraph:
    """`size` duels of the graph without replacement, as a graph over the same rows.

    :raises ValueError: weights that are not whole numbers.
    """
    if np.any(graph.counts != np.floor(graph.counts)):
        raise together.refused(subset=True, broken_weights=True)
    totals = graph.counts if graph.events is None else graph.events.totals
    duel = rng.choice(int(totals.sum()), size=size, replace=False)
    event = np.searchsorted(np.cumsum(totals), duel, side="right")
    kept, counts = np.unique(event, return_counts=True)
    some = graph.taking(kept, counts.astype(float))
    used, ends = np.unique(np.stack([some.winners, some.losers]), return_inverse=True)
    position = np.full(graph.num_rows + 1, -1)
    position[used] = np.arange(len(used))
    winners, losers = ends.reshape(2, -1)
    own, item, further = graph.own, graph.item, graph.further
    if item is None or further is None:
        own = own[used]
    else:
        kept, item = distinct(item[used])
        own, further = own[kept], further[used]
    return replace(
        some,
        own=own,
        item=item,
        further=further,
        winners=winners,
        losers=losers,
        events=None if some.events is None else some.events.onto(position),
        row_of_item=position[graph.row_of_item],
    )
