"""`sparse-prefgp leaderboard`: models ranked by battles, with judges and what bends them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from pathlib import Path
from typing import Any

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output
from sparse_prefgp.cli.fit_printer import Printer
from sparse_prefgp.cli.shared_options import Shared, anchor_of
from sparse_prefgp.io.forms import Form
from sparse_prefgp.support.options import (
    names,
    of_columns,
    option,
    option_class,
    required,
    same_as,
)
from sparse_prefgp.tell.result import MOST_ROWS
from sparse_prefgp.workflow import reporting as stages
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = "Example: sparse-prefgp leaderboard battles.csv --style length --out board"


@option_class
class BoardOptions(Form):
    """The battles, what is made of their columns, and where to."""

    battles: Path = required(argument=True, metavar="BATTLES")
    """A table with a row for each battle: two models and a verdict, such as columns model_a,
    model_b and winner."""
    out: Path | None = option()
    """Folder for board.csv, board.json, board.html, board.tex, model/, and tables of judges, votes
    (trust.csv), the audit and what is settled. Without it nothing is written."""
    overwrite: bool = same_as(Shared, "overwrite", needs="out")
    style: Sequence[str] = of_columns((), kind=str, parse=names)
    """What is taken out of the board besides the side: length, where length_a and length_b hold a
    value of each."""
    by: str | None = of_columns()
    """Column of kinds of judges, or of anything else: the battles of each label have a board of
    their own too."""
    judge: str | None = of_columns()
    """Column that says who judged; judge, annotator, rater or worker where there is one. none for
    none."""
    category: str | None = of_columns()
    """Column that says what a battle was about; category where there is one. none for none."""
    task: str | None = of_columns()
    """Column that says which prompt it was; task, question_id or prompt where there is one."""
    date: str | None = of_columns()
    """Column that says when it was; date, day or tstamp where there is one."""
    top: int = option(5, least=1)
    """Give each model's chance to be among the first so many."""
    anchor: Any = option(kind=str, parse=anchor_of, metavar="MODEL=POINTS")
    """The model that has these Elo points, or 1000; by default the average has 1000."""
    level: float = same_as(Shared, "level", default=0.9)
    audit: bool = option(True)
    """Do not look at what bends the board."""
    prices: Path | None = option()
    """What a vote of each judge costs, in columns judge and price: who is best asked next for it.
    Whoever is not there is not asked."""
    max_iterations: int = same_as(FitSettings, "max_iterations")
    integrate: str = same_as(FitSettings, "integrate")
    seed: int = same_as(FitSettings, "seed")
    show: int = option(MOST_ROWS, least=0)
    """How many rows of each table to print."""


class BoardPrinter(Printer):
    """Prints how the battles were read, a bar, and notes: what a fit says else is in board.json."""

    @property
    def noted(self) -> set[str]:
        """The notes that were printed."""
        return self._noted

    def started(self, stage: str, about: Any = None) -> AbstractContextManager[Any]:
        """A bar or a spinner."""
        if stage == stages.READING:
            lines = about.answers.read_as
            self._console.tell(*([] if lines is None else lines.lines()))
        return super().started(stage, about)

    def done(self, stage: str, result: Any) -> None:
        """Nothing, but for the battles as they are held, of which the bar tells."""
        if stage == stages.HOLDING:
            self._holdout = result


@command()
def leaderboard(console: Output, options: BoardOptions) -> None:
    """Rank models by battles of two each, judged by people or models.

    Each has Elo points with an interval, ranks that are not ruled out, and chances; side and style
    are taken out, and each judge has a noise, a margin of ties and a lean.
    """
    from sparse_prefgp.workflow.leaderboard import leaderboard as made_of

    own = {one.name: getattr(options, one.name) for one in fields(options)}
    show, battles = own.pop("show"), own.pop("battles")
    form = Form(**{one.name: own.pop(one.name) for one in fields(Form)})
    printer = BoardPrinter(console, options.out)
    found = made_of(battles, form=form, reporter=printer, **own)
    noted = {f"Note: {note}" for note in (*console.notes, *printer.noted)}
    parts = found.parts(show)
    console.tell(*(one for one in parts if not isinstance(one, str) or one not in noted))
    console.finish(found.to_dict(), options.out)
    if options.out is not None:
        console.say(f"Open {options.out / 'board.html'} in a browser.")
