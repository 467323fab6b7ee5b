"""Expectation propagation, all sites at once, with damping that adapts itself: one evaluation, its
log evidence, and the engines."""

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
from sparse_prefgp.support import together
from sparse_prefgp.support.checks import check_number

# Local sweeps of one round where they continue until the part has settled.
MAX_LOCAL_SWEEPS = 50


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


@dataclass(frozen=True)
class ParallelEP(Propagation):
    """Update every site from the same marginals (docs/method.md, section 2).

    :param damping: share of each step taken at first; multiplied by 0.7, after four sweeps or more,
        when the largest change is not below 1 - 0.2 damping of that two sweeps ago.
    :param tolerance: on the largest change an undamped sweep would make.
    :param max_sweeps: always finite; the result says when it was reached.
    :param site_power: power EP's p, 1 for EP itself.
    """


@dataclass(frozen=True)
class PartitionedEP(Propagation):
    """Each part of the duels is one Gaussian site over the inducing values.

    In a round each part takes its site out of the posterior of u, sweeps over its own duels, and
    gives back its new site; all parts do so at once (docs/method.md, section 15). The fixed point
    is that of `ParallelEP`, whatever the parts; with one local sweep, so is every round.

    `StreamedGP` has parts that read their own files, here or on other machines, or those of
    `stream_duels(duels)`, and logs each round.

    :param damping: share of each local step taken at first, less by the rule of `ParallelEP`.
    :param tolerance: on the largest change that an undamped sweep over all duels would make.
    :param max_sweeps: of rounds.
    :param site_power: power EP's p, 1 for EP itself.
    :raises ValueError: what `ParallelEP` raises; parts or local_sweeps below 1.
    """

    parts: int = 4
    """P, of nearly equal size, in the order of the distinct duels."""
    local_sweeps: int | None = 1
    """Of a part in a round; None until it has settled to the tolerance, at most 50."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("parts", self.parts), ("local_sweeps", self._most)):
            check_number(name, value, least=1, whole=True)

    @property
    def _most(self) -> int:
        """Local sweeps at most."""
        return MAX_LOCAL_SWEEPS if self.local_sweeps is None else self.local_sweeps

    def run(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        raise together.refused(in_memory=True, partitioned=True)
