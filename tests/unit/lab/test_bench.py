"""The benchmarks at tiny sizes: that they run, and that the two sides solve the same problem."""

import json

import gpflow
import numpy as np
import pytest
import tensorflow as tf
import typer
from typer.testing import CliRunner

from sparse_prefgp.cli.bench import bench
from sparse_prefgp.factors.truncated_normal import log_normal_cdf
from sparse_prefgp.lab import benchmarks
from sparse_prefgp.lab.benchmarks import (
    engines,
    exact,
    optimise,
    point,
    race,
    roofline,
    scaling,
    sets,
    stream,
    sweep,
)
from sparse_prefgp.lab.benchmarks.drawing import draw
from sparse_prefgp.lab.benchmarks.point import BenchmarkPoint
from sparse_prefgp.lab.benchmarks.problems import NOISE_VARIANCE, make_problem
from sparse_prefgp.lab.benchmarks.svgp import (
    GaussHermiteLikelihood,
    make_svgp,
)
from sparse_prefgp.models import PreferenceGP
from tests.tolerances import PARTS


def _check_report(report):
    json.dumps(report.as_json(), allow_nan=False)
    for table in report.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_unknown_name_and_budget():
    assert benchmarks.chosen("all") == benchmarks.BENCHMARKS
    with pytest.raises(ValueError, match="no benchmark 'fast'; choose one of exact"):
        benchmarks.chosen("fast")
    with pytest.raises(ValueError, match="no benchmark"):
        benchmarks.run("fast")
    with pytest.raises(ValueError, match="budget must be a positive"):
        benchmarks.run("svgp", budget=0.0)
    with pytest.raises(ValueError, match="only svgp is stopped by time"):
        benchmarks.run("exact", budget=3.0)
    benchmarks.check_budget(3.0, benchmarks.chosen("all"))


def _command(*arguments):
    app = typer.Typer()
    app.command()(bench)
    return CliRunner().invoke(app, arguments)


def test_command_refuses_in_one_sentence(tmp_path):
    result = _command("fast", "--out", str(tmp_path / "bench"))
    assert result.exit_code == 2
    assert "no benchmark 'fast'" in result.output
    assert not (tmp_path / "bench").exists()


def test_command_prints_and_writes(tmp_path, monkeypatch):
    report = exact.measure(t=5, repeats=1)
    monkeypatch.setattr(exact, "run", lambda **settings: report)
    result = _command("exact", "--out", str(tmp_path / "bench"))
    assert result.exit_code == 0, result.output
    assert "dense inverses" in result.output
    assert not (tmp_path / "bench" / "exact.png").exists()  # no panels, no figure
    written = json.loads((tmp_path / "bench" / "exact.json").read_text())
    assert written["name"] == "exact"
    assert written["machine"]["cores"] >= 1
    table = (tmp_path / "bench" / "exact.md").read_text()
    assert table.startswith("## ") and table.count("\n|") == 2 + len(report.tables[0].rows)


def test_exact_runs():
    report = exact.measure(t=12, repeats=1)
    _check_report(report)
    assert all(run["converged"] for run in report.figures["runs"])


def test_sweep_runs():
    report = sweep.measure(t=60, n=20, m=5, repeats=1)
    _check_report(report)
    assert set(report.figures["ratio"]) == {"eager", "compiled"}


def test_sets_run():
    report = sets.measure(count=20, n=12, m=5, repeats=1)
    _check_report(report)
    assert report.figures["ratio"]["duels"] == 1.0
    assert [row[1] for row in report.tables[0].rows[1:]] == ["60"] * 3


@pytest.fixture
def in_this_process(monkeypatch):
    """Points without a process each, which takes seconds to begin."""
    monkeypatch.setattr(BenchmarkPoint, "run", point.measure)
    memory = point._memory
    # What this process has used before may be enough for a point: its peak need not grow.
    monkeypatch.setattr(point, "_memory", lambda kind: memory(kind) + 4096 * (kind == "VmHWM"))


def _is_picture(path):
    return path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_roofline_runs(in_this_process, tmp_path):
    report = roofline.measure(t=60, n=20, m=5, repeats=1)
    _check_report(report)
    assert report.figures["rows_of_product"] == 60
    assert report.figures["converged"] and report.figures["of_product"][roofline.SWEEP] > 0.0
    assert report.figures["of_product"][roofline.PRODUCT] == 1.0
    draw(report, tmp_path / "roofline.png")
    assert _is_picture(tmp_path / "roofline.png")


def test_product_of_many_rows_is_taken_on_a_tenth():
    product, share = roofline.dense_product(300_000, 2)
    assert share == 0.1 and product().shape == (2, 2)


@pytest.mark.slow
def test_scaling_runs(in_this_process, tmp_path):
    points = tuple(BenchmarkPoint(60, 20, m) for m in (2, 4, 8))
    parts = scaling.Series("P", "parts", (BenchmarkPoint(60, 20, 4, parts=2),))
    report = scaling.measure([scaling.Series("m, made", "m", points), parts])
    _check_report(report)
    assert all(p["converged"] for s in report.figures["series"] for p in s["points"])
    whole, in_parts = (s["points"] for s in report.figures["series"])
    assert all(p["gradient_seconds"] > 0.0 for p in whole)
    assert in_parts[0]["gradient_seconds"] is None
    draw(report, tmp_path / "scaling.png")
    assert _is_picture(tmp_path / "scaling.png")


def test_a_gradient_that_does_not_fit_is_left_out(in_this_process, monkeypatch):
    monkeypatch.setattr(point, "free_memory", lambda: 2 * 14 * 8 * 20 * 4 - 2)
    report = scaling.measure([scaling.Series("t", "t", (BenchmarkPoint(60, 20, 4),))])
    (found,) = report.figures["series"][0]["points"]
    assert found["gradient_seconds"] is None and found["memory_bytes"] > 0


def test_exponent():
    x = [10.0, 100.0, 1000.0]
    assert scaling.exponent(x, [2.0 * value**1.5 for value in x])[0] == pytest.approx(1.5)
    assert scaling.exponent(x[:2], x[:2]) is None


def test_equal_costs_do_not_grow():
    assert scaling.exponent([10.0, 100.0, 1000.0], [4096.0] * 3) == (0.0, 0.0)


@pytest.mark.slow
def test_stream_runs(in_this_process):
    report = stream.measure({60: {stream.HERE: (1, 2)}}, 20, 4, 40)
    _check_report(report)
    (series,) = report.figures["series"]
    assert series["prefix_difference"] < PARTS
    one, two = series["points"]
    assert one["log_evidence"] == pytest.approx(two["log_evidence"], rel=1e-3)
    # Never fewer bytes than the numbers that a part must be told.
    assert min(two["bytes_sent"]) >= 8 * report.figures["numbers"]


@pytest.mark.slow
def test_streams_on_workers_have_the_evidence_of_one_process():
    report = stream.run(quick=True)
    (series,) = report.figures["series"]
    assert [p["scheduler"] for p in series["points"]] == ["", "", "local"]
    evidence = [p["log_evidence"] for p in series["points"]]
    assert evidence == pytest.approx(evidence[:1] * 3, rel=1e-3)
    assert min(series["points"][2]["bytes_sent"]) >= 8 * report.figures["numbers"]


@pytest.mark.slow
def test_a_point_has_a_process_of_its_own():
    found = BenchmarkPoint(40, 20, 4).run()
    assert found["converged"] and found["memory_bytes"] > 0
    with pytest.raises(RuntimeError, match="ended with code 1"):
        BenchmarkPoint(40, 20, 400).run()


@pytest.mark.slow
def test_engines_run(tmp_path):
    report = engines.measure(t=60, n=20, m=5, sequential_t=30, repeats=1)
    _check_report(report)
    many, few = report.figures["parallel"]["engines"], report.figures["sequential"]["engines"]
    assert many[engines.BASE]["ratio"] == few[engines.BASE]["ratio"] == 1.0
    draw(report, tmp_path / "engines.png")
    assert _is_picture(tmp_path / "engines.png")
    assert len(many) == 5 and len(few) == 3
    assert all(each["converged"] for each in (*many.values(), *few.values()))
    assert len({each["log_evidence"] for each in many.values()}) == 5


@pytest.mark.slow
def test_race_runs():
    report = race.measure([race.Case(40, 15, smooth=True)], m=4, held_out=20, budget=0.3)
    _check_report(report)
    assert len(report.figures["cases"][0]["methods"]) == 4


@pytest.mark.slow
def test_optimise_runs():
    report = optimise.measure(t=40, n=15, m=4, iterations=6, held_out=20, repeats=1)
    _check_report(report)
    for case in report.figures["cases"]:
        assert case["cold_over_warm"] > 0.0
        warm, cold = (case["ways"][way] for way in (optimise.WARM, optimise.COLD))
        # From zero and to a tighter tolerance, for every gradient.
        assert cold["sweeps"] > warm["sweeps"]
        assert cold["log_evidence_per_duel"] == pytest.approx(
            warm["log_evidence_per_duel"], abs=optimise.MARGIN
        )
        assert min(warm["log_evidence_per_duel"], cold["log_evidence_per_duel"]) >= case["target"]
        learned, kmeans = (case["inducing"][key] for key in ("learned", "k-means"))
        assert learned["log_evidence_per_duel"] != kmeans["log_evidence_per_duel"]
        assert 0.0 < learned["held_out_nats"] and 0.0 < kmeans["held_out_nats"]


@pytest.mark.parametrize(("t", "n"), [(30, 60), (30, 12)])
def test_problem(t, n):
    problem = make_problem(t, n, held_out=7)
    pairs = np.sort(np.stack([problem.duels.winners, problem.duels.losers]), axis=0)
    assert np.unique(pairs, axis=1).shape == (2, t)
    assert problem.winners.shape == problem.losers.shape == (7, 4)
    again = make_problem(t, n, held_out=7)
    assert np.array_equal(again.duels.winners, problem.duels.winners)


def test_compare():
    when = np.array([1.0, 2.0, 3.0])
    ours = next(iter(race.OURS))
    curves = {
        ours: (when, np.array([0.5, 0.30, 0.31])),
        race.LBFGS: (when, np.array([0.6, 0.5, 0.2])),
        race.NATURAL: (when, np.array([np.nan, 0.9, 0.8])),
    }
    found = race.compare(curves, ours)
    assert found.target == pytest.approx(0.3 + race.MARGIN)
    assert (found.ours, found.rival, found.ratio) == (2.0, 3.0, 1.5)


def test_likelihood_expectation():
    rng = np.random.default_rng(0)
    likelihood = GaussHermiteLikelihood(NOISE_VARIANCE)
    mean, variance = tf.constant([[0.7]], tf.float64), tf.constant([[0.4]], tf.float64)
    expected = likelihood.variational_expectations(
        tf.zeros([1, 1], tf.float64), mean, variance, tf.ones([1, 1], tf.float64)
    )
    draws = 0.7 + np.sqrt(0.4) * rng.standard_normal(400_000)
    sample = log_normal_cdf(tf.constant(draws)).numpy()
    error = 4 * sample.std() / np.sqrt(len(sample))
    assert float(expected[0]) == pytest.approx(sample.mean(), abs=error)


def test_both_sides_have_the_same_prior():
    """With q(u) at the prior, SVGP's predictive variance is the prior variance of a difference."""
    problem = make_problem(20, 40, held_out=5)
    kernel = gpflow.kernels.Matern52(lengthscales=np.ones(4))
    z = problem.duels.items[:6]
    model = make_svgp(kernel, z, 20)
    pairs = np.concatenate([problem.winners, problem.losers], 1)
    mean, variance = model.predict_f(pairs)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    both = kernel(np.stack([problem.winners, problem.losers], 1)).numpy()
    prior = both[:, 0, 0] + both[:, 1, 1] - 2 * both[:, 0, 1]
    np.testing.assert_allclose(variance[:, 0], prior, rtol=1e-6)
    ours = PreferenceGP(problem.duels, kernel, inducing_variable=z)
    assert np.array_equal(ours.inducing_variable.Z, model.inducing_variable.Z)
