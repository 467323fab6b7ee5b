"""A study from its file to its report, with the real runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("pandas")

import pandas as pd

from sparse_prefgp.lab.ablation import expand, read_study, run_study
from sparse_prefgp.lab.report import study_report

SMOKE = Path(__file__).resolve().parents[2] / "configs" / "smoke"


@pytest.mark.slow
def test_a_smoke_study_and_its_report(tmp_path: Path) -> None:
    study = read_study(SMOKE / "engines.yaml")
    result = run_study(study, tmp_path / "out")
    assert not result.failed
    frame = pd.read_csv(tmp_path / "out" / "results.csv")
    assert set(frame["run"]) == {run.name for run in expand(study)}
    report = study_report(tmp_path / "out", metrics=["nlp_nats", "fit_seconds"])
    page = (tmp_path / "out" / "report" / "report.html").read_text()
    told = json.loads((tmp_path / "out" / "report" / "report.json").read_text())
    assert report.folder == tmp_path / "out" / "report" and told
    # The page has the figures of the table.
    exact = frame.query("approximation == 'exact' and engine == 'ep' and metric == 'nlp_nats'")
    assert f"{exact['value'].iloc[0]:.4f}" in page
    for engine in ("laplace", "variational"):
        assert engine in page
    again = run_study(study, tmp_path / "out")
    assert (again.new, again.runs) == (0, result.runs)
