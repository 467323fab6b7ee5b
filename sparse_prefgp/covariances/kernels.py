"""Any GPflow kernel: its covariances, and prior variances of utility differences."""

from __future__ import annotations

import math
from functools import reduce

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.distances import scaled_squared_distances
from sparse_prefgp.covariances.finite import FiniteKernel, parts_of, sum_of
from sparse_prefgp.covariances.projected import Projected, ProjectedPoints
from sparse_prefgp.data.graph import DuelGraph, Links
from sparse_prefgp.support.arrays import FloatArray


def kernel_matrix(
    kernel: gpflow.kernels.Kernel, inputs: tf.Tensor, others: tf.Tensor | None = None
) -> tf.Tensor:
    """What `kernel(inputs, others)` is, with the digits that stationary kernels lose there.

    GPflow takes a squared distance apart into dot products, which at small lengthscales leaves
    rounding noise of the size of the kernel itself. Here stationary kernels, and those in sums and
    products, see differences of inputs (`covariances/distances.py`); every other kernel is
    evaluated as GPflow does.

    :param inputs: (..., N, D).
    :param others: (..., M, D), or None for the inputs themselves.
    :return: (..., N, N), or (..., N, ..., M) with others.
    """
    if isinstance(kernel, gpflow.kernels.Sum):
        return tf.add_n([kernel_matrix(part, inputs, others) for part in kernel.kernels])
    if isinstance(kernel, gpflow.kernels.Product):
        return reduce(tf.multiply, [kernel_matrix(part, inputs, others) for part in kernel.kernels])
    if isinstance(kernel, Projected):
        projected = None if others is None else kernel.project(others)
        return kernel_matrix(kernel.kernel, kernel.project(inputs), projected)
    if not _works_on_distances(kernel):
        return kernel(inputs, others)
    x, z = kernel.slice(tf.convert_to_tensor(inputs), others)
    inverse = tf.broadcast_to(1.0 / kernel.lengthscales, [tf.shape(x)[-1]])
    if z is None:
        return kernel.K_r2(scaled_squared_distances(x, None, inverse))
    z = tf.convert_to_tensor(z)
    if x.shape.rank == z.shape.rank == 2:
        return kernel.K_r2(scaled_squared_distances(x, z, inverse))
    shape = tf.concat([tf.shape(x)[:-1], tf.shape(z)[:-1]], 0)
    x, z = (tf.reshape(side, [-1, side.shape[-1]]) for side in (x, z))
    return kernel.K_r2(tf.reshape(scaled_squared_distances(x, z, inverse), shape))


def with_rows(kernel: gpflow.kernels.Kernel, inputs: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Covariances (N, n) of single utilities at inputs (N, D) with those of rows (n, D), which a
    `centred` kernel has about its centre."""
    found, more = kernel_matrix(kernel, inputs, rows), of_the_centre(kernel, rows)
    return found if more is None else found + more


def between_inducing(
    inducing: gpflow.inducing_variables.InducingVariables, kernel: gpflow.kernels.Kernel
) -> tf.Tensor:
    """K_uu, (m, m), without jitter."""
    return with_inducing(inducing, kernel, None)


def with_inducing(
    inducing: gpflow.inducing_variables.InducingVariables,
    kernel: gpflow.kernels.Kernel,
    inputs: tf.Tensor | None,
) -> tf.Tensor:
    """K_ux, (m, N), for inputs (N, D); K_uu for None."""
    if isinstance(inducing, ProjectedPoints) and isinstance(kernel, Projected):
        directions = None if inputs is None else kernel.project(inputs)
        return kernel_matrix(kernel.kernel, inducing.Z, directions)
    known, points = gpflow.covariances.Kuu, gpflow.inducing_variables.InducingPoints
    of_values = known.dispatch(points, gpflow.kernels.Kernel)
    if known.dispatch(type(inducing), type(kernel)) is of_values:  # values of f, as for any kernel
        return kernel_matrix(kernel, inducing.Z, inputs)
    if inputs is None:
        return gpflow.covariances.Kuu(inducing, kernel, jitter=0.0)
    return gpflow.covariances.Kuf(inducing, kernel, inputs)


def difference_variance(
    kernel: gpflow.kernels.Kernel, graph: DuelGraph, links: Links | None = None
) -> tf.Tensor:
    """Var[f(loser) - f(winner)] under the prior for each site of the graph, (t,).

    :param links: other sites between its rows, in place of its own.
    """
    between = graph if links is None else links
    winners, losers = between.edges
    rows = tf.constant(graph.rows, gpflow.default_float())
    variance = pair_difference_variance(kernel, tf.gather(rows, winners), tf.gather(rows, losers))
    # A duel between equal rows compares f(x) with itself, whatever white noise a kernel holds.
    return tf.where(between.same_ends(graph.rows), tf.zeros_like(variance), variance)


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
    if isinstance(kernel, FiniteKernel):
        return kernel.difference_variance(first, second)
    if isinstance(kernel, Projected):
        return pair_difference_variance(
            kernel.kernel, kernel.project(first), kernel.project(second)
        )
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
        return kernel_matrix(kernel, inputs)
    except Exception as error:
        shape = ", ".join("?" if n is None else str(n) for n in inputs.shape)
        raise ValueError(
            f"The kernel {type(kernel).__name__} fails on stacked inputs [{shape}]; like those of "
            "GPflow's own kernels, its K must accept leading batch dimensions."
        ) from error


def _works_on_distances(kernel: gpflow.kernels.Kernel) -> bool:
    """A stationary kernel that is a function of distance, and takes it as GPflow does."""
    base = gpflow.kernels.IsotropicStationary
    own = ("__call__", "K", "scaled_squared_euclid_dist", "scale", "slice")
    return isinstance(kernel, base) and all(
        getattr(type(kernel), name) is getattr(base, name) for name in own
    )


def variance_of(kernel: gpflow.kernels.Kernel) -> tuple[float, float]:
    """Mean and sum of the variances of a kernel, one or one for each feature; in a product, the
    products of those of its factors, and of effects of items, those of their kernel."""
    if hasattr(kernel, "kernels"):
        over = math.prod if isinstance(kernel, gpflow.kernels.Product) else sum
        each = [variance_of(part) for part in kernel.kernels]
        return float(over(mean for mean, _ in each)), float(over(total for _, total in each))
    if not hasattr(kernel, "variance"):
        return variance_of(kernel.kernel)
    values = kernel.variance.numpy()
    return float(np.mean(values)), float(np.sum(values))


def cancelling_parts(kernel: gpflow.kernels.Kernel) -> list[str]:
    """Names of the constant terms of a kernel, which no duel can see."""
    if isinstance(kernel, gpflow.kernels.Sum):
        return [name for part in kernel.kernels for name in cancelling_parts(part)]
    return [type(kernel).__name__] if isinstance(kernel, gpflow.kernels.Constant) else []


def as_float(values: np.ndarray) -> tf.Tensor:
    """An array as a tensor of GPflow's default float, eager: graphs refer to it without a copy."""
    with tf.init_scope():
        return tf.convert_to_tensor(np.asarray(values), dtype=gpflow.default_float())


def as_places(numbers: np.ndarray) -> tf.Tensor:
    """Whole numbers by which others are gathered, eager too: an array would be a constant of the
    graph, of which TensorFlow has half a dozen copies."""
    with tf.init_scope():
        return tf.convert_to_tensor(np.asarray(numbers, np.int32))


# Linear terms about a centre: what duels see of them, without the cancellation of far features. A
# difference of utilities under a linear kernel is one of features, whatever is added to all of
# them; in a matrix over items, what is added costs its square in digits. So rows of duels and
# inducing inputs are taken about a centre wherever a linear kernel stands alone or as a term of a
# sum. With f(x) = w'x that is f(x) - f(centre); a single utility has f(centre) besides.


class CentredLinear(gpflow.kernels.Linear):
    """A linear kernel of `x - centre`.

    :param linear: the kernel, whose parameters it has.
    :param centre: (D,).
    """

    def __init__(self, linear: gpflow.kernels.Linear, centre: FloatArray) -> None:
        gpflow.kernels.Kernel.__init__(self, active_dims=linear.active_dims)
        self.variance = linear.variance
        point = tf.constant(centre[None], gpflow.default_float())
        self.centre, _ = super().slice(point)  # (1, active)

    def slice(
        self, X: tf.Tensor, X2: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        one, other = super().slice(X, X2)
        return one - self.centre, None if other is None else other - self.centre


def centred(
    kernel: gpflow.kernels.Kernel | None, centre: FloatArray | None
) -> gpflow.kernels.Kernel | None:
    """The kernel with its linear terms about the centre; itself where there are none.

    :param centre: (D,); None for the kernel as it is.
    """
    if kernel is None or centre is None:
        return kernel
    parts = parts_of(kernel)
    about = [
        CentredLinear(part, centre) if type(part) is gpflow.kernels.Linear else part
        for part in parts
    ]
    if all(new is old for new, old in zip(about, parts, strict=True)):
        return kernel
    return sum_of(about)


def of_the_centre(kernel: gpflow.kernels.Kernel, rows: tf.Tensor) -> tf.Tensor | None:
    """Covariance (N,) of f(centre) under the linear terms of a `centred` kernel with its values at
    rows (N, D); None where nothing is centred."""
    found = []
    for part in parts_of(kernel):
        if isinstance(part, CentredLinear):
            step, _ = part.slice(rows)
            found.append(tf.linalg.matvec(step, part.variance * part.centre[0]))
    return tf.add_n(found) if found else None
