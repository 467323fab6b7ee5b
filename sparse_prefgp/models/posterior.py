"""Predictions from an inferred model (docs/method.md, section 6)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelPrior, DuelProblem
from sparse_prefgp.covariances import FeaturesBesideEffects, LowRankPlusBlocks
from sparse_prefgp.covariances.base import PosteriorTerms, WholeTerms
from sparse_prefgp.covariances.kernels import kernel_matrix, pair_difference_variance
from sparse_prefgp.covariances.low_rank_base import LowRankIntermediates
from sparse_prefgp.models.pair_posterior import PairPosterior
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.machine import ask
from sparse_prefgp.support.words import some_of

# Fixed, so that the same call gives the same bits; bounds the memory of a prediction.
CHUNK = 2048
_LABELS_NAMED = 5


@dataclass(frozen=True, eq=False)
class Posterior:
    """q(f) as E f = m(x) + a w and Cov f = k - a R a', a the features of an input.

    Everything that does not depend on the new inputs is computed once, when this is made.
    """

    kernel: gpflow.kernels.Kernel
    mean_function: gpflow.functions.MeanFunction | None
    features: Callable[[tf.Tensor], tf.Tensor]
    terms: PosteriorTerms
    pairs: PairPosterior | None = None
    """Of the effects of pairs, which differences have and utilities have not."""
    beside: FeaturesBesideEffects | None = None
    """`features` without their zeros, where most of them are effects of one item each."""
    blocks: Blocks | None = None
    """What blocks of duels say besides, with `PITC`."""

    weights: ClassVar[FloatArray] = np.ones(1)
    """Of the parts of a mixture."""
    in_one: ClassVar[bool] = False
    """Whether many inputs at once cost hardly more than few."""

    @property
    def parts(self) -> tuple[Posterior, ...]:
        """Of a mixture: itself."""
        return (self,)

    def mapped(self, made: Callable[[Posterior], Posterior]) -> Posterior:
        """Another posterior that is made of this one, of each part of a mixture."""
        return made(self)

    def marginal(self, inputs: tf.Tensor) -> tf.Tensor:
        """Mean and variance side by side, (N, 2), for inputs (N, D)."""
        variance = self.kernel(inputs, full_cov=False)
        if self.beside is not None:
            mean, explained = self.beside.told(self.terms, (1.0, inputs))
            return tf.stack([mean + self._prior_mean(inputs), variance - explained], -1)
        a = self.features(inputs)
        return tf.stack([self.mean_of(a, inputs), variance - self.explained(a)], -1)

    def mean(self, inputs: tf.Tensor) -> tf.Tensor:
        """E f, (N,), for inputs (N, D)."""
        if self.beside is not None:
            return self.beside.told(self.terms, (1.0, inputs))[0] + self._prior_mean(inputs)
        return self.mean_of(self.features(inputs), inputs)

    def joint(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean (N,) and covariance (N, N) for inputs (N, D).

        :raises NotEnoughMemory: more of them than there is memory for.
        """
        ask_for_joint(inputs)
        seen = self.seen_by(inputs)
        a = seen.features(inputs)
        explained = tf.matmul(tf.matmul(a, seen.terms.reduction), a, transpose_b=True)
        return seen.mean_of(a, inputs), kernel_matrix(self.kernel, inputs) - explained

    def seen_by(self, inputs: tf.Tensor) -> Posterior:
        """The same for inputs (N, D), without the effects next to u where they see none of these:
        of thousands the reduction is large."""
        if self.beside is None or self.beside.is_seen(inputs):
            return self
        m = self.beside.of_u(inputs[:1]).shape[1]
        of_u = WholeTerms(self.terms.weights[:m], self.terms.of_u(m))
        return replace(self, features=self.beside.of_u, terms=of_u, beside=None)

    def difference(self, inputs: tf.Tensor) -> tf.Tensor:
        """Mean and variance of f(x) - f(x'), (N, 2), for stacked pairs (N, 2, D), with the effect
        of the pair where pairs have some."""
        first, second = inputs[:, 0], inputs[:, 1]
        variance = pair_difference_variance(self.kernel, first, second)
        if self.beside is not None:
            mean, explained = self.beside.told(self.terms, (1.0, first), (-1.0, second))
            mean += self._prior_mean(first) - self._prior_mean(second)
            variance -= explained
        else:
            ahead, behind = self.features(first), self.features(second)
            variance -= self.explained(ahead - behind)
            mean = self.mean_of(ahead, first) - self.mean_of(behind, second)
            if self.pairs is not None:
                more = self.pairs.added(inputs, ahead - behind)
                mean, variance = mean + more[0], variance + more[1]
        return moments_of_pairs(first, second, mean, variance)

    def joining(self, block: Any) -> Posterior:
        """q(f) of items that join a block of `PITC`: they share the block's residuals (PIC).

        This posterior uses what the inducing values know alone. Here what the duels of the block
        say is added, so that items of the block, and new ones near them, are predicted as exactly
        as the duels within the block allow; with one block, as by `Exact()`.

        The first call costs a sweep. (docs/method.md, section 10)

        :param block: its label, or its number for blocks by k-means (`graph.blocks`).
        :raises ValueError: another approximation, or no such block.
        """
        if self.blocks is None:
            raise together.refused(no_blocks=True, joining="an item that joins one")
        labels = self.blocks.prior.labels
        wanted = block.item() if isinstance(block, np.generic) else block
        # True == 1, but is not a label.
        one = isinstance(wanted, Hashable) and not isinstance(wanted, bool)
        for number, label in enumerate(labels if one else ()):
            if label == wanted:
                return self.blocks.joined(number)
        shown = some_of([*map(repr, labels)], _LABELS_NAMED)
        raise ValueError(f"There is no block {wanted!r}; the blocks are {shown}.")

    def mean_of(self, a: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """`mean` by the features a of the inputs."""
        return tf.linalg.matvec(a, self.terms.weights) + self._prior_mean(inputs)

    def _prior_mean(self, inputs: tf.Tensor) -> tf.Tensor:
        if self.mean_function is None:
            return tf.zeros_like(inputs[:, 0])
        return self.mean_function(inputs)[:, 0]

    def explained(self, a: tf.Tensor) -> tf.Tensor:
        """What is taken off the prior variance, (N,), by features."""
        return tf.reduce_sum(tf.matmul(a, self.terms.reduction) * a, -1)


@dataclass(frozen=True, eq=False)
class Conditioned:
    """Inducing values and blocks of a problem under its sites."""

    problem: DuelProblem
    prior: DuelPrior
    precision: tf.Tensor
    """(t,) c tau of the sites."""
    shift: tf.Tensor
    """(t,) c nu."""

    @property
    def covariance(self) -> Any:
        """That of the blocks."""
        raise NotImplementedError

    @cached_property
    def kept(self) -> LowRankIntermediates:
        """Inducing values and blocks under the sites."""
        return self.covariance.conditioned(self.precision, self.shift)


@dataclass(frozen=True, eq=False)
class Blocks(Conditioned):
    """What the duels of each block say of inputs that join it: PIC.

    Besides a, the features are the residual covariances `k(x, z_j) - a Phi_j'` with the sites of
    the block (Snelson & Ghahramani 2007; docs/method.md, section 10).
    """

    @property
    def covariance(self) -> LowRankPlusBlocks:
        assert self.prior.blocks is not None
        return self.prior.blocks

    def joined(self, number: int) -> Posterior:
        """q(f) of inputs that join a block, by its number."""
        joining = self.covariance.joining(number, self.kept)
        return Posterior(
            self.problem.kernel,
            self.problem.mean_function,
            lambda inputs: joining.features(inputs, self.prior.features(inputs)),
            joining.posterior,
        )


def moments_of_pairs(
    first: tf.Tensor, second: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    """Mean and variance side by side, (N, 2), of differences of two inputs (N, D) each; rounding
    parts none from itself."""
    same = tf.reduce_all(first == second, -1)
    return tf.stack([mean, tf.where(same, tf.zeros_like(variance), variance)], -1)


class SetPosterior(NamedTuple):
    """What a posterior knows of the alternatives of b sets, padded to k each."""

    mean: FloatArray
    """(b, k), of each utility less that of the first of its set."""
    covariance: FloatArray
    """(b, k, k), of these."""
    mask: BoolArray
    """(b, k), which there are."""

    def take(self, which: IntArray) -> SetPosterior:
        """Of some sets."""
        return SetPosterior(self.mean[which], self.covariance[which], self.mask[which])


def ask_for_joint(inputs: tf.Tensor) -> None:
    """Ask for the memory that a joint covariance of inputs (N, D) takes.

    :raises NotEnoughMemory: more than is free.
    """
    n = inputs.shape[0] or 0
    ask(
        3 * 8 * n**2, f"Joint covariances of {n:,} inputs", "ask about fewer, or leave full_cov out"
    )


def in_chunks(function: Callable[[tf.Tensor], tf.Tensor], inputs: tf.Tensor) -> tf.Tensor:
    """`function` over rows of `inputs`, `CHUNK` at a time, concatenated."""
    count = inputs.shape[0]
    if count is None or count <= CHUNK:
        return function(inputs)
    parts = [function(inputs[i : i + CHUNK]) for i in range(0, count, CHUNK)]
    return tf.concat(parts, 0)


def each_marginal(posterior: Posterior, inputs: tf.Tensor) -> tf.Tensor:
    """`posterior.marginal` of inputs (N, D), (N, 2)."""
    one = posterior.in_one
    return posterior.marginal(inputs) if one else in_chunks(posterior.marginal, inputs)


def each_difference(posterior: Posterior, pairs: tf.Tensor) -> tf.Tensor:
    """`posterior.difference` of pairs (N, 2, D), (N, 2)."""
    one = posterior.in_one
    return posterior.difference(pairs) if one else in_chunks(posterior.difference, pairs)


def differences_in_blocks(posterior: Posterior, pairs: tf.Tensor, blocks: IntArray) -> tf.Tensor:
    """The same of pairs of which each joins a block, by its number; below 0 none."""
    assert posterior.blocks is not None
    where, found = np.maximum(blocks, -1), np.empty(pairs.shape[:2])
    for number in np.unique(where).tolist():
        here = np.flatnonzero(where == number)
        known = posterior if number < 0 else posterior.blocks.joined(number)
        found[here] = each_difference(known, tf.gather(pairs, here))
    return tf.constant(found)


def predictions(
    posterior: Posterior, inputs: tf.Tensor, full_cov: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean (N, 1) and variance (N, 1), or covariance (1, N, N): GPflow's shapes.

    :raises NotEnoughMemory: a joint covariance of more inputs than there is memory for.
    """
    if full_cov:
        mean, covariance = posterior.joint(inputs)
        return mean[:, None], covariance[None]
    both = each_marginal(posterior, inputs)
    return both[:, :1], both[:, 1:]
