"""What a duel is worth before it is asked, from the mean and variance of its utility difference.

A duel of a against b has d = f(a) - f(b) ~ N(mean, variance) and is won by a with probability
Phi(d / s), s² = 2 sigma². All functions take arrays of N pairs (docs/method.md, section 12).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

FloatArray = npt.NDArray[np.float64]

# The entropy of Phi(x), in units of log 2, is near exp(-x² / 2w) with this w (Houlsby et al. 2011,
# section 2.3), so near that the ratio of both is a polynomial to the digits of a double.
_WIDTH = 0.5 * np.pi * np.log(2.0)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / np.sqrt(2.0 * np.pi)
_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)
# So many pairs at a time: with the nodes, 4 MB an array.
_CHUNK = 16_384


def entropy(x: FloatArray) -> FloatArray:
    """Entropy in nats of an event of probability Phi(x), right in both tails."""
    lost, weight = _entropy_parts(x)
    return np.asarray(np.exp(lost) * weight, dtype=float)


def _entropy_parts(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log e and w with entropy e w, where e = Phi(-|x|); e alone runs out of numbers far out."""
    log_rare = log_ndtr(-np.abs(x))
    rare = np.exp(log_rare)
    # -log(1 - e) / e, which is 1 where e is 0.
    common = np.divide(-np.log1p(-rare), rare, out=np.ones_like(rare), where=rare > 0.0)
    return log_rare, (1.0 - rare) * common - log_rare


def information_gain(mean: FloatArray, variance: FloatArray, duel_noise: float) -> FloatArray:
    """What the outcome tells about the utilities, in nats (BALD, Houlsby et al. 2011, eq. 2), (N,).

    H[Phi(mean / sqrt(variance + s²))] - E H[Phi(d / s)]. The expectation is by Gauss–Hermite under
    the product of the density of d and a normal that is near the entropy, so that a variance far
    above the noise costs no digits: the error is below 1e-14 nats for variances up to
    1e6 times the noise.

    :param mean, variance: (N,) of d, variance >= 0. duel_noise: s² > 0.
    """
    parts = [
        _information_gain(mean[i : i + _CHUNK], variance[i : i + _CHUNK], duel_noise)
        for i in range(0, len(mean), _CHUNK)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _information_gain(mean: FloatArray, variance: FloatArray, duel_noise: float) -> FloatArray:
    centre, spread = mean / np.sqrt(duel_noise), variance / duel_noise  # of x = d / s
    total = spread + _WIDTH
    # N(x; centre, spread) exp(-x²/2w) = c N(x; shrunk, spread w / total)
    shrunk, width = centre * _WIDTH / total, spread * _WIDTH / total
    log_scale = 0.5 * (np.log(_WIDTH / total) - centre**2 / total)
    x = shrunk[:, None] + np.sqrt(width)[:, None] * _NODES
    ratio = _entropy_ratio(x)
    expected = np.exp(log_scale) * (ratio @ _WEIGHTS)
    gain = entropy(centre / np.sqrt(1.0 + spread)) - expected
    return np.maximum(gain, 0.0)  # an information is negative only by rounding


def _entropy_ratio(x: FloatArray) -> FloatArray:
    """Entropy of Phi(x) over exp(-x² / 2w)."""
    log_rare, weight = _entropy_parts(x)
    return np.asarray(np.exp(log_rare + x**2 / (2.0 * _WIDTH)) * weight, dtype=float)


def expected_best(first: FloatArray, second: FloatArray, variance: FloatArray) -> FloatArray:
    """E max(f(a), f(b)) (EUBO, Lin et al. 2022; the formula is Clark's, 1961, eq. 2), (N,).

    :param first, second: (N,) E f(a) and E f(b). variance: (N,) of f(a) - f(b), >= 0.
    """
    sd = np.sqrt(variance)
    difference = first - second
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(sd > 0.0, difference / sd, np.where(difference < 0.0, -np.inf, np.inf))
    density = np.exp(-0.5 * z**2 - _LOG_ROOT_TWO_PI)
    return np.asarray(second + difference * ndtr(z) + sd * density, dtype=float)


def expected_reduction(mean: FloatArray, variance: FloatArray, duel_noise: float) -> FloatArray:
    """r such that asking takes r Cov[g, d]² off the variance of any utility g, on average.

    With S = variance + s² and z = mean / sqrt(S), a win or a loss moves E g by Cov[g, d] phi(z) /
    sqrt(S) over its probability (Rasmussen & Williams 2006, eq. 3.58), so that by the law of total
    variance r = phi(z)² / (S Phi(z) Phi(-z)). It needs no outcome.
    """
    total = variance + duel_noise
    z = mean / np.sqrt(total)
    log_density = -0.5 * z**2 - _LOG_ROOT_TWO_PI
    share = np.exp(2.0 * log_density - log_ndtr(z) - log_ndtr(-z))
    return np.asarray(share / total, dtype=float)
