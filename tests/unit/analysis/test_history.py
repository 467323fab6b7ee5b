"""Who was good when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sparse_prefgp as spg
from sparse_prefgp import plotting
from sparse_prefgp.analysis.history import grid_of, history, leaders, seasons
from sparse_prefgp.cli.app import app
from sparse_prefgp.plotting import canvas
from tests.together import refused


@pytest.fixture(scope="module")
def model() -> spg.PreferenceGP:
    """`a` always wins up to 2011 and `b` after it; `d` begins late, and `e` ends early."""
    rng = np.random.default_rng(0)
    rows = []
    for day in range(0, 1400, 10):
        date = str(np.datetime64("2010-01-01") + day)
        late = day > 700
        best, other = ("b", "a") if late else ("a", "b")
        rows.append((best, rng.choice(["c", other, "d" if late else "e"]), date))
        rows.append((other, "c", date))
    duels = pd.DataFrame(rows, columns=["winner", "loser", "date"])
    read = spg.read_duels(None, duels, time="date")
    return spg.PreferenceGP(read, spg.ItemInTime(spg.markov.Wiener(1.0, 1.0), "quarter"))


def test_who_led(model: spg.PreferenceGP) -> None:
    told = seasons(model, ["2010-06-01", "2013-06-01"], 2)
    assert [one["best"][0]["item"] for one in told] == ["a", "b"]
    assert [one["active"] for one in told] == [4, 5]
    assert told[0]["date"] == "2010-06-01" and len(told[0]["best"]) == 2
    assert set(leaders(model, grid_of(model, number=9))) == {"a", "b"}


def test_new_items_are_ranked_along_with_those_active(model: spg.PreferenceGP) -> None:
    new = pd.DataFrame({"item_id": ["new", "e"]})
    found = {
        with_own: set(spg.rank(model, new, at="2013-11-01", with_own=with_own).frame["item_id"])
        for with_own in (False, True)
    }
    active = set(spg.rank(model, at="2013-11-01", active_within=1.0).frame["item_id"])
    assert found[False] == {"new", "e"} and active == {"a", "b", "c", "d"}
    assert found[True] == {"new", "e", *active}  # e is there as it was given
    alone = spg.rank(model, new.head(1), at="2013-11-01", with_own=True, active_within=1.0).frame
    assert set(alone["item_id"]) == {"new", *active}


def test_trajectories_are_above_the_average_of_those_active(model: spg.PreferenceGP) -> None:
    frame = history(model, ["d", "a"], ["2011-01-01", "2013-01-01"], level=0.8)
    assert frame["item_id"].tolist() == ["d", "a", "a"]  # d had not begun
    rows = [list(model.duels.item_ids).index(name) for name in ("d", "a")]
    direct = model.in_time.trajectories(rows, ["2011-01-01", "2013-01-01"])
    np.testing.assert_allclose(frame["utility"], direct.mean[[0, 1, 1], [1, 0, 1]])
    np.testing.assert_allclose(frame["upper"] - frame["lower"], 2 * 1.2815516 * frame["sd"])
    drawn = plotting.trajectories(model, ["a", "b"])
    assert [line.get_label() for line in drawn.get_lines()][1:] == ["a", "b"]
    assert len(drawn.collections) == 2


def test_what_is_refused(model: spg.PreferenceGP) -> None:
    for ask, words in (
        (lambda: history(model, ["A"]), "'A' is none of the 5 .* did you mean 'a'"),
        (lambda: grid_of(model, "2012-01-01", "2011-01-01"), "not after its beginning"),
        (lambda: grid_of(model, number=1), "number"),
    ):
        with pytest.raises(ValueError, match=words):
            ask()
    import gpflow

    still = spg.PreferenceGP(spg.Duels([[0.0], [1.0]], [0], [1]), gpflow.kernels.Linear())
    with refused("still", "trajectories"):
        history(still)


def test_the_command(model: spg.PreferenceGP, tmp_path, monkeypatch) -> None:
    drawn, save = [], canvas.save

    def kept(figure: Any, path: Any) -> None:
        drawn.append(figure.axes[0])
        save(figure, path)

    monkeypatch.setattr(canvas, "save", kept)
    spg.save(model, tmp_path / "model")
    more = ["--item", "a", "--item", "d", "--since", "2010-06-01", "--dates", "5"]
    outputs = ["--out", str(tmp_path / "t.csv"), "--picture", str(tmp_path / "t.png")]
    command = ["trajectories", "--model", str(tmp_path / "model"), *more, *outputs]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "Who led when" in result.output and "hold 90 %" in result.output
    frame = pd.read_csv(tmp_path / "t.csv", float_precision="round_trip")
    assert set(frame["item_id"]) == {"a", "d"} and len(frame) < 10
    for line in drawn[0].get_lines()[1:]:  # after that at 0
        written = frame.loc[frame["item_id"] == line.get_label(), "utility"]
        np.testing.assert_array_equal(line.get_ydata(), written)
        assert f"{written.iloc[-1]:z.3f}" in result.output
    assert (tmp_path / "t.png").stat().st_size > 5000
