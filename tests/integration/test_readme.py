"""Examples of the first pages run as printed, commands are understood, nothing is left open."""

import functools
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import sparse_prefgp as spg
from tests.conftest import ROOT


def _blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("duels", [400, pytest.param(None, marks=pytest.mark.slow)])
def test_readme_example_runs(duels, capsys, tmp_path, monkeypatch):
    """As it is printed, of fewer duels where it has to be quick."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    if duels is not None:
        fewer = functools.partial(spg.datasets.demo_tables, duels)
        monkeypatch.setattr(spg.datasets, "demo_tables", fewer)
        quick = {"max_iterations": 3, "inducing": 20, "integrate": "no"}
        monkeypatch.setattr(spg, "fit", functools.partial(spg.fit, **quick))
    scope: dict = {}
    (block,) = _blocks(ROOT / "README.md")
    exec(compile(block, "README.md", "exec"), scope)
    printed = capsys.readouterr().out
    assert "log evidence" in printed and "442 items" in printed
    fitted = scope["fitted"]
    assert fitted.model.infer().converged
    assert fitted.scores["model"]["nlp_nats"] < fitted.scores["coin"]["nlp_nats"]
    assert (tmp_path / "ranking.png").is_file()
    assert spg.load("fitted").duels.num_duels == fitted.model.duels.num_duels
    if duels is None:
        assert fitted.scores["model"]["nlp_nats"] < fitted.scores["linear_probit"]["nlp_nats"]


def test_the_model_by_hand_runs(capsys):
    scope: dict = {}
    for block in _blocks(ROOT / "docs" / "model.md"):
        exec(compile(block, "model.md", "exec"), scope)
    assert "log evidence" in capsys.readouterr().out
    utility, mean = scope["utility"], scope["mean"].numpy()[:, 0]
    assert np.corrcoef(mean, utility)[0, 1] > 0.95
    assert scope["model"].infer().converged


def test_every_link_of_the_readme_is_alive():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert len(links) > 15
    assert [link for link in links if not (ROOT / link.partition("#")[0]).exists()] == []


def test_readme_has_no_placeholder():
    text = (ROOT / "README.md").read_text()
    assert re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b|\b(?:TODO|TBD|FIXME|XXX)\b", text) == []


def test_two_commands_come_first():
    """As they stand there they are targets, and what checks this repository calls the same."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    after = text[text.index("<img ") :]
    block = re.search(r"```sh\n(.*?)```", after, flags=re.DOTALL)
    assert block is not None and block[1] == "make demo\nmake test\n"
    assert after.index("pip install") > block.end()
    targets = re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert {"demo", "test"} <= {name for names in targets for name in names.split()}
    assert "make test" in (ROOT / ".ci" / "run").read_text().splitlines()


def test_fit_commands_parse(tmp_path, monkeypatch):
    """Without the two files it gets as far as looking for them."""
    testing = pytest.importorskip("typer.testing")
    pytest.importorskip("pandas")
    from sparse_prefgp.cli.app import app

    pages = (ROOT / "README.md", ROOT / "docs" / "command-line.md")
    text = "".join(page.read_text().replace("\\\n", " ") for page in pages)
    commands = re.findall(r"sparse-prefgp (fit +--items .*)", text)
    assert len(commands) >= 3
    monkeypatch.chdir(tmp_path)
    for command in commands:
        result = testing.CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: "), result.stderr
        assert "items.csv" in result.stderr
        assert len(result.stderr.splitlines()) == 1, "a usage error has several lines"
    assert list(tmp_path.iterdir()) == []


def _tables() -> None:
    """What the commands of the pages read, in the working directory."""
    items, duels = spg.datasets.demo_tables(40_000)
    kept = items.iloc[[*range(12), 32, 114]]
    names = set(kept["item_id"])
    kept.to_csv("items.csv", index=False)
    kept.iloc[::2].to_csv("next_month.csv", index=False)
    duels = duels[duels["winner"].isin(names) & duels["loser"].isin(names)].reset_index(drop=True)
    rows = np.arange(len(duels))
    duels = duels.assign(
        shown_first=rows % 2, judge=np.array(["Ann", "Bo"])[rows % 3 // 2], surface="clay"
    )
    duels.loc[rows % 5 < 2, "surface"] = "grass"
    duels.iloc[:-10].to_csv("duels.csv", index=False)
    duels.iloc[-10:].to_csv("new_duels.csv", index=False)
    Path("pairs.csv").write_text("first,second\npatient 1,patient 2\n")


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/command-line.md"])
def test_commands_run_one_after_the_other(page, tmp_path, monkeypatch):
    testing = pytest.importorskip("typer.testing")
    pytest.importorskip("pandas")
    from sparse_prefgp.cli.app import app

    monkeypatch.chdir(tmp_path)
    _tables()
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"^    sparse-prefgp (.*)$", text, flags=re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        result = testing.CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 0, f"{command}: {result.output}"
