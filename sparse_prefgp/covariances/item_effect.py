"""Independent effects of the items besides what their features say."""

from __future__ import annotations

import copy
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.finite import FiniteKernel, parts_of
from sparse_prefgp.data.graph import DuelGraph

# So many item effects are inducing variables of their own: those of the most compared items.
MAX_ITEM_EFFECTS = 1000


class ItemEffect(FiniteKernel):
    """An independent normal effect of every item, for items that are seen many times.

    Written as `kernel + ItemEffect()`: the utility of an item is a function of its features plus
    an effect of its own, k(i, j) = variance where i and j are the same item, else 0. An item that
    the model does not know has an effect too, with its prior variance.

    `Exact()` takes it as it is. Approximations with inducing inputs let the effects of the most
    compared items, up to 1,000, be inducing variables of their own; the effects of all others
    count among what the inducing variables leave unexplained. `VFE`, `TightVFE` and
    `HeteroscedasticVFE` count that against the evidence, so that above 1,000 compared items they
    learn a variance near zero, of which `optimise` warns; `FITC` and `Exact` do not.

    The last column of its input is the item's number; `PreferenceGP` adds that column by itself.

    :param variance: of the effects; one positive number, trainable.
    """

    def __init__(self, variance: Any = 1.0, name: str | None = None) -> None:
        super().__init__(active_dims=slice(-1, None), name=name)
        self.variance = gpflow.Parameter(variance, transform=gpflow.utilities.positive())

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        apart = gpflow.utilities.ops.difference_matrix(X, X2)[..., 0]
        return tf.where(apart == 0.0, self.variance, tf.zeros_like(apart))

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return tf.fill(tf.shape(X)[:-1], tf.squeeze(self.variance))

    def num_own(self, graph: DuelGraph) -> int:
        return len(items_with_effects(graph))

    def own_features(self, graph: DuelGraph, inputs: tf.Tensor) -> tf.Tensor:
        number, _ = self.slice(inputs, None)
        same = number == tf.constant(items_with_effects(graph), number.dtype)[None, :]
        return tf.sqrt(self.variance) * tf.cast(same, number.dtype)

    def difference_variance(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        (one, _), (other, _) = self.slice(first, None), self.slice(second, None)
        zero = tf.zeros_like(one[..., 0])
        return tf.where(one[..., 0] == other[..., 0], zero, 2.0 * self.variance)


def items_with_effects(graph: DuelGraph) -> np.ndarray:
    """Numbers of the items whose effects are inducing variables: the most compared ones."""
    column = graph.rows[:, graph.layout.number]
    numbers, first, row = np.unique(column, return_index=True, return_inverse=True)
    compared = np.bincount(row.reshape(-1), graph.comparisons)
    order = np.lexsort((first, -compared))
    return np.sort(numbers[order[:MAX_ITEM_EFFECTS]])


def item_effects(kernel: gpflow.kernels.Kernel) -> list[ItemEffect]:
    """The item effects in a kernel or a sum of kernels.

    :raises ValueError: more than one, or one inside something that is not a sum.
    """
    parts = parts_of(kernel)
    found = [part for part in parts if isinstance(part, ItemEffect)]
    if len(found) > 1:
        raise ValueError(
            f"The kernel has {len(found)} ItemEffect terms, of which duels see only the sum; keep "
            "one."
        )
    if any(_holds_effect(part) for part in parts if not isinstance(part, ItemEffect)):
        raise ValueError(
            "ItemEffect stands inside a product or another combination of kernels; add it to the "
            "others, kernel + ItemEffect()."
        )
    return found


def numbered_kernel(kernel: gpflow.kernels.Kernel, num_features: int) -> gpflow.kernels.Kernel:
    """The kernel on rows whose column after the D features is the item's number.

    A copy that shares the parameters; all terms but the item effect look at the first D columns.
    """
    result = copy.deepcopy(kernel, {id(p): p for p in kernel.parameters})
    for part in _leaves(result):
        if not isinstance(part, ItemEffect):
            columns = np.arange(num_features)[part.active_dims]
            whole = np.array_equal(columns, np.arange(num_features))
            part.active_dims = slice(0, num_features) if whole else columns
        else:
            part.active_dims = slice(num_features, num_features + 1)
    return result


def _leaves(kernel: gpflow.kernels.Kernel) -> list[gpflow.kernels.Kernel]:
    if isinstance(kernel, gpflow.kernels.Combination):
        return [leaf for inner in kernel.kernels for leaf in _leaves(inner)]
    return [kernel]


def _holds_effect(kernel: gpflow.kernels.Kernel) -> bool:
    return any(isinstance(module, ItemEffect) for module in kernel.submodules)
