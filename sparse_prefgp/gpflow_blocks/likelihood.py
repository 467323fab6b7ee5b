"""The probability of a duel as a GPflow likelihood."""

from __future__ import annotations

from typing import Any

import gpflow
import tensorflow as tf

from sparse_prefgp.factors.expectations import expected_log_cdf
from sparse_prefgp.factors.truncated_normal import log_normal_cdf
from sparse_prefgp.support.checks import check_number


class DuelLikelihood(gpflow.likelihoods.ScalarLikelihood):
    """P(the first wins | g) = Phi(g / sqrt(2 sigma²)), for g = f(first) - f(second).

    Phi is exact, finite however improbable the outcome is, and its expectations are good to 1e-12
    for every ratio of variance and noise (`sparse_prefgp.factors.expectations`). GPflow's
    `Bernoulli` is another model, 0.998 Phi + 0.001, on 20 nodes of Gauss–Hermite.

    Y is (N, 1), 1 where the first won and 0 where the second did, or (N, 2) with a count of equal
    duels, which weighs the row, in the second column. GPflow takes as many latent functions as Y
    has columns, unless it is given a number: `VGP`, `GPMC` and `SGPMC` then need
    `num_latent_gps=1`. Predictions are about one duel: the mean of Y is the probability that the
    first wins.

    :param noise_variance: sigma² per side of a duel, positive, not trainable at first, because
        duels determine only its ratio to the kernel variance; 0.5 is the standard probit scale.
    :raises ValueError: a noise variance that is not positive; later, other labels than 0 and 1
        (within compiled functions `tf.errors.InvalidArgumentError`), or another shape of Y.
    """

    def __init__(self, noise_variance: float = 0.5) -> None:
        super().__init__()
        hint = " (train it with gpflow.set_trainable)"
        check_number("The noise variance", noise_variance, above=0.0, hint=hint)
        self.noise_variance = gpflow.Parameter(
            noise_variance, transform=gpflow.utilities.positive(), trainable=False
        )

    def _scalar_log_prob(self, X: Any, F: tf.Tensor, Y: tf.Tensor) -> tf.Tensor:
        sign, count = _outcomes(F, Y)
        return count * log_normal_cdf(sign * F / self._scale())

    def _conditional_mean(self, X: Any, F: tf.Tensor) -> tf.Tensor:
        return tf.exp(log_normal_cdf(F / self._scale()))

    def _conditional_variance(self, X: Any, F: tf.Tensor) -> tf.Tensor:
        return _either(F / self._scale())

    def _predict_mean_and_var(
        self, X: Any, Fmu: tf.Tensor, Fvar: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        z = self._standardised(Fmu, Fvar)
        return tf.exp(log_normal_cdf(z)), _either(z)

    def _predict_log_density(
        self, X: Any, Fmu: tf.Tensor, Fvar: tf.Tensor, Y: tf.Tensor
    ) -> tf.Tensor:
        sign, count = _outcomes(Fmu, Y)
        log_density = count * log_normal_cdf(sign * self._standardised(Fmu, Fvar))
        return tf.reduce_sum(log_density, -1)

    def _variational_expectations(
        self, X: Any, Fmu: tf.Tensor, Fvar: tf.Tensor, Y: tf.Tensor
    ) -> tf.Tensor:
        sign, count = _outcomes(Fmu, Y)
        zeros = tf.zeros_like(sign * Fmu + Fvar + count)  # of the shape of all
        mean, variance = (tf.reshape(x + zeros, [-1]) for x in (sign * Fmu, Fvar))
        noise = tf.fill([tf.size(zeros)], 2.0 * self.noise_variance)
        expected = expected_log_cdf(mean, variance, noise)
        return tf.reduce_sum(count * tf.reshape(expected, tf.shape(zeros)), -1)

    def _scale(self) -> tf.Tensor:
        return tf.sqrt(2.0 * self.noise_variance)

    def _standardised(self, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """E Phi(g / sqrt(2 sigma²)) = Phi(this), GPML eq. 3.80."""
        return mean / tf.sqrt(variance + 2.0 * self.noise_variance)


def _outcomes(F: tf.Tensor, Y: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """+1 where the first won and -1 where the second did, and the counts, (..., 1) each."""
    Y = tf.cast(Y, gpflow.default_float())  # labels may well be integers
    if F.shape[-1] != 1:
        raise ValueError(
            f"The model has {F.shape[-1]} latent functions, but duels have one; make it with "
            "num_latent_gps=1."
        )
    if Y.shape[-1] not in (1, 2):
        raise ValueError(
            f"Y has {Y.shape[-1]} columns; give one, the label, or two, the label and the count."
        )
    label = Y[..., :1]
    count = Y[..., 1:] if Y.shape[-1] == 2 else tf.ones_like(label)
    _check(label, (label == 0.0) | (label == 1.0), "label", "1 where the first won, else 0")
    _check(count, (count > 0.0) & tf.math.is_finite(count), "count", "positive counts")
    return 2.0 * label - 1.0, count


def _check(values: tf.Tensor, good: tf.Tensor, name: str, remedy: str) -> None:
    """Refuse values that are not good; a compiled function does so when it runs."""
    if not tf.executing_eagerly():
        tf.debugging.Assert(tf.reduce_all(good), [f"Y holds a wrong {name}; give {remedy}", values])
        return
    wrong = values[~good]
    if len(wrong):
        raise ValueError(f"Y holds the {name} {float(wrong[0]):g}; give {remedy}.")


def _either(z: tf.Tensor) -> tf.Tensor:
    """Phi(z) Phi(-z), the variance of a label, without 1 - Phi."""
    return tf.exp(log_normal_cdf(z) + log_normal_cdf(-z))
