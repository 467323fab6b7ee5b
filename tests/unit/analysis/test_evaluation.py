"""Scores of labelled duels, along with the baselines, and those of pairs never seen."""

from __future__ import annotations

import warnings
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
from scipy.special import log_ndtr

import sparse_prefgp as spg
from sparse_prefgp.analysis.evaluation import evaluate
from sparse_prefgp.analysis.metrics import score_each
from sparse_prefgp.analysis.rivals import linear_probit
from sparse_prefgp.analysis.scoring import learned_from
from tests.cases import assert_same_scores, random_duels
from tests.together import refused
from tests.tolerances import ROUNDING

RNG = np.random.default_rng(1)
N = 12
ITEMS = pd.DataFrame(
    {"item_id": np.arange(100, 100 + N), "x": RNG.normal(size=N), "y": RNG.normal(size=N)}
)
WON = RNG.integers(N, size=40)
LOST = (WON + RNG.integers(1, N, size=40)) % N
DUELS = pd.DataFrame({"winner": 100 + WON, "loser": 100 + LOST})
TRAINING, TEST = DUELS.head(28), DUELS.tail(12).assign(count=np.arange(1, 13))


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0, 2.0])
    return spg.PreferenceGP(spg.read_duels(ITEMS, TRAINING), kernel)


def test_a_duel_told_from_its_other_side_has_the_same_scores() -> None:
    """With its grade and its covariates turned."""
    rng = np.random.default_rng(2)
    told = DUELS.assign(grade=rng.integers(-2, 3, 40), shown_first=rng.choice([-1.0, 1.0], 40))
    below = told["grade"] < 0
    turned = told.copy()
    turned.loc[below, ["winner", "loser"]] = told.loc[below, ["loser", "winner"]].to_numpy()
    for name in ("grade", "shown_first"):
        turned[name] = np.where(below, -told[name], told[name])
    data = spg.read_duels(ITEMS, told, grade="grade", covariates=["shown_first"])
    model = spg.PreferenceGP(data, gpflow.kernels.Linear(), likelihood=spg.Probit(margin=0.3))
    found, wanted = (
        evaluate(model, duels, rng=np.random.default_rng(0)) for duels in (told, turned)
    )
    for name in ("held_out", "held_out_outcomes", "held_out_grades"):
        for predictor, figures in wanted[name].items():
            close(found[name][predictor], figures)


def close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert_same_scores(found, expected, rel=ROUNDING, abs=ROUNDING)


def test_scores_of_model_and_baselines(model: spg.PreferenceGP) -> None:
    found = evaluate(model, TEST, rng=np.random.default_rng(3))
    x, training, counts = model.duels.items, model.duels, TEST["count"].to_numpy()
    won, lost = TEST["winner"].to_numpy() - 100, TEST["loser"].to_numpy() - 100
    probit = linear_probit(training, rng=np.random.default_rng(3))
    log_p = {
        "model": np.log(model.predict_duel(x[won], x[lost])),
        "linear_probit": log_ndtr((x[won] - x[lost]) @ probit.coefficients),
        "coin": np.full(12, np.log(0.5)),
    }
    assert list(found["held_out"]) == list(log_p)

    def scored(rows: np.ndarray) -> dict[str, Any]:
        logs = {name: values[rows] for name, values in log_p.items()}
        return score_each(logs, counts=counts[rows])

    for name, scores in scored(np.ones(12, dtype=bool)).items():
        close(found["held_out"][name], scores)
    assert found["duels"] == found["held_out"]["coin"]["duels"] == 78

    seen = set(zip(TRAINING["winner"], TRAINING["loser"], strict=True))
    ordered = np.array([(a + 100, b + 100) not in seen for a, b in zip(won, lost, strict=True)])
    either = ordered & [(b + 100, a + 100) not in seen for a, b in zip(won, lost, strict=True)]
    assert 0 < either.sum() < ordered.sum() < 12
    for part, mask in (("ordered", ordered), ("either_order", either)):
        for name, scores in scored(mask).items():
            close(found["held_out_unseen_pairs"][part][name], scores)


def test_a_duels_object_scores_the_same(model: spg.PreferenceGP) -> None:
    table = evaluate(model, TEST)
    won, lost, counts = (TEST[name].to_numpy() for name in ("winner", "loser", "count"))
    ids = model.duels.item_ids
    texts = [str(value) for value in ids or ()]
    objects = [
        spg.Duels(model.duels.items, won.astype(str), lost.astype(str), counts, item_ids=texts),
        # Other items in another order, known by their ids.
        spg.Duels(
            model.duels.items[::-1], won.astype(str), lost.astype(str), counts, item_ids=texts[::-1]
        ),
    ]
    for duels in objects:
        found = evaluate(model, duels)
        for part in ("model", "linear_probit", "coin"):
            close(found["held_out"][part], table["held_out"][part])
        for part in ("ordered", "either_order"):
            close(
                found["held_out_unseen_pairs"][part]["model"],
                table["held_out_unseen_pairs"][part]["model"],
            )


def test_duels_without_ids_know_the_training_pairs_by_equal_items() -> None:
    duels = random_duels(0)
    model = spg.PreferenceGP(duels, gpflow.kernels.SquaredExponential())
    part = spg.Duels(duels.items, duels.winners[:1], duels.losers[:1])
    found = evaluate(model, part)
    # The one pair was seen in training, in this order.
    assert found["held_out_unseen_pairs"] == {}
    backwards = spg.Duels(
        duels.items, [duels.winners[0], duels.losers[0]], [duels.losers[0], duels.winners[0]]
    )
    known = {*zip(duels.winners, duels.losers, strict=True)}
    assert (duels.losers[0], duels.winners[0]) not in known
    assert list(evaluate(model, backwards)["held_out_unseen_pairs"]) == ["ordered"]
    others = spg.Duels(duels.items + 0.1, duels.winners, duels.losers)
    assert evaluate(model, others)["held_out_unseen_pairs"] == {}
    assert evaluate(model, others)["items_outside_range"] > 0


def test_new_items_and_nothing_seen(model: spg.PreferenceGP) -> None:
    items = pd.DataFrame({"item_id": ["p", "q"], "x": [0.1, 50.0], "y": [0.0, 0.1]})
    duels = pd.DataFrame({"winner": ["p", "q", "p"], "loser": ["q", "100", "101"]})
    found = evaluate(model, duels, items)
    assert found["held_out"]["model"]["duels"] == 3
    assert found["held_out_unseen_pairs"] == {}
    assert found["items_outside_range"] == 1
    assert found["outside_features"] == {"x": 1}


@pytest.mark.parametrize(
    ("duels", "message"),
    [
        (TEST.assign(winner="zz"), "Row 0 of the duels frame .* winner 'zz'"),
        (TEST.assign(winner=TEST["loser"]), "with itself"),
        (TEST.assign(count=0), "'count' has 0 in row 0"),
        (TEST.head(0), "There are no duels"),
        (TEST.drop(columns="loser"), "no column 'loser'"),
        (random_duels(0, features=3), "3 columns, but the model has 2 features"),
    ],
)
def test_bad_duels_are_refused(model: spg.PreferenceGP, duels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(model, duels)


def test_a_duels_object_has_its_own_items(model: spg.PreferenceGP) -> None:
    with refused("duels_object", "items"):
        evaluate(model, random_duels(0), ITEMS)


def said_of_known(model: spg.PreferenceGP, duels: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        evaluate(model, duels, rng=np.random.default_rng(0))
    return [str(each.message) for each in found if "learned from" in str(each.message)]


def test_duels_that_were_learned_from_are_said(model: spg.PreferenceGP) -> None:
    words = "{} duels are equal to those that the model has learned from"
    turned = TRAINING.rename(columns={"winner": "loser", "loser": "winner"})
    for duels, known in (
        (TRAINING, "28 of these 28"),
        (model.duels, "28 of these 28"),
        (TRAINING.iloc[::-1], "28 of these 28"),
        (DUELS, "28 of these 40"),  # the rest were held out
        (TRAINING.iloc[1:], "27 of these 27"),
    ):
        (said,) = said_of_known(model, duels)
        assert words.format(known) in said and said.endswith(".")
    for duels in (TEST, turned, TRAINING.head(2), pd.concat([TRAINING] * 3)):
        assert not said_of_known(model, duels)


def test_pairs_that_met_often_are_told_by_how_often() -> None:
    """Chance has the same duels of few items again and again."""
    often = TRAINING.head(4).assign(count=[9, 7, 8, 6])
    data = spg.read_duels(ITEMS, often)
    model = spg.PreferenceGP(data, gpflow.kernels.SquaredExponential())
    assert said_of_known(model, often)
    assert not said_of_known(model, often.assign(count=[9, 7, 8, 7]))


def test_ties_have_no_order_and_times_tell_duels_apart() -> None:
    told = TRAINING.assign(tie=np.arange(28) % 4 == 0, day=np.arange(28) + 17000)
    turned = told.copy()
    ties = told["tie"].to_numpy()
    turned.loc[ties, ["winner", "loser"]] = told.loc[ties, ["loser", "winner"]].to_numpy()
    data = spg.read_duels(ITEMS, told.assign(tie=told["tie"].astype(int)), time="day")
    events = data.events
    for change, known in (({}, 28), ({"time": events.time + 40.0}, 0), ({"time": None}, 28)):
        there = events.saying(**change)
        assert learned_from(data, there, there.pairs).known == known
    swapped = spg.read_duels(ITEMS, turned.assign(tie=turned["tie"].astype(int)), time="day")
    assert learned_from(data, swapped.events, swapped.events.pairs).known == 28
    assert learned_from(data, events, np.full((len(events), 2), -1)) == (0, 0, 0)


def votes_of(said: str, rng: np.random.Generator, number: int) -> Any:
    """Takes some of so many votes of 8 items, of which a judge, a task or a length is said."""
    first = rng.integers(0, 8, number)
    second = (first + rng.integers(1, 8, number)) % 8
    second_won = rng.uniform(size=number) < 0.4
    judges = rng.integers(0, 12, number)
    tasks = (8 * first + second) * 40 + rng.integers(0, 40, number)
    lengths = rng.normal(size=(number, 1)).round(6)

    def taken(rows: Any) -> spg.Duels:
        won, lost = np.where(second_won, (second, first), (first, second))[:, rows]
        more: dict[str, Any] = {}
        if said == "judge":  # both roles of one column are one thing that is said
            names = [f"j{judge}" for judge in judges[rows]]
            more = {"groups": names, "labels": {"judge": names}}
        elif said == "task":
            more = {"labels": {"task": tasks[rows].tolist()}}
        elif said == "length":
            more = {"covariates": lengths[rows], "covariate_names": ["length"]}
        return spg.Duels(np.arange(8.0)[:, None], won, lost, **more)

    return taken


@pytest.mark.parametrize("said", ["pair", "judge", "task", "length"])
def test_duels_of_which_some_were_learned_from_are_told_from_new_ones(said: str) -> None:
    for seed in range(20):
        taken = votes_of(said, np.random.default_rng(seed), 1200)
        training = taken(np.arange(800))

        def known(*parts: range, taken: Any = taken, training: Any = training) -> int:
            events = taken(np.concatenate(parts)).events
            return learned_from(training, events, events.pairs).known

        assert known(range(800, 1200)) == 0, "new ones, some equal by chance"
        if said != "pair":
            assert known(range(400)) == pytest.approx(400, abs=40)
            assert known(range(300), range(800, 1100)) == pytest.approx(300, abs=60)
        if said == "length":
            assert known(range(3), range(800, 850)) == 3
            assert known(range(2), range(800, 850)) == 0, "which make no difference"
    same = training.events
    assert learned_from(training, same, same.pairs).known == 800
