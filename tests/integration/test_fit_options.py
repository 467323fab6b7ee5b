"""`fit --inducing auto` and `--starts`: what they do is in the print and the metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.io import read_duels
from sparse_prefgp.learning import initial
from sparse_prefgp.learning.initial import AutoInputs
from sparse_prefgp.workflow.fit_metrics import fit_figures
from sparse_prefgp.workflow.holdout import (
    fit_model,
    prepare,
    refit_model,
)
from sparse_prefgp.workflow.settings import FitSettings
from tests.together import sentence
from tests.tolerances import IDENTITY

pytest.importorskip("typer")
pytest.importorskip("pandas")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app

N, T = 16, 80


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(4)
    x = rng.normal(size=(N, 2))
    rows = [f"i{i},{a:.6f},{b:.6f}" for i, (a, b) in enumerate(x)]
    (folder / "items.csv").write_text("item_id,a,b\n" + "\n".join(rows) + "\n")
    pairs = rng.permuted(np.tile(np.arange(N), (T, 1)), axis=1)[:, :2]
    order = np.argsort(np.sin(x[:, 0])[pairs] + 0.5 * rng.normal(size=pairs.shape), axis=1)
    losers, winners = np.take_along_axis(pairs, order, axis=1).T
    duels = [f"i{w},i{loser}" for w, loser in zip(winners, losers, strict=True)]
    (folder / "duels.csv").write_text("winner,loser\n" + "\n".join(duels) + "\n")
    return folder / "items.csv", folder / "duels.csv"


@pytest.fixture(scope="module")
def table(files: tuple[Path, Path]) -> Duels:
    return read_duels(*files)


def fit(files: tuple[Path, Path], out: Path, *more: Any) -> tuple[str, dict[str, Any]]:
    words = ("fit", "--items", files[0], "--duels", files[1], "--out", out, "--max-iterations", 3)
    result = CliRunner().invoke(app, [str(word) for word in (*words, *more)])
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split()), json.loads((out / "metrics.json").read_text())


def test_as_many_inducing_inputs_as_leave_the_share(table: Duels) -> None:
    holdout = prepare(table, FitSettings(kernel="se", inducing="auto:0.3", seed=2))
    assert holdout.num_inducing is None
    found = holdout.first_inputs()
    assert isinstance(found, AutoInputs) and found.reason == "share reached"
    assert found.share <= 0.3 and 1 < len(found.inputs) < N
    # The share is that of the kernel as the fit starts.
    kernel = holdout.settings.kernel_choice.build(2)
    share = initial.residual_shares(holdout.train, kernel, found.inputs)[0][-1]
    assert found.share == pytest.approx(share, abs=IDENTITY)
    again = holdout.first_inputs()
    np.testing.assert_array_equal(again, found)
    plain = prepare(table, FitSettings(kernel="se", inducing=len(found.inputs), seed=2))
    assert np.asarray(plain.first_inputs()).shape == found.inputs.shape


def test_none_where_there_are_none(table: Duels) -> None:
    assert prepare(table, FitSettings(approximation="exact")).first_inputs() is None


@pytest.mark.slow
def test_starts_reach_the_optimiser(table: Duels, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    real = spg.optimise

    def optimise(*arguments: Any, **more: Any) -> Any:
        seen.append(more)
        return real(*arguments, **more)

    monkeypatch.setattr("sparse_prefgp.learning.optimise.optimise", optimise)
    settings = FitSettings(inducing=4, max_iterations=2, starts=2, seed=7, kernel="se")
    holdout = prepare(table, settings)
    model, report = fit_model(holdout)
    refit_model(holdout, model)
    assert seen[0]["starts"] == 2
    assert seen[0]["rng"].bit_generator.seed_seq.entropy == 7
    assert seen[1].get("starts", 1) == 1, "a refit starts from the fitted model alone"
    figures = fit_figures(holdout, model, report)
    assert len(figures["starts"]) == 2
    assert figures["inducing"] == 4
    best = max(start["log_evidence"] for start in figures["starts"])
    assert figures["starts"][figures["kept_start"]]["log_evidence"] == best


@pytest.mark.slow
def test_the_command_says_how_many_and_why(files: tuple[Path, Path], tmp_path: Path) -> None:
    text, told = fit(files, tmp_path / "out", "--inducing", "auto:0.3", "--starts", 2, "--refit")
    found = told["automatic_inducing"]
    assert found["reason"] == "share reached" and found["share"] <= found["threshold"] == 0.3
    assert found["number"] == told["fit"]["inducing"] == told["refit_fit"]["inducing"]
    assert f"Found: {found['number']} inducing inputs (kmeans): {found['share']:.3g} of" in text
    assert "at most 0.3 was asked for" in text
    assert f"Best of 2 starts: number {told['fit']['kept_start'] + 1} (log evidence" in text
    assert len(told["fit"]["starts"]) == 2 and len(told["refit_fit"]["starts"]) == 1

    text, told = fit(files, tmp_path / "other", "--inducing", 3)
    assert "automatic_inducing" not in told and "Found:" not in text and "Best of" not in text


@pytest.mark.slow
def test_blocks_by_a_column(files: tuple[Path, Path], tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    people = [f"p{i % 7}" for i in range(T)]
    pd.read_csv(files[1]).assign(person=people).to_csv(tmp_path / "duels.csv", index=False)
    given = (files[0], tmp_path / "duels.csv")
    words = ("--approximation", "pitc:person", "--inducing", 4, "--refit", "--kernel", "se")
    text, metrics = fit(given, tmp_path / "out", *words)
    assert "Model: pitc:person" in text
    assert metrics["fit"]["converged"] and metrics["refit_fit"]["converged"]
    model = spg.load(tmp_path / "out" / "model")
    assert model.approximation == spg.PITC(people)  # of the refit: all duels


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "built"),
    [
        ("laplace", spg.Laplace()),
        ("laplace-logit", spg.Laplace(link="logit")),
        ("variational", spg.Variational()),
        ("power-ep:0.5", spg.ParallelEP(site_power=0.5)),
    ],
)
def test_engines_by_name(
    files: tuple[Path, Path], tmp_path: Path, engine: str, built: spg.Engine
) -> None:
    more = ("--refit", "--report") if engine == "laplace" else ("--kernel", "se")
    text, metrics = fit(files, tmp_path / "out", "--engine", engine, *more)
    assert f", engine {engine}," in text
    assert metrics["fit"]["engine"] == engine and metrics["fit"]["converged"]
    assert metrics["held_out"]["model"]["nlp_nats"] < metrics["held_out"]["coin"]["nlp_nats"]
    model = spg.load(tmp_path / "out" / "model")
    assert model.engine == built
    assert np.all(np.isfinite(spg.rank(model, model.duels.items).frame["utility"]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "laplase"), "did you mean laplace?"),
        (("--engine", "power-ep"), "give a number, above 0"),
        (("--engine", "power-ep:2"), "give a number, above 0"),
        (("--engine", "ep:1"), "takes no number; write ep"),
        (
            ("--engine", "laplace-logit", "--noise-variance", "0.1"),
            sentence("logistic", "noise_variance"),
        ),
    ],
)
def test_engines_that_make_no_sense_are_refused(
    files: tuple[Path, Path], tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    given = ("fit", "--items", files[0], "--duels", files[1], "--out", tmp_path / "out", *words)
    result = CliRunner().invoke(app, [str(word) for word in given])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()
