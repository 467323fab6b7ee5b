"""Gradients of one's own: the same at every depth, and gone with the graph that has them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sparse_prefgp.support.custom_gradient import custom_gradient
from tests.tolerances import IDENTITY

POINTS = np.array([-1.3, 0.2, 2.1])


@custom_gradient
def cube(x: tf.Tensor) -> tuple[tf.Tensor, Any]:
    return tf.stop_gradient(x) ** 3, lambda upstream: 3.0 * upstream * square(x)


@custom_gradient
def square(x: tf.Tensor) -> tuple[tf.Tensor, Any]:
    return tf.stop_gradient(x) ** 2, lambda upstream: 2.0 * upstream * x


@custom_gradient
def weighted(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """x y, with slopes that are not those of x y."""
    return x * y, lambda upstream: (5.0 * upstream, 7.0 * upstream)


def derivatives(x: tf.Tensor) -> list[tf.Tensor]:
    with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as first:
            first.watch(x)
            value = cube(tf.sin(x))
        slope = first.gradient(value, x)
    return [value, slope, second.gradient(slope, x)]


def outside(x: tf.Tensor) -> list[tf.Tensor]:
    """The tape is around a compiled function."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.function(lambda x: cube(tf.sin(x)), autograph=False)(x)
    return [value, tape.gradient(value, x)]


@pytest.mark.parametrize(
    "ways",
    [
        derivatives,
        tf.function(derivatives, autograph=False),
        tf.function(derivatives, autograph=False, jit_compile=True),
        outside,
        tf.function(outside, autograph=False),
    ],
    ids=["eager", "compiled", "fused", "outside", "nested"],
)
def test_derivatives_are_those_that_were_given(ways: Any) -> None:
    s, c = np.sin(POINTS), np.cos(POINTS)
    expected = [s**3, 3.0 * s**2 * c, 6.0 * s * c**2 - 3.0 * s**3]
    for found, wanted in zip(ways(tf.constant(POINTS)), expected, strict=False):
        np.testing.assert_allclose(found, wanted, rtol=IDENTITY)


@pytest.mark.parametrize("compiled", [False, True])
def test_of_several_tensors(compiled: bool) -> None:
    def slopes(x: tf.Tensor) -> list[tf.Tensor]:
        y = 2.0 * x
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            found = weighted(x, y)
        return [found, *tape.gradient(found, [x, y])]

    found = (tf.function(slopes, autograph=False) if compiled else slopes)(tf.constant(3.0))
    assert list(map(float, found)) == [18.0, 5.0, 7.0]


def test_a_graph_goes_with_its_function() -> None:
    compiled = tf.function(derivatives, autograph=False)
    graph = weakref.ref(compiled.get_concrete_function(tf.constant(POINTS)).graph)
    assert graph() is not None
    del compiled
    gc.collect()
    assert graph() is None
