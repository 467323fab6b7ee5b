"""Gaussian variational inference, by the same sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from sparse_prefgp.covariances import Covariance
from sparse_prefgp.engines.base import FixedPoint, SimultaneousIteration, SweepState
from sparse_prefgp.evidence import Slopes, variational_bound
from sparse_prefgp.factors.expectations import average_log_factor, average_slopes, site_table
from sparse_prefgp.factors.sites import Cavity, Factors, Sites, Tilted, largest_change, totals


@dataclass(frozen=True)
class Variational(SimultaneousIteration):
    """The Gaussian q that maximises the evidence lower bound, as a fixed point of sites.

    With N(m, v) the marginal of z_i, tau_i = -E d² log p_i / dz² and nu_i = E d log p_i / dz +
    tau_i m. With VFE the variance that Z leaves counts in the expectations, and the log evidence is
    the bound itself, that of GPflow's `SVGP` at its optimum; with other approximations it is the
    bound under their noise plus their correction. (docs/method.md, section 13; Khan & Lin 2017;
    Adam et al. 2021)

    :param tolerance: as there.
    :param max_sweeps: as there.
    """

    takes_expectations: ClassVar[bool] = True

    damping: float = 0.7
    """Share of each step taken at first, 0.7 by default, since whole steps may not settle; less by
    the rule of `ParallelEP`.
    """

    def evaluate(self, covariance: Covariance, factors: Factors, sites: Sites) -> SweepState:
        mean, variance, half_log_det, kept, _ = covariance.marginals(*totals(sites, factors.counts))
        # Rounding can leave a variance just below 0.
        whole = tf.maximum(variance, tf.zeros_like(variance))
        if factors.inside is not None:
            whole += factors.inside
        around = Cavity(mean, whole)
        slope, curvature = average_slopes(site_table(*around, *factors.event))
        proposal = Sites(nu=slope - curvature * mean, tau=-curvature)
        # The value is taken where the sweeps end; until then it would double their time.
        tilted = Tilted(tf.zeros_like(slope), slope, curvature)
        change = largest_change(sites, proposal, variance)
        return SweepState(
            sites, proposal, mean, variance, half_log_det, kept, around, tilted, change
        )

    def ended(
        self, found: SweepState, factors: Factors, sweeps: tf.Tensor, damping: tf.Tensor
    ) -> FixedPoint:
        c = factors.counts
        by = average_log_factor(site_table(*found.cavity, *factors.event))
        slopes = Slopes(
            noise=c * by.noise,
            upper=c * by.upper,
            lower=None if factors.lower is None else c * by.lower,
            # dE/dv is half the curvature (Price's theorem).
            inside=None if factors.inside is None else 0.5 * c * by.curvature,
        )
        log_z = variational_bound(
            found.mean, found.variance, by.value, found.half_log_det, found.sites, c
        )
        found = found._replace(tilted=Tilted(by.value, by.slope, by.curvature))
        return FixedPoint(found, log_z, slopes, sweeps, damping)
