"""Titsias' (2008) tables on Snelson's data, through the approximations and optimiser of duels.

The study itself is experiments/titsias_toy/run.py; its README says what is to be seen.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import gpflow
import pytest

from tests.conftest import ROOT
from tests.tolerances import EVIDENCE, PUBLISHED_BOUND, PUBLISHED_DIGITS


def load_study() -> ModuleType:
    path = ROOT / "experiments" / "titsias_toy" / "run.py"
    spec = importlib.util.spec_from_file_location("titsias_toy", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


study = load_study()
LINES = {(line.row, line.points, line.m): line for line in study.published()}
FULL = {points: LINES["full_gp", points, 0].published["log_evidence"] for points in (200, 20)}


@pytest.fixture(scope="module")
def data(data_dir: Path) -> Path:
    if not (data_dir / "snelson1d" / "train.csv").is_file():
        pytest.skip(f"no snelson1d/train.csv in {data_dir}")
    return data_dir


def check_published(line: object, fit: object) -> None:
    """The bound and all parameters of a line, as printed."""
    assert fit.log_evidence == pytest.approx(line.published["log_evidence"], abs=PUBLISHED_BOUND)
    for name in study.PARAMETERS:
        assert getattr(fit, name) == pytest.approx(line.published[name], abs=PUBLISHED_DIGITS), name


def test_every_line_is_there() -> None:
    assert len(LINES) == 17
    assert sum(line.row == "variational" for line in LINES.values()) == 6


# The starts of the study that are needed until one ends where the tables do.
STARTS = {("variational", 20, 15): 5}


@pytest.mark.covering("('full_gp', 20, 0)")
@pytest.mark.parametrize("key", [k for k in LINES if k[0] in ("full_gp", "variational")], ids=str)
def test_published_line(key: tuple[str, int, int], data: Path) -> None:
    line = study.reproduce(LINES[key], data, STARTS.get(key, 1))
    check_published(line, line.nearest)
    if key[0] == "full_gp":
        return
    # A better optimum than the published one is a bound all the same.
    assert line.best.log_evidence >= line.published["log_evidence"] - PUBLISHED_BOUND
    assert line.best.log_evidence < FULL[line.points] + PUBLISHED_BOUND
    # And it is one to GPflow, too.
    model = line.best.model
    x, y = study.read_data(data, line.points)
    with gpflow.config.as_context(gpflow.config.Config(jitter=0.0)):
        theirs = gpflow.models.SGPR(
            (x, y[:, None]),
            gpflow.utilities.deepcopy(model.kernel),
            model.inducing_variable.Z.numpy(),
            noise_variance=line.best.noise_variance,
        )
        assert line.best.log_evidence == pytest.approx(float(theirs.elbo()), abs=EVIDENCE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "key",
    [k for k in LINES if k[0] in ("projected_process", "fitc") and k != ("fitc", 200, 8)],
    ids=str,
)
def test_pattern_of_what_is_no_bound(key: tuple[str, int, int], data: Path) -> None:
    """Above the full GP's evidence at its own optimum, which a bound cannot be."""
    fit = study.fit(LINES[key], data, 0)
    assert LINES[key].published["log_evidence"] > FULL[key[1]]
    assert fit.log_evidence > FULL[key[1]]
    # Beyond the bound, what is learned explains noise as function.
    assert fit.noise_variance < LINES["full_gp", key[1], 0].published["noise_variance"]
