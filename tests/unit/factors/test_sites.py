"""Cavities, moment matching and damping against the definitions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from sparse_prefgp.covariances.base import Marginals
from sparse_prefgp.engines.propagation import cavities
from sparse_prefgp.factors import array_moments
from sparse_prefgp.factors.sites import (
    Cavity,
    Factors,
    Sites,
    cavity,
    damp,
    largest_change,
    match_all_moments,
    match_moments,
    totals,
)
from tests.reference.slow_truncated_normal import truncated_normal
from tests.tolerances import GRADIENT, IDENTITY, ROUNDING


def tensor(*values: float) -> tf.Tensor:
    return tf.constant(values, tf.float64)


BOXES = [(-np.inf, 0.0), (-1.0, 1.0), (0.5, np.inf), (2.0, 2.5), (-3.0, -2.5), (-np.inf, np.inf)]


def factors(noise: float, two_sided: bool = True) -> Factors:
    size = len(BOXES)
    if not two_sided:
        upper = tensor(-2.0, -0.5, 0.0, 0.3, 1.0, 40.0)
        return Factors(tf.ones(size, tf.float64), tf.fill([size], tensor(noise)[0]), None, upper)
    return Factors(
        tf.ones(size, tf.float64),
        tf.fill([size], tensor(noise)[0]),
        tensor(*(a for a, _ in BOXES)),
        tensor(*(b for _, b in BOXES)),
    )


def around() -> Cavity:
    return Cavity(tensor(0.3, -0.2, 0.1, 1.0, -1.5, 0.7), tensor(1.0, 0.5, 2.0, 0.3, 1e-6, 1.3))


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.4, 10.0])
def test_site_gives_the_moments_of_the_tilted_distribution(noise: float, two_sided: bool) -> None:
    given, where = factors(noise, two_sided), around()
    sites, tilted = match_moments(where, given)
    for i in range(len(BOXES)):
        m, v = float(where.mean[i]), float(where.variance[i])
        lower = -np.inf if given.lower is None else float(given.lower[i])
        upper = float(given.upper[i])
        # v = z + noise is truncated; z follows by regression on v.
        log_mass, mean, variance = truncated_normal(m, v + noise, lower, upper, digits=60)
        share = v / (v + noise)
        mean_z = m + share * (float(mean) - m)
        variance_z = v * (1 - share) + share**2 * float(variance)
        tau, nu = float(sites.tau[i]), float(sites.nu[i])
        assert tau >= 0.0
        assert float(tilted.log_mass[i]) == pytest.approx(float(log_mass), rel=ROUNDING)
        assert v / (1 + tau * v) == pytest.approx(variance_z, rel=IDENTITY)
        assert (m + nu * v) / (1 + tau * v) == pytest.approx(mean_z, rel=IDENTITY, abs=IDENTITY)


@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_slope_and_curvature_are_derivatives_of_log_mass(noise: float) -> None:
    where, given, step = around(), factors(noise), 1e-4
    # Where the cavity is narrow a step of 1e-4 is no longer small.
    where = Cavity(where.mean, tf.maximum(where.variance, tensor(0.3)))

    def at(shift: float) -> tuple[np.ndarray, np.ndarray]:
        _, tilted = match_moments(Cavity(where.mean + shift, where.variance), given)
        return tilted.log_mass.numpy(), tilted.slope.numpy()

    _, tilted = match_moments(where, given)
    (up, slope_up), (down, slope_down) = at(step), at(-step)
    np.testing.assert_allclose(tilted.slope, (up - down) / (2 * step), rtol=GRADIENT, atol=GRADIENT)
    np.testing.assert_allclose(
        tilted.curvature, (slope_up - slope_down) / (2 * step), rtol=GRADIENT, atol=GRADIENT
    )


def test_no_limits_need_no_site() -> None:
    sites, tilted = match_moments(around(), factors(0.0))
    assert (sites.nu[-1], sites.tau[-1], tilted.log_mass[-1]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_zero_cavity_variance(noise: float) -> None:
    given = Factors(
        tf.ones(3, tf.float64), tf.fill([3], tensor(noise)[0]), None, tensor(1.0, 0.0, -1)
    )
    sites, tilted = match_moments(Cavity(tensor(0, 0, 0), tensor(0, 0, 0)), given)
    assert np.all(np.isfinite(sites.nu))
    assert np.all(np.isfinite(sites.tau))
    if noise == 0.0:
        np.testing.assert_array_equal(tilted.log_mass, [0.0, np.log(0.5), -np.inf])
    else:
        assert float(tilted.log_mass[1]) == pytest.approx(np.log(0.5), rel=ROUNDING)


@pytest.mark.parametrize("stretch", [3, 100])
@pytest.mark.parametrize("noise", [0.1, 0.0])
def test_moments_of_array_moments_are_the_plain_ones(
    monkeypatch: pytest.MonkeyPatch, stretch: int, noise: float
) -> None:
    plain = tf.nest.flatten(match_moments(around(), factors(noise)))
    monkeypatch.setattr(array_moments, "LENGTH", stretch)
    many = tf.nest.flatten(match_all_moments(around(), factors(noise)))
    for a, b in zip(plain, many, strict=True):
        np.testing.assert_allclose(b, a, rtol=ROUNDING, atol=ROUNDING)


def test_cavity_takes_one_copy_out() -> None:
    prior_mean, prior_variance, sites = tensor(0.4), tensor(2.0), Sites(tensor(0.6), tensor(1.5))
    # Posterior of the prior times the site; dividing the site out gives the prior back.
    variance = 1.0 / (1.0 / prior_variance + sites.tau)
    mean = variance * (prior_mean / prior_variance + sites.nu)
    back = cavity(mean, variance, sites)
    np.testing.assert_allclose(back.mean, prior_mean, rtol=ROUNDING)
    np.testing.assert_allclose(back.variance, prior_variance, rtol=ROUNDING)


def test_cavity_at_zero_variance_is_the_marginal() -> None:
    back = cavity(tensor(0.0), tensor(0.0), Sites(tensor(-3.0), tensor(7.0)))
    assert (float(back.mean[0]), float(back.variance[0])) == (0.0, 0.0)


def test_cavities_prefer_what_the_covariance_left_out() -> None:
    sites = Sites(tensor(0.1), tensor(0.2))
    left_out = (tensor(5.0), tensor(6.0))
    marginals = Marginals(tensor(1.0), tensor(2.0), tensor(0.0)[0], (), left_out)
    assert cavities(marginals, sites) == Cavity(*left_out)
    plain = cavities(marginals._replace(left_out=None), sites)
    assert float(plain.variance[0]) == pytest.approx(2.0 / (1 - 0.4), rel=ROUNDING)


def test_totals_and_damping() -> None:
    old, new = Sites(tensor(1.0, 2.0), tensor(0.0, 1.0)), Sites(tensor(3.0, 2.0), tensor(1.0, 0.0))
    precision, shift = totals(new, tensor(2.0, 3.0))
    np.testing.assert_array_equal(precision, [2.0, 0.0])
    np.testing.assert_array_equal(shift, [6.0, 6.0])
    half = damp(old, new, tensor(0.5)[0])
    np.testing.assert_array_equal(half.nu, [2.0, 2.0])
    np.testing.assert_array_equal(half.tau, [0.5, 0.5])
    assert np.array_equal(damp(old, new, tensor(1.0)[0]).nu, new.nu)


def test_largest_change_is_free_of_scale() -> None:
    old, new = Sites(tensor(0.0, 1.0), tensor(0.0, 2.0)), Sites(tensor(0.1, 1.0), tensor(0.2, 1.7))
    v = tensor(4.0, 9.0)
    change = float(largest_change(old, new, v))
    assert change == pytest.approx(2.7, rel=ROUNDING)
    s = 10.0  # z in other units: nu scales as 1/s, tau as 1/s²
    scaled = [Sites(x.nu / s, x.tau / s**2) for x in (old, new)]
    assert float(largest_change(*scaled, v * s**2)) == pytest.approx(change, rel=ROUNDING)


def test_largest_change_of_equal_sites_is_zero_and_keeps_nan() -> None:
    sites = Sites(tensor(1.0, 2.0), tensor(3.0, 4.0))
    assert float(largest_change(sites, sites, tensor(1.0, 1.0))) == 0.0
    broken = Sites(tensor(np.nan, 2.0), tensor(3.0, 4.0))
    assert np.isnan(float(largest_change(sites, broken, tensor(1.0, 1.0))))
