"""`fit --time`: utilities that move, frozen and learning as they go, next to Elo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.workflow.holdout import prepare
from sparse_prefgp.workflow.settings import FitSettings
from sparse_prefgp.workflow.workflow import Sources, settings_of
from tests.together import apart

N, T = 12, 600
BOTH = ["model", "model_ahead", "without_dates", "linear_probit", "coin", "elo", "elo_ahead"]


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A league of twelve over eight years, whose strengths swap in the course of it."""
    rng = np.random.default_rng(5)
    days = np.sort(rng.integers(0, 8 * 365, T))
    first, second = np.array([rng.choice(N, 2, replace=False) for _ in range(T)]).T
    level, end = rng.normal(size=(2, N)) * 1.2
    share = (days / days[-1])[:, None]
    now = (1 - share) * level + share * end
    gap = now[np.arange(T), first] - now[np.arange(T), second] + 0.4
    noisy = gap + rng.normal(size=T)
    won = noisy > 0
    home = np.where(won, 1, -1)
    frame = pd.DataFrame(
        {
            "winner": [f"t{i}" for i in np.where(won, first, second)],
            "loser": [f"t{i}" for i in np.where(won, second, first)],
            "day": (np.datetime64("2010-01-01") + days).astype(str),
            "home": home,
            "tie": (np.abs(noisy) < 0.3).astype(int),
        }
    )
    items = pd.DataFrame({"item_id": [f"t{i}" for i in range(N)], "size": rng.normal(size=N)})
    return items, frame


@pytest.mark.slow
def test_both_rules_next_to_elo(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    found = spg.fit(
        None, tables[1], time="day", covariate=["home"], max_iterations=8, test_fraction=0.3
    )
    (kernel,) = found.settings.kernel_choice.parts
    assert kernel == f"item-in-time({found.figures['in_time']['kernel']})"
    assert str(found.settings.approximation_choice) == "exact"
    assert found.settings.split == "time:day"
    assert found.model.in_time.slices in ("quarter", "month", "week")
    scores, outcomes = found.scores, found.figures["held_out_outcomes"]
    assert sorted(scores) == sorted(BOTH)
    assert {each["duels"] for each in scores.values()} == {scores["coin"]["duels"]}
    assert scores["model_ahead"]["nlp_nats"] < scores["model"]["nlp_nats"]
    assert scores["model_ahead"]["nlp_nats"] < scores["elo_ahead"]["nlp_nats"] + 0.01
    assert sorted(outcomes) == ["constant_shares", "elo", "elo_ahead", "model", "model_ahead"]
    assert outcomes["model_ahead"]["nlp_nats"] < outcomes["constant_shares"]["nlp_nats"]


@pytest.mark.slow
def test_duels_of_one_day_are_forecast_alike_by_both_rules(
    tables: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    items, duels = tables
    duels = duels.iloc[:150].drop(columns="tie")
    duels.loc[120:, "day"] = "2013-01-01"
    duels.loc[130, ["winner", "loser"]] = ["new", "t3"]
    items = pd.concat([items, pd.DataFrame({"item_id": ["new"], "size": [0.5]})])
    options = {"test_fraction": 0.2, "max_iterations": 2, "kernel": "linear+item-in-time(matern12)"}
    found = spg.fit(items, duels, time="day", **options)
    logs = found.held_out.forecasts["duels"].log_probabilities
    assert len(logs["model"]) == 30
    np.testing.assert_allclose(logs["model"], logs["model_ahead"], rtol=1e-6)
    np.testing.assert_allclose(logs["elo"], logs["elo_ahead"], rtol=1e-12)


def settings(**options: Any) -> FitSettings:
    return settings_of(Sources(None, "duels.csv", time="day"), None, options)


def test_defaults_with_dates() -> None:
    assert settings().kernel_choice.parts == ("linear", "item-in-time(wiener)")
    assert str(settings().approximation_choice) == "exact"
    assert str(settings(kernel="se+item-in-time(wiener)").approximation_choice) == "vfe"
    assert settings().split == "time:day" and settings(split="given:x").split == "given:x"
    assert settings(kernel="linear").kernel_choice.parts == ("linear",)
    # Asked for by name it is what is meant, and utilities that stay as they are may have it.
    assert settings(kernel="linear", split="duels").split == "duels"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"dated": False, "kernel": "item-in-time(wiener)"},
            apart("in_time", "duels_without_dates"),
        ),
        ({"split": "group:day"}, "holds out .* duels before the last training one"),
        ({"split": "duels"}, "'duels' holds out .* later results would tell; hold out the last"),
        ({"tie_model": "margin-only"}, apart("dated_fit", "margin_only")),
        ({"integrate": "yes"}, apart("integrate", "dated_fit")),
        ({"kernel": "auto"}, apart("in_time", "auto")),
        ({"tastes": True}, apart("in_time", "tastes")),
    ],
)
def test_what_has_no_form_in_time(
    tables: tuple[pd.DataFrame, pd.DataFrame], options: dict[str, Any], words: str
) -> None:
    dated = options.get("dated", True)
    time = {"time": "day"} if dated else {}
    table = spg.io.read_duels(tables[0], tables[1].assign(who="x"), person="who", **time)
    with pytest.raises(ValueError, match=words):
        prepare(table, settings_of(Sources(None, "duels.csv", **time), None, options))


@pytest.fixture(scope="module")
def moving(tables: tuple[pd.DataFrame, pd.DataFrame]) -> Any:
    items, duels = tables
    duels = duels.iloc[:300].drop(columns=["tie", "home"])
    duels = duels[~((duels["day"] < "2012-01-01") & duels.isin(["t7"]).any(axis=1))]
    duels = duels[~((duels["day"] > "2010-06-01") & duels.isin(["t8"]).any(axis=1))]
    read = spg.read_duels(items, duels, time="day")
    kernel = gpflow.kernels.Linear() + spg.ItemInTime(spg.markov.Wiener(1.0, 0.3), "quarter")
    return spg.PreferenceGP(read, kernel)


def test_a_ranking_at_a_date_is_of_those_who_are_about(moving: Any) -> None:
    early = spg.rank(moving, at="date=2011-03-05")
    assert "t7" not in set(early.frame["item_id"]) and "t8" in set(early.frame["item_id"])
    now = spg.rank(moving)
    assert {"t7"} <= set(now.frame["item_id"]) and "t8" not in set(now.frame["item_id"])
    assert len(now.frame) == N - 1
    assert any("those of 2011-03-05" in note for note in early.sentences())
    # Centred utilities, from the joint posterior of those ranked.
    rows = np.array([moving.duels.item_ids.index(name) for name in early.frame["item_id"]])
    mean, covariance = moving.predict_f(
        moving.inputs.of_items(rows, at="2011-03-05"), full_cov=True
    )
    centre = np.eye(len(rows)) - 1.0 / len(rows)
    np.testing.assert_allclose(early.frame["utility"], centre @ mean.numpy()[:, 0], atol=1e-8)
    sd = np.sqrt(np.diag(centre @ covariance.numpy()[0] @ centre))
    half = (early.frame["upper"] - early.frame["lower"]) / 2
    np.testing.assert_allclose(half, 1.959964 * sd, rtol=1e-6)


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("date=1990-01-01", "No item is active on 1990-01-01"),
        ("date=yesterday", "'yesterday' .* no date"),
        (["date=2011-01-01", "date=2012-01-01"], "Several dates"),
        ("surface=clay", "surface"),
    ],
)
def test_dates_that_cannot_be_ranked_at(moving: Any, at: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spg.rank(moving, at=at)


@pytest.mark.slow
def test_the_folder_of_a_fit_in_time(
    tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    duels = tables[1].iloc[:200].drop(columns="tie")
    kernel = "item-in-time(wiener, quarter)"
    options = {"kernel": kernel, "max_iterations": 1, "test_fraction": 0.0, "html": True}
    spg.fit(None, duels, time="day", out=tmp_path / "fit", **options)
    told = json.loads((tmp_path / "fit" / "metrics.json").read_text())
    assert "not_written" not in told
    assert told["in_time"]["slices"] == "quarter" and len(told["in_time"]["seasons"]) == 12
    assert (tmp_path / "fit" / "pictures" / "trajectories.png").is_file()
    page = (tmp_path / "fit" / "report.html").read_text()
    assert "Who was good when" in page and "Best when: 20" in page
