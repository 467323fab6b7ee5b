"""Independent effects of the items besides what their features say."""

from __future__ import annotations

import copy
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.finite import FiniteKernel, parts_of, sum_of, terms_of
from sparse_prefgp.covariances.item_in_context import ItemTimes, SameLevel, most_compared
from sparse_prefgp.covariances.item_in_time import ItemInTime
from sparse_prefgp.covariances.pair_effect import PairEffect
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.support.arrays import FloatArray, IntArray

# Matrices between all items with effects are held, of up to so many items.
MAX_ITEM_EFFECTS = 5000
_HELD = 8
# Effects that are inducing values of duels in blocks, which hold features of every duel: those of
# the most compared items. The others are in the residual of the blocks.
MAX_IN_BLOCKS = 1000


class ItemEffect(SameLevel, FiniteKernel):
    """An independent normal effect of every item, for items that are seen many times.

    Written as `kernel + ItemEffect()`: the utility of an item is a function of its features plus
    an effect of its own, k(i, j) = variance where i and j are the same item, else 0. An item that
    the model does not know has an effect too, with its prior variance.

    No approximation touches it: next to inducing inputs the effects of all compared items are
    integrated out in closed form (docs/method.md, section 3), at O(n³) a sweep for n of them, at
    most 5,000. What inducing inputs leave unexplained is then of the other terms alone.

    The last column of its input is the item's number; `PreferenceGP` adds that column by itself.

    :param variance: of the effects; one positive number, trainable.
    """

    def __init__(self, variance: Any = 1.0, name: str | None = None) -> None:
        super().__init__(variance, active_dims=slice(-1, None), name=name)
        # Of a model that was saved when only the effects of so many items were known by inducing
        # variables, and all others unexplained; None is all.
        self.most: int | None = None

    def num_own(self, graph: DuelGraph) -> int:
        return len(self._numbers(graph))

    def num_all(self, graph: DuelGraph) -> int:
        """How many items were compared."""
        return len(np.unique(graph.rows[:, graph.layout.number]))

    def own_features(self, graph: DuelGraph, inputs: tf.Tensor) -> tf.Tensor:
        number, _ = self.slice(inputs, None)
        same = number == tf.constant(self._numbers(graph), number.dtype)[None, :]
        return tf.sqrt(self.variance) * tf.cast(same, number.dtype)

    def _numbers(self, graph: DuelGraph) -> FloatArray:
        """Of the items whose effects are known: those compared, or the most compared ones, besides
        what blocks of duels share."""
        most = MAX_IN_BLOCKS if self.most is None and graph.blocks is not None else self.most
        return most_compared(graph.rows[:, graph.layout.number], graph.comparisons, most)

    def difference_variance(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        (one, _), (other, _) = self.slice(first, None), self.slice(second, None)
        zero = tf.zeros_like(one[..., 0])
        return tf.where(one[..., 0] == other[..., 0], zero, 2.0 * self.variance)


def _effect(kernel: gpflow.kernels.Kernel) -> ItemEffect | None:
    """The effect of items, whatever the context, among the terms of a kernel."""
    return next((part for part in parts_of(kernel) if isinstance(part, ItemEffect)), None)


def known_effects(kernel: gpflow.kernels.Kernel) -> int | None:
    """Of how many items a kernel knows the effects: a model that was saved before; None is all."""
    effect = _effect(kernel)
    return None if effect is None else effect.most


def know_effects(kernel: gpflow.kernels.Kernel, most: int | None) -> None:
    """Let a kernel know the effects of so many items, the most compared ones; None is all."""
    effect = _effect(kernel)
    if effect is not None:
        effect.most = most


def beside_effects(
    kernel: gpflow.kernels.Kernel, graph: DuelGraph
) -> tuple[gpflow.kernels.Kernel, ItemEffect] | None:
    """The other terms of a kernel on rows, and its effects of items; None without, or where not
    all effects are known."""
    effect = _effect(kernel)
    if effect is None or effect.num_own(graph) < effect.num_all(graph):
        return None
    return sum_of([part for part in parts_of(kernel) if part is not effect]), effect


def check_number_of_effects(kernel: gpflow.kernels.Kernel, graph: DuelGraph, name: str) -> None:
    """Refuse more effects of items than matrices between them can be held for.

    :param name: of the approximation.
    :raises ValueError: more than 5,000.
    """
    effect = _effect(kernel)
    if effect is None or effect.most is not None:
        return
    number = effect.num_all(graph)
    if number > MAX_ITEM_EFFECTS:
        gibibytes = _HELD * 8 * number**2 / 2**30
        raise ValueError(
            f"ItemEffect has effects of {number:,} compared items, between which {name} would hold "
            f"{_HELD} matrices of {number:,} × {number:,} numbers, {gibibytes:.1f} GiB, where at "
            f"most {MAX_ITEM_EFFECTS:,} items may have effects; leave the effects out, or keep the "
            "duels of fewer items."
        )


def item_effects(kernel: gpflow.kernels.Kernel) -> list[ItemEffect | ItemTimes]:
    """The effects of items in a kernel or a sum of kernels, in a context or not.

    :raises ValueError: more than one that is of items alone, or one inside something that is not a
        sum.
    """
    return terms_of(kernel, (ItemEffect, ItemTimes), once=ItemEffect)


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
    """How many effects are known, most as inducing variables, and how many of items compared there
    are."""
    effects = item_effects(numbered_kernel(kernel, graph.layout.features))
    every = sum(effect.num_all(graph) for effect in effects)
    if graph.layout.dated:  # which are filtered
        return every, every
    return sum(effect.num_own(graph) for effect in effects), every


def numbered_kernel(kernel: gpflow.kernels.Kernel, num_features: int) -> gpflow.kernels.Kernel:
    """The kernel on rows whose column after the D features is the item's number.

    A copy that shares the parameters, or the tensors that stand in their place; all terms but item
    effects look at the first D columns.
    """
    parts = (kernel, *kernel.submodules)
    shared = [part for module in parts for part in vars(module).values() if tf.is_tensor(part)]
    result = copy.deepcopy(kernel, {id(part): part for part in [*kernel.parameters, *shared]})
    number = slice(num_features, num_features + 1)
    for part in _leaves(result):
        if isinstance(part, ItemEffect | PairEffect):
            part.active_dims = number
        elif isinstance(part, ItemTimes):
            part.number = number
        elif isinstance(part, ItemInTime):
            part.number = number
            part.date = slice(num_features + 1, num_features + 2)
            part.first = slice(num_features + 2, num_features + 3)
        else:
            columns = np.arange(num_features)[part.active_dims]
            whole = np.array_equal(columns, np.arange(num_features))
            part.active_dims = slice(0, num_features) if whole else columns
    return result


def _leaves(kernel: gpflow.kernels.Kernel) -> list[gpflow.kernels.Kernel]:
    """What looks at columns: kernels made of no others, and effects in a context themselves."""
    if isinstance(kernel, ItemTimes):
        return [kernel, *_leaves(kernel.kernel)]
    if isinstance(kernel, gpflow.kernels.Combination):
        return [leaf for inner in kernel.kernels for leaf in _leaves(inner)]
    return [kernel]
