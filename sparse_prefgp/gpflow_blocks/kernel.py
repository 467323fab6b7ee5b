"""The covariance of utility differences as a GPflow kernel, and inducing points among the items."""

from __future__ import annotations

from functools import partial
from typing import Any

import gpflow
import tensorflow as tf

from sparse_prefgp.covariances.finite import finite_parts
from sparse_prefgp.covariances.kernels import kernel_matrix, pair_difference_variance
from sparse_prefgp.data.items import check_features
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_kind


class DuelKernel(gpflow.kernels.Kernel):
    """Covariance of g = f(first) - f(second), for utilities f with the kernel `base`.

    Inputs are pairs (N, 2 D): the features of the first item, then those of the second;
    `stacked_duels` makes them with the winner first. Prior variances are those of the difference
    itself and keep their digits where two items are nearly equal.

    :param base: any GPflow kernel on the D features of an item, but for `ItemEffect` and
        `ItemTimes`.
    :raises ValueError: no kernel, or one with effects of items; later, an odd number of columns.
    """

    def __init__(self, base: gpflow.kernels.Kernel, name: str | None = None) -> None:
        super().__init__(name=name)
        hint = "a GPflow kernel on the features of an item, such as gpflow.kernels.Matern52()"
        check_kind("base", base, gpflow.kernels.Kernel, hint)
        effects = any(finite_parts(part) for part in (base, *base.submodules))
        together.check(stacked=True, item_effects=effects)
        self.base = base

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        """Covariance (..., N, N), or (..., N, ..., N2), in GPflow's shapes."""
        first, second = ends(X)
        if X2 is None:
            # One call for all items: white noise then is each item's own, as in `K_diag`.
            items = kernel_matrix(self.base, tf.concat([first, second], -2))
            n = tf.shape(first)[-2]
            ahead = items[..., :n, :] - items[..., n:, :]
            return ahead[..., :n] - ahead[..., n:]
        first2, second2 = ends(X2)
        k = partial(kernel_matrix, self.base)
        return (k(first, first2) - k(first, second2)) - (k(second, first2) - k(second, second2))

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        """Prior variance of each difference (..., N), exact for equal and nearly equal items."""
        first, second = ends(X)
        shape, columns = tf.shape(first), first.shape[-1]
        flat = (tf.reshape(end, [-1, columns]) for end in (first, second))
        return tf.reshape(pair_difference_variance(self.base, *flat), shape[:-1])


class ItemInducingPoints(gpflow.inducing_variables.InducingPoints):
    """Inducing values u = f(Z) of the utility, for models with a `DuelKernel`.

    m of them cost what m rows of the kernel cost. GPflow's own `InducingPoints` have 2 D columns
    with this kernel: each is a pair, and its value a difference.

    :param Z: (m, D) inputs in the space of items.
    :raises ValueError: Z is not (m, D) with finite numbers; later, it has other columns than items.
    """

    def __init__(self, Z: Any, name: str | None = None) -> None:
        known = isinstance(Z, (tf.Variable, gpflow.Parameter))
        super().__init__(Z if known else check_features(Z, "Z"), name=name)


@gpflow.covariances.Kuu.register(ItemInducingPoints, DuelKernel)
def _kuu(
    inducing_variable: ItemInducingPoints, kernel: DuelKernel, *, jitter: float = 0.0
) -> tf.Tensor:
    """Cov[u, u] (m, m) plus the jitter that the caller asks for."""
    k_uu = kernel_matrix(kernel.base, inducing_variable.Z)
    return k_uu + jitter * tf.eye(tf.shape(k_uu)[0], dtype=k_uu.dtype)


@gpflow.covariances.Kuf.register(ItemInducingPoints, DuelKernel, gpflow.base.TensorLike)
def _kuf(inducing_variable: ItemInducingPoints, kernel: DuelKernel, Xnew: Any) -> tf.Tensor:
    """Cov[u, g] (m, ..., N) for pairs Xnew (..., N, 2 D)."""
    first, second = ends(Xnew)
    if not first.shape[-1:].is_compatible_with(inducing_variable.Z.shape[-1:]):
        raise ValueError(
            f"Z has {inducing_variable.Z.shape[-1]} columns, but the pairs have "
            f"{first.shape[-1]} features for each item; give Z the columns of an item."
        )
    return kernel_matrix(kernel.base, inducing_variable.Z, first) - kernel_matrix(
        kernel.base, inducing_variable.Z, second
    )


@gpflow.covariances.Kuf.register(
    gpflow.inducing_variables.InducingPoints, DuelKernel, gpflow.base.TensorLike
)
def _kuf_of_pairs(
    inducing_variable: gpflow.inducing_variables.InducingPoints, kernel: DuelKernel, Xnew: Any
) -> tf.Tensor:
    """Cov[g, g] (m, ..., N) for inducing pairs, into which GPflow makes every array Z."""
    columns, wanted = inducing_variable.Z.shape[-1], Xnew.shape[-1]
    if columns != wanted:
        raise ValueError(
            f"The inducing inputs have {columns} columns, but the pairs have {wanted}; wrap "
            "inducing inputs that are items in ItemInducingPoints."
        )
    return kernel(inducing_variable.Z, Xnew)


def ends(pairs: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The first and the second item of each pair, (..., N, D) and (..., N, D).

    :param pairs: (..., N, 2 D).
    :raises ValueError: an odd number of columns.
    """
    pairs = tf.convert_to_tensor(pairs)
    columns = pairs.shape[-1]
    if columns is not None and columns % 2:
        raise ValueError(
            f"The inputs have {columns} columns, but a pair has the features of two items side by "
            "side; stack them with np.hstack([first, second]), and wrap inducing inputs that are "
            "items in ItemInducingPoints."
        )
    first, second = tf.split(pairs, 2, axis=-1)
    return first, second
