"""E log p of a factor under a normal: in NumPy, accurate enough to certify a bound with; in
TensorFlow, with its derivatives.

Panels of Gauss–Legendre nodes with breaks at the limits, whose number does not grow with the ratio
of the normal's width to the noise of the factor. Gauss–Hermite is not enough: a factor with little
noise has a kink that a few nodes step over, and 50 of them overstate E log Phi by 0.15 nats a duel
where the variance is 1,000 times the noise. In TensorFlow equidistant nodes take their place where
the normal is not much wider than the noise: log Phi is analytic, with its singularities 2.8 noise
standard deviations off the real line, so that the trapezoid rule converges geometrically (Trefethen
& Weideman 2014).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.factors.truncated_normal import (
    LOG_SQRT_2PI,
    Moments,
    log_mass,
    truncated_moments,
)
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.custom_gradient import custom_gradient

# The normal is cut off at so many standard deviations: 1e-23 of its mass lies beyond.
REACH = 10.0
_LONGEST_PANEL = 2.5
# Around a limit the log factor turns from 0 to a parabola within a few noise standard deviations;
# beyond them what is left of it changes with the logarithm of the distance, and its curvature with
# the square: a panel that is four times as far out at its end is exact for both.
_TURNS = np.array([0.0, 1.5, 3.0, 6.0, 24.0, 96.0, 384.0])
BREAKS = np.concatenate([-_TURNS[:0:-1], _TURNS])
EVEN = np.arange(-REACH, REACH + 0.5 * _LONGEST_PANEL, _LONGEST_PANEL)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
# So many numbers at a time in NumPy: bounds the memory, whatever the number of sites.
_NUMBERS = 500_000

# Equidistant nodes have steps of half the smaller of the normal's and the noise's standard
# deviation, exact to 1e-14. Those for ratios up to 3 take a third of the time of the panels.
_STEPS_PER_SD = 2.0
EVEN_RATIOS = (0.0, 1.0, 3.0)  # 0: no variance, one node
PANELS = len(EVEN_RATIOS)  # the rule for wider ones
_COLUMNS = 6  # of a table of sites without lower limits
# So many sites at a time: a few hundred nodes each, which bounds the memory.
_CHUNK = 128


def expected_log_factor(
    mean: FloatArray,
    variance: FloatArray,
    noise: FloatArray,
    lower: FloatArray | None,
    upper: FloatArray,
) -> FloatArray:
    """E log P(lower < z + N(0, noise) < upper) for z ~ N(mean, variance), (t,).

    Gauss–Legendre on panels of 16 nodes over mean ± 10 standard deviations, no panel longer than
    2.5 of them, with breaks at the limits and around them in units of the noise. The error is below
    1e-12 of the value for variances up to 1e6 times the noise; what lies beyond 10 standard
    deviations is 1e-21 variance / noise.

    :param mean: (t,); variance >= 0, noise > 0, limits may be infinite; lower None is -inf
        everywhere.
    :param variance: (t,); variance >= 0, noise > 0, limits may be infinite; lower None is -inf
        everywhere.
    :param noise: (t,); variance >= 0, noise > 0, limits may be infinite; lower None is -inf
        everywhere.
    :param lower: (t,); variance >= 0, noise > 0, limits may be infinite; lower None is -inf
        everywhere.
    :param upper: (t,); variance >= 0, noise > 0, limits may be infinite; lower None is -inf
        everywhere.
    """
    given = [
        None if x is None else np.asarray(x, float) for x in (mean, variance, noise, lower, upper)
    ]
    points = (len(EVEN) + (1 if lower is None else 2) * len(BREAKS)) * len(NODES)
    step = max(1, _NUMBERS // points)
    parts = [
        _expected([None if x is None else x[i : i + step] for x in given])
        for i in range(0, len(mean), step)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _expected(given: Sequence[Any]) -> FloatArray:
    mean, variance, noise, lower, upper = given
    sd, noise_sd = np.sqrt(variance), np.sqrt(noise)
    unit = np.where(sd > 0.0, sd, 1.0)[:, None]  # a z without variance has no scale for breaks
    edges = [np.broadcast_to(EVEN, (len(mean), len(EVEN)))]
    for limit in [upper] if lower is None else [lower, upper]:
        around = (limit - mean)[:, None] + noise_sd[:, None] * BREAKS
        edges.append(np.clip(around / unit, -REACH, REACH))
    edge = np.sort(np.concatenate(edges, 1), 1)
    centre, half = 0.5 * (edge[:, 1:] + edge[:, :-1]), 0.5 * np.diff(edge, axis=1)
    x = centre[:, :, None] + half[:, :, None] * NODES
    weight = half[:, :, None] * WEIGHTS * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    z = mean[:, None, None] + sd[:, None, None] * x
    scale = noise_sd[:, None, None]
    below = None if lower is None else (lower[:, None, None] - z) / scale
    return np.sum(weight * log_mass(below, (upper[:, None, None] - z) / scale), (1, 2))


class Averages(NamedTuple):
    """F = E log p(z) for a normal z, and its derivatives; (t,) each."""

    value: tf.Tensor
    """F."""
    slope: tf.Tensor
    """dF/dm in the mean m of z."""
    curvature: tf.Tensor
    """d²F/dm². The derivative in the variance of z is half of it (Price's theorem)."""
    noise: tf.Tensor
    """dF/d(noise) of the factor."""
    upper: tf.Tensor
    """dF/d(upper limit)."""
    lower: tf.Tensor
    """dF/d(lower limit)."""


class NormalSites(NamedTuple):
    """Normals and the factors they meet: columns (k, 1), to stand next to nodes."""

    mean: tf.Tensor
    sd: tf.Tensor
    noise: tf.Tensor
    upper: tf.Tensor
    centre: tf.Tensor
    """Of the nodes y of z = mean + sd y; 0 to average over the normal itself."""
    power: tf.Tensor
    """Of the factor, where its powers are integrated."""
    lower: tf.Tensor | None


def average_log_factor(table: tf.Tensor) -> Averages:
    """E log P(lower < z + N(0, noise) < upper) for z ~ N(mean, variance), with all derivatives.

    The error is below 1e-12 of the value for variances up to 1e6 times the noise. Automatic
    differentiation of the result is refused.

    :param table: `site_table` of the sites.
    """
    return Averages(*tf.unstack(in_chunks(_average, len(Averages._fields), table), axis=1))


def average_slopes(table: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Slope and curvature of `average_log_factor` alone, which take half of its time."""
    slope, curvature = tf.unstack(in_chunks(_average_slopes, 2, table), axis=1)
    return slope, curvature


@custom_gradient
def expected_log_cdf(
    mean: tf.Tensor, variance: tf.Tensor, noise: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]]:
    """E log Phi(g / sqrt(noise)) for g ~ N(mean, variance), (t,), to be differentiated once.

    :param mean: (t,).
    :param variance: (t,), >= 0.
    :param noise: (t,), > 0.
    """
    # The event g + N(0, noise) > 0 is -g + N(0, noise) < 0.
    table = site_table(-mean, variance, noise, None, tf.zeros_like(mean))
    found = average_log_factor(table)

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return -upstream * found.slope, 0.5 * upstream * found.curvature, upstream * found.noise

    return found.value, gradient


def site_table(
    mean: tf.Tensor,
    variance: tf.Tensor,
    noise: tf.Tensor,
    lower: tf.Tensor | None,
    upper: tf.Tensor,
    power: tf.Tensor | None = None,
) -> tf.Tensor:
    """The fields of `NormalSites` as columns, centre 0, (t, 6), or (t, 7) with lower limits.

    :param mean: (t,).
    :param variance: (t,), >= 0.
    :param noise: (t,), > 0.
    :param lower: (t,), may be -inf; None is -inf everywhere, and `upper` is finite then.
    :param upper: (t,), may be inf.
    :param power: (t,), of the factors; None for 1.
    """
    mean = tf.convert_to_tensor(mean)
    given = [mean, tf.sqrt(tf.convert_to_tensor(variance)), noise, upper, tf.zeros_like(mean)]
    given += [tf.ones_like(mean) if power is None else power]
    given += [] if lower is None else [lower]
    return tf.stack(given, 1)


def about(table: tf.Tensor, centre: tf.Tensor) -> tf.Tensor:
    """The table with other centres, (t, 1)."""
    return tf.concat([table[:, :4], centre, table[:, 5:]], 1)


def as_sites(table: tf.Tensor) -> NormalSites:
    """Columns (k, 1) of rows of a `site_table`."""
    mean, sd, noise, upper, centre, power = tf.unstack(table[:, :_COLUMNS, None], axis=1)
    lower = table[:, _COLUMNS:] if table.shape[1] > _COLUMNS else None
    return NormalSites(mean, sd, noise, upper, centre, power, lower)


# What is computed of some sites, (k, fields), by one of the rules.
Compute = Callable[[NormalSites, int], tuple[tf.Tensor, ...]]


def in_chunks(compute: Compute, fields: int, table: tf.Tensor) -> tf.Tensor:
    """`compute` on any number of sites, (t, fields); automatic differentiation is refused.

    :param compute: a function of a module, so that its compiled form is found again.
    """
    size, columns = table.shape
    # A single site is one of many, one after the other.
    run = _chunked(compute, fields, columns, table.dtype, 1 if size == 1 else _CHUNK)

    @custom_gradient
    def refusing(table: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            raise LookupError(
                "Expected log factors have no automatic derivatives here; take their slope and "
                "curvature."
            )

        return tf.ensure_shape(run(tf.stop_gradient(table)), [size, fields]), gradient

    return refusing(table)


@cache
def _chunked(
    compute: Compute, fields: int, columns: int, dtype: tf.DType, chunk: int
) -> Callable[[tf.Tensor], tf.Tensor]:
    """From tables (t, columns) to (t, fields) by `compute`, `chunk` sites at a time, as a graph.

    Each chunk goes by the rule that its widest normal needs.
    """
    by_rule = [_by_rule(compute, rule, columns, dtype) for rule in range(PANELS + 1)]

    def some(part: tf.Tensor) -> tf.Tensor:
        ratio = tf.reduce_max(part[:, 1] / tf.sqrt(part[:, 2]))
        # A NaN compares false and passes through any rule.
        rule = tf.add_n([tf.cast(ratio > r, tf.int32) for r in EVEN_RATIOS])
        return tf.switch_case(rule, [lambda f=f: f(part) for f in by_rule])

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, columns], dtype)])
    def run(table: tf.Tensor) -> tf.Tensor:
        if chunk == 1:
            return some(tf.ensure_shape(table, [1, columns]))
        # Chunks of one shape are compiled once; the last is filled up with the last site.
        t = tf.shape(table)[0]
        chunks = (t + chunk - 1) // chunk
        filled = tf.gather(table, tf.minimum(tf.range(chunks * chunk), t - 1))
        found = tf.map_fn(some, tf.reshape(filled, [chunks, chunk, columns]))
        return tf.reshape(found, [chunks * chunk, fields])[:t]

    return run


@cache
def _by_rule(
    compute: Compute, rule: int, columns: int, dtype: tf.DType
) -> Callable[[tf.Tensor], tf.Tensor]:
    # XLA makes one pass over the nodes of tails and sums, and compiles no rule that is not taken.
    @tf.function(
        autograph=False,
        jit_compile=True,
        input_signature=[tf.TensorSpec([None, columns], dtype)],
    )
    def run(part: tf.Tensor) -> tf.Tensor:
        return tf.stack(compute(as_sites(part), rule), 1)

    return run


def _average(sites: NormalSites, rule: int) -> tuple[tf.Tensor, ...]:
    y, weight = _normal_nodes(sites, rule)
    at = factor_at(sites, y)
    return tuple(tf.reduce_sum(weight * x, 1) for x in at)


def _average_slopes(sites: NormalSites, rule: int) -> tuple[tf.Tensor, ...]:
    y, weight = _normal_nodes(sites, rule)
    below, above, scale = standardised(sites, y)
    moments = moments_in_graph(below, above)
    slope = tf.reduce_sum(weight * moments.mean, 1) / scale[:, 0]
    return slope, -tf.reduce_sum(weight * moments.reduction, 1) / sites.noise[:, 0]


def _normal_nodes(sites: NormalSites, rule: int) -> tuple[tf.Tensor, tf.Tensor]:
    y, weight = nodes(sites, rule)
    return y, weight * tf.exp(-0.5 * y * y - LOG_SQRT_2PI)


def nodes(sites: NormalSites, rule: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Nodes y (k, p) of z = mean + sd y and their weights, over centre ± 10.

    :param rule: number of a ratio of the two standard deviations up to which the nodes serve; the
        last one is the panels, which serve them all.
    """
    centre = sites.centre
    if rule == 0:
        return centre, tf.fill(tf.shape(centre), tf.constant(np.sqrt(2.0 * np.pi), centre.dtype))
    if rule < PANELS:
        half = int(np.ceil(REACH * _STEPS_PER_SD * EVEN_RATIOS[rule]))
        even = tf.constant(np.linspace(-REACH, REACH, 2 * half + 1), centre.dtype)
        y = centre + even
        return y, tf.fill(tf.shape(y), tf.constant(REACH / half, centre.dtype))
    # A z without variance has no scale for breaks.
    unit = tf.where(sites.sd > 0.0, sites.sd, tf.ones_like(sites.sd))
    edges = [tf.constant(EVEN, centre.dtype) + tf.zeros_like(centre)]
    for limit in [sites.upper] + ([] if sites.lower is None else [sites.lower]):
        around = limit - sites.mean + tf.sqrt(sites.noise) * tf.constant(BREAKS, centre.dtype)
        edges.append(tf.clip_by_value(around / unit - centre, -REACH, REACH))
    edge = tf.sort(tf.concat(edges, 1), axis=1)
    middle, half_length = 0.5 * (edge[:, 1:] + edge[:, :-1]), 0.5 * (edge[:, 1:] - edge[:, :-1])
    y = middle[:, :, None] + half_length[:, :, None] * tf.constant(NODES, centre.dtype)
    weight = half_length[:, :, None] * tf.constant(WEIGHTS, centre.dtype)
    shape = [-1, (edge.shape[1] - 1) * len(NODES)]
    return centre + tf.reshape(y, shape), tf.reshape(weight, shape)


def standardised(sites: NormalSites, y: tf.Tensor) -> tuple[tf.Tensor | None, tf.Tensor, tf.Tensor]:
    """Limits as the noise sees them from z = mean + sd y (k, p), and its standard deviation."""
    z, scale = sites.mean + sites.sd * y, tf.sqrt(sites.noise)
    below = None if sites.lower is None else (sites.lower - z) / scale
    return below, (sites.upper - z) / scale, scale


def moments_in_graph(below: tf.Tensor | None, above: tf.Tensor) -> Moments:
    """`truncated_moments` of matrices of limits, traced once for all the rules that take them."""
    run = _traced_moments(below is None, above.dtype)
    found: Moments = run(above) if below is None else run(below, above)
    return found


@cache
def _traced_moments(one_sided: bool, dtype: tf.DType) -> Callable[..., Moments]:
    limits = tf.TensorSpec([None, None], dtype)
    if one_sided:
        return tf.function(partial(truncated_moments, None), [limits], autograph=False)
    return tf.function(truncated_moments, [limits, limits], autograph=False)


def factor_at(sites: NormalSites, y: tf.Tensor) -> Averages:
    """The log of the factors at z = mean + sd y (k, p) itself, with its derivatives."""
    below, above, scale = standardised(sites, y)
    moments = moments_in_graph(below, above)
    if below is None:
        upper, lower = -moments.mean, tf.zeros_like(above)
    else:
        upper, lower = limit_densities(below, above, moments.log_mass)
    slope, curvature = moments.mean / scale, -moments.reduction / sites.noise
    noise = 0.5 * (slope**2 + curvature)  # the heat equation
    return Averages(moments.log_mass, slope, curvature, noise, upper / scale, -lower / scale)


def limit_densities(
    below: tf.Tensor, above: tf.Tensor, log_mass: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """phi(b) / mass and phi(a) / mass of standard normals truncated to (a, b), 0 at infinity."""

    def density(limit: tf.Tensor) -> tf.Tensor:
        far = tf.math.is_inf(limit)
        finite = tf.where(far, tf.zeros_like(limit), limit)
        value = tf.exp(-0.5 * finite**2 - LOG_SQRT_2PI - log_mass)
        return tf.where(far, tf.zeros_like(limit), value)

    return density(above), density(below)
