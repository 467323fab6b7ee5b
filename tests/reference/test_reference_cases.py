"""The slow code gives the published numbers: what the package is compared with can be trusted."""

import json
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from tests.reference.slow_approximations import (
    Kernel,
    gram,
    linear,
    matern52,
    slow_posterior,
    squared_exponential,
)
from tests.reference.slow_ep import slow_ep
from tests.reference.slow_truncated_normal import (
    log_cdf,
    one_minus_variance_reduction,
    ratio,
    truncated_normal,
)
from tests.tolerances import EVIDENCE, FIXED_POINT, IDENTITY, TAIL

DATA = Path(__file__).resolve().parents[1] / "data"


def _read(name: str) -> dict[str, Any]:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


DUEL_CASES = _read("duel_ep_cases.json")["cases"]
ORTHANT_CASES = _read("orthant_cases.json")["cases"]
CASE_ROWS = [
    pytest.param(i, row, id=f"{i + 1}-{row}")
    for i, case in enumerate(DUEL_CASES)
    for row in case["results"]
]


def _kernel(case: dict[str, Any]) -> Kernel:
    make = {"se": squared_exponential, "matern52": matern52}[case["kernel"]]
    return make(case["variance"], case["lengthscales"])


def _close(actual: Any, expected: float) -> None:
    """Relative to TAIL; numbers below the normal range of float64 hold fewer digits."""
    with mpmath.workdps(60):
        error = abs(actual - mpmath.mpf(expected))
        assert error <= TAIL * abs(mpmath.mpf(expected)) + mpmath.mpf(5e-324)


@pytest.mark.parametrize("values", _read("normal_tail.json")["rows"], ids=lambda r: f"{r['beta']}")
def test_tail(values: dict[str, float]) -> None:
    _close(log_cdf(values["beta"]), values["log_cdf"])
    _close(ratio(values["beta"]), values["ratio"])
    _close(one_minus_variance_reduction(values["beta"]), values["one_minus_variance_reduction"])


@pytest.mark.parametrize(
    "values", _read("normal_box.json")["rows"], ids=lambda r: f"{r['lower']}..{r['upper']}"
)
def test_box(values: dict[str, float]) -> None:
    lower, upper = values["lower"], values["upper"]
    result = truncated_normal(0.0, 1.0, lower, upper)
    near = lower if abs(lower) < abs(upper) else upper
    _close(result.log_mass, values["log_mass"])
    _close(result.mean, values["mean"])
    with mpmath.workdps(60):
        _close(result.mean - mpmath.mpf(near), values["mean_minus_near_end"])
    _close(result.variance, values["variance"])


@pytest.mark.parametrize("index", range(len(ORTHANT_CASES)))
def test_orthant(index: int) -> None:
    case = ORTHANT_CASES[index]
    covariance = np.array(case["cov"], dtype=float)
    result = slow_ep(np.zeros(len(covariance)), covariance)
    assert result.log_evidence == pytest.approx(case["ep"]["log_evidence"], abs=EVIDENCE, rel=0)
    np.testing.assert_allclose(result.mean, case["ep"]["mean"], atol=FIXED_POINT, rtol=0)
    np.testing.assert_allclose(result.covariance, case["ep"]["cov"], atol=FIXED_POINT, rtol=0)


@pytest.mark.parametrize(("index", "row"), CASE_ROWS)
@pytest.mark.covering(every=20)
def test_duels(index: int, row: str) -> None:
    case = DUEL_CASES[index]
    expected = case["results"][row]
    name, power = ("prior_power", 0.5) if row == "prior_power_0.5" else (row, None)
    result = slow_posterior(
        case["items"],
        case["winners"],
        case["losers"],
        _kernel(case),
        case["noise_variance"],
        name,
        inducing=case["inducing"],
        test_items=case["test_items"],
        power=power,
        blocks=case["blocks"],
    )
    assert result.log_evidence == pytest.approx(expected["log_evidence"], abs=EVIDENCE, rel=0)
    np.testing.assert_allclose(result.mean, expected["mean"], atol=FIXED_POINT, rtol=0)
    np.testing.assert_allclose(result.cov, expected["cov"], atol=FIXED_POINT, rtol=0)


def test_residual_forms_of_case_five() -> None:
    """The table of method section 3: diagonal -212, rank -147, log-determinant -109, exact -68."""
    case = DUEL_CASES[4]
    evidence = [
        slow_posterior(
            case["items"],
            case["winners"],
            case["losers"],
            _kernel(case),
            case["noise_variance"],
            row,
            inducing=case["inducing"],
            tolerance=1e-6,
        ).log_evidence
        for row in ("tight_vfe", "tight_vfe_rank", "tight_vfe_logdet")
    ]
    np.testing.assert_allclose(evidence, [-211.8, -147.3, -109.4], atol=0.05, rtol=0)


def test_far_box_without_loss() -> None:
    """One variable: EP is exact, however far out the interval lies."""
    result = slow_ep([0.5], [[2.0]], [50.0], [51.0])
    expected = truncated_normal(0.5, 2.0, 50.0, 51.0)
    assert result.log_evidence == pytest.approx(float(expected.log_mass), rel=IDENTITY)
    assert result.mean[0] == pytest.approx(float(expected.mean), rel=IDENTITY)
    assert result.covariance[0, 0] == pytest.approx(float(expected.variance), rel=FIXED_POINT)


def test_zero_variance_and_free_coordinates_need_no_site() -> None:
    covariance = np.diag([0.0, 1.0, 2.0])
    result = slow_ep(np.zeros(3), covariance, [-1.0, -np.inf, -np.inf], [1.0, 0.0, np.inf])
    assert result.log_evidence == pytest.approx(np.log(0.5), abs=IDENTITY)
    assert result.covariance[0, 0] == 0.0
    assert result.covariance[2, 2] == pytest.approx(2.0, abs=IDENTITY)


def test_linear_kernel_is_a_weighted_dot_product() -> None:
    x = np.array([[1.0, 2.0], [3.0, -1.0]])
    np.testing.assert_allclose(
        gram(linear([2.0, 0.5]), x, x), x @ np.diag([2.0, 0.5]) @ x.T, atol=IDENTITY, rtol=0
    )
