"""Expectation propagation in parts of the duels, which tell each other sums over u alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances import Covariance, LowRankOverDuels, LowRankOverItems
from sparse_prefgp.engines.base import Evaluation, FixedPoint, constant_factors, iterate
from sparse_prefgp.engines.propagation import Propagation
from sparse_prefgp.linalg import add_to_diagonal, inverse_lower
from sparse_prefgp.sites import (
    Cavity,
    Factors,
    Sites,
    Tilted,
    cavity,
    damp,
    largest_change,
    match_all_moments,
    powers_of,
    totals,
)

# Local sweeps of one round where they go on until the part has settled.
MAX_LOCAL_SWEEPS = 50


@dataclass(frozen=True)
class PartitionedEP(Propagation):
    """Each part of the duels is one Gaussian site over the inducing values.

    In a round each part takes its site out of the posterior of u, sweeps over its own duels, and
    gives back its new site; all parts do so at once (docs/method.md, section 15). The fixed point
    is that of `ParallelEP`, whatever the parts; with one local sweep, so is every round.

    In `PreferenceGP` the parts work one after the other in this process, in one compiled loop that
    keeps no log of its rounds. `StreamedGP` has parts that read their own files, here or on other
    machines, or those of `stream_duels(duels)`, and logs each round.

    parts: P, of nearly equal size, in the order of the distinct duels.
    local_sweeps: of a part in a round; None until it has settled to the tolerance, at most 50.
    damping: share of each local step taken at first, halved as in `ParallelEP`.
    tolerance: on the largest change that an undamped sweep over all duels would make.
    max_sweeps: of rounds.
    site_power: power EP's p, 1 for EP itself.

    :raises ValueError: what `ParallelEP` raises; parts or local_sweeps below 1. Inference refuses
        approximations without inducing inputs, and `PITC`, whose blocks must not be cut.
    """

    parts: int = 4
    local_sweeps: int | None = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("parts", self.parts), ("local_sweeps", self._most)):
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not whole or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}.")

    @property
    def _most(self) -> int:
        """Local sweeps at most."""
        return MAX_LOCAL_SWEEPS if self.local_sweeps is None else self.local_sweeps

    def run(self, covariance: Covariance, factors: Factors, sites: Sites) -> FixedPoint:
        factors = constant_factors(factors)
        pieces = self._cut(covariance, factors)

        def step(found: Evaluation, damping: tf.Tensor) -> Sites:
            return self._local(pieces, found, damping)

        found, sweeps, damping = iterate(
            lambda here: self._evaluate(pieces, factors, here), sites, self, step
        )
        # What the gradient wants back is that of all duels.
        kept = covariance.marginals(*totals(found.sites, factors.counts)).kept
        return self._point(found._replace(kept=kept), factors, sweeps, damping)

    def _cut(self, covariance: Covariance, factors: Factors) -> list[_Piece]:
        if not isinstance(covariance, LowRankOverDuels | LowRankOverItems):
            raise ValueError(
                "PartitionedEP works on approximations with inducing inputs whose duels can be "
                "parted, such as VFE() and FITC(); use ParallelEP() for Exact, SubsetOfData and "
                "PITC."
            )
        t = factors.counts.shape[0]
        if self.parts > t:
            raise ValueError(
                f"{self.parts} parts of {t} distinct duels would leave a part without duels; take "
                f"at most {t} parts."
            )
        ends = np.linspace(0, t, self.parts + 1).astype(int)
        return [
            _Piece(
                covariance.part(a, b),
                Factors(*[None if x is None else x[a:b] for x in factors]),
                slice(a, b),
            )
            for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        ]

    def _evaluate(self, pieces: list[_Piece], factors: Factors, sites: Sites) -> Evaluation:
        """As `propagation.evaluate`, from the sites over u of the parts."""
        own = [p.site_over_u(p.of(sites)) for p in pieces]
        precision, shift = (tf.add_n(list(x)) for x in zip(*own, strict=True))
        inverse, mean, half_log_det = _condition(precision, shift)
        found = [p.sweep(p.of(sites), inverse, mean, self.site_power) for p in pieces]

        def all_sites(parts: list[tuple[tf.Tensor, ...]]) -> list[tf.Tensor]:
            return [tf.concat(list(x), 0) for x in zip(*parts, strict=True)]

        mean_of_z, variance = all_sites([(f.mean, f.variance) for f in found])
        return Evaluation(
            sites,
            Sites(*all_sites([f.proposal for f in found])),
            mean_of_z,
            variance,
            half_log_det,
            (tf.stack([x for x, _ in own]), tf.stack([x for _, x in own])),
            Cavity(*all_sites([f.cavity for f in found])),
            Tilted(*all_sites([f.tilted for f in found])),
            tf.reduce_max(tf.stack([f.change for f in found])) + 0.0 * half_log_det,
        )

    def _local(self, pieces: list[_Piece], found: Evaluation, damping: tf.Tensor) -> Sites:
        """The local sweeps of one round; the first is that of the evaluation."""
        stepped = damp(found.sites, found.proposal, damping)
        if self.local_sweeps == 1:
            return stepped
        precisions, shifts = found.kept
        whole = (tf.reduce_sum(precisions, 0), tf.reduce_sum(shifts, 0))
        moved = []
        for k, piece in enumerate(pieces):
            around = (whole[0] - precisions[k], whole[1] - shifts[k])
            moved.append(self._settle(piece, piece.of(stepped), around, damping))
        return Sites(*[tf.concat(list(x), 0) for x in zip(*moved, strict=True)])

    def _settle(
        self,
        piece: _Piece,
        sites: Sites,
        around: tuple[tf.Tensor, tf.Tensor],
        damping: tf.Tensor,
    ) -> Sites:
        """The sweeps after the first of one part, in its cavity over u."""

        def goes_on(count: tf.Tensor, change: tf.Tensor, here: Sites) -> tf.Tensor:
            unsettled = self.local_sweeps is not None or change > self.tolerance
            return (count < self._most) & unsettled

        def sweep(count: tf.Tensor, change: tf.Tensor, here: Sites) -> tuple[tf.Tensor, ...]:
            del change
            own = piece.site_over_u(here)
            inverse, mean, _ = _condition(around[0] + own[0], around[1] + own[1])
            found = piece.sweep(here, inverse, mean, self.site_power)
            return count + 1, found.change, damp(here, found.proposal, damping)

        first = tf.constant(np.inf, sites.nu.dtype)
        _, _, sites = tf.while_loop(
            goes_on, sweep, (tf.constant(1), first, sites), parallel_iterations=1
        )
        return sites


class _Swept(NamedTuple):
    """One sweep of a part."""

    proposal: Sites
    mean: tf.Tensor
    variance: tf.Tensor
    cavity: Cavity
    tilted: Tilted
    change: tf.Tensor


class _Piece(NamedTuple):
    """A part: its covariance, its factors, and which sites are its own."""

    covariance: LowRankOverDuels | LowRankOverItems
    factors: Factors
    at: slice

    def of(self, sites: Sites) -> Sites:
        return Sites(sites.nu[self.at], sites.tau[self.at])

    def site_over_u(self, sites: Sites) -> tuple[tf.Tensor, tf.Tensor]:
        return self.covariance.sums(*totals(sites, self.factors.counts))

    def sweep(self, sites: Sites, inverse: tf.Tensor, mean: tf.Tensor, power: float) -> _Swept:
        mean_of_z, variance = self.covariance.marginals_under(inverse, mean)
        around = cavity(mean_of_z, variance, sites, powers_of(self.factors, power))
        proposal, tilted = match_all_moments(around, self.factors, power)
        change = largest_change(sites, proposal, variance, self.factors.portions)
        return _Swept(proposal, mean_of_z, variance, around, tilted, change)


def _condition(precision: tf.Tensor, shift: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Inverse factor (m, m), mean (m, 1) and ½ log|P| of u under I + precision and shift."""
    one = tf.ones([], precision.dtype)
    factor = tf.linalg.cholesky(add_to_diagonal(precision, one))
    inverse = inverse_lower(factor)
    mean = tf.matmul(inverse, tf.matmul(inverse, shift), transpose_a=True)
    return inverse, mean, tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))
