"""`sparse-prefgp meet`: a new person, known from some answers, without fitting again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, counting_bar, open_model
from sparse_prefgp.cli.output_options import check_file, write_file
from sparse_prefgp.cli.shared_options import SavedModel, Shared
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.support.options import option, same_as
from sparse_prefgp.support.randomness import seeded
from sparse_prefgp.tell.tables import Column, Table, records
from sparse_prefgp.workflow.fit_sources import Sources
from sparse_prefgp.workflow.settings import FitSettings

ANSWERS = ("duels", "choices", "rankings", "best_worst")
EXAMPLE = "Example: sparse-prefgp meet --model fitted --duels ann.csv --ask 10"


@dataclass(frozen=True, kw_only=True)
class MeetOptions:
    """Whom to meet, and what is wanted."""

    duels: Path | None = option(
        "Duels of the new person: columns winner and loser hold item ids.", default=None
    )
    choices: Path | None = same_as(Sources, "choices")
    rankings: Path | None = same_as(Sources, "rankings")
    best_worst: Path | None = same_as(Sources, "best_worst")
    at_once: bool = same_as(Sources, "at_once")
    unranked_last: bool = same_as(Sources, "unranked_last")
    people: Path | None = option(
        "A row with the features of the new person, for a model fitted with --people.", default=None
    )
    out: Path | None = option("Write the person's whole ranking here (.csv).", default=None)
    overwrite: bool = same_as(Shared, "overwrite")
    ask: int = option(
        "Suggest this many pairs to ask the person next: those that tell most.", default=0, least=0
    )
    show: int = option("How many items to print.", default=20, least=0)
    level: float = same_as(Shared, "level")
    seed: int = same_as(FitSettings, "seed")


@command()
def meet(console: Output, saved: SavedModel, options: MeetOptions) -> None:
    """What a new person prefers, from a few answers.

    The answers are duels, choices or rankings; the model has tastes of people (fit --person).
    """
    answers = {name: getattr(options, name) for name in ANSWERS}
    check_file(options.out, options.overwrite, *saved.files, *answers.values(), options.people)
    flags = {name: True for name in ("at_once", "unranked_last") if getattr(options, name)}
    fitted = open_model(console, saved.model)
    from sparse_prefgp.analysis.meeting import meet as meet_person
    from sparse_prefgp.analysis.ranking import rank as rank_items
    from sparse_prefgp.analysis.suggestion import suggest

    items = saved.items_of(fitted)
    with console.status("Meeting the person …"):
        person = meet_person(fitted, items=items, people=options.people, **answers, **flags)
    with counting_bar(console, "Ranking") as progress:
        ranking = rank_items(
            person, items, level=options.level, rng=seeded(options.seed), progress=progress
        )
    figures, tables = ranking.figures(), [ranking.table(options.show)]
    if options.ask:
        with console.status("Looking for questions …"):
            asked = suggest(person, items, batch=options.ask, rng=seeded(options.seed))
        pairs = asked.frame
        columns = [Column(name, name, str, left=True) for name in ("first", "second")]
        tables.append(Table("pairs", "To ask next", columns, records(pairs)))
        figures["ask"] = pairs[["first", "second"]].to_dict("records")
    if options.out is not None:
        write_file(options.out, csv_of(ranking.frame))
    sentence = "The model stays as it is; update keeps the person among its people."
    console.tell(*tables, sentence)
    console.finish({**figures, "ranking": ranking.frame.to_dict("records")}, options.out)
