"""The candidates while duels are asked whose answers are not known yet.

Asking about d = f(a) - f(b) takes r Cov[g, d]² off the variance of any utility g, on average over
the answer (`acquisition.expected_reduction`), and leaves its mean where it is, on average too. So
one column of covariances, O(m) a candidate, is all that a pick costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparse_prefgp.analysis.acquisition import expected_reduction
from sparse_prefgp.analysis.candidates import CandidatePairs, numbered_inputs
from sparse_prefgp.analysis.prediction import predicted
from sparse_prefgp.covariances.kernels import as_float

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP

FloatArray = npt.NDArray[np.float64]

# Items in TensorFlow at a time.
_CHUNK = 2048
# Numbers that the features of all items may take, 160 MB; above, they are computed for every pick.
_KEPT_NUMBERS = 20_000_000


class AskedPairs:
    """Means and variances of the candidate pairs, given the duels and those asked so far.

    mean, variance: (N,) of f(first) - f(second). negative_variances: how many of them rounding had
    made negative at the start; they are set to 0. duel_noise: 2 sigma².
    """

    def __init__(self, model: PreferenceGP, pairs: CandidatePairs) -> None:
        self.pairs = pairs
        self.duel_noise = 2.0 * float(model.noise_variance.numpy())
        _, self.mean, variance = predicted(model, pairs.items, pairs.first, pairs.second)
        self.negative_variances = int((variance < 0.0).sum())
        self.variance = np.maximum(variance, 0.0)
        self._posterior = model.posterior
        self._inputs = numbered_inputs(model, pairs.items)
        self._features: list[tf.Tensor] | None = None
        # (u, picks): Cov[f, d] of each pick at its time, times the root of its reduction.
        self._columns = np.empty((len(self._inputs), 0))

    def ask(self, pair: int) -> None:
        """Go on as if the pair were asked."""
        first, second = int(self.pairs.first[pair]), int(self.pairs.second[pair])
        reduction = expected_reduction(
            self.mean[pair : pair + 1], self.variance[pair : pair + 1], self.duel_noise
        )
        column = np.sqrt(reduction) * self.covariance_with(first, second)
        taken = (column[self.pairs.first] - column[self.pairs.second]) ** 2
        self.variance = np.maximum(self.variance - taken, 0.0)  # negative only by rounding
        self._columns = np.column_stack([self._columns, column])

    def covariance_with(self, first: int, second: int) -> FloatArray:
        """Cov[f, f(first) - f(second)] of the u items, given what was asked."""
        before = self._columns @ (self._columns[first] - self._columns[second])
        return np.asarray(self._posterior_covariance(first, second) - before, dtype=float)

    def _posterior_covariance(self, first: int, second: int) -> FloatArray:
        posterior = self._posterior
        ends = as_float(self._inputs[[first, second]])
        features = posterior.features(ends)
        reduced = tf.linalg.matvec(posterior.terms.reduction, features[0] - features[1])
        parts = []
        for i, part in enumerate(self._parts()):
            between = posterior.kernel(part, ends)
            explained = tf.linalg.matvec(self._features_of(i, part), reduced)
            parts.append((between[:, 0] - between[:, 1] - explained).numpy())
        column = np.concatenate(parts)
        # What an item shares with itself alone, such as white noise, no second row shows.
        alone = posterior.kernel(ends, full_cov=False).numpy()
        alone -= [float(posterior.kernel(x[None], x[None])[0, 0]) for x in ends]
        column[first] += alone[0]
        column[second] -= alone[1]
        return column

    def _parts(self) -> list[tf.Tensor]:
        return [as_float(self._inputs[i : i + _CHUNK]) for i in range(0, len(self._inputs), _CHUNK)]

    def _features_of(self, number: int, part: tf.Tensor) -> tf.Tensor:
        """Features of a part of the items, kept where they fit."""
        width = self._posterior.terms.reduction.shape[0]
        if len(self._inputs) * width > _KEPT_NUMBERS:
            return self._posterior.features(part)
        if self._features is None:
            self._features = [self._posterior.features(each) for each in self._parts()]
        return self._features[number]
