"""Choices from sets, rankings, and best and worst of sets: an event for each answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sparse_prefgp.data.answers import Answers, Covariates
from sparse_prefgp.data.duels import PERSON, Duels, check_covariates
from sparse_prefgp.data.features import FeatureTransform, numeric_column
from sparse_prefgp.data.roles import order_of_dates
from sparse_prefgp.io.answers import (
    NOWHERE,
    Alternatives,
    Sets,
    begin,
    constant_in_sets,
    events_of_best_worst,
    events_of_rankings,
    followed_by_none,
    items_of_rows,
    with_none,
)
from sparse_prefgp.io.columns import FeatureNames, ItemColumns, item_columns
from sparse_prefgp.io.files import (
    ITEM_ID,
    Source,
    Table,
    are_flags,
    id_text,
    items_named_in,
    load_items,
)
from sparse_prefgp.io.forms import (
    BEST_WORST,
    CHOICES,
    DUELS,
    FORM_OPTIONS,
    RANKINGS,
    Stated,
    Understood,
    understood,
)
from sparse_prefgp.io.judgements import (
    Roles,
    columns_of_codes,
    covariates_in,
    names_of_columns,
    said_by,
)
from sparse_prefgp.io.reading import finished, read_duels
from sparse_prefgp.io.sets import (
    ANSWERS,
    CHOICE_SET,
    CHOSEN,
    POSITIONS,
    RANK,
    RANKING,
    counts_rows,
)
from sparse_prefgp.io.texts import Encoder, items_given
from sparse_prefgp.io.values import flags_of
from sparse_prefgp.io.vectors import with_vectors
from sparse_prefgp.support.arrays import BoolArray, IntArray, first_true
from sparse_prefgp.support.words import agreeing, and_so, squeezed


@dataclass(frozen=True)
class SetColumns:
    """What the columns of a table of answers about sets say, and what is made of them."""

    features: Sequence[str] | None = None
    """As in `read_duels`."""
    ignore: Sequence[str] = ()
    """As in `read_duels`."""
    never_features: Sequence[str] = ()
    """As in `read_duels`."""
    counts: str | None = None
    """As in `read_duels`, the same in all rows of a set."""
    weights: str | None = None
    """As in `read_duels`, the same in all rows of a set."""
    groups: str | None = None
    """As in `read_duels`, the same in all rows of a set."""
    labels: Sequence[str] | Mapping[str, str] = ()
    """As in `read_duels`, the same in all rows of a set; or the columns of labels by their names.
    """
    context: Sequence[str] = ()
    """As in `read_duels`, the same in all rows of a set."""
    item: str | None = None
    """As in `read_duels`."""
    covariates: Sequence[str] = ()
    """Columns of the long form: what tells the alternatives of a set apart besides their items."""
    none: str | None = None
    """The id of "none of these" in the answers, which the table of items lacks: an item like the
    average one, with a feature `none` that is 1 for it alone."""
    like: FeatureTransform | None = None
    """How the features of items were made that a model knows: of rows that describe alternatives
    these columns are the features, numbers and texts as there, however few they are."""
    embedding: Any = None
    """Vectors of the items next to their table, see `with_embedding`."""
    text: str | Sequence[str] = ()
    """Columns of the items that hold texts, see `with_texts`."""
    text_features: Encoder | None = None
    """What makes vectors of them besides, see `with_texts`."""
    person: str | None = None
    """As in `read_duels`, the same in all rows of a set."""
    people: Any = None
    """As in `read_duels`."""
    asked: bool = False
    """Nobody has chosen yet, and the first option of each set stands as the chosen one."""
    as_duels: bool = False
    """Whether each pair of which the answer says who is better becomes a duel of its own."""
    day_first: bool | None = None
    """As in `read_duels`."""

    @property
    def roles(self) -> Roles:
        """What said something of each answer."""
        labels = names_of_columns(self.labels)
        codes = columns_of_codes(judge=self.groups, person=self.person)
        return Roles(self.counts, self.weights, codes=codes, labels=labels)

    @property
    def used(self) -> set[str]:
        """Columns of which something is made, or of which somebody said that nothing is."""
        roles = self.roles
        known = (*roles.named, *self.context, *self.covariates, roles.count_column)
        return {*map(str, (*known, *self.ignore, *self.never_features))}

    @property
    def names(self) -> FeatureNames:
        """Which columns of the items are features."""
        order = order_of_dates(self.day_first)
        return FeatureNames(self.features, self.ignore, self.never_features, self.item, order)


def read_choices(items: Source | None, choices: Source, **columns: Any) -> Duels:
    """Read choices of one item from a set, each an event.

    :param items: as in `read_duels`. Without it, the items that the choices name; where a long
        form has other columns that tell the options apart, these are the features: rows that are
        equal in all of them are one item.
    :param choices: path or data frame. Long, a row for each option: columns `choice_set` (which
        choice it belongs to), `item_id` and `chosen` (1 for the chosen option, else 0). Wide, a row
        for each choice: `option_1`, `option_2`, … the ids of the options, of which smaller sets
        leave some empty, and `chosen` the id, position, letter or column of one of them; or
        attributes of the options, `alt1_price`, `alt2_price`, ….
    :param columns: fields of `SetColumns` and of `Form`: `features`, `ignore`, `never_features`,
        `counts`, `weights`, `groups`, `labels`, `context`, `item`, `person` and `people` as in
        `read_duels`; `covariates`, columns of the long form; `none`, the id of "none of these",
        where the items have no such row; `embedding`, vectors of the items next to their table, see
        `with_embedding`; `text` and `text_features`, columns of texts, see `with_texts`; and
        `as_duels`, to read a choice as duels of the chosen option with each of the others, which
        understates the uncertainty, as a warning says. Of options that describe themselves, a row
        whose attributes are all empty is "none of these".
    :return: One row per choice, in the order of their first rows; its context has every column that
        is the same throughout each choice. With `as_duels` one row per duel; `set_column` names the
        choice then, so that splits keep it whole.
    :raises ValueError: what `read_duels` raises; a choice with no chosen option, with two, with one
        option only, or with an item twice; a value of `chosen` that is neither 0 nor 1, or, in the
        wide form, none of the options of its row.
    """
    return _marked(_read(items, choices, CHOICES, columns))


def read_best_worst(
    items: Source | None, answers: Source, *, at_once: bool = False, **columns: Any
) -> Duels:
    """Read answers that name the best and the worst of a set, each an event.

    :param items: as in `read_choices`.
    :param answers: as the choices of `read_choices`, with the columns `best` and `worst` in
        place of `chosen`; or long with one column of 1, 0 and -1, or best and worst.
    :param at_once: both were found in one look at the set. By default the worst is chosen in a
        second look, among those that are left.
    :param columns: as in `read_choices`.
    :return: One row per answer, as in `read_choices`.
    :raises ValueError: what `read_choices` raises; an option that is best and worst.
    """
    return _marked(_read(items, answers, BEST_WORST, columns), at_once)


def _marked(form: _Form, at_once: bool = False) -> Duels:
    """The table of answers that mark what was chosen, or the best and the worst."""
    table, shown = form.table, form.shown
    marks = {CHOSEN: np.isin(shown.row, shown.first_row)}
    if not form.said.asked:
        meaning = "1 for the {} option and 0 for the others"
        marks = {
            mark: flags_of(table.frame[mark], mark, table.row, meaning.format(mark))
            for mark in ANSWERS[form.read.kind][1]
        }
    shown.check(table, form.columns, marks, form.said.like is not None)
    first, *others = marks.values()
    level = np.where(first, 0, 1)
    for last in others:
        for i in first_true(first & last):
            raise ValueError(
                f"{begin(table.row(int(shown.row[i])))} is the best and the worst; correct "
                "one of them."
            )
        level[last] = 2
    answers = replace(shown, level=level)
    events_of = partial(events_of_best_worst, at_once=at_once)
    return form.finished(answers, events_of, [ITEM_ID, *marks])


def read_rankings(
    items: Source | None, rankings: Source, *, unranked_last: bool = False, **columns: Any
) -> Duels:
    """Read rankings of sets, each an event.

    :param items: as in `read_choices`.
    :param rankings: path or data frame. Wide, a row for each ranking: columns `rank_1` (the best),
        `rank_2`, … hold item ids, of which shorter rankings leave the last ones empty; columns
        `option_1`, `option_2`, …, if there are some, hold the ids of all that were shown: those
        without a rank stand below all others, in no order. Or one column `ranking` of cells such as
        `a > b > c`; or a column for each item (`options`) with its place. Long, a row for each
        place: columns `ranking`, `item_id` and `rank` (a number, the smallest is the best).
    :param unranked_last: rows of the long form without a rank were shown, and stand below all
        others, in no order; by default each has to have one.
    :param columns: as in `read_choices`; `as_duels` reads a ranking as duels between all pairs
        of items that it orders.
    :return: One row per ranking, as in `read_choices`.
    :raises ValueError: what `read_duels` raises; an item twice in a ranking, two items at one rank,
        one item only, a rank that is missing.
    """
    form = _read(items, rankings, RANKINGS, columns, unranked_last)
    last = unranked_last or form.read.by_name
    answers, tied = _placed(form.table, form.shown, last, form.read.shared)
    answers.check(form.table, form.columns)
    return form.finished(answers, partial(events_of_rankings, ties=tied), [ITEM_ID, RANK])


# By the kind of answers that a table holds.
READERS: dict[str, Callable[..., Duels]] = {
    DUELS: read_duels,
    CHOICES: read_choices,
    RANKINGS: read_rankings,
    BEST_WORST: read_best_worst,
}


# ---- forms ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    """A table of answers, the items in it, and what its columns say."""

    table: Table
    columns: ItemColumns
    said: SetColumns
    read: Understood
    shown: Alternatives
    attributes: Sequence[str]
    """Columns of the table that describe the items."""

    def finished(
        self,
        answers: Alternatives,
        events_of: Callable[[Alternatives], Answers],
        used: Sequence[str],
    ) -> Duels:
        """A row for each answer, or for each duel that it is read as.

        :param used: columns that say which items stand where.
        """
        table, sets, said = self.table, answers.sets, self.said
        context = table.frame.drop(columns=[*used], errors="ignore")
        kept = [name for name in context.columns if constant_in_sets(context[name], sets.code)]
        roles = said.roles
        for name in (roles.count_column, *roles.named, *map(str, said.context)):
            if name in context.columns and name not in kept:
                raise ValueError(
                    f"The column {name!r} of {table.name} differs within a set of {sets.column!r}; "
                    f"give all its rows the same {name}."
                )
        best_first = answers.best_first()
        if said.as_duels:
            events, rows = self._expanded(best_first)
        else:
            events, rows = events_of(best_first), answers.first_row
        events = said_by(table, roles, events, rows)
        if said.covariates:
            events = self._with_covariates(events, best_first)
        drop = {roles.count_column, *(self.attributes if said.item is None else ())}
        drop -= {*roles.named}
        context = context[[name for name in kept if name not in drop or name == PERSON]]
        context = context.iloc[rows].reset_index(drop=True)
        context[sets.column] = np.asarray(sets.ids)[sets.code[rows]]
        items = self.columns.items
        features = {*items.numeric, *items.categorical} & {*self.attributes}
        found = Duels.from_events(items, events, unused_columns=[*map(str, table.frame.columns)])
        found = found.replacing(
            frame=context,
            row_names=table.row.select(rows),
            set_column=sets.column if said.as_duels else None,
            shared=tuple(name for name in kept if name in features),
        )
        found = found.using((*used, *said.used, *self.attributes, sets.column))
        return finished(
            found,
            self.read,
            said.people,
            roles,
            self.columns.table,
            said.context,
            said.item,
        )

    def _expanded(self, answers: Alternatives) -> tuple[Answers, IntArray]:
        """The duels of which answers say who is better, the row of each, and the warning."""
        better, worse = _pairs(answers)
        what = f"{answers.sets.what}s"
        options = self.read.read_as.columns.get("options")
        if options and self.read.kind == CHOICES:
            what += f" among the options in {options}"
        warnings.warn(
            f"{len(answers.sets.ids):,} {what} were expanded to {len(worse):,} duels; those of one "
            "set are not independent, so that the uncertainty is understated, and the evidence "
            f"cannot be compared with that of {what.split()[0]} as one event each.",
            stacklevel=4,
        )
        return Answers.between(answers.item[better], answers.item[worse]), answers.row[worse]

    def _with_covariates(self, events: Answers, answers: Alternatives) -> Answers:
        """Events with covariates of each side."""
        names = [str(name) for name in self.said.covariates]
        values = covariates_in(self.table, names, sides=("", ""))[answers.row]
        better, worse = _pairs(answers)
        check_covariates(values[better] - values[worse], names)
        if self.said.as_duels:
            return events.with_differences(values[better] - values[worse], names)
        return events.saying(covariates=Covariates(values, tuple(names)))


def _pairs(answers: Alternatives) -> tuple[IntArray, IntArray]:
    """All pairs (better, worse) of entries of one set, which stand together, best first."""
    code, level = answers.code, answers.level
    better, worse = [], []
    for step in range(1, int(np.bincount(code).max())):
        above = np.flatnonzero((code[step:] == code[:-step]) & (level[step:] > level[:-step]))
        better.append(above)
        worse.append(above + step)
    first, second = np.concatenate(better), np.concatenate(worse)
    order = np.lexsort((second, first))
    return first[order], second[order]


def _read(
    items: Source | None,
    source: Source,
    kind: str,
    columns: dict[str, Any],
    unranked_last: bool = False,
) -> _Form:
    """A table of answers in the long form, with its items.

    :param columns: fields of `SetColumns` and of `Form`.
    :raises ValueError: what `understood` raises, and what its columns cannot mean.
    """
    options = dict(columns)
    stated = {name: options.pop(name) for name in FORM_OPTIONS if name in options}
    said = SetColumns(**options, none=stated.get("none"))
    items = items_given(items, said.embedding, text=said.text, text_features=said.text_features)
    items = None if items is None else load_items(items)
    ids = () if items is None else items.frame[items.id_column]
    form = Stated(
        **stated,
        person=said.person,
        ignore=tuple(said.ignore),
        unranked_last=unranked_last,
        ids=[id_text(value) for value in ids],
    )
    words = () if said.like is None else said.like.categorical_columns
    made = understood(source, form, kind, asked=said.asked, words=words)
    what, marks = ANSWERS[kind]
    known = (CHOICE_SET, *marks) if marks else (RANKING, RANK)
    _require_long(made, what, known[:1] if said.asked else known)
    return _long_form(made, items, said, what, known)


def _require_long(made: Understood, what: str, known: tuple[str, ...]) -> None:
    """Refuse a table that is in no form, of all columns that it lacks at once.

    :param what: an answer is.
    :param known: the columns of the set and of the answer.
    """
    table = made.table
    missing = [name for name in known if name not in table.frame.columns]
    marks = [name for name in known[1:] if name in table.frame.columns]
    flags = all(are_flags(table.frame[name]) for name in marks)
    if ITEM_ID not in table.frame.columns and (missing or (what != "ranking" and not flags)):
        missing.append(ITEM_ID)
    first = "rank_1" if what == "ranking" else "option_1"
    if not missing:
        return
    table.require(
        *missing,
        remedy=f" ({made.would_do or f'--columns {missing[0]}=…'}) for a row for each item, every "
        f"{what} with an id of its own in {known[0]!r}, or add {first!r}, {first[:-1] + '2'!r}, … "
        f"for a row for each {what}",
    )


def _long_form(
    made: Understood, items: Table | None, said: SetColumns, what: str, known: tuple[str, ...]
) -> _Form:
    """A table with a row for each alternative.

    :param known: the columns of the set and of the answer.
    """
    table = made.table
    sets = Sets.of(table, known[0], what)
    if said.features is not None:  # by the names that they have in the table
        renamed = {old: new for new, old in made.read_as.columns.items()}
        said = replace(said, features=[renamed.get(name, name) for name in said.features])
    if items is None:
        table, _ = with_vectors(table, _unless_reserved(table, said, known))
    attributes = [] if items is not None else _attributes(table, said, known, sets)
    named_items = items is not None or (ITEM_ID in table.frame.columns and not attributes)
    if named_items and made.by_name and said.covariates:
        raise ValueError(
            f"The covariate {said.covariates[0]!r} belongs to an option, which has no row of its "
            f"own in {table.name}; give the long form, a row for each option."
        )
    if named_items:
        table.require(ITEM_ID)
        known_items = items_named_in(table, [ITEM_ID]) if items is None else items
        if said.none is not None and items is not None:
            known_items = followed_by_none(known_items, said.none)
        columns = item_columns(known_items, table, said.names)
        item = columns.known.rows_in(table, ITEM_ID, what)
    elif not attributes:
        raise ValueError(
            f"{begin(table.name)} has no column {ITEM_ID!r}, and no other column that tells the "
            f"rows of a {what} apart; add either."
        )
    else:
        named = said
        if ITEM_ID in table.frame.columns and said.item is None:
            attributes, named = [ITEM_ID, *attributes], replace(said, item=ITEM_ID)
        elif said.item is not None and said.item not in attributes:
            attributes = [said.item, *attributes]
        table, attributes = with_none(table, attributes, said.like)
        all_known = None if said.like is None else attributes  # whatever else is in the table
        described, item = items_of_rows(table, attributes, all_known)
        if said.like is None:
            columns = item_columns(described, table, named.names)
        else:
            columns = item_columns(described, table, FeatureNames((), item=named.item))
            like = replace(
                columns.items,
                numeric=said.like.numeric_columns,
                categorical=said.like.categorical_columns,
                vectors=said.like.vectors,
                texts=said.like.text_columns,
            )
            columns = replace(columns, items=like)
        said = named
    rows = np.arange(len(item))
    shown = Alternatives(sets, item, rows, np.full(len(item), NOWHERE))
    return _Form(table, columns, said, made, shown, tuple(attributes))


def _attributes(table: Table, said: SetColumns, known: tuple[str, ...], sets: Sets) -> list[str]:
    """Columns that describe the alternatives; none where no column tells those of a set apart.

    One that is the same throughout each set says something of the answer, such as who gave it, and
    describes alternatives only where it was named.
    """
    found = _unless_reserved(table, said, known)
    differ = [name for name in found if not constant_in_sets(table.frame[name], sets.code)]
    if said.features is None and said.like is None:
        places = [name for name in differ if squeezed(name) in POSITIONS]
        positions = [name for name in places if counts_rows(table.frame[name], sets.code)]
        differ = [name for name in differ if name not in positions] or differ
    if not differ or said.features is not None or said.like is not None:
        return found if differ else []
    same = [repr(name) for name in found if name not in (*differ, said.item)]
    if same:
        one = len(same) == 1
        warnings.warn(
            f"The {'column' if one else 'columns'} {and_so(same)} of {table.name} "
            f"{agreeing(len(same))} the same throughout each {sets.what}, or count its rows, and "
            f"not used: what alternatives of one {sets.what} share tells none apart; to let it act "
            "together with their attributes, name all features (--features, features=).",
            stacklevel=4,
        )
    return differ


def _unless_reserved(table: Table, said: SetColumns, known: tuple[str, ...]) -> list[str]:
    """Columns that may describe the alternatives."""
    wanted = None if said.features is None else {str(name) for name in said.features}
    if said.like is not None:
        wanted = {*said.like.raw_columns}
    return [
        name
        for name in table.frame.columns
        if name not in (*known, ITEM_ID)
        and (name in wanted if wanted is not None else name not in (*said.used, PERSON))
    ]


def _placed(
    table: Table, answers: Alternatives, unranked_last: bool, shared: str | None
) -> tuple[Alternatives, BoolArray]:
    """With the places that a column says, and which rankings are ties of two, (sets,).

    :param shared: `tie` if two that share a place may be that.
    """
    empty = np.array([not id_text(value) for value in table.frame[RANK]])
    for i in first_true(empty & (not unranked_last)):
        raise ValueError(
            f"The rank (column {RANK!r}) is missing in {table.row(i)}; give one, or leave the row "
            "out; where those without a rank stand below all others, say so with --unranked-last "
            "(unranked_last=True)."
        )
    there, code = np.flatnonzero(~empty), answers.code
    place = np.full(len(code), np.inf)
    place[there] = numeric_column(table.frame.iloc[there], RANK, table.row.select(there))
    order = np.lexsort((place, code))
    sets, places = code[order], place[order]
    same = (sets[1:] == sets[:-1]) & (places[1:] == places[:-1]) & np.isfinite(places[1:])
    ties = np.zeros(len(answers.sets.ids), bool)
    if shared is not None:
        ties[sets[1:][same]] = True
        ties &= answers.count() == 2
    for i in first_true(same & ~ties[sets[1:]]):
        first, second = sorted(map(int, order[i : i + 2]))
        raise ValueError(
            f"{begin(table.row(second))} has the same {RANK} as {table.row(first)}, "
            f"{place[second]:g}, in the ranking {str(answers.sets.ids[code[second]])!r}; it may be "
            "a tie (of two items alone --shared tie reads it so) or an order that is not known; "
            "give each item a place of its own, or leave one out."
        )
    for i in first_true(answers.count(there) == 0):
        raise ValueError(
            f"The ranking {str(answers.sets.ids[i])!r} has no item with a rank; give at least one, "
            "or remove it."
        )
    level = np.empty(len(code), np.int64)
    starts = np.append(0, np.cumsum(answers.count()))[sets]
    level[order] = np.arange(len(code)) - starts
    level[empty] = NOWHERE
    return replace(answers, level=level), ties
