"""`sparse-prefgp predict`: who would win, and by how much in utility."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from sparse_prefgp.cli.command import command
from sparse_prefgp.cli.console import Output, kept_from, open_model
from sparse_prefgp.cli.shared_options import LEVEL, AboutSets, ModelAndTable, Shared, Written
from sparse_prefgp.data.vectors import vector_rows
from sparse_prefgp.support.options import option, option_class, same_as
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.words import counted, some_of
from sparse_prefgp.tell.result import Result
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


@option_class
class PredictOptions(AboutSets):
    """What is predicted."""

    pairs: Path | None = option()
    """Pairs: columns first and second, or winner and loser, or those of the sides of the fit, hold
    item ids."""
    choices: Path | None = option()
    """Instead of pairs, sets of alternatives: a row for each with columns choice_set and item_id,
    or the features of the model; or columns option_1, option_2, …
    """
    rankings: Path | None = same_as(Sources, "rankings")
    """Instead of pairs, rankings, best first, with columns as in fit: the probability of each
    order.
    """
    best_worst: Path | None = same_as(Sources, "best_worst")
    """Instead of pairs, the best and the worst of sets, with columns as in fit: the probability of
    each answer.
    """
    level: float = same_as(Shared, "level", needs="pairs")
    person: Any = same_as(Shared, "person")
    """For a model with tastes, whose choices they are; repeatable, for what several people prefer
    on average. By default the table says it, else it is a person of whom nothing is known.
    """
    at: str | None = same_as(Shared, "at")
    """When, for utilities that move in time: date=2014-07-13, by default at the last duel; or a
    covariate of all pairs: side=1 where the first of each is on the first side.
    """


@command()
def predict(
    console: Output,
    saved: ModelAndTable,
    written: Written,
    asked: Annotated[Record, PredictOptions],
) -> None:
    """Predict who wins each pair, or what is chosen of each set.

    Of a pair: the probability that the first beats the second, and the difference of their
    utilities with its interval.
    """
    fitted = open_model(console, saved, written, asked)
    from sparse_prefgp.analysis.prediction import predict as predict_pairs

    with console.status("Predicting …"):
        items = saved.items_of(fitted)
        frame = predict_pairs(fitted, items=items, columns=saved.columns, **asked)
    if "pairs" in asked:
        if len(frame) == 0:
            raise ValueError(
                f"There are no pairs in {str(asked['pairs'])!r}; give at least one row."
            )
        found: Result = PairForecasts(frame, asked.get("level", LEVEL))
    else:
        described = frame[[name for name in frame.columns if vector_rows(frame[name]) is None]]
        found = SetForecasts(described, "alternatives" if "choices" in asked else "answers")
    kept, whose = kept_from(saved.model), ""
    who = {**fitted.duels.roles, **(saved.columns or {})}["person"]
    if fitted.people.names and "person" not in asked and who not in frame:
        whose = "Nobody is named, so it is somebody of whom nothing is known; give --person."
    console.show(found, written, kept, whose)


@dataclass(frozen=True, eq=False, repr=False)
class SetForecasts(Result):
    """What is chosen of sets, or how probable answers are."""

    aside = ("frame", "rows_name")

    frame: Any
    rows_name: str  # type: ignore[misc]

    def table(self, most: int | None = None) -> Table:
        """The alternatives or answers, with their probabilities."""
        from sparse_prefgp.analysis.shares import described_table

        name, hidden = "probabilities", [LOG_PROBABILITY]
        return described_table(name, self.frame, [PROBABILITY], most, hidden, self.rows_name)

    def sentences(self) -> list[str]:
        """What the probabilities are of."""
        of_sets = self.rows_name == "alternatives"
        meaning = "each alternative to be chosen of its set" if of_sets else "each answer"
        return [f"Probability of {meaning}."]


@dataclass(frozen=True, eq=False, repr=False)
class PairForecasts(Result):
    """Who wins each pair, and by how much."""

    rows_name = "pairs"

    frame: Any
    level: float

    def table(self, most: int | None = None) -> Table:
        """The pairs, or the first of them."""
        frame = self.frame if most is None else self.frame.head(most)
        grades = self.frame.attrs.get("grades", ())
        first, second = self.frame.attrs["sides"]
        # Grades say how often there is a tie, and how often the second wins.
        others = [Column(TIE, "tie", chance), Column(LOSS, "loss", chance)]
        columns = [
            Column(first, first, str, left=True),
            Column(second, second, str, left=True),
            Column(PROBABILITY, PROBABILITY if first == "winner" else "first wins", chance),
            *([] if grades else others),
            *(
                Column(name, name.removeprefix(GRADE), chance, spare=4 * (name != f"{GRADE}tie"))
                for name in grades
            ),
            Column("difference", "difference", "z.3f"),
            Column("interval", "interval", interval, spare=3),
        ]
        if frame["outside_range"].any():
            columns.append(Column("outside_range", "outside", flag, spare=1))
        title = first_of(len(frame), len(self.frame), "pairs")
        return Table("predictions", title, columns, records(with_intervals(frame)))

    def sentences(self) -> list[str]:
        """What the columns are, and which items the model has seen nothing like."""
        what = "Probability that the first beats the second in one duel, luck included"
        if TIE in self.frame:
            each = "a tie, and a loss (the second wins), which add up to 1"
            if any(name.startswith(GRADE) for name in self.frame):
                each = "a tie, and each grade"
            what = f"Probabilities of one duel, luck included: that the first wins, {each}"
        percent = f"{100 * self.level:g} %"
        lines = [f"{what}; estimated difference of their utilities, with its {percent} interval."]
        if outside := self.frame.attrs["outside_items"]:
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
