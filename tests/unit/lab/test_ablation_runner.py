"""All runs of a study: the folder, the table, going on, the command, and real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

pytest.importorskip("pydantic")
pytest.importorskip("typer")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app
from sparse_prefgp.lab.ablation import (
    RunSettings,
    Study,
    StudyProgress,
    expand,
    read_study,
    run_study,
    runner,
    study_from,
)
from sparse_prefgp.lab.ablation.execution import failed_record
from sparse_prefgp.lab.ablation.records import results_frame
from sparse_prefgp.lab.ablation.reference import Reference, ReferenceKey
from sparse_prefgp.lab.layout import COLUMNS
from sparse_prefgp.support import workers
from tests.conftest import ROOT
from tests.tolerances import ROUNDING
from tests.unit.lab.test_ablation_configuration import GOOD, changed

SMOKE = ROOT / "configs" / "smoke" / "inducing_points.yaml"
Snapshot = dict[Path, bytes]


def stub_record(study: Study, run: RunSettings) -> dict[str, Any]:
    nlp = {"name": "nlp_nats", "value": 0.5 + 0.01 * run.seed, "unit": "nats"}
    nlp |= {"direction": "lower", "group": "held out"}
    far = {**nlp, "name": "kl_from_exact", "value": float("inf"), "group": "against exact"}
    return {**failed_record(study, run, ""), "status": "done", "metrics": [nlp, far], "duels": 45}


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of runs that were done, in place of fits; `subset` fails."""
    names: list[str] = []

    def execute(study: Study, run: RunSettings, reference: Any) -> dict[str, Any]:
        names.append(run.name)
        assert (reference is None) == run.is_baseline
        if run.approximation.startswith("subset"):
            return failed_record(study, run, "There is no subset today.")
        return stub_record(study, run)

    monkeypatch.setattr(runner, "execute", execute)
    monkeypatch.setattr(runner, "make_reference", lambda study, key: Reference(key, "not now"))
    return names


def files(folder: Path) -> Snapshot:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_study_leaves_records_and_tables(done: list[str], tmp_path: Path) -> None:
    study, told = study_from(GOOD), []
    result = run_study(study, tmp_path / "out", callback=told.append)
    runs = expand(study)
    assert done == [run.name for run in runs]
    assert result.runs == result.new == len(runs) and len(result.failed) == 4
    assert {reason for _, reason in result.failed} == {"There is no subset today."}
    assert [one.done for one in told] == list(range(len(runs) + 1))
    assert isinstance(told[0], StudyProgress) and told[0].left is None and told[-1].left == 0.0

    words = json.loads((tmp_path / "out" / "study.json").read_text())
    assert words["layout"] == 1 and words["fingerprint"] == study.fingerprint()
    assert words["configuration"]["noise_variance"] == 0.5 and words["title"] == study.title
    records = {
        path.stem: json.loads(path.read_text()) for path in (tmp_path / "out" / "runs").iterdir()
    }
    assert set(records) == set(done)
    assert records["made-se-exact-ep-joint-s1"]["metrics"][1]["value"] == "inf"

    table = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert tuple(table.columns) == COLUMNS
    assert len(table) == 2 * (len(runs) - 4) + 4
    assert str(table["inducing"].dtype) == "Int64" and table["value"].dtype == np.float64
    failed = table[table["status"] == "failed"]
    assert set(failed["metric"]) == {""} and failed["value"].isna().all() and len(failed) == 4
    row = table[(table["run"] == "made-se-vfe-ep-m8-learned-joint-s1")].iloc[0]
    assert (row["inducing"], row["inducing_inputs"], row["value"]) == (8, "learned", 0.51)
    exact = table[table["approximation"] == "exact"].iloc[0]
    assert pd.isna(exact["inducing"]) and exact["inducing_inputs"] == "none"
    assert np.isinf(table[table["metric"] == "kl_from_exact"]["value"]).all()
    text = pd.read_csv(tmp_path / "out" / "results.csv", keep_default_na=False)
    assert text["value"].replace("", np.nan).astype(float).equals(table["value"].astype(float))


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("disk full")])
def test_a_study_that_was_stopped_goes_on(
    error: Any, done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, out = study_from(GOOD), tmp_path / "out"
    whole = run_study(study, tmp_path / "whole")
    stub, done[:] = runner.execute, []

    def stops(*arguments: Any) -> Any:
        if len(done) == 7:
            raise error
        return stub(*arguments)

    monkeypatch.setattr(runner, "execute", stops)
    with pytest.raises(error if isinstance(error, type) else OSError) as caught:
        run_study(study, out)
    if error is KeyboardInterrupt:
        assert f"after 7 of {whole.runs} runs" in str(caught.value) and str(out) in str(
            caught.value
        )
    assert len(list((out / "runs").iterdir())) == 7
    assert pd.read_parquet(out / "results.parquet")["run"].nunique() == 7

    monkeypatch.setattr(runner, "execute", stub)
    before, first = files(out / "runs"), list(done)
    result = run_study(study, out)
    assert len(done) == len(set(done)) == whole.runs and done[:7] == first
    assert result.new == whole.runs - 7
    assert before.items() <= files(out / "runs").items()
    same = (pd.read_parquet(place / "results.parquet") for place in (tmp_path / "whole", out))
    pd.testing.assert_frame_equal(*same)

    done.clear()
    assert run_study(study, out).new == 0 and done == []
    again = run_study(study, out, retry_failed=True)
    assert again.new == 4 == len(done) and all("subset30" in name for name in done)


def test_folders_that_belong_to_something_else(done: list[str], tmp_path: Path) -> None:
    study, out = study_from(GOOD), tmp_path / "out"
    run_study(study, out)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "beach.txt").write_text("sand")
    (tmp_path / "file").write_text("text")
    before = files(tmp_path)
    for values, place, words in (
        (changed(iterations=9), out, "belongs to another study, 'small' with another 'iterations'"),
        (GOOD, tmp_path / "photos", "did not write"),
        (GOOD, tmp_path / "file", "is a file"),
        (GOOD, tmp_path / "file" / "in", "is a file"),
    ):
        done.clear()
        with pytest.raises(ValueError, match=words):
            run_study(study_from(values), place)
        assert done == [] and files(tmp_path) == before
    # What a report adds stays where it is.
    (out / "report").mkdir()
    (out / "report" / "report.html").write_text("<p>")
    run_study(study_from(changed(title="Another")), out)
    assert (out / "report" / "report.html").read_text() == "<p>"

    record = out / "runs" / "made-coin-s0.json"
    for path, text, words in (
        (record, "{", "record .* is damaged; remove that file"),
        (out / "study.json", "{}", "is damaged or of another program"),
        (
            out / "study.json",
            json.dumps({**json.loads((out / "study.json").read_text()), "layout": 7}),
            "layout 7",
        ),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            run_study(study, out)


def test_references_are_kept_and_damaged_ones_told(
    done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparse_prefgp.lab.ablation.fitting import KernelValues, Predictions
    from sparse_prefgp.lab.ablation.reference import LearningRecord

    made: list[ReferenceKey] = []

    def make(study: Study, key: ReferenceKey) -> Reference:
        made.append(key)
        predictions = Predictions(np.zeros(3), np.zeros(2), np.eye(2))
        return Reference(
            key,
            "",
            KernelValues({".variance": np.array(2.0)}),
            predictions,
            learning=LearningRecord(1.0),
        )

    monkeypatch.setattr(runner, "make_reference", make)
    study, out = study_from(GOOD), tmp_path / "out"
    run_study(study, out)
    assert [key.name for key in made] == ["se-s0", "se-s1"]
    run_study(study, out, retry_failed=True)
    assert len(made) == 2
    (out / "references" / "se-s0.npz").write_bytes(b"PK nothing")
    with pytest.raises(
        ValueError, match=r"exact model in .*se-s0.npz' is damaged; remove that file"
    ):
        run_study(study, out, retry_failed=True)


def test_a_frame_of_no_records_has_its_columns() -> None:
    assert tuple(results_frame([]).columns) == COLUMNS


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in ("ablate", *arguments)])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    return path


def test_the_command(config: Path, done: list[str], tmp_path: Path) -> None:
    result = call(config, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "A small study: 44 runs" in text and "failed 4" in text
    assert "and 3 more: There is no subset today." in text and "--retry-failed" in text
    told = json.loads(call(config, "--out", tmp_path / "out", "--json").stdout)
    assert told["new"] == 0 and told["runs"] == 44 and len(told["failed"]) == 4
    assert call(config, "--out", tmp_path / "out", "--quiet").output == ""
    assert "--dask" in call("--help").output


def test_lines_where_there_is_no_terminal(
    config: Path, done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparse_prefgp.cli import ablate

    few = call(config, "--out", tmp_path / "few").output.splitlines()
    lines = [line for line in few if " of 44 runs in " in line]
    assert len(lines) == 2 and lines[0].startswith("1 of 44 runs in 0:0")
    assert "left" in lines[0] and lines[1].startswith("44 of 44") and "4 failed" in lines[1]
    monkeypatch.setattr(ablate, "SECONDS_BETWEEN_LINES", 0.0)
    result = call(config, "--out", tmp_path / "many")
    assert len([line for line in result.output.splitlines() if " of 44 runs in " in line]) == 44


@pytest.mark.parametrize(("fault", "code"), [(False, 2), (True, 1)])
def test_a_study_without_a_result_ends_with_an_error(
    fault: bool, code: int, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "make_reference", lambda study, key: Reference(key, "not now"))
    monkeypatch.setattr(
        runner, "execute", lambda study, run, _: failed_record(study, run, "No luck.", fault)
    )
    for more in ([], ["--quiet"], ["--json"]):  # the later ones have nothing to do
        result = call(config, "--out", tmp_path / "out", *more)
        assert result.exit_code == code, result.output
        assert result.stderr.startswith("Error: All 44 runs failed; made-")
        assert result.stderr.strip().endswith("No luck.")


@pytest.mark.slow
def test_a_study_that_was_killed_has_a_table(
    done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, stub, seen = tmp_path / "out", runner.execute, []

    def looks(*arguments: Any) -> Any:
        path = out / "results.parquet"
        seen.append(pd.read_parquet(path)["run"].nunique() if path.exists() else 0)
        return stub(*arguments)

    monkeypatch.setattr(runner, "execute", looks)
    study = study_from(GOOD)
    run_study(study, out)
    assert seen[0] == 0 and set(seen[1:]) == {1}  # ten seconds had not passed
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_TABLES", 0.0)
    monkeypatch.setattr(runner, "TABLES_SHARE", 0.0)
    out, seen[:] = tmp_path / "again", []
    run_study(study, out)
    assert seen == list(range(44))


def test_what_no_seed_can_do_is_refused_before_the_first_run(
    done: list[str], tmp_path: Path
) -> None:
    items = pd.DataFrame({"item_id": range(30), "a": np.arange(30) / 7, "b": np.arange(30) % 4})
    items.to_csv(tmp_path / "items.csv", index=False)
    pairs = pd.DataFrame(
        {"winner": range(29), "loser": range(1, 30), "who": ["x", "y", "z"] * 9 + ["x", "y"]}
    )
    pairs.to_csv(tmp_path / "duels.csv", index=False)
    tables = {"files": {name: str(tmp_path / f"{name}.csv") for name in ("items", "duels")}}
    at = {"se": {"lengthscales": [1.0, 1.0, 1.0]}}
    for values, words in (
        ({"split__by": "group:persn"}, "column is 'persn'"),
        ({"split__by": "time:date"}, "column is 'date'"),
        ({"split": {"by": "group:who", "leave_one_out": True}, "seeds": [0, 3]}, "give seeds"),
        ({"at": at}, "has 3 values for 'at.se.lengthscales' and the items have 2 features"),
        ({"approximations": ["pitc:persn"]}, "not a column of the duels"),
        ({"approximations": ["exact", "vfe", "subset:23"]}, "more than the 22 training duels"),
    ):
        study = study_from(changed(data=tables, **values))
        with pytest.raises(ValueError, match=words):
            run_study(study, tmp_path / "out")
        assert done == [] and not (tmp_path / "out").exists()
    # What some of the runs can do is begun.
    study = study_from(changed(data=tables, inducing=[4, 64], approximations=["vfe", "pitc:who"]))
    assert run_study(study, tmp_path / "out").new == len(done) > 0


def test_interruptions_of_the_command(
    config: Path, done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "execute", stops)
    result = call(config, "--out", tmp_path / "out")
    assert result.exit_code == 130 and "the same call resumes from there" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "values", "words"),
    [
        (["--workers", "2"], {}, "without --dask"),
        (["--dask", "--workers", "0"], {}, "--workers is 0; give a whole number"),
        ([], {"approximations": ["subset:5000"]}, "more than the 45 training duels"),
        ([], {"inducing": [64]}, "64 inducing inputs are more than the"),
        (["--dask", "tcp://127.0.0.1:1"], {}, "There is no Dask scheduler at 'tcp://127.0.0.1:1'"),
        (["--dask", "spaces://x:1"], {}, "is not an address of a Dask scheduler"),
        ([], {"data": {"set": "bostn"}}, "'boston'"),
        ([], {"sedes": [1]}, "unknown key 'sedes'; did you mean 'seeds'?"),
    ],
)
@pytest.mark.covering(every=4)
def test_mistakes_of_the_command(
    arguments: list[str],
    values: dict[str, Any],
    words: str,
    config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "SECONDS_TO_ANSWER", 1)
    config.write_text(yaml.safe_dump(changed(**values)))
    result = call(config, "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2, result.output
    assert words in result.stderr and len(result.stderr.strip().splitlines()) == 1
    # Nothing was claimed: the same folder serves another study.
    assert not (tmp_path / "out").exists()


# Real processes, killed half way.


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The table of the smoke study, never interrupted."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert run_study(read_study(SMOKE), out).failed == ()
    return comparable(out)


def comparable(out: Path) -> pd.DataFrame:
    """The results without what a clock or a scale says."""
    table = pd.read_parquet(out / "results.parquet")
    measured = table["unit"].isin(["s", "bytes"])
    return table[~measured].reset_index(drop=True)


def started(out: Path, *more: str) -> subprocess.Popen[bytes]:
    code = "from sparse_prefgp.cli import main; main()"
    words = [sys.executable, "-c", code, "ablate", str(SMOKE), "--out", str(out), "--quiet", *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(words, cwd=ROOT, env=environment)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 240.0
    while not condition():
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < end, "nothing happened in four minutes"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--dask", "--workers", "2")], ids=["here", "dask"])
def test_killed_half_way_and_resumed(
    more: tuple[str, ...], whole: pd.DataFrame, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    runs = out / "runs"
    process = started(out, *more)
    try:
        wait_for(lambda: runs.is_dir() and len(list(runs.glob("*.json"))) >= 4, process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = files(runs)
    kept = {path: data for path, data in before.items() if path.suffix == ".json"}
    assert 4 <= len(kept) < whole["run"].nunique()
    again = started(out, *more)
    assert again.wait(timeout=300) == 0
    assert kept.items() <= files(runs).items()  # no finished run was repeated
    pd.testing.assert_frame_equal(comparable(out), whole, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.slow
def test_a_worker_that_dies_takes_no_run_with_it(whole: pd.DataFrame, tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    out = tmp_path / "out"
    process = started(out, "--dask", "--workers", "2")
    wait_for(lambda: len(list(out.glob("runs/*.json"))) >= 2, process)
    workers = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if child.memory_info().rss > 2e8
    ]
    assert len(workers) == 2
    workers[0].kill()
    assert process.wait(timeout=300) == 0
    pd.testing.assert_frame_equal(comparable(out), whole, rtol=ROUNDING, atol=ROUNDING)
