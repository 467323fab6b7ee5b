"""The slow code for sets gives the numbers of the cases: what sets are compared with."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.reference.slow_sets import (
    SlowSets,
    correction,
    covering,
    rows_of,
    slow_sets,
    squared_exponential,
)
from tests.tolerances import IDENTITY

PATH = Path(__file__).resolve().parents[1] / "data" / "events_cases.json"
CASES = {case["name"]: case for case in json.loads(PATH.read_text(encoding="utf-8"))["cases"]}
OF_SETS = [name for name, case in CASES.items() if "events" in case]
KINDS = {
    "top2": ("top", 2),
    "bestworst": ("best_worst_at_once", 0),
    "best, then worst of the rest": ("best_worst", 0),
}
SPARSE = [
    pytest.param(name, row, id=f"{name}-{row}")
    for name, case in CASES.items()
    for row, value in case.get("sparse", {}).items()
    if isinstance(value, float)
]


def _said(case: dict[str, Any]) -> list[tuple[str, list[int], int]]:
    return [
        (*KINDS.get(event["kind"], (event["kind"], 0))[:1], event["items_best_first"], 2)
        for event in case["events"]
        for _ in range(event["count"])
    ]


def _kernel(case: dict[str, Any], x: Any, y: Any) -> np.ndarray:
    kernel = case["kernel"]
    return squared_exponential(x, y, kernel["variance"], kernel["lengthscales"])


def _upper(case: dict[str, Any], a: np.ndarray) -> np.ndarray:
    weights = np.array(case.get("mean_function", {}).get("weights", [0.0, 0.0]))
    return -a @ np.array(case["X"]) @ weights


def _exact(case: dict[str, Any]) -> tuple[np.ndarray, SlowSets]:
    a, _, n = rows_of(len(case["X"]), _said(case))
    covariance = a @ _kernel(case, case["X"], case["X"]) @ a.T + case["noise_variance"] * n
    return a, slow_sets(covariance, _upper(case, a))


@pytest.mark.parametrize("name", OF_SETS)
def test_rows(name: str) -> None:
    case = CASES[name]
    a, _, n = rows_of(len(case["X"]), _said(case))
    np.testing.assert_array_equal(a, case["A"])
    np.testing.assert_allclose(case["noise_variance"] * n, case["N"], atol=IDENTITY)
    np.testing.assert_allclose(_upper(case, a), case["upper"], atol=IDENTITY)


@pytest.mark.parametrize("name", OF_SETS)
def test_sites_evidence_and_posterior(name: str) -> None:
    case = CASES[name]
    a, found = _exact(case)
    expected = case["ep"]
    np.testing.assert_allclose(found.log_evidence, expected["log_evidence"], rtol=IDENTITY)
    np.testing.assert_allclose(found.tau, expected["tau_of_v"], rtol=IDENTITY)
    np.testing.assert_allclose(found.nu, expected["nu_of_v"], rtol=IDENTITY)
    cross = _kernel(case, case["test_X"], case["X"]) @ a.T
    prior = np.array(case["test_X"]) @ case.get("mean_function", {}).get("weights", [0.0, 0.0])
    np.testing.assert_allclose(prior + cross @ found.weights, expected["mean"], atol=IDENTITY)
    left = _kernel(case, case["test_X"], case["test_X"]) - cross @ found.reduction @ cross.T
    np.testing.assert_allclose(left, expected["covariance"], atol=IDENTITY)


@pytest.mark.parametrize(("name", "row"), SPARSE)
def test_rows_of_inducing_inputs(name: str, row: str) -> None:
    case = CASES[name]
    sparse, noise = case["sparse"], case["noise_variance"]
    a, _, n = rows_of(len(case["X"]), _said(case))
    x, z = case["X"], sparse["Z"]
    k_xz = _kernel(case, x, z)
    explained = k_xz @ np.linalg.solve(_kernel(case, z, z), k_xz.T)
    residual = _kernel(case, x, x) - explained
    share = {"PriorPower_0.5": 0.5, "HeteroscedasticVFE": 1.0}.get(row, float("FITC" in row))
    within = (np.abs(n) > 0).astype(float)  # of adjacent rows; the whole set is joined by them
    within = np.linalg.matrix_power(np.eye(len(n)) + within, len(n)) > 0
    covariance = a @ explained @ a.T + noise * n + share * within * (a @ residual @ a.T)
    value = slow_sets(covariance, _upper(case, a)).log_evidence
    if row == "TightVFE_logdet":
        value += _log_det(case, residual)
    else:
        for kind, sides, _ in _said(case):
            assert len(covering(kind, len(sides), 2)) == 1
            value += correction(row, residual[np.ix_(sides, sides)], noise)
    np.testing.assert_allclose(value, sparse[row], rtol=IDENTITY)


def _log_det(case: dict[str, Any], residual: np.ndarray) -> float:
    """-½ log det(I + R W), W the sum over sets of centring matrices over s²."""
    w = np.zeros_like(residual)
    for _, sides, _ in _said(case):
        k = len(sides)
        w[np.ix_(sides, sides)] += (np.eye(k) - 1.0 / k) / case["noise_variance"]
    return float(-0.5 * np.linalg.slogdet(np.eye(len(w)) + residual @ w)[1])


EQUAL = {
    ("choice", 3): -0.0018,
    ("choice", 4): -0.0037,
    ("choice", 6): -0.0068,
    ("choice", 10): -0.0113,
    ("ranking", 3): 0.0007,
    ("ranking", 4): 0.0013,
    ("ranking", 6): 0.0021,
    ("ranking", 10): 0.0027,
    ("best_worst_at_once", 3): 0.0007,
    ("best_worst_at_once", 4): -0.0098,
    ("best_worst_at_once", 6): 0.017,
    ("best_worst", 3): -0.0018,
    ("best_worst", 4): -0.0055,
    ("best_worst", 6): -0.012,
}


@pytest.mark.parametrize(("kind", "size"), EQUAL)
def test_equal_utilities(kind: str, size: int) -> None:
    """EP's error where the probability is one over the number of answers."""
    _, _, n = rows_of(size, [(kind, list(range(size)), 0)])
    answers = {"choice": size, "ranking": np.prod(np.arange(1.0, size + 1))}
    error = slow_sets(n, np.zeros(len(n))).log_evidence
    error += np.log(answers.get(kind, size * (size - 1)))
    digits = 4 if abs(EQUAL[kind, size]) < 0.0115 else 3
    assert round(float(error), digits) == EQUAL[kind, size]
