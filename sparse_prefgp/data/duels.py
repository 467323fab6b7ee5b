"""Duels between items: as they are read, one row an answer, or validated, with features, repeated
duels merged into counts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.answers import (
    TIE,
    WIN,
    Answers,
    Codes,
    Grades,
    OfLabels,
    by_appearance,
    check_covariate_names,
    kinds_of_grades,
)
from sparse_prefgp.data.batches import Batches, NotInMemory, Totals
from sparse_prefgp.data.features import FeatureTransform, require_pandas
from sparse_prefgp.data.flags import Where, flags_of
from sparse_prefgp.data.items import Items, check_features
from sparse_prefgp.data.people import PeopleFeatures
from sparse_prefgp.data.raw_items import OfItems, RawItems
from sparse_prefgp.data.read_as import ReadAs
from sparse_prefgp.data.roles import columns_of_roles
from sparse_prefgp.data.row_names import RowNames
from sparse_prefgp.data.slices import days_of, warn_of_years
from sparse_prefgp.data.word_score import Won
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    distinct,
    first_true,
)
from sparse_prefgp.support.checks import check_kind, check_shape, numbers
from sparse_prefgp.support.words import shortened, some_of
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Table, facts, facts_table

# Up to here a double holds every whole number, and sums stay far from the end of int64.
MAX_COUNT = 2**53
# What to give in place of something else.
OF_DUELS = "Duels, as Duels(items, winners, losers) and read_duels make them"
# Numbers that are compared at a time.
_COMPARED = 1 << 23
# The column of a table of answers about sets that says who answered.
PERSON = "person"
# Fewer different values of columns that both sides share are no people.
FEWEST_PEOPLE = 20


class Merged(NamedTuple):
    """Answers, equal ones of which are one event."""

    events: Answers
    """In the order of their first appearance."""
    rows: IntArray
    """(t,) the event that each answer became."""
    counts: IntArray
    """(t,) how often each answer was given."""
    weights: FloatArray | None
    """(t,) as how many each counts; None where each counts once."""

    @classmethod
    def of(cls, given: Answers) -> Merged:
        """Merge answers with the same sides, kind, judge, person, labels, time and covariates."""
        given = given.in_order()
        first, rows = by_appearance(*given.alike())
        each = given.each_weight
        if each is not None and np.all(each == 1.0):
            given, each = given.saying(weights=None), None
        for array in (rows, given.counts, each):
            if array is not None:
                array.setflags(write=False)
        return cls(given.merged(first, rows).frozen(), rows, given.counts, each)

    @property
    def given(self) -> Answers:
        """The answers as given, sides between which there is no order in ascending order."""
        weights = None if self.weights is None else self.weights * self.counts
        return self.events.take(self.rows).saying(counts=self.counts, weights=weights)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Duels(OfItems, OfLabels):
    """Items, and which of them won against which.

    Made of arrays they have the features that were given. Read from a table they have the columns
    of the table, `raw` and `context`: features are made of these by `standardised`, for which the
    training rows are chosen first (`split_duels`), or of all items when anything asks for them.
    Made by `stream_duels` they are read in `chunks`: their numbers and names are known, and what
    needs all of them at once is refused.

    The arrays are read-only copies.

    :param items: (n, D) features, one row per item. Two items may have equal features; D may be 0,
        for items of which nothing but their duels is known.
    :param winners: (t,) the winner of each duel: an index into the rows of `items`, or one of
        `item_ids` when the values are not integers (integers are always indices, and are refused
        when `item_ids` holds integers other than the indices).
    :param losers: (t,) the loser of each duel, in the same form.
    :param counts: (t,) how often each duel was seen, whole numbers of at least 1 whose sum is at
        most 2**53; default all 1.
    :param item_ids: n distinct names of the items.
    :param feature_names: D names of the columns of `items`.
    :param transform: how the columns were made from a raw table, as recorded by `read_duels`.
    :param ties: (t,) truth values: which duels ended in a tie between winner and loser, whose order
        then means nothing.
    :param weights: (t,) positive numbers: as how many duels each counts in the likelihood; default
        1.
    :param groups: (t,) labels, text or whole numbers: who judged, or under what conditions.
    :param grades: (t,) whole numbers: by how many levels the winner, so called, is better: 2 for
        much better, 1 for better, 0 for a tie, -1 for worse, … They take the place of `ties`.
    :param levels: names of the levels from worst to best, an odd number with ties in the middle, an
        even one without ties; by default as many as the largest of `grades` asks for, and ties.
    :param covariates: (t, C) what tells the winner's side of each duel from the loser's besides the
        items: its value on the winner's side less that on the loser's, such as 1 where the winner
        was shown first and -1 where the loser was. A model learns a coefficient of each.
    :param covariate_names: C names of them.
    :param people: (t,) labels, text or whole numbers: whose preference each duel is. Equal duels of
        two people stay two; `Taste(kernel)` learns that of each person.
    :param times: (t,) dates: days since 1970 as numbers, `datetime64`, or text such as 2026-06-11.
        Equal duels at two dates stay two. `ItemInTime` is what moves with them.
    :param item: (n,) which item each row of `items` is of, whole numbers, where an item has several
        rows, as in several contexts or at several dates; by default each row is one.
    :param labels: more labels (t,), text, whole numbers or None for unknown ones, by the name of
        their column, such as who judged or of what kind the duel is: what `Lean`
        takes for levels.
    :param people_features: what is known of the people: (P, S) numbers in the order in which they
        first appear, a mapping from their names to S numbers each, or `PeopleFeatures`.
    :raises ValueError: items that are not (n, D), empty, or not finite numbers; no duels; winners
        and losers of unequal length; indices that are not integers or are out of range; unknown
        ids; integers where `item_ids` holds other integers; a duel of an item with itself; counts
        that are not whole and positive, or too large; ids or names of the wrong length; ties,
        weights, groups, people or grades of the wrong length or kind; grades that are not among the
        levels; grades and ties at once; features of nobody, or of some of the people.
    """

    described: Items | RawItems
    """The items, or the table of them of which features are yet to be made; no rows where sides of
    streamed duels have features of their own."""
    answers: Answers | Merged | Batches
    """What was said, one for each row of a table; of items with features equal ones are merged. Of
    streamed duels where it is read."""
    roles: Mapping[str, str]
    """By which column of a table each of `ROLES` is read: as recorded where the duels were read,
    else the role's own name; `ORDER`, that of day and month in dates, where it counts; and
    `LAST_DATE` and `FLAGGED` of a board. New tables are read by the same."""
    people_table: PeopleFeatures | RawItems | None = None
    """What is known of the people besides their preferences: features, or the table of which these
    are yet to be made; None for no more than their names, or not even that."""
    unused_columns: tuple[str, ...] = ()
    """Columns of the table, as read by `read_duels`, that say nothing of the duels; a saved model
    does not keep them."""
    frame: Any = None
    """Data frame with t rows: the other columns of the table of answers; None without a table."""
    row_names: RowNames | None = None
    """How a message names each row of the duels, or None."""
    set_column: str | None = None
    """The column of `frame` that says which duels come from one choice or ranking, or None where
    every row is a judgement of its own.
    """
    shared: tuple[str, ...] = ()
    """The features that winner and loser of each duel have in common, because they belong to the
    duel.
    """
    read_as: ReadAs | None = None
    """How the table of answers was understood; None where nothing was to be."""

    def __init__(
        self,
        items: npt.ArrayLike,
        winners: npt.ArrayLike,
        losers: npt.ArrayLike,
        counts: npt.ArrayLike | None = None,
        *,
        item_ids: Sequence[Hashable] | AnyArray | None = None,
        feature_names: Sequence[str] | None = None,
        transform: FeatureTransform | None = None,
        ties: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        grades: npt.ArrayLike | None = None,
        levels: Sequence[str] | None = None,
        covariates: npt.ArrayLike | None = None,
        covariate_names: Sequence[str] | None = None,
        people: npt.ArrayLike | None = None,
        people_features: Any = None,
        times: npt.ArrayLike | None = None,
        item: npt.ArrayLike | None = None,
        labels: Mapping[str, npt.ArrayLike] | None = None,
    ) -> None:
        known = Items.of(items, item_ids, feature_names, transform, item)
        won, lost = _array(winners, "winners"), _array(losers, "losers")
        check_shape("winners", won, "t", hint=", at least one duel")
        t = len(won)
        check_shape("losers", lost, t, hint=", one for each winner")
        answer, kind = _answers(grades, levels, ties is not None, t), None
        if answer is not None:
            kind = kinds_of_grades(answer)
        elif ties is not None:
            meaning = "True for a tie and False for a win"
            tied = flags_of(_per_duel(ties, "ties", t), "ties", "duel {}".format, meaning)
            kind = np.where(tied, TIE, WIN)
        values, names = _checked_covariates(covariates, covariate_names, t)
        if labels is not None:
            check_kind("labels", labels, Mapping, "labels by the names of their columns")
        events = Answers.between(
            _indices(won, "winners", known),
            _indices(lost, "losers", known),
            kind=kind,
            counts=None if counts is None else _array(counts, "counts"),
            weights=None if weights is None else _array(weights, "weights"),
            judge=_labelled(groups, "groups", t),
            person=_labelled(people, "people", t),
            time=_days(times, t),
            answer=answer,
            covariates=values,
            covariate_names=names,
            labels={
                name: _labelled(given, name, t)._replace(column=name)
                for name, given in (labels or {}).items()
            },
        )
        events = _checked_events(events, known)
        if events.weights is not None:
            events = events.saying(weights=events.weights * events.counts)
        self._hold(known, Merged.of(events), people_features, roles=columns_of_roles({}))

    @classmethod
    def from_events(
        cls,
        items: npt.ArrayLike | Items | RawItems,
        events: Answers | Batches,
        *,
        people_features: Any = None,
        unused_columns: Sequence[str] = (),
        roles: Mapping[str, str] | None = None,
        **about: Any,
    ) -> Duels:
        """Duels from a table of events between rows of `items`.

        :param items: (n, D) features, one row per item, or per item in each of its contexts; or
            `Items`; or a table of them, of which features are yet to be made.
        :param events: as given; equal ones are merged here, or where features are made.
        :param people_features: as of `Duels`.
        :param unused_columns: of the table that the events were read from.
        :param roles: by which of its columns they were read, where these were named.
        :param about: what else is known of the items, as of `Items.of`.
        :raises ValueError: what `Duels` raises; events without sides, or of a row that is not
            there.
        """
        known = items if isinstance(items, Items | RawItems) else Items.of(items, **about)
        answers: Answers | Merged | Batches = events
        if isinstance(known, Items) and not isinstance(events, Batches):
            answers = Merged.of(_checked_events(events, known))
        more = {"unused_columns": tuple(unused_columns), "roles": columns_of_roles(roles or {})}
        duels = cls.__new__(cls)
        duels._hold(known, answers, people_features, **more)
        return duels

    def _hold(
        self, items: Items | RawItems, answers: Answers | Merged | Batches, people: Any, **more: Any
    ) -> None:
        if people is not None and isinstance(answers, Merged):
            person = answers.events.person
            if person is None:
                raise together.refused(features_of_people=True, duels_of_nobody=True)
            people = PeopleFeatures.given(people, person.names)
        # Frozen for all others.
        self.__dict__.update(described=items, answers=answers, people_table=people, **more)

    def replacing(self, **others: Any) -> Duels:
        """The same duels, of which some fields are others; features are not made yet."""
        found = Duels.__new__(Duels)
        same = {one.name: getattr(self, one.name) for one in fields(self)}
        found.__dict__.update(same | others)
        return found

    # As they were read.

    @property
    def raw(self) -> RawItems:
        """The table of the items; of such with features these are its columns."""
        known = self.described
        return known if isinstance(known, RawItems) else RawItems.of(known)

    @property
    def given(self) -> Answers:
        """The answers as given, one for each row, before equal ones were merged."""
        if isinstance(self.answers, Batches):
            raise NotInMemory
        return self.answers.given if isinstance(self.answers, Merged) else self.answers

    @property
    def num_rows(self) -> int:
        """t, the number of answers as given."""
        if isinstance(self.answers, Merged):
            return len(self.answers.rows)
        return len(self.answers if isinstance(self.answers, Answers) else self.batches)

    @property
    def context(self) -> Any:
        """Data frame with t rows: the other columns of the table of answers, if there was one."""
        if self.frame is None:
            return require_pandas().DataFrame(index=range(self.num_rows))
        return self.frame

    def saying(self, **columns: Any) -> Duels:
        """The same rows with other columns of what they say, such as `judge=None`."""
        return self.replacing(answers=self.given.saying(**columns))

    def keeping_apart(self, names: Iterable[str]) -> Duels:
        """The same duels, whose columns of these names stay features of their own."""
        raw = self.described
        if isinstance(raw, Items):
            return self
        apart = tuple(dict.fromkeys((*raw.apart, *names)))
        return self.replacing(described=replace(raw, apart=apart))

    def using(self, names: Iterable[str]) -> Duels:
        """The same duels, of which something is made of these columns too."""
        taken = set(names)
        unused = tuple(name for name in self.unused_columns if name not in taken)
        return self.replacing(unused_columns=unused)

    @property
    def described_people(self) -> int:
        """How many people answer twice or more each, on average, about sides that share what is
        known of the person; 0 where the columns that sides share have few values, as a surface
        has."""
        if not self.shared:
            return 0
        met = self.raw.frame.iloc[np.unique(self.given.sides)]
        people = len(met[list(self.shared)].drop_duplicates())
        return people if FEWEST_PEOPLE <= people <= self.num_rows / 2 else 0

    @property
    def only_contexts(self) -> bool:
        """Whether all features are columns of the context, which tell no two items apart."""
        raw = self.raw
        return self.has_features and {*raw.context} >= {*raw.feature_names}

    def sets(self) -> IntArray:
        """A number for each row (t,), equal for duels of one choice or ranking."""
        if self.set_column is None:
            return np.arange(self.num_rows)
        codes, _ = require_pandas().factorize(self.context[self.set_column].astype(str))
        return np.asarray(codes, dtype=np.int64)

    def select(self, rows: npt.ArrayLike) -> Duels:
        """Some of the rows (numbers, or a mask of length t), as the table has them; all items stay.

        Of streamed duels they are read into memory, equal ones being merged.

        :raises ValueError: a row that is not there.
        """
        index, names, frame = self._rows(rows), self.row_names, self.frame
        if isinstance(self.answers, Batches):
            return self.in_memory(self._chunk(*self.batches.take(index)))
        return self.replacing(
            answers=self.given.take(index),
            frame=None if frame is None else frame.iloc[index].reset_index(drop=True),
            row_names=None if names is None else names.select(index),
        )

    def one_by_one(self, copies: bool = True) -> Duels:
        """The duels as rows that can be parted: those of a table as they are, of arrays a row for
        each event.

        :param copies: of arrays, a row for each copy of equal duels.
        """
        if isinstance(self.answers, Answers):
            return self
        return self.replacing(answers=self.events.one_by_one() if copies else self.events)

    def without_idle_items(self) -> Duels:
        """The duels without the items that are in none, unless these have features already."""
        raw = self.described
        if isinstance(raw, Items):
            return self
        used, place = distinct(self.given.sides)
        events = self.given.saying(place.astype(np.int64))
        return self.replacing(described=raw.select(used), answers=events)

    # With features.

    def standardised(
        self,
        rows: npt.ArrayLike | None = None,
        *,
        transform: FeatureTransform | None = None,
        people_features: PeopleFeatures | None = None,
    ) -> Duels:
        """Validated duels of some rows, with standardised features, equal duels being merged.

        Items that have features already keep them, and all stay; then rows alone count.

        :param rows: rows of the duels to keep (numbers, or a mask of length t); default all.
        :param transform: use this recorded transform in place of one learned from these rows, whose
            items set means, standard deviations and levels, and which tell the words of texts that
            win; from every item and duel when `rows` is left out.
        :param people_features: use these recorded ones instead of learning means, standard
            deviations and levels from the people of the kept duels.
        :raises ValueError: no duels, no feature that varies, a feature that is missing or not a
            number.
        """
        table = self if rows is None else self.select(rows)
        known, events, people = self.described, table.given, self.people_table
        if len(events) == 0:
            raise ValueError("There are no duels in the chosen rows; choose at least one row.")
        if isinstance(known, RawItems):
            if transform is None:
                training = np.arange(len(known)) if rows is None else np.unique(events.sides)
                transform = table.transform_of(training)
            known = known.standardised(transform)
        if events.person is None:
            people = None
        elif isinstance(people, RawItems):
            answered = events.person.used().names
            people = people_features or PeopleFeatures.of_table(people, answered)
        return Duels.from_events(
            known,
            events,
            people_features=people,
            unused_columns=self.unused_columns,
            roles=self.roles,
        )

    @property
    def with_features(self) -> Duels:
        """All of them, standardised once: by all items, where features are yet to be made."""
        if isinstance(self.answers, Batches):
            raise NotInMemory
        return self if isinstance(self.answers, Merged) else self._standardised

    @cached_property
    def _standardised(self) -> Duels:
        return self.standardised()

    def in_units_of(self, duels: Duels) -> Duels:
        """These duels, with features made as those of others were, unless they have some.

        :raises ValueError: features that are yet to be made, of duels that have no transform; what
            `standardised` raises.
        """
        of_these = vars(self).get("_standardised") is duels  # asked for, and made of these
        if of_these or isinstance(self.described, Items):
            return self.with_features
        # Of a table nobody knows the units of features that were given as they are.
        as_they_are = duels.transform is None and duels.has_features
        together.check(no_transform=as_they_are, raw_items=self.has_features)
        has_people = isinstance(self.people_table, RawItems)
        people_features = duels.people_features if has_people else None
        return self.standardised(transform=duels.transform, people_features=people_features)

    def transform_of(self, training: IntArray, scored: bool = True) -> FeatureTransform:
        """What makes features of the items, learned from these rows of them.

        :param scored: whether texts have scores of their words, by which of them win in the duels.
        :raises ValueError: what `FeatureTransform.fit` raises.
        """
        won, raw = None, self.raw
        if raw.texts and scored:
            place = np.full(self.num_items, -1)
            place[training] = np.arange(len(training))
            won = Won.of(self.given).between(place)
        return raw.select(training).learned_transform(won)

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

    # Views of items with features and of merged events.

    @property
    def known(self) -> Items:  # type: ignore[override]
        """The items, and what is known of them; views of it are named as they are given."""
        known = self.described
        return known if isinstance(known, Items) else self.with_features.known

    @property
    def merged(self) -> Merged:
        """What was said, equal answers being one event."""
        merged = self.with_features.answers
        assert isinstance(merged, Merged)
        return merged

    @property
    def people_features(self) -> PeopleFeatures | None:
        """What is known of the people besides their preferences; None for nothing."""
        people = self.with_features.people_table
        assert not isinstance(people, RawItems)
        return people

    @property
    def events(self) -> Answers:
        """What was said, as a table (docs/events.md). Repeated events (the same sides, kind, judge,
        person, labels, time and covariates) are one whose count is their sum, in order of first
        appearance. All names below are views of it.
        """
        return self.merged.events

    @property
    def said(self) -> Answers:  # type: ignore[override]
        """The same; of streamed duels none of them, but with the names of all."""
        return self.answers.said if isinstance(self.answers, Batches) else self.events

    @property
    def _held(self) -> Answers | Totals:
        """Merged or not, or in batches, which is the same for what is counted."""
        return self.answers if isinstance(self.answers, Answers) else self._told

    @property
    def _told(self) -> Answers | Totals:
        """The events, or what is known of them where they are read in batches."""
        return self.answers.totals if isinstance(self.answers, Batches) else self.events

    @property
    def winners(self) -> IntArray:
        """(num_pairs,) the row that won each; of a tie the lower one.

        :raises ValueError: answers about sets.
        """
        together.check(sets=self.events.has_sets, of_pairs="winners")
        return self.events.pairs[:, 0]

    @property
    def losers(self) -> IntArray:
        """(num_pairs,) the row that lost each; of a tie the higher one.

        :raises ValueError: answers about sets.
        """
        together.check(sets=self.events.has_sets, of_pairs="losers")
        return self.events.pairs[:, 1]

    @property
    def counts(self) -> IntArray:
        """(num_pairs,) how often each was seen."""
        return self.events.counts

    @property
    def ties(self) -> BoolArray | None:
        """(num_pairs,) which are ties; None without any."""
        return self.events.ties

    @property
    def num_ties(self) -> int:
        """How many ended in a tie, counts included."""
        return self._held.num_ties

    @cached_property
    def centred_people(self) -> PeopleFeatures:
        """Features of the people of the duels, where they have any, and after them of all others,
        less the mean of the former."""
        assert self.people_features is not None
        return self.people_features.about(self.people_names or ())

    @property
    def weights(self) -> FloatArray | None:
        """(num_pairs,) as how many duels each event counts; None where each counts once."""
        return self.events.weights

    @property
    def grades(self) -> npt.NDArray[np.int8] | None:
        """(num_pairs,) by how many levels the winner is better, 0 for ties and for wins of which
        nobody said; None without grades."""
        return None if self.events.answer is None else self.events.answer.numbers

    @property
    def grade_counts(self) -> IntArray | None:
        """(K + 1,) how often each level was said, ties first; None without grades."""
        return self._told.grade_counts

    @property
    def covariates(self) -> FloatArray | None:
        """(num_pairs, C) of the winner less those of the loser; None without.

        :raises ValueError: answers about sets.
        """
        return self.events.covariate_differences

    @property
    def covariate_squares(self) -> FloatArray | None:
        """(C,) mean square of each covariate, winner less loser, or between alternatives of a set;
        None without."""
        return self._told.covariate_squares

    @property
    def groups(self) -> IntArray | None:
        """(num_pairs,) the number of who judged; None without."""
        judge = self.events.judge
        return None if judge is None else judge.numbers.astype(np.int64)

    @property
    def group_levels(self) -> IntArray | None:
        """(J, K + 1) how often each group said each level, ties first (0 tied and 1 won without
        grades); None without."""
        return self._told.judge_levels

    @property
    def times(self) -> FloatArray | None:
        """(num_pairs,) date of each, in days since 1970; None where none is known."""
        return self.said.time

    @property
    def people(self) -> IntArray | None:
        """(num_pairs,) the number of whose preference each is; None where all are one."""
        person = self.events.person
        return None if person is None else person.numbers.astype(np.int64)

    @classmethod
    def from_pairs(
        cls,
        X_winner: npt.ArrayLike,
        X_loser: npt.ArrayLike,
        counts: npt.ArrayLike | None = None,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> Duels:
        """Duels from stacked rows: row i of `X_winner` (t, D) beat row i of `X_loser` (t, D).

        Equal rows become one item; items are numbered in order of first appearance, winners first.

        :raises ValueError: arrays that are not (t, D), differ in shape or are not finite numbers; a
            winner row equal to its loser row; and what `Duels` raises.
        """
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        won = check_features(X_winner, "X_winner", names)
        lost = check_features(X_loser, "X_loser", names)
        check_shape("X_loser", lost, *won.shape, hint=", as X_winner")
        for i in first_true((won == lost).all(axis=1)):
            raise ValueError(
                f"Row {i} of X_winner equals row {i} of X_loser, a duel of an item "
                "with itself; remove it, or use Duels(items, winners, losers) for different items "
                "with equal features."
            )
        # Adding zero makes -0.0 and 0.0 the same row.
        stacked = np.concatenate([won, lost]) + 0.0
        places = np.unique(stacked, axis=0, return_index=True, return_inverse=True)[1:]
        first, index = by_appearance(*places)
        t = len(won)
        return cls(stacked[first], index[:t], index[t:], counts, feature_names=names)

    @property
    def num_pairs(self) -> int:
        """The number of distinct duels, ordered pairs (winner, loser) as a rule."""
        return len(self.events)

    @property
    def num_duels(self) -> int:
        """t, the number of duels: the sum of `counts`."""
        return self._held.num_events

    @property
    def decided(self) -> BoolArray:
        """Which rows have a winner, (num_pairs,)."""
        return np.ones(self.num_pairs, dtype=bool) if self.ties is None else ~self.ties

    @property
    def effective_counts(self) -> FloatArray:
        """As how many duels each row counts in the likelihood, (num_pairs,)."""
        return self.events.totals

    @property
    def comparisons(self) -> IntArray:
        """Duels that each item takes part in, (n,), counts included."""
        return self._held.compared(self.num_items)

    @property
    def noun(self) -> str:
        """What several of the answers are called."""
        return self._held.noun

    @property
    def unit(self) -> str:
        """What one of the answers is called."""
        return self._held.unit

    @property
    def has_sets(self) -> bool:
        """Whether any of them is an answer about a set, of a part of a stream any in the whole."""
        answers = self.answers
        return (answers.events if isinstance(answers, Merged) else answers).has_sets

    # In chunks.

    @property
    def held(self) -> bool:
        """Whether all duels are in memory, where everybody may ask who met whom."""
        return not isinstance(self.answers, Batches)

    @property
    def has_items(self) -> bool:
        """Whether each row of `items` is an item, which streams with inline features lack."""
        return not isinstance(self.answers, Batches) or self.answers.has_items

    @property
    def batches(self) -> Any:
        """Where they are read, an `io.streams.Stream`.

        :raises ValueError: duels in memory, and those of a model that was loaded.
        """
        if isinstance(self.answers, Answers | Merged):
            raise ValueError(
                "The duels are in memory; make a PreferenceGP of them, or give stream_duels(duels) "
                "where they are to be taken in chunks."
            )
        if isinstance(self.answers, Totals):
            raise NotInMemory
        return self.answers

    def chunks(self, size: int) -> Iterator[Duels]:
        """All of them as rows in order, at most `size` sites at a time, read ahead by a thread.

        Each chunk has whole answers and whole blocks, at least one, and all but the last as many
        as fit. Where sides have features of their own, each is an item.

        :raises ValueError: an unreadable file, a bad value, with its row, or other duels than
            before.
        """
        for events, features in self.batches.chunks(size):
            yield self._chunk(events, features)

    def _chunk(self, events: Answers, features: FloatArray | None) -> Duels:
        known = self.known
        if features is not None:
            known = replace(known, features=self._standard(features))
        return self.replacing(described=known, answers=events)

    def _standard(self, features: FloatArray) -> FloatArray:
        """Numbers of a file (…, D) as the model has them."""
        made = self.transform
        return features if made is None else (features - np.array(made.mean)) / np.array(made.scale)

    @property
    def centre(self) -> FloatArray:
        """The mean of the items, or of the sides of duels that have features of their own, (D,)."""
        if self.has_items:
            return np.mean(self.items, 0, dtype=np.float64)
        return self._standard(self.batches.scan.mean)

    def in_memory(self, chunk: Duels) -> Duels:
        """A chunk with equal answers merged, and equal sides as one item where these have features
        of their own."""
        chunk = chunk.saying(block=None)
        if not self.has_items:
            items, row = np.unique(chunk.items, axis=0, return_inverse=True)
            known, events = replace(chunk.known, features=items), chunk.given
            events = events.saying(row.reshape(-1)[events.sides])
            chunk = chunk.replacing(described=known, answers=events)
        return chunk.with_features

    def draw(self, size: int, rng: np.random.Generator) -> IntArray:
        """Numbers of `size` rows without replacement, ascending; of all where there are no more."""
        if size >= self.num_rows:
            return np.arange(self.num_rows)
        return np.sort(rng.choice(self.num_rows, size, replace=False))

    def sample(self, size: int, rng: np.random.Generator) -> Duels:
        """The rows of `draw`."""
        return self.select(self.draw(size, rng))

    def part(self, start: int, stop: int) -> Duels:
        """Rows start to stop of streamed duels.

        :raises ValueError: no rows, or rows that are not there.
        """
        return self.replacing(answers=self.batches.part(start, stop))

    def cut(self, parts: int) -> tuple[Duels, ...]:
        """Parts of nearly equal size, in the order of the rows: whole files, if their sizes allow.

        :raises ValueError: more parts than rows, so that one would have no duels.
        """
        return tuple(self.replacing(answers=part) for part in self.batches.cut(parts))

    def in_blocks(self, labels: Sequence[Hashable], what: str = "block") -> Duels:
        """The same streamed duels with a block for each row, which no chunk and no part cuts.

        :param what: one of them is.
        :raises ValueError: labels for more or fewer rows, or a block whose rows do not follow on
            one another.
        """
        return self.replacing(answers=self.batches.in_blocks(labels, what))

    @property
    def seen(self) -> Duels:
        """What is known of streamed duels without reading them: numbers, names of all that were
        said, and the items, for features of sides the lowest and the highest."""
        totals, known = self.batches.totals.used(), self.known
        if totals.ends is not None:
            known = replace(known, features=self._standard(totals.ends))
        return self.replacing(described=known, answers=totals)

    def differences(self) -> FloatArray:
        """Features of the winner minus features of the loser, (num_pairs, D)."""
        return np.asarray(self.items[self.winners] - self.items[self.losers])

    def distinct_rows(self, numbered: bool = False) -> tuple[FloatArray, IntArray]:
        """Distinct feature rows of the items that take part in a duel, in ascending order.

        :param numbered: rows get a last column, the number of the item, so that items with equal
            features stay apart.
        :return: The rows (k, D), or (k, D + 1), and the row of each item (n,), -1 where it takes
            part in no duel.
        """
        used = np.unique(self.events.sides)
        # Adding zero makes -0.0 and 0.0 the same row.
        inputs = self.items[used] + 0.0
        if numbered:
            inputs = np.column_stack([inputs, self.item[used]])
        # As np.unique by rows, which compares structures and takes three times as long.
        order = np.lexsort(inputs.T[::-1]) if inputs.shape[1] else np.arange(len(inputs))
        inputs = inputs[order]
        new = np.ones(len(inputs), dtype=bool)
        new[1:] = (inputs[1:] != inputs[:-1]).any(axis=1)
        row_of_item = np.full(self.num_items, -1, dtype=np.int64)
        row_of_item[used[order]] = np.cumsum(new) - 1
        return inputs[new], row_of_item

    def summary(self) -> DuelsSummary:
        """What the duels look like: sizes, contradictions, and how the items are connected."""
        from scipy import sparse
        from scipy.sparse import csgraph

        # Kept out of the module: this import is slow, and only this method needs it.
        n, sets = self.num_items, self.events.has_sets
        if sets:  # what each answer says of two alternatives
            doors = self.events.doors()
            winners, losers = doors.features.T
            won, event = np.ones(len(winners), dtype=bool), doors.event
        else:
            winners, losers = self.winners, self.losers
            won, event = self.decided, np.arange(len(winners))
        low, high = np.minimum(winners, losers), np.maximum(winners, losers)
        ordered = len(np.unique((winners * n + losers)[won]))
        unordered = len(np.unique((low * n + high)[won]))
        # Without features items are not alike: nothing is known of them.
        equal = self._equal_features(winners, losers)
        equal &= self.num_features > 0
        sizes = self.events.sizes
        compared = len(np.unique(np.concatenate([low, high])))
        graph = sparse.coo_array((np.ones(len(low)), (low, high)), shape=(n, n))
        components = int(csgraph.connected_components(graph, directed=False, return_labels=False))
        never = n - compared
        names = self.item_rows.names if self.item_rows is not None else range(n)
        met = {names[i] for i in np.union1d(low, high)}
        return DuelsSummary(
            num_items=len(set(names)),
            num_rows=n,
            num_features=self.num_features,
            num_duels=self.num_duels,
            ties=self.num_ties,
            groups=None if self.group_names is None else len(self.group_names),
            ordered_pairs=ordered,
            unordered_pairs=unordered,
            # Of distinct ordered pairs each contradicted one is there exactly twice.
            contradicted_pairs=ordered - unordered,
            equal_feature_duels=int(self.counts[np.unique(event[equal])].sum()),
            distinct_feature_rows=(
                len(np.unique(self.items + 0.0, axis=0)) if self.num_features else n
            ),
            constant_columns=() if self.transform is None else self.transform.dropped,
            items_never_compared=len(set(names) - met),
            # Every row never compared is a component of its own; those are reported above.
            components=components - never,
            noun=self.events.noun,
            set_sizes=(int(sizes.min()), int(sizes.max())) if sets else None,
            reduced=None
            if self.transform is None or self.transform.reduced is None
            else str(self.transform.reduced),
            people=None if self.people_names is None else len(self.people_names),
            unused_columns=self.unused_columns,
        )

    def _equal_features(self, first: IntArray, second: IntArray) -> BoolArray:
        """Whether two rows of the items have equal features, some at a time."""
        step = max(1, _COMPARED // max(1, self.num_features))
        found = np.empty(len(first), dtype=bool)
        for start in range(0, len(first), step):
            some = slice(start, start + step)
            found[some] = (self.items[first[some]] == self.items[second[some]]).all(axis=1)
        return found

    def __repr__(self) -> str:
        what = "num_features" if isinstance(self.described, Items) else "num_columns"
        numbers = f"num_items={self.num_items}, {what}={self.described.num_features}"
        if isinstance(self.answers, Batches):
            return f"Duels({numbers}, {self.answers!r})"
        rows = f"num_rows={self.num_rows}"
        if isinstance(self.answers, Merged):
            rows = f"num_pairs={self.num_pairs}"
        return f"Duels({numbers}, num_duels={self.num_duels}, {rows})"


def _checked_events(events: Answers, known: Items) -> Answers:
    """Events between rows that are there, with the labels that they use."""
    check_kind("events", events, Answers, "Answers, as Answers.between(winners, losers) makes them")
    events = events.checked()
    events.check_rows(len(known.features))
    for event, row in _against_themselves(events):
        raise ValueError(
            f"Duel {event} is of item {known.shown(row)} with itself; remove it, or correct its "
            "sides."
        )
    return events.saying(counts=_checked_counts(events.columns.get("counts"), len(events)))


def _against_themselves(events: Answers) -> list[tuple[int, int]]:
    """The first event that has a row twice, and that row; empty where there is none."""
    if events.in_pairs:
        first, second = events.pairs.T
        at = first_true(first == second)
        return [(int(i), int(first[i])) for i in at]
    event = events.event_of_side
    order = np.lexsort((events.sides, event))
    sides, owner = events.sides[order], event[order]
    at = first_true((sides[1:] == sides[:-1]) & (owner[1:] == owner[:-1]))
    return [(int(owner[i]), int(sides[i])) for i in at]


def check_covariates(values: FloatArray, names: Sequence[str]) -> None:
    """Refuse covariates (t, C), winner less loser, of which nothing can be learned.

    :raises ValueError: a number that is not finite; a covariate that is the same in all duels.
    """
    for i, j in np.argwhere(~np.isfinite(values))[:1]:
        raise ValueError(
            f"The covariate {names[j]!r} is {values[i, j]} for duel {i}; give finite numbers."
        )
    for j in first_true(np.all(values == values[:1], 0)) if len(values) > 1 else ():
        raise ValueError(
            f"The covariate {names[j]!r} is {values[0, j]:g}, winner less loser, in all duels, so "
            "that nothing can be learned of it; leave it out."
        )


def _checked_covariates(
    covariates: npt.ArrayLike | None, covariate_names: Sequence[str] | None, t: int
) -> tuple[FloatArray | None, tuple[str, ...]]:
    """(t, C), None without, and their names.

    :raises ValueError: of another shape, not finite, without names of their own, or one that is the
        same in all duels.
    """
    if covariates is None:
        named = covariate_names is not None and "names of covariates"
        together.check(covariates=named, no_covariates="no covariates")
        return None, ()
    values = numbers("covariates", covariates)
    if values.ndim == 1:
        values = values[:, None]
    check_shape("covariates", values, t, "C", hint=", winner less loser")
    names = tuple(map(str, covariate_names or ()))
    if covariate_names is None:
        names = tuple(f"covariate {j}" for j in range(values.shape[1]))
    check_covariate_names(names, values.shape[1])
    check_covariates(values, names)
    return values, names


def _answers(
    grades: npt.ArrayLike | None, levels: Sequence[str] | None, has_ties: bool, t: int
) -> Grades | None:
    """Grades; None without.

    :raises ValueError: grades and ties; levels without grades; what `Grades.of` raises, and a tie
        where it is not among the levels.
    """
    if grades is None:
        together.check(levels_of_grades=levels is not None, no_grade=True)
        return None
    together.check(grade="grades", said_by_grades=has_ties and "ties")
    answer = Grades.of(_per_duel(grades, "grades", t), levels)
    for i in [] if answer.has_ties else first_true(answer.numbers == 0):
        raise ValueError(
            f"The grade of duel {i} is 0, a tie, but the levels "
            f"{', '.join(map(repr, answer.names))} have none in the middle; give an odd number of "
            "levels."
        )
    return answer


def _days(times: npt.ArrayLike | None, t: int) -> FloatArray | None:
    """Dates in days since 1970, (t,)."""
    if times is None:
        return None
    days = days_of(times, t)
    warn_of_years(times, days)
    return days


def _labelled(given: Any, name: str, t: int) -> Any:
    """Codes of the labels of duels; None for none."""
    if given is None:
        return None
    labels = _per_duel(given, name, t).tolist()
    return Codes.of([int(x) if isinstance(x, float) and x.is_integer() else x for x in labels])


def _per_duel(values: npt.ArrayLike, name: str, t: int) -> AnyArray:
    array = _array(values, name)
    check_shape(name, array, t, hint=", one for each duel")
    return array


@dataclass(frozen=True)
class DuelsSummary(Result):
    """Figures of a set of duels; `print` shows them as text.

    `num_rows` is `num_items`, unless items have a row for each context or state; pairs are of such
    rows. `ties` is how many of the duels were tied, `groups` how many groups judged, None where no
    group is known. `ordered_pairs` and `unordered_pairs` are distinct pairs of duels that one item
    won; `contradicted_pairs` were won by either side at least once; `distinct_feature_rows` is
    `num_rows` without features; `equal_feature_duels` counts duels between different rows with
    equal features; `components` counts the connected parts of the comparison graph among the rows
    that were compared (information only). Of answers about sets, called `noun`, `set_sizes` are the
    fewest and the most alternatives, and pairs are those of which an answer says who is better.
    `reduced` says what was reduced to directions; None where nothing was. `people` is whose
    preferences they are, None where all are one. `unused_columns` are those of the table that say
    nothing of the duels.
    """

    num_items: int
    num_rows: int
    num_features: int
    num_duels: int
    ties: int
    groups: int | None
    ordered_pairs: int
    unordered_pairs: int
    contradicted_pairs: int
    equal_feature_duels: int
    distinct_feature_rows: int
    constant_columns: tuple[str, ...]
    items_never_compared: int
    components: int
    noun: str = "duels"
    set_sizes: tuple[int, int] | None = None
    reduced: str | None = None
    people: int | None = None
    unused_columns: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, str]]:
        """The summary as (label, value) rows."""
        noun, featured = self.noun, self.num_features > 0
        remarks = []
        if self.num_rows > self.num_items:
            remarks.append(f"{self.num_rows:,} rows in contexts or states")
        if self.num_rows > 1 and self.distinct_feature_rows == 1:
            remarks.append("all with equal features: the duels cannot tell them apart")
        elif self.distinct_feature_rows < self.num_rows:
            remarks.append(f"{self.distinct_feature_rows:,} distinct feature rows")
        remark, link = f" ({', '.join(remarks)})" if remarks else "", ""
        if self.components > 1:
            by = "features compare" if featured else "the prior alone compares"
            link = f" (no {noun} link them; {by} their items)"
        low, high = self.set_sizes or (0, 0)
        sizes = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        return facts(
            [
                ("items (n)", f"{self.num_items:,}{remark}"),
                ("features (D)", self.num_features or "none"),
                ("made of", self.reduced),
                (f"{noun} (t)", self.num_duels),
                ("alternatives of each", sizes if high else None),
                ("of these tied", self.ties or None),
                ("groups", self.groups),
                ("people", self.people),
                (
                    "pairs with a winner" if self.ties else "pairs of items compared",
                    self.unordered_pairs,
                ),
                ("of these won by each side at least once", self.contradicted_pairs),
                (
                    f"{noun} between items with equal features",
                    self.equal_feature_duels if featured else None,
                ),
                (
                    "constant columns dropped",
                    (", ".join(self.constant_columns) or "none") if featured else None,
                ),
                (f"columns of the {noun} not used", some_of(self.unused_columns) or None),
                ("items never compared", self.items_never_compared),
                ("linked groups of items", f"{self.components:,}{link}"),
            ]
        )

    def table(self, most: int | None = None) -> Table:
        """Its rows."""
        return facts_table("", self.rows())


def check_total(counts: IntArray, where: Where) -> None:
    """Refuse counts, each at most MAX_COUNT, whose sum is larger.

    :raises ValueError: the sum is above MAX_COUNT; `where` names the row at which it gets there.
    """
    # The first sum that is too large is below 2**54; int64 may overflow only after it.
    for i in first_true(np.cumsum(counts) > MAX_COUNT):
        raise ValueError(
            f"The counts up to {where(i)} add up to more than 2**53 ({MAX_COUNT}); "
            "give smaller counts."
        )


def _array(values: npt.ArrayLike, label: str) -> AnyArray:
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{label} has entries of unequal length; give a one-dimensional array with one entry "
            "per duel."
        ) from None


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _indices(values: AnyArray, label: str, known: Items) -> IntArray:
    """Row indices."""
    n, ids = len(known.features), known.ids
    if values.dtype.kind in "iu" or (
        values.dtype.kind == "O" and all(_whole(value) for value in values)
    ):
        others = ((i, value) for i, value in enumerate(ids or ()) if _whole(value) and value != i)
        for row, value in others:
            raise ValueError(
                f"{label} has the integer {shortened(values[0])} in duel 0, and integers are row "
                f"indices, but item_ids holds other integers ({shortened(value)} for row "
                f"{row}); give item_ids, winners and losers as text, or row indices without "
                "item_ids."
            )
        for i in first_true((values < 0) | (values >= n)):
            raise ValueError(
                f"{label} has {shortened(values[i])} in duel {i}, which is "
                f"not an item; integers are row indices, so give one from 0 to {n - 1}, or text "
                "ids with item_ids."
            )
        return values.astype(np.int64)
    if ids is None or values.dtype.kind in "fbc":
        raise ValueError(
            f"{label} has {shortened(values[0])} in duel 0, which is not an index; give integers, "
            "as .astype(int) makes them, or name the items with item_ids."
        )
    position = {value: i for i, value in enumerate(ids)}
    result = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values.tolist()):
        try:
            result[row] = position[value]
        except (KeyError, TypeError):
            raise ValueError(
                f"{label} has {shortened(value)} in duel {row}, which is not among item_ids; add "
                "that item or remove the duel."
            ) from None
    return result


def _checked_counts(counts: npt.ArrayLike | None, t: int) -> IntArray | None:
    """Counts (t,), None where all are 1."""
    if counts is None:
        return None
    raw = given = _per_duel(counts, "counts", t)
    if raw.dtype.kind not in "iuf":  # integers beyond 64 bits are refused below for their size
        raw = np.array(
            [min(max(int(n), -1), 2 * MAX_COUNT) if _whole(n) else np.nan for n in given]
        )
    for i in first_true(~((raw >= 1) & (raw <= MAX_COUNT) & (raw == np.floor(raw)))):
        raise ValueError(
            f"counts has {shortened(given[i])} in duel {i}; give whole numbers from 1 to 2**53."
        )
    number = raw.astype(np.int64)
    check_total(number, lambda row: f"duel {row}")
    return None if np.all(number == 1) else number
