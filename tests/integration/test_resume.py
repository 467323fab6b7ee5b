"""`fit --resume`: a fit that was stopped resumes with the same command, or is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.disk import folders
from sparse_prefgp.learning.lbfgs import LbfgsState
from sparse_prefgp.workflow import comparison as compare_module
from sparse_prefgp.workflow.finished import FinishedFit
from sparse_prefgp.workflow.folder import (
    CANDIDATES,
    CHECKPOINTS,
    FIT_FILE,
    check_folder,
    is_checkpoint,
)
from sparse_prefgp.workflow.model_names import Candidate

pytest.importorskip("typer")
pytest.importorskip("pandas")

from typer.testing import CliRunner

from sparse_prefgp.cli.app import app
from tests.killing import kill_after, run_whole
from tests.tolerances import FIXED_POINT, SAME_OPTIMUM, SAME_UTILITIES

ITERATIONS = 12
# Only the kernel moves, and that to its optimum.
LONG = ("--refit", "--fixed-inducing", "--kernel", "se", "--max-iterations", 300, "--least-gain", 0)


def command(tables: Path, out: Path, *more: Any) -> list[str]:
    files = ("--items", tables / "items.csv", "--duels", tables / "duels.csv", "--out", out)
    sizes = ("--inducing", 5, "--max-iterations", ITERATIONS, "--checkpoint-every", 2)
    return [str(word) for word in ("fit", *files, *sizes, *more)]


def fit(tables: Path, out: Path, *more: Any) -> Any:
    return CliRunner().invoke(app, command(tables, out, *more))


def evidence(out: Path, part: str = "fit") -> float:
    return float(json.loads((out / "metrics.json").read_text())[part]["log_evidence"])


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def whole(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit that nobody interrupted."""
    out = tmp_path_factory.mktemp("whole") / "out"
    result = fit(tables, out, *LONG)
    assert result.exit_code == 0, result.output
    assert "evidence per duel" in result.stdout and "sweeps" in result.stdout
    assert not (out / CHECKPOINTS).exists()
    return out


def interrupt(monkeypatch: pytest.MonkeyPatch, stage: str, iteration: int) -> Callable[[], None]:
    """Ctrl-C after an iteration of the stage "fit" or "refit"."""
    real = LbfgsState.moved
    runs: list[int] = []

    def moved(climb: LbfgsState, *point: Any) -> LbfgsState:
        if climb.iterations == 0:
            runs.append(0)
        if len(runs) == (1 if stage == "fit" else 2) and climb.iterations == iteration:
            raise KeyboardInterrupt
        return real(climb, *point)

    monkeypatch.setattr(LbfgsState, "moved", moved)
    return lambda: monkeypatch.setattr(LbfgsState, "moved", real)


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "iteration"), [("fit", 5), ("refit", 3)])
def test_interrupted_and_resumed(
    stage: str,
    iteration: int,
    tables: Path,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    undo = interrupt(monkeypatch, stage, iteration)
    result = fit(tables, out, *LONG)
    undo()
    assert result.exit_code == 130, result.output
    assert len(result.stderr.splitlines()) == 1
    assert "is kept in" in result.stderr and CHECKPOINTS in result.stderr
    assert "same command with --resume" in result.stderr
    before = contents(tmp_path)

    # Without --resume its work would be lost; with it, the rest must be the same.
    for more, message in (
        ((), "resume it with --resume, or begin again with --overwrite"),
        (("--resume", "--seed", 5), "of other duels or items"),
        (("--resume", "--kernel", "matern52"), "of another kernel"),
    ):
        refused = fit(tables, out, *LONG, *more)
        assert refused.exit_code == 2, refused.output
        assert len(refused.stderr.splitlines()) == 1 and message in refused.stderr
        assert contents(tmp_path) == before

    done = fit(tables, out, *LONG, "--resume")
    assert done.exit_code == 0, done.output
    assert "resumed from iteration" in " ".join(done.stdout.split())
    told = json.loads((out / "metrics.json").read_text())
    cut = {"fit": told["fit"], "refit": told["refit_fit"]}[stage]
    assert cut["resumed_at"] == iteration < cut["iterations"]
    names = [{n for n in contents(f) if not n.startswith("model/")} for f in (out, whole)]
    assert names[0] == names[1] and (out / "model").is_dir()
    same_optimum(out, whole)


def same_optimum(out: Path, whole: Path) -> None:
    mine, theirs = (json.loads((f / "metrics.json").read_text()) for f in (out, whole))
    for part in ("fit", "refit_fit"):
        one, other = mine[part], theirs[part]
        for each in (one, other):
            assert each["optimiser_converged"], each["optimiser_message"]
        allowed = one["duels"] * SAME_OPTIMUM
        assert one["log_evidence"] == pytest.approx(other["log_evidence"], abs=allowed)


@pytest.mark.slow
def test_nothing_to_go_on_from(tables: Path, whole: Path, tmp_path: Path) -> None:
    result = fit(tables, tmp_path / "new", *LONG, "--resume")
    assert result.exit_code == 0, result.output
    assert "the fit begins at the beginning" in " ".join(result.stdout.split())
    assert evidence(tmp_path / "new") == pytest.approx(evidence(whole), abs=FIXED_POINT)
    refused = fit(tables, tmp_path / "other", "--checkpoint-every", -1)
    assert refused.exit_code == 2 and "--checkpoint-every is -1" in refused.stderr


@pytest.mark.slow
def test_a_refit_goes_on_though_the_fit_was_too_short_for_a_checkpoint(
    tables: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start is the fitted model, which must be the same again."""
    out = tmp_path / "out"
    few = (*LONG, "--checkpoint-every", 301)
    undo = interrupt(monkeypatch, "refit", 3)
    assert fit(tables, out, *few).exit_code == 130
    undo()
    assert (out / CHECKPOINTS / FIT_FILE).exists()
    done = fit(tables, out, *few, "--resume")
    assert done.exit_code == 0, done.output
    told = json.loads((out / "metrics.json").read_text())
    assert told["refit_fit"]["resumed_at"] == 3
    assert told["fit"]["resumed_at"] == told["fit"]["iterations"]
    same_optimum(out, whole)


@pytest.mark.slow
def test_an_interrupted_choice_goes_on(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the comparison, then in the fit; no candidate is fitted a second time."""
    calls: list[tuple[str, int]] = []

    def candidate_fit(candidate: Candidate, train: Any, test: Any, **_: Any) -> FinishedFit:
        calls.append((str(candidate), hash(test.sides.tobytes())))
        if len(calls) == 5:
            raise KeyboardInterrupt
        nats = 0.5 if candidate.kernel == "se" else 0.501
        return FinishedFit(np.full(len(test), -nats), -0.5, True)

    monkeypatch.setattr(compare_module, "fit_candidate", candidate_fit)
    out, auto = tmp_path / "out", ("--kernel", "auto", "--refit")
    result = fit(tables, out, *auto)
    assert result.exit_code == 130, result.output
    assert "the fit so far is kept in" in result.stderr and len(calls) == 5
    kept = contents(out)
    assert set(kept) == {f"{CHECKPOINTS}/{CANDIDATES}"}
    for more, message in (
        ((), "resume it with --resume"),
        (("--resume", "--seed", 5), "of other duels, items or folds"),
        (("--resume", "--fixed-inducing"), "inducing inputs that were (not) fixed"),
    ):
        refused = fit(tables, out, *auto, *more)
        assert refused.exit_code == 2 and message in refused.stderr, refused.output
        assert contents(out) == kept

    undo = interrupt(monkeypatch, "fit", 5)
    assert fit(tables, out, *auto, "--resume").exit_code == 130
    undo()
    done, before = set(calls[:4]), len(calls)
    assert not done & set(calls[5:]) and len(set(calls[5:])) == len(calls) - 5
    result = fit(tables, out, *auto, "--resume")
    assert result.exit_code == 0, result.output
    assert len(calls) == before, "the finished comparison is not repeated"
    told = json.loads((out / "metrics.json").read_text())
    assert told["automatic"]["chosen"] == "se/vfe/5" and told["fit"]["kernel"] == "se"
    assert told["automatic"]["resumed_fits"] == len(calls) - 1
    assert told["fit"]["resumed_at"] == 5 and not (out / CHECKPOINTS).exists()


@pytest.mark.slow
def test_killed_choice_goes_on(tables: Path, tmp_path: Path) -> None:
    """kill -9 as soon as a fit of the comparison is kept."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    more = ("--approximation", "auto", "--kernel", "se", "--max-iterations", "3", "--quiet")
    place = out / CHECKPOINTS / CANDIDATES
    words = command(tables, out, *more)
    kill_after(1, words)
    assert not (out / "metrics.json").exists()
    kept = len(place.read_text().splitlines()) - 1
    run_whole([*words, "--resume"])
    assert fit(tables, whole, *more).exit_code == 0
    told, other = (json.loads((f / "metrics.json").read_text()) for f in (out, whole))
    assert told["automatic"]["resumed_fits"] == kept >= 1
    assert told["automatic"]["chosen"] == other["automatic"]["chosen"]
    assert told["fit"]["log_evidence"] == pytest.approx(
        other["fit"]["log_evidence"], abs=FIXED_POINT
    )


@pytest.mark.slow
def test_killed_fit_goes_on(tables: Path, whole: Path, tmp_path: Path) -> None:
    """kill -9 as soon as there is a checkpoint; the same command resumes from it."""
    out = tmp_path / "out"
    words = command(tables, out, *LONG, "--quiet")
    kill_after(3, words)
    assert not (out / "metrics.json").exists()
    run_whole([*words, "--resume"])
    assert not (out / CHECKPOINTS).exists()
    same_optimum(out, whole)


def league(rows: int = 120, names: int = 8) -> pd.DataFrame:
    """Results of a league of four years."""
    rng = np.random.default_rng(11)
    sides = np.array([rng.choice(names, 2, replace=False) for _ in range(rows)])
    gap = rng.normal(size=names)[sides] @ [1.0, -1.0] + rng.normal(size=rows)
    order = np.where(gap[:, None] > 0, sides, sides[:, ::-1])
    days = np.sort(rng.integers(0, 4 * 365, rows))
    return pd.DataFrame(
        {
            "winner": [f"t{i}" for i in order[:, 0]],
            "loser": [f"t{i}" for i in order[:, 1]],
            "date": (np.datetime64("2016-01-01") + days).astype(str),
            "tie": (np.abs(gap) < 0.2).astype(int),
        }
    )


@pytest.mark.slow
def test_killed_fit_in_time_is_resumed(tmp_path: Path) -> None:
    """kill -9 half way; the posterior at dates gone by and to come is that of an unbroken fit."""
    league().to_csv(tmp_path / "league.csv", index=False)
    files = ("--duels", tmp_path / "league.csv", "--time", "date", "--quiet")
    kernel = ("--kernel", "item-in-time(wiener,quarter)", "--max-iterations", 300)
    whole, out = tmp_path / "whole", tmp_path / "out"
    words = ["fit", *files, *kernel, "--checkpoint-every", 2, "--least-gain", 0]
    mine, theirs = ([str(word) for word in (*words, "--out", folder)] for folder in (out, whole))
    assert CliRunner().invoke(app, theirs).exit_code == 0
    kill_after(3, mine)
    assert not (out / "metrics.json").exists()
    refused = CliRunner().invoke(app, [*mine, "--resume", "--kernel", "item-in-time(matern12)"])
    assert refused.exit_code == 2 and len(refused.stderr.splitlines()) == 1, refused.output
    run_whole([*mine, "--resume"])
    told, other = (json.loads((f / "metrics.json").read_text()) for f in (out, whole))
    assert 0 < told["fit"]["resumed_at"] < told["fit"]["iterations"]
    for each in (told, other):
        assert each["fit"]["optimiser_converged"], each["fit"]["optimiser_message"]
    allowed = told["fit"]["duels"] * SAME_OPTIMUM
    assert evidence(out) == pytest.approx(evidence(whole), abs=allowed)
    found, expected = spg.load(out), spg.load(whole)
    assert found.in_time.slices == expected.in_time.slices == "quarter"
    for at in ("2017-05-01", "2025-01-01"):
        (one, variance), (two, other_variance) = (
            model.predict_f(model.inputs.of_items(at=at)) for model in (found, expected)
        )
        sd = np.sqrt(other_variance)
        assert np.max(np.abs(one - two) / sd) < SAME_UTILITIES
        assert np.max(np.abs(np.sqrt(variance) / sd - 1.0)) < SAME_UTILITIES


def test_what_a_kill_while_writing_leaves_does_not_stop_a_resume(tmp_path: Path) -> None:
    """A checkpoint, and next to it what the next one was being written into."""
    out = tmp_path / "out"
    left = out / CHECKPOINTS / f".{FIT_FILE}.abc{folders._UNFINISHED}"
    (left / "new").mkdir(parents=True)
    (out / CHECKPOINTS / FIT_FILE).write_bytes(b"numbers")
    assert is_checkpoint(out / CHECKPOINTS)
    check_folder(out)  # not refused
    (out / CHECKPOINTS / "thesis.txt").write_text("mine")
    assert not is_checkpoint(out / CHECKPOINTS)
    with pytest.raises(ValueError, match="is no part of a fit"):
        check_folder(out)
