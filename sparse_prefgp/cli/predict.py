"""`sparse-prefgp predict`: who would win, and by how much in utility."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, described_table, kept_from, open_model
from sparse_prefgp.cli.output_options import check_file, write_file
from sparse_prefgp.cli.shared_options import SavedModel, Shared, person_of
from sparse_prefgp.data.vectors import vector_rows
from sparse_prefgp.io.formats import csv_of
from sparse_prefgp.support.options import option, same_as
from sparse_prefgp.support.words import counted, some_of
from sparse_prefgp.tell.tables import (
    Column,
    Table,
    chance,
    first_of,
    flag,
    interval,
    records,
    with_intervals,
)
from sparse_prefgp.workflow.fit_sources import Sources

TIE, LOSS, GRADE = "tie_probability", "loss_probability", "p_"
PROBABILITY, LOG_PROBABILITY = "probability", "log_probability"
# Of those outside of the range, so many are named.
ITEMS_NAMED, FEATURES_NAMED = 3, 3
EXAMPLE = "Example: sparse-prefgp predict --model fitted --pairs pairs.csv --out predicted.csv"


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """What is predicted, and where to."""

    pairs: Path | None = option(
        "Pairs: columns first and second (or winner and loser) hold item ids.", default=None
    )
    choices: Path | None = option(
        "Instead of pairs, sets of alternatives: a row for each with columns choice_set and "
        "item_id, or the features of the model; or columns option_1, option_2, …",
        default=None,
    )
    rankings: Path | None = same_as(
        Sources,
        "rankings",
        help="Instead of pairs, rankings, best first, with columns as in fit: the probability of "
        "each order.",
    )
    best_worst: Path | None = same_as(
        Sources,
        "best_worst",
        help="Instead of pairs, the best and the worst of sets, with columns as in fit: the "
        "probability of each answer.",
    )
    at_once: bool = same_as(Sources, "at_once")
    unranked_last: bool = same_as(Sources, "unranked_last")
    out: Path | None = option("Write all predictions here (.csv).", default=None)
    overwrite: bool = same_as(Shared, "overwrite")
    show: int = option("How many pairs to print.", default=20, least=0)
    level: float = same_as(Shared, "level", needs="pairs")
    person: Sequence[str] = same_as(
        Shared,
        "person",
        help="For a model with tastes, whose choices they are; repeatable, for what several people "
        "prefer on average. By default the column of the pairs that the people were read from, "
        "else a person of whom nothing is known.",
    )
    noise_by: str | None = option(
        "Column of the pairs that says who judges, if the model was fitted with --noise-by. You "
        "need not name the column of --lean-by.",
        default=None,
    )
    time: str | None = option(
        "Column of the pairs with their dates, for utilities that move in time; by default date, "
        "if it is there.",
        default=None,
        needs="pairs",
    )
    at: str | None = same_as(Shared, "at")


@command()
def predict(console: Output, saved: SavedModel, options: PredictOptions) -> None:
    """Predict who wins each pair, or what is chosen of each set.

    Of a pair: the probability that the first beats the second, and the difference of their
    utilities with its interval.
    """
    sources = (options.pairs, options.choices, options.rankings, options.best_worst)
    check_file(options.out, options.overwrite, *saved.files, *sources)
    flags = {name: True for name in ("at_once", "unranked_last") if getattr(options, name)}
    fitted = open_model(console, saved.model)
    from sparse_prefgp.analysis.prediction import predict as predict_pairs

    with console.status("Predicting …"):
        frame = predict_pairs(
            fitted,
            options.pairs,
            saved.items_of(fitted),
            level=options.level,
            groups=options.noise_by,
            time=options.time,
            at=options.at,
            person=person_of(options.person),
            choices=options.choices,
            rankings=options.rankings,
            best_worst=options.best_worst,
            **flags,
        )
    if options.pairs is None:
        _finish_sets(console, fitted, frame, options)
        return
    if len(frame) == 0:
        raise ValueError(f"There are no pairs in {str(options.pairs)!r}; give at least one row.")
    if options.out is not None:
        write_file(options.out, csv_of(frame))
    grades = frame.attrs.get("grades", ())
    lines = filter(None, [*_caption(frame, options.level), kept_from(saved.model)])
    console.tell(_table(frame.head(options.show), len(frame), grades), *lines)
    _say_whose(console, fitted, frame, options)
    console.finish({"level": options.level, "pairs": frame.to_dict("records")}, options.out)


def _say_whose(console: Output, model: Any, frame: Any, options: PredictOptions) -> None:
    """Where people have tastes and nobody is named."""
    if model.people and not options.person and model.duels.person_column not in frame:
        console.tell("Nobody is named, so it is somebody of whom nothing is known; give --person.")


def _finish_sets(console: Output, model: Any, frame: Any, options: PredictOptions) -> None:
    """Print and write what is chosen of sets, or how probable answers are."""
    frame = frame[[name for name in frame.columns if vector_rows(frame[name]) is None]]
    if options.out is not None:
        write_file(options.out, csv_of(frame))
    some, total = frame.head(options.show), len(frame)
    what = "alternatives" if options.choices is not None else "answers"
    names = [name for name in some.columns if name not in (PROBABILITY, LOG_PROBABILITY)]
    title = first_of(len(some), total, what)
    console.tell(described_table("probabilities", title, some, names, [PROBABILITY]))
    of_sets = options.choices is not None
    meaning = "each alternative to be chosen of its set" if of_sets else "each answer"
    console.tell(f"Probability of {meaning}.")
    _say_whose(console, model, frame, options)
    console.finish({what: frame.to_dict("records")}, options.out)


def _caption(frame: Any, level: float) -> list[str]:
    """What the columns are, and which items the model has seen nothing like."""
    chance = "Probability that the first beats the second in one duel, luck included"
    if TIE in frame and any(name.startswith(GRADE) for name in frame):
        chance = (
            "Probabilities of one duel, luck included, that the first wins, of a tie, of each grade"
        )
    elif TIE in frame:
        chance = (
            "Probabilities of one duel, luck included: that the first wins, a tie, and a loss (the "
            "second wins), which add up to 1"
        )
    lines = [
        f"{chance}; estimated difference of their utilities, with its {100 * level:g} % interval."
    ]
    if outside := frame.attrs["outside_items"]:
        lines.append(_outside(outside))
    return lines


def _outside(features: Mapping[str, Sequence[str]]) -> str:
    """Which items are outside of the range, and in which features."""
    names = list(features)
    if len(names) == 1:
        where = some_of([repr(name) for name in features[names[0]]], FEATURES_NAMED)
        return f"{names[0]} is outside the range of the training items in {where}: trust it less."
    said = [
        f"{name} (in {some_of([repr(one) for one in features[name]], FEATURES_NAMED)})"
        for name in names[:ITEMS_NAMED]
    ]
    if len(names) > ITEMS_NAMED:
        said.append(counted(len(names) - ITEMS_NAMED, "more item"))
    return (
        f"{', '.join(said[:-1])} and {said[-1]} are outside the range of the training items: "
        "trust them less."
    )


def _table(frame: Any, total: int, grades: Sequence[str]) -> Table:
    first, second = ("first", "second") if "first" in frame else ("winner", "loser")
    # With grades the levels say how often the second wins.
    loss = [] if grades else [Column(LOSS, "loss", chance)]
    columns = [
        Column(first, first, str, left=True),
        Column(second, second, str, left=True),
        Column(PROBABILITY, "first wins" if first == "first" else PROBABILITY, chance),
        Column(TIE, "tie", chance),
        *loss,
        *(
            Column(name, name.removeprefix(GRADE), chance, spare=3 * (name != f"{GRADE}tie"))
            for name in grades
        ),
        Column("difference", "difference", "z.3f"),
        Column("interval", "interval", interval, spare=2),
    ]
    if frame["outside_range"].any():
        columns.append(Column("outside_range", "outside", flag, spare=1))
    title = first_of(len(frame), total, "pairs")
    return Table("predictions", title, columns, records(with_intervals(frame)))
