"""Numbers of which each is a mixture of normals, and intervals of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparse_prefgp.support.arrays import FloatArray, IntArray


def allotted(weights: FloatArray, number: int) -> IntArray:
    """(S,), how many of so many draws are of each part of a mixture, by largest remainders."""
    exact = number * weights
    counts = np.floor(exact).astype(int)
    counts[np.argsort(counts - exact, kind="stable")[: number - counts.sum()]] += 1
    return counts


# Halvings of the range of a quantile.
_HALVINGS = 50
_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False)
class Normals:
    """N numbers, each one of S normals with the same probabilities; S is 1 without a mixture."""

    means: FloatArray
    """(S, N)."""
    variances: FloatArray
    """(S, N); below 0 only by rounding, and then taken for 0."""
    weights: FloatArray
    """(S,), which add up to 1."""

    @classmethod
    def of(cls, mean: FloatArray, variance: FloatArray) -> Normals:
        """One normal each, (N,)."""
        return cls(mean[None], variance[None], np.ones(1))

    @classmethod
    def mixed(cls, each: Sequence[Normals], weights: FloatArray) -> Normals:
        """The mixture of the same numbers under each part, which are one normal each there."""
        means, variances = (
            np.concatenate([getattr(one, name) for one in each]) for name in ("means", "variances")
        )
        return cls(means, variances, weights)

    @classmethod
    def joined(cls, parts: Sequence[Normals]) -> Normals:
        """The numbers of all, which have the same weights, in their order."""
        means, variances = (
            np.concatenate([getattr(part, name) for part in parts], 1)
            for name in ("means", "variances")
        )
        return cls(means, variances, parts[0].weights)

    def take(self, which: IntArray) -> Normals:
        """Some of the numbers."""
        return Normals(self.means[:, which], self.variances[:, which], self.weights)

    def times(self, units: FloatArray) -> Normals:
        """Those of each part multiplied by its own number, (S,)."""
        by = units[:, None]
        return Normals(by * self.means, by**2 * self.variances, self.weights)

    @property
    def mean(self) -> FloatArray:
        """(N,)."""
        return np.asarray(self.weights @ self.means)

    @property
    def variance(self) -> FloatArray:
        """(N,)."""
        return np.asarray(self.weights @ (self.variances + (self.means - self.mean) ** 2))

    def interval(self, level: float) -> FloatArray:
        """(N, 2), the quantiles that leave out as much at either end."""
        from scipy.special import ndtr, ndtri  # commands that ask for no interval start without it

        sds = np.sqrt(np.maximum(self.variances, 0.0))
        ends = self.means[:, None] + float(ndtri(0.5 + 0.5 * level)) * np.stack([-sds, sds], 1)
        if len(self.weights) == 1:
            return np.asarray(ends[0].T)
        # A quantile of a mixture lies between those of its parts.
        low, high = ends.min(0), ends.max(0)
        wanted = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])[:, None]
        for start in range(0, low.shape[1], _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            means, scales = self.means[:, None, some], np.maximum(sds[:, None, some], 1e-300)
            for _ in range(_HALVINGS):
                middle = 0.5 * (low[:, some] + high[:, some])
                below = np.tensordot(self.weights, ndtr((middle - means) / scales), 1) < wanted
                low[:, some] = np.where(below, middle, low[:, some])
                high[:, some] = np.where(below, high[:, some], middle)
        return np.asarray(0.5 * (low + high).T)
