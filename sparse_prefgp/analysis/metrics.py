"""Scores of predicted duels, of choices and rankings, and of utilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.lazy import late

metrics = late("sklearn.metrics")
stats = late("scipy.stats")

# As tables for people call them.
ONE_UTILITY = "one_utility"  # the same model without tastes of one's own
# Of utilities in time: from the results of all days before each one, next to frozen ones.
AHEAD, ELO, ELO_AHEAD = "model_ahead", "elo", "elo_ahead"
# Key of the standard error of a gain in a table of scores.
GAIN_SE = "gain_se"
# Bins of the calibration of ties, each with as many duels.
TIE_BINS = 10
# Equal bins of confidence on [0.5, 1], or of the probability of an alternative on [0, 1].
CALIBRATION_BINS = 10
# Shares of the duels that are answered, the surest ones first.
ANSWERED = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
# Whoever gives a duel to the wrong side with more than this is confidently wrong.
CONFIDENT = 0.9


def with_errors(
    scores: dict[str, dict[str, float | int]],
    log_probabilities: Mapping[str, FloatArray],
    counts: npt.ArrayLike,
) -> dict[str, dict[str, float | int]]:
    """The scores, those of each rival with `gain_se`: the standard error of the mean difference
    between its log probabilities and those of the model, updating next to updating.

    :param log_probabilities: (t,) of what was observed, by predictor.
    :param counts: (t,) how often each was seen.
    """
    weights = np.asarray(counts, dtype=np.float64)
    total = float(weights.sum())
    found = {}
    for name, values in scores.items():
        who = AHEAD if name == ELO_AHEAD else "model"
        found[name] = values
        if name in (who, AHEAD) or who not in log_probabilities or total <= 1.0:
            continue
        with np.errstate(invalid="ignore"):
            gain = log_probabilities[who] - log_probabilities[name]
            left = gain - weights @ gain / total
            error = float(np.sqrt(weights @ left**2 / (total - 1.0) / total))
        if np.isfinite(error):
            found[name] = {**values, GAIN_SE: error}
    return found


def score(
    probabilities: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    log_probabilities: npt.ArrayLike | None = None,
) -> dict[str, float | int]:
    """Score the probabilities that were given to the observed winners.

    :param probabilities: (t,) P(observed winner beats observed loser), within [0, 1].
    :param counts: (t,) how often each duel was seen, positive; weights every figure. Default all 1.
    :param log_probabilities: (t,) natural logarithms of the same, used for `nlp_nats` so that far
        tails stay finite; `probabilities` may then be left out.
    :return: `accuracy` (a probability of exactly one half counts as half right), `nlp_nats` and
        `nlp_bits` (mean negative log probability of a duel), `brier` (mean of (1 - p) squared),
        `calibration_error` (mean gap between confidence max(p, 1 - p) and accuracy over ten equal
        bins on [0.5, 1]) and `duels` (the sum of counts). Nothing is clipped: a probability of zero
        makes `nlp_nats` infinite.
    :raises ValueError: no duels, a value that is not a (log) probability, counts that are not
        positive, or arrays of unequal length.
    """
    p, log_p, weights = _checked(probabilities, counts, log_probabilities)
    total = float(weights.sum())
    nlp = float(-(weights @ log_p) / total)
    return {
        "accuracy": float(weights @ _right(p) / total),
        "nlp_nats": nlp + 0.0,  # no minus sign on a perfect zero
        "nlp_bits": nlp / float(np.log(2.0)) + 0.0,
        "brier": float(weights @ (1.0 - p) ** 2 / total),
        "calibration_error": calibration_error(_bins(p, weights)),
        "duels": round(total),
    }


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
    return float(gaps / total) if total else float("nan")


def calibration_bins(
    log_probabilities: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    probabilities: npt.ArrayLike | None = None,
) -> tuple[CalibrationBin, ...]:
    """The bins behind the calibration error of `score`, those that have duels.

    :param log_probabilities: (t,) natural logarithms of P(observed winner wins).
    :param counts: (t,) how often each duel was seen; default all 1.
    :param probabilities: (t,) in place of their logarithms.
    :raises ValueError: what `score` raises.
    """
    p, _, weights = _checked(probabilities, counts, log_probabilities)
    return _bins(p, weights)


def abstention_curve(
    log_probabilities: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    probabilities: npt.ArrayLike | None = None,
) -> dict[float, float]:
    """The share that is right among the duels of which the model is surest, for tenths of all.

    A model that knows what it does not know is the better, the fewer duels it has to answer
    (the risk-coverage curve of El-Yaniv & Wiener 2010). Of duels that it is equally sure of
    any may come first: they count as their average.

    :param log_probabilities: (t,) natural logarithms of P(observed winner wins).
    :param counts: (t,) how often each duel was seen; default all 1.
    :param probabilities: (t,) in place of their logarithms.
    :return: By the share answered, from 1 to 0.1, the share of those that is right.
    :raises ValueError: what `score` raises.
    """
    p, _, weights = _checked(probabilities, counts, log_probabilities)
    sure, place = np.unique(-np.maximum(p, 1.0 - p), return_inverse=True)
    number = np.bincount(place.reshape(-1), weights, len(sure))
    right = np.bincount(place.reshape(-1), weights * _right(p), len(sure))
    reached, hits = np.cumsum(number), np.cumsum(right)
    asked = np.array(ANSWERED) * reached[-1]
    found = np.interp(asked, np.append(0.0, reached), np.append(0.0, hits)) / asked
    return dict(zip(ANSWERED, map(float, found), strict=True))


def median_nlp(log_probabilities: npt.ArrayLike, counts: npt.ArrayLike | None = None) -> float:
    """Median over duels of the negative log probability, in nats; arguments as above.

    :raises ValueError: what `score` raises.
    """
    _, log_p, weights = _checked(None, counts, log_probabilities)
    order = np.argsort(-log_p)
    reached = np.cumsum(weights[order])
    # The middle two of all duels, which are one where their number is odd.
    middle = [(reached[-1] - 1.0) // 2.0, reached[-1] // 2.0]
    return float(np.mean(-log_p[order][np.searchsorted(reached, middle, side="right")])) + 0.0


def confident_errors(log_probabilities: npt.ArrayLike, counts: npt.ArrayLike | None = None) -> int:
    """How many duels were lost by the side that had more than 0.9; arguments as above.

    :raises ValueError: what `score` raises.
    """
    p, _, weights = _checked(None, counts, log_probabilities)
    return round(float(weights[1.0 - p > CONFIDENT].sum()))


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
    p, log_p, weights = _checked(None, counts, log_probabilities)
    with np.errstate(divide="ignore"):
        log_odds = log_p - np.log(-np.expm1(log_p))  # apart where p rounds to 1
    log_odds = np.round(log_odds, 10)  # so that p and 1 - (1 - p) are equal
    yes = rng.binomial(weights.astype(np.int64), 0.5).astype(float)
    no = weights - yes
    if yes.sum() == 0.0 or no.sum() == 0.0:
        return float("nan")
    values = np.concatenate([log_odds, -log_odds])
    _, level = np.unique(values, return_inverse=True)  # scikit-learn takes no infinities
    won = np.repeat([True, False], len(p))
    return float(
        metrics.roc_auc_score(won, level.reshape(-1), sample_weight=np.concatenate([yes, no]))
    )


def kendall_tau(utilities: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Kendall's tau-b between known and predicted utilities, (n,) each, in [-1, 1].

    NaN where either is constant.

    :raises ValueError: arrays of unequal length, or nothing in them.
    """
    known, guess = _vector(utilities, "utilities"), _vector(predicted, "predicted")
    if len(known) != len(guess):
        raise ValueError(f"{len(known)} utilities for {len(guess)} predictions; give as many.")
    return float(stats.kendalltau(known, guess).statistic)


def _right(p: FloatArray) -> FloatArray:
    return np.where(p > 0.5, 1.0, np.where(p == 0.5, 0.5, 0.0))


def _bins(p: FloatArray, weights: FloatArray) -> tuple[CalibrationBin, ...]:
    confidence = np.maximum(p, 1.0 - p)
    scale = 2.0 * CALIBRATION_BINS
    bins = np.minimum(((confidence - 0.5) * scale).astype(int), CALIBRATION_BINS - 1)
    number, sure, right = (
        np.bincount(bins, weights=weights * each, minlength=CALIBRATION_BINS)
        for each in (np.ones(len(p)), confidence, _right(p))
    )
    return tuple(
        CalibrationBin(
            lower=0.5 + k / scale,
            upper=0.5 + (k + 1) / scale,
            duels=float(number[k]),
            confidence=float(sure[k] / number[k]),
            accuracy=float(right[k] / number[k]),
        )
        for k in np.flatnonzero(number)
    )


def _checked(
    probabilities: npt.ArrayLike | None,
    counts: npt.ArrayLike | None,
    log_probabilities: npt.ArrayLike | None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Probabilities, their logarithms and weights, (t,) each."""
    if probabilities is None and log_probabilities is None:
        raise ValueError("Nothing to score; give probabilities or log_probabilities.")
    log_p = None
    if log_probabilities is not None:
        log_p = _vector(log_probabilities, "log_probabilities")
        _refuse(log_p, ~(log_p <= 0.0), "log_probabilities", "give values of at most 0")
    p = np.exp(log_p) if log_p is not None else np.empty(0)
    if probabilities is not None:
        p = _vector(probabilities, "probabilities")
        _refuse(p, ~((p >= 0.0) & (p <= 1.0)), "probabilities", "give values within [0, 1]")
    if log_p is None:
        with np.errstate(divide="ignore"):
            log_p = np.log(p)
    elif len(log_p) != len(p):
        raise ValueError(
            f"log_probabilities has {len(log_p)} entries but probabilities has {len(p)}; give one "
            "of each per duel."
        )
    weights = np.ones(len(p)) if counts is None else _vector(counts, "counts")
    if len(weights) != len(p):
        raise ValueError(f"counts has {len(weights)} entries for {len(p)} duels; give one each.")
    _refuse(weights, ~((weights > 0) & np.isfinite(weights)), "counts", "give positive numbers")
    return p, log_p, weights


def score_outcomes(
    log_probabilities: npt.ArrayLike, ties: npt.ArrayLike, counts: npt.ArrayLike | None = None
) -> dict[str, float | int]:
    """Score the probabilities of win, tie and loss that were given to duels, won or tied.

    :param log_probabilities: (t, 3) natural logarithms of the probabilities that the observed
        winner (of a tie either side) wins, ties and loses; they add up to 1.
    :param ties: (t,) which duels were tied; all others were won.
    :param counts: (t,) how often each duel was seen, positive; default all 1.
    :return: `accuracy` (the outcome had the largest of the three probabilities; equal ones share),
        `nlp_nats` and `nlp_bits` (mean negative log probability of the outcome), `tie_rate` and
        `predicted_tie_rate`, `tie_calibration_error` (mean gap between predicted and observed share
        of ties over ten bins of equally many duels by predicted probability), `ties` and `duels`
        (sums of counts).
    :raises ValueError: no duels, arrays of another shape, probabilities that do not add up to 1,
        counts that are not positive.
    """
    log_p = np.asarray(log_probabilities, dtype=np.float64)
    if log_p.ndim != 2 or log_p.shape[1] != 3 or len(log_p) == 0:
        raise ValueError(
            f"log_probabilities has shape {log_p.shape}; give (t, 3) for at least one duel."
        )
    tied = np.asarray(ties, dtype=bool)
    weights = np.ones(len(log_p)) if counts is None else _vector(counts, "counts")
    for label, values in (("ties", tied), ("counts", weights)):
        if values.shape != (len(log_p),):
            raise ValueError(
                f"{label} has shape {values.shape} for {len(log_p)} duels; give one each."
            )
    _refuse(weights, ~((weights > 0) & np.isfinite(weights)), "counts", "give positive numbers")
    p = np.exp(log_p)
    wrong = np.flatnonzero(~(np.abs(p.sum(1) - 1.0) <= 1e-6))
    if wrong.size:
        raise ValueError(
            f"The probabilities of duel {wrong[0]} add up to {p[wrong[0]].sum()}; give those of "
            "win, tie and loss, which add up to 1."
        )

    total = float(weights.sum())
    outcome = np.where(tied, 1, 0)
    rows = np.arange(len(p))
    best = p == p.max(1, keepdims=True)
    right = np.where(best[rows, outcome], 1.0 / best.sum(1), 0.0)
    nlp = float(-(weights @ log_p[rows, outcome]) / total)
    return {
        "accuracy": float(weights @ right / total),
        "nlp_nats": nlp + 0.0,
        "nlp_bits": nlp / float(np.log(2.0)) + 0.0,
        "tie_rate": float(weights @ tied / total),
        "predicted_tie_rate": float(weights @ p[:, 1] / total),
        "tie_calibration_error": _gap(p[:, 1], tied, weights),
        "ties": round(float(weights @ tied)),
        "duels": round(total),
    }


def _gap(p: FloatArray, happened: BoolArray, weights: FloatArray) -> float:
    """Mean gap between predicted and observed share over ten bins of equally many duels by p."""
    total = float(weights.sum())
    order = np.argsort(p)
    reached = np.cumsum(weights[order])
    at = np.searchsorted(reached, total * np.arange(1, TIE_BINS) / TIE_BINS)
    edges = np.unique(p[order[np.minimum(at, len(p) - 1)]])
    gap = np.bincount(np.digitize(p, edges), weights=weights * (p - happened))
    return float(np.abs(gap).sum() / total)


def score_grades(
    log_probabilities: npt.ArrayLike, grades: npt.ArrayLike, counts: npt.ArrayLike | None = None
) -> dict[str, float | int]:
    """Score the probabilities of L grades that were given to duels.

    :param log_probabilities: (t, L) natural logarithms, worst grade first; they add up to 1.
    :param grades: (t,) the place of the observed one, from 0.
    :param counts: (t,) how often each duel was seen, positive; default all 1.
    :return: `accuracy` (the grade had the largest probability; equal ones share), `nlp_nats` and
        `nlp_bits` (mean negative log probability of the grade), `calibration_error` (mean over the
        grades of the gap between predicted and observed share over ten bins of equally many duels
        by predicted probability), `mean_distance` (of the grade, in levels, from the median of
        the prediction) and `duels`.
    :raises ValueError: no duels, arrays of another shape, probabilities that do not add up to 1, a
        grade that there is not, counts that are not positive.
    """
    log_p = np.asarray(log_probabilities, dtype=np.float64)
    if log_p.ndim != 2 or log_p.shape[1] < 2 or len(log_p) == 0:
        raise ValueError(
            f"log_probabilities has shape {log_p.shape}; give (t, grades) for at least one duel."
        )
    place = np.asarray(grades)
    weights = np.ones(len(log_p)) if counts is None else _vector(counts, "counts")
    for label, values in (("grades", place), ("counts", weights)):
        if values.shape != (len(log_p),):
            raise ValueError(
                f"{label} has shape {values.shape} for {len(log_p)} duels; give one each."
            )
    outside = (place < 0) | (place >= log_p.shape[1])
    _refuse(place, outside, "grades", f"give places from 0 to {log_p.shape[1] - 1}")
    _refuse(weights, ~((weights > 0) & np.isfinite(weights)), "counts", "give positive numbers")
    p = np.exp(log_p)
    wrong = np.flatnonzero(~(np.abs(p.sum(1) - 1.0) <= 1e-6))
    if wrong.size:
        raise ValueError(
            f"The probabilities of duel {wrong[0]} add up to {p[wrong[0]].sum()}; give those of "
            "all grades, which add up to 1."
        )
    total, rows = float(weights.sum()), np.arange(len(p))
    best = p == p.max(1, keepdims=True)
    right = np.where(best[rows, place], 1.0 / best.sum(1), 0.0)
    nlp = float(-(weights @ log_p[rows, place]) / total)
    median = np.sum(np.cumsum(p, 1) < 0.5, 1)
    gaps = [_gap(p[:, k], place == k, weights) for k in range(p.shape[1])]
    return {
        "accuracy": float(weights @ right / total),
        "nlp_nats": nlp + 0.0,
        "nlp_bits": nlp / float(np.log(2.0)) + 0.0,
        "calibration_error": float(np.mean(gaps)),
        "mean_distance": float(weights @ np.abs(median - place) / total),
        "duels": round(total),
    }


def score_choices(
    probabilities: npt.ArrayLike | None,
    chosen: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    log_probabilities: npt.ArrayLike | None = None,
    people: npt.ArrayLike | None = None,
) -> dict[str, float | int]:
    """Score the probabilities that were given to the alternatives of sets.

    :param probabilities: (b, k) of each alternative, 0 of those that a set has not; each row adds
        up to 1. None with their logarithms.
    :param chosen: (b,) the place of the chosen one, from 0.
    :param counts: (b,) how often each choice was seen, positive; default all 1.
    :param log_probabilities: (b, k) natural logarithms of the same, used for `nlp_nats` so that far
        tails stay finite.
    :param people: (b,) labels: who chose. Choices of one person are not independent, and with them
        the standard error is over people.
    :return: `nlp_nats` (mean negative log probability of what was chosen) and `nlp_se`, its
        standard error, NaN of a single choice or person and where `nlp_nats` is infinite;
        `hit_rate` (the chosen one had the largest probability; equal ones share), `brier` (mean
        over choices of the sum over alternatives of (p - 1 or 0) squared, Brier 1950),
        `calibration_error` (mean gap between probability and share chosen, over ten equal bins of
        the probability of an alternative on [0, 1]) and `choices` (the sum of counts). Nothing is
        clipped: a probability of zero makes `nlp_nats` infinite.
    :raises ValueError: no choices, arrays of another shape, probabilities that do not add up to 1,
        a place that there is not, counts that are not positive.
    """
    p, log_p, place, weights = _checked_choices(probabilities, chosen, counts, log_probabilities)
    total, rows = float(weights.sum()), np.arange(len(p))
    best = p == p.max(1, keepdims=True)
    hit = np.where(best[rows, place], 1.0 / best.sum(1), 0.0)
    happened = np.arange(p.shape[1]) == place[:, None]
    return {
        **_mean_loss(-log_p[rows, place], weights, people),
        "hit_rate": float(weights @ hit / total),
        "brier": float(weights @ ((p - happened) ** 2).sum(1) / total),
        "calibration_error": calibration_error(_bins_of_choices(p, place, weights)),
        "choices": round(total),
    }


def choice_calibration_bins(
    probabilities: npt.ArrayLike | None,
    chosen: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    log_probabilities: npt.ArrayLike | None = None,
) -> tuple[CalibrationBin, ...]:
    """The bins behind the calibration error of `score_choices`, those that have alternatives.

    Those of probability 0 that were not chosen are taken for alternatives that a set has not.

    :param probabilities: as for `score_choices`.
    :param chosen: as for `score_choices`.
    :param counts: as for `score_choices`.
    :param log_probabilities: as for `score_choices`.
    :raises ValueError: what `score_choices` raises.
    """
    p, _, place, weights = _checked_choices(probabilities, chosen, counts, log_probabilities)
    return _bins_of_choices(p, place, weights)


def score_answers(
    log_probabilities: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    people: npt.ArrayLike | None = None,
) -> dict[str, float | int]:
    """Score the probabilities that were given to whole answers, such as rankings.

    :param log_probabilities: (b,) natural logarithms, of the answers that were given.
    :param counts: (b,) how often each was seen, positive; default all 1.
    :param people: as for `score_choices`.
    :return: `nlp_nats` and `nlp_se` as of `score_choices`, for an answer, and `answers` (the sum of
        counts).
    :raises ValueError: no answers, values above 0, counts that are not positive, arrays of unequal
        length.
    """
    _, log_p, weights = _checked(None, counts, log_probabilities)
    return {**_mean_loss(-log_p, weights, people), "answers": round(float(weights.sum()))}


def _mean_loss(
    loss: FloatArray, weights: FloatArray, people: npt.ArrayLike | None
) -> dict[str, float]:
    """The mean of losses (b,), each seen so often, and its standard error."""
    total = float(weights.sum())
    mean = float(weights @ loss / total)
    if not np.isfinite(mean):  # something had no probability
        return {"nlp_nats": mean, "nlp_se": float("nan")}
    if people is None:
        units, squares = total, float(weights @ (loss - mean) ** 2)
    else:
        who = np.asarray(people)
        if who.shape != loss.shape:
            raise ValueError(
                f"people has shape {who.shape} for {len(loss)} answers; give who answered each."
            )
        _, code = np.unique(who, return_inverse=True)
        sums = np.bincount(code.reshape(-1), weights * (loss - mean))
        units, squares = float(len(sums)), float(sums @ sums)
    error = np.sqrt(squares * units / (units - 1.0)) / total if units > 1.0 else np.nan
    return {"nlp_nats": mean + 0.0, "nlp_se": float(error)}


def _bins_of_choices(
    p: FloatArray, place: IntArray, weights: FloatArray
) -> tuple[CalibrationBin, ...]:
    happened = np.arange(p.shape[1]) == place[:, None]
    there = (p > 0.0) | happened
    share, one = p[there], happened[there]
    weight = np.broadcast_to(weights[:, None], p.shape)[there]
    bins = np.minimum((share * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    number, said, seen = (
        np.bincount(bins, weights=weight * each, minlength=CALIBRATION_BINS)
        for each in (np.ones(len(share)), share, one)
    )
    return tuple(
        CalibrationBin(
            lower=k / CALIBRATION_BINS,
            upper=(k + 1) / CALIBRATION_BINS,
            duels=float(number[k]),
            confidence=float(said[k] / number[k]),
            accuracy=float(seen[k] / number[k]),
        )
        for k in np.flatnonzero(number)
    )


def _checked_choices(
    probabilities: npt.ArrayLike | None,
    chosen: npt.ArrayLike,
    counts: npt.ArrayLike | None,
    log_probabilities: npt.ArrayLike | None,
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    """Probabilities and their logarithms, (b, k), chosen places and weights, (b,) each."""
    if probabilities is None and log_probabilities is None:
        raise ValueError("Nothing to score; give probabilities or log_probabilities.")
    given = probabilities if log_probabilities is None else log_probabilities
    log_p = np.asarray(given, dtype=np.float64)
    p = np.exp(log_p) if probabilities is None else np.asarray(probabilities, dtype=np.float64)
    if log_probabilities is None:
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p = np.log(p)
    if p.ndim != 2 or not p.size or p.shape != log_p.shape:
        raise ValueError(
            f"The probabilities have shape {p.shape} and their logarithms {log_p.shape}; give "
            "(choices, alternatives) for at least one choice."
        )
    place = np.asarray(chosen)
    weights = np.ones(len(p)) if counts is None else _vector(counts, "counts")
    for label, values in (("chosen", place), ("counts", weights)):
        if values.shape != (len(p),):
            raise ValueError(
                f"{label} has shape {values.shape} for {len(p)} choices; give one each."
            )
    for i in np.flatnonzero(~(np.all(p >= 0.0, 1) & (np.abs(p.sum(1) - 1.0) <= 1e-6)))[:1]:
        raise ValueError(
            f"The probabilities of choice {i} are {p[i].tolist()}; give numbers of at least 0 that "
            "add up to 1."
        )
    for i in np.flatnonzero(~((place >= 0) & (place < p.shape[1]) & (place == np.floor(place))))[
        :1
    ]:
        raise ValueError(
            f"chosen has {place[i]} for choice {i}; give a place from 0 to {p.shape[1] - 1}."
        )
    for i in np.flatnonzero(~((weights > 0.0) & np.isfinite(weights)))[:1]:
        raise ValueError(f"counts has {weights[i]} for choice {i}; give positive numbers.")
    return p, log_p, place.astype(np.int64), weights


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


def _vector(values: npt.ArrayLike, label: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(
            f"{label} has shape {array.shape}; give a one-dimensional array with one entry per "
            "duel, and at least one duel."
        )
    return array


def _refuse(values: FloatArray, bad: BoolArray, label: str, remedy: str) -> None:
    rows = np.flatnonzero(bad)
    if rows.size:
        raise ValueError(f"{label} has {values[rows[0]]} in duel {rows[0]}; {remedy}.")
