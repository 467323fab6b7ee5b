"""Powers of factors integrated against a normal: the tilted distributions of power EP."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import tensorflow as tf

from sparse_prefgp.factors.expectations import (
    EVEN_RATIOS,
    PANELS,
    NormalSites,
    about,
    as_sites,
    factor_at,
    in_chunks,
    moments_in_graph,
    nodes,
    site_table,
)
from sparse_prefgp.factors.truncated_normal import LOG_SQRT_2PI

_NEWTON_STEPS = 40
# Of a variance, in units of the noise.
_ROUNDING = 1e-12
# Above this share of a variance left, what is missing of it is found better than what is left.
_NEARLY_ALL = 0.99


class PowerMoments(NamedTuple):
    """F = log of the integral of N(z | m, v) p(z)^power, and its derivatives; (t,) each."""

    value: tf.Tensor
    """F."""
    slope: tf.Tensor
    """dF/dm."""
    curvature: tf.Tensor
    """d²F/dm²."""
    noise: tf.Tensor
    """dF/d(noise) of the factor."""
    upper: tf.Tensor
    """dF/d(upper limit)."""
    lower: tf.Tensor
    """dF/d(lower limit)."""
    spread: tf.Tensor
    """Variance of the integrand over v, 1 + v d²F/dm² without the sum."""


def power_moments(
    mean: tf.Tensor,
    variance: tf.Tensor,
    noise: tf.Tensor,
    lower: tf.Tensor | None,
    upper: tf.Tensor,
    power: tf.Tensor,
) -> PowerMoments:
    """log of the integral of N(z | mean, variance) p(z)^power, with all derivatives.

    p(z) = P(lower < z + N(0, noise) < upper). The nodes are those of `average_log_factor`, about
    the mode of the integrand.

    Source: power EP, Minka (2004).

    :param mean: (t,).
    :param variance: (t,), >= 0.
    :param noise: (t,), > 0.
    :param lower: (t,), may be -inf; None is -inf everywhere, and `upper` is finite then.
    :param upper: (t,), may be inf.
    :param power: (t,), > 0.
    """
    # Equal items differ by nothing, which rounding may put below 0.
    nothing = tf.abs(variance) <= _ROUNDING * noise
    variance = tf.where(nothing, tf.zeros_like(variance), variance)
    table = site_table(mean, variance, noise, lower, upper, power)
    table = _centred(table.shape[1], table.dtype, table.shape[0] == 1)(table)
    found = in_chunks(_power, len(PowerMoments._fields), table)
    return PowerMoments(*tf.unstack(found, axis=1))


@cache
def _centred(columns: int, dtype: tf.DType, single: bool) -> Callable[[tf.Tensor], tf.Tensor]:
    """Puts the modes of the integrands into tables of sites, (t, columns)."""

    @tf.function(
        autograph=False,
        jit_compile=single or None,  # compiling again for every t would not pay
        input_signature=[tf.TensorSpec([None, columns], dtype)],
    )
    def run(table: tf.Tensor) -> tf.Tensor:
        table = tf.stop_gradient(table)
        return about(table, _mode(as_sites(table)))

    return run


def _power(sites: NormalSites, rule: int) -> tuple[tf.Tensor, ...]:
    y, weight = nodes(sites, rule)
    at = factor_at(sites, y)
    log_density = sites.power * at.value - 0.5 * y * y - LOG_SQRT_2PI + tf.math.log(weight)
    share = tf.nn.softmax(log_density, 1)
    power = sites.power[:, 0]

    def mean(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(share * values, 1)

    slope = mean(at.slope)
    apart = mean((at.slope - slope[:, None]) ** 2)
    curvature = power * mean(at.curvature) + power**2 * apart
    # One node, of normals without variance, has no spread to see.
    spread = mean((y - mean(y)[:, None]) ** 2) if rule else tf.ones_like(slope)
    if rule == PANELS:
        # The spread is a small share of a wide normal, and less sharp than what is averaged above.
        variance = sites.sd[:, 0] ** 2
        wide = variance > EVEN_RATIOS[-1] ** 2 * sites.noise[:, 0]
        wide &= spread < _NEARLY_ALL
        safe = tf.where(wide, variance, tf.ones_like(variance))
        curvature = tf.where(wide, (spread - 1.0) / safe, curvature)
    return (
        tf.reduce_logsumexp(log_density, 1),
        power * slope,
        curvature,
        power * mean(at.noise),
        power * mean(at.upper),
        power * mean(at.lower),
        spread,
    )


def _mode(sites: NormalSites) -> tf.Tensor:
    """Where y²/2 - power log p(mean + sd y) is least, (k, 1).

    The function is convex with a curvature of at least 1. Newton's steps from the mean under the
    whole factor settle in a few; steps are bounded, so that an interval far away does not throw
    them off.
    """
    total = sites.sd**2 + sites.noise
    scale = tf.sqrt(total)
    below = None if sites.lower is None else (sites.lower - sites.mean) / scale
    moments = moments_in_graph(below, (sites.upper - sites.mean) / scale)
    start = sites.sd * moments.mean / scale
    longest = 3.0 + 0.25 * tf.abs(start)

    def newton(
        i: tf.Tensor, y: tf.Tensor, step: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        del step
        at = factor_at(sites, y)
        gradient = y - sites.power * sites.sd * at.slope
        curvature = 1.0 - sites.power * sites.sd**2 * at.curvature
        step = tf.clip_by_value(-gradient / curvature, -longest, longest)
        return i + 1, y + step, step

    def unsettled(i: tf.Tensor, y: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        # The nodes need no more than to be about the mode.
        return (i < _NEWTON_STEPS) & (tf.reduce_max(tf.abs(step)) > 0.1)

    return tf.while_loop(unsettled, newton, (0, start, tf.ones_like(start)))[1]
