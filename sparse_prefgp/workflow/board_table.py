"""Battles of models as a leaderboard reads them: which column is what, and what is odd of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparse_prefgp.data.answers import TIE
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.roles import NONE, USUAL_NAMES
from sparse_prefgp.data.table import DuelTable
from sparse_prefgp.io.dates import REMEDY, dates_of, in_iso
from sparse_prefgp.io.files import Table, id_text
from sparse_prefgp.io.forms import Form, Stated, load_answers
from sparse_prefgp.io.header import Header
from sparse_prefgp.io.sides import SIDE
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice
from sparse_prefgp.support.words import agreeing, counted, shortened, some_of
from sparse_prefgp.workflow.fit_sources import Sources

# A board of a category takes so many battles at least, on average; and so many have a board each.
LEAST_BATTLES, MOST_CATEGORIES = 10, 50
_NAMED = 5
# Of values of a style, so many may be 0 and be something of their own.
MOST_EMPTY = 0.2


@dataclass(frozen=True)
class Roles:
    """Which column says what of a battle; None where none does."""

    judge: str | None = None
    category: str | None = None
    task: str | None = None
    date: str | None = None

    @classmethod
    def of(cls, header: Header, asked: Mapping[str, str | None], sides: Sequence[str]) -> Roles:
        """Those that were named, `none` being none, and those that are called as such usually are.

        :param sides: columns that are something else.
        :raises ValueError: a column that there is not.
        """
        found: dict[str, str | None] = {}
        for role, names in USUAL_NAMES.items():
            given = asked.get(role)
            if given is not None and given != NONE:
                where = f"The column of {role} (--{role}, {role}=)"
                check_choice(where, given, header.names)
            taken = {*sides, *(asked.get(other) for other in USUAL_NAMES if other != role)}
            usual = next((x for x in header.every(*names) if x not in taken), None)
            found[role] = None if given == NONE else given or usual
        return cls(**found)


@dataclass(frozen=True, eq=False)
class Battles:
    """A table of battles, and how it is read."""

    table: Table
    roles: Roles
    style: tuple[str, ...]
    form: Mapping[str, Any]
    """Fields of `Form`."""
    notes: tuple[str, ...] = ()
    only_audited: str | None = None
    """A column of categories that the board has no boards of: too many labels, or one."""

    @classmethod
    def opened(
        cls, source: Any, style: Sequence[str], asked: Mapping[str, str | None], form: Form
    ) -> Battles:
        """A path or a data frame, of which the columns are looked at.

        :raises ValueError: what the reader raises; a category of too many labels.
        """
        given = {name: getattr(form, name) for name in type(form).__dataclass_fields__}
        table = load_answers(source, Stated(**given, covariates=tuple(style)))
        header = Header(table.frame.columns)
        table, style, empty = _with_empty(table, header, tuple(style))
        style, alike = _varying(table, style)
        besides = [*style, *given.get("sides", ()), given.get("outcome")]
        roles = Roles.of(header, asked, [name for name in besides if name])
        roles, undated = _dated(table, roles, asked.get("date"))
        empty = (*empty, *alike, *undated)
        made = cls(table, roles, style, given, empty)
        category = roles.category
        if category is None:
            return made
        texts = table.frame[category].map(id_text)
        labels = texts.nunique()
        few = labels * LEAST_BATTLES > len(table.frame)
        if not few and 1 < labels <= MOST_CATEGORIES:
            # Numbers are labels too, and no effect grows with them.
            labelled = texts.where(texts != "").astype("category")
            frame = table.frame.assign(**{category: labelled})
            return replace(made, table=replace(table, frame=frame))
        reason = (
            f"The column {category!r} has {counted(labels, 'label')} in "
            f"{counted(len(table.frame), 'battle')}, and categories are 2 to {MOST_CATEGORIES} "
            f"with {LEAST_BATTLES} battles each on average"
        )
        if asked.get("category"):
            raise ValueError(f"{reason}; name another (--category), or leave it out.")
        note = f"{reason}: there is no board of each."
        roles = replace(roles, category=None)
        return replace(made, roles=roles, notes=(*empty, note), only_audited=category)

    def read(self) -> DuelTable:
        """The battles; the first side has a covariate where sides may matter.

        :raises ValueError: what `read` raises; answers about sets; fewer than two models.
        """
        judge, category = self.roles.judge, self.roles.category
        lean_by = f"{judge}:{SIDE}" if self.has_judges else None
        sources = Sources(
            answers=self.table,
            covariate=self.style,
            noise_by=judge,
            lean_by=lean_by,
            context=() if category is None else (category,),
            **self.form,
        )
        found = sources.table("duels")
        if found.events.has_sets:
            raise ValueError(
                f"{self.table.name} holds choices or rankings; a leaderboard is of battles of two "
                "models each (fit takes the others)."
            )
        if found.read_as is None:
            return found
        told = [
            f"{role.capitalize()}: {column} ({counted(self.labels(column), 'label')})"
            for role, column in vars(self.roles).items()
            if column is not None
        ]
        if judge is None:
            told.append("Judge: no column says who judged (--judge)")
        elif not self.has_judges:
            told.append("One judge: his noise and lean are those of the board")
        unused = tuple(x for x in found.read_as.unused if x not in vars(self.roles).values())
        return replace(found, read_as=replace(found.read_as.noting(*told), unused=unused))

    @property
    def has_judges(self) -> bool:
        """Whether there are two or more to tell apart."""
        return self.roles.judge is not None and self.labels(self.roles.judge) > 1

    def days(self, frame: Any) -> FloatArray | None:
        """(t,) days since 1970 of the battles of a data frame; None for undated ones."""
        if self.roles.date is None:
            return None
        with warnings.catch_warnings():  # what there is to say was said as the table was opened
            warnings.simplefilter("ignore")
            return _days(replace(self.table, frame=frame), self.roles.date)

    def labels(self, column: str) -> int:
        """How many there are in a column."""
        return len({id_text(value) for value in self.table.frame[column].unique()})

    def of_label(self, column: str, label: str) -> Battles:
        """Those with this label alone; notes are what is odd of these."""
        rows = self.table.frame[column].map(id_text) == label
        table = replace(self.table, frame=self.table.frame[rows].reset_index(drop=True))
        style, notes = _varying(table, self.style)
        found = replace(self, table=table, style=style, notes=notes)
        category = self.roles.category
        if category is not None and found.labels(category) < 2:
            found = replace(found, roles=replace(self.roles, category=None))
        return found


def _dated(table: Table, roles: Roles, asked: str | None) -> tuple[Roles, tuple[str, ...]]:
    """The roles without a date that some battles have not or that is none, and a sentence on it.

    :param asked: the column that was named, if any.
    :raises ValueError: one that was, with empty cells or no dates.
    """
    column = roles.date
    if column is None:
        return roles, ()
    values = table.frame[column]
    empty = int((values.isna() | (values.astype(str).str.strip() == "")).sum())
    if not empty:
        try:
            _days(table, column)
        except ValueError as error:
            reason = str(error).removesuffix(".")
            if asked is not None:
                raise ValueError(
                    f"{reason}, or name another column (--date), none for none (date='none')."
                ) from None
            note = f"Drift is not asked: {reason[0].lower()}{reason[1:]}."
            return replace(roles, date=None), (note,)
        return roles, ()
    of = f"{empty:,} of {counted(len(values), 'battle')} {agreeing(empty, 'has', 'have')} no"
    if asked is not None:
        raise ValueError(
            f"{of} date in the column {column!r}; fill it in, leave these battles out, or give "
            "--date none (date='none')."
        )
    return replace(roles, date=None), (f"Drift is not asked: {of} {column}.",)


def _days(table: Table, column: str) -> FloatArray:
    """(t,) days since 1970 of a column of dates."""
    dated = in_iso(table, (column,), remedy=REMEDY)
    return dates_of(dated.frame[column], column, table.row, done=True)


def _with_empty(
    table: Table, header: Header, style: tuple[str, ...]
) -> tuple[Table, tuple[str, ...], tuple[str, ...]]:
    """The table with flags of what of a style is 0, such as the length of an empty answer, where
    few values are and all others are far above; all styles; and a sentence on each flag."""
    frame, added, notes = table.frame, [], []
    for name in style:
        pair = _both_sides(header, name)
        flag = f"no_{name}"
        if pair is None or flag in style:
            continue
        numbers = require_pandas().to_numeric(frame[[*pair]].stack(), errors="coerce")
        is_zero, above = numbers == 0.0, numbers[numbers != 0.0]
        share = float(is_zero.mean())
        if not 0.0 < share <= MOST_EMPTY or not len(above) or above.min() < 0.0:
            continue
        if float(above.quantile(0.05)) < float(above.std()):
            continue  # 0 is the end of what there is
        values = (
            require_pandas().to_numeric(frame[pair[0]]),
            require_pandas().to_numeric(frame[pair[1]]),
        )
        ends = {
            f"no_{column}": (value == 0.0).astype(int)
            for column, value in zip(pair, values, strict=True)
        }
        frame = frame.assign(**ends)
        added.append(flag)
        notes.append(
            f"The {name} of {share:.1%} of the answers is 0, far from all others: that an answer "
            f"has none ({flag}) has a coefficient of its own."
        )
    return replace(table, frame=frame), (*style, *added), tuple(notes)


def _both_sides(header: Header, name: str) -> tuple[str, str] | None:
    """The columns that say of both sides what is called so; None where there are none."""
    pairs = (pair for pair in header.other_sides() if pair[0].startswith(name))
    return next((pair for pair in pairs if pair[1].startswith(name)), None)


def _varying(table: Table, style: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The styles of which something can be learned, and a sentence on each other one."""
    header, numbers = Header(table.frame.columns), require_pandas().to_numeric
    kept, notes = [], []
    for name in style:
        pair = _both_sides(header, name)
        columns = [name] if name in table.frame.columns else [*(pair or ())]
        values = [numbers(table.frame[column], errors="coerce") for column in columns]
        apart = values[0] - values[-1] if len(values) > 1 else values[0] if values else None
        if apart is None or apart.isna().any() or (apart != apart.iloc[0]).any():
            kept.append(name)
            continue
        by = float(apart.iloc[0])
        how = "is the same on both sides" if by == 0.0 else f"differs by {by:g} between the sides"
        notes.append(
            f"The {name} {how} of all {counted(len(apart), 'battle')}, so that nothing can be "
            "learned of it: it is left out (--style)."
        )
    return tuple(kept), tuple(notes)


def models_of(table: DuelTable) -> tuple[IntArray, tuple[Any, ...]]:
    """The models of both sides of each battle, (t, 2), the winner's first, and their names."""
    rows = table.item_rows
    names = table.item_ids if rows is None else rows.names
    known: dict[Any, int] = {}
    numbers = np.array([known.setdefault(name, len(known)) for name in names])
    return numbers[table.events.pairs], tuple(known)


def odd_of(battles: Battles, table: DuelTable) -> list[str]:
    """What to know of battles before relying on them, a sentence each."""
    ends, names = models_of(table)
    counts, tied = table.counts, table.events.kind == TIE
    notes = [*battles.notes]
    won = np.bincount(ends[~tied, 0], counts[~tied], len(names))
    lost = np.bincount(ends[~tied, 1], counts[~tied], len(names))
    for number, word, how in ((won, "won", "low"), (lost, "lost", "high")):
        never = [str(names[i]) for i in np.flatnonzero((number == 0) & (won + lost > 0))]
        if never:
            stand = agreeing(len(never), "it stands", "they stand")
            notes.append(
                f"{some_of(never, _NAMED)} never {word}: how {how} {stand} is held by the prior, "
                "and intervals are wide."
            )
    frame = battles.table.frame
    for column, what in ((battles.roles.judge, "judge"), (battles.roles.task, "task")):
        if column is None or len(frame) != table.num_rows:
            continue
        votes = frame[column].map(id_text).value_counts()
        once = int((votes == 1).sum())
        if once:
            notes.append(
                f"{once:,} of {counted(len(votes), what)} {agreeing(once, 'has', 'have')} one vote."
            )
    notes += _swapped(battles, table, ends)
    return notes


def _swapped(battles: Battles, table: DuelTable, ends: IntArray) -> list[str]:
    """On pairs that one judge saw in both orders, each of which is two votes."""
    roles, frame = battles.roles, battles.table.frame
    covariates = table.events.covariate_names
    if SIDE not in covariates or len(frame) != table.num_rows:
        return []
    differences = table.events.covariate_differences
    assert differences is not None
    ahead = differences[:, covariates.index(SIDE)] > 0.0
    first = np.where(ahead, ends[:, 0], ends[:, 1])
    columns = [name for name in (roles.task, roles.category, roles.judge) if name is not None]
    keys = [frame[name].map(id_text).to_numpy() for name in columns]
    orders: dict[tuple[Any, ...], set[int]] = {}
    both = np.sort(ends, axis=1).tolist()
    for key in zip(*keys, map(tuple, both), first.tolist(), strict=True):
        orders.setdefault(key[:-1], set()).add(key[-1])
    number = sum(len(seen) == 2 for seen in orders.values())
    if not number:
        return []
    who = " to one judge" if roles.judge is not None else ""
    what = "two models" if roles.task is None else "two models on one task"
    unsure = "" if roles.task is not None else ", whether on the same answers or not (--task)"
    return [
        f"Both orders of {what} were shown{who} in {counted(number, 'case')}: each is a vote of "
        f"its own{unsure}."
    ]


def kinds_in(battles: Battles, column: str) -> dict[str, int]:
    """The labels of a column, and how many battles each has.

    :raises ValueError: no such column, or too many labels.
    """
    check_choice("The column of kinds (--by, by=)", column, [*battles.table.frame.columns])
    found = battles.table.frame[column].map(id_text).value_counts().to_dict()
    if len(found) > MOST_CATEGORIES:
        raise ValueError(
            f"The column {shortened(column)} of kinds has {len(found):,} labels; a board of each "
            f"is made of up to {MOST_CATEGORIES} (--by)."
        )
    return {str(label): int(number) for label, number in found.items()}
