"""What a model of utilities in time must beat: Elo's ratings, whose constants are learned.

Elo (1978), The rating of chessplayers, past and present: after a match the winner takes K times the
probability that was not expected from the loser. With ties it is Davidson (1970), On extending the
Bradley-Terry model to accommodate ties, with d the difference of the ratings and of what is said of
the sides,

    P(win) ∝ exp(d / 2)      P(tie) ∝ ν      P(loss) ∝ exp(-d / 2)

and K times the slope of log P by d is what changes hands. Ratings are in units of the logit, where
400 points of chess are log 10. Matches of one date are forecast before any of them counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from sparse_prefgp.data.answers import TIE, Answers
from sparse_prefgp.support.arrays import FloatArray

# log K and log ν begin here; K of chess is 10 to 40 points of 400 / log 10.
_BEGIN_RATE, _BEGIN_TIE = log(0.15), log(0.5)
SKIPPED = 0.5
# log K, at most.
_LARGEST_RATE = log(5.0)


@dataclass(frozen=True, eq=False)
class Elo:
    """Ratings and the constants by which they move."""

    rate: float
    """K, in units of the logit."""
    advantages: FloatArray
    """(C,) what each column is worth, in units of the logit."""
    tie: float
    """ν; 0 where there are no ties."""
    ratings: FloatArray
    """(n,) after the last match."""

    @classmethod
    def learned(cls, matches: Answers, num_items: int, skipped: float = SKIPPED) -> Elo:
        """K, what the columns are worth and ν that forecast best, one date ahead.

        Ratings begin at 0 before the first match; the slopes are exact.

        :param matches: t wins and ties between items, in the order of their dates; what is said of
            the sides are covariates, as home of 1, -1, 0.
        :param num_items: n, how many items there are, some of which may not have played.
        :param skipped: share of the matches, the first ones, whose forecasts do not count: while
            nobody is known K should be larger than later on.
        """
        ties, columns = matches.ties is not None, len(matches.covariate_names)
        begin = np.r_[_BEGIN_RATE, np.zeros(columns), [_BEGIN_TIE] * ties]
        since = int(skipped * len(matches))
        total = matches.totals[since:].sum()

        def loss(at: FloatArray) -> tuple[float, FloatArray]:
            run = _run(matches, at, ties, np.zeros(num_items), since)
            return run.loss / total, run.slope / total

        # Where the better side always wins no K is too large; none is of use beyond some logits.
        bounds = [(None, _LARGEST_RATE), *[(None, None)] * (len(begin) - 1)]
        options = {"maxiter": 100}
        found = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        run = _run(matches, found.x, ties, np.zeros(num_items), since)
        tie = exp(found.x[-1]) if ties else 0.0
        return cls(exp(found.x[0]), found.x[1 : 1 + columns], tie, run.ratings)

    def ahead(self, matches: Answers) -> FloatArray:
        """Forecasts of later matches, each from the results of all dates before its own.

        :return: (t, 3) probabilities that the first side wins, of a tie, that the second one wins,
            where the first is who won.
        """
        return self._forecasts(matches, log(self.rate))

    def frozen(self, matches: Answers) -> FloatArray:
        """The same from the ratings as they are."""
        return self._forecasts(matches, -inf)

    def _forecasts(self, matches: Answers, log_rate: float) -> FloatArray:
        at = np.r_[log_rate, self.advantages, [log(self.tie)] if self.tie else []]
        return _run(matches, at, bool(self.tie), self.ratings).probabilities


class _Run(NamedTuple):
    ratings: FloatArray
    loss: float
    slope: FloatArray
    probabilities: FloatArray


def _run(
    matches: Answers, at: FloatArray, ties: bool, begin: FloatArray, since: int | None = None
) -> _Run:
    """One pass over the matches.

    :param at: log K, what the columns are worth, log ν if there are ties.
    :param begin: (n,) ratings before.
    :param since: the match from which on the loss and its slope by `at`, which goes forward with
        the ratings, count; None where neither is wanted.
    """
    # Plain numbers: a match is a handful of products, which arrays would make ten times as slow.
    size = 0 if since is None else len(at)
    every = range(size)
    rate, log_nu = exp(at[0]), at[-1] if ties else -inf
    nu = exp(log_nu)
    columns, number = matches.covariate_differences, len(matches.covariate_names)
    columns = np.zeros((len(matches), 0)) if columns is None else columns
    offset, said = (columns @ at[1 : 1 + number]).tolist(), columns.tolist()
    half = np.where(matches.kind == TIE, 0.5, 1.0).tolist()
    count = matches.totals.tolist()
    ratings, slopes = begin.tolist(), [[0.0] * size for _ in begin]
    loss, slope = 0.0, [0.0] * size
    forecasts = np.empty((len(matches), 3))
    assert matches.time is not None
    ends = np.r_[np.flatnonzero(np.diff(matches.time)) + 1, len(matches)].tolist()
    winners, losers = matches.pairs.T.tolist()
    low = 0
    for high in ends:
        moves = []
        for i in range(low, high):
            a, b, s, weight = winners[i], losers[i], half[i], count[i]
            d = ratings[a] - ratings[b] + offset[i]
            most = abs(d) / 2  # taken off all three exponents, none of which overflows then
            up, middle, down = exp(d / 2 - most), nu * exp(-most), exp(-d / 2 - most)
            total = up + middle + down
            log_total = most + log(total)
            up, middle, down = up / total, middle / total, down / total
            forecasts[i] = up, middle, down
            counted = weight * (since is not None and i >= since)
            loss -= counted * ((d / 2 if s == 1.0 else log_nu) - log_total)
            error = s - 0.5 - 0.5 * (up - down)  # the slope of log P by d
            change = weight * rate * error
            by_rating = -0.25 * (up + down - (up - down) ** 2)
            moved = []
            for j in every:
                of_d = slopes[a][j] - slopes[b][j]
                if 0 < j <= number:
                    of_d += said[i][j - 1]
                of_error = by_rating * of_d
                slope[j] -= counted * error * of_d
                if ties and j == size - 1:
                    slope[j] -= counted * ((s == 0.5) - middle)
                    of_error += 0.5 * (up - down) * middle
                moved.append(weight * rate * of_error + (change if j == 0 else 0.0))
            moves.append((a, b, change, moved))
        for a, b, change, moved in moves:
            ratings[a] += change
            ratings[b] -= change
            for j in every:
                slopes[a][j] += moved[j]
                slopes[b][j] -= moved[j]
        low = high
    return _Run(np.array(ratings), loss, np.array(slope), forecasts)
