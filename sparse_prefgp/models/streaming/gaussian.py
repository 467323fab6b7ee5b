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


class Size(NamedTuple):
    """How many numbers a Gaussian over u has, and over effects of levels that do not meet."""

    u: int
    """m, with coefficients."""
    levels: int = 0
    """L."""
    each: int = 0
    """q, effects of a level."""

    @property
    def whole(self) -> int:
        """m + L q."""
        return self.u + self.levels * self.each


class Natural(NamedTuple):
    """Natural parameters of a Gaussian over u and the effects e of levels, or of a site on it."""

    precision: FloatArray
    """(m, m), symmetric."""
    shift: FloatArray
    """(m,)."""
    blocks: FloatArray
    """(L, q, q), the precision of e."""
    rows: FloatArray
    """(L, q, m), what it is with u."""
    shifts: FloatArray
    """(L, q)."""

    @classmethod
    def zeros(cls, size: Size) -> Natural:
        m, levels, q = size
        shapes = (m, m), (m,), (levels, q, q), (levels, q, m), (levels, q)
        return cls(*map(np.zeros, shapes))

    @classmethod
    def prior(cls, size: Size) -> Natural:
        """Whitened u, e ~ N(0, I)."""
        nothing = cls.zeros(size)
        blocks = nothing.blocks + np.eye(size.each)
        return nothing._replace(precision=np.eye(size.u), blocks=blocks)

    @property
    def size(self) -> Size:
        return Size(len(self.shift), *self.shifts.shape)

    def plus(self, other: Natural) -> Natural:
        return Natural(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def minus(self, other: Natural) -> Natural:
        return Natural(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))

    def packed(self) -> FloatArray:
        """The lower triangle of u by rows, m (m + 1) / 2 numbers, then all else."""
        triangle = self.precision[np.tril_indices(len(self.shift))]
        return np.concatenate([triangle, *(values.reshape(-1) for values in self[1:])])

    @classmethod
    def unpacked(cls, numbers: FloatArray, size: Size) -> Natural:
        """What `packed` gave."""
        made = cls.zeros(size)
        m = size.u
        lengths = [m * (m + 1) // 2, *(values.size for values in made[1:])]
        triangle, *others = np.split(numbers, np.cumsum(lengths)[:-1])
        made.precision[np.tril_indices(m)] = triangle
        each = zip(others, made[1:], strict=True)
        return cls(
            made.precision + np.tril(made.precision, -1).T,
            *(values.reshape(shape.shape).copy() for values, shape in each),
        )

    def parted(self, size: Size) -> Natural:
        """One over u alone as one of this size, whose levels are its last places."""
        m, levels, q = size
        among = self.precision[m:, m:].reshape(levels, q, levels, q)
        return Natural(
            self.precision[:m, :m],
            self.shift[:m],
            np.ascontiguousarray(among[np.arange(levels), :, np.arange(levels)]),
            self.precision[m:, :m].reshape(levels, q, m),
            self.shift[m:].reshape(levels, q),
        )

    @classmethod
    def of(cls, sums: Sums | LevelSums) -> Natural:
        """What sites say of u, and of the effects of levels where these are apart."""
        precision, shift, *levels = (x.numpy() for x in sums.each)
        return cls(precision, shift, *(levels or cls.zeros(Size(len(shift)))[2:]))

    def posterior(self) -> JointPosterior:
        """The Gaussian itself; its ½ log|P| is NaN where the precision is not positive definite."""
        precision, shift, *levels = map(as_float, self)
        of_u = Sums(precision, shift[:, None])
        if not self.size.levels:
            return condition(*of_u)
        return LevelsPosterior.of(LevelSums(of_u, *levels))


def numbers_of(size: Size | int) -> int:
    """How many numbers `packed` has."""
    m, levels, q = size if isinstance(size, Size) else Size(size)
    return m * (m + 1) // 2 + m + levels * q * (q + m + 1)
