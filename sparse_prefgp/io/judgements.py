"""Tables of duels and of pairs: who met whom, ties, counts, weights, groups and context."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.answers import TIE as TIED
from sparse_prefgp.data.answers import WIN, Answers, Codes, Grades, kinds_of_grades
from sparse_prefgp.data.contexts import ItemRows, names_of_rows
from sparse_prefgp.data.duels import Duels, check_total
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.flags import Where
from sparse_prefgp.data.raw_items import RawItems
from sparse_prefgp.data.roles import LEANING, ROLES
from sparse_prefgp.data.row_names import JoinedRows, RowNames
from sparse_prefgp.io.columns import feature_kinds
from sparse_prefgp.io.dates import REMEDY, dates_of, in_iso
from sparse_prefgp.io.files import (
    Source,
    Table,
    column_names,
    id_text,
    load,
    plain_ids,
    warn_of_blanks,
)
from sparse_prefgp.io.header import Header
from sparse_prefgp.io.ids import Ids
from sparse_prefgp.io.values import (
    counts_of,
    finite_of,
    flags_of,
    grades_of,
    labels_of,
    refuse_itself,
    weights_of,
)
from sparse_prefgp.io.verdicts import Pair
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import Mistakes, check_choice, check_shape
from sparse_prefgp.support.words import agreeing, and_so, counted, grouped, listing, spelling

WINNER, LOSER, COUNT = "winner", "loser", "count"
FIRST, SECOND = "first", "second"
ITEM_A, ITEM_B = "item_a", "item_b"
# A row with 1 there is a tie, and else a win.
TIE, TIE_FLAGS = "tie", "1 for a tie and 0 for a win"
CHOSEN = "chosen"
_OUTCOMES = (WINNER, LOSER, TIE, CHOSEN)


@dataclass(frozen=True)
class Roles:
    """Which columns of duels, choices or rankings say more of each."""

    count: str | npt.ArrayLike | None = None
    """How often; or the numbers themselves. By default the column `count`, if there is one."""
    weight: str | None = None
    """As how many each counts in the likelihood."""
    grade: str | None = None
    """By how much the first side is better."""
    levels: tuple[str, ...] | None = None
    """Names of the grades from worst to best; None for whole numbers."""
    covariates: tuple[str, ...] = ()
    """What tells the sides of a duel apart besides its items."""
    date: str | None = None
    """When it was."""
    codes: Mapping[str, str] = field(default_factory=dict)
    """Who judged, whose preference it is and so on, by role."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """More labels of each, by the names that a model has for their columns."""

    def __post_init__(self) -> None:
        """:raises ValueError: labels that are what was answered, or a covariate."""
        for column in (*self.codes.values(), *self.labels.values()):
            if column in (*_OUTCOMES, self.grade, *self.covariates):
                what = "a covariate" if column in self.covariates else "what was answered"
                raise ValueError(
                    f"The column {column!r} is {what}, and no label of who or what is behind an "
                    "answer; name another (--noise-by, --person, --lean-by; of a model, --columns)."
                )

    @property
    def count_column(self) -> str:
        """The column of counts, if it is there."""
        return self.count if isinstance(self.count, str) else COUNT

    @property
    def leaning(self) -> dict[str, str]:
        """The columns of what may lean to a side, by the names that a model has for them."""
        return {**self.labels, **{role: self.codes[role] for role in LEANING if role in self.codes}}

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that have to be there for every row of a table, whatever it holds."""
        return tuple(dict.fromkeys((*self.by_role.values(), *self.labels.values())))

    @property
    def by_role(self) -> dict[str, str]:
        """The column of each role that has one, as a model remembers them."""
        codes = {**self.codes, **{role: x for role, x in self.labels.items() if role in LEANING}}
        columns = {role: codes.get(role) or getattr(self, role, None) for role in ROLES}
        return {role: name for role, name in columns.items() if isinstance(name, str)}


def columns_of_codes(**columns: str | None) -> dict[str, str]:
    """The columns of codes that were named, by role."""
    return {role: column for role, column in columns.items() if column is not None}


def names_of_columns(labels: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Columns of labels by the names that a model has for them, as a rule the same."""
    if isinstance(labels, Mapping):
        return dict(labels)
    return {name: name for name in column_names(labels, "labels")}


def load_pairs(source: Source, own: tuple[str, ...] = ()) -> tuple[Table, Pair]:
    """A table of pairs, and the columns of both ids: `first` and `second`, or those of duels.

    :param own: the columns of both sides that a model has learned from, which do too.
    :raises ValueError: what `load` raises; no such columns.
    """

    def sides(header: list[str]) -> Pair:
        if own and {*own} <= {*header}:
            return own[0], own[1]
        duels = FIRST not in header and SECOND not in header and {WINNER, LOSER} & set(header)
        return (WINNER, LOSER) if duels else (FIRST, SECOND)

    table = load(source, "pairs", sides)
    found = sides(list(table.frame.columns))
    table.require(*found)
    return table, found


def duels_in(table: Table, items: Ids, ids: Sequence[Hashable], roles: Roles) -> Answers:
    """What a table of duels says.

    :param items: finds the rows of the items, whose ids are `ids`.
    :raises ValueError: an id that is missing or unknown, an item against itself, and what `said_by`
        raises, each with its row; a flag that is neither 0 nor 1, or two that are 1; several of
        these at once.
    """
    mistakes = Mistakes()
    sides: list[IntArray] = []
    for name in (WINNER, LOSER):
        with mistakes.noted():
            sides.append(items.rows_in(table, name))
    if len(sides) == 2:
        with mistakes.noted():
            same = sides[0] == sides[1]
            refuse_itself(same, table.row, lambda i: f"item {str(ids[sides[0][i]])!r}")
    said: dict[str, Any] = {}
    with mistakes.noted():
        table.require(*([] if roles.grade is None else [roles.grade]))
        said |= outcome_of(table.frame, roles, table.row)
    with mistakes.noted():
        said |= _columns_in(table, roles)
    mistakes.stop()
    return Answers.between(sides[0], sides[1], covariate_names=roles.covariates, **said)


def outcome_of(columns: Mapping[str, Any], roles: Roles, where: Where) -> dict[str, Any]:
    """The kind of each of some rows, and its grade where a column says one.

    :param columns: of a table, or of a chunk of one, by name.
    :raises ValueError: a flag that is neither 0 nor 1, or a grade that is none, with its row;
        grades and flags.
    """
    if roles.grade is None:
        if TIE not in columns:
            return {"kind": None}
        ties = flags_of(columns[TIE], TIE, where, TIE_FLAGS)
        return {"kind": np.where(ties, TIED, WIN).astype(np.int8)}
    together.check(
        grade=f"the column of grades {roles.grade!r}",
        said_by_grades=TIE in columns and f"the column {TIE!r}",
    )
    answer = Grades.of(*grades_of(columns[roles.grade], roles.grade, where, roles.levels))
    return {"kind": kinds_of_grades(answer), "answer": answer}


def measures_of(
    columns: Mapping[str, Any],
    roles: Roles,
    where: Where,
    size: int,
    covariates: Sequence[tuple[str, ...]],
) -> dict[str, Any]:
    """Counts, weights and covariates of some rows, as far as columns say any.

    :param columns: as of `outcome_of`.
    :param covariates: as `covariate_columns` gives them.
    :raises ValueError: a count that is not whole and positive, a weight that is not positive, or a
        covariate that is not finite, with its row; several of these at once.
    """
    mistakes, said, counts = Mistakes(), dict[str, Any](), np.ones(size, dtype=np.int64)
    with mistakes.noted():
        name, given = roles.count_column, columns.get(roles.count_column)
        if not isinstance(roles.count, str | None):
            name, given = "counts", np.asarray(roles.count)
            check_shape(name, given, size, hint=", one for each row of duels")
        if given is not None:
            counts = counts_of(given, name, where)
            check_total(counts, where)
    if np.any(counts != 1):
        said["counts"] = counts
    if roles.weight is not None:
        with mistakes.noted():
            said["weights"] = weights_of(columns[roles.weight], roles.weight, where) * counts
    if covariates:
        with mistakes.noted():
            said["covariates"] = differences_of(covariates, columns, where)
    mistakes.stop()
    return said


def said_by(table: Table, roles: Roles, events: Answers, rows: IntArray) -> Answers:
    """Events with the counts, weights and judges that columns of a table say.

    :param rows: (e,) the row of each event.
    :raises ValueError: no such column; a count that is not whole and positive, or a weight that is
        not positive, a judge or a person that is missing, or what is no date, with its row; several
        of these at once.
    """
    return events.saying(**_columns_in(table, roles, rows))


def _columns_in(table: Table, roles: Roles, which: Any = slice(None)) -> dict[str, Any]:
    """What the columns say of the events that these rows are, by name."""
    table.require(*roles.named)
    frame, mistakes = table.frame, Mistakes()
    said: dict[str, Any] = {}
    with mistakes.noted():
        columns = covariate_columns(frame.columns, roles.covariates, table.name)
        measures = measures_of(frame, roles, table.row, len(frame), columns)
        said = {name: values[which] for name, values in measures.items()}
    with mistakes.noted():
        codes = codes_in(table, roles, which)
        said |= codes
        counts = said.get("counts", np.ones(len(frame), dtype=np.int64)[which])
        for role in roles.codes:
            _warn_of_labels(codes[role], counts, ROLES[role].words[1])
        for labels in codes["labels"].values():
            if labels.column not in roles.codes.values():
                _warn_of_labels(labels, counts, "labels")
    if roles.date is not None:
        with mistakes.noted():
            days = dates_of(frame[roles.date], roles.date, table.row, done=True)
            said["time"] = days[which]
    mistakes.stop()
    return said


def codes_in(table: Table, roles: Roles, which: Any = slice(None)) -> dict[str, Any]:
    """The columns of codes of answers, by name, and their labels.

    :param which: the rows of the answers.
    :raises ValueError: no such column; a label that is missing, with its row.
    """

    def read(column: str, what: str) -> Codes:
        table.require(column)
        labels = labels_of(table.frame[column], column, table.row, what)
        return Codes.of(labels[which].tolist(), column)

    codes = {role: read(column, ROLES[role].words[0]) for role, column in roles.codes.items()}
    return {
        **codes,
        "labels": {name: read(column, "label") for name, column in roles.labels.items()},
    }


def _warn_of_labels(labels: Codes, counts: IntArray, what: str) -> None:
    """Say of names of whoever answered, (e,) and so often, that they look alike."""
    often = np.bincount(labels.numbers, counts, minlength=len(labels.names)).astype(int).tolist()
    how_often = dict(zip(labels.names, often, strict=True))
    warn_of_spellings(labels.names, f"{what} (column {labels.column!r})", how_often)


def covariates_in(table: Table, names: Sequence[str], sides: Pair = (WINNER, LOSER)) -> FloatArray:
    """Covariates of each row, first side less second, (rows, C).

    :param names: each is a column with the difference, or with `winner_` and `loser_` before it a
        column for each side.
    :raises ValueError: no such columns; a value that is not a finite number, with its row.
    """
    columns = covariate_columns(table.frame.columns, names, table.name, sides)
    return differences_of(columns, table.frame, table.row)


def covariate_columns(
    columns: Collection[str],
    names: Sequence[str],
    source: str,
    sides: Pair = (WINNER, LOSER),
    what: str = "covariate",
) -> tuple[tuple[str, ...], ...]:
    """The column of each covariate, or the two columns of both sides.

    :param columns: that there are.
    :param source: whose they are, in messages.
    :param what: a name is of.
    :raises ValueError: no such columns.
    """
    found: list[tuple[str, ...]] = []
    for name in names:
        pair = tuple(f"{side}_{name}" for side in sides)
        if name in columns and name not in sides:  # a pair's `first` is an id
            found.append((name,))
        elif all(column in columns for column in pair):
            found.append(pair)
        else:
            raise ValueError(
                f"The {what} {name!r} is not a column of {source}, nor are {pair[0]!r} and "
                f"{pair[1]!r}; choose from {listing(list(columns)) or 'none'}."
            )
    return tuple(found)


def differences_of(
    columns: Sequence[tuple[str, ...]], values: Mapping[str, Any], where: Where
) -> FloatArray:
    """Covariates of some rows, first side less second, (rows, C).

    :param columns: as `covariate_columns` gives them.
    :param values: the columns by their names.
    :raises ValueError: a value that is not a finite number, with its row.
    """
    found = []
    for each in columns:
        one, *other = (finite_of(values[name], name, where) for name in each)
        found.append(one - other[0] if other else one)
    return np.column_stack(found)


def flags_of_zero(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Columns that are 1 where something is 0, such as `no_length_a` of `length_a`.

    :param values: numbers by their columns, whose names have `name` in them.
    """
    return {
        column.replace(name, f"no_{name}", 1): (numbers == 0.0).astype(int)
        for column, numbers in values.items()
    }


def with_flags(table: Table, names: Iterable[str], sides: Iterable[Pair]) -> Table:
    """A table with the flags of covariates that are 0 of a side, where it says what these are and
    has no such flags.

    :param names: of the covariates.
    :param sides: by which of these their columns may be told apart.
    """
    header, to_numeric = Header(table.frame.columns), require_pandas().to_numeric
    of_sides = [header.of_sides(pair) for pair in sides]
    flags: dict[str, Any] = {}
    for name in names:
        pair = next((each[name] for each in of_sides if name in each), ())
        if any(f"no_{name}" in each for each in of_sides):
            continue
        values = {column: to_numeric(table.frame[column], errors="coerce") for column in pair}
        flags |= flags_of_zero(values, name)
    return replace(table, frame=table.frame.assign(**flags)) if flags else table


def names_covariates(
    columns: Collection[str], names: Sequence[str], sides: Pair = (WINNER, LOSER)
) -> bool:
    """Whether any of these covariates is among the columns of a table."""
    return any(name in columns for name in columns_of_sides(names, sides) - {*sides})


def columns_of_sides(names: Iterable[str], sides: Pair = (WINNER, LOSER)) -> set[str]:
    """The columns that may say what covariates or a context are: of the duel, or of each side."""
    return {name for each in names for name in (each, *(f"{side}_{each}" for side in sides))}


def warn_of_spellings(
    names: Sequence[Hashable], what: str, often: Mapping[Hashable, int] | None = None
) -> None:
    """Say of names that look alike that they are taken for several.

    :param names: each once.
    :param what: whose names they are.
    :param often: how often each is there.
    """
    if all(isinstance(name, int) for name in names):
        return
    alike = grouped(names, lambda name: spelling(str(name)))
    several = [found for found in alike.values() if len(found) > 1]
    if not several:
        return
    first = several[0]
    case = len({str(name).casefold() for name in first}) == 1
    show = repr if case else ascii  # by which they can be told apart
    shown = [
        show(str(x)) + ("" if often is None else f" ({counted(often[x], 'time')})") for x in first
    ]
    where = "case" if case else "case, blanks, Unicode form or characters of no width"
    others = len(several) - 1
    verb, sets = agreeing(others, "does", "do"), counted(others, "other set")
    more = f", as {verb} {sets} of names" if others else ""
    warnings.warn(
        f"Of the {what} {and_so(shown)} differ in {where} alone and "
        f"are taken for {'two' if len(first) == 2 else len(first)}{more}; write them alike if they "
        f"are one{' (--join-spellings)' if what == 'items' else ''}.",
        stacklevel=2,
    )


def followed_by_ties(duels: Table, source: Source) -> Table:
    """The duels, and below them the tied pairs of another table, with the column `tie`.

    Columns of the ties that the duels lack are left out, those of the duels that the ties lack are
    empty there.

    :raises ValueError: what `load` raises; a table without pairs; duels that have a column `tie`.
    """
    ties = load(source, "ties", lambda header: (ITEM_A, ITEM_B, WINNER, LOSER))
    together.check(
        ties_table=True, ties_column=TIE in duels.frame.columns and f"the column {TIE!r}"
    )
    if {ITEM_A, ITEM_B} & {*ties.frame.columns}:
        ties.require(ITEM_A, ITEM_B)
        frame = ties.frame
        for old, new in ((ITEM_A, WINNER), (ITEM_B, LOSER)):  # columns of one side keep their side
            names = frame.columns.str.replace(f"^{old}(?=_|$)", new, regex=True)
            frame = frame.set_axis(names, axis=1)
        ties = replace(ties, frame=frame)
    ties.require(WINNER, LOSER)
    ties.refuse_empty("ties")
    common = [name for name in duels.frame.columns if name in ties.frame.columns]
    below = ties.frame[common].assign(**{TIE: 1})
    if COUNT in duels.frame.columns and COUNT not in common:
        below[COUNT] = 1
    frame = require_pandas().concat([duels.frame.assign(**{TIE: 0}), below], ignore_index=True)
    rows = JoinedRows.of(duels.row, len(duels.frame), ties.row)
    return replace(duels, frame=frame, row=rows)


def placed(table: Duels, items: Table, context: Sequence[str], item: str | None) -> Duels:
    """The table with rows that know their item, where a column of their table names it, and their
    context (`in_context`).

    :param items: the table of items.
    :raises ValueError: no such column, or a row that names none; what `in_context` raises.
    """
    if item is not None:
        table = table.replacing(described=of_named_items(table.raw, items, item))
    found = in_context(table, context)
    names = names_of_rows(found.item_ids, found.item_rows) or ()
    often: Counter[Hashable] = Counter()
    for name, number in zip(names, found.comparisons, strict=True):
        often[name] += int(number)
    warn_of_spellings(tuple(often), "items", often)
    return found


def of_named_items(raw: RawItems, items: Table, column: str) -> RawItems:
    """The rows of a table, of items that one of its columns names.

    :raises ValueError: no such column; a row that names none.
    """
    names = item_names(items, column)
    code, _ = require_pandas().factorize(np.array([id_text(name) for name in names], dtype=object))
    none = np.empty((len(names), 0), dtype=object)
    item_rows = ItemRows(names, raw.ids, (), (), none, column)
    return replace(raw, item=np.asarray(code, dtype=np.int64), item_rows=item_rows)


def item_names(items: Table, column: str) -> tuple[Hashable, ...]:
    """The name of the item of each row.

    :raises ValueError: no such column; a row that names none.
    """
    hint = f" ({items.name}; --item, item=)"
    check_choice("The item column", column, items.frame.columns, hint)
    found = labels_of(items.frame[column], column, items.row, "item")
    return plain_ids([id_text(name) for name in found])


def in_context(table: Duels, names: Sequence[str]) -> Duels:
    """Items by the context of their duels: each item in each context becomes a row of its own.

    Its features are those of the item and of the context, and its id tells both, such as
    `Ann @ surface=clay, home=1`; the items stay what they were.

    Warns of items in no duel, which have no context and are left out.

    :param table: whose items have no context yet.
    :param names: a column `name` of the duels belongs to the duel and so to both sides; a pair of
        columns `winner_name` and `loser_name` has a value for each side.
    :raises ValueError: no such columns; a name that is a column of the items too; a missing value;
        a column that cannot be a feature.
    """
    pd = require_pandas()
    wanted = column_names(names, "context")
    if not wanted:
        return table
    stacked, at, shared = _sides(table, wanted)
    rows = table.row_names or RowNames("the duels")
    values = Table(stacked, "the duels", rows.select(at), omit="of the context")
    values = in_iso(values, wanted, remedy=REMEDY)
    stacked = values.frame
    kinds = feature_kinds(values, wanted)
    for name in wanted:
        warn_of_blanks(stacked[name], f"The context {name!r}")
    texts = [[id_text(value) for value in stacked[name]] for name in wanted]
    codes = [pd.factorize(np.array(text, dtype=object))[0] for text in texts]
    order = _by_place(table.given)
    both = table.given.sides[order]
    keys = np.column_stack([both, *codes])
    _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    row = np.empty(len(order), dtype=np.int64)
    row[order] = number.reshape(-1)
    base = both[first]
    missing = table.num_items - len(np.unique(base))
    if missing:
        warnings.warn(
            f"{missing:,} of {table.num_items:,} items are in no duel, and so in no context; they "
            "are left out.",
            stacklevel=3,
        )
    columns = {name: stacked[name].iloc[first].to_numpy() for name in wanted}
    texts_of = np.array(texts, dtype=object).T[first].reshape(len(first), len(wanted))
    raw = table.raw.in_contexts(base, columns, kinds, shared, texts_of)
    return table.replacing(described=raw, answers=table.given.saying(row), shared=tuple(shared))


def _by_place(events: Answers) -> IntArray:
    """The first sides of all events, then the second ones, and so on."""
    event = events.event_of_side
    place = np.arange(len(events.sides)) - events.offsets[:-1][event]
    return np.argsort(place, kind="stable")


def _sides(table: Duels, names: Sequence[str]) -> tuple[Any, IntArray, list[str]]:
    """The context of all first sides, then of all second ones, …; the row of the duels of each, and
    the names that all sides share."""
    pd = require_pandas()
    refuse_columns_of_items(names, table.raw.frame.columns)
    pairs = context_columns(table.context.columns, names, "the duels")
    events, said = table.given, table.context
    order = _by_place(events)
    at = events.event_of_side[order]
    shared = [name for name, pair in zip(names, pairs, strict=True) if pair == (name, name)]
    two = next((name for name in names if name not in shared), None)
    two = two and f"the context {two!r} of winner and loser apart"
    together.check(sets=events.has_sets, context_of_sides=two)
    stacked = pd.DataFrame(
        {
            name: said[name].iloc[at].array
            if name in shared
            else pd.concat([said[pair[0]], said[pair[1]]]).to_numpy()
            for name, pair in zip(names, pairs, strict=True)
        }
    )
    return stacked, at, shared


def refuse_columns_of_items(names: Sequence[str], columns: Collection[str]) -> None:
    """Refuse a context that is among the columns of the items.

    :raises ValueError: see above.
    """
    for name in names:
        if name in columns:
            raise ValueError(
                f"The context {name!r} is a column of the items too; rename one of them."
            )


def context_columns(
    columns: Collection[str], names: Sequence[str], source: str
) -> tuple[Pair, ...]:
    """The columns of winner and loser for each name: twice the same where it is of the duel.

    :param columns: that there are.
    :param source: whose they are, in messages.
    :raises ValueError: no such columns.
    """
    found = covariate_columns(columns, names, source, what="context")
    return tuple((each[0], each[-1]) for each in found)
