"""Vectors of items through the command line, from a fit to an update."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app
from tests.killing import ROOT, started
from tests.tolerances import FIXED_POINT

pytestmark = [pytest.mark.data, pytest.mark.slow]

N, WIDTH = 160, 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Items whose utility is in two of the directions of their vectors, and in their price."""
    folder = tmp_path_factory.mktemp("vectors")
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(N + 20, 4))
    vectors = hidden @ rng.normal(size=(4, WIDTH)) + 0.2 * rng.normal(size=(N + 20, WIDTH))
    price = np.round(rng.normal(size=N + 20), 3)
    items = pd.DataFrame({"item_id": [f"i{k}" for k in range(N + 20)], "price": price})
    items[:N].to_csv(folder / "items.csv", index=False)
    items[N:].to_csv(folder / "new.csv", index=False)
    np.save(folder / "e.npy", vectors[:N].astype(np.float32))
    np.save(folder / "other.npy", vectors[N:].astype(np.float16))
    order = rng.permutation(N)
    np.savez(folder / "e.npz", ids=[f"i{k}" for k in order], v=vectors[order].astype(np.float32))
    items[:N].assign(e=list(vectors[:N].astype(np.float32))).to_parquet(folder / "items.parquet")
    utility = np.tanh(hidden[:, 0]) + hidden[:, 1] - price
    pairs = rng.permuted(np.tile(np.arange(N), (1500, 1)), axis=1)[:, :2]
    better = np.argsort(utility[pairs] + 0.5 * rng.normal(size=pairs.shape), axis=1)
    losers, winners = np.take_along_axis(pairs, better, axis=1).T
    duels = {"winner": [f"i{k}" for k in winners], "loser": [f"i{k}" for k in losers]}
    pd.DataFrame(duels).to_csv(folder / "duels.csv", index=False)
    pd.DataFrame(duels).to_parquet(folder / "duels.parquet", index=False)
    more = {"winner": [f"i{N}", "i3"], "loser": ["i4", f"i{N + 1}"]}
    pd.DataFrame(more).to_csv(folder / "more.csv", index=False)
    return folder


def run(command: str, folder: Path) -> str:
    parts = [part.replace("{}", str(folder)) for part in command.split()]
    result = CliRunner().invoke(app, parts)
    assert result.exit_code == 0, result.output
    return result.output


FIT = "fit --duels {}/duels.csv --kernel linear+iso(matern52) --inducing 40 --max-iterations 8"


@pytest.fixture(scope="module")
def fitted(folder) -> Path:
    output = run(FIT + " --items {}/items.csv --embedding {}/e.npy --out {}/fitted", folder)
    assert "vector e (40) -> 20 directions" in output
    return folder


def test_all_forms_of_vectors_give_one_fit(fitted):
    scores = []
    for number, given in enumerate(
        ("--items {}/items.csv --embedding {}/e.npz", "--items {}/items.parquet")
    ):
        run(f"{FIT} {given} --out {{}}/same{number}", fitted)
        found = json.loads((fitted / f"same{number}" / "metrics.json").read_text())
        scores.append(found["held_out"])
        assert found["data"]["reduction"]["blocks"][0]["name"] == "e"
    first = json.loads((fitted / "fitted" / "metrics.json").read_text())["held_out"]
    assert scores == [first, first]
    assert first["model"]["nlp_nats"] < first["coin"]["nlp_nats"] - 0.2


def test_commands_of_a_fitted_model_take_the_vectors_of_new_items(fitted):
    new = "--model {}/fitted --items {}/new.csv --embedding {}/other.npy"
    run(f"rank {new} --out {{}}/ranking.csv", fitted)
    assert len(pd.read_csv(fitted / "ranking.csv")) == 20
    output = run(f"explain {new} --first i160 --second i3", fitted)
    assert "price" in output and "pc_1" not in output
    assert "i16" in run(f"suggest {new} --batch 2", fitted)
    run(f"evaluate {new} --duels {{}}/more.csv", fitted)
    output = run(f"update {new} --duels {{}}/more.csv --out {{}}/grown", fitted)
    assert "2 duels and 20 items added" in output
    run("rank --model {}/grown --out {}/all.csv", fitted)
    assert len(pd.read_csv(fitted / "all.csv")) == 180


def test_a_fit_in_chunks_and_a_comparison(fitted):
    items = "--items {}/items.csv --embedding {}/e.npy"
    output = run(
        f"fit --stream --duels {{}}/duels.parquet {items} --inducing 20 --max-iterations 2 "
        "--out {}/streamed",
        fitted,
    )
    assert "Features made of vector e (40) -> 20 directions" in output
    run("rank --model {}/streamed --items {}/new.csv --embedding {}/other.npy", fitted)
    run(
        f"select --duels {{}}/duels.csv {items} --folds 2 --max-iterations 3 "
        "--candidates linear/vfe,linear(price)+iso(matern52)/vfe/20 --out {}/table.csv",
        fitted,
    )
    assert "linear(price)" in (fitted / "table.csv").read_text()


def test_one_and_two_threads_learn_the_same(fitted):
    """In processes of their own, as TensorFlow takes its threads only once."""
    said = {"OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"}
    own = {**{k: v for k, v in os.environ.items() if k not in said}, "PYTHONPATH": str(ROOT)}
    kernel = FIT.replace("linear+iso(matern52)", "projected(matern52,2)")
    found = []
    for threads in (1, 2):
        out = f"threads{threads}"
        files = f"--items {{}}/items.csv --embedding {{}}/e.npy --out {{}}/{out} --quiet"
        words = f"{kernel} {files} --threads {threads}".replace("{}", str(fitted)).split()
        with started(words, env=own) as process:
            process.wait(timeout=600)
        assert process.returncode == 0
        told = json.loads((fitted / out / "metrics.json").read_text())
        ranking = pd.read_csv(fitted / out / "ranking.csv").sort_values("item_id")
        figures = [told["fit"]["log_evidence_per_duel"], told["held_out"]["model"]["nlp_nats"]]
        found.append(np.array([*figures, *ranking["utility"], *ranking["sd"]]))
    np.testing.assert_allclose(*found, rtol=FIXED_POINT, atol=FIXED_POINT)
