"""What all low-rank covariances share: z = Phi u + r, of which everything is a sum over sites.

Whitened inducing values `u ~ N(0, I)`, and residuals r independent of u (none, or in blocks of
sites). Under sites the posterior of u is `N(P⁻¹ h, P⁻¹)`, `P = I + Lambda` with `Lambda` and `h`
sums over the sites, whatever they are read from: one chunk in memory, or many that are computed
again in every pass, here or on other machines (docs/method.md, sections 3, 10 and 15).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import tensorflow as tf
from check_shapes import inherit_check_shapes

from sparse_prefgp.covariances.base import (
    Intermediates,
    Marginals,
    PosteriorTerms,
    SequentialCovariance,
    WholeTerms,
)
from sparse_prefgp.support.linalg import add_to_diagonal, half_log_det_of, inverse_lower


class Sums(NamedTuple):
    """What sites say of u: Lambda (m, m) and h (m, 1), without gradient."""

    precision: tf.Tensor
    shift: tf.Tensor

    @property
    def each(self) -> tuple[tf.Tensor, ...]:
        """All that there is."""
        return self.precision, self.shift[:, 0]

    def posterior(self) -> InducingPosterior:
        """Of u ~ N(0, I) under these sites alone."""
        return condition(add_to_diagonal(self.precision, 1.0), self.shift)


class InducingPosterior(NamedTuple):
    """u ~ N(mean, inverse' inverse): chol(P)⁻¹ (m, m), E u (m, 1), and ½ log|P|."""

    inverse: tf.Tensor
    mean: tf.Tensor
    half_log_det: tf.Tensor

    @property
    def covariance(self) -> tf.Tensor:
        """P⁻¹, (m, m)."""
        return tf.matmul(self.inverse, self.inverse, transpose_a=True)

    @property
    def second_moment(self) -> tf.Tensor:
        """E u u', (m, m)."""
        return self.covariance + tf.matmul(self.mean, self.mean, transpose_b=True)

    @property
    def terms(self) -> WholeTerms:
        """What prediction needs, for whitened features of the inputs."""
        return WholeTerms(self.mean[:, 0], add_to_diagonal(-self.covariance, 1.0))


def condition(precision: tf.Tensor, shift: tf.Tensor) -> InducingPosterior:
    """The Gaussian with precision P (m, m) and shift h (m, 1); its ½ log|P| is NaN where P is not
    positive definite."""
    factor = tf.linalg.cholesky(precision)
    inverse = inverse_lower(factor)
    mean = tf.matmul(inverse, tf.matmul(inverse, shift), transpose_a=True)
    return InducingPosterior(inverse, mean, half_log_det_of(factor))


class LowRankIntermediates(NamedTuple):
    """What `surrogate` wants back of inference over inducing values."""

    u: InducingPosterior
    """The posterior of the inducing values."""
    own: Intermediates
    """What the form computed of its sites."""


class LowRank(SequentialCovariance, ABC):
    """A covariance of z of which inference needs sums over sites alone.

    `own` is what a form computes of its sites once, for sums, marginals and gradient.
    """

    # What sites that are not among these say of u, and keep saying; None without any.
    known: Sums | None = None

    @abstractmethod
    def own(self, precision: tf.Tensor, shift: tf.Tensor) -> Intermediates:
        """What the methods below want of the sites besides them; empty without residuals."""

    @abstractmethod
    def sums(self, precision: tf.Tensor, shift: tf.Tensor, own: Intermediates) -> Sums:
        """Lambda and h of the sites."""

    @abstractmethod
    def marginals_under(
        self, u: InducingPosterior, own: Intermediates
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of each z, (t,), where `u` has these sites in it."""

    @abstractmethod
    def own_half_log_det(self, own: Intermediates) -> tf.Tensor:
        """The part of ½ log|P| over z that is not in u: of the residuals under the sites."""

    @abstractmethod
    def surrogate_under(
        self, precision: tf.Tensor, shift: tf.Tensor, u: InducingPosterior, own: Intermediates
    ) -> tf.Tensor:
        """`surrogate` of these sites where `u` has them, and maybe others, in it."""

    def conditioned(self, precision: tf.Tensor, shift: tf.Tensor) -> LowRankIntermediates:
        """q(u) under the sites, and what else was computed of them."""
        own = self.own(precision, shift)
        found = self.sums(precision, shift, own)
        if self.known is not None:
            found = Sums(*(mine + theirs for mine, theirs in zip(found, self.known, strict=True)))
        return LowRankIntermediates(found.posterior(), own)

    @inherit_check_shapes
    def marginals(self, precision: tf.Tensor, shift: tf.Tensor) -> Marginals:
        kept = self.conditioned(precision, shift)
        mean, variance = self.marginals_under(*kept)
        half_log_det = kept.u.half_log_det + self.own_half_log_det(kept.own)
        return Marginals(mean, variance, half_log_det, kept)

    def surrogate(
        self, precision: tf.Tensor, shift: tf.Tensor, kept: LowRankIntermediates
    ) -> tf.Tensor:
        return self.surrogate_under(precision, shift, kept.u, kept.own)

    def predict(self, precision: tf.Tensor, shift: tf.Tensor) -> PosteriorTerms:
        """Of u alone: a new input shares no residual with any site."""
        return self.conditioned(precision, shift).u.terms
