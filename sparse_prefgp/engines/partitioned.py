"""Expectation propagation in parts of the duels, which tell each other sums over u alone."""

from __future__ import annotations

from dataclasses import dataclass

from sparse_prefgp.covariances import Covariance
from sparse_prefgp.engines.base import FixedPoint
from sparse_prefgp.engines.propagation import Propagation
from sparse_prefgp.factors.sites import Factors, Sites
from sparse_prefgp.support.checks import check_number

# Local sweeps of one round where they continue until the part has settled.
MAX_LOCAL_SWEEPS = 50


@dataclass(frozen=True)
class PartitionedEP(Propagation):
    """Each part of the duels is one Gaussian site over the inducing values.

    In a round each part takes its site out of the posterior of u, sweeps over its own duels, and
    gives back its new site; all parts do so at once (docs/method.md, section 15). The fixed point
    is that of `ParallelEP`, whatever the parts; with one local sweep, so is every round.

    `StreamedGP` has parts that read their own files, here or on other machines, or those of
    `stream_duels(duels)`, and logs each round. The duels of `PreferenceGP` lie in one place and
    have nothing to tell each other: there a round is one sweep over all of them, as in
    `ParallelEP`, whatever `parts` and `local_sweeps` are.

    :param damping: share of each local step taken at first, less by the rule of `ParallelEP`.
    :param tolerance: on the largest change that an undamped sweep over all duels would make.
    :param max_sweeps: of rounds.
    :param site_power: power EP's p, 1 for EP itself.
    :raises ValueError: what `ParallelEP` raises; parts or local_sweeps below 1. Inference refuses
        approximations without inducing inputs.
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
        if not covariance.summed_over_sites:
            raise ValueError(
                "PartitionedEP works on approximations with inducing inputs, such as VFE() and "
                "FITC(); use ParallelEP() for Exact and SubsetOfData."
            )
        t = factors.counts.shape[0]
        if t is not None and self.parts > t:
            raise ValueError(
                f"{self.parts} parts of {t} distinct duels would leave a part without duels; take "
                f"at most {t} parts."
            )
        return super().run(covariance, factors, sites)
