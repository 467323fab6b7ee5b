"""What features of people say of their tastes: `s_u' W x`, a coefficient for each pair of features.

Besides `h_u`, what a person prefers beyond all others is linear in features s_u of the person and x
of the item, with coefficients `W_jd ~ N(0, v)` that all people share. These are inducing values of
their own, with the features `sqrt(v) s_uj x_d`: exact, whatever approximates the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.low_rank_base import InducingPosterior
from sparse_prefgp.covariances.projected import Projected
from sparse_prefgp.support.arrays import FloatArray, IntArray


class ByFeatures(NamedTuple):
    """Features of people, and the variance of the coefficients."""

    people: FloatArray
    """(K, S) about the mean of people with duels: these first, then others."""
    known: int
    """How many have duels."""
    variance: tf.Tensor
    """v."""
    width: int
    """D, how many columns of a row are features of the item."""

    @property
    def columns(self) -> int:
        """S D, how many coefficients there are."""
        return int(self.people.shape[1]) * self.width

    def of(self, numbers: IntArray, values: tf.Tensor) -> tf.Tensor:
        """Features (..., S D) of people at items, or at differences of items.

        :param numbers: (...,) of the people.
        :param values: (..., D and maybe more columns) features of items first.
        """
        return self.with_features(self.people[numbers], values)

    def with_features(self, people: FloatArray, values: tf.Tensor) -> tf.Tensor:
        """The same for features of people (..., S)."""
        theirs = tf.convert_to_tensor(people, values.dtype)[..., :, None]
        each = tf.sqrt(self.variance) * theirs * values[..., None, : self.width]
        return tf.reshape(each, [*(-1 if n is None else n for n in each.shape[:-2]), self.columns])

    def padded(self, features: tf.Tensor) -> tf.Tensor:
        """Features (N, m) of what all share, with zeros for the coefficients, (N, m + S D)."""
        return tf.pad(features, [[0, 0], [0, self.columns]])

    def prior(self, features: FloatArray) -> list[gpflow.kernels.Kernel]:
        """The kernel of `s' W x` for a person with features (S,); nothing where all are 0."""
        length = float(np.sum(features**2))
        if length == 0.0:
            return []
        return [gpflow.kernels.Linear(float(self.variance) * length, range(self.width))]

    def spread(self, u: InducingPosterior) -> list[gpflow.kernels.Kernel]:
        """The kernel of `s' W x` for a person drawn from those with duels, given what is known of
        the coefficients: nothing where all features of people, or of items, are 0.

        :param u: of all inducing values, the coefficients last.
        """
        theirs = self.people[: self.known] / np.sqrt(self.known)
        among = np.linalg.qr(theirs, mode="r")  # whose square is the second moment of s
        known = tf.concat([u.inverse, tf.transpose(u.mean)], 0)[:, -self.columns :]
        parts = known.numpy().reshape(-1, theirs.shape[1], self.width)
        moves = np.einsum("psd,qs->pqd", parts, among).reshape(-1, self.width)
        _, sizes, directions = np.linalg.svd(moves, full_matrices=False)
        root = float(np.sqrt(self.variance)) * directions.T * sizes
        if not np.any(root):
            return []
        one = gpflow.kernels.Linear()
        return [Projected(one, root, prior_share=None, active_dims=range(self.width))]
