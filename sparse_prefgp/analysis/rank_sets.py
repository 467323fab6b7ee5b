"""Which ranks items may have, from joint draws of their utilities, and Elo points."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

# Work goes by draws times the square of the items.
MOST_DRAWS, MOST_ITEMS = 4_000, 300
# By which a variance of a difference may be off by rounding, as a share of the largest variance.
ROUNDING = 1e-10
# Elo's odds grow tenfold by 400 points, so that his expected score has the slope log 10 / 1600 at
# even odds; that of a probit of noise variance 1 with the margin m has exp(-m²/2) / sqrt(2 pi).
POINTS = 400.0 / math.log(10.0) * 4.0 / math.sqrt(2.0 * math.pi)


@dataclass(frozen=True, eq=False)
class RankSets:
    """Ranks of c items, 1 for the largest utility, (c,) each."""

    low: IntArray
    high: IntArray
    """Ranks that are not ruled out."""
    likely_low: IntArray
    likely_high: IntArray
    """Quantiles of the ranks in the draws."""
    group: IntArray
    """From 1 for the best: the first of a group is not above any other in it for sure."""


def rank_sets(
    mean: FloatArray, covariance: FloatArray, draws: FloatArray, level: float
) -> RankSets:
    """Sets of ranks, each of which is to hold the true one with the probability `level`.

    Item l is above i for sure where its mean is by more than c_i standard deviations of their
    difference, c_i being the quantile at `level` of max_l |d_il - E d_il| / sd_il over the draws:
    the marginal confidence sets of Mogstad, Romano, Shaikh & Wilhelm (2024), Inference for Ranks
    with Applications to Mobility across Neighbourhoods and Academic Achievement across Countries,
    with the posterior in place of the bootstrap.

    :param mean: (c,) of the utilities.
    :param covariance: (c, c).
    :param draws: (S, c), joint ones.
    """
    variance = np.diag(covariance)
    sd = variance[:, None] + variance - 2.0 * covariance
    sd = np.sqrt(np.where(sd > ROUNDING * variance.max(initial=0.0), sd, 0.0))
    apart, below, above = draws - mean, np.zeros(sd.shape, bool), np.zeros(sd.shape, bool)
    for i, own in enumerate(sd):
        others = np.flatnonzero(own > 0.0)
        distance = np.abs(apart[:, others] - apart[:, i, None]) / own[others]
        furthest = distance.max(1, initial=0.0)
        reach = np.quantile(furthest, level) * own
        above[i], below[i] = mean > mean[i] + reach, mean < mean[i] - reach
    tail = 0.5 - 0.5 * level
    places = np.empty(draws.shape, np.int64)
    order = np.argsort(-draws, axis=1, kind="stable")
    np.put_along_axis(places, order, np.arange(1, 1 + len(mean))[None], 1)
    likely = np.quantile(places, [tail, 1.0 - tail], axis=0, method="inverted_cdf").astype(int)
    low, high = 1 + above.sum(1), len(mean) - below.sum(1)
    return RankSets(low, high, likely[0], likely[1], _groups(mean, below))


def _groups(mean: FloatArray, below: BoolArray) -> IntArray:
    """A new group begins with the first item that is below the first of the group for sure."""
    group = np.empty(len(mean), np.int64)
    number, first = 0, -1
    for i in np.argsort(-mean, kind="stable"):
        if first < 0 or below[first, i]:
            number, first = number + 1, i
        group[i] = number
    return group


def about_ranks(level: float) -> str:
    """How columns of ranks and groups are to be read."""
    percent = f"{100 * level:g} %"
    return (
        f"Ranks that are not ruled out hold {percent} each; likely ones are those of {percent} of "
        "the joint samples, and hold all at once less often. The first of a group is not "
        "ahead of the others in it for sure, looked at all at once; a pair alone may be surer."
    )


@dataclass(frozen=True, eq=False)
class JointUtilities:
    """Of c items, a mixture of normals."""

    means: FloatArray
    """(S, c)."""
    covariances: FloatArray
    """(S, c, c)."""
    weights: FloatArray
    """(S,)."""

    def take(self, which: IntArray) -> JointUtilities:
        """Of some items, in their order."""
        covariances = self.covariances[:, which][:, :, which]
        return JointUtilities(self.means[:, which], covariances, self.weights)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean (c,) and covariance (c, c)."""
        mean = self.weights @ self.means
        apart = (self.means - mean) * np.sqrt(self.weights)[:, None]
        within = np.tensordot(self.weights, self.covariances, 1)
        return mean, within + apart.T @ apart

    def scores(self, noise: float, margin: float | None = None) -> FloatArray:
        """Expected score of each item (row) in one duel with each other, (c, c): the chance of a
        win and half of that of a tie, at the usual noise, sides and covariates being equal.

        :param noise: its variance, of a duel.
        """
        cut, total = margin or 0.0, np.zeros(self.covariances.shape[1:])
        for weight, mean, covariance in zip(
            self.weights, self.means, self.covariances, strict=True
        ):
            own = np.diag(covariance)
            variance = np.maximum(own[:, None] + own - 2.0 * covariance, 0.0)
            sd, apart = np.sqrt(variance + noise), mean[:, None] - mean
            total += weight * 0.5 * (ndtr((apart - cut) / sd) + ndtr((apart + cut) / sd))
        return total


def some_draws(samples: int) -> IntArray:
    """Numbers of the draws of which ranks are taken, evenly spaced, so that each part of a mixture
    keeps its share."""
    return np.linspace(0, samples - 1, min(samples, MOST_DRAWS)).astype(np.int64)


def points_per_unit(noise_variance: float, margin: float | None) -> float:
    """Elo points for each unit of utility, by equal slopes of the expected score at even odds.

    :param noise_variance: of one side of a duel; a difference has twice as much.
    :param margin: within which a duel is a tie, half a point for each side.
    """
    sd = math.sqrt(2.0 * noise_variance)
    return POINTS * math.exp(-0.5 * ((margin or 0.0) / sd) ** 2) / sd
