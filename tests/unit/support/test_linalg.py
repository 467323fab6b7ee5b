"""Jitter: none without need, as little as mends, reported, NaN when hopeless."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from sparse_prefgp.support import linalg
from sparse_prefgp.support.linalg import (
    MAX_CONDITION,
    add_to_diagonal,
    cholesky_with_jitter,
    chunks,
    inverse_lower,
    own_squared_lengths,
    product_plus_outer,
    solved_rows,
    squared_lengths,
    weighted_gram,
)
from tests.tolerances import IDENTITY, ROUNDING, TAIL


def positive(seed: int = 0, n: int = 5) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(n, n))
    return root @ root.T + np.eye(n)


def test_no_jitter_when_none_is_needed() -> None:
    matrix = positive()
    factor, jitter = cholesky_with_jitter(tf.constant(matrix), MAX_CONDITION)
    assert float(jitter) == 0.0
    np.testing.assert_array_equal(factor, tf.linalg.cholesky(tf.constant(matrix)))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_singular_matrix_takes_the_smallest_jitter_that_mends(scale: float) -> None:
    ones = scale * np.ones((4, 4))
    factor, jitter = cholesky_with_jitter(tf.constant(ones), MAX_CONDITION)
    share = float(jitter) / scale
    assert share > 0.0
    exponent = np.log10(share)
    assert exponent == pytest.approx(round(exponent), abs=IDENTITY)  # one of 1e-14, 1e-13, …
    np.testing.assert_allclose(
        factor @ tf.transpose(factor), ones + float(jitter) * np.eye(4), rtol=TAIL
    )
    diagonal = np.diag(factor)
    assert (diagonal.max() / diagonal.min()) ** 2 <= MAX_CONDITION
    if share > 1e-14 * (1 + IDENTITY):  # a tenth of it would not have done
        less = np.linalg.cholesky  # NaN in TensorFlow, an error in NumPy
        try:
            diagonal = np.diag(less(ones + 0.1 * float(jitter) * np.eye(4)))
        except np.linalg.LinAlgError:
            return
        assert (diagonal.max() / diagonal.min()) ** 2 > MAX_CONDITION


def test_slightly_indefinite_matrix_takes_what_it_lacks() -> None:
    values = np.array([1.0, 0.5, -3e-9])
    q = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    matrix = q @ np.diag(values) @ q.T
    factor, jitter = cholesky_with_jitter(tf.constant(0.5 * (matrix + matrix.T)))
    assert np.all(np.isfinite(factor))
    # c · mean(diag) is the first power of ten above 3e-9: between 3e-9 and 3e-8.
    assert 3e-9 < float(jitter) < 3e-8


@pytest.mark.parametrize("bad", [np.array([[1.0, 5.0], [5.0, 1.0]]), np.full((2, 2), np.nan)])
def test_hopeless_matrix_is_nan_not_an_exception(bad: np.ndarray) -> None:
    factor, _ = cholesky_with_jitter(tf.constant(bad))
    assert not np.all(np.isfinite(factor))


def test_condition_number_is_looked_at_only_when_asked() -> None:
    matrix = np.diag([1.0, 1e-15])
    assert float(cholesky_with_jitter(tf.constant(matrix))[1]) == 0.0
    assert float(cholesky_with_jitter(tf.constant(matrix), MAX_CONDITION)[1]) > 0.0


def test_gradient_flows_through_the_factor() -> None:
    matrix = tf.constant(positive(2))
    with tf.GradientTape() as tape:
        tape.watch(matrix)
        factor, _ = cholesky_with_jitter(matrix)
        half_log_det = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))
    gradient = tape.gradient(half_log_det, matrix).numpy()
    np.testing.assert_allclose(
        0.5 * (gradient + gradient.T), 0.5 * np.linalg.inv(matrix), rtol=IDENTITY, atol=IDENTITY
    )


def test_single_precision_starts_at_its_own_rounding() -> None:
    factor, jitter = cholesky_with_jitter(tf.ones((4, 4), tf.float32), MAX_CONDITION)
    assert np.all(np.isfinite(factor))
    assert 1e-8 < float(jitter) <= 1e-4


def test_works_in_a_compiled_function() -> None:
    compiled = tf.function(lambda m: cholesky_with_jitter(m, MAX_CONDITION))
    ones = tf.ones((4, 4), tf.float64)
    assert float(compiled(ones)[1]) == float(cholesky_with_jitter(ones, MAX_CONDITION)[1]) > 0


def test_add_to_diagonal() -> None:
    matrix = positive(3)
    np.testing.assert_array_equal(
        add_to_diagonal(tf.constant(matrix), tf.constant(2.0, tf.float64)), matrix + 2 * np.eye(5)
    )
    each = np.arange(5.0)
    np.testing.assert_array_equal(
        add_to_diagonal(tf.constant(matrix), tf.constant(each)), matrix + np.diag(each)
    )


def test_inverse_lower() -> None:
    factor = np.linalg.cholesky(positive(4))
    inverse = inverse_lower(tf.constant(factor)).numpy()
    np.testing.assert_allclose(inverse @ factor, np.eye(5), atol=TAIL)
    assert np.all(np.triu(inverse, 1) == 0.0)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("least", [-1.0, 0.0])
def test_sums_over_chunks_of_rows(
    least: float, traced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(50, 4)), rng.uniform(least, 1.0, 50)
    matrix = rng.normal(size=(4, 4))
    monkeypatch.setattr(linalg, "_LARGE_PRODUCT", 0)
    monkeypatch.setattr(linalg, "_CHUNK_BYTES", 7 * 4 * 8)

    def both() -> tuple[tf.Tensor, tf.Tensor]:
        x = tf.constant(rows)
        return weighted_gram(x, tf.constant(weights)), squared_lengths(x, tf.constant(matrix))

    gram, lengths = tf.function(both)() if traced else both()
    expected = sum(w * np.outer(x, x) for w, x in zip(weights, rows, strict=True))
    np.testing.assert_allclose(gram, expected, rtol=ROUNDING, atol=ROUNDING)
    expected = [np.sum((matrix @ x) ** 2) for x in rows]
    np.testing.assert_allclose(lengths, expected, rtol=ROUNDING)


def test_chunks_cover_all_rows_once() -> None:
    assert list(chunks(5, 1 << 20)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(chunks(2, 1 << 30)) == [slice(0, 1), slice(1, 2)]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [2, 3])
def test_product_plus_outer_is_what_it_says(
    large: bool, weighted: bool, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(linalg, "_LARGE_PRODUCT", 0)
        monkeypatch.setattr(linalg, "_CHUNK_BYTES", 100)
    rng = np.random.default_rng(3)
    rows, matrix = rng.normal(size=(11, 3)), rng.normal(size=(3, columns))
    left, weights = rng.normal(size=(11, 1)), rng.normal(size=11)
    right = rng.normal(size=(columns, 1))
    expected = (weights[:, None] if weighted else 1.0) * (rows @ matrix) + left @ right.T
    given = [tf.constant(x) for x in (rows, matrix, left, right)]
    scale = tf.constant(weights) if weighted else None
    np.testing.assert_allclose(product_plus_outer(*given, scale), expected, rtol=0, atol=ROUNDING)
    compiled = tf.function(product_plus_outer)
    np.testing.assert_allclose(compiled(*given, scale), expected, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("large", [False, True])
def test_solved_rows_and_their_lengths_have_the_gradient_of_the_plain_formulas(
    large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(linalg, "_LARGE_PRODUCT", 0)
    rng = np.random.default_rng(4)
    factor = tf.constant(np.linalg.cholesky(positive(4, 3)))
    columns, weights = tf.constant(rng.normal(size=(3, 11))), rng.normal(size=(11, 3))
    lengths = tf.constant(rng.normal(size=11))

    def by_package() -> tf.Tensor:
        rows = solved_rows(factor, columns)
        return tf.reduce_sum(weights * rows) + tf.reduce_sum(lengths * own_squared_lengths(rows))

    def plainly() -> tf.Tensor:
        lower = tf.linalg.band_part(factor, -1, 0)
        rows = tf.transpose(tf.linalg.inv(lower) @ columns)
        return tf.reduce_sum(weights * rows) + tf.reduce_sum(lengths[:, None] * rows**2)

    found = []
    for function in (plainly, by_package):
        with tf.GradientTape() as tape:
            tape.watch([factor, columns])
            value = function()
        found.append((value, *tape.gradient(value, [factor, columns])))
    for expected, actual in zip(*found, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=IDENTITY, atol=ROUNDING)
