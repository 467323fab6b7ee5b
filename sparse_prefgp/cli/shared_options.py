"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparse_prefgp.io.texts import items_given
from sparse_prefgp.io.vectors import paths_of
from sparse_prefgp.support.options import Panel, option, same_as
from sparse_prefgp.support.own_modules import OwnModules
from sparse_prefgp.workflow.fit_sources import Sources


@dataclass(frozen=True, kw_only=True)
class OwnClasses:
    """What a command imports before anything else."""

    modules: Sequence[str] = option(
        "Import this Python module first, which registers kernels or approximations of your own; "
        "from this folder, or an installed one. May be given again.",
        default=(),
        kind=list[str],
        parse=tuple,
        flag="--import",
        metavar="MODULE",
        panel=Panel.MODEL,
    )

    def __post_init__(self) -> None:
        OwnModules(tuple(self.modules), (str(Path.cwd()),)).load()


@dataclass(frozen=True, kw_only=True)
class ModelFolder(OwnClasses):
    """What a command of a fitted model begins with."""

    model: Path = option("Folder that fit wrote, or that spg.save wrote.", metavar="")


@dataclass(frozen=True, kw_only=True)
class SavedModel(ModelFolder):
    """A model, and items that it is asked about."""

    items: Path | None = option(
        "A table of items with the same columns as in fit; by default the items that the model "
        "was fitted with.",
        default=None,
    )
    embedding: Sequence[str] = same_as(
        Sources,
        "embedding",
        help="Vectors of these items, as in fit. Names are needed only where a model has several.",
        default=(),
        parse=tuple,
    )

    @property
    def files(self) -> tuple[Path | None, ...]:
        """What was given besides the model."""
        return self.items, *paths_of(self.embedding)

    def items_of(self, model: Any) -> Any:
        """The items, with their vectors, as functions of a model take them."""
        return items_given(self.items, self.embedding, like=model)


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Of these a command takes what it needs, by `same_as`."""

    overwrite: bool = option(
        "Replace --out if it exists.", default=False, needs=("out", "picture", "checkpoint")
    )
    resume: bool = option(
        "Resume what was killed or interrupted: give the same command again.", default=False
    )
    level: float = option(
        "Chance that an interval holds the truth, for example 0.9.",
        default=0.95,
        above=0.0,
        below=1.0,
    )
    noise_by: str | None = option(
        "Column that says who judged, if the model was fitted with --noise-by. You need not name "
        "the column of --lean-by.",
        default=None,
    )
    person: Sequence[str] = option(
        "For a model with tastes, whose utility it is; repeatable, for what several people prefer "
        "on average. By default what all share.",
        default=(),
        kind=list[str],
        parse=tuple,
    )
    grade: str | None = option(
        "Column of the duels with grades; use the grades that the model was fitted with.",
        default=None,
    )
    time: str | None = option(
        "Column of the duels with their dates, for utilities that move in time; by default date.",
        default=None,
    )
    at: str | None = option(
        "For utilities that move in time, when: date=2014-07-13. By default at the last duel.",
        default=None,
    )
    blocks: str | None = option(
        "Column of the duels that holds their blocks, for a model with pitc:COLUMN.", default=None
    )


def person_of(names: Sequence[str]) -> Any:
    """As functions of a model take it: a name, several of them, or nobody in particular."""
    if not names:
        return None
    return names[0] if len(names) == 1 else list(names)
