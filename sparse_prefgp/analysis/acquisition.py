"""What a duel is worth before it is asked, from the mean and variance of its utility difference.

A duel of a against b has d = f(a) - f(b) ~ N(mean, variance) and is won by a with probability
Phi((d - margin) / s), s² = 2 sigma²; without a margin there are no ties. Where the judge is not
known, s² is multiplied by one of several `NoiseRatios`, and probabilities are averaged over them.
All functions take arrays of N pairs (docs/method.md, section 12).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.interpolate import PPoly, make_interp_spline
from scipy.special import entr, log_ndtr, logsumexp, ndtr, owens_t

from sparse_prefgp.factors.noise import ONE_NOISE, NoiseRatios
from sparse_prefgp.factors.truncated_normal import log_mass
from sparse_prefgp.support.arrays import FloatArray

# The entropy of Phi(x), in units of log 2, is near exp(-x² / 2w) with this w (Houlsby et al. 2011,
# section 2.3), so near that the ratio of both is a polynomial to the digits of a double.
_WIDTH = 0.5 * np.pi * np.log(2.0)
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / np.sqrt(2.0 * np.pi)
_LOG_ROOT_TWO_PI = 0.5 * np.log(2.0 * np.pi)
# Of both halves of where three outcomes have an entropy, each clipped to the density.
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(64)
# Standard deviations beyond which neither a density nor an entropy is anything.
_REACH = 10.0
# Of an entropy averaged over noises: nodes of either side of the margin, and knots and degree of
# its spline, which is good to 1e-10.
_TURN_NODES, _TURN_WEIGHTS = np.polynomial.legendre.leggauss(128)
_KNOTS, _DEGREE = 1000, 5
# Numbers at a time, pairs by nodes: 4 MB an array.
_AT_ONCE = 2**19


def entropy(x: FloatArray) -> FloatArray:
    """Entropy in nats of an event of probability Phi(x), right in both tails."""
    lost, weight = _entropy_parts(x)
    return np.exp(lost) * weight


def _entropy_parts(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log e and w with entropy e w, where e = Phi(-|x|); e alone runs out of numbers far out."""
    log_rare = log_ndtr(-np.abs(x))
    rare = np.exp(log_rare)
    # -log(1 - e) / e, which is 1 where e is 0.
    common = np.divide(-np.log1p(-rare), rare, out=np.ones_like(rare), where=rare > 0.0)
    return log_rare, (1.0 - rare) * common - log_rare


def entropy_of_three(x: FloatArray, margin: FloatArray) -> FloatArray:
    """Entropy in nats of win, tie and loss, of x plus standard normal noise beyond the margin."""
    x, margin = np.broadcast_arrays(x, margin)
    log_p = [log_ndtr(x - margin), log_ndtr(-x - margin), log_mass(-margin - x, margin - x)]
    # Far out p log p is 0 and not NaN.
    return -sum(np.exp(each) * np.maximum(each, -800.0) for each in log_p)


def information_rule(
    duel_noise: float, margin: float = 0.0, ratios: NoiseRatios = ONE_NOISE
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """What the outcome tells about the utilities, in nats (BALD, Houlsby et al. 2011, eq. 2), (N,),
    as a function of mean and variance >= 0 of d, (N,) each: the average over noises of an outcome
    at a known difference is made once, and serves all pairs and all picks.

    H[outcome] - E H[outcome | d]. Without ties the expectation is by Gauss–Hermite under the
    product of the density of d and a normal that is near the entropy, so that a variance far above
    the noise costs no digits: the error is below 1e-14 nats for variances up to 1e6 times the
    noise. With them it is by Gauss–Legendre over where density and entropy are something, and so it
    is where noises are averaged, with an error below 1e-9 nats, or, where scales of the cuts are
    too, below 1e-7.

    :param duel_noise: s² > 0, times `ratios`.
    """
    s = float(np.sqrt(duel_noise))
    rule: Callable[..., FloatArray] = _gain_of_two
    nodes = len(_NODES)
    if len(ratios.ratios) > 1:
        rule = _AveragedEntropy(ratios, margin / s).gain
        nodes = max(len(ratios.ratios), len(_TURN_NODES))
    elif margin > 0.0:
        rule, nodes = partial(_gain_of_three, margin / s), len(_PANEL_NODES)

    def gain(mean: FloatArray, variance: FloatArray) -> FloatArray:
        # An information is negative only by rounding.
        return np.maximum(_in_parts(rule, nodes, mean / s, variance / duel_noise), 0.0)

    return gain


def _in_parts(
    function: Callable[..., FloatArray], numbers: int, *columns: FloatArray
) -> FloatArray:
    """A value of each of N pairs from its entries of the columns (N,), which takes so many numbers
    at a time."""
    size = max(1, _AT_ONCE // numbers)
    starts = range(0, len(columns[0]), size)
    parts = [function(*(column[i : i + size] for column in columns)) for i in starts]
    return np.concatenate([np.zeros(0), *parts])


def _gain_of_three(margin: float, centre: FloatArray, spread: FloatArray) -> FloatArray:
    """For d, its variance and the margin in units of the noise, (N,)."""
    sd = np.sqrt(spread)
    expected = np.zeros_like(centre)
    outer, inner = margin + _REACH, max(margin - _REACH, 0.0)
    for low, high in ((-outer, -inner), (inner, outer)):
        ends = [np.clip(x, centre - _REACH * sd, centre + _REACH * sd) for x in (low, high)]
        half = 0.5 * (ends[1] - ends[0])
        x = 0.5 * (ends[0] + ends[1])[:, None] + half[:, None] * _PANEL_NODES
        scale = np.where(sd > 0.0, sd, 1.0)[:, None]
        density = np.exp(-0.5 * ((x - centre[:, None]) / scale) ** 2 - _LOG_ROOT_TWO_PI) / scale
        expected += half * ((density * entropy_of_three(x, np.asarray(margin))) @ _PANEL_WEIGHTS)
    total = np.sqrt(1.0 + spread)
    gain = entropy_of_three(centre / total, margin / total) - expected
    return np.where(sd > 0.0, gain, 0.0)


def _gain_of_two(centre: FloatArray, spread: FloatArray) -> FloatArray:
    """The same without ties."""
    total = spread + _WIDTH
    # N(x; centre, spread) exp(-x²/2w) = c N(x; shrunk, spread w / total)
    shrunk, width = centre * _WIDTH / total, spread * _WIDTH / total
    log_scale = 0.5 * (np.log(_WIDTH / total) - centre**2 / total)
    x = shrunk[:, None] + np.sqrt(width)[:, None] * _NODES
    log_rare, weight = _entropy_parts(x)
    ratio = np.exp(log_rare + x**2 / (2.0 * _WIDTH)) * weight
    expected = np.exp(log_scale) * (ratio @ _WEIGHTS)
    return entropy(centre / np.sqrt(1.0 + spread)) - expected


class _AveragedEntropy:
    """The entropy of an outcome at x = d / s whose noise is averaged over ratios.

    It is a function of |x| alone, smooth in u = asinh((|x| - margin) / a) with a the scale of its
    narrowest turns, of which it is a spline.
    """

    def __init__(self, ratios: NoiseRatios, margin: float) -> None:
        self._ratios, self._margin = ratios, margin
        self._margins = margin * ratios.scales[:, None]
        # Of the noises that have a weight.
        sd = np.sqrt(ratios.ratios[ratios.weights > 1e-4])
        self._scale = 0.5 * float(sd.min())
        widest = margin * float(ratios.scales.max())
        self._reach = widest + _REACH * float(np.sqrt(ratios.ratios.max()))
        inside = [(0.0, margin)] if margin > 0.0 else []
        self._parts = [*inside, (margin, self._reach)]
        u = np.linspace(self._turned(0.0), self._turned(self._reach), _KNOTS)
        x = margin + self._scale * np.sinh(u)
        spline = make_interp_spline(u, self._entropy(x, np.zeros_like(x)), k=_DEGREE)
        self._spline = PPoly.from_spline(spline)

    def _turned(self, x: FloatArray | float) -> FloatArray:
        return np.arcsinh((x - self._margin) / self._scale)

    def _entropy(self, centre: FloatArray, spread: FloatArray) -> FloatArray:
        """In nats, for d / s ~ N(centre, spread), (N,)."""
        total = np.sqrt(self._ratios.ratios[:, None] + spread)
        ahead = np.abs(centre)  # whichever of the two is
        behind_wins = self._ratios.weights @ ndtr((-ahead - self._margins) / total)
        tied = np.zeros_like(behind_wins)
        if self._margin > 0.0:
            not_ahead = self._ratios.weights @ ndtr((self._margins - ahead) / total)
            tied = np.maximum(not_ahead - behind_wins, 0.0)  # negative only by rounding, as below
        ahead_wins = np.maximum(1.0 - behind_wins - tied, 0.0)
        return entr(behind_wins) + entr(tied) + entr(ahead_wins)

    def gain(self, centre: FloatArray, spread: FloatArray) -> FloatArray:
        """For d and its variance in units of the noise, (N,)."""
        sd = np.sqrt(spread)
        scale = np.where(sd > 0.0, sd, 1.0)[:, None]
        expected = np.zeros_like(centre)
        for side in (centre, -centre):  # x > 0, and x < 0 turned over
            for start, end in self._parts:
                ends = [np.clip(x, side - _REACH * sd, side + _REACH * sd) for x in (start, end)]
                low, high = (self._turned(x) for x in ends)
                half = 0.5 * (high - low)
                u = 0.5 * (low + high)[:, None] + half[:, None] * _TURN_NODES
                x = self._margin + self._scale * np.sinh(u)
                log_density = -0.5 * ((x - side[:, None]) / scale) ** 2 - _LOG_ROOT_TWO_PI
                density = np.exp(log_density) / scale * self._scale * np.cosh(u)
                expected += half * ((density * self._spline(u)) @ _TURN_WEIGHTS)
        return np.where(sd > 0.0, self._entropy(centre, spread) - expected, 0.0)


def expected_best(first: FloatArray, second: FloatArray, variance: FloatArray) -> FloatArray:
    """E max(f(a), f(b)) (EUBO, Lin et al. 2022; the formula is Clark's, 1961, eq. 2), (N,).

    :param first: (N,) E f(a) and E f(b).
    :param second: (N,) E f(a) and E f(b).
    :param variance: (N,) of f(a) - f(b), >= 0.
    """
    sd = np.sqrt(variance)
    difference = first - second
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(sd > 0.0, difference / sd, np.where(difference < 0.0, -np.inf, np.inf))
    density = np.exp(-0.5 * z**2 - _LOG_ROOT_TWO_PI)
    return second + difference * ndtr(z) + sd * density


def expected_reduction(
    mean: FloatArray,
    variance: FloatArray,
    duel_noise: float | FloatArray,
    margin: float | FloatArray = 0.0,
    ratios: NoiseRatios = ONE_NOISE,
) -> FloatArray:
    """r such that asking takes r Cov[g, d]² off the variance of any utility g, on average.

    With S = variance + s², an outcome is d + noise in an interval, whose limits less the mean are a
    and b in units of sqrt(S), of probability P. It moves E g by Cov[g, d] (phi(a) - phi(b)) /
    sqrt(S) P (Rasmussen & Williams 2006, eq. 3.58), so that by the law of total variance r is the
    sum of ((phi(a) - phi(b)) / sqrt(S))² / P over the outcomes: phi(z)² / (S Phi(z) Phi(-z)), z =
    mean / sqrt(S), without ties. Densities over sqrt(S), as P, are averaged over `ratios`. It needs
    no outcome. Where the variance is 0 it is the Fisher information of the answer about d.

    :param duel_noise: s², of all or of each, (N,), as is `margin`.
    """
    each = [np.broadcast_to(values, mean.shape) for values in (duel_noise, margin)]
    return _in_parts(partial(_reduction, ratios), len(ratios.ratios), mean, variance, *each)


def _reduction(
    ratios: NoiseRatios,
    mean: FloatArray,
    variance: FloatArray,
    duel_noise: FloatArray,
    margin: FloatArray,
) -> FloatArray:
    """`expected_reduction` of some pairs, (N,) each."""
    sd = np.sqrt(variance[:, None] + duel_noise[:, None] * ratios.ratios)
    margins = margin[:, None] * ratios.scales
    low, high = (-margins - mean[:, None]) / sd, (margins - mean[:, None]) / sd
    at_low, at_high = _log_density(low), _log_density(high)

    def mean_of(log: FloatArray) -> FloatArray:
        return logsumexp(log, axis=1, b=ratios.weights)

    found = [
        2.0 * mean_of(at_low - np.log(sd)) - mean_of(log_ndtr(low)),
        2.0 * mean_of(at_high - np.log(sd)) - mean_of(log_ndtr(-high)),
    ]
    if np.any(margins > 0.0):
        # One density less the other, in logs: both are nothing far out, where the tie is still
        # less. Which is larger depends on the sign of the mean alone.
        larger, smaller = np.maximum(at_low, at_high), np.minimum(at_low, at_high)
        with np.errstate(divide="ignore"):  # equal densities: a tie moves nothing
            apart = larger + np.log1p(-np.exp(smaller - larger))
        found.append(2.0 * mean_of(apart - np.log(sd)) - mean_of(log_mass(low, high)))
    return sum(np.exp(each) for each in found)


def doubt_left(mean: FloatArray, variance: FloatArray, left: FloatArray) -> FloatArray:
    """How probably who knows d to within `left` takes its sign for the other one, for a truth that
    is drawn from N(mean, variance).

    That is E Phi(-|d| / sqrt(left)) = 2 T(mean / sqrt(variance + left), sqrt(left / variance)),
    with T Owen's function (Owen 1956): d and d plus what is not known have opposite signs. All are
    arrays of one shape, variances at least 0; nothing is in doubt of what has none.
    """
    known = variance > 0.0
    spread = np.where(known, variance, 1.0)
    found = 2.0 * owens_t(mean / np.sqrt(spread + left), np.sqrt(left / spread))
    return np.where(known, found, 0.0)


def doubt_slope(mean: FloatArray, variance: FloatArray, left: FloatArray) -> FloatArray:
    """The derivative of `doubt_left` by what is left; 0 where nothing is left, or was in doubt."""
    known = (variance > 0.0) & (left > 0.0)
    spread, rest = np.where(known, variance, 1.0), np.where(known, left, 1.0)
    total = spread + rest
    h, a = mean / np.sqrt(total), np.sqrt(rest / spread)
    # dT/dh = -phi(h) (Phi(a h) - 1/2), dT/da = exp(-h² (1 + a²) / 2) / (2 pi (1 + a²))
    by_h = -np.exp(_log_density(h)) * (ndtr(a * h) - 0.5)
    by_a = np.exp(-0.5 * h**2 * (1.0 + a**2)) / (2.0 * np.pi * (1.0 + a**2))
    found = -by_h * h / total + by_a / np.sqrt(rest * spread)
    return np.where(known, found, 0.0)


def _log_density(z: FloatArray) -> FloatArray:
    return -0.5 * z**2 - _LOG_ROOT_TWO_PI
