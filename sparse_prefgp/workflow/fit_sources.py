"""Where the duels of a fit come from: tables, arrays, `Duels` or streams."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.leaning import Leaning
from sparse_prefgp.data.splits import split_columns
from sparse_prefgp.io import stream_duels
from sparse_prefgp.io.choices import READERS
from sparse_prefgp.io.forms import (
    DUELS,
    FORM_OPTIONS,
    Form,
    Stated,
    kind_of,
    load_answers,
    understood,
)
from sparse_prefgp.io.reading import asking_for_more
from sparse_prefgp.io.sides import SIDE
from sparse_prefgp.io.streams import PARQUET, holds_duels, is_stream
from sparse_prefgp.io.texts import items_given
from sparse_prefgp.io.vectors import paths_of
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_choice, check_kind, check_shape
from sparse_prefgp.support.options import (
    is_default,
    names,
    of_columns,
    of_data,
    option,
    option_of,
    several,
)
from sparse_prefgp.support.plain import Record
from sparse_prefgp.support.words import dashed, one_of
from sparse_prefgp.workflow.settings import FitSettings

# Of which one is given.
_ANSWERS = ("answers", "duels", "choices", "rankings", "best_worst")


@dataclass(frozen=True, eq=False)
class Sources(Form):
    """Items, and duels, choices, rankings or best and worst of them: one of these. Items may be
    left out.

    :raises ValueError: an empty name, or what goes with another kind of answer.
    """

    items: Any = of_data(kind=Path)
    """Items: CSV, JSON, Excel or Parquet, a row each. The id is the column item_id, else the
    first; other numeric or categorical columns are features. Without it, or without features, each
    item has an effect of its own (Bradley-Terry).

    Path or data frame, or an (n, D) array in which ids are row numbers.
    """
    duels: Any = of_data(kind=Path)
    """Duels: columns winner and loser hold item ids; optional are tie (1 for a draw, in which
    either side may be called the winner) and count.

    Path or data frame, as `read_duels`; a (t, 2) array of row numbers, winner first; `Duels`,
    whose features stay as they are unless they are yet to be made, or what `stream_duels` gives or
    takes.
    """
    choices: Any = of_data(kind=Path)
    """Instead of duels, choices of one item from a set: a row for each option with columns
    choice_set, item_id and chosen (1 or 0), or a row for each choice with columns chosen, option_1,
    option_2, … Without items and item_id, all other columns describe the options.

    As `read_choices` takes them.
    """
    rankings: Any = of_data(kind=Path)
    """Instead of duels, rankings, best first: columns rank_1, rank_2, … hold item ids; or a row for
    each item with columns ranking, item_id and rank. Columns option_1, option_2, … name all that
    were shown, where only the first are ranked.

    As `read_rankings` takes them.
    """
    best_worst: Any = of_data(kind=Path)
    """Instead of duels, the best and the worst of a set: as choices, with columns best and worst.

    As `read_best_worst` takes them.
    """
    answers: Any = option(kind=Path, argument=True, metavar="[ANSWERS]")
    """A table of answers, in any form that says by itself what they are: duels, choices, rankings,
    or best and worst.

    As `read` takes it.
    """
    as_duels: bool = of_data(False, needs=("choices", "rankings", "best_worst", "answers"))
    """Read choices or rankings as independent duels, as other tools do. This understates the
    uncertainty."""
    at_once: bool = of_data(False, needs=("best_worst", "answers"))
    """The best and the worst were found in one look at the set, not one after the other."""
    unranked_last: bool = of_data(False, needs=("rankings", "answers"))
    """Items without a rank were shown, and stand below all that have one."""
    ties: Any = of_data(kind=Path, needs=("duels", "answers"))
    """Tied pairs: columns item_a and item_b hold item ids. A column tie (1 or 0) in the duels says
    the same."""
    embedding: Any = of_data(kind=list[str], metavar="FILE")
    """Vectors of the items: a .npy file with rows in the order of the items, or a .npz file with an
    array and ids; repeatable. NAME=FILE gives them a name.

    As `with_embedding` takes them.
    """
    text: Sequence[str] = of_data((), kind=str, parse=names)
    """Columns of the items that hold texts: a,b. Features are made of them.

    As `with_texts` takes them.
    """
    text_features: Any = option(of_command=False)
    """A function that makes vectors of texts besides, see `with_texts`."""
    features: Sequence[str] | None = of_data(kind=str, parse=names)
    """Use only these columns: a,b,c."""
    ignore: Sequence[str] = of_data((), kind=str, parse=names)
    """Columns that are not features: x,y."""
    count: str | None = of_columns()
    """Column that says how often each was given; count where there is one."""
    weight: str | None = of_columns()
    """Column of the duels with their weights: a duel of weight 2 counts as two in the fit."""
    noise_by: str | None = of_columns()
    """Column of the duels that says who judged: a noise level is learned for each judge."""
    grade: str | None = of_columns(needs=("duels", "answers"))
    """Column of the duels with grades, which say how much better the item in the column winner is.
    Grades take the place of ties."""
    grades: str | Sequence[Any] | None = of_columns(kind=str, needs="grade")
    """Grades from worst to best: "much worse,worse,tie,better,much better". An odd number of them
    has ties in the middle. By default whole numbers, 0 for a tie."""
    context: Sequence[str] = of_columns((), kind=str, parse=names)
    """Columns of the duels that become features: surface for both sides, or home where winner_home
    and loser_home hold a value for each."""
    item: str | None = of_data()
    """Column of the items that says which item a row is of, where an item has a row for each date
    or state."""
    covariate: Sequence[str] = of_columns((), kind=str, parse=names)
    """Columns of the duels that tell the sides apart: of two sides x where x_a and x_b hold a value
    for each, or a column of the first less the second; of winner and loser x where winner_x and
    loser_x do, or a column of the winner less the loser. Each has a coefficient, which rankings
    leave out."""
    lean_by: str | Sequence[str] | None = of_columns(kind=list[str], metavar="COLUMN:COVARIATE")
    """How far each label in a column of the duels leans to one side by a covariate is learned:
    judge:shown_first, or judge:side of a table of two sides; repeatable. Where there is one
    covariate, judge will do."""

    term: Sequence[str] = of_columns((), kind=list[str], metavar="NAME")
    """A term of your own that --import registers; the columns of labels that it looks at are read.
    Repeatable."""
    person: str | None = of_columns()
    """Column of the duels that says whose preference each is: the taste of each person is learned,
    besides what all prefer.
    """
    people: Any = of_columns(kind=Path, needs="person")
    """Features of the people, a row each. The id is the column person_id, else the first.

    As `read_duels` takes them.
    """
    time: str | None = of_columns(needs=("duels", "answers"))
    """Column of the duels with their dates, such as 2024-01-31: the utility of each item moves in
    time, and the last dates are held out.
    """
    day_first: bool | None = of_columns(flag="--day-first/--month-first")
    """Dates such as 11/08/2023 are of August, or of November; by default a day above 12 has to show
    it.
    """

    @property
    def leaning(self) -> Leaning:
        """Which columns lean by which covariates.

        :raises ValueError: no covariate of that name, or several and no name; a lean twice.
        """
        asked = [self.lean_by] if isinstance(self.lean_by, str) else [*(self.lean_by or ())]
        # Of two sides there is one more, which the table says.
        of_sides = not self.covariate or any(str(one).endswith(f":{SIDE}") for one in asked)
        names = (*self.covariate, SIDE) if of_sides else tuple(self.covariate)
        return Leaning.of(self.lean_by, tuple(dict.fromkeys(names)))

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of terms of one's own.

        :raises ValueError: what is no name, or one twice.
        """
        names = (self.term,) if isinstance(self.term, str) else tuple(self.term)
        for name in names:
            check_kind("A term", name, str, "the name by which spg.register knows its class")
            if names.count(name) > 1:
                raise ValueError(f"The term {name!r} is there twice; once is enough (--term).")
        return names

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns of labels that leans and terms of one's own look at.

        :raises ValueError: what `leaning` and `term_named` raise.
        """
        columns = [*self.leaning.columns]
        if self.term:
            from sparse_prefgp.models.registry import term_named

            columns += [column for name in self.terms for column in term_named(name).labels]
        return tuple(dict.fromkeys(columns))

    @property
    def files(self) -> tuple[Any, ...]:
        """What was given, in a fixed order."""
        answers = self.duels, self.choices, self.rankings, self.best_worst, self.ties
        tables = self.items, self.answers, *answers, self.people
        return *tables, *paths_of(self.embedding)

    @property
    def _of_duels(self) -> Any:
        """What may hold duels."""
        return self.answers if self.duels is None else self.duels

    @property
    def must_stream(self) -> bool:
        """Whether the duels can only be read in chunks."""
        duels = self._of_duels
        known = isinstance(duels, Duels) or self.answers is None
        return is_stream(duels) and (known or holds_duels(duels))

    @property
    def can_stream(self) -> bool:
        """Whether duels can be read in chunks, which tables and arrays are not."""
        duels = self._of_duels
        if isinstance(duels, str | os.PathLike):
            return is_stream(duels) or os.fspath(duels).lower().endswith(PARQUET)
        several = isinstance(duels, list | tuple) and bool(duels)
        paths = several and all(isinstance(one, str | os.PathLike) for one in duels)
        return is_stream(duels) or paths or hasattr(duels, "element_spec")

    def read(
        self, settings: FitSettings, progress: Callable[[int, int], None] | None = None
    ) -> Duels:
        """The duels; columns that the split names are not features.

        :param progress: of a stream, called with the rows read so far and their number.
        :raises ValueError: none of the three, or more than one; ties of choices or rankings;
            columns of what has none; what the readers raise.
        """
        name = self._given()
        if settings.stream and self.can_stream:
            return self._stream(progress)
        table = self.table(settings.split, name)
        if table.read_as is None:
            return table
        return table.replacing(read_as=table.read_as.noting(*asking_for_more(table)))

    def table(self, split: str, name: str | None = None) -> Duels:
        """All of them in memory, as `read`."""
        name = name or self._given()
        source = getattr(self, name)
        if isinstance(source, Duels):
            self._refuse_columns(source)
            return source.one_by_one()
        if isinstance(source, np.ndarray):  # row numbers of winner and loser
            check_shape("duels", source, "t", 2, hint=", winner and loser of each")
            source = require_pandas().DataFrame(source, columns=["winner", "loser"])
        if name == "answers":
            source, name = self._of_some_kind(source)
        told = {
            "ties": self.ties,
            "grade": self.grade,
            "grades": self.grades,
            "covariates": self.covariate or None,
            "time": self.time,
            "counts": self.count,
            "day_first": self.day_first,
        }
        flags = ("as_duels", "at_once", "unranked_last")
        told |= {flag: True for flag in flags if getattr(self, flag)}
        options = {key: value for key, value in told.items() if value is not None}
        return READERS[name](
            self._items_given(),
            source,
            never_features=split_columns(split),
            **self._columns(),
            person=self.person,
            people=self.people,
            **options,
        )

    def _of_some_kind(self, source: Any) -> tuple[Any, str]:
        """A table whose kind is found out, which may be understood by then, and the kind.

        :raises ValueError: what `kind_of` raises; options of another kind.
        """
        form = {one: getattr(self, one) for one in (*FORM_OPTIONS, "person", "ignore")}
        stated = Stated(**form, covariates=self.covariate)
        table = load_answers(source, stated)
        kind, two = (DUELS, None) if self.grade is not None else kind_of(table, stated)
        for one in fields(self):
            needs = several(option_of(one).needs)
            if (
                {*needs} & {*READERS}
                and kind not in needs
                and not is_default(one, getattr(self, one.name))
            ):
                answers = f"{kind.replace('_', ' and ')} (in {table.name})"
                option = f"the option --{dashed(one.name)}"
                raise together.refused(answers=answers, idle_option=option)
        if two is not None:  # which is settled once
            return understood(table, stated, kind, two=two), kind
        return table, kind

    def _given(self) -> str:
        given = [name for name in _ANSWERS if getattr(self, name) is not None]
        if not given:
            raise ValueError(
                "There are no answers to fit to; give a table of them (fit answers.csv, answers=), "
                "or say of which kind they are (--duels, --choices, --rankings, --best-worst)."
            )
        if len(given) != 1:
            raise ValueError(one_of(_ANSWERS, given))
        assert self.leaning is not None  # refuses what makes no sense
        return given[0]

    def _stream(self, progress: Callable[[int, int], None] | None) -> Duels:
        there = {name: getattr(self, name) is not None for name in ("time", "day_first")}
        together.check(chunks=True, ties_table=self.ties is not None, **there)
        duels = self._of_duels
        if isinstance(duels, Duels):
            self._refuse_columns(duels)
            return duels
        return stream_duels(
            duels,
            # Arrays of items stay arrays, unless they have vectors besides.
            self.items if self.embedding is None and not self.text else self._items_given(),
            **self._columns(),
            grade=self.grade,
            grades=self.grades,
            covariates=self.covariate,
            progress=progress,
        )

    def _columns(self) -> Record:
        """What all readers take alike."""
        return {
            "features": None if self.features is None else list(self.features),
            "ignore": list(self.ignore),
            "weights": self.weight,
            "groups": self.noise_by,
            "labels": self.labels,
            "context": self.context,
            "item": self.item,
            **{one: getattr(self, one) for one in FORM_OPTIONS},
        }

    def _items_given(self) -> Any:
        items = self.items
        if isinstance(items, np.ndarray):  # ids are row numbers
            check_shape("items", items, "n", "D", hint=", a row for each item")
            names = [f"x{j}" for j in range(items.shape[1])]
            items = require_pandas().DataFrame(items, columns=names)
            items.insert(0, "item_id", np.arange(len(items)))
        more = {"text": self.text, "text_features": self.text_features}
        return items_given(items, self.embedding, **more)

    def _refuse_columns(self, duels: Any) -> None:
        kept = ("as_duels", "at_once", "unranked_last", "count", "person", "people")
        for one in fields(self):
            name, value = one.name, getattr(self, one.name)
            own = name not in (*_ANSWERS, *FORM_OPTIONS, *kept)
            if own and not is_default(one, value) and not (isinstance(value, list) and not value):
                kind = f"a {type(duels).__name__}, which has its own"
                raise together.refused(duels_object=kind, column=name)


def read(table: Any, items: Any = None, *, kind: str | None = None, **options: Any) -> Duels:
    """Answers of any form that the documentation shows: duels, choices, rankings, best and worst.

    :param table: path or data frame of answers.
    :param items: of their items, as for `read_duels`; None for those that the answers name.
    :param kind: `duels`, `choices`, `rankings` or `best_worst`; by default what the columns say.
    :param options: the fields of `Sources` and `Form`, as `fit` takes them, such as `sides`,
        `outcome`, `verdicts`, `person`, `covariate` and `time`.
    :return: A row per answer; `read_as` says how the table was understood.
    :raises ValueError: a table that may be read in two ways, or in none; what the reader of its
        kind raises.
    :raises TypeError: an option that there is not.
    """
    if kind is not None:
        check_choice("kind", kind, READERS)
    return Sources(items=items, **{kind or "answers": table}, **options).table("duels")
