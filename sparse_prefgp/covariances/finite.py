"""Kernels of finitely many features of their own, next to those of inducing inputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

import gpflow
import tensorflow as tf

from sparse_prefgp.data.graph import DuelGraph


class FiniteKernel(gpflow.kernels.Kernel):
    """A term of a sum of kernels whose features are inducing values themselves.

    k(x, x') = a(x) a(x')' for features a, or the most important of them: what these leave out is
    unexplained as what inducing inputs leave out is.
    """

    def num_own(self, graph: DuelGraph) -> int:
        """p, how many features it has."""
        raise NotImplementedError  # of utilities in time, which are filtered

    def own_features(self, graph: DuelGraph, inputs: tf.Tensor) -> tf.Tensor:
        """a, (N, p), of rows (N, ...) as the graph has them."""
        raise NotImplementedError

    @abstractmethod
    def difference_variance(self, first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        """Var[f(first_i) - f(second_i)], (N,), of rows."""


def positive(value: Any) -> gpflow.Parameter:
    """A trainable number above 0."""
    return gpflow.Parameter(value, transform=gpflow.utilities.positive())


def parts_of(kernel: gpflow.kernels.Kernel) -> list[gpflow.kernels.Kernel]:
    """The terms of a sum of kernels; of any other kernel itself."""
    if isinstance(kernel, gpflow.kernels.Sum):
        return [part for inner in kernel.kernels for part in parts_of(inner)]
    return [kernel]


T = TypeVar("T")


def terms_of(
    kernel: gpflow.kernels.Kernel, kind: type[T] | tuple[type[T], ...], once: type | None = None
) -> list[T]:
    """The terms of some kinds of a kernel or a sum of kernels.

    :param once: a kind of which there can be one, as duels see only the sum.
    :raises ValueError: two of that kind; one inside something that is not a sum.
    """
    parts = parts_of(kernel)
    found = [part for part in parts if isinstance(part, kind)]
    names = [type(part).__name__ for part in found if once is None or isinstance(part, once)]
    if len(names) > 1:
        raise ValueError(
            f"The kernel has {len(names)} {names[0]} terms, of which duels see only the sum; keep "
            "one."
        )
    others = [part for part in parts if not isinstance(part, kind)]
    for module in (module for part in others for module in part.submodules):
        if isinstance(module, kind):
            name = type(module).__name__
            raise ValueError(
                f"{name} stands inside a product or another combination of kernels; add it to the "
                f"others, kernel + {name}(…)."
            )
    return found


def finite_parts(kernel: gpflow.kernels.Kernel) -> list[FiniteKernel]:
    """The terms with features of their own."""
    return [part for part in parts_of(kernel) if isinstance(part, FiniteKernel)]


def feature_part(kernel: gpflow.kernels.Kernel) -> gpflow.kernels.Kernel | None:
    """The kernel without these terms; None where nothing else is left."""
    return sum_of([part for part in parts_of(kernel) if not isinstance(part, FiniteKernel)])


def sum_of(parts: list[gpflow.kernels.Kernel]) -> gpflow.kernels.Kernel | None:
    """Terms as one kernel; None for none."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else gpflow.kernels.Sum(parts)
