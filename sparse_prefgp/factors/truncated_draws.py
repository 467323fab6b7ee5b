"""Draws from normals cut to an interval, by inversion in log space."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtri_exp

from sparse_prefgp.support.arrays import FloatArray

# Below it a difference of log Phi has lost digits: 1e-6 at -1000, all of them at -1e6.
_FAR = -5.0
_NEWTON_STEPS = 3
_ROOT_HALF, _ROOT_TWO_OVER_PI = np.sqrt(0.5), np.sqrt(2.0 / np.pi)


def standard_draws(a: FloatArray | None, b: FloatArray, uniform: FloatArray) -> FloatArray:
    """Draws from standard normals cut to (a, b), from uniforms in (0, 1]; a None is -inf.

    log Phi is inverted, not Phi, and an interval in the upper tail is reflected into the lower one,
    so that no tail is too far out. A uniform is the share of the interval on the farther side from
    zero, so that none but 0 gives an infinite draw.
    """
    if a is None:
        return np.minimum(_quantile_below(b, np.log(uniform)), b)
    with np.errstate(invalid="ignore"):  # -inf + inf: no limits, nothing to reflect
        turn = a + b > 0.0
    low, high = np.where(turn, -b, a), np.where(turn, -a, b)
    ratio = np.exp(_log_share(low, high))
    x = np.clip(_quantile_below(high, np.log(uniform + (1.0 - uniform) * ratio)), low, high)
    return np.asarray(np.where(turn, -x, x), dtype=float)


def _log_share(x: FloatArray, b: FloatArray) -> FloatArray:
    """log Phi(x) / Phi(b) for x <= b."""
    # Infinite limits, for which `where` takes the other branch.
    with np.errstate(invalid="ignore", divide="ignore"):
        far = _log_tail_share(-b, b - x)
        return np.where((b < _FAR) & np.isfinite(x), far, log_ndtr(x) - log_ndtr(b))


def _quantile_below(b: FloatArray, log_share: FloatArray) -> FloatArray:
    """x with Phi(x) = share Phi(b), share in (0, 1]."""
    x = ndtri_exp(log_ndtr(b) + log_share)
    far = b < _FAR
    if np.any(far):
        x[far] = b[far] - _tail_excess(-b[far], log_share[far])
    return np.asarray(x, dtype=float)


def _log_tail_share(beta: FloatArray, excess: FloatArray) -> FloatArray:
    """log Phi(-beta - excess) / Phi(-beta), beta > 0: what is large has cancelled by itself.

    Phi(-y) = exp(-y²/2) erfcx(y / √2) / 2.
    """
    ratio = erfcx((beta + excess) * _ROOT_HALF) / erfcx(beta * _ROOT_HALF)
    return np.asarray(np.log(ratio) - excess * (beta + 0.5 * excess), dtype=float)


def _tail_excess(beta: FloatArray, log_share: FloatArray) -> FloatArray:
    """Inverse of `_log_tail_share` in the excess, by Newton's method.

    It begins where erfcx is held, which far out is nearly the solution.
    """
    excess = -2.0 * log_share / (beta + np.sqrt(beta * beta - 2.0 * log_share))
    for _ in range(_NEWTON_STEPS):
        hazard = _ROOT_TWO_OVER_PI / erfcx((beta + excess) * _ROOT_HALF)
        excess = excess + (_log_tail_share(beta, excess) - log_share) / hazard
    return np.maximum(excess, 0.0)
