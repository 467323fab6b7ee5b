"""Checkpoints of fits to streamed duels: a stopped run resumes, or is refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.learning.checkpoint import Interrupted
from sparse_prefgp.learning.report import Progress
from tests.together import refused
from tests.tolerances import FIXED_POINT, SAME_OPTIMUM

N, T, M = 30, 300, 6
LIMIT, LONG = 4, 40
SUBSET = {"gradients": "subset", "subset": 150}


def stream(seed: int = 0) -> spg.Duels:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 2))
    pairs = rng.permuted(np.tile(np.arange(N), (T, 1)), axis=1)[:, :2]
    noisy = (np.sin(2.0 * x[:, 0]) + x[:, 1])[pairs] + 0.5 * rng.normal(size=pairs.shape)
    losers, winners = np.take_along_axis(pairs, np.argsort(noisy, axis=1), axis=1).T
    return spg.stream_duels(spg.Duels(x, winners, losers))


def build(duels: spg.Duels | None = None, **more: Any) -> spg.StreamedGP:
    settings: dict[str, Any] = {
        "kernel": gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.0]),
        "inducing_variable": np.random.default_rng(7).normal(size=(M, 2)),
    }
    return spg.StreamedGP(stream() if duels is None else duels, **{**settings, **more})


def learn(model: spg.StreamedGP, limit: int = LIMIT, seed: int = 5, **more: Any) -> Any:
    return spg.optimise(model, limit, rng=np.random.default_rng(seed), **more)


def stop_at(of: str, iteration: int) -> Callable[[Progress], None]:
    def stop(step: Progress) -> None:
        if (step.of, step.iteration) == (of, iteration):
            raise KeyboardInterrupt

    return stop


def fixed(chunk: int | None = None) -> spg.StreamedGP:
    """Only the kernel moves, so that the optimum is soon reached."""
    model = build(chunk=chunk)
    gpflow.set_trainable(model.inducing_variable, False)
    return model


@pytest.mark.slow
@pytest.mark.parametrize(("chunk", "of"), [(100, "chunks"), (None, "memory")])
def test_resumed_at_the_same_optimum(chunk: int | None, of: str, tmp_path: Path) -> None:
    whole, place = learn(fixed(chunk), LONG, least_gain=None), tmp_path / "kept"
    model = fixed(chunk)
    with pytest.raises(Interrupted, match=r"after iteration 3;.*kept.*resume=True") as caught:
        learn(model, LONG, callback=stop_at(of, 3), checkpoint=place, least_gain=None)
    assert isinstance(caught.value, KeyboardInterrupt)
    model.infer()  # at what was reached, not at a trial of the line search
    assert model.log_evidence() > whole.log_evidence_start
    model, seen = fixed(chunk), []
    resume = spg.Checkpoint(place, resume=True)
    again = learn(model, LONG, callback=seen.append, checkpoint=resume, least_gain=None)
    assert (seen[0].of, seen[0].iteration) == (of, 4)
    assert again.resumed_at == 3 and "resumed from iteration 3" in str(again)
    assert whole.resumed_at == 0 and "resumed" not in str(whole)
    assert again.converged and again.log_evidence == model.log_evidence()
    assert again.log_evidence_start == whole.log_evidence_start
    assert again.log_evidence == pytest.approx(whole.log_evidence, abs=T * SAME_OPTIMUM)
    assert again.history[:3] == whole.history[:3]


def test_what_was_begun_from_chunks_goes_on_in_memory(tmp_path: Path) -> None:
    first = learn(build(chunk=100), 2, checkpoint=tmp_path / "kept")
    again = learn(build(), LIMIT, checkpoint=spg.Checkpoint(tmp_path / "kept", resume=True))
    assert (first.gradients, again.gradients) == ("chunks", "memory")
    assert again.resumed_at == 2 and again.iterations == LIMIT
    assert again.history[:2] == first.history and again.log_evidence > first.log_evidence
    assert again.evaluations >= first.evaluations + 2 and again.seconds > first.seconds


def test_of_a_subset_nothing_is_kept(tmp_path: Path) -> None:
    with refused("gradients_of_a_subset", "checkpoint"):
        learn(build(), checkpoint=tmp_path / "kept", **SUBSET)
    assert not (tmp_path / "kept").exists()


@pytest.mark.slow
def test_a_longer_run_resumes_at_a_limit(tmp_path: Path) -> None:
    checkpoint = spg.Checkpoint(tmp_path / "kept", resume=True)
    with pytest.warns(UserWarning, match="no checkpoint .*kept.* begins at the beginning"):
        first = learn(build(), 2, checkpoint=checkpoint)
    again = learn(build(), 4, checkpoint=checkpoint)
    assert again.resumed_at == 2 and again.iterations == 4
    assert again.history[:2] == first.history and again.log_evidence > first.log_evidence
    with pytest.raises(ValueError, match=r"has made 4 iterations.*limit of at least 4"):
        learn(build(), 3, checkpoint=checkpoint)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "kept"
    learn(build(), 2, checkpoint=folder)
    return folder


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        (lambda: build(stream(1)), {}, "of other duels or items"),
        (lambda: build(stream().part(0, T // 2)), {}, "of other duels or items"),
        (lambda: build(approximation=spg.FITC()), {}, "another kernel, approximation"),
        (lambda: build(engine=spg.PartitionedEP(parts=2)), {}, "engine"),
        (
            lambda: build(
                kernel=gpflow.kernels.SquaredExponential(
                    lengthscales=[1.0, 1.0], active_dims=[1, 1]
                )
            ),
            {},
            "another kernel",
        ),
        (build, {"least_gain": None}, "another seed, number of starts or least gain"),
        (build, {"limit": 1}, "has made 2 iterations, past the limit of 1"),
    ],
)
def test_another_run_is_refused_and_nothing_changes(
    model: Callable[[], spg.StreamedGP], changes: dict[str, Any], message: str, kept: Path
) -> None:
    before = kept.read_bytes()
    settings = {"limit": 2, **changes}
    with pytest.raises(ValueError, match=message) as error:
        learn(model(), checkpoint=spg.Checkpoint(kept, resume=True), **settings)
    assert str(error.value).endswith(").") and "remove it to begin again" in str(error.value)
    if "limit" not in changes:  # begun again, they are not another run
        with pytest.raises(ValueError, match=message):
            learn(model(), checkpoint=kept, **settings)
    assert kept.read_bytes() == before


@pytest.mark.slow
def test_duels_of_files_are_told_apart_by_their_checksums(tmp_path: Path) -> None:
    """Features next to the duels; one row that was exchanged is another stream."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    columns = ("winner_a", "winner_b", "loser_a", "loser_b")
    frame = pd.DataFrame(dict(zip(columns, rng.normal(size=(4, 80)), strict=True)))
    other = frame.copy()
    other.loc[70, ["winner_a", "loser_a"]] = frame.loc[70, ["loser_a", "winner_a"]].to_numpy()
    for name, table in (("one", frame), ("same", frame), ("other", other)):
        table.to_parquet(tmp_path / f"{name}.parquet", index=False)

    def go(name: str, resume: bool = True) -> Any:
        model = build(spg.stream_duels(tmp_path / f"{name}.parquet"))
        return learn(model, 2, checkpoint=spg.Checkpoint(tmp_path / "kept", resume=resume))

    first = go("one", resume=False)
    assert (tmp_path / "kept").is_file()
    assert go("same").log_evidence == pytest.approx(first.log_evidence, rel=FIXED_POINT)
    with pytest.raises(ValueError, match="of other duels or items"):
        go("other")


def test_what_was_reached_survives() -> None:
    from sparse_prefgp.learning.checkpoint import RunState
    from sparse_prefgp.learning.lbfgs import Curvature, LbfgsState
    from sparse_prefgp.learning.objective import EvaluationCounts

    position, gradient = np.random.default_rng(0).normal(size=(2, 4))
    known = (position, 0.2, gradient, -1.0, Curvature.unknown(4), (0.3, 0.2), (-0.1,))
    legs = (LbfgsState(*known, "settled", converged=True), LbfgsState(*known))
    for one in (
        RunState((1 / 3, -0.5), legs, counts=EvaluationCounts(3, 1, seconds=0.5)),
        RunState((0.1, 0.0)),
    ):
        arrays, words = one.to_arrays()
        again = RunState.from_arrays(arrays, json.loads(json.dumps(words)))
        assert json.dumps(again.to_arrays()[1]) == json.dumps(words)
        assert again.iterations == one.iterations and again.counts == one.counts
        for mine, theirs in zip(again.legs, one.legs, strict=True):
            np.testing.assert_array_equal(mine.position, theirs.position)
            assert mine.log_evidence == theirs.log_evidence


def test_a_model_without_its_duels_is_told(tmp_path: Path) -> None:
    model = build()
    spg.save(model, tmp_path / "model")
    with pytest.raises(ValueError, match="loaded without its duels and optimise"):
        learn(spg.load(tmp_path / "model"), **SUBSET)
