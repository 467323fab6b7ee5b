"""A truncated normal with many digits: the definitions as they stand, without any care for tails.

The digits that the textbook formulas lose by cancellation are simply carried along.
"""

from typing import NamedTuple

import mpmath
from mpmath import mpf

# Sixty good digits remain where the variance loses as many: limits at 1e8, widths of 1e-8.
DIGITS = 120


class Moments(NamedTuple):
    log_mass: mpf
    mean: mpf
    variance: mpf


def _density(x: mpf) -> mpf:
    return mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)


def _density_times_x(x: mpf) -> mpf:
    return mpf(0) if mpmath.isinf(x) else x * _density(x)


def _upper_tail(x: mpf) -> mpf:
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def truncated_normal(
    mean: float, variance: float, lower: float, upper: float, digits: int = DIGITS
) -> Moments:
    """Log mass of N(mean, variance) on (lower, upper), and the moments of the truncated normal.

    With a, b the limits in standard units and M = Phi(b) - Phi(a):
    E = (phi(a) - phi(b)) / M and V = 1 + (a phi(a) - b phi(b)) / M - E².
    """
    with mpmath.workdps(digits):
        sd = mpmath.sqrt(mpf(variance))
        a = (mpf(lower) - mpf(mean)) / sd
        b = (mpf(upper) - mpf(mean)) / sd
        # Of the two tails the small ones are subtracted: 1 - Phi would hold only `digits` digits.
        mass = _upper_tail(a) - _upper_tail(b) if a + b > 0 else _upper_tail(-b) - _upper_tail(-a)
        e = (_density(a) - _density(b)) / mass
        v = 1 + (_density_times_x(a) - _density_times_x(b)) / mass - e * e
        return Moments(mpmath.log(mass), mpf(mean) + sd * e, mpf(variance) * v)


def log_cdf(beta: float, digits: int = DIGITS) -> mpf:
    """log Phi(beta), for large beta as log(1 - tail)."""
    with mpmath.workdps(digits):
        if beta > 0:
            return mpmath.log1p(-_upper_tail(mpf(beta)))
        return mpmath.log(_upper_tail(-mpf(beta)))


def ratio(beta: float, digits: int = DIGITS) -> mpf:
    """r = phi(beta) / Phi(beta)."""
    with mpmath.workdps(digits):
        return _density(mpf(beta)) / _upper_tail(-mpf(beta))


def one_minus_variance_reduction(beta: float, digits: int = DIGITS) -> mpf:
    """1 - r (r + beta), the variance of a standard normal truncated to x < beta."""
    with mpmath.workdps(digits):
        r = ratio(beta, digits)
        return 1 - r * (r + mpf(beta))
