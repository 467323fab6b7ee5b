"""Cholesky factors whose jitter is found, applied and reported, never hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.linalg
import tensorflow as tf

from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.custom_gradient import custom_gradient

MAX_CONDITION = 1e14
_FIRST_JITTER, _LAST_JITTER = 1e-14, 1e-4


def cholesky_with_jitter(
    matrix: tf.Tensor, max_condition: float = np.inf
) -> tuple[tf.Tensor, tf.Tensor]:
    """Lower Cholesky factor of a positive semi-definite matrix, and the jitter it took.

    The matrix is factorised as it is first. Only if that fails, or if the condition number
    (estimated from the factor's diagonal) exceeds `max_condition`, the smallest of
    c · mean(diagonal), c = 1e-14, 1e-13, …, 1e-4, that mends it is added to the diagonal.

    :param matrix: (m, m).
    :param max_condition: set it where the factor will be inverted.
    :return: the factor (m, m), NaN if not even the largest jitter helped, and the scalar that was
        added to the diagonal. Gradients flow through the factor, the jitter is a constant.
    """
    constant = tf.stop_gradient(matrix)
    scale = tf.reduce_mean(tf.linalg.diag_part(constant))
    smallest = _FIRST_JITTER if matrix.dtype == tf.float64 else 1e8 * _FIRST_JITTER
    largest = _LAST_JITTER

    def usable(factor: tf.Tensor) -> tf.Tensor:
        diagonal = tf.linalg.diag_part(factor)
        ratio = tf.reduce_max(diagonal) / tf.reduce_min(diagonal)
        # NaN compares false, so a failed factorisation is not usable.
        return (ratio * ratio <= max_condition) & tf.reduce_all(tf.math.is_finite(factor))

    def another(jitter: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
        return tf.logical_not(usable(factor)) & (jitter < largest * scale * 0.99)

    def more(jitter: tf.Tensor, factor: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        del factor
        jitter = tf.maximum(10.0 * jitter, smallest * scale)
        return jitter, tf.linalg.cholesky(add_to_diagonal(constant, jitter))

    start = (tf.zeros([], matrix.dtype), tf.linalg.cholesky(constant))
    jitter, _ = tf.while_loop(another, more, start)
    jitter = tf.stop_gradient(jitter)
    return tf.linalg.cholesky(add_to_diagonal(matrix, jitter)), jitter


def factorised(covariance: FloatArray, scale: float) -> tuple[FloatArray, float]:
    """The same of a covariance (c, c) to be drawn from, by NumPy.

    The jitter is the first of 0 and scale · (1e-14, 1e-13, …, 1e-4) that is enough: a centred
    covariance is singular wherever all items are in it, or the kernel cannot tell two apart.

    :raises ValueError: not even the largest is enough.
    """
    if scale == 0.0 and not covariance.any():  # as of utilities under effects of pairs alone
        return covariance, 0.0
    jitter = 0.0
    while jitter <= _LAST_JITTER * scale * 1.01:
        try:
            factor = scipy.linalg.cholesky(
                covariance + jitter * np.eye(len(covariance)), lower=True
            )
            return factor, jitter
        except scipy.linalg.LinAlgError:
            jitter = max(10.0 * jitter, _FIRST_JITTER * scale)
    raise ValueError(
        f"The covariance of {len(covariance)} candidates is not positive definite, even with "
        f"{_LAST_JITTER:g} of the prior variance added; raise the noise variance, or remove "
        "inducing inputs that nearly coincide."
    )


# Multiplications from which on the detour pays.
_LARGE_PRODUCT = 1e8


def constant_matmul(
    a: tf.Tensor, b: tf.Tensor, *, transpose_a: bool = False, transpose_b: bool = False
) -> tf.Tensor:
    """`tf.matmul` without gradient, by NumPy's BLAS where the product is large.

    TensorFlow multiplies float64 at about half the speed of a BLAS that knows the processor's
    widest instructions: 26 ms against 13 for (256 × 10,000) times (10,000 × 256) on two cores.
    """
    rows, inner = a.shape[::-1] if transpose_a else a.shape
    columns = b.shape[0] if transpose_b else b.shape[1]
    if None in (rows, inner, columns) or rows * inner * columns < _LARGE_PRODUCT:
        return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)

    def multiply(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (x.T if transpose_a else x) @ (y.T if transpose_b else y)

    return by_numpy(multiply, a, b, shape=[rows, columns])


def by_numpy(
    function: Callable[..., np.ndarray], *tensors: tf.Tensor, shape: list[int]
) -> tf.Tensor:
    """A function of arrays on tensors, without gradient; the result has the dtype of the first.

    `tf.numpy_function` copies what it is given where nothing is traced.
    """
    return each_by_numpy(lambda *arrays: [function(*arrays)], *tensors, shapes=[shape])[0]


def each_by_numpy(
    function: Callable[..., Any], *tensors: tf.Tensor, shapes: Sequence[Any]
) -> list[tf.Tensor]:
    """The same of a function that gives several arrays."""
    dtype = tensors[0].dtype
    if tf.executing_eagerly():
        rest = [*function(*(np.asarray(memoryview(x)) for x in tensors))][::-1]
        return [tf.convert_to_tensor(rest.pop(), dtype) for _ in shapes]  # none is there twice
    # An array of several rows would be one value.
    found = tf.numpy_function(lambda *x: [*function(*x)], tensors, [dtype] * len(shapes))
    return [tf.ensure_shape(*each) for each in zip(found, shapes, strict=True)]


# Bytes of rows that are worked on at once where all of them would need a second array.
_CHUNK_BYTES = 2 << 20


def weighted_gram(rows: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """`rows' diag(weights) rows`, (p, p), of rows (t, p) and weights (t,), without gradient.

    Where there are many rows, by chunks of them: no second (t, p) array.
    """
    t, p = rows.shape
    if t is None or t * p * p < _LARGE_PRODUCT:
        return tf.matmul(rows, weights[:, None] * rows, transpose_a=True)

    def add(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        total = np.zeros((p, p), x.dtype)
        root = np.sqrt(w) if np.all(w >= 0.0) else None
        for at in chunks(t, p * x.itemsize):
            if root is None:
                total += x[at].T @ (w[at, None] * x[at])
            else:  # a product with its own transpose takes half the multiplications
                scaled = root[at, None] * x[at]
                total += scaled.T @ scaled
        return total

    return by_numpy(add, rows, weights, shape=[p, p])


def squared_lengths(rows: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """|matrix row|² for each of rows (t, p) and a matrix (p, p), (t,).

    Without gradient, and where there are many rows by chunks of them.
    """
    t, p = rows.shape
    if t is None or t * p * p < _LARGE_PRODUCT:
        scaled = tf.matmul(rows, matrix, transpose_b=True)
        return tf.reduce_sum(scaled * scaled, -1)

    def measure(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        found = np.empty(t, x.dtype)
        for at in chunks(t, p * x.itemsize):
            scaled = x[at] @ matrix.T
            found[at] = np.einsum("ij,ij->i", scaled, scaled)
        return found

    return by_numpy(measure, rows, matrix, shape=[t])


def product_plus_outer(
    rows: tf.Tensor,
    matrix: tf.Tensor,
    left: tf.Tensor,
    right: tf.Tensor,
    weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """`diag(weights) rows matrix + left right'`, (t, r), for rows (t, p), a matrix (p, r), left
    (t, 1) and right (r, 1); weights (t,), or None for 1.

    Without gradient, and where there are many rows by chunks of them.
    """
    t, p = rows.shape
    if t is None or t * p * p < _LARGE_PRODUCT:
        weighted = rows if weights is None else weights[:, None] * rows
        return tf.matmul(weighted, matrix) + tf.matmul(left, right, transpose_b=True)

    def multiply(x: np.ndarray, matrix: np.ndarray, *others: np.ndarray) -> np.ndarray:
        left, right, *weights = others
        found = np.empty((t, matrix.shape[1]), x.dtype)
        for at in chunks(t, p * x.itemsize):
            np.matmul(x[at], matrix, out=found[at])
            if weights:
                found[at] *= weights[0][at, None]
            found[at] += left[at] * right.T
        return found

    given = (rows, matrix, left, right, *([] if weights is None else [weights]))
    return by_numpy(multiply, *given, shape=[t, matrix.shape[1]])


def solved_rows(factor: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """`(L⁻¹ columns)'`, (t, m), for a lower triangular factor L (m, m) and columns (m, t).

    Its gradient sums over many rows by NumPy's BLAS.
    """

    @custom_gradient
    def compute(factor: tf.Tensor, columns: tf.Tensor) -> tuple[tf.Tensor, object]:
        factor, columns = tf.stop_gradient(factor), tf.stop_gradient(columns)
        found = tf.transpose(tf.linalg.triangular_solve(factor, columns))

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            by_columns = tf.linalg.triangular_solve(factor, tf.transpose(upstream), adjoint=True)
            by_factor = constant_matmul(by_columns, found)
            return -tf.linalg.band_part(by_factor, -1, 0), by_columns

        return found, gradient

    return compute(factor, columns)


def own_squared_lengths(rows: tf.Tensor) -> tf.Tensor:
    """|row|² for each of rows (t, p), (t,), with a gradient that holds no second (t, p) array."""

    @custom_gradient
    def compute(x: tf.Tensor) -> tuple[tf.Tensor, object]:
        x = tf.stop_gradient(x)  # else an eager tape records the product too
        t, p = x.shape
        if t is None or t * p * p < _LARGE_PRODUCT:
            own = tf.reduce_sum(x * x, -1)
        else:
            own = by_numpy(lambda rows: np.einsum("ij,ij->i", rows, rows), x, shape=[t])
        return own, lambda upstream: (2.0 * upstream)[:, None] * x

    return compute(rows)


def chunks(total: int, row_bytes: int) -> Iterator[slice]:
    """Slices of `total` rows, a few megabytes each."""
    size = max(1, _CHUNK_BYTES // row_bytes)
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def add_to_diagonal(matrix: tf.Tensor, value: tf.Tensor | float) -> tf.Tensor:
    """`matrix` (..., m, m) with `value`, a scalar or (m,), added to its diagonal."""
    return tf.linalg.set_diag(matrix, tf.linalg.diag_part(matrix) + value)


def half_log_det_of(factor: tf.Tensor) -> tf.Tensor:
    """½ log|L L'| of a lower triangular factor L (m, m), a scalar; of several their sum."""
    return tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))


def inverse_lower(factor: tf.Tensor) -> tf.Tensor:
    """Inverse of a lower triangular (m, m) factor."""
    identity = tf.eye(tf.shape(factor)[0], dtype=factor.dtype)
    return tf.linalg.triangular_solve(factor, identity)
