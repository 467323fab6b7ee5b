"""Choices from sets, rankings, and best and worst of sets: an event for each answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparse_prefgp.data.answers import Answers, Covariates
from sparse_prefgp.data.duels import Duels, check_covariates
from sparse_prefgp.data.features import FeatureTransform, numeric_column
from sparse_prefgp.data.roles import order_of_dates
from sparse_prefgp.data.table import PERSON, DuelTable
from sparse_prefgp.io.answers import (
    NOWHERE,
    Alternatives,
    Sets,
    among,
    at,
    begin,
    constant_in_sets,
    events_of_best_worst,
    events_of_choices,
    events_of_rankings,
    first_of_sets,
    followed_by_none,
    items_of_rows,
    matrix_of,
    numbered,
    refuse_nobody,
    wide_answers,
    with_none,
)
from sparse_prefgp.io.columns import FeatureNames, ItemColumns, item_columns
from sparse_prefgp.io.files import (
    ITEM_ID,
    Source,
    Table,
    id_text,
    items_named_in,
    load,
    load_items,
)
from sparse_prefgp.io.judgements import (
    CHOSEN,
    Roles,
    columns_of_codes,
    covariates_in,
    names_of_columns,
    placed,
    said_by,
)
from sparse_prefgp.io.people import people_of
from sparse_prefgp.io.reading import table_of
from sparse_prefgp.io.texts import Encoder, items_given
from sparse_prefgp.io.values import YES_AND_NO, flags_of
from sparse_prefgp.io.vectors import with_vectors
from sparse_prefgp.support.arrays import IntArray
from sparse_prefgp.support.words import agreeing, and_so

CHOICE_SET, OPTION = "choice_set", "option"
BEST, WORST = "best", "worst"
RANKING, RANK = "ranking", "rank"


@dataclass(frozen=True)
class SetColumns:
    """What the columns of a table of answers about sets say, and what is made of them."""

    features: Sequence[str] | None = None
    """As in `read_table`."""
    ignore: Sequence[str] = ()
    """As in `read_table`."""
    never_features: Sequence[str] = ()
    """As in `read_table`."""
    counts: str | None = None
    """As in `read_table`, the same in all rows of a set."""
    weights: str | None = None
    """As in `read_table`, the same in all rows of a set."""
    groups: str | None = None
    """As in `read_table`, the same in all rows of a set."""
    labels: Sequence[str] | Mapping[str, str] = ()
    """As in `read_table`, the same in all rows of a set; or the columns of labels by their names.
    """
    context: Sequence[str] = ()
    """As in `read_table`, the same in all rows of a set."""
    item: str | None = None
    """As in `read_table`."""
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
    """As in `read_table`, the same in all rows of a set."""
    people: Any = None
    """As in `read_table`."""
    asked: bool = False
    """Nobody has chosen yet, and the first option of each set stands as the chosen one."""
    as_duels: bool = False
    """Whether each pair of which the answer says who is better becomes a duel of its own."""
    day_first: bool | None = None
    """As in `read_table`."""

    def with_items(self, items: Source | None) -> Any:
        """A table of items with what was given along with it."""
        return items_given(items, self.embedding, text=self.text, text_features=self.text_features)

    @property
    def roles(self) -> Roles:
        """What said something of each answer."""
        labels = names_of_columns(self.labels)
        codes = columns_of_codes(judge=self.groups, person=self.person)
        return Roles(self.counts, self.weights, codes=codes, labels=labels)

    @property
    def reserved(self) -> set[str]:
        """Columns that are no attributes, unless they are asked for."""
        return {*self.used, PERSON}

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


def read_choice_table(
    items: Source | None,
    choices: Source,
    *,
    choice_set: str = CHOICE_SET,
    item_id: str = ITEM_ID,
    chosen: str = CHOSEN,
    options: Sequence[str] | None = None,
    **columns: Any,
) -> DuelTable:
    """Read choices of one item from a set, each an event.

    :param items: as in `read_table`. Without it, the items that the choices name; where a long
        form has other columns that tell the options apart, these are the features: rows that are
        equal in all of them are one item.
    :param choices: path or data frame, in one of two forms. Long, a row for each option: columns
        `choice_set` (which choice it belongs to), `item_id` and `chosen` (1 for the chosen option,
        else 0). Wide, a row for each choice: `chosen` holds the id of the chosen item and the
        columns `option_1`, `option_2`, … the ids of the options, of which smaller sets leave some
        empty.
    :param choice_set: names of these columns.
    :param item_id: names of these columns.
    :param chosen: names of these columns.
    :param options: names of the columns of the wide form that hold options.
    :param columns: fields of `SetColumns`: `features`, `ignore`, `never_features`, `counts`,
        `weights`, `groups`, `labels`, `context`, `item`, `person` and `people` as in `read_table`;
        `covariates`, columns of the long form; `none`, the id of "none of these", where the items
        have no such row; `embedding`, vectors of the items next to their table, see
        `with_embedding`; `text` and `text_features`, columns of texts, see `with_texts`; and
        `as_duels`, to read a choice as duels of the chosen option with each of the others, which
        understates the uncertainty, as a warning says. Of options that describe themselves, a row
        whose attributes are all empty is "none of these".
    :return: One row per choice, in the order of their first rows; its context has every column that
        is the same throughout each choice. With `as_duels` one row per duel; `set_column` names the
        choice then, so that splits keep it whole.
    :raises ValueError: what `read_table` raises; a choice with no chosen option, with two, with one
        option only, or with an item twice; a value of `chosen` that is neither 0 nor 1, or, in the
        wide form, not among the options of its row, such as a letter or a position; without
        `items`, 0 at the ends of rows alone, where it may be nobody.
    """
    said = SetColumns(**columns)
    items = said.with_items(items)
    table, wide = _loaded(choices, "choices", said, (choice_set, chosen), item_id, options)
    if wide is None:
        form = _long_form(table, items, said, "choice", (choice_set, chosen), item_id)
        best = first_of_sets(form.answers)
        if not said.asked:
            meaning = "1 for the chosen option and 0 for the others"
            best = flags_of(table.frame[chosen], chosen, table.row, meaning)
        answers, used = replace(form.answers, level=np.where(best, 0, 1)), [item_id, chosen]
    else:
        marked = [] if said.asked else [chosen]
        form = replace(_named_form(table, items, said, marked, wide), options=wide)
        sets = Sets.of(table, choice_set, "choice", one_each=True)
        shown, named = wide_answers(table, marked, wide, form.columns, sets)
        best = first_of_sets(shown) if said.asked else at(shown, named[:, 0])
        answers, used = replace(shown, level=np.where(best, 0, 1)), [chosen, *wide]
    answers.check(table, form.columns)
    answers.check_marked(table, best, "chosen")
    return form.finished(answers, events_of_choices, used)


def read_best_worst_table(
    items: Source | None,
    answers: Source,
    *,
    choice_set: str = CHOICE_SET,
    item_id: str = ITEM_ID,
    best: str = BEST,
    worst: str = WORST,
    options: Sequence[str] | None = None,
    at_once: bool = False,
    **columns: Any,
) -> DuelTable:
    """Read answers that name the best and the worst of a set, each an event.

    :param items: as in `read_choice_table`.
    :param answers: path or data frame, in one of two forms, as in `read_choice_table`, with the
        columns `best` and `worst` in place of `chosen`: long, 1 for the best (worst) option and 0
        for the others; wide, the id of the item.
    :param choice_set: names of these columns.
    :param item_id: names of these columns.
    :param best: names of these columns.
    :param worst: names of these columns.
    :param options: as in `read_choice_table`.
    :param at_once: both were found in one look at the set. By default the worst is chosen in a
        second look, among those that are left.
    :param columns: as in `read_choice_table`.
    :return: One row per answer, as in `read_choice_table`.
    :raises ValueError: what `read_choice_table` raises; an option that is best and worst.
    """
    said = SetColumns(**columns)
    items = said.with_items(items)
    known = choice_set, best, worst
    table, wide = _loaded(answers, "answers", said, known, item_id, options)
    if wide is None:
        form = _long_form(table, items, said, "answer", known, item_id)
        shown = form.answers
        first, last = (
            flags_of(
                table.frame[name], name, table.row, f"1 for the {name} option and 0 for the others"
            )
            for name in (best, worst)
        )
        used = [item_id, best, worst]
    else:
        form = _named_form(table, items, said, [best, worst], wide)
        sets = Sets.of(table, choice_set, "answer", one_each=True)
        shown, named = wide_answers(table, [best, worst], wide, form.columns, sets)
        first, last = at(shown, named[:, 0]), at(shown, named[:, 1])
        used = [best, worst, *wide]
        both = np.flatnonzero(named[:, 0] == named[:, 1])
        if both.size:
            raise ValueError(
                f"{begin(table.row(int(both[0])))} has the item "
                f"{str(form.columns.ids[named[both[0], 0]])!r} as the best and as the worst; "
                "correct one of them."
            )
    shown.check(table, form.columns)
    for flags, name in ((first, best), (last, worst)):
        shown.check_marked(table, flags, name)
    both = np.flatnonzero(first & last)
    if both.size:
        raise ValueError(
            f"{begin(table.row(int(shown.row[both[0]])))} is the best and the worst; correct one "
            "of them."
        )
    found = replace(shown, level=np.where(first, 0, np.where(last, 2, 1)))
    return form.finished(found, lambda every: events_of_best_worst(every, at_once), used)


def read_ranking_table(
    items: Source | None,
    rankings: Source,
    *,
    ranking: str = RANKING,
    item_id: str = ITEM_ID,
    rank: str = RANK,
    options: Sequence[str] | None = None,
    unranked_last: bool = False,
    **columns: Any,
) -> DuelTable:
    """Read rankings of sets, each an event.

    :param items: as in `read_choice_table`.
    :param rankings: path or data frame, in one of two forms. Wide, a row for each ranking: columns
        `rank_1` (the best), `rank_2`, … hold item ids, of which shorter rankings leave the last
        ones empty; columns `option_1`, `option_2`, …, if there are some, hold the ids of all that
        were shown: those without a rank stand below all others, in no order. Long, a row for each
        place: columns `ranking`, `item_id` and `rank` (a number, the smallest is the best).
    :param ranking: names of these columns; those of the wide form begin with `rank`.
    :param item_id: names of these columns; those of the wide form begin with `rank`.
    :param rank: names of these columns; those of the wide form begin with `rank`.
    :param options: names of the columns of the wide form that hold options.
    :param unranked_last: rows of the long form without a rank were shown, and stand below all
        others, in no order; by default each has to have one.
    :param columns: as in `read_choice_table`; `as_duels` reads a ranking as duels between all pairs
        of items that it orders.
    :return: One row per ranking, as in `read_choice_table`.
    :raises ValueError: what `read_table` raises; an item twice in a ranking, two items at one rank,
        one item only, a rank that is missing.
    """
    said = SetColumns(**columns)
    items = said.with_items(items)

    def wide_of(header: Sequence[str]) -> tuple[list[str], list[str]]:
        shown = numbered(header, OPTION) if options is None else options
        return list(numbered(header, rank)), list(shown)

    def id_columns(header: list[str]) -> list[str]:
        places, shown = wide_of(header)
        return [ranking, *([*places, *shown] if places else [item_id])]

    table = load(rankings, "rankings", id_columns)
    places, shown = wide_of(list(table.frame.columns))
    if places:
        _require_places(table, rank)
    else:
        _require_long(table, "ranking", (ranking, rank), item_id, f"{rank}_1")
    table.refuse_empty("rankings")
    if places:
        form = _named_form(table, items, said, [], shown or places)
        sets = Sets.of(table, ranking, "ranking", one_each=True)
        answers, used = _wide_rankings(table, places, shown, form.columns, sets), [*places, *shown]
    else:
        form = _long_form(table, items, said, "ranking", (ranking, rank), item_id)
        answers, used = _long_rankings(table, rank, form.answers, unranked_last), [item_id, rank]
    answers.check(table, form.columns)
    return form.finished(answers, events_of_rankings, used)


def read_choices(items: Source | None, choices: Source, **columns: Any) -> Duels:
    """Read items and choices from sets into `Duels` with standardised features.

    Arguments are those of `read_choice_table`, units those of `read_duels`; for a training and a
    test part, split the table.

    :raises ValueError: what `read_choice_table` and `read_duels` raise.
    """
    return read_choice_table(items, choices, **columns).to_duels()


def read_rankings(items: Source | None, rankings: Source, **columns: Any) -> Duels:
    """Read items and rankings into `Duels` with standardised features.

    Arguments are those of `read_ranking_table`, units those of `read_duels`; for a training and a
    test part, split the table.

    :raises ValueError: what `read_ranking_table` and `read_duels` raise.
    """
    return read_ranking_table(items, rankings, **columns).to_duels()


def read_best_worst(items: Source | None, answers: Source, **columns: Any) -> Duels:
    """Read items, and the best and the worst of sets, into `Duels` with standardised features.

    Arguments are those of `read_best_worst_table`, units those of `read_duels`; for a training and
    a test part, split the table.

    :raises ValueError: what `read_best_worst_table` and `read_duels` raise.
    """
    return read_best_worst_table(items, answers, **columns).to_duels()


# ---- forms ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    """A table of answers, the items in it, and what its columns say."""

    table: Table
    columns: ItemColumns
    said: SetColumns
    shown: Alternatives | None = None
    attributes: Sequence[str] = ()
    """Columns of the table that describe the items."""
    options: Sequence[str] = ()
    """Columns of the wide form that hold options."""

    @property
    def answers(self) -> Alternatives:
        """What a long form shows."""
        assert self.shown is not None
        return self.shown

    def finished(
        self,
        answers: Alternatives,
        events_of: Callable[[Alternatives], Answers],
        used: Sequence[str],
    ) -> DuelTable:
        """A row for each answer, or for each duel that it is read as.

        :param used: columns that say which items stand where.
        """
        table, sets, said = self.table, answers.sets, self.said
        context = table.frame.drop(columns=[name for name in used if name in table.frame.columns])
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
            events, rows = self._expanded(best_first), best_first.row[_pairs(best_first)[1]]
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
        found = table_of(
            self.columns,
            events,
            context,
            table.row.select(rows),
            sets.column if said.as_duels else None,
        )
        found = replace(found, unused=tuple(map(str, table.frame.columns))).using(
            (*used, *said.used, *self.attributes, sets.column)
        )
        common = tuple(name for name in kept if name in self.attributes)
        features = {*found.numeric, *found.categorical}
        found = replace(
            found,
            shared=tuple(name for name in common if name in features),
            people=people_of(said.people, events.person),
            roles=roles.by_role,
        )
        return placed(found, self.columns.table, said.context, said.item)

    def _expanded(self, answers: Alternatives) -> Answers:
        """The duels of which answers say who is better, and the warning."""
        better, worse = _pairs(answers)
        what = {"choice": "choices", "ranking": "rankings", "answer": "answers"}[answers.sets.what]
        if self.options:
            what += f" among the options in {', '.join(map(repr, self.options))}"
        warnings.warn(
            f"{len(answers.sets.ids):,} {what} were expanded to {len(worse):,} duels; those of one "
            "set are not independent, so that the uncertainty is understated, and the evidence "
            f"cannot be compared with that of {what.split()[0]} as one event each.",
            stacklevel=4,
        )
        return Answers.between(answers.item[better], answers.item[worse])

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


def _loaded(
    source: Source,
    role: str,
    said: SetColumns,
    known: tuple[str, ...],
    item_id: str,
    options: Sequence[str] | None,
) -> tuple[Table, list[str] | None]:
    """A table of choices, and the columns of the wide form that hold options; None of the long one.

    :param known: the columns of the set and of what was chosen.
    :raises ValueError: what `load` raises; a column that is missing; no rows.
    """
    words = () if said.like is None else said.like.categorical_columns
    table = load(source, role, lambda header: (*known, item_id, *numbered(header, OPTION)), words)
    header = list(table.frame.columns)
    wide = list(numbered(header, OPTION) if options is None else map(str, options))
    known = known[:1] if said.asked else known
    if wide:
        table.require(*known[1:], *wide)
    else:
        _require_long(table, role.rstrip("s"), known, item_id, f"{OPTION}_1")
    table.refuse_empty(role)
    if not wide:
        return table, None
    return load(source, role, lambda header: (*known, *wide)), wide


def _require_long(
    table: Table, what: str, known: tuple[str, ...], item_id: str, first: str
) -> None:
    """Refuse a table that is neither long nor wide, of all columns that it lacks at once.

    :param what: an answer is.
    :param known: the columns of the set and of the answer.
    :param first: the first column of the wide form.
    """
    header = list(table.frame.columns)
    marks = [name for name in known[1:] if name in header]
    missing = [name for name in known if name not in header]
    named = first != f"{OPTION}_1" or all(_only_flags(table, name) for name in marks)
    if item_id not in header and (missing or not named):
        missing.append(item_id)
    table.require(
        *missing,
        remedy=f" for a row for each item, every {what} with an id of its own in {known[0]!r}, "
        f"also across persons, or add {first!r}, {first[:-1] + '2'!r}, … for a row for each {what}",
    )


def _require_places(table: Table, rank: str) -> None:
    """Refuse places of rankings of which one is missing, or there twice."""
    places = numbered(list(table.frame.columns), rank)
    by_number: dict[int, str] = {}
    for name, number in places.items():
        if number in by_number:
            raise ValueError(
                f"{begin(table.name)} has the columns {by_number[number]!r} and {name!r}, which "
                "are one place; remove or rename one."
            )
        by_number[number] = name
    for number in range(1, len(places) + 1):
        if number not in by_number:
            table.require(f"{rank}_{number}")


def _named_form(
    table: Table,
    items: Source | None,
    said: SetColumns,
    marked: Sequence[str],
    listed: Sequence[str] = (),
) -> _Form:
    """A table whose columns hold ids of items.

    :param marked: columns that are full.
    :param listed: columns of options or places, of which rows leave the last ones empty.
    """
    if said.covariates:
        raise ValueError(
            f"The covariate {said.covariates[0]!r} belongs to an option, which has no row of its "
            f"own in {table.name}; give the long form, a row for each option."
        )
    if items is None:
        refuse_nobody(table, listed, marked)
        known = items_named_in(table, listed or marked)
    else:
        known = load_items(items)
    if said.none is not None and items is not None:
        known = followed_by_none(known, said.none)
    return _Form(table, item_columns(known, table, said.names), said)


def _long_form(
    table: Table,
    items: Source | None,
    said: SetColumns,
    what: str,
    known: tuple[str, ...],
    item_id: str,
) -> _Form:
    """A table with a row for each alternative.

    :param known: the columns of the set and of the answer.
    """
    table.require(*known[:1] if said.asked else known)
    sets = Sets.of(table, known[0], what)
    if items is None:
        table, _ = with_vectors(table, _unless_reserved(table, said, known, item_id))
    attributes = [] if items is not None else _attributes(table, said, known, item_id, sets)
    if items is not None or (item_id in table.frame.columns and not attributes):
        table.require(item_id)
        form = _named_form(table, items, replace(said, covariates=()), [item_id])
        item = form.columns.known.rows_in(table, item_id, what)
    elif not attributes:
        raise ValueError(
            f"{begin(table.name)} has no column {item_id!r}, and no other column that tells the "
            f"rows of a {what} apart; add either."
        )
    else:
        named = said
        if item_id in table.frame.columns and said.item is None:
            attributes, named = [item_id, *attributes], replace(said, item=item_id)
        elif said.item is not None and said.item not in attributes:
            attributes = [said.item, *attributes]
        table, attributes = with_none(table, attributes, said.like)
        all_known = None if said.like is None else attributes  # whatever else is in the table
        described, item = items_of_rows(table, attributes, all_known)
        if said.like is None:
            columns = item_columns(described, table, named.names)
        else:
            none = FeatureNames((), item=named.item)
            columns = replace(
                item_columns(described, table, none),
                numeric=list(said.like.numeric_columns),
                categorical=list(said.like.categorical_columns),
                vectors=said.like.vectors,
                texts=said.like.text_columns,
            )
        form = _Form(table, columns, named)
    rows = np.arange(len(item))
    shown = Alternatives(sets, item, rows, np.full(len(item), NOWHERE))
    return replace(
        form,
        said=replace(form.said, covariates=said.covariates),
        shown=shown,
        attributes=tuple(attributes),
    )


def _attributes(
    table: Table, said: SetColumns, known: tuple[str, ...], item_id: str, sets: Sets
) -> list[str]:
    """Columns that describe the alternatives; none where no column tells those of a set apart.

    One that is the same throughout each set says something of the answer, such as who gave it, and
    describes alternatives only where it was named.
    """
    found = _unless_reserved(table, said, known, item_id)
    differ = [name for name in found if not constant_in_sets(table.frame[name], sets.code)]
    if not differ or said.features is not None or said.like is not None:
        return found if differ else []
    same = [repr(name) for name in found if name not in (*differ, said.item)]
    if same:
        one = len(same) == 1
        warnings.warn(
            f"The {'column' if one else 'columns'} {and_so(same)} of {table.name} "
            f"{agreeing(len(same))} the same throughout each {sets.what} and not used: what "
            f"alternatives of one {sets.what} share tells none apart; to let it act together with "
            f"their attributes, name all features (--features, features=).",
            stacklevel=4,
        )
    return differ


def _unless_reserved(
    table: Table, said: SetColumns, known: tuple[str, ...], item_id: str
) -> list[str]:
    """Columns that may describe the alternatives."""
    wanted = None if said.features is None else {str(name) for name in said.features}
    if said.like is not None:
        wanted = {*said.like.raw_columns}
    return [
        name
        for name in table.frame.columns
        if name not in (*known, item_id)
        and (name in wanted if wanted is not None else name not in said.reserved)
    ]


def _only_flags(table: Table, column: str) -> bool:
    return {id_text(value).lower() for value in table.frame[column]} <= set(YES_AND_NO)


def _wide_rankings(
    table: Table, places: list[str], options: list[str], columns: ItemColumns, sets: Sets
) -> Alternatives:
    what = sets.what
    shown = matrix_of(table, options or places, columns, what)
    ranked = shown
    if options:
        each = (among(table, name, shown, options, columns, what, True) for name in places)
        ranked = np.column_stack(list(each))
    gap = (ranked[:, :-1] < 0) & (ranked[:, 1:] >= 0)
    if gap.any():
        i, k = (int(x) for x in np.argwhere(gap)[0])
        raise ValueError(
            f"{begin(table.row(i))} has an item at {places[k + 1]!r} but none at {places[k]!r}; "
            "fill the places from the first, and leave only the last ones empty."
        )
    row, place = np.nonzero(ranked >= 0)
    if not options:
        return Alternatives(sets, ranked[row, place], row, place)
    row, column = np.nonzero(shown >= 0)
    item, level = shown[row, column], np.full(len(row), NOWHERE)
    hit, rank = np.nonzero(item[:, None] == ranked[row])
    level[hit] = rank
    return Alternatives(sets, item, row, level)


def _long_rankings(
    table: Table, rank: str, answers: Alternatives, unranked_last: bool
) -> Alternatives:
    """With the places that a column says."""
    empty = np.array([not id_text(value) for value in table.frame[rank]])
    if empty.any() and not unranked_last:
        i = int(np.flatnonzero(empty)[0])
        raise ValueError(
            f"The rank (column {rank!r}) is missing in {table.row(i)}; give one, or leave the row "
            "out; where those without a rank stand below all others, say so with --unranked-last "
            "(unranked_last=True)."
        )
    there, code = np.flatnonzero(~empty), answers.code
    place = np.full(len(code), np.inf)
    place[there] = numeric_column(table.frame.iloc[there], rank, table.row.select(there))
    order = np.lexsort((place, code))
    same = (code[order][1:] == code[order][:-1]) & (place[order][1:] == place[order][:-1])
    tied = np.flatnonzero(same & np.isfinite(place[order][1:]))
    if tied.size:
        first, second = sorted(int(order[tied[0] + k]) for k in (0, 1))
        raise ValueError(
            f"{begin(table.row(second))} has the same {rank} as {table.row(first)}, "
            f"{place[second]:g}, in the ranking {str(answers.sets.ids[code[second]])!r}; give each "
            "item a place of its own, or leave one out."
        )
    unplaced = np.bincount(code[there], minlength=len(answers.sets.ids)) == 0
    if unplaced.any():
        label = answers.sets.ids[int(np.flatnonzero(unplaced)[0])]
        raise ValueError(
            f"The ranking {str(label)!r} has no item with a rank; give at least one, or remove it."
        )
    level = np.empty(len(code), np.int64)
    starts = np.append(0, np.cumsum(np.bincount(code)))[code[order]]
    level[order] = np.arange(len(code)) - starts
    level[empty] = NOWHERE
    return replace(answers, level=level)
