"""Options that several commands have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparse_prefgp.support.options import option


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """What a command of a fitted model begins with."""

    model: Path = option("Folder that fit wrote, or that spg.save wrote.", metavar="")
    items: Path | None = option(
        "Raw items with the columns that the model was fitted to; by default the items it was "
        "fitted with.",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Of these a command takes what it needs, by `same_as`."""

    overwrite: bool = option("Replace --out if it exists.", default=False)
    resume: bool = option(
        "Go on with what was killed or interrupted: the same command.", default=False
    )
    level: float = option("Of the intervals, for example 0.9.", default=0.95)
    noise_by: str | None = option(
        "Column of the duels that says who judged, for a model with noise by group; the column of "
        "--lean-by is known.",
        default=None,
    )
    grade: str | None = option(
        "Column of the duels with grades, for a model with grades, in its levels.", default=None
    )
    blocks: str | None = option(
        "Column of the duels that holds their blocks, for a model with pitc:COLUMN.", default=None
    )
