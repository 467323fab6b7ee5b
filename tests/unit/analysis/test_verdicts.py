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
    rivals_in,
    said_of_a_coin,
    score_parts,
    score_table,
    verdicts,
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
    ("rivals", "said"),
    [
        ({}, "does winner hold who won"),
        ({"linear_probit": (0.6925, 0.51)}, "and so is the linear probit"),
        ({"linear_probit": (0.60, 0.68)}, "other than the linear probit"),
    ],
)
def test_columns_are_asked_for_only_where_no_rival_was_fitted(rivals, said):
    coin = {"nlp_nats": 0.6931, "gain_se": 0.003}
    scores = {"model": {"nlp_nats": 0.6930, "accuracy": 0.5, "duels": 400}, "coin": coin}
    for name, (nats, accuracy) in rivals.items():
        scores[name] = {"nlp_nats": nats, "accuracy": accuracy, "duels": 400, "gain_se": 0.003}
    found = said_of_a_coin(scores, " Columns that were not read: x.")
    assert said in found and "hardly better than a coin" in found and "not read: x." in found


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
    scores["coin"]["gain_se"] = 1.0
    assert "the people of 10 duels are too few to rule out luck" in verdicts(scores)[0]


def test_two_answers_that_agree_are_no_finding():
    scores = {
        name: {"nlp_nats": nats, "accuracy": 0.0, "duels": 2}
        for name, nats in (("model", 0.73), ("coin", 0.69), ("bradley_terry", 0.6))
    }
    for name in ("coin", "bradley_terry"):
        scores[name] |= {"gain_se": 0.0, "se_over": "duels"}
    assert verdicts(scores)[:2] == [
        "The model is worse than the coin by 0.0400 nats per duel; 2 duels are too few to rule out "
        "luck.",
        "The model is worse than Bradley–Terry by 0.1300 nats per duel; 2 duels are too few to "
        "rule out luck.",
    ]
    assert not no_better_than_a_coin(scores)


def test_verdicts_on_choices():
    scores = {
        name: {"nlp_nats": nats, "hit_rate": right, "choices": 7}
        for name, nats, right in (("model", 1.0, 0.5), ("equal_shares", 1.1, 0.25))
    }
    line = "The model is better than equal shares by 0.1000 nats per choice."
    assert verdicts(scores, "choice") == [line]
    assert called_right(scores, "choice") == (
        "Of 7 choices, the model named what was chosen in 50.0 %, equal shares 25.0 %."
    )
    scores["conditional_logit"] = scores["equal_shares"]
    assert verdicts(scores, "choice") == [line] and "conditional" not in legend(scores)
    scores["conditional_logit"] = {"nlp_nats": 0.9, "choices": 7}
    assert verdicts(scores, "choice") == [
        line,
        "The model is worse than the conditional logit by 0.1000 nats per choice.",
    ]


def test_a_difference_says_when_it_is_little():
    assert compared(-0.0099, "the coin") == (
        "worse than the coin by 0.0099 nats per duel, which is little"
    )
    assert compared(0.0741, "the coin", "duel", 0.0312, "138 duels") == (
        "better than the coin by 0.0741 ± 0.0312 nats per duel"
    )
    assert compared(-0.06, "the coin", "choice", 0.0312, "138 choices") == (
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


def test_a_rival_that_knows_nothing_is_not_shown():
    coin = {"accuracy": 0.5, "nlp_nats": 0.6931, "duels": 9}
    model = {"accuracy": 0.8, "nlp_nats": 0.5, "duels": 9}
    scores = {"model": model, "linear_probit": {**coin, "nlp_nats": 0.6}, "coin": coin}
    assert rivals_in(scores) == ["coin", "linear_probit"]
    blind = {**scores, "linear_probit": coin}
    assert rivals_in(blind) == ["coin"] and rivals_in({**blind, "elo": model}) == ["coin", "elo"]
    shown = score_table("duels", "Duels", blind)
    assert [row["predictor"] for row in shown.rows] == ["model", "coin"]


def test_scores_are_told_in_order():
    duels = {"accuracy": 0.5, "nlp_nats": 0.6931, "nlp_bits": 1.0, "brier": 0.25, "duels": 9}
    choices = {"nlp_nats": 1.1, "nlp_se": 0.1, "hit_rate": 0.4, "brier": 0.5, "choices": 9}
    scores = {name: duels for name in ("model", "coin")}
    first, table, outcomes, last = score_parts(
        {"held_out": scores, "held_out_outcomes": {"model": duels}, "held_out_grades": {}}
    )
    assert first.startswith("Of 9 held-out duels that one side won, the model") and "coin" in last
    assert table.title == "Held-out duels that one side won" and "nlp bits" in table.headings
    assert outcomes.title == "Held-out duels: win, tie or loss"
    assert "nlp bits" not in outcomes.headings
    both = {"held_out": {kind: {"model": choices} for kind in ("choices", "rankings")}}
    titles = [part.title for part in score_parts(both, "") if not isinstance(part, str)]
    assert titles == ["Choices", "Rankings"]
    people = {"held_out": scores, "held_out_people": {"known_people": {"choices": scores}}}
    assert score_parts(people)[-1].title == "Of these, people with choices in training"
    endless = {name: {**duels, "nlp_nats": math.inf} for name in scores}
    parts = score_parts({"held_out": endless})
    assert "not finite" in str(parts[1]) and len(parts) == 2


@pytest.mark.parametrize(
    ("ahead", "error", "rival", "fit", "named_option"),
    [
        (0.01, 0.004, "linear_probit", {"kernel": "matern52"}, "; take --kernel linear."),
        (0.01, 0.004, "linear_probit", {"kernel": "linear"}, None),
        (0.01, 0.004, "linear_probit", None, None),
        (0.01, 0.004, "bradley_terry", {"kernel": "item"}, None),
        (
            *(0.01, 0.004, "bradley_terry", {"kernel": "item", "noise_ratios": {"groups": 2}}),
            "; take --kernel item without what is learned by judge.",
        ),
        (0.01, 0.006, "linear_probit", {}, None),
        (0.002, 0.0005, "linear_probit", {}, None),
        (-0.01, 0.004, "linear_probit", {}, None),
        (0.01, 0.004, "coin", {}, None),
    ],
)
def test_a_rival_that_is_surely_better_is_named_with_what_takes_it(
    ahead, error, rival, fit, named_option
):
    scores = {
        "model": {"nlp_nats": 0.6, "duels": 900},
        rival: {"nlp_nats": 0.6 - ahead, "gain_se": error, "duels": 900},
    }
    (said,) = verdicts(scores, fit=fit)
    assert ("; take" in said) is (named_option is not None)
    assert named_option is None or said.endswith(named_option)
