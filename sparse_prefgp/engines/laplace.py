"""Laplace's approximation: a normal at the mode, with the curvature that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances import Covariance
from sparse_prefgp.engines.base import FixedPoint, Iteration, SweepState, constant_factors
from sparse_prefgp.evidence import Slopes
from sparse_prefgp.factors.links import LINKS, Link
from sparse_prefgp.factors.sites import Cavity, Factors, Sites, Tilted, totals
from sparse_prefgp.support.checks import check_choice

# A step is halved so often at most; what is left of it is then below rounding.
_MAX_HALVINGS = 30
_ROUNDING = float(np.finfo(np.float64).eps)


class _NewtonPoint(NamedTuple):
    """z = K dual, what the factors say there, and sum c log p(z) - ½ dual' z."""

    z: tf.Tensor
    dual: tf.Tensor
    tilted: Tilted
    objective: tf.Tensor


class _State(NamedTuple):
    """A Newton iterate, its sites and what these give: the place a whole step leads to."""

    place: _NewtonPoint
    found: SweepState


@dataclass(frozen=True)
class Laplace(Iteration):
    """Newton's method for the mode of z, and sites from slope and curvature there.

    The sites are tau_i = -d² log p_i / dz² and nu_i = d log p_i / dz + tau_i z_i at the mode, where
    the mean that they give is the mode. (docs/method.md, section 13; GPML section 3.4)

    :param damping: share of Newton's step tried first; halved until the objective rises.
    :param tolerance: on the largest move of a z_i by a whole step, in its posterior standard
        deviations.
    :param max_sweeps: of Newton steps.
    :raises ValueError: what the other engines raise; an unknown link.
    """

    keeps_growth: ClassVar[bool] = False

    link: str = "probit"
    """`probit`, with the noise of the approximation, or `logit`, whose noise is its own: the
    model's noise variance is then ignored.
    """

    @property
    def label(self) -> str:
        own = super().label
        return own if self.link == "probit" else f"{own}, {self.link}"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("link", self.link, LINKS)

    @property
    def link_function(self) -> Link:
        return LINKS[self.link]

    def run(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        factors = constant_factors(factors)
        start = self._state(covariance, factors, self._place_of(covariance, factors, sites))

        def unsettled(state: _State, sweeps: tf.Tensor) -> tf.Tensor:
            # A NaN compares false: the loop stops and the result says so.
            return (state.found.change > self.tolerance) & (sweeps < self.max_sweeps)

        def newton(state: _State, sweeps: tf.Tensor) -> tuple[_State, tf.Tensor]:
            place = self._line_search(factors, state)
            return self._state(covariance, factors, place), sweeps + 1

        state, sweeps = tf.while_loop(
            unsettled, newton, (start, tf.constant(1)), parallel_iterations=1
        )
        return self._point(covariance, factors, state, sweeps)

    def at(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        """The state at the mean that `sites` give, without a step; q stays that of `sites`."""
        factors = constant_factors(factors)
        state = self._state(covariance, factors, self._place_of(covariance, factors, sites))
        point = self._point(covariance, factors, state, tf.constant(1))
        return point._replace(found=point.found._replace(sites=sites))

    def _place_of(self, covariance: Covariance, factors: Factors, sites: Sites) -> _NewtonPoint:
        precision, shift = totals(sites, factors.counts)
        z = covariance.marginals(precision, shift).mean
        return self._place(factors, z, shift - precision * z)

    def _place(self, factors: Factors, z: tf.Tensor, dual: tf.Tensor) -> _NewtonPoint:
        tilted = self.link_function.derivatives(z, factors)
        objective = tf.reduce_sum(factors.counts * tilted.log_mass - 0.5 * dual * z)
        return _NewtonPoint(z, dual, tilted, objective)

    def _state(self, covariance: Covariance, factors: Factors, place: _NewtonPoint) -> _State:
        z, tilted = place.z, place.tilted
        sites = Sites(nu=tilted.slope - tilted.curvature * z, tau=-tilted.curvature)
        mean, variance, half_log_det, kept, _ = covariance.marginals(*totals(sites, factors.counts))
        moved = tf.abs(mean - z)
        moved = tf.maximum(moved - 64.0 * _ROUNDING * tf.abs(z), tf.zeros_like(z))
        change = tf.math.divide_no_nan(moved, tf.sqrt(tf.abs(variance)))
        # reduce_max may drop a NaN; a sum keeps it.
        largest = tf.reduce_max(change) + 0.0 * tf.reduce_sum(mean)
        around, given = Cavity(z, tf.zeros_like(z)), (mean, variance, half_log_det, kept)
        return _State(place, SweepState(sites, sites, *given, around, tilted, largest))

    def _line_search(self, factors: Factors, state: _State) -> _NewtonPoint:
        """The longest of damping / 2^k of Newton's step that does not lower the objective.

        Everything is linear along the step, so that a trial costs no pass over the covariance.
        """
        here = state.place
        precision, shift = totals(state.found.sites, factors.counts)
        there = state.found.mean
        step, turn = there - here.z, shift - precision * there - here.dual
        # What rounding may take from a sum of so many terms is not descent.
        least = here.objective - 1e-12 * tf.abs(here.objective)

        def at(share: tf.Tensor) -> _NewtonPoint:
            return self._place(factors, here.z + share * step, here.dual + share * turn)

        def worse(halvings: tf.Tensor, share: tf.Tensor, place: _NewtonPoint) -> tf.Tensor:
            del share
            good = place.objective >= least  # a NaN is not
            return tf.logical_not(good) & (halvings < _MAX_HALVINGS)

        def halve(
            halvings: tf.Tensor, share: tf.Tensor, place: _NewtonPoint
        ) -> tuple[tf.Tensor, tf.Tensor, _NewtonPoint]:
            del place
            return halvings + 1, 0.5 * share, at(0.5 * share)

        first = tf.constant(self.damping, here.z.dtype)
        _, _, place = tf.while_loop(
            worse, halve, (tf.constant(0), first, at(first)), parallel_iterations=1
        )
        return place

    def _point(
        self, covariance: Covariance, factors: Factors, state: _State, sweeps: tf.Tensor
    ) -> FixedPoint:
        found = state.found
        # log p - ½ z'K⁻¹z - ½ log|P| at the mode. GPML eq. 3.32
        log_evidence = state.place.objective - found.half_log_det
        return FixedPoint(
            found,
            log_evidence,
            self._slopes(covariance, factors, state),
            sweeps,
            tf.constant(self.damping, found.mean.dtype),
        )

    def _slopes(self, covariance: Covariance, factors: Factors, state: _State) -> Slopes:
        """By implicit differentiation: log p and -½ z'K⁻¹z are stationary in z, -½ log|P| is not.

        With s = ½ c v (log p)''' its slope in z, a parameter moves z by Sigma c d(log p)', and K
        by (I + K T)⁻¹ dK dual. GPML eqs. 5.23 and 5.24
        """
        c, v = factors.counts, state.found.variance
        mixed = self.link_function.mixed(state.place.z, factors)
        s = 0.5 * c * v * mixed.third
        precision, _ = totals(state.found.sites, c)
        moved = covariance.marginals(precision, s).mean  # Sigma s
        # Of log p itself, of the mode by the slope, and of -½ log|P| by the curvature.
        weights = c[:, None] * tf.stack([tf.ones_like(v), moved, 0.5 * v], 1)
        return Slopes(
            tf.reduce_sum(weights * mixed.noise, 1),
            tf.reduce_sum(weights * mixed.upper, 1),
            None if factors.lower is None else tf.reduce_sum(weights * mixed.lower, 1),
            moving=(s - precision * moved, state.place.dual),
        )
