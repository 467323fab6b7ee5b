"""What models tell of themselves."""

from __future__ import annotations

from inspect import signature
from typing import Any, NamedTuple, TypeAlias

import gpflow
import numpy as np

from sparse_prefgp.support.arrays import FloatArray

# What `save` writes: a description for JSON, and the arrays that it names.
Written: TypeAlias = tuple[dict[str, Any], dict[str, np.ndarray]]


class SampledWins(NamedTuple):
    """Some of the duels that one side won, of those that a model learns from."""

    ahead: FloatArray
    """(k, D) rows of winner and loser as the kernel of `problem` takes them."""
    behind: FloatArray
    """(k, D) rows of winner and loser as the kernel of `problem` takes them."""
    noise: FloatArray
    """(k,) variance of the noise of each difference."""


def described_by(value: Any) -> str:
    """A term or a likelihood with what its constructor was given, but for parameters."""
    said = {
        name: getattr(value, name, None)
        for name in signature(type(value)).parameters
        if name != "name"
    }
    plain = {k: v for k, v in said.items() if isinstance(v, str | int | float) and v is not False}
    kernels = [type(v).__name__ for v in said.values() if isinstance(v, gpflow.kernels.Kernel)]
    parts = [*kernels, *(f"{name}={part!r}" for name, part in plain.items())]
    return f"{type(value).__name__}({', '.join(parts)})"
