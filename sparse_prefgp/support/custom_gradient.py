"""`tf.custom_gradient` whose compiled functions go when nobody has them any more."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

_NAME = "SparsePrefgpHeldByGraph"


@tf.RegisterGradient(_NAME)
def _held_by_graph(op: tf.Operation, *upstream: tf.Tensor) -> list[tf.Tensor | None]:
    # A graph begins with what the one around it held by then, maybe under the same name.
    return op.graph.get_collection(_collection(op))[-1](*upstream)


def _collection(op: tf.Operation) -> str:
    return f"{_NAME}/{op.name}"


def custom_gradient(function: Callable[..., tuple[tf.Tensor, Any]]) -> Callable[..., tf.Tensor]:
    """`tf.custom_gradient` of one tensor, made of any number of them.

    While a function is traced TensorFlow registers each gradient for ever, and with it the whole
    graph that it is part of. Here the graph holds its gradients itself.
    """

    @functools.wraps(function)
    def compute(*tensors: Any) -> tf.Tensor:
        if tf.executing_eagerly():
            return tf.custom_gradient(function)(*tensors)
        # Only in a function of its own do tapes heed what stands in place of a gradient. It is
        # made for each call, as it may hold tensors of the graph around it.
        return tf.function(inner, autograph=False)(*map(tf.convert_to_tensor, tensors))

    def inner(*tensors: tf.Tensor) -> tf.Tensor:
        result, gradient = function(*tensors)
        graph = result.graph
        with graph.gradient_override_map({"IdentityN": _NAME}):
            found, *_ = tf.identity_n([result, *tensors])

        def with_upstream(upstream: tf.Tensor, *_: tf.Tensor) -> list[tf.Tensor | None]:
            by = gradient(upstream)
            return [None, *(by if isinstance(by, list | tuple) else [by])]

        graph.add_to_collection(_collection(found.op), with_upstream)
        return found

    return compute
