"""Moment matching of all sites by NumPy, a stretch of them at a time.

What `sites.py` and `truncated_normal.py` do op by op, with the same formulas: each branch sees the
sites that need it alone, where a compiled pass takes all branches for all, and nothing is compiled,
which is a third of a small fit and 150 MiB. Without gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from scipy.special import erfcx

from sparse_prefgp.factors.truncated_normal import (
    FAR,
    LOG_SQRT_2PI,
    NODE_WEIGHTS,
    NODES,
    SQRT_2_OVER_PI,
    WIDE,
    HalfLine,
    Moments,
    far_out,
)
from sparse_prefgp.support.arrays import FloatArray, IntArray
from sparse_prefgp.support.linalg import each_by_numpy

# Sites at a time: fifty arrays of so many numbers stay in the processor's cache.
LENGTH = 1 << 13
_POWERS = NODE_WEIGHTS[:, None] * NODES[:, None] ** np.arange(3)


def by_stretches(
    function: Callable[..., Sequence[FloatArray]], rows: int, *tensors: tf.Tensor | None
) -> list[tf.Tensor]:
    """`function` of arrays (t,) or None, which returns `rows` arrays (t,), on tensors."""
    there = [x is not None for x in tensors]

    def whole(*arrays: FloatArray) -> list[FloatArray]:
        found = [np.empty_like(arrays[0]) for _ in range(rows)]
        with np.errstate(all="ignore"):  # what is not finite is found by who asked
            for start in range(0, len(arrays[0]), LENGTH):
                at = slice(start, start + LENGTH)
                each = (x[at] for x in arrays)
                parts = function(*(next(each) if x else None for x in there))
                for values, part in zip(found, parts, strict=True):
                    values[at] = part
        return found

    known = [x for x in tensors if x is not None]
    return each_by_numpy(whole, *known, shapes=[known[0].shape] * rows)


def matched(
    mean: FloatArray,
    variance: FloatArray,
    noise: FloatArray,
    lower: FloatArray | None,
    upper: FloatArray,
) -> tuple[FloatArray, ...]:
    """`sites.match_moments` of cavities with this mean and variance: nu and tau of the sites, and
    log mass, slope and curvature, (t,) each."""
    total = variance + noise
    certain = np.flatnonzero(total == 0.0)
    total[certain] = 1.0
    scale = np.sqrt(total)
    above = upper - mean
    below = None if lower is None else lower - mean
    m = truncated_moments(None if below is None else below / scale, above / scale)
    denominator = noise + variance * m.variance
    near_end = upper
    if lower is not None:
        near_end, turned = upper.copy(), np.flatnonzero(m.sign < 0.0)
        near_end[turned] = -lower[turned]
        near_end[np.isinf(near_end)] = 0.0  # what it is multiplied by is 0 there
    nu = m.sign * (near_end * m.reduction - scale * m.lean) / denominator
    tau = m.reduction / denominator
    found = nu, tau, m.log_mass, m.mean / scale, -m.reduction / total
    if len(certain):
        for values in (*found[:2], *found[3:]):
            values[certain] = 0.0
        sure = _log_certainty(above) if below is None else _log_certainty(above, -below)
        found[2][certain] = sure[certain]
    return found


def step(
    mean: FloatArray,
    variance: FloatArray,
    nu: FloatArray,
    tau: FloatArray,
    noise: FloatArray,
    lower: FloatArray | None,
    upper: FloatArray,
) -> tuple[FloatArray, ...]:
    """Mean and variance of the cavities of sites under marginals, what `matched` finds there, and
    by how much each site would change (`sites.changes`)."""
    q = 1.0 - tau * variance
    around = (mean - nu * variance) / q, variance / q
    proposal = matched(*around, noise, lower, upper)
    v = np.abs(variance)
    change = np.maximum(_moved(tau, proposal[1]) * v, _moved(nu, proposal[0]) * np.sqrt(v))
    return *around, *proposal, change


def ends(
    mean: FloatArray,
    variance: FloatArray,
    nu: FloatArray,
    tau: FloatArray,
    log_mass: FloatArray,
    slope: FloatArray,
    curvature: FloatArray,
    noise: FloatArray,
    lower: FloatArray | None,
    upper: FloatArray,
) -> tuple[FloatArray, ...]:
    """What each site adds to the log evidence (`evidence_of_sites`), and its derivatives in noise,
    upper and lower limits (`sites.factor_slopes`), at cavities with this mean and variance."""
    gain = 1.0 + variance * tau
    evidence = log_mass + 0.5 * mean * (tau * mean - nu) / gain + 0.5 * np.log(gain)
    by_noise = 0.5 * (slope**2 + curvature)
    if lower is None:
        return evidence, by_noise, -slope
    scale = np.sqrt(variance + noise)
    found = []
    for limit in (upper, lower):
        at = (limit - mean) / scale
        density = np.exp(-0.5 * at * at - LOG_SQRT_2PI - log_mass) / scale
        density[np.isinf(at)] = 0.0
        found.append(density)
    return evidence, by_noise, found[0], -found[1]


def _moved(old: FloatArray, new: FloatArray) -> FloatArray:
    return np.maximum(np.abs(new - old) - 64.0 * np.finfo(old.dtype).eps * np.abs(new), 0.0)


def _log_certainty(*room: FloatArray) -> FloatArray:
    """Of a point that has so much room to each limit, as `sites` has it."""
    sides = [np.select([x > 0.0, x < 0.0], [0.0, -np.inf], np.log(0.5)) for x in room]
    return np.asarray(sum(sides))


def truncated_moments(a: FloatArray | None, b: FloatArray) -> Moments:
    """`truncated_normal.truncated_moments` of arrays (t,)."""
    sign = np.ones_like(b)
    if a is not None:
        free, reflect = np.flatnonzero(np.isinf(a) & np.isinf(b)), np.flatnonzero(a + b > 0.0)
        a, b = a.copy(), b.copy()
        b[free], sign[reflect] = 0.0, -1.0
        a[reflect], b[reflect] = -b[reflect], -a[reflect]
    log_mass, ratio, distance, variance = half_line(b)
    lean = ratio * (variance + distance**2)
    found = Moments(log_mass, -ratio, variance, ratio * distance, sign, distance, lean)
    if a is None:
        return found
    inside = np.flatnonzero(~np.isinf(a))
    if len(inside):
        of_b = HalfLine(*(x[inside] for x in (log_mass, ratio, distance, variance)))
        some, between = _of_intervals(a[inside], b[inside], of_b)
        for values, new in zip((log_mass, *found[1:4], distance, lean), between, strict=True):
            values[inside[some]] = new
    found.mean[reflect] *= -1.0
    for values, of_free in zip(found, (0.0, 0.0, 1.0, 0.0, 1.0, np.inf, 0.0), strict=True):
        values[free] = of_free
    return found


def _of_intervals(
    a: FloatArray, b: FloatArray, of_b: HalfLine
) -> tuple[IntArray, tuple[FloatArray, ...]]:
    """Which of finite intervals with a + b <= 0 do not end where nothing is left of the half-line,
    and their log mass, mean, variance, reduction, distance and lean."""
    of_a, width, negative = half_line(a), b - a, b < 0.0
    tail = 0.5 * width * (a + b) + np.log(np.where(negative, of_b.ratio, 1.0) / of_a.ratio)
    rho = np.exp(np.where(negative, tail, of_a.log_mass - of_b.log_mass))
    wide, narrow = rho < WIDE, np.flatnonzero(~(rho < WIDE))
    r = np.where(wide, rho, 0.0)
    e_a = width + of_a.distance
    e = (of_b.distance - r * e_a) / (1.0 - r)
    v = of_b.variance + of_b.distance**2 - r * (of_a.variance + e_a**2)
    v = v / (1.0 - r) - e**2
    log_mass = of_b.log_mass + np.log1p(-r)
    log_mass[narrow], e[narrow], v[narrow] = _narrow_interval(a[narrow], b[narrow])
    mean = b - e
    phi_b, phi_a = (np.exp(-0.5 * x * x - LOG_SQRT_2PI - log_mass) for x in (b, a))
    gained = b * phi_b - a * phi_a + mean * mean
    reduction = np.where(v < 0.5, 1.0 - v, gained)
    some = np.flatnonzero(rho != 0.0)
    return some, tuple(x[some] for x in (log_mass, mean, v, reduction, e, e - b * v))


def half_line(b: FloatArray) -> HalfLine:
    """`truncated_normal.half_line` of an array (t,)."""
    half_square = 0.5 * b * b
    scaled = erfcx(np.abs(b) / np.sqrt(2.0))
    density = np.exp(-half_square)
    beyond = 0.5 * scaled * density  # Phi(-|b|)
    log_mass, ratio = np.log1p(-beyond), 0.5 * SQRT_2_OVER_PI * density / (1.0 - beyond)
    below = np.flatnonzero(b < 0.0)
    log_mass[below] = np.log(0.5 * scaled[below]) - half_square[below]
    ratio[below] = SQRT_2_OVER_PI / scaled[below]
    distance = ratio + b
    variance = 1.0 - ratio * distance
    far = np.flatnonzero(b < FAR)
    if len(far):
        x = -b[far]
        distance[far], variance[far] = far_out(x)
        ratio[far] = x + distance[far]
    return HalfLine(log_mass, ratio, distance, variance)


def _narrow_interval(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """`truncated_normal._narrow_interval` of arrays (t,)."""
    centre, half = 0.5 * (a + b), 0.5 * (b - a)
    t = half[:, None] * NODES
    density = np.exp(-t * (centre[:, None] + 0.5 * t))
    # Of nodes from -1 to 1 the mean is below 1 and the variance above .1: no digits cancel.
    total, first, second = (density @ _POWERS).T
    mean = first / total
    log_mass = -0.5 * centre**2 - LOG_SQRT_2PI + np.log(half * total)
    return log_mass, half * (1.0 - mean), half**2 * (second / total - mean**2)
