"""Sets of choices, matches, votes of judges and jokes: from public files to tables."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace

import pytest

pytest.importorskip("pandas")
pytest.importorskip("typer")

import pandas as pd
from typer.testing import CliRunner

from sparse_prefgp import datasets
from sparse_prefgp.cli.app import app
from sparse_prefgp.datasets import converters, describe, fetching, loading
from sparse_prefgp.datasets.registry import SETS

pytestmark = pytest.mark.data

NEW = ("electricity", "mode_canada", "football_internationals", "llm_votes", "humour")
OFFERS = (
    "choice,id,alt,pf,cl,loc,wk,tod,seas,chid\n"
    "FALSE,7,1,7,5,0,1,0,0,1\nTRUE,7,2,9,1,1,0,0,0,1\n"
    "TRUE,8,1,0,0,0,0,0,1,2\nFALSE,8,2,7,5,0,1,0,0,2\n"
)


@pytest.fixture
def local(data_dir, monkeypatch):
    """The real data, read in place."""
    monkeypatch.setenv(fetching.DATA_VARIABLE, str(data_dir))
    return data_dir


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An empty local folder."""
    monkeypatch.setenv(fetching.DATA_VARIABLE, str(tmp_path))
    return tmp_path


def written(folder, **files):
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name: folder / name for name in files}


@pytest.mark.parametrize("name", NEW)
def test_what_is_made_of_the_public_files_equals_the_local_copy(data_dir, name):
    """Where the public files are in the cache, from an earlier download."""
    pytest.importorskip("pooch")
    known = datasets.describe(name)
    raw = {file.name: fetching.cache_folder() / name / "raw" / file.name for file in known.remote}
    if not all(path.is_file() for path in raw.values()):
        pytest.skip(f"the public files of {name} are not in the cache")
    for file in known.remote:
        assert fetching.sha256(raw[file.name]) == file.sha256
    made = loading.converted(known, raw)
    assert made.keys() == known.files.keys()
    for file, table in made.items():
        kept = pd.read_csv(data_dir / name / file, keep_default_na=False)
        pd.testing.assert_frame_equal(table, kept, check_exact=True, check_dtype=False)


@pytest.mark.parametrize("name", NEW)
def test_their_files_are_of_one_state_with_known_checksums(name):
    for file in datasets.describe(name).remote:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert re.search(r"githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/", file.url)


def test_choices_among_offers_and_modes(tmp_path):
    path = tmp_path / "electricity.csv.gz"
    path.write_bytes(gzip.compress(OFFERS.encode()))
    found = converters.choices(describe("electricity"), {path.name: path})["choices.csv.gz"]
    assert list(found.columns[:4]) == ["choice_set", "person", "alternative", "chosen"]
    assert found[["choice_set", "person", "chosen", "pf"]].to_numpy().tolist() == [
        [1, 7, 0, 7],
        [1, 7, 1, 9],
        [2, 8, 1, 0],
        [2, 8, 0, 7],
    ]
    modes = (
        ",case,alt,choice,dist,cost,ivt,ovt,freq,income,urban,noalt\n"
        "1,1,train,0,83,28.25,50,66,4,45,0,2\n2,1,car,1,83,15.77,61,0,0,45,0,2\n"
    )
    path = written(tmp_path, **{"ModeCanada.csv": modes})["ModeCanada.csv"]
    found = converters.choices(describe("mode_canada"), {path.name: path})["choices.csv.gz"]
    assert found["alternative"].tolist() == ["train", "car"] and found["person"].tolist() == [1, 1]
    assert found["chosen"].tolist() == [0, 1] and found["noalt"].tolist() == [2, 2]


RESULTS = (
    "date,home_team,away_team,home_score,away_score,tournament,city,country,neutral\n"
    "1900-01-01,Chile,Åland,0,0,Friendly,a,b,FALSE\n"
    "1900-01-02,Brazil,Chile,1,6,Cup,a,b,TRUE\n"
    "1900-01-03,Chile,Brazil,0,2,Cup,a,b,FALSE\n"
    "1900-01-04,Chile,Brazil,1,0,Cup,a,b,FALSE\n"
)


def test_matches_become_duels(tmp_path):
    files = written(tmp_path, **{"results.csv": RESULTS})
    made = converters.matches(describe("football_internationals"), files)
    assert made["teams.csv"]["team"].tolist() == ["Brazil", "Chile", "Åland"]
    assert made["matches.csv.gz"]["home"].tolist() == [1, 0, 1, 1]
    assert made["matches.csv.gz"]["neutral"].tolist() == [0, 1, 0, 0]
    found = converters.duels_of_matches(
        {"teams": made["teams.csv"], "matches": made["matches.csv.gz"]}
    )
    assert found["items"]["item_id"].tolist() == ["Brazil", "Chile", "Åland"]
    columns = ["winner", "loser", "tie", "winner_home", "loser_home", "grade", "winner_score"]
    assert found["duels"][columns].to_numpy().tolist() == [
        ["Chile", "Åland", 1, 1, 0, 0, 0],
        ["Chile", "Brazil", 0, 0, 0, 3, 6],
        ["Brazil", "Chile", 0, 0, 1, 2, 2],
        ["Chile", "Brazil", 0, 1, 0, 1, 1],
    ]


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def votes_of_judges(folder):
    """Two models with an answer each to one prompt; a third that nobody voted on."""
    votes = "id,prompt,model_x,model_y,winner,left,right\n"
    crowd = "id,prompt,model_x,model_y,worker,winner,left,right\n"
    return written(
        folder,
        **{
            "crowd-comparisons.csv": f"{crowd}4,8,20,10,0,left,B,A\n4,8,20,10,1,tie,B,A\n",
            "gpt3-crowd-comparisons.csv": f"{votes}4,8,20,10,right,B,A\n",
            "gpt4-crowd-comparisons.csv": f"{votes}4,8,20,10,left,B,A\n",
            "models.jsonl": jsonl(
                *({"id": i, "name": f"M{i}", "org": "o", "api_id": f"o/{i}"} for i in (20, 30, 10))
            ),
            "prompts.jsonl": jsonl({"id": 8, "slug": "say", "type": "t", "text": "Say it."}),
            "results.jsonl": jsonl(
                {"model": 10, "prompt": 8, "result": ""},
                {"model": 30, "prompt": 8, "result": "c"},
                {"model": 20, "prompt": 8, "result": "5"},
            ),
        },
    )


def test_votes_on_answers_of_models(tmp_path):
    made = converters.votes(describe("llm_votes"), votes_of_judges(tmp_path))
    items = made["items.csv.gz"]
    assert items.to_numpy().tolist() == [[0, 1, 0, 0, ""], [1, 0, 0, 1, "5"]]
    duels = made["duels.csv.gz"]
    assert duels[["winner", "loser", "tie", "winner_first", "judge"]].to_numpy().tolist() == [
        [1, 0, 0, 1, 0],
        [1, 0, 1, 1, 1],
        [0, 1, 0, 0, 2],
        [1, 0, 0, 1, 3],
    ]
    assert duels["judge_kind"].tolist() == ["crowd", "crowd", "gpt3", "gpt4"]
    assert duels["pair_id"].tolist() == [4] * 4
    assert made["models.csv"]["name"].tolist() == ["M20", "M10"]
    found = converters.named_votes({name.partition(".")[0]: table for name, table in made.items()})
    assert found["items"]["model"].tolist() == ["M10", "M20"]
    assert found["duels"]["judge"].tolist() == ["worker 0", "worker 1", "gpt3", "gpt4"]
    assert found["duels"]["prompt"].tolist() == ["say"] * 4
    assert found["duels"]["loser_first"].tolist() == [0, 0, 1, 0]
    battles = found["battles"]
    assert battles[["model_a", "model_b", "winner", "judge_kind"]].to_numpy().tolist() == [
        ["M20", "M10", "model_a", "crowd"],
        ["M20", "M10", "tie", "crowd"],
        ["M20", "M10", "model_b", "gpt3"],
        ["M20", "M10", "model_a", "gpt4"],
    ]
    assert battles["length_a"].tolist() == [0.0] * 4, "one character"
    assert battles["length_b"].tolist() == [0.0] * 4, "blank"


def jokes_of(folder):
    files = {
        "pairs.csv": "1,0\n0,1\n",
        "item_scores.txt": "1\t0.5\tTwo, two.\n0\t-0.5\tOne\n",
        "jokes_homographic_puns.txt": "TWO two\n",
        "jokes_heterographic_puns.txt": "three\n",
        "nonjokes.txt": "One\n",
        "jokes_nonpuns.txt": "four\n",
    }
    return written(folder, **files)


def test_jokes(tmp_path):
    made = converters.jokes(describe("humour"), jokes_of(tmp_path))
    assert made["items.csv.gz"].to_numpy().tolist() == [
        [0, "not_a_joke", -0.5, "One"],
        [1, "homographic_pun", 0.5, "Two, two."],
    ]
    assert made["duels.csv.gz"].to_numpy().tolist() == [[1, 0], [0, 1]]


def test_a_set_of_choices_from_its_public_file(tmp_path, monkeypatch):
    """The way from a public file to `load`, without the download."""
    pytest.importorskip("pooch")
    monkeypatch.delenv(fetching.DATA_VARIABLE, raising=False)
    monkeypatch.setenv(fetching.CACHE_VARIABLE, str(tmp_path))
    raw = tmp_path / "electricity.csv.gz"
    raw.write_bytes(gzip.compress(OFFERS.encode()))
    monkeypatch.setattr(loading, "download", lambda known, recorded, **_: {raw.name: raw})
    known = replace(SETS["electricity"], items=3, duels=2)
    monkeypatch.setitem(SETS, "electricity", known)
    found = datasets.electricity()
    assert found.attributes == ["pf", "cl", "loc", "wk", "tod", "seas"]
    assert found.to_duels().num_rows == 2 and found.to_duels().num_items == 3
    assert found.to_duels(features=["pf"]).raw.numeric == ("pf",)
    assert "choices=2, alternatives=4" in repr(found)


def test_votes_with_and_without_ties(local):
    votes, football = datasets.llm_votes(), datasets.football_internationals()
    assert "duels=9478, ties=3731" in repr(votes) and "ties=11258" in repr(football)
    assert votes.to_duels().num_ties == 0
    assert votes.to_duels(ties=True).num_ties == 3_731
    assert football.to_duels(ties=True).num_rows == 49_520
    assert votes.to_duels(groups="judge", covariates=["first"]).group_names is not None
    graded = football.to_duels(ties=True, grade="grade").standardised()
    assert len(graded.levels) == 7
    assert (votes.items["text"].str.strip() == "").sum() == 52
    assert votes.items["model"].nunique() == 59
    with pytest.raises(ValueError, match="'humour' has no ties"):
        datasets.humour().to_duels(ties=True)
    assert votes.to_duels(text="text").raw.texts == ("text",)


def run(*arguments):
    return CliRunner().invoke(app, ["datasets", *map(str, arguments)])


@pytest.mark.slow
def test_tables_are_written_for_fit(local, tmp_path):
    folder = tmp_path / "football"
    result = run("football_internationals")
    assert "--out football_internationals" in result.stdout and "Fit it" not in result.stdout
    result = run("football_internationals", "--out", folder)
    assert result.exit_code == 0, result.output
    assert f"--duels {folder / 'duels.csv'} --time date --covariate home" in result.stdout
    assert pd.read_csv(folder / "duels.csv").equals(datasets.football_internationals().duels)
    again = run("football_internationals", "--out", folder)
    assert again.exit_code == 2 and "--overwrite" in again.stderr
    assert run("football_internationals", "--out", folder, "--overwrite").exit_code == 0
    result = run("electricity")
    assert f"--choices {local / 'electricity' / 'choices.csv.gz'} --ignore" in result.stdout
    result = run("humour")
    assert "CC BY-NC" in result.stdout
    assert "--ignore bws_score --text text --split items" in result.stdout
    result = run("boston", "--out", tmp_path)
    assert pd.read_csv(tmp_path / "boston.csv")["target"].size == 506
    assert run("--out", folder).exit_code == 2


def test_choices_of_ones_own(own):
    (own / "lunch").mkdir()
    (own / "lunch" / "choices.csv").write_text("choice_set,chosen,price\n1,1,3\n1,0,4\n")
    assert datasets.load("lunch").to_duels().num_rows == 1


def test_studies_take_duels(local):
    pytest.importorskip("pydantic")
    from sparse_prefgp.lab.ablation.duels import parted
    from sparse_prefgp.lab.ablation.study import Data, SplitSettings

    with pytest.raises(ValueError, match="'electricity' has choices from sets"):
        parted(Data(set="electricity"), SplitSettings(by="duels", test_fraction=0.5), None, 0)
