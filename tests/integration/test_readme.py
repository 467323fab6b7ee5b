"""The README's example runs as printed, its commands are understood, and nothing is left open."""

import re
import shlex

import numpy as np
import pytest

from tests.conftest import ROOT


def test_readme_example_runs(capsys):
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    scope: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), scope)
    printed = capsys.readouterr().out
    assert "log evidence" in printed
    utility, mean = scope["utility"], scope["mean"].numpy()[:, 0]
    assert np.corrcoef(mean, utility)[0, 1] > 0.95
    assert scope["model"].infer().converged
    scores = scope["fitted"].scores
    assert scores["model"]["nlp_nats"] < scores["linear_probit"]["nlp_nats"]


def test_readme_has_no_placeholder():
    text = (ROOT / "README.md").read_text()
    assert re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b|\b(?:TODO|TBD|FIXME|XXX)\b", text) == []


def test_readme_fit_command_parses(tmp_path, monkeypatch):
    """Without the two files it gets as far as looking for them."""
    testing = pytest.importorskip("typer.testing")
    pytest.importorskip("pandas")
    from sparse_prefgp.cli.app import app

    text = (ROOT / "README.md").read_text().replace("\\\n", " ")
    commands = re.findall(r"sparse-prefgp (fit --items .*)", text)
    assert commands
    monkeypatch.chdir(tmp_path)
    for command in commands:
        result = testing.CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: "), result.stderr
        assert "items.csv" in result.stderr
        assert len(result.stderr.splitlines()) == 1, "a usage error has several lines"
    assert list(tmp_path.iterdir()) == []
