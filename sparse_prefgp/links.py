"""Links: what a difference of utilities says about the outcome of a duel.

A factor is the probability that z + noise lies between two limits; probit noise is normal with the
variance that the approximation names, logistic noise is what it is (variance pi²/3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import tensorflow as tf

from sparse_prefgp.expectations import limit_densities
from sparse_prefgp.sites import Cavity, Factors, Tilted, match_all_moments
from sparse_prefgp.truncated_normal import half_line, log_cdf, truncated_moments

# No second derivative of the log of a logistic factor is below -1/4: it may lose as much by k~ as a
# normal v with noise variance 4 does (docs/method.md, section 7).
LOGIT_NOISE = 4.0
_REACH = 8.75
_STEPS_PER_SD = 2.0


class Link(Protocol):
    """Probit or logit."""

    @property
    def name(self) -> str:
        """`probit` or `logit`."""

    def derivatives(self, z: tf.Tensor, factors: Factors) -> Tilted:
        """log p_i, its slope and its curvature at z, (t,) each."""

    def log_factor(
        self, z: tf.Tensor, noise: tf.Tensor, lower: tf.Tensor | None, upper: tf.Tensor
    ) -> tf.Tensor:
        """log p_i (t,), to be differentiated three times in all that it is given."""

    def log_probability(
        self,
        mean: tf.Tensor,
        variance: tf.Tensor,
        noise: tf.Tensor,
        lower: tf.Tensor | None,
        upper: tf.Tensor,
    ) -> tf.Tensor:
        """log P(lower < z + noise < upper) for z ~ N(mean, variance), (k,) each; noise is 2 sigma².

        lower None is -inf everywhere, with finite upper.
        """


@dataclass(frozen=True)
class Probit:
    """Normal noise: everything in closed form."""

    name: str = "probit"

    def derivatives(self, z: tf.Tensor, factors: Factors) -> Tilted:
        # As moments against a normal without variance.
        return match_all_moments(Cavity(z, tf.zeros_like(z)), factors)[1]

    def log_factor(
        self, z: tf.Tensor, noise: tf.Tensor, lower: tf.Tensor | None, upper: tf.Tensor
    ) -> tf.Tensor:
        scale = tf.sqrt(noise)
        if lower is None:
            return _log_cdf((upper - z) / scale)
        far_a, far_b = tf.math.is_inf(lower), tf.math.is_inf(upper)
        # A limit at infinity has no derivative that would not be 0.
        a = (tf.where(far_a, tf.zeros_like(lower), lower) - z) / scale
        b = (tf.where(far_b, tf.zeros_like(upper), upper) - z) / scale
        return _log_interval(a, b, far_a, far_b)

    def log_probability(
        self,
        mean: tf.Tensor,
        variance: tf.Tensor,
        noise: tf.Tensor,
        lower: tf.Tensor | None,
        upper: tf.Tensor,
    ) -> tf.Tensor:
        scale = tf.sqrt(variance + noise)
        if lower is None:
            return log_cdf((upper - mean) / scale)
        return truncated_moments((lower - mean) / scale, (upper - mean) / scale).log_mass


@tf.custom_gradient
def _log_cdf(b: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    return log_cdf(b), lambda upstream: upstream * _ratio(b)


@tf.custom_gradient
def _ratio(b: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    ratio = half_line(b).ratio
    return ratio, lambda upstream: -upstream * _ratio(b) * _distance(b)


@tf.custom_gradient
def _distance(b: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    line = half_line(b)
    return line.distance, lambda upstream: upstream * line.variance


def _log_interval(a: tf.Tensor, b: tf.Tensor, far_a: tf.Tensor, far_b: tf.Tensor) -> tf.Tensor:
    """log(Phi(b) - Phi(a)), differentiable as often as one likes; far limits are infinite."""

    def where_infinite(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        infinity = tf.fill(tf.shape(a), tf.cast(np.inf, a.dtype))
        return tf.where(far_a, -infinity, a), tf.where(far_b, infinity, b)

    @tf.custom_gradient
    def compute(
        a: tf.Tensor, b: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            at_b, at_a = limit_densities(*where_infinite(a, b), compute(a, b))
            return -upstream * at_a, upstream * at_b

        return truncated_moments(*where_infinite(a, b)).log_mass, gradient

    return compute(a, b)


@dataclass(frozen=True)
class Logit:
    """Logistic noise: P(a beats b) = 1 / (1 + exp(f(b) - f(a))), averaged by the trapezoid rule.

    The noise variance of the model has no say. What an approximation adds to the noise of a factor
    (above `LOGIT_NOISE`) is normal and independent of the logistic noise.
    """

    name: str = "logit"

    def derivatives(self, z: tf.Tensor, factors: Factors) -> Tilted:
        with tf.GradientTape() as outer:
            outer.watch(z)
            with tf.GradientTape() as inner:
                inner.watch(z)
                value = self.log_factor(z, factors.noise, factors.lower, factors.upper)
            slope = inner.gradient(value, z)
        return Tilted(value, slope, outer.gradient(slope, z))

    def log_factor(
        self, z: tf.Tensor, noise: tf.Tensor, lower: tf.Tensor | None, upper: tf.Tensor
    ) -> tf.Tensor:
        extra = noise - LOGIT_NOISE
        # Of nothing the root has no derivative: a tiny variance has nearly that of none.
        sd = tf.sqrt(tf.maximum(extra, tf.cast(1e-12, extra.dtype)))
        y, log_weight = _nodes(tf.reduce_max(sd))
        nodes = z[:, None] + sd[:, None] * y
        below = None if lower is None else lower[:, None] - nodes
        return tf.reduce_logsumexp(_log_logistic(below, upper[:, None] - nodes) + log_weight, 1)

    def log_probability(
        self,
        mean: tf.Tensor,
        variance: tf.Tensor,
        noise: tf.Tensor,
        lower: tf.Tensor | None,
        upper: tf.Tensor,
    ) -> tf.Tensor:
        del noise
        return self.log_factor(mean, LOGIT_NOISE + variance, lower, upper)


def _nodes(widest: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Standard normal nodes and the logs of their weights, dense enough for sds up to `widest`.

    The logistic function has its poles pi off the real line, so that steps of half the smaller of
    1 and 1/sd are exact to 1e-14. In its tail the integrand is moved by one sd of z.
    """
    widest = tf.stop_gradient(widest)
    wide = tf.where(tf.math.is_finite(widest), widest, tf.zeros_like(widest))
    reach = _REACH + wide
    density = _STEPS_PER_SD * tf.maximum(wide, tf.ones_like(wide))
    y = tf.linspace(-reach, reach, tf.cast(tf.math.ceil(2.0 * reach * density), tf.int32) + 1)
    return y, tf.nn.log_softmax(-0.5 * y * y)


def _log_logistic(a: tf.Tensor | None, b: tf.Tensor) -> tf.Tensor:
    """log(s(b) - s(a)) for the logistic function s; a None is -inf everywhere."""
    if a is None:
        return tf.math.log_sigmoid(b)
    far_a, far_b = tf.math.is_inf(a), tf.math.is_inf(b)
    zero, one = tf.zeros_like(b), tf.ones_like(b)
    both = far_a | far_b
    a, b = tf.where(far_a, zero, a), tf.where(far_b, zero, b)
    # s(b) - s(a) = s(b) s(-a) (1 - exp(a - b))
    width = tf.where(both, one, b - a)
    inside = tf.where(both, zero, tf.math.log(-tf.math.expm1(-width)))
    at_b = tf.where(far_b, zero, tf.math.log_sigmoid(b))
    return at_b + tf.where(far_a, zero, tf.math.log_sigmoid(-a)) + inside


LINKS: dict[str, Link] = {"probit": Probit(), "logit": Logit()}
