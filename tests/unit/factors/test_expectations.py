"""Expected log factors in TensorFlow: against 30 digits, and their derivatives."""

from __future__ import annotations

from functools import cache

import mpmath
import numpy as np
import pytest
import tensorflow as tf

from sparse_prefgp.factors.expectations import (
    Averages,
    average_log_factor,
    expected_log_cdf,
    expected_log_factor,
    site_table,
)
from tests.tolerances import EXPECTATION, GRADIENT, ROUNDING

RATIOS = [1e-8, 0.3, 4.0, 10.0, 1e3, 1e4]
MEANS = [0.0, -3.0, 2.5, 30.0]
LIMITS = [(-np.inf, 0.2), (-0.4, 0.2), (-0.1, np.inf)]


def slow(
    mean: float, variance: float, noise: float, lower: float, upper: float
) -> tuple[float, float, float]:
    """E log p, E (log p)' and E (log p)'' with 30 digits, panels doubling away from the limits."""
    with mpmath.workdps(30):
        sd, scale = mpmath.sqrt(variance), mpmath.sqrt(noise)

        @cache  # the three integrals share their nodes
        def derivatives(x: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]:
            z = mean + sd * x
            a, b = (lower - z) / scale, (upper - z) / scale
            if a + b > 0:
                tails = mpmath.erfc(a / mpmath.sqrt(2)) - mpmath.erfc(b / mpmath.sqrt(2))
            else:
                tails = mpmath.erfc(-b / mpmath.sqrt(2)) - mpmath.erfc(-a / mpmath.sqrt(2))
            mass = tails / 2
            # d mass / dz and d² mass / dz² of Phi(b) - Phi(a), db/dz = -1 / scale.
            first = (mpmath.npdf(a) - mpmath.npdf(b)) / scale / mass
            bent_a = a * mpmath.npdf(a) if mpmath.isfinite(a) else mpmath.mpf(0)
            bent_b = b * mpmath.npdf(b) if mpmath.isfinite(b) else mpmath.mpf(0)
            second = (bent_a - bent_b) / scale**2 / mass
            return mpmath.log(mass), first, second - first**2

        breaks = {mpmath.mpf(x) for x in range(-12, 13)}
        for limit in (lower, upper):
            if np.isfinite(limit):
                for step in [0.0, *(s * 2.0**k for k in range(-1, 12) for s in (-1, 1))]:
                    x = (limit - mean + step * scale) / sd
                    if abs(x) < 12:
                        breaks.add(x)
        edges = sorted(breaks)
        return tuple(
            float(mpmath.quad(lambda x, k=k: derivatives(x)[k] * mpmath.npdf(x), edges))
            for k in range(3)
        )


def fast(mean: float, variance: float, noise: float, lower: float | None, upper: float) -> Averages:
    mean_, variance_, noise_, upper_ = (
        tf.constant([x], tf.float64) for x in (mean, variance, noise, upper)
    )
    lower_ = None if lower is None else tf.constant([lower], tf.float64)
    return average_log_factor(site_table(mean_, variance_, noise_, lower_, upper_))


def compare(found: Averages, wanted: tuple[float, float, float], noise: float) -> None:
    # Slopes of an interval cancel: they are exact on the scale of E |g|, at least that of g.
    assert float(found.value[0]) == pytest.approx(wanted[0], rel=EXPECTATION)
    assert float(found.slope[0]) == pytest.approx(
        wanted[1], rel=EXPECTATION, abs=EXPECTATION / noise**0.5
    )
    assert float(found.curvature[0]) == pytest.approx(wanted[2], rel=EXPECTATION)


@pytest.mark.slow
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("ratio", RATIOS)
def test_against_thirty_digits(ratio: float, limits: tuple[float, float]) -> None:
    noise = 0.3
    for steps in MEANS:
        mean = steps * np.sqrt(noise * max(ratio, 1.0))
        compare(
            fast(mean, ratio * noise, noise, *limits),
            slow(mean, ratio * noise, noise, *limits),
            noise,
        )


@pytest.mark.covering("4.0")
@pytest.mark.parametrize("ratio", [0.3, 4.0, 1e4])
def test_one_side_against_thirty_digits(ratio: float) -> None:
    wanted = slow(0.5, 0.3 * ratio, 0.3, -np.inf, 0.2)
    compare(fast(0.5, 0.3 * ratio, 0.3, None, 0.2), wanted, 0.3)


@pytest.mark.covering("0-one", "300-one")
@pytest.mark.parametrize("sided", ["one", "two"])
@pytest.mark.parametrize("sites", [0, 1, 128, 300])
def test_the_value_is_that_of_numpy(sites: int, sided: str) -> None:
    rng = np.random.default_rng(sites)
    mean, upper = rng.normal(size=sites), rng.normal(size=sites)
    variance, noise = 10 ** rng.uniform(-3, 4, sites), rng.exponential(1, sites)
    lower = None if sided == "one" else upper - rng.exponential(1, sites)
    given = (mean, variance, noise, lower, upper)
    table = site_table(*(None if x is None else tf.constant(x) for x in given))
    found = average_log_factor(table)
    wanted = expected_log_factor(mean, variance, noise, lower, upper)
    np.testing.assert_allclose(found.value, wanted, rtol=EXPECTATION)
    assert found.slope.shape == found.curvature.shape == (sites,)


def test_without_variance_it_is_the_factor() -> None:
    found = fast(0.0, 0.0, 0.25, None, 0.0)
    ratio = np.sqrt(2 / np.pi)  # phi(0) / Phi(0)
    assert float(found.value[0]) == pytest.approx(np.log(0.5), rel=ROUNDING)
    assert float(found.slope[0]) == pytest.approx(-2 * ratio, rel=ROUNDING)
    assert float(found.curvature[0]) == pytest.approx(-4 * ratio**2, rel=ROUNDING)


@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_of_expected_log_cdf(compiled: bool) -> None:
    rng = np.random.default_rng(1)
    given = [rng.normal(size=20) * 4, 10 ** rng.uniform(-2, 3, 20), rng.exponential(1, 20)]
    function = tf.function(expected_log_cdf) if compiled else expected_log_cdf

    def value(values: list[np.ndarray]) -> np.ndarray:
        mean, variance, noise = values
        return expected_log_factor(-mean, variance, noise, None, 0.0 * mean)

    tensors = [tf.constant(x) for x in given]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        total = tf.reduce_sum(function(*tensors))
    for which, derivative in enumerate(tape.gradient(total, tensors)):
        step = 1e-4 * np.abs(given[which])
        up, down = ([x.copy() for x in given] for _ in range(2))
        up[which] += step
        down[which] -= step
        # Central differences lose what they cancel, relative to the value.
        numeric = (value(up) - value(down)) / (2 * step)
        np.testing.assert_allclose(derivative, numeric, rtol=GRADIENT, atol=GRADIENT)


def test_second_derivatives_are_refused_and_not_zero() -> None:
    one = tf.constant([1.0], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(one)
        with tf.GradientTape() as inner:
            inner.watch(one)
            value = expected_log_cdf(one, one, one)
        slope = inner.gradient(value, one)
    with pytest.raises(LookupError, match="take their slope and curvature"):
        outer.gradient(slope, one)
    with tf.GradientTape() as tape:
        tape.watch(one)
        found = average_log_factor(site_table(one, one, one, None, one))
    with pytest.raises(LookupError, match="take their slope and curvature"):
        tape.gradient(found.value, one)
