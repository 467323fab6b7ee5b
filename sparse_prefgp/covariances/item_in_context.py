"""Effects of items in a context: functions of the context, another one for each item."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.finite import FiniteKernel
from sparse_prefgp.covariances.kernels import kernel_matrix, pair_difference_variance
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.arrays import FloatArray

# So many effects of a term are inducing variables of their own: those of the most compared.
MAX_EFFECTS_IN_CONTEXT = 1000


class SameLevel(gpflow.kernels.Kernel):
    """An independent normal effect of each level: k = variance where all columns are the same.

    For the 0/1 columns of categories, all in `active_dims`; those of several raw columns make a
    level of their values together. Levels that were not seen in training, all 0, are one level.

    :param variance: of the effects; one positive number, trainable.
    """

    def __init__(self, variance: Any = 1.0, active_dims: Any = None) -> None:
        super().__init__(active_dims=active_dims)
        self.variance = gpflow.Parameter(variance, transform=gpflow.utilities.positive())

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
    inducing variables leave unexplained.

    The last column of its input is the item's number; `PreferenceGP` adds that column by itself.

    :param kernel: a kernel on features.
    :raises ValueError: a kernel that is none, or that holds effects of items itself.
    """

    def __init__(self, kernel: gpflow.kernels.Kernel) -> None:
        super().__init__()
        if not isinstance(kernel, gpflow.kernels.Kernel):
            raise ValueError(f"ItemTimes takes a GPflow kernel, not {type(kernel).__name__}.")
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
        return len(np.unique(self._keys(graph), axis=0)) * self._each()

    def own_features(self, graph: DuelGraph, inputs: tf.Tensor) -> tf.Tensor:
        keys = self._most_compared(graph)
        same = tf.ones([tf.shape(inputs)[0], len(keys)], tf.bool)
        for column, values in zip(self._columns(), keys.T, strict=True):
            same &= inputs[:, column, None] == tf.constant(values, inputs.dtype)[None, :]
        effects = tf.cast(same, inputs.dtype)
        if isinstance(self.kernel, SameLevel):
            return tf.sqrt(self.kernel.variance) * effects
        slopes = self.kernel.slice(inputs, None)[0] * tf.sqrt(self.kernel.variance)
        return tf.reshape(effects[:, :, None] * slopes[:, None, :], [-1, self.num_own(graph)])

    def difference_variance(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        same = (first[..., self.number] == second[..., self.number])[..., 0]
        apart = self.K_diag(first) + self.K_diag(second)
        return tf.where(same, pair_difference_variance(self.kernel, first, second), apart)

    def _each(self) -> int:
        """Effects of each key: one, or slopes."""
        if isinstance(self.kernel, SameLevel):
            return 1
        return len(np.arange(self.number.start)[self.kernel.active_dims])

    def _most(self) -> int:
        return max(MAX_EFFECTS_IN_CONTEXT // self._each(), 1) * self._each()

    def _columns(self) -> list[int]:
        """The columns of rows in which effects differ: the item's number, and levels if any."""
        number = self.number.start
        if not isinstance(self.kernel, SameLevel):
            return [number]
        return [number, *np.arange(number)[self.kernel.active_dims]]

    def _keys(self, graph: DuelGraph) -> FloatArray:
        return graph.rows[:, self._columns()]

    def _most_compared(self, graph: DuelGraph) -> FloatArray:
        keys, first, row = np.unique(
            self._keys(graph), axis=0, return_index=True, return_inverse=True
        )
        compared = np.bincount(row.reshape(-1), graph.comparisons)
        order = np.lexsort((first, -compared))
        return keys[np.sort(order[: self._most() // self._each()])]
