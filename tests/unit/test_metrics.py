"""Scores of predicted duels."""

import numpy as np
import pytest

from sparse_prefgp.metrics import score

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
