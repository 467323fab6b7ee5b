"""A model whose hyperparameters are integrated out: a mixture of posteriors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from scipy.special import logsumexp

from sparse_prefgp.data.forecast import Forecast
from sparse_prefgp.models.coefficients import KnownCoefficients
from sparse_prefgp.models.preference_gp import PreferenceGP
from sparse_prefgp.models.views import View
from sparse_prefgp.support.arrays import FloatArray


class Mixture(NamedTuple):
    """Points of the hyperparameters, each a model of its own with its posterior."""

    points: tuple[PreferenceGP, ...]
    weights: FloatArray
    """(S,), which add up to 1."""

    def average(self, of: Callable[[PreferenceGP], Any]) -> tf.Tensor:
        """Of what is asked of each point."""
        return tf.add_n(
            [weight * of(point) for point, weight in zip(self.points, self.weights, strict=True)]
        )


@dataclass(frozen=True, eq=False)
class MixedPosterior:
    """q(f) of a mixture, by its exact moments."""

    parts: Sequence[Any]
    """A `Posterior` of each point."""
    weights: FloatArray

    def marginal(self, inputs: tf.Tensor) -> tf.Tensor:
        """Mean and variance side by side, (N, 2), for inputs (N, D)."""
        return self._moments([part.marginal(inputs) for part in self.parts])

    def difference(self, inputs: tf.Tensor) -> tf.Tensor:
        """Mean and variance of f(x) - f(x'), (N, 2), for stacked pairs (N, 2, D)."""
        return self._moments([part.difference(inputs) for part in self.parts])

    def mean(self, inputs: tf.Tensor) -> tf.Tensor:
        """E f, (N,), for inputs (N, D)."""
        means = [part.mean(inputs) for part in self.parts]
        return tf.linalg.matvec(tf.stack(means, 1), self.weights)

    def joint(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean (N,) and covariance (N, N) for inputs (N, D)."""
        means, covariances = zip(*(part.joint(inputs) for part in self.parts), strict=True)
        each = tf.stack(means, 1)
        mean = tf.linalg.matvec(each, self.weights)
        apart = (each - mean[:, None]) * np.sqrt(self.weights)
        within = tf.add_n([w * c for w, c in zip(self.weights, covariances, strict=True)])
        return mean, within + tf.matmul(apart, apart, transpose_b=True)

    def _moments(self, each: list[tf.Tensor]) -> tf.Tensor:
        both = tf.stack(each, 2)
        mean, within = tf.unstack(tf.linalg.matvec(both, self.weights), axis=1)
        between = tf.linalg.matvec((both[:, 0] - mean[:, None]) ** 2, self.weights)
        return tf.stack([mean, within + between], 1)


class IntegratedGP(PreferenceGP):
    """A model of duels whose predictions average over its hyperparameters.

    Parameters, evidence, sites and bounds are those of the mode, `at_mode`; utilities, differences
    and outcomes are those of a mixture. Made by `spg.integrate`.
    """

    mixture: Mixture

    @classmethod
    def of(
        cls, at_mode: PreferenceGP, points: Sequence[PreferenceGP], weights: FloatArray
    ) -> IntegratedGP:
        """The mixture about a model, whose parameters it shares."""
        made: IntegratedGP = copy.copy(at_mode)  # type: ignore[assignment]
        made.__class__ = cls
        # A plain object, so that the parameters of the points are none of the model's.
        object.__setattr__(made, "_mixture", _Held(Mixture(tuple(points), weights)))
        return made
