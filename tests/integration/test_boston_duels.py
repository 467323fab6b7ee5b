"""The study of Boston duels: what it keeps of a run that was stopped, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.tolerances import FIXED_POINT


def load_study() -> ModuleType:
    path = ROOT / "experiments" / "boston_duels" / "run.py"
    spec = importlib.util.spec_from_file_location("boston_duels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


study = load_study()
SETTINGS = {"seed": 0, "nudge": 0.02}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """As the Boston data are laid out, with 26 places, two features and the target."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(26, 2))
    table = np.column_stack([x, 2.0 * x[:, 0] + np.sin(2.0 * x[:, 1])])
    (tmp_path / "data" / "boston").mkdir(parents=True)
    place = tmp_path / "data" / "boston" / "boston.csv"
    np.savetxt(place, table, delimiter=",", header="a,b,target", comments="")
    return tmp_path / "data"


def kept(folder: Path, text: str) -> Path:
    path = folder / "lines.jsonl"
    path.write_text(text)
    return path


def header(settings: dict[str, Any]) -> str:
    return json.dumps({"settings": settings}) + "\n"


def test_a_half_written_last_line_is_dropped(tmp_path: Path) -> None:
    whole = header(SETTINGS) + '{"m": 8}\n'
    # The second is a line that lacks nothing but its end.
    for rest in ('{"m": 1', '{"m": 16}'):
        path = kept(tmp_path, whole + rest)
        assert study.read_lines(path, SETTINGS) == [{"m": 8}]
        assert path.read_text() == whole


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (header({**SETTINGS, "seed": 1}), r"of another 'seed' \(1, now 0\)"),
        (header({"seed": 0}), r"of another 'nudge' \(None, now 0.02\)"),
        ('{"m": 8}\n', "does not say what its lines were made with"),
        ("", "does not say what its lines were made with"),
        (header(SETTINGS) + '{"m": 1\n{"m": 8}\n', "Line 2 of .* is damaged"),
    ],
)
def test_other_lines_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = kept(tmp_path, text)
    with pytest.raises(ValueError, match=message) as caught:
        study.read_lines(path, SETTINGS)
    assert "\n" not in str(caught.value) and "to begin again" in str(caught.value)
    assert path.read_text() == text


@pytest.mark.slow
def test_stopped_and_gone_on(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "TRAINING_ITEMS": 20,
        "INDUCING": (4, 20),
        "REGIMES": {"fixed": study.REGIMES["fixed"]},
        "EXACT_ITERATIONS": 5,
    }.items():
        monkeypatch.setattr(study, name, value)
    work = tmp_path / "work"
    lines = study.run(data, work)
    assert [(line["m"], line["approximation"]) for line in lines] == [
        (m, name) for m in (4, 20) for name in study.APPROXIMATIONS
    ]
    by_place = {(line["approximation"], line["m"]): line for line in lines}
    names = ("VFE", study.KMEANS, study.RANDOM_ITEMS)
    # Three different choices of four inducing inputs; of all items there is but one.
    assert len({round(by_place[name, 4]["log_evidence"], 6) for name in names}) == 3
    for name in names:
        line = by_place[name, 20]
        assert line["log_evidence"] == pytest.approx(line["exact_evidence"], abs=FIXED_POINT)
        assert line["joint_sparse_exact"] < FIXED_POINT < by_place[name, 4]["joint_sparse_exact"]

    path = work / "lines.jsonl"
    text = path.read_text()
    path.write_text(text[:-40])
    again = study.run(data, work)
    assert [again[i] for i in range(len(lines) - 1)] == lines[:-1]
    assert again[-1]["log_evidence"] == lines[-1]["log_evidence"]
    assert path.read_text().count("\n") == text.count("\n")

    monkeypatch.setattr(study, "SEED", 1)
    with pytest.raises(ValueError, match="of another 'seed'"):
        study.run(data, work)


def test_refusals_of_the_command(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    kept(work, header({"seed": 3}))
    for words, message in (
        (["--data", str(data), "--work", str(work)], "are of another"),
        (["--data", str(tmp_path)], "there is no boston/boston.csv"),
    ):
        monkeypatch.setattr(sys, "argv", ["run.py", *words])
        with pytest.raises(SystemExit) as caught:
            study.main()
        assert caught.value.code == 2
        assert message in capsys.readouterr().err
