"""The candidates while duels are asked whose answers are not known yet.

Asking about d = f(a) - f(b) takes r Cov[g, d]² off the variance of any utility g, on average over
the answer (`acquisition.expected_reduction`), and leaves its mean where it is, on average too. So
one column of covariances, O(m) a candidate, is all that a pick costs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from sparse_prefgp.analysis.acquisition import expected_reduction
from sparse_prefgp.analysis.candidates import CandidatePairs
from sparse_prefgp.analysis.items import numbered_inputs
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix, pair_difference_variance
from sparse_prefgp.data.answers import Answers
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support.arrays import FloatArray

# Items in TensorFlow, and pairs in NumPy, at a time.
_CHUNK = 2048
# Numbers that the features of all items may take, 160 MB; above, they are computed for every pick.
_KEPT_NUMBERS = 20_000_000


class AskedPairs:
    """Means and variances of the candidate pairs, given the duels and those asked so far.

    The features of an item are computed once, so that a pair costs O(m) (of exact inference: as
    many as there are items or duels), and a pick O(m) an item.

    :ivar mean: (N,) of f(first) - f(second).
    :ivar variance: (N,) of f(first) - f(second).
    :ivar negative_variances: how many variances rounding had made negative at the start; they are
        set to 0.
    :ivar noises: of nobody in particular, as `Probit.of_nobody` has them.
    """

    def __init__(self, model: Predicts, pairs: CandidatePairs) -> None:
        model.allow(worth=True)
        self.pairs = pairs
        self.noises = model.likelihood.of_nobody()
        self._posterior = model.posterior()
        self._inputs = numbered_inputs(model, pairs.items)
        width = int(self._posterior.terms.reduction.shape[0])
        self._features: FloatArray | None = None
        if len(self._inputs) * width <= _KEPT_NUMBERS:
            parts = [self._posterior.features(x).numpy() for x in self._parts()]
            self._features = np.concatenate(parts)
            self.mean, variance = self._differences(self._features)
        else:
            found = model.predict(Answers.between(*pairs.ends.T), pairs.items.inputs)
            assert found.mean is not None and found.variance is not None
            self.mean, variance = found.mean, found.variance
        self.negative_variances = int((variance < 0.0).sum())
        self.variance = np.maximum(variance, 0.0)
        # (u, picks): Cov[f, d] of each pick at its time, times the root of its reduction.
        self._columns = np.empty((len(self._inputs), 0))

    def ask(self, pair: int) -> None:
        """Go on as if the pair were asked."""
        first, second = self.pairs.ends[pair].tolist()
        one = slice(pair, pair + 1)
        reduction = expected_reduction(self.mean[one], self.variance[one], **self.noises)
        column = np.sqrt(reduction) * self.covariance_with(first, second)
        taken = (column[self.pairs.first] - column[self.pairs.second]) ** 2
        self.variance = np.maximum(self.variance - taken, 0.0)  # negative only by rounding
        self._columns = np.column_stack([self._columns, column])

    def covariance_with(self, first: int, second: int) -> FloatArray:
        """Cov[f, f(first) - f(second)] of the u items, given what was asked."""
        posterior = self._posterior
        ends = as_float(self._inputs[[first, second]])
        ahead, behind = posterior.features(ends)
        reduced = tf.linalg.matvec(posterior.terms.reduction, ahead - behind).numpy()
        columns = []
        for x in self._parts():
            between = kernel_matrix(posterior.kernel, x, ends).numpy()
            columns.append(between[:, 0] - between[:, 1])
            if self._features is None:
                columns[-1] -= posterior.features(x).numpy() @ reduced
        column = np.concatenate(columns)
        if self._features is not None:
            column -= self._features @ reduced
        # What an item shares with itself alone, such as white noise, no second row shows.
        alone = posterior.kernel(ends, full_cov=False).numpy()
        alone -= [kernel_matrix(posterior.kernel, x[None], x[None]).numpy()[0, 0] for x in ends]
        column[first] += alone[0]
        column[second] -= alone[1]
        return column - self._columns @ (self._columns[first] - self._columns[second])

    def _differences(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of the pairs, (N,), from the features (u, m) of the items."""
        posterior, (first, second) = self._posterior, self.pairs.ends.T
        mean = features @ posterior.terms.weights.numpy()
        if posterior.mean_function is not None:
            parts = [posterior.mean_function(x)[:, 0].numpy() for x in self._parts()]
            mean += np.concatenate(parts)
        reduced = features @ posterior.terms.reduction.numpy()
        variance = np.empty(len(first))
        for i in range(0, len(first), _CHUNK):
            a, b = first[i : i + _CHUNK], second[i : i + _CHUNK]
            explained = np.sum((features[a] - features[b]) * (reduced[a] - reduced[b]), 1)
            prior = pair_difference_variance(
                posterior.kernel, as_float(self._inputs[a]), as_float(self._inputs[b])
            )
            variance[i : i + _CHUNK] = prior.numpy() - explained
        return mean[first] - mean[second], variance

    def _parts(self) -> Iterator[tf.Tensor]:
        for i in range(0, len(self._inputs), _CHUNK):
            yield as_float(self._inputs[i : i + _CHUNK])
