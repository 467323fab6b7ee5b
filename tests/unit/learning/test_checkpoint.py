"""Checkpoints: a stopped run resumes where it was, or is refused in one sentence."""

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

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.disk import kept_file
from sparse_prefgp.learning.checkpoint import Checkpoint, Interrupted, RunState
from sparse_prefgp.learning.lbfgs import Curvature, LbfgsState, Settling, go_on
from sparse_prefgp.learning.optimise import OptimisationReport, Progress, optimise
from tests.tolerances import FIXED_POINT, SAME_OPTIMUM

ROOT = Path(__file__).resolve().parents[3]


def build(seed: int = 0, approximation: object = None, item: bool = False) -> spg.PreferenceGP:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12, 2))
    pairs = rng.permuted(np.tile(np.arange(12), (40, 1)), axis=1)[:, :2]
    order = np.argsort(np.sin(2 * x[:, 0])[pairs] + 0.5 * rng.normal(size=pairs.shape), axis=1)
    losers, winners = np.take_along_axis(pairs, order, axis=1).T
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.0])
    return spg.PreferenceGP(
        spg.Duels(x, winners, losers),
        kernel + spg.ItemEffect(variance=0.1) if item else kernel,
        approximation=spg.VFE() if approximation is None else approximation,
        inducing_variable=x[:4].copy(),
    )


def stop_after(iteration: int) -> Callable[[Progress], None]:
    def stop(progress: Progress) -> None:
        if progress.iteration == iteration and progress.start == progress.starts:
            raise KeyboardInterrupt

    return stop


def same(first: OptimisationReport, second: OptimisationReport) -> None:
    """Another way to the same optimum, and as many starts."""
    assert first.converged and second.converged
    assert first.log_evidence == pytest.approx(second.log_evidence, abs=40 * SAME_OPTIMUM)
    assert first.log_evidence_start == second.log_evidence_start
    assert first.kept == second.kept
    for mine, theirs in zip(first.starts, second.starts, strict=True):
        assert mine.log_evidence == pytest.approx(theirs.log_evidence, abs=40 * SAME_OPTIMUM)


def fixed(**settings: object) -> spg.PreferenceGP:
    """Only the kernel moves, so that the optimum is soon reached."""
    return _fixed(build(**settings))


LONG = {"max_iterations": 60, "least_gain": None}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "stop"),
    [({}, 4), ({"starts": 2}, 2)],
    ids=["one", "starts"],
)
def test_resumed_at_the_same_optimum(settings: dict, stop: int, tmp_path: Path) -> None:
    settings = {**LONG, **settings}
    whole = optimise(fixed(), **settings)
    folder = tmp_path / "kept"
    done = stop + sum(start.iterations for start in whole.starts[:-1])
    with pytest.raises(Interrupted, match=f"after iteration {done};.*kept.*resume=True") as caught:
        optimise(fixed(), callback=stop_after(stop), checkpoint=Checkpoint(folder), **settings)
    assert isinstance(caught.value, KeyboardInterrupt)
    seen: list[Progress] = []
    model = fixed()
    again = optimise(
        model, callback=seen.append, checkpoint=Checkpoint(folder, resume=True), **settings
    )
    same(again, whole)
    assert again.resumed_at == done and f"resumed from iteration {done}" in str(again)
    # Nothing is done twice: only what is left of the last start, counted on.
    assert [(p.start, p.iteration) for p in seen] == [
        (len(whole.starts), stop + 1 + k) for k in range(len(seen))
    ]
    assert again.starts[-1].iterations == stop + len(seen)
    assert again.starts[:-1] == whole.starts[:-1]
    assert model.log_evidence() == again.log_evidence


class Bowl:
    """An objective whose Hessian is diagonal."""

    bends = np.array([1.0, 30.0, 900.0])

    def __call__(self, place: np.ndarray) -> tuple[float, np.ndarray]:
        return 0.5 * float(self.bends @ place**2), self.bends * place

    def get(self) -> np.ndarray:
        return np.ones(3)

    def set(self, place: np.ndarray) -> None:
        pass

    def log_prior(self) -> float:
        return 0.0


def test_what_the_steps_have_shown_of_the_curvature_is_kept() -> None:
    bowl: Any = Bowl()
    settling = Settling(None, 1.0)
    climb = go_on(bowl, LbfgsState.begin(bowl), 5, settling, lambda climb: None)
    arrays, words = RunState(legs=(climb,)).to_arrays()
    (kept,) = RunState.from_arrays(arrays, json.loads(json.dumps(words))).legs
    for name in ("steps", "changes"):
        np.testing.assert_array_equal(getattr(kept.curvature, name), getattr(climb.curvature, name))
    known, unknown = (
        go_on(bowl, LbfgsState.begin(bowl, curvature, kept), 7, settling, lambda climb: None)
        for curvature in (None, Curvature.unknown(3))
    )
    assert known.value < 0.1 * unknown.value


@pytest.mark.slow
def test_iterations_count_on_to_the_limit(tmp_path: Path) -> None:
    """As after a kill: only what is on the disk counts. And more iterations than at first."""
    folder = tmp_path / "kept"
    first = optimise(build(), 10, checkpoint=Checkpoint(folder, every=4))
    assert first.iterations == 10 and not first.converged
    again = optimise(build(), 16, checkpoint=Checkpoint(folder, every=4, resume=True))
    assert again.resumed_at == 10 and again.iterations == 16
    assert again.history[:10] == first.history and again.evaluations >= first.evaluations + 6
    assert np.all(np.diff(again.history) > 0.0)
    # A run that has ended ends again at once, where it was.
    seen: list[Progress] = []
    once_more = optimise(
        build(), 16, callback=seen.append, checkpoint=Checkpoint(folder, resume=True)
    )
    assert not seen and once_more.resumed_at == 16 and once_more.history == again.history
    assert once_more.evaluations == again.evaluations
    assert once_more.log_evidence == pytest.approx(again.log_evidence, abs=FIXED_POINT)


@pytest.mark.slow
def test_item_effects(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    optimise(fixed(item=True), 3, checkpoint=Checkpoint(folder), least_gain=None)
    again = optimise(fixed(item=True), checkpoint=Checkpoint(folder, resume=True), **LONG)
    assert again.resumed_at == 3
    same(again, optimise(fixed(item=True), **LONG))


@pytest.mark.slow
def test_written_only_when_due(tmp_path: Path) -> None:
    """At the beginning, every third iteration, and at the end."""
    folder = tmp_path / "kept"

    def kept() -> int:
        return len(kept_words(folder)["legs"][0][2])

    seen = []
    optimise(
        build(),
        5,
        callback=lambda p: seen.append(kept()),
        checkpoint=Checkpoint(folder, every=3),
    )
    assert seen == [0, 0, 3, 3, 3] and kept() == 5


@pytest.mark.slow
def test_a_run_that_was_too_short_for_a_checkpoint_leaves_its_end(tmp_path: Path) -> None:
    """So that what follows it, such as a refit, can begin from the same model again."""
    folder = tmp_path / "short"
    first = optimise(build(), 3, checkpoint=Checkpoint(folder, every=6))
    model = build()
    again = optimise(model, 3, checkpoint=Checkpoint(folder, every=6, resume=True))
    assert again.resumed_at == 3 and again.history == first.history
    assert again.log_evidence == pytest.approx(first.log_evidence, abs=FIXED_POINT)


@pytest.mark.slow
def test_what_stays_as_it_is_may_differ_in_its_last_digits(tmp_path: Path) -> None:
    """As inducing inputs do that were computed with another number of threads; not by more."""
    place = tmp_path / "kept"
    optimise(fixed(), 2, checkpoint=place)

    def resumed(factor: float) -> OptimisationReport:
        model = fixed()
        model.inducing_variable.Z.assign(model.inducing_variable.Z * factor)
        return optimise(model, 3, checkpoint=Checkpoint(place, resume=True))

    assert resumed(1.0 + 2e-7).resumed_at == 2
    with pytest.raises(ValueError, match="other values of parameters that stay as they are"):
        resumed(1.0 + 1e-5)


@pytest.mark.slow
def test_interrupted_while_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "kept"
    optimise(build(), 3, checkpoint=Checkpoint(folder, every=3))
    before = folder.read_bytes()
    real = np.savez

    def broken(*_: object, **__: object) -> None:
        monkeypatch.setattr(np, "savez", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(Interrupted, match="after iteration 3"):
        optimise(build(), 9, checkpoint=Checkpoint(folder, every=6, resume=True))
    assert folder.read_bytes() != before
    again = optimise(build(), 9, checkpoint=Checkpoint(folder, resume=True))
    assert again.resumed_at == 3 and again.iterations == 9


@pytest.mark.slow
def test_a_full_disk_costs_the_checkpoint_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept_file, "write_file", full)
    with pytest.warns(UserWarning, match="No checkpoint could be written.*No space left"):
        report = optimise(build(), 4, checkpoint=Checkpoint(tmp_path / "kept", every=2))
    assert report.iterations == 4


@pytest.mark.slow
def test_nothing_to_go_on_from_is_said(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="no checkpoint .* to resume from; the run begins"):
        report = optimise(build(), 2, checkpoint=Checkpoint(tmp_path / "kept", resume=True))
    assert report.iterations == 2 and report.resumed_at == 0


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "kept"
    optimise(build(), 2, checkpoint=Checkpoint(folder, every=1))
    return folder


def kept_words(path: Path) -> dict[str, Any]:
    with np.load(path) as arrays:
        words: dict[str, Any] = json.loads(str(arrays["words"]))
    return words


def _fixed(model: spg.PreferenceGP) -> spg.PreferenceGP:
    gpflow.set_trainable(model.inducing_variable, False)
    return model


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (lambda: build(1), {}, "of other duels or items"),
        (lambda: build(approximation=spg.FITC()), {}, "another kernel, approximation"),
        (lambda: _fixed(build()), {}, "choice of trainable parameters"),
        (build, {"starts": 2}, "another seed, number of starts or least gain"),
        (build, {"least_gain": None}, "another seed, number of starts or least gain"),
    ],
)
def test_another_run_is_refused_and_nothing_changes(
    model: Callable[[], spg.PreferenceGP], settings: dict, message: str, kept: Path
) -> None:
    before = kept.read_bytes()
    for checkpoint in (Checkpoint(kept, resume=True), Checkpoint(kept), str(kept)):
        with pytest.raises(ValueError, match=message):
            optimise(model(), 3, checkpoint=checkpoint, **settings)
    assert kept.read_bytes() == before


def test_another_kernel_by_what_it_sees(kept: Path) -> None:
    model = build()
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.0], active_dims=[1, 1])
    other = spg.PreferenceGP(
        model.duels, kernel, approximation=spg.VFE(), inducing_variable=model.duels.items[:4].copy()
    )
    with pytest.raises(ValueError, match="another kernel"):
        optimise(other, 3, checkpoint=Checkpoint(kept, resume=True))


def test_damage_and_other_files_are_refused(kept: Path, tmp_path: Path) -> None:
    content = kept.read_bytes()
    place = tmp_path / "fit.npz"
    for text in (b"", b"mine", content[:-30], content[:100] + b"?" + content[101:]):
        place.write_bytes(text)
        with pytest.raises(ValueError, match=r"no checkpoint of this version, or damaged.*rm "):
            optimise(build(), 3, checkpoint=Checkpoint(place, resume=True))
        assert place.read_bytes() == text
    with pytest.raises(ValueError, match="is a folder; give a file in it"):
        optimise(build(), 3, checkpoint=Checkpoint(tmp_path))
    with pytest.raises(ValueError, match=r"every is 1\.5; give a whole number, at least 1"):
        Checkpoint(place, every=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is of type int; give that of a file"):
        Checkpoint(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="every is 0; give a whole number"):
        Checkpoint(place, every=0)


KILLED = """
import sys
from tests.unit.learning.test_checkpoint import build
from sparse_prefgp.learning.optimise import optimise
from sparse_prefgp.learning.checkpoint import Checkpoint
import time

def slow(progress):
    print(progress.iteration, flush=True)
    time.sleep(0.05)

report = optimise(
    build(), 30, callback=slow,
    checkpoint=Checkpoint(sys.argv[1], every=2, resume=sys.argv[2] == "resume"),
)
print(repr(report.log_evidence), report.resumed_at)
"""


@pytest.mark.slow
def test_killed_process_goes_on(tmp_path: Path) -> None:
    """kill -9 in the middle, then the same command with resume."""
    folder = tmp_path / "kept"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def command(word: str) -> list[str]:
        return [sys.executable, "-c", KILLED, str(folder), word]

    with subprocess.Popen(
        command("begin"), stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        deadline = time.monotonic() + 120
        for line in process.stdout:
            assert time.monotonic() < deadline
            if int(line) == 11:
                os.kill(process.pid, signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    assert folder.is_file()
    done = subprocess.run(
        command("resume"), capture_output=True, text=True, env=environment, cwd=ROOT, check=True
    )
    *steps, last = done.stdout.splitlines()
    evidence, resumed_at = last.split()
    # At most the two iterations between checkpoints are lost, and one that was under way.
    assert int(resumed_at) in (10, 12)
    assert [int(step) for step in steps] == list(range(int(resumed_at) + 1, 31))
    assert float(evidence) > optimise(build(), int(resumed_at)).log_evidence
