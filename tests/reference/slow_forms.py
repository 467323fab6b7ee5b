"""The same answers as records and in every form of a table, written one cell at a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sparse_prefgp.data.answers import KINDS
from sparse_prefgp.data.duels import Duels

POOLS = (
    ("fig", "pear", "plum", "kiwi"),
    ("007", "8", "NA", "red apple"),
    ("x-1", "Ann O'Hara", "é", "None"),
    ("11", "12", "13", "14"),
)
# A column for each side.
SIDES = (
    *(("model_a", "model_b"), ("left", "right"), ("home", "away"), ("HomeTeam", "AwayTeam")),
    *(("player1", "player2"), ("item1", "item2"), ("White", "Black"), ("option_a", "option_b")),
    *(("first", "second"), ("Item 1", "Item 2"), ("Team 1", "Team 2"), ("Casa", "Ospite")),
    *(("option_left", "option_right"), ("home.team", "visitor.team"), ("stimulusA", "stimulusB")),
)
# What says that the first side won, that the second did, and that neither did; None is a name.
VERDICTS = (
    *((None, None, "tie"), ("a", "b", "equal"), ("A", "B", "Draw"), ("1", "2", "draw")),
    *(("left", "right", "both"), ("first", "second", "neither"), ("H", "A", "D")),
    *(("W", "L", "D"), ("W1", "W2", "D"), ("1-0", "0-1", "1/2-1/2"), ("1", "0", "0.5")),
    *(("1", "-1", "0"), ("1.0", "0.0", "0.5"), (" Left ", "RIGHT", "tie (bothbad)")),
)
OUTCOMES = ("winner", "result", "Outcome", "verdict", "label", "choice", "preference", "FTR")
GRADES = (
    ("A much better", "A better", "A slightly better", "tie", "B slightly better", "B better"),
    ("A>>>B", "A>>B", "A>B", "A=B", "B>A", "B>>A"),
)


class Written(NamedTuple):
    """Answers in one form."""

    form: str
    table: pd.DataFrame
    options: dict[str, Any]


class Meeting(NamedTuple):
    """One duel: who stood first and second, and 1, 0 or -1 as the first won, neither, or lost."""

    first: str
    second: str
    way: int

    @property
    def event(self) -> tuple[Any, ...]:
        if self.way == 0:
            return ("tie", *sorted((self.first, self.second)))
        return ("win", *((self.first, self.second) if self.way > 0 else (self.second, self.first)))


def events_of(table: Duels) -> Counter[tuple[Any, ...]]:
    """The answers that were read, how often each, in words that no order of rows changes."""
    ids, events = [str(name) for name in table.item_ids], table.given
    read: Counter[tuple[Any, ...]] = Counter()
    for i in range(len(events)):
        sides = [ids[j] for j in events.sides[events.offsets[i] : events.offsets[i + 1]]]
        kind = KINDS[int(events.kind[i])].name
        if kind == "tie":
            sides = sorted(sides)
        elif kind == "grade":
            grade = int(events.answer.numbers[i])
            sides = sides if grade > 0 else sides[::-1] if grade < 0 else sorted(sides)
            kind = f"grade {abs(grade)}" if grade else "tie"
        elif kind == "choice":
            sides = [sides[0], *sorted(sides[1:])]
        elif kind == "top":
            k = int(events.ordered[i])
            kind, sides = f"top {k}", [*sides[:k], *sorted(sides[k:])]
        elif kind.startswith("best"):
            sides = [sides[0], *sorted(sides[1:-1]), sides[-1]]
        read[(kind, *sides)] += int(events.counts[i])
    return read


def shuffled(rng: np.random.Generator, frame: pd.DataFrame, columns: bool = True) -> pd.DataFrame:
    """The same with its rows, and its columns, in random order."""
    frame = frame.iloc[rng.permutation(len(frame))].reset_index(drop=True)
    return frame[[*rng.permutation(frame.columns)]] if columns else frame


# ---- duels ---------------------------------------------------------------------------------------


def meetings(rng: np.random.Generator, names: Sequence[str], rows: int = 14) -> list[Meeting]:
    """Random duels, with wins of either side and ties among them, in no order of names."""
    made = [Meeting(names[0], names[1], 1), Meeting(names[1], names[0], 1)]
    made += [Meeting(names[0], names[2], -1), Meeting(names[2], names[1], 0)]
    for _ in range(rows):
        first, second = rng.choice(len(names), 2, replace=False)
        made.append(Meeting(names[first], names[second], int(rng.integers(-1, 2))))
    return made


def of_duels(made: Sequence[Meeting]) -> Counter[tuple[Any, ...]]:
    return Counter(meeting.event for meeting in made)


def verdict_of(meeting: Meeting, words: Sequence[str | None]) -> str:
    word = {1: words[0], -1: words[1], 0: words[2]}[meeting.way]
    return word if word is not None else meeting.first if meeting.way > 0 else meeting.second


def two_sided(
    made: Sequence[Meeting], sides: Sequence[str], verdict: str, words: Sequence[str | None]
) -> pd.DataFrame:
    return pd.DataFrame(
        [(m.first, m.second, verdict_of(m, words)) for m in made], columns=[*sides, verdict]
    )


def with_verdicts(rng: np.random.Generator, made: Sequence[Meeting]) -> Iterator[Written]:
    """Every naming of sides with every vocabulary; the names of columns are one more."""
    for i, sides in enumerate(SIDES):
        for j, words in enumerate((*VERDICTS, (*sides, "tie"))):
            verdict = OUTCOMES[(i + j) % len(OUTCOMES)]
            frame = shuffled(rng, two_sided(made, sides, verdict, words))
            yield Written(f"{sides} {verdict}: {words}", frame, {})


def with_scores(rng: np.random.Generator, made: Sequence[Meeting]) -> Iterator[Written]:
    """Both scores, the higher one of whoever won."""
    for sides, scores, lower in (
        (("home_team", "away_team"), ("home_score", "away_score"), False),
        (("HomeTeam", "AwayTeam"), ("FTHG", "FTAG"), False),
        (("model_a", "model_b"), ("score_a", "score_b"), False),
        (("player1", "player2"), ("points1", "points2"), True),
        (("team.Home", "team.Visitor"), ("points.Home", "points.Visitor"), False),
    ):
        rows = []
        for m in made:
            low = int(rng.integers(0, 4))
            high = low + int(rng.integers(1, 4))
            both = (low, low) if m.way == 0 else (high, low) if m.way > 0 else (low, high)
            rows.append((m.first, m.second, *(both[::-1] if lower else both)))
        options = {"lower_wins": True} if lower else {}
        frame = pd.DataFrame(rows, columns=[*sides, *scores])
        yield Written(f"{sides} {scores}", shuffled(rng, frame), options)
        verdict = [verdict_of(m, ("H", "A", "D")) for m in made]
        both = frame.assign(result=verdict)
        yield Written(f"{sides} {scores} and result", shuffled(rng, both), options)


def with_counts(rng: np.random.Generator, made: Sequence[Meeting]) -> Iterator[Written]:
    """A row for each pair, with how often each side won, and neither did."""
    often: dict[tuple[str, str], list[int]] = {}
    for m in made:
        one, other = sorted((m.first, m.second), key=lambda name: name[::-1])
        row = often.setdefault((one, other), [0, 0, 0])
        row[2 if m.way == 0 else 0 if (m.way > 0) == (m.first == one) else 1] += 1
    for sides, wins, equal in (
        (("player1", "player2"), ("wins1", "wins2"), "ties"),
        (("i", "j"), ("w_ij", "w_ji"), "t_ij"),
        (("home.team", "away.team"), ("home.wins", "away.wins"), "draws"),
        (("left", "right"), ("n_left", "n_right"), "n_equal"),
        (("item_a", "item_b"), ("wins_a", "wins_b"), "Ties"),
    ):
        frame = pd.DataFrame(
            [(*pair, *row) for pair, row in often.items()], columns=[*sides, *wins, equal]
        )
        yield Written(f"{sides} {wins}", shuffled(rng, frame), {})


def as_matrix(made: Sequence[Meeting]) -> pd.DataFrame:
    """Of wins alone: rows beat columns, with something on the diagonal."""
    names = sorted({name for m in made for name in (m.first, m.second)})
    wins = Counter(m.event for m in made if m.way)
    rows = {
        name: [9 if name == other else wins["win", other, name] for other in names]
        for name in names
    }
    return pd.DataFrame({"who": names, **rows})


def graded(
    rng: np.random.Generator, names: Sequence[str], words: Sequence[str]
) -> tuple[pd.DataFrame, Counter[tuple[Any, ...]]]:
    """Votes in words of grades: the first three for the first side, then a tie, then two."""
    rows, said = [], Counter()
    for k in [*range(6), *rng.integers(0, 6, 12)]:
        one, other = (names[j] for j in rng.choice(len(names), 2, replace=False))
        grade = 3 - int(k)
        rows.append((one, other, words[k]))
        sides = (one, other) if grade > 0 else (other, one) if grade < 0 else sorted((one, other))
        said[f"grade {abs(grade)}" if grade else "tie", *sides] += 1
    return pd.DataFrame(rows, columns=["item_a", "item_b", "preference"]), said


# ---- choices -------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """What was shown in one answer, in the order of the columns, and the order in which it was
    ranked: the first of it is the best one, the last of it the worst."""

    shown: tuple[str, ...]
    order: tuple[str, ...]


def answers(rng: np.random.Generator, names: Sequence[str], rows: int = 9) -> list[Seen]:
    made = []
    for i in range(rows):
        size = 3 if i % 3 else len(names)
        shown = [names[j] for j in rng.permutation(len(names))[:size]]
        made.append(Seen(tuple(shown), tuple(shown[j] for j in rng.permutation(size))))
    # Every position, letter and column is the best one once.
    first, *others = names
    for k in range(3):
        shown = (*others[:k], first, *others[k:])
        order = (first, *others) if k != 1 else (*others[:1], first, *others[1:])
        made.append(Seen(shown, order))
    return made


def of_choices(made: Sequence[Seen]) -> Counter[tuple[Any, ...]]:
    return Counter(
        ("choice", seen.order[0], *sorted(set(seen.shown) - {seen.order[0]})) for seen in made
    )


def of_best_worst(made: Sequence[Seen]) -> Counter[tuple[Any, ...]]:
    return Counter(
        ("best_worst", seen.order[0], *sorted(seen.order[1:-1]), seen.order[-1]) for seen in made
    )


def of_rankings(made: Sequence[Seen]) -> Counter[tuple[Any, ...]]:
    return Counter(("ranking", *seen.order) for seen in made)


STEMS = ("option_{}", "item{}", "alt {}", "variety_{letter}", "Product-{}", "candidate.{}")


def options_of(made: Sequence[Seen], stem: str) -> tuple[list[str], pd.DataFrame]:
    most = max(len(seen.shown) for seen in made)
    columns = [stem.format(k + 1, letter="abcdefgh"[k]) for k in range(most)]
    rows = [[*seen.shown, *[""] * (most - len(seen.shown))] for seen in made]
    return columns, pd.DataFrame(rows, columns=columns)


def code_of(how: str, item: str, shown: Sequence[str], columns: Sequence[str]) -> str:
    """How somebody may have written which one it was."""
    k = shown.index(item)
    return {
        "name": item,
        "position": str(k + 1),
        "from 0": str(k),
        "letter": "ABCDEFGH"[k],
        "column": columns[k],
    }[how]


CODES = ("name", "position", "from 0", "letter", "column")


def wide(rng: np.random.Generator, made: Sequence[Seen], marks: Sequence[str]) -> Iterator[Written]:
    """Options in columns; what was marked by name, position, letter or column."""
    for stem in STEMS:
        for how in CODES:
            columns, frame = options_of(made, stem)
            for mark in marks:
                frame[mark] = [
                    code_of(how, seen.order[-1 if mark == "worst" else 0], seen.shown, columns)
                    for seen in made
                ]
            yield Written(f"{stem} by {how}", shuffled(rng, frame), {})


def long(
    rng: np.random.Generator,
    made: Sequence[Seen],
    names: Sequence[str],
    yes: Sequence[Any] = (0, 1),
) -> pd.DataFrame:
    """A row for each alternative: its set, its item, its place, and whether it is the best, the
    worst, and either as 1, 0 and -1."""
    rows = []
    for i, seen in enumerate(made):
        for item in seen.shown:
            place = seen.order.index(item) + 1
            best, worst = place == 1, place == len(seen.order)
            score = 1 if best else -1 if worst else 0
            rows.append((f"s{i}", item, yes[best], yes[best], yes[worst], score, place))
    columns = ["set", "item", "chosen", "best", "worst", "score", "place"]
    frame = pd.DataFrame(rows, columns=columns)[["set", "item", *names]]
    return shuffled(rng, frame)


# ---- rankings ------------------------------------------------------------------------------------


def ranked(rng: np.random.Generator, made: Sequence[Seen], plain: bool) -> Iterator[Written]:
    """Places in columns, in one cell, as a matrix, and a row for each.

    :param plain: no name has a mark in it that stands between names.
    """
    most = max(len(seen.order) for seen in made)
    for stem in ("rank_{}", "rank{}", "Rank {}", "place_{}", "{}"):
        columns = [stem.format(k + 1) for k in range(most)]
        if stem == "{}":
            columns = ["1st", "2nd", "3rd", "4th"][:most]
        rows = [[*seen.order, *[""] * (most - len(seen.order))] for seen in made]
        yield Written(stem, shuffled(rng, pd.DataFrame(rows, columns=columns)), {})
    notations = {"json": json.dumps, " > ": " > ".join} | ({", ": ", ".join} if plain else {})
    for notation, write in notations.items():
        cells = pd.DataFrame({"ranking": [write(list(seen.order)) for seen in made]})
        yield Written(f"one cell, {notation}", cells, {})
    names = sorted({name for seen in made for name in seen.shown})
    places = {
        name: [seen.order.index(name) + 1 if name in seen.order else "" for seen in made]
        for name in names
    }
    options = {"kind": "rankings", "options": names}
    yield Written("matrix", shuffled(rng, pd.DataFrame(places)), options)
    stems = pd.DataFrame(places).rename(columns=lambda name: f"place.{name}")
    yield Written("matrix with a stem", stems, {"kind": "rankings", "options": ["place.*"]})
    rows = long(rng, made, ["place"]).rename(columns={"set": "ballot", "item": "candidate"})
    named = {"item_id": "candidate"}
    yield Written("a row for each", rows, {"kind": "rankings", "columns": named})
