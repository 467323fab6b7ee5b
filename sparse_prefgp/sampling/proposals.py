"""Draws of v that nearly follow a truncated normal, and Metropolis' rule that makes them do so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparse_prefgp.factors.truncated_draws import standard_draws
from sparse_prefgp.factors.truncated_normal import log_mass
from sparse_prefgp.support.arrays import FloatArray, IntArray

# Drawn side by side: their state fits into the cache.
_CHUNK = 500


class Order(NamedTuple):
    """A look at a set: consecutive slots, whose noises go together."""

    start: int
    """The first of its slots."""
    noise: FloatArray
    """(k, k) the covariance of their noise, positive definite."""
    nu: FloatArray
    """(r,) of the sites on v, noise and all."""
    tau: FloatArray
    """(r,) of the sites on v, noise and all; tau >= 0."""
    pairs: IntArray | None = None
    """(r, 2) where slots are utilities: those of which the first lies above the second, counted
    from `start`; it comes before, and v is the second less the first. None where slots are v.
    """
    offset: FloatArray | None = None
    """(k,) the means of utilities, which are compared with them."""

    @property
    def slots(self) -> slice:
        """All of them."""
        return slice(self.start, self.start + len(self.noise))


@dataclass(frozen=True, eq=False)
class TruncatedNormal:
    """v_i = features_i u + N(0, noise_i), u ~ N(0, I), given that lower < v < upper.

    Each v is a *slot*. Those of a look at a set share noises (`orders`), or are the noisy utilities
    of its alternatives, of which some have others above them.

    The sites exp(nu z - tau z²/2) on z = features u say what to expect of duels not yet drawn. Any
    will do; good ones, such as EP's, make proposals that are nearly always taken.
    """

    features: FloatArray
    """(t, r)."""
    noise: FloatArray
    """(t,), noise > 0, tau >= 0, limits may be infinite; lower None is -inf everywhere."""
    lower: FloatArray | None
    """(t,), noise > 0, tau >= 0, limits may be infinite; lower None is -inf everywhere."""
    upper: FloatArray
    """(t,), noise > 0, tau >= 0, limits may be infinite; lower None is -inf everywhere."""
    nu: FloatArray
    """(t,), noise > 0, tau >= 0, limits may be infinite; lower None is -inf everywhere."""
    tau: FloatArray
    """(t,), noise > 0, tau >= 0, limits may be infinite; lower None is -inf everywhere."""
    orders: tuple[Order, ...] = ()
    """Looks at sets, ascending; what is said of their slots' noise and sites is theirs alone."""


@dataclass(frozen=True)
class _Step:
    """How v_i depends on the natural mean of u given the groups before, and on the slots of its own
    group before: without and with later sites."""

    prior_gain: FloatArray
    prior_back: FloatArray
    prior_sd: float
    gain: FloatArray
    back: FloatArray
    shift: float
    sd: float
    above: IntArray
    """The slots that are upper limits."""
    lead: FloatArray
    """Their means less its own."""
    told: FloatArray | None
    """Of the last of its group, (r, k): by what v of the group adds to the natural mean of u."""


class _Group(NamedTuple):
    """Slots that are drawn one after the other: one duel, or one look at a set."""

    look: Order
    rows: FloatArray
    """(r, k): sites are on rows v while the group is drawn."""
    precision: FloatArray
    """(k, k) of what they say of z before."""
    natural: FloatArray
    """(k,) of what they say of z before."""


def propose(
    target: TruncatedNormal, count: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """`proposals` as one array of v (count, t) and one of log weights (count,)."""
    v, log_weights = zip(*proposals(target, count, rng), strict=True)
    return np.concatenate(v), np.concatenate(log_weights)


def proposals(
    target: TruncatedNormal, count: int, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Independent proposals of v (k, t), and the log of target over proposal (k,), in parts.

    Slot after slot, v_i is drawn from its normal given those before it, times the sites of those
    after it, cut to its limits, which for an alternative of a set are those drawn above it. Without
    sites this is the GHK simulator (Geweke 1991; Hajivassiliou & McFadden 1998; Keane 1994), whose
    weights degenerate after some dozen duels; with them it looks ahead (Guarniero, Johansen & Lee
    2017). The weights are Π N(v_i | prior) / N(v_i | proposal) · mass of the cut; their mean is the
    probability of the box, without bias. Costs O(t r²) once and O(t r) a proposal.
    """
    size, rank = target.features.shape
    steps = _plan(target)
    for start in range(0, count, _CHUNK):
        k = min(_CHUNK, count - start)
        v, log_weight = np.empty((size, k)), np.zeros(k)
        known = np.zeros((rank, k))  # natural mean of u given the v drawn so far
        for i, step in enumerate(steps):
            mean = step.gain @ known + step.shift
            prior_mean = step.prior_gain @ known
            if step.back.size:
                before = v[i - step.back.size : i]
                mean += step.back @ before
                prior_mean += step.prior_back @ before
            low = None if target.lower is None else (target.lower[i] - mean) / step.sd
            limit: FloatArray | float = target.upper[i]
            if step.above.size:
                limit = np.minimum(limit, np.min(v[step.above] + step.lead[:, None], 0))
            high = (limit - mean) / step.sd
            x = standard_draws(low, high, 1.0 - rng.random(k))
            v[i] = mean + step.sd * x
            away = (v[i] - prior_mean) / step.prior_sd
            log_weight += log_mass(low, high) + 0.5 * (x * x - away * away)
            log_weight += np.log(step.sd / step.prior_sd)
            if step.told is not None:
                known += step.told @ v[i + 1 - step.told.shape[1] : i + 1]
        # Only now, as rounding at the limit may not enter the weights.
        np.minimum(v, target.upper[:, None], out=v)
        if target.lower is not None:
            np.maximum(v, target.lower[:, None], out=v)
        yield v.T, log_weight


def _plan(target: TruncatedNormal) -> list[_Step]:
    """One step for each slot; all that does not depend on what is drawn."""
    features = target.features
    groups = _groups(target)
    past = np.eye(features.shape[1])  # Cov[u | groups before]
    # Cov[u | groups before, sites of later groups], and the natural mean of those sites.
    ahead, later = past.copy(), np.zeros(features.shape[1])
    for group in groups:
        some = features[group.look.slots]
        ahead += some.T @ group.precision @ some
        later += some.T @ group.natural
    both = np.linalg.inv(ahead)
    steps: list[_Step] = []
    for group in groups:
        some = features[group.look.slots]
        both = _without(both, some, group.precision)
        later = later - group.natural @ some
        steps += _steps_of(group, some, past, both, later)
        for matrix in (past, both):
            related = some @ matrix
            matrix -= related.T @ np.linalg.solve(related @ some.T + group.look.noise, related)
    return steps


def _groups(target: TruncatedNormal) -> list[_Group]:
    """Duels and looks in the order in which they are drawn."""
    one, groups, start = np.eye(1), [], 0
    for order in (*target.orders, None):
        stop = len(target.noise) if order is None else order.start
        for i in range(start, stop):
            nu, tau = target.nu[i : i + 1], target.tau[i : i + 1]
            # Its own site is never looked at while it is drawn.
            alone = Order(i, target.noise[i] * one, nu, tau)
            groups.append(_Group(alone, one, tau[:, None], nu))
        if order is not None:
            groups.append(_look(order))
            start = order.slots.stop
    return groups


def _look(order: Order) -> _Group:
    rows = identity = np.eye(len(order.noise))
    if order.pairs is not None:
        rows = rows[order.pairs[:, 1]] - rows[order.pairs[:, 0]]
    # v = z + e: sites T on rows v say (I + L N)^-1 L of z, L = rows' T rows and N the noise.
    weighted = rows.T @ (order.tau[:, None] * rows)
    seen = identity + weighted @ order.noise
    precision = np.linalg.solve(seen, weighted)
    natural = np.linalg.solve(seen, rows.T @ order.nu)
    return _Group(order, rows, 0.5 * (precision + precision.T), natural)


def _without(both: FloatArray, rows: FloatArray, precision: FloatArray) -> FloatArray:
    """The covariance (r, r) once the precision (k, k) of rows u is taken out of it."""
    values, vectors = np.linalg.eigh(precision)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    along = both @ (rows.T @ root)
    share, turn = np.linalg.eigh(root.T @ (rows @ along))
    # What the sites leave cannot be more certain than with them.
    left = np.maximum(1.0 - share, np.finfo(float).tiny)
    along = along @ turn
    return both + (along / left) @ along.T


def _steps_of(
    group: _Group, some: FloatArray, past: FloatArray, both: FloatArray, later: FloatArray
) -> list[_Step]:
    """Of the slots of a group, whose rows of the features are `some` (k, r)."""
    k, look = len(some), group.look
    plain, led = some @ past, some @ both
    prior, guide = plain @ some.T, led @ some.T
    # Rounding aside, later sites cannot add variance.
    every = np.arange(k)
    prior[every, every] = np.maximum(prior[every, every], 0.0)
    guide[every, every] = np.clip(guide[every, every], 0.0, prior[every, every])
    prior += look.noise
    guide += look.noise
    found = []
    for j in range(k):
        prior_back = np.linalg.solve(prior[:j, :j], prior[:j, j])
        prior_variance = prior[j, j] - float(prior_back @ prior[:j, j])
        # The slots from j on, given those before.
        rest = np.linalg.solve(guide[:j, :j], guide[:j, j:]).T
        gains = led[j:] - rest @ led[:j]
        covariance = guide[j:, j:] - rest @ guide[:j, j:]
        # Sites that touch slots after j; others are drawn with j itself.
        touching = np.any(group.rows[:, j + 1 :] != 0.0, 1)
        rows, tau = group.rows[touching], look.tau[touching]
        drawn, weighted = rows[:, :j], rows[:, j:].T * tau
        inner = np.eye(k - j) + covariance @ (weighted @ rows[:, j:])
        first = np.linalg.solve(inner.T, every[j:] == j)
        gain, spread = first @ gains, first @ covariance
        floor = np.finfo(float).eps * prior_variance
        variance = min(max(float(spread[0]), floor), prior_variance)
        above = np.zeros(0, np.int64)
        means = np.zeros(k)
        if look.offset is not None:
            above = np.flatnonzero((group.rows[:, j] > 0.0) @ (group.rows < 0.0))
            means = look.offset
        found.append(
            _Step(
                prior_gain=plain[j] - prior_back @ plain[:j],
                prior_back=prior_back,
                prior_sd=float(np.sqrt(prior_variance)),
                gain=gain,
                back=first @ rest - (spread @ weighted) @ drawn,
                shift=float(gain @ later + spread @ (rows[:, j:].T @ look.nu[touching])),
                sd=float(np.sqrt(variance)),
                above=look.start + above,
                lead=means[above] - means[j],
                told=np.linalg.solve(look.noise, some).T if j == k - 1 else None,
            )
        )
    return found


def independence_metropolis(
    log_weights: FloatArray, warmup: int, rng: np.random.Generator
) -> IntArray:
    """Which of its proposals each chain is at, (chains, draws), from weights (chains, all).

    Proposal i is taken with probability min(1, weight_i / weight of the state) (Metropolis and
    others 1953, Hastings 1970), so that the chain draws from the target exactly; else it stays.
    The first `warmup` are left out of the result.
    """
    chains, count = log_weights.shape
    every, at = np.arange(chains), np.zeros(chains, dtype=np.int64)
    path = np.empty((chains, count), dtype=np.int64)
    rise = -rng.exponential(size=(chains, count))
    for i in range(count):
        taken = log_weights[:, i] - log_weights[every, at] > rise[:, i]
        at = np.where(taken, i, at)
        path[:, i] = at
    return path[:, warmup:]
