"""Links against SciPy, and their derivatives, which Laplace's gradient takes three of."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate
from scipy.special import log_expit
from scipy.stats import norm

from sparse_prefgp.links import LINKS, LOGIT_NOISE, Link
from sparse_prefgp.sites import Factors
from tests.reference.slow_engines import logit_factor, logit_probability, probit_factor
from tests.tolerances import EXPECTATION, GRADIENT, IDENTITY, ROUNDING, TAIL

EXTRA = (0.0, 0.3, 6.0)
LIMITS = [(-np.inf, 0.2), (-0.4, 0.2), (-0.1, np.inf), (-np.inf, np.inf)]
PLACES = np.array([-7.0, -1.3, 0.0, 0.4, 5.0])


def given(limits: tuple[float, float], noise: float) -> tuple[tf.Tensor, ...]:
    lower, upper = (tf.fill([len(PLACES)], tf.constant(x, tf.float64)) for x in limits)
    return tf.fill([len(PLACES)], tf.constant(noise, tf.float64)), lower, upper


def derivatives(link: Link, limits: tuple[float, float], noise: float) -> np.ndarray:
    noises, lower, upper = given(limits, noise)
    one_sided = np.isneginf(limits[0]) and np.isfinite(limits[1])
    factors = Factors(tf.ones_like(noises), noises, None if one_sided else lower, upper)
    return np.stack(link.derivatives(tf.constant(PLACES), factors), 1)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("extra", EXTRA)
def test_logit_with_normal_noise_beside_it(extra: float, limits: tuple[float, float]) -> None:
    found = derivatives(LINKS["logit"], limits, LOGIT_NOISE + extra)
    factor = logit_factor(extra, *limits)
    wanted = np.array([factor(z) for z in PLACES])
    # `quad` was asked for 1e-13 of p, which is as small as exp(-7) here.
    np.testing.assert_allclose(found, wanted, rtol=IDENTITY, atol=IDENTITY)


@pytest.mark.parametrize("limits", LIMITS[:3], ids=str)
def test_probit(limits: tuple[float, float]) -> None:
    factor = probit_factor(0.7, *limits)
    wanted = np.array([factor(z) for z in PLACES])
    found = derivatives(LINKS["probit"], limits, 0.7)
    np.testing.assert_allclose(found, wanted, rtol=IDENTITY, atol=IDENTITY)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("name", LINKS)
def test_three_derivatives_in_all_that_is_given(name: str, limits: tuple[float, float]) -> None:
    """Each by a central difference of the one before."""
    link = LINKS[name]
    noises, lower, upper = given(limits, LOGIT_NOISE + 0.5)
    values = {"z": tf.constant(PLACES), "noise": noises, "upper": upper, "lower": lower}
    names = ["z", "noise"]
    names += [n for n, x in zip(("lower", "upper"), limits, strict=True) if np.isfinite(x)]

    one_sided = np.isneginf(limits[0]) and np.isfinite(limits[1])

    def factors(values: dict[str, tf.Tensor]) -> Factors:
        below = None if one_sided else values["lower"]
        return Factors(tf.ones_like(noises), values["noise"], below, values["upper"])

    mixed = link.mixed(values["z"], factors(values))
    exact = {"noise": mixed.noise, "upper": mixed.upper, "lower": mixed.lower}
    at = link.derivatives(values["z"], factors(values))
    exact["z"] = tf.stack([at.slope, at.curvature, mixed.third], 1)

    def moved(by: str, step: float) -> np.ndarray:
        there = {**values, by: values[by] + step}
        return np.stack(link.derivatives(there["z"], factors(there)), 1)

    step = 1e-4
    for by in names:
        numeric = (moved(by, step) - moved(by, -step)) / (2 * step)
        np.testing.assert_allclose(exact[by], numeric, rtol=GRADIENT, atol=GRADIENT, err_msg=by)
    for by in {"lower", "upper"} - set(names):
        np.testing.assert_allclose(exact[by], 0.0, atol=EXPECTATION)


def test_far_tails_are_finite_and_right() -> None:
    z = tf.constant([-800.0, 800.0], tf.float64)
    noise, upper = tf.fill([2], tf.constant(LOGIT_NOISE, tf.float64)), tf.zeros(2, tf.float64)
    factors = Factors(tf.ones_like(noise), noise, None, upper)
    value = LINKS["logit"].derivatives(z, factors).log_mass
    np.testing.assert_allclose(value, log_expit(-z.numpy()), rtol=TAIL, atol=ROUNDING)
    mean, variance = tf.constant([-800.0, 30.0], tf.float64), tf.constant([4.0, 0.0], tf.float64)
    found = LINKS["logit"].log_probability(mean, variance, noise)
    # Far out the logistic function is an exponential, whose average is exp(m + v / 2).
    np.testing.assert_allclose(found, [-798.0, log_expit(30.0)], rtol=TAIL, atol=ROUNDING)


@pytest.mark.parametrize("variance", [0.0, 1e-9, 0.4, 9.0, 400.0])
def test_average_of_the_logistic_function(variance: float) -> None:
    means = np.array([-6.0, -0.3, 0.0, 2.0])
    found = LINKS["logit"].log_probability(
        tf.constant(means), tf.fill([4], tf.constant(variance, tf.float64)), tf.ones(4, tf.float64)
    )
    wanted = np.log([logit_probability(m, variance) for m in means])
    np.testing.assert_allclose(found, wanted, rtol=IDENTITY, atol=EXPECTATION)


def test_average_over_a_very_wide_normal() -> None:
    """Then it is a step, and the next term is that of the variance of logistic noise."""
    mean, sd = np.array([-900.0, 0.0, 400.0]), 1e3
    found = LINKS["logit"].log_probability(
        tf.constant(mean), tf.fill([3], tf.constant(sd**2, tf.float64)), tf.ones(3, tf.float64)
    )
    # E s(g) = E Phi(g < 0) + pi²/6 d/dg density + …, the moments of the logistic density.
    x = mean / sd
    second = -(np.pi**2) / 6 * x * norm.pdf(x) / sd**2
    np.testing.assert_allclose(np.exp(found), norm.cdf(x) + second, rtol=IDENTITY)


def test_curvature_of_a_logistic_factor_is_bounded_by_that_of_its_noise() -> None:
    """What LOGIT_NOISE says: the log factor is nowhere more curved than that of normal noise."""
    curvature = derivatives(LINKS["logit"], (-np.inf, 0.0), LOGIT_NOISE)[:, 2]
    assert np.all(curvature >= -1.0 / LOGIT_NOISE - IDENTITY)
    assert curvature.min() == pytest.approx(-1.0 / LOGIT_NOISE, rel=IDENTITY)
    total = integrate.quad(lambda x: x * x * np.exp(2 * log_expit(x) - x), -40, 40)[0]
    assert total == pytest.approx(np.pi**2 / 3, rel=IDENTITY)
