"""`fit --time`: utilities that move, frozen and learning as they go, next to Elo."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.workflow.holdout import prepare
from sparse_prefgp.workflow.settings import FitSettings
from sparse_prefgp.workflow.workflow import Sources, settings_of

N, T = 12, 600
BOTH = ["model", "model_ahead", "linear_probit", "coin", "elo", "elo_ahead"]


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


def test_both_rules_next_to_elo(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    found = spg.fit(
        None, tables[1], time="day", covariate=["home"], max_iterations=8, test_fraction=0.3
    )
    assert found.settings.kernel_choice.parts == ("item-in-time(wiener)",)
    assert str(found.settings.approximation_choice) == "exact"
    assert found.settings.split == "time:day"
    assert found.model.slices in ("quarter", "month")
    scores, outcomes = found.scores, found.figures["held_out_outcomes"]
    assert sorted(scores) == sorted(BOTH)
    assert {each["duels"] for each in scores.values()} == {scores["coin"]["duels"]}
    assert scores["model_ahead"]["nlp_nats"] < scores["model"]["nlp_nats"]
    assert scores["model_ahead"]["nlp_nats"] < scores["elo_ahead"]["nlp_nats"] + 0.01
    assert sorted(outcomes) == ["constant_shares", "elo", "elo_ahead", "model", "model_ahead"]
    assert outcomes["model_ahead"]["nlp_nats"] < outcomes["constant_shares"]["nlp_nats"]


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
    logs = found.held_out.log_probabilities
    assert len(logs["model"]) == 30
    np.testing.assert_allclose(logs["model"], logs["model_ahead"], rtol=1e-6)
    np.testing.assert_allclose(logs["elo"], logs["elo_ahead"], rtol=1e-12)


def settings(**options: Any) -> FitSettings:
    return settings_of(Sources(None, None, time="day"), None, options)


def test_defaults_with_dates() -> None:
    assert settings().kernel_choice.parts == ("linear", "item-in-time(wiener)")
    assert str(settings().approximation_choice) == "exact"
    assert str(settings(kernel="se+item-in-time(wiener)").approximation_choice) == "vfe"
    assert settings().split == "time:day" and settings(split="given:x").split == "given:x"
    assert settings(kernel="linear").kernel_choice.parts == ("linear",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dated": False, "kernel": "item-in-time(wiener)"}, "nobody knows when the duels were"),
        ({"split": "group:day"}, "holds out .* duels before the last training one"),
        ({"tie_model": "margin-only"}, "leave it out, or the dates"),
        ({"kernel": "auto"}, "of which none moves in time"),
        ({"tastes": True}, "do not go together"),
    ],
)
def test_what_has_no_form_in_time(
    tables: tuple[pd.DataFrame, pd.DataFrame], options: dict[str, Any], words: str
) -> None:
    dated = options.get("dated", True)
    time = {"time": "day"} if dated else {}
    table = spg.io.read_table(tables[0], tables[1].assign(who="x"), person="who", **time)
    with pytest.raises(ValueError, match=words):
        prepare(table, settings_of(Sources(None, None, **time), None, options))
