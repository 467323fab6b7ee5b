"""Names of columns by what they are called in many packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from sparse_prefgp.io.verdicts import CONTENTS, MARKS, STEMS, Pair
from sparse_prefgp.support.words import grouped, squeezed

_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
# Football-data's goals at full time, which no rule finds.
_GOALS = ("fthg", "ftag")
_SCORES = ("score", "scores", "goals", "points", "pts", "runs")
WINS = ("wins", "win", "won", "winner", "w", "n", "votes")
# Before the number of an alternative and one of its attributes.
_ALTERNATIVES = ("alt", "alternative", "option", "concept")
# Of which each column asks something else.
QUESTIONS = ("q", "question", "ques")
EQUAL = ("ties", "tie", "draws", "draw", "equal", "tij", "nequal", "nties", "ntie", "winnertie")


class Header:
    """The columns of a table, by their names without capitals, blanks and marks.

    :param names: as they are written.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = [str(name) for name in names]
        self._by_key = grouped(self.names, squeezed)

    def __contains__(self, name: str) -> bool:
        return squeezed(name) in self._by_key

    def column(self, *names: str) -> str | None:
        """The first of these that is there, as it is written; None without any.

        :raises ValueError: two columns that differ in capitals, blanks and marks alone.
        """
        for name in names:
            written = self._by_key.get(squeezed(name), [])
            if name in written:
                return name
            if len(written) > 1:
                raise ValueError(
                    f"The columns {written[0]!r} and {written[1]!r} may both be {name!r}; rename "
                    "one of them."
                )
            if written:
                return written[0]
        return None

    def every(self, *names: str) -> list[str]:
        """All of these that are there, each once."""
        there = (self.column(name) for name in names)
        return [*dict.fromkeys(name for name in there if name is not None)]

    def pairs(self, stems: Sequence[str], marks: Sequence[Pair]) -> list[Pair]:
        """The two columns of both sides that are called by one of these stems, before or behind a
        mark of the side."""
        keys = [
            both
            for stem in stems
            for first, second in marks
            for both in ((stem + first, stem + second), (first + stem, second + stem))
            if {*both} <= self._by_key.keys()
        ]
        return [
            *dict.fromkeys((str(self.column(one)), str(self.column(other))) for one, other in keys)
        ]

    def sides(self) -> list[Pair]:
        """What may be both sides of duels: of items if there are any, else of what they said."""
        marks = [marks for marks in MARKS if marks != ("1", "2")]
        stemmed = self.pairs(STEMS, MARKS)
        bare = [both for both in marks if not stemmed or len(both[0]) > 1]
        pairs = [*stemmed, *self.pairs([""], bare)]
        return [pair for pair in pairs if not self._of_several(pair)] or self.pairs(CONTENTS, MARKS)

    def _of_several(self, pair: Pair) -> bool:
        """Whether these are the first two of more options."""
        stem = squeezed(pair[0])[:-1]
        return any(stem + third in self for third in ("c", "3")) and bool(stem)

    def other_sides(self) -> list[Pair]:
        """Two columns of one stem, whatever it is, each with the mark of a side."""
        pairs = (pair for marks in MARKS for _, pair in _stemmed(self.names, marks))
        return [*dict.fromkeys(pair for pair in pairs if not self._of_several(pair))]

    def marks_of(self, sides: Pair) -> list[Pair]:
        """By what columns of both sides may be told apart, besides these."""
        own = [
            marks
            for marks in MARKS
            if all(_split(name, mark) is not None for name, mark in zip(sides, marks, strict=True))
        ]
        names = squeezed(sides[0]), squeezed(sides[1])
        doubled = [("ij", "ji")] if ("i", "j") in own else []
        return [*dict.fromkeys((names, *own, *doubled, ("a", "b"), ("1", "2")))]

    def scores(self, sides: Pair) -> list[Pair]:
        """What may be the scores of both sides."""
        return self.pairs([""], [_GOALS]) or self.besides(sides, _SCORES)

    def besides(self, sides: Pair, stems: Sequence[str]) -> list[Pair]:
        """What may be of both sides by one of these stems."""
        pairs = self.pairs(stems, self.marks_of(sides))
        return [pair for pair in pairs if not {*pair} & {*sides}]

    def of_sides(self, sides: Pair) -> dict[str, Pair]:
        """The columns that belong to a side, by what they are of both: `length` of `length_a` and
        `length_b`."""
        stems: dict[str, Pair] = {}
        for marks in self.marks_of(sides):
            for stem, pair in _stemmed([x for x in self.names if x not in sides], marks):
                stems.setdefault(stem, pair)
        return stems

    def numbered(self, *stems: str) -> list[str]:
        """The columns of the first of these stems with numbers behind it, in their order, or, of an
        empty stem, with ordinals such as `1st`; other than the first stem needs numbers or letters
        that run from the beginning.

        :raises ValueError: two columns of one number.
        """
        for stem in stems:
            places: dict[int, str] = {}
            behind, lettered = "", all(stem + letter in self for letter in "abc")
            for name in self.names:
                key = squeezed(name)
                end = key.removeprefix(stem) if key.startswith(stem) else ""
                ordinal = re.match(r"(\d+)(?:st|nd|rd|th)(.*)", end) if not stem else None
                if ordinal and (not places or ordinal[2] == behind):
                    place, behind = int(ordinal[1]), ordinal[2]
                elif stem and re.fullmatch(r"\d+", end):
                    place = int(end)
                elif stem and re.fullmatch("[a-h]", end) and (stem != stems[0] or lettered):
                    place = ord(end) - ord("a") + 1
                else:
                    continue
                if place in places:
                    raise ValueError(
                        f"The columns {places[place]!r} and {name!r} are one place; remove or "
                        "rename one."
                    )
                places[place] = name
            running = sorted(places)
            n = len(running)
            whole = n > 1 and running in ([*range(1, n + 1)], [*range(n)])
            if running and (whole or stem == stems[0]):
                return [places[i] for i in running]
        return []

    def attributes(self, options: Sequence[str] = ()) -> dict[str, dict[str, str]]:
        """Columns that describe alternatives, by alternative and attribute: `alt1_price`,
        `price.1`, `price_car`.

        :param options: what the alternatives are called; by default running numbers.
        """
        wanted = [squeezed(name) for name in options]
        alternatives: dict[str, dict[str, str]] = {}
        for name in self.names:
            parts = [part.casefold() for part in _PARTS.findall(name)]
            for at in (0, 1, -1) if len(parts) > 1 and parts[0] not in QUESTIONS else ():
                between = at == 1  # the stem and the attribute
                if wanted:
                    is_label = parts[at] in wanted and not between
                else:
                    is_label = parts[at].isdecimal() and (not between or parts[0] in _ALTERNATIVES)
                if is_label and (not between or len(parts) > 2):
                    rest = {0: parts[1:], 1: parts[2:], -1: parts[:-1]}[at]
                    alternatives.setdefault(parts[at], {})["_".join(rest)] = name
                    break
        return alternatives


def _stemmed(names: Sequence[str], marks: Pair) -> Iterator[tuple[str, Pair]]:
    """Stems that stand with the marks of both sides, and the columns of each."""
    ends = {_split(name, marks[1]): name for name in names}
    for name in names:
        stem = _split(name, marks[0])
        if stem and ends.get(stem, name) != name:
            yield stem, (name, ends[stem])


def _split(name: str, mark: str) -> str | None:
    """What is left of a name without the mark of a side before or behind it; None where it has
    none."""
    parts = [part.casefold() for part in _PARTS.findall(name)]
    for at, rest in ((0, parts[1:]), (-1, parts[:-1])):
        if parts and parts[at] == mark:
            return "_".join(rest)
    key = squeezed(name)
    if len(mark) > 3 and key != mark and key.startswith(mark):
        return key.removeprefix(mark)
    return "" if key == mark else None


def labelled(names: Sequence[str], labels: Iterable[str]) -> dict[str, dict[str, str]]:
    """Columns such as `price.car` and `price.bus` by alternative and attribute, where the
    alternatives of some attributes are the same ones and these labels are among them; else none."""
    wanted = {squeezed(label) for label in labels}
    families: dict[tuple[bool, str], dict[str, str]] = {}
    for name in names:
        for mark in (".", "_"):
            label, dot, stem = name.partition(mark)
            if dot:
                families.setdefault((True, stem), {})[label] = name
                stem, _, label = name.rpartition(mark)
                families.setdefault((False, stem), {})[label] = name
    for (first, _), of in families.items():
        if len(of) > 1 and wanted and wanted <= {squeezed(label) for label in of}:
            alike = {
                stem: columns
                for (before, stem), columns in families.items()
                if before == first and {*columns} == {*of}
            }
            return {label: {stem: each[label] for stem, each in alike.items()} for label in of}
    return {}
