"""The noise of a duel: that of its judge, or of one who is not known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.support.arrays import FloatArray

# Gauss–Hermite nodes over the log of the ratio.
_NODES = 20


def duel_noise(noise_variance: tf.Tensor, ratio: tf.Tensor | None = None) -> tf.Tensor:
    """D = 2 sigma² r, the noise variance of the difference of two items (docs/method.md, 14).

    :param noise_variance: sigma² per side.
    :param ratio: r, (t,), by what the judge of each duel multiplies it; None is 1, as a scalar.
    """
    noise = 2.0 * noise_variance
    return noise if ratio is None else noise * ratio


class NoiseRatios(NamedTuple):
    """By what the noise variance is multiplied in a duel to come: K values and their weights.

    A probability under them is the weighted sum of those at each ratio.
    """

    ratios: FloatArray
    """(K,), positive."""
    weights: FloatArray
    """(K,), positive, adding up to 1."""


# All duels have the noise of the model.
ONE_NOISE = NoiseRatios(np.ones(1), np.ones(1))


def ratios_of_unknown(mean: float, sd: float) -> NoiseRatios:
    """The ratio r of a group that is not known, log r ~ N(mean, sd²), at 20 Gauss–Hermite nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return NoiseRatios(np.exp(mean + sd * nodes), weights / weights.sum())
