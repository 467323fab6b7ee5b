"""Expectation propagation, all sites at once, with damping that adapts itself."""

from __future__ import annotations

from dataclasses import dataclass

from sparse_prefgp.engines.propagation import Propagation


@dataclass(frozen=True)
class ParallelEP(Propagation):
    """Update every site from the same marginals (docs/method.md, section 2).

    :param damping: share of each step taken at first; multiplied by 0.7, after four sweeps or more,
        when the largest change is not below 1 - 0.2 damping of that two sweeps ago.
    :param tolerance: on the largest change an undamped sweep would make.
    :param max_sweeps: always finite; the result says when it was reached.
    :param site_power: power EP's p, 1 for EP itself.
    """
