"""Rows of `Duels` in memory, for models that take them in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.io.streams.blocks import Rows, Source
from sparse_prefgp.support import together


@dataclass(frozen=True, eq=False)
class DuelRows(Source):
    """The rows of `Duels`: equal duels are one row with their count."""

    duels: Duels

    name = "the duels in memory"

    def count_rows(self) -> int:
        return len(self.duels.events)

    @property
    def remembered(self) -> Mapping[str, str]:
        return self.duels.roles

    def read(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        whole = self.duels.events
        for low in range(start, stop, size):
            yield whole.take(slice(low, min(low + size, stop)))

    def where(self, row: int) -> str:
        return f"row {row} of the duels in memory (counted from 0)"

    def __reduce__(self) -> Any:
        raise together.refused(scheduler=True, held_here="duels in memory")
