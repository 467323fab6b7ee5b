"""Log factors averaged over a normal, with their derivatives, in TensorFlow.

Two rules, by how much wider the normal is than the noise of the factor. Where it is not much wider,
equidistant nodes: log Phi is analytic, with its singularities 2.8 noise standard deviations off the
real line, so that the trapezoid rule converges geometrically (Trefethen & Weideman 2014). Where it
is, the panels of `quadrature`, whose number does not grow with the ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.factors.quadrature import BREAKS, EVEN, NODES, REACH, WEIGHTS
from sparse_prefgp.factors.truncated_normal import LOG_SQRT_2PI, truncated_moments

# Equidistant nodes have steps of half the smaller of the normal's and the noise's standard
# deviation, exact to 1e-14. Those for ratios up to 3 take a third of the time of the panels.
_STEPS_PER_SD = 2.0
EVEN_RATIOS = (0.0, 1.0, 3.0)  # 0: no variance, one node
PANELS = len(EVEN_RATIOS)  # the rule for wider ones
_COLUMNS = 6  # of a table of sites without lower limits
# So many sites at a time: a few hundred nodes each, which bounds the memory.
_CHUNK = 128


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


class FactorValues(NamedTuple):
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
    """E log P(lower < z + N(0, noise) < upper) for z ~ N(mean, variance), with all derivatives.

    The error is below 1e-12 of the value for variances up to 1e6 times the noise. Automatic
    differentiation of the result is refused.

    :param mean: (t,).
    :param variance: (t,), >= 0.
    :param noise: (t,), > 0.
    :param lower: (t,), may be -inf; None is -inf everywhere, and `upper` is finite then.
    :param upper: (t,), may be inf.
    """
    table = site_table(mean, variance, noise, lower, upper)
    return Averages(*tf.unstack(in_chunks(_average, len(Averages._fields), table), axis=1))


def average_slopes(
    mean: tf.Tensor,
    variance: tf.Tensor,
    noise: tf.Tensor,
    lower: tf.Tensor | None,
    upper: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Slope and curvature of `average_log_factor` alone, which take half of its time."""
    table = site_table(mean, variance, noise, lower, upper)
    slope, curvature = tf.unstack(in_chunks(_average_slopes, 2, table), axis=1)
    return slope, curvature


@tf.custom_gradient
def expected_log_cdf(
    mean: tf.Tensor, variance: tf.Tensor, noise: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]]:
    """E log Phi(g / sqrt(noise)) for g ~ N(mean, variance), (t,), to be differentiated once.

    :param mean: (t,).
    :param variance: (t,), >= 0.
    :param noise: (t,), > 0.
    """
    # The event g + N(0, noise) > 0 is -g + N(0, noise) < 0.
    found = average_log_factor(-mean, variance, noise, None, tf.zeros_like(mean))

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
    """The fields of `NormalSites` as columns, centre 0, (t, 6), or (t, 7) with lower limits."""
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

    @tf.custom_gradient
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
    at = factor_at(sites, sites.mean + sites.sd * y)
    in_noise = 0.5 * (at.slope**2 + at.curvature)  # the heat equation
    values = (at.log, at.slope, at.curvature, in_noise, at.upper, at.lower)
    return tuple(tf.reduce_sum(weight * x, 1) for x in values)


def _average_slopes(sites: NormalSites, rule: int) -> tuple[tf.Tensor, ...]:
    y, weight = _normal_nodes(sites, rule)
    below, above, scale = standardised(sites, sites.mean + sites.sd * y)
    moments = truncated_moments(below, above)
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


def standardised(sites: NormalSites, z: tf.Tensor) -> tuple[tf.Tensor | None, tf.Tensor, tf.Tensor]:
    """Limits as the noise sees them from z (k, p), and the standard deviation of the noise."""
    scale = tf.sqrt(sites.noise)
    below = None if sites.lower is None else (sites.lower - z) / scale
    return below, (sites.upper - z) / scale, scale


def factor_at(sites: NormalSites, z: tf.Tensor) -> FactorValues:
    """The factors at z (k, p)."""
    below, above, scale = standardised(sites, z)
    moments = truncated_moments(below, above)
    if below is None:
        upper, lower = -moments.mean, tf.zeros_like(above)
    else:
        upper, lower = limit_densities(below, above, moments.log_mass)
    return FactorValues(
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
        value = tf.exp(-0.5 * finite**2 - LOG_SQRT_2PI - log_mass)
        return tf.where(far, tf.zeros_like(limit), value)

    return density(above), density(below)
