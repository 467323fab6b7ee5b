"""Effects of items in a context: functions of the context, another one for each item."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.finite import FiniteKernel, positive
from sparse_prefgp.covariances.kernels import kernel_matrix, pair_difference_variance
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import check_kind

# So many effects of a term are inducing variables of their own: those of the most compared.
MAX_EFFECTS_IN_CONTEXT = 1000


class SameLevel(gpflow.kernels.Kernel):
    """An independent normal effect of each level: k = variance where all columns are the same.

    For the 0/1 columns of categories, all in `active_dims`; those of several raw columns make a
    level of their values together. Levels that were not seen in training, all 0, are one level.

    :param variance: of the effects; one positive number, trainable.
    """

    def __init__(
        self, variance: Any = 1.0, active_dims: Any = None, name: str | None = None
    ) -> None:
        super().__init__(active_dims=active_dims, name=name)
        self.variance = positive(variance)

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        apart = gpflow.utilities.ops.difference_matrix(X, X2)
        same = tf.reduce_all(apart == 0.0, -1)
        return tf.where(same, self.variance, tf.zeros([], apart.dtype))

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return tf.fill(tf.shape(X)[:-1], tf.squeeze(self.variance))


class ItemTimes(FiniteKernel):
    """A function of the context for each item, independent of those of all other items.

    Written as `kernel + ItemEffect() + ItemTimes(SameLevel(active_dims=[2, 3]))`: the utility of an
    item in a context is a function of its features, plus an effect of the item, plus one of the
    item in this context; k(x, x') = kernel(x, x') where both are the same item, else 0. The kernel
    looks at features that say the context. With `Linear` an item has a slope for each of them.

    `Exact()` takes any kernel. Approximations with inducing inputs take `SameLevel`, whose effects
    of the most compared items in their contexts, up to 1,000, are inducing variables of their own,
    and `Linear`, whose slopes of the most compared items are; the others count among what the
    inducing variables leave unexplained. Next to `ItemInTime` all of them are exact.

    The last column of its input is the item's number; `PreferenceGP` adds that column by itself.

    :param kernel: a kernel on features.
    :raises ValueError: a kernel that is none, or that holds effects of items itself.
    """

    def __init__(self, kernel: gpflow.kernels.Kernel) -> None:
        super().__init__()
        check_kind("The kernel of ItemTimes", kernel, gpflow.kernels.Kernel, "a GPflow kernel")
        if any(isinstance(part, FiniteKernel) for part in (kernel, *kernel.submodules)):
            raise ValueError(
                "ItemTimes holds effects of items already; give it a kernel on features, such as "
                "SameLevel()."
            )
        self.kernel = kernel
        # Of the item's number, where a row has more columns after it.
        self.number = slice(-1, None)

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        others = None if X2 is None else X2[..., self.number]
        apart = gpflow.utilities.ops.difference_matrix(X[..., self.number], others)[..., 0]
        value = kernel_matrix(self.kernel, X, X2)
        return tf.where(apart == 0.0, value, tf.zeros_like(value))

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return self.kernel(X, full_cov=False)

    @property
    def is_finite(self) -> bool:
        """Whether approximations with inducing inputs can hold it."""
        return type(self.kernel) in (SameLevel, gpflow.kernels.Linear)

    def num_own(self, graph: DuelGraph) -> int:
        return min(self.num_all(graph), self._most())

    def num_all(self, graph: DuelGraph) -> int:
        """How many effects there are of the items that were compared."""
        keys = self.effects_of(graph.rows)[0]
        return len(np.unique(keys.reshape(-1, keys.shape[2]), axis=0))

    def own_features(self, graph: DuelGraph, inputs: tf.Tensor) -> tf.Tensor:
        keys = self.effects_of(graph.rows)[0]
        compared = np.repeat(graph.comparisons, keys.shape[1])
        keys = most_compared(keys.reshape(-1, keys.shape[2]), compared, self._most())
        return self.weights_of(keys, inputs) * tf.sqrt(self.variances_of(keys))

    @property
    def seen(self) -> tuple[int, ...]:
        """The columns of rows that say which effects these have, and by what they count."""
        number = self.number.start
        return number, *np.arange(number)[self.kernel.active_dims].tolist()

    def effects_of(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Keys (N, a, c) of the effects that rows (N, ...) have, the number of the item first, and
        by what they count, (N, a)."""
        columns = np.array(self.seen)
        if isinstance(self.kernel, SameLevel):
            return rows[:, None, columns], np.ones((len(rows), 1))
        number, slope = np.broadcast_arrays(rows[:, columns[:1]], np.arange(len(columns) - 1))
        return np.stack([number, slope], 2), rows[:, columns[1:]]

    def weights_of(self, keys: FloatArray, inputs: tf.Tensor) -> tf.Tensor:
        """By what effects (E, c) count in rows (N, ...), (N, E): 0 for those of others."""
        levels = isinstance(self.kernel, SameLevel)
        same = tf.ones([tf.shape(inputs)[0], len(keys)], tf.bool)
        for column, values in zip(self.seen if levels else self.seen[:1], keys.T, strict=False):
            same &= inputs[:, column, None] == tf.constant(values, inputs.dtype)[None, :]
        effects = tf.cast(same, inputs.dtype)
        if levels:
            return effects
        return effects * tf.gather(inputs, np.array(self.seen)[1 + keys[:, 1].astype(int)], axis=1)

    def variances_of(self, keys: FloatArray) -> tf.Tensor:
        """Prior variances of effects (E, c), (E,)."""
        variance = tf.convert_to_tensor(self.kernel.variance)
        if isinstance(self.kernel, SameLevel) or not len(variance.shape):
            return tf.fill([len(keys)], tf.squeeze(variance))
        return tf.gather(variance, keys[:, 1].astype(int))

    def difference_variance(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        same = (first[..., self.number] == second[..., self.number])[..., 0]
        apart = self.K_diag(first) + self.K_diag(second)
        return tf.where(same, pair_difference_variance(self.kernel, first, second), apart)

    def _most(self) -> int:
        each = 1 if isinstance(self.kernel, SameLevel) else len(self.seen) - 1
        return max(MAX_EFFECTS_IN_CONTEXT // each, 1) * each


def most_compared(keys: FloatArray, compared: FloatArray, most: int | None) -> FloatArray:
    """The distinct ones of keys (q,) or (q, c), ascending, that were compared most often.

    :param compared: how often each was, (q,).
    :param most: how many at most, the first of equals; None for all.
    """
    distinct, first, place = np.unique(
        keys, axis=0 if keys.ndim > 1 else None, return_index=True, return_inverse=True
    )
    if most is None or len(distinct) <= most:
        return distinct
    order = np.lexsort((first, -np.bincount(place.reshape(-1), compared)))
    return distinct[np.sort(order[:most])]
