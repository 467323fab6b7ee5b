"""What the words mean that say which of two sides was better."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparse_prefgp.data.flags import Where
from sparse_prefgp.support.arrays import BoolArray, IntArray, Texts, first_true
from sparse_prefgp.support.checks import Mistakes
from sparse_prefgp.support.words import shortened, some_of, spelling, squeezed

# Names of two columns, that of the first side and that of the second.
Pair = tuple[str, str]
# What two sides are told apart by, in the names of columns and in verdicts.
MARKS = (
    ("home", "away"),
    ("home", "visitor"),
    ("casa", "ospite"),
    ("heim", "gast"),
    ("a", "b"),
    ("1", "2"),
    ("left", "right"),
    ("first", "second"),
    ("white", "black"),
    ("i", "j"),
    ("visitor", "opponent"),
)
STEMS = (
    *("model", "player", "team", "item", "option", "candidate", "competitor", "contestant"),
    *("opponent", "system", "product", "image", "picture", "photo", "stimulus", "side", "id"),
)
CONTENTS = ("response", "answer", "output", "completion", "text", "summary", "caption")


class Verdict(NamedTuple):
    """What one value says."""

    way: int
    """1 where the first side is better, -1 where the second is, 0 for a tie."""
    strength: int = 1
    """By how many levels; of grades alone it may be more than one."""
    both_bad: bool = False
    """Of a tie: neither was any good."""
    left_out: bool = False
    """The row says nothing."""

    @property
    def meaning(self) -> str:
        """As `meanings_of` takes it."""
        if self.left_out or self.way == 0:
            return "skip" if self.left_out else "both_bad" if self.both_bad else "tie"
        side = "first" if self.way > 0 else "second"
        return side if self.strength == 1 else f"{side}:{self.strength}"

    @property
    def means(self) -> str:
        """In a word."""
        said = self.meaning
        others = {"skip": "left out", "both_bad": "tie, both bad"}
        return others.get(said, said.replace(":", ", grade "))


FIRST, SECOND, TIE = Verdict(1), Verdict(-1), Verdict(0)
BOTH_BAD, LEFT_OUT = Verdict(0, both_bad=True), Verdict(0, left_out=True)
# By which `--verdicts` says what a value means.
MEANINGS = {
    "first": FIRST,
    "second": SECOND,
    "tie": TIE,
    "both_bad": BOTH_BAD,
    "skip": LEFT_OUT,
}
_TIES = dict.fromkeys(
    ("tie", "tied", "draw", "drawn", "d", "x", "equal", "both", "neither", "same", "="), TIE
)
_TIES |= dict.fromkeys(("tie(bothbad)", "bothbad", "both bad", "tie(both bad)"), BOTH_BAD)
# What both sides may be called.
_SIDES = tuple(
    (f"{stem}{first}", f"{stem}{second}")
    for stem in ("", *STEMS, *CONTENTS)
    for first, second in MARKS
)
_WORDS = {
    word: verdict for pair in _SIDES for word, verdict in zip(pair, (FIRST, SECOND), strict=True)
}
_OTHER = {one: other for pair in _SIDES for one, other in (pair, pair[::-1])}
# Each a way to tell the sides apart; a column is read by one alone.
_SYSTEMS: tuple[dict[str, Verdict], ...] = (
    *({first: FIRST, second: SECOND} for first, second in _SIDES),
    {"l": FIRST, "r": SECOND},
    {"h": FIRST, "a": SECOND},
    {"w": FIRST, "b": SECOND},
    {"w": FIRST, "l": SECOND},
    {"win": FIRST, "loss": SECOND},
    {"won": FIRST, "lost": SECOND},
    {"w1": FIRST, "w2": SECOND},
    {"1-0": FIRST, "1/2-1/2": TIE, "½-½": TIE, "0.5-0.5": TIE, "0-1": SECOND},
)
# Of numbers: points, signs, and, where there is a 0, what nobody can tell from these.
_POINTS, _SIGNS = {1.0: FIRST, 0.5: TIE, 0.0: SECOND}, {1.0: FIRST, 0.0: TIE, -1.0: SECOND}
_BETWEEN = {1.0: FIRST, 1.5: TIE, 2.0: SECOND}
# Rows by which it is told how values were meant of which some mean nothing.
_ENOUGH = 200
# Two scores in one cell.
_SCORE = re.compile(r"(\d+)[-:–](\d+)")
_WITH_ZERO = (
    {0.0: FIRST, 1.0: SECOND, 2.0: TIE},
    {0.0: TIE, 1.0: FIRST, 2.0: SECOND},
    {0.0: SECOND, 1.0: TIE, 2.0: FIRST},
)
_STRENGTHS = {
    **dict.fromkeys(("slightly", "somewhat", "abit", "alittle", "marginally"), 1),
    **dict.fromkeys(("much", "significantly", "far", "strongly", "clearly", "alot"), 3),
}
_BETTER = re.compile(
    r"^(?P<side>.*?)\s*(is|was|wins|won)?\s*"
    r"(?P<how>slightly|somewhat|a bit|a little|marginally|much|significantly|far|strongly|clearly)?"
    r"\s*(better|preferred|wins|win)$"
)
_ARROWS = re.compile(r"^\[*\s*(\w+)\s*(>{1,3}|<{1,3}|=)\s*(\w+)\s*\]*$")


def verdict_key(text: str) -> str:
    """The same for spellings of one value."""
    key = "".join(text.casefold().replace("_", "").split())
    number = None if "/" in key else _number(key)
    return key if number is None or not number.is_integer() else str(int(number))


def _number(text: str) -> float | None:
    try:
        return 0.5 if text.strip() in ("1/2", "½") else float(text)
    except ValueError:
        return None


def meanings_of(given: Mapping[str, str]) -> dict[str, Verdict]:
    """What somebody said that values mean.

    :raises ValueError: another meaning than those of `MEANINGS`.
    """
    meanings: dict[str, Verdict] = {}
    for value, meaning in given.items():
        side, _, strength = meaning.partition(":")
        verdict = MEANINGS.get(side)
        if verdict is None or (strength and not (strength.isdecimal() and verdict.way)):
            raise ValueError(
                f"The value {value!r} is said to mean {meaning!r}; give one of "
                f"{', '.join(MEANINGS)}, or with a grade such as first:2 (--verdicts, verdicts=)."
            )
        meanings[verdict_key(value)] = verdict._replace(strength=int(strength or 1))
    return meanings


@dataclass(frozen=True)
class Verdicts:
    """How the values of a column are read."""

    column: str
    words: Mapping[str, Verdict]
    """By `verdict_key` of a value."""
    by_name: bool = False
    """Whether a value is, or may be, the name of the item that won."""

    @classmethod
    def settled(
        cls,
        column: str,
        texts: Texts,
        sides: tuple[Texts, Texts],
        names: Pair,
        given: Mapping[str, str],
        where: Where,
        chosen_by: str | None = None,
    ) -> Verdicts:
        """The one way in which all values make sense.

        :param texts: (t,) the values.
        :param sides: (t,) items of the first and of the second side.
        :param names: the columns of both.
        :param given: what somebody said that values mean.
        :param chosen_by: `name` if they are names of items, another text if they are none.
        :raises ValueError: a value that means nothing, or several ways.
        """
        stated = meanings_of(given)
        codes, all_values = _coded(texts)
        unstated = np.array([verdict_key(value) not in stated for value in all_values])[codes]
        values = [x for x in all_values if x and verdict_key(x) not in stated]
        named = cls(column, {**_TIES, **stated}, by_name=True)
        readings = [cls(column, {**_TIES, **words, **stated}) for words in _readings(values, names)]
        known = named._ways(texts, sides)[0]
        way = np.where(texts == sides[0], 1, np.where(texts == sides[1], -1, 0))
        own = way != 0
        if chosen_by is not None:
            readings, known = ([], known) if chosen_by == "name" else (readings, known & False)
        ties = [cls(column, {**_TIES, **stated})] if own.any() and known.all() else []
        for reading in [*readings, *ties] if chosen_by is None else []:
            meant, means = reading._ways(texts, sides)
            for i in first_true(own & meant & unstated & (means != way)):
                raise ValueError(
                    f"The value {texts[i]!r} of {column!r} in {where(i)} may be the item of that "
                    f"name or mean {reading._word(texts[i]).means}; say whether values are names "
                    "(--chosen-by name, chosen_by=), or what they mean (--verdicts "
                    f'"{texts[i]}=…" with first, second, tie, both_bad or skip, verdicts=).'
                )
        if known.all() and (own.any() or not readings):
            return named
        if len(readings) == 1:
            readings[0].of(texts, sides, where)
            return readings[0]
        if readings:
            first_way, second_way = (
                ", ".join(f"{x} = {reading.words[verdict_key(x)].means}" for x in values)
                for reading in readings[:2]
            )
            ask = ",".join(
                f"{x}={readings[0].words[verdict_key(x)].means.split(',')[0]}" for x in values
            )
            raise ValueError(
                f"The column {column!r} holds {some_of([*map(repr, values)])}, which may mean "
                f"{first_way}, or {second_way}; say which (--verdicts {ask}, verdicts=)."
            )
        # By whichever way makes sense of most, the values that it makes none of.
        ways = [cls(column, {**_TIES, **words, **stated}) for words in _systems(values, names)]
        few = texts[:_ENOUGH], (sides[0][:_ENOUGH], sides[1][:_ENOUGH])
        best = max([named, *ways], key=lambda reading: int(reading._ways(*few)[0].sum()))
        best.of(texts, sides, where)
        raise AssertionError("a value that means nothing was not refused")

    @property
    def meanings(self) -> dict[str, str]:
        """What values mean, as `meanings_of` takes it."""
        return {value: word.meaning for value, word in self.words.items() if value not in _TIES}

    def _ways(self, texts: Texts, sides: tuple[Texts, Texts]) -> tuple[BoolArray, IntArray]:
        """Which values make sense, (t,), and which side each calls better."""
        codes, values = _coded(texts)
        known = np.array([verdict_key(value) in self.words for value in values])[codes]
        way = np.array([self._word(value).way for value in values])[codes]
        if self.by_name:
            first, second = texts == sides[0], texts == sides[1]
            way = np.where(known, way, np.where(first, 1, np.where(second, -1, 0)))
            known = known | first | second
        return known & (texts != "") | known & ("" in self.words), way

    def _word(self, value: str) -> Verdict:
        return self.words.get(verdict_key(value), LEFT_OUT)

    def of(
        self, texts: Texts, sides: tuple[Texts, Texts], where: Where
    ) -> tuple[IntArray, BoolArray, BoolArray, dict[str, tuple[str, int]]]:
        """By how many levels the first side of each row is better, (t,); which rows say that both
        are bad, and which say nothing; and what each value means, with how often.

        :raises ValueError: values that mean nothing, with the row and its sides.
        """
        known, way = self._ways(texts, sides)
        codes, values = _coded(texts)
        words = [self._word(value) for value in values]
        strength = np.array([word.strength for word in words])[codes]
        bad = np.array([word.both_bad for word in words])[codes] & (way == 0)
        skipped = np.array([word.left_out for word in words])[codes] & (way == 0)
        mistakes = Mistakes()
        for code in np.unique(codes[~known])[:6]:
            for i in first_true((codes == code) & ~known):
                mistakes.add(self._unknown(texts[i], (sides[0][i], sides[1][i]), where(i)))
        mistakes.stop()
        told: dict[str, tuple[str, int]] = {}
        named = 0
        for code, number in enumerate(np.bincount(codes, minlength=len(values))):
            if verdict_key(values[code]) in self.words:
                told[values[code]] = words[code].means, int(number)
            else:
                named += int(number)
        if named:
            told = {"the name of a side": ("that side", named), **told}
        return way * np.where(way == 0, 1, strength), bad, skipped, told

    def _unknown(self, text: str, sides: Pair, where: str) -> str:
        if not text:
            return (
                f"The column {self.column!r} is empty in {where}; say which side won, or leave "
                'such rows out (--verdicts "=skip", verdicts={"": "skip"}).'
            )
        near = next((side for side in sides if spelling(side) == spelling(text)), None)
        meant = "" if near is None else f"did you mean {near!r}? Otherwise "
        return (
            f"The column {self.column!r} has {shortened(text)} in {where}, which is neither of its "
            f"sides, {shortened(sides[0])} and {shortened(sides[1])}, nor a known word for one; "
            f'{meant}say what it means (--verdicts "{text}=…" with first, second, tie, both_bad or '
            "skip, verdicts=)."
        )


def _coded(texts: Texts) -> tuple[IntArray, list[str]]:
    import pandas as pd

    codes, values = pd.factorize(texts)
    return np.asarray(codes, np.int64), [str(value) for value in values]


def _readings(values: Sequence[str], names: Pair) -> list[dict[str, Verdict]]:
    """All that these values may mean, each once: by key."""
    keys = [verdict_key(value) for value in values]
    open_keys = [key for key in keys if key not in _TIES]
    found: list[dict[str, Verdict]] = []
    readings = []
    for words in _systems(values, names):
        if all(key in words for key in open_keys):
            known = {**_TIES, **words}
            meaning = {key: known[key] for key in keys}
            if meaning not in found:
                found.append(meaning)
                # Words that later rows may have, but none for a tie.
                more = {key: word for key, word in words.items() if key not in _TIES}
                readings.append({**more, **meaning})
    own = _own(names)
    if len(found) > 1 and all(key in own for key in open_keys):  # the words of the columns
        return [{**own, **{key: _TIES[key] for key in keys if key not in own}}]
    return readings


def _own(names: Pair) -> dict[str, Verdict]:
    """What the names of the columns call the sides."""
    own = {verdict_key(name): verdict for name, verdict in zip(names, (FIRST, SECOND), strict=True)}
    for marks in MARKS:
        for stem in ("", *STEMS, *CONTENTS):
            if all(
                squeezed(name) in (stem + mark, mark + stem)
                for name, mark in zip(names, marks, strict=True)
            ):
                for mark, verdict in zip(marks, (FIRST, SECOND), strict=True):
                    own |= {mark: verdict, mark[0]: verdict}
    return own


def _systems(values: Sequence[str], names: Pair) -> Iterator[dict[str, Verdict]]:
    own = _own(names)
    yield own
    yield from _SYSTEMS
    numbers = {value: _number(value) for value in values if verdict_key(value) not in _TIES}
    if numbers and None not in numbers.values():
        here = {*numbers.values()}
        systems: list[Mapping[Any, Verdict]] = [_POINTS, _SIGNS, _BETWEEN]
        systems += _WITH_ZERO if 0.0 in here and not here & {0.5, -1.0} else []
        systems += [{1.0: SECOND}] if here == {1.0} else []  # as where the first side is 0
        for meanings in systems:
            if here <= {*meanings}:
                yield {verdict_key(x): meanings[number] for x, number in numbers.items()}
    yield _graded(values, own)
    scores = {verdict_key(value): _SCORE.fullmatch(verdict_key(value)) for value in values}
    if all(scores.values()):
        yield {
            key: Verdict(int(np.sign(int(score[1]) - int(score[2]))))
            for key, score in scores.items()
            if score is not None
        }


def _graded(values: Sequence[str], own: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """Of values that say by how much a side is better; empty where they do not."""
    sides = _WORDS | dict(own)
    levels: dict[str, tuple[int, int]] = {}
    for value in values:
        text = " ".join(value.casefold().split())
        arrow, words = _ARROWS.match(text), _BETTER.match(text)
        if arrow:
            side, marks = sides.get(verdict_key(arrow[1])), arrow[2]
            way = {">": 1, "<": -1, "=": 0}[marks[0]]
            if side is not None:
                levels[verdict_key(value)] = side.way * way, len(marks) * abs(way)
                turned = f"{arrow[3]}{marks}{arrow[1]}"
                levels.setdefault(verdict_key(turned), (-side.way * way, len(marks) * abs(way)))
        elif words:
            name = verdict_key(words["side"])
            side, how = sides.get(name), _STRENGTHS.get(verdict_key(words["how"] or ""), 2)
            if side is not None:
                levels[verdict_key(value)] = side.way, how
                turned = text.replace(words["side"], _OTHER.get(name, words["side"]), 1)
                levels.setdefault(verdict_key(turned), (-side.way, how))
    strengths = {how for way, how in levels.values() if way}
    ranks = {0: 1, **{how: i for i, how in enumerate(sorted(strengths), 1)}}
    return {key: Verdict(way, ranks[how]) for key, (way, how) in levels.items()}
