"""Expectation propagation, one site at a time: the reference and the fall-back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from sparse_prefgp.covariances import Covariance, SequentialCovariance, SequentialState
from sparse_prefgp.engines.base import FixedPoint, SweepState, constant_factors
from sparse_prefgp.engines.propagation import Propagation
from sparse_prefgp.factors.sites import (
    Cavity,
    Factors,
    Sites,
    cavity,
    match_power,
    powers_of,
    totals,
)

# Below this share of the marginal precision left to the cavity, digits are lost by division.
_LEFT_OUT_BELOW = 1e-3


@dataclass(frozen=True)
class SequentialEP(Propagation):
    """Update sites one after the other, each from marginals that know all before it.

    A rank-one update of the posterior covariance per site, refreshed after every sweep.

    :param damping: share of each step taken.
    :param tolerance: as for `ParallelEP`.
    :param max_sweeps: as for `ParallelEP`.
    :param site_power: as for `ParallelEP`.
    """

    one_by_one: ClassVar[bool] = True

    def run(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        if not isinstance(covariance, SequentialCovariance):
            raise ValueError(
                "SequentialEP() updates one site after the other, for which "
                f"{type(covariance).__name__} has no columns; use ParallelEP()."
            )
        factors = constant_factors(factors)
        sweeps = tf.constant(1)
        evaluation = self.evaluate(covariance, factors, sites)

        def unsettled(evaluation: SweepState, sweeps: tf.Tensor) -> tf.Tensor:
            return (evaluation.change > self.tolerance) & (sweeps < self.max_sweeps)

        @tf.function(autograph=False)  # t small steps: too slow one by one
        def one_by_one(nu: tf.Tensor, tau: tf.Tensor) -> Sites:
            return self._sweep(covariance, factors, Sites(nu, tau))

        def sweep(evaluation: SweepState, sweeps: tf.Tensor) -> tuple[SweepState, tf.Tensor]:
            new = one_by_one(*evaluation.sites)
            return self.evaluate(covariance, factors, new), sweeps + 1

        evaluation, sweeps = tf.while_loop(unsettled, sweep, (evaluation, sweeps))
        damping = tf.constant(self.damping, factors.upper.dtype)
        return self.ended(evaluation, factors, sweeps, damping)

    def _sweep(self, covariance: SequentialCovariance, factors: Factors, sites: Sites) -> Sites:
        state = covariance.start(*totals(sites, factors.counts))
        count = factors.upper.shape[0]

        def update(
            site: tf.Tensor, nu: tf.Tensor, tau: tf.Tensor, state: SequentialState
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, SequentialState]:
            column = covariance.column(state, site)
            old = Sites(nu[site], tau[site])
            own = Factors(*[x if x is None else x[site] for x in factors])
            power = powers_of(own, self.site_power)
            around = plain = cavity(column.mean, column.variance, old, power)
            whole = totals(Sites(nu, tau), factors.counts)
            if covariance.left_out(*whole, site) is not None:
                mean, variance = tf.cond(
                    1.0 - old.tau * column.variance < _LEFT_OUT_BELOW,
                    lambda: covariance.left_out(*whole, site),
                    lambda: (plain.mean, plain.variance),
                )
                around = Cavity(mean, variance)
            new, _ = match_power(around, own, self.site_power)
            copies = factors.counts[site]
            step_tau = self.damping * copies * (new.tau - old.tau)
            step_nu = self.damping * copies * (new.nu - old.nu)
            # Rank-one change of the posterior, GPML eq. 3.61-3.63
            gain = 1.0 + step_tau * column.variance
            along = column.covariance
            state = SequentialState(
                state.covariance - (step_tau / gain) * along[:, None] * along[None, :],
                state.mean + (step_nu - step_tau * column.mean) / gain * along,
            )
            index = [[site]]
            nu = tf.tensor_scatter_nd_add(nu, index, [step_nu / copies])
            tau = tf.tensor_scatter_nd_add(tau, index, [step_tau / copies])
            return site + 1, nu, tau, state

        _, nu, tau, _ = tf.while_loop(
            lambda site, *_: site < count,
            update,
            (tf.constant(0), sites.nu, sites.tau, state),
            parallel_iterations=1,
        )
        return Sites(nu, tau)
