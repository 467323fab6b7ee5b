"""The frontier filter with its adjoint smoother: Gaussian utilities in time, exact across items.

Items move independently, by `s' = A s + N(0, Q)` between the slices in which they duel; a site
sees `z = h's_loser - h's_winner + x'w`, w ~ N(0, I). What is kept is the joint Gaussian of each
active item's state at its last slice, the *frontier*: a slice moves and multiplies only its own p
of N items, O(p N²), and an item leaves after its last slice. Backward go the adjoints of mean and
covariance (Bryson & Frazier 1963), so that nothing is divided by Q, and no N × N matrix is
factorised: Q = 0, A = 0 and T = 0 are harmless.

With C the covariance of the frontier, m its mean, T and b precision and shift of the sites of a
slice, U = Cov[states, z], F = Cov[z] and y its mean before they are seen:

    M = T^½ (I + T^½ F T^½)⁻¹ T^½     g = (I - M F)(b - T y)     m += U g     C -= U M U'

m has a column for each of r shifts, and for each of k coefficients w what one unit of it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpstrf, dtrtrs

from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

# A copy of the frontier without those that left is worth it from this share on.
_LEFT_SHARE = 16
# NumPy takes a product with its own transpose by half the multiplications and copies the rest,
# which takes longer than all of them up to so many columns.
_THIN = 24


class Step(NamedTuple):
    """What a slice does to the frontier."""

    before: int
    """How many items the frontier has before."""
    size: int
    """N, how many with those that enter, which take the last places."""
    places: IntArray
    """(p,) in the frontier, of the items of the slice."""
    moved: IntArray
    """Which of the p were there before."""
    gaps: slice
    """Theirs, among the gaps of the plan."""
    sites: slice
    """Of the slice, in the order of the plan."""
    losers: IntArray
    """(t_s,) which of the p each site has as its loser."""
    winners: IntArray
    """(t_s,) which of the p each site has as its winner; -1 for none."""
    keep: IntArray | None
    """Places that stay afterwards; None for all."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Which items enter, move, meet and leave in which slice: integers, made once."""

    steps: tuple[Step, ...]
    order: IntArray
    """(t,) the sites in the order of the slices."""
    spans: FloatArray
    """(g,) the gaps between successive slices of an item."""
    frontier: IntArray
    """Items of the frontier after the last slice, by place."""
    last_times: FloatArray
    """Of the last slice of each of these."""

    @classmethod
    def of(
        cls,
        times: FloatArray,
        slices: IntArray,
        losers: IntArray,
        winners: IntArray,
        staying: BoolArray | None = None,
        after: Plan | None = None,
    ) -> Plan:
        """The plan of t sites.

        :param times: (S,) of the slices, ascending; each has a site.
        :param slices: (t,) of each site.
        :param losers: (t,) items, 0, 1, …
        :param winners: (t,) items; -1 for a site of one item alone.
        :param staying: (items,) which stay in the frontier after their last slice; None for none.
        :param after: begin with its frontier, of which whoever has no site here stays.
        """
        order = np.argsort(slices, kind="stable")
        at, ends = slices[order], np.stack([losers[order], winners[order]], 1)
        frontier = np.empty(0, np.int64) if after is None else after.frontier
        n = int(max(ends.max(), frontier.max(initial=-1))) + 1
        there = ends >= 0
        nodes, number = np.unique((at[:, None] * n + ends)[there], return_inverse=True)
        node = np.full(ends.shape, -1)
        node[there] = number.reshape(-1)
        slice_of, item_of = np.divmod(nodes, n)
        previous, last = _neighbours(item_of)
        last_time = np.full(n, np.nan)
        if after is not None:
            last_time[frontier] = after.last_times
        came = np.where(previous < 0, last_time[item_of], times[slice_of[previous]])
        there_before = ~np.isnan(came)
        spans = (times[slice_of] - came)[there_before]
        gap = np.append(0, np.cumsum(there_before))
        bounds = np.searchsorted(slice_of, np.arange(len(times) + 1))
        sites = np.searchsorted(at, np.arange(len(times) + 1))
        leaving = last if staying is None else last & ~staying[item_of]
        place, gone, waiting, steps = np.full(n, -1), np.zeros(n, bool), 0, []
        place[frontier] = np.arange(len(frontier))
        for s in range(len(times)):
            low, high = bounds[s : s + 2]
            items, before = item_of[low:high], len(frontier)
            new = ~there_before[low:high]
            entering = items[new]
            place[entering] = before + np.arange(len(entering))
            frontier = np.concatenate([frontier, entering])
            places, size, keep = place[items], len(frontier), None
            out = items[leaving[low:high]]
            gone[out] = True
            waiting += len(out)
            if waiting and (_LEFT_SHARE * waiting >= size or s == len(times) - 1):
                keep = np.flatnonzero(~gone[frontier])
                frontier, waiting = frontier[keep], 0
                place[frontier] = np.arange(len(frontier))
            here = slice(*sites[s : s + 2])
            local = np.where(node[here] < 0, -1, node[here] - low)
            steps.append(
                Step(
                    before,
                    size,
                    places,
                    np.flatnonzero(~new),
                    slice(gap[low], gap[high]),
                    here,
                    np.ascontiguousarray(local[:, 0]),
                    np.ascontiguousarray(local[:, 1]),
                    keep,
                )
            )
        last_time[item_of[last]] = times[slice_of[last]]
        return cls(tuple(steps), order, spans, frontier, last_time[frontier])

    def num_bytes(self, size: int) -> int:
        """What a forward pass keeps, for states of `size`: for each slice columns of the frontier
        for its items, and for its sites or items whichever are fewer."""
        total = 0
        for step in self.steps:
            p, sites = len(step.places), len(step.losers)
            total += step.size * size * (p * size + min(p, sites))
        return 8 * total

    @property
    def sizes(self) -> tuple[IntArray, IntArray]:
        """N and p of each slice."""
        both = np.array([(step.size, len(step.places)) for step in self.steps])
        return both[:, 0], both[:, 1]


def _neighbours(item_of: IntArray) -> tuple[IntArray, BoolArray]:
    """Of nodes in the order of time: the node of the same item before each, -1 for none, and
    whether each is its item's last."""
    order = np.argsort(item_of, kind="stable")
    same = item_of[order][1:] == item_of[order][:-1]
    previous, last = np.full(len(item_of), -1), np.ones(len(item_of), bool)
    previous[order[1:][same]] = order[:-1][same]
    last[order[:-1][same]] = False
    return previous, last


class Moves(NamedTuple):
    """The Markov kernel in numbers."""

    observed: FloatArray
    """h, (d,)."""
    start: FloatArray
    """P, (d, d)."""
    transitions: FloatArray
    """A, (g, d, d)."""
    added: FloatArray
    """Q, (g, d, d)."""


class Seen(NamedTuple):
    """What the t sites say, in the order of the plan."""

    precision: FloatArray
    """T, (t,)."""
    shifts: FloatArray
    """(t, r)."""
    columns: FloatArray
    """X, (t, k)."""


class Frontier(NamedTuple):
    """The joint Gaussian of the items that are still there."""

    mean: FloatArray
    """m, (N d, r + k): for each shift with w = 0, and what one unit of each w adds."""
    covariance: FloatArray
    """C, (N d, N d), given w."""
    precision: FloatArray
    """P_w, (k, k), of w."""
    weighted: FloatArray
    """h_w, (k, r), with E w = P_w⁻¹ h_w."""
    half_log_det: float
    """½ log|P| of all sites so far, that of w apart."""


class _Kept(NamedTuple):
    """What the way back wants of a slice, in the number of its sites or, if fewer, of its items."""

    columns: FloatArray
    """C of the items of the slice, after they moved, (N d, p d)."""
    mean: FloatArray
    """Theirs of m, (p d, r + k)."""
    between: FloatArray
    """F."""
    root: FloatArray | None
    """K with M = K'K; None where T is 0."""
    pull: FloatArray | None
    """g; None where T and b are 0."""


class Filtered(NamedTuple):
    """The way forward."""

    kept: tuple[_Kept, ...]
    end: Frontier


class Slopes(NamedTuple):
    """½ h'P⁻¹h - ½ log|P| changes by ½ <start, dP> + sum ½ <added, dQ> + <exponents, dE>."""

    start: FloatArray
    """(d, d)."""
    added: FloatArray
    """(g, d, d)."""
    exponents: FloatArray
    """(g, d, d), of E with A = exp(E)."""


class Smoothed(NamedTuple):
    """z of the t sites under all of them, in the order of the plan."""

    mean: FloatArray
    """(t, r)."""
    variance: FloatArray
    """(t,)."""
    rows: FloatArray
    """R, (t, k), what a unit of each w adds to the mean."""
    weights: FloatArray
    """E w, (k, r)."""
    covariance: FloatArray
    """P_w⁻¹, (k, k)."""
    half_log_det: float
    slopes: Slopes | None
    """Of the first shift, where asked for."""
    joint: dict[int, FloatArray]
    """Of steps that were asked for, by number: covariance (t_s, t_s) of their z given w, in the
    order of the sites of the step."""


# Of a slice, its mean (t_s,) and a square root (t_s, m) of its covariance before it is seen: what
# precision (t_s,) and shift (t_s,) its sites are to have.
Settle = Callable[[Step, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


def filtered(
    plan: Plan,
    moves: Moves,
    seen: Seen,
    begin: Frontier | None = None,
    keep: bool = True,
    settle: Settle | None = None,
) -> Filtered:
    """The way forward through all slices.

    :param begin: the frontier before the first slice; None for nobody.
    :param keep: what the way back wants.
    :param settle: finds what the sites of a slice say when it comes, in place of `seen`.
    """
    d, h = len(moves.observed), moves.observed
    r, k = seen.shifts.shape[1], seen.columns.shape[1]
    p_w, h_w, log_det = np.eye(k), np.zeros((k, r)), 0.0
    c, m = np.zeros((0, 0)), np.zeros((0, r + k))
    if begin is not None:
        c, m = begin.covariance.copy(), begin.mean.copy()
        p_w, h_w, log_det = begin.precision.copy(), begin.weighted.copy(), begin.half_log_det
    kept = []
    for step in plan.steps:
        before, n = step.before * d, step.size * d
        if n > before:
            c, there = np.zeros((n, n)), c
            c[:before, :before] = there
            for i in range(before, n, d):
                c[i : i + d, i : i + d] = moves.start
            m = np.concatenate([m, np.zeros((n - before, r + k))])
        at = _states(step.places, d)
        own = np.ascontiguousarray(c[:, at])
        if len(step.moved):
            _move(own, m, step, moves, at)
            c[:, at], c[at] = own, own.T
        here = m[at]
        found = _Kept(own, here, _observed(_observed(own, h)[at].T, h), None, None)
        t, s, x = (values[step.sites] for values in seen)
        if settle is not None or t.any() or s.any():
            across = _incidence(step)
            y = across @ _observed(here.T, h).T
            rows = x + y[:, r:]
            if settle is not None:
                coming = _coming(across, found.between, y[:, 0], rows, p_w, h_w)
                t, shift = settle(step, *coming)
                s = shift[:, None]
            left = -t[:, None] * y
            left[:, :r] += s
            left[:, r:] -= t[:, None] * x  # b - T y
            found, pull, about = _conditioned(step, found, across, t, left)
            states = _observed(own, h) if _by_items(step) else _observed(own, h) @ across.T
            m += states @ pull
            if found.root is not None:
                log_det += about
                _subtract_square(c, states @ found.root.T)
                if k:
                    # R'M R and R' times the pull: what the items of the slice leave of the sites.
                    summed = across.T @ left if _by_items(step) else left
                    known = found.between @ pull
                    p_w += rows.T @ (t[:, None] * rows) - summed[:, r:].T @ known[:, r:]
                    h_w += rows.T @ left[:, :r] + summed[:, r:].T @ known[:, :r]
            elif k:
                h_w += rows.T @ s
        if keep:
            kept.append(found)
        if step.keep is not None:
            stay = _states(step.keep, d)
            c, m = c[np.ix_(stay, stay)], m[stay]
    return Filtered(tuple(kept), Frontier(m, c, p_w, h_w, log_det))


def _coming(
    across: FloatArray,
    between: FloatArray,
    y: FloatArray,
    rows: FloatArray,
    p_w: FloatArray,
    h_w: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Mean (t_s,) of the z of a slice before it is seen, and B with covariance B B'."""
    # Rounding may leave an eigenvalue of a covariance just below 0.
    values, vectors = np.linalg.eigh(between)
    features = [across @ (vectors * np.sqrt(np.maximum(values, 0.0)))]
    if len(p_w):
        lower = np.linalg.cholesky(p_w)
        features.append(dtrtrs(lower, rows.T, lower=1)[0].T)
        y = y + features[1] @ dtrtrs(lower, h_w[:, 0], lower=1)[0]
    return y, np.hstack(features)


def _subtract_square(c: FloatArray, half: FloatArray) -> None:
    """c - half half', in place, of a symmetric array in one piece."""
    if half.shape[1] > _THIN:
        c -= half @ half.T
    else:
        assert c.flags.c_contiguous  # else BLAS would write to a copy
        dgemm(-1.0, half.T, half.T, 1.0, c.T, trans_a=1, overwrite_c=1)


def _half(square: FloatArray) -> FloatArray:
    """R (r, p) with R'R a positive semi-definite matrix (p, p) of rank r."""
    factor, pivots, rank, _ = dpstrf(square)
    found = np.zeros((rank, len(square)))
    found[:, pivots - 1] = np.triu(factor)[:rank]
    return found


def _conditioned(
    step: Step, kept: _Kept, across: FloatArray, t: FloatArray, left: FloatArray
) -> tuple[_Kept, FloatArray, float]:
    """The same with F, K and g, g once more, and ½ log|I + T^½ F T^½|.

    Of items T is V'TV = R'R, by a pivoted Cholesky factorisation, as it has no full rank, and b is
    V'b.
    """
    if _by_items(step):
        between, summed = kept.between, across.T @ left
    else:
        between, summed = across @ kept.between @ across.T, left
    if not t.any():
        return kept._replace(between=between, pull=summed), summed, 0.0
    scaled = np.diag(np.sqrt(t))
    if _by_items(step):
        scaled = _half(across.T @ (t[:, None] * across))
    inner = scaled @ between @ scaled.T
    inner.flat[:: len(inner) + 1] += 1.0
    lower = np.linalg.cholesky(inner)
    root = dtrtrs(lower, scaled, lower=1)[0]
    pull = summed - root.T @ (root @ (between @ summed))
    about = float(np.log(np.diagonal(lower)).sum())
    return kept._replace(between=between, root=root, pull=pull), pull, about


def smoothed(
    plan: Plan,
    moves: Moves,
    seen: Seen,
    forward: Filtered,
    slopes: bool = False,
    joint: Collection[int] = (),
) -> Smoothed:
    """The way back, from the last slice to the first.

    With lam and Lam the adjoints of mean and covariance, from 0, and Y = Lam U:

        lam += H'(g - M U'lam)     Lam += H'(M + M U'Y M)H - Y M H - (Y M H)'
        E z = y + U'lam     Cov z = (I - F M) F - (I - F M) U'Y (I - M F)

    and with s the smoothed states, moves and entries change ½ h'P⁻¹h - ½ log|P| by
    G = lam lam' - Lam and B = lam s' - Lam C, ½ <G, dQ> + <B - G Q, dE> and ½ <G, dP>.

    :param forward: not from a frontier of others.
    :param slopes: whether these are wanted.
    :param joint: numbers of steps of which the covariance of all their z is wanted.
    """
    d, h, end = len(moves.observed), moves.observed, forward.end
    t, r = seen.shifts.shape
    k = seen.columns.shape[1]
    lower = np.linalg.cholesky(end.precision)
    inverse = dtrtrs(lower, np.eye(k), lower=1)[0] if k else np.zeros((0, 0))
    cov_w = inverse.T @ inverse
    weights = cov_w @ end.weighted
    z, variance = np.empty((t, r + k)), np.empty(t)
    n = len(end.mean)
    lam, big = np.zeros((n, r + k)), np.zeros((n, n))
    informed = False
    start = np.zeros((d, d))
    of_gaps = np.zeros((2, len(plan.spans), d, d))
    together: dict[int, FloatArray] = {}
    for number in reversed(range(len(plan.steps))):
        step, kept = plan.steps[number], forward.kept[number]
        n = step.size * d
        if step.keep is not None:
            stay = _states(step.keep, d)
            lam, some = np.zeros((n, r + k)), lam
            lam[stay] = some
            big, some = np.zeros((n, n)), big
            if informed:
                big[np.ix_(stay, stay)] = some
        at = _states(step.places, d)
        across, by_items = _incidence(step), _by_items(step)
        states, y = _observed(kept.columns, h), _observed(kept.mean.T, h).T
        between = kept.between
        if not by_items:
            states, y = states @ across.T, across @ y
            if kept.pull is None:
                between = across @ between @ across.T
        y = y + states.T @ lam
        cov = between
        if informed:
            adjoint = big @ states  # Y
            both = states.T @ adjoint
        if kept.root is not None:
            precision = kept.root.T @ kept.root  # M
            shrunk = np.eye(len(between)) - between @ precision
            inner = between
            if informed:
                pulled = both @ precision  # U'Y M
                inner = between - both + pulled @ between
            cov = shrunk @ inner
        elif informed:
            cov = between - both
        own = np.ascontiguousarray(big[:, at])
        if kept.pull is not None:
            change = kept.pull
            if kept.root is not None:
                change = change - precision @ (states.T @ lam)
                more, taken = precision, None
                if informed:
                    more = precision + precision @ pulled
                    taken = adjoint @ precision
                    taken = _spread(taken if by_items else taken @ across, h)
                    own -= taken
                more = more if by_items else across.T @ more @ across
                own[at] += _spread(_spread(more, h).T, h).T
                if taken is not None:
                    own[at] -= taken[at].T
            y = y + between @ change
            lam[at] += _spread((change if by_items else across.T @ change).T, h).T
            informed = informed or kept.root is not None
        z[step.sites], variance[step.sites] = _of_sites(step, across, y, cov)
        if number in joint:
            together[number] = across @ cov @ across.T if by_items else cov
        if slopes:
            g, b = _slopes(kept, lam, own, at, weights[:, 0], cov_w, d)
            new = np.ones(len(step.places), bool)
            new[step.moved] = False
            start += g[new].sum(0)
            of_gaps[0, step.gaps], of_gaps[1, step.gaps] = g[step.moved], b[step.moved]
        _move_back(own, lam, step, moves, at)
        big[:, at], big[at] = own, own.T
        before = step.before * d
        lam, big = lam[:before], big[:before, :before]
    rows = seen.columns + z[:, r:]
    z = z[:, :r] + rows @ weights
    variance += np.einsum("ij,jk,ik->i", rows, cov_w, rows)
    half_log_det = end.half_log_det + float(np.log(np.diagonal(lower)).sum())
    found = None
    if slopes:
        g, b = of_gaps
        found = Slopes(start, g, b - g @ moves.added)
    return Smoothed(z, variance, rows, weights, cov_w, half_log_det, found, together)


def _slopes(
    kept: _Kept,
    lam: FloatArray,
    own: FloatArray,
    at: IntArray,
    weights: FloatArray,
    cov_w: FloatArray,
    d: int,
) -> tuple[FloatArray, FloatArray]:
    """G and B of each item of a slice, (p, d, d)."""
    blocks = (-1, d, lam.shape[1])
    pulls = lam[at].reshape(blocks)
    states = (kept.mean + kept.columns.T @ lam).reshape(blocks)
    of_w = np.append(1.0, weights)
    pull, state = pulls @ of_w, states @ of_w
    shared = pulls[:, :, 1:] @ cov_w
    g = np.einsum("pa,pb->pab", pull, pull)
    g += np.einsum("pak,pbk->pab", shared, pulls[:, :, 1:])
    g -= np.einsum("papb->pab", own[at].reshape(len(pull), d, len(pull), d))
    b = np.einsum("pa,pb->pab", pull, state)
    b += np.einsum("pak,pbk->pab", shared, states[:, :, 1:])
    sides = (own.reshape(len(own), -1, d), kept.columns.reshape(len(own), -1, d))
    b -= np.einsum("npa,npb->pab", *sides)
    return g, b


def _of_sites(
    step: Step, across: FloatArray, y: FloatArray, cov: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means (t_s, r + k) and variances (t_s,) of the sites of a slice."""
    if not _by_items(step):
        return y, np.diagonal(cov)
    each = np.diagonal(cov)
    two = step.winners >= 0
    winners, losers = step.winners[two], step.losers[two]
    variance = each[step.losers]
    variance[two] += each[winners] - 2.0 * cov[losers, winners]
    return across @ y, variance


def _by_items(step: Step) -> bool:
    """Whether items are fewer than sites, so that the algebra of a slice is in their number."""
    return len(step.losers) > len(step.places)


def _incidence(step: Step) -> FloatArray:
    """V, (t_s, p): +1 for the loser of each site, -1 for its winner."""
    each = np.arange(len(step.losers))
    found = np.zeros((len(each), len(step.places)))
    found[each, step.losers] = 1.0
    two = step.winners >= 0
    found[each[two], step.winners[two]] -= 1.0
    return found


def _states(places: IntArray, d: int) -> IntArray:
    """Of items as those of the numbers of their states, (p d,)."""
    return places if d == 1 else (places[:, None] * d + np.arange(d)).reshape(-1)


def _observed(columns: FloatArray, h: FloatArray) -> FloatArray:
    """Columns (n, p d) of states as those of utilities, (n, p)."""
    return columns if len(h) == 1 else columns.reshape(len(columns), -1, len(h)) @ h


def _spread(columns: FloatArray, h: FloatArray) -> FloatArray:
    """Columns (n, p) of utilities as those of states, (n, p d)."""
    if len(h) == 1:
        return columns
    return (columns[:, :, None] * h).reshape(len(columns), -1)


def _move(own: FloatArray, m: FloatArray, step: Step, moves: Moves, at: IntArray) -> None:
    """Move the items of a slice: own, C of them (N d, p d), and m."""
    d, some = len(moves.observed), step.moved
    a, q = moves.transitions[step.gaps], moves.added[step.gaps]
    if d == 1:
        own[:, some] *= a[:, 0, 0]
        own[at[some]] *= a[:, 0]
        own[at[some], some] += q[:, 0, 0]
        m[at[some]] *= a[:, 0]
        return
    three = own.reshape(len(own), -1, d)
    three[:, some] = np.einsum("npb,pab->npa", three[:, some], a)
    rows = at.reshape(-1, d)[some]
    moved = np.einsum("pab,pbz->paz", a, own[rows])
    moved.reshape(len(some), d, -1, d)[np.arange(len(some)), :, some] += q
    own[rows] = moved
    m[rows] = np.einsum("pab,pbz->paz", a, m[rows])


def _move_back(own: FloatArray, lam: FloatArray, step: Step, moves: Moves, at: IntArray) -> None:
    """The same of adjoints, by A' from the left and A from the right."""
    d, some = len(moves.observed), step.moved
    a = moves.transitions[step.gaps]
    if d == 1:
        own[:, some] *= a[:, 0, 0]
        own[at[some]] *= a[:, 0]
        lam[at[some]] *= a[:, 0]
        return
    three = own.reshape(len(own), -1, d)
    three[:, some] = np.einsum("npa,pab->npb", three[:, some], a)
    rows = at.reshape(-1, d)[some]
    own[rows] = np.einsum("pab,paz->pbz", a, own[rows])
    lam[rows] = np.einsum("pab,paz->pbz", a, lam[rows])
