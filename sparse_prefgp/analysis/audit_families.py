"""What an audit asks of a board: families of tests of one kind each, one step from the fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtr, ndtri

from sparse_prefgp.analysis.audit_result import COUNTED, FITTED, ONE_STEP, Finding
from sparse_prefgp.analysis.board_votes import Votes
from sparse_prefgp.analysis.one_step import Board
from sparse_prefgp.analysis.verdict_scores import (
    TIED,
    WON,
    Sums,
    Verdicts,
    at_least,
    ends_of_share,
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
    ends: tuple[float, float]

    @classmethod
    def normal(cls, value: float, sd: float, level: float) -> Size:
        half = float(ndtri(0.5 + 0.5 * level)) * sd
        return cls(float(value), (float(value - half), float(value + half)))

    @classmethod
    def factor(cls, log: float, sd: float, level: float) -> Size:
        """Of a number whose logarithm is normal."""
        value, ends = cls.normal(log, sd, level)
        value, lower, upper = np.exp([value, *ends]).tolist()
        return cls(value, (lower, upper))

    @classmethod
    def share(cls, seen: float, of: float, level: float) -> Size:
        """Of a share."""
        lower, upper = ends_of_share(seen, of, level)
        return cls(seen / of, (float(lower), float(upper)))


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
        return judge.numbers, len(judge.names)

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
        votes, (judge, _) = self.board.votes, self.judges
        each = zip(
            (self.own_noise, self.own_margin),
            (votes.noise, votes.margin),
            self._from_fitted[0],
            self.common,
            strict=True,
        )
        at: list[Any] = [
            None if common is None else np.where(is_own, fitted * np.exp(step), common)[judge]
            for is_own, fitted, step, common in each
        ]
        return Verdicts.of(*self.board.cavities, *at)

    @cached_property
    def sums_at_common(self) -> Sums:
        return Sums.of(self.at_common, self.said, self.counts, *self.judges)

    @cached_property
    def _from_fitted(self) -> tuple[FloatArray, FloatArray]:
        votes = self.board.votes
        sums = Sums.of(self.board.verdicts, self.said, self.counts, *self.judges)
        return sums.steps(votes.margin is not None)

    @cached_property
    def steps(self) -> tuple[FloatArray, FloatArray]:
        """Log noise and log margin of each judge over the common ones, (2, J), by one step from
        what was fitted, and their covariance (J, 2, 2)."""
        votes, (step, covariance) = self.board.votes, self._from_fitted
        at = np.zeros_like(step)
        for place, fitted in enumerate((votes.noise, votes.margin)):
            common = self.common[place]
            if fitted is not None and common is not None:
                at[place] = np.log(fitted / common)
        return at + step, covariance


class Family(ABC):
    """Tests of one kind, of which some may be settled: found, or no longer to be asked."""

    kind: str
    what: str
    """What is looked at, in words."""
    says: str = "{}"
    """Whom or what a test is about, and what to do, by its `parts`."""
    advises: str
    unit: str = UTILITY
    """What sizes are in."""
    how: ClassVar[str] = ONE_STEP
    """Where they are from."""
    by_itself: ClassVar[bool] = True
    """Whether findings throw shadows on others of the family alone, which is then asked by itself
    until it finds no more."""
    unasked: str = f"nothing has {FEWEST_VOTES} votes"
    """Why there is no test, where there is none."""
    tests: Sequence[tuple[Any, ...]]
    """The names of each, where nothing else is said."""
    of_judges: bool = False
    """Whether its tests are the judges, in their order."""
    p: FloatArray
    """(k,) of the last round; NaN of what is not asked."""
    number: FloatArray
    """(k,) what is asked whether it is 0, by one step."""
    sd: FloatArray
    """(k,) of it."""

    def __init__(self) -> None:
        self.settled: set[int] = set()

    @abstractmethod
    def _ask(self, now: Round) -> FloatArray:
        """p of each test, (k,)."""

    def ask(self, now: Round) -> FloatArray:
        """p of each test, (k,), NaN of those that are settled or say too little."""
        self.p = np.array(self._ask(now), dtype=float)
        self.p[list(self.settled)] = np.nan
        return self.p

    def _two_sided(self, number: FloatArray, sd: FloatArray) -> FloatArray:
        self.number, self.sd = number, sd
        return 2.0 * ndtr(-np.abs(number) / sd)

    def parts(self, test: int) -> tuple[Any, ...]:
        """Names, and what else is said of a test."""
        return self.tests[test]

    def size(self, test: int, level: float) -> Size:
        """How large it is by one step."""
        return Size.normal(self.number[test], self.sd[test], level)

    def finding(self, test: int, level: float) -> Finding:
        """A test that found something."""
        size, parts = self.size(test, level), self.parts(test)
        words = self.says.format(*parts), self.advises.format(*parts)
        p = float(self.p[test])
        return Finding(self.kind, words[0], size.value, size.ends, p, words[1], self.unit, self.how)

    def column(self, test: int) -> sparse.csr_array | None:
        """(t, 1) the column of a finding, for its size by a fit; None where it has none."""
        del test
        return None

    def settle(self, now: Round, test: int) -> Round:
        """What a finding makes of it."""
        column = self.column(test)
        return now if column is None else replace(now, board=now.board.with_column(column))

    def about_judge(self, judge: int) -> set[int]:
        """The tests that are about a judge."""
        return {judge} if self.of_judges else set()

    def beside(self, test: int) -> tuple[str, str, str] | None:
        """The lean of the board next to the column of a finding, by its covariate, its
        column of labels and its label; None where there is none."""
        del test
        return None


class Fitted(Family):
    """Coefficients of covariates that the board has."""

    how = FITTED

    def __init__(self, votes: Votes, kind: str, advises: str, places: Sequence[int]) -> None:
        super().__init__()
        self.kind, self.advises, self._places = kind, advises, list(places)
        names = [votes.covariate_names[i] for i in places]
        self.tests = [(name,) for name in names]
        self.what = f"{kind}: {', '.join(names)}, the coefficient of the board"

    def _ask(self, now: Round) -> FloatArray:
        mean, variance = (x[self._places] for x in now.board.coefficients())
        return self._two_sided(mean, np.sqrt(variance))


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
        found = [np.zeros((0, 3), dtype=np.int64)]
        for first, second in self.ends.tolist():
            third = np.flatnonzero(met[first] & met[second])
            found.append(np.stack(np.broadcast_arrays(first, second, third), 1))
        triples = np.concatenate(found)
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

    kind, how, unit = "duplicate", COUNTED, "share of ties"
    says = "{} and {}"
    advises = (
        "Look whether one is the other under another name, and merge them: {2:.0%} of ties were "
        "expected."
    )

    def __init__(self, votes: Votes, pairs: Pairs, rng: np.random.Generator) -> None:
        super().__init__()
        self._names, self._pairs = votes.names, pairs
        self._draw = rng.uniform(size=len(pairs.ends))
        which = "" if pairs.met == len(pairs.ends) else f" with most votes of {pairs.met:,}"
        self.what = f"duplicate: ties of {len(pairs.ends):,} pairs of models{which}"

    def _ask(self, now: Round) -> FloatArray:
        votes, of = now.board.votes, self._pairs.of_vote
        rows = np.repeat(np.flatnonzero(of >= 0), now.counts[of >= 0])
        p_tie = now.board.verdicts.p[TIED, rows]
        size, tied = len(self._pairs.ends), votes.tied[rows]
        self._seen, self._votes, self._expected = (
            np.bincount(of[rows], each, size) for each in (tied, None, p_tie)
        )
        found = at_least(p_tie, of[rows], tied, size, self._draw)
        return np.where(self._votes > 0, found, np.nan)

    def parts(self, test: int) -> tuple[Any, ...]:
        ends = (self._names[i] for i in self._pairs.ends[test])
        return (*ends, self._expected[test] / self._votes[test])

    def size(self, test: int, level: float) -> Size:
        return Size.share(self._seen[test], self._votes[test], level)

    def settle(self, now: Round, test: int) -> Round:
        return replace(now, board=now.board.without(self._pairs.of_vote == test))


class LeftOut(Family):
    """Whether the board without some votes is another one than chance lets it be.

    What votes move is a normal of the variance by which they lessen that of the posterior.
    """

    kind, unit = "left_out", f"{UTILITY} moved"
    says = "{}, for {}"
    advises = "Look at the battles of {1} in {0}: others say otherwise."

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
            nouns += [f"{len(enough):,} {noun}"] * (len(enough) > 0)
        self.what = f"left out: the board without each of {' and '.join(nouns) or 'some votes'}"

    def _ask(self, now: Round) -> FloatArray:
        board, p = now.board, np.full(len(self._groups), np.nan)
        self.number, self.sd = np.full((2, len(p)), np.nan)
        self._model = np.zeros(len(p), dtype=np.int64)
        mean, variance = board.utilities()
        for test, (labels, label, of_judge) in enumerate(self._groups):
            rows = board.votes.rows_of_judge[label] if of_judge else labels.numbers == label
            if not board.kept[rows].any() or test in self.settled:
                continue
            left = board.without_judge(label) if of_judge else board.without(rows).posterior
            without, wider = board.utilities(left)
            told = np.maximum(wider - variance, 0.0)  # below 0 by rounding alone
            moved = mean - without
            z = np.divide(moved, np.sqrt(told), out=np.zeros_like(moved), where=told > 0.0)
            model = self._model[test] = int(np.argmax(np.abs(z)))
            p[test] = min(1.0, len(z) * 2.0 * float(ndtr(-abs(z[model]))))
            self.number[test], self.sd[test] = moved[model], np.sqrt(told[model])
        return p

    def parts(self, test: int) -> tuple[Any, ...]:
        labels, label, _ = self._groups[test]
        return labels.names[label], self._names[self._model[test]]

    def about_judge(self, judge: int) -> set[int]:
        groups = enumerate(self._groups)
        return {test for test, (_, label, of_judge) in groups if of_judge and label == judge}
