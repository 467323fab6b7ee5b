"""What is known of duels wherever they are, and what a stream does not keep."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from inspect import signature
from typing import Any, NamedTuple, Protocol

import gpflow

from sparse_prefgp.data.contexts import ItemRows
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.support.arrays import FloatArray, IntArray

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


class KnownDuels(Protocol):
    """What is known of duels wherever they are: `Duels`, and `SeenDuels` of a stream."""

    @property
    def held(self) -> bool: ...

    @property
    def unit(self) -> str: ...

    @property
    def item_ids(self) -> tuple[Hashable, ...] | None: ...

    @property
    def feature_names(self) -> tuple[str, ...] | None: ...

    @property
    def transform(self) -> FeatureTransform | None: ...

    @property
    def group_names(self) -> tuple[Hashable, ...] | None: ...

    @property
    def roles(self) -> Mapping[str, str]: ...

    @property
    def label_names(self) -> Mapping[str, tuple[Hashable, ...]]: ...

    @property
    def group_levels(self) -> IntArray | None: ...

    @property
    def items(self) -> FloatArray: ...

    @property
    def item(self) -> IntArray: ...

    @property
    def item_rows(self) -> ItemRows | None: ...

    @property
    def comparisons(self) -> IntArray: ...

    @property
    def num_duels(self) -> int: ...

    @property
    def num_ties(self) -> int: ...

    @property
    def levels(self) -> tuple[str, ...] | None: ...

    @property
    def grade_counts(self) -> IntArray | None: ...

    @property
    def covariate_names(self) -> tuple[str, ...]: ...

    @property
    def covariate_squares(self) -> FloatArray | None: ...

    @property
    def num_items(self) -> int: ...

    @property
    def num_features(self) -> int: ...

    @property
    def has_items(self) -> bool: ...


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
