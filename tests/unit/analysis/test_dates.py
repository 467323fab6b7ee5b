"""What commands ask of a model in time: scores ahead, updates by a filter, answers at a date."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.evaluation import evaluate
from sparse_prefgp.analysis.prediction import predict
from sparse_prefgp.analysis.updating import update
from sparse_prefgp.data.slices import date_text
from tests.together import apart

N = 8


def league(rows: int, begin: str, seed: int, names: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(names, 2, replace=False) for _ in range(rows)])
    days = np.sort(rng.integers(0, 700, rows))
    return pd.DataFrame(
        {
            "winner": [f"t{i}" for i in pairs.min(1)],
            "loser": [f"t{i}" for i in pairs.max(1)],
            "date": (np.datetime64(begin) + days).astype(str),
            "home": rng.choice([-1, 1], rows),
        }
    )


ITEMS = pd.DataFrame({"item_id": [f"t{i}" for i in range(N + 1)], "size": np.arange(N + 1.0) % 3})
OLD = league(60, "2010-01-01", 1)
NEW = league(30, "2012-01-01", 2, N + 1)  # one more item than before


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    duels = spg.read_duels(ITEMS[:N], OLD, time="date", covariates=["home"])
    kernel = gpflow.kernels.Linear() + spg.ItemInTime(spg.markov.Wiener(1.0, 0.3), "quarter")
    return spg.PreferenceGP(duels, kernel)


def test_scores_at_the_dates_and_ahead_of_them(model: spg.PreferenceGP) -> None:
    found = evaluate(model, NEW, ITEMS, ahead=True)["held_out"]
    assert list(found) == ["model", "model_ahead", "elo", "elo_ahead", "linear_probit", "coin"]
    transform = model.duels.transform
    later = spg.io.read_duels(ITEMS, NEW, time="date", covariates=["home"]).standardised(
        transform=transform
    )
    by_hand = spg.score_ahead(model, later, slices="day")
    assert found["model_ahead"]["nlp_nats"] == pytest.approx(by_hand.nats, rel=1e-9)
    # Without a name the column is `date`; each duel at its own.
    rows = (
        [list(ITEMS["item_id"]).index(name) for name in NEW["winner"]],
        [list(ITEMS["item_id"]).index(name) for name in NEW["loser"]],
    )
    numbers = [np.where(np.array(side) < N, side, -1.0) for side in rows]
    sides = [
        np.column_stack([later.items[side], number])
        for side, number in zip(rows, numbers, strict=True)
    ]
    days = NEW["date"].to_numpy().astype("datetime64[D]")
    said = NEW[["home"]].to_numpy()
    logs = np.log(model.predict_duel(*sides, covariates=said, at=days))
    assert found["model"]["nlp_nats"] == pytest.approx(-logs.mean(), rel=1e-9)


def test_an_update_follows_and_then_infers_on_all(model: spg.PreferenceGP) -> None:
    passed, report = update(model, NEW, ITEMS, in_one_pass=True, slices="day")
    assert report.log_evidence is None and report.new_items == 1 and report.duels == 90
    assert f"{report.log_predictive:,.2f} nats" in str(report)
    settled, whole = update(model, NEW, ITEMS)
    assert whole.converged and whole.log_predictive is not None
    everything = spg.read_duels(ITEMS, pd.concat([OLD, NEW]), time="date", covariates=["home"])
    kernel = gpflow.kernels.Linear() + spg.ItemInTime(spg.markov.Wiener(1.0, 0.3), "quarter")
    afresh = spg.PreferenceGP(
        spg.Duels.from_events(
            settled.duels.items[[settled.duels.item_ids.index(x) for x in everything.item_ids]],
            everything.given,
            item_ids=everything.item_ids,
        ),
        kernel,
    )
    assert whole.log_evidence == pytest.approx(afresh.log_evidence(), rel=1e-7)
    again, _ = update(passed, NEW.assign(date="2014-05-05"), in_one_pass=True)
    assert again.in_time.last_date == np.datetime64("2014-05-05").astype(int)


def test_pairs_have_dates_of_their_own_or_one(model: spg.PreferenceGP) -> None:
    pairs = pd.DataFrame({"first": ["t0", "t1"], "second": ["t5", "t2"]})
    dated = pairs.assign(when=["2011-01-01", "2013-01-01"])
    each = predict(model, dated, columns={"date": "when"})["sd"]
    for i, date in enumerate(dated["when"]):
        one = predict(model, pairs, at=f"date={date}")["sd"]
        assert each[i] == pytest.approx(one[i], rel=1e-8)
    now = predict(model, pairs)["sd"].to_numpy()
    last = predict(model, pairs, at=model.in_time.last_date)["sd"].to_numpy()
    np.testing.assert_allclose(now, last, rtol=1e-8)


def test_suggestions_are_of_items_that_are_about(model: spg.PreferenceGP) -> None:
    found = spg.suggest(model, batch=2, at="date=2011-06-01", rng=np.random.default_rng(0))
    assert {*found.frame["first"], *found.frame["second"]} <= set(ITEMS["item_id"][:N])


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (
            lambda m: evaluate(m, NEW.drop(columns="date"), ITEMS),
            apart("in_time", "duels_without_dates"),
        ),
        (lambda m: update(m, NEW.drop(columns="date"), ITEMS), "no column 'date'"),
        (lambda m: evaluate(m, OLD, ahead=True), "before the last one of the model"),
        (lambda m: update(m, OLD, in_one_pass=True), "before the last one of the model"),
        (lambda m: update(m, NEW.assign(date="soon"), ITEMS), "'soon' in row 0"),
        (lambda m: predict(m, OLD, at="date=never"), "'never' .* no date"),
        (lambda m: predict(m, OLD, at="surface=clay"), "is no date of utilities"),
        (lambda m: spg.explain(m, "t0", "t1", at="surface=clay"), apart("context", "no_contexts")),
        (lambda m: spg.explain(m, "t0", "t1", at="date=soon"), "'soon' .* no date"),
    ],
)
def test_what_is_refused(model: spg.PreferenceGP, ask: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ask(model)


def test_dates_of_a_model_that_stays_as_it_is() -> None:
    duels = spg.read_duels(ITEMS, OLD, time="date")
    still = spg.PreferenceGP(duels, gpflow.kernels.Linear())
    for ask, words in (
        (lambda: evaluate(still, NEW, ahead=True), apart("still", "ahead")),
        (lambda: update(still, NEW, in_one_pass=True), apart("still", "in_one_pass")),
        (lambda: predict(still, OLD, at="2011-01-01"), "no date of utilities"),
    ):
        with pytest.raises(ValueError, match=words):
            ask()
    assert update(still, NEW)[1].duels == 90


@pytest.mark.parametrize(
    ("said", "day"),
    [
        ("2014-07-13", "2014-07-13"),
        ("20140713", "2014-07-13"),
        ("2014", "2014-07-02"),
        (np.datetime64("2014-07-13"), "2014-07-13"),
        (16264, "2014-07-13"),
        ("16264", "2014-07-13"),
    ],
)
def test_one_date_in_its_forms(model: spg.PreferenceGP, said: Any, day: str) -> None:
    assert date_text(model.in_time.at(said).in_time.date) == day


@pytest.mark.parametrize("said", ["20141399", "999999999", "2014-7", None, float("nan")])
def test_what_is_no_date(model: spg.PreferenceGP, said: Any) -> None:
    with pytest.raises(ValueError, match="is no date; give one such as 2026-06-11"):
        model.in_time.at(said)
