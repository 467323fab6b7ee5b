"""Checkpoints of fits to streamed duels: a stopped run resumes, or is refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.disk.checkpoint_folder import has_checkpoint
from sparse_prefgp.disk.folders import contents
from sparse_prefgp.learning.checkpoint import Interrupted
from sparse_prefgp.learning.report import Progress
from tests.tolerances import FIXED_POINT, SAME_OPTIMUM

N, T, M = 30, 300, 6
LIMIT, LONG = 4, 40
SUBSET = {"gradients": "subset", "subset": 150}


def stream(seed: int = 0) -> spg.StreamedDuels:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 2))
    pairs = rng.permuted(np.tile(np.arange(N), (T, 1)), axis=1)[:, :2]
    noisy = (np.sin(2.0 * x[:, 0]) + x[:, 1])[pairs] + 0.5 * rng.normal(size=pairs.shape)
    losers, winners = np.take_along_axis(pairs, np.argsort(noisy, axis=1), axis=1).T
    return spg.stream_duels(spg.Duels(x, winners, losers))


def build(duels: spg.StreamedDuels | None = None, **more: Any) -> spg.StreamedGP:
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


def fixed() -> spg.StreamedGP:
    """Only the kernel moves, so that the optimum is soon reached."""
    model = build()
    gpflow.set_trainable(model.inducing_variable, False)
    return model


@cache
def uninterrupted(limit: int, **settings: Any) -> Any:
    return learn(fixed(), limit, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "of", "stop"),
    [
        ({}, "chunks", 3),
        pytest.param(SUBSET, "subset", 2, marks=pytest.mark.slow),
        ({**SUBSET, "polish": 20}, "all duels", 1),
    ],
    ids=["chunks", "subset", "polish"],
)
def test_resumed_at_the_same_optimum(
    settings: dict[str, Any], of: str, stop: int, tmp_path: Path
) -> None:
    settings = {**settings, "least_gain": None}
    whole = uninterrupted(LONG, **settings)
    assert whole.converged
    kept = stop + (whole.iterations if of == "all duels" else 0)
    folder = tmp_path / "kept"
    model = fixed()
    with pytest.raises(Interrupted, match=f"after iteration {kept};.*kept.*resume=True") as caught:
        learn(model, LONG, callback=stop_at(of, stop), checkpoint=folder, **settings)
    assert isinstance(caught.value, KeyboardInterrupt)
    model.infer()  # at what was reached, not at a trial of the line search
    assert model.log_evidence() > whole.log_evidence_start

    model, seen = fixed(), []
    again = learn(
        model,
        LONG,
        callback=seen.append,
        checkpoint=spg.Checkpoint(folder, resume=True),
        **settings,
    )
    assert (seen[0].of, seen[0].iteration) == (of, stop + 1)
    assert again.resumed_at == kept and f"resumed from iteration {kept}" in str(again)
    assert whole.resumed_at == 0 and "resumed" not in str(whole)
    assert again.converged and again.log_evidence == model.log_evidence()
    assert again.log_evidence_start == whole.log_evidence_start
    # Two ways to one optimum, of the subset or, where that is polished, of all duels.
    assert again.log_evidence == pytest.approx(whole.log_evidence, abs=T * SAME_OPTIMUM)
    assert again.history[:stop] == whole.history[:stop]
    assert again.subset == whole.subset
    if whole.subset_per_duel is not None:
        assert again.subset_per_duel == pytest.approx(whole.subset_per_duel, abs=SAME_OPTIMUM)
        assert again.evidence_left == pytest.approx(whole.evidence_left, abs=0.1)
    if of == "all duels":
        assert again.polished == pytest.approx(whole.polished, abs=T * SAME_OPTIMUM)
        assert again.evidence_left < T * SAME_OPTIMUM


@pytest.mark.slow
def test_it_is_written_at_the_beginning_when_due_and_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    kept: list[tuple[str, Any]] = []

    def look(step: Progress) -> None:
        kept.append((step.of, sorted(contents(folder))))

    settings = {**SUBSET, "polish": 2}
    first = learn(build(), callback=look, checkpoint=spg.Checkpoint(folder, every=3), **settings)
    assert all(files for _, files in kept)
    new = [one[1] != two[1] for one, two in pairwise(kept)]
    # After the third on the subset, and at the end of it with the first evaluation of all duels.
    assert new == [False, True, False, True, False]
    # A run that has ended ends again at once, and one that reached a limit goes on beyond it.
    again = learn(build(), checkpoint=spg.Checkpoint(folder, resume=True), **settings)
    assert again.resumed_at == LIMIT + 2 and again.evaluations == first.evaluations
    assert again.evidence_left == first.evidence_left and again.polished == first.polished
    assert again.log_evidence == pytest.approx(first.log_evidence, rel=FIXED_POINT)
    more = learn(build(), checkpoint=spg.Checkpoint(folder, resume=True), **{**SUBSET, "polish": 4})
    assert more.polish == 4 and more.log_evidence > first.log_evidence


@pytest.mark.slow
def test_a_longer_run_resumes_at_a_limit(tmp_path: Path) -> None:
    checkpoint = spg.Checkpoint(tmp_path / "kept", resume=True)
    with pytest.warns(UserWarning, match="no checkpoint in .*kept.* begins at the beginning"):
        first = learn(build(), 2, checkpoint=checkpoint)
    again = learn(build(), 4, checkpoint=checkpoint)
    assert again.resumed_at == 2 and again.iterations == 4
    assert again.history[:2] == first.history and again.log_evidence > first.log_evidence
    with pytest.raises(ValueError, match=r"has made 4 iterations already.*limit of at least 4"):
        learn(build(), 3, checkpoint=checkpoint)


@pytest.mark.slow
@pytest.mark.parametrize(
    "within",
    [*(pytest.param(x, marks=pytest.mark.slow) for x in ("sample", "evaluation")), "inference"],
)
def test_interrupted_between_iterations(
    within: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the subset is read, all duels are evaluated after it, or inference ends the run."""
    folder = tmp_path / "kept"
    made = {"sample": 0, "evaluation": 2, "inference": 2}[within]

    def stop(*_: Any, **more: Any) -> Any:
        if within == "inference" and not more.get("restart"):
            return real(*_, **more)
        raise KeyboardInterrupt

    owner, name = {
        "sample": (type(stream()), "take"),
        "evaluation": (spg.StreamedGP, "evidence_and_gradient"),
        "inference": (spg.StreamedGP, "infer"),
    }[within]
    real = getattr(owner, name)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, stop)
        with pytest.raises(Interrupted, match=f"after iteration {made};"):
            learn(fixed(), 2, checkpoint=folder, **SUBSET)
    again = learn(fixed(), 2, checkpoint=spg.Checkpoint(folder, resume=True), **SUBSET)
    assert again.resumed_at == made
    # Between iterations nothing is lost.
    whole = uninterrupted(2, **SUBSET)
    assert again.log_evidence == pytest.approx(whole.log_evidence, rel=FIXED_POINT)


@pytest.mark.slow
def test_rows_drawn_by_no_seed_are_drawn_once(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with pytest.raises(Interrupted):
        spg.optimise(build(), 3, checkpoint=folder, callback=stop_at("subset", 1), **SUBSET)
    resumed = spg.Checkpoint(folder, resume=True)
    one, other = (spg.optimise(build(), 3, checkpoint=resumed, **SUBSET) for _ in range(2))
    assert one.subset_per_duel == pytest.approx(other.subset_per_duel, rel=FIXED_POINT)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "kept"
    learn(build(), 2, polish=1, checkpoint=folder, **SUBSET)
    return folder


def _moved() -> spg.StreamedGP:
    model = build()
    model.kernel.lengthscales.assign([1.0, 1.5])
    return model


OTHER_SETTINGS = "other gradients, another subset, seed or least gain"


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
        (_moved, {}, "other parameters or inducing inputs at the start"),
        (build, {"gradients": "chunks"}, OTHER_SETTINGS),
        (build, {"subset": 140}, OTHER_SETTINGS),
        (build, {"seed": 6}, OTHER_SETTINGS),
        (build, {"limit": 3}, "The subset of the run in .* ended at its limit of 2 iterations"),
        (build, {"polish": 0}, r"1 exact iterations \(polish\) already, past the limit of 0"),
    ],
)
def test_another_run_is_refused_and_nothing_changes(
    model: Callable[[], spg.StreamedGP], changes: dict[str, Any], message: str, kept: Path
) -> None:
    before = {name: (kept / name).read_bytes() for name in contents(kept)}
    settings = {"limit": 2, "polish": 1, **SUBSET, **changes}
    with pytest.raises(ValueError, match=message) as error:
        learn(model(), checkpoint=spg.Checkpoint(kept, resume=True), **settings)
    assert str(error.value).endswith(").") and "remove that folder" in str(error.value)
    if not {"limit", "polish"} & set(changes):  # begun again, they are not another run
        with pytest.raises(ValueError, match=message):
            learn(model(), checkpoint=kept, **settings)
    assert {name: (kept / name).read_bytes() for name in contents(kept)} == before


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
    assert has_checkpoint(tmp_path / "kept")
    assert go("same").log_evidence == pytest.approx(first.log_evidence, rel=FIXED_POINT)
    with pytest.raises(ValueError, match="of other duels or items"):
        go("other")


def test_what_was_reached_survives() -> None:
    from sparse_prefgp.learning.checkpoint import RunState
    from sparse_prefgp.learning.lbfgs import Curvature, LbfgsState
    from sparse_prefgp.learning.objective import EvaluationCounts

    rng = np.random.default_rng(0)
    curvature = Curvature(*rng.normal(size=(2, 3, 4)))
    known = (rng.normal(size=4), 0.2, rng.normal(size=4), -1.0, curvature, (0.3, 0.2), (-0.1,))
    legs = (LbfgsState(*known, "settled", converged=True), LbfgsState(*known))
    many = RunState((1 / 3, -0.5), legs, np.arange(3), 0.7, EvaluationCounts(3, 1, seconds=0.5))
    for one in (many, RunState((0.1, 0.0)), RunState((0.1, 0.0), legs[:1])):
        arrays, words = one.to_arrays()
        again = RunState.from_arrays(arrays, json.loads(json.dumps(words)))
        others, same = again.to_arrays()
        assert words == same and arrays.keys() == others.keys()
        assert all(np.array_equal(arrays[name], others[name]) for name in arrays)
        assert again.iterations == one.iterations
        assert [leg.log_evidence for leg in again.legs] == [leg.log_evidence for leg in one.legs]


def test_a_model_without_its_duels_is_told(tmp_path: Path) -> None:
    model = build()
    spg.save(model, tmp_path / "model")
    with pytest.raises(ValueError, match="loaded without its duels and optimise"):
        learn(spg.load(tmp_path / "model"), **SUBSET)
