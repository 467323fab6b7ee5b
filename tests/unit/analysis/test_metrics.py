"""Scores of predicted duels, outcomes, grades, choices and rankings."""

import numpy as np
import pytest

from sparse_prefgp.analysis.metrics import (
    abstention_curve,
    auc,
    calibration_bins,
    confident_errors,
    constant_grades,
    constant_shares,
    kendall_tau,
    median_nlp,
    score,
    score_each,
    standard_error,
)
from sparse_prefgp.analysis.verdicts import verdict
from tests.cases import assert_same_scores
from tests.tolerances import ROUNDING

LOGS = {
    "duels": np.log([0.9, 0.5, 0.2]),
    "outcomes": np.log([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]),
    "grades": np.log([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.4, 0.4, 0.2]]),
    # Of three alternatives, of two, and of three of which two are as probable.
    "choices": np.log([[0.7, 0.2, 0.1], [0.4, 0.6, 1e-300], [0.45, 0.1, 0.45]]),
    "rankings": np.log([0.7, 0.4, 0.45]),
}
LOGS["choices"][1, 2] = -np.inf
HAPPENED = {"outcomes": [0, 1, 1, 0], "grades": [2, 1, 0], "choices": [0, 0, 2]}
COUNTS = {"outcomes": [1, 2, 1, 1], "grades": [1, 2, 1], "choices": [3, 1, 2]}
BY_HAND = {
    "duels": {
        "accuracy": 1.5 / 3,
        "nlp_nats": -np.log([0.9, 0.5, 0.2]).mean(),
        "brier": (0.01 + 0.25 + 0.64) / 3,
        # Confidences 0.9, 0.5, 0.8 fall in three bins: |0.9 - 1|, |0.5 - 0.5|, |0.8 - 0|.
        "calibration_error": (0.1 + 0.0 + 0.8) / 3,
        "duels": 3,
    },
    "outcomes": {
        "accuracy": (1 + 2 * 0.5 + 1 + 0) / 5,
        "nlp_nats": -np.log([0.5, 0.4, 0.4, 0.5, 0.1]).mean(),
        "brier": (0.38 + 2 * 0.56 + 0.38 + 1.46) / 5,
        "tie_rate": 3 / 5,
        "predicted_tie_rate": (0.3 + 2 * 0.4 + 0.5 + 0.1) / 5,
        "tie_calibration_error": (0.3 + 2 * 0.6 + 0.5 + 0.1) / 5,  # every row is a bin of its own
        "ties": 3,
        "duels": 5,
    },
    "grades": {
        "accuracy": (1.0 + 0.0 + 0.5) / 4,
        "nlp_nats": -np.log([0.7, 0.3, 0.3, 0.4]).mean(),
        "brier": (0.14 + 2 * 0.78 + 0.56) / 4,
        "calibration_error": np.mean([0.1 + 1.0 + 0.6, 0.2 + 1.4 + 0.4, 0.3 + 0.6]) / 4,
        "mean_distance": (0 + 2 * 1 + 1) / 4,
        "duels": 4,
    },
    "choices": {
        "hit_rate": (3 * 1.0 + 0.0 + 2 * 0.5) / 6,
        "nlp_nats": -np.log([0.7, 0.7, 0.7, 0.4, 0.45, 0.45]).mean(),
        "brier": (3 * 0.14 + 0.72 + 2 * 0.515) / 6,
        # Bins of a tenth: 0.1 of two sets, 0.2, 0.4 and 0.45, 0.6, 0.7.
        "calibration_error": (0.5 + 0.6 + abs(0.4 + 4 * 0.45 - 3) + 0.6 + 0.9) / (9 + 2 + 6),
        "choices": 6,
    },
    "rankings": {"nlp_nats": -np.log([0.7, 0.4, 0.45]).mean(), "answers": 3},
}


def scored(of, rows=slice(None), **more):
    """The case of a kind, with its counts unless others are given."""
    happened, counts = (
        None if x is None else np.array(x)[rows] for x in (HAPPENED.get(of), COUNTS.get(of))
    )
    return score(LOGS[of][rows], happened, **{"counts": counts, **more}, of=of)


@pytest.mark.parametrize("of", BY_HAND)
def test_figures_by_hand(of):
    found = scored(of)
    assert set(found) == {*BY_HAND[of], "nlp_bits", "nlp_se", "se_over"}
    for name, value in BY_HAND[of].items():
        assert found[name] == pytest.approx(value, rel=ROUNDING), name
    assert found["nlp_bits"] == pytest.approx(found["nlp_nats"] / np.log(2), rel=ROUNDING)
    number = [name for name in ("duels", "choices", "answers") if name in found]
    assert [found["se_over"]] == number and isinstance(found[number[0]], int)


@pytest.mark.parametrize("of", BY_HAND)
def test_counts_are_repeats(of):
    counts = np.arange(1, 1 + len(LOGS[of]))
    repeated = np.repeat(np.arange(len(counts)), counts)
    merged, apart = scored(of, counts=counts), scored(of, repeated, counts=None)
    assert_same_scores(merged, apart, rel=ROUNDING)
    taken = LOGS[of][repeated, np.array(HAPPENED[of])[repeated]] if of in HAPPENED else None
    losses = LOGS[of][repeated] if taken is None else taken
    expected = losses.std(ddof=1) / np.sqrt(len(losses))
    assert merged["nlp_se"] == pytest.approx(expected, rel=ROUNDING)


def test_duels_of_two_columns_are_those_of_their_winners():
    p = np.array([0.9, 0.5, 0.2])
    both = np.log(np.stack([1.0 - p, p], 1))
    assert_same_scores(score(both, [1, 1, 1]), score(np.log(p)), rel=ROUNDING)


@pytest.mark.parametrize(
    ("logs", "of"),
    [([-1e4, -1e-3], "duels"), ([[-1e4, 0.0], [-1e-3, np.log(-np.expm1(-1e-3))]], "choices")],
)
def test_tails_are_not_clipped(logs, of):
    assert score(logs, of=of)["nlp_nats"] == pytest.approx(5000.0005)
    never = np.array(logs)
    never.flat[0] = -np.inf
    found = score(never, of=of)
    assert found["nlp_nats"] == np.inf and np.isnan(found["nlp_se"])


def test_who_claims_nothing_is_calibrated():
    coin = score(np.log(np.full(4, 0.5)))
    assert coin["accuracy"] == 0.5 and coin["nlp_bits"] == pytest.approx(1.0)
    assert coin["brier"] == 0.25 and coin["calibration_error"] == 0.0
    equal = score(np.log(np.full((8, 4), 0.25)), np.arange(8) % 4, of="choices")
    assert equal["nlp_nats"] == pytest.approx(np.log(4.0))
    assert equal["hit_rate"] == 0.25 and equal["calibration_error"] == 0.0
    assert equal["brier"] == pytest.approx(0.75)
    ties = score(constant_shares(0.25, 8), [1, 1, 0, 0, 0, 0, 0, 0], of="outcomes")
    assert ties["tie_calibration_error"] == pytest.approx(0.0, abs=ROUNDING)
    assert ties["accuracy"] == pytest.approx(6 * 0.5 / 8)
    shares = np.exp(constant_grades([3, 5, 1], True, 2))
    np.testing.assert_allclose(shares[0], np.array([0.75, 2.75, 3.5, 2.75, 0.75]) / 10.5)


def test_calibration_averages_within_a_bin():
    # Both in the bin [0.75, 0.8): confidence 0.76 and 0.78, one right and one wrong.
    result = score(np.log([0.76, 1 - 0.78]))
    assert result["calibration_error"] == pytest.approx(abs(0.77 - 0.5))
    assert score([0.0, 0.0])["calibration_error"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(log_probabilities=[]), r"shape \(0,\); give \(duels, 2\) for at least one duel"),
        (dict(log_probabilities=[-0.1, 0.1]), "log_probabilities has 0.1 in duel 1"),
        (dict(log_probabilities=[np.nan]), "nan in duel 0"),
        (dict(log_probabilities=[-1.0], counts=[1, 2]), r"counts has shape \(2,\); give \(1,\)"),
        (dict(log_probabilities=[-1.0], counts=[0]), "counts has 0.0 in duel 0"),
        (dict(log_probabilities=[-1.0], happened=[1]), "happened has 1 in duel 0"),
        (
            dict(log_probabilities=[-1.0], happened=["first"]),
            r"happened is .*'first'.*, the places",
        ),
        (dict(log_probabilities=["much"]), "log_probabilities is .'much'.; give numbers"),
        (dict(log_probabilities=[-1.0], counts=["twice"]), "counts is .'twice'.; give numbers"),
        (dict(log_probabilities=[-1.0], groups=["a", "b"]), r"groups has shape \(2,\) for 1"),
        (
            dict(log_probabilities=[-1.0], of="matches"),
            "of is 'matches'; choose from duels, outcomes",
        ),
        (dict(log_probabilities=[[0.0, 0.0]], of="outcomes"), r"shape \(1, 2\); give \(duels, 3\)"),
        (dict(log_probabilities=np.zeros((1, 3)), of="outcomes"), "has 3.0 in duel 0; give"),
        (dict(log_probabilities=LOGS["duels"], of="choices"), r"shape \(3,\)"),
        (dict(log_probabilities=LOGS["choices"], of="choices", happened=[0, 1]), r"shape \(2,\)"),
        (
            dict(log_probabilities=LOGS["choices"], of="choices", happened=[0, 3, 1]),
            "3 in choice 1",
        ),
        (
            dict(log_probabilities=LOGS["choices"], of="choices", happened=[0, 0.5, 1]),
            "happened has 0.5 in choice 1; give places from 0 to 2",
        ),
        (dict(log_probabilities=LOGS["choices"] * np.nan, of="choices"), "nan in choice 0"),
    ],
)
def test_bad_input(arguments, words):
    with pytest.raises(ValueError, match=words) as error:
        score(**arguments)
    assert str(error.value).endswith(".") and ". " not in str(error.value)


def slow_error(values, counts, groups):
    """By all pairs of single values that have a group in common."""
    each = np.repeat(values, counts)
    of = [set(row) - {-1} for row in np.repeat(groups, counts, axis=0).tolist()]
    left = each - each.mean()
    squares = sum(
        left[i] * left[j] for i in range(len(each)) for j in range(len(each)) if of[i] & of[j]
    )
    number = len(set.union(*of))
    return np.sqrt(squares * number / (number - 1)) / len(each)


@pytest.mark.parametrize("sides", [1, 2])
def test_the_error_over_groups_is_that_of_all_pairs(sides):
    """People, and items: two duels of one item go together, as do those of one pair."""
    rng = np.random.default_rng(0)
    groups = np.stack([rng.permutation(9)[:sides] for _ in range(60)])
    groups[:3] = groups[0, 0]  # against itself, as where groups are levels of items
    effect = rng.normal(size=9)
    values = effect[groups].sum(1) + 0.1 * rng.normal(size=60)
    counts = rng.integers(1, 4, 60)
    expected = slow_error(values, counts, groups)
    alone = standard_error(values, counts)
    assert standard_error(values, counts, groups) == pytest.approx(expected, rel=1e-9)
    assert expected > 1.5 * alone
    # Groups that tell of less than independent values do, tell of nothing.
    assert standard_error(values, counts, np.arange(60) % 2) >= alone
    assert np.isnan(standard_error(values, counts, np.zeros(60, int)))
    assert np.isnan(standard_error(values[:1]))


def test_errors_of_scores_are_over_the_groups_that_are_given():
    rng = np.random.default_rng(0)
    people = np.repeat(list("abcdef"), 3)
    logs = np.log(np.repeat(rng.uniform(0.1, 0.9, 6), 3))
    found = score(logs, of="rankings", groups=people, se_over="people")
    # With equally many of each, the error of the means of people.
    assert found["nlp_se"] == pytest.approx(logs[::3].std(ddof=1) / np.sqrt(6), rel=ROUNDING)
    assert found["se_over"] == "people"
    both = np.stack([logs, np.log1p(-np.exp(logs))], 1)
    also = score(both, of="choices", groups=people, se_over="people")
    assert also["nlp_se"] == pytest.approx(found["nlp_se"], rel=ROUNDING)
    each = score_each({"model": logs, "coin": np.log(np.full(18, 0.5))}, groups=people, se_over="x")
    assert each["coin"]["gain_se"] == pytest.approx(found["nlp_se"], rel=ROUNDING)


def test_bins_of_choices_by_a_loop():
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.ones(4), 60)
    shares[:20, 3] = 0.0
    shares /= shares.sum(1, keepdims=True)
    chosen, counts = rng.integers(3, size=60), rng.integers(1, 4, size=60)
    with np.errstate(divide="ignore"):
        logs = np.log(shares)
    bins = calibration_bins(logs, chosen, counts, of="choices")
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
    error = score(logs, chosen, counts, of="choices")["calibration_error"]
    assert error == pytest.approx(gap / sum(one.duels for one in bins), rel=ROUNDING)


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
    bins = calibration_bins(np.log(p), counts=counts)
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
    assert score(np.log(p), counts=counts)["calibration_error"] == pytest.approx(gap / counts.sum())


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
    with pytest.raises(ValueError, match=r"\(30,\) utilities for \(3,\)"):
        kendall_tau(known, [1.0, 2.0, 3.0])


def test_the_surest_duels_are_answered_first() -> None:
    p = np.array([0.99, 0.9, 0.3, 0.55])  # sure of 0.99, 0.9, 0.7, 0.55
    curve = abstention_curve(np.log(p), [1, 1, 1, 1])
    assert curve[1.0] == 0.75
    assert curve[0.5] == 1.0
    assert curve[0.7] == pytest.approx(2 / 2.8), "a fifth of the third duel, which is wrong"


def test_duels_that_are_equally_sure_count_as_their_average() -> None:
    for rounding in (0.0, 1e-12):
        curve = abstention_curve(np.log([0.8, 0.2 - rounding, 0.8, 0.8]), [1, 2, 1, 1])
        assert all(right == pytest.approx(3 / 5) for right in curve.values())
    assert abstention_curve(np.log([0.5, 0.5]))[0.1] == pytest.approx(0.5)


def test_the_abstention_curve_is_that_of_a_sorted_list() -> None:
    p = np.random.default_rng(0).uniform(size=1000)
    order = np.argsort(-np.maximum(p, 1.0 - p))
    curve = abstention_curve(np.log(p))
    for share, right in curve.items():
        assert right == pytest.approx((p[order][: round(1000 * share)] > 0.5).mean())


def test_the_standard_error_of_a_gain_counts_each_duel():
    rng = np.random.default_rng(4)
    logs = {name: np.log(rng.uniform(0.1, 0.9, 50)) for name in ("model", "coin")}
    logs |= {name: np.log(rng.uniform(0.1, 0.9, 50)) for name in ("model_ahead", "elo_ahead")}
    counts = rng.integers(1, 4, 50)
    found = score_each(logs, counts=counts)
    assert "gain_se" not in found["model"] and "gain_se" not in found["model_ahead"]
    for who, other in (("model", "coin"), ("model_ahead", "elo_ahead")):
        gain = np.repeat(logs[who] - logs[other], counts)
        expected = gain.std(ddof=1) / np.sqrt(len(gain))
        assert found[other]["gain_se"] == pytest.approx(expected, rel=ROUNDING)
        text = verdict(found, other, who=who)
        assert f" ± {expected:.4f} nats per duel" in text
    logs["coin"][0] = -np.inf
    assert "gain_se" not in score_each(logs, counts=counts)["coin"]
