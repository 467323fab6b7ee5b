"""What scores say, in sentences."""

import math

import pytest

from sparse_prefgp.analysis.verdicts import (
    called_right,
    compared,
    is_reversed,
    legend,
    named,
    no_better_than_a_coin,
    verdicts,
    verdicts_on_sets,
)


@pytest.mark.parametrize(
    ("gain", "error", "accuracy", "number", "blind"),
    [
        (-0.2, 0.01, 0.49, 400, True),
        (0.002, 0.003, 0.52, 400, True),
        (0.006, 0.007, 0.52, 400, True),
        (0.004, 0.02, 0.52, 400, False),  # may be better by .044
        (0.02, 0.001, 0.52, 400, False),
        (-0.2, 0.01, 0.7, 400, False),  # too sure, but right
        (-0.07, 0.46, 0.75, 8, False),
        (-0.2, None, 0.4, 1, False),
    ],
)
def test_no_better_than_a_coin(gain, error, accuracy, number, blind):
    coin = {"nlp_nats": 0.69} | ({} if error is None else {"gain_se": error})
    model = {"nlp_nats": 0.69 - gain, "accuracy": accuracy, "duels": number}
    scores = {"model": model, "coin": coin}
    assert no_better_than_a_coin(scores) is blind
    ahead = {**scores, "model_ahead": {**model, "nlp_nats": 0.1, "accuracy": 0.9}}
    assert not no_better_than_a_coin(ahead)
    assert not no_better_than_a_coin({"choices": scores})


@pytest.mark.parametrize(
    ("accuracy", "number", "found"), [(0.4, 400, True), (0.46, 400, False), (0.2, 8, False)]
)
def test_wrong_more_often_than_a_coin(accuracy, number, found):
    assert is_reversed({"model": {"accuracy": accuracy, "duels": number}}) is found
    assert not is_reversed({})


def test_how_often_the_model_is_right_in_a_sentence():
    def of(share):
        return {"nlp_nats": 0.6, "accuracy": share, "duels": 1200}

    scores = {"model": of(0.8), "linear_probit": of(0.725), "coin": of(0.5)}
    scores["coin"]["nlp_nats"] = 0.6931
    assert called_right(scores) == (
        "Of 1,200 held-out duels, the model named the winner in 80.0 %, the coin 50.0 %, the "
        "linear probit 72.5 %."
    )
    assert called_right(scores, "duel", True).startswith("Of 1,200 duels that one side won, the")
    assert "linear probit" in legend(scores)
    del scores["linear_probit"]
    assert "linear probit" not in legend(scores) and called_right(scores).endswith(
        "the coin 50.0 %."
    )


def test_verdicts_name_each_rival():
    def of(nats):
        return {"nlp_nats": nats, "duels": 10}

    scores = {"model": of(0.5), "linear_probit": of(0.6), "coin": of(0.69)}
    assert verdicts(scores) == [
        "The model is better than the coin by 0.1900 nats per duel.",
        "The model is better than the linear probit by 0.1000 nats per duel.",
    ]
    dated = {**scores, "model_ahead": of(0.4), "elo": of(0.55), "elo_ahead": of(0.45)}
    assert verdicts(dated)[2:] == [
        "The model is better than Elo by 0.0500 nats per duel.",
        "The model, updating, is better than Elo, updating, by 0.0500 nats per duel.",
    ]
    assert verdicts({}) == []
    scores["coin"] |= {"gain_se": 0.01, "se_over": "people"}
    assert verdicts(scores)[-1].endswith("per duel. (± is a standard error over people.)")


def test_verdicts_on_sets():
    scores = {name: {"nlp_nats": nats} for name, nats in (("model", 1.0), ("equal_shares", 1.1))}
    line = "The model is better than equal shares by 0.1000 nats per choice."
    assert verdicts_on_sets(scores, "choice") == [line]
    scores["conditional_logit"] = {"nlp_nats": 0.9}
    assert verdicts_on_sets(scores, "choice") == [
        line,
        "The model is worse than the conditional logit by 0.1000 nats per choice.",
    ]


def test_a_difference_says_when_it_is_little():
    assert compared(-0.0099, "the coin") == (
        "worse than the coin by 0.0099 nats per duel, which is little"
    )
    assert compared(0.0741, "the coin", "duel", 0.0312, 138) == (
        "better than the coin by 0.0741 ± 0.0312 nats per duel"
    )
    assert compared(-0.06, "the coin", "choice", 0.0312, 138) == (
        "worse than the coin by 0.0600 ± 0.0312 nats per choice; 138 choices are too few to "
        "rule out luck"
    )
    assert compared(0.009, "the coin", "duel", 0.001, 9000).endswith(
        "nats per duel, which is little"
    )
    assert compared(0.02, "Elo, updating", "choice") == (
        "better than Elo, updating, by 0.0200 nats per choice"
    )


@pytest.mark.parametrize("gain", [0.0, -0.0, 4.9e-5, -4.9e-5])
def test_a_difference_that_rounds_to_nothing_is_none(gain: float) -> None:
    assert compared(gain, "Elo, updating") == "no better than Elo, updating"
    assert "0.0001" in compared(math.copysign(5.1e-5, gain), "the coin")


def test_predictors_have_names() -> None:
    assert [named(name) for name in ("linear_probit", "elo")] == ["the linear probit", "Elo"]
