"""Prior variances of utility differences, for any GPflow kernel."""

from __future__ import annotations

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.item_effect import ItemEffect
from sparse_prefgp.graph import DuelGraph


def difference_variance(kernel: gpflow.kernels.Kernel, graph: DuelGraph) -> tf.Tensor:
    """Var[f(loser) - f(winner)] under the prior for each site of the graph, (t,)."""
    winners, losers = graph.edges
    rows = tf.constant(graph.rows, gpflow.default_float())
    variance = pair_difference_variance(kernel, tf.gather(rows, winners), tf.gather(rows, losers))
    # A duel between equal rows compares f(x) with itself, whatever white noise a kernel holds.
    return tf.where(winners == losers, tf.zeros_like(variance), variance)


def pair_difference_variance(
    kernel: gpflow.kernels.Kernel, first: tf.Tensor, second: tf.Tensor
) -> tf.Tensor:
    """Var[f(first_i) - f(second_i)] under the prior, (t,), for inputs (t, D) and (t, D).

    Stationary and linear kernels and their sums work on differences of inputs, which is faster and
    exact near zero; every other kernel is evaluated on stacked pairs, k(1,1) + k(2,2) - 2 k(1,2).
    """
    if isinstance(kernel, gpflow.kernels.Sum):
        return tf.add_n([pair_difference_variance(k, first, second) for k in kernel.kernels])
    if isinstance(kernel, gpflow.kernels.Constant):
        return tf.zeros(tf.shape(first)[:1], first.dtype)
    if isinstance(kernel, ItemEffect):
        same = first[:, -1] == second[:, -1]
        return tf.where(same, tf.zeros_like(first[:, -1]), 2.0 * kernel.variance)
    if type(kernel) is gpflow.kernels.Linear:
        step, _ = kernel.slice(second - first, None)
        return tf.reduce_sum(kernel.variance * step**2, -1)
    if _works_on_distances(kernel):
        step, _ = kernel.slice(second - first, None)
        squared = tf.reduce_sum((step / kernel.lengthscales) ** 2, -1)
        return 2.0 * (kernel.variance - kernel.K_r2(squared))
    blocks = stacked_covariance(kernel, tf.stack([first, second], 1))
    return blocks[:, 0, 0] + blocks[:, 1, 1] - 2.0 * blocks[:, 0, 1]


def stacked_covariance(kernel: gpflow.kernels.Kernel, inputs: tf.Tensor) -> tf.Tensor:
    """The kernel matrix of each of g sets of inputs (g, p, D): (g, p, p).

    :raises ValueError: a kernel that takes no stacked inputs.
    """
    try:
        return kernel(inputs)
    except Exception as error:
        shape = ", ".join("?" if n is None else str(n) for n in inputs.shape)
        raise ValueError(
            f"The kernel {type(kernel).__name__} fails on stacked inputs [{shape}]; like those of "
            "GPflow's own kernels, its K must accept leading batch dimensions."
        ) from error


def _works_on_distances(kernel: gpflow.kernels.Kernel) -> bool:
    """A stationary kernel that is a function of distance and does not redefine K."""
    base = gpflow.kernels.IsotropicStationary
    return isinstance(kernel, base) and type(kernel).K is base.K


def cancelling_parts(kernel: gpflow.kernels.Kernel) -> list[str]:
    """Names of the constant terms of a kernel, which no duel can see."""
    if isinstance(kernel, gpflow.kernels.Sum):
        return [name for part in kernel.kernels for name in cancelling_parts(part)]
    return [type(kernel).__name__] if isinstance(kernel, gpflow.kernels.Constant) else []


def as_float(values: np.ndarray) -> tf.Tensor:
    """An array as a tensor of GPflow's default float."""
    return tf.convert_to_tensor(np.asarray(values), dtype=gpflow.default_float())
