"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sparse_prefgp.cli.output_options import check_file
from sparse_prefgp.io.forms import pairs_of_words
from sparse_prefgp.io.texts import items_given
from sparse_prefgp.io.vectors import paths_of
from sparse_prefgp.support.options import Panel, option, option_class, required, same_as
from sparse_prefgp.support.own_modules import OwnModules
from sparse_prefgp.support.plain import Record
from sparse_prefgp.tell.result import MOST_ROWS
from sparse_prefgp.workflow.fit_sources import Sources

# What an interval holds, unless somebody says.
LEVEL = 0.95
# An option that may be given again.
repeated = partial(option, (), kind=list[str], parse=tuple)


@option_class
class OwnClasses:
    """What a command imports before anything else."""

    modules: Sequence[str] = repeated(flag="--import", metavar="MODULE", panel=Panel.MODEL)
    """Import this Python module first, which registers kernels or approximations of your own; from
    this folder, or an installed one. May be given again.
    """

    def __post_init__(self) -> None:
        OwnModules(tuple(self.modules), (str(Path.cwd()),)).load()


@option_class
class ModelFolder(OwnClasses):
    """What a command of a fitted model begins with."""

    model: Path = required(metavar="")
    """Folder that fit wrote, or that spg.save wrote."""

    @property
    def files(self) -> tuple[Path | None, ...]:
        """What was given besides the model."""
        return ()


@option_class
class SavedModel(ModelFolder):
    """A model, and items that it is asked about."""

    items: Path | None = option()
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


def columns_by_role(text: str) -> dict[str, str]:
    """Such as `judge=rater,person=who`.

    :raises ValueError: what is not of that form, or a role twice.
    """
    columns = pairs_of_words(text) if "=" in text else {}
    if "" in (*columns, *columns.values()) or len(columns) <= text.count(","):
        raise ValueError(
            f"{text!r} is no list of names or roles and their columns, each once; write such as "
            "judge=rater,surface=ground."
        )
    return columns


@option_class
class ModelAndTable(SavedModel):
    """A model, and a table of answers that is read by its roles."""

    columns: Mapping[str, str] | None = option(
        kind=str, parse=columns_by_role, metavar="NAME=COLUMN,…"
    )
    """Columns of this table that are called otherwise than in fit, by their names there or by their
    roles, such as judge=rater,surface=ground; roles are judge, person, date, count, weight, grade
    and block.
    """


@option_class
class Shared:
    """Of these a command takes what it needs, by `same_as`."""

    overwrite: bool = option(False, needs=("out", "picture", "checkpoint"))
    """Replace --out if it exists."""
    resume: bool = option(False)
    """Resume what was killed or interrupted: give the same command again."""
    level: float = option(LEVEL, above=0.0, below=1.0)
    """Chance that an interval holds the truth, for example 0.9."""
    person: Any = option(
        kind=list[str], parse=lambda people: people[0] if len(people) == 1 else people
    )
    """For a model with tastes, whose utility it is; repeatable, for what several people prefer on
    average. By default what all share.
    """
    at: str | None = option()
    """For utilities that move in time, when: date=2014-07-13. By default at the last duel."""


@option_class
class Written:
    """How much of a result is printed, and where all of it goes."""

    out: Path | None = option()
    """Write all rows here, in the form of its ending: .csv, .tex (LaTeX), .md or .html."""
    overwrite: bool = same_as(Shared, "overwrite")
    show: int = option(MOST_ROWS, least=0)
    """How many rows to print."""

    def check(self, saved: ModelFolder, asked: Record) -> None:
        """Refuse files that cannot be written, or that something is read from."""
        check_file(self.out, self.overwrite, *inputs_of(saved, asked))


@option_class
class Drawn(Written):
    """And where it is drawn."""

    picture: Path | None = option()
    """Draw it here (.png)."""

    def check(self, saved: ModelFolder, asked: Record) -> None:
        """The same, of the picture too."""
        super().check(saved, asked)
        inputs = *inputs_of(saved, asked), self.out
        check_file(self.picture, self.overwrite, *inputs, endings=[".png"])


def inputs_of(saved: ModelFolder, asked: Record) -> list[Path | None]:
    """The files that a command reads."""
    return [*saved.files, *(value for value in asked.values() if isinstance(value, Path))]


@option_class
class AboutSets:
    """Answers about sets, in place of duels."""

    choices: Path | None = same_as(Sources, "choices")
    rankings: Path | None = same_as(Sources, "rankings")
    best_worst: Path | None = same_as(Sources, "best_worst")
    at_once: bool = same_as(Sources, "at_once")
    unranked_last: bool = same_as(Sources, "unranked_last")


def anchor_of(text: str) -> str | tuple[str, float]:
    """`NAME`, or `NAME=POINTS`, as `rank` takes it.

    :raises ValueError: points that are no number.
    """
    name, mark, points = text.rpartition("=")
    if not mark:
        return text
    try:
        return name, float(points)
    except ValueError:
        raise ValueError(f"{points!r} is no number of points; write such as gpt-4=1200.") from None
