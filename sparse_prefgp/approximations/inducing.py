"""What the inducing-point approximations share: the rows of docs/method.md, section 3, are one file
each, or one with its relatives (`dtc.py`, `vfe.py`, `fitc.py`).

With `Q = Phi Phi'` the covariance of z that the inducing values explain and k~ the diagonal of the
residual `K_vv - Q`, a row is two decisions: how much of k~ joins the noise of each duel, and what
is added to the log evidence. s² stands for sigma², c for counts.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import (
    Approximation,
    DuelPrior,
    DuelProblem,
    build_factors,
    prior_variance,
)
from sparse_prefgp.approximations.exact import check_over
from sparse_prefgp.approximations.layout import choose_layout
from sparse_prefgp.covariances import (
    LowRank,
    LowRankOverDuels,
    LowRankOverItems,
    LowRankPlusBlocks,
)
from sparse_prefgp.covariances.finite import feature_part, finite_parts
from sparse_prefgp.covariances.kernels import (
    as_float,
    between_inducing,
    with_inducing,
)
from sparse_prefgp.covariances.residual import (
    SETS,
    SharedNoise,
    Term,
    Unexplained,
    ends_apart,
)
from sparse_prefgp.data.buckets import Bucket
from sparse_prefgp.data.graph import DuelGraph, Links, Noises, differences, squared_distances
from sparse_prefgp.factors.sites import Factors
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import plain_scalars
from sparse_prefgp.support.linalg import (
    MAX_CONDITION,
    cholesky_with_jitter,
    own_squared_lengths,
    solved_rows,
)


class Residual(NamedTuple):
    """What the inducing values leave unexplained."""

    diagonal: tf.Tensor
    """k~ >= 0 (t,)."""
    factors: Factors
    """Without it, of noise 2 s² and counts c (t,)."""
    problem: DuelProblem
    factor: tf.Tensor
    """L with K_uu = L L'."""

    @property
    def counts(self) -> tf.Tensor:
        return self.factors.counts

    @property
    def noise(self) -> tf.Tensor:
        return self.factors.noise


class SetResidual(NamedTuple):
    """What the inducing values leave unexplained of the alternatives of sets.

    A look at k alternatives tells of k - 1 contrasts y between them, whatever its rows, with noise
    sigma² I: C (k - 1, k - 1) is their residual covariance over sigma².
    """

    problem: DuelProblem
    factor: tf.Tensor
    """L with K_uu = L L'."""
    shared: SharedNoise
    buckets: Sequence[Bucket]
    """Of looks."""
    features: Sequence[tf.Tensor]
    """(g, b, m) for each, the rows of Phi."""

    @classmethod
    def of(cls, problem: DuelProblem, basis: Whitened, noises: Noises) -> SetResidual:
        graph = problem.graph
        buckets = graph.buckets(noises.look)
        items = basis.features(as_float(graph.rows))
        parts = [ends_apart(tf.gather(items, bucket.rows), bucket) for bucket in buckets]
        return cls(problem, basis.factor, SharedNoise(noises, 0.5 * problem.noise), buckets, parts)

    def contrasts(self) -> list[tuple[tf.Tensor, FloatArray]]:
        """For each bucket C, (g, b, b) with zeros about it, and k - 1, (g,)."""
        graph, noises = self.problem.graph, self.shared.noises
        residual = Unexplained(self.problem.kernel, graph, noises.look)
        found = []
        for bucket, features in zip(self.buckets, self.features, strict=True):
            root, rank = _pseudo_root(noises.of_sites(bucket.sites))
            variance = tf.gather(self.shared.variance, bucket.sites[:, 0])[:, None, None]
            between = tf.matmul(tf.matmul(root, residual.within(bucket, features)), root)
            found.append((between / variance, rank))
        return found

    def summed(self, each: Callable[[tf.Tensor, FloatArray], tf.Tensor]) -> tf.Tensor:
        """The sum over looks of `each` of their C and k - 1, (g,) in each bucket."""
        return tf.add_n([tf.reduce_sum(each(*contrast)) for contrast in self.contrasts()])

    def trace(self) -> tf.Tensor:
        """The sum of the traces of all C."""
        return self.summed(lambda contrasts, _: tf.linalg.trace(contrasts))

    def log_det(self, power: float = 1.0) -> tf.Tensor:
        """The sum of log|I + p C|."""
        return self.summed(lambda contrasts, _: _log_det(power * contrasts))

    def over_items(self) -> tf.Tensor:
        """W with x'Wx the sum over sets of the squared contrasts of x over sigma², (n, n)."""
        graph, noises = self.problem.graph, self.shared.noises
        n, dtype = graph.num_rows, self.shared.variance.dtype
        total = tf.zeros([n * n], dtype)
        for bucket in self.buckets:
            root, _ = _pseudo_root(noises.of_sites(bucket.sites))
            places = range(bucket.rows.shape[1])
            ends = [np.equal(e[..., None], places) for e in (bucket.losers, bucket.winners)]
            half = root @ (ends[0].astype(float) - ends[1])
            variance = tf.gather(self.shared.variance, bucket.sites[:, 0])[:, None, None]
            each = as_float(np.swapaxes(half, 1, 2) @ half) / variance
            index = bucket.rows[:, :, None] * n + bucket.rows[:, None, :]
            total = tf.tensor_scatter_nd_add(total, index.reshape(-1, 1), tf.reshape(each, [-1]))
        return tf.reshape(total, [n, n])


def _pseudo_root(noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The square root of the pseudo-inverse of (g, b, b), and the ranks (g,)."""
    values, vectors = np.linalg.eigh(noise)
    # Integer matrices of paths, stars and their like: the smallest is 2 - 2 cos(pi / k) > 9 / k².
    there = values > 1e-9
    scale = np.where(there, 1.0 / np.sqrt(np.where(there, values, 1.0)), 0.0)
    return (vectors * scale[:, None, :]) @ np.swapaxes(vectors, 1, 2), there.sum(1).astype(float)


def _log_det(contrasts: tf.Tensor) -> tf.Tensor:
    one = tf.ones(tf.shape(contrasts)[:-1], contrasts.dtype)
    factor = tf.linalg.cholesky(tf.linalg.set_diag(contrasts, tf.linalg.diag_part(contrasts) + one))
    return 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)), -1)


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
    """What the rows share: K_uu = L L', whitened features, k~."""

    over: str | None = field(default=None, kw_only=True, repr=False)
    """One of "items" or "duels" to force the form of the algebra; None takes the cheaper one."""
    single_precision: bool = field(default=False, kw_only=True, repr=False)
    """Sums and gathers over duels in float32 while inference runs, in the form over items only
    (docs/benchmarks.md has the error); the form over duels warns that it has none.
    """

    def __post_init__(self) -> None:
        plain_scalars(self)
        check_over(self.over)

    @property
    def summed_over_duels(self) -> bool:
        return True

    @property
    def bounds_by_expectation(self) -> bool:
        """Whether the correction is what taking k~ into the expectations gives a Gaussian v."""
        return False

    @abstractmethod
    def correction(self, residual: Residual) -> tf.Tensor:
        """What is added to log Z, a scalar."""

    @abstractmethod
    def correction_of_sets(self, residual: SetResidual) -> tf.Tensor:
        """What is added to log Z where answers are about sets, a scalar."""

    def select(self, graph: DuelGraph) -> DuelGraph:
        """The same, copies of an answer about a set apart: each has noises of its own."""
        return graph.one_by_one()

    def prior(self, problem: DuelProblem) -> DuelPrior:
        basis, graph = whitened(problem), problem.graph
        if graph.noises is not None:
            return self.over_sets(problem, basis, graph.noises)
        layout = choose_layout(self.over, graph, basis.size, basis.factor.dtype.size)
        if layout.over_items:
            return self.over_items(problem, basis, basis.features(as_float(graph.rows)), graph)
        if self.single_precision:
            warnings.warn(
                f"single_precision is for the form over items; {graph.num_sites:,} duels between "
                f"{graph.num_rows:,} items take the form over duels, in float64.",
                stacklevel=2,
            )
        return self.over_duels(problem, basis, layout.chunk)

    def over_sets(
        self, problem: DuelProblem, basis: Whitened, noises: Noises, look: bool = True
    ) -> DuelPrior:
        """The prior of answers about sets, whose alternatives share noises, in blocks of sets.

        :param look: whether the correction is wanted.
        """
        graph, share = problem.graph, self.residual_share
        left = SetResidual.of(problem, basis, noises)
        terms: list[Term] = [left.shared]
        if share > 0.0:
            terms.append(Unexplained(problem.kernel, graph, noises.look, SETS, share))
        covariance = LowRankPlusBlocks(left.features, terms, left.buckets, graph.num_sites)
        factors, offset = build_factors(problem, problem.own_noise)
        correction = tf.zeros([], factors.noise.dtype)
        if look:
            correction = self.correction_of_sets(left)
        return DuelPrior(
            covariance,
            factors,
            offset,
            correction,
            basis.features,
            basis.jitter,
            covariance.clipped,
        )

    def over_items(
        self,
        problem: DuelProblem,
        basis: Whitened,
        features: tf.Tensor,
        links: Links,
        look: bool = True,
    ) -> DuelPrior:
        """The prior of the duels of a problem by the features of their items.

        :param features: B, (n, p).
        :param links: which of its rows each duel compares.
        :param look: whether residual or correction are wanted.
        """
        covariance = LowRankOverItems(features, links, self.single_precision)
        explained = squared_distances(links, features) if look else None
        return self._complete(problem, basis, covariance, explained)

    def over_duels(
        self, problem: DuelProblem, basis: Whitened, chunk: int, look: bool = True
    ) -> DuelPrior:
        """The prior of the duels of a problem by their own features, `chunk` made at a time.

        Answers about sets are made as one.
        """
        noises = problem.graph.noises
        if noises is not None:
            return self.over_sets(problem, basis, noises, look)
        features = features_of_duels(basis, problem.graph, chunk)
        explained = tf.concat([*map(own_squared_lengths, features)], 0) if look else None
        return self._complete(problem, basis, LowRankOverDuels(features), explained)

    def _complete(
        self,
        problem: DuelProblem,
        basis: Whitened,
        covariance: LowRank,
        explained: tf.Tensor | None,
    ) -> DuelPrior:
        """Factors, residual and correction next to a covariance: of all duels, or of a chunk.

        :param explained: |Phi_i|², (t,); None where neither residual nor correction is wanted.
        """
        whole, offset = build_factors(problem, problem.noise)
        zero = tf.zeros([], whole.noise.dtype)
        if explained is None:
            assert self.residual_share == 0.0
            return DuelPrior(covariance, whole, offset, zero, basis.features, basis.jitter, zero)
        raw = prior_variance(problem) - explained
        diagonal = tf.maximum(raw, tf.zeros_like(raw))
        clipped = tf.stop_gradient(tf.reduce_max(diagonal - raw))
        factors = whole._replace(
            noise=whole.noise + self.residual_share * diagonal,
            inside=diagonal if self.bounds_by_expectation else None,
        )
        correction = self.correction(Residual(diagonal, whole, problem, basis.factor))
        return DuelPrior(
            covariance, factors, offset, correction, basis.features, basis.jitter, clipped
        )


Pairs = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class Whitened(NamedTuple):
    """What all duels of a problem share: L with K_uu = L L', and the jitter that took."""

    factor: tf.Tensor
    jitter: tf.Tensor
    size: int
    """p, how many inducing values there are, item effects among them."""
    features: Callable[[tf.Tensor], tf.Tensor]
    """Maps inputs (N, D) to B = K_xu L⁻ᵀ, (N, p)."""
    pairs: Pairs
    """Maps rows of losers and of winners, (t, D) each, to Phi, (t, p), the difference of their
    features.
    """


def factorise(problem: DuelProblem) -> tuple[tf.Tensor, tf.Tensor]:
    """L with K_uu = L L', (m, m), and the jitter that took."""
    k_uu = between_inducing(problem.inducing_variable, feature_part(problem.kernel))
    return cholesky_with_jitter(k_uu, MAX_CONDITION)


def whitened(
    problem: DuelProblem, factorised: tuple[tf.Tensor, tf.Tensor] | None = None
) -> Whitened:
    """The inducing values of a problem, whitened.

    :param factorised: what `factorise` gave; None to ask it.
    """
    factor, jitter = factorise(problem) if factorised is None else factorised
    graph, inducing = problem.graph, problem.inducing_variable
    part, own, size = feature_part(problem.kernel), finite_parts(problem.kernel), factor.shape[0]
    if graph is not None:
        size += sum(kernel.num_own(graph) for kernel in own)

    def own_features(inputs: tf.Tensor) -> list[tf.Tensor]:
        return [kernel.own_features(graph, inputs) for kernel in own]

    def features(inputs: tf.Tensor) -> tf.Tensor:
        rows = inputs[..., : problem.num_features] if own else inputs
        found = solved_rows(factor, with_inducing(inducing, part, rows))
        return tf.concat([found, *own_features(inputs)], 1) if own else found

    def pairs(losers: tf.Tensor, winners: tf.Tensor) -> tf.Tensor:
        found = solved_rows(factor, related_to_pairs(problem, losers, winners))
        each = zip(own_features(losers), own_features(winners), strict=True)
        return tf.concat([found, *(a - b for a, b in each)], 1) if own else found

    return Whitened(factor, jitter, size, features, pairs)


def related_to_pairs(problem: DuelProblem, losers: tf.Tensor, winners: tf.Tensor) -> tf.Tensor:
    """K_uz, (m, t), for the rows (t, D) of both ends of each duel."""
    if problem.compiled is not None:
        return problem.compiled.related(losers, winners)
    inducing, kernel = problem.inducing_variable, problem.kernel
    part = feature_part(kernel)
    if finite_parts(kernel):
        losers, winners = (rows[..., : problem.num_features] for rows in (losers, winners))
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
