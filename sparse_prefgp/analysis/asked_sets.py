"""Sets of alternatives to ask next, and utilities while sets are asked whose answers are unknown.

What the choice from a set tells of the utilities is `H[E p] - E H[p]`, p the probabilities of its
alternatives at known utilities. Asking takes `Cov[f, f_S] Q Cov[f_S, f]` off the covariance of all
utilities on average over the answer, Q the Fisher information `sum over j of dP_j dP_j' / P_j` of
the choice about the mean of f_S, and leaves their mean where it is: by the law of total variance,
with `E[f | j] - E f = Cov[f, f_S] d log P_j` (Stein's identity). For two alternatives that is
`sparse_prefgp.analysis.asked`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import entr, ndtri

from sparse_prefgp.analysis.acquisition import information_rule
from sparse_prefgp.factors.choice_probabilities import choices_of_known, slopes_of_known
from sparse_prefgp.factors.noise import NoiseRatios
from sparse_prefgp.factors.orthants import sobol_points
from sparse_prefgp.support.arrays import FloatArray, IntArray

# Draws of the utilities of a set: the information is good to some 0.005 nats.
POINTS = 256
# Numbers held at once, 16 MB an array, and nodes of each choice, about.
_AT_ONCE, _NODES = 2**21, 50
# Of a noise that is averaged: weights below it say nothing.
_LEAST_WEIGHT = 1e-6


class AskedSets:
    """Utilities of u items, given the answers and the sets asked so far.

    :ivar mean: (u,).
    :ivar covariance: (u, u).
    :ivar looked_at: the sets of the size asked for that were looked at.
    """

    def __init__(
        self,
        mean: FloatArray,
        covariance: FloatArray,
        noise_variance: float,
        ratios: NoiseRatios,
        rng: np.random.Generator,
        points: int = POINTS,
    ) -> None:
        self.mean, self.covariance = mean, covariance.copy()
        self._noise, self._ratios = noise_variance, ratios
        self._told_by_pairs = information_rule(2.0 * noise_variance, 0.0, ratios)
        self._rng, self._points = rng, points
        self.looked_at: set[frozenset[int]] = set()
        self._normal: dict[int, FloatArray] = {}

    def of_pairs(self, first: IntArray, second: IntArray) -> FloatArray:
        """Information in the choice from pairs, in nats, (N,)."""
        own = np.diag(self.covariance)
        variance = own[first] + own[second] - 2.0 * self.covariance[first, second]
        lead = self.mean[first] - self.mean[second]
        return self._told_by_pairs(lead, np.maximum(variance, 0.0))

    def of_sets(self, sets: IntArray) -> FloatArray:
        """Information in the choice from sets (N, k) of items, in nats, (N,)."""
        step, found = max(1, _AT_ONCE // (self._points * sets.shape[1] * _NODES)), []
        for i in range(0, len(sets), step):
            p = self._at_noises(choices_of_known, self._drawn(sets[i : i + step]))
            found.append(entr(p.mean(1)).sum(1) - entr(p).sum(2).mean(1))
        return np.concatenate([np.zeros(0), *found])

    def ask(self, items: IntArray) -> None:
        """Go on as if somebody had chosen from these."""
        drawn = self._drawn(items[None])
        chance = self._at_noises(choices_of_known, drawn)[0].mean(0)
        slope = self._at_noises(slopes_of_known, drawn)[0].mean(0)
        seen = chance > 0.0
        told = (slope[seen] / chance[seen, None]).T @ slope[seen]
        between = self.covariance[:, items]
        taken = between @ told @ between.T
        self.covariance -= 0.5 * (taken + taken.T)

    def grown(
        self, size: int, pairs: IntArray, without: set[frozenset[int]]
    ) -> tuple[IntArray, float]:
        """A set from which a choice tells much: from the pair that tells most, one item more at a
        time, each the one with which the choice tells most.

        :param pairs: (N, 2) those to begin with.
        :param without: sets that are left out.
        :return: Its items (size,), and its information in nats.
        :raises ValueError: no pair has a set that is not left out.
        """
        for start in np.argsort(-self.of_pairs(*pairs.T), kind="stable"):
            items = pairs[start]
            while len(items) < size:
                rest = np.setdiff1d(np.arange(len(self.mean)), items)
                if len(items) + 1 == size:
                    rest = rest[[frozenset((*items, i)) not in without for i in rest]]
                    if not len(rest):
                        break
                    self.looked_at.update(frozenset((*items, i)) for i in rest)
                sets = np.column_stack([np.tile(items, (len(rest), 1)), rest])
                values = self.of_sets(sets)
                items = sets[np.argmax(values)]
            else:
                return items, float(values.max())
        raise ValueError(
            f"All sets of {size:,} candidates were asked already, or are in the batch; give more "
            "candidates, a smaller batch or another set_size (--set-size)."
        )

    def _at_noises(
        self, function: Callable[[FloatArray, float], FloatArray], drawn: FloatArray
    ) -> FloatArray:
        """Of drawn utilities (N, draws, k), averaged over noises, (N, draws, …)."""
        n, draws, k = drawn.shape
        weights = np.where(self._ratios.weights > _LEAST_WEIGHT, self._ratios.weights, 0.0)
        flat = drawn.reshape(n * draws, k)
        each = (
            weight * function(flat, self._noise * float(ratio))
            for ratio, weight in zip(self._ratios.ratios, weights / weights.sum(), strict=True)
            if weight
        )
        found = sum(each, np.zeros(1))
        return found.reshape(n, draws, *found.shape[1:])

    def _drawn(self, sets: IntArray) -> FloatArray:
        """Utilities of the sets less their averages, (N, draws, k)."""
        k = sets.shape[1]
        if k not in self._normal:
            self._normal[k] = ndtri(sobol_points(self._points, k - 1, self._rng))
        centre = np.eye(k) - 1.0 / k
        covariance = centre @ self.covariance[sets[:, :, None], sets[:, None, :]] @ centre
        # The last axis is that of the average, which is nothing. The widest ones come first, where
        # points are spread most evenly; below 0 they are by rounding alone.
        values, axes = np.linalg.eigh(covariance)
        widths = np.sqrt(np.maximum(values[:, :0:-1], 0.0))
        root = axes[:, :, :0:-1] * widths[:, None, :]
        mean = self.mean[sets]
        lead = (mean - mean.mean(1, keepdims=True))[:, None, :]
        return lead + self._normal[k] @ root.transpose(0, 2, 1)
