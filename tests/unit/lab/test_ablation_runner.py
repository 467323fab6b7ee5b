"""All runs of a study: the folder, going on, the command, and real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

pytest.importorskip("pydantic")
pytest.importorskip("typer")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app
from sparse_prefgp.lab.ablation import Study, expand, read_study, run_study, runner, study_from
from sparse_prefgp.lab.ablation.execution import new_record
from sparse_prefgp.lab.ablation.fitting import Reference
from sparse_prefgp.lab.ablation.runs import RunSettings
from sparse_prefgp.support import workers
from sparse_prefgp.support.own_modules import OwnModules
from tests.conftest import ROOT
from tests.tolerances import ROUNDING
from tests.unit.lab.test_ablation_configuration import GOOD, changed

SMOKE = ROOT / "configs" / "smoke" / "inducing_points.yaml"
CLOCKED = ["fit_seconds", "gradient_seconds", "started", "optimiser"]


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of runs that were done, in place of fits; `subset` fails."""
    names: list[str] = []

    def execute(study: Study, run: RunSettings, reference: Any) -> dict[str, Any]:
        names.append(run.name)
        assert (reference is None) == run.is_baseline
        if run.approximation.startswith("subset"):
            return new_record(study, run) | {"reason": "There is no subset today."}
        metrics = {"nlp_nats": 0.5 + 0.01 * run.seed, "kl_from_exact": float("inf")}
        return new_record(study, run) | {"status": "done", "metrics": metrics, "duels": 45}

    monkeypatch.setattr(runner, "execute", execute)
    monkeypatch.setattr(runner, "make_reference", lambda study, key: Reference(key, "not now"))
    return names


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_study_leaves_records_and_a_table(done: list[str], tmp_path: Path) -> None:
    study, told = study_from(GOOD), []
    result = run_study(study, tmp_path / "out", callback=told.append)
    runs = expand(study)
    # Baselines need no exact model.
    assert done == [run.name for run in sorted(runs, key=lambda run: not run.is_baseline)]
    assert result.runs == result.new == len(runs) and len(result.failed) == 4
    assert {record["reason"] for record in result.failed} == {"There is no subset today."}
    assert [one.done for one in told if one.what == "runs"] == list(range(len(runs) + 1))
    between = [one[:3] for one in told[5:8]]
    assert between == [("exact models", 0, 2), ("exact models", 1, 2), ("runs", 5, 44)]
    assert told[0].left is None and told[-1].left == 0.0 and told[-1].failed == 4
    assert set(runner.read_records(tmp_path / "out")) == set(done)
    table = pd.read_parquet(tmp_path / "out" / "runs.parquet").set_index("run")
    row = table.loc["made-se-vfe-ep-m8-learned-joint-s1"]
    assert (row["inducing"], row["inducing_inputs"], row["nlp_nats"]) == (8, "learned", 0.51)
    assert table["kl_from_exact"].isna().all() and (table["status"] == "failed").sum() == 4
    assert run_study(study, tmp_path / "out").new == 0
    assert run_study(study, tmp_path / "out", retry_failed=True).new == 4


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("disk full")])
@pytest.mark.covering(every=2)
def test_a_study_that_was_stopped_goes_on(
    error: Any, done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, out, execute = study_from(GOOD), tmp_path / "out", runner.execute

    def stops(*arguments: Any) -> Any:
        if len(done) == 7:
            raise error
        return execute(*arguments)

    monkeypatch.setattr(runner, "execute", stops)
    with pytest.raises(error if isinstance(error, type) else OSError) as caught:
        run_study(study, out)
    if error is KeyboardInterrupt:
        assert f"after 7 of {len(expand(study))} runs" in str(caught.value)
        assert str(out) in str(caught.value)
    before = files(out / "runs")
    assert len(before) == 7 and len(pd.read_parquet(out / "runs.parquet")) == 7
    monkeypatch.setattr(runner, "execute", execute)
    result = run_study(study, out)
    assert len(done) == len(set(done)) == result.runs == result.new + 7
    assert before.items() <= files(out / "runs").items()
    # A call that was killed after its last run leaves the table of the one before.
    whole, table = pd.read_parquet(out / "runs.parquet"), out / "runs.parquet"
    whole[:7].to_parquet(table)
    assert run_study(study, out).new == 0
    pd.testing.assert_frame_equal(pd.read_parquet(table), whole)


def test_folders_that_belong_to_something_else(done: list[str], tmp_path: Path) -> None:
    study, out = study_from(GOOD), tmp_path / "out"
    run_study(study, out)
    before = files(out)
    turned = {key: v[::-1] if isinstance(v, list) else v for key, v in GOOD.items()}
    assert run_study(study_from({**turned, "title": "Another title"}), out).new == 0
    for values, words in (
        (changed(iterations=4), "another study, 'small' with another 'iterations'"),
        (changed(name="other"), "with another 'name'"),
        (changed(data__made__noise=0.6), "with another 'data'"),
    ):
        with pytest.raises(ValueError, match=words):
            run_study(study_from(values), out)
    assert files(out) == before
    record = out / "runs" / f"{done[0]}.json"
    record.write_text("{")
    with pytest.raises(ValueError, match="is damaged or of another version; remove that file"):
        run_study(study, out)
    (out / "study.json").write_text("{}")
    with pytest.raises(ValueError, match="of another program or version"):
        run_study(study, out)
    (tmp_path / "photo").mkdir()
    (tmp_path / "photo" / "photo.txt").write_text("")
    with pytest.raises(ValueError, match=r"holds .photo.txt., which is no part of a study"):
        run_study(study, tmp_path / "photo")


SOURCES = {
    "items.csv": "item_id,a\n1,2\n2,3\n3,5\n",
    "duels.csv": "winner,loser\n1,2\n2,3\n1,3\n3,2\n",
    "own_module.py": "",
    "own_package/__init__.py": "",
    "own_package/part.py": "",
}


@pytest.mark.parametrize("name", SOURCES)
def test_changed_files_are_refused(
    name: str, done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_package").mkdir()
    for path, text in SOURCES.items():
        (tmp_path / path).write_text(text)
    names = {part: str(tmp_path / f"{part}.csv") for part in ("items", "duels")}
    study, out = study_from(changed(data={"files": names})), tmp_path / "out"
    own = OwnModules(("own_module", "own_package", "own_package.part"), (str(tmp_path),))
    try:
        run_study(study, out, own=own)
        assert run_study(study, out, own=own).new == 0
        (tmp_path / name).write_text(SOURCES[name] + "\n")
        with pytest.raises(ValueError, match=rf"The file '.*{name}' has other contents"):
            run_study(study, out, own=own)
    finally:
        for module in own.names:
            del sys.modules[module]


def test_values_for_other_features_are_refused_before_the_first_run(tmp_path: Path) -> None:
    for name in ("items.csv", "duels.csv"):
        (tmp_path / name).write_text(SOURCES[name])
    data = {"files": {"items": "items.csv", "duels": "duels.csv"}}
    study = study_from(changed(data=data, at={"se": {"lengthscales": [1, 2]}}), folder=tmp_path)
    with pytest.raises(ValueError, match=r"'at\.se\.lengthscales' has 2 values for 1 feature; "):
        run_study(study, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# The command.


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    return path


def call(*words: Any) -> Any:
    return CliRunner().invoke(app, ["ablate", *map(str, words)])


def test_the_command(config: Path, done: list[str], tmp_path: Path) -> None:
    result = call(config, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "A small study: 44 runs" in result.stdout and "44 of 44 runs" in result.stdout
    assert "1 of 2 exact models in 0" in result.stdout
    assert "and 3 more: There is no subset today." in result.stdout
    told = json.loads(call(config, "--out", tmp_path / "out", "--json").stdout)
    assert (told["runs"], told["new"]) == (44, 0)
    assert [len(runs) for runs in told["failed"].values()] == [4]


@pytest.mark.parametrize("loudness", [(), ("--quiet",), ("--json",)])
@pytest.mark.parametrize("baselines", [True, False])
def test_failed_runs_are_told_however_quiet(
    baselines: bool, loudness: tuple[str, ...], config: Path, done: list[str], tmp_path: Path
) -> None:
    values = changed(approximations=["subset:30"], baselines=baselines)
    config.write_text(yaml.safe_dump(values))
    result, why = call(config, "--out", tmp_path / "out", *loudness), "There is no subset today."
    assert result.exit_code == (0 if baselines else 2), result.output
    if loudness or not baselines:
        (line,) = result.stderr.splitlines()
        assert line.startswith("Note: 4 runs failed" if baselines else "Error: All 4 runs failed")
        assert line.endswith(f"-s0, the first: {why}")
    else:
        assert why in result.stdout
    if baselines:
        words = ["report", str(tmp_path / "out"), "--metric", "nlp_nats", *loudness]
        result = CliRunner().invoke(app, words)
        told = result.stderr if loudness else result.stdout
        assert result.exit_code == 0 and why in " ".join(told.split()), result.output
        assert "Note: 4 runs failed" in told


class KilledWorker(Exception):
    """By the name of Dask's."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (BrokenProcessPool(), "was killed; what is done is kept, and the same call resumes"),
        (KilledWorker(), "Workers died while they were at it; they may need more memory."),
    ],
)
def test_a_killed_worker_is_not_said_to_be_short_of_memory(
    error: Exception, words: str, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Executor):
        def submit(self, *call: Any) -> Future[Any]:  # type: ignore[override]
            future: Future[Any] = Future()
            future.set_exception(error)
            return future

    monkeypatch.setattr(runner, "processes", lambda workers: nullcontext(Killed()))
    result = call(config, "--out", tmp_path / "out", "--workers", "2")
    assert result.exit_code == 2 and words in result.stderr
    assert "did not suffice" not in result.output


@pytest.mark.parametrize(
    ("arguments", "values", "words"),
    [
        (["--workers", "0"], {}, "--workers is 0; give a whole number"),
        (["--workers", "2", "--dask", "tcp://x:1"], {}, "were both given"),
        (["--dask", "tcp://127.0.0.1:1"], {}, "There is no Dask scheduler at 'tcp://127.0.0.1:1'"),
        (["--dask", "spaces://x:1"], {}, "is not an address of a Dask scheduler"),
        (["--import", "nowhere"], {}, "The module 'nowhere' is neither installed nor in"),
        *(
            (["--import", name], {}, f"'{name}' is neither installed nor in 'HERE'; correct the")
            for name in ("../fine.py", "./fine", "fine.py", "/fine.py", "sub/fine.py", "sub.fine")
        ),
        (["--import", "broken"], {}, "'broken' cannot be imported (ZeroDivisionError"),
        ([], {"split__by": "items", "data__made__items": 2}, "has no duels"),
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
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "fine.py").write_text("")
    monkeypatch.chdir(tmp_path)
    config.write_text(yaml.safe_dump(changed(**values)))
    result = call(config, "--out", tmp_path / "out", *arguments)
    sys.modules.pop("fine", None)
    assert result.exit_code == 2, result.output
    assert (
        words.replace("HERE", str(tmp_path)) in result.stderr
        and len(result.stderr.strip().splitlines()) == 1
    )
    # Nothing was claimed: the same folder serves another study.
    assert not (tmp_path / "out").exists()


# Real processes, and what happens when some are killed.


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The table of the smoke study, never interrupted."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert run_study(read_study(SMOKE), out).failed == ()
    return comparable(out)


def comparable(out: Path) -> pd.DataFrame:
    """The results without what a clock or a scale says."""
    table = pd.read_parquet(out / "runs.parquet").sort_values("run", ignore_index=True)
    return table.drop(columns=CLOCKED)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    processes = []

    def start(*more: str) -> subprocess.Popen[bytes]:
        code = "from sparse_prefgp.cli import main; main()"
        words = ["ablate", str(SMOKE), "--out", str(tmp_path / "out"), "--quiet", *more]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", code, *words]
        processes.append(subprocess.Popen(command, cwd=tmp_path, env=environment))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def wait_for_runs(out: Path, number: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 400.0
    while len(list(out.glob("runs/*.json"))) < number:
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < end, "nothing happened for too long"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--workers", "2")], ids=["here", "two"])
def test_killed_half_way_and_resumed(
    more: tuple[str, ...], whole: pd.DataFrame, tmp_path: Path, started: Any
) -> None:
    psutil = pytest.importorskip("psutil")
    out = tmp_path / "out"
    process = started(*more)
    wait_for_runs(out, 4, process)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive  # whoever kills the one kills those that it started
    before = files(out / "runs")
    kept = {path: data for path, data in before.items() if path.suffix == ".json"}
    assert 4 <= len(kept) < len(whole)
    assert started(*more).wait(timeout=600) == 0
    assert kept.items() <= files(out / "runs").items()  # no finished run was repeated
    pd.testing.assert_frame_equal(comparable(out), whole, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.slow
def test_a_dask_worker_that_dies_takes_no_run_with_it(
    whole: pd.DataFrame, tmp_path: Path, started: Any
) -> None:
    psutil = pytest.importorskip("psutil")
    distributed = pytest.importorskip("distributed")
    environment = dict(os.environ)
    with workers.local_cluster(distributed, 2, 1) as cluster:
        process = started("--dask", cluster.scheduler_address)
        wait_for_runs(tmp_path / "out", 2, process)
        children = psutil.Process().children(recursive=True)
        busy = [child for child in children if child.memory_info().rss > 2e8]
        next(child for child in busy if child.pid != process.pid).kill()
        assert process.wait(timeout=600) == 0
    os.environ.clear()
    os.environ.update(environment)  # Dask sets some
    table = comparable(tmp_path / "out")
    pd.testing.assert_frame_equal(table, whole, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.slow
def test_own_modules_are_imported_where_runs_are_done(tmp_path: Path, started: Any) -> None:
    """The name that it registers is known to the study, here and in the worker."""
    (tmp_path / "own.py").write_text(
        "from sparse_prefgp.workflow import model_names as names\n"
        'names.PLAIN_APPROXIMATIONS["my-vfe"] = ("VFE", {})\n'
        'names.APPROXIMATION_NAMES += ("my-vfe",)\n'
    )
    values = changed(
        approximations=["my-vfe"],
        hyperparameters=["joint"],
        inducing_inputs=["kmeans"],
        inducing=[4],
        seeds=[0],
        exact_reference=False,
    )
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(values))
    code = "from sparse_prefgp.cli import main; main()"
    words = ["ablate", "study.yaml", "--out", "own", "--workers", "1", "--import", "own"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, env=environment, check=True)
    assert (pd.read_parquet(tmp_path / "own" / "runs.parquet")["status"] == "done").all()
