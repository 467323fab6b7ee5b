"""Links against SciPy, and their derivatives, which Laplace's gradient takes three of."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate
from scipy.special import log_expit
from scipy.stats import norm

from sparse_prefgp.factors.links import LINKS, LOGIT_NOISE, LOGIT_TIE_NOISE, Link
from sparse_prefgp.factors.sites import Factors
from tests.reference.slow_engines import logit_factor, logit_probability, probit_factor
from tests.tolerances import EXPECTATION, GRADIENT, IDENTITY, ROUNDING, TAIL

EXTRA = (0.0, 0.3, 6.0)
LIMITS = [(-np.inf, 0.2), (-0.4, 0.2), (-0.1, np.inf), (-np.inf, np.inf)]
PLACES = np.array([-7.0, -1.3, 0.0, 0.4, 5.0])


def given(limits: tuple[float, float], noise: float) -> tuple[tf.Tensor, ...]:
    lower, upper = (tf.fill([len(PLACES)], tf.constant(x, tf.float64)) for x in limits)
    return tf.fill([len(PLACES)], tf.constant(noise, tf.float64)), lower, upper


def own_noise(limits: tuple[float, float]) -> float:
    """What a factor with these limits has without any normal noise besides the logistic one."""
    return LOGIT_TIE_NOISE if np.all(np.isfinite(limits)) else LOGIT_NOISE


def derivatives(link: Link, limits: tuple[float, float], noise: float) -> np.ndarray:
    noises, lower, upper = given(limits, noise)
    one_sided = np.isneginf(limits[0]) and np.isfinite(limits[1])
    factors = Factors(tf.ones_like(noises), noises, None if one_sided else lower, upper)
    return np.stack(link.derivatives(tf.constant(PLACES), factors), 1)


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("extra", EXTRA)
@pytest.mark.covering(every=4)
def test_logit_with_normal_noise_beside_it(extra: float, limits: tuple[float, float]) -> None:
    found = derivatives(LINKS["logit"], limits, own_noise(limits) + extra)
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
@pytest.mark.covering(every=4)
def test_three_derivatives_in_all_that_is_given(name: str, limits: tuple[float, float]) -> None:
    """Each by a central difference of the one before."""
    link = LINKS[name]
    noises, lower, upper = given(limits, own_noise(limits) + 0.5)
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


def log_win(mean: np.ndarray, variance: np.ndarray) -> tf.Tensor:
    """log E s(g), g ~ N(mean, variance)."""
    zero = tf.zeros(len(mean), tf.float64)
    return LINKS["logit"].log_probability(
        tf.constant(-mean), tf.constant(variance), zero + LOGIT_NOISE, None, zero
    )


@pytest.mark.slow
def test_averages_within_a_margin_and_their_slopes() -> None:
    """Win, tie and loss of logistic noise add up to one; slopes by central differences."""
    margin = tf.constant([0.4, 0.4, 2.0], tf.float64)
    mean = tf.constant([0.3, -1.0, 0.2], tf.float64)
    variance = tf.constant([0.5, 30.0, 1e-3], tf.float64)

    def three(mean: tf.Tensor, variance: tf.Tensor, margin: tf.Tensor) -> list[tf.Tensor]:
        link, noise = LINKS["logit"], tf.fill([3], tf.constant(LOGIT_NOISE, tf.float64))
        return [
            link.log_probability(-mean, variance, noise, None, -margin),
            link.log_probability(-mean, variance, noise, -margin, margin),
            link.log_probability(mean, variance, noise, None, -margin),
        ]

    found = three(mean, variance, margin)
    np.testing.assert_allclose(sum(tf.exp(x) for x in found), 1.0, rtol=IDENTITY)
    wanted = logit_probability(0.3 - 0.4, 0.5)
    assert np.exp(found[0][0]) == pytest.approx(wanted, rel=IDENTITY)
    arguments = [mean, variance, margin]
    for outcome in range(3):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = three(*arguments)[outcome]
        for i, slope in enumerate(tape.gradient(value, arguments)):
            step = 1e-4 * arguments[i]
            ends = []
            for sign in (1.0, -1.0):
                moved = [x + sign * step if i == j else x for j, x in enumerate(arguments)]
                ends.append(three(*moved)[outcome].numpy())
            np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


def test_far_tails_are_finite_and_right() -> None:
    z = tf.constant([-800.0, 800.0], tf.float64)
    noise, upper = tf.fill([2], tf.constant(LOGIT_NOISE, tf.float64)), tf.zeros(2, tf.float64)
    factors = Factors(tf.ones_like(noise), noise, None, upper)
    value = LINKS["logit"].derivatives(z, factors).log_mass
    np.testing.assert_allclose(value, log_expit(-z.numpy()), rtol=TAIL, atol=ROUNDING)
    mean, variance = np.array([-800.0, 30.0]), np.array([4.0, 0.0])
    found = log_win(mean, variance)
    # Far out the logistic function is an exponential, whose average is exp(m + v / 2).
    np.testing.assert_allclose(found, [-798.0, log_expit(30.0)], rtol=TAIL, atol=ROUNDING)


@pytest.mark.parametrize("variance", [0.0, 1e-9, 0.4, 9.0, 400.0])
def test_average_of_the_logistic_function(variance: float) -> None:
    means = np.array([-6.0, -0.3, 0.0, 2.0])
    found = log_win(means, np.full(4, variance))
    wanted = np.log([logit_probability(m, variance) for m in means])
    np.testing.assert_allclose(found, wanted, rtol=IDENTITY, atol=EXPECTATION)


def test_average_over_a_very_wide_normal() -> None:
    """Then it is a step, and the next term is that of the variance of logistic noise."""
    mean, sd = np.array([-900.0, 0.0, 400.0]), 1e3
    found = log_win(mean, np.full(3, sd**2))
    # E s(g) = E Phi(g < 0) + pi²/6 d/dg density + …, the moments of the logistic density.
    x = mean / sd
    second = -(np.pi**2) / 6 * x * norm.pdf(x) / sd**2
    np.testing.assert_allclose(np.exp(found), norm.cdf(x) + second, rtol=IDENTITY)


def test_curvature_of_a_logistic_factor_is_bounded_by_that_of_its_noise() -> None:
    """What LOGIT_NOISE says: the log factor is nowhere more curved than that of normal noise."""
    curvature = derivatives(LINKS["logit"], (-np.inf, 0.0), LOGIT_NOISE)[:, 2]
    assert np.all(curvature >= -1.0 / LOGIT_NOISE - IDENTITY)
    assert curvature.min() == pytest.approx(-1.0 / LOGIT_NOISE, rel=IDENTITY)
    for width in (0.001, 0.5, 3.0):
        tie = derivatives(LINKS["logit"], (-0.5 * width, 0.5 * width), LOGIT_TIE_NOISE)[:, 2]
        assert tie.min() >= -1.0 / LOGIT_TIE_NOISE - IDENTITY
    narrow = derivatives(LINKS["logit"], (-0.0005, 0.0005), LOGIT_TIE_NOISE)[:, 2]
    assert narrow.min() == pytest.approx(-1.0 / LOGIT_TIE_NOISE, rel=1e-6)
    total = integrate.quad(lambda x: x * x * np.exp(2 * log_expit(x) - x), -40, 40)[0]
    assert total == pytest.approx(np.pi**2 / 3, rel=IDENTITY)
