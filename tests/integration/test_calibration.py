"""Whether intervals hold the truth as often as they say: `experiments/calibration`, smaller."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.tolerances import COVERAGE_OF_EP, IDENTITY, MONTE_CARLO_STANDARD_ERRORS


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = ROOT / "experiments" / "calibration" / "run.py"
    spec = importlib.util.spec_from_file_location("calibration_study", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_what_is_drawn(study: ModuleType) -> None:
    given = study.judged_world(3, 0.5)
    assert given.items.shape == (60, 2)
    assert len(given.winners) == len(given.ties) == 200
    assert len(np.unique(given.judges)) == len(given.ratios) == 10
    assert 0.1 < given.ties.mean() < 0.4
    assert given.ends.shape == (100, 2, 2) and given.truth.shape == (100,)
    again = study.judged_world(3, 0.5)
    np.testing.assert_array_equal(again.truth, given.truth)
    assert not np.array_equal(study.judged_world(4, 0.5).truth, given.truth)


@pytest.mark.slow
def test_intervals_with_ties_and_judges_hold_the_truth(study: ModuleType) -> None:
    exact = study.judged((0.5, "Exact", 40))
    for where in ("seen", "new"):
        error = MONTE_CARLO_STANDARD_ERRORS * exact[f"{where} error"]
        assert abs(exact[where] - 0.9) < error < 0.06
    assert exact["unsettled"] == 0
    whole, sparse = (study.judged((0.5, how, 8)) for how in ("Exact", "VFE"))
    for where in ("seen", "new"):
        assert sparse[where] == pytest.approx(whole[where], abs=IDENTITY)


@pytest.mark.slow
def test_with_little_noise_intervals_are_the_samplers(study: ModuleType) -> None:
    exact, sampler = (study.judged((0.01, how, 12)) for how in ("Exact", "sampler"))
    for where in ("seen", "new"):
        assert abs(exact[where] - sampler[where]) < COVERAGE_OF_EP
    assert sampler["unsettled"] <= 2  # sets in which some chain moves slowly at 500 draws
