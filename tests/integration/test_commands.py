"""The commands that use a saved model, and the manners that all commands share."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

import sparse_prefgp as spg
from sparse_prefgp.cli.app import app
from tests.together import sentence
from tests.tolerances import ROUNDING

N = 13


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def answer(*arguments: Any) -> Any:
    """The JSON on standard output, which holds nothing else."""
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 2))
    items = pd.DataFrame({"item_id": [f"i{i}" for i in range(N)], "a": x[:, 0], "b": x[:, 1]})
    items.to_csv(folder / "items.csv", index=False)
    items.assign(item_id=[f"n{i}" for i in range(N)], a=3 * x[:, 0]).to_csv(
        folder / "new.csv", index=False
    )
    pairs = rng.permuted(np.tile(np.arange(N), (120, 1)), axis=1)[:, :2]
    order = np.argsort(x.sum(1)[pairs] + rng.normal(size=pairs.shape), axis=1)
    losers, winners = np.take_along_axis(pairs, order, axis=1).T
    duels = pd.DataFrame({"winner": winners, "loser": losers}).map(lambda i: f"i{i}")
    duels.iloc[:90].to_csv(folder / "duels.csv", index=False)
    duels.iloc[90:].to_csv(folder / "later.csv", index=False)
    (folder / "pairs.csv").write_text("first,second,note\ni0,i1,x\nn3,i2,y\ni4,i4,z\n")
    return folder


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    """What `fit --json` printed, and in the folder `fitted` what it wrote."""
    result = fit(folder, folder / "fitted", "--json", "--report", "--threads", 1)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def fitted(folder: Path, printed: str) -> Path:
    return folder / "fitted"


def fit(folder: Path, out: Path, *more: Any) -> Any:
    files = ("--items", folder / "items.csv", "--duels", folder / "duels.csv", "--out", out)
    quick = ("--inducing", 5, "--max-iterations", 2, "--integrate", "no")
    return call("fit", *files, *quick, *more)


def test_rank_prints_writes_and_answers(folder: Path, fitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "ranking.csv"
    result = call("rank", "--model", fitted, "--top", 3, "--out", out, "--show", 4)
    assert result.exit_code == 0, result.output
    for text in ("The first 4 of 13 items", "top 3", "relative to the average of all 13"):
        assert text in result.stdout
    data = json.loads((fitted / "metrics.json").read_text())["data"]
    learned = (
        f"Learned from {data['train_duels']:,} of {data['duels']:,} duels; fit --refit "
        "(refit=True) learns from all."
    )
    assert learned in " ".join(result.stdout.split())
    frame = pd.read_csv(out, keep_default_na=False)
    expected = spg.rank(spg.load(fitted), top_k=3)
    pd.testing.assert_frame_equal(frame, expected.frame, rtol=ROUNDING)
    told = answer("rank", "--model", fitted, "--top", 3, "--order", "mean", "--min-comparisons", 1)
    assert told["order"] == "mean" and told["min_comparisons"] == 1
    assert told["ranking"] == sorted(told["ranking"], key=lambda row: -row["utility"])
    tex = tmp_path / "ranking.tex"
    told = answer("rank", "--model", fitted, "--top", 3, "--out", tex)
    assert r"top 3 & duels \\" in tex.read_text() and "i0 &" in tex.read_text()
    assert [row["item_id"] for row in told["ranking"]] == list(frame["item_id"])
    assert told["top_k"] == 3 and told["bound_best"] == 0.0
    # The same seed gives the same numbers; what fit wrote is the same ranking.
    assert call("rank", "--model", fitted, "--top", 3, "--out", out).exit_code == 2
    before = out.read_bytes()
    assert call("rank", "--model", fitted, "--top", 3, "--out", out, "--overwrite").exit_code == 0
    assert out.read_bytes() == before
    written = pd.read_csv(fitted / "ranking.csv")
    assert list(written["item_id"]) == list(frame["item_id"])


@pytest.mark.slow
def test_what_a_slip_is_told(folder: Path, fitted: Path) -> None:
    told = answer("rank", "--model", fitted, "--items", folder / "new.csv", "--with-own")
    assert {row["item_id"] for row in told["ranking"]} == {
        f"{k}{i}" for k in "in" for i in range(N)
    }
    result = call("rank", "--model", fitted, "--with-own")
    assert result.exit_code == 2 and sentence("with_own", "no_items") in result.stderr
    known = call("evaluate", "--model", fitted, "--duels", folder / "duels.csv").stdout
    assert "Note: 72 of these 90 duels are equal to those" in " ".join(known.split())
    new = call("evaluate", "--model", fitted, "--duels", folder / "later.csv").stdout
    assert "learned from" not in " ".join(new.split())
    new = call("rank", "--model", fitted, "--items", folder / "new.csv").stdout
    assert (
        "Only the 13 items of new.csv are ranked; --with-own (with_own=True) ranks them among the "
        "model's 13."
    ) in " ".join(new.split())
    own = call("rank", "--model", fitted, "--items", folder / "items.csv").stdout
    assert "--with-own" not in own
    wrong = call("rank", "--model", fitted, "--items", folder / "pairs.csv")
    assert wrong.exit_code == 2 and "Ranking" not in wrong.stdout
    assert "pairs.csv has no column 'a'; add" in wrong.stderr
    asked = call("suggest", "--model", fitted).stdout
    assert 'find the best item, use --score eubo (score="eubo").' in " ".join(asked.split())
    assert "--score" not in call("suggest", "--model", fitted, "--score", "eubo").stdout
    result = call("explain", "--model", fitted, "--first", "I3", "--second", "i4")
    assert result.exit_code == 2 and "did you mean 'i3'? Otherwise correct the id" in result.stderr


@pytest.mark.slow
def test_columns_that_say_nothing_are_named(folder: Path, tmp_path: Path) -> None:
    items = pd.read_csv(folder / "items.csv").iloc[np.repeat(np.arange(N), 2)]
    items = items.assign(item_id=[f"i{i}" for i in range(2 * N)])
    items["price"] = [f"${i // 2}.50" for i in range(2 * N)]
    items.to_csv(tmp_path / "items.csv", index=False)
    duels = pd.read_csv(folder / "duels.csv").assign(day=np.arange(90) // 9, venue="here")
    duels.to_csv(tmp_path / "duels.csv", index=False)
    result = fit(tmp_path, tmp_path / "out", "--split", "time:day")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "Not used: venue " in said
    assert "Note: The text column 'price' of items.csv is read as 13 categories, but most" in said


@pytest.mark.slow
def test_rank_names_every_item_in_80_characters(
    folder: Path, fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With copies, items outside the range and figures of many digits."""
    rng = np.random.default_rng(4)
    x = 1e3 * np.repeat(rng.normal(size=(7, 2)), 2, axis=0)
    # In capitals, which no other cell has, as names may fold.
    names = [f"MANCHESTER UNITED {'ABCDEFG'[i // 2]}{'XY'[i % 2]}" for i in range(14)]
    pd.DataFrame({"item_id": names, "a": x[:, 0], "b": x[:, 1]}).to_csv(
        tmp_path / "many.csv", index=False
    )
    for width in (50, 80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        printed = call("rank", "--model", fitted, "--items", tmp_path / "many.csv").stdout
        assert max(map(len, printed.splitlines())) <= width
        heading, *lines = printed[printed.index(" rank ") : printed.index("Ordered by")].split("\n")
        text = re.sub(r"[^A-Z]", "", "".join(lines))
        for name in names[::2]:
            assert name.replace(" ", "") in text
        told = " ".join(lines).partition("there is no room for:")[2]
        for name in ("interval", "best", "duels", "copies", "outside"):
            assert (name in heading) != (name in told)
        assert ("outside" in told) == (width <= 80) and ("interval" in told) == (width == 50)


@pytest.mark.slow
def test_rank_of_the_kept_says_so(fitted: Path) -> None:
    counts = spg.rank(spg.load(fitted)).frame["comparisons"]
    least = int(counts.max())
    kept, gone = int((counts >= least).sum()), int((counts < least).sum())
    assert gone > 1
    printed = " ".join(call("rank", "--model", fitted, "--min-comparisons", least).stdout.split())
    assert f"All items with {least} duels or more" in printed
    assert f"{gone} items with fewer than {least} duels are left out. Average" in printed
    average = "the one item kept" if kept == 1 else f"the {kept} items kept"
    assert f"relative to the average of {average};" in printed


@pytest.mark.slow
def test_rank_of_new_items_says_which_are_outside(folder: Path, fitted: Path) -> None:
    result = call("rank", "--model", fitted, "--items", folder / "new.csv")
    assert result.exit_code == 0, result.output
    assert "outside the range of the training items" in " ".join(result.stdout.split())
    told = answer("rank", "--model", fitted, "--items", folder / "new.csv")
    assert {row["item_id"] for row in told["ranking"]} == {f"n{i}" for i in range(N)}
    assert all(row["comparisons"] == 0 for row in told["ranking"])
    assert 0 < told["outside_items"] < N and set(told["outside_features"]) == {"a"}


def test_predict(folder: Path, fitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "predicted.csv"
    more = ("--pairs", folder / "pairs.csv", "--items", folder / "new.csv")
    result = call("predict", "--model", fitted, *more, "--out", out, "--level", 0.8)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "luck included; estimated difference of their utilities, with its 80 % interval" in said
    assert "outside the range of the training items" not in said
    frame = pd.read_csv(out)
    assert list(frame.columns[:4]) == ["first", "second", "note", "probability"]
    model = spg.load(fitted)
    new = spg.read_items(folder / "new.csv", like=model)
    items = model.duels.items
    chance = model.predict_duel([items[0], new[3], items[4]], [items[1], items[2], items[4]])
    np.testing.assert_allclose(frame["probability"], chance, rtol=ROUNDING)
    assert frame["difference"][2] == frame["sd"][2] == 0.0
    told = answer("predict", "--model", fitted, *more)
    assert [row["note"] for row in told["pairs"]] == ["x", "y", "z"]


@pytest.mark.slow
def test_predict_names_the_items_outside_the_range(
    folder: Path, fitted: Path, tmp_path: Path
) -> None:
    new = pd.read_csv(folder / "items.csv").assign(item_id=[f"far {i}" for i in range(N)])
    new.assign(a=99.0).to_csv(tmp_path / "far.csv", index=False)
    for count, told in (
        (1, "far 0 is outside the range of the training items in 'a': trust it less."),
        (5, "far 2 (in 'a') and 2 more items are outside the range of the training items: trust"),
    ):
        pairs = pd.DataFrame({"first": [f"far {i}" for i in range(count)], "second": "i1"})
        pairs.to_csv(tmp_path / "pairs.csv", index=False)
        more = ("--pairs", tmp_path / "pairs.csv", "--items", tmp_path / "far.csv")
        assert told in " ".join(call("predict", "--model", fitted, *more).stdout.split())


def test_evaluate(folder: Path, fitted: Path, tmp_path: Path) -> None:
    more = ("--duels", folder / "later.csv")
    result = call("evaluate", "--model", fitted, *more, "--out", tmp_path / "scores.json")
    assert result.exit_code == 0, result.output
    assert "linear probit" in result.stdout and "pairs never compared in training" in result.stdout
    assert result.stdout.startswith("Of 30 duels, the model named ")
    assert (
        "nlp: the surprise at what happened" in result.stdout
        and "than the coin by" in result.stdout
    )
    told = answer("evaluate", "--model", fitted, *more)
    assert json.loads((tmp_path / "scores.json").read_text()) == told
    assert told["held_out"]["model"]["duels"] == 30
    # Scored by hand.
    model, table = spg.load(fitted), pd.read_csv(folder / "later.csv")
    rows = {name: model.duels.items[i] for i, name in enumerate(model.duels.item_ids)}
    chance = model.predict_duel([rows[i] for i in table.winner], [rows[i] for i in table.loser])
    nats = -float(np.mean(np.log(chance)))
    assert told["held_out"]["model"]["nlp_nats"] == pytest.approx(nats, rel=ROUNDING)


@pytest.mark.slow
def test_explain_a_pair_and_the_data(folder: Path, fitted: Path) -> None:
    result = call("explain", "--model", fitted, "--first", "i0", "--second", "i1")
    assert result.exit_code == 0, result.output
    assert "The probability that i0 beats i1 is" in result.stdout
    told = answer("explain", "--model", fitted, "--first", "i0", "--second", "i1")
    parts = {row["feature"]: row["contribution"] for row in told["contributions"]}
    assert set(parts) == {"a", "b"}
    assert sum(parts.values()) == pytest.approx(told["difference"], abs=1e-6)
    more = ("--first", "n3", "--second", "i1", "--items", folder / "new.csv")
    assert answer("explain", "--model", fitted, *more)["first"] == "n3"
    result = call("explain", "--model", fitted)
    assert result.exit_code == 0, result.output
    assert "pairs won by both sides" in result.stdout and "cycles" in result.stdout
    assert answer("explain", "--model", fitted)["votes"]


def test_what_settles_the_first_ones(fitted: Path) -> None:
    result = call("suggest", "--model", fitted, "--score", "settle", "--top", 2)
    assert result.exit_code == 0, result.output
    assert "doubt about who the first 2 are" in " ".join(result.stdout.split())
    result = call("suggest", "--model", fitted, "--top", 2)
    assert result.exit_code == 2 and "take the score settle" in " ".join(result.stderr.split())


def test_which_verdicts_to_rely_on(folder: Path, fitted: Path, tmp_path: Path) -> None:
    told = pd.read_csv(folder / "duels.csv")
    told = told.rename(columns={"winner": "loser", "loser": "winner"}).head(40)
    new = tmp_path / "new.csv"
    told.assign(prompt=range(len(told))).to_csv(new, index=False)
    out = tmp_path / "trust.csv"
    asked = ("evaluate", "--model", fitted, "--duels", new)
    result = call(*asked, "--risk", 0.3, "--task", "prompt", "--trust", out)
    assert result.exit_code == 0, result.output
    assert "No threshold keeps wrong verdicts below 30 %" in " ".join(result.stdout.split())
    assert "If only the surest duels are answered" in result.stdout
    frame = pd.read_csv(out)
    assert len(frame) == len(told) and frame["probability"].is_monotonic_increasing
    result = call(*asked, "--confidence", 0.9)
    assert result.exit_code == 2 and "--risk" in result.stderr
    result = call("evaluate", "--model", fitted, "--duels", folder / "duels.csv", "--risk", 0.1)
    assert result.exit_code == 2 and "learned from" in " ".join(result.stderr.split())


def test_suggest(folder: Path, fitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "ask.csv"
    result = call("suggest", "--model", fitted, "--batch", 3, "--out", out)
    assert result.exit_code == 0, result.output
    for text in ("Ask next", "information about the utilities", "78 of 78 pairs were looked at"):
        assert text in " ".join(result.stdout.split())
    frame = pd.read_csv(out)
    expected = spg.suggest(spg.load(fitted), batch=3, rng=np.random.default_rng(0))
    pd.testing.assert_frame_equal(frame, expected.frame, rtol=ROUNDING)
    told = answer("suggest", "--model", fitted, "--batch", 3, "--quiet")
    assert [row["first"] for row in told["pairs"]] == list(frame["first"])
    assert told["seed"] == 0 and told["looked_at"] == 78
    more = ("--items", folder / "new.csv", "--pairs", folder / "pairs.csv")
    result = call("suggest", "--model", fitted, *more)
    assert result.exit_code == 2 and "with itself" in result.stderr


def test_suggest_sets(fitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "ask.csv"
    result = call("suggest", "--model", fitted, "--batch", 2, "--set-size", 3, "--out", out)
    assert result.exit_code == 0, result.output
    for text in ("Ask next", "option_3", "sets were looked at: grown from the pair"):
        assert text in " ".join(result.stdout.split())
    generator = np.random.default_rng(0)
    expected = spg.suggest(spg.load(fitted), batch=2, set_size=3, rng=generator)
    pd.testing.assert_frame_equal(pd.read_csv(out), expected.frame, rtol=ROUNDING)


@pytest.mark.slow
def test_suggest_by_other_scores(folder: Path, fitted: Path) -> None:
    (folder / "ask_about.csv").write_text("first,second\ni0,i1\nn3,i2\n")
    more = ("--items", folder / "new.csv", "--pairs", folder / "ask_about.csv", "--batch", 2)
    told = answer("suggest", "--model", fitted, *more, "--score", "eubo")
    assert {frozenset((row["first"], row["second"])) for row in told["pairs"]} == {
        frozenset(("i0", "i1")),
        frozenset(("n3", "i2")),
    }
    more = ("--score", "thompson", "--seed", 4)
    first, again = (answer("suggest", "--model", fitted, *more) for _ in range(2))
    assert first == again and len(first["pairs"]) == 10


def test_update(folder: Path, fitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "updated"
    more = ("--duels", folder / "later.csv", "--out", out)
    told = answer("update", "--model", fitted, *more)
    old, new = spg.load(fitted), spg.load(out)
    assert told["new_duels"] == 30
    assert new.duels.num_duels == old.duels.num_duels + 30
    np.testing.assert_array_equal(
        old.kernel.kernels[1].lengthscales.numpy(), new.kernel.kernels[1].lengthscales.numpy()
    )
    refused = call("update", "--model", fitted, *more, "--max-iterations", 2)
    assert refused.exit_code == 2 and "holds a saved model" in refused.stderr


@pytest.mark.slow
def test_update_learns_and_replaces(folder: Path, fitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "updated"
    more = ("--duels", folder / "later.csv", "--out", out)
    assert call("update", "--model", fitted, *more).exit_code == 0
    old, new = spg.load(fitted), spg.load(out)
    result = call("update", "--model", fitted, *more, "--max-iterations", 2, "--overwrite")
    assert result.exit_code == 0, result.output
    assert "30 duels and 0 items added" in result.stdout
    moved = spg.load(out)
    assert moved.log_evidence() > new.log_evidence()
    # In place, too.
    assert call("update", "--model", out, *more, "--overwrite").exit_code == 0
    assert spg.load(out).duels.num_duels == old.duels.num_duels + 60


@pytest.mark.slow
def test_choices_rankings_and_item_effects_through_fit(folder: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    utility = pd.read_csv(folder / "items.csv")[["a", "b"]].sum(axis=1).to_numpy()
    sets = rng.permuted(np.tile(np.arange(N), (40, 1)), axis=1)[:, :3]
    order = np.take_along_axis(sets, np.argsort(-utility[sets] + rng.normal(size=sets.shape)), 1)
    rankings = pd.DataFrame(order, columns=["rank_1", "rank_2", "rank_3"]).map(lambda i: f"i{i}")
    rankings.to_csv(tmp_path / "rankings.csv", index=False)
    choices = pd.DataFrame(sets, columns=["option_1", "option_2", "option_3"]).map(
        lambda i: f"i{i}"
    )
    choices.assign(chosen=rankings["rank_1"]).to_csv(tmp_path / "choices.csv", index=False)
    for kind, of_each in (("choices", 1), ("rankings", 1), ("choices", 2), ("rankings", 3)):
        out = tmp_path / f"{kind}-{of_each}"
        files = ("--items", folder / "items.csv", f"--{kind}", tmp_path / f"{kind}.csv")
        more = ("--kernel", "se+item", "--inducing", 5, "--max-iterations", 2)
        as_duels = ("--as-duels",) if of_each > 1 else ()
        result = call("fit", *files, "--out", out, *more, *as_duels)
        assert result.exit_code == 0, result.output
        assert ("not independent" in " ".join(result.stdout.split())) == (of_each > 1)
        figures = json.loads((out / "metrics.json").read_text())
        assert figures["data"]["duels"] == 40 * of_each
        assert figures["data"]["test_duels"] % of_each == 0, "sets stay whole"
        assert ("choices" in figures["held_out"]) == (kind == "choices" and of_each == 1)
        assert set(figures["fit"]["kernel_variances"]) == {"se", "item"}
        assert spg.load(out).inputs.layout.numbered
        assert call("rank", "--model", out).exit_code == 0


@pytest.mark.slow
def test_effects_in_a_context_through_fit(folder: Path, tmp_path: Path) -> None:
    """By the grammar of kernels, on a column with a blank in its name."""
    duels = pd.read_csv(folder / "duels.csv")
    surfaces = np.resize(["clay", "grass", "hard"], len(duels))
    duels.assign(**{"court surface": surfaces}).to_csv(tmp_path / "duels.csv", index=False)
    files = ("--items", folder / "items.csv", "--duels", tmp_path / "duels.csv")
    more = ("--context", "court surface", "--inducing", 5, "--max-iterations", 2)
    kernel = 'iso(se(a, b)) + item*"court surface" + item'
    out = tmp_path / "fitted"
    result = call("fit", *files, "--out", out, *more, "--kernel", kernel)
    assert result.exit_code == 0, result.output
    figures = json.loads((out / "metrics.json").read_text())["fit"]
    names = ["iso(se(a, b))", 'item*"court surface"', "item"]
    assert list(figures["kernel_variances"]) == names
    assert figures["kernel"] == "+".join(names)
    model = spg.load(out)
    assert isinstance(model.kernel.kernels[1], spg.ItemTimes)
    found = model.kernel.kernels[1].kernel.variance.numpy()
    assert figures["kernel_variances"][names[1]] == float(found)
    clay, hard = (
        answer("rank", "--model", out, "--at", f"court surface={level}")
        for level in ("clay", "hard")
    )
    assert clay != hard
    assert call("evaluate", "--model", out, "--duels", tmp_path / "duels.csv").exit_code == 0


@pytest.mark.slow
def test_same_seed_same_numbers(folder: Path, fitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "again"
    result = fit(folder, out, "--quiet")
    assert result.exit_code == 0, result.output
    assert result.output == ""
    first, second = (json.loads((path / "metrics.json").read_text()) for path in (fitted, out))
    assert first["held_out"] == second["held_out"]
    assert first["ranking"] == second["ranking"]
    assert (fitted / "ranking.csv").read_bytes() == (out / "ranking.csv").read_bytes()


@pytest.mark.slow
def test_fit_answers_in_json_and_writes_a_report(printed: str, fitted: Path) -> None:
    assert json.loads(printed) == json.loads((fitted / "metrics.json").read_text())
    page = (fitted / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == len(list((fitted / "pictures").iterdir()))
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.slow
def test_demo_answers_in_json() -> None:
    told = answer("demo", "--duels", 200, "--inducing", 5, "--max-iterations", 2)
    assert set(told["held_out"]) == {"model", "linear_probit", "coin"}


def test_completion_can_be_installed() -> None:
    result = call("--help")
    assert "--install-completion" in result.stdout
    assert "Exit codes: 0 done; 2 a mistake" in " ".join(result.stdout.split())
