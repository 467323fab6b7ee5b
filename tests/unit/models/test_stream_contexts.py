"""Items in the contexts of duels that are read in chunks, against the same duels in memory."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.io.files import id_text
from tests.cases import assert_same_scores
from tests.together import refused
from tests.tolerances import FIXED_POINT, PARTS, SOLVER

N, T = 10, 150
CONTEXT = ("surface", "home")


class Placed:
    """Matches on two surfaces, at home and away, of players with two states each, in two files."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(3)
        self.items = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"])
        self.items.insert(0, "item_id", [f"i{k}" for k in range(N)])
        self.items["player"] = [f"p{k // 2}" for k in range(N)]
        winners = rng.integers(N, size=T)
        losers = (winners + rng.integers(1, N, size=T)) % N
        home = rng.integers(2, size=T)
        self.frame = pd.DataFrame(
            {
                "winner": [f"i{k}" for k in winners],
                "loser": [f"i{k}" for k in losers],
                "surface": rng.choice(["clay", "grass", "hard"], size=T),
                "winner_home": home,
                "loser_home": 1 - home,
                "slot": rng.choice([-1.0, 1.0], size=T),
            }
        )
        self.folder = folder / "duels"
        self.folder.mkdir()
        for k, part in enumerate((self.frame.iloc[:70], self.frame.iloc[70:])):
            part.to_parquet(self.folder / f"{k}.parquet", row_group_size=33, index=False)
        self.named: dict[str, Any] = {
            "context": CONTEXT,
            "item": "player",
            "covariates": ["slot"],
        }
        self.duels = spg.read_duels(self.items, self.frame, **self.named)
        self.z = np.random.default_rng(1).normal(size=(6, self.duels.num_features))

    def settings(self) -> dict[str, Any]:
        return {
            "kernel": gpflow.kernels.SquaredExponential(lengthscales=[1.0] * self.z.shape[1]),
            "approximation": spg.VFE(),
            "inducing_variable": self.z,
        }

    def streamed(self, parts: int = 1) -> spg.StreamedGP:
        engine = spg.PartitionedEP(parts=parts, tolerance=SOLVER)
        stream = spg.stream_duels(self.folder, self.items, **self.named)
        return spg.StreamedGP(stream, engine=engine, chunk=37, **self.settings())

    def whole(self) -> spg.PreferenceGP:
        engine = spg.ParallelEP(tolerance=SOLVER)
        return spg.PreferenceGP(self.duels, engine=engine, **self.settings())


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Placed:
    return Placed(tmp_path_factory.mktemp("placed"))


def rows_by_id(duels: Any) -> dict[str, tuple[Any, ...]]:
    rows = duels.item_rows
    each = zip(
        duels.item_ids, duels.items.round(12).tolist(), rows.names, duels.comparisons, strict=True
    )
    return {id_text(id): (features, name, int(number)) for id, features, name, number in each}


def test_rows_are_those_of_memory(placed: Placed) -> None:
    stream = spg.stream_duels(placed.folder, placed.items, **placed.named)
    model = spg.StreamedGP(stream, **placed.settings())
    assert rows_by_id(model.duels) == rows_by_id(placed.duels)
    mine, theirs = model.duels.item_rows, placed.duels.item_rows
    assert (mine.columns, mine.shared, mine.column) == (theirs.columns, theirs.shared, "player")
    assert len(set(model.duels.item)) == len(set(placed.duels.item)) == N // 2
    one, other = model.duels.transform, placed.duels.transform
    assert (one.numeric, one.categories) == (other.numeric, other.categories)
    np.testing.assert_allclose((one.mean, one.scale), (other.mean, other.scale))


@pytest.mark.slow
@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_evidence_gradient_and_ranking_are_those_of_memory(placed: Placed, parts: int) -> None:
    whole, streamed = placed.whole(), placed.streamed(parts)
    with tf.GradientTape() as tape:
        value = whole.maximum_log_likelihood_objective()
    slopes = tape.gradient(value, whole.trainable_variables)
    found, mine = streamed.evidence_and_gradient()
    assert found == pytest.approx(float(value), rel=PARTS)
    names = gpflow.utilities.parameter_dict
    theirs = {
        name: slopes[[v is p.unconstrained_variable for v in whole.trainable_variables].index(True)]
        for name, p in names(whole).items()
        if p.trainable
    }
    refs = [v.ref() for v in streamed.trainable_variables]
    for name, p in names(streamed).items():
        if p.trainable:
            slope = mine[refs.index(p.unconstrained_variable.ref())]
            np.testing.assert_allclose(
                slope, tf.convert_to_tensor(theirs[name]), atol=FIXED_POINT, err_msg=name
            )
    for at in (None, ["surface=clay, home=1"]):
        one, other = (
            spg.rank(m, rng=np.random.default_rng(0), **({} if at is None else {"at": at})).frame
            for m in (streamed, whole)
        )
        assert len(one) == N // 2
        mine, theirs = (dict(zip(f["item_id"], f["utility"], strict=True)) for f in (one, other))
        assert mine == pytest.approx(theirs, abs=1e-6)


@pytest.mark.slow
def test_saved_read_again_and_scored(placed: Placed, tmp_path: Path) -> None:
    model = placed.streamed()
    spg.save(model, tmp_path / "model")
    loaded = spg.load(tmp_path / "model")
    assert loaded.duels.item_rows.to_dict() == model.duels.item_rows.to_dict()
    np.testing.assert_array_equal(loaded.duels.item, model.duels.item)
    whole = spg.evaluate(placed.whole(), placed.frame)["held_out"]["model"]
    for duels in (placed.folder, placed.frame):
        assert_same_scores(spg.evaluate(loaded, duels)["held_out"]["model"], whole, rel=1e-7)
    chunks = spg.evaluate(loaded, placed.folder, placed.items)["held_out"]["model"]
    assert_same_scores(chunks, whole, rel=1e-7)
    pairs = placed.frame.head(7)
    one, other = (spg.predict(m, pairs).probability for m in (loaded, placed.whole()))
    np.testing.assert_allclose(one, other, atol=PARTS)
    ordinary = model.in_memory()
    assert ordinary.log_evidence() == pytest.approx(model.log_evidence(), rel=PARTS)
    assert rows_by_id(ordinary.duels) == rows_by_id(model.duels)


def test_parts_are_sent_to_other_processes(placed: Placed) -> None:
    stream = spg.stream_duels(placed.folder, placed.items, **placed.named)
    for part in stream.cut(2):
        one, other = (
            next(iter(each.chunks(T))) for each in (part, pickle.loads(pickle.dumps(part)))
        )
        np.testing.assert_array_equal(one.given.sides, other.given.sides)
        np.testing.assert_array_equal(one.given.covariates, other.given.covariates)


def test_contexts_never_seen_are_scored(placed: Placed, tmp_path: Path) -> None:
    """A row that no training duel had: features of an item and of a context of its own."""
    new = placed.frame.head(3).assign(winner_home=[0, 1, 1], loser_home=[0, 1, 1])
    (tmp_path / "new").mkdir()
    new.to_parquet(tmp_path / "new" / "0.parquet", index=False)
    model = placed.whole()
    one, other = (spg.evaluate(model, duels)["held_out"] for duels in (tmp_path / "new", new))
    assert_same_scores(one["model"], other["model"], rel=1e-9)


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        ({}, {"context": ["day"]}, "context 'day' is not a column of .*, nor are 'winner_day'"),
        ({"surface": None}, {"context": ["surface"]}, "'surface' has no value in row 3 of late"),
        ({"loser_home": np.nan}, {"context": ["home"]}, "'loser_home' has no value in row 3 of la"),
        ({"winner": "i99"}, {"context": ["home"]}, "Row 3 of late.* has the winner 'i99'"),
        ({"winner": "i1", "loser": "i1"}, {"context": ["home"]}, "row 3 of late.* with itself"),
        ({}, {"context": ["a"]}, "context 'a' is a column of the items too"),
        ({}, {"item": "team"}, "The item column is 'team'"),
    ],
)
def test_what_is_wrong_in_a_later_file_is_named(
    placed: Placed, tmp_path: Path, change: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    frame = placed.frame.assign(a=1.0) if more.get("context") == ["a"] else placed.frame
    late = frame.iloc[100:].reset_index(drop=True)
    for name, value in change.items():
        late.loc[3, name] = value
    frame.iloc[:100].to_parquet(tmp_path / "early.parquet", index=False)
    late.to_parquet(tmp_path / "late.parquet", index=False)
    with pytest.raises(ValueError, match=words):
        spg.stream_duels(tmp_path, placed.items, **more)


@pytest.mark.slow
def test_on_the_command_line(placed: Placed, tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from sparse_prefgp.cli.app import app

    def call(*words: Any) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.output

    items, out = tmp_path / "items.csv", tmp_path / "fitted"
    placed.items.to_csv(items, index=False)
    words = ("--context", "surface,home", "--item", "player", "--covariate", "slot", "--quiet")
    tables = ("--items", items, "--duels", placed.folder, "--stream", "--parts", 3)
    call("fit", *tables, *words, "--inducing", 6, "--max-iterations", 2, "--out", out)
    ranking = pd.read_csv(out / "ranking.csv")
    assert set(ranking["item_id"]) == {f"p{k}" for k in range(N // 2)}
    call("rank", "--model", out, "--at", "surface=clay", "--out", tmp_path / "clay.csv", "--quiet")
    assert len(pd.read_csv(tmp_path / "clay.csv")) == N // 2
    for k, duels in enumerate((placed.folder, tmp_path / "duels.csv")):
        placed.frame.to_csv(tmp_path / "duels.csv", index=False)
        more = ("--out", tmp_path / f"{k}.json", "--quiet")
        call("evaluate", "--model", out, "--duels", duels, *more)
    one, other = (json.loads((tmp_path / f"{k}.json").read_text())["held_out"] for k in (0, 1))
    assert_same_scores(one["model"], other["model"], rel=1e-7)


def test_features_of_both_sides_have_no_contexts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(5, 2)), columns=["winner_a", "loser_a"])
    frame.assign(surface="clay").to_parquet(tmp_path / "wide.parquet", index=False)
    for more in ({"context": ["surface"]}, {"item": "a"}):
        with refused("items_without_ids", "column"):
            spg.stream_duels(tmp_path / "wide.parquet", **more)
    ids = pd.DataFrame({"winner": [0], "loser": [1], "surface": ["clay"]})
    ids.to_parquet(tmp_path / "ids.parquet", index=False)
    with refused("items_without_ids", "column"):
        spg.stream_duels(tmp_path / "ids.parquet", np.eye(3), context=["surface"])
