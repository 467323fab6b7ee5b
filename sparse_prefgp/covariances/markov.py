"""Markov kernels of one number that moves in time, as states that step from date to date.

Between two dates a span dt apart the state moves by `s' = A s + N(0, Q)`, and the utility is `h's`.
`A = exp(E)`, so that what depends on A can be differentiated through E, which is linear in dt.
(Särkkä & Solin 2019, sections 6 and 12; Rasmussen & Williams 2006, appendix B)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.finite import positive
from sparse_prefgp.support.arrays import FloatArray

_ROOT = math.sqrt(3.0)


class MarkovKernel(gpflow.base.Module):
    """A stationary or growing Gaussian process of one number, as a state of d numbers."""

    size: ClassVar[int] = 1
    """d, how many numbers the state has."""
    is_stationary: bool = True
    """Whether it has always been, so that dates before an item's first one can be asked of."""
    starts_with_level: ClassVar[bool] = False
    """Whether it begins at a level of its own, from which it does not come back."""

    def __repr__(self) -> str:
        if not tf.executing_eagerly():  # a graph knows no values
            return type(self).__name__
        known = vars(self).items()
        values = [(name, x.numpy()) for name, x in known if isinstance(x, gpflow.Parameter)]
        return f"{type(self).__name__}({', '.join(f'{name}={x:.3g}' for name, x in values)})"

    @property
    def observed(self) -> FloatArray:
        """h, (d,): the utility is h's."""
        return np.eye(self.size)[0]

    @abstractmethod
    def start(self) -> tf.Tensor:
        """P, (d, d), covariance of the state at the first date of an item."""

    @abstractmethod
    def exponents(self, spans: tf.Tensor) -> tf.Tensor:
        """E, (g, d, d), with A = exp(E), of spans (g,)."""

    @abstractmethod
    def transitions(self, spans: tf.Tensor) -> tf.Tensor:
        """A, (g, d, d)."""

    @abstractmethod
    def added(self, spans: tf.Tensor) -> tf.Tensor:
        """Q, (g, d, d), covariance of what joins the state over each span."""

    def __add__(self, other: MarkovKernel) -> MarkovSum:
        """The sum of two independent ones.

        :raises ValueError: what `MarkovSum` raises.
        """
        parts = [*_parts(self), *_parts(other)]
        return MarkovSum(parts)

    def covariance(self, first: tf.Tensor, second: tf.Tensor, begin: tf.Tensor) -> tf.Tensor:
        """Prior covariance of the values of one item at two dates, all of one shape (...).

        :param begin: its first date, of no account to a stationary one.
        """
        begin = tf.minimum(begin, tf.minimum(first, second))
        early, late = tf.minimum(first, second), tf.maximum(first, second)
        flat = [tf.reshape(x, [-1]) for x in (early - begin, late - early)]
        h = tf.constant(self.observed, early.dtype)
        began = self.transitions(flat[0])
        there = tf.matmul(began, tf.matmul(self.start(), began, transpose_b=True))
        there += self.added(flat[0])
        moved = tf.linalg.matvec(tf.matmul(self.transitions(flat[1]), there), h)
        return tf.reshape(tf.linalg.matvec(moved, h), tf.shape(early))


def _scalars(values: tf.Tensor) -> tf.Tensor:
    return values[:, None, None]


class Constant(MarkovKernel):
    """A level that never moves: an independent effect of each item.

    :param variance: of the levels.
    """

    starts_with_level = True

    def __init__(self, variance: Any = 1.0) -> None:
        super().__init__()
        self.variance = positive(variance)

    def start(self) -> tf.Tensor:
        return tf.reshape(self.variance, [1, 1])

    def exponents(self, spans: tf.Tensor) -> tf.Tensor:
        return _scalars(tf.zeros_like(spans))

    def transitions(self, spans: tf.Tensor) -> tf.Tensor:
        return _scalars(tf.ones_like(spans))

    def added(self, spans: tf.Tensor) -> tf.Tensor:
        return _scalars(tf.zeros_like(spans))


class Wiener(Constant):
    """A level that drifts for ever: from the first date on, its variance grows by `rate` a unit of
    time.

    :param variance: at the first date of an item.
    :param rate: growth of the variance in a unit of time (a year in `ItemInTime`).
    """

    is_stationary = False

    def __init__(self, variance: Any = 1.0, rate: Any = 0.02) -> None:
        super().__init__(variance)
        self.rate = positive(rate)

    def added(self, spans: tf.Tensor) -> tf.Tensor:
        return _scalars(self.rate * spans)


class _Matern(MarkovKernel):
    """Form that comes back to the mean.

    :param variance: at any date.
    :param lengthscale: in units of time (years in `ItemInTime`).
    """

    def __init__(self, variance: Any = 1.0, lengthscale: Any = 10.0) -> None:
        super().__init__()
        self.variance, self.lengthscale = positive(variance), positive(lengthscale)

    def start(self) -> tf.Tensor:
        return self.variance * tf.eye(self.size, dtype=self.variance.dtype)


class Matern12(_Matern):
    """Form that comes back to the mean: k(t, t') = variance exp(-|t - t'| / lengthscale).

    :param variance: at any date.
    :param lengthscale: in units of time (years in `ItemInTime`).
    """

    def exponents(self, spans: tf.Tensor) -> tf.Tensor:
        return _scalars(-spans / self.lengthscale)

    def transitions(self, spans: tf.Tensor) -> tf.Tensor:
        return tf.exp(self.exponents(spans))

    def added(self, spans: tf.Tensor) -> tf.Tensor:
        # Not 1 - a²: all digits of a short span would be lost.
        return _scalars(-self.variance * tf.math.expm1(-2.0 * spans / self.lengthscale))


class Matern32(_Matern):
    """Smooth form: k = variance (1 + u) exp(-u), u = √3 |t - t'| / lengthscale.

    The state is f and l f'/√3, both of the same variance. With N = [[1, 1], [-1, -1]], N² = 0,
    E = u (N - I) and A = e⁻ᵘ (I + u N), so that Q = variance (I - A A') in closed form without a
    difference of near numbers.

    :param variance: at any date.
    :param lengthscale: in units of time (years in `ItemInTime`).
    """

    size = 2

    def _scaled(self, spans: tf.Tensor) -> tf.Tensor:
        return _ROOT * spans / self.lengthscale

    def exponents(self, spans: tf.Tensor) -> tf.Tensor:
        u = self._scaled(spans)
        return _two_by_two(tf.zeros_like(u), u, -u, -2.0 * u)

    def transitions(self, spans: tf.Tensor) -> tf.Tensor:
        u = self._scaled(spans)
        return tf.exp(-u)[:, None, None] * _two_by_two(1.0 + u, u, -u, 1.0 - u)

    def added(self, spans: tf.Tensor) -> tf.Tensor:
        u = self._scaled(spans)
        fading = tf.exp(-2.0 * u)
        # 1 - e⁻²ᵘ (1 + 2u + 2u²) is the regularised incomplete gamma function.
        first = tf.math.igamma(tf.constant(3.0, u.dtype), 2.0 * u)
        both = 2.0 * u**2 * fading
        second = -tf.math.expm1(-2.0 * u) + 2.0 * u * (1.0 - u) * fading
        return self.variance * _two_by_two(first, both, both, second)


def _two_by_two(a: tf.Tensor, b: tf.Tensor, c: tf.Tensor, d: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.stack([a, b, c, d], -1), [-1, 2, 2])


class MarkovSum(MarkovKernel):
    """The sum of independent ones, written `Constant() + Matern12()`.

    :param kernels: two or more.
    :raises ValueError: what is none, or two of which duels see only the sum: both levels, or both
        of one class.
    """

    def __init__(self, kernels: Sequence[MarkovKernel]) -> None:
        super().__init__()
        for kernel in kernels:
            if not isinstance(kernel, MarkovKernel):
                raise ValueError(
                    f"A sum in time holds {type(kernel).__name__}, which is not Markov; take "
                    "Wiener, Matern12, Matern32 or Constant of spg.markov, or add a kernel on "
                    "features to the term, kernel + spg.ItemInTime(spg.markov.Wiener())."
                )
        levels = [type(kernel).__name__ for kernel in kernels if kernel.starts_with_level]
        if len(levels) > 1:
            raise ValueError(
                f"{' + '.join(levels)} are {len(levels)} levels of each item, of which duels see "
                "only the sum; keep one (Wiener has its level in `variance`)."
            )
        names = [type(kernel).__name__ for kernel in kernels]
        if len(set(names)) < len(names):
            raise ValueError(f"{' + '.join(names)} has one kernel twice; keep each once.")
        self.kernels = tuple(kernels)
        self.is_stationary = all(kernel.is_stationary for kernel in kernels)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.kernels))

    @property
    def size(self) -> int:  # type: ignore[override]
        return sum(kernel.size for kernel in self.kernels)

    @property
    def observed(self) -> FloatArray:
        return np.concatenate([kernel.observed for kernel in self.kernels])

    def start(self) -> tf.Tensor:
        return _diagonal([kernel.start()[None] for kernel in self.kernels])[0]

    def exponents(self, spans: tf.Tensor) -> tf.Tensor:
        return _diagonal([kernel.exponents(spans) for kernel in self.kernels])

    def transitions(self, spans: tf.Tensor) -> tf.Tensor:
        return _diagonal([kernel.transitions(spans) for kernel in self.kernels])

    def added(self, spans: tf.Tensor) -> tf.Tensor:
        return _diagonal([kernel.added(spans) for kernel in self.kernels])


def _parts(kernel: Any) -> Sequence[Any]:
    return getattr(kernel, "kernels", (kernel,))


def _diagonal(blocks: Sequence[tf.Tensor]) -> tf.Tensor:
    """Blocks (g, d_i, d_i) along the diagonal."""
    sizes = [block.shape[-1] for block in blocks]
    padded, before = [], 0
    for block, size in zip(blocks, sizes, strict=True):
        ends = [before, sum(sizes) - before - size]
        padded.append(tf.pad(block, [[0, 0], ends, ends]))
        before += size
    return tf.add_n(padded)
