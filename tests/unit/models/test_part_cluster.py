"""Parts on two Dask workers: the same answer, also when one is killed or does not answer."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sparse_prefgp as spg
from sparse_prefgp.data.items import Items
from sparse_prefgp.models.streaming import cluster, rounds
from sparse_prefgp.models.streaming.gaussian import numbers_of
from sparse_prefgp.support.machine import usable_cores
from tests.killing import started
from tests.together import apart, refused
from tests.tolerances import FIXED_POINT, PARTS, SOLVER

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

T, N, M = 3000, 40, 8


@pytest.fixture(scope="module")
def duels(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    winner = rng.integers(N, size=T)
    loser = (winner + rng.integers(1, N, size=T)) % N
    folder = tmp_path_factory.mktemp("duels")
    frame = pd.DataFrame({"winner": winner, "loser": loser})
    for k in range(4):
        frame[k * 750 : (k + 1) * 750].to_parquet(folder / f"{k}.parquet", index=False)
    return folder


@pytest.fixture(scope="module")
def workers():
    """A scheduler and two workers, which are started again when they die."""
    started = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        env={"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    yield started
    started.close()


def make(duels: Path, parts: int, scheduler: str | None = None, **more: Any) -> spg.StreamedGP:
    rng = np.random.default_rng(1)
    items = rng.normal(size=(N, 2))
    return spg.StreamedGP(
        spg.stream_duels(duels, items),
        gpflow.kernels.Matern52(lengthscales=[1.0, 1.0]),
        inducing_variable=rng.normal(size=(M, 2)),
        engine=spg.PartitionedEP(parts=parts, tolerance=SOLVER),
        scheduler=scheduler,
        chunk=500,
        **more,
    )


def compare(mine: spg.StreamedGP, theirs: spg.StreamedGP) -> None:
    new = np.random.default_rng(2).normal(size=(5, 2))
    for one, other in zip(mine.predict_f(new), theirs.predict_f(new), strict=True):
        np.testing.assert_allclose(one, other, atol=PARTS)
    (one, slopes), (other, same) = mine.evidence_and_gradient(), theirs.evidence_and_gradient()
    assert one == pytest.approx(other, rel=PARTS)
    for a, b in zip(slopes, same, strict=True):
        np.testing.assert_allclose(a, b, atol=FIXED_POINT)


@pytest.mark.parametrize("parts", [1, 2, 4, 8])
def test_two_workers_give_the_posterior_of_one_process(duels, workers, parts) -> None:
    model = make(duels, parts, workers.scheduler_address)
    result = model.infer()
    assert result.converged and result.rebuilt == ()
    *_, last = result.rounds
    for bytes_ in (*last.bytes_sent, *last.bytes_received):
        assert 8 * numbers_of(M) <= bytes_ <= 8 * numbers_of(M) + 600
    compare(model, make(duels, 1))
    with refused("scheduler", "sites_here"):
        model.in_memory()
    model.close()


def test_two_workers_cut_no_block(duels, workers) -> None:
    rows = make(duels, 1).stream.num_rows
    blocks = spg.PITC([f"b{i}" for i in np.repeat(np.arange(rows), 7)[:rows]])
    model = make(duels, 3, workers.scheduler_address, approximation=blocks)
    assert model.infer().converged
    compare(model, make(duels, 1, approximation=blocks))
    model.close()


def test_a_worker_killed_within_a_round_changes_nothing(duels, workers) -> None:
    model = make(duels, 4, workers.scheduler_address)
    killed: list[str] = []

    def kill(round_: spg.parts.Round) -> None:
        if round_.number != 2:
            return
        pool = model._work.parts(model.hyperparameters())
        address = pool._place[0]
        process = pool._client.run(os.getpid)[address]
        killed.append(address)
        # While the next round is on its way.
        threading.Timer(0.01, os.kill, (process, signal.SIGKILL)).start()

    result = model.infer(report=kill)
    assert result.converged and len(killed) == 1
    assert any(killed[0] in text for text in result.rebuilt)
    assert killed[0] in str(result)
    compare(model, make(duels, 1))
    model.close()


def _threads() -> int:
    from sparse_prefgp.support.machine import usable_threads

    return usable_threads()


def test_local_workers_share_the_cores(duels, monkeypatch) -> None:
    monkeypatch.setattr(cluster, "usable_cores", lambda: 4)
    model = make(duels, 2, "local")
    compare(model, make(duels, 1))
    found = model._work.pool._client.run(lambda: os.environ["TF_NUM_INTRAOP_THREADS"])
    assert list(found.values()) == ["2", "2"]
    told = model._work.pool._client.run(_threads)
    assert set(told.values()) == {min(2, usable_cores())}
    model.close()


def test_what_was_lost_while_it_learned_is_told(duels, workers) -> None:
    model, whole = make(duels, 4, workers.scheduler_address), make(duels, 1)

    def kill(step: Any) -> None:
        if step.iteration == 1:
            pool = model._work.parts(model.hyperparameters())
            os.kill(pool._client.run(os.getpid)[pool._place[0]], signal.SIGKILL)

    report = spg.optimise(model, 3, callback=kill)
    assert report.rebuilt and "was rebuilt from its last message" in report.rebuilt[0]
    assert "a part was lost and rebuilt" in str(report)
    assert report.log_evidence == pytest.approx(
        spg.optimise(whole, 3).log_evidence, rel=FIXED_POINT
    )
    model.close()


@pytest.mark.parametrize("interrupted", [False, True])
def test_workers_of_a_command_say_nothing(duels, tmp_path, interrupted) -> None:
    items = pd.DataFrame(np.random.default_rng(1).normal(size=(N, 2)), columns=["a", "b"])
    items.assign(item_id=range(N)).to_csv(tmp_path / "items.csv", index=False)
    words = ["fit", "--items", str(tmp_path / "items.csv"), "--duels", str(duels), "--quiet"]
    words += [
        "--stream",
        "--parts",
        "2",
        "--scheduler",
        "local",
        "--inducing",
        "8",
        "--kernel",
        "se",
    ]
    words += ["--max-iterations", "3000" if interrupted else "2", "--checkpoint-every", "1"]
    out = tmp_path / "fitted"
    # A level of one's own brings TensorFlow's errors back, as where there is no graphics processor.
    known = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    process = started(
        [*words, "--out", str(out)],
        int(interrupted),
        signal.SIGINT,
        group=True,
        env=known,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that all of it is interrupted, as by a terminal
    )
    _, said = process.communicate(timeout=240)
    assert process.returncode == (130 if interrupted else 0), said
    assert "Traceback" not in said and "oneDNN" not in said and "cuda" not in said
    # These duels are random, which a fit says.
    more = [line for line in said.splitlines() if "hardly better than a coin" not in line]
    assert len(more) <= (1 if interrupted else 0), said


def test_a_worker_that_does_not_answer_is_done_without(duels, workers) -> None:
    model = make(duels, 2, workers.scheduler_address)
    model.infer()
    pool = model._work.parts(model.hyperparameters())
    pool._timeout = 3.0
    address = pool._place[1]
    process = pool._client.run(os.getpid)[address]
    model.kernel.variance.assign(1.3)
    os.kill(process, signal.SIGSTOP)
    try:
        result = model.infer()
    finally:
        os.kill(process, signal.SIGCONT)
    assert result.converged
    assert f"the worker {address} did not answer within 3 s" in str(result.rebuilt)
    reference = make(duels, 1)
    reference.kernel.variance.assign(1.3)
    compare(model, reference)
    model.close()


def test_a_file_that_cannot_be_read_on_the_worker_is_named(duels, workers, tmp_path) -> None:
    for k in range(4):
        (tmp_path / f"{k}.parquet").write_bytes((duels / f"{k}.parquet").read_bytes())
    model = make(tmp_path, 4, workers.scheduler_address)
    (tmp_path / "2.parquet").write_text("spoilt")
    with pytest.raises(ValueError, match=r"Part 2 failed on the worker tcp:.*2\.parquet") as error:
        model.infer()
    assert "\n" not in str(error.value)
    model.close()


def test_no_scheduler_is_told_in_one_sentence(duels, monkeypatch) -> None:
    monkeypatch.setattr(cluster, "_SCHEDULER", 1.0)
    sentence = r"no Dask scheduler at 'tcp://127.0.0.1:9'.*, or 'local'\."
    with pytest.raises(ConnectionError, match=sentence):
        make(duels, 2, "tcp://127.0.0.1:9").infer()


def test_a_scheduler_that_goes_away_is_told_in_one_sentence(duels, monkeypatch) -> None:
    monkeypatch.setattr(cluster, "_SCHEDULER", 2.0)
    alone = distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        dashboard_address=None,
        env={"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    model = make(duels, 2, alone.scheduler_address)

    def leave(round_: spg.parts.Round) -> None:
        if round_.number == 2:
            alone.close()

    with pytest.raises(OSError, match=r"does not answer any more|has no worker") as error:
        model.infer(report=leave)
    assert "\n" not in str(error.value)
    model.close()


def test_a_scheduler_killed_within_a_round_is_told_in_one_sentence(
    duels, monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr(cluster, "_SCHEDULER", 10.0)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    written = tmp_path / "scheduler.json"

    def start(name: str, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", "--scheduler-file", written, *more],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    scheduler = start("dask_scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1")
    worker = start("dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")
    try:
        while not written.exists():
            time.sleep(0.1)
        model = make(duels, 2, json.loads(written.read_text())["address"])

        met = []

        def killed(*_: Any, **__: Any) -> None:
            met.append(True)
            scheduler.kill()
            scheduler.wait()
            # As Dask ends a wait within which its client sees that the scheduler is gone.
            raise distributed.client.FuturesCancelledError([])

        def kill(round_: spg.parts.Round) -> None:
            if round_.number == 2:
                monkeypatch.setattr(model._work.pool._dask, "wait", killed)

        with pytest.raises(ConnectionError, match="does not answer any more") as error:
            model.infer(report=kill)
        assert met, str(error.getrepr(style="short"))
        assert "\n" not in str(error.value)
        model.close()
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()


def test_duels_that_cannot_be_sent_are_told_before_anything_is_started(duels) -> None:
    stream = make(duels, 1).stream
    (chunk,) = stream.chunks(T)
    held = spg.stream_duels(stream.in_memory(chunk))
    pairs = tf.data.Dataset.from_tensor_slices(
        {
            "winner": chunk.given.pairs[:, 0],
            "loser": chunk.given.pairs[:, 1],
            "count": chunk.given.counts.astype(int),
        }
    )
    for duels_, words in (
        (held, "duels in memory" + apart("scheduler", "held_here")),
        (spg.stream_duels(pairs, stream.items), "leave the scheduler out"),
    ):
        model = spg.StreamedGP(duels_, gpflow.kernels.Matern52(), scheduler="tcp://127.0.0.1:9")
        with pytest.raises(ValueError, match=words):
            model.infer()


def test_a_worker_with_other_items_is_named(duels, workers, tmp_path) -> None:
    path = tmp_path / "items.csv"
    frame = pd.DataFrame(np.random.default_rng(1).normal(size=(N, 2)), columns=["a", "b"])
    frame.to_csv(path, index_label="id")

    def model() -> spg.StreamedGP:
        return spg.StreamedGP(
            stream, gpflow.kernels.Matern52(), engine=engine, scheduler=workers.scheduler_address
        )

    stream, engine = spg.stream_duels(duels, path), spg.PartitionedEP(parts=2)
    good = model()
    assert good.infer().converged
    good.close()
    for changed in (frame.assign(b=frame["b"].where(frame.index != 3, 9.0)), frame[::-1]):
        changed.to_csv(path, index_label="id")
        with pytest.raises(
            ValueError, match=r"failed on the worker tcp:.*items\.csv.* other items"
        ):
            model().infer()


def test_rounding_of_features_is_no_difference() -> None:
    features = np.random.default_rng(0).normal(size=(N, 2))
    known = cluster._Items.of(Items(features))
    assert known.equals(cluster._Items.of(Items(features * (1.0 + 1e-14))))
    assert not known.equals(cluster._Items.of(Items(features[::-1])))
    assert not known.equals(cluster._Items.of(Items(features, tuple(range(N)))))
    assert not known.equals(cluster._Items.of(Items(features[:-1])))


def test_progress_is_told_and_a_deleted_model_leaves_nothing(duels, workers) -> None:
    model = make(duels, 4, workers.scheduler_address)
    seen: list[spg.parts.model.StreamProgress] = []
    result = model.infer(progress=seen.append)
    assert [p.rows for p in seen] == [750, 1500, 2250, 3000] * result.sweeps
    assert seen[-1].round == result.sweeps and seen[-1].seconds_left == 0.0
    assert all(p.total == T and p.duels_per_second > 0.0 for p in seen)
    run = model._work.pool._run
    with distributed.Client(workers.scheduler_address, set_as_default=False) as client:

        def kept() -> bool:
            return any(run in at for at in client.run(lambda: set(cluster._runs)).values())

        assert kept()
        del model
        gc.collect()
        until = time.perf_counter() + 20.0
        while kept() and time.perf_counter() < until:
            time.sleep(0.1)
        assert not kept()


class Losing(rounds.InProcess):
    """A pool that loses part 1 each time."""

    def work(self, tasks: Any) -> Any:
        answers = super().work(tasks)
        if 1 in answers:
            answers[1] = "it was told to"
        return answers

    def rebuild(self, number: int) -> None:
        assert number == 1


def test_parts_that_are_always_lost_end_the_run(duels) -> None:
    model = make(duels, 2)
    pool = model._work.parts(model.hyperparameters())
    model._work.pool = Losing(pool._parts)
    with pytest.raises(ConnectionError, match="Parts were lost"):
        model.infer()
