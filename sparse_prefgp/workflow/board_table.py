"""Battles of models as a leaderboard reads them: which column is what, and what is odd of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sparse_prefgp.data.answers import TIE, Codes
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.flags import refuse_cells
from sparse_prefgp.data.roles import FLAGGED, LAST_DATE, NONE, USUAL_NAMES
from sparse_prefgp.io.dates import REMEDY, dates_of, in_iso
from sparse_prefgp.io.files import Table, id_text
from sparse_prefgp.io.forms import Form, Stated, load_answers
from sparse_prefgp.io.header import Header
from sparse_prefgp.io.judgements import flags_of_zero
from sparse_prefgp.io.sides import SIDE
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice
from sparse_prefgp.support.options import several
from sparse_prefgp.support.words import agreeing, and_so, counted, shortened, some_of, squeezed
from sparse_prefgp.workflow.fit_sources import Sources

# A board of a category takes so many battles at least, on average; and so many have a board each.
LEAST_BATTLES, MOST_CATEGORIES = 10, 50
_NAMED = 5
# Columns of these names have dates even where they hold small numbers; of others those from
# `LEAST_DATE` on are dates such as 20240131, or seconds since 1970.
SURELY_DATES, LEAST_DATE = ("date", "day", "timestamp"), 1e7
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
    by: str | None = None
    """The column of kinds, of which each label has a board; None for none."""
    notes: tuple[str, ...] = ()
    only_audited: str | None = None
    """A column of categories that the board has no boards of: too many labels, or one."""
    flagged: tuple[str, ...] = ()
    """The styles of which flags of what is 0 were made."""

    @classmethod
    def opened(
        cls,
        source: Any,
        style: str | Sequence[str],
        asked: Mapping[str, str | None],
        form: Form,
        by: str | None = None,
    ) -> Battles:
        """A path or a data frame, of which the columns are looked at.

        :raises ValueError: what the reader raises; a category or kinds of too many labels, or with
            empty cells; a judge with such.
        """
        given, style = {**vars(form)}, several(style)
        table = load_answers(source, Stated(**given, covariates=style))
        header = Header(table.frame.columns)
        without, (table, style, empty) = style, _with_empty(table, style)
        flagged = tuple(x for x in without if f"no_{x}" in {*style} - {*without})
        style, alike = _varying(table, style)
        durations, lasting = _durations(table, header) if asked.get("date") is None else ([], ())
        besides = [*style, *given.get("sides", ()), given.get("outcome"), *durations]
        roles = Roles.of(header, asked, [name for name in besides if name])
        roles, undated = _dated(table, roles, asked.get("date"))
        notes = (*empty, *alike, *lasting, *undated)
        made = cls(table, roles, style, given, by, notes, flagged=flagged)
        made._check_kinds()
        made._refuse_empty(roles.judge, "--judge none (judge='none')")
        category = roles.category
        if category is None:
            return made
        texts, labels = made.texts(category), made.labels(category)
        few = labels * LEAST_BATTLES > len(texts)
        if not few and 1 < labels <= MOST_CATEGORIES:
            made._refuse_empty(category, "--category none (category='none')")
            # Numbers are labels too, and no effect grows with them.
            return made._with(table.frame.assign(**{category: texts.astype("category")}))
        reason = (
            f"The column {category!r} has {counted(labels, 'label')} in "
            f"{counted(len(table.frame), 'battle')}, and categories are 2 to {MOST_CATEGORIES} "
            f"with {LEAST_BATTLES} battles each on average"
        )
        if asked.get("category"):
            raise ValueError(f"{reason}; name another (--category), or leave it out.")
        note = f"{reason}: there is no board of each."
        roles, notes = replace(roles, category=None), (*made.notes, note)
        return replace(made, roles=roles, notes=notes, only_audited=category)

    def read(self) -> Duels:
        """The battles; the first side has a covariate where sides may matter.

        :raises ValueError: what `read` raises; answers about sets; fewer than two models.
        """
        judge, category = self.roles.judge, self.roles.category
        try:
            found = self._read()
        except ValueError:
            self._refuse_roles()  # which may be why
            raise
        sets = found.given.has_sets and f"{found.given.noun} of sets (in {self.table.name})"
        together.check(leaderboard=True, sets=sets)
        if found.read_as is None:
            return found
        self._refuse_read(found.read_as.columns)
        told = [
            f"{role.capitalize()}: {column} ({self._extent(column)})"
            for role, column in vars(self.roles).items()
            if column is not None
        ]
        if category is None:
            told.append("Category: no column says what a battle is about (--category)")
        if judge is None:
            told.append("Judge: no column says who judged (--judge)")
        elif not self.has_judges:
            told.append("One judge: his noise and lean are those of the board")
        named = {*vars(self.roles).values(), self.by}
        unused = tuple(x for x in found.read_as.unused if x not in named)
        columns = {
            what: name
            for what, name in found.read_as.columns.items()
            if not {*name.split(" and ")} <= {*unused}
        }
        read_as = replace(found.read_as.noting(*told), columns=columns, unused=unused)
        return found.replacing(read_as=read_as)

    def _read(self) -> Duels:
        judge, category = self.roles.judge, self.roles.category
        return Sources(
            answers=self.table,
            covariate=self.style,
            noise_by=judge,
            lean_by=f"{judge}:{SIDE}" if self.has_judges else None,
            context=() if category is None else (category,),
            **self.form,
        ).table("duels")

    def _refuse_roles(self) -> None:
        """Refuse what is read as a side or the verdict, where the battles can be read without.

        :raises ValueError: a column is.
        """
        try:
            plain = replace(self, roles=Roles(), by=None)._read()
        except ValueError:
            return
        if plain.read_as is not None:
            self._refuse_read(plain.read_as.columns)

    def _refuse_read(self, columns: Mapping[str, str]) -> None:
        read = {name: what for what, name in columns.items()}
        for role, column in {**vars(self.roles), "kinds": self.by}.items():
            if column in read and read[column] != role:
                option = "--by" if role == "kinds" else f"--{role}"
                raise ValueError(
                    f"The column {column!r} of {role} is read as the {read[column]}; choose "
                    f"another ({option})."
                )

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
            return _days(self._with(frame).table, self.roles.date)

    def remembering(self, table: Duels) -> Duels:
        """The battles, which remember their column of dates and the last of these, and the flags
        that were made."""
        roles = dict(table.roles)
        days, date = self.days(self.table.frame), self.roles.date
        if days is not None and date is not None:
            roles |= {"date": date, LAST_DATE: repr(float(days.max()))}
        if flagged := [name for name in self.flagged if f"no_{name}" in self.style]:
            roles[FLAGGED] = ",".join(flagged)
        return table.replacing(roles=roles)

    def _extent(self, column: str) -> str:
        """How many labels a column has, or its first and last date."""
        days = self.days(self.table.frame) if column == self.roles.date else None
        if days is None:
            return counted(self.labels(column), "label")
        first, last = (np.datetime64(int(day // 1), "D") for day in (days.min(), days.max()))
        return f"{first} to {last}"

    def texts(self, column: str) -> Any:
        """Labels of a column, as a series of texts."""
        return self.table.frame[column].astype(object).map(id_text)

    def labels(self, column: str) -> int:
        """How many there are in a column."""
        return int(self.texts(column).nunique())

    @property
    def kinds(self) -> dict[str, int]:
        """The labels that have boards of their own, and how many battles each has."""
        return {} if self.by is None else self.texts(self.by).value_counts().to_dict()

    def _check_kinds(self) -> None:
        if self.by is None:
            return
        check_choice("The column of kinds (--by, by=)", self.by, [*self.table.frame.columns])
        if self.by == self.roles.category:
            raise ValueError(
                f"The column {self.by!r} is that of kinds and of the category; leave --by out (by=)"
                ", or give --category none (category='none')."
            )
        if (labels := self.labels(self.by)) > MOST_CATEGORIES:
            raise ValueError(
                f"The column {shortened(self.by)} of kinds has {labels:,} labels; a board "
                f"of each is made of up to {MOST_CATEGORIES} (--by)."
            )
        self._refuse_empty(self.by, "no --by (by=)")

    def _refuse_empty(self, column: str | None, otherwise: str) -> None:
        """Refuse a column with empty cells; `otherwise` is what to give else."""
        if column is not None:
            cells, remedy = self.table.frame[column], f"fill it in, or give {otherwise}"
            refuse_cells(self.texts(column) == "", cells, column, self.table.row, remedy)

    def _with(self, frame: Any) -> Battles:
        return replace(self, table=replace(self.table, frame=frame))

    def of_kind(self, label: str) -> Battles:
        """Those of one kind; notes are what is odd of these."""
        assert self.by is not None
        rows = self.texts(self.by) == label
        found = self._with(self.table.frame[rows].reset_index(drop=True))
        style, notes = _varying(found.table, self.style)
        found = replace(found, style=style, notes=notes, by=None)
        category = self.roles.category
        if category is not None and found.labels(category) < 2:
            found = replace(found, roles=replace(self.roles, category=None))
        return found


def _durations(table: Table, header: Header) -> tuple[list[str], tuple[str, ...]]:
    """Columns that may be called as dates are but hold numbers too small to be such for sure, as of
    seconds that an answer took, and a sentence on each."""
    found, notes = [], []
    for column in header.every(*USUAL_NAMES["date"]):
        if squeezed(column) in SURELY_DATES:
            continue
        numbers = require_pandas().to_numeric(table.frame[column], errors="coerce")
        if numbers.notna().all() and len(numbers) and (least := numbers.min()) < LEAST_DATE:
            found.append(column)
            notes.append(
                f"The column {column!r} has numbers such as {least:g} and is not taken for dates; "
                f"say so if they are (--date {column})."
            )
    return found, tuple(notes)


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
    if empty:
        of = f"{empty:,} of {counted(len(values), 'battle')} {agreeing(empty, 'has', 'have')} no"
        reason, remedy = (
            f"{of} date in the column {column!r}",
            "; fill it in, leave these battles out, or give --date none (date='none').",
        )
    else:
        remedy = ", or name another column (--date), none for none (date='none')."
        try:
            _days(table, column)
            return roles, ()
        except ValueError as error:
            reason = str(error).removesuffix(".")
    if asked is not None:
        raise ValueError(f"{reason}{remedy}")
    note = f"Drift is not asked: {reason[0].lower()}{reason[1:]}."
    return replace(roles, date=None), (note,)


def _days(table: Table, column: str) -> FloatArray:
    """(t,) days since 1970 of a column of dates."""
    dated = in_iso(table, (column,), remedy=REMEDY)
    return dates_of(dated.frame[column], column, table.row, done=True)


def _with_empty(
    table: Table, style: tuple[str, ...]
) -> tuple[Table, tuple[str, ...], tuple[str, ...]]:
    """The table with flags of what of a style is 0, such as the length of an empty answer, where
    few values are and all others are far above; all styles; and a sentence on each flag."""
    frame, added, notes = table.frame, [], []
    for name in style:
        flag, values = f"no_{name}", _numbers_of(table, name)
        if len(values) < 2 or flag in style:
            continue
        numbers = require_pandas().concat(values.values()).dropna()
        above, share = numbers[numbers != 0.0], float((numbers == 0.0).mean())
        if not 0.0 < share <= MOST_EMPTY or not len(above) or above.min() < 0.0:
            continue
        if float(above.quantile(0.05)) < float(above.std()):
            continue  # 0 is the end of what there is
        frame = frame.assign(**flags_of_zero(values, name))
        added.append(flag)
        notes.append(
            f"The {name} of {share:.1%} of the answers is 0, far from all others: that an answer "
            f"has none ({flag}) has a coefficient of its own."
        )
    return replace(table, frame=frame), (*style, *added), tuple(notes)


def _numbers_of(table: Table, name: str) -> dict[str, Any]:
    """Columns that say something of each side, or of the difference; none where there are none."""
    frame = table.frame
    pairs = Header(frame.columns).other_sides()
    pair = next((pair for pair in pairs if all(end.startswith(name) for end in pair)), ())
    to_numeric = require_pandas().to_numeric
    columns = [name] if name in frame.columns else pair
    return {column: to_numeric(frame[column], errors="coerce") for column in columns}


def _varying(table: Table, style: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The styles of which something can be learned, and a sentence on each other one."""
    kept, notes = [], []
    for name in style:
        sides: list[Any] = [*_numbers_of(table, name).values()] or [None]
        apart = sides[0] - sides[1] if len(sides) > 1 else sides[0]
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


def models_of(table: Duels) -> tuple[IntArray, tuple[Any, ...]]:
    """The models of both sides of each battle, (t, 2), the winner's first, and their names."""
    rows = table.item_rows
    names = table.raw.ids if rows is None else rows.names
    known = Codes.of(names)
    return known.numbers.astype(np.int64)[table.given.pairs], known.names


def odd_of(battles: Battles, table: Duels) -> list[str]:
    """What to know of battles before relying on them, a sentence each."""
    ends, names = models_of(table)
    counts, tied = table.given.counts, table.given.kind == TIE
    notes = [*battles.notes]
    graph = sparse.coo_array((np.ones(len(ends)), tuple(ends.T)), (len(names), len(names)))
    group = connected_components(graph, directed=False)[1]
    apart = [str(names[i]) for i in np.flatnonzero(group != np.argmax(np.bincount(group)))]
    if apart:
        notes.append(
            f"No chain of battles links {some_of(apart, _NAMED)} with the others: the prior alone "
            "says who of both is better."
        )
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
    if len(battles.table.frame) != table.num_rows:
        return notes
    for column, what, so in (
        (battles.roles.judge, "judge", "what noise that is, the others and the prior say"),
        (battles.roles.task, "task", "no two votes can be compared there"),
    ):
        if column is None:
            continue
        votes = battles.texts(column).value_counts()
        once = int((votes == 1).sum())
        if once:
            has = agreeing(once, "has", "have")
            notes.append(f"{once:,} of {counted(len(votes), what)} {has} one vote: {so}.")
    return [*notes, *_swapped(battles, table, ends), *_repeated(battles, table)]


def _repeated(battles: Battles, table: Duels) -> list[str]:
    """On votes that may be copies of others, as far as columns can tell a second look apart."""
    roles = battles.roles
    if roles.task is None:
        return []
    said, covariates = table.given, table.given.covariate_differences
    named = {what: name for what, name in vars(roles).items() if name is not None}
    keys = [said.kind, *said.pairs.T, *([] if covariates is None else covariates.T)]
    keys += [battles.texts(name).to_numpy() for name in named.values()]
    votes = require_pandas().DataFrame(dict(enumerate(keys)))
    number = int(votes.duplicated().sum())
    if not number:
        return []
    says = agreeing(number, "repeats an earlier one", "repeat earlier ones")
    return [
        f"{counted(number, 'vote')} {says}, in models, verdict, {and_so(named)}, and "
        f"{agreeing(number, 'counts', 'count')} again; "
        f"{agreeing(number, 'it may be a copy', 'they may be copies')}, to be left out."
    ]


def _swapped(battles: Battles, table: Duels, ends: IntArray) -> list[str]:
    """On pairs that one judge saw in both orders, each of which is two votes."""
    roles, differences = battles.roles, table.given.covariate_differences
    if differences is None or SIDE not in table.given.covariate_names:
        return []
    ahead = differences[:, table.given.covariate_names.index(SIDE)] > 0.0
    columns = [name for name in (roles.task, roles.category, roles.judge) if name is not None]
    keys = [battles.texts(name).to_numpy() for name in columns]
    first = np.where(ahead, ends[:, 0], ends[:, 1])
    orders = require_pandas().Series(first).groupby([*keys, *np.sort(ends, axis=1).T]).nunique()
    number = int((orders == 2).sum())
    if not number:
        return []
    who = " to one judge" if roles.judge is not None else ""
    what = "two models" if roles.task is None else "two models on one task"
    unsure = "" if roles.task is not None else ", whether on the same answers or not (--task)"
    return [
        f"Both orders of {what} were shown{who} in {counted(number, 'case')}: each is a vote of "
        f"its own{unsure}."
    ]
