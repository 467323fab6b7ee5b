"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparse_prefgp.cli.output_options import check_file
from sparse_prefgp.io.texts import items_given
from sparse_prefgp.io.vectors import paths_of
from sparse_prefgp.support.options import option, same_as
from sparse_prefgp.tell.result import MOST_ROWS
from sparse_prefgp.workflow.fit_sources import Sources


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """What a command of a fitted model begins with."""

    model: Path = option(metavar="")
    """Folder that fit wrote, or that spg.save wrote."""


@dataclass(frozen=True, kw_only=True)
class SavedModel(ModelFolder):
    """A model, and items that it is asked about."""

    items: Path | None = option(default=None)
    """A table of items with the same columns as in fit; by default the items that the model was
    fitted with.
    """
    embedding: Sequence[str] = same_as(Sources, "embedding", default=(), parse=tuple)
    """Vectors of these items, as in fit. Names are needed only where a model has several."""

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

    overwrite: bool = option(default=False, needs=("out", "picture", "checkpoint"))
    """Replace --out if it exists."""
    resume: bool = option(default=False)
    """Resume what was killed or interrupted: give the same command again."""
    level: float = option(default=0.95, above=0.0, below=1.0)
    """Chance that an interval holds the truth, for example 0.9."""
    noise_by: str | None = option(default=None)
    """Column that says who judged, if the model was fitted with --noise-by. You need not name the
    column of --lean-by.
    """
    person: Sequence[str] = option(default=(), kind=list[str], parse=tuple)
    """For a model with tastes, whose utility it is; repeatable, for what several people prefer on
    average. By default what all share.
    """
    grade: str | None = option(default=None)
    """Column of the duels with grades; use the grades that the model was fitted with."""
    time: str | None = option(default=None)
    """Column of the duels with their dates, for utilities that move in time; by default date."""
    at: str | None = option(default=None)
    """For utilities that move in time, when: date=2014-07-13. By default at the last duel."""
    blocks: str | None = option(default=None)
    """Column of the duels that holds their blocks, for a model with pitc:COLUMN."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """How much of a result is printed, and where all of it goes."""

    out: Path | None = option(default=None)
    """Write all rows here, in the form of its ending: .csv, .tex (LaTeX), .md or .html."""
    overwrite: bool = same_as(Shared, "overwrite")
    show: int = option(default=MOST_ROWS, least=0)
    """How many rows to print."""

    def check(self, *inputs: Path | None) -> None:
        """Refuse files that cannot be written, see `check_file`."""
        check_file(self.out, self.overwrite, *inputs)


@dataclass(frozen=True, kw_only=True)
class Drawn(Written):
    """And where it is drawn."""

    picture: Path | None = option(default=None)
    """Draw it here (.png)."""

    def check(self, *inputs: Path | None) -> None:
        """Refuse files that cannot be written, see `check_file`."""
        super().check(*inputs)
        check_file(self.picture, self.overwrite, *inputs, self.out, endings=[".png"])


@dataclass(frozen=True, kw_only=True)
class AboutSets:
    """Answers about sets, in place of duels."""

    choices: Path | None = same_as(Sources, "choices")
    rankings: Path | None = same_as(Sources, "rankings")
    best_worst: Path | None = same_as(Sources, "best_worst")
    at_once: bool = same_as(Sources, "at_once")
    unranked_last: bool = same_as(Sources, "unranked_last")

    @property
    def sets(self) -> dict[str, Path | None]:
        """The files, by what they hold."""
        return {name: getattr(self, name) for name in ("choices", "rankings", "best_worst")}

    def of_sets(self) -> dict[str, Any]:
        """As functions of a model take them."""
        flags = [name for name in ("at_once", "unranked_last") if getattr(self, name)]
        return {**self.sets, **dict.fromkeys(flags, True)}


def person_of(names: Sequence[str]) -> Any:
    """As functions of a model take it: a name, several of them, or nobody in particular."""
    if not names:
        return None
    return names[0] if len(names) == 1 else list(names)
