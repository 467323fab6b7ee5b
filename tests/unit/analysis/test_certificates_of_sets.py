"""What is known about the evidence of answers about sets, and how good EP is where it is known."""

from __future__ import annotations

import json
import math

import gpflow
import numpy as np
import pytest

import sparse_prefgp as spg
from sparse_prefgp.analysis.certificates import ep_error, evidence_report
from sparse_prefgp.data.answers import BEST_WORST, BEST_WORST_AT_ONCE, CHOICE, RANKING
from tests.tolerances import EVIDENCE, MONTE_CARLO_STANDARD_ERRORS
from tests.unit.models.test_sets import CASES, OF_SETS, TIGHT, model_of, sets

# EP less the truth where utilities are equal, for 3, 4, 6 and 10 alternatives: to the last digit.
EQUAL = {
    CHOICE: (-0.0018, -0.0037, -0.0068, -0.0113),
    RANKING: (0.0007, 0.0013, 0.0021, 0.0027),
    BEST_WORST_AT_ONCE: (0.0007, -0.0098, 0.017, 0.054),
    BEST_WORST: (-0.0018, -0.0055, -0.012, -0.022),
}


def log_answers(kind: int, k: int) -> float:
    """Log of how many answers there are."""
    if kind == RANKING:
        return math.lgamma(k + 1)
    return math.log(k if kind == CHOICE else k * (k - 1))


def equal_utilities(kind: int, k: int) -> spg.PreferenceGP:
    duels = spg.Duels.from_events(np.zeros((k, 1)), sets([kind], [list(range(k))]))
    return spg.PreferenceGP(
        duels, gpflow.kernels.Matern52(), approximation=spg.Exact(), engine=TIGHT
    )


@pytest.mark.parametrize(
    ("kind", "k", "error"),
    [
        (kind, k, error)
        for kind, errors in EQUAL.items()
        for k, error in zip((3, 4, 6, 10), errors, strict=True)
    ]
    + [(CHOICE, 50, -0.026)],
)
@pytest.mark.covering(every=4)
def test_ep_at_equal_utilities(kind: int, k: int, error: float) -> None:
    model = equal_utilities(kind, k)
    found = float(model.log_evidence()) + log_answers(kind, k)
    digits = len(str(error).split(".")[1])
    assert round(found, digits) == error
    assert abs(found) < ep_error(model)


@pytest.mark.parametrize("name", OF_SETS)
def test_ep_error_of_the_cases(name: str) -> None:
    case = CASES[name]
    found = ep_error(model_of(case))
    assert abs(case["ep"]["log_evidence"] - case["truth"]["log_evidence"]) < found < 1.0


@pytest.mark.parametrize("approximation", [spg.VFE(), spg.FITC(), spg.PITC(["a", "a", "b", "c"])])
@pytest.mark.covering(every=3)
def test_report(approximation: spg.Approximation) -> None:
    """Copies, a prior mean, and every kind of figure: all bounds below the truth."""
    case = CASES["prior_mean_and_counts"]
    z = np.array(case["X"])[:3] + 0.05
    model = model_of(case, approximation=approximation, inducing_variable=z)
    report = evidence_report(model, samples=10_000, rng=np.random.default_rng(0))
    truth = case["truth"]["log_evidence"]
    assert report.exact == pytest.approx(case["ep"]["log_evidence"], rel=EVIDENCE)
    assert report.sampled is not None and report.sampled.reliable
    error = math.hypot(report.sampled.standard_error, case["truth"]["standard_error"])
    away = abs(report.sampled.log_evidence - truth)
    assert away < MONTE_CARLO_STANDARD_ERRORS * error
    bounds = report.bounds
    assert bounds["vfe"] <= bounds["diagonal"] <= bounds["block"] <= bounds["logdet"] < truth
    assert bounds["rank"] <= bounds["logdet"]
    if approximation == spg.VFE():
        assert report.log_evidence == pytest.approx(bounds["vfe"], rel=EVIDENCE)
        assert report.refitted_bounds == {}
    else:
        assert report.lower_bound == max(report.refitted_bounds.values())
    names = {"expected", "diagonal", "block", "rank", "logdet"}
    assert report.lower_bounds.keys() == names
    assert report.lower_bound_row == "logdet"
    assert max(report.lower_bounds.values()) <= report.lower_bound < truth
    assert report.gap > 0.0 and report.skipped == ()
    assert (report.duels, report.weight, report.weight_used) == (7, 7.0, 7.0)
    text = str(report)
    assert "per answer" in text and "duel" not in text
    assert "TightVFE, block" in text


@pytest.mark.parametrize("z", [None, [[0.2, 0.4], [0.7, 0.6]]])
@pytest.mark.covering(every=2)
def test_report_without_a_lower_bound(z: list[list[float]] | None) -> None:
    case = CASES["best_and_worst_shared_noise"]
    model = model_of(
        case, approximation=spg.Exact() if z is None else spg.FITC(), inducing_variable=z
    )
    report = evidence_report(model, samples=500, rng=np.random.default_rng(0))
    assert math.isnan(report.lower_bound) and math.isnan(report.gap)
    assert report.lower_bounds == report.refitted_bounds == {} and report.lower_bound_row == ""
    (sentence,) = report.skipped
    assert sentence.startswith("There is no rigorous lower bound")
    assert report.exact == pytest.approx(case["ep"]["log_evidence"], rel=EVIDENCE)
    assert report.sampled is not None
    text = str(report)
    assert sentence in text and "lower bound," not in text
    found = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert found["lower_bound"] is None and found["unit"] == "answer"
    if z is not None:
        assert report.bounds["block"] < case["truth"]["log_evidence"]


def test_what_is_too_large_is_left_out_and_said() -> None:
    model = model_of(
        CASES["three_choices_of_4"],
        approximation=spg.DTC(),
        inducing_variable=[[0.2, 0.4], [0.7, 0.6]],
    )
    report = evidence_report(model, exact_up_to=8, sample_up_to=8)
    assert report.exact is None and report.sampled is None
    assert report.skipped == (
        "Exact EP was not run: 9 rows of answers are more than 8.",
        "The true evidence was not sampled: 9 rows of answers are more than 8.",
    )
