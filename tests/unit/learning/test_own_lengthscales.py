"""A lengthscale for each column after one for all."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparse_prefgp as spg
from sparse_prefgp.learning.own_lengthscales import LEAST_LINEAR, begin_own, learn_own
from sparse_prefgp.learning.report import OptimisationReport
from sparse_prefgp.workflow.holdout import groups_of, prepare
from sparse_prefgp.workflow.settings import FitSettings

ATTRIBUTES = 16


def table(seed: int = 0, items: int = 60, duels: int = 900) -> spg.Duels:
    """Of 16 numbers, of which one alone tells, and a column of four categories."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(items, ATTRIBUTES))
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(ATTRIBUTES)])
    frame.insert(0, "item_id", [f"i{k}" for k in range(items)])
    frame["kind"] = rng.choice(list("abcd"), items)
    f = 2.5 * np.sin(2.5 * x[:, 0])
    pairs = np.array([rng.choice(items, 2, replace=False) for _ in range(duels)])
    first = f[pairs[:, 0]] + rng.normal(size=duels) > f[pairs[:, 1]]
    pairs = np.where(first[:, None], pairs, pairs[:, ::-1])
    ids = frame["item_id"].to_numpy()
    return spg.read_duels(frame, pd.DataFrame(ids[pairs], columns=["winner", "loser"]))


@pytest.fixture(scope="module")
def begun() -> Any:
    """A model before its lengthscales are its columns' own, and what makes them."""
    settings = FitSettings(kernel="linear+ard(matern52)", inducing=20, test_fraction=0.0)
    holdout = prepare(table(), settings)
    model = holdout.model(holdout.first_inputs())
    spg.default_priors(model)
    groups = groups_of(holdout.train)
    return model, settings.kernel_choice.staged(model.kernel, groups), groups


def test_own_lengthscales_begin_at_the_evidence_of_one(begun: Any) -> None:
    model, kernels, groups = begun
    (kernel,) = kernels
    assert kernel.lengthscales.shape.rank == 0
    kernel.lengthscales.assign(1.7)
    model.infer(restart=True)
    before = model.log_evidence()
    assert begin_own(model, kernels, [group.columns for group in groups]) == ATTRIBUTES + 1
    model.infer(restart=True)
    assert model.log_evidence() == pytest.approx(before, abs=1e-9)
    np.testing.assert_allclose(kernel.lengthscales.numpy(), 1.7, rtol=1e-14)
    assert kernel.lengthscales.shape == (ATTRIBUTES + 4,)
    # Categories count as one attribute: their lengthscale moves as one, and its log has sd 1.
    (kind,) = [list(group.columns) for group in groups if group.name == "kind"]
    free = kernel.lengthscales.unconstrained_variable
    at = kernel.lengthscales.log_prior_density().numpy()
    free.assign(free.numpy() + np.eye(ATTRIBUTES + 4)[kind[1]])
    moved = kernel.lengthscales.numpy()
    assert len({*moved[kind]}) == 1 and moved[kind[0]] > 1.71
    np.testing.assert_allclose(np.delete(moved, kind), 1.7, rtol=1e-14)
    lost = at - kernel.lengthscales.log_prior_density().numpy()
    assert lost == pytest.approx(0.5 * np.log(moved[kind[0]] / 1.7) ** 2)


def test_a_linear_term_that_is_nearly_gone_begins_again() -> None:
    holdout = prepare(table(), FitSettings(kernel="linear+ard(se)", inducing=8))
    model = holdout.model(holdout.first_inputs())
    linear = model.kernel.kernels[0]
    linear.variance.assign(1e-9)
    begin_own(model, [model.kernel.kernels[1]], [[i] for i in range(ATTRIBUTES + 4)])
    assert linear.variance.numpy() == pytest.approx(LEAST_LINEAR / (ATTRIBUTES + 4))


@pytest.mark.slow
def test_the_default_learns_which_column_tells(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = spg.fit(duels=table(), inducing=40, integrate="no", max_iterations=25, out=out)
    assert spg.load(out).log_evidence() == pytest.approx(found.model.log_evidence(), rel=1e-9)
    assert found.settings.kernel == "linear+ard(matern52)"
    scales = found.model.kernel.kernels[1].lengthscales.numpy()
    kind = slice(ATTRIBUTES, ATTRIBUTES + 4)
    assert scales[0] < 0.7 * np.delete(scales, 0).min() and len({*scales[kind]}) == 1
    said = found.figures["fit"]["own_lengthscales"]
    assert said in found.figures["notes"] and said.endswith("and are kept.")
    assert said.startswith(f"Lengthscales of {ATTRIBUTES + 1} columns, begun at the optimum")
    one = spg.fit(
        duels=table(), kernel="linear+iso(matern52)", inducing=40, integrate="no", max_iterations=25
    )
    assert found.report.log_evidence > one.report.log_evidence + 2.0
    nats = [x.figures["held_out"]["model"]["nlp_nats"] for x in (found, one)]
    assert nats[0] < nats[1]


@pytest.mark.slow
def test_one_lengthscale_stays_where_more_bring_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparse_prefgp.learning.own_lengthscales.LEAST_GAIN", 1e6)
    how = {"inducing": 12, "integrate": "no", "max_iterations": 6}
    found = spg.fit(duels=table(), kernel="linear+ard(matern52)", **how)
    one = spg.fit(duels=table(), kernel="linear+iso(matern52)", **how)
    assert found.model.kernel.kernels[1].lengthscales.shape.rank == 0
    assert found.model.log_evidence() == pytest.approx(one.model.log_evidence(), abs=1e-9)
    assert found.report.own_lengthscales.endswith("so that one for all is kept.")


def test_a_term_that_died_gets_none() -> None:
    asked = FitSettings(kernel="ard(se)", inducing=8)
    holdout = prepare(table(), asked)
    model = holdout.model(holdout.first_inputs())
    model.kernel.variance.assign(1e-6)
    needed = [x.name for x in fields(OptimisationReport) if x.default is MISSING]
    report = OptimisationReport(**dict.fromkeys(needed, 0.0))
    left = learn_own(model, [model.kernel], [[0], [1]], report, lambda steps: report)
    assert "were not learned, as hardly any variance" in left.own_lengthscales


def test_own_lengthscales_are_no_factor() -> None:
    with pytest.raises(ValueError, match=r"ard\(matern52\) inside a product"):
        FitSettings(kernel="linear*ard(matern52)")
