"""Scores of predicted duels."""

import numpy as np
import pytest

from sparse_prefgp.analysis.metrics import (
    abstention_curve,
    auc,
    calibration_bins,
    choice_calibration_bins,
    confident_errors,
    constant_grades,
    kendall_tau,
    median_nlp,
    score,
    score_answers,
    score_choices,
    score_grades,
    with_errors,
)
from sparse_prefgp.analysis.verdicts import (
    compared_scores,
)
from tests.tolerances import ROUNDING

NAMES = {"accuracy", "nlp_nats", "nlp_bits", "brier", "calibration_error", "duels"}


def test_figures_by_hand():
    result = score([0.9, 0.5, 0.2])
    assert set(result) == NAMES
    assert result["accuracy"] == pytest.approx(1.5 / 3)
    nats = -np.log([0.9, 0.5, 0.2]).mean()
    assert result["nlp_nats"] == pytest.approx(nats)
    assert result["nlp_bits"] == pytest.approx(nats / np.log(2))
    assert result["brier"] == pytest.approx((0.01 + 0.25 + 0.64) / 3)
    # Confidences 0.9, 0.5, 0.8 fall in three bins: |0.9 - 1|, |0.5 - 0.5|, |0.8 - 0|.
    assert result["calibration_error"] == pytest.approx((0.1 + 0.0 + 0.8) / 3)
    assert result["duels"] == 3


def test_calibration_averages_within_a_bin():
    # Both in the bin [0.75, 0.8): confidence 0.76 and 0.78, one right and one wrong.
    result = score([0.76, 1 - 0.78])
    assert result["calibration_error"] == pytest.approx(abs(0.77 - 0.5))
    assert score([1.0, 1.0])["calibration_error"] == 0.0


def test_counts_weight_everything():
    p, counts = np.array([0.9, 0.5, 0.2, 0.77]), [3, 1, 2, 4]
    merged, repeated = score(p, counts), score(np.repeat(p, counts))
    assert merged == pytest.approx(repeated, rel=1e-12)
    assert merged["duels"] == 10 and isinstance(merged["duels"], int)


def test_coin():
    result = score(np.full(4, 0.5))
    assert result["accuracy"] == 0.5 and result["nlp_bits"] == pytest.approx(1.0)
    assert result["brier"] == 0.25 and result["calibration_error"] == 0.0


def test_tails_are_not_clipped():
    assert score([0.0, 1.0])["nlp_nats"] == np.inf
    log_p = np.array([-1e4, -1e-3])
    assert score(log_probabilities=log_p)["nlp_nats"] == pytest.approx(5000.0005)
    assert score(np.exp(log_p), log_probabilities=log_p)["nlp_nats"] == pytest.approx(5000.0005)


def some_duels(seed=0, t=57):
    rng = np.random.default_rng(seed)
    # Few levels, so that equal ones meet.
    return rng.integers(1, 8, t) / 8, rng.integers(1, 4, t)


def test_median_is_that_of_all_duels():
    for t in (1, 2, 5, 56, 57):
        p, counts = some_duels(t, t)
        slow = np.median(np.repeat(-np.log(p), counts))
        assert median_nlp(np.log(p), counts) == pytest.approx(slow, rel=ROUNDING)
    # A hopeless duel moves the mean, not the median.
    assert median_nlp([-0.1, -0.2, -1e6]) == 0.2


def test_confident_errors():
    p = np.array([0.09, 0.0999, 0.1001, 0.95, 1e-30])
    assert confident_errors(np.log(p)) == 3
    assert confident_errors(np.log(p), [2, 1, 5, 1, 4]) == 7


def test_bins_by_a_loop():
    p, counts = some_duels()
    bins = calibration_bins(np.log(p), counts)
    gap = 0.0
    for one in bins:
        inside = [
            (max(q, 1.0 - q), 0.5 * (q > 0.5) + 0.5 * (q >= 0.5), c)
            for q, c in zip(p, counts, strict=True)
            if one.lower <= max(q, 1.0 - q) < one.upper
        ]
        assert one.duels == sum(c for _, _, c in inside) > 0
        assert one.confidence == pytest.approx(sum(c * q for q, _, c in inside) / one.duels)
        assert one.accuracy == pytest.approx(sum(c * r for _, r, c in inside) / one.duels)
        gap += one.duels * abs(one.confidence - one.accuracy)
    assert sum(one.duels for one in bins) == counts.sum()
    assert score(p, counts)["calibration_error"] == pytest.approx(gap / counts.sum())


def test_auc_by_pairs():
    for seed in range(4):
        p, counts = some_duels(seed)
        coins = np.random.default_rng(seed).binomial(counts, 0.5)
        yes = [q for q, k in zip(p, coins, strict=True) for _ in range(k)]
        no = [1.0 - q for q, k in zip(p, counts - coins, strict=True) for _ in range(k)]
        wins = sum((a > b) + 0.5 * (a == b) for a in yes for b in no)
        found = auc(np.log(p), counts, rng=np.random.default_rng(seed))
        assert found == pytest.approx(wins / (len(yes) * len(no)), rel=ROUNDING)


def test_auc_of_those_who_know_and_those_who_do_not():
    rng = np.random.default_rng(0)
    assert auc(np.full(50, -1e-30), rng=rng) == 1.0
    assert auc(np.log(np.full(50, 0.5)), rng=rng) == 0.5
    assert auc(np.full(50, -800.0), rng=rng) == 0.0
    assert np.isnan(auc([-0.1], rng=rng))


def test_kendall_tau_by_pairs():
    rng = np.random.default_rng(1)
    known, guess = np.round(rng.normal(size=(2, 30)), 1)
    signs = [
        (np.sign(known[i] - known[j]), np.sign(guess[i] - guess[j]))
        for i in range(30)
        for j in range(i)
    ]
    a, b = np.array(signs).T
    slow = (a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum())
    assert kendall_tau(known, guess) == pytest.approx(slow, rel=ROUNDING)
    assert kendall_tau(known, np.exp(known)) == pytest.approx(1.0)
    assert np.isnan(kendall_tau(known, np.zeros(30)))
    with pytest.raises(ValueError, match="30 utilities for 3"):
        kendall_tau(known, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(), "Nothing to score"),
        (dict(probabilities=[]), "at least one duel"),
        (dict(probabilities=[0.5, 1.1]), "1.1 in duel 1"),
        (dict(probabilities=[np.nan]), "nan in duel 0"),
        (dict(log_probabilities=[0.1]), "0.1 in duel 0"),
        (dict(probabilities=[0.5], counts=[1, 2]), "2 entries for 1"),
        (dict(probabilities=[0.5], counts=[0]), "0.0 in duel 0"),
        (dict(probabilities=[0.5], log_probabilities=[-1.0, -1.0]), "2 entries"),
    ],
)
def test_bad_input(arguments, words):
    with pytest.raises(ValueError, match=words):
        score(**arguments)


def test_scores_of_grades_by_hand():
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.4, 0.4, 0.2]])
    found = score_grades(np.log(p), [2, 1, 0], [1, 2, 1])
    assert found["accuracy"] == pytest.approx((1.0 + 0.0 + 0.5) / 4)
    expected = -(np.log(0.7) + 2 * np.log(0.3) + np.log(0.4)) / 4
    assert found["nlp_nats"] == pytest.approx(expected)
    assert found["mean_distance"] == pytest.approx((0 + 2 * 1 + 1) / 4)
    assert found["duels"] == 4
    alone = score_grades(np.log(p[:1]), [2])
    assert alone["calibration_error"] == pytest.approx((0.1 + 0.2 + 0.3) / 3)
    shares = np.exp(constant_grades([3, 5, 1], True, 2))
    np.testing.assert_allclose(shares[0], np.array([0.75, 2.75, 3.5, 2.75, 0.75]) / 10.5)
    for wrong in ((np.log(p), [0, 1, 3]), (np.log(p), [0, 1]), (np.log(p / 2), [0, 1, 2])):
        with pytest.raises(ValueError, match=r"give one each|add up|grades has 3"):
            score_grades(*wrong)


# Three choices: of three alternatives, of two, and of three of which two are as probable.
SHARES = np.array([[0.7, 0.2, 0.1], [0.4, 0.6, 0.0], [0.45, 0.1, 0.45]])
CHOSEN = np.array([0, 0, 2])


def test_scores_of_choices_by_hand():
    found = score_choices(SHARES, CHOSEN)
    losses = -np.log([0.7, 0.4, 0.45])
    assert set(found) == {"nlp_nats", "nlp_se", "hit_rate", "brier", "calibration_error", "choices"}
    assert found["nlp_nats"] == pytest.approx(losses.mean(), rel=ROUNDING)
    assert found["nlp_se"] == pytest.approx(losses.std(ddof=1) / np.sqrt(3), rel=ROUNDING)
    assert found["hit_rate"] == pytest.approx((1.0 + 0.0 + 0.5) / 3)
    brier = [0.3**2 + 0.2**2 + 0.1**2, 2 * 0.6**2, 0.45**2 + 0.1**2 + 0.55**2]
    assert found["brier"] == pytest.approx(np.mean(brier), rel=ROUNDING)
    assert found["choices"] == 3 and isinstance(found["choices"], int)
    # Bins of a tenth: 0.1 twice, 0.2, 0.4 (chosen), 0.45 (one of two chosen), 0.6, 0.7 (chosen).
    gaps = 0.2 + 0.2 + abs(0.4 + 0.45 + 0.45 - 2) + 0.6 + 0.3
    assert found["calibration_error"] == pytest.approx(gaps / 8, rel=ROUNDING)


def test_bins_of_choices_by_a_loop():
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.ones(4), 60)
    shares[:20, 3] = 0.0
    shares /= shares.sum(1, keepdims=True)
    chosen, counts = rng.integers(3, size=60), rng.integers(1, 4, size=60)
    bins = choice_calibration_bins(shares, chosen, counts)
    for one in bins:
        cells = [
            (counts[i], p, float(j == chosen[i]))
            for i, row in enumerate(shares)
            for j, p in enumerate(row)
            if p > 0.0 and one.lower <= p < one.upper
        ]
        number, p, hit = np.array(cells).T
        assert one.duels == number.sum()
        assert one.confidence == pytest.approx(number @ p / number.sum(), rel=ROUNDING)
        assert one.accuracy == pytest.approx(number @ hit / number.sum(), rel=ROUNDING)
    assert sum(one.duels for one in bins) == counts[:20].sum() * 3 + counts[20:].sum() * 4
    gap = sum(one.duels * abs(one.confidence - one.accuracy) for one in bins)
    error = score_choices(shares, chosen, counts)["calibration_error"]
    assert error == pytest.approx(gap / sum(one.duels for one in bins), rel=ROUNDING)


def test_counts_of_choices_are_repeats():
    counts = np.array([3, 1, 2])
    repeated = np.repeat(np.arange(3), counts)
    merged = score_choices(SHARES, CHOSEN, counts)
    assert merged == pytest.approx(score_choices(SHARES[repeated], CHOSEN[repeated]), rel=ROUNDING)
    logs = np.log([0.7, 0.4, 0.45])
    merged = score_answers(logs, counts)
    assert merged == pytest.approx(score_answers(logs[repeated]), rel=ROUNDING)
    assert merged["answers"] == 6


def test_choices_of_one_person_go_together():
    """As the sums of people are: with equally many choices each, the error of the means."""
    rng = np.random.default_rng(0)
    logs = -rng.uniform(0.1, 2.0, 12)
    means = -logs.reshape(4, 3).mean(1)
    found = score_answers(logs, people=np.repeat(list("abcd"), 3))
    assert found["nlp_se"] == pytest.approx(means.std(ddof=1) / 2.0, rel=ROUNDING)
    shares = np.exp(np.stack([logs, np.log1p(-np.exp(logs))], 1))
    chosen = np.zeros(12, int)
    also = score_choices(shares, chosen, people=np.repeat(list("abcd"), 3))
    assert also["nlp_se"] == pytest.approx(found["nlp_se"], rel=ROUNDING)
    alone = score_answers(logs, people=np.arange(12))
    assert alone == pytest.approx(score_answers(logs), rel=ROUNDING)
    assert np.isnan(score_answers(logs[:1])["nlp_se"])
    assert np.isnan(score_answers(logs, people=["a"] * 12)["nlp_se"])


def test_tails_of_choices_are_not_clipped():
    assert score_choices([[0.0, 1.0]], [0])["nlp_nats"] == np.inf
    logs = np.array([[-1e4, 0.0], [0.0, -np.inf]])
    assert score_choices(None, [0, 0], log_probabilities=logs)["nlp_nats"] == 5000.0
    assert score_choices(np.exp(logs), [0, 0], log_probabilities=logs)["nlp_nats"] == 5000.0


def test_equal_shares_are_calibrated():
    found = score_choices(np.full((8, 4), 0.25), np.arange(8) % 4)
    assert found["nlp_nats"] == pytest.approx(np.log(4.0))
    assert found["hit_rate"] == 0.25 and found["calibration_error"] == 0.0
    assert found["brier"] == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((None, CHOSEN), "Nothing to score"),
        ((SHARES[0], CHOSEN), r"shape \(3,\)"),
        ((SHARES[:0], CHOSEN[:0]), r"shape \(0, 3\)"),
        ((SHARES, CHOSEN[:2]), r"chosen has shape \(2,\) for 3 choices"),
        ((SHARES, CHOSEN, [1, 2]), r"counts has shape \(2,\) for 3 choices"),
        ((SHARES, [0, 3, 1]), "chosen has 3 for choice 1; give a place from 0 to 2"),
        ((SHARES, [0, 0.5, 1]), "chosen has 0.5 for choice 1"),
        ((SHARES, CHOSEN, [1, 0, 1]), "counts has 0.0 for choice 1"),
        ((SHARES * 2.0, CHOSEN), "probabilities of choice 0 are .* add up to 1"),
        ((SHARES * [[1, 1, 1], [-1, 1, 1], [1, 1, 1]], CHOSEN), "probabilities of choice 1 are"),
        ((np.where(SHARES == 0.6, np.nan, SHARES), CHOSEN), "probabilities of choice 1 are"),
    ],
)
def test_bad_choices(arguments, words):
    with pytest.raises(ValueError, match=words) as error:
        score_choices(*arguments)
    assert str(error.value).endswith(".") and ". " not in str(error.value)
    with pytest.raises(ValueError, match=r"people has shape \(2,\) for 3 answers"):
        score_choices(SHARES, CHOSEN, people=["a", "b"])


def test_the_surest_duels_are_answered_first() -> None:
    p = np.array([0.99, 0.9, 0.3, 0.55])  # sure of 0.99, 0.9, 0.7, 0.55
    curve = abstention_curve(np.log(p), [1, 1, 1, 1])
    assert curve[1.0] == 0.75
    assert curve[0.5] == 1.0
    assert curve[0.7] == pytest.approx(2 / 2.8), "a fifth of the third duel, which is wrong"


def test_duels_that_are_equally_sure_count_as_their_average() -> None:
    curve = abstention_curve(probabilities=[0.8, 0.2, 0.8, 0.8], counts=[1, 2, 1, 1])
    assert all(right == pytest.approx(3 / 5) for right in curve.values())
    assert abstention_curve(np.log([0.5, 0.5]))[0.1] == pytest.approx(0.5)


def test_the_abstention_curve_is_that_of_a_sorted_list() -> None:
    p = np.random.default_rng(0).uniform(size=1000)
    order = np.argsort(-np.maximum(p, 1.0 - p))
    curve = abstention_curve(probabilities=p)
    for share, right in curve.items():
        assert right == pytest.approx((p[order][: round(1000 * share)] > 0.5).mean())


def test_the_standard_error_of_a_gain_counts_each_duel():
    rng = np.random.default_rng(4)
    logs = {name: np.log(rng.uniform(0.1, 0.9, 50)) for name in ("model", "coin")}
    logs |= {name: np.log(rng.uniform(0.1, 0.9, 50)) for name in ("model_ahead", "elo_ahead")}
    counts = rng.integers(1, 4, 50)
    scores = {name: score(counts=counts, log_probabilities=each) for name, each in logs.items()}
    found = with_errors(scores, logs, counts)
    assert "gain_se" not in found["model"] and "gain_se" not in found["model_ahead"]
    for who, other in (("model", "coin"), ("model_ahead", "elo_ahead")):
        gain = np.repeat(logs[who] - logs[other], counts)
        expected = gain.std(ddof=1) / np.sqrt(len(gain))
        assert found[other]["gain_se"] == pytest.approx(expected, rel=ROUNDING)
        text = compared_scores(found, who, other, "the rival")
        assert f" ± {expected:.4f} nats per duel" in text
    logs["coin"][0] = -np.inf
    assert "gain_se" not in with_errors(scores, logs, counts)["coin"]
