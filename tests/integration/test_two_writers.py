"""Two who write to one place: the second is refused before it has touched anything."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.workflow.folder import CHECKPOINTS, OtherModel
from sparse_prefgp.workflow.settings import FitSettings
from tests.killing import ROOT, kill_after, started, writing_elsewhere

pytest.importorskip("typer")
pytest.importorskip("pandas")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app

SAVED = ROOT / "tests" / "data" / "saved"
SEEDS = (1, 2)
SMALL = ("--inducing", "5", "--max-iterations", "4", "--kernel", "se", "--quiet")


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def of(tables: Path) -> list[str]:
    return ["--items", str(tables / "items.csv"), "--duels", str(tables / "duels.csv")]


def given(tables: Path, out: Path, *more: str) -> list[str]:
    return ["fit", *of(tables), "--out", str(out), *SMALL, *more]


@pytest.mark.parametrize("what", ["fit", "comparison", "checkpoint", "study", "update"])
def test_the_second_is_refused(what: str, tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    select = ["select", *of(tables), "--kernels", "se"]
    model = str(SAVED / "vfe")
    words = {
        "fit": given(tables, out, "--overwrite"),
        "comparison": [*select, "--out", f"{out}.csv"],
        "checkpoint": [*select, "--checkpoint", str(out)],
        "study": ["ablate", str(ROOT / "configs/smoke/inducing_points.yaml"), "--out", str(out)],
        "update": ["update", "--model", model, "--duels", "new.csv", "--out", str(out)],
    }[what]
    place = out.with_suffix(".csv") if what == "comparison" else out
    with writing_elsewhere(place, "study"):
        before = contents(tmp_path)
        result = CliRunner().invoke(app, words)
        assert contents(tmp_path) == before
    assert result.exit_code == 2, result.output
    assert len(result.stderr.splitlines()) == 1
    assert f"Another study is writing to {str(place)!r}; wait until" in result.stderr


def test_from_python_too(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with writing_elsewhere(out, "fit"), pytest.raises(ValueError, match="Another fit is writing"):
        spg.fit(tables / "items.csv", tables / "duels.csv", out=out, overwrite=True)


@pytest.fixture(scope="module")
def fitted() -> spg.results.FitOutput:
    return spg.results.FitOutput(spg.load(SAVED / "vfe"), None, FitSettings(), {"fit": {}})


def test_written_by_hand_too(fitted: spg.results.FitOutput, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with writing_elsewhere(out, "fit"), pytest.raises(ValueError, match="Another fit is writing"):
        fitted.write(out)
    assert not out.exists()


def test_what_is_added_belongs_to_the_model_that_was_written(
    fitted: spg.results.FitOutput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that asks nobody replaces the model while the items are ranked."""
    other = SAVED / "exact" / "model"

    def ranked(*_: Any) -> Any:
        shutil.rmtree(tmp_path / "out" / "model")
        shutil.copytree(other, tmp_path / "out" / "model")
        raise ValueError("No ranking")

    monkeypatch.setattr("sparse_prefgp.workflow.output.rank_items", ranked)
    with (
        pytest.warns(UserWarning, match="No ranking"),
        pytest.raises(OtherModel, match="no longer the one that this fit wrote"),
    ):
        fitted.write(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"metrics.json", "model"}


@pytest.mark.slow
def test_of_two_fits_one_is_done_and_one_is_refused(tables: Path, tmp_path: Path) -> None:
    """Twenty times, with 0 to 2 seconds between; the folder is whole, and all of one fit."""
    rng = np.random.default_rng(0)
    for number, between in enumerate((0.0, *rng.uniform(0.0, 2.0, size=19))):
        place = tmp_path / str(number)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        runs = []
        for seed in SEEDS:
            runs.append(started(given(tables, place / "out", "--seed", str(seed)), **quiet))
            time.sleep(between if seed == SEEDS[0] else 0.0)
        said = [run.communicate(timeout=600)[1] for run in runs]
        codes = [run.returncode for run in runs]
        assert sorted(codes) == [0, 2], said
        refused = said[codes.index(2)]
        print(f"{between:.3f} s: exit codes {codes}; {refused.strip()}")
        assert "is writing to" in refused or "holds a finished fit" in refused
        assert {path.name for path in place.iterdir()} == {"out"}
        told = json.loads((place / "out" / "metrics.json").read_text())
        assert told["seed"] == SEEDS[codes.index(0)]
        evidence = spg.load(place / "out").log_evidence()
        assert evidence == pytest.approx(told["fit"]["log_evidence"], rel=1e-9)
        assert (place / "out" / "ranking.csv").is_file()


@pytest.mark.slow
def test_the_checkpoint_of_a_fit_that_nobody_runs_can_be_replaced(
    tables: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    many = given(tables, out, "--max-iterations", "12", "--checkpoint-every", "2")
    kill_after(2, many)
    kept = contents(out)
    for more in ((), ("--overwrite", "--weight", "none")):
        refused = CliRunner().invoke(app, [*many, *more])
        assert refused.exit_code == 2, refused.output
        assert contents(out) == kept
    assert (out / CHECKPOINTS).is_dir()
    done = CliRunner().invoke(app, [*many, "--overwrite", "--seed", "5"])
    assert done.exit_code == 0, done.output
    assert not (out / CHECKPOINTS).exists()
    assert json.loads((out / "metrics.json").read_text())["fit"]["resumed_at"] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
