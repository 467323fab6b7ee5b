"""Tables of two sides, a row for each meeting, as duels: winner, loser and what belongs to them."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparse_prefgp.data.flags import YES_AND_NO, Where, refuse_cells
from sparse_prefgp.data.read_as import ReadAs
from sparse_prefgp.io.files import Table, are_flags, id_text, ids_of, refuse_control
from sparse_prefgp.io.header import EQUAL, WINS, Header
from sparse_prefgp.io.values import finite_of
from sparse_prefgp.io.verdicts import Pair, Verdicts
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray, Texts, first_true
from sparse_prefgp.support.checks import Mistakes, check_choice
from sparse_prefgp.support.words import and_so, counted, listing

if TYPE_CHECKING:
    from sparse_prefgp.io.forms import Stated

WINNER, LOSER, TIE, COUNT = "winner", "loser", "tie", "count"
TIED = (TIE, "tied", "draw", "drawn", "is_tie", "is_draw")
SIDE, BOTH_BAD, MARGIN = "side", "both_bad", "grade_of_margin"
# Columns of duels that say whether the winner was shown first; the first may have one of the loser.
SHOWN_FIRST, LOSER_FIRST = ("winner_first", "shown_first"), "loser_first"
OUTCOMES = (
    *("winner", "result", "outcome", "verdict", "label", "choice", "preference", "ftr"),
    *("preferred", "chosen", "decision", "vote", "ft", "score"),
)
# More than these are no words for two sides and a tie.
_MOST_VALUES = 20
# Names of which only one that says who won makes sides.
BARE = (("a", "b"), ("i", "j"), ("A", "B"), ("I", "J"))
# From so many decided duels on, a side that wins more than this share was put there as it won.
_DECIDED, _SHARE = 20, 0.95


class Meetings(NamedTuple):
    """Some rows of two sides as duels."""

    frame: Any
    """Data frame with a row for each duel."""
    rows: IntArray
    """The row that each is made of."""
    verdicts: Mapping[str, tuple[str, int]]
    left_out: Mapping[str, int]
    side: str
    """Why it makes no difference which side is the first; empty where it may."""


@dataclass(frozen=True)
class TwoSides:
    """What the columns of a table of two sides say, settled on its first rows."""

    sides: Pair
    verdicts: Verdicts | None = None
    """Of the column that says who won."""
    scores: Pair | None = None
    """The score of each side."""
    wins: Pair | None = None
    """How often each side won."""
    equal: str | None = None
    """How often neither did, next to `wins`."""
    tied: str | None = None
    """Whether neither won, next to `verdicts`, whose value does not count then."""
    of_sides: Mapping[str, Pair] = field(default_factory=dict)
    """What belongs to a side, by what it is of both."""
    measured: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The columns of each covariate; none of one that there is not."""
    lower_wins: bool = False
    margins: tuple[float, ...] = ()
    """From which differences of the scores on a win is of the next grade."""
    drop_self: bool = False
    drop_both_bad: bool = False

    @property
    def covariates(self) -> tuple[str, ...]:
        """Columns of a row, each of its first side less its second."""
        return tuple(name for name, columns in self.measured.items() if columns == (name,))

    @property
    def form(self) -> str:
        """What the documentation calls it."""
        if self.wins is not None:
            return "two sides and how often each won"
        if self.verdicts is not None:
            return "two sides and a verdict"
        return "two sides and their scores" if self.scores else "two sides and a grade"

    @property
    def columns(self) -> dict[str, str]:
        """Which column is what."""
        named = {
            "first side": self.sides[:1],
            "second side": self.sides[1:],
            "verdict": () if self.verdicts is None else (self.verdicts.column,),
            "scores": self.scores,
            "wins": self.wins,
            "neither": [*filter(None, (self.equal, self.tied))],
            **self.of_sides,
        }
        columns = {what: " and ".join(names) for what, names in named.items() if names}
        return columns | {f"first less second {name}": name for name in self.covariates}

    @property
    def remembered(self) -> dict[str, str]:
        """What a model is to remember of it."""
        remembered = {"sides": ",".join(self.sides)}
        if self.scores is not None:
            remembered["scores"] = ",".join(self.scores)
        if self.verdicts is not None:
            remembered["outcome"] = self.verdicts.column
            if self.verdicts.by_name:
                remembered["chosen_by"] = "name"
            else:
                remembered["verdicts"] = json.dumps(self.verdicts.meanings)
        return remembered

    @property
    def used(self) -> set[str]:
        """Columns of which nothing else is made."""
        verdict = None if self.verdicts is None else self.verdicts.column
        pairs = (*self.sides, *(self.scores or ()), *(self.wins or ()))
        named = (*pairs, self.equal, self.tied, verdict)
        return {name for name in named if name is not None}

    @property
    def one_each(self) -> bool:
        """Whether each row is one duel, as it has to be in batches."""
        skips = self.verdicts is not None and any(v.left_out for v in self.verdicts.words.values())
        return self.wins is None and not (skips or self.drop_self or self.drop_both_bad)

    def meetings(self, frame: Any, where: Where) -> Meetings:
        """Rows as duels, in their order.

        :param where: names row i.
        :raises ValueError: what the columns cannot mean, at most five sentences.
        """
        mistakes = Mistakes()
        first, second = (ids_of(frame[name]) for name in self.sides)
        for texts, name in zip((first, second), self.sides, strict=True):
            with mistakes.noted():
                refuse_control(texts.tolist(), name, where)
                refuse_cells(texts == "", frame[name], name, where, "give every row both sides")
        same = (first == second) & (first != "")
        for i in first_true(same & (not self.drop_self)):
            mistakes.add(
                f"In {where(i)} both sides are {first[i]!r}; correct it, or leave such rows out "
                "(--drop-self, drop_self=True)."
            )
        if self.wins is not None:
            return self._counted(frame, first, second, same, where, mistakes)
        verdicts: Mapping[str, tuple[str, int]] = {}
        way, bad, skipped = np.ones(len(first), np.int64), *np.zeros((2, len(first)), bool)
        if self.verdicts is not None:
            texts = _verdicts_in(frame, self.verdicts.column, self.tied)
            with mistakes.noted():
                way, bad, skipped, verdicts = self.verdicts.of(texts, (first, second), where)
        if self.scores is not None:
            with mistakes.noted():
                ahead = self._ahead(frame, where)
                if self.verdicts is None:
                    way = self._graded(ahead)
                else:
                    self._refuse_other(way, ahead, skipped, frame, where)
                    way = self._graded(ahead) if self.margins else way
        mistakes.stop()
        dropped = {
            "whose verdict says nothing": skipped,
            "in which both were bad": bad & self.drop_both_bad,
            "of an item against itself": same & self.drop_self,
        }
        left_out = {reason: int(rows.sum()) for reason, rows in dropped.items() if rows.any()}
        kept = np.flatnonzero(~np.any([*dropped.values()], axis=0))
        words = () if self.verdicts is None else self.verdicts.words.values()
        grades = any(word.strength > 1 for word in words) or np.abs(way).max(initial=0) > 1
        won = np.where(way[kept] >= 0, 1, -1)
        said: dict[str, Any] = {}
        if grades:
            said[MARGIN] = np.abs(way[kept])
        elif (way == 0).any():
            said[TIE] = (way[kept] == 0).astype(np.int64)
        if bad[kept].any():
            said[BOTH_BAD] = bad[kept].astype(np.int64)
        made = self._duels(frame, kept, won, first, second, said, where)
        reason = no_side(first[kept], second[kept], way[kept])
        return Meetings(made, kept, verdicts, left_out, reason)

    def _duels(
        self,
        frame: Any,
        rows: IntArray,
        won: IntArray,
        first: Texts,
        second: Texts,
        said: Mapping[str, Any],
        where: Where,
    ) -> Any:
        """The frame of duels: `won` is 1 where the first side is called the winner."""
        ahead, frame = won > 0, frame.iloc[rows].reset_index(drop=True)
        of_both = {name for pair in self.of_sides.values() for name in pair}
        others = [name for name in frame.columns if name not in {*self.used, *of_both}]
        mistakes = Mistakes()
        for covariate, columns in self.measured.items():  # as they are called in the table
            with mistakes.noted():
                if not columns:
                    raise ValueError(
                        f"The covariate {covariate!r} is no column, nor are there two for both "
                        "sides; add it, or choose from "
                        f"{listing([*others, *self.of_sides]) or 'none'} (--covariate, --style)."
                    )
                for name in columns:
                    finite_of(frame[name], name, lambda i: where(int(rows[i])))
        mistakes.stop()
        sides: dict[str, Any] = {
            WINNER: np.where(ahead, first[rows], second[rows]),
            LOSER: np.where(ahead, second[rows], first[rows]),
            SIDE: won,
        }
        for name, (one, other) in self.of_sides.items():
            sides[f"{WINNER}_{name}"] = frame[one].where(ahead, frame[other])
            sides[f"{LOSER}_{name}"] = frame[other].where(ahead, frame[one])
        for name in self.covariates:
            sides[f"{WINNER}_{name}"] = frame[name].where(ahead, 0)
            sides[f"{LOSER}_{name}"] = frame[name].where(~ahead, 0)
        made = frame[[name for name in others if name not in self.covariates]]
        return made.assign(**sides, **said)

    def _counted(
        self,
        frame: Any,
        first: Texts,
        second: Texts,
        same: BoolArray,
        where: Where,
        mistakes: Mistakes,
    ) -> Meetings:
        """Rows that say how often each side won; a 0 makes no duel."""
        assert self.wins is not None
        numbers = []
        for name in (*self.wins, self.equal):
            number = np.zeros(len(frame), np.int64)
            if name is not None:
                with mistakes.noted():
                    number = often(frame[name], name, where)
            numbers.append(number * ~(same & self.drop_self))
        mistakes.stop()
        rows, what = np.nonzero(np.stack(numbers, 1))
        counts, won = np.stack(numbers, 1)[rows, what], np.where(what == 1, -1, 1)
        said = {COUNT: counts}
        if self.equal is not None:
            said[TIE] = (what == 2).astype(np.int64)
        left = {"of an item against itself": int(same.sum())} if same.any() else {}
        made = self._duels(frame, rows, won, first, second, said, where)
        way = np.where(what == 2, 0, won)
        return Meetings(made, rows, {}, left, no_side(first, second, way, counts))

    def _ahead(self, frame: Any, where: Where) -> FloatArray:
        """By how much the first side is ahead, (t,)."""
        assert self.scores is not None
        mistakes = Mistakes()
        values = []
        for name in self.scores:
            with mistakes.noted():
                values.append(finite_of(frame[name], name, where))
        mistakes.stop()
        ahead = values[0] - values[1]
        return -ahead if self.lower_wins else ahead

    def _graded(self, ahead: FloatArray) -> IntArray:
        if not self.margins:
            return np.sign(ahead).astype(np.int64)
        level = np.searchsorted(self.margins, np.abs(ahead), side="right")
        return (np.sign(ahead) * level).astype(np.int64)

    def _refuse_other(
        self, way: IntArray, ahead: FloatArray, skipped: BoolArray, frame: Any, where: Where
    ) -> None:
        """Refuse scores that contradict the verdict."""
        assert self.verdicts is not None and self.scores is not None
        bad = np.flatnonzero((np.sign(way) != np.sign(ahead)) & ~skipped)
        if bad.size:
            i, (one, other) = int(bad[0]), self.scores
            raise ValueError(
                f"In {where(i)} {self.verdicts.column!r} is "
                f"{id_text(frame[self.verdicts.column].iloc[i])!r}, but {one!r} and {other!r} are "
                f"{id_text(frame[one].iloc[i])} and {id_text(frame[other].iloc[i])}, as in "
                f"{counted(len(bad), 'row')}; correct them, or read either alone (--outcome, "
                "--scores, and --ignore the other)."
            )


def _verdicts_in(frame: Any, column: str, tied: str | None) -> Texts:
    """The values of a column of verdicts, "tie" where another one says so."""
    texts = ids_of(frame[column])
    if tied is not None:
        texts[_yes(frame[tied])] = TIE
    return texts


def _yes(column: Any) -> list[bool]:
    """Which flags are 1, or yes."""
    return [YES_AND_NO.get(text.casefold(), False) for text in ids_of(column)]


def often(column: Any, name: str, where: Where) -> IntArray:
    """How often each was seen, which may be never."""
    values = finite_of(column, name, where)
    good = (values >= 0) & (values == np.floor(values))
    refuse_cells(~good, column, name, where, "give a whole number, 0 for never")
    return values.astype(np.int64)


def no_side(first: Texts, second: Texts, way: IntArray, counts: IntArray | None = None) -> str:
    """Why columns are taken for no sides; empty where it may matter which is the first.

    :param way: (t,) 1 where the first side won, -1 where the second did.
    """
    counts = np.ones(len(way), np.int64) if counts is None else counts
    decided = int(counts[way != 0].sum())
    share = int(counts[way > 0].sum()) / max(decided, 1)
    if decided >= _DECIDED and not 1 - _SHARE <= share <= _SHARE:
        often = max(share, 1 - share)
        return f"the {'first' if share > 0.5 else 'second'} one wins {100 * often:.1f} %"
    one, other = first, second
    with suppress(ValueError):  # as numbers, if all are
        one, other = first.astype(float), second.astype(float)
    below = np.asarray(one < other, bool)
    if len(below) > 2 and (below.all() or not below.any()):
        return "the names of all pairs stand in one order"
    return ""


def settle(table: Table, form: Stated, graded: str | None) -> TwoSides | None:
    """How a table of two sides is read; None where it has no sides.

    :param table: its first rows, or all.
    :param graded: the column of grades, where one was named.
    :raises ValueError: what may be read in two ways, or not at all.
    """
    header, frame, where, name = Header(table.frame.columns), table.frame, table.row, table.name
    sides = _one_pair("sides", form.sides, header.sides(), header, name)
    if sides is None:
        return _settled_of_others(header, table, form, graded)
    stated = {*form.ignore}
    if SIDE in {*header.names} - stated:
        raise ValueError(
            f"The column {SIDE!r} of {name} has the name of what says which side was the first; "
            f"rename it, or leave it out (--ignore {SIDE}, ignore=)."
        )
    of_sides = {k: v for k, v in header.of_sides(sides).items() if not stated & {*v}}
    others = {x: (x,) for x in header.names if x not in sides}
    columns: Mapping[str, tuple[str, ...]] = {**others, **of_sides}
    plain = TwoSides(
        sides,
        lower_wins=form.lower_wins,
        margins=tuple(form.grades_of_margin),
        measured={x: columns.get(x, ()) for x in form.covariates if x != SIDE},
        drop_self=form.drop_self,
        drop_both_bad=form.both_bad == "drop",
    )
    mistakes, scores, wins, equal = Mistakes(), None, None, None
    with mistakes.noted():
        pairs = [pair for pair in header.scores(sides) if not stated & {*pair}]
        scores = _one_pair("scores", form.scores, pairs, header, name)
    if form.outcome is not None:
        check_choice("The column of outcomes", form.outcome, header.names, f" ({name}; --outcome)")
    names = [form.outcome] if form.outcome else header.every(*OUTCOMES)
    names = [x for x in names if x not in (*sides, *stated)] if graded is None else []
    ids = ids_of(frame[sides[0]]), ids_of(frame[sides[1]])
    tied = header.column(*TIED)
    if tied in (*sides, *names, *stated) or not (tied and are_flags(frame[tied])):
        tied = None
    settled: list[Verdicts] = []
    for column in names:
        try:
            texts = _verdicts_in(frame, column, tied)
            said = form.verdicts or {}
            settled.append(Verdicts.settled(column, texts, ids, sides, said, where, form.chosen_by))
        except ValueError as error:
            if form.outcome is None and (
                form.scores or len({*ids_of(frame[column])}) > _MOST_VALUES
            ):
                continue  # measures something else
            if len(names) == 1:
                mistakes.add(str(error))
                with mistakes.noted():
                    plain.meetings(frame, where)
    if len(settled) > 1:
        mistakes.add(
            f"Both {settled[0].column!r} and {settled[1].column!r} of {name} may say who won; say "
            f"which does (--outcome {settled[0].column}, outcome=)."
        )
    if not settled and graded is None and scores is None and not mistakes.sentences:
        pairs = [pair for pair in header.besides(sides, WINS) if not stated & {*pair}]
        wins = _one_pair("wins", (), pairs, header, name)
        if wins is None:
            if not form.sides and sides in BARE:
                return None
            mistakes.add(_no_verdict(table, ids, sides, form))
        elif header.column(*EQUAL) not in wins:
            equal = header.column(*EQUAL)
    if (form.grades_of_margin or form.lower_wins) and scores is None:
        mistakes.add(
            f"--grades-of-margin and --lower-wins speak of scores, but {name} has none; name them "
            "(--scores A,B), or leave these out."
        )
    mistakes.stop()
    verdicts = settled[0] if settled else None
    tied = tied if settled else None
    two = replace(plain, verdicts=verdicts, tied=tied, scores=scores, wins=wins, equal=equal)
    return replace(two, of_sides={k: v for k, v in of_sides.items() if not {*v} & two.used})


def _settled_of_others(
    header: Header, table: Table, form: Stated, graded: str | None
) -> TwoSides | None:
    """The same where the columns of sides are called by no usual name: the two that hold the same
    items, if something says who won."""
    found = []
    for pair in header.other_sides():
        items = [{*ids_of(table.frame[column])} - {""} for column in pair]
        fewer = min(map(len, items))
        if fewer < 2 or 2 * len(items[0] & items[1]) < fewer:
            continue
        try:
            two = settle(table, replace(form, sides=pair), graded)
        except ValueError:
            continue
        if two is None:
            continue
        by_name = two.verdicts is not None and two.verdicts.by_name
        bare = (text.replace(".", "", 1).lstrip("-") for texts in items for text in texts)
        if by_name or two.wins is not None or not all(map(str.isdigit, bare)):
            found.append(two)
    _one_pair("sides", (), [two.sides for two in found], header, table.name)
    return found[0] if found else None


def _one_pair(
    what: str,
    given: Sequence[str],
    pairs: Sequence[Pair],
    header: Header,
    name: str,
) -> Pair | None:
    if given:
        if len(given) != 2:
            raise ValueError(f"The {what} are {listing(given)}; name two columns (--{what} A,B).")
        for column in given:
            check_choice(f"The column of {what}", column, header.names, f" ({name}; --{what})")
        return given[0], given[1]
    if len(pairs) > 1:
        (one, other), (third, fourth) = pairs[:2]
        remedy = "leave one pair out with --ignore"
        if what != "wins":
            remedy = f"say which (--{what} {one},{other}, {what}=)"
        raise ValueError(
            f"Both {and_so(map(repr, (one, other)))} and {and_so(map(repr, (third, fourth)))} of "
            f"{name} may be the {what}; {remedy}."
        )
    return pairs[0] if pairs else None


def _no_verdict(table: Table, ids: tuple[Texts, Texts], sides: Pair, form: Stated) -> str:
    """That a table has two sides and nothing that says who won, and which columns would do."""
    would_do = []
    for column in table.frame.columns:
        texts = ids_of(table.frame[column])
        by_name = ((texts == ids[0]) | (texts == ids[1])).mean() > 0.5
        if column in sides or not (by_name or len({*texts}) <= _MOST_VALUES):
            continue
        try:
            Verdicts.settled(column, texts, ids, sides, form.verdicts or {}, table.row)
            would_do.append(column)
        except ValueError:
            pass
    remedy = (
        f"such as --outcome {would_do[0]}"
        if would_do
        else "none of the others does as it is; say what values mean with --verdicts"
    )
    return (
        f"{table.name} has two sides, {sides[0]!r} and {sides[1]!r}, but no column by whose name "
        f"one knows who won; name it with --outcome, or two with --scores A,B, {remedy} (columns "
        f"found: {listing(table.frame.columns)})."
    )


def as_read(two: TwoSides, meetings: Meetings, form: Stated) -> tuple[ReadAs, bool]:
    """What was understood, and whether the side is a covariate."""
    reason, first, notes = meetings.side, two.sides[0], []
    if two.margins and two.margins[0] > 1:
        notes.append(f"A difference of the scores below {two.margins[0]:g} is a tie")
    if not reason and len({*meetings.frame.get(SIDE, [])}) < 2:
        reason = "it is the same in all duels"
    takes = SIDE in meetings.frame.columns and form.side is not False
    if takes:
        takes, note = _taken(reason, first, form)
        notes.append(note)
    read_as = ReadAs(
        two.form, two.columns, meetings.verdicts, meetings.left_out, notes=tuple(notes)
    )
    return read_as, takes


def _taken(reason: str, first: str, form: Stated) -> tuple[bool, str]:
    """Whether the side is a covariate, and the sentence on that.

    :param reason: why it may mean nothing; empty without one.
    :param first: the column that says which is the first.
    """
    if reason and form.side is None:
        return False, (
            f"Side: which is the first is taken to mean nothing, as {reason} (--side insists)"
        )
    return True, (
        f"Side: being the first ({first}) has a coefficient of its own (--no-side leaves it out)"
    )


def with_shown_first(frame: Any, form: Stated) -> tuple[Any, tuple[str, ...], str, bool]:
    """Duels with `side`, 1 where the winner was shown first and -1 where the loser was, if a column
    says so that nobody named for anything.

    :param frame: with columns `winner` and `loser`.
    :return: The frame, the columns that were read, what to say, and whether the side is a
        covariate.
    """
    header = Header(frame.columns)
    first = header.column(*SHOWN_FIRST)
    names = [name for name in (first, header.column(LOSER_FIRST)) if name is not None]
    named = {column for name in form.covariates for column in (name, f"{WINNER}_{name}")}
    named |= {*form.ignore}
    if first is None or form.side is False or SIDE in header or named & {*names}:
        return frame, (), "", False
    flags = {**YES_AND_NO, "-1": False}
    read = [[flags.get(id_text(x).lower()) for x in frame[name].tolist()] for name in names]
    for name, found in zip(names, read, strict=True):
        if None in found:
            odd = id_text(frame[name].iloc[found.index(None)])
            note = f"Side: {name} is not used, as it holds {odd!r}, and not 1 or 0 alone"
            return frame, (), note, False
    won = np.array([1 if flag else -1 for flag in read[0]])
    if len(read) == 2 and any(map(operator.eq, *read)):
        return frame, (), f"Side: {first} is not used, as {names[1]} contradicts it", False
    winner, loser = ids_of(frame[WINNER]), ids_of(frame[LOSER])
    way = np.where(_yes(frame[TIE]), 0, won) if TIE in frame.columns else won
    reason = no_side(np.where(won > 0, winner, loser), np.where(won > 0, loser, winner), way)
    if len({*won.tolist()}) < 2:
        reason = "it is the same in all duels"
    takes, note = _taken(reason, first, form)
    return frame.assign(**{SIDE: won}), tuple(names), note, takes
