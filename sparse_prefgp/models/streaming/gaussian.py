"""What the parts of the duels tell each other: Gaussians over m whitened inducing values.

A part k of the duels is one Gaussian site over u, with natural parameters
`Lambda_k = Phi_k' T_k Phi_k` and `eta_k = Phi_k' s_k`; the posterior of u has the precision
`P = I + sum Lambda_k` and the shift `h = sum eta_k` (docs/method.md, section 15).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.covariances.levels import JointPosterior, LevelsPosterior, LevelSums
from sparse_prefgp.covariances.low_rank_base import Sums, condition
from sparse_prefgp.support.arrays import FloatArray


class Natural(NamedTuple):
    """precision (m, m), symmetric, and shift (m,) of a Gaussian over u, or of a site on it."""

    precision: FloatArray
    shift: FloatArray

    @classmethod
    def zeros(cls, size: int) -> Natural:
        return cls(np.zeros((size, size)), np.zeros(size))

    @classmethod
    def prior(cls, size: int) -> Natural:
        """Whitened u ~ N(0, I)."""
        return cls(np.eye(size), np.zeros(size))

    def plus(self, other: Natural) -> Natural:
        return Natural(self.precision + other.precision, self.shift + other.shift)

    def minus(self, other: Natural) -> Natural:
        return Natural(self.precision - other.precision, self.shift - other.shift)

    def packed(self) -> FloatArray:
        """The lower triangle by rows and then the shift: m (m + 1) / 2 + m numbers."""
        triangle = self.precision[np.tril_indices(len(self.shift))]
        return np.concatenate([triangle, self.shift])

    @classmethod
    def unpacked(cls, numbers: FloatArray) -> Natural:
        """What `packed` gave."""
        size = size_of(len(numbers))
        precision = np.zeros((size, size))
        precision[np.tril_indices(size)] = numbers[: len(numbers) - size]
        precision += np.tril(precision, -1).T
        return cls(precision, numbers[len(numbers) - size :].copy())

    @classmethod
    def of(cls, sums: Sums) -> Natural:
        """What sites say of u."""
        return cls(sums.precision.numpy(), sums.shift.numpy()[:, 0])

    def posterior(self, levels: int = 0, each: int = 0) -> JointPosterior:
        """The Gaussian itself; its ½ log|P| is NaN where the precision is not positive definite.

        :param levels: how many levels come last, which do not meet: these are eliminated.
        :param each: effects of a level.
        """
        precision, shift = map(as_float, (self.precision, self.shift[:, None]))
        if not levels:
            return condition(precision, shift)
        return LevelsPosterior.of(LevelSums.parted(precision, shift, levels, each))


def numbers_of(size: int) -> int:
    """How many numbers `packed` has for m = size."""
    return size * (size + 1) // 2 + size


def size_of(numbers: int) -> int:
    """The inverse of `numbers_of`: m² + 3 m = 2 numbers."""
    size = round((np.sqrt(9.0 + 8.0 * numbers) - 3.0) / 2.0)
    assert numbers_of(size) == numbers
    return size
