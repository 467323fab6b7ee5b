"""Rows of `Duels` in memory, for models that take them in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparse_prefgp.duels import Duels
from sparse_prefgp.events import FLAGGED
from sparse_prefgp.io.streams.rows import Rows


@dataclass(frozen=True, eq=False)
class DuelRows:
    """The rows of `Duels`: equal duels are one row with their count."""

    duels: Duels

    name = "the duels in memory"
    inline = None
    row_numbers = True

    def count_rows(self) -> int:
        return len(self.duels.events)

    @property
    def edges(self) -> tuple[int, ...]:
        return (0, self.count_rows())

    def read(self, start: int, stop: int, size: int) -> Iterator[Rows]:
        whole = self.duels.events
        flagged = [bool(np.any(whole.kind == number)) for number in FLAGGED]
        for low in range(start, stop, size):
            part = whole.take(slice(low, min(low + size, stop)))
            yield Rows(
                part.pairs[:, 0],
                part.pairs[:, 1],
                part.counts,
                part.each_weight,
                tuple(
                    part.kind == number if there else None
                    for number, there in zip(FLAGGED, flagged, strict=True)
                ),
            )

    def where(self, row: int) -> str:
        return f"row {row} of the duels in memory (counted from 0)"

    def __reduce__(self) -> Any:
        raise ValueError(
            "Duels in memory are not sent to other processes; write them to Parquet files, or "
            "leave the scheduler out."
        )
