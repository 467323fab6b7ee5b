"""The forms in which people have their answers: each becomes winner and loser, or a row for each
alternative, before anything else is made of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np

from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.data.read_as import ReadAs
from sparse_prefgp.io import sets, sides
from sparse_prefgp.io.files import Source, Table, ids_of, load
from sparse_prefgp.io.header import Header
from sparse_prefgp.io.ids import WHOLE_NUMBER
from sparse_prefgp.io.sides import COUNT, LOSER, TIE, TIED, WINNER, often
from sparse_prefgp.io.verdicts import Pair
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import Mistakes, check_choice
from sparse_prefgp.support.options import (
    Panel,
    check_fields,
    is_default,
    names,
    option,
    option_of,
)
from sparse_prefgp.support.words import and_so, grouped, listing, some_of, spelling, squeezed

DUELS, CHOICES, RANKINGS, BEST_WORST = "duels", "choices", "rankings", "best_worst"
KINDS = (DUELS, CHOICES, RANKINGS, BEST_WORST)
# What columns of other names may be called for.
_NAMED = (WINNER, LOSER, TIE, COUNT, *sets.NAMES)
_SUMS = ("total", "totals", "sum", "all")
_MATRIX = ("rows-win", "columns-win")
_WINNER_AND_LOSER = (
    (WINNER, LOSER),
    ("winner_id", "loser_id"),
    ("winner_name", "loser_name"),
    ("chosen", "rejected"),
    ("preferred", "rejected"),
    ("better", "worse"),
)


def pairs_of_words(text: str) -> dict[str, str]:
    """`a=first,b=second` as a mapping.

    :raises ValueError: a part without `=`.
    """
    if text.startswith("{"):
        return dict(json.loads(text))
    parts = [part.rpartition("=") for part in text.split(",")]
    bad = next((part for part, mark, _ in parts if not mark), None)
    if bad is not None or any(not mark for _, mark, _ in parts):
        raise ValueError(f"{text!r} is no list of NAME=VALUE; write such as a=first,b=second.")
    return {name.strip(): value.strip() for name, _, value in parts}


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{text!r} are no differences of scores; write numbers that rise, such as 1,3."
        ) from None


@dataclass(frozen=True, eq=False, kw_only=True)
class Form:
    """What somebody says of the form of a table of answers, where it cannot be told from it.

    :raises ValueError: what makes no sense.
    """

    columns: Mapping[str, str] | None = option(
        default=None, kind=str, parse=pairs_of_words, metavar="NAME=COLUMN", panel=Panel.FORM
    )
    """What columns are called that have other names: winner=champion,loser=runner_up, or
    choice_set, item_id, chosen, best, worst, ranking, rank, count, tie."""
    sides: Sequence[str] = option(default=(), kind=str, parse=names, panel=Panel.FORM)
    """Two columns that hold the items of both sides: cup_a,cup_b."""
    outcome: str | None = option(default=None, panel=Panel.FORM)
    """Column that says which side won."""
    verdicts: Mapping[str, str] | None = option(
        default=None, kind=str, parse=pairs_of_words, metavar="VALUE=MEANING", panel=Panel.FORM
    )
    """What values of it mean, each first, second, tie, both_bad or skip: m1=first,m2=second."""
    chosen_by: str | None = option(default=None, panel=Panel.FORM)
    """How a value says which side or option it was: name, or position, position-from-0, letter or
    column of it."""
    scores: Sequence[str] = option(default=(), kind=str, parse=names, panel=Panel.FORM)
    """Two columns with the scores of both sides: the higher one wins."""
    lower_wins: bool = option(default=False, panel=Panel.FORM)
    """The lower score wins."""
    grades_of_margin: Sequence[float] = option(
        default=(), kind=str, parse=_numbers, metavar="NUMBERS", panel=Panel.FORM
    )
    """From which differences of the scores on a win is of the next grade: 1,3."""
    both_bad: str = option(default="tie", panel=Panel.FORM)
    """What a verdict that both are bad is: tie, or drop."""
    drop_self: bool = option(default=False, panel=Panel.FORM)
    """Leave out rows of an item against itself."""
    side: bool | None = option(default=None, flag="--side/--no-side", panel=Panel.FORM)
    """Whether being the first side has a coefficient; by default where the table has sides that
    may matter."""
    matrix: str | None = option(default=None, panel=Panel.FORM)
    """In a square matrix of wins, rows-win or columns-win; by default rows beat columns."""
    options: Sequence[str] = option(default=(), kind=str, parse=names, panel=Panel.FORM)
    """Columns that hold what was shown, or are the items: "item*", or a,b,c."""
    none: str | None = option(default=None, panel=Panel.FORM)
    """What means "none of these" in choices or rankings and is not in the table of items. It
    becomes an item of average features, with a feature of its own."""
    empty: Sequence[str] = option(default=(), kind=str, parse=names, panel=Panel.FORM)
    """Values that mean nobody in a cell of an item or of a place: 0, or NC,DQ."""
    shared: str | None = option(default=None, panel=Panel.FORM)
    """tie: two items that share a place, and are alone in their ranking, were tied."""
    join_spellings: bool = option(default=False, panel=Panel.FORM)
    """Ids that differ only in case, blanks or Unicode form are one item."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.matrix is not None:
            check_choice("matrix", self.matrix, _MATRIX)
        check_choice("both_bad", self.both_bad, ("tie", "drop"))
        check_choice("shared", self.shared or "tie", ("tie",))
        check_choice("chosen_by", self.chosen_by or "name", sets.CHOSEN_BY)
        margins = [*self.grades_of_margin]
        if margins != sorted({*margins}) or any(margin <= 0 for margin in margins):
            raise ValueError(
                f"The margins of grades are {listing(margins)}; give numbers above 0 that rise, "
                "such as 1,3."
            )

    def remembered(self) -> dict[str, str]:
        """What was said, as texts by the names of the fields."""
        said = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if not option_of(one).of_command or is_default(one, value) or not value:
                continue
            if isinstance(value, Mapping):
                value = json.dumps({**value})
            elif isinstance(value, Sequence) and not isinstance(value, str):
                value = ",".join(map(str, value))
            said[one.name] = str(value)
        return said

    @classmethod
    def again(cls, roles: Mapping[str, str], header: Sequence[str] | None = None) -> Self:
        """What `remembered` kept of a table, for another one that may lack its columns.

        :param header: the columns that it has; None if it has all.
        """
        said: dict[str, Any] = {}
        sides = roles.get("sides", "").split(",")
        apart = header is not None and not {*sides} <= {*header}
        for one in fields(cls):
            parse, text = option_of(one).parse, roles.get(one.name)
            if text is None or not option_of(one).of_command:
                continue
            value = text if parse is None else parse(text)
            if one.name in ("sides", "scores", "outcome"):
                wanted = [value] if isinstance(value, str) else value
                if apart or (header is not None and not {*wanted} <= {*header}):
                    continue
            if isinstance(value, Mapping) and one.name == "columns":
                there = [*value.values()] if header is None else header
                value = {known: name for known, name in value.items() if name in there}
            said[one.name] = value == "True" if value in ("True", "False") else value
        return cls(**said)


@dataclass(frozen=True, eq=False, kw_only=True)
class Stated(Form):
    """The same along with what else bears on it."""

    person: str | None = None
    """The column of persons, with which numbers of answers begin again."""
    ignore: Sequence[str] = ()
    """Columns of which nothing is to be made."""
    covariates: Sequence[str] = ()
    """Columns that tell the sides apart besides their items."""
    unranked_last: bool = False
    """Whether items without a place were shown, below all others."""
    ids: Sequence[str] = ()
    """What items are called, where there is a table of them."""


# What means something of duels alone, and of answers about sets alone.
_OF_SETS = ("options", "none", "empty", "shared")
_OF_DUELS = (
    *("sides", "outcome", "verdicts", "scores", "lower_wins", "grades_of_margin", "both_bad"),
    *("drop_self", "side", "matrix"),
)
# All of them, as names.
FORM_OPTIONS = tuple(one.name for one in fields(Form) if option_of(one).of_command)


class Understood(NamedTuple):
    """A table in the words of this package."""

    kind: str
    table: Table
    """With columns winner and loser, or a row for each alternative."""
    read_as: ReadAs
    side: bool = False
    """Whether the column `side` is a covariate."""
    grade: str | None = None
    """The column of grades that was made."""
    remembered: Mapping[str, str] = MappingProxyType({})
    """What a model is to remember of the form."""
    by_name: bool = False
    """Of sets: whether columns of a row for each answer named the items, so that of rankings those
    without a place were shown, below all others."""
    shared: str | None = None
    """Of rankings: how places that are shared are read."""
    called: Mapping[str, str] = MappingProxyType({})
    """What columns that were made of others are called in the table."""
    would_do: str = ""
    """Of sets whose columns are not all found: which may be what."""


def understood(
    source: Source,
    form: Stated | Callable[[Sequence[str]], Stated],
    kind: str,
    *,
    grade: str | None = None,
    asked: bool = False,
    words: Sequence[str] = (),
    two: sides.TwoSides | None = None,
) -> Understood:
    """A table of answers in the words of this package.

    :param source: path, data frame, or a `Table` that was read already; what was understood stays
        as it is.
    :param form: what somebody said of the table, or what says so by its columns.
    :param kind: what the answers are.
    :param grade: the column of grades, where one was named.
    :param asked: nobody has chosen yet.
    :param words: columns of texts, as of `load`.
    :param two: how two sides are read, where `kind_of` has settled it.
    :raises ValueError: a table that is none of the forms, or that may be read in two ways; all that
        is wrong with it, at most five sentences.
    """
    if isinstance(source, Understood):
        return source
    table = load_answers(source, form, kind, words)
    form = form([*table.frame.columns]) if callable(form) else form
    _refuse_idle(form, kind)
    table = _renamed(table, form)
    if kind == DUELS:
        made = _duels(table, form, grade, two)
    else:
        long = sets.Long(table, form, kind, asked)
        made_of_sets = long.made()
        by = {} if long.chosen_by is None else {"chosen_by": long.chosen_by}
        made = Understood(
            kind,
            *made_of_sets,
            remembered={**form.remembered(), **by},
            by_name=long.by_name,
            shared=form.shared,
            would_do="" if asked or long.whole else long.would_do(),
        )
    if form.join_spellings:
        table, note = _joined(made.table)
        made = made._replace(table=table, read_as=made.read_as.noting(note))
    own = form.columns or {}
    columns = {
        role: " and ".join(own.get(part, part) for part in name.split(" and "))
        for role, name in made.read_as.columns.items()
    }
    return made._replace(read_as=replace(made.read_as, columns=columns))


def _refuse_idle(form: Stated, kind: str) -> None:
    """Refuse options that mean nothing of answers of this kind."""
    of_others = _OF_SETS if kind == DUELS else _OF_DUELS
    for one in fields(Form):
        value = getattr(form, one.name)
        if one.name in of_others and value and not is_default(one, value):
            option = f"the option --{one.name.replace('_', '-')} ({one.name}=)"
            raise together.refused(answers=kind.replace("_", " and "), idle_option=option)


def load_answers(
    source: Source,
    form: Stated | Callable[[Sequence[str]], Stated],
    role: str = "answers",
    words: Sequence[str] = (),
) -> Table:
    """A table of answers as it is, ids and verdicts being texts.

    :param role: what messages call them.
    :param words: columns of texts, as of `load`.
    :raises ValueError: what `load` raises; no rows.
    """

    def as_written(header: list[str]) -> list[str]:
        return _as_written(header, form(header) if callable(form) else form, role)

    table = load(source, role.replace("_", "-"), as_written, words)
    table.refuse_empty(role.replace("_", " "))
    return table


def _as_written(header: Sequence[str], form: Stated, role: str) -> list[str]:
    """Columns whose cells are read as they are written: all that may hold ids or verdicts."""
    columns = Header(header)
    named: list[str | None] = [*form.sides, *(form.columns or {}).values(), form.outcome]
    pairs = [(columns.column(WINNER), columns.column(LOSER)), *columns.sides()]
    named += [name for pair in pairs if None not in pair for name in pair]
    if named or role == DUELS:
        named += columns.every(*sides.OUTCOMES) or header[:1]
    if role != DUELS:
        named += sets.as_written(columns)
    return [name for name in named if name is not None]


def _renamed(table: Table, form: Stated) -> Table:
    """A table whose columns have the names that they have here."""
    columns = dict(form.columns or {})
    if len({*columns.values()}) < len(columns):  # one column of best and worst
        both = {columns.get(sets.BEST), columns.get(sets.WORST)}
        if len(both) > 1 or None in both:
            raise ValueError(
                f"One column of {table.name} is named for two things ({listing(columns.values())}; "
                "--columns, columns=); name each once."
            )
        columns = {k: v for k, v in columns.items() if k not in (sets.BEST, sets.WORST)}
        columns[sets.BEST_AND_WORST] = str(both.pop())
    count = Header(table.frame.columns).column(COUNT)
    if count is not None and COUNT not in columns:
        columns[COUNT] = count
    for known, name in columns.items():
        check_choice(
            "The column that is named for another", known, _NAMED, " (--columns, columns=)"
        )
        hint = f" ({table.name}; columns=, --columns)"
        check_choice(f"The column of {known}", name, table.frame.columns, hint)
    frame = table.frame
    frame = frame.drop(columns=[*(columns.keys() - columns.values())], errors="ignore")
    return replace(table, frame=frame.rename(columns={old: new for new, old in columns.items()}))


def kind_of(table: Table, form: Stated) -> tuple[str, sides.TwoSides | None]:
    """What the answers of a table are, by its columns, and how two sides are read where that had to
    be settled.

    :raises ValueError: columns that say none of it, with what would.
    """
    table = _renamed(table, form)
    header = Header(table.frame.columns)
    if _plain_sides(header) or form.sides or form.scores or is_matrix(table):
        return DUELS, None
    if all(name in header for name in (sets.BEST, sets.WORST)):
        return BEST_WORST, None
    place = header.column(*sets.PLACES)
    chosen = header.column(sets.CHOSEN, *sets.CHOICE_WORDS)
    sided = header.sides()
    met = sided and (header.column(*sides.OUTCOMES) or header.scores(sided[0]))
    if header.numbered(*sets.RANKS) and not met:
        return RANKINGS, None
    if place and header.column(sets.RANKING, *sets.SETS):
        if chosen is not None:
            raise ValueError(
                f"Both {place!r} and {chosen!r} of {table.name} may be the answer; say which kind "
                f"it is, --rankings FILE by {place!r} or --choices FILE by {chosen!r} (kind=)."
            )
        return RANKINGS, None
    if sided or (
        header.other_sides()
        and (header.column(*sides.OUTCOMES) or not header.numbered(*sets.OPTIONS))
    ):
        try:
            two = sides.settle(table, form, None)
        except ValueError:
            plain = chosen is None or not header.column(sets.CHOICE_SET, *sets.SETS)
            if sided and (plain or sided == [tuple(header.numbered(*sets.OPTIONS))]):
                raise
            two = None
        if two is not None:
            _refuse_described(two, header, chosen, table.name)
            return DUELS, two
    if chosen is not None:
        scored = {text.casefold() for text in ids_of(table.frame[chosen])}
        return (BEST_WORST if scored & {"-1", "worst"} else CHOICES), None
    long = sets.Long(table, form, RANKINGS)
    if (
        header.column(*sets.CELLS)
        or long.grid()
        or (form.options and long.holds_places(long.options()))
    ):
        return RANKINGS, None
    would_do = long.would_do() or (
        "name them by what they are (--columns winner=…,loser=…, --sides A,B --outcome C), or say "
        "the kind (--choices, --rankings, --best-worst)"
    )
    raise ValueError(
        f"What {table.name} holds cannot be told from its columns ({table.columns_found}); "
        f"{would_do}, as 'Tables' in the documentation shows for each form."
    )


def _refuse_described(two: sides.TwoSides, header: Header, chosen: str | None, name: str) -> None:
    """Refuse sides of no usual name that may be one of several attributes of two alternatives."""
    verdicts = two.verdicts
    if header.sides() or not two.of_sides or verdicts is None or verdicts.by_name:
        return
    if verdicts.column == chosen:
        others = and_so(map(repr, next(iter(two.of_sides.values()))))
        raise ValueError(
            f"The columns {and_so(map(repr, two.sides))} of {name} may be the sides of duels, or "
            f"describe two alternatives, as {others} do; say which (--sides {','.join(two.sides)}, "
            "or --choices FILE)."
        )


def _plain_sides(header: Header) -> Pair | None:
    """The columns of winners and of losers."""
    for pair in _WINNER_AND_LOSER:
        winner, loser = map(header.column, pair)
        if winner is not None and loser is not None:
            return winner, loser
    return None


def is_matrix(table: Table) -> bool:
    """Whether the first column names items each of which has a column too."""
    first, *others = table.frame.columns
    if not 1 < len(table.frame) <= len(others):
        return False
    texts = [*ids_of(table.frame[first])]
    return len({*texts}) == len(texts) and {*texts} <= {*map(str.strip, others)}


def _duels(table: Table, form: Stated, grade: str | None, two: sides.TwoSides | None) -> Understood:
    header = Header(table.frame.columns)
    if not (form.sides or form.outcome or form.scores):
        pair = _plain_sides(header)
        if pair is not None:
            return _plain(table, header, form, *pair)
    if is_matrix(table):
        return _of_matrix(table, form)
    graded = grade if grade in header.names else None
    two = two or sides.settle(table, form, graded)
    if two is None:
        table.require(
            WINNER,
            LOSER,
            remedy="; of other names say so (--columns winner=…,loser=…), and of two sides and an "
            "outcome --sides A,B --outcome C",
        )
        raise ValueError(
            f"Which columns of {table.name} are the sides cannot be told; name them, such as "
            f"--sides {WINNER},{LOSER} (sides=)."
        )
    made = two.meetings(table.frame, table.row)
    if not len(made.frame):
        raise ValueError(f"All rows of {table.name} are left out; nothing is there to be read.")
    read_as, side = sides.as_read(two, made, form)
    found = table.of_rows(made.frame, made.rows)
    graded = sides.MARGIN if sides.MARGIN in made.frame.columns else None
    remembered = {**form.remembered(), **two.remembered}
    called = {
        f"{end}_{name}": column
        for name, pair in two.of_sides.items()
        for end, column in zip((WINNER, LOSER), pair, strict=True)
    }
    return Understood(DUELS, found, read_as, side, graded, remembered, called=called)


def _plain(table: Table, header: Header, form: Stated, winner: str, loser: str) -> Understood:
    named = {WINNER: winner, LOSER: loser}
    tie = header.column(*TIED)
    if tie is not None:
        named[TIE] = tie
    frame = table.frame.rename(columns={column: known for known, column in named.items()})
    left_out: dict[str, int] = {}
    if form.drop_self:
        same = ids_of(frame[WINNER]) == ids_of(frame[LOSER])
        kept = np.flatnonzero(~same)
        frame = frame.iloc[kept].reset_index(drop=True)
        table = table.of_rows(frame, kept)
        left_out = {"of an item against itself": int(same.sum())} if same.any() else {}
    frame, read, note, side = sides.with_shown_first(frame, form)
    if read:
        named["first"] = " and ".join(read)
    notes = (note,) if note else ()
    read_as = ReadAs("winner and loser", named, left_out=left_out, notes=notes)
    return Understood(DUELS, replace(table, frame=frame), read_as, side)


def _of_matrix(table: Table, form: Stated) -> Understood:
    """Wins of a square matrix, a duel for each cell that is not 0."""
    first = table.frame.columns[0]
    ids, mistakes = ids_of(table.frame[first]), Mistakes()
    for i, text in enumerate(ids):
        if squeezed(text) in _SUMS:
            raise ValueError(
                f"The matrix of {table.name} has a row {text!r} ({table.row(i)}), which is a sum "
                "and no item; leave that row and its column out, or call the item something else."
            )
    others = [name for name in table.frame.columns[1:] if name.strip() in {*ids}]
    unused = tuple(name for name in table.frame.columns[1:] if name not in others)
    for name in unused:
        whole = all(WHOLE_NUMBER.fullmatch(text) for text in ids_of(table.frame[name]))
        if whole and name not in form.ignore:
            raise ValueError(
                f"The matrix of {table.name} has a column {name!r} and no such row; add the row, "
                f"or leave the column out (--ignore {name}, ignore=)."
            )
    numbers = np.zeros((len(ids), len(others)), np.int64)
    for j, name in enumerate(others):
        with mistakes.noted():
            cells = table.frame[name].where(ids != name.strip(), 0)
            numbers[:, j] = often(cells, name, table.row)
    mistakes.stop()
    row, column = np.nonzero(numbers)
    names = np.array([name.strip() for name in others], dtype=object)
    one, other = ids[row], names[column]
    columns_win = form.matrix == "columns-win"
    if columns_win:
        one, other = other, one
    frame = require_pandas().DataFrame({WINNER: one, LOSER: other, COUNT: numbers[row, column]})
    beat = "columns beat rows" if columns_win else "rows beat columns"
    notes = [f"In the matrix {beat}: {one[0]} beat {other[0]} {numbers[row[0], column[0]]:,} times"]
    if not form.matrix:
        notes[0] += " (--matrix columns-win turns it around)"
    place = {text: i for i, text in enumerate(ids)}
    cells = [table.frame[name].iloc[place[name.strip()]] for name in others]
    own = np.nansum(require_pandas().to_numeric(np.array(cells, dtype=object), errors="coerce"))
    if own:
        notes.append(f"The diagonal, {own:g} in all, is left out")
    read_as = ReadAs(
        "a square matrix of wins", {"items": str(first)}, notes=tuple(notes), unused=unused
    )
    return Understood(DUELS, table.of_rows(frame, row), read_as)


def _joined(table: Table) -> tuple[Table, str]:
    """Ids that look alike as one, the spelling that is there most often, and a note of which."""
    columns = [name for name in (WINNER, LOSER, "item_id") if name in table.frame.columns]
    texts = {name: ids_of(table.frame[name]) for name in columns}
    often = Counter(text for column in texts.values() for text in column)
    alike = grouped(often, spelling)
    most = {key: max(spelt, key=lambda text: often[text]) for key, spelt in alike.items()}
    joined = {name: [most[spelling(text)] for text in column] for name, column in texts.items()}
    several = [
        f"{and_so(f'{text} ({often[text]:,})' for text in spelt)} as {most[key]}"
        for key, spelt in alike.items()
        if len(spelt) > 1
    ]
    note = f"Spellings joined: {some_of(several) or 'none, as no two look alike'}"
    return replace(table, frame=table.frame.assign(**joined)), note
