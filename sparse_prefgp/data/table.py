"""Items and duels as they were read, before anything is standardised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.answers import Answers, OfAnswers
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import FeatureTransform, require_pandas
from sparse_prefgp.data.items import OfItems
from sparse_prefgp.data.people import PeopleFeatures
from sparse_prefgp.data.raw_items import RawItems
from sparse_prefgp.data.read_as import ReadAs
from sparse_prefgp.data.row_names import RowNames
from sparse_prefgp.data.word_score import Won
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import IntArray, distinct, first_true

# The column of a table of answers about sets that says who answered.
PERSON = "person"
# Fewer different values of columns that both sides share are no people.
FEWEST_PEOPLE = 20


@dataclass(frozen=True, eq=False, repr=False)
class DuelTable(OfItems, OfAnswers):
    """Items and duels as they were read, one row per duel, before anything is standardised."""

    known: RawItems  # type: ignore[assignment]
    """The items: features are yet to be made, of which there are none for items of which nothing
    but their duels is known."""
    events: Answers
    """What was said, one event for each row of the duels, between rows of `items`."""
    context: Any
    """Data frame with t rows: the other columns of the duels table."""
    row_names: RowNames | None = None
    """How a message names each row of the duels, or None."""
    set_column: str | None = None
    """The column of `context` that says which duels come from one choice or ranking, or None where
    every row is a judgement of its own.
    """
    shared: tuple[str, ...] = ()
    """The features that winner and loser of each duel have in common, because they belong to the
    duel.
    """
    unused: tuple[str, ...] = ()
    """Columns of the duels table that say nothing of the duels, as nobody named them."""
    people: RawItems | PeopleFeatures | None = None
    """What is known of the people whose preferences the duels are; None for no more than their
    names, or not even that.
    """
    roles: Mapping[str, str] = field(default_factory=dict)
    """By which columns more was said of the duels, where these were named, as in `Duels.roles`."""

    read_as: ReadAs | None = None
    """How the table of answers was understood; None where nothing was to be."""

    @property
    def num_rows(self) -> int:
        """t, the number of rows of the duels table."""
        return len(self.events)

    @property
    def items(self) -> Any:
        """Data frame with n rows and every column of the items table but the id."""
        return self.known.frame

    @property
    def num_features(self) -> int:
        """The number of columns of the items that are features."""
        return len(self.known.feature_names)

    def saying(self, **columns: Any) -> DuelTable:
        """The same table with other columns of its events, such as `judge=None`."""
        return replace(self, events=self.events.saying(**columns))

    def keeping_apart(self, names: Iterable[str]) -> DuelTable:
        """The same table, whose columns of these names stay features of their own."""
        apart = tuple(dict.fromkeys((*self.known.apart, *names)))
        return replace(self, known=replace(self.known, apart=apart))

    def using(self, names: Iterable[str]) -> DuelTable:
        """The same table, of which something is made of these columns too."""
        taken = set(names)
        return replace(self, unused=tuple(name for name in self.unused if name not in taken))

    def without_grades(self) -> DuelTable:
        """The same table, grades being plain wins of the better side."""
        return replace(self, events=self.events.without_grades())

    @property
    def described_people(self) -> int:
        """How many people answer twice or more each, on average, about sides that share what is
        known of the person; 0 where the columns that sides share have few values, as a surface
        has."""
        if not self.shared:
            return 0
        met = self.items.iloc[np.unique(self.events.sides)]
        people = len(met[list(self.shared)].drop_duplicates())
        return people if FEWEST_PEOPLE <= people <= self.num_rows / 2 else 0

    @property
    def only_contexts(self) -> bool:
        """Whether all features are columns of the context, which tell no two items apart."""
        return self.has_features and {*self.known.context} >= {*self.known.feature_names}

    def sets(self) -> IntArray:
        """A number for each row (t,), equal for duels of one choice or ranking."""
        if self.set_column is None:
            return np.arange(self.num_rows)
        codes, _ = require_pandas().factorize(self.context[self.set_column].astype(str))
        return np.asarray(codes, dtype=np.int64)

    def select(self, rows: npt.ArrayLike) -> DuelTable:
        """The table with these rows of the duels (numbers, or a mask of length t); all items stay.

        :raises ValueError: a row that is not there.
        """
        index = self._rows(rows)
        names = self.row_names
        return replace(
            self,
            events=self.events.take(index),
            context=self.context.iloc[index].reset_index(drop=True),
            row_names=None if names is None else names.select(index),
        )

    def without_idle_items(self) -> DuelTable:
        """The table without the items that are in no duel, unless these have features already."""
        if self.known.standard is not None:
            return self
        used, place = distinct(self.events.sides)
        events = self.events.saying(place.astype(np.int64))
        return replace(self, known=self.known.select(used), events=events)

    def to_duels(
        self,
        rows: npt.ArrayLike | None = None,
        standardise_on: npt.ArrayLike | None = None,
        *,
        transform: FeatureTransform | None = None,
        only_compared: bool = False,
        people_features: PeopleFeatures | None = None,
    ) -> Duels:
        """Validated duels of some rows, with standardised features.

        A table of `Duels` (`table_of`) has them already, with all its items; then rows alone count.

        :param rows: rows of the duels to keep (numbers, or a mask of length t); default all.
        :param standardise_on: the training rows, whose items set means, standard deviations and
            levels, and which tell the words of texts that win. Default: `rows`, or every item and
            duel when `rows` is left out.
        :param transform: use this recorded transform instead of learning one.
        :param only_compared: leave out items that are in none of the kept duels.
        :param people_features: use these recorded ones instead of learning means, standard
            deviations and levels from the people of the kept duels.
        :raises ValueError: no duels, no feature that varies, a feature that is missing or not a
            number, or both `standardise_on` and `transform`.
        """
        together.check(
            transform=transform is not None and "transform=",
            standardise_on=standardise_on is not None and "standardise_on=",
        )
        index, known = self._chosen(rows), self.known.standard
        if known is None and transform is None:
            told = index if standardise_on is None else self._rows(standardise_on)
            every = rows is None and standardise_on is None
            training = np.arange(self.num_items) if every else self._compared(told)
            if len(training) == 0:
                raise ValueError("standardise_on has no rows; choose at least one training row.")
            transform = self.transform_of(training, told)
        table = self.select(index)
        if only_compared:
            table = table.without_idle_items()
        events, people = table.events, self.people
        if events.person is None:
            people = None
        elif isinstance(people, RawItems):
            answered = events.person.used().names
            people = people_features or PeopleFeatures.of_table(people, answered)
        if known is None:
            assert transform is not None
            known = table.known.standardised(transform)
        return Duels.from_events(
            known,
            events,
            people_features=people,
            unused_columns=self.unused,
            roles=self.roles,
        )

    def transform_of(self, training: IntArray, told: IntArray | None = None) -> FeatureTransform:
        """What makes features of the items, learned from these rows of them.

        :param told: training rows of the duels, which tell which words of texts win; by default no
            score is made of them.
        :raises ValueError: what `FeatureTransform.fit` raises.
        """
        won = None
        if self.known.texts and told is not None:
            place = np.full(self.num_items, -1)
            place[training] = np.arange(len(training))
            won = Won.of(self.events.take(told)).between(place)
        return self.known.select(training).learned_transform(won)

    def _compared(self, index: IntArray) -> IntArray:
        return np.unique(self.events.take(index).sides)

    def _chosen(self, rows: Any) -> IntArray:
        index = np.arange(self.num_rows) if rows is None else self._rows(rows)
        if len(index) == 0:
            raise ValueError("There are no duels in the chosen rows; choose at least one row.")
        return index

    def _rows(self, rows: npt.ArrayLike) -> IntArray:
        array = np.asarray(rows)
        if array.dtype == bool and array.shape == (self.num_rows,):
            return np.flatnonzero(array)
        if array.size == 0:
            return np.empty(0, dtype=np.int64)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(
                f"rows has shape {array.shape} and type {array.dtype}; give row numbers or a mask "
                f"of length {self.num_rows}."
            )
        for i in first_true((array < 0) | (array >= self.num_rows)):
            raise ValueError(
                f"rows has {array[i]}, which is not a row; duels go from 0 to {self.num_rows - 1}."
            )
        return array.astype(np.int64)

    def __repr__(self) -> str:
        return (
            f"DuelTable(num_items={self.num_items}, num_rows={self.num_rows}, "
            f"features={[*self.known.feature_names]})"
        )


def table_of(duels: Duels, one_by_one: bool = True) -> DuelTable:
    """`Duels` as a table, in which a split is made.

    :param one_by_one: a row for each copy of equal duels, so that copies can be parted.
    """
    pd = require_pandas()
    events = duels.events.one_by_one() if one_by_one else duels.events
    names = duels.feature_names or tuple(f"column {j}" for j in range(duels.num_features))
    known = RawItems(
        pd.DataFrame(duels.items, columns=list(names)),
        tuple(range(duels.num_items)) if duels.item_ids is None else duels.item_ids,
        RowNames("the items", None),
        names,
        item=duels.known.item,
        item_rows=duels.item_rows,
        standard=duels.known,
    )
    context = pd.DataFrame(index=range(len(events)))
    return DuelTable(known, events, context, people=duels.people_features, roles=duels.roles)
