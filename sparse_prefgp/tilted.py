"""Log factors averaged over a normal, and powers of factors integrated against one.

Both integrands are analytic near the real line: log Phi has its singularities 2.8 noise standard
deviations off it. The trapezoid rule then converges geometrically (Trefethen & Weideman 2014), and
steps of half the smaller of the two standard deviations are exact to 1e-14.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.truncated_normal import truncated_moments

_LOG_SQRT_2PI = float(0.5 * np.log(2.0 * np.pi))
# Standard deviations on either side: 1e-17 of a normal's mass lies beyond.
_REACH = 8.75
_STEPS_PER_SD = 2.0
_NEWTON_STEPS = 25
# So many numbers at a time: bounds the memory, whatever the number of sites and nodes.
_CHUNK = 1_000_000


class Averages(NamedTuple):
    """A functional F of the factor under a normal of mean m, and its derivatives; (t,) each.

    value: F. slope, curvature: dF/dm, d²F/dm². noise, upper, lower: dF by the factor's noise and
    limits. spread: variance of the integrand over that of the normal; 1 where F is an average.
    """

    value: tf.Tensor
    slope: tf.Tensor
    curvature: tf.Tensor
    noise: tf.Tensor
    upper: tf.Tensor
    lower: tf.Tensor
    spread: tf.Tensor


class _Sites(NamedTuple):
    """Sites with their normals and factors, (t,) each, or (t, 1) beside nodes."""

    mean: tf.Tensor
    sd: tf.Tensor
    noise: tf.Tensor
    lower: tf.Tensor | None
    upper: tf.Tensor


class _Factor(NamedTuple):
    """A factor at nodes z: log p, d/dz, d²/dz², and d/d(upper), d/d(lower)."""

    log: tf.Tensor
    slope: tf.Tensor
    curvature: tf.Tensor
    upper: tf.Tensor
    lower: tf.Tensor


def average_log_factor(
    mean: tf.Tensor,
    variance: tf.Tensor,
    noise: tf.Tensor,
    lower: tf.Tensor | None,
    upper: tf.Tensor,
) -> Averages:
    """F = E log p(z) for z ~ N(mean, variance), p(z) = P(lower < z + N(0, noise) < upper).

    :param mean, variance, noise, lower, upper: (t,); variance >= 0, noise > 0; lower None is -inf
        everywhere, with finite upper.
    """
    sites = _Sites(mean, tf.sqrt(variance), noise, lower, upper)
    return (_averages_in_graph if tf.executing_eagerly() else _averages)(sites)


def power_moments(
    mean: tf.Tensor,
    variance: tf.Tensor,
    noise: tf.Tensor,
    lower: tf.Tensor | None,
    upper: tf.Tensor,
    power: float,
) -> Averages:
    """F = log of the integral of N(z | mean, variance) p(z)^power; p as in `average_log_factor`.

    Source: power EP, Minka (2004).
    """
    sites = _Sites(mean, tf.sqrt(variance), noise, lower, upper)
    return (_powers_in_graph if tf.executing_eagerly() else _powers)(sites, power)


def _averages(sites: _Sites) -> Averages:
    return _by_chunks(_average, sites)


def _powers(sites: _Sites, power: float) -> Averages:
    return _by_chunks(lambda some, y: _power(some, y, power), sites)


# A graph with free shapes is traced once and spares eager calls op by op.
_averages_in_graph = tf.function(_averages, autograph=False, reduce_retracing=True)
_powers_in_graph = tf.function(_powers, autograph=False, reduce_retracing=True)


def _by_chunks(
    compute: Callable[[_Sites, tf.Tensor], tuple[tf.Tensor, ...]], sites: _Sites
) -> Averages:
    """`compute` on some sites at a time, with as many nodes as the widest normal needs."""
    given = [x for x in sites if x is not None]
    table = tf.stack(given, 1)
    t = tf.shape(table)[0]
    ratio = tf.reduce_max(sites.sd / tf.sqrt(sites.noise))
    # What is not finite has no number of nodes; the result will not be finite either.
    ratio = tf.where(tf.math.is_finite(ratio), tf.maximum(ratio, tf.ones_like(ratio)), 1.0)
    count = tf.cast(tf.math.ceil(2.0 * _REACH * _STEPS_PER_SD * ratio), tf.int32) + 1
    y = tf.linspace(tf.cast(-_REACH, table.dtype), tf.cast(_REACH, table.dtype), count)
    size = tf.maximum(_CHUNK // count, 1)
    number = (t + size - 1) // size
    fields = len(Averages._fields)
    parts = tf.TensorArray(table.dtype, number, infer_shape=False, element_shape=[None, fields])

    def step(i: tf.Tensor, parts: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        columns = tf.unstack(table[i * size : (i + 1) * size, :, None], len(given), axis=1)
        upper, lower = columns[-1], columns[3] if len(given) == 5 else None
        found = compute(_Sites(*columns[:3], lower, upper), y)
        return i + 1, parts.write(i, tf.stack(found, 1))

    _, parts = tf.while_loop(lambda i, _: i < number, step, (0, parts), parallel_iterations=1)
    columns = tf.unstack(tf.ensure_shape(parts.concat(), [None, fields]), axis=1)
    return Averages(*[tf.ensure_shape(c, sites.mean.shape) for c in columns])


def _average(sites: _Sites, y: tf.Tensor) -> tuple[tf.Tensor, ...]:
    weight = tf.exp(-0.5 * y * y - _LOG_SQRT_2PI) * (y[1] - y[0])
    at = _factor(sites, sites.mean + sites.sd * y)

    def mean(values: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matvec(values, weight)

    in_noise = 0.5 * (at.slope**2 + at.curvature)  # the heat equation
    values = [mean(x) for x in (at.log, at.slope, at.curvature, in_noise, at.upper, at.lower)]
    return (*values, tf.ones_like(values[0]))


def _power(sites: _Sites, y: tf.Tensor, power: float) -> tuple[tf.Tensor, ...]:
    mode = _mode(sites, power)
    y = mode + y
    at = _factor(sites, sites.mean + sites.sd * y)
    log_density = power * at.log - 0.5 * y * y - _LOG_SQRT_2PI
    log_mass = tf.reduce_logsumexp(log_density, 1) + tf.math.log(y[0, 1] - y[0, 0])
    weight = tf.nn.softmax(log_density, 1)

    def mean(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(weight * values, 1)

    slope = mean(at.slope)
    apart = mean((at.slope - slope[:, None]) ** 2)
    in_noise = mean(0.5 * (at.slope**2 + at.curvature))
    centre = mean(y)
    return (
        log_mass,
        power * slope,
        power * mean(at.curvature) + power**2 * apart,
        power * in_noise,
        power * mean(at.upper),
        power * mean(at.lower),
        mean((y - centre[:, None]) ** 2),
    )


def _mode(sites: _Sites, power: float) -> tf.Tensor:
    """Where y²/2 - power log p(mean + sd y) is least, (t, 1).

    The function is convex with a curvature of at least 1. Newton's steps from the mean under the
    whole factor, which is nearer to the truth than the prior's, settle in a few; steps are
    bounded, so that an interval far away does not throw them off.
    """
    total = sites.sd**2 + sites.noise
    scale = tf.sqrt(total)
    below = None if sites.lower is None else (sites.lower - sites.mean) / scale
    moments = truncated_moments(below, (sites.upper - sites.mean) / scale)
    start = sites.sd * moments.mean / scale

    def newton(
        i: tf.Tensor, y: tf.Tensor, step: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        del step
        at = _factor(sites, sites.mean + sites.sd * y)
        gradient = y - power * sites.sd * at.slope
        curvature = 1.0 - power * sites.sd**2 * at.curvature
        step = tf.clip_by_value(-gradient / curvature, -3.0, 3.0)
        return i + 1, y + step, step

    def unsettled(i: tf.Tensor, y: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        # The nodes need no more than to be about the mode.
        return (i < _NEWTON_STEPS) & (tf.reduce_max(tf.abs(step)) > 0.1)

    return tf.while_loop(unsettled, newton, (0, start, tf.ones_like(start)))[1]


def _factor(sites: _Sites, z: tf.Tensor) -> _Factor:
    scale = tf.sqrt(sites.noise)
    above = (sites.upper - z) / scale
    below = None if sites.lower is None else (sites.lower - z) / scale
    moments = truncated_moments(below, above)
    if below is None:
        upper, lower = -moments.mean, tf.zeros_like(above)
    else:
        upper, lower = limit_densities(below, above, moments.log_mass)
    return _Factor(
        moments.log_mass,
        moments.mean / scale,
        -moments.reduction / sites.noise,
        upper / scale,
        -lower / scale,
    )


def limit_densities(
    below: tf.Tensor, above: tf.Tensor, log_mass: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """phi(b) / mass and phi(a) / mass of standard normals truncated to (a, b), 0 at infinity."""

    def density(limit: tf.Tensor) -> tf.Tensor:
        far = tf.math.is_inf(limit)
        finite = tf.where(far, tf.zeros_like(limit), limit)
        value = tf.exp(-0.5 * finite**2 - _LOG_SQRT_2PI - log_mass)
        return tf.where(far, tf.zeros_like(limit), value)

    return density(above), density(below)
