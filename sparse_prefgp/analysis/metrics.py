"""Scores of predicted duels, of choices and rankings, and of utilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sparse_prefgp.data.forecast import CHOICES, DUELS, GRADES, OUTCOMES, RANKINGS
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.checks import check_choice, check_shape, numbers

# As tables for people call them.
MODEL, ONE_UTILITY = "model", "one_utility"  # the same model without tastes of one's own
# Of utilities in time: the same items with utilities that stay as they are; and from the results of
# all days before each duel, next to frozen forecasts.
WITHOUT_DATES = "without_dates"
AHEAD, ELO, ELO_AHEAD = "model_ahead", "elo", "elo_ahead"
# The key of how many there were.
COUNTED_AS = {DUELS: DUELS, OUTCOMES: DUELS, GRADES: DUELS, CHOICES: CHOICES, RANKINGS: "answers"}
# Keys of the standard error of a gain in a table of scores, and of what standard errors are over.
GAIN_SE, SE_OVER = "gain_se", "se_over"
# Bins of the calibration of ties and grades, each with as many duels.
TIE_BINS = 10
# Equal bins of confidence on [0.5, 1], or of the probability of an alternative on [0, 1].
CALIBRATION_BINS = 10
# Probabilities of duels that differ by no more are one, but for rounding.
EQUALLY_SURE = 1e-9
# Shares of the duels that are answered, the surest ones first.
ANSWERED = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
# Whoever gives a duel to the wrong side with more than this is confidently wrong.
CONFIDENT = 0.9

Score = dict[str, Any]


def score(
    log_probabilities: npt.ArrayLike,
    happened: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    of: str = "duels",
    groups: npt.ArrayLike | None = None,
    se_over: str = "groups",
) -> Score:
    """Score the probabilities that were given to what might happen, now that something has.

    Nothing is clipped: a probability of zero of what happened makes `nlp_nats` infinite.

    :param log_probabilities: (t, k) natural logarithms of the probability of each outcome, of which
        each row adds up to 1: -inf of alternatives that a set has not. Of duels and rankings (t,)
        suffice, of what happened alone.
    :param happened: (t,) the place of what happened, from 0; by default the first.
    :param counts: (t,) how often each was seen, positive; weights every figure. Default all 1.
    :param of: what is scored: `duels` that one side won, `outcomes` (that the winner, or either
        side of a tie, wins, ties or loses: 3 columns), `grades` (worst first), `choices` among
        alternatives, or `rankings` and other whole answers.
    :param groups: (t,) labels of what each is of, or (t, m) of several, such as both items; see
        `standard_error`.
    :param se_over: what the groups are called.
    :return: `nlp_nats` and `nlp_bits`, the mean negative log probability of what happened;
        `nlp_se`, the standard error of the first, NaN where it is not known, and `se_over`, what it
        is over; and how many there were, by the counts (`duels`, `choices` or `answers`). But for
        rankings `accuracy`, of choices called `hit_rate` (what happened had the largest
        probability; equal ones share), and `brier` (mean of the sum over outcomes of (p - 1 or 0)
        squared, Brier 1950; of duels half of it, (1 - p) squared). `calibration_error`: of duels
        the mean gap between confidence max(p, 1 - p) and accuracy over ten equal bins on [0.5, 1];
        of choices that between probability and share chosen over ten equal bins of an alternative's
        probability on [0, 1]; of grades the mean over them of that between predicted and observed
        share over ten bins of equally many duels by predicted probability. Of outcomes `tie_rate`,
        `predicted_tie_rate`, `tie_calibration_error` (as that of a grade) and `ties`. Of grades
        `mean_distance`, in levels, from the median of the prediction.
    :raises ValueError: nothing to score, arrays of another shape, what are not logarithms of
        probabilities that add up to 1, a place that there is not, counts that are not positive.
    """
    return _scored(_Seen.of(log_probabilities, happened, counts, of), of, groups, se_over)


def _scored(seen: _Seen, of: str, groups: npt.ArrayLike | None, se_over: str) -> Score:
    p, place, weights = seen.p, seen.place, seen.weights
    total, number = float(weights.sum()), COUNTED_AS[of]

    def mean(values: FloatArray | BoolArray) -> float:
        return float(weights @ values / total)

    nlp = -mean(seen.log_happened) + 0.0  # no minus sign on a perfect zero
    figures: Score = {
        "nlp_nats": nlp,
        "nlp_bits": nlp / float(np.log(2.0)),
        "nlp_se": standard_error(seen.log_happened, weights, groups),
        SE_OVER: number if groups is None else se_over,
        number: round(total),
    }
    if of == RANKINGS:
        return figures
    came_true = np.arange(p.shape[1]) == place[:, None]
    brier = mean(((p - came_true) ** 2).sum(1))
    figures["hit_rate" if of == CHOICES else "accuracy"] = mean(seen.right)
    figures["brier"] = 0.5 * brier if of == DUELS else brier
    if of == OUTCOMES:
        tied = came_true[:, 1]
        figures["tie_rate"] = mean(tied)
        figures["predicted_tie_rate"] = mean(p[:, 1])
        figures["tie_calibration_error"] = _gap(p[:, 1], tied, weights)
        figures["ties"] = round(float(weights @ tied))
    elif of == GRADES:
        gaps = [_gap(*one, weights) for one in zip(p.T, came_true.T, strict=True)]
        median = np.sum(np.cumsum(p, 1) < 0.5, 1)
        figures["calibration_error"] = float(np.mean(gaps))
        figures["mean_distance"] = mean(np.abs(median - place))
    else:
        figures["calibration_error"] = calibration_error(seen.bins(of))
    return figures


def score_each(
    log_probabilities: Mapping[str, FloatArray],
    happened: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    of: str = "duels",
    groups: npt.ArrayLike | None = None,
    se_over: str = "groups",
) -> dict[str, Score]:
    """`score` of several predictors, those of each rival with `gain_se`: the standard error of the
    mean difference between its log probabilities and those of the model, updating next to updating,
    where it is known.

    :param log_probabilities: by predictor; the others are as for `score`.
    """
    seen, found = {}, {}
    for name, values in log_probabilities.items():
        seen[name] = each = _Seen.of(values, happened, counts, of)
        found[name] = _scored(each, of, groups, se_over)
    for name, each in seen.items():
        who = AHEAD if name == ELO_AHEAD else MODEL
        if name in (who, AHEAD) or who not in seen:
            continue
        with np.errstate(invalid="ignore"):
            gain = seen[who].log_happened - each.log_happened
        error = standard_error(gain, each.weights, groups)
        if np.isfinite(error):
            found[name][GAIN_SE] = error
    return found


def standard_error(
    values: FloatArray, counts: npt.ArrayLike | None = None, groups: npt.ArrayLike | None = None
) -> float:
    """Standard error of the mean of values, NaN where it is not finite or of less than two groups.

    Values of one group are not independent (Liang & Zeger 1986). Where each is of several groups,
    those are not that have one in common, as duels of one item (Aronow, Samii & Assenova 2015). As
    few groups tell little, it is never below that of independent values (Angrist & Pischke 2009).

    :param values: (t,).
    :param counts: (t,) how often each was seen, positive; default all 1.
    :param groups: (t,) labels of the group of each, or (t, m) of several, as numbers of which -1 is
        none; by default each that was seen is by itself.
    :raises ValueError: groups of another shape.
    """
    weights = np.ones(len(values)) if counts is None else np.asarray(counts, dtype=np.float64)
    total = weights.sum()
    mean = weights @ values / total
    if not np.isfinite(mean):
        return np.nan
    left = weights * (values - mean)
    alone = _spread(left @ (values - mean), total)
    if groups is None:
        return float(np.sqrt(alone) / total)
    codes = _group_codes(groups, len(values))
    own, place = np.unique(codes, axis=0, return_inverse=True)
    sums, there = np.bincount(place.reshape(-1), left), own >= 0
    of_groups = np.bincount(own[there], np.broadcast_to(sums[:, None], own.shape)[there])
    # Values of the very same groups are counted in each of these, but are to count once.
    together = of_groups @ of_groups - (there.sum(1) - 1) @ sums**2
    number = min(len(np.unique(own[there])), len(own))
    return float(np.sqrt(np.maximum(alone, _spread(together, number))) / total)


def _spread(squares: float, number: float) -> float:
    """Squares about a mean that so many gave, as about the true one."""
    return squares * number / (number - 1.0) if number > 1.0 else np.nan


def _group_codes(groups: npt.ArrayLike, rows: int) -> IntArray:
    """(rows, m) labels as numbers in ascending order, -1 in place of what is there again."""
    labels = np.asarray(groups)
    if labels.ndim not in (1, 2) or len(labels) != rows:
        raise ValueError(f"groups has shape {labels.shape} for {rows} rows; give those of each.")
    if labels.dtype == object and any(one is None or one != one for one in labels.flat):
        raise ValueError("groups lacks a label; give one to each row, or leave groups out.")
    if labels.ndim == 1 or not np.issubdtype(labels.dtype, np.integer):
        labels = np.unique(labels, return_inverse=True)[1]
    found = np.sort(labels.reshape(rows, -1), 1)
    again = found[:, 1:] == found[:, :-1]
    found[:, 1:][again] = -1
    return np.sort(found, 1)


@dataclass(frozen=True)
class CalibrationBin:
    """Duels whose confidence max(p, 1 - p) is in [lower, upper), or alternatives of choices whose
    probability is."""

    lower: float
    upper: float
    duels: float
    """How many, counts included."""
    confidence: float
    """Their mean confidence, or probability."""
    accuracy: float
    """The share that was right (p of one half is half right), or was chosen."""


def calibration_error(bins: Sequence[CalibrationBin]) -> float:
    """Mean gap between confidence and accuracy; NaN without bins.

    :param bins: as `calibration_bins` makes them.
    """
    total = sum(one.duels for one in bins)
    gaps = sum(one.duels * abs(one.confidence - one.accuracy) for one in bins)
    return float(gaps / total) if total else np.nan


def calibration_bins(
    log_probabilities: npt.ArrayLike,
    happened: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    of: str = "duels",
) -> tuple[CalibrationBin, ...]:
    """The bins behind the calibration error of `score`, those that have something in them.

    Alternatives of probability 0 that were not chosen are taken for those that a set has not.

    :param log_probabilities: as for `score`, as are the others.
    :param of: `duels` or `choices`.
    :raises ValueError: what `score` raises.
    """
    return _Seen.of(log_probabilities, happened, counts, of).bins(of)


def abstention_curve(
    log_probabilities: npt.ArrayLike, counts: npt.ArrayLike | None = None
) -> dict[float, float]:
    """The share that is right among the duels of which the model is surest, for tenths of all.

    A model that knows what it does not know is the better, the fewer duels it has to answer
    (the risk-coverage curve of El-Yaniv & Wiener 2010). Of duels that it is equally sure of
    any may come first: they count as their average.

    :param log_probabilities: (t,) natural logarithms of P(observed winner wins).
    :param counts: (t,) how often each duel was seen; default all 1.
    :return: By the share answered, from 1 to 0.1, the share of those that is right.
    :raises ValueError: what `score` raises.
    """
    seen = _Seen.of(log_probabilities, None, counts)
    sure = seen.p.max(1)
    order = np.argsort(-sure)
    place = np.append(0, np.cumsum(-np.diff(sure[order]) > EQUALLY_SURE))
    weights = seen.weights[order]
    number, right = np.bincount(place, weights), np.bincount(place, weights * seen.right[order])
    reached, hits = np.cumsum(number), np.cumsum(right)
    asked = np.array(ANSWERED) * reached[-1]
    found = np.interp(asked, np.append(0.0, reached), np.append(0.0, hits)) / asked
    return dict(zip(ANSWERED, map(float, found), strict=True))


def median_nlp(log_probabilities: npt.ArrayLike, counts: npt.ArrayLike | None = None) -> float:
    """Median over duels of the negative log probability, in nats; arguments as above.

    :raises ValueError: what `score` raises.
    """
    seen = _Seen.of(log_probabilities, None, counts)
    order = np.argsort(-seen.log_happened)
    reached = np.cumsum(seen.weights[order])
    # The middle two of all duels, which are one where their number is odd.
    middle = [(reached[-1] - 1.0) // 2.0, reached[-1] // 2.0]
    both = -seen.log_happened[order][np.searchsorted(reached, middle, side="right")]
    return float(np.mean(both)) + 0.0


def confident_errors(log_probabilities: npt.ArrayLike, counts: npt.ArrayLike | None = None) -> int:
    """How many duels were lost by the side that had more than 0.9; arguments as above.

    :raises ValueError: what `score` raises.
    """
    seen = _Seen.of(log_probabilities, None, counts)
    return round(float(seen.weights[seen.p[:, 1] > CONFIDENT].sum()))


def auc(
    log_probabilities: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    rng: np.random.Generator,
) -> float:
    """Area under the receiver operating characteristic, each duel in a random orientation.

    "Did the winner beat the loser" has one answer; "did the first beat the second" has two once a
    fair coin has said who comes first, each of `counts` times. The share of (yes, no) pairs of
    duels in which yes has the larger probability, equal ones as half; NaN where all coins agree.

    :param log_probabilities: (t,) natural logarithms of P(observed winner wins).
    :param counts: (t,) how often each duel was seen, whole numbers; default all 1.
    :param rng: of the coins.
    :raises ValueError: what `score` raises.
    """
    from sklearn import metrics

    seen = _Seen.of(log_probabilities, None, counts)
    log_p, weights = seen.log_happened, seen.weights
    with np.errstate(divide="ignore"):
        log_odds = log_p - np.log(-np.expm1(log_p))  # apart where p rounds to 1
    log_odds = np.round(log_odds, 10)  # so that p and 1 - (1 - p) are equal
    yes = rng.binomial(weights.astype(np.int64), 0.5).astype(float)
    no = weights - yes
    if not (yes.any() and no.any()):
        return np.nan
    values = np.concatenate([log_odds, -log_odds])
    _, level = np.unique(values, return_inverse=True)  # scikit-learn takes no infinities
    won, weights = np.repeat([True, False], len(log_p)), np.concatenate([yes, no])
    return float(metrics.roc_auc_score(won, level, sample_weight=weights))


def kendall_tau(utilities: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Kendall's tau-b between known and predicted utilities, (n,) each, in [-1, 1].

    NaN where either is constant.

    :raises ValueError: arrays of another shape or of unequal length, or nothing in them.
    """
    from scipy import stats

    known, guess = (np.asarray(values, dtype=np.float64) for values in (utilities, predicted))
    if known.ndim != 1 or known.shape != guess.shape or not len(known):
        raise ValueError(
            f"There are {known.shape} utilities for {guess.shape} predictions; give as many of "
            "both, at least one."
        )
    return float(stats.kendalltau(known, guess).statistic)


class _Seen(NamedTuple):
    """Probabilities of what might happen, and what did."""

    p: FloatArray
    """(t, k); where only what happened is known, that and the rest."""
    log_happened: FloatArray
    """(t,) of what happened."""
    place: IntArray
    """(t,) where that is in `p`."""
    weights: FloatArray
    """(t,)."""

    @classmethod
    def of(
        cls,
        log_probabilities: npt.ArrayLike,
        happened: npt.ArrayLike | None,
        counts: npt.ArrayLike | None,
        of: str = "duels",
    ) -> _Seen:
        """Arguments of `score`, checked."""
        check_choice("of", of, COUNTED_AS)
        log_p, one = numbers("log_probabilities", log_probabilities), COUNTED_AS[of][:-1]
        alone = log_p.ndim == 1 and of in (DUELS, RANKINGS)
        columns = {DUELS: 2, OUTCOMES: 3}.get(of)
        if not (alone or (log_p.ndim == 2 and columns in (None, log_p.shape[1]))) or not log_p.size:
            wanted = f"({one}s, {'outcomes' if columns is None else columns})"
            raise ValueError(
                f"log_probabilities has shape {log_p.shape}; give {wanted} for at least one {one}."
            )
        t = len(log_p)
        place = np.zeros(t, np.int64) if happened is None else np.asarray(happened)
        numbers("happened", place, ", the places of outcomes, such as outcomes.index(name)")
        weights = np.ones(t) if counts is None else numbers("counts", counts)
        for label, values in (("happened", place), ("counts", weights)):
            check_shape(label, values, t, hint=f", one for each {one}")
        k = 1 if alone else log_p.shape[1]
        there = (place >= 0) & (place < k) & (place == np.floor(place))
        _refuse(place, ~there, "happened", one, f"give places from 0 to {k - 1}")
        _refuse(
            weights, ~((weights > 0) & np.isfinite(weights)), "counts", one, "give positive numbers"
        )
        place = place.astype(np.int64)
        p = np.exp(log_p)
        if alone:
            _refuse(log_p, ~(log_p <= 0.0), "log_probabilities", one, "give values of at most 0")
            return cls(np.stack([p, 1.0 - p], 1), log_p, place, weights)
        together = p.sum(1)
        remedy = "give logarithms of those of all outcomes, which add up to 1"
        wrong = ~(np.abs(together - 1.0) <= 1e-6)
        _refuse(together, wrong, "The sum of probabilities", one, remedy)
        return cls(p, log_p[np.arange(t), place], place, weights)

    @property
    def right(self) -> FloatArray:
        """(t,) whether what happened had the largest probability; equal ones share."""
        best = self.p == self.p.max(1, keepdims=True)
        hit = best[np.arange(len(best)), self.place]
        return np.where(hit, 1.0 / best.sum(1), 0.0)

    def bins(self, of: str) -> tuple[CalibrationBin, ...]:
        """Of the confidence of duels, or the probabilities of all alternatives."""
        value, hit, weight, lowest = self.p.max(1), self.right, self.weights, 0.5
        if of != DUELS:
            chosen = np.arange(self.p.shape[1]) == self.place[:, None]
            there = (self.p > 0.0) | chosen
            value, hit, lowest = self.p[there], chosen[there].astype(np.float64), 0.0
            weight = np.broadcast_to(weight[:, None], there.shape)[there]
        scale = CALIBRATION_BINS / (1.0 - lowest)
        bins = np.minimum(((value - lowest) * scale).astype(int), CALIBRATION_BINS - 1)
        number, stated, seen = (
            np.bincount(bins, weights=weight * each, minlength=CALIBRATION_BINS).tolist()
            for each in (np.ones(len(value)), value, hit)
        )
        return tuple(
            CalibrationBin(
                lower=lowest + k / scale,
                upper=lowest + (k + 1) / scale,
                duels=number[k],
                confidence=stated[k] / number[k],
                accuracy=seen[k] / number[k],
            )
            for k in range(CALIBRATION_BINS)
            if number[k]
        )


def _refuse(values: npt.NDArray[Any], bad: BoolArray, label: str, one: str, remedy: str) -> None:
    for row in np.flatnonzero(bad)[:1]:
        raise ValueError(f"{label} has {values[row]} in {one} {row}; {remedy}.")


def _gap(p: FloatArray, happened: BoolArray, weights: FloatArray) -> float:
    """Mean gap between predicted and observed share over ten bins of equally many duels by p."""
    total = float(weights.sum())
    order = np.argsort(p)
    reached = np.cumsum(weights[order])
    at = np.searchsorted(reached, total * np.arange(1, TIE_BINS) / TIE_BINS)
    edges = np.unique(p[order[np.minimum(at, len(p) - 1)]])
    gap = np.bincount(np.digitize(p, edges), weights=weights * (p - happened))
    return float(np.abs(gap).sum() / total)


def constant_grades(counts: npt.ArrayLike, has_ties: bool, rows: int) -> FloatArray:
    """Log probabilities (rows, L) of who knows nothing but how often each grade was used.

    Half a duel is added to each, so that none is impossible.

    :param counts: (K + 1,) how often each level was said by either side, ties first.
    :param has_ties: whether a tie is a grade.
    """
    number = np.asarray(counts, dtype=np.float64) + 0.5
    sides = 0.5 * number[1:]
    every = np.concatenate([sides[::-1], number[:1] if has_ties else [], sides])
    return np.tile(np.log(every / every.sum()), (rows, 1))


def constant_shares(tie_rate: float, rows: int) -> FloatArray:
    """Log probabilities (rows, 3) of who knows nothing but how often duels are tied."""
    with np.errstate(divide="ignore"):
        row = np.log([0.5 * (1.0 - tie_rate), tie_rate, 0.5 * (1.0 - tie_rate)])
    return np.tile(row, (rows, 1))
