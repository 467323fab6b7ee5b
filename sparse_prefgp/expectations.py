"""Expected log factors under a normal and their derivatives, in TensorFlow.

The panels are those of `quadrature`, whose value they share; this is the version to differentiate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.quadrature import BREAKS, EVEN, NODES, REACH, WEIGHTS
from sparse_prefgp.truncated_normal import truncated_moments

# So many sites at a time: a few hundred nodes each, which bounds the memory.
_CHUNK = 128
_NODE_WEIGHTS = WEIGHTS / np.sqrt(2.0 * np.pi)


class ExpectedLogFactor(NamedTuple):
    """E log p(z) and its first two derivatives in the mean of z, (t,) each.

    With g and h the first two derivatives of log p, slope = E g and curvature = E h.
    """

    value: tf.Tensor
    slope: tf.Tensor
    curvature: tf.Tensor


def expected_log_factor(
    mean: tf.Tensor,
    variance: tf.Tensor,
    noise: tf.Tensor,
    lower: tf.Tensor | None,
    upper: tf.Tensor,
) -> ExpectedLogFactor:
    """E log P(lower < z + N(0, noise) < upper) for z ~ N(mean, variance), with derivatives.

    The derivative in the variance is half the curvature (Price's theorem). Panels and accuracy are
    those of `quadrature.expected_log_factor`. Automatic differentiation of the result is refused:
    use the derivatives, or `expected_log_cdf`.

    :param mean, variance, noise, lower, upper: (t,); variance >= 0, noise > 0. lower None is -inf
        everywhere, and upper is finite then; otherwise limits may be infinite.
    """
    value, slope, curvature, _ = _expectations(mean, variance, noise, lower, upper)
    return ExpectedLogFactor(value, slope, curvature)


@tf.custom_gradient
def expected_log_cdf(
    mean: tf.Tensor, variance: tf.Tensor, noise: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]]:
    """E log Phi(g / sqrt(noise)) for g ~ N(mean, variance), (t,), to be differentiated once.

    :param mean, variance, noise: (t,); variance >= 0, noise > 0.
    """
    # The event g + N(0, noise) > 0 is -g + N(0, noise) < 0.
    value, slope, curvature, in_noise = _expectations(
        -mean, variance, noise, None, tf.zeros_like(mean)
    )

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return -upstream * slope, 0.5 * upstream * curvature, upstream * in_noise

    return value, gradient


def _expectations(
    mean: tf.Tensor,
    variance: tf.Tensor,
    noise: tf.Tensor,
    lower: tf.Tensor | None,
    upper: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Value, slope, curvature and derivative in the noise, a few sites at a time."""
    given = [mean, variance, noise, upper] + ([] if lower is None else [lower])
    sites = tf.stack([tf.convert_to_tensor(x) for x in given], 1)
    return tuple(tf.unstack(_in_chunks(sites), axis=1))


@tf.custom_gradient
def _in_chunks(sites: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """`_some` on any number of sites, as what nobody may differentiate."""
    t, columns = tf.shape(sites)[0], sites.shape[1]
    # Chunks of one shape are compiled once; the last is filled up with the last site.
    chunks = (t + _CHUNK - 1) // _CHUNK
    filled = tf.gather(tf.stop_gradient(sites), tf.minimum(tf.range(chunks * _CHUNK), t - 1))
    stacked = tf.reshape(filled, [chunks, _CHUNK, columns])
    found = tf.map_fn(_fused_some, stacked, fn_output_signature=sites.dtype)

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        raise LookupError(
            "Expected log factors have no automatic derivatives here; take their slope and "
            "curvature."
        )

    return tf.reshape(found, [-1, 4])[:t], gradient


def _some(sites: tf.Tensor) -> tf.Tensor:
    """Value, slope, curvature and derivative in the noise of a few sites, (t, 4).

    :param sites: mean, variance, noise, upper and perhaps lower, (t, 4) or (t, 5).
    """
    mean, variance, noise, upper, *rest = tf.unstack(sites, axis=1)
    lower = rest[0] if rest else None
    sd, noise_sd = tf.sqrt(variance), tf.sqrt(noise)
    # A z without variance has no scale for breaks.
    unit = tf.where(sd > 0.0, sd, tf.ones_like(sd))[:, None]
    even = tf.constant(EVEN, mean.dtype)
    edges = [tf.broadcast_to(even, [tf.shape(mean)[0], len(EVEN)])]
    for limit in [upper, *rest]:
        around = (limit - mean)[:, None] + noise_sd[:, None] * tf.constant(BREAKS, mean.dtype)
        edges.append(tf.clip_by_value(around / unit, -REACH, REACH))
    edge = tf.sort(tf.concat(edges, 1), axis=1)
    centre, half = 0.5 * (edge[:, 1:] + edge[:, :-1]), 0.5 * (edge[:, 1:] - edge[:, :-1])
    x = centre[:, :, None] + half[:, :, None] * tf.constant(NODES, mean.dtype)
    weight = half[:, :, None] * tf.constant(_NODE_WEIGHTS, mean.dtype) * tf.exp(-0.5 * x * x)
    z = mean[:, None, None] + sd[:, None, None] * x
    scale = noise_sd[:, None, None]
    below = None if lower is None else (lower[:, None, None] - z) / scale
    moments = truncated_moments(below, (upper[:, None, None] - z) / scale)

    def expected(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(weight * values, [1, 2])

    value, drift, reduction = map(expected, (moments.log_mass, moments.mean, moments.reduction))
    # g = mean / s and h = -(1 - V) / s² of the standard truncated normal, and the derivative of
    # log p in the noise is (g² + h) / 2 (docs/method.md, section 2).
    in_noise = 0.5 * expected(moments.mean**2 - moments.reduction) / noise
    return tf.stack([value, drift / noise_sd, -reduction / noise, in_noise], 1)


# Tails and sums in one pass over the nodes: op by op it takes twice as long.
_fused_some = tf.function(_some, jit_compile=True, autograph=False)
