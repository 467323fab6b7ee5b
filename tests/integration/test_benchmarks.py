"""The benchmarks at tiny sizes: that they run, and that what is compared is the same problem."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from experiments.benchmarks import (
    engines,
    exact,
    gpu,
    optimise,
    roofline,
    scaling,
    sets,
    shared,
    stream,
    svgp,
    sweep,
)
from tests.tolerances import PARTS

slow = pytest.mark.slow
POINTS = {("m", "m"): [scaling.Point(60, 20, m) for m in (2, 4, 8)]}
IN_PARTS = {("P", "parts"): [scaling.Point(60, 20, 4, parts=2)]}


@pytest.mark.parametrize(
    "measured",
    [
        pytest.param(lambda: exact.measure(12, 1), id="exact"),
        pytest.param(lambda: sweep.measure(60, 20, 5, 1), id="sweep"),
        pytest.param(lambda: sets.measure(20, 12, 5, 1), id="sets", marks=slow),
        pytest.param(lambda: engines.measure(60, 20, 5, 1), id="engines", marks=slow),
        pytest.param(lambda: roofline.measure(60, 20, 5, 1), id="roofline", marks=slow),
        pytest.param(lambda: scaling.measure(POINTS | IN_PARTS), id="scaling", marks=slow),
        pytest.param(
            lambda: svgp.measure([svgp.Case(40, 15, True)], 4, 20, 0.3), id="svgp", marks=slow
        ),
        pytest.param(lambda: optimise.measure(40, 15, 4, 6, 20, 1), id="optimise", marks=slow),
        pytest.param(lambda: gpu.measure([(60, 4)], 100.0), id="gpu", marks=slow),
    ],
)
@pytest.mark.covering(every=2)
def test_it_runs_at_tiny_size(
    measured: Callable[[], shared.Measured], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", "--out", str(tmp_path)])
    table, figures = measured()
    assert not table.is_empty
    shared.main("", lambda quick: (table, figures), scaling.draw if "series" in figures else None)
    kept = json.loads((tmp_path / f"{table.name}.json").read_text(encoding="utf-8"))
    assert kept["name"] == table.name and kept["machine"]["cores"] >= 1
    assert (tmp_path / f"{table.name}.md").read_text(encoding="utf-8").startswith("**")


@slow
def test_a_stream_and_its_workers_have_the_evidence_of_one_process() -> None:
    _, figures = stream.measure(stream.QUICK, 100, 8, 200)
    (series,) = figures["series"]
    assert series["prefix_difference"] < PARTS
    one, *others = (point["log_evidence"] for point in series["points"])
    assert others == pytest.approx([one, one], rel=1e-3)
    # Never fewer bytes than the numbers that a part must be told.
    assert all(min(point["bytes_sent"]) >= 8 * figures["numbers"] for point in series["points"][1:])


@slow
def test_what_takes_too_long_is_not_measured() -> None:
    table, figures = gpu.measure([(60, 4)], 0.0)
    assert all(row["fit"] is None for row in figures["rows"])
    assert "not measured" in str(table)


def test_both_sides_have_the_same_prior() -> None:
    """With q(u) at the prior, SVGP's predictive variance is the prior variance of a difference."""
    problem = shared.make_problem(20, 40, held_out=5)
    kernel = gpflow.kernels.Matern52(lengthscales=np.ones(4))
    z = problem.duels.items[:6]
    model = svgp.make_svgp(kernel, z, 20)
    mean, variance = model.predict_f(np.concatenate([problem.winners, problem.losers], 1))
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    both = kernel(np.stack([problem.winners, problem.losers], 1)).numpy()
    prior = both[:, 0, 0] + both[:, 1, 1] - 2 * both[:, 0, 1]
    np.testing.assert_allclose(variance[:, 0], prior, rtol=1e-6)
    ours = spg.PreferenceGP(problem.duels, kernel, inducing_variable=z)
    assert np.array_equal(ours.inducing_variable.Z, model.inducing_variable.Z)
