"""Independent effects of the items besides what their features say."""

from __future__ import annotations

import copy
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.finite import FiniteKernel, parts_of
from sparse_prefgp.covariances.item_in_context import ItemTimes
from sparse_prefgp.covariances.pair_effect import PairEffect
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.arrays import IntArray

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

    def num_all(self, graph: DuelGraph) -> int:
        """How many items were compared."""
        return len(np.unique(graph.rows[:, graph.layout.number]))

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


def item_effects(kernel: gpflow.kernels.Kernel) -> list[ItemEffect | ItemTimes]:
    """The effects of items in a kernel or a sum of kernels, in a context or not.

    :raises ValueError: more than one that is of items alone, or one inside something that is not a
        sum.
    """
    parts = parts_of(kernel)
    alone = [part for part in parts if isinstance(part, ItemEffect)]
    if len(alone) > 1:
        raise ValueError(
            f"The kernel has {len(alone)} ItemEffect terms, of which duels see only the sum; keep "
            "one."
        )
    found = [part for part in parts if isinstance(part, _EFFECTS)]
    if any(_holds_effect(part) for part in parts if not isinstance(part, _EFFECTS)):
        raise ValueError(
            "ItemEffect stands inside a product or another combination of kernels; add it to the "
            "others, kernel + ItemEffect(), and for effects in a context + ItemTimes(kernel)."
        )
    return found


def context_kernels(kernel: gpflow.kernels.Kernel) -> list[gpflow.kernels.Kernel]:
    """What effects of items in a context are as functions of the features."""
    return [effect.kernel for effect in item_effects(kernel) if isinstance(effect, ItemTimes)]


def context_columns(kernel: gpflow.kernels.Kernel, num_features: int) -> IntArray:
    """The features, by number, that effects of items in a context look at."""
    leaves = [leaf for inner in context_kernels(kernel) for leaf in _leaves(inner)]
    seen = [np.arange(num_features)[leaf.active_dims] for leaf in leaves]
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *seen]))


def unheld_kernels(kernel: gpflow.kernels.Kernel) -> list[gpflow.kernels.Kernel]:
    """Those of them that have not finitely many features."""
    effects = [effect for effect in item_effects(kernel) if isinstance(effect, ItemTimes)]
    return [effect.kernel for effect in effects if not effect.is_finite]


def held_effects(kernel: gpflow.kernels.Kernel, graph: DuelGraph) -> tuple[int, int]:
    """How many effects are inducing variables, and how many there are of the items compared."""
    effects = item_effects(numbered_kernel(kernel, graph.layout.features))
    held = sum(effect.num_own(graph) for effect in effects)
    return held, sum(effect.num_all(graph) for effect in effects)


def numbered_kernel(kernel: gpflow.kernels.Kernel, num_features: int) -> gpflow.kernels.Kernel:
    """The kernel on rows whose column after the D features is the item's number.

    A copy that shares the parameters; all terms but item effects look at the first D columns.
    """
    result = copy.deepcopy(kernel, {id(p): p for p in kernel.parameters})
    number = slice(num_features, num_features + 1)
    for part in _leaves(result):
        if isinstance(part, ItemEffect | PairEffect):
            part.active_dims = number
        elif isinstance(part, ItemTimes):
            part.number = number
        else:
            columns = np.arange(num_features)[part.active_dims]
            whole = np.array_equal(columns, np.arange(num_features))
            part.active_dims = slice(0, num_features) if whole else columns
    return result


_EFFECTS = (ItemEffect, ItemTimes)


def _leaves(kernel: gpflow.kernels.Kernel) -> list[gpflow.kernels.Kernel]:
    """What looks at columns: kernels made of no others, and effects in a context themselves."""
    if isinstance(kernel, ItemTimes):
        return [kernel, *_leaves(kernel.kernel)]
    if isinstance(kernel, gpflow.kernels.Combination):
        return [leaf for inner in kernel.kernels for leaf in _leaves(inner)]
    return [kernel]


def _holds_effect(kernel: gpflow.kernels.Kernel) -> bool:
    return any(isinstance(module, _EFFECTS) for module in kernel.submodules)
