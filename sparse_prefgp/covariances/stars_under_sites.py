"""Looks at sets whose rows share one noise alone, under sites: stars, such as choices.

The rows of all have one place in common, the *hub*, and with R = rho 1 1' everything of
`looks_under_sites.py` is in closed form (Sherman & Morrison 1950), with q = rho / (1 + rho Σ tau):

    G = T - q tau tau'    n = s - q tau Σ s    S = q 1 1'
    ½ log|I + T^½ R T^½| = ½ log(1 + rho Σ tau)

The edges of W are q tau_i tau_j, and tau_i / (1 + rho Σ tau) at the hub. With weights alpha = q tau
and what is left of 1 at the hub, the explained part of z_i is its place less the centroid of all.
"""

from __future__ import annotations

import numpy as np

from sparse_prefgp.covariances.looks_under_sites import slices
from sparse_prefgp.data.looks import Form
from sparse_prefgp.support.arrays import FloatArray


class StarsUnderSites:
    """The looks of one form, a star. Arrays are as of `LooksUnderSites`, but R is rho, (g,)."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self.num_rows = r = len(form.places)
        self.natural = slice(r, 2 * r)
        self.rows = 2 * r
        win, lose = form.places.T
        self._hub_wins = r == 1 or bool(win[0] == win[1])
        self._hub, self._leaves = (win[0], lose) if self._hub_wins else (lose[0], win)
        self._rows = np.ascontiguousarray(form.bucket.rows.T)
        # Which row each place is the leaf of; the hub is the last.
        row = np.full(form.num_places, r)
        row[self._leaves] = np.arange(r)
        self._ends = np.stack([row[end] for end in np.triu_indices(form.num_places, 1)], 1)

    def under_sites(
        self,
        residual: FloatArray,
        precision: FloatArray,
        shift: FloatArray,
        kept: FloatArray,
        edges: FloatArray,
    ) -> FloatArray:
        """As `LooksUnderSites.under_sites`; keeps tau and n."""
        r, g = precision.shape
        half_log_det = np.empty(g)
        kept[:r] = precision
        for at in slices(r, g):
            tau, nu, rho = precision[:, at], shift[:, at], residual[at]
            whole = rho * tau.sum(0)
            half_log_det[at] = 0.5 * np.log1p(whole)
            share = 1.0 / (1.0 + whole)
            scaled = rho * share * tau
            kept[self.natural, at] = nu - scaled * nu.sum(0)
            for edge, (first, second) in zip(edges, self._ends, strict=True):
                leaf, other = min(first, second), max(first, second)
                np.multiply(tau[leaf], share if other == r else scaled[other], edge[at])
        return half_log_det

    def gain(self, residual: FloatArray, kept: FloatArray) -> FloatArray:
        """G, (r, r, g)."""
        tau = kept[: len(self._leaves)]
        share = residual / (1.0 + residual * tau.sum(0))
        found = -share * tau[:, None] * tau
        found[range(len(tau)), range(len(tau))] += tau
        return np.asarray(found)

    def marginals(
        self, residual: FloatArray, kept: FloatArray, mean: FloatArray, distances: FloatArray
    ) -> FloatArray:
        """Mean and variance of each z, (2, r, g)."""
        r, g = len(self._leaves), len(residual)
        found = np.empty((2, r, g))
        for at in slices(r, g):
            tau, rho = kept[:r, at], residual[at]
            weights = np.empty((r + 1, len(rho)))
            share = np.divide(1.0, 1.0 + rho * tau.sum(0), out=weights[r])
            spread = rho * share
            np.multiply(spread, tau, out=weights[:r])
            step = self._step(mean, at)
            shared = rho * kept[self.natural, at].sum(0)
            shared -= np.einsum("ig,ig->g", weights[:r], step)
            np.add(step, shared, out=found[0, :, at])
            away = np.zeros_like(weights)  # sum of alpha times the distance from each place
            for pair, (first, second) in zip(self._form.pairs[:, at], self._ends, strict=True):
                distance = distances[pair]
                away[first] += weights[second] * distance
                away[second] += weights[first] * distance
            spread -= 0.5 * np.einsum("ig,ig->g", weights, away)
            np.add(away[:r], spread, out=found[1, :, at])
        return found

    def slopes(
        self, residual: FloatArray, kept: FloatArray, mean: FloatArray, distances: FloatArray
    ) -> FloatArray:
        """By how much the log evidence changes with rho, sites held, (g,)."""
        r = len(self._leaves)
        tau, natural = kept[:r], kept[self.natural]
        share = 1.0 / (1.0 + residual * tau.sum(0))
        each = share * tau  # G 1
        weights = natural.sum(0) - np.einsum("ig,ig->g", each, self._step(mean, slice(None)))
        whole = each.sum(0)
        ends = np.concatenate([each, -whole[None]])
        explained = np.zeros_like(whole)  # 1'G Phi P⁻¹ Phi'G 1
        for pair, (first, second) in zip(self._form.pairs, self._ends, strict=True):
            explained -= ends[first] * ends[second] * distances[pair]
        return np.asarray(0.5 * (weights**2 - whole + explained))

    def _step(self, mean: FloatArray, at: slice) -> FloatArray:
        utility = mean[self._rows[:, at]]
        if self._hub_wins:
            return np.asarray(utility[self._leaves] - utility[self._hub])
        return np.asarray(utility[self._hub] - utility[self._leaves])
