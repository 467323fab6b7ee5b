"""Links: what a difference of utilities says about the outcome of a duel.

A factor is the probability that z + noise lies between two limits; probit noise is normal with the
variance that the approximation names, logistic noise is what it is (variance pi²/3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from sparse_prefgp.factors.expectations import (
    NormalSites,
    about,
    as_sites,
    in_chunks,
    limit_densities,
    nodes,
    site_table,
)
from sparse_prefgp.factors.sites import Cavity, Factors, Tilted, match_all_moments
from sparse_prefgp.factors.truncated_normal import (
    LOG_SQRT_2PI,
    log_cdf,
    log_normal_cdf,
    truncated_moments,
)
from sparse_prefgp.support.custom_gradient import custom_gradient

# No second derivative of the log of a logistic factor with one limit is below -1/4: it may lose as
# much by k~ as a normal v with noise variance 4 does (docs/method.md, section 13). With a limit on
# either side it is the sum of two such, which a narrow interval has at one place: -1/2.
LOGIT_NOISE = 4.0
LOGIT_TIE_NOISE = 2.0
# Enough to find a mode among normals of up to 10,000 standard deviations of the logistic noise.
_BISECTIONS = 16


def logistic_noise(lower: tf.Tensor | None, upper: tf.Tensor) -> tf.Tensor:
    """What stands for 2 sigma² with logistic noise, (t,): 4, and 2 between two limits."""
    wins = tf.fill(tf.shape(upper), tf.constant(LOGIT_NOISE, upper.dtype))
    if lower is None:
        return wins
    both = tf.math.is_finite(lower) & tf.math.is_finite(upper)
    return tf.where(both, tf.constant(LOGIT_TIE_NOISE, upper.dtype), wins)


class ThirdDerivatives(NamedTuple):
    """Third derivative of log p_i in z, (t,), and what moves log p_i, its slope and curvature."""

    third: tf.Tensor
    noise: tf.Tensor
    """(t, 3), derivatives of those three in the noise and the limits."""
    upper: tf.Tensor
    """(t, 3), derivatives of those three in the noise and the limits."""
    lower: tf.Tensor
    """(t, 3), derivatives of those three in the noise and the limits."""


@dataclass(frozen=True)
class Probit:
    """Normal noise: everything in closed form."""

    has_normal_noise: ClassVar[bool] = True
    """Whether the noise is normal, with the variance that the model names."""

    def derivatives(self, z: tf.Tensor, factors: Factors) -> Tilted:
        """log p_i, its slope and its curvature at z, (t,) each."""
        # As moments against a normal without variance, of whole factors whatever they count.
        return match_all_moments(Cavity(z, tf.zeros_like(z)), factors._replace(portions=None))[1]

    def mixed(self, z: tf.Tensor, factors: Factors) -> ThirdDerivatives:
        """The next derivatives, for the gradient of a mode that moves."""
        return _mixed(z, *factors.event)

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
        scale = tf.sqrt(variance + noise)
        if lower is None:
            return log_cdf((upper - mean) / scale)
        return truncated_moments((lower - mean) / scale, (upper - mean) / scale).log_mass


# A graph with free shapes is traced once and spares eager calls op by op.
@tf.function(autograph=False, reduce_retracing=True)
def _mixed(
    z: tf.Tensor, noise: tf.Tensor, lower: tf.Tensor | None, upper: tf.Tensor
) -> ThirdDerivatives:
    sources = [noise, upper] + ([] if lower is None else [lower])
    with tf.GradientTape(persistent=True) as third:
        third.watch([z, *sources])
        with tf.GradientTape() as second:
            second.watch(z)
            with tf.GradientTape() as first:
                first.watch(z)
                value = _log_probit(z, noise, lower, upper)
            slope = first.gradient(value, z)
        curvature = second.gradient(slope, z)
    columns = [third.gradient(x, sources) for x in (value, slope, curvature)]
    by = [tf.stack(column, 1) for column in zip(*columns, strict=True)]
    return ThirdDerivatives(
        third.gradient(curvature, z), by[0], by[1], tf.zeros_like(by[1]) if lower is None else by[2]
    )


def _log_probit(
    z: tf.Tensor, noise: tf.Tensor, lower: tf.Tensor | None, upper: tf.Tensor
) -> tf.Tensor:
    """log p_i (t,), to be differentiated three times in all that it is given."""
    scale = tf.sqrt(noise)
    if lower is None:
        return log_normal_cdf((upper - z) / scale)
    far_a, far_b = tf.math.is_inf(lower), tf.math.is_inf(upper)

    def where_infinite(a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        infinity = tf.fill(tf.shape(a), tf.cast(np.inf, a.dtype))
        return tf.where(far_a, -infinity, a), tf.where(far_b, infinity, b)

    @custom_gradient
    def log_interval(
        a: tf.Tensor, b: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            at_b, at_a = limit_densities(*where_infinite(a, b), log_interval(a, b))
            return -upstream * at_a, upstream * at_b

        return truncated_moments(*where_infinite(a, b)).log_mass, gradient

    # A limit at infinity has no derivative that would not be 0.
    return log_interval(
        (tf.where(far_a, tf.zeros_like(lower), lower) - z) / scale,
        (tf.where(far_b, tf.zeros_like(upper), upper) - z) / scale,
    )


@dataclass(frozen=True)
class Logit:
    """Logistic noise: P(a beats b) = 1 / (1 + exp(f(b) - f(a))).

    The noise variance of the model is ignored. What an approximation adds to the noise of a factor
    (above `logistic_noise`) is normal and independent of the logistic noise: the logistic function
    is averaged over it at the nodes of `expectations`, about the mode of the integrand. Its poles
    are pi off the real line, no nearer than those of log Phi.
    """

    has_normal_noise: ClassVar[bool] = False

    def derivatives(self, z: tf.Tensor, factors: Factors) -> Tilted:
        found = self._at(z, factors)
        # A factor is log-concave; rounding may say otherwise where it is flat.
        return Tilted(found.log, found.slope, tf.minimum(found.curvature, 0.0))

    def mixed(self, z: tf.Tensor, factors: Factors) -> ThirdDerivatives:
        found = self._at(z, factors)
        in_z = tf.stack([found.slope, found.curvature, found.third], 1)
        upper = tf.stack([found.upper, found.upper_slope, found.upper_curvature], 1)
        # What moves z and both limits alike moves nothing.
        lower = tf.zeros_like(upper) if factors.lower is None else -in_z - upper
        return ThirdDerivatives(found.third, tf.stack(_heat(found), 1), upper, lower)

    def log_probability(
        self,
        mean: tf.Tensor,
        variance: tf.Tensor,
        noise: tf.Tensor,
        lower: tf.Tensor | None,
        upper: tf.Tensor,
    ) -> tf.Tensor:
        del noise

        @custom_gradient
        def averaged(mean: tf.Tensor, variance: tf.Tensor, *limits: tf.Tensor) -> tuple[Any, Any]:
            # Rounding can leave a variance just below 0.
            found = _averaged(mean, tf.maximum(variance, 0.0), lower, upper)

            def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
                # What moves z and both limits alike moves nothing.
                slopes = [found.slope, _heat(found)[0], found.upper, -found.slope - found.upper]
                return [upstream * slope for slope in slopes[: 2 + len(limits)]]

            return found.log, gradient

        return averaged(mean, variance, upper, *([] if lower is None else [lower]))

    def _at(self, z: tf.Tensor, factors: Factors) -> _Averaged:
        """Over what an approximation has added to the noise."""
        added = factors.noise - logistic_noise(factors.lower, factors.upper)
        return _averaged(z, added, factors.lower, factors.upper)


class _Averaged(NamedTuple):
    """The log of an averaged factor, four derivatives in z, and in the upper limit; (t,) each."""

    log: tf.Tensor
    slope: tf.Tensor
    curvature: tf.Tensor
    third: tf.Tensor
    fourth: tf.Tensor
    upper: tf.Tensor
    """Of log, slope and curvature."""
    upper_slope: tf.Tensor
    """Of log, slope and curvature."""
    upper_curvature: tf.Tensor
    """Of log, slope and curvature."""


def _heat(at: _Averaged) -> list[tf.Tensor]:
    """Derivatives of log, slope and curvature in the normal noise: that of p is half of p''."""
    return [
        0.5 * (at.curvature + at.slope**2),
        0.5 * (at.third + 2.0 * at.slope * at.curvature),
        0.5 * (at.fourth + 2.0 * at.curvature**2 + 2.0 * at.slope * at.third),
    ]


def _averaged(
    z: tf.Tensor, extra: tf.Tensor, lower: tf.Tensor | None, upper: tf.Tensor
) -> _Averaged:
    table = site_table(z, extra, tf.ones_like(extra), lower, upper)
    sites = as_sites(tf.stop_gradient(table))
    table = about(table, _centre(sites))
    return _Averaged(*tf.unstack(in_chunks(_average, len(_Averaged._fields), table), axis=1))


def _centre(sites: NormalSites) -> tf.Tensor:
    """Where y²/2 - log p(z + sd y) is least, (t, 1), by bisection: no slope of log p exceeds 1."""

    def halve(low: tf.Tensor, high: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        middle = 0.5 * (low + high)
        a, b = _from(sites, middle)
        below = middle < sites.sd * (tf.sigmoid(a) - tf.sigmoid(-b))
        return tf.where(below, middle, low), tf.where(below, high, middle)

    bracket = (-sites.sd, sites.sd)
    for _ in range(_BISECTIONS):
        bracket = halve(*bracket)
    return 0.5 * (bracket[0] + bracket[1])


def _from(sites: NormalSites, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Limits as seen from z + sd y; -inf where there is no lower one."""
    z = sites.mean + sites.sd * y
    if sites.lower is None:
        return tf.fill(tf.shape(z), tf.cast(-np.inf, z.dtype)), sites.upper - z
    return sites.lower - z, sites.upper - z


def _average(sites: NormalSites, rule: int) -> tuple[tf.Tensor, ...]:
    """The fields of `_Averaged`, by moments of the derivatives at the nodes."""
    y, weight = nodes(sites, rule)
    a, b = _from(sites, y)
    # s(b) - s(a) = s(b) s(-a) (1 - exp(a - b)) for the logistic function s.
    far = tf.math.is_inf(a) | tf.math.is_inf(b)
    width = tf.where(far, tf.ones_like(b), b - a)
    inside = tf.where(far, tf.zeros_like(b), tf.math.log(-tf.math.expm1(-width)))
    log = tf.math.log_sigmoid(b) + tf.math.log_sigmoid(-a) + inside
    log_density = log + tf.math.log(weight) - 0.5 * y * y - LOG_SQRT_2PI
    share = tf.nn.softmax(log_density, 1)

    def mean(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(share * values, 1)

    at_a, at_b = _sigmoid_slopes(a), _sigmoid_slopes(b)
    # Of log p = log s(b) + log s(-a) + a constant of the width, one derivative in z after another.
    one = tf.sigmoid(a) - tf.sigmoid(-b)
    two, three, four = (sign * (x + y) for sign, x, y in zip((-1, 1, -1), at_a, at_b, strict=True))
    # p', p'', … over p, about the mean slope: what is left does not cancel.
    slope = mean(one)
    d = one - slope[:, None]
    square = two + d * d
    curvature = mean(square)
    third = mean(three + 3.0 * d * two + d**3)
    fourth = mean(four + 4.0 * d * three + 3.0 * two**2 + 6.0 * d * d * two + d**4)
    fourth -= 3.0 * curvature**2
    # The density of the upper limit over p, and its derivatives in z.
    ratio = tf.exp(tf.math.log_sigmoid(b) + tf.math.log_sigmoid(-b) - log)
    s = tf.sigmoid(b)
    upper = mean(ratio)
    first = mean(-ratio * (1.0 - 2.0 * s))
    second = mean(ratio * (1.0 - 6.0 * s * (1.0 - s)))
    upper_slope = first - upper * slope
    upper_curvature = second - 2.0 * upper_slope * slope - upper * (curvature + slope**2)
    value = tf.reduce_logsumexp(log_density, 1)
    return value, slope, curvature, third, fourth, upper, upper_slope, upper_curvature


def _sigmoid_slopes(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """First three derivatives of the logistic function; 0 at infinity."""
    s, rest = tf.sigmoid(x), tf.sigmoid(-x)
    first = s * rest
    return first, first * (rest - s), first * (1.0 - 6.0 * first)


Link: TypeAlias = Probit | Logit
LINKS: dict[str, Link] = {"probit": Probit(), "logit": Logit()}
