"""Utilities of items that move in time, as a term of a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.finite import FiniteKernel, parts_of, sum_of, terms_of
from sparse_prefgp.covariances.item_in_context import ItemTimes
from sparse_prefgp.covariances.markov import MarkovKernel
from sparse_prefgp.data.slices import AUTO, DAYS_A_YEAR, FEWEST, SLICES, check_slices, sliced
from sparse_prefgp.support.arrays import FloatArray

# Standard deviations of the noise of a duel by which a utility may move within a slice.
_MOVED_WITHIN = 0.15


class ItemInTime(FiniteKernel):
    """A utility of every item that moves in time, independent of those of all others.

    Written as `kernel + ItemInTime(spg.markov.Wiener())`, for duels with dates
    (`Duels(…, times=…)`): the utility of an item at a date is a function of its features plus one
    of the date, Markov and its own. Nothing is approximated but that duels of one slice of time
    are taken to be at its mean date (docs/time.md). Its unit of time is a year.

    The last three columns of its input are the number of the item, the date in days since 1970,
    and the date of the item's first duel; `PreferenceGP` adds these.

    :param kernel: of `spg.markov`: `Wiener()`, `Matern12()`, `Matern32()`, `Constant()`, or a sum.
    :param slices: "year", "quarter", "month", "week" or "day"; days at which another slice begins;
        or "auto", by which a model takes the coarsest of these within which utilities move by
        at most 0.15 standard deviations of the noise of a duel, and keeps it.
    :raises ValueError: another kernel, or other slices.
    """

    def __init__(self, kernel: MarkovKernel, slices: Any = AUTO, name: str | None = None) -> None:
        super().__init__(name=name)
        if not isinstance(kernel, MarkovKernel):
            raise ValueError(
                f"ItemInTime takes a Markov kernel of spg.markov, such as Wiener(), not "
                f"{type(kernel).__name__}, of which no filter is known."
            )
        self.kernel = kernel
        self.slices = check_slices(slices)
        # Where a row has more columns after these.
        self.number, self.date, self.first = slice(-3, -2), slice(-2, -1), slice(-1, None)

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        other = X if X2 is None else X2
        if X2 is None:
            left, right = X[..., :, None, :], X[..., None, :, :]
            shape = tf.concat([tf.shape(X)[:-1], tf.shape(X)[-2:-1]], 0)
        else:
            rank = len(X2.shape) - 1
            left = tf.reshape(X, tf.concat([tf.shape(X)[:-1], [1] * rank, tf.shape(X)[-1:]], 0))
            right, shape = other, tf.concat([tf.shape(X)[:-1], tf.shape(X2)[:-1]], 0)
        return self._between(left, right, shape)

    def _between(self, left: tf.Tensor, right: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
        """Of rows that stretch to `shape`."""
        columns = [
            [tf.broadcast_to(side[..., column][..., 0], shape) for side in (left, right)]
            for column in (self.number, self.date, self.first)
        ]
        # Most pairs are of two items: nothing is computed of them.
        at = tf.where(columns[0][0] == columns[0][1])
        dates, first = (
            [tf.gather_nd(side, at) / DAYS_A_YEAR for side in sides] for sides in columns[1:]
        )
        one, other = dates
        found = self.kernel.covariance(one, other, tf.minimum(*first))
        return tf.scatter_nd(at, found, tf.cast(shape, at.dtype))

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        date, first = (X[..., column][..., 0] / DAYS_A_YEAR for column in (self.date, self.first))
        return self.kernel.covariance(date, date, first)

    def difference_variance(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        both = self._between(first, second, tf.shape(first)[:-1])
        return self.K_diag(first) + self.K_diag(second) - 2.0 * both

    @property
    def seen(self) -> tuple[int, ...]:
        """The columns of rows that say whose utility it is."""
        return (self.number.start,)

    def effects_of(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Numbers of the items of rows (N, ...), (N, 1, 1), and ones, (N, 1)."""
        return rows[:, None, self.number], np.ones((len(rows), 1))

    def settle(self, days: FloatArray, noise: float) -> None:
        """Replace "auto" by the slices that it stands for, see `asked_for`."""
        if isinstance(self.slices, str) and self.slices == AUTO:
            self.slices = self.asked_for(days, noise)

    def asked_for(self, days: FloatArray, noise: float) -> str:
        """The slices that "auto" stands for with the kernel as it is: the coarsest within which
        utilities move by at most 0.15 standard deviations of the noise.

        :param days: of the duels.
        :param noise: standard deviation of the noise of a duel.
        """
        for name, length in SLICES.items():
            span = tf.constant([length / DAYS_A_YEAR], gpflow.default_float())
            h = self.kernel.observed
            moved = float(np.sqrt(h @ self.kernel.added(span)[0].numpy() @ h))
            if moved <= _MOVED_WITHIN * noise and len(sliced(days, name)[0]) >= FEWEST:
                return name
        return "day"


def time_term(kernel: gpflow.kernels.Kernel) -> ItemInTime | None:
    """The utilities in time of a kernel or a sum of kernels; None without.

    :raises ValueError: more than one, or one inside something that is not a sum.
    """
    return next(iter(terms_of(kernel, ItemInTime)), None)


class Apart(NamedTuple):
    """The terms of a kernel with utilities in time."""

    others: gpflow.kernels.Kernel | None
    """What is not filtered; None for nothing."""
    term: ItemInTime
    effects: tuple[ItemTimes, ...]
    """Effects of items in a context, which are filtered too."""

    @property
    def filtered(self) -> tuple[ItemInTime | ItemTimes, ...]:
        return (self.term, *self.effects)


def beside_time(kernel: gpflow.kernels.Kernel) -> Apart | None:
    """The terms of a kernel with utilities in time; None without."""
    term = time_term(kernel)
    if term is None:
        return None
    parts = [part for part in parts_of(kernel) if part is not term]
    effects = [part for part in parts if isinstance(part, ItemTimes) and part.is_finite]
    others = [part for part in parts if part not in effects]
    return Apart(sum_of(others), term, tuple(effects))
