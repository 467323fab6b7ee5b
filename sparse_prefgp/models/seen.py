"""What is known of streamed duels without reading them: stands where a model shows its duels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.items import Items, OfItems
from sparse_prefgp.data.roles import columns_of_roles
from sparse_prefgp.models.known import NotInMemory
from sparse_prefgp.support.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from sparse_prefgp.io.streams import StreamedDuels


@dataclass(frozen=True, eq=False)
class SeenDuels(OfItems):
    """Items and numbers of duels, by the names that `Duels` has for them."""

    known: Items
    """The items; for inline features two rows, the lowest and highest values seen."""
    comparisons: IntArray
    """(n,) duels of each item."""
    num_duels: int
    """Of all duels, counts included."""
    has_items: bool
    """Whether items have rows of their own, which inline features do not."""
    num_ties: int = 0
    """How many of the duels are ties."""
    levels: tuple[str, ...] | None = None
    """As in `Duels`."""
    grade_counts: IntArray | None = None
    """As in `Duels`."""

    covariate_names: tuple[str, ...] = ()
    """As in `Duels`."""
    covariate_squares: FloatArray | None = None
    """As in `Duels`."""

    group_names: tuple[Hashable, ...] | None = None
    """As in `Duels`: who judged any of these duels."""
    group_levels: IntArray | None = None
    """As in `Duels`."""

    has_sets: bool = False
    """Whether there are answers about sets."""
    label_names: Mapping[str, tuple[Hashable, ...]] = field(default_factory=dict)
    """As in `Duels`: of any of these duels."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """As in `Duels`."""

    held: ClassVar[bool] = False
    unit: ClassVar[str] = "duel"
    groups: ClassVar[None] = None
    people_names: ClassVar[None] = None
    times: ClassVar[None] = None

    @classmethod
    def of(cls, duels: StreamedDuels) -> SeenDuels:
        scan, totals = duels.scan, duels.totals
        known: Items | None = duels.items
        comparisons = totals.comparisons
        if known is None:
            assert totals.low is not None and totals.high is not None
            ends = np.stack([totals.low, totals.high])
            known = Items(ends, None, duels.feature_names, duels.transform)
            comparisons = np.full(2, totals.duels)
        assert comparisons is not None
        judges: dict[str, Any] = {}
        if duels.judges is not None and totals.judged is not None:
            here = np.flatnonzero(totals.judged.sum(1))
            names = tuple(duels.judges[i] for i in here)
            judges = {"group_names": names, "group_levels": totals.judged[here]}
        return cls(
            known,
            comparisons,
            totals.duels,
            duels.items is not None,
            num_ties=totals.ties,
            levels=duels.levels,
            grade_counts=totals.grades,
            covariate_names=scan.covariate_names,
            covariate_squares=scan.covariate_squares,
            has_sets=scan.sets.any,
            roles=columns_of_roles(duels.source.remembered),
            label_names={
                column: tuple(names[i] for i in np.flatnonzero(totals.labels[column][1:]))
                for column, names in scan.labels.items()
            },
            **judges,
        )

    def __getattr__(self, name: str) -> Any:
        if name in Duels.__dataclass_fields__ or hasattr(Duels, name):
            raise NotInMemory
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        what = f"between {self.num_items:,} items" if self.has_items else "with inline features"
        return f"SeenDuels({self.num_duels:,} duels {what})"


KnownDuels: TypeAlias = Duels | SeenDuels
"""What is known of duels wherever they are: in memory, or of a stream."""
