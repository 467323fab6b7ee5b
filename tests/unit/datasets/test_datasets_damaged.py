"""Public files that are damaged are refused, of every set of the registry; nothing is guessed."""

from __future__ import annotations

import gzip
import json
import re
import zipfile

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pooch")
pytest.importorskip("yaml")

import pandas as pd

from sparse_prefgp.datasets import describe, names
from sparse_prefgp.datasets.loading import converted

pytestmark = pytest.mark.data

ARFF = (
    "@relation r\n@attribute a {x, y}\n@attribute b real\n@attribute c real\n@data\nx,1,2\ny,3,5\n"
)
CARS = "hev phev10 phev20 phev40 bev75 bev100 bev150 phevFastcharge bevFastcharge price opCost"
CARS = f"id obsnum choice {CARS} accelTime american japanese chinese skorean weights"
CAR = "0,0,0,0,0,0,0,0,0,{},1,1,1,0,0,0,0.5"
MATCH = "tourney_id,surface,tourney_level,tourney_date,score,best_of,round,winner_id,winner_hand"
MATCH += ",winner_ht,winner_age,winner_rank,winner_rank_points,loser_id,loser_hand,loser_ht"
MATCH += ",loser_age,loser_rank,loser_rank_points\n"
RESULT = "- position: {}\n  driverId: {}\n  constructorId: red\n  gridPosition: {}\n"
VOTE = "id,prompt,model_x,model_y,{}winner\n4,8,20,10,{}{}\n4,8,20,10,{}tie\n"
PAIR = """<l><annotatedArgumentPair>
<arg1><id>a7</id><text>Yes</text></arg1>
<arg2><id>a9</id><text>No</text></arg2>
<mTurkAssignment><turkID>w</turkID><value>a1</value></mTurkAssignment>
<mTurkAssignment><turkID>w</turkID><value>equal</value></mTurkAssignment>
</annotatedArgumentPair></l>"""
JOKES = ("jokes_homographic_puns", "jokes_heterographic_puns", "nonjokes", "jokes_nonpuns")
CHOICES = {"chid": [1, 1, 2, 2], "id": [7, 7, 8, 8], "case": [1, 1, 2, 2], "alt": list("abab")}
# By set and file, what it may hold: text, or arrays of numbers.
SMALL = {
    "ev_choice_us": {
        "cars_us.csv": CARS.replace(" ", ",")
        + "".join(f"\n5,1,{int(i == 1)},{CAR.format(i)}" for i in range(3))
    },
    "train_choice": {
        "train_data.csv.gz": "id,choice,price1,time1,change1,comfort1,price2,time2,change2,"
        "comfort2\n1,choice1,2400,150,0,1,4000,150,0,1\n1,choice2,2400,150,0,1,3000,150,0,1"
    },
    "electricity": {
        "electricity.csv.gz": pd.DataFrame(
            CHOICES | {"choice": [True, False] * 2} | dict.fromkeys(("pf", "cl", "loc"), 1)
        )
        .assign(wk=0, tod=0, seas=1)
        .to_csv(index=False)
    },
    "mode_canada": {
        "ModeCanada.csv.gz": pd.DataFrame(CHOICES | {"choice": [1, 0] * 2})
        .assign(dist=1, cost=2, ivt=3, ovt=4, freq=5, income=6, urban=0, noalt=2)
        .to_csv(index=False)
    },
    "football_internationals": {
        "results.csv": "date,home_team,away_team,home_score,away_score,tournament,neutral\n"
        "1900-01-01,Chile,Peru,0,2,Cup,FALSE\n1900-01-02,Peru,Chile,0,2,Cup,TRUE"
    },
    "llm_votes": {
        "crowd-comparisons.csv": VOTE.format("worker,", "3,", "left", "4,"),
        "gpt3-crowd-comparisons.csv": VOTE.format("", "", "right", ""),
        "gpt4-crowd-comparisons.csv": VOTE.format("", "", "left", ""),
        "models.jsonl": "".join(
            json.dumps({"id": i, "name": f"M{i}", "org": "o", "api_id": "a"}) + "\n"
            for i in (20, 10)
        ),
        "prompts.jsonl": json.dumps({"id": 8, "slug": "say", "type": "t", "text": "Say."}),
        "results.jsonl": "".join(
            json.dumps({"model": i, "prompt": 8, "result": "x"}) + "\n" for i in (20, 10)
        ),
    },
    "humour": {
        "pairs.csv": "0,1\n1,0\n2,3\n",
        "item_scores.txt": "".join(f"{i}\t0.5\t{name}\n" for i, name in enumerate(JOKES)),
        **{f"{name}.txt": f"{name}\n" for name in JOKES},
    },
    "ukp_convincing": {
        "corpus.zip": {
            "c/UKPConvArg1-full-XML/tv.xml": PAIR,
            "c/UKPConvArg1Strict-CSV/tv.csv": "#id\tlabel\na7_a9\ta1\tYes\tNo\n",
        }
    },
    "snelson1d": {
        "SPGP_dist.zip": {
            "d/train_inputs": "1\n2\n",
            "d/train_outputs": "3\n4\n",
            "d/test_inputs": "5\n6\n",
        }
    },
    "boston": {"boston.txt": "words\n" + f"{' 1.5' * 11}\n{' 2.5' * 3}\n" * 2},
    "sarcos_test": {"sarcos_inv_test.mat": np.arange(56.0).reshape(2, 28)},
}


def text_of(known, file):
    """The small file of a set."""
    small = dict(SMALL, ev_choice_china={"cars_china.csv": SMALL["ev_choice_us"]["cars_us.csv"]})
    if known.name == "tennis_atp":
        row = "1991-301,Hard,A,19910107,6-4 6-1,3,R32,{},R,180,20,1,10,{},R,180,20,1,10\n"
        return MATCH + row.format(*(("1", "2") if "qual" in file else ("3", "4")))
    if known.name == "formula_1":
        return RESULT.format(1, "ann", 2) + RESULT.format("DNF", "ben", "PL")
    if known.name == "kin40k":
        return "1 2 3 4 5 6 7 8\n" * 2 if "data" in file else "1\n2\n"
    return small.get(known.name, {file: ARFF})[file]


def public_files(known, folder, damaged=None, instead=None):
    """All public files of a set; one of them is damaged, cut short where nothing is instead."""
    from scipy.io import savemat

    for file in known.remote:
        is_damaged = file.name == damaged
        content = instead if is_damaged and instead is not None else text_of(known, file.name)
        path = folder / file.name
        if isinstance(content, dict):
            with zipfile.ZipFile(path, "w") as archive:
                for name, text in content.items():
                    archive.writestr(name, text)
        elif isinstance(content, np.ndarray):
            savemat(path, {"sarcos": content})
        else:
            data = content.encode()
            path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        if is_damaged and instead is None:
            path.write_bytes(path.read_bytes()[:-12])
    return {file.name: folder / file.name for file in known.remote}


def damages(known):
    """File, what is done to it in words, and how; of many files the first and the last."""
    files = [file.name for file in known.remote]
    every = [one for labels in known.labels.values() for one in labels]
    texts = (str(one).upper() if isinstance(one, bool) else one for one in every)
    labels = {text for text in texts if isinstance(text, str)}
    for file in dict.fromkeys([files[0], files[-1]] if len(files) > 9 else files):
        content = text_of(known, file)
        if file.endswith((".gz", ".zip")):
            yield file, "cut short", None
        if isinstance(content, np.ndarray):
            yield file, "a column less", content[:, 1:]
            continue
        parts = content if isinstance(content, dict) else {"": content}
        for part, text in parts.items():
            for what, other in ways(known, labels, text):
                if other != text:
                    yield file, f"{part} {what}", {**parts, part: other} if part else other


def ways(known, labels, text):
    yield "empty", ""
    yield "moved", "<html>moved</html>"
    for label in labels:  # where it stands as a value
        value = rf"(?<=[,>\t ]){label}(?=[,<\t\n]|$)"
        yield f"{label} is neither", re.sub(value, "neither", text, count=1)
    for tag in ("id", "text", "value"):
        yield f"without {tag}", re.sub(f"<{tag}>[^<]*</{tag}>", "", text, count=1)
    for key in ("driverId", "constructorId", "gridPosition"):
        yield f"without {key}", re.sub(f"  {key}: .*\n", "", text, count=1)
    head, _, rows = text.partition("\n")
    names = head.split(",")
    for column in set(names) & set(known.columns.values()):
        others = ["other" if name == column else name for name in names]
        yield f"without {column}", f"{','.join(others)}\n{rows}"
        before, _, last = rows.rstrip().rpartition("\n")
        cells = last.split(",")
        cells[names.index(column)] = ""
        yield f"empty {column}", f"{head}\n{before}\n{','.join(cells)}\n"


@pytest.mark.parametrize("name", names())
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_damaged_public_files_are_refused(name, tmp_path):
    known = describe(name)
    converted(known, public_files(known, tmp_path))
    accepted = []
    for file, what, instead in damages(known):
        try:
            converted(known, public_files(known, tmp_path, file, instead))
        except ValueError as error:
            assert f"'{name}' are not as expected (" in str(error)
        else:
            accepted.append((file, what))
    assert not accepted
