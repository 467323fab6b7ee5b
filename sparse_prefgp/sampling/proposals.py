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
    """A look at a set: consecutive slots, of which some lie above others."""

    start: int
    """The first of its slots."""
    pairs: IntArray
    """(r, 2) slots of which the first lies above the second, counted from `start`; it comes
    before.
    """
    nu: FloatArray
    """(r,) of the sites on v = second less first, with their noise."""
    tau: FloatArray
    """(r,) of the sites on v = second less first, with their noise; tau >= 0."""
    offset: FloatArray
    """(k,) the mean of each slot, which compares with the others."""


@dataclass(frozen=True, eq=False)
class TruncatedNormal:
    """v_i = features_i u + N(0, noise_i), u ~ N(0, I), given that lower < v < upper.

    Each v is a *slot*: the difference of a duel, or the utility of an alternative to somebody who
    looks at a set, which has others above it (`orders`).

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
    """Looks at sets, ascending; their slots have no `nu` and `tau` of their own."""


@dataclass(frozen=True)
class _Step:
    """How v_i depends on the natural mean of u given the v before: without and with later sites."""

    prior_gain: FloatArray
    prior_sd: float
    gain: FloatArray
    back: FloatArray
    """And, with later sites, how on the slots before it of its own look."""
    shift: float
    sd: float
    above: IntArray
    """The slots that are upper limits."""
    lead: FloatArray
    """Their means less its own."""


class _Group(NamedTuple):
    """Slots that are drawn one after the other: one duel, or one look at a set."""

    start: int
    stop: int
    rows: FloatArray
    """(r, k) of v = rows y: what its sites are on while it is drawn."""
    nu: FloatArray
    """(r,) of these sites."""
    tau: FloatArray
    """(r,) of these sites."""
    precision: FloatArray
    """(k, k) of what they say of z before."""
    natural: FloatArray
    """(k,) of what they say of z before."""
    offset: FloatArray
    """(k,)."""


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
            if step.back.size:
                mean += step.back @ v[i - step.back.size : i]
            low = None if target.lower is None else (target.lower[i] - mean) / step.sd
            limit: FloatArray | float = target.upper[i]
            if step.above.size:
                limit = np.minimum(limit, np.min(v[step.above] + step.lead[:, None], 0))
            high = (limit - mean) / step.sd
            x = standard_draws(low, high, 1.0 - rng.random(k))
            drawn = mean + step.sd * x
            away = (drawn - step.prior_gain @ known) / step.prior_sd
            log_weight += log_mass(low, high) + 0.5 * (x * x - away * away)
            log_weight += np.log(step.sd / step.prior_sd)
            known += target.features[i][:, None] * (drawn / target.noise[i])
            v[i] = drawn
        # Only now, as rounding at the limit may not enter the weights.
        np.minimum(v, target.upper[:, None], out=v)
        if target.lower is not None:
            np.maximum(v, target.lower[:, None], out=v)
        yield v.T, log_weight


def _plan(target: TruncatedNormal) -> list[_Step]:
    """One step for each slot; all that does not depend on what is drawn."""
    features, noise = target.features, target.noise
    groups = _groups(target)
    identity = np.eye(features.shape[1])
    past = identity.copy()  # Cov[u | v before i]
    # Cov[u | v before i, sites of later groups], and the natural mean of those sites.
    ahead = identity + features.T @ (target.tau[:, None] * features)
    later = features.T @ target.nu
    for group in groups:
        if len(group.rows):
            some = features[group.start : group.stop]
            ahead += some.T @ group.precision @ some
            later += some.T @ group.natural
    both = np.linalg.inv(ahead)
    steps = []
    for group in groups:
        some = features[group.start : group.stop]
        both = _without(both, some, group.precision)
        later = later - group.natural @ some
        for place, i in enumerate(range(group.start, group.stop)):
            row, alone = features[i], both @ features[i]
            prior_gain = past @ row
            # Rounding aside, later sites cannot add variance.
            prior_variance = max(float(row @ prior_gain), 0.0)
            explained = min(max(float(row @ alone), 0.0), prior_variance)
            prior_total, total = prior_variance + noise[i], explained + noise[i]
            gain, shift, variance, back = alone, float(alone @ later), total, np.zeros(0)
            if np.any(group.rows[:, place + 1 :]):
                gain, shift, variance, back = _ahead_of(group, place, both, later, target)
                variance = min(max(variance, np.finfo(float).eps * prior_total), prior_total)
            above = np.flatnonzero((group.rows[:, place] > 0.0) @ (group.rows < 0.0))
            steps.append(
                _Step(
                    prior_gain,
                    float(np.sqrt(prior_total)),
                    gain,
                    back,
                    shift,
                    float(np.sqrt(variance)),
                    group.start + above,
                    group.offset[above] - group.offset[place],
                )
            )
            past -= np.outer(prior_gain, prior_gain) / prior_total
            both -= np.outer(alone, alone) / total
    return steps


def _groups(target: TruncatedNormal) -> list[_Group]:
    """Duels and looks in the order in which they are drawn."""
    nothing, groups, start = np.zeros((0, 1)), [], 0
    for order in (*target.orders, None):
        stop = len(target.noise) if order is None else order.start
        for i in range(start, stop):
            site = slice(i, i + 1)
            nu, tau = target.nu[site], target.tau[site]
            groups.append(_Group(i, i + 1, nothing, nu[:0], tau[:0], tau[:, None], nu, np.zeros(1)))
        if order is not None:
            groups.append(_look(order, target.noise))
            start = groups[-1].stop
    return groups


def _look(order: Order, noise: FloatArray) -> _Group:
    k, r = len(order.offset), len(order.pairs)
    stop = order.start + k
    rows = np.zeros((r, k))
    rows[np.arange(r), order.pairs[:, 0]] = -1.0
    rows[np.arange(r), order.pairs[:, 1]] = 1.0
    # y = z + e: sites A'T A on y say (I + L D)^-1 L of z, L = A'T A and D the variances of e.
    laplacian = rows.T @ (order.tau[:, None] * rows)
    seen = np.eye(k) + laplacian * noise[order.start : stop]
    precision = np.linalg.solve(seen, laplacian)
    natural = np.linalg.solve(seen, rows.T @ order.nu)
    half = 0.5 * (precision + precision.T)
    return _Group(
        order.start, stop, rows, order.nu, order.tau, half, natural, np.asarray(order.offset)
    )


def _without(both: FloatArray, rows: FloatArray, precision: FloatArray) -> FloatArray:
    """The covariance (r, r) once the precision (k, k) of rows u is taken out of it."""
    values, vectors = np.linalg.eigh(precision)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    along = both @ (rows.T @ root)
    share, turn = np.linalg.eigh(root.T @ (rows @ along))
    # What the sites leave cannot be more certain than with them.
    left = np.maximum(1.0 - share, np.finfo(float).tiny)
    along = along @ turn
    return np.asarray(both + (along / left) @ along.T)


def _ahead_of(
    group: _Group, place: int, both: FloatArray, later: FloatArray, target: TruncatedNormal
) -> tuple[FloatArray, float, float, FloatArray]:
    """Of one slot of a look, given the slots before it, later groups and its look's own sites that
    touch slots not yet drawn but itself: gain, shift and variance, and gain of the slots before."""
    rest = slice(group.start + place, group.stop)
    features = target.features[rest]
    related = features @ both
    covariance = related @ features.T + np.diag(target.noise[rest])
    open_ = np.any(group.rows[:, place + 1 :] != 0.0, 1)
    rows, nu, tau = group.rows[open_], group.nu[open_], group.tau[open_]
    drawn, left = rows[:, :place], rows[:, place:]
    weighted = left.T * tau
    inner = np.eye(len(features)) + covariance @ (weighted @ left)
    first = np.linalg.solve(inner.T, np.eye(len(features))[0])
    gain, spread = first @ related, first @ covariance
    back = -(spread @ weighted) @ drawn
    return gain, float(gain @ later + spread @ (left.T @ nu)), float(spread[0]), back


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
