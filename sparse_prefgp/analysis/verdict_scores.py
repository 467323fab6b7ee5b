"""What verdicts say of the noise and the margin of each judge, and how rare sums of them are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, log_ndtr, ndtr

from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

WON, TIED, LOST = range(3)
# Below this tail a normal one is a little thin, and the saddlepoint's takes its place.
SADDLEPOINT_BELOW = 0.01
# What a sum in another order may differ by, as a share of it.
_ROUNDING = 1e-12
# A signed root this near to 0 leaves nothing to correct.
_CENTRE = 1e-3
_STEPS, _SETTLED = 50, 1e-10
_LOG_ROOT = 0.5 * np.log(2.0 * np.pi)
# Of a mean, in standard deviations: less is rounding, and no side is called the better one.
_NOTHING = 1e-9


class NoCommonNoise(ArithmeticError):
    """The likeliest noise or margin of all votes is 0 or infinite, as of few votes or of ties."""


class Verdicts(NamedTuple):
    """The three verdicts on votes whose v is N(mean, variance) and noise: (3, t) each, in the order
    won, tied, lost."""

    log_p: FloatArray
    by_noise: FloatArray
    """Derivative of the log probability in the log of the noise variance."""
    by_margin: FloatArray
    """Derivative in the log of the margin; zeros without one."""

    @classmethod
    def of(
        cls,
        mean: FloatArray,
        variance: FloatArray,
        noise: FloatArray | float,
        margin: FloatArray | float | None,
    ) -> Verdicts:
        """Of votes (t,), noise and margin of each or one for all; without a margin there are no
        ties, and their probability is 0."""
        total = variance + noise
        scale = np.sqrt(total)
        box = 0.0 if margin is None else margin
        ahead, behind = (mean - box) / scale, (-mean - box) / scale
        ends = np.stack([ahead, behind])
        log_ends = log_ndtr(ends)
        log_density = -0.5 * ends**2 - _LOG_ROOT
        noise_slope = -0.5 * ends * noise / total
        box_slope = np.broadcast_to(-box / scale, ends.shape)
        # Of each tail, the derivatives of its probability over the density at its end.
        log_tie = np.full_like(mean, -np.inf)
        if margin is not None:
            # Between the ends, from the side on which both tails are small.
            low, high = np.minimum(ahead, behind), np.maximum(ahead, behind)
            log_far, log_near = log_ndtr(low), log_ndtr(-high)
            log_tie = log_near + np.log1p(-np.exp(log_far - log_near))
        log_p = np.stack([log_ends[0], log_tie, log_ends[1]])
        hazard = np.exp(log_density - log_ends)
        slopes = []
        for slope in (noise_slope, box_slope):
            inner = np.zeros_like(mean)
            if margin is not None:
                inner = -(np.exp(log_density - log_tie) * slope).sum(0)
            slopes.append(np.stack([hazard[0] * slope[0], inner, hazard[1] * slope[1]]))
        return cls(log_p, *slopes)

    @property
    def p(self) -> FloatArray:
        """(3, t)."""
        return np.exp(self.log_p)

    @property
    def information(self) -> FloatArray:
        """Fisher information of both logarithms in each vote, (2, 2, t)."""
        both = np.stack([self.by_noise, self.by_margin])
        return (self.p * both[:, None] * both[None]).sum(2)

    def informations(self, counts: IntArray, group: IntArray, size: int) -> FloatArray:
        """The same, added up in each of so many groups, (J, 2, 2)."""
        weights = (self.information * counts).reshape(4, -1)
        each = np.array([np.bincount(group, x, size) for x in weights], dtype=np.float64)
        return each.T.reshape(size, 2, 2)


class Sums(NamedTuple):
    """Scores and information of the log noise and the log margin of groups of votes."""

    score: FloatArray
    """(2, J)."""
    information: FloatArray
    """(J, 2, 2)."""

    @classmethod
    def of(
        cls, verdicts: Verdicts, said: IntArray, counts: IntArray, group: IntArray, size: int
    ) -> Sums:
        """Of what was said, (t,), in each of so many groups."""
        both = np.stack([verdicts.by_noise, verdicts.by_margin])
        heard = both[:, said, np.arange(len(said))] * counts
        score = np.stack([np.bincount(group, each, size).astype(float) for each in heard])
        return cls(score, verdicts.informations(counts, group, size))

    def steps(self, has_margin: bool) -> tuple[FloatArray, FloatArray]:
        """How far the likeliest values are by one step, (2, J), and their covariance (J, 2, 2);
        NaN of what nothing is known of."""
        judges = self.score.shape[1]
        step, covariance = np.full((2, judges), np.nan), np.full((judges, 2, 2), np.nan)
        used = [0, 1] if has_margin else [0]
        matrix = self.information[:, : len(used), : len(used)]
        known = np.linalg.matrix_rank(matrix, hermitian=True) == len(used)
        inverse = np.linalg.inv(matrix[known])
        covariance[np.ix_(known, used, used)] = inverse
        scores = self.score[used][:, known].T
        step[np.ix_(used, known)] = np.einsum("jik,jk->ij", inverse, scores)
        return step, covariance


def pooled(
    mean: FloatArray,
    variance: FloatArray,
    said: IntArray,
    counts: IntArray,
    noise: float,
    margin: float | None,
) -> tuple[float, float | None]:
    """The one noise and margin of all votes that make what was said likeliest, cavities held.

    :param noise: to begin from.
    :param margin: to begin from; None without ties.
    :raises NoCommonNoise: there are none.
    """
    group = np.zeros(len(said), dtype=np.int64)
    for _ in range(_STEPS):
        verdicts = Verdicts.of(mean, variance, noise, margin)
        step, _ = Sums.of(verdicts, said, counts, group, 1).steps(margin is not None)
        if np.all(np.isnan(step)):
            break
        by_noise, by_margin = np.clip(step[:, 0], -1.0, 1.0)  # the length of a step, not its end
        noise *= float(np.exp(by_noise))
        margin = None if margin is None else margin * float(np.exp(by_margin))
        if np.nanmax(np.abs(step)) < _SETTLED:
            return noise, margin
    raise NoCommonNoise(f"The noise of all votes was {noise:g} after {_STEPS} steps.")


def efficient(
    verdicts: Verdicts, sums: Sums, group: IntArray, which: int, has_margin: bool
) -> FloatArray:
    """(3, t) scores of noise (0) or margin (1) of each verdict, less what the other explains."""
    both = verdicts.by_noise, verdicts.by_margin
    if not has_margin:
        return both[which]
    other = 1 - which
    between, own = sums.information[:, which, other], sums.information[:, other, other]
    share = np.divide(between, own, out=np.zeros_like(own), where=own > 0.0)
    return both[which] - share[group] * both[other]


def tails(
    scores: FloatArray,
    p: FloatArray,
    said: IntArray,
    counts: IntArray,
    group: IntArray,
    stretch: FloatArray,
    one_sided: bool,
) -> FloatArray:
    """How rare the sum of what was said is in each group, (J,): normal, and by the saddlepoint
    (Lugannani & Rice 1980) in the tails; NaN of groups in which nothing can differ.

    :param scores: (3, t), of mean 0 under `p` (3, t).
    :param stretch: (J,) by which a sum is multiplied first.
    :param one_sided: whether sums above 0 alone are rare.
    """
    size = len(stretch)
    heard = scores[said, np.arange(len(said))] * counts
    variance = np.bincount(group, (p * scores**2).sum(0) * counts, size)
    total = np.bincount(group, heard, size) * stretch
    sides = 1.0 if one_sided else 2.0
    with np.errstate(invalid="ignore", divide="ignore"):
        z = total / np.sqrt(variance)
        found = sides * ndtr(-z if one_sided else -np.abs(z))
    for judge in np.flatnonzero(found < SADDLEPOINT_BELOW):
        rows = np.repeat(np.flatnonzero(group == judge), counts[group == judge])
        tail = np.sign(total[judge]) * scores[:, rows]
        found[judge] = min(1.0, sides * upper_tail(tail, p[:, rows], abs(total[judge])))
    return found


def upper_tail(values: FloatArray, p: FloatArray, total: float) -> float:
    """P(sum >= total) of independent numbers, by the saddlepoint (Lugannani & Rice 1980).

    :param values: (k, t) what each may be.
    :param p: (k, t) with which probability, columns adding up to 1.
    """
    there = p > 0.0
    largest = np.max(np.where(there, values, -np.inf), 0)
    smallest = np.min(np.where(there, values, np.inf), 0)
    rounding = _ROUNDING * np.abs(np.where(there, values, 0.0)).max(0).sum()
    if total <= smallest.sum() + rounding:
        return 1.0
    if total >= largest.sum() - rounding:  # all at their ends: no tilt reaches it
        at_ends = (p * (values == largest)).sum(0)
        return float(np.exp(np.log(at_ends).sum()))
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    reach = float(np.abs(np.where(there, values, 0.0)).max())

    def moments(tilt: float) -> tuple[float, float, float]:
        exponent = tilt * values + log_p
        top = exponent.max(0)
        weight = np.exp(exponent - top)
        mass = weight.sum(0)
        weight /= mass
        mean = (weight * values).sum(0)
        spread = (weight * values**2).sum(0) - mean**2
        return float((np.log(mass) + top).sum()), float(mean.sum()), float(spread.sum())

    ends = [-1.0 / reach, 1.0 / reach]
    for end, sign in enumerate((-1.0, 1.0)):
        while sign * (moments(ends[end])[1] - total) < 0.0:
            ends[end] *= 2.0
    tilt = brentq(lambda x: moments(x)[1] - total, *ends, xtol=1e-12 / reach)
    log_mass, _, spread = moments(tilt)
    # Below 0 by rounding alone: the exponent is convex, and 0 at no tilt.
    root = np.sign(tilt) * np.sqrt(2.0 * max(tilt * total - log_mass, 0.0))
    wald = tilt * np.sqrt(spread)
    if abs(root) < _CENTRE:
        return float(ndtr(-root))
    return float(ndtr(-(root + np.log(wald / root) / root)))


def at_least(
    p: FloatArray, group: IntArray, happened: BoolArray, size: int, draw: FloatArray
) -> FloatArray:
    """Randomised P(more than seen, or as many) of how often something happened in each group.

    The exact distribution of a sum of Bernoulli numbers, of all groups side by side.

    :param p: (t,) probabilities, in groups (t,).
    :param happened: (t,) where it did.
    :param draw: (size,) uniform numbers: of P(as many) this share counts.
    """
    sizes = np.bincount(group, minlength=size)
    largest_first = np.argsort(-sizes, kind="stable")
    order = np.argsort(group, kind="stable")
    start = np.cumsum(sizes) - sizes
    table = np.zeros((size, int(sizes.max(initial=0)) + 1))
    table[:, 0] = 1.0
    for k in range(table.shape[1] - 1):
        some = largest_first[: int(np.sum(sizes > k))]
        each = p[order[start[some] + k], None]
        before = table[some, : k + 2]
        moved = before * (1.0 - each)
        moved[:, 1:] += before[:, :-1] * each
        table[some, : k + 2] = moved
    seen = np.bincount(group, happened, size).astype(np.int64)
    above = np.where(np.arange(table.shape[1]) > seen[:, None], table, 0.0).sum(1)
    return above + draw * table[np.arange(size), seen]


def ends_of_share(
    seen: FloatArray | float, of: FloatArray | float, level: float
) -> tuple[FloatArray, FloatArray]:
    """The exact interval of the share of what was seen (Clopper & Pearson 1934)."""
    tail, rest = 0.5 - 0.5 * level, of - seen
    lower = np.where(seen > 0.0, betaincinv(seen, rest + 1.0, tail), 0.0)
    return lower, np.where(rest > 0.0, betaincinv(seen + 1.0, rest, 1.0 - tail), 1.0)


def agreement(
    mean: FloatArray, variance: FloatArray, noise: float, margin: float, counts: IntArray
) -> tuple[float, float, float]:
    """How often decided votes of a judge name the side that all others call the better one: of how
    many votes, of how many of these, and in which share his noise and margin let expect it (NaN
    of no votes); votes on sides that are equals to all others count nowhere.

    :param mean: (t,) of what the winner of each is above the loser by the votes of all others, the
        lean of the judge left out, as `variance`.
    :param counts: (t,) how often each was said.
    """
    sd = np.sqrt(np.maximum(variance, 0.0) + noise)
    unequal = np.abs(mean) > _NOTHING * sd
    far, sd, counts = np.abs(mean[unequal]), sd[unequal], counts[unequal]
    right, wrong = ndtr((far - margin) / sd), ndtr((-far - margin) / sd)
    total = float(counts.sum())
    expected = float(counts @ (right / (right + wrong)) / total) if total else np.nan
    return total, float(counts @ (mean[unequal] > 0.0)), expected
