"""The alternated mode: one sweep a gradient, checked evidence, the same optimum as nested."""

from __future__ import annotations

from dataclasses import replace

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.selection.objective import LOOSE_TOLERANCE, Objective
from sparse_prefgp.selection.optimise import OptimisationReport, Progress, optimise
from sparse_prefgp.selection.search import begin, finish, step
from sparse_prefgp.selection.settling import Settling
from tests.tolerances import FIXED_POINT, SMALL_POWER
from tests.unit.test_checkpoint import build


@pytest.fixture(scope="module")
def both() -> dict[str, tuple[OptimisationReport, list[Progress], spg.PreferenceGP]]:
    found = {}
    for mode in ("nested", "alternated"):
        model, seen = build(), []
        gpflow.set_trainable(model.inducing_variable, False)  # so that there is one optimum
        report = optimise(model, 100, mode=mode, callback=seen.append)
        found[mode] = report, seen, model
    return found


def test_same_optimum_for_fewer_sweeps(both: dict) -> None:
    nested, alternated = both["nested"][0], both["alternated"][0]
    assert nested.converged and alternated.converged
    assert alternated.log_evidence == pytest.approx(nested.log_evidence, abs=SMALL_POWER)
    each = [r.sweeps / r.evaluations for r in (nested, alternated)]
    assert each[1] < each[0]
    assert "alternated, " in str(alternated) and "alternated" not in str(nested)


def test_report_tells_converged_evidence_from_the_rest(both: dict) -> None:
    nested, alternated = both["nested"][0], both["alternated"][0]
    assert nested.mode == "nested" and nested.alternated_evaluations == 0
    assert nested.settled == (True,) * nested.iterations
    assert alternated.mode == "alternated"
    assert 0 < alternated.alternated_evaluations < alternated.evaluations
    assert len(alternated.settled) == alternated.iterations
    assert not all(alternated.settled) and alternated.settled[-1]
    # The last steps are nested, so the last evidence is that of the report.
    assert alternated.history[-1] == pytest.approx(alternated.log_evidence, abs=FIXED_POINT)
    assert [p.settled for p in both["alternated"][1]] == list(alternated.settled)
    assert both["alternated"][2].engine == ParallelEP()


def test_cut_off_it_reports_converged_evidence() -> None:
    model = build()
    report = optimise(model, 7, mode="alternated")
    assert report.iterations == 7 and not report.converged
    assert report.inference.converged
    again = build()
    for mine, theirs in zip(again.variables, model.variables, strict=True):
        mine.assign(theirs)
    assert report.log_evidence == pytest.approx(again.log_evidence(), abs=FIXED_POINT)
    assert report.log_evidence > report.log_evidence_start


def test_a_fall_in_evidence_is_taken_back() -> None:
    """As if unconverged sites had made worse parameters look better."""
    model = build()
    objective = Objective(model, list(model.trainable_variables), alternates=True)
    run = begin(objective, objective.get(), "alternated")
    assert run is not None
    good = step(objective, run, Settling(None, 1.0))
    worse = replace(
        good.state.point, position=good.state.point.position + 3.0, value=good.checked.value - 50.0
    )
    fooled = replace(good, state=replace(good.state, point=worse))
    back = finish(objective, fooled)
    assert back.setbacks == 1 and not back.alternated
    np.testing.assert_array_equal(back.checked.position, run.checked.position)
    assert back.checked.value == pytest.approx(run.checked.value, abs=FIXED_POINT)
    assert objective.settled() and len(back.state.steps) == 0
    objective.close()


def test_one_sweep_follows_the_fixed_point() -> None:
    """At parameters that stay, single sweeps converge to what inference finds."""
    model = build()
    objective = Objective(model, list(model.trainable_variables), alternates=True)
    flat = objective.get()
    objective.alternated = True
    values = [objective(flat)[0] for _ in range(30)]
    assert objective.counts.sweeps == objective.counts.evaluations == 30
    objective.alternated = False
    value, _ = objective(flat)
    assert values[-1] == pytest.approx(value, abs=FIXED_POINT)
    assert abs(values[0] - value) > FIXED_POINT
    objective.close()
    assert model.engine.tolerance < LOOSE_TOLERANCE


def test_item_effects() -> None:
    report = optimise(build(item=True), 4, mode="alternated")
    assert report.log_evidence > report.log_evidence_start


def test_refusals() -> None:
    with pytest.raises(ValueError, match="no mode 'quick'; choose one of nested, alternated"):
        optimise(build(), 3, mode="quick")
    model = build()
    model.engine = spg.SequentialEP()
    with pytest.raises(ValueError, match="ParallelEP, which SequentialEP does not have"):
        optimise(model, 3, mode="alternated")
