"""`sparse-prefgp meet`: a new person, known from some answers, without fitting again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, counting_bar, open_model
from sparse_prefgp.cli.shared_options import AboutSets, ModelAndTable, Shared, Written
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.tell.tables import Column, Table
from sparse_prefgp.workflow.settings import FitSettings

EXAMPLE = "Example: sparse-prefgp meet --model fitted --duels ann.csv --ask 10"


@option_class
class Answers(AboutSets):
    """Whom to meet."""

    duels: Path | None = option()
    """Duels of the new person: columns winner and loser hold item ids."""
    people: Path | None = option()
    """A row with the features of the new person, for a model fitted with --people."""


@option_class
class MeetOptions:
    """What is wanted."""

    ask: int = option(0, least=0)
    """Suggest this many pairs to ask the person next: those that tell most."""
    level: float = same_as(Shared, "level")
    seed: int = same_as(FitSettings, "seed")


@command()
def meet(
    console: Output,
    saved: ModelAndTable,
    written: Written,
    answers: Annotated[Record, Answers],
    options: MeetOptions,
) -> None:
    """What a new person prefers, from a few answers.

    The answers are duels, choices or rankings; the model has tastes of people (fit --person).
    """
    fitted = open_model(console, saved, written, answers)
    from sparse_prefgp.analysis.meeting import meet as meet_person
    from sparse_prefgp.analysis.ranking import rank as rank_items
    from sparse_prefgp.analysis.suggestion import suggest

    items = saved.items_of(fitted)
    with console.status("Meeting the person …"):
        person = meet_person(fitted, items=items, columns=saved.columns, **answers)
    with counting_bar(console, "Ranking") as progress:
        ranking = rank_items(
            person, items, level=options.level, rng=seeded(options.seed), progress=progress
        )
    asked, figures = [], {}
    if options.ask:
        with console.status("Looking for questions …"):
            found = suggest(person, items, batch=options.ask, rng=seeded(options.seed))
        pairs = found.frame[["first", "second"]].to_dict("records")
        columns = [Column(name, name, str, left=True) for name in ("first", "second")]
        asked, figures = [Table("pairs", "To ask next", columns, pairs)], {"ask": pairs}
    kept = "The model stays as it is; update keeps the person among its people."
    console.show(ranking, written, *asked, kept, **figures)
