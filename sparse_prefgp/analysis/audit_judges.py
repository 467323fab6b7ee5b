"""What an audit asks of judges: who errs more than others, calls ties more readily, or says the
opposite."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from sparse_prefgp.analysis.audit_families import FEWEST_VOTES, Family, Round, Size
from sparse_prefgp.analysis.audit_result import COUNTED
from sparse_prefgp.analysis.verdict_scores import (
    LOST,
    TIED,
    WON,
    Verdicts,
    efficient,
    tails,
    upper_tail,
)
from sparse_prefgp.data.answers import Codes
from sparse_prefgp.support.arrays import BoolArray, FloatArray
from sparse_prefgp.support.words import counted

# Of the information of all judges, what that of all but one is at least where they say something.
_OTHERS = 1e-9


class Noises(Family):
    """How much noisier each judge is than all others."""

    kind, unit = "careless", "times the noise variance of others"
    advises = "Look at the votes of {}, or leave them out: they say little."
    unasked = f"no two judges have {FEWEST_VOTES} votes that are not all ties"
    of_judges = True
    which: ClassVar[int] = 0

    def __init__(self, judge: Codes, has_margin: bool) -> None:
        super().__init__()
        self._names, self._has_margin = judge.names, has_margin
        asked = "noise" if self.which == 0 else "ties"
        self.what = f"{self.kind}: {asked} of each of {len(self._names):,} judges"

    def _ask(self, now: Round) -> FloatArray:
        judge, size = now.judges
        verdicts, sums = now.at_common, now.sums_at_common
        scores = efficient(verdicts, sums, judge, self.which, self._has_margin)
        # The common values are those of the judge too: beside those of all others, which are not
        # known for certain either, the sum and its variance are both larger.
        own = now.own_noise | now.own_margin
        information = np.bincount(judge, (verdicts.p * scores**2).sum(0) * now.counts, size)
        total = information[~own].sum()
        others = total - np.where(own, 0.0, information)
        share = information / np.where(others > _OTHERS * total, others, np.nan)
        stretch = np.where(own, 1.0 / np.sqrt(1.0 + share), np.sqrt(1.0 + share))
        p = tails(
            scores, verdicts.p, now.said, now.counts, judge, stretch, one_sided=self.which == 0
        )
        step, covariance = now.steps
        self.number, self.sd = step[self.which], np.sqrt(covariance[:, self.which, self.which])
        told = np.bincount(judge, now.counts, size) >= FEWEST_VOTES
        return np.where(told & np.isfinite(self.sd), p, np.nan)

    def parts(self, test: int) -> tuple[Any, ...]:
        return self._names[test], "more" if self.number[test] > 0.0 else "less"

    def size(self, test: int, level: float) -> Size:
        return Size.factor(self.number[test], self.sd[test], level)

    def settle(self, now: Round, test: int) -> Round:
        own = [now.own_noise.copy(), now.own_margin.copy()]
        own[self.which][test] = True
        return Round(now.board, *own)


class Margins(Noises):
    """How readily each judge calls a tie, next to all others."""

    kind, unit = "tie", "times the margin of others"
    advises = "Say to all judges what a tie is: {} calls ties {} readily than others."
    which = 1


class TieAll(Family):
    """Judges who called everything a tie, of whom no margin is known: how rare that is at the noise
    and the margin of the others."""

    kind, how, unit = "tie", COUNTED, "share of ties"
    advises = (
        "Say to all judges what a tie is, or leave the votes of {} out: {:.0%} of ties were "
        "expected."
    )
    of_judges = True

    def __init__(self, judge: Codes, who: BoolArray) -> None:
        """:param who: (J,) these."""
        super().__init__()
        self._judge, self._who = judge, who
        self.what = f"tie: {counted(int(who.sum()), 'judge')} who called everything a tie"

    def _ask(self, now: Round) -> FloatArray:
        judge, size = now.judges
        log_p = Verdicts.of(*now.board.cavities, *now.common).log_p[TIED]
        self._votes = np.bincount(judge, now.counts, size)
        self._expected = np.bincount(judge, np.exp(log_p) * now.counts, size)
        asked = self._who & (self._votes > 0)
        return np.where(asked, np.exp(np.bincount(judge, log_p * now.counts, size)), np.nan)

    def parts(self, test: int) -> tuple[Any, ...]:
        return self._judge.names[test], self._expected[test] / self._votes[test]

    def size(self, test: int, level: float) -> Size:
        return Size.share(self._votes[test], self._votes[test], level)


class Reversals(Family):
    """Judges who say the opposite of all others: whether they agree with the board without their
    votes less often than by chance.

    Such a judge is first of all one whose votes say little (`Noises`): it is asked of those alone.
    """

    kind, how, unit = "reversed", COUNTED, "agreement with others"
    by_itself = False
    advises = (
        "Look whether the sides of {} were swapped, and turn these votes round or leave them out: "
        "the noise lets expect an agreement of {:.0%}."
    )
    of_judges = True

    def __init__(self, judge: Codes) -> None:
        super().__init__()
        self._judge = judge
        self.noisy: list[int] = []
        """The judges of whom it is asked."""
        judges = len(judge.names)
        self.what = f"reversed: whether those of {judges:,} judges who say little agree with others"

    def _ask(self, now: Round) -> FloatArray:
        board, size = now.board, now.judges[1]
        p = np.full(size, np.nan)
        self._of, self._seen, self._expected = np.zeros((3, size))
        for who in self.noisy:
            rows, mean, variance = board.by_others(who)
            if now.counts[rows].sum() < FEWEST_VOTES:
                continue
            self._of[who], self._seen[who], self._expected[who] = board.agreement(who)
            spread = variance + board.lean_variance * board.lean_columns[rows] ** 2
            log_p = Verdicts.of(mean, spread, *now.common).log_p
            weight = np.repeat(log_p[WON] - log_p[LOST], now.counts[rows])
            # Whoever agrees by chance says either with ½; who agrees more, even less often less.
            coin = np.full((2, len(weight)), 0.5)
            p[who] = upper_tail(np.stack([weight, -weight]), coin, float(-weight.sum()))
        return p

    def parts(self, test: int) -> tuple[Any, ...]:
        return self._judge.names[test], self._expected[test]

    def size(self, test: int, level: float) -> Size:
        return Size.share(self._seen[test], self._of[test], level)

    def settle(self, now: Round, test: int) -> Round:
        return replace(now, board=now.board.without(self._judge.numbers == test))
