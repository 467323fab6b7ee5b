"""The one place where log evidence and its gradient are assembled.

In nats, total over all duels.
"""

from __future__ import annotations

import tensorflow as tf

from sparse_prefgp.approximations.base import DuelPrior
from sparse_prefgp.sites import Cavity, Sites, Tilted, totals


def site_terms(sites: Sites, cavity: Cavity, tilted: Tilted, counts: tf.Tensor) -> tf.Tensor:
    """Sum over sites of the part of log Z that a site and its cavity decide, a scalar.

    log Z_i + ½ m_c (tau m_c - nu) / (1 + v_c tau) + ½ log(1 + v_c tau), each as often as it
    counts: the sum of log Z_i, the psi terms and ½ nu' mu, without their cancellation
    (docs/method.md, section 3).
    """
    m, v = cavity
    gain = 1.0 + v * sites.tau
    each = tilted.log_mass + 0.5 * m * (sites.tau * m - sites.nu) / gain
    return tf.reduce_sum(counts * (each + 0.5 * tf.math.log(gain)))


def log_evidence(
    sites: Sites,
    cavity: Cavity,
    tilted: Tilted,
    half_log_det: tf.Tensor,
    counts: tf.Tensor,
    correction: tf.Tensor | float = 0.0,
) -> tf.Tensor:
    """EP log evidence: site terms - ½ log|P| + the approximation's correction, a scalar."""
    return site_terms(sites, cavity, tilted, counts) - half_log_det + correction


def differentiable_log_evidence(
    prior: DuelPrior,
    sites: Sites,
    tilted: Tilted,
    kept: tuple[tf.Tensor, ...],
    value: tf.Tensor,
) -> tf.Tensor:
    """`value` with its exact gradient in everything `prior` was built from.

    `kept` is what the covariance's `marginals` kept for the same sites.

    At a fixed point log Z is stationary in sites and cavities, so they are held, and what is left
    is the surrogate of docs/method.md, section 5: linear in the covariance, the noise of each duel
    and the offsets, with weights known in closed form.
    """
    factors = prior.factors
    precision, shift = map(tf.stop_gradient, totals(sites, factors.counts))
    slope, curvature = tilted.slope, tilted.curvature
    by_noise = tf.stop_gradient(0.5 * factors.counts * (slope**2 + curvature))
    by_offset = tf.stop_gradient(factors.counts * slope)
    surrogate = (
        prior.covariance.surrogate(precision, shift, kept)
        + tf.reduce_sum(by_noise * factors.noise)
        + tf.reduce_sum(by_offset * prior.offset)
        + prior.correction
    )
    return tf.stop_gradient(value) + (surrogate - tf.stop_gradient(surrogate))
