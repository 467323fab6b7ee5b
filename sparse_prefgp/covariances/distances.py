"""Squared distances in units of lengthscales, without the cancellation of dot products."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from scipy.spatial.distance import cdist

from sparse_prefgp.support.custom_gradient import custom_gradient

# Up to so many columns each difference is taken by itself; more go by dot products.
EXACT_COLUMNS = 32
# Numbers of rows × rows × columns from which on, in a compiled function, fusing pays.
_FUSE_ABOVE = 1 << 18
# Distances from the centre, in lengthscales, up to which a gradient by dot products is good to
# 1e-10 of itself.
_GRADIENT_REACH = 1e3


def scaled_squared_distances(x: tf.Tensor, z: tf.Tensor | None, inverse: tf.Tensor) -> tf.Tensor:
    """sum_d ((x_id - z_jd) w_d)², (..., N, M), for x (..., N, D), z (..., M, D) and w (D,).

    Up to 32 columns the sum is over the differences themselves: exactly zero for equal rows, and
    relatively as good as the inputs at any lengthscale. Above, it is |a|² + |b|² - 2ab with a and b
    centred and scaled; rounding then leaves an error of some 2e-16 D max |a|², set to 0 where that
    makes a square negative.

    Gradients keep no array per column. They are matrix products too, which at lengthscales below a
    thousandth of the spread would lose digits in w; there they are summed column by column.

    :param z: None for x itself.
    :param inverse: (D,) w, 1 / lengthscales.
    """
    columns, other = x.shape[-1], x if z is None else z
    if columns is None or columns > EXACT_COLUMNS:
        centre = tf.stop_gradient(tf.reduce_mean(other, -2, keepdims=True))
        a, b = (x - centre) * inverse, (other - centre) * inverse
        squares = [tf.reduce_sum(side * side, -1) for side in (a, b)]
        found = squares[0][..., :, None] + squares[1][..., None, :]
        found -= 2.0 * tf.matmul(a, b, transpose_b=True)
        found = tf.maximum(found, tf.zeros_like(found))
        return found if z is not None else tf.linalg.set_diag(found, tf.zeros_like(found[..., 0]))
    result: tf.Tensor = _of_differences(x, other, inverse)
    return result


@custom_gradient
def _of_differences(x: tf.Tensor, z: tf.Tensor, inverse: tf.Tensor) -> tuple[tf.Tensor, Any]:
    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        centre = tf.reduce_mean(z, -2, keepdims=True)
        a, b = x - centre, z - centre
        reach = tf.reduce_max(tf.abs(a * inverse))
        by_x, by_z, by_column = tf.cond(
            reach <= _GRADIENT_REACH,
            lambda: _moments(a, b, upstream),
            lambda: _exact_moments(x, z, upstream),
        )
        return 2.0 * inverse**2 * by_x, -2.0 * inverse**2 * by_z, 2.0 * inverse * by_column

    return _distances(x, z, inverse), gradient


def _moments(
    x: tf.Tensor, z: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Of weights G (..., N, M) on the differences: their sums over j, over i, and of squares."""
    rows = tf.reduce_sum(weights, -1)[..., None]
    columns = tf.reduce_sum(weights, -2)[..., None]
    with_z = tf.matmul(weights, z)
    by_x = rows * x - with_z
    by_z = tf.matmul(weights, x, transpose_a=True) - columns * z
    squares = tf.reduce_sum((rows * x - 2.0 * with_z) * x, -2)
    squares += tf.reduce_sum(columns * z * z, -2)
    return by_x, by_z, tf.reduce_sum(tf.reshape(squares, [-1, squares.shape[-1]]), 0)


def _exact_moments(
    x: tf.Tensor, z: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """`_moments`, column by column."""
    by_x, by_z, squares = [], [], []
    for d in range(x.shape[-1]):
        step = x[..., :, None, d] - z[..., None, :, d]
        weighted = weights * step
        by_x.append(tf.reduce_sum(weighted, -1))
        by_z.append(tf.reduce_sum(weighted, -2))
        squares.append(tf.reduce_sum(weighted * step))
    return tf.stack(by_x, -1), tf.stack(by_z, -1), tf.stack(squares)


def _distances(x: tf.Tensor, z: tf.Tensor, inverse: tf.Tensor) -> tf.Tensor:
    """The forward pass, by what is fastest at its place: SciPy, the compiler, or TensorFlow."""
    if tf.executing_eagerly() and x.shape.rank == 2:
        found = cdist(x.numpy(), z.numpy(), "sqeuclidean", w=inverse.numpy() ** 2)
        return tf.convert_to_tensor(np.asarray(found, dtype=x.dtype.as_numpy_dtype))
    size = (*x.shape, z.shape[-2])
    if None in size:  # compiling again for every number of rows would not pay
        return _by_columns(x, z, inverse)
    if np.prod(size, dtype=float) <= _FUSE_ABOVE:
        step = x[..., :, None, :] - z[..., None, :, :]
        return tf.linalg.matvec(step * step, inverse * inverse)
    return _fused(x, z, inverse)


def _by_columns(x: tf.Tensor, z: tf.Tensor, inverse: tf.Tensor) -> tf.Tensor:
    total: tf.Tensor = 0.0
    for d in range(x.shape[-1]):
        step = x[..., :, None, d] - z[..., None, :, d]
        total += step * step * inverse[d] ** 2
    return total


_fused = tf.function(_by_columns, jit_compile=True, autograph=False)
