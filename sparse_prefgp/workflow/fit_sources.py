"""Where the duels of a fit come from: tables, arrays, `Duels` or streams."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.leaning import Leaning
from sparse_prefgp.data.splits import split_columns
from sparse_prefgp.data.table import DuelTable, table_of
from sparse_prefgp.io import (
    StreamedDuels,
    read_best_worst_table,
    read_choice_table,
    read_ranking_table,
    read_table,
    stream_duels,
)
from sparse_prefgp.io.streams import PARQUET, is_stream
from sparse_prefgp.io.texts import items_given
from sparse_prefgp.io.vectors import paths_of
from sparse_prefgp.support import together
from sparse_prefgp.support.options import Panel, check_fields, names, option
from sparse_prefgp.support.words import one_of
from sparse_prefgp.workflow.settings import FitSettings

ITEMS = (
    "Items: CSV, Excel (.xlsx) or Parquet, a row each. The id is the column item_id, else the "
    "first; other numeric or categorical columns are features."
)


# Of which one is given.
_ANSWERS = ("duels", "choices", "rankings", "best_worst")


@dataclass(frozen=True, eq=False)
class Sources:
    """Items, and duels, choices, rankings or best and worst of them: one of the four. Items may be
    left out.

    :raises ValueError: an empty name, or what goes with another kind of answer.
    """

    items: Any = option(
        f"{ITEMS} Without it, or without features, each item has an effect of its own "
        "(Bradley-Terry).",
        default=None,
        kind=Path,
        panel=Panel.DATA,
    )
    """Path or data frame, or an (n, D) array in which ids are row numbers."""
    duels: Any = option(
        "Duels: columns winner and loser hold item ids; optional are tie (1 for a draw, in which "
        "either side may be called the winner) and count.",
        default=None,
        kind=Path,
        panel=Panel.DATA,
    )
    """Path or data frame, as `read_table`; a (t, 2) array of row numbers, winner first; a
    `DuelTable`; `Duels`, whose features stay as they are; `StreamedDuels`, or what `stream_duels`
    takes.
    """
    choices: Any = option(
        "Instead of duels, choices of one item from a set: a row for each option with columns "
        "choice_set, item_id and chosen (1 or 0), or a row for each choice with columns chosen, "
        "option_1, option_2, … Without items and item_id, all other columns describe the options.",
        default=None,
        kind=Path,
        panel=Panel.DATA,
    )
    """As `read_choice_table` takes them."""
    rankings: Any = option(
        "Instead of duels, rankings, best first: columns rank_1, rank_2, … hold item ids; or a row "
        "for each item with columns ranking, item_id and rank. Columns option_1, option_2, … name "
        "all that were shown, where only the first are ranked.",
        default=None,
        kind=Path,
        panel=Panel.DATA,
    )
    """As `read_ranking_table` takes them."""
    best_worst: Any = option(
        "Instead of duels, the best and the worst of a set: as choices, with columns best and "
        "worst.",
        default=None,
        kind=Path,
        panel=Panel.DATA,
    )
    """As `read_best_worst_table` takes them."""
    as_duels: bool = option(
        "Read choices or rankings as independent duels, as other tools do. This understates the"
        " uncertainty.",
        default=False,
        needs=("choices", "rankings", "best_worst"),
        panel=Panel.DATA,
    )
    """For comparison."""
    at_once: bool = option(
        "The best and the worst were found in one look at the set, not one after the other.",
        default=False,
        needs="best_worst",
        panel=Panel.DATA,
    )
    """Of best and worst."""
    unranked_last: bool = option(
        "Items without a rank were shown, and stand below all that have one.",
        default=False,
        needs="rankings",
        panel=Panel.DATA,
    )
    """Of rankings."""
    none: str | None = option(
        'Id that means "none of these" in choices or rankings and is not in the table of items. '
        "It becomes an item of average features, with a feature of its own.",
        default=None,
        needs=("choices", "rankings", "best_worst"),
        panel=Panel.DATA,
    )
    """Of answers about sets."""
    ties: Any = option(
        "Tied pairs: columns item_a and item_b hold item ids. A column tie (1 or 0) in the duels "
        "says the same.",
        default=None,
        kind=Path,
        needs="duels",
        panel=Panel.DATA,
    )
    """Which duels are ties; of duels only."""
    embedding: Any = option(
        "Vectors of the items: a .npy file with rows in the order of the items, or a .npz file "
        "with an array and ids; repeatable. NAME=FILE gives them a name.",
        default=None,
        kind=list[str],
        metavar="FILE",
        panel=Panel.DATA,
    )
    """As `with_embedding` takes them."""
    text: Sequence[str] = option(
        "Columns of the items that hold texts: a,b. Features are made of them.",
        default=(),
        kind=str,
        parse=names,
        panel=Panel.DATA,
    )
    """As `with_texts` takes them."""
    text_features: Any = option(None, default=None)
    """A function that makes vectors of texts besides, see `with_texts`."""
    features: Sequence[str] | None = option(
        "Use only these columns: a,b,c.", default=None, kind=str, parse=names, panel=Panel.DATA
    )
    """Columns of the items that are features; None for all."""
    ignore: Sequence[str] = option(
        "Columns that are not features: x,y.", default=(), kind=str, parse=names, panel=Panel.DATA
    )
    """Columns that are not features."""
    weight: str | None = option(
        "Column of the duels with their weights: a duel of weight 2 counts as two in the fit.",
        default=None,
        panel=Panel.COLUMNS,
    )
    """Column of the weights."""
    noise_by: str | None = option(
        "Column of the duels that says who judged: a noise level is learned for each judge.",
        default=None,
        panel=Panel.COLUMNS,
    )
    """Column of who judged."""
    grade: str | None = option(
        "Column of the duels with grades, which say how much better the item in the column "
        "winner is. Grades take the place of ties.",
        default=None,
        needs="duels",
        panel=Panel.COLUMNS,
    )
    """Column of grades."""
    grades: str | Sequence[Any] | None = option(
        'Grades from worst to best: "much worse,worse,tie,better,much better". An odd number of'
        " them has ties in the middle. By default whole numbers, 0 for a tie.",
        default=None,
        kind=str,
        needs="grade",
        panel=Panel.COLUMNS,
    )
    """Levels of the grades."""
    context: Sequence[str] = option(
        "Columns of the duels that become features: surface for both sides, or home where "
        "winner_home and loser_home hold a value for each.",
        default=(),
        kind=str,
        parse=names,
        panel=Panel.COLUMNS,
    )
    """Columns of the context."""
    item: str | None = option(
        "Column of the items that says which item a row is of, where an item has a row for each"
        " date or state.",
        default=None,
        panel=Panel.DATA,
    )
    """Column of the names of the items; by default each row is one."""
    covariate: Sequence[str] = option(
        "Columns of the duels that tell the winner's side from the loser's: shown_first with 1 "
        "and -1, or x where winner_x and loser_x hold a value for each, of which the difference"
        " counts. Each has a coefficient, which rankings leave out.",
        default=(),
        kind=str,
        parse=names,
        panel=Panel.COLUMNS,
    )
    """Columns of the covariates."""
    lean_by: str | Sequence[str] | None = option(
        "How far each label in a column of the duels leans to one side by a covariate is learned: "
        "judge:shown_first; repeatable. Where there is one covariate, judge will do.",
        default=None,
        kind=list[str],
        metavar="COLUMN:COVARIATE",
        needs="covariate",
        panel=Panel.COLUMNS,
    )
    """Columns of labels, and the covariate that each leans by."""

    person: str | None = option(
        "Column of the duels that says whose preference each is: the taste of each person is "
        "learned, besides what all prefer.",
        default=None,
        panel=Panel.COLUMNS,
    )
    """Column of the people."""
    people: Any = option(
        "Features of the people, a row each. The id is the column person_id, else the first.",
        default=None,
        kind=Path,
        needs="person",
        panel=Panel.COLUMNS,
    )
    """As `read_table` takes them."""
    time: str | None = option(
        "Column of the duels with their dates, such as 2024-01-31: the utility of each item "
        "moves in time, and the last dates are held out.",
        default=None,
        needs="duels",
        panel=Panel.COLUMNS,
    )
    """Column of the dates."""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def leaning(self) -> Leaning:
        """Which columns lean by which covariates.

        :raises ValueError: no covariate of that name, or several and no name; a lean twice.
        """
        return Leaning.of(self.lean_by, self.covariate)

    @property
    def files(self) -> tuple[Any, ...]:
        """What was given, in a fixed order."""
        answers = self.duels, self.choices, self.rankings, self.best_worst, self.ties
        tables = self.items, *answers, self.people
        return *tables, *paths_of(self.embedding)

    @property
    def must_stream(self) -> bool:
        """Whether the duels can only be read in chunks."""
        return isinstance(self.duels, StreamedDuels) or is_stream(self.duels)

    @property
    def can_stream(self) -> bool:
        """Whether duels can be read in chunks, which tables and arrays are not."""
        duels = self.duels
        if isinstance(duels, str | os.PathLike):
            return is_stream(duels) or os.fspath(duels).lower().endswith(PARQUET)
        several = isinstance(duels, list | tuple) and bool(duels)
        paths = several and all(isinstance(one, str | os.PathLike) for one in duels)
        return isinstance(duels, StreamedDuels) or paths or hasattr(duels, "element_spec")

    def read(
        self, settings: FitSettings, progress: Callable[[int, int], None] | None = None
    ) -> DuelTable | StreamedDuels:
        """The duels; columns that the split names are not features.

        :param progress: of a stream, called with the rows read so far and their number.
        :raises ValueError: none of the three, or more than one; ties of choices or rankings;
            columns of what has none; what the readers raise.
        """
        name = self._given()
        if settings.stream and self.can_stream:
            return self._stream(progress)
        return self.table(settings.split, name)

    def table(self, split: str, name: str | None = None) -> DuelTable:
        """All of them in memory, as `read`."""
        name = name or self._given()
        if isinstance(self.duels, DuelTable | Duels):
            self._refuse_columns()
            return self.duels if isinstance(self.duels, DuelTable) else table_of(self.duels)
        readers: dict[str, Callable[..., DuelTable]] = {
            "duels": read_table,
            "choices": read_choice_table,
            "rankings": read_ranking_table,
            "best_worst": read_best_worst_table,
        }
        told = {
            "ties": self.ties,
            "grade": self.grade,
            "grades": self.grades,
            "covariates": self.covariate or None,
            "none": self.none,
            "time": self.time,
        }
        flags = ("as_duels", "at_once", "unranked_last")
        told |= {flag: True for flag in flags if getattr(self, flag)}
        options = {key: value for key, value in told.items() if value is not None}
        return readers[name](
            self._items_given(),
            _pairs_frame(getattr(self, name)),
            features=None if self.features is None else list(self.features),
            ignore=list(self.ignore),
            never_features=split_columns(split),
            weights=self.weight,
            groups=self.noise_by,
            labels=self.leaning.columns,
            context=self.context,
            item=self.item,
            person=self.person,
            people=self.people,
            **options,
        )

    def _given(self) -> str:
        given = [name for name in _ANSWERS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(one_of(_ANSWERS, given))
        assert not self.leaning.pairs or self.covariate  # refuses what makes no sense
        return given[0]

    def _stream(self, progress: Callable[[int, int], None] | None) -> StreamedDuels:
        together.check(chunks=True, ties_table=self.ties is not None, time=self.time is not None)
        if isinstance(self.duels, StreamedDuels):
            self._refuse_columns()
            return self.duels
        return stream_duels(
            self.duels,
            self._items_of_stream(),
            features=None if self.features is None else list(self.features),
            ignore=list(self.ignore),
            weights=self.weight,
            grade=self.grade,
            grades=self.grades,
            groups=self.noise_by,
            labels=self.leaning.columns,
            covariates=self.covariate,
            context=self.context,
            item=self.item,
            progress=progress,
        )

    def _items_of_stream(self) -> Any:
        """Arrays of items stay arrays, unless they have vectors besides."""
        if self.embedding is None and not self.text:
            return self.items
        return self._items_given()

    def _items_given(self) -> Any:
        return items_given(
            _items_frame(self.items),
            self.embedding,
            text=self.text,
            text_features=self.text_features,
        )

    def _refuse_columns(self) -> None:
        names = (
            "items",
            "embedding",
            "text",
            "text_features",
            "features",
            "ignore",
            "ties",
            "weight",
            "noise_by",
            "lean_by",
            "context",
            "covariate",
            "item",
            "grade",
            "grades",
            "time",
        )
        for name in names:
            value = getattr(self, name)
            if value is not None and not (isinstance(value, tuple | list) and not value):
                kind = f"a {type(self.duels).__name__}, which has its own"
                raise together.refused(duels_object=kind, column=name)


def _items_frame(items: Any) -> Any:
    """Items of an array as a table, in which ids are row numbers."""
    if not isinstance(items, np.ndarray):
        return items
    if items.ndim != 2:
        raise ValueError(f"items has shape {items.shape}; give (n, D), a row for each item.")
    pd = require_pandas()
    frame = pd.DataFrame(items, columns=[f"x{j}" for j in range(items.shape[1])])
    frame.insert(0, "item_id", np.arange(len(items)))
    return frame


def _pairs_frame(duels: Any) -> Any:
    """Duels of an array as a table: row numbers of winner and loser."""
    if not isinstance(duels, np.ndarray):
        return duels
    if duels.ndim != 2 or duels.shape[1] != 2:
        raise ValueError(f"duels has shape {duels.shape}; give (t, 2), winner and loser of each.")
    return require_pandas().DataFrame(duels, columns=["winner", "loser"])
