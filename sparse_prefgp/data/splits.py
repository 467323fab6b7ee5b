"""Parting events into those to learn from and those to be tested on.

A rule says which unit each side of an event belongs to: an item, a group, a date. Units are held
out whole, by one of four ways: a share of them, each in one of several folds, one alone, or those
that a column names. Events between a unit that is held out and one that is not are in neither part;
a set of events that came from one choice or ranking is in one part, or in neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.answers import Answers
from sparse_prefgp.data.duels import PERSON, Duels
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.flags import flags_of, refuse_cells
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import AnyArray, BoolArray, IntArray, distinct, first_true, runs
from sparse_prefgp.support.checks import check_choice, check_number, check_shape

# Below, no person is held out whole: it would be a large part of what is known.
FEWEST_PEOPLE = 10


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of the duels for training and testing, each in ascending order."""

    train_rows: IntArray
    """Numbers of the training rows."""
    test_rows: IntArray
    """Numbers of the held-out rows."""
    dropped: int
    """Rows in neither part because one item (or group) is held out and the other kept."""
    description: str
    """One sentence that says how it was done."""
    unused: int = 0
    """Training rows left out because of `max_train`."""


@dataclass(frozen=True, eq=False)
class Units:
    """What is held out whole."""

    code: IntArray
    """(s,) a number for the unit of each side, or of each event; in the order in which units appear
    in their table, or for moments in time.
    """
    event: IntArray
    """(s,) the event that each of these is of, a row of the table."""
    what: str
    """What units are, for messages; more than one of them."""
    labels: AnyArray | None = None
    """Of units, by their number; None where they have none."""
    ordered: bool = False
    """Whether the last ones are held out, not some at random."""
    of_items: bool = False
    """Whether items are held out."""
    wording: str = "{chosen:,} of {units:,} {what} held out"
    """The description of a share, with `{chosen}` of `{units}` units, `{held}` of `{rows}` rows and
    `{what}`.
    """
    given: bool = False
    """Whether the unit 1 is held out, and 0 is not, whatever the share."""
    of_rows: bool = False
    """Whether they are single rows, or sets of them that came from one answer."""


class Grouping(NamedTuple):
    """What events have in common, so that they do not tell of a score independently."""

    codes: IntArray
    """(e,) number of the group of each event, or (e, m) of several, such as its items, -1 for none.
    """
    what: str
    """What groups are called; more than one of them."""

    def take(self, rows: IntArray) -> Grouping:
        """That of some of the events."""
        return self._replace(codes=self.codes[rows])

    @property
    def several(self) -> bool:
        """Whether there is more than one."""
        return len(np.unique(self.codes[self.codes >= 0])) > 1


def grouping_of(table: Duels, rows: IntArray, units: Units | None = None) -> Grouping | None:
    """What standard errors of scores of held-out rows are over: what was held out whole, and where
    that is rows or moments, or named by a column, people, else answers that became several duels.

    :param rows: (e,) of the table, that were held out.
    :param units: what was held out, None where nothing is known of that.
    :return: None for the rows themselves, as where all are of one group.
    """
    people, found = _people_in(table), list[Grouping]()
    if units is not None and not (units.ordered or units.given or units.of_rows):
        whole = Grouping(_of_rows(units, table.num_rows), units.what)
        if people is not None and _same_parts(whole.codes, people.codes):
            whole = people
        found.append(whole)
    if people is not None:
        found.append(people)
    if table.set_column is not None:
        found.append(Grouping(table.sets(), f"values of {table.set_column!r}"))
    held_out = (each.take(rows) for each in found)
    return next((each for each in held_out if each.several), None)


def grouping_of_people(events: Answers) -> Grouping | None:
    """By whose preference each event is, of whom there are several; None where nobody knows."""
    if events.person is None:
        return None
    # Unknown ones are each another.
    return Grouping(distinct(events.person.numbers)[1], "people")


def _people_in(table: Duels) -> Grouping | None:
    """The same of rows of a table, or by who answered about a set."""
    of_sets = table.given.has_sets or table.set_column is not None
    if table.given.person is not None or not of_sets or PERSON not in table.context.columns:
        return grouping_of_people(table.given)
    return Grouping(require_pandas().factorize(table.context[PERSON].astype(str))[0], "people")


def _of_rows(units: Units, rows: int) -> IntArray:
    """(rows, m) numbers of the units of each row, -1 for no more."""
    number = np.bincount(units.event, minlength=rows)
    place = runs(np.zeros_like(number), number)
    found = np.full((rows, int(number.max(initial=1))), -1)
    found[units.event, place] = units.code
    return found


def _same_parts(codes: IntArray, others: IntArray) -> bool:
    """Whether two numberings part rows alike."""
    if codes.shape[1] != 1:
        return False
    both = np.unique(np.column_stack([codes, others]), axis=0)
    return len(both) == len(np.unique(codes)) == len(np.unique(others))


# ---- rules -------------------------------------------------------------------------------------


def _by_duels(table: Duels, column: str) -> Units:
    """Each event, or each set of events, is a unit."""
    what = table.given.noun
    wording = f"{what.capitalize()} held out at random: {{held:,}} of {{rows:,}}"
    if table.set_column is not None:
        what = f"values of {table.set_column!r}"
        wording = (
            "Whole sets of duels held out at random: {chosen:,} of {units:,} {what} ({held:,} of "
            "{rows:,} duels)"
        )
    return Units(table.sets(), np.arange(table.num_rows), what, wording=wording, of_rows=True)


def _by_items(table: Duels, column: str) -> Units:
    """Each item is a unit, whatever its context."""
    return Units(*_of_sides(table, table.item), "items", of_items=True)


def _by_group(table: Duels, column: str) -> Units:
    """Each value of a column of the duels, or else of the items, is a unit."""
    found = _Column.of(table, column)
    code, labels = require_pandas().factorize(found.values.astype(str))
    of_each = found.of_each(np.asarray(code, dtype=np.int64))
    labels = np.asarray(labels, dtype=object)
    return Units(*of_each, f"values of {column!r}", labels, of_items=found.of_items)


def _by_time(table: Duels, column: str) -> Units:
    """Each moment is a unit: an event is as late as its latest item, a set as its latest event."""
    found = _Column.of(table, column)
    values = found.values
    if not require_pandas().api.types.is_numeric_dtype(values.dtype):
        values = _moments(found)
    code, event = found.of_each(distinct(np.asarray(values))[1])
    sets = table.sets()
    latest = np.full(int(sets.max()) + 1, -1)
    np.maximum.at(latest, sets[event], code)
    return Units(
        latest[sets],
        np.arange(table.num_rows),
        f"values of {column!r}",
        ordered=True,
        of_items=found.of_items,
        wording="The last {chosen:,} of {units:,} distinct {what} held out",
    )


def _by_given(table: Duels, column: str) -> Units:
    """What has 1 is held out, and what has 0 is not."""
    found = _Column.of(table, column)
    meaning = "1 for what is held out and 0 for what is not"
    flags = flags_of(found.values, column, found.where, meaning)
    code, event = found.of_each(flags.astype(np.int64))
    if len(np.unique(code)) < 2:
        every, what = ("0", "held out") if not code.any() else ("1", "left to learn from")
        owner = "items" if found.of_items else table.given.noun
        raise ValueError(
            f"The split column {column!r} has {every} in all {owner}, so that nothing is {what}; "
            f"give {meaning}."
        )
    return Units(
        code,
        event,
        f"values of {column!r}",
        of_items=found.of_items,
        wording=f"Held out by the column {column!r}: {{held:,}} of {{rows:,}} {table.given.noun}",
        given=True,
    )


class Rule(NamedTuple):
    """A way to say what is held out whole."""

    units: Callable[[Duels, str], Units]
    """Those of a table, by the column that is named."""
    column: bool = False
    """Whether a column is named."""


RULES = {
    "duels": Rule(_by_duels),
    "items": Rule(_by_items),
    "group": Rule(_by_group, column=True),
    "time": Rule(_by_time, column=True),
    "given": Rule(_by_given, column=True),
}


def split_columns(how: str) -> tuple[str, ...]:
    """The columns named by `how`, which must never be features.

    :raises ValueError: an unknown kind of split.
    """
    return tuple(name for name in [_kind(how)[1]] if name)


def says_itself(how: str) -> bool:
    """Whether a split says itself what is held out, so that there are neither shares nor folds.

    :raises ValueError: an unknown kind of split.
    """
    return _kind(how)[0] == "given"


def units_of(table: Duels, how: str) -> Units:
    """What a rule holds out whole.

    :raises ValueError: an unknown kind; a missing column or a missing value in it; of `given`, what
        is neither 0 nor 1, or only one of them.
    """
    kind, column = _kind(how)
    return RULES[kind].units(table, column)


def given_units(labels: npt.ArrayLike, rows: int) -> Units:
    """The groups that somebody gives, one for each row.

    :raises ValueError: labels for more or fewer rows; a missing one.
    """
    values = np.asarray(labels)
    check_shape("by", values, rows, hint=", the group of each row, or the word duels or items")
    code = np.asarray(require_pandas().factorize(values)[0], dtype=np.int64)
    for row in first_true(code < 0):
        raise ValueError(f"by has no value (NaN) for row {row} of the duels; fill it in.")
    return Units(code, np.arange(rows), "groups")


def _kind(how: str) -> tuple[str, str]:
    kind, colon, column = str(how).partition(":")
    rule = RULES.get(kind)
    if rule is None or bool(column) != rule.column or bool(colon) != rule.column:
        *most, last = (f"{name}:COLUMN" if one.column else name for name, one in RULES.items())
        raise ValueError(f"The split {how!r} is unknown; use {', '.join(most)} or {last}.")
    return kind, column


def _of_sides(table: Duels, of_item: IntArray) -> tuple[IntArray, IntArray]:
    """A number of each item as that of each side (s,), and the event of each side (s,)."""
    events = table.given
    return of_item[events.sides], events.event_of_side


class _Column(NamedTuple):
    """A column that a split is made by; one of the duels is preferred to one of the items."""

    table: Duels
    name: str
    values: Any
    of_items: bool

    @classmethod
    def of(cls, table: Duels, name: str) -> _Column:
        """The column, refused where it is missing or has no value."""
        owner = next((f for f in (table.context, table.raw.frame) if name in f.columns), None)
        check_choice("The split column", name, [*table.context.columns, *table.raw.frame.columns])
        assert owner is not None
        found = cls(table, name, owner[name], owner is not table.context)
        refuse_cells(found.values.isna(), found.values, name, found.where, "fill it in")
        return found

    def where(self, row: int) -> str:
        names = self.table.raw.row_names if self.of_items else self.table.row_names
        owner = "items" if self.of_items else "duels"
        return f"row {row} of the {owner} (counted from 0)" if names is None else names(row)

    def of_each(self, code: IntArray) -> tuple[IntArray, IntArray]:
        """Numbers of its rows as those of each side, or of each event, and the event of each."""
        return _of_sides(self.table, code) if self.of_items else (code, np.arange(len(code)))


def _moments(column: _Column) -> Any:
    """Numbers or dates that are not stored as numbers, in a form that sorts."""
    pd = require_pandas()
    values, name, where = column.values, column.name, column.where
    if values.dtype.kind == "m":
        return values.to_numpy()
    dates = values
    if values.dtype.kind != "M" and not isinstance(values.dtype, pd.DatetimeTZDtype):
        texts = values.astype(str).str.strip()
        numbers = pd.to_numeric(texts, errors="coerce")
        bad = np.flatnonzero(np.asarray(numbers.isna(), dtype=bool))
        if not bad.size:
            return numbers.to_numpy()
        if 2 * len(bad) < len(values):
            remedy = "the other values are numbers, so correct it"
            refuse_cells(numbers.isna(), texts, name, where, remedy)
        # One form only: 05/03/2020 is in March or in May.
        dates = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
        refuse_cells(dates.isna(), texts, name, where, "give dates such as 2024-01-31, or numbers")
    # Without a zone, numpy sorts plain integers.
    return dates.dt.tz_convert(None).to_numpy() if dates.dt.tz is not None else dates.to_numpy()


# ---- ways to hold units out --------------------------------------------------------------------


def split_duels(
    table: Duels,
    how: str,
    test_fraction: float,
    rng: np.random.Generator,
    *,
    max_train: int | None = None,
) -> Split:
    """Part the rows of a table.

    Duels that come from one choice or ranking (`table.set_column`) are never parted: `duels` holds
    out whole sets, a set is as late as the latest of its duels, and one that would lie in both
    parts, or partly in neither, is dropped.

    :param table: the duels, one row each.
    :param how: `duels` (rows at random); `items` (a share of the compared items is held out: both
        held out is test, both kept is train, mixed rows are dropped); `group:COLUMN` (a share of
        the groups is held out whole); `time:COLUMN` (the last rows, cut between distinct dates, as
        near to the share as the dates allow). A column of the duels is preferred to one of the
        items; for the items' own, a duel is as late as the later of its items, and is dropped when
        the two are in groups of different parts. `given:COLUMN` holds out what has 1 in a column
        of 0 and 1, again of the duels or of the items.
    :param test_fraction: the share to hold out, in [0, 1); 0 keeps everything for training, and
        any other is ignored by `given`.
    :param rng: draws what is random.
    :param max_train: keep at most this many training rows: the last ones before the test part for
        `time`, a random choice otherwise.
    :raises ValueError: an unknown kind; a missing column or a missing value in it; of `given`, what
        is neither 0 nor 1, or only one of them; a fraction outside [0, 1); `max_train` below 1; a
        part without duels; items without features held out.
    """
    _kind(how)  # refused before any work
    check_number("The test fraction", test_fraction, least=0.0, below=1.0)
    if max_train is not None:
        check_number("max_train", max_train, least=1, whole=True)
    t, sets, units = table.num_rows, table.sets(), units_of(table, how)
    of_items = units.of_items and test_fraction > 0.0 and f"the split {how!r}"
    together.check(split_of_items=of_items, items_without_features=not table.has_features)
    if test_fraction == 0.0:
        noun = table.given.noun
        all_of = f"All {t:,} {noun}" if t > 1 else f"The one {noun.removesuffix('s')}"
        wording = f"{all_of} for training, none held out"
        found = Split(np.arange(t), np.empty(0, dtype=np.int64), 0, wording)
    else:
        code = units.code
        if units.labels is not None:  # in the order of their labels as text
            code = np.argsort(np.argsort(units.labels))[code]
        every = np.unique(code)
        if units.given:
            chosen = np.array([1])
        elif units.ordered:
            chosen = every[every >= _cut(code, test_fraction, units.what)]
        else:
            chosen = rng.permutation(every)[: _share(test_fraction, len(every), units.what)]
        train, test = _apart(np.isin(code, chosen), units.event, sets)
        wording = units.wording.format(
            chosen=len(chosen), units=len(every), held=len(test), rows=t, what=units.what
        )
        found = _reported(table, train, test, wording)
    for part, rows in (("training", found.train_rows), ("test", found.test_rows)):
        if len(rows) == 0 and (part == "training" or test_fraction > 0.0):
            share = "" if units.given else f" with test fraction {test_fraction}"
            other = "other values" if units.given else "another fraction"
            raise ValueError(
                f"The {part} part of the split {how!r}{share} has no {table.given.noun}; choose "
                f"{other} or another kind of split."
            )
    moment, column = units.code if units.ordered else None, table.set_column
    return _finished(found, sets, max_train, rng, moment, column, table.given.noun)


def holding_out_people(table: Duels, split: Split, share: float, rng: np.random.Generator) -> Split:
    """The same split, with all events of some people in the test part too: these are new.

    :param share: of the people with events in training, at least one of them, to hold out.
    :param rng: draws them.
    :return: `split` itself, where fewer than ten people have events in training.
    """
    person = table.given.person
    assert person is not None
    known = np.unique(person.numbers[split.train_rows])
    if len(known) < FEWEST_PEOPLE or not len(split.test_rows):
        return split
    new = rng.permutation(known)[: max(1, round(share * len(known)))]
    moved = np.isin(person.numbers[split.train_rows], new)
    wording = (
        f"{split.description.removesuffix('.')}, and all {int(moved.sum()):,} others of "
        f"{len(new):,} of {len(known):,} people, who are new."
    )
    return replace(
        split,
        train_rows=split.train_rows[~moved],
        test_rows=np.sort(np.concatenate([split.test_rows, split.train_rows[moved]])),
        description=wording,
    )


def leave_one_out(
    table: Duels,
    how: str,
    label: str,
    rng: np.random.Generator,
    *,
    max_train: int | None = None,
) -> Split:
    """Hold out one group alone, one of `group_labels`.

    :param rng: draws the training rows to keep where there are more than `max_train`.
    :raises ValueError: what `units_of` raises; a part without duels.
    """
    (column,) = split_columns(how)
    units = units_of(table, how)
    assert units.labels is not None
    sets = table.sets()
    train, test = _apart((units.labels == label)[units.code], units.event, sets)
    for part, rows in (("training", train), ("test", test)):
        if not len(rows):
            raise ValueError(
                f"The {part} part without {label!r} of {column!r} has no duels; use another "
                "split, or leave out another one."
            )
    wording = f"{label} of {column!r} held out ({len(test):,} of {table.num_rows:,} duels)"
    found, column_of_sets = _reported(table, train, test, wording), table.set_column
    noun = table.given.noun
    return _finished(found, sets, max_train, rng, None, column_of_sets, noun)


def group_labels(table: Duels, how: str) -> list[str]:
    """The groups that are in a duel: in the order of numbers where all are, else of text.

    :raises ValueError: what `units_of` raises.
    """
    units = units_of(table, how)
    assert units.labels is not None
    labels = sorted(units.labels[np.unique(units.code)])
    try:
        numbers = [float(label) for label in labels]
    except ValueError:
        return labels
    if not np.all(np.isfinite(numbers)):
        return labels
    return [labels[i] for i in np.argsort(numbers, kind="stable")]


def folds_of(
    units: Units, sets: IntArray, folds: int, rng: np.random.Generator
) -> list[tuple[IntArray, IntArray]]:
    """Training and test rows of each fold; every unit is held out in one of them.

    :param sets: (t,) of each row the set that stays whole.
    :raises ValueError: more folds than units; a fold without duels.
    """
    every, code = distinct(units.code)
    if folds > len(every):
        raise ValueError(
            f"{folds} folds are more than the {len(every):,} {units.what}; use at most "
            f"{len(every)} folds."
        )
    fold_of = np.empty(len(every), dtype=np.int64)
    fold_of[rng.permutation(len(every))] = np.arange(len(every)) % folds
    found = []
    for k in range(folds):
        train, test = _apart(fold_of[code] == k, units.event, sets)
        for part, rows in (("scored", test), ("fitted to", train)):
            if len(rows) == 0:
                raise ValueError(
                    f"Fold {k + 1} of {folds} over {units.what} has no duels that can be {part}; "
                    "use fewer folds or another kind of split."
                )
        found.append((train, test))
    return found


def given_rows(
    train: IntArray,
    test: IntArray,
    wording: str,
    rng: np.random.Generator,
    *,
    max_train: int | None = None,
    dropped: int = 0,
) -> Split:
    """Parts that are known already, of which training rows beyond `max_train` are left out.

    :param wording: a sentence without its full stop.
    """
    sets = np.arange(int(train.max(initial=-1)) + 1)
    return _finished(Split(train, test, dropped, wording), sets, max_train, rng)


def last_rows(rows: int, test_fraction: float) -> int:
    """How many rows of a stream are held out: the last ones.

    :raises ValueError: all would be.
    """
    held = round(test_fraction * rows)
    if rows and held == rows:
        raise ValueError(
            f"A test fraction of {test_fraction} holds out all {rows} duels; give a smaller one."
        )
    return held


def item_parts(
    items: int, test_fraction: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Row numbers of a training and a test part of items, at random, each in ascending order.

    :raises ValueError: a fraction outside (0, 1), or a part of fewer than two items.
    """
    check_number("The test fraction", test_fraction, above=0.0, below=1.0)
    held = round(test_fraction * items)
    if min(held, items - held) < 2:
        raise ValueError(
            f"A test fraction of {test_fraction} of {items} items leaves a part with fewer than "
            "two of them; choose another fraction."
        )
    order = rng.permutation(items)
    return np.sort(order[held:]), np.sort(order[:held])


def thinned(
    rows: IntArray,
    sets: IntArray,
    most: int,
    rng: np.random.Generator,
    moment: IntArray | None = None,
    set_column: str | None = None,
) -> IntArray:
    """At most so many of some rows, whole sets of them: at random, or the latest ones.

    :param sets: (t,) of each row of the table; `set_column` says so.
    :param moment: (t,), one for a set.
    :raises ValueError: a set that is larger than that.
    """
    if len(rows) <= most:
        return rows
    units, first = np.unique(sets[rows], return_index=True)
    if moment is not None:
        units = units[np.argsort(moment[rows][first], kind="stable")[::-1]]
    else:
        units = rng.permutation(units)
    within = np.cumsum(np.bincount(sets[rows])[units]) <= most
    if not within[0]:
        raise ValueError(
            f"max_train is {most}, fewer than the duels of one set of {set_column!r}, which stay "
            "together; give a larger number."
        )
    return rows[np.isin(sets[rows], units[within])]


def _apart(inside: BoolArray, event: IntArray, sets: IntArray) -> tuple[IntArray, IntArray]:
    """Training and test rows: whole sets with no side, or with no other side, that is held out.

    :param inside: (s,) which sides are held out.
    :param event: (s,) of each.
    :param sets: (t,) of each event.
    """
    of_side = sets[event]
    some = np.bincount(of_side[inside], minlength=int(sets.max()) + 1) > 0
    others = np.bincount(of_side[~inside], minlength=int(sets.max()) + 1) > 0
    return np.flatnonzero(~some[sets]), np.flatnonzero(~others[sets])


def _reported(table: Duels, train: IntArray, test: IntArray, wording: str) -> Split:
    dropped = table.num_rows - len(train) - len(test)
    if dropped:
        wording += f"; {dropped:,} mixed {table.given.noun} dropped"
        if table.set_column is not None:
            wording += f", with all others of their {table.set_column!r}"
    return Split(train, test, dropped, wording)


def _finished(
    split: Split,
    sets: IntArray,
    most: int | None,
    rng: np.random.Generator,
    moment: IntArray | None = None,
    set_column: str | None = None,
    noun: str = "duels",
) -> Split:
    """With at most so many training rows, as `thinned`, and a full stop."""
    kept, wording = split.train_rows, split.description
    if most is not None:
        kept = thinned(kept, sets, most, rng, moment, set_column)
    unused = len(split.train_rows) - len(kept)
    if unused:
        which = "randomly chosen" if moment is None else "earlier"
        wording += f"; {unused:,} {which} training {noun} left out"
    return replace(split, train_rows=kept, unused=unused, description=f"{wording}.")


def _share(fraction: float, total: int, what: str) -> int:
    """How many to hold out: the nearest whole number that leaves something on both sides."""
    if total < 2:
        raise ValueError(
            f"A held-out part needs at least two different {what}, and there is {total}; use "
            "test fraction 0 or another kind of split."
        )
    return min(max(round(fraction * total), 1), total - 1)


def _cut(moment: IntArray, fraction: float, what: str) -> int:
    """The first held-out moment."""
    values, counts = np.unique(moment, return_counts=True)
    _share(fraction, len(values), what)
    held = len(moment) - np.cumsum(counts)[:-1]  # rows after each possible cut
    nearest = int(np.argmin(np.abs(held - fraction * len(moment))))
    return int(values[nearest + 1])
