"""A run ends where ten iterations together bring next to nothing; the limit is for the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.learning.checkpoint import Checkpoint, Interrupted
from sparse_prefgp.learning.lbfgs import Settling, window
from sparse_prefgp.learning.optimise import OptimisationReport, Progress, optimise

# Coarse enough for a small problem to settle before it has converged.
COARSE = 2e-3


def duels(copies: int = 1, weight: float | None = None) -> spg.Duels:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(30, 4))
    pairs = rng.permuted(np.tile(np.arange(30), (150, 1)), axis=1)[:, :2]
    utility = np.sin(2.0 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2]
    noisy = utility[pairs] + 0.4 * rng.normal(size=pairs.shape)
    losers, winners = np.take_along_axis(pairs, np.argsort(noisy, axis=1), axis=1).T
    weights = None if weight is None else np.full(len(pairs) * copies, weight)
    return spg.Duels(x, np.tile(winners, copies), np.tile(losers, copies), weights=weights)


def build(data: spg.Duels | None = None) -> spg.PreferenceGP:
    data = duels() if data is None else data
    kernel = gpflow.kernels.Linear(variance=np.ones(4)) + gpflow.kernels.Matern52(
        lengthscales=np.ones(4)
    )
    return spg.PreferenceGP(
        data, kernel, approximation=spg.VFE(), inducing_variable=data.items[:12].copy()
    )


def followed(model: spg.PreferenceGP, **settings: object) -> tuple[OptimisationReport, list[float]]:
    """The report, and log evidence plus log prior after each iteration, the first values first."""
    values = [model.log_evidence() + float(model.log_prior_density())]

    def keep(progress: Progress) -> None:
        values.append(progress.log_evidence + float(model.log_prior_density()))

    return optimise(model, 80, callback=keep, **settings), values


@pytest.fixture(scope="module")
def coarse() -> tuple[OptimisationReport, list[float]]:
    return followed(build(), least_gain=COARSE)


def test_the_rule() -> None:
    rule = Settling(1e-5, 1000.0)  # 0.01 nats in ten iterations
    assert not rule.settled(float("nan"), 0.0)
    assert not rule.settled(0.011, 0.0)
    assert not rule.settled(0.009, 0.5)  # slow, but a step that brings more is in sight
    assert rule.settled(0.009, 0.002) == (
        "settled: the last 10 iterations together brought 9.0e-06 nats per duel"
    )
    of_choices = Settling(1e-5, 1000.0, "choice")
    assert of_choices.settled(0.009, 0.002).endswith("9.0e-06 nats per choice")
    assert not Settling(None, 1000.0).settled(0.0, 0.0)
    assert rule.settled(0.009, 0.0, 5).startswith("settled: the last 5 iterations")


def test_the_last_iterations_are_no_more_than_there_are_parameters() -> None:
    assert [window(n) for n in (1, 3, 7, 10, 5000)] == [3, 3, 7, 10, 10]


@pytest.mark.slow
def test_ends_at_the_first_ten_iterations_that_bring_too_little(
    coarse: tuple[OptimisationReport, list[float]],
) -> None:
    exact, values = followed(build(), least_gain=None)
    assert not exact.message.startswith("settled")
    report, until = coarse
    assert report.converged and not report.starts[0].limit_reached
    assert report.message.startswith("settled: the last 10 iterations together brought")
    assert report.message in str(report)
    ended = report.iterations
    assert 10 < ended < exact.iterations
    np.testing.assert_array_equal(until, values[: ended + 1])
    gains = [(values[i] - values[i - 10]) / 150 for i in range(10, len(values))]
    assert gains[ended - 10] < COARSE
    # Where it did not end before, more was in sight, and came.
    for i in range(10, ended):
        if gains[i - 10] < COARSE:
            assert (values[i + 1] - values[i]) / 150 > 0.1 * COARSE
    assert report.log_evidence + report.log_prior == pytest.approx(values[ended], abs=1e-4)


@pytest.mark.slow
def test_the_limit_is_for_what_has_not_settled(
    coarse: tuple[OptimisationReport, list[float]], tmp_path: Path
) -> None:
    """One run, cut just before it settles, and resumed for a single iteration."""
    ended, place = coarse[0].iterations, Checkpoint(tmp_path / "kept")
    cut = optimise(build(), ended - 1, least_gain=COARSE, checkpoint=place)
    assert not cut.converged and "limit" in cut.message and cut.starts[0].limit_reached
    place = replace(place, resume=True)
    at_the_limit = optimise(build(), ended, least_gain=COARSE, checkpoint=place)
    assert at_the_limit.converged and at_the_limit.message.startswith("settled")


@pytest.mark.slow
def test_a_duel_counts_as_often_as_its_count_and_weight() -> None:
    """Every duel twice, by copies or by weights, is an objective twice as large."""
    copied, first = followed(build(duels(copies=2)), least_gain=COARSE)
    weighted, second = followed(build(duels(weight=2.0)), least_gain=COARSE)
    assert copied.message.startswith("settled") and copied.message == weighted.message
    np.testing.assert_allclose(first, second, rtol=1e-8)


@pytest.mark.slow
def test_every_start_ends_by_itself() -> None:
    report = optimise(build(), 160, starts=3, rng=np.random.default_rng(1), least_gain=COARSE)
    assert len({start.iterations for start in report.starts}) > 1
    assert all(start.message.startswith("settled") for start in report.starts)


def stop_after(iteration: int) -> Callable[[Progress], None]:
    def stop(progress: Progress) -> None:
        if progress.iteration == iteration:
            raise KeyboardInterrupt

    return stop


@pytest.mark.slow
@pytest.mark.parametrize("before", [1, 6, 11])
def test_resumed_settles_too(before: int, tmp_path: Path) -> None:
    """Interrupted inside the ten iterations that decide.

    Where more is not in sight, that is: without its curvature a run may find what another missed.
    """
    gain = COARSE / 4
    whole = optimise(build(), 200, least_gain=gain)
    place = Checkpoint(tmp_path / "kept", every=1)
    with pytest.raises(Interrupted):
        optimise(
            build(),
            200,
            callback=stop_after(whole.iterations - before),
            checkpoint=place,
            least_gain=gain,
        )
    again = optimise(build(), 200, checkpoint=replace(place, resume=True), least_gain=gain)
    kept = whole.iterations - before
    assert again.resumed_at == kept < again.iterations
    assert again.history[:kept] == whole.history[:kept]
    assert again.converged and again.message.startswith("settled: the last 10 iterations")
    # Of the ten, those before the interruption count.
    assert again.iterations <= whole.iterations + 10
    assert again.log_evidence == pytest.approx(whole.log_evidence, abs=150 * gain)


@pytest.mark.slow
@pytest.mark.parametrize("gradients", [{}, {"gradients": "subset", "subset": 80, "polish": 2}])
def test_streamed(gradients: dict, tmp_path: Path) -> None:
    coarse = 1e-2

    def learn(limit: int = 60, **more: object) -> spg.results.OptimisationReport:
        data = duels()
        model = spg.StreamedGP(
            spg.stream_duels(data),
            gpflow.kernels.Matern52(lengthscales=np.ones(4)),
            approximation=spg.VFE(),
            inducing_variable=data.items[:6].copy(),
        )
        rng = np.random.default_rng(0)
        return spg.optimise(model, limit, rng=rng, **gradients, **more)

    steps = []
    whole = learn(least_gain=coarse, callback=steps.append)
    assert whole.converged and whole.message.startswith("settled: the last 10 iterations")
    assert 10 < whole.iterations < 60
    per_duel = [step.per_duel for step in steps if step.of != "all duels"]  # nothing has a prior
    assert per_duel[-1] - per_duel[-11] < coarse
    cut = learn(whole.iterations - 1, least_gain=coarse)
    assert not cut.converged and "limit" in cut.message
    if gradients:  # of a subset nothing is kept
        return

    class Stop(Exception):
        pass

    def stop(step: object) -> None:
        if step.iteration == whole.iterations - 3:
            raise Stop

    place = Checkpoint(tmp_path / "kept", every=1)
    with pytest.raises(Stop):
        learn(least_gain=coarse, checkpoint=place, callback=stop)
    again = learn(least_gain=coarse, checkpoint=replace(place, resume=True))
    assert again.resumed_at == whole.iterations - 3 < again.iterations
    assert again.converged and again.message.startswith("settled: the last 10 iterations")
    assert again.log_evidence == pytest.approx(whole.log_evidence, abs=150 * coarse)


@pytest.mark.parametrize("wrong", [0.0, -1e-5, float("nan"), float("inf"), "1e-5", True])
def test_what_makes_no_sense_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"least gain of ten iterations is .*such as 1e-5"):
        optimise(build(), 3, least_gain=wrong)
    with pytest.raises(ValueError, match=r"least_gain is .*; give a number"):
        spg.compare(["se/exact"], duels(), least_gain=wrong)


@pytest.mark.slow
def test_fit_says_it_and_the_limit_alarms_for_what_has_not_settled(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    pytest.importorskip("pandas")
    from typer.testing import CliRunner

    from sparse_prefgp.cli.app import app

    data = duels()
    items, rows = tmp_path / "items.csv", tmp_path / "duels.csv"
    columns = ",".join("abcd")
    lines = [f"{i}," + ",".join(f"{v:.8f}" for v in row) for i, row in enumerate(data.items)]
    items.write_text(f"item_id,{columns}\n" + "\n".join(lines) + "\n")
    pairs = zip(data.winners, data.losers, strict=True)
    rows.write_text("winner,loser\n" + "\n".join(f"{w},{loser}" for w, loser in pairs) + "\n")

    def fit(name: str, *more: str) -> tuple[str, dict]:
        words = ["fit", "--items", items, "--duels", rows, "--out", tmp_path / name]
        result = CliRunner().invoke(app, [*map(str, words), "--inducing", "10", *more])
        assert result.exit_code == 0, result.output
        figures = json.loads((tmp_path / name / "metrics.json").read_text())["fit"]
        return " ".join(result.output.split()), figures

    text, figures = fit("settled", "--least-gain", str(COARSE), "--max-iterations", "80")
    assert "The optimiser settled: the last 10 iterations together brought" in text
    assert "ended the fit" not in text
    assert "fitted to the training duels alone; --refit fits it to all of them." in text
    assert figures["optimiser_converged"] and figures["least_gain"] == COARSE
    assert figures["optimiser_message"].startswith("settled")
    last = str(figures["iterations"])
    text, _ = fit("at_the_limit", "--least-gain", str(COARSE), "--max-iterations", last)
    assert "ended the fit" not in text
    text, figures = fit("cut", "--least-gain", "0", "--max-iterations", last)
    assert f"Note: The limit of {last} iterations (max_iterations) ended the fit" in text
    assert figures["least_gain"] is None and not figures["optimiser_converged"]
