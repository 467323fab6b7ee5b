"""What is known of streamed duels without reading them: stands where a model shows its duels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from sparse_prefgp.data.answers import Answers, Codes, OfLabels
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.items import Items
from sparse_prefgp.data.raw_items import OfItems
from sparse_prefgp.data.roles import columns_of_roles
from sparse_prefgp.models.known import NotInMemory
from sparse_prefgp.support.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from sparse_prefgp.io.streams import StreamedDuels


@dataclass(frozen=True, eq=False)
class SeenDuels(OfItems, OfLabels):
    """Items and numbers of duels, by the names that `Duels` has for them."""

    known: Items
    """The items; for inline features two rows, the lowest and highest values seen."""
    said: Answers
    """None of the answers, but with the names of judges and labels of any of them."""
    comparisons: IntArray
    """(n,) duels of each item."""
    num_duels: int
    """Of all duels, counts included."""
    has_items: bool
    """Whether items have rows of their own, which inline features do not."""
    num_ties: int = 0
    """How many of the duels are ties."""
    grade_counts: IntArray | None = None
    """As in `Duels`."""
    covariate_squares: FloatArray | None = None
    """As in `Duels`."""
    group_levels: IntArray | None = None
    """As in `Duels`."""
    has_sets: bool = False
    """Whether there are answers about sets."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """As in `Duels`."""

    held: ClassVar[bool] = False
    unit: ClassVar[str] = "duel"
    groups: ClassVar[None] = None
    times: ClassVar[None] = None

    @property
    def described(self) -> Items:  # type: ignore[override]
        """The same items."""
        return self.known

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
        levels = totals.judged
        said = duels.said.saying(
            person=None,
            labels={
                column: _of_any(codes, totals.labels[column][1:])
                for column, codes in duels.said.labels.items()
            },
        )
        if said.judge is not None and levels is not None:
            said = said.saying(judge=_of_any(said.judge, levels.sum(1)))
            levels = levels[np.flatnonzero(levels.sum(1))]
        return cls(
            known,
            said,
            comparisons,
            totals.duels,
            duels.items is not None,
            num_ties=totals.ties,
            grade_counts=totals.grades,
            covariate_squares=scan.covariate_squares,
            group_levels=levels,
            has_sets=scan.sets.any,
            roles=columns_of_roles(duels.source.remembered),
        )

    def __getattr__(self, name: str) -> Any:
        if name in Duels.__dataclass_fields__ or hasattr(Duels, name):
            raise NotInMemory
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        what = f"between {self.num_items:,} items" if self.has_items else "with inline features"
        return f"SeenDuels({self.num_duels:,} duels {what})"


def _of_any(codes: Codes, often: IntArray) -> Codes:
    """Codes with the names alone of labels that were said, each so often (J,)."""
    return codes._replace(names=tuple(codes.names[i] for i in np.flatnonzero(often)))


KnownDuels: TypeAlias = Duels | SeenDuels
"""What is known of duels wherever they are: in memory, or of a stream."""
