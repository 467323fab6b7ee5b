"""What one number per item cannot say: an effect of each pair of items on their duels."""

from __future__ import annotations

from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.choice_likelihood import Form, Looks
from sparse_prefgp.covariances.finite import FiniteKernel, positive, terms_of
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.graph import DuelGraph, Noises
from sparse_prefgp.support.arrays import FloatArray, IntArray


class PairEffect(FiniteKernel):
    """An independent normal effect of every pair of items, for pairs that meet more than once.

    Written as `kernel + PairEffect()`: in a duel of a and b the difference of their utilities is
    moved by `g_ab = -g_ba ~ N(0, variance)`, the same in all duels of the two, whatever their
    context. So a may beat b, b beat c, and c beat a. Utilities know nothing of it: it adds nothing
    to `k(x, x')`, but a block to the covariance of duels of one pair. (docs/model.md)

    The last column of its input is the item's number; `PreferenceGP` adds that column by itself.

    :param variance: of the effects, of the difference of two utilities; one positive number,
        trainable.
    """

    def __init__(self, variance: Any = 1.0, name: str | None = None) -> None:
        super().__init__(active_dims=slice(-1, None), name=name)
        self.variance = positive(variance)

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        return tf.zeros_like(gpflow.utilities.ops.difference_matrix(X, X2)[..., 0])

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return tf.zeros_like(X[..., 0])

    def num_own(self, graph: DuelGraph) -> int:
        return 0

    def own_features(self, graph: DuelGraph, inputs: tf.Tensor) -> tf.Tensor:
        return inputs[..., :0]

    def difference_variance(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        return tf.zeros_like(first[..., 0])


def pair_effect(kernel: gpflow.kernels.Kernel) -> PairEffect | None:
    """The effect of pairs in a kernel or a sum of kernels; None without.

    :raises ValueError: more than one, or one inside something that is not a sum.
    """
    return next(iter(terms_of(kernel, PairEffect)), None)


class Pairs(NamedTuple):
    """Which unordered pair of items each site is of."""

    number: IntArray
    """(t,) 0, 1, … without a gap."""
    sign: FloatArray
    """(t,) 1 where z has the effect g of its pair, the lead of the item with the lower number, and
    -1 where it has -g, 0 of an item in two contexts, which has none with itself."""
    items: IntArray
    """(P, 2) the lower and the higher number of the items of each pair, ascending."""

    @classmethod
    def of_graph(cls, graph: DuelGraph) -> Pairs:
        """Those of the sites of a graph whose rows have the numbers of the items."""

        def lay_out() -> Pairs:
            assert graph.layout.numbered
            numbers = graph.rows[:, graph.layout.number].astype(np.int64)
            ends = np.stack([numbers[graph.losers], numbers[graph.winners]], 1)
            items, number = np.unique(np.sort(ends, 1), axis=0, return_inverse=True)
            sign = np.sign(ends[:, 1] - ends[:, 0]).astype(np.float64)
            return cls(number.reshape(-1), sign, items)

        return graph.once("pairs", lay_out)

    def find(self, first: IntArray, second: IntArray) -> IntArray:
        """The pair of items by their numbers, (N,), -1 for one that never met."""
        base = 1 + max(int(self.items.max()), int(first.max()), int(second.max()))
        known = self.items @ np.array([base, 1])
        low, high = np.minimum(first, second), np.maximum(first, second)
        wanted = low * base + high
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where((low >= 0) & (known[place] == wanted), place, -1)


def looks_of_pairs(graph: DuelGraph) -> Looks:
    """Duels of one pair as looks at its rows, which share its effect."""

    def laid_out() -> Looks:
        ends = np.stack([graph.winners, graph.losers], 1)
        pairs = Pairs.of_graph(graph)
        return Looks.of(graph, Noises(ends, pairs.number, np.full(graph.num_sites, 2.0)))

    return graph.once("looks of pairs", laid_out)


def signs_of(form: Form, pairs: Pairs) -> tf.Tensor:
    """(r, g) of the rows of the looks of a form."""
    return as_float(pairs.sign[form.bucket.sites.T])


def shared_effects(form: Form, graph: DuelGraph, variance: tf.Tensor) -> tf.Tensor:
    """Covariance of the effects in the rows of the looks of a form, (r, r, g)."""
    sign = signs_of(form, Pairs.of_graph(graph))
    return variance * sign[:, None] * sign
