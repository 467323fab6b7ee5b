"""Results of races, in the form of the public files, become items and rankings."""

from __future__ import annotations

import pytest

pytest.importorskip("pandas")
pytest.importorskip("yaml")

from sparse_prefgp import datasets
from sparse_prefgp.datasets import converters, describe
from sparse_prefgp.datasets.fetching import DATA_VARIABLE

RESULTS = """\
- position: 1
  driverId: ann-one
  constructorId: red
  time: "1:31:44.742"
  reasonRetired:
  gridPosition: 2
- position: 2
  driverId: ben-two
  constructorId: blue
  gridPosition: PL
- position: DNF
  driverId: cem-three
  constructorId: red
  gridPosition: 1
- position: DNS
  driverId: dan-four
  constructorId: blue
  gridPosition:
"""


def written(folder, **texts):
    files = {}
    for name, text in texts.items():
        path = files[f"{name[1:5]}-{name[6:]}.yml"] = folder / f"{name}.yml"
        path.write_text(text, encoding="utf-8")
    return files


def test_races_become_rankings(tmp_path):
    later = RESULTS.replace("red", "green")
    found = converters.races(
        describe("formula_1"), written(tmp_path, r2025_01_there=later, r2024_09_here=RESULTS)
    )
    items, rankings = found["items.csv"], found["rankings.csv"]
    assert items.to_dict("records")[:3] == [
        {"item_id": "ann-one red 2024", "driver": "ann-one", "car": "red 2024"},
        {"item_id": "ben-two blue 2024", "driver": "ben-two", "car": "blue 2024"},
        {"item_id": "cem-three red 2024", "driver": "cem-three", "car": "red 2024"},
    ]
    assert list(items["car"])[3:] == ["green 2025", "blue 2025", "green 2025"]
    assert list(rankings["ranking"]) == ["2024-09_here"] * 3 + ["2025-01_there"] * 3
    assert list(rankings["race"]) == [1, 1, 1, 2, 2, 2]
    assert rankings["rank"].isna().tolist() == [False, False, True] * 2
    assert rankings["rank"].dropna().tolist() == [1, 2, 1, 2]
    # The pit lane is behind all three who started; who did not start is left out.
    assert list(rankings["grid"]) == [2, 3, 1] * 2
    assert list(rankings["item_id"])[:3] == list(items["item_id"])[:3]


def test_each_race_has_a_file_and_a_sum():
    remote = datasets.describe("formula_1").remote
    assert len(remote) == len({file.sha256 for file in remote}) == 48
    assert [file.name for file in remote] == sorted(file.name for file in remote)
    assert all(len(file.sha256) == 64 for file in remote)


def test_the_set_is_read_with_and_without_those_who_did_not_finish(tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    (tmp_path / "two_races").mkdir()
    later = RESULTS.replace("red", "green")
    tables = converters.races(
        describe("formula_1"), written(tmp_path, r2025_01_there=later, r2024_09_here=RESULTS)
    )
    for name, table in tables.items():
        table.to_csv(tmp_path / "two_races" / name, index=False)
    found = datasets.load("two_races")
    assert repr(found) == "RankingSet('two_races', items=6, rankings=2)"
    assert found.frames["rankings"].equals(tables["rankings.csv"])
    finished, started = (
        found.to_duels(unranked_last=last).standardised() for last in (False, True)
    )
    assert [len(finished.events.sides), len(started.events.sides)] == [4, 6]
