"""Gaussian sites on z: cavity, moment matching, damping, as pure functions.

One site stands for `counts` equal duels; `tau` (precision) and `nu` (precision × mean) are those of
a single copy. The factor of a duel is `P(lower < z + noise < upper)`, noise of variance D. A count
c below 1 is a power of it, which a cavity takes out as a whole: c tau and c nu, matched to the
factor^c by quadrature (docs/method.md, section 14).

Sources: Takeno, Nomura & Karasuyama (2023), appendix on EP; Rasmussen & Williams (2006), section
3.6; in forms that survive the tails and zero variances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf

from sparse_prefgp.factors import array_moments
from sparse_prefgp.factors.expectations import limit_densities
from sparse_prefgp.factors.power_moments import PowerMoments, power_moments
from sparse_prefgp.factors.truncated_normal import truncated_moments

# A power of all factors, or of each, (t,).
Power: TypeAlias = "float | tf.Tensor"
Found = TypeVar("Found")


class Sites(NamedTuple):
    """Natural parameters of one copy of each site, (t,) each; tau >= 0."""

    nu: tf.Tensor
    tau: tf.Tensor

    @classmethod
    def zeros(cls, num_sites: int, dtype: tf.DType) -> Sites:
        return cls(tf.zeros([num_sites], dtype), tf.zeros([num_sites], dtype))


class Factors(NamedTuple):
    """The exact factors: z + N(0, noise) lies in (lower, upper). All fields (t,)."""

    counts: tf.Tensor
    noise: tf.Tensor
    lower: tf.Tensor | None
    """None when every interval is (-inf, upper), upper finite: the case of duels."""
    upper: tf.Tensor
    inside: tf.Tensor | None = None
    """What the covariance of z leaves out of its variance, for an engine that takes expectations of
    log factors over q(z); None where there is nothing, or where it counts elsewhere.
    """
    portions: tf.Tensor | None = None
    """The power of its factor that an engine of expectation propagation takes out of a site and
    puts back, min(c, 1); None where that is 1 for all, which needs no quadrature.
    """

    @property
    def event(self) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor]:
        """Noise, lower and upper limits: of what each is the probability."""
        return self.noise, self.lower, self.upper


class Cavity(NamedTuple):
    mean: tf.Tensor
    variance: tf.Tensor


class Tilted(NamedTuple):
    """What one factor says under its cavity; all fields (t,)."""

    log_mass: tf.Tensor
    """log Z_i."""
    slope: tf.Tensor
    """g = d log Z_i / d cavity mean."""
    curvature: tf.Tensor
    """h, the second derivative."""


def totals(sites: Sites, counts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Precision and shift of all copies: c tau and c nu."""
    return counts * sites.tau, counts * sites.nu


def portions_of(counts: np.ndarray) -> np.ndarray | None:
    """`Factors.portions` of counts (t,); a count of 0, which fills a chunk up, is as good as 1."""
    below = (counts > 0.0) & (counts < 1.0)
    return np.where(below, counts, 1.0) if np.any(below) else None


def powers_of(factors: Factors, power: float) -> Power:
    """The power of each factor that power EP takes out: p min(c, 1), as a number where it can."""
    return power if factors.portions is None else power * factors.portions


def cavity(mean: tf.Tensor, variance: tf.Tensor, sites: Sites, power: Power = 1.0) -> Cavity:
    """Take the share `power` of one copy of each site out. Right at zero variance too."""
    q = 1.0 - power * sites.tau * variance
    return Cavity((mean - power * sites.nu * variance) / q, variance / q)


def match_moments(cavity: Cavity, factors: Factors) -> tuple[Sites, Tilted]:
    """The sites that give cavity × site the moments of cavity × factor (docs/method.md, section 2).

    tau = (1 - V) / (D + v_c V) and nu = (upper (1 - V) - s (E - b V)) / (D + v_c V) with
    s² = v_c + D, which is Takeno et al.'s mu~, s~² with the signs put right.
    """
    total = cavity.variance + factors.noise
    # Neither variance nor noise: the factor is a yes or a no. A negative total stays, as NaN.
    certain = total == 0.0
    scale = tf.sqrt(tf.where(certain, tf.ones_like(total), total))
    above = factors.upper - cavity.mean
    below = None if factors.lower is None else factors.lower - cavity.mean
    m = truncated_moments(None if below is None else below / scale, above / scale)
    denominator = factors.noise + cavity.variance * m.variance
    near_end = factors.upper
    if factors.lower is not None:
        near_end = tf.where(m.sign < 0.0, -factors.lower, factors.upper)
        # The lean of an interval without limits is 0 and so is what its limits are multiplied by.
        near_end = tf.where(tf.math.is_inf(near_end), tf.zeros_like(near_end), near_end)
    sites = Sites(
        nu=m.sign * (near_end * m.reduction - scale * m.lean) / denominator,
        tau=m.reduction / denominator,
    )
    slope, curvature = m.mean / scale, -m.reduction / scale**2
    zero = tf.zeros_like(total)
    nu, tau, slope, curvature = (
        tf.where(certain, zero, values) for values in (*sites, slope, curvature)
    )
    log_mass = tf.where(certain, _log_certainty(below, above), m.log_mass)
    return Sites(nu, tau), Tilted(log_mass, slope, curvature)


def _log_certainty(below: tf.Tensor | None, above: tf.Tensor) -> tf.Tensor:
    """Log mass of a point: 0 inside, -inf outside, log ½ on a limit, as Phi(0) has it."""
    half = tf.fill(tf.shape(above), tf.cast(np.log(0.5), above.dtype))

    def side(room: tf.Tensor) -> tf.Tensor:
        never = tf.fill(tf.shape(above), tf.cast(-np.inf, above.dtype))
        return tf.where(room > 0.0, tf.zeros_like(above), tf.where(room < 0.0, never, half))

    return side(above) if below is None else side(above) + side(-below)


def match_power(cavity: Cavity, factors: Factors, power: float) -> tuple[Sites, Tilted]:
    """The sites whose share `power` matches that power of the factor (Minka 2004, power EP).

    With g and h the derivatives of the log of the integral of cavity × factor^p,
    tau = -h / (p (1 + v_c h)) and nu = (g - m_c h) / (p (1 + v_c h)), where 1 + v_c h is the
    variance of that density over v_c (docs/method.md, section 13). For a count below 1, p is that
    count times `power` (section 14).
    """
    if power != 1.0:
        return _match_by_quadrature(cavity, factors, powers_of(factors, power))
    return _unless_whole(factors, match_moments(cavity, factors), cavity, _match_by_quadrature)


def _match_by_quadrature(cavity: Cavity, factors: Factors, powers: Power) -> tuple[Sites, Tilted]:
    found = power_averages(cavity, factors, powers)
    share = powers * found.spread
    sites = Sites((found.slope - cavity.mean * found.curvature) / share, -found.curvature / share)
    return sites, Tilted(found.value, found.slope, found.curvature)


def _unless_whole(
    factors: Factors,
    whole: Found,
    cavity: Cavity,
    by_quadrature: Callable[[Cavity, Factors, tf.Tensor], Found],
) -> Found:
    """`whole`, what holds of each site if its factor is taken out once, (t,) tensors, with
    `by_quadrature` in its place where only a power of the factor is."""
    if factors.portions is None:
        return whole
    below = factors.portions < 1.0
    if below.shape.rank == 0:
        return tf.cond(
            below, lambda: by_quadrature(cavity, factors, factors.portions), lambda: whole
        )
    at = tf.where(below)

    def some(values: tf.Tensor | None) -> tf.Tensor | None:
        return None if values is None else tf.gather_nd(values, at)

    part = Factors(*map(some, factors))
    found = by_quadrature(Cavity(*map(some, cavity)), part, part.portions)

    def joined(old: tf.Tensor | None, new: tf.Tensor | None) -> tf.Tensor | None:
        return None if old is None else tf.tensor_scatter_nd_update(old, at, new)

    joint: Found = tf.nest.map_structure(joined, whole, found)
    return joint


def power_averages(cavity: Cavity, factors: Factors, powers: Power) -> PowerMoments:
    """`power_moments` of all sites, or of one whose tensors have no axis."""
    given = *cavity, *factors.event, powers * tf.ones_like(factors.upper)
    if factors.upper.shape.rank > 0:
        return power_moments(*given)
    found = power_moments(*(None if x is None else x[None] for x in given))
    return PowerMoments(*(x[0] for x in found))


class FactorSlopes(NamedTuple):
    """Derivatives of each log Z_i in the noise and the limits, (t,); lower None without any."""

    noise: tf.Tensor
    upper: tf.Tensor
    lower: tf.Tensor | None


def factor_slopes(cavity: Cavity, factors: Factors, tilted: Tilted, power: float) -> FactorSlopes:
    """Where `tilted` is what `match_power` found under the cavity."""
    if power != 1.0:
        return _slopes_by_quadrature(cavity, factors, powers_of(factors, power))
    # d log Z_i = ½ (g² + h) dD, as for the cavity's variance
    by_noise = 0.5 * (tilted.slope**2 + tilted.curvature)
    whole = FactorSlopes(by_noise, -tilted.slope, None)
    if factors.lower is not None:  # densities at the limits of the truncated normal
        scale = tf.sqrt(cavity.variance + factors.noise)
        below, above = ((x - cavity.mean) / scale for x in (factors.lower, factors.upper))
        upper, lower = limit_densities(below, above, tilted.log_mass)
        whole = FactorSlopes(by_noise, upper / scale, -lower / scale)
    return _unless_whole(factors, whole, cavity, _slopes_by_quadrature)


def _slopes_by_quadrature(cavity: Cavity, factors: Factors, powers: Power) -> FactorSlopes:
    found = power_averages(cavity, factors, powers)
    return FactorSlopes(found.noise, found.upper, None if factors.lower is None else found.lower)


def match_all_moments(cavity: Cavity, factors: Factors, power: float = 1.0) -> tuple[Sites, Tilted]:
    """`match_power` of sites (t,), what needs no quadrature by NumPy."""
    if power != 1.0:
        return match_power(cavity, factors, power)
    said = array_moments.by_stretches(array_moments.matched, 5, *cavity, *factors.event)
    nu, tau, *tilted = said
    found = Sites(nu, tau), Tilted(*tilted)
    return _unless_whole(factors, found, cavity, _match_by_quadrature)


def damp(old: Sites, new: Sites, damping: tf.Tensor) -> Sites:
    """Take the share `damping` of the step; 1 is undamped."""
    return Sites(old.nu + damping * (new.nu - old.nu), old.tau + damping * (new.tau - old.tau))


def largest_change(
    old: Sites, new: Sites, variance: tf.Tensor, portions: tf.Tensor | None = None
) -> tf.Tensor:
    """max(|d tau| v, |d nu| sqrt v) over the sites: free of scale, NaN if anything is.

    Of `portions`, where there are any: tau itself has no bound where little of it counts.
    A change of a few units in the last place of a parameter is rounding and counts as none: far in
    a tail nu sqrt(v) itself is so large that its last digit exceeds any tolerance.
    """
    change = changes(old, new, variance)
    return largest(change if portions is None else portions * change)


def largest(change: tf.Tensor) -> tf.Tensor:
    # reduce_max may drop a NaN; a sum keeps it.
    return tf.reduce_max(change) + 0.0 * tf.reduce_sum(change)


def changes(old: Sites, new: Sites, variance: tf.Tensor) -> tf.Tensor:
    """Those of `largest_change`, of each site."""
    v = tf.abs(variance)
    return tf.maximum(_moved(old.tau, new.tau) * v, _moved(old.nu, new.nu) * tf.sqrt(v))


def _moved(old: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    rounding = 64.0 * np.finfo(old.dtype.as_numpy_dtype).eps * tf.abs(new)
    return tf.maximum(tf.abs(new - old) - rounding, tf.zeros_like(new))
