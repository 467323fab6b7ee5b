"""Predictions from an inferred model (docs/method.md, section 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import gpflow
import tensorflow as tf

from sparse_prefgp.approximations import DuelPrior, DuelProblem
from sparse_prefgp.covariances import FeaturesBesideEffects
from sparse_prefgp.covariances.base import PosteriorTerms
from sparse_prefgp.covariances.kernels import kernel_matrix, pair_difference_variance
from sparse_prefgp.covariances.pic import pic_terms
from sparse_prefgp.covariances.residual import BLOCKS
from sparse_prefgp.models.pair_posterior import PairPosterior
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.machine import ask

# Fixed, so that the same call gives the same bits; bounds the memory of a prediction.
CHUNK = 2048


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

    in_one: ClassVar[bool] = False
    """Whether many inputs at once cost hardly more than few."""

    def marginal(self, inputs: tf.Tensor) -> tf.Tensor:
        """Mean and variance side by side, (N, 2), for inputs (N, D)."""
        variance = self.kernel(inputs, full_cov=False)
        if self.beside is not None:
            mean, explained = self.beside.told(self.terms, (1.0, inputs))
            return tf.stack([mean + self._prior_mean(inputs), variance - explained], -1)
        a = self.features(inputs)
        return tf.stack([self._mean(a, inputs), variance - self._explained(a)], -1)

    def mean(self, inputs: tf.Tensor) -> tf.Tensor:
        """E f, (N,), for inputs (N, D)."""
        if self.beside is not None:
            return self.beside.told(self.terms, (1.0, inputs))[0] + self._prior_mean(inputs)
        return self._mean(self.features(inputs), inputs)

    def joint(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean (N,) and covariance (N, N) for inputs (N, D).

        :raises NotEnoughMemory: more of them than there is memory for.
        """
        ask_for_joint(inputs)
        a = self.features(inputs)
        explained = tf.matmul(tf.matmul(a, self.terms.reduction), a, transpose_b=True)
        return self._mean(a, inputs), kernel_matrix(self.kernel, inputs) - explained

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
            variance -= self._explained(ahead - behind)
            mean = self._mean(ahead, first) - self._mean(behind, second)
            if self.pairs is not None:
                more = self.pairs.added(inputs, ahead - behind)
                mean, variance = mean + more[0], variance + more[1]
        same = tf.reduce_all(first == second, -1)
        return tf.stack([mean, tf.where(same, tf.zeros_like(variance), variance)], -1)

    def _mean(self, a: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(a, self.terms.weights) + self._prior_mean(inputs)

    def _prior_mean(self, inputs: tf.Tensor) -> tf.Tensor:
        if self.mean_function is None:
            return tf.zeros_like(inputs[:, 0])
        return self.mean_function(inputs)[:, 0]

    def _explained(self, a: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.matmul(a, self.terms.reduction) * a, -1)


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


def posteriors_in_blocks(
    problem: DuelProblem, prior: DuelPrior, precision: tf.Tensor, shift: tf.Tensor
) -> Callable[[int], Posterior]:
    """q(f) of inputs whose residuals are related to those of one block, by its number: PIC.

    Besides a, the features are the residual covariances `k(x, z_j) - a Phi_j'` with the sites of
    the block (Snelson & Ghahramani 2007; docs/method.md, section 10).

    :param precision: (t,) c tau of the sites.
    :param shift: (t,) c nu.
    """
    blocks = prior.blocks
    assert blocks is not None
    kept = blocks.conditioned(precision, shift)

    def posterior(block: int) -> Posterior:
        joining = pic_terms(blocks, {BLOCKS: block}, kept)

        def features(inputs: tf.Tensor) -> tf.Tensor:
            return joining.features(inputs, prior.features(inputs))

        return Posterior(problem.kernel, problem.mean_function, features, joining.posterior)

    return posterior


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
