"""Studies of public sets: how targets become duels, gold duels, and sets that are none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pydantic")

from sparse_prefgp.datasets.fetching import DATA_VARIABLE
from sparse_prefgp.lab.ablation import Study, expand, read_study, run_study, runner, study_from
from sparse_prefgp.lab.ablation.duels import parted
from sparse_prefgp.lab.ablation.execution import new_record
from sparse_prefgp.lab.ablation.fitting import held_out
from sparse_prefgp.lab.ablation.runs import RunSettings
from tests.conftest import ROOT
from tests.unit.lab.test_ablation_configuration import changed

pytestmark = pytest.mark.data


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local folder with a regression set and a set of duels with gold ones."""
    rng = np.random.default_rng(0)
    hills = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    (tmp_path / "hills").mkdir()
    hills.assign(target=hills["a"]).to_csv(tmp_path / "hills" / "hills.csv", index=False)
    (tmp_path / "talks").mkdir()
    items = pd.DataFrame(
        {"item_id": range(12), "a": rng.normal(size=12), "debate": np.arange(12) // 4}
    )
    items.to_csv(tmp_path / "talks" / "items.csv", index=False)
    pairs = [
        (i, j, who)
        for i in range(12)
        for j in range(12)
        if i // 4 == j // 4 and i < j
        for who in "xy"
    ]
    votes = pd.DataFrame(pairs, columns=["winner", "loser", "annotator"])
    votes.to_csv(tmp_path / "talks" / "duels.csv", index=False)
    gold = votes[votes["annotator"] == "x"][["winner", "loser"]]
    gold.to_csv(tmp_path / "talks" / "gold_duels.csv", index=False)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    return tmp_path


def first_part(values: Any) -> Any:
    study = study_from(values)
    return parted(study.data, study.split, None, 0)


def of_targets(**more: Any) -> Any:
    regression = {"duels": 50, "test_duels": 20, "noise": 0.1, **more}
    return study_from(
        changed(
            data={"set": "hills", "regression": regression},
            split={"by": "items", "test_fraction": 0.25},
        )
    )


def test_items_are_parted_before_pairs_are_drawn(folder: Path) -> None:
    study = of_targets()
    found = parted(study.data, study.split, None, 0)
    table, split = found.table, found.split
    assert len(split.train_rows) == 50 and len(split.test_rows) == 20
    train, test = (
        set(table.given.pairs[rows, 0]) | set(table.given.pairs[rows, 1])
        for rows in (split.train_rows, split.test_rows)
    )
    assert not train & test and len(test) <= 10
    target = pd.read_csv(folder / "hills" / "hills.csv")["target"].to_numpy()
    assert found.utilities is not None
    assert np.corrcoef(found.utilities, target)[0, 1] == pytest.approx(1.0)
    assert "within 30 training items" in split.description
    other = parted(study.data, study.split, None, 1)
    assert not np.array_equal(other.table.given.pairs[:, 0], table.given.pairs[:, 0])

    few = of_targets(items=8)
    fewer = parted(few.data, few.split, 20, 0).split
    assert "within 8 training items" in fewer.description
    assert len(fewer.train_rows) == 20 and fewer.unused == 30


def test_gold_duels_of_debates_that_were_held_out(folder: Path) -> None:
    study = study_from(
        changed(
            data={"set": "talks", "test": "gold"},
            split={"by": "group:debate", "leave_one_out": True},
        )
    )
    found = parted(study.data, study.split, None, 2)
    table, split = found.table, found.split
    # Two annotators voted on each of the six pairs of the other two debates.
    assert len(split.train_rows) == 24 and len(split.test_rows) == 6
    assert set(table.given.pairs[split.test_rows, 0] // 4) == {2}
    assert set(table.given.pairs[split.train_rows, 0] // 4) == {0, 1}
    assert "tested on 6 gold duels" in split.description and found.group == "2"
    votes = study_from(
        changed(data={"set": "talks"}, split={"by": "group:annotator", "test_fraction": 0.5})
    )
    plain = parted(votes.data, votes.split, None, 0)
    assert plain.table.num_rows == 36 and len(plain.split.test_rows) == 18


def test_sets_that_do_not_fit(folder: Path) -> None:
    plain = changed(data={"set": "hills"})
    made = {"duels": 5, "test_duels": 5, "noise": 0.0}
    of_items = {"by": "items", "test_fraction": 0.25}
    for values, words in (
        (plain, "has targets and no duels; say under regression"),
        (
            changed(data={"set": "talks", "regression": made}, split=of_items),
            "leave out regression",
        ),
        (changed(data={"set": "bostn"}), "boston"),
    ):
        with pytest.raises(ValueError, match=words):
            first_part(values)
    study = study_from(
        changed(data={"set": "hills", "regression": made}, split={"by": "items", "standard": True})
    )
    with pytest.raises(ValueError, match="no standard parts; give a test_fraction"):
        parted(study.data, study.split, None, 0)
    (folder / "talks" / "gold_duels.csv").unlink()
    gold = study_from(changed(data={"set": "talks", "test": "gold"}, split=of_items))
    with pytest.raises(ValueError, match="no gold duels"):
        parted(gold.data, gold.split, None, 0)


@pytest.mark.parametrize("kind", ["set", "files"])
def test_changed_data_are_another_study(
    kind: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []

    def execute(study: Study, run: RunSettings, reference: Any) -> dict[str, Any]:
        duels = parted(study.data, study.split, None, run.seed)
        rows.append(duels.table.num_rows)
        return new_record(study, run) | {"status": "done"}

    monkeypatch.setattr(runner, "execute", execute)
    paths = {name: str(folder / "talks" / f"{name}.csv") for name in ("items", "duels")}
    study = study_from(
        changed(
            data={"set": "talks"} if kind == "set" else {"files": paths},
            approximations=["exact"],
            hyperparameters=["joint"],
            exact_reference=False,
            baselines=False,
            seeds=[0],
        )
    )
    run_study(study, tmp_path / "out")
    (folder / "talks" / "notes.txt").write_text("no data")
    assert run_study(study, tmp_path / "out").new == 0
    duels = folder / "talks" / "duels.csv"
    whole = duels.read_text()
    fewer = "".join(whole.splitlines(keepends=True)[:-4])
    duels.write_text(fewer)
    with pytest.raises(ValueError, match=r"The file '.*duels\.csv' has other contents"):
        run_study(study, tmp_path / "out")
    run_study(study, tmp_path / "other")
    assert rows == [36, 32]  # what was read before is not remembered

    def meddles(*arguments: Any) -> Any:
        duels.write_text(whole)
        return execute(*arguments)

    def elsewhere(own: Any, function: Any, *arguments: Any) -> Any:
        duels.write_text(whole)
        return function(*arguments)

    words = "not those that the study began with, by duels"
    two = study.model_copy(update={"seeds": (0, 1)})
    monkeypatch.setattr(runner, "execute", meddles)
    with pytest.raises(ValueError, match=words):
        run_study(two, tmp_path / "here")
    assert len(runner.read_records(tmp_path / "here")) == 1
    duels.write_text(fewer)
    monkeypatch.setattr(runner, "_in_worker", elsewhere)
    monkeypatch.setattr(runner, "processes", ThreadPoolExecutor)
    failed = run_study(two, tmp_path / "workers", workers=1).failed
    assert len(failed) == 2 and not any(record["fault"] for record in failed)
    assert all(words in record["reason"] for record in failed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "configs").glob("[!s]*/*.yaml")),
    ids=lambda p: f"{p.parent.name}-{p.stem}",
)
def test_configurations_fit_their_data(
    path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns are there, both parts have duels, and no m is above the items of a training part."""
    monkeypatch.setenv(DATA_VARIABLE, str(data_dir))
    study = read_study(path)
    runs = [run for run in expand(study) if not run.is_baseline]
    for seed in (min(study.seeds), max(study.seeds)):
        mine = [run for run in runs if run.seed == seed]
        largest = max(mine, key=lambda run: (run.inducing or 0, -(run.max_train or 0)))
        holdout, parts = held_out(study, largest)
        assert holdout.num_train > 50 and holdout.num_test > 50
        assert (parts.utilities is None) == (study.data.regression is None)
        # A comparison is promised where the exact model is small enough.
        items, pairs = len(holdout.train.distinct_rows()[0]), holdout.train.num_pairs
        assert not study.exact_reference or min(items, pairs) <= study.exact_limit
