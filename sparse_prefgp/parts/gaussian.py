"""What the parts of the duels tell each other: Gaussians over m whitened inducing values.

A part k of the duels is one Gaussian site over u, with natural parameters
`Lambda_k = Phi_k' T_k Phi_k` and `eta_k = Phi_k' s_k`; the posterior of u has the precision
`P = I + sum Lambda_k` and the shift `h = sum eta_k` (docs/method.md, section 15).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg

FloatArray = npt.NDArray[np.float64]


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

    def posterior(self) -> Posterior:
        """The Gaussian itself; NaN throughout where the precision is not positive definite."""
        try:
            factor = np.linalg.cholesky(self.precision)
        except np.linalg.LinAlgError:
            factor = np.full_like(self.precision, np.nan)
        identity = np.eye(len(self.shift))
        inverse = linalg.solve_triangular(factor, identity, lower=True, check_finite=False)
        mean = inverse.T @ (inverse @ self.shift)
        return Posterior(inverse, mean, float(np.sum(np.log(np.diag(factor)))))


class Posterior(NamedTuple):
    """N(mean, inverse' inverse) over u.

    inverse: (m, m), inverse of the lower Cholesky factor of the precision. mean: (m,).
    half_log_det: ½ log|P|.
    """

    inverse: FloatArray
    mean: FloatArray
    half_log_det: float

    @property
    def covariance(self) -> FloatArray:
        return np.asarray(self.inverse.T @ self.inverse)


def numbers_of(size: int) -> int:
    """How many numbers `packed` has for m = size."""
    return size * (size + 1) // 2 + size


def size_of(numbers: int) -> int:
    """The inverse of `numbers_of`: m² + 3 m = 2 numbers."""
    size = round((np.sqrt(9.0 + 8.0 * numbers) - 3.0) / 2.0)
    assert numbers_of(size) == numbers
    return size
