"""A study from its file to its report, with the real runs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("pandas")

import pandas as pd

from sparse_prefgp.lab.ablation import expand, read_study, run_study
from sparse_prefgp.lab.report import study_report
from tests.conftest import ROOT


@pytest.mark.slow
def test_a_smoke_study_and_its_report(tmp_path: Path) -> None:
    study, out = read_study(ROOT / "configs" / "smoke" / "engines.yaml"), tmp_path / "out"
    assert not run_study(study, out).failed
    runs = pd.read_parquet(out / "runs.parquet").set_index("run")
    assert set(runs.index) == {run.name for run in expand(study)}
    report = study_report(out, metrics=["nlp_nats", "fit_seconds"])
    page = (report.folder / "report.html").read_text()
    exact = runs.query("approximation == 'exact' and engine == 'ep'")["nlp_nats"].item()
    assert f"{exact:.4f}" in page
    assert all(engine in page for engine in ("Laplace", "variational"))
    assert run_study(study, out).new == 0
