"""The noise of a duel and the scale of its cuts: those of its judge, or of one not known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.support.arrays import FloatArray

# Gauss–Hermite nodes over the log of the ratio.
_NODES = 20
# Over the log of the scale of the cuts: where there is little noise a probability is a step in it,
# for which equal distances are better than Gauss–Hermite nodes. Probabilities are then good to 6e-6
# (20 × 20 Gauss–Hermite nodes: 1.6e-3) for differences without variance, and to 1e-7 from 0.1 on.
_SCALE_NODES, _SCALE_REACH = 41, 5.5
# Of a pair of nodes: all below it together weigh less than 1e-7.
_LEAST_WEIGHT = 1e-9


def duel_noise(noise_variance: tf.Tensor, ratio: tf.Tensor | None = None) -> tf.Tensor:
    """D = 2 sigma² r, the noise variance of the difference of two items (docs/method.md, 14).

    :param noise_variance: sigma² per side.
    :param ratio: r, (t,), by what the judge of each duel multiplies it; None is 1, as a scalar.
    """
    noise = 2.0 * noise_variance
    return noise if ratio is None else noise * ratio


class NoiseRatios(NamedTuple):
    """By what noise variance and cuts are multiplied in a duel to come: K pairs and their weights.

    A probability under them is the weighted sum of those at each ratio.
    """

    ratios: FloatArray
    """(K,), positive."""
    weights: FloatArray
    """(K,), positive, adding up to 1."""
    scales: FloatArray
    """(K,), positive, of the cuts."""


# All duels have the noise of the model.
ONE_NOISE = NoiseRatios(np.ones(1), np.ones(1), np.ones(1))


def ratios_of_unknown(
    mean: float, sd: float, cuts: tuple[float, float] | None = None
) -> NoiseRatios:
    """The ratio r of a group that is not known, log r ~ N(mean, sd²), at 20 Gauss–Hermite nodes.

    :param cuts: mean and sd of the log of the scale of its cuts, independent of r: then at these
        nodes and 41 equally far apart, but for pairs of a weight below 1e-9.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    if cuts is None:
        return NoiseRatios(np.exp(mean + sd * nodes), weights, np.ones(_NODES))
    steps = np.linspace(-_SCALE_REACH, _SCALE_REACH, _SCALE_NODES)
    of_steps = np.exp(-0.5 * steps**2)
    both = np.outer(weights, of_steps / of_steps.sum())
    i, j = np.nonzero(both >= _LEAST_WEIGHT)
    kept = both[i, j] / both[i, j].sum()
    return NoiseRatios(np.exp(mean + sd * nodes[i]), kept, np.exp(cuts[0] + cuts[1] * steps[j]))
