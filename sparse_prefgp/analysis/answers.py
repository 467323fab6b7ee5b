"""Answers of a source for a model: duels, choices, rankings, best and worst, from tables or
`Duels`, between items as the model takes them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from types import MappingProxyType
from typing import Any

import numpy as np

from sparse_prefgp.analysis.contexts import met
from sparse_prefgp.analysis.items import (
    ItemSet,
    described_items,
    items_of,
    known_items,
    own_items,
)
from sparse_prefgp.analysis.roles import OF_SETS, Columns, read_by, roles_in
from sparse_prefgp.data.answers import Answers, Covariates
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import NO_FEATURES, require_pandas
from sparse_prefgp.data.roles import FLAGGED, ORDER
from sparse_prefgp.io.answers import NONE
from sparse_prefgp.io.choices import READERS
from sparse_prefgp.io.dates import REMEDY, dates_of, in_iso
from sparse_prefgp.io.files import ITEM_ID, Table, id_text, load
from sparse_prefgp.io.forms import FORM_OPTIONS, Stated, load_answers, understood
from sparse_prefgp.io.header import Header
from sparse_prefgp.io.judgements import (
    LOSER,
    WINNER,
    Roles,
    codes_in,
    covariates_in,
    duels_in,
    load_pairs,
    names_covariates,
    with_flags,
)
from sparse_prefgp.io.sets import CHOICE_SET, OPTIONS
from sparse_prefgp.io.sides import SIDE
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice
from sparse_prefgp.support.words import one_of

SETS = {kind: reader for kind, reader in READERS.items() if kind != "duels"}


def only_one(options: Mapping[str, Any], **sources: Any) -> tuple[str, Any]:
    """The one source that was given, and its name.

    :param options: of the reader of sets that goes with it.
    :raises ValueError: no source, or several; an option that goes with another.
    :raises TypeError: an option that there is not.
    """
    given = [(name, source) for name, source in sources.items() if source is not None]
    if len(given) != 1:
        raise ValueError(one_of(list(sources), [name for name, _ in given]))
    ((kind, source),) = given
    taken = {name: signature(reader).parameters for name, reader in SETS.items()}
    for option in options:
        others = [name for name, known in taken.items() if option in known and name != kind]
        if option in taken.get(kind, ()) or (kind in SETS and option in FORM_OPTIONS):
            continue
        if not others:
            raise TypeError(f"There is no option {option!r} of {kind}; leave it out.")
        idle = f"{option}, which is of {' or '.join(others)},"
        raise together.refused(answers=kind, idle_option=idle)
    return kind, source


@dataclass(frozen=True, eq=False)
class ReadAnswers:
    """Answers between items that a model knows how to take."""

    events: Answers
    """What was answered, between the rows of `items`."""
    items: ItemSet
    table: Any = None
    """Of duels and pairs the `Table`, of sets `Duels` with a row for each answer; of `Duels`
    None. Of `shown_sets` a data frame with a row for each alternative."""
    described: bool = False
    """Whether alternatives are described by features alone, so that ids are numbers of rows."""
    sides: tuple[str, str] = (WINNER, LOSER)
    """Of pairs the columns that hold both."""
    place: IntArray | None = None
    """(s,) the row of that data frame that each side is; None of others."""

    @property
    def there(self) -> ItemSet:
        """The items that the answers name."""
        return self.items.select(np.unique(self.events.sides))

    def in_rows(self, values: FloatArray) -> FloatArray:
        """Values (e, k) of the sides of each set as those of rows, (s,)."""
        there = np.arange(values.shape[1]) < self.events.sizes[:, None]
        result = np.empty(len(self.events.sides))
        result[self.place] = values[there]
        return result

    def placed(self, model: Predicts) -> tuple[ItemSet, ItemSet, Answers]:
        """The model's items and then new ones, the new ones alone, and the answers between all."""
        own, added = own_items(model), self.items.select(self.items.numbers < 0)
        if self.described:  # by their attributes: a number where an item is called so
            ids: tuple[Hashable, ...] = tuple(
                id if own.by_id.find(id_text(id)) is None else f"{id} ({i})"
                for i, id in enumerate(added.ids, len(own))
            )
            added = replace(added, ids=ids)
        place = self.items.numbers.copy()
        place[place < 0] = len(own) + np.arange(len(added))
        everything = own.followed_by(added) if len(added) else own
        return everything, added, self.events.saying(place[self.events.sides])


def notes_on(items: ItemSet) -> dict[str, Any]:
    """What a result says of the items that were named."""
    return {"outside_features": items.outside_features, "unknown_levels": items.unknown_levels}


def refuse_more(items: Any, columns: Columns) -> None:
    """Refuse what `Duels` and streams say themselves.

    :raises ValueError: items or columns given along with them.
    """
    named = bool(columns) and "columns of roles (columns=, --columns)"
    together.check(duels_object=True, items=items is not None, column=named)


def read_answers(
    model: Predicts,
    kind: str,
    source: Any,
    items: Any = None,
    columns: Columns = None,
    how: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> ReadAnswers:
    """Read answers, whose items are those of the model or given, or rows of their own.

    :param kind: `duels`, `choices`, `rankings` or `best_worst`; or `pairs`, of which nobody needs
        to have said who won.
    :param source: of pairs path or data frame, of duels also `Duels`; of sets as
        `read_choices`, `read_rankings` or `read_best_worst` takes it. Ids are those
        of items as `predict` finds them; a long form without ids has the features of the model as
        columns.
    :param items: raw items, as `resolve_items` takes them.
    :param columns: as for `roles_in`.
    :param how: more arguments of `roles_in`.
    :param options: of the reader of sets; of pairs `covariates`, the same for all of them.
    :raises ValueError: what the reader, `resolve_items` and `roles_in` raise; items or columns of
        `Duels`; sets for a model with contexts.
    """
    if kind == "pairs":
        return _read_pairs(model, source, items, columns, how, **options)
    if kind != "duels":
        return _read_sets(model, kind, source, items, columns, how, options)
    if isinstance(source, Duels):
        refuse_more(items, columns)
        source = source.in_units_of(model.duels)
        return ReadAnswers(_as_read(model, source), items_of(model, source))
    # A date is asked for where it is missing.
    how = {**how, "unsaid": {*how.get("unsaid", ()), "date"}}
    table, columns = load_duels(model, source, columns)
    roles, table = read_by(model, _with_covariates(model, table), columns, **how)
    found, table = met(model, items, table, (WINNER, LOSER))
    table = _with_dates(model, table, roles)
    events = duels_in(table, found.by_id, found.ids, roles)
    return ReadAnswers(events, found, table)


def load_duels(model: Predicts, source: Any, columns: Columns = None) -> tuple[Table, Columns]:
    """A table of duels, read in the way in which those of the model were, and which columns remain
    to be told apart.

    :param columns: as for `roles_in`; also sides and verdict by the names that they had.
    :raises ValueError: what `understood` raises.
    """
    roles, own = model.duels.roles, model.duels
    said = ",".join(roles.get(name, "") for name in ("sides", "outcome", "scores"))
    names = [name for name in said.split(",") if name]
    given = columns if isinstance(columns, Mapping) else {}
    renamed = {new: old for old, new in given.items() if old in names}

    def form(header: Sequence[str]) -> Stated:
        called = [renamed.get(name, name) for name in header]
        return replace(Stated.again(roles, called), covariates=own.covariate_names)

    if renamed:
        raw = load_answers(
            source, lambda header: Stated(columns={v: k for k, v in renamed.items()})
        )
        source = replace(raw, frame=raw.frame.rename(columns=renamed))
    grade = roles["grade"] if own.levels is not None else None
    if FLAGGED in roles:
        source = _flagged(model, load_answers(source, form, "duels"), (WINNER, LOSER))
    table = understood(source, form, "duels", grade=grade).table
    left = {name: column for name, column in given.items() if name not in names}
    return table, columns if columns is None or not renamed else left


def _flagged(model: Predicts, table: Table, sides: tuple[str, str]) -> Table:
    """A table with the flags that were made of those that a model has learned from."""
    names, own = model.duels.roles.get(FLAGGED, ""), model.duels.roles.get("sides", "").split(",")
    pairs = [sides, *([(own[0], own[1])] if len(own) == 2 else [])]
    return with_flags(table, filter(None, names.split(",")), pairs)


def _with_covariates(
    model: Predicts,
    table: Table,
    sides: tuple[str, str] = (WINNER, LOSER),
    stated: Mapping[str, float] = MappingProxyType({}),
) -> Table:
    """A table with what it says of covariates, by the names of its sides; and with 0, of which a
    warning tells, for those that it lacks where it says something of others.

    :param stated: covariates that are the same in all rows.
    """
    own = tuple(model.duels.roles.get("sides", "").split(","))
    table = _flagged(model, table, sides)
    names, frame = model.duels.covariate_names, table.frame
    as_learned = sides == own != (WINNER, LOSER)
    for name in stated:
        check_choice("The covariate", name, names, " (at=, --at)")
    if as_learned:
        pairs = Header(frame.columns).of_sides(sides)
        said = {
            f"{side}_{name}": frame[column]
            for name, pair in pairs.items()
            for side, column in zip(sides, pair, strict=True)
            if name in names
        }
        frame = frame.assign(**said)
    there = [name for name in names if names_covariates(frame.columns, [name], sides)]
    some = bool(there or stated) or sides == own
    if SIDE in names and SIDE not in (*there, *stated):
        # Whoever stands first where sides were learned is the first side, elsewhere none is.
        stated = {SIDE: float(as_learned), **stated}
    lacking = [name for name in names if name not in (*there, *stated)]
    if lacking and some:
        warnings.warn(
            f"{table.name} has no column {lacking[0]!r}, a covariate of the model, which counts as "
            "0 (--columns, columns=; at=, --at).",
            stacklevel=5,
        )
        stated = {**dict.fromkeys(lacking, 0.0), **stated}
    elif lacking:
        stated = {name: value for name, value in stated.items() if name != SIDE}
    return replace(table, frame=frame.assign(**stated))


def _read_pairs(
    model: Predicts,
    source: Any,
    items: Any,
    columns: Columns,
    how: Mapping[str, Any],
    covariates: Mapping[str, float] = MappingProxyType({}),
) -> ReadAnswers:
    own = tuple(model.duels.roles.get("sides", "").split(","))
    given, sides = load_pairs(source, own if len(own) == 2 else ())
    of_all = _with_covariates(model, given, sides, covariates)
    roles, table = read_by(model, of_all, columns, **how, sides=sides, unsaid={"grade"})
    found, placed = met(model, items, table, sides, "pair")
    first, second = (found.by_id.rows_in(placed, name, "pair") for name in sides)
    codes = {role: column for role, column in roles.codes.items() if role != "block"}
    said = codes_in(table, replace(roles, codes=codes))
    if roles.covariates:
        values = covariates_in(table, roles.covariates, sides)
        said |= {"covariates": values, "covariate_names": roles.covariates}
    if roles.date is not None:
        dated = _with_dates(model, table, roles).frame
        said["time"] = dates_of(dated[roles.date], roles.date, table.row)
    return ReadAnswers(Answers.between(first, second, **said), found, given, sides=sides)


def _with_dates(model: Predicts, table: Table, roles: Roles) -> Table:
    """A table whose dates are in ISO form, read as those that the model has learned from."""
    dates = [] if roles.date is None else [roles.date]
    return in_iso(table, dates, model.duels.roles.get(ORDER), REMEDY)


def _as_read(model: Predicts, duels: Duels) -> Answers:
    """Duels as a table of them would be read; with groups and blocks where the model has any."""
    events, names = duels.events, model.duels.covariate_names
    events = events.saying(block=events.labels.get(model.duels.roles["block"]))
    if names and not {*names} & {*events.covariate_names}:
        warnings.warn(
            f"The duels have no {names[0]!r}, a covariate of the model; nothing is said of the "
            "duels' covariates, which count as 0.",
            stacklevel=4,
        )
        events = events.saying(covariates=None)
    return events.saying(judge=None) if model.likelihood.noise_ratio is None else events


def _read_sets(
    model: Predicts,
    kind: str,
    source: Any,
    items: Any,
    columns: Columns,
    how: Mapping[str, Any],
    options: Mapping[str, Any],
) -> ReadAnswers:
    own = model.duels
    rows = own.item_rows
    context = ", ".join(() if rows is None else rows.columns)
    together.check(answers=True, contexts=context and f"items in contexts ({context})")
    said_of_form = {name: options[name] for name in FORM_OPTIONS if name in options}
    options = {name: value for name, value in options.items() if name not in FORM_OPTIONS}

    known = known_items(model, items)
    ids = [id_text(value) for value in known.ids]

    def form(header: Sequence[str]) -> Stated:
        return replace(Stated.again(own.roles, header), ids=ids, **said_of_form)

    transform = own.transform or NO_FEATURES
    words = transform.categorical_columns
    long = understood(source, form, kind, asked=bool(options.get("asked")), words=words)
    loaded = long.table
    if kind == "rankings" and long.by_name:
        options["unranked_last"] = True
    header = list(loaded.frame.columns)
    how = {"among": OF_SETS, "sides": ("", ""), **how}
    roles, called = roles_in(model, header, loaded.name, columns, **how)
    wanted = {*transform.raw_columns} - {NONE}  # which is made of empty rows
    item, named = None if rows is None else rows.column, not {*header} >= wanted or not wanted
    if item not in header or items is not None:
        named |= items is not None or ITEM_ID in header
    said = tuple(name for name in roles.covariates if name in called)
    more: dict[str, Any] = {
        "counts": roles.count,
        "weights": roles.weight,
        "labels": {name: called[column] for name, column in roles.labels.items()},
        "groups": roles.codes.get("judge"),
        "person": roles.codes.get("person"),
        "covariates": [called[name] for name in said],
        **options,
    }
    if named:
        table = SETS[kind](require_pandas().DataFrame({ITEM_ID: ids}), loaded, **more)
    else:
        table = SETS[kind](None, loaded, like=own.transform, item=item, **more)
    values = table.given.covariates
    if values is not None:
        table = table.saying(covariates=Covariates(values, said))
    if named:
        return ReadAnswers(table.given, known, table)
    raw = table.raw.frame
    none = np.zeros(len(raw), dtype=bool)
    if NONE in transform.raw_columns and NONE in raw:
        # Those without attributes, which were filled in.
        none = raw[NONE].to_numpy() == 1.0
        for attribute in wanted if none.any() else ():
            stands_in = transform.stand_in(attribute)
            none &= [isinstance(x, str | float) and x == stands_in for x in raw[attribute]]
    name = "row_of_alternative"  # a column of ids that is none of the table's
    described = Table(
        raw.assign(**{name: list(table.raw.ids)}),
        "the alternatives",
        table.raw.row_names,
        name,
        found=loaded.found,
    )
    return ReadAnswers(table.given, described_items(model, described, none), table, True)


def load_sets(model: Predicts, source: Any, role: str) -> Table:
    """A table of sets of alternatives, read as the model knows its columns: where it knows "none of
    these", a row of nothing but separators is that.

    :raises ValueError: what `load` raises.
    """
    transform = model.duels.transform or NO_FEATURES
    return load(
        source,
        role,
        lambda header: (CHOICE_SET, ITEM_ID, *Header(header).numbered(*OPTIONS)),
        transform.categorical_columns,
        NONE in transform.raw_columns,
    )


def shown_sets(
    model: Predicts, table: Table, items: Any, columns: Columns, **options: Any
) -> ReadAnswers:
    """Sets in a table in which nobody needs to have chosen, whose rows are those of a long table as
    they are; else the set, its columns and `item_id`.

    :param table: without a column `choice_set` and without columns of options all its rows are one
        set.
    :param items: as for `read_answers`.
    :param columns: as for `read_answers`.
    :param options: of `read_answers` and `read_choices`.
    :raises ValueError: what `read_answers` raises.
    """
    frame, name = table.frame, CHOICE_SET
    wide = options.get("options") or Header(frame.columns).numbered(*OPTIONS)
    if not wide and name not in frame.columns:
        table = replace(table, frame=frame.assign(**{name: 1}))
    found = read_answers(model, "choices", table, items, columns, asked=True, **options)
    events = found.events
    if not wide:
        code, _ = require_pandas().factorize(table.frame[name].astype(str))
        return replace(found, table=frame, place=np.argsort(code, kind="stable"))
    event = events.event_of_side
    rows = found.table.context.iloc[event].reset_index(drop=True)
    ids = [found.items.ids[i] for i in events.sides]
    return replace(found, table=rows.assign(**{ITEM_ID: ids}), place=np.arange(len(rows)))
