"""EP for box-truncated normals: both engines, dense and structured covariances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparse_prefgp as spg
from tests.cases import ORTHANT_CASES
from tests.reference.slow_ep import slow_ep
from tests.reference.slow_truncated_normal import truncated_normal
from tests.tolerances import EVIDENCE, FIXED_POINT, IDENTITY, SOLVER, TAIL

ENGINES = {
    "parallel": spg.ParallelEP(tolerance=SOLVER),
    "sequential": spg.SequentialEP(tolerance=SOLVER),
}


def random_box(seed: int, t: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, covariance and a box with every kind of interval."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(t, t))
    lower, upper = np.full(t, -np.inf), np.zeros(t)
    lower[1], upper[1] = -0.5, 1.0
    lower[2], upper[2] = 0.3, np.inf
    upper[3] = np.inf
    lower[4], upper[4] = 1.0, 1.2
    return rng.normal(size=t), root @ root.T / t + 0.1 * np.eye(t), lower, upper


@pytest.mark.covering(
    *(f"{index}-parallel" for index in range(len(ORTHANT_CASES))),
    "0-sequential",
    "5-sequential",
    "9-sequential",
)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("index", range(len(ORTHANT_CASES)))
def test_orthant_reference(index: int, engine: str) -> None:
    case = ORTHANT_CASES[index]
    r = spg.truncated_normal_ep(0.0, np.array(case["cov"], float), engine=ENGINES[engine])
    assert r.converged, str(r.inference)
    assert r.log_mass == pytest.approx(case["ep"]["log_evidence"], abs=EVIDENCE, rel=0)
    np.testing.assert_allclose(r.mean, case["ep"]["mean"], atol=FIXED_POINT, rtol=0)
    np.testing.assert_allclose(r.covariance, case["ep"]["cov"], atol=FIXED_POINT, rtol=0)


@pytest.mark.parametrize(("seed", "engine"), [(0, "parallel"), (1, "parallel"), (1, "sequential")])
@pytest.mark.covering(every=3)
def test_mixed_box_against_slow_code(seed: int, engine: str) -> None:
    mean, covariance, lower, upper = random_box(seed)
    slow = slow_ep(mean, covariance, lower, upper)
    r = spg.truncated_normal_ep(mean, covariance, lower, upper, engine=ENGINES[engine])
    assert r.converged
    assert r.log_mass == pytest.approx(slow.log_evidence, abs=EVIDENCE, rel=0)
    np.testing.assert_allclose(r.mean, slow.mean, atol=FIXED_POINT, rtol=0)
    np.testing.assert_allclose(r.covariance, slow.covariance, atol=FIXED_POINT, rtol=0)
    np.testing.assert_allclose(r.variance, np.diag(slow.covariance), atol=FIXED_POINT, rtol=0)


ONE = [(-np.inf, -5.0), (50.0, 51.0), (1e6, 1e6 + 1), (-1e8, -1e8 + 1), (2.0, np.inf), (-0.1, 3.0)]


@pytest.mark.parametrize(
    ("engine", "lower", "upper"),
    [("parallel", *box) for box in ONE] + [("sequential", *ONE[1]), ("sequential", *ONE[3])],
)
@pytest.mark.covering(every=4)
def test_one_coordinate_is_exact_however_far_out(engine: str, lower: float, upper: float) -> None:
    r = spg.truncated_normal_ep(0.5, [[2.0]], lower, upper, engine=ENGINES[engine])
    exact = truncated_normal(0.5, 2.0, lower, upper)
    assert r.converged, str(r.inference)
    assert r.log_mass == pytest.approx(float(exact.log_mass), rel=TAIL)
    assert r.mean[0] == pytest.approx(float(exact.mean), rel=TAIL)
    assert r.variance[0] == pytest.approx(float(exact.variance), rel=FIXED_POINT)


@pytest.mark.parametrize("engine", ENGINES)
def test_independent_coordinates_are_exact(engine: str) -> None:
    lower, upper = np.array([-np.inf, 8.0, -1.0, 0.0]), np.array([-3.0, 8.5, 2.0, np.inf])
    variances = np.array([0.5, 1.0, 2.0, 1e-4])
    r = spg.truncated_normal_ep(0.0, np.diag(variances), lower, upper, engine=ENGINES[engine])
    exact = [
        truncated_normal(0.0, v, a, b) for v, a, b in zip(variances, lower, upper, strict=True)
    ]
    assert r.log_mass == pytest.approx(sum(float(e.log_mass) for e in exact), rel=TAIL)
    np.testing.assert_allclose(r.mean, [float(e.mean) for e in exact], rtol=IDENTITY)
    np.testing.assert_allclose(r.variance, [float(e.variance) for e in exact], rtol=FIXED_POINT)
    np.testing.assert_allclose(r.covariance - np.diag(r.variance), 0.0, atol=TAIL)


@pytest.mark.parametrize(
    ("engine", "seed", "two_sided"),
    [("parallel", 0, False), ("parallel", 1, True), ("sequential", 2, False)],
)
@pytest.mark.covering(every=3)
def test_low_rank_agrees_with_dense(engine: str, seed: int, two_sided: bool) -> None:
    rng = np.random.default_rng(seed)
    structured = spg.LowRankPlusDiagonal(rng.normal(size=(8, 3)), rng.uniform(0.1, 1.0, 8))
    mean = 0.5 * rng.normal(size=8)
    lower, upper = np.full(8, -np.inf), np.zeros(8)
    if two_sided:
        lower[::3], upper[1::3] = -1.0, np.inf
    a, b = (
        spg.truncated_normal_ep(mean, c, lower, upper, engine=ENGINES[engine])
        for c in (structured, structured.dense())
    )
    assert a.converged
    assert b.converged
    assert a.log_mass == pytest.approx(b.log_mass, abs=IDENTITY, rel=0)
    # Sites of different parametrisation: each is as far from the fixed point as its solver left it.
    np.testing.assert_allclose(a.mean, b.mean, atol=IDENTITY, rtol=0)
    np.testing.assert_allclose(a.variance, b.variance, atol=IDENTITY, rtol=0)
    np.testing.assert_allclose(a.covariance, b.covariance, atol=IDENTITY, rtol=0)


def test_low_rank_is_more_than_its_diagonal_form() -> None:
    structured = spg.LowRankPlusDiagonal(np.array([[1.0], [2.0]]), np.array([0.5, 0.25]))
    np.testing.assert_array_equal(structured.dense(), [[1.5, 2.0], [2.0, 4.25]])


def test_mean_shifts_with_the_box() -> None:
    mean, covariance, lower, upper = random_box(4)
    engine = ENGINES["parallel"]
    a = spg.truncated_normal_ep(mean, covariance, lower, upper, engine=engine)
    b = spg.truncated_normal_ep(0.0, covariance, lower - mean, upper - mean, engine=engine)
    assert a.log_mass == pytest.approx(b.log_mass, abs=IDENTITY)
    np.testing.assert_allclose(a.mean, b.mean + mean, atol=IDENTITY, rtol=0)


def test_mirrored_box_mirrors_the_mean() -> None:
    mean, covariance, lower, upper = random_box(5)
    engine = ENGINES["parallel"]
    a = spg.truncated_normal_ep(mean, covariance, lower, upper, engine=engine)
    b = spg.truncated_normal_ep(-mean, covariance, -upper, -lower, engine=engine)
    assert a.log_mass == pytest.approx(b.log_mass, abs=IDENTITY)
    np.testing.assert_allclose(a.mean, -b.mean, atol=IDENTITY, rtol=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_zero_variance_is_harmless(engine: str) -> None:
    covariance = np.diag([0.0, 1.0, 2.0])
    r = spg.truncated_normal_ep(
        0.0, covariance, [-1.0, -np.inf, -np.inf], [1.0, 0.0, np.inf], engine=ENGINES[engine]
    )
    assert r.converged, str(r.inference)
    assert r.log_mass == pytest.approx(np.log(0.5), abs=TAIL)
    assert r.variance[0] == 0.0
    assert r.mean[0] == 0.0
    assert r.variance[2] == pytest.approx(2.0, rel=TAIL)
    assert np.all(np.isfinite(r.covariance))


def test_perfectly_correlated_coordinates() -> None:
    r = spg.truncated_normal_ep(0.0, np.ones((2, 2)))
    assert np.isfinite(r.log_mass)
    assert r.converged or "max_sweeps" in str(r.inference)


def test_nothing_to_truncate() -> None:
    mean, covariance, *_ = random_box(6)
    r = spg.truncated_normal_ep(mean, covariance, upper=np.inf)
    assert r.converged
    assert r.log_mass == 0.0
    np.testing.assert_allclose(r.mean, mean, rtol=TAIL)
    np.testing.assert_allclose(r.covariance, covariance, rtol=TAIL, atol=TAIL)


def test_default_box_is_the_negative_orthant() -> None:
    covariance = np.array(ORTHANT_CASES[5]["cov"], float)
    a = spg.truncated_normal_ep(0.0, covariance)
    b = spg.truncated_normal_ep(np.zeros(3), covariance, -np.inf, 0.0)
    assert a.log_mass == b.log_mass


def test_one_sweep_is_not_called_converged() -> None:
    _, covariance, lower, upper = random_box(7)
    for engine in (spg.ParallelEP(max_sweeps=1), spg.SequentialEP(max_sweeps=1)):
        r = spg.truncated_normal_ep(0.0, covariance, lower, upper, engine=engine)
        assert not r.converged
        assert r.inference.status is spg.results.Status.MAX_SWEEPS


I2 = np.eye(2)
LOW_RANK = spg.LowRankPlusDiagonal


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, np.ones((2, 3))), r"covariance has shape \(2, 3\); give \(t, 2\)"),
        ((0.0, np.ones(3)), r"covariance has shape \(3,\); give \(t, 3\)"),
        ((0.0, np.ones((0, 0))), r"covariance has shape \(0, 0\)"),
        ((0.0, [[1.0, 0.5], [0.2, 1.0]]), "symmetric"),
        ((0.0, [[1.0, np.nan], [np.nan, 1.0]]), r"covariance has nan at 0, 1"),
        ((0.0, [[-1.0, 0.0], [0.0, 1.0]]), "negative variance -1.0 at 0"),
        ((0.0, [[1.0, 2.0], [2.0, 1.0]]), "positive semi-definite, but has the eigenvalue -1"),
        (("a", I2), "mean is 'a'; give numbers"),
        ((np.zeros(3), I2), r"mean has shape \(3,\); give \(2,\)"),
        ((np.nan, I2), "mean has nan"),
        ((np.inf, I2), "mean has inf"),
        ((0.0, I2, np.nan), "lower must be below upper, but coordinate 0 has nan and 0.0"),
        ((0.0, I2, None, [0.0, np.nan]), "coordinate 1 has .* and nan"),
        ((0.0, I2, [0.0, 1.0], [1.0, 1.0]), "coordinate 1 has 1.0 and 1.0"),
        ((0.0, I2, 0.0), "coordinate 0 has 0.0 and 0.0"),
        ((0.0, LOW_RANK(np.ones(3), np.ones(3))), r"features has shape \(3,\); give \(t, m\)"),
        ((0.0, LOW_RANK(np.ones((3, 2)), np.ones(2))), r"diagonal has shape \(2,\); give \(3,\)"),
        ((0.0, LOW_RANK(np.full((2, 1), np.inf), np.ones(2))), "features has inf"),
        ((0.0, LOW_RANK(np.ones((2, 1)), np.array([1.0, -2.0]))), "not be negative.*-2.0"),
        ((0.0, LOW_RANK(np.ones((2, 1)), np.array([1.0, np.nan]))), "diagonal has nan"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spg.truncated_normal_ep(*arguments)
