"""Expected log factors against 30 digits, at low noise and in the tails."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr

from sparse_prefgp.factors import expectations
from sparse_prefgp.factors.expectations import expected_log_factor
from tests.tolerances import EXPECTATION, ROUNDING

RATIOS = [1e-8, 0.3, 10.0, 1e3, 1e4, 1e6]
MEANS = [0.0, -3.0, 2.5, 30.0]
LIMITS = [(-np.inf, 0.2), (-0.4, 0.2), (-0.1, np.inf), (2.0, 2.01)]


def slow(mean: float, variance: float, noise: float, lower: float, upper: float) -> float:
    """The integral with 30 digits, on panels that double in length away from the limits."""
    with mpmath.workdps(30):
        sd, scale = mpmath.sqrt(variance), mpmath.sqrt(noise)

        def density(x: mpmath.mpf) -> mpmath.mpf:
            a, b = (lower - mean - sd * x) / scale, (upper - mean - sd * x) / scale
            if a + b > 0:
                a, b = -b, -a
            mass = (mpmath.erfc(-b / mpmath.sqrt(2)) - mpmath.erfc(-a / mpmath.sqrt(2))) / 2
            return mpmath.log(mass) * mpmath.npdf(x)

        breaks = {mpmath.mpf(x) for x in range(-12, 13)}
        for limit in (lower, upper):
            if np.isfinite(limit):
                for step in [0.0, *(s * 2.0**k for k in range(-1, 12) for s in (-1, 1))]:
                    x = (limit - mean + step * scale) / sd
                    if abs(x) < 12:
                        breaks.add(x)
        return float(mpmath.quad(density, sorted(breaks)))


def fast(
    mean: float, variance: float, noise: float, lower: float | None, upper: float
) -> np.ndarray:
    one = np.ones(1)
    low = None if lower is None else lower * one
    return expected_log_factor(mean * one, variance * one, noise * one, low, upper * one)


@pytest.mark.slow
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("ratio", RATIOS)
def test_against_thirty_digits(ratio: float, limits: tuple[float, float]) -> None:
    noise = 0.3
    for steps in MEANS:
        mean = steps * np.sqrt(noise * max(ratio, 1.0))
        expected = slow(mean, ratio * noise, noise, *limits)
        assert fast(mean, ratio * noise, noise, *limits)[0] == pytest.approx(
            expected, rel=EXPECTATION
        )


@pytest.mark.parametrize("ratio", [0.3, 1e3])
def test_one_side_against_thirty_digits(ratio: float) -> None:
    expected = slow(0.5, 0.3 * ratio, 0.3, -np.inf, 0.2)
    assert fast(0.5, 0.3 * ratio, 0.3, None, 0.2)[0] == pytest.approx(expected, rel=EXPECTATION)


def test_no_limit_below_is_minus_infinity() -> None:
    rng = np.random.default_rng(0)
    mean, variance, noise = rng.normal(size=40), rng.exponential(9, 40), rng.exponential(1, 40)
    upper, lower = rng.normal(size=40), np.full(40, -np.inf)
    np.testing.assert_allclose(
        expected_log_factor(mean, variance, noise, None, upper),
        expected_log_factor(mean, variance, noise, lower, upper),
        rtol=EXPECTATION,
    )


def test_without_variance_it_is_the_factor() -> None:
    assert fast(0.0, 0.0, 1.0, None, 0.0)[0] == pytest.approx(np.log(0.5), rel=ROUNDING)


def test_without_limits_it_is_zero() -> None:
    assert fast(0.7, 2.0, 1.0, -np.inf, np.inf)[0] == 0.0


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    given = (rng.normal(size=50), rng.exponential(1, 50), np.ones(50), None, np.zeros(50))
    whole = expected_log_factor(*given)
    monkeypatch.setattr(expectations, "_NUMBERS", 1000)
    np.testing.assert_array_equal(expected_log_factor(*given), whole)
    none = np.zeros(0)
    assert expected_log_factor(none, none, none, None, none).shape == (0,)


def test_gauss_hermite_would_overstate_it() -> None:
    """What the panels are for: with little noise 50 nodes are far too high, or too low."""
    variance = 1000.0
    mean = np.linspace(-10.0, 10.0, 81)
    nodes, weights = np.polynomial.hermite_e.hermegauss(50)
    log_phi = log_ndtr(-(mean[:, None] + np.sqrt(variance) * nodes))
    hermite = log_phi @ weights / np.sqrt(2 * np.pi)
    one = np.ones(len(mean))
    over = hermite - expected_log_factor(mean, variance * one, one, None, 0.0 * one)
    assert over.max() > 0.1
