"""What the engines of expectation propagation share: one evaluation, and its log evidence."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from sparse_prefgp.covariances import Covariance, Marginals
from sparse_prefgp.engines.base import FixedPoint, SimultaneousIteration, SweepState
from sparse_prefgp.evidence import Slopes, ep_log_evidence
from sparse_prefgp.factors import array_moments
from sparse_prefgp.factors.sites import (
    Cavity,
    Factors,
    Power,
    Sites,
    Tilted,
    cavity,
    factor_slopes,
    largest,
    largest_change,
    match_all_moments,
    powers_of,
    totals,
)
from sparse_prefgp.support.checks import check_number


def cavities(marginals: Marginals, sites: Sites, power: Power = 1.0) -> Cavity:
    """The cavities of all sites, as exactly as the covariance can give them."""
    if marginals.left_out is not None and not tf.is_tensor(power) and power == 1.0:
        return Cavity(*marginals.left_out)
    return cavity(marginals.mean, marginals.variance, sites, power)


def step(marginals: Marginals, factors: Factors, sites: Sites, power: float = 1.0) -> SweepState:
    """One undamped sweep under these marginals: of all sites, or of those of a chunk."""
    mean, variance, half_log_det, kept, left_out = marginals
    if left_out is None and _plain(factors, power):
        said = mean, variance, *sites, *factors.event
        found = array_moments.by_stretches(array_moments.step, 8, *said)
        around, proposal, tilted = Cavity(*found[:2]), Sites(*found[2:4]), Tilted(*found[4:7])
        change = largest(found[7])
    else:
        around = cavities(marginals, sites, powers_of(factors, power))
        proposal, tilted = match_all_moments(around, factors, power)
        change = largest_change(sites, proposal, variance, factors.portions)
    return SweepState(sites, proposal, mean, variance, half_log_det, kept, around, tilted, change)


def log_z_of(found: SweepState, factors: Factors, power: float = 1.0) -> tf.Tensor:
    """EP log evidence, a scalar without the approximation's correction."""
    powers = powers_of(factors, power)
    said = found.sites, found.cavity, found.tilted, found.half_log_det
    return ep_log_evidence(*said, factors.counts, powers)


def ends(found: SweepState, factors: Factors, power: float = 1.0) -> tuple[tf.Tensor, Slopes]:
    """`log_z_of`, and the derivatives that its gradient takes, the sites held."""
    if _plain(factors, power):
        said = *found.cavity, *found.sites, *found.tilted, *factors.event
        number = 3 if factors.lower is None else 4
        each, *by = array_moments.by_stretches(array_moments.ends, number, *said)
        log_z = tf.reduce_sum(factors.counts * each) - found.half_log_det
        return log_z, Slopes(*(factors.counts * one for one in by), *[None] * (4 - number))
    slopes = factor_slopes(found.cavity, factors, found.tilted, power)
    c = factors.counts / powers_of(factors, power)
    lower = None if slopes.lower is None else c * slopes.lower
    return log_z_of(found, factors, power), Slopes(c * slopes.noise, c * slopes.upper, lower)


def _plain(factors: Factors, power: float) -> bool:
    """Whether nothing about the sites needs quadrature."""
    return power == 1.0 and factors.portions is None


@dataclass(frozen=True)
class Propagation(SimultaneousIteration):
    """Settings of all EP engines, which update all sites at once unless they say otherwise.

    :raises ValueError: what `Iteration` raises; site_power outside (0, 1].
    """

    site_power: float = 1.0
    """Power EP's p in (0, 1] (Minka 2004): the share of a factor that a site is matched to; 1 is
    EP, towards 0 the sites become those of `Variational`. Not the power of `PriorPower`, which
    changes the prior.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        hint = " (1 is EP), or use Variational(), the limit 0"
        check_number("site_power", self.site_power, above=0.0, most=1.0, hint=hint)

    @property
    def matches_moments(self) -> bool:
        return self.site_power == 1.0

    @property
    def label(self) -> str:
        own = super().label
        return own if self.site_power == 1.0 else f"{own}, site power {self.site_power:g}"

    def evaluate(self, covariance: Covariance, factors: Factors, sites: Sites) -> SweepState:
        marginals = covariance.marginals(*totals(sites, factors.counts))
        return step(marginals, factors, sites, self.site_power)

    def ended(
        self, found: SweepState, factors: Factors, sweeps: tf.Tensor, damping: tf.Tensor
    ) -> FixedPoint:
        return FixedPoint(found, *ends(found, factors, self.site_power), sweeps, damping)
