"""What inducing values leave unexplained of the answers, as corrections of the log evidence see it.

C is the residual covariance of an answer over its noise: of a duel the number k~ / 2s², of a look
at k alternatives a matrix of k - 1 contrasts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import DuelProblem, prior_variance
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.factors.sites import Factors
from sparse_prefgp.support.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Residual:
    """Sums over answers, each as often as it counts.

    What nobody knows of some kinds of answers raises `NotImplementedError`.
    """

    problem: DuelProblem

    def summed(
        self, each: Callable[[tf.Tensor], tf.Tensor], *, by_share: bool = False
    ) -> tf.Tensor:
        """The sum of a function, 0 at 0, of the eigenvalues of C.

        :param by_share: whether a share of an answer is taken of C too: it is not a share of its
            residual (docs/method.md, section 3).
        """
        raise NotImplementedError

    def trace(self) -> tf.Tensor:
        """The sum of tr C."""
        return self.summed(tf.identity)

    def log_det(self, power: float = 1.0, *, by_share: bool = False) -> tf.Tensor:
        """The sum of log|I + p C|."""
        return self.summed(lambda c: tf.math.log1p(power * c), by_share=by_share)

    def shrunk(self) -> tf.Tensor:
        """The sum of tr (I + C)⁻¹ C."""
        return self.summed(lambda c: c / (1.0 + c))

    def log_det_of_means(self) -> tf.Tensor:
        """The sum of (k - 1) log(1 + tr C / (k - 1)), by share."""
        return self.log_det(by_share=True)

    @property
    def rank(self) -> int:
        """An upper bound of the rank of the residual of all answers, at least 1."""
        raise NotImplementedError

    def over_items(self) -> tf.Tensor:
        """W over the noise with x'Wx what answers tell of utilities x, (n, n)."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class ResidualOfSites(Residual):
    """That of what is said of items, which follows from the variances that are left."""

    given: Callable[[], tf.Tensor]
    """Makes k~ of each duel, or of each pair of alternatives, as rounding leaves it."""

    @cached_property
    def _given(self) -> tf.Tensor:
        return self.given()

    @cached_property
    def variance(self) -> tf.Tensor:
        """k~ >= 0."""
        return tf.maximum(self._given, tf.zeros_like(self._given))

    @property
    def clipped(self) -> tf.Tensor:
        """By how much rounding had made one negative."""
        return tf.stop_gradient(tf.reduce_max(self.variance - self._given))

    @property
    def rank(self) -> int:
        return max(self.problem.graph.residual_rank, 1)

    def as_noise(self, factors: Factors, share: float, inside: bool) -> Factors:
        """The factors with a share of it in their noise, where it is not in the covariance.

        :param inside: whether expectations take it in.
        """
        return factors


class ResidualOfDuels(ResidualOfSites):
    """Of each site by itself."""

    @classmethod
    def beside(cls, problem: DuelProblem, explained: Callable[[], tf.Tensor]) -> ResidualOfDuels:
        """What is left of a problem next to what makes the variances that are explained, (t,)."""
        return cls(problem, lambda: prior_variance(problem) - explained())

    def summed(
        self, each: Callable[[tf.Tensor], tf.Tensor], *, by_share: bool = False
    ) -> tf.Tensor:
        copies, share = shared_out(self.problem.graph.counts, by_share)
        return tf.reduce_sum(copies * each(share * self.variance / self.problem.noise))

    def over_items(self) -> tf.Tensor:
        graph = self.problem.graph
        return graph.laplacian.dense(as_float(graph.counts) / self.problem.noise)

    def as_noise(self, factors: Factors, share: float, inside: bool) -> Factors:
        noise = factors.noise + share * self.variance
        return factors._replace(noise=noise, inside=self.variance if inside else None)


def shared_out(counts: FloatArray, by_share: bool = True) -> tuple[FloatArray, FloatArray]:
    """Counts as copies of shares: below 1 one copy of that share, if by share, else all of 1."""
    share = np.where((counts > 0.0) & (counts < 1.0) & by_share, counts, 1.0)
    return counts / share, share
