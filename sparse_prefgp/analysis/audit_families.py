"""What an audit asks of a board: families of tests of one kind each, one step from the fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import betaincinv, ndtr, ndtri

from sparse_prefgp.analysis.board_votes import Votes
from sparse_prefgp.analysis.one_step import Board
from sparse_prefgp.analysis.verdict_scores import (
    TIED,
    WON,
    Sums,
    Verdicts,
    at_least,
    pooled,
)
from sparse_prefgp.data.answers import Codes
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

# Fewer votes say too little for the tails of a normal.
FEWEST_VOTES = 10
# Pairs, and triples of models, that are asked about: those with most votes where there are more.
MOST_PAIRS, MOST_TRIPLES = 20_000, 100_000
# Groups of votes that are left out, one linear system each, where they are not those of judges.
MOST_LEFT_OUT = 100

UTILITY = "utility"


class Size(NamedTuple):
    """How large a finding is."""

    value: float
    lower: float
    upper: float
    unit: str

    @classmethod
    def normal(cls, value: float, sd: float, level: float, unit: str) -> Size:
        half = float(ndtri(0.5 + 0.5 * level)) * sd
        return cls(float(value), float(value - half), float(value + half), unit)

    @classmethod
    def factor(cls, log: float, sd: float, level: float, unit: str) -> Size:
        """Of a number whose logarithm is normal."""
        ends = cls.normal(log, sd, level, unit)
        value, lower, upper = np.exp(ends[:3]).tolist()
        return cls(value, lower, upper, unit)

    @classmethod
    def share(cls, seen: int, of: int, level: float, unit: str) -> Size:
        """Of a share, with the exact interval (Clopper & Pearson 1934)."""
        tail = 0.5 - 0.5 * level
        low = 0.0 if seen == 0 else float(betaincinv(seen, of - seen + 1, tail))
        high = 1.0 if seen == of else float(betaincinv(seen + 1, of - seen, 1.0 - tail))
        return cls(seen / of, low, high, unit)


@dataclass(frozen=True, eq=False)
class Round:
    """A board, and what families share of it."""

    board: Board
    own_noise: BoolArray
    """(J,) judges whose noise is known to be another than that of the others."""
    own_margin: BoolArray
    """(J,) the same of the margin."""

    @cached_property
    def said(self) -> IntArray:
        """(t,) which verdict each vote is."""
        return np.where(self.board.votes.tied, TIED, WON)

    @cached_property
    def counts(self) -> IntArray:
        """(t,) how often each vote that counts was said."""
        return self.board.votes.counts * self.board.kept

    @cached_property
    def judges(self) -> tuple[IntArray, int]:
        """(t,) the judge of each vote, and how many there are."""
        judge = self.board.votes.judge
        assert judge is not None
        return judge.numbers.astype(np.int64), len(judge.names)

    @cached_property
    def common(self) -> tuple[float, float | None]:
        """Noise and margin of the judges who have none of their own."""
        own = self.own_noise | self.own_margin
        some = self.board.kept & ~own[self.judges[0]]
        mean, variance = (x[some] for x in self.board.cavities)
        return pooled(mean, variance, self.said[some], self.counts[some], *self.board.votes.common)

    @cached_property
    def at_common(self) -> Verdicts:
        """Verdicts of all votes at these, or at the own ones of their judges."""
        mean, variance = self.board.cavities
        noise, margin = self.common
        step = self._from_fitted[0]
        own = self.board.votes.noise * np.exp(step[0])
        each = np.where(self.own_noise, own, noise)[self.judges[0]]
        box = None
        if margin is not None and self.board.votes.margin is not None:
            own = self.board.votes.margin * np.exp(step[1])
            box = np.where(self.own_margin, own, margin)[self.judges[0]]
        return Verdicts.of(mean, variance, each, box)

    @cached_property
    def as_fitted(self) -> Verdicts:
        """Verdicts of all votes at the noise and margin of their judges."""
        votes = self.board.votes
        place, margin = votes.by_judge, votes.margin
        box = None if margin is None else margin[place]
        return Verdicts.of(*self.board.cavities, votes.noise[place], box)

    @cached_property
    def sums_at_common(self) -> Sums:
        return Sums.of(self.at_common, self.said, self.counts, *self.judges)

    @cached_property
    def _from_fitted(self) -> tuple[FloatArray, FloatArray]:
        votes = self.board.votes
        sums = Sums.of(self.as_fitted, self.said, self.counts, *self.judges)
        return sums.steps(votes.margin is not None)

    @cached_property
    def steps(self) -> tuple[FloatArray, FloatArray]:
        """Log noise and log margin of each judge over the common ones, (2, J), by one step from
        what was fitted, and their covariance (J, 2, 2)."""
        votes, (step, covariance) = self.board.votes, self._from_fitted
        noise, margin = self.common
        at = np.zeros_like(step)
        at[0] = np.log(votes.noise / noise)
        if votes.margin is not None and margin is not None:
            at[1] = np.log(votes.margin / margin)
        return at + step, covariance


class Family(ABC):
    """Tests of one kind, of which some may be settled: found, or no longer to be asked."""

    kind: str
    what: str
    """What is looked at, in words."""
    at_once: ClassVar[bool] = True
    """Whether one finding throws no shadow on another of the family."""
    p: FloatArray
    """(k,) of the last round; NaN of what is not asked."""

    def __init__(self) -> None:
        self.settled: set[int] = set()

    @property
    def of_judges(self) -> bool:
        """Whether its tests are the judges, in their order."""
        return False

    @abstractmethod
    def _ask(self, now: Round) -> FloatArray:
        """p of each test, (k,)."""

    def ask(self, now: Round) -> FloatArray:
        """p of each test, (k,), NaN of those that are settled or say too little."""
        self.p = np.array(self._ask(now), dtype=float)
        self.p[list(self.settled)] = np.nan
        return self.p

    @abstractmethod
    def about(self, test: int) -> str:
        """Whom or what a test is about."""

    @abstractmethod
    def size(self, test: int, level: float) -> Size:
        """How large it is by one step."""

    @abstractmethod
    def advice(self, test: int) -> str:
        """What to do, one sentence."""

    def column(self, board: Board, test: int) -> sparse.csr_array | None:
        """(t, 1) the column of a finding, for its size by a fit; None where it has none."""
        del board, test
        return None

    def settle(self, board: Board, test: int) -> Board:
        """The board in which a finding counts."""
        column = self.column(board, test)
        return board if column is None else board.with_column(column)

    def sign(self, test: int) -> float:
        """By which the number of the column of a finding is multiplied for its size."""
        del test
        return 1.0

    def beside(self, test: int) -> tuple[str, str, str] | None:
        """The lean of the board next to the column of a finding, by its covariate, its
        column of labels and its label; None where there is none."""
        del test
        return None


class Fitted(Family):
    """Coefficients of covariates that the board has."""

    def __init__(self, votes: Votes, kind: str, places: Sequence[int]) -> None:
        super().__init__()
        self.kind, self._places = kind, list(places)
        self._names = [votes.covariate_names[i] for i in places]
        self.what = f"{kind}: {', '.join(self._names)}, the coefficient of the board"

    def _ask(self, now: Round) -> FloatArray:
        mean, variance = (x[self._places] for x in now.board.coefficients())
        self._found = mean, np.sqrt(variance)
        return np.asarray(2.0 * ndtr(-np.abs(mean) / self._found[1]))

    def about(self, test: int) -> str:
        return self._names[test]

    def size(self, test: int, level: float) -> Size:
        return Size.normal(self._found[0][test], self._found[1][test], level, UTILITY)

    def advice(self, test: int) -> str:
        if self.kind == "side":
            return "Show each pair both ways round; the board compares at equal side."
        return f"Read the board at equal {self._names[test]}, as it stands."


class Pairs(NamedTuple):
    """Pairs of models that met, those with most votes where there are very many."""

    ends: IntArray
    """(P, 2), the lower first."""
    of_vote: IntArray
    """(t,) the pair of each vote, -1 for one that is left out."""
    met: int
    """How many pairs met."""

    @classmethod
    def of(cls, votes: Votes) -> Pairs:
        ends, _ = votes.pairs
        found, number = np.unique(ends, axis=0, return_inverse=True)
        number = number.reshape(-1)
        counts = np.bincount(number, votes.counts)
        kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_PAIRS])
        place = np.full(len(found), -1)
        place[kept] = np.arange(len(kept))
        return cls(found[kept], place[number], len(found))

    def columns(self, votes: Votes) -> sparse.csr_array:
        """(t, P), 1 where the lower one won and -1 where the other did."""
        sign = votes.pairs[1]
        rows = np.flatnonzero(self.of_vote >= 0)
        where = rows, self.of_vote[rows]
        return sparse.csr_array((sign[rows].astype(float), where), (len(sign), len(self.ends)))

    def triples(self, votes: Votes) -> tuple[IntArray, IntArray]:
        """(T, 3) models of which all three pairs met, and (T, 3) these pairs: first and second,
        second and third, first and third."""
        models = len(votes.names)
        place = np.full((models, models), -1)
        place[self.ends[:, 0], self.ends[:, 1]] = np.arange(len(self.ends))
        met = place >= 0
        found = []
        for first, second in self.ends.tolist():
            third = np.flatnonzero(met[first] & met[second])
            found.append(np.stack(np.broadcast_arrays(first, second, third), 1))
        triples = np.concatenate(found) if found else np.zeros((0, 3), dtype=np.int64)
        x, y, z = triples.T
        pairs = np.stack([place[x, y], place[y, z], place[x, z]], 1)
        if len(triples) > MOST_TRIPLES:
            known = self.of_vote >= 0
            counts = np.bincount(self.of_vote[known], votes.counts[known], len(self.ends))
            fewest = counts[pairs].min(1)
            most = np.sort(np.argsort(-fewest, kind="stable")[:MOST_TRIPLES])
            triples, pairs = triples[most], pairs[most]
        return triples, pairs


class Duplicates(Family):
    """Pairs of models that tie more often than their utilities and judges let expect."""

    kind = "duplicate"

    def __init__(self, votes: Votes, pairs: Pairs, rng: np.random.Generator) -> None:
        super().__init__()
        self._names, self._pairs = votes.names, pairs
        self._draw = rng.uniform(size=len(pairs.ends))
        which = "" if pairs.met == len(pairs.ends) else f" with most votes of {pairs.met:,}"
        self.what = f"duplicate: ties of {len(pairs.ends):,} pairs of models{which}"

    def _ask(self, now: Round) -> FloatArray:
        votes, of = now.board.votes, self._pairs.of_vote
        rows = np.repeat(np.flatnonzero(of >= 0), now.counts[of >= 0])
        p_tie = now.as_fitted.p[TIED, rows]
        size, tied = len(self._pairs.ends), votes.tied[rows]
        self._seen = np.bincount(of[rows], tied, size).astype(np.int64)
        self._votes = np.bincount(of[rows], minlength=size)
        self._expected = np.bincount(of[rows], p_tie, size)
        found = at_least(p_tie, of[rows], tied, size, self._draw)
        return np.where(self._votes > 0, found, np.nan)

    def about(self, test: int) -> str:
        return " and ".join(str(self._names[i]) for i in self._pairs.ends[test])

    def size(self, test: int, level: float) -> Size:
        return Size.share(int(self._seen[test]), int(self._votes[test]), level, "share of ties")

    def advice(self, test: int) -> str:
        expected = self._expected[test] / self._votes[test]
        return (
            f"Look whether one is the other under another name, and merge them: {expected:.0%} of "
            "ties were expected."
        )

    def settle(self, board: Board, test: int) -> Board:
        return board.without(self._pairs.of_vote == test)


class LeftOut(Family):
    """Whether the board without some votes is another one than chance lets it be.

    What votes move is a normal of the variance by which they lessen that of the posterior.
    """

    kind = "left_out"

    def __init__(self, votes: Votes, judges: Codes | None, categories: Codes | None) -> None:
        super().__init__()
        self._names, self._groups, nouns = votes.names, [], []
        for labels, noun in ((judges, "judges"), (categories, "categories")):
            if labels is None or len(labels.names) < 2:
                continue
            counts = np.bincount(labels.numbers, votes.counts, len(labels.names))
            enough = np.flatnonzero(counts >= FEWEST_VOTES)
            if labels is not judges:
                most = np.argsort(-counts[enough], kind="stable")[:MOST_LEFT_OUT]
                enough = np.sort(enough[most])
            self._groups += [(labels, label, labels is judges) for label in enough.tolist()]
            nouns.append(f"{len(enough):,} {noun}")
        self.tests_of_judges = [
            (test, label) for test, (_, label, whole) in enumerate(self._groups) if whole
        ]
        """Tests that are about judges, and the judge of each."""
        self.what = f"left out: the board without each of {' and '.join(nouns)}"

    def _ask(self, now: Round) -> FloatArray:
        size, board = len(self._groups), now.board
        p, self._move, self._sd = (np.full(size, np.nan) for _ in range(3))
        self._model = np.zeros(size, dtype=np.int64)
        mean, variance = board.utilities()
        for test, (labels, label, of_judge) in enumerate(self._groups):
            here = (labels.numbers == label) & board.kept
            if not here.any() or test in self.settled:
                continue
            left = board.without_judge(label) if of_judge else board.without(here).posterior
            without, wider = board.utilities(left)
            told = np.maximum(wider - variance, 0.0)  # below 0 by rounding alone
            moved = mean - without
            z = np.divide(moved, np.sqrt(told), out=np.zeros_like(moved), where=told > 0.0)
            model = int(np.argmax(np.abs(z)))
            p[test] = min(1.0, len(z) * 2.0 * float(ndtr(-abs(z[model]))))
            self._model[test] = model
            self._move[test], self._sd[test] = moved[model], np.sqrt(told[model])
        return p

    def about(self, test: int) -> str:
        labels, label, _ = self._groups[test]
        return f"{labels.names[label]}, for {self._names[self._model[test]]}"

    def size(self, test: int, level: float) -> Size:
        return Size.normal(self._move[test], self._sd[test], level, f"{UTILITY} moved")

    def advice(self, test: int) -> str:
        labels, label, _ = self._groups[test]
        model = self._names[self._model[test]]
        return f"Look at the battles of {model} in {labels.names[label]}: others say otherwise."
