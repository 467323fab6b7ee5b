"""Leans of judges on the command line: fitted, recorded, and read again by the other commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cases import assert_same_scores
from tests.together import sentence

pytest.importorskip("pandas")
pytest.importorskip("typer")

import pandas as pd
from typer.testing import CliRunner

import sparse_prefgp as spg
from sparse_prefgp.cli.app import app
from sparse_prefgp.plotting.canvas import save
from sparse_prefgp.workflow import pictures
from sparse_prefgp.workflow.fit_sources import Sources
from sparse_prefgp.workflow.settings import FitSettings
from sparse_prefgp.workflow.workflow import settings_of
from tests.tolerances import ROUNDING

pytestmark = pytest.mark.data
N, T = 8, 240


def call(*words: Any) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Duels in which Ann leans to what is shown first and Bob away from it, and a fit of them."""
    place = tmp_path_factory.mktemp("leans")
    rng = np.random.default_rng(0)
    x = rng.normal(size=N)
    first = rng.integers(N, size=T)
    second = (first + rng.integers(1, N, size=T)) % N
    judge = rng.choice(["Ann", "Bob", "Cem"], size=T)
    lean = pd.Series(judge).map({"Ann": 1.5, "Bob": -1.5, "Cem": 0.0}).to_numpy()
    ahead = x[first] - x[second] + lean + rng.normal(size=T) > 0.0
    frame = pd.DataFrame(
        {
            "winner": np.where(ahead, first, second),
            "loser": np.where(ahead, second, first),
            "shown_first": np.where(ahead, 1, -1),
            "judge": judge,
        }
    )
    frame.to_csv(place / "duels.csv", index=False)
    frame.iloc[:40].to_csv(place / "new.csv", index=False)
    pd.DataFrame({"item_id": range(N), "x": x}).to_csv(place / "items.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "save", kept)
        told = call(*fit_words(place), "--out", place / "fitted", "--lean-by", "judge")
    (place / "told.txt").write_text(told)
    return place


DRAWN: dict[str, Any] = {}


def kept(figure: Any, path: Path) -> None:
    """Write the picture, and keep its axis."""
    DRAWN[path.stem] = figure.axes[0]
    save(figure, path)


def points(name: str) -> tuple[Any, Any]:
    """The points (k,) of a picture along its axis, and the ends (k, 2) of their intervals."""
    bars = DRAWN[name].containers
    at = np.concatenate([bar.lines[0].get_xdata() for bar in bars])
    return at, np.concatenate([bar.lines[2][0].get_segments() for bar in bars])[:, :, 0]


def fit_words(place: Path) -> tuple[Any, ...]:
    words = ("--covariate", "shown_first", "--kernel", "linear", "--approximation", "exact")
    tables = ("--items", place / "items.csv", "--duels", place / "duels.csv")
    return ("fit", *tables, *words, "--max-iterations", 8)


@pytest.mark.slow
def test_each_judge_has_a_row(folder: Path) -> None:
    metrics = json.loads((folder / "fitted" / "metrics.json").read_text())
    rows = {row["name"]: row for row in metrics["fit"]["coefficients"]}
    assert set(rows) == {"shown_first", *(f"shown_first of {who}" for who in ("Ann", "Bob", "Cem"))}
    assert rows["shown_first of Ann"]["lower"] > 0.0 > rows["shown_first of Bob"]["upper"]
    leans = metrics["fit"]["leans"]
    (lean,) = leans
    assert lean["by"] == "judge" and lean["covariate"] == "shown_first"
    assert lean["groups"] == 3 and lean["variance"] > 0.5
    table = pd.read_csv(folder / "fitted" / "coefficients.csv")
    assert list(table["name"]) == [row["name"] for row in metrics["fit"]["coefficients"]]
    held = metrics["held_out"]
    assert held["model"]["nlp_nats"] < held["linear_probit"]["nlp_nats"] - 0.05


@pytest.mark.slow
def test_pictures_show_the_numbers_that_are_printed(folder: Path) -> None:
    """Text, picture, table and metrics say the same."""
    fitted, told = folder / "fitted", " ".join((folder / "told.txt").read_text().split())
    metrics = json.loads((fitted / "metrics.json").read_text())
    assert set(DRAWN) == {path.stem for path in (fitted / "pictures").iterdir()}

    table = pd.read_csv(fitted / "coefficients.csv", float_precision="round_trip")
    assert table.to_dict("records") == metrics["fit"]["coefficients"]
    labels = [label.get_text() for label in DRAWN["coefficients"].get_yticklabels()]
    shown = table.set_index("name").loc[[label.split(" (")[0] for label in labels]]
    assert len(shown) == len(table) and shown["mean"].iloc[1:].is_monotonic_decreasing
    at, ends = points("coefficients")
    np.testing.assert_array_equal(at, shown["mean"])
    np.testing.assert_allclose(ends, shown[["lower", "upper"]], rtol=0.0, atol=ROUNDING)
    mean, lower, upper = (f"{shown[column].iloc[0]:.3g}" for column in ("mean", "lower", "upper"))
    assert labels[0] == f"shown_first ({mean})"
    said = f"Coefficient of shown_first: {mean} (90 % interval {lower} to {upper})"
    assert said in told

    ranking = pd.read_csv(fitted / "ranking.csv", float_precision="round_trip")
    at, ends = points("utilities")
    np.testing.assert_array_equal(at, ranking["utility"])
    np.testing.assert_allclose(ends, ranking[["lower", "upper"]], rtol=0.0, atol=ROUNDING)

    error = metrics["held_out"]["model"]["calibration_error"]
    assert DRAWN["reliability"].get_title(loc="right") == f"calibration error {error:.3f}"
    assert f"{error:.4f}" in told
    (end,) = DRAWN["evidence"].get_lines()[-1].get_ydata()
    assert end == pytest.approx(metrics["fit"]["log_evidence_per_duel"], abs=ROUNDING)
    assert f"{end:.4f} per duel" in told


@pytest.mark.slow
def test_the_column_is_known_to_the_other_commands(folder: Path) -> None:
    model = spg.load(folder / "fitted")
    named = spg.evaluate(model, folder / "new.csv")
    frame = pd.read_csv(folder / "new.csv").rename(columns={"judge": "who"})
    with pytest.warns(UserWarning, match="no column 'judge' .what leans by it is unknown"):
        unknown = spg.evaluate(model, frame)
    assert unknown["held_out"]["model"]["nlp_nats"] > named["held_out"]["model"]["nlp_nats"] + 0.05

    pairs = pd.DataFrame({"first": [0, 0], "second": [1, 1], "shown_first": [1, 1]})
    pairs["judge"] = ["Ann", "Bob"]
    p = spg.predict(model, pairs).probability.to_numpy()
    assert p[0] > p[1] + 0.3
    one, other = spg.predict(model, pairs.rename(columns={"judge": "who"})).probability
    assert one == other and p[1] < one < p[0]

    new, report = spg.update(model, folder / "new.csv")
    assert report.new_duels == 40 and [*new.duels.label_names] == ["judge"]
    assert new.coefficients().names == model.coefficients().names
    words = ("--model", folder / "fitted", "--duels", folder / "new.csv", "--quiet")
    call("evaluate", *words, "--out", folder / "scores.json")
    scores = json.loads((folder / "scores.json").read_text())
    assert_same_scores(scores["held_out"]["model"], named["held_out"]["model"])


@pytest.mark.slow
def test_with_noise_by_the_same_judge_refitted_and_compared(folder: Path) -> None:
    more = ("--noise-by", "judge", "--lean-by", "judge:shown_first", "--refit")
    call(*fit_words(folder), "--out", folder / "both", *more, "--quiet")
    metrics = json.loads((folder / "both" / "metrics.json").read_text())
    for name in ("fit", "refit_fit"):
        assert metrics[name]["leans"][0]["groups"] == metrics[name]["noise_ratios"]["groups"] == 3
    words = ("--items", folder / "items.csv", "--duels", folder / "duels.csv", "--json")
    words += ("--candidates", "linear/exact", "--folds", 2, "--max-iterations", 4)
    plain, covariate, lean = (
        json.loads(CliRunner().invoke(app, ["select", *map(str, words), *flags]).stdout)
        for flags in (
            (),
            ("--covariate", "shown_first"),
            ("--covariate", "shown_first", "--lean-by", "judge"),
        )
    )
    nats = [found["candidates"][0]["nlp_nats"] for found in (plain, covariate, lean)]
    assert nats[2] < min(nats[:2]) - 0.05


@pytest.mark.slow
def test_read_in_chunks(folder: Path) -> None:
    parts = folder / "parts"
    parts.mkdir()
    frame = pd.read_csv(folder / "duels.csv")
    for k in range(2):
        frame.iloc[k::2].to_parquet(parts / f"{k}.parquet", index=False)
    words = ("fit", "--items", folder / "items.csv", "--duels", parts, "--stream", "--parts", 2)
    words += ("--covariate", "shown_first", "--lean-by", "judge", "--noise-by", "judge")
    call(*words, "--kernel", "linear", "--max-iterations", 8, "--out", folder / "chunks", "--quiet")
    metrics = json.loads((folder / "chunks" / "metrics.json").read_text())["fit"]
    rows = {row["name"]: row for row in metrics["coefficients"]}
    assert rows["shown_first of Ann"]["lower"] > 0.0 > rows["shown_first of Bob"]["upper"]
    assert metrics["noise_ratios"]["groups"] == metrics["leans"][0]["groups"] == 3
    assert list(pd.read_csv(folder / "chunks" / "coefficients.csv")["name"]) == list(rows)
    found = [
        spg.evaluate(spg.load(folder / "chunks"), duels)["held_out"]["model"]
        for duels in (parts, frame)
    ]
    assert_same_scores(found[0], found[1], rel=1e-7)
    model = ("--model", folder / "chunks")
    call("predict", *model, "--pairs", folder / "new.csv", "--out", folder / "p.csv", "--quiet")
    p = pd.read_csv(folder / "p.csv")
    p = p[p["shown_first"] == 1].groupby("judge")["probability"].mean()
    assert p["Ann"] > p["Bob"] + 0.1
    table = ("--duels", folder / "duels.csv", "--stream", "--out", folder / "table", "--quiet")
    call(*fit_words(folder)[:3], *table, *words[6:], "--kernel", "linear", "--max-iterations", 8)
    again = json.loads((folder / "table" / "metrics.json").read_text())["fit"]
    assert {row["name"] for row in again["coefficients"]} == set(rows)
    assert again["noise_ratios"]["groups"] == again["leans"][0]["groups"] == 3
    words = ("fit", "--items", folder / "items.csv", "--duels", parts, "--covariate", "shown_first")
    for more, text in (
        (
            ("--noise-by", "judge", "--gradients", "subset", "--stream"),
            sentence("gradients_of_a_subset", "noise_by_group"),
        ),
        (("--lean-by", "nobody"), "'nobody'; choose from"),
    ):
        result = CliRunner().invoke(app, [str(x) for x in (*words, *more, "--out", folder / "no")])
        assert result.exit_code == 2 and text in result.output


def test_settings_follow_the_sources() -> None:
    sources = Sources(duels="duels.csv", covariate=["side"], lean_by="judge")
    for settings in (None, FitSettings()):
        assert settings_of(sources, settings, {}).leans == (("judge", "side"),)
    assert not settings_of(sources, None, {}).noise_by_group
    with pytest.raises(ValueError, match="no covariate of the duels; name"):
        spg.fit(duels=spg.Duels(np.eye(3), [0, 1], [1, 2]), leans="judge:side", kernel="linear")


@pytest.mark.slow
@pytest.mark.parametrize("source", ["memory", "chunks"])
def test_two_columns_lean_by_two_covariates(folder: Path, tmp_path: Path, source: str) -> None:
    frame, rng = pd.read_csv(folder / "duels.csv"), np.random.default_rng(3)
    long = rng.random(T) < 0.5
    frame["length"] = np.where(long, 0.6, -0.6) + rng.normal(size=T)
    frame = frame.assign(kind=np.where(long, "long", "short"))
    duels, more = tmp_path / "duels.csv", ("--approximation", "exact")
    frame.to_csv(duels, index=False)
    if source == "chunks":
        duels, more = tmp_path / "parts", ("--stream", "--parts", "2")
        duels.mkdir()
        for k in range(2):
            frame.iloc[k::2].to_parquet(duels / f"{k}.parquet", index=False)
    words = ("--items", folder / "items.csv", "--duels", duels, "--kernel", "linear", *more)
    leans = ("--lean-by", "judge:shown_first", "--lean-by", "kind:length", "--noise-by", "kind")
    fit = ("fit", *words, "--covariate", "shown_first,length", *leans, "--max-iterations", 6)
    told = call(*fit, "--out", tmp_path / "fitted")
    assert "2 labels in kind lean by length" in " ".join(told.split())
    metrics = json.loads((tmp_path / "fitted" / "metrics.json").read_text())["fit"]
    assert [(lean["by"], lean["covariate"], lean["groups"]) for lean in metrics["leans"]] == [
        ("judge", "shown_first", 3),
        ("kind", "length", 2),
    ]
    mean = pd.read_csv(tmp_path / "fitted" / "coefficients.csv").set_index("name")["mean"]
    assert mean["shown_first of judge Ann"] > 0.5 > -0.5 > mean["shown_first of judge Bob"]
    assert mean["length of kind long"] > 0.3 > -0.3 > mean["length of kind short"]
    pairs = pd.DataFrame({"first": [0, 0], "second": [1, 1], "shown_first": [0, 0]})
    pairs = pairs.assign(length=1.0, judge="Ann", kind=["long", "short"])
    pairs.to_csv(tmp_path / "pairs.csv", index=False)
    model = ("--model", tmp_path / "fitted")
    asked = ("--pairs", tmp_path / "pairs.csv", "--quiet")
    call("predict", *model, *asked, "--out", tmp_path / "p.csv")
    one, other = pd.read_csv(tmp_path / "p.csv")["probability"]
    assert one > other + 0.2
    frame.iloc[:40].to_csv(tmp_path / "new.csv", index=False)
    new = ("--duels", tmp_path / "new.csv", "--quiet", "--out", tmp_path / "scores.json")
    call("evaluate", *model, *new)
    scores = json.loads((tmp_path / "scores.json").read_text())["held_out"]["model"]
    with pytest.warns(UserWarning, match="no column 'kind' .what leans by it is unknown"):
        found = spg.evaluate(spg.load(tmp_path / "fitted"), frame[:40].drop(columns="kind"))
    assert found["held_out"]["model"]["nlp_nats"] != pytest.approx(scores["nlp_nats"], rel=1e-3)
