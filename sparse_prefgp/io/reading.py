"""Items and duels from tables."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.answers import KINDS
from sparse_prefgp.data.duels import Duels, check_covariates
from sparse_prefgp.data.features import FeatureTransform
from sparse_prefgp.data.flags import YES_AND_NO
from sparse_prefgp.data.roles import ORDER, columns_of_roles, order_of_dates
from sparse_prefgp.io.columns import FeatureNames, item_columns
from sparse_prefgp.io.dates import in_iso, is_dated
from sparse_prefgp.io.files import (
    Source,
    Table,
    column_names,
    items_named_in,
    load,
    load_items,
)
from sparse_prefgp.io.forms import DUELS, Stated, Understood, understood
from sparse_prefgp.io.header import Header
from sparse_prefgp.io.judgements import (
    LOSER,
    TIE,
    WINNER,
    Roles,
    columns_of_codes,
    columns_of_sides,
    duels_in,
    followed_by_ties,
    names_of_columns,
    placed,
)
from sparse_prefgp.io.people import people_of
from sparse_prefgp.io.sets import PEOPLE
from sparse_prefgp.io.sides import BOTH_BAD, SIDE
from sparse_prefgp.io.texts import Encoder, features_like, items_given
from sparse_prefgp.io.values import named_levels
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.words import agreeing, and_so, id_text

# What a column calls two sides, one of which won, and the most answers that it may hold besides.
_SIDES, _FEW = (("left", "right"), ("first", "second")), 6
# So many answers a person, on average, tell of tastes.
_REPEATED = 2.0
# Cells of a column by which its kind is seen, and words of each, on average, from which on they are
# texts.
_LOOKED_AT, _WORDS = 100, 4.0


def read_duels(
    items: Source | None,
    duels: Source,
    *,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    counts: str | npt.ArrayLike | None = None,
    never_features: Sequence[str] = (),
    ties: Source | None = None,
    weights: str | None = None,
    groups: str | None = None,
    context: Sequence[str] = (),
    grade: str | None = None,
    grades: str | Sequence[Any] | None = None,
    item: str | None = None,
    covariates: Sequence[str] = (),
    embedding: Any = None,
    text: str | Sequence[str] = (),
    text_features: Encoder | None = None,
    person: str | None = None,
    people: Source | None = None,
    time: str | None = None,
    labels: Sequence[str] = (),
    day_first: bool | None = None,
    **form: Any,
) -> Duels:
    """Read items and duels, one row per duel.

    Features are made by `Duels.standardised`, of training rows or of all; what asks the duels for
    features has those of all, whose means, standard deviations and levels `duels.transform`
    records.

    :param items: path of a file (docs/tables.md), or a data frame, with one row per item. The id is
        the column `item_id`, else the first. Every other numeric, boolean, date or categorical
        (text) column is a feature unless ignored, and so is a column of lists of numbers, a vector
        each; there may be none. None for the items that the duels name, without features.
    :param duels: the same with one row per duel: columns `winner` and `loser` hold item ids; an
        optional column `count` says how often, and an optional column `tie` (1 or 0) which duels
        were tied between the two, in either order; the others are context. Or two sides and who
        won, their scores, how often each won, or a square matrix of wins (docs/tables.md).
    :param features: use only these columns as features.
    :param ignore: columns, of either table, that are not features.
    :param counts: name of the count column, or (t,) counts; default the column `count` if there.
    :param never_features: columns that are not features, such as those a split is made by; unlike
        those of `ignore` they need not exist.
    :param ties: a table of tied pairs in place of a column `tie`: columns `item_a` and `item_b` (or
        `winner` and `loser`) hold item ids; columns that the duels have too are kept.
    :param weights: name of a column of the duels: as how many duels each counts in the likelihood.
    :param groups: name of a column of the duels: who judged, for noise by group.
    :param context: columns of the duels that become features, see `in_context`: a column `surface`
        for both sides, or `winner_home` and `loser_home` for `home`. Each item in each context is
        then a row of its own, such as `Ann @ surface=clay, home=1`, and stays one item.
    :param grade: name of a column of the duels that says how much better the winner, so called, is
        than the loser, who may be the better one too: grades take the place of ties.
    :param grades: its levels from worst to best, "much worse,worse,tie,better,much better" or a
        list: an odd number with ties in the middle, an even one without; by default whole numbers
        up to the largest there is, 0 for a tie.
    :param item: name of the column of the items that says which item each of its rows is of, where
        items have a row for each date or state; it is no feature. By default each row is one.
    :param covariates: columns of the duels that tell the winner's side from the loser's besides the
        items, each winner less loser, or `winner_x` and `loser_x` for `x`; such as 1 where the
        winner was shown first and -1 where the loser was. A model learns a coefficient of each.
    :param embedding: vectors of the items next to their table, see `with_embedding`.
    :param text: columns of the items that hold texts, see `with_texts`.
    :param text_features: makes vectors (n, E) of n texts, which join the features that are made of
        them anyway; see `with_texts`.
    :param person: name of a column of the duels: whose preference each is, so that a model may
        learn a taste of each person (`Taste(kernel)`).
    :param people: features of the people: path or data frame, a row for each, whose id is the
        column `person_id`, else the first.
    :param time: name of a column of the duels: the date of each, as text, stored as a date, or as
        a number of days since 1970, so that utilities may move in time (`ItemInTime`); it is no
        feature of items.
    :param labels: names of columns of the duels with more labels, such as of what kind each is, by
        which `Lean` may let them lean.
    :param day_first: whether dates such as 11/08/2023 begin with the day; by default a day above 12
        has to show it.
    :param form: fields of `Form`, which say how the table is read.
    :raises ValueError: a file that is missing, empty or not readable; a missing column; an id that
        is missing, repeated or unknown; an item against itself; counts that are not whole and
        positive; text where numbers are needed; a text
        column with more than 50 levels or one level per row; no feature but an id; a flag of a tie
        that is neither 0 nor 1; a weight that is not positive; a missing group; a context that is
        no column of the duels, or one of the items too; an item column that is not in the table,
        or empty in a row; vectors of different lengths or not finite; a person that is missing, or
        without a row in the table of people; a date that is missing or none, or some with a time
        zone and some without; what `with_embedding` and `with_texts` raise. Where features are
        made: a feature value that is missing, infinite or otherwise unusable; every feature column
        constant.
    """
    names = column_names(covariates, "covariates")
    own = names_of_columns(labels)
    stated = Stated(**form, person=person, ignore=tuple(ignore), covariates=tuple(names))
    items = items_given(items, embedding, text=text, text_features=text_features)
    item_table = None if items is None else load_items(items)
    levels = named_levels(grade, grades)
    together.check(grade=grade is not None, said_by_grades=ties is not None and "a table of ties")
    made = understood(duels, stated, DUELS, grade=grade)
    table = made.table if ties is None else followed_by_ties(made.table, ties)
    if made.side and SIDE not in names:
        names = [*names, SIDE]
    said = grade or made.grade, levels, tuple(names), time
    codes = columns_of_codes(judge=groups, person=person)
    roles = Roles(counts, weights, *said, codes, own)
    if item_table is None:
        # Of two sides every id was seen to be one, whatever the columns that were made are called.
        own_columns = [WINNER, LOSER] if made.remembered else [*table.frame.columns]
        met = replace(table, frame=table.frame[own_columns])
        item_table = items_named_in(met, (WINNER, LOSER))
    never = (*never_features, *([] if time is None else [time]))
    order = order_of_dates(day_first)
    table = in_iso(table, [name for name in never if name in table.frame.columns], order)
    columns = item_columns(item_table, table, FeatureNames(features, ignore, never, item, order))
    events = duels_in(table, columns.known, columns.items.ids, roles)
    if events.covariates is not None:
        differences = events.covariate_differences
        assert differences is not None
        check_covariates(differences, names)
    used = [WINNER, LOSER, roles.count_column, TIE]
    said_besides = table.frame.drop(columns=used, errors="ignore")
    unused = tuple(said_besides.columns)
    found = Duels.from_events(columns.items, events, unused_columns=unused)
    found = found.replacing(frame=said_besides, row_names=table.row)
    first = made.read_as.columns.get("first")
    hidden = (SIDE, BOTH_BAD, *([made.grade] if made.grade else []))
    found = found.using((*roles.named, *columns_of_sides((*names, *context)), *ignore, *never))
    if made.remembered or first:
        found = found.using((*hidden, *(first or "").split(" and ")))
    untold = ties is None and grade is None and TIE not in table.frame.columns
    if untold and not made.remembered:
        _warn_of_draws(found)
        _warn_of_answers(found)
    orders = {*table.orders.values(), *columns.table.orders.values()}
    if len(orders) == 1:
        made = made._replace(remembered={**made.remembered, ORDER: orders.pop()})
    return finished(found, made, people, roles, columns.table, context, item)


def finished(
    table: Duels,
    made: Understood,
    people: Source | None,
    roles: Roles,
    items: Table,
    context: Sequence[str],
    item: str | None,
) -> Duels:
    """A table with what is known of people, its roles, and how it was read.

    :param items: the table of items.
    """
    events = table.given
    often = [events.num_events]
    if "kind" in events.columns:
        often = np.bincount(events.kind, events.counts, len(KINDS)).astype(int).tolist()
    left = (made.called.get(str(name), str(name)) for name in table.unused_columns)
    unused = tuple(dict.fromkeys((*made.read_as.unused, *left)))
    answers = {kind.name: number for kind, number in zip(KINDS, often, strict=False) if number}
    asked = [] if events.person is not None else _asking_for_people(table)
    table = table.replacing(
        people_table=people_of(people, events.person),
        roles=columns_of_roles({**roles.by_role, **made.remembered}),
        read_as=replace(made.read_as, answers=answers, unused=unused).noting(*asked),
    )
    return placed(table, items, context, item)


def _asking_for_people(table: Duels) -> list[str]:
    """What to say of a column that nobody named, that is called as columns of people are, and by
    which answers repeat; nothing without one."""
    name = Header(map(str, table.unused_columns)).column(*PEOPLE)
    if name is None or name not in table.context.columns:
        return []
    people, noun = int(table.context[name].nunique()), table.given.noun
    each = len(table.context) / max(people, 1)
    if people < 2 or each < _REPEATED:
        return []
    return [
        f"People: {name!r} has {people:,} values with {each:.3g} {noun} each; --person {name} "
        "learns what each prefers besides what all do"
    ]


def asking_for_more(table: Duels) -> list[str]:
    """What to say of columns that nobody named and that a fit could take: dates and texts."""
    events, found = table.given, dict[str, list[str]](dates=[], texts=[])
    for name in (name for name in table.unused_columns if name in table.context.columns):
        column = table.context[name].dropna().head(_LOOKED_AT)
        if is_dated(column):
            found["dates"].append(str(name))
        elif column.map(lambda cell: str(cell).count(" ") + 1).mean() >= _WORDS:
            found["texts"].append(str(name))
    notes = []
    if found["dates"] and events.time is None and events.person is None and events.in_pairs:
        notes.append(
            f"Dates: {and_so(map(repr, found['dates']))} {agreeing(len(found['dates']))} not used; "
            f"--time {found['dates'][0]} lets utilities move in time"
        )
    if found["texts"]:
        notes.append(
            f"Texts: {and_so(map(repr, found['texts']))} {agreeing(len(found['texts']))} not used; "
            "--text makes features of texts in a table of items (--items)"
        )
    return notes


def _warn_of_draws(table: Duels) -> None:
    """Of columns that nobody named and that may say which duels were tied."""
    sides = tuple(f"{side}_" for side in (WINNER, LOSER))
    found = [
        repr(name)
        for name in table.unused_columns
        if not str(name).startswith(sides) and _is_of_both(table.context[name])
    ]
    if found:
        one = len(found) == 1
        warnings.warn(
            f"Column{'s' * (not one)} {', '.join(found)} hold{'s' * one} only 0 and 1 and "
            f"{agreeing(len(found))} not used: if 1 is a draw, rename it to tie, else such rows "
            "count as wins.",
            stacklevel=3,
        )


def _warn_of_answers(table: Duels) -> None:
    """Of columns that nobody named and that may say which of two sides won: then the columns winner
    and loser, renamed, hold the sides."""
    for name in table.unused_columns:
        answers = table.context[name].unique()
        if len(answers) > _FEW:
            continue
        values = {id_text(value).strip().lower() for value in answers}
        sides = next((both for both in _SIDES if values.issuperset(both)), None)
        if sides is not None:
            warnings.warn(
                f"Column {name!r} holds {sides[0]!r} and {sides[1]!r} and is not used: if it says "
                f"which of two sides won, say so (--sides {WINNER},{LOSER} --outcome {name}); else "
                f"leave it out (--ignore {name}, ignore=).",
                stacklevel=3,
            )


def _is_of_both(column: Any) -> bool:
    """Whether each value is 0 or 1, or False or True, and both are there."""
    values = {YES_AND_NO.get(id_text(x).lower()) for x in column.unique()[: len(YES_AND_NO)]}
    return column.nunique(dropna=False) == 2 and values == {True, False}


def read_items(path: Source, like: Any) -> FloatArray:
    """Features (n, D) of raw items, in the units of `duels.items`.

    :param path: of a file as `read_duels` takes, or a data frame, with the feature columns.
    :param like: `Duels` made by `read_duels`, a model of such duels, or a `FeatureTransform`.
    :raises ValueError: `like` records no transform; a missing feature column; a value that is
        missing or not a number; an unreadable or empty file.
    """
    transform = _transform_of(like)
    table = load(path, "items", lambda header: (), transform.categorical_columns)
    return features_like(table, transform)


def _transform_of(like: Any) -> FeatureTransform:
    if isinstance(like, FeatureTransform):
        return like
    transform = getattr(like, "transform", None)
    if transform is None:
        transform = getattr(getattr(like, "duels", None), "transform", None)
    if not isinstance(transform, FeatureTransform):
        raise ValueError(
            f"like is a {type(like).__name__} that records no feature transform; give duels made "
            "by read_duels, or a model of such duels."
        )
    return transform
