"""Powers of factors against a normal: by SciPy's `quad`, at power 1 in closed form, derivatives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate
from scipy.stats import norm

from sparse_prefgp.factors.power_moments import PowerMoments, power_moments
from sparse_prefgp.factors.sites import Cavity, Factors, match_moments
from tests.reference.slow_engines import probit_factor
from tests.tolerances import EXPECTATION, GRADIENT, IDENTITY

LIMITS = [(-np.inf, 0.2), (-0.4, 0.2), (-0.1, np.inf)]
MEANS = np.array([-4.0, -0.3, 0.0, 1.2, 6.0])
VARIANCES = (0.0, 0.1, 4.0, 300.0)
NOISE = 0.5


def fast(
    mean: np.ndarray,
    variance: float,
    limits: tuple[float, float],
    power: float,
    noise: float = NOISE,
) -> PowerMoments:
    def full(value: float) -> tf.Tensor:
        return tf.fill([len(mean)], tf.constant(value, tf.float64))

    one_sided = np.isneginf(limits[0])
    return power_moments(
        tf.constant(mean),
        full(variance),
        full(noise),
        None if one_sided else full(limits[0]),
        full(limits[1]),
        full(power),
    )


def slow(
    mean: float, variance: float, limits: tuple[float, float], power: float
) -> tuple[float, float, float]:
    """Log mass, mean and variance of N(y) p(mean + sd y)^power, by `quad` between the turns."""
    sd, factor = np.sqrt(variance), probit_factor(NOISE, *limits)
    turns = {-12.0, -4.0, 0.0, 4.0, 12.0}
    for limit in limits:
        for step in (-20, -5, 0, 5, 20):
            x = (limit + step * np.sqrt(NOISE) - mean) / sd if np.isfinite(limit) else 0.0
            turns |= {float(x)} if abs(x) < 12 else set()
    edges = sorted(turns)

    def moment(k: int) -> float:
        def density(y: float) -> float:
            return norm.pdf(y) * np.exp(power * factor(mean + sd * y)[0]) * y**k

        return sum(
            integrate.quad(density, a, b, epsabs=1e-15, epsrel=1e-11)[0] for a, b in pairwise(edges)
        )

    mass, first, second = (moment(k) for k in range(3))
    return np.log(mass), first / mass, second / mass - (first / mass) ** 2


@pytest.mark.covering("0.1-(-inf, 0.2)")
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("variance", VARIANCES[1:])
def test_moments_are_those_of_quad(variance: float, limits: tuple[float, float]) -> None:
    for power in (0.01, 0.5):
        found = fast(MEANS, variance, limits, power)
        for i, mean in enumerate(MEANS):
            log_mass, first, spread = slow(mean, variance, limits, power)
            assert float(found.value[i]) == pytest.approx(log_mass, rel=IDENTITY, abs=IDENTITY)
            # The mean of y is sd times the slope (Stein), its variance 1 + v times the curvature.
            assert np.sqrt(variance) * float(found.slope[i]) == pytest.approx(
                first, rel=IDENTITY, abs=IDENTITY
            )
            assert float(found.spread[i]) == pytest.approx(spread, rel=IDENTITY)
            assert 1 + variance * float(found.curvature[i]) == pytest.approx(
                spread, rel=IDENTITY, abs=IDENTITY
            )


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.covering(every=4)
def test_power_one_is_the_closed_form(variance: float, limits: tuple[float, float]) -> None:
    """However far the normal is from the limits."""
    mean = np.concatenate([MEANS, [-60.0, 60.0]])
    found = fast(mean, variance, limits, 1.0)

    def full(value: float) -> tf.Tensor:
        return tf.fill([len(mean)], tf.constant(value, tf.float64))

    lower = None if np.isneginf(limits[0]) else full(limits[0])
    factors = Factors(full(1.0), full(NOISE), lower, full(limits[1]))
    tilted = match_moments(Cavity(tf.constant(mean), full(variance)), factors)[1]
    np.testing.assert_allclose(found.value, tilted.log_mass, rtol=EXPECTATION, atol=EXPECTATION)
    np.testing.assert_allclose(found.slope, tilted.slope, rtol=IDENTITY, atol=IDENTITY)
    np.testing.assert_allclose(found.curvature, tilted.curvature, rtol=IDENTITY, atol=IDENTITY)


@pytest.mark.parametrize("limits", LIMITS[:2], ids=str)
@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.covering(every=4)
def test_derivatives(variance: float, limits: tuple[float, float]) -> None:
    """Of the value, in the noise and the limits; the slope is checked as a mean."""
    found, step, power = fast(MEANS, variance, limits, 0.5), 1e-5, 0.5

    def numeric(noise: float, lower: float, upper: float) -> np.ndarray:
        ends = [
            fast(
                MEANS,
                variance,
                (limits[0] + sign * step * lower, limits[1] + sign * step * upper),
                power,
                NOISE + sign * step * noise,
            ).value
            for sign in (1, -1)
        ]
        return (ends[0] - ends[1]).numpy() / (2 * step)

    for derivative, direction in (
        (found.noise, (1.0, 0.0, 0.0)),
        (found.upper, (0.0, 0.0, 1.0)),
        (found.lower, (0.0, float(np.isfinite(limits[0])), 0.0)),
    ):
        np.testing.assert_allclose(derivative, numeric(*direction), rtol=GRADIENT, atol=GRADIENT)


@pytest.mark.slow
def test_one_site_is_one_of_many() -> None:
    many = fast(MEANS, 0.7, LIMITS[1], 0.3)
    for i in range(len(MEANS)):
        one = fast(MEANS[i : i + 1], 0.7, LIMITS[1], 0.3)
        for a, b in zip(one, many, strict=True):
            np.testing.assert_allclose(a[0], b[i], rtol=EXPECTATION, atol=EXPECTATION)


def test_what_is_not_finite_stays_so() -> None:
    found = fast(np.array([np.nan, 0.0]), 1.0, LIMITS[0], 0.5)
    assert np.isnan(found.value[0]) and np.isfinite(found.value[1])
