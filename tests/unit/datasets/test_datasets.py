"""Data sets by name: those of the local folder, mistakes, and the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("typer")

import pandas as pd
from typer.testing import CliRunner

import sparse_prefgp
from sparse_prefgp import datasets
from sparse_prefgp.cli.app import app
from sparse_prefgp.data.splits import split_duels
from sparse_prefgp.datasets.fetching import CACHE_VARIABLE, DATA_VARIABLE
from tests.conftest import ROOT

pytestmark = pytest.mark.data


@pytest.fixture
def local(data_dir, monkeypatch):
    """The real data, read in place."""
    monkeypatch.setenv(DATA_VARIABLE, str(data_dir))
    return data_dir


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An empty local folder."""
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["datasets", *arguments])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", datasets.names())
@pytest.mark.covering(every=12)
def test_every_set_has_the_shape_it_is_known_to_have(local, name):
    known = datasets.describe(name)
    if not (local / name).is_dir():
        pytest.skip(f"{name} is not in {local}")
    found = getattr(datasets, name)()
    assert found.about is known
    if known.kind != "regression":
        table = found.to_duels()
        assert table.num_items == known.items
        assert table.num_rows == known.duels
        assert len(table.raw.numeric) + len(table.raw.categorical) == known.features
        split = split_duels(table, known.split, 0.2, np.random.default_rng(0))
        assert len(split.train_rows) and len(split.test_rows)
    else:
        assert found.features.shape == (known.items, known.features)
        assert found.target.shape == (known.items,) and np.isfinite(found.target).all()
        made = datasets.duels_from_targets(found, np.random.default_rng(0), duels=50)
        assert made.to_duels().num_items == known.items


@pytest.mark.slow
@pytest.mark.parametrize("name", datasets.names())
def test_every_set_holds_what_it_held(local, name):
    """Shapes and hashes of all frames, kept when converters were rewritten."""
    if not (local / name).is_dir():
        pytest.skip(f"{name} is not in {local}")
    known = json.loads((ROOT / "tests" / "data" / "datasets.json").read_text(encoding="utf-8"))
    found = datasets.load(name).frames
    assert {table: summary(frame) for table, frame in found.items()} == known[name]


def summary(frame):
    rows = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    return [*frame.shape, int(rows.sum(dtype="uint64"))]


def test_ties_and_gold_duels_of_the_arguments(local):
    found = datasets.ukp_convincing()
    with_ties = found.to_duels(ties=True)
    assert with_ties.num_ties == 19_105 and with_ties.num_rows == 65_340 + 19_105
    # Ties know the debate that they are of.
    debate = with_ties.raw.frame["debate"].to_numpy()
    assert (debate[with_ties.given.pairs[:, 0]] == with_ties.context["debate"]).all()
    gold = found.to_duels(gold=True)
    assert gold.num_rows == 11_650 and gold.num_ties == 0
    assert found.to_duels(groups="annotator").group_names is not None
    assert found.items["text"].str.len().between(36, 740).all()
    with pytest.raises(ValueError, match="Gold duels have no ties"):
        found.to_duels(gold=True, ties=True)
    with pytest.raises(ValueError, match="'train_choice' has no ties"):
        datasets.train_choice().to_duels(ties=True)


def test_standard_parts(local):
    kin, abalone = datasets.kin40k(), datasets.abalone()
    assert [len(rows) for rows in kin.parts] == [10_000, 30_000]
    assert kin.parts[1][0] == 10_000
    assert [len(rows) for rows in abalone.parts] == [3_133, 1_044]
    assert datasets.boston().parts is None
    assert datasets.snelson1d().more_inputs.shape == (301, 1)
    with np.load(local / "sarcos_test" / "sarcos_test.npz") as arrays:
        np.testing.assert_array_equal(datasets.sarcos_test().target, arrays["y"][:, 0])
    made = datasets.duels_from_targets(abalone, np.random.default_rng(0), duels=(200, 100))
    assert np.bincount(made.part).tolist() == [200, 100]
    assert made.duels[made.part == 0][["winner", "loser"]].to_numpy().max() < 3_133


def test_names_and_kinds():
    assert len(datasets.names()) == 23
    assert datasets.names("duels")[0] == "tennis_atp"
    assert datasets.names("choices") == ("electricity", "mode_canada")
    assert datasets.names("rankings") == ("formula_1",)
    kinds = [set(datasets.names(kind)) for kind in ("duels", "choices", "rankings", "regression")]
    assert set.union(*kinds) == set(datasets.names())
    assert all(callable(getattr(datasets, name)) for name in datasets.names())
    with pytest.raises(ValueError, match="kind of data set 'both' is unknown"):
        datasets.names("both")


def test_unknown_names():
    with pytest.raises(ValueError, match="did you mean 'kin40k'"):
        datasets.describe("kin40")
    with pytest.raises(ValueError, match="choose from tennis_atp, ukp_convincing"):
        datasets.load("qqqq")


@pytest.mark.parametrize("name", [None, 3, ["boston"], np.nan])
@pytest.mark.parametrize("call", [datasets.load, datasets.fetch, datasets.describe])
def test_names_that_are_none(own, call, name):
    with pytest.raises(ValueError, match=r"name of a data set is .*'boston'"):
        call(name)


@pytest.mark.parametrize("name", ["../own/toy", "/own/toy", "..", ".", "a\\b", "a/b"])
def test_a_path_is_no_name(own, name):
    with pytest.raises(ValueError, match="which is a path"):
        datasets.load(name)


def test_a_local_folder_without_the_set(own):
    with pytest.raises(ValueError, match=r"has no boston/boston\.csv; put it there"):
        datasets.boston()
    (own / "boston").mkdir()
    (own / "boston" / "boston.csv").write_text("a,target\n1,2\n")
    with pytest.raises(ValueError, match=r"has the checksum .*, not 16c598fd3d67"):
        datasets.boston()
    with pytest.raises(ValueError, match="unset it"):
        datasets.fetch("boston", refresh=True)


def test_no_local_folder(monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, "/nowhere/at/all")
    with pytest.raises(ValueError, match="which is not a folder"):
        datasets.boston()


def test_sets_of_ones_own(own):
    (own / "meals").mkdir()
    (own / "meals" / "items.csv").write_text("item_id,heat\na,1\nb,2\n")
    (own / "meals" / "duels.csv").write_text("winner,loser\na,b\n")
    assert datasets.load("meals").to_duels().num_rows == 1
    (own / "wine").mkdir()
    (own / "wine" / "wine.csv").write_text("sugar,target\n1,2\n3,4\n")
    assert datasets.load("wine").target.tolist() == [2, 4]
    (own / "wine" / "wine.csv").write_text("sugar,taste\n1,2\n")
    with pytest.raises(ValueError, match="'wine' has no column 'target'"):
        datasets.load("wine")
    (own / "wine" / "wine.csv").rename(own / "wine" / "other.csv")
    with pytest.raises(ValueError, match=r"nor choices\.csv nor wine\.csv with a column"):
        datasets.load("wine")
    with pytest.raises(ValueError, match="'meal' is unknown"):
        datasets.load("meal")


def test_the_list(local, tmp_path, monkeypatch):
    result = run("--json")
    assert result.exit_code == 0, result.output
    listed = json.loads(result.stdout)
    assert [entry["name"] for entry in listed] == list(datasets.names())
    for entry in listed:
        there = (local / entry["name"]).is_dir()
        assert entry["where"] == ("local folder" if there else "not in the local folder")
    monkeypatch.delenv(DATA_VARIABLE)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    result = run()
    assert result.exit_code == 0, result.output
    assert "tennis_atp" in result.stdout and "download" in result.stdout
    assert list(tmp_path.iterdir()) == []  # nothing is fetched by listing


def test_one_set(local):
    result = run("ev_choice_us")
    assert result.exit_code == 0, result.output
    assert "Helveston" in result.stdout and "MIT" in result.stdout
    assert f"--items {local / 'ev_choice_us' / 'items.csv'}" in result.stdout
    assert "--split group:person" in result.stdout
    files = json.loads(run("boston", "--json").stdout)["files"]
    assert files == {"boston.csv": str(local / "boston" / "boston.csv")}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tenis_atp",), "did you mean 'tennis_atp'?"),
        (("boston",), "has no boston/boston.csv"),
        (("boston", "--refresh"), "Nothing is downloaded while"),
    ],
)
def test_mistakes_are_one_sentence(own, arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_no_network_is_one_sentence(tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")  # nobody answers there
    result = run("boston", "--quiet")
    assert result.exit_code == 2
    assert "http://lib.stat.cmu.edu/datasets/boston cannot be downloaded" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_tidy_table_made_here_reads_like_a_local_one(tmp_path, monkeypatch):
    """The way from public files to `load`, without the download."""
    from sparse_prefgp.datasets import loading

    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    rows = [(1, "choice1", 2400, 150, 0, 1, 4000, 150, 0, 1)]
    names = [f"{name}{i}" for i in (1, 2) for name in ("price", "time", "change", "comfort")]
    raw = tmp_path / "train_data.csv.gz"
    pd.DataFrame(rows, columns=["id", "choice", *names]).to_csv(raw, index=False)
    monkeypatch.setattr(loading, "download", lambda known, recorded, **_: {raw.name: raw})
    with pytest.warns(
        UserWarning, match="has 2 items and 1 duels as made from its public files, not 1,785 "
    ):
        found = datasets.train_choice()
    assert found.to_duels().num_rows == 1
    with pytest.warns(UserWarning, match="1 duels"):
        assert datasets.load("train_choice").duels.equals(found.duels)


def test_the_package_has_them_without_loading_them():
    assert sparse_prefgp.datasets is datasets
    code = (
        "import sys, sparse_prefgp as spg; spg.datasets.names(); "
        "print([m for m in ('pandas', 'pooch', 'requests', 'tensorflow', 'sklearn') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_says_what_is_so(local):
    """Its code runs, and its tables have every set with its figures and the licence."""
    page = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(block, names)
    assert len(names["train"].items) and names["test"].num_duels == 500
    rows = {line.split("|")[1].strip(" `"): line for line in page.splitlines() if "|" in line}
    for name in datasets.names():
        known = datasets.describe(name)
        cells = [cell.strip() for cell in rows[name].split("|")]
        numbers = [int(number) for cell in cells for number in _numbers(cell)]
        assert known.items in numbers or sum(_sum_of(cells)) == known.items, name
        assert known.features in numbers, name
        assert known.duels in [0, *numbers], name


def _numbers(cell):
    return re.findall(r"(?<!\S)\d+(?!\S)", cell.replace(",", ""))


def _sum_of(cells):
    return [int(x) for cell in cells if " + " in cell for x in cell.replace(",", "").split(" + ")]
