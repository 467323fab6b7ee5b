"""A fit is kept whatever comes after it: scoring, ranking, drawing, the report."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparse_prefgp as spg

pytest.importorskip("typer")
pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app
from sparse_prefgp.workflow.folder import CHECKPOINTS
from tests.cases import DATA

REASON = "The covariance is not positive definite"


def fit(tables: Path, out: Path, *more: Any) -> Any:
    files = ("--items", tables / "items.csv", "--duels", tables / "duels.csv", "--out", out)
    sizes = ("--inducing", 5, "--max-iterations", 4, "--checkpoint-every", 2)
    words = ("fit", *files, *sizes, "--kernel", "se", *more)
    return CliRunner().invoke(app, [str(word) for word in words])


def fails(monkeypatch: pytest.MonkeyPatch, place: str, error: BaseException) -> None:
    """Let a function raise in place of what it does."""
    module, name = place.rsplit(".", 1)

    def raising(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(importlib.import_module(module), name, raising)


def metrics(out: Path) -> dict[str, Any]:
    return json.loads((out / "metrics.json").read_text())


RANK = "sparse_prefgp.analysis.ranking.rank"
DRAW = "sparse_prefgp.workflow.output.write_pictures"
RENDER = "sparse_prefgp.workflow.output.as_html"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "lost", "written"),
    [
        (RANK, "ranking.csv", {"pictures", "report.html"}),
        (DRAW, "pictures/", {"ranking.csv", "report.html"}),
        (RENDER, "report.html", {"ranking.csv", "pictures"}),
    ],
)
def test_what_fails_after_the_fit_is_a_warning(
    place: str,
    lost: str,
    written: set[str],
    tables: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    fails(monkeypatch, place, ValueError(f"{REASON}; lower something."))
    result = fit(tables, out, "--report")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert f"{lost} could not be written ({REASON}; lower something); model and metrics" in said
    assert {path.name for path in out.iterdir()} == {"metrics.json", "model", *written}
    found = metrics(out)
    assert found["not_written"] == {lost: f"{REASON}; lower something."}
    assert found["fit"]["log_evidence"] < 0.0 and "held_out" in found
    model = spg.load(out)
    assert model.log_evidence() == pytest.approx(found["fit"]["log_evidence"], rel=1e-9)


@pytest.mark.slow
def test_a_fit_in_chunks_too(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    fails(monkeypatch, RANK, RuntimeError(REASON))
    result = fit(tables, out, "--stream")
    assert result.exit_code == 0, result.output
    assert "ranking.csv could not be written" in " ".join(result.output.split())
    assert {path.name for path in out.iterdir()} == {"metrics.json", "model"}
    spg.load(out)
    monkeypatch.undo()
    again = fit(tables, out, "--stream", "--overwrite")
    assert again.exit_code == 0, again.output
    assert (out / "ranking.csv").exists() and "not_written" not in metrics(out)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--stream",)])
def test_model_and_metrics_are_there_before_the_held_out_duels_are_scored(
    more: tuple[str, ...], tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    fails(monkeypatch, "sparse_prefgp.workflow.workflow.predict_held_out", RuntimeError(REASON))
    assert fit(tables, out, *more).exit_code != 0
    assert {path.name for path in out.iterdir()} >= {"metrics.json", "model"}
    model = spg.load(out)
    assert model.log_evidence() == pytest.approx(metrics(out)["fit"]["log_evidence"], rel=1e-9)


@pytest.mark.slow
def test_stopped_while_ranking_and_resumed(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    fails(monkeypatch, RANK, KeyboardInterrupt())
    result = fit(tables, out)
    assert result.exit_code == 130, result.output
    assert {path.name for path in out.iterdir()} == {"metrics.json", "model", CHECKPOINTS}
    evidence = metrics(out)["fit"]["log_evidence"]
    monkeypatch.undo()
    assert fit(tables, out).exit_code == 2  # what is there would be lost
    result = fit(tables, out, "--resume")
    assert result.exit_code == 0, result.output
    names = {"metrics.json", "model", "ranking.csv", "pictures"}
    assert {path.name for path in out.iterdir()} == names
    assert metrics(out)["fit"]["log_evidence"] == pytest.approx(evidence, rel=1e-9)
    assert metrics(out)["fit"]["resumed_at"] > 0


@pytest.mark.slow
def test_an_earlier_fit_leaves_nothing_beside_a_new_one(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert fit(tables, out, "--report").exit_code == 0
    fails(monkeypatch, RANK, KeyboardInterrupt())
    assert fit(tables, out, "--kernel", "linear", "--overwrite").exit_code == 130
    assert {path.name for path in out.iterdir()} == {"metrics.json", "model", CHECKPOINTS}
    assert metrics(out)["fit"]["kernel"] == "linear"
    files = (tables / "items.csv", tables / "duels.csv")
    with pytest.raises(KeyboardInterrupt, match="model and metrics are in"):
        spg.fit(*files, kernel="se", max_iterations=2, out=out, overwrite=True)


@pytest.mark.slow
def test_a_weight_that_runs_to_nothing(tmp_path: Path) -> None:
    """Thirty wines whose colour says nothing: the fit went to a variance of 0 and was lost."""
    out = tmp_path / "out"
    files = ("--items", DATA / "lost_fit_items.csv", "--duels", DATA / "lost_fit_duels.csv")
    more = ("--approximation", "exact", "--priors", "none", "--out", out, "--report")
    result = CliRunner().invoke(app, [str(word) for word in ("fit", *files, *more)])
    assert result.exit_code == 0, result.output
    (limit,) = metrics(out)["fit"]["limits"]
    assert limit == (
        "No straight-line effect was found for 'colour=rot', 'colour=weiß' (variance of Linear at "
        "its lower limit, 1e-10); a curved one may remain. You need not do anything."
    )
    assert limit in " ".join(result.output.split())
    page = (out / "report.html").read_text()
    assert "<p>No straight-line effect was found for" in page
    assert "<li>No straight-line effect" not in page
    loaded = spg.load(out)
    assert loaded.log_evidence() == pytest.approx(metrics(out)["fit"]["log_evidence"], rel=1e-9)
    assert np.min(loaded.kernel.kernels[0].variance) == pytest.approx(1e-10, rel=1e-3)
