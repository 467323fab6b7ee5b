"""Tail and interval functions against 60 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import tensorflow as tf

from sparse_prefgp.factors import array_moments, truncated_normal
from sparse_prefgp.factors.truncated_normal import HalfLine, Moments, log_cdf
from tests.cases import read
from tests.reference.slow_truncated_normal import truncated_normal as slow_truncated_normal
from tests.tolerances import FLUSHED, TAIL

TAIL_ROWS = read("normal_tail.json")["rows"]
BOX_ROWS = read("normal_box.json")["rows"]


def close(actual: object, expected: object) -> None:
    """TAIL relative; numbers below the smallest normal float64 are flushed to zero."""
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=TAIL, atol=FLUSHED)


def column(rows: list[dict[str, float]], name: str) -> np.ndarray:
    return np.array([row[name] for row in rows], float)


class Way:
    """The functions of tensors, or those of arrays for many sites."""

    def __init__(self, of_arrays: bool) -> None:
        self._functions = array_moments if of_arrays else truncated_normal
        self._given = np.asarray if of_arrays else tf.constant

    def half_line(self, b: np.ndarray) -> HalfLine:
        with np.errstate(all="ignore"):
            return HalfLine(*map(np.asarray, self._functions.half_line(self._given(b))))

    def boxes(self, lower: np.ndarray | None, upper: np.ndarray) -> Moments:
        lower = None if lower is None else self._given(lower)
        with np.errstate(all="ignore"):
            found = self._functions.truncated_moments(lower, self._given(upper))
        return Moments(*map(np.asarray, found))


@pytest.fixture(params=[False, True], ids=["tensors", "arrays"])
def way(request: pytest.FixtureRequest) -> Way:
    return Way(request.param)


def test_half_line_against_sixty_digits(way: Way) -> None:
    line = way.half_line(column(TAIL_ROWS, "beta"))
    close(line.log_mass, column(TAIL_ROWS, "log_cdf"))
    close(line.ratio, column(TAIL_ROWS, "ratio"))
    close(line.variance, column(TAIL_ROWS, "one_minus_variance_reduction"))


def test_log_cdf_against_sixty_digits() -> None:
    close(log_cdf(tf.constant(column(TAIL_ROWS, "beta"))), column(TAIL_ROWS, "log_cdf"))


def test_distance_of_half_line_keeps_its_digits(way: Way) -> None:
    beta = np.array([-1e8, -1e6, -1e3, -40.0, -4.0001, -4.0, -3.9999, -1.0, 0.0, 3.0, 30.0])
    line = way.half_line(beta)
    with mpmath.workdps(80):
        expected = []
        for b in map(mpmath.mpf, beta):
            r = mpmath.npdf(b) / (mpmath.erfc(-b / mpmath.sqrt(2)) / 2)
            expected.append(float(r + b))
    close(line.distance, expected)


def test_boxes_against_sixty_digits(way: Way) -> None:
    lower, upper = column(BOX_ROWS, "lower"), column(BOX_ROWS, "upper")
    m = way.boxes(lower, upper)
    close(m.log_mass, column(BOX_ROWS, "log_mass"))
    close(m.variance, column(BOX_ROWS, "variance"))
    # The mean of a symmetric box is 0 and has no relative error: count it against the width.
    error = np.abs(m.mean - column(BOX_ROWS, "mean"))
    size = np.maximum(np.abs(column(BOX_ROWS, "mean")), np.minimum(1.0, upper - lower))
    assert np.all(error <= TAIL * size)
    # E is the distance to the limit nearer to zero, whichever side it is on.
    close(m.distance, np.abs(column(BOX_ROWS, "mean_minus_near_end")))
    skewed = lower != -upper
    near_is_lower = np.abs(lower) < np.abs(upper)
    np.testing.assert_array_equal((m.sign < 0)[skewed], near_is_lower[skewed])


def test_random_boxes_against_many_digits(way: Way) -> None:
    rng = np.random.default_rng(0)
    centre = rng.choice([-1.0, 1.0], 60) * 10.0 ** rng.uniform(-3, 4, 60)
    # Wider ones hold all but 1e-100 of the mass, which the reference's 120 digits do not see.
    width = 10.0 ** rng.uniform(-8, 1.5, 60)
    lower, upper = centre - width / 2, centre + width / 2
    m = way.boxes(lower, upper)
    exact = [slow_truncated_normal(0.0, 1.0, a, b) for a, b in zip(lower, upper, strict=True)]
    close(m.log_mass, [float(e.log_mass) for e in exact])
    close(m.variance, [float(e.variance) for e in exact])
    with mpmath.workdps(120):
        reduction = [float(1 - e.variance) for e in exact]
    close(m.reduction, reduction)


@pytest.mark.parametrize("b", [-1e8, -30.0, -1.0, 0.0, 1.0, 30.0])
def test_open_intervals_are_half_lines(way: Way, b: float) -> None:
    line = way.half_line(np.array([b]))
    below = way.boxes(np.array([-np.inf]), np.array([b]))
    above = way.boxes(np.array([-b]), np.array([np.inf]))
    only = way.boxes(None, np.array([b]))
    for m, sign in ((below, 1.0), (above, -1.0), (only, 1.0)):
        close(m.log_mass, line.log_mass)
        close(m.variance, line.variance)
        close(sign * m.mean, -line.ratio)
        close(m.reduction, line.ratio * line.distance)
        close(m.lean, line.ratio * (line.variance + line.distance**2))


def test_no_limits_change_nothing(way: Way) -> None:
    m = way.boxes(np.array([-np.inf]), np.array([np.inf]))
    assert (m.log_mass[0], m.mean[0], m.variance[0]) == (0.0, 0.0, 1.0)
    assert (m.reduction[0], m.lean[0]) == (0.0, 0.0)


def test_mirrored_boxes_mirror_the_moments(way: Way) -> None:
    lower, upper = column(BOX_ROWS, "lower"), column(BOX_ROWS, "upper")
    m, mirrored = way.boxes(lower, upper), way.boxes(-upper, -lower)
    np.testing.assert_array_equal(m.log_mass, mirrored.log_mass)
    np.testing.assert_array_equal(m.variance, mirrored.variance)
    symmetric = lower == -upper
    np.testing.assert_array_equal(m.mean[~symmetric], -mirrored.mean[~symmetric])
