"""What is known of duels wherever they are, and what a stream does not keep."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import gpflow

from sparse_prefgp.support.arrays import FloatArray

if TYPE_CHECKING:
    from sparse_prefgp.data.duels import Duels
    from sparse_prefgp.models.streaming.seen import SeenDuels

NOT_IN_MEMORY = (
    "This needs all duels, and those of a StreamedGP are not in memory; call model.in_memory() on "
    "a machine where they fit, and use the model it gives."
)


class NotInMemory(ValueError, AttributeError):
    """What a stream does not keep was asked for; to `hasattr` it is not there."""

    def __init__(self, message: str = NOT_IN_MEMORY) -> None:
        super().__init__(message)


class SampledWins(NamedTuple):
    """Some of the duels that one side won, of those that a model learns from."""

    ahead: FloatArray
    """(k, D) rows of winner and loser as `row_kernel` takes them."""
    behind: FloatArray
    """(k, D) rows of winner and loser as `row_kernel` takes them."""
    noise: FloatArray
    """(k,) variance of the noise of each difference."""


KnownDuels: TypeAlias = "Duels | SeenDuels"
"""What is known of duels wherever they are: in memory, or of a stream."""


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
