"""From tables of choices and rankings to a fitted model, scored by choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.rivals import conditional_logit
from sparse_prefgp.data.answers import RANKING, Answers
from sparse_prefgp.io import read_choices, read_rankings
from sparse_prefgp.learning.greedy import addition_gains
from sparse_prefgp.workflow.comparison import compare
from tests.together import refused

SETS = 40
FIT: dict[str, Any] = {
    "kernel": "linear",
    "approximation": "exact",
    "max_iterations": 4,
    "integrate": "no",
}


def survey() -> pd.DataFrame:
    """Forty choices among two to four of twenty plans, by ten people."""
    rng = np.random.default_rng(0)
    plans = np.column_stack([rng.integers(1, 6, 20), rng.integers(0, 2, 20)]).astype(float)
    plans = np.unique(plans, axis=0)
    rows = []
    for i in range(SETS):
        shown = plans[rng.permutation(len(plans))[: rng.integers(2, 5)]]
        noisy = -0.6 * shown[:, 0] + shown[:, 1] + 0.5 * rng.standard_normal(len(shown))
        for j, (price, green) in enumerate(shown):
            rows.append((i, i % 10, int(j == noisy.argmax()), price, green, int(i % 5 == 0)))
    names = ["choice_set", "person", "chosen", "price", "green", "test"]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    place = tmp_path_factory.mktemp("sets") / "fitted"
    found = spg.fit(choices=survey(), split="given:test", out=place, html=True, **FIT)
    return found, place


def test_a_fit_is_scored_by_choice(written: tuple[Any, Path]) -> None:
    fitted, place = written
    figures = json.loads((place / "metrics.json").read_text())
    scores = figures["held_out"]["choices"]
    assert list(scores) == ["model", "conditional_logit", "equal_shares"]
    assert scores["model"]["choices"] == 8 and figures["data"]["train_duels"] == 32
    assert set(scores["model"]) == {
        "nlp_nats",
        "nlp_bits",
        "nlp_se",
        "se_over",
        "hit_rate",
        "brier",
        "calibration_error",
        "choices",
    }
    assert fitted.model.duels.events.has_sets and "held-out choices" in str(fitted)
    assert (place / "pictures" / "reliability.png").exists()
    page = (place / "report.html").read_text()
    assert "Held-out choices" in page and "conditional logit" in page


def test_the_rivals_are_those_of_the_same_choices(written: tuple[Any, Path]) -> None:
    """In the units of the fit, on the sets that were not held out."""
    fitted, _ = written
    table = read_choices(None, survey(), never_features=["test"])
    test = np.flatnonzero(table.context["test"].to_numpy() == 1)
    held = table.standardised(test, transform=fitted.model.duels.transform)
    train = np.flatnonzero(table.context["test"].to_numpy() == 0)
    people = table.context["person"].to_numpy()[train]
    rng = np.random.default_rng(0)
    logit = conditional_logit(
        table.standardised(train, transform=fitted.model.duels.transform), people=people, rng=rng
    )
    mean = -float(held.counts @ logit.predict(held.events, held.items).log_first) / 8
    scores = fitted.scores["choices"]
    np.testing.assert_allclose(scores["conditional_logit"]["nlp_nats"], mean, rtol=1e-12)
    sizes = np.diff(held.events.offsets)
    equal = float(held.counts @ np.log(sizes)) / 8
    np.testing.assert_allclose(scores["equal_shares"]["nlp_nats"], equal, rtol=1e-12)
    logs = fitted.model.predict(held.events).log_first
    np.testing.assert_allclose(
        scores["model"]["nlp_nats"], -float(held.counts @ logs) / 8, rtol=1e-12
    )


def test_the_same_choices_as_duels() -> None:
    with pytest.warns(UserWarning, match="40 choices were expanded"):
        found = spg.fit(choices=survey(), split="given:test", as_duels=True, **FIT)
    assert not found.model.duels.events.has_sets and set(found.scores) == {
        "model",
        "linear_probit",
        "coin",
    }


@pytest.mark.slow
def test_rankings_are_scored_by_answer() -> None:
    rng = np.random.default_rng(1)
    items = pd.DataFrame({"item_id": range(12), "x": rng.standard_normal(12)})
    shown = np.array([rng.permutation(12)[:3] for _ in range(30)])
    noisy = items["x"].to_numpy()[shown] + 0.5 * rng.standard_normal(shown.shape)
    places = np.take_along_axis(shown, np.argsort(-noisy, 1), 1)
    ranked = pd.DataFrame(places, columns=["rank_1", "rank_2", "rank_3"])
    found = spg.fit(items, rankings=ranked, **FIT)
    scores = found.scores["rankings"]
    assert scores["model"]["answers"] == 6 and "choices" not in found.scores
    assert scores["model"]["nlp_nats"] < scores["equal_shares"]["nlp_nats"]
    np.testing.assert_allclose(scores["equal_shares"]["nlp_nats"], np.log(6), rtol=1e-12)


@pytest.mark.slow
def test_candidates_are_compared_by_choice() -> None:
    table = read_choices(None, survey(), never_features=["test"])
    found = compare(["linear/exact", "se/exact"], table, folds=2, max_iterations=3)
    assert {str(score.candidate) for score in found.scores} == {"linear/exact", "se/exact"}
    assert all(0.0 < score.nlp_nats < 2.0 for score in found.scores)
    assert found.linear_probit[0] > 0.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ties": pd.DataFrame()}, "ties was given without duels"),
        ({"grade": "worth"}, "grade was given without duels"),
        ({"rankings": pd.DataFrame()}, "choices and rankings were given"),
        ({"at_once": True}, "at_once was given without best_worst"),
        ({"unranked_last": True}, "unranked_last was given without rankings"),
    ],
)
def test_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spg.fit(choices=survey(), **options, **FIT)


def test_a_ranking_table_of_long_form_is_split_by_whole_sets() -> None:
    long = pd.DataFrame(
        {"ranking": [0, 0, 0, 1, 1], "item_id": list("abcab"), "rank": [1, 2, 3, 2, 1]}
    )
    table = read_rankings(None, long)
    assert table.num_rows == 2 and table.sets().tolist() == [0, 1]


@pytest.mark.slow
def test_predictions_of_sets_of_described_alternatives(written: tuple[Any, Path]) -> None:
    fitted, _ = written
    asked = survey().drop(columns=["chosen", "test"]).sample(frac=1.0, random_state=0)
    found = spg.predict(fitted.model, choices=asked.reset_index(drop=True))
    assert list(found.columns) == [*asked.columns, "probability"]
    sums = found.groupby("choice_set")["probability"].sum()
    np.testing.assert_allclose(sums, 1.0, rtol=1e-9)
    one = found[found["choice_set"] == 3]
    x = fitted.model.duels.transform.apply(one)
    alone = fitted.model.predict_choice(x[None]).numpy()[0]
    np.testing.assert_allclose(one["probability"], alone, rtol=1e-9)
    scores = spg.evaluate(fitted.model, choices=survey())
    assert scores["answers"] == SETS and set(scores["held_out"]) == {"choices"}
    chosen = found.merge(survey(), on=["choice_set", "price", "green"]).query("chosen == 1")
    mean = -np.log(chosen["probability"]).mean()
    np.testing.assert_allclose(scores["held_out"]["choices"]["model"]["nlp_nats"], mean, rtol=1e-9)


@pytest.mark.slow
def test_predictions_of_named_alternatives() -> None:
    rng = np.random.default_rng(2)
    items = pd.DataFrame({"item_id": list("abcdef"), "x": rng.standard_normal(6)})
    wide = pd.DataFrame(
        {
            "chosen": list("abcd"),
            "option_1": list("abcd"),
            "option_2": list("bcde"),
            "option_3": ["c", "d", "e", None],
        }
    )
    model = spg.fit(items, choices=wide, test_fraction=0.0, **FIT).model
    found = spg.predict(model, choices=wide.drop(columns="chosen"))
    assert found["item_id"].tolist() == list("abcbcdcdede")
    np.testing.assert_allclose(found.groupby("choice_set")["probability"].sum(), 1.0, rtol=1e-9)
    long = found.drop(columns="probability").iloc[::-1].reset_index(drop=True)
    again = spg.predict(model, choices=long)["probability"].to_numpy()[::-1]
    np.testing.assert_allclose(again, found["probability"], rtol=1e-9)
    ranked = pd.DataFrame({"rank_1": ["a"], "rank_2": ["b"], "rank_3": ["c"], "who": ["p"]})
    answer = spg.predict(model, rankings=ranked)
    events = Answers(np.arange(3), np.array([0, 3]), kind=np.array([RANKING]))
    expected = model.predict(events).log_first
    np.testing.assert_allclose(answer["log_probability"], expected, rtol=1e-9)
    assert answer["who"].tolist() == ["p"]
    new = pd.DataFrame({"item_id": ["new", "a"], "x": [2.5, 0.0]})
    both = pd.DataFrame({"choice_set": [1, 1], "item_id": ["new", "b"]})
    assert len(spg.predict(model, choices=both, items=new)) == 2
    with pytest.raises(ValueError, match="'new', which is not an item id"):
        spg.predict(model, choices=both)
    with pytest.raises(ValueError, match="a column 'probability'"):
        spg.predict(model, choices=both.assign(probability=1.0))
    with pytest.raises(ValueError, match="none was given"):
        spg.predict(model)
    for ask, given in ((spg.predict, "pairs"), (spg.evaluate, "duels"), (spg.update, "duels")):
        with pytest.raises(ValueError, match="at_once, which is of best_worst, do not go together"):
            ask(model, **{given: wide}, at_once=True)  # type: ignore[operator]
        with pytest.raises(
            ValueError, match="unranked_last, which is of rankings, do not go together"
        ):
            ask(model, choices=wide, unranked_last=True)  # type: ignore[operator]
        with pytest.raises(TypeError, match="no option 'at_onse' of choices"):
            ask(model, choices=wide, at_onse=True)  # type: ignore[operator]


@pytest.mark.slow
def test_a_fit_in_chunks_is_scored_as_in_memory() -> None:
    options = {**FIT, "approximation": "vfe", "inducing": 5, "fixed_inducing": True}
    options |= {"split": "given:test", "max_iterations": 2}
    streamed = spg.fit(choices=survey(), stream=True, **options)
    scores = streamed.scores["choices"]
    assert scores["model"]["choices"] == 8 and list(scores)[1:] == [
        "conditional_logit",
        "equal_shares",
    ]
    table = read_choices(None, survey(), never_features=["test"])
    test = np.flatnonzero(table.context["test"].to_numpy() == 1)
    held = table.standardised(test, transform=streamed.model.duels.transform)
    logs = streamed.model.predict(held.events, held.items).log_first
    mean = -float(held.counts @ logs) / 8
    np.testing.assert_allclose(scores["model"]["nlp_nats"], mean, rtol=1e-9)
    streamed.close()


def test_contradictions_are_of_duels(written: tuple[Any, Path]) -> None:
    fitted, _ = written
    with refused("consistency", "sets"):
        spg.consistency(fitted.model.duels)


@pytest.mark.slow
def test_shares_of_none_of_these() -> None:
    """A row without attributes, in the fit and in new sets."""
    rows = survey().drop(columns=["person", "test"])
    more = pd.DataFrame({"choice_set": range(SETS), "chosen": 0})
    every = pd.concat([rows, more], ignore_index=True)
    first = every.groupby("choice_set")["chosen"].transform("idxmax")
    left = every["choice_set"] % 4 == 0  # these take nothing
    every.loc[left, "chosen"] = (every.loc[left, "price"].isna()).astype(int)
    assert first is not None and every.groupby("choice_set")["chosen"].sum().eq(1).all()
    model = spg.fit(choices=every, test_fraction=0.0, **FIT).model
    assert "none" in model.duels.feature_names
    new = pd.DataFrame({"price": [1.0, 5.0, None], "green": [1.0, 0.0, None]})
    found = spg.shares(model, new, draws=50).frame
    np.testing.assert_allclose(found["share"].sum(), 1.0, rtol=1e-9)
    assert 0.05 < found["share"].iloc[2] < 0.6
    asked = spg.predict(model, choices=new.assign(choice_set=1))
    assert abs(asked["probability"].iloc[2] - found["share"].iloc[2]) < 0.1
    assert len(spg.predict(model, choices=new[:2].assign(choice_set=1))) == 2


def test_gains_of_inducing_inputs_are_of_duels() -> None:
    duels = spg.read_choices(None, survey(), ignore=["test"])
    kernel = gpflow.kernels.Matern52()
    model = spg.PreferenceGP(
        duels, kernel, approximation=spg.VFE(), inducing_variable=duels.items[:3]
    )
    with refused("gain", "sets"):
        addition_gains(model, duels.items[3:5])
