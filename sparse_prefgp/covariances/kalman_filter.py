"""A Kalman filter with an adjoint smoother: Gaussian utilities in time, exact across items.

Items move independently, by `s' = A s + N(0, Q)` between the slices in which they duel; effects,
such as those of an item in a context, are numbers that stay. The utility of a side is h's of its
item and a weighted sum of its effects, and a site sees `z = u_loser - u_winner + x'w`, w ~ N(0, I).
What is kept is the joint Gaussian of states and effects, each as of its last slice, the *frontier*:
a slice moves and multiplies only its own p of N numbers, O(p N²), and whatever has had its last
slice leaves. Backward go the adjoints of mean and covariance (Bryson & Frazier 1963), so that
nothing is divided by Q, and no N × N matrix is factorised: Q = 0, A = 0 and T = 0 are harmless.

With C the covariance of the frontier, m its mean, T and b precision and shift of the sites of a
slice, U = Cov[frontier, z], F = Cov[z] and y its mean before they are seen:

    M = T^½ (I + T^½ F T^½)⁻¹ T^½     g = (I - M F)(b - T y)     m += U g     C -= U M U'

m has a column for each of r shifts, and for each of k coefficients w what one unit of it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpstrf, dtrtrs

from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

# A copy of the frontier without those that left is worth it from this share on.
_LEFT_SHARE = 16
# NumPy takes a product with its own transpose by half the multiplications and copies the rest,
# which takes longer than all of them up to so many columns.
_THIN = 24
# Products with matrices of more entries are by those that are not 0, which has its own cost.
_SPARSE = 1024
Links: TypeAlias = Any  # an array or a sparse matrix


class Step(NamedTuple):
    """What a slice does to the frontier, which is a row of numbers."""

    before: int
    """How many the frontier has before."""
    size: int
    """N, how many with those that enter, which take the last places: d of each item, then effects.
    """
    places: IntArray
    """(p,) in the frontier, of the numbers of the slice: d of each item, then effects."""
    items: int
    """How many items the slice has."""
    moved: IntArray
    """Which of these were there before."""
    gaps: slice
    """Theirs, among the gaps of the plan."""
    entering: IntArray
    """Which of the p are effects that enter."""
    effects: IntArray
    """Which effects these are."""
    sites: slice
    """Of the slice, in the order of the plan."""
    sides: Links | None
    """(s, p), utilities of the sides of the slice; None where they are the numbers themselves."""
    across: Links
    """V, (t_s, s): +1 for the loser of each site, -1 for its winner."""
    keep: IntArray | None
    """Places that stay afterwards; None for all."""

    @property
    def by_sides(self) -> bool:
        """Whether sides are fewer than sites, so that the algebra is in their number."""
        sites, sides = self.across.shape
        return bool(sites > sides)

    def observed(self, columns: FloatArray) -> FloatArray:
        """Columns (n, p) of numbers as those of sides, (n, s)."""
        return columns if self.sides is None else (self.sides @ columns.T).T

    def spread(self, columns: FloatArray) -> FloatArray:
        """Columns (n, s) of sides as those of numbers, (n, p)."""
        return columns if self.sides is None else columns @ self.sides


class States(NamedTuple):
    """Utilities as weighted sums of n states: of items that move, and effects that do not."""

    across: sparse.csr_matrix
    """(q, n), of each utility."""
    moving: BoolArray
    """(n,) which are states of items, of d numbers; the others are effects, of one."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What enters, moves, meets and leaves in which slice: integers and weights, made once."""

    steps: tuple[Step, ...]
    order: IntArray
    """(t,) the sites in the order of the slices."""
    spans: FloatArray
    """(g,) the gaps between successive slices of an item."""
    frontier: IntArray
    """States of the frontier after the last slice, in its order."""
    places: IntArray
    """Where each of these begins in it."""
    last_times: FloatArray
    """Of the last slice of each of these."""

    @classmethod
    def of(
        cls,
        times: FloatArray,
        slices: IntArray,
        losers: IntArray,
        winners: IntArray,
        states: States,
        observed: FloatArray,
        staying: BoolArray | None = None,
        after: Plan | None = None,
    ) -> Plan:
        """The plan of t sites.

        :param times: (S,) of the slices, ascending; each has a site.
        :param slices: (t,) of each site.
        :param losers: (t,) rows of the states.
        :param winners: (t,) rows of the states; -1 for a site of one side alone.
        :param states: of the sides.
        :param observed: h, (d,), of an item.
        :param staying: (n,) which states stay in the frontier after their last slice; None for
            none.
        :param after: begin with its frontier, of which whatever has no site here stays.
        """
        first = np.argsort(~states.moving, kind="stable")  # items come before effects
        rank, d = np.argsort(first), len(observed)
        n, moving = len(first), int(states.moving.sum())
        sizes = np.where(np.arange(n) < moving, d, 1)
        order = np.argsort(slices, kind="stable")
        at, ends = slices[order], np.stack([losers[order], winners[order]], 1)
        count, there = states.across.shape[0], ends >= 0
        nodes, number = np.unique((at[:, None] * count + ends)[there], return_inverse=True)
        side = np.full(ends.shape, -1)
        side[there] = number.reshape(-1)
        sides = states.across[nodes % count].tocoo()
        slice_of_side, row = nodes // count, sides.row
        nodes, number = np.unique(slice_of_side[row] * n + rank[sides.col], return_inverse=True)
        slice_of, state_of = np.divmod(nodes, n)
        previous, last = _neighbours(state_of)
        frontier, last_time = np.empty(0, np.int64), np.full(n, np.nan)
        if after is not None:
            frontier = rank[after.frontier]
            last_time[frontier] = after.last_times
        came = np.where(previous < 0, last_time[state_of], times[slice_of[previous]])
        there_before, moves = ~np.isnan(came), state_of < moving
        spans = (times[slice_of] - came)[there_before & moves]
        gap = np.append(0, np.cumsum(there_before & moves))
        every = np.arange(len(times) + 1)
        bounds, sites = np.searchsorted(slice_of, every), np.searchsorted(at, every)
        side_bounds = np.searchsorted(slice_of_side, every)
        # Numbers of a slice, from which of them a state begins, and what sides are of them.
        starts = np.append(0, np.cumsum(sizes[state_of]))
        own = starts[:-1] - starts[bounds[slice_of]]
        seen = _seen(sides, number.reshape(-1), own, moves, observed)
        plain = d == 1 and moving == n == count
        plain = plain and (states.across != sparse.identity(n)).nnz == 0
        leaving = last if staying is None else last & ~staying[first][state_of]
        place, gone, waiting, steps = np.full(n, -1), np.zeros(n, bool), 0, []
        place[frontier], size = _begins(sizes[frontier])
        for s in range(len(times)):
            low, high = bounds[s : s + 2]
            some, new, before = state_of[low:high], ~there_before[low:high], size
            moved, begins = moves[low:high], own[low:high]
            place[some[new]], grown = _begins(sizes[some[new]], before)
            size = grown
            frontier = np.concatenate([frontier, some[new]])
            places, keep = _entries(place[some], sizes[some]), None
            out = some[leaving[low:high]]
            gone[out] = True
            waiting += int(sizes[out].sum())
            if waiting and (_LEFT_SHARE * waiting >= size or s == len(times) - 1):
                stays = ~gone[frontier]
                keep = np.flatnonzero(np.repeat(stays, sizes[frontier]))
                frontier, waiting = frontier[stays], 0
                place[frontier], size = _begins(sizes[frontier])
            here, local = slice(*sites[s : s + 2]), slice(*side_bounds[s : s + 2])
            fresh = new & ~moved
            steps.append(
                Step(
                    before,
                    grown,
                    places,
                    int(moved.sum()),
                    np.flatnonzero(~new[moved]),
                    slice(gap[low], gap[high]),
                    begins[fresh],
                    some[fresh] - moving,
                    here,
                    None if plain else _rows(seen, local, len(places)),
                    _incidence(side[here] - local.start, there[here], local.stop - local.start),
                    keep,
                )
            )
        last_time[state_of[last]] = times[slice_of[last]]
        ends_at = place[frontier]
        return cls(tuple(steps), order, spans, first[frontier], ends_at, last_time[frontier])

    def num_bytes(self, columns: int = 0) -> int:
        """What a forward pass keeps, next to so many columns: for each slice columns of the
        frontier for its numbers, and for its sites or sides whichever are fewer."""
        total = 0
        for step in self.steps:
            p = len(step.places)
            total += step.size * (p + min(step.across.shape)) + p * columns
        return 8 * total

    @property
    def sizes(self) -> tuple[IntArray, IntArray]:
        """N and p of each slice."""
        both = np.array([(step.size, len(step.places)) for step in self.steps])
        return both[:, 0], both[:, 1]


def _begins(sizes: IntArray, start: int = 0) -> tuple[IntArray, int]:
    """Where each of things of these sizes begins, one after the other, and where the last ends."""
    ends = start + np.cumsum(sizes)
    return ends - sizes, int(ends[-1]) if len(ends) else start


def _entries(begins: IntArray, sizes: IntArray) -> IntArray:
    """All numbers of things that begin there and are of these sizes."""
    starts, total = _begins(sizes)
    return np.asarray(np.repeat(begins - starts, sizes) + np.arange(total))


def _seen(
    sides: sparse.coo_matrix,
    nodes: IntArray,
    own: IntArray,
    moves: BoolArray,
    observed: FloatArray,
) -> sparse.csr_matrix:
    """Sides by the numbers of their slices.

    :param nodes: (e,) of each entry of the sides.
    :param own: of each node, the first of its numbers in its slice.
    :param moves: of each node, whether it is an item.
    """
    of_items = moves[nodes]
    looks = [(~of_items, 0, 1.0), *((of_items, j, observed[j]) for j in np.flatnonzero(observed))]
    rows = np.concatenate([sides.row[some] for some, _, _ in looks])
    columns = np.concatenate([own[nodes[some]] + j for some, j, _ in looks])
    values = np.concatenate([h * sides.data[some] for some, _, h in looks])
    shape = sides.shape[0], int(own.max()) + len(observed)
    return sparse.csr_matrix((values, (rows, columns)), shape)


def _rows(matrix: sparse.csr_matrix, some: slice, width: int) -> Links:
    """Successive rows of a matrix, of so many columns."""
    ends = matrix.indptr[some.start : some.stop + 1]
    here = slice(ends[0], ends[-1])
    parts = matrix.data[here], matrix.indices[here], ends - ends[0]
    found = sparse.csr_matrix(parts, (some.stop - some.start, width))
    return found if found.shape[0] * width > _SPARSE else found.toarray()


def _incidence(sides: IntArray, there: BoolArray, count: int) -> Links:
    """V, (t_s, s), of losers and winners (t_s, 2)."""
    if len(sides) * count <= _SPARSE:
        found, each = np.zeros((len(sides), count)), np.arange(len(sides))
        for sign, end, known in zip((1.0, -1.0), sides.T, there.T, strict=True):
            found[each[known], end[known]] += sign
        return found
    signs = np.broadcast_to([1.0, -1.0], sides.shape)
    ends = np.append(0, np.cumsum(there.sum(1)))
    return sparse.csr_matrix((signs[there], sides[there], ends), (len(sides), count))


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
    """The Markov kernel and the effects in numbers."""

    start: FloatArray
    """P, (d, d)."""
    transitions: FloatArray
    """A, (g, d, d)."""
    added: FloatArray
    """Q, (g, d, d)."""
    variances: FloatArray
    """Of the effects."""


class Seen(NamedTuple):
    """What the t sites say, in the order of the plan."""

    precision: FloatArray
    """T, (t,)."""
    shifts: FloatArray
    """(t, r)."""
    columns: FloatArray
    """X, (t, k)."""


class Frontier(NamedTuple):
    """The joint Gaussian of the numbers that are still there."""

    mean: FloatArray
    """m, (N, r + k): for each shift with w = 0, and what one unit of each w adds."""
    covariance: FloatArray
    """C, (N, N), given w."""
    precision: FloatArray
    """P_w, (k, k), of w."""
    weighted: FloatArray
    """h_w, (k, r), with E w = P_w⁻¹ h_w."""
    half_log_det: float
    """½ log|P| of all sites so far, that of w apart."""


class _Kept(NamedTuple):
    """What the way back wants of a slice, in the number of its sites or, if fewer, of its sides."""

    columns: FloatArray
    """C of the numbers of the slice, after they moved, (N, p)."""
    mean: FloatArray
    """Theirs of m, (p, r + k)."""
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
    """½ h'P⁻¹h - ½ log|P| changes by ½ <start, dP> + sum ½ <added, dQ> + <exponents, dE>, and by
    ½ <effects, dv> with the variances v of the effects."""

    start: FloatArray
    """(d, d)."""
    added: FloatArray
    """(g, d, d)."""
    exponents: FloatArray
    """(g, d, d), of E with A = exp(E)."""
    effects: FloatArray
    """Of each effect."""


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
    d, r, k = len(moves.start), seen.shifts.shape[1], seen.columns.shape[1]
    p_w, h_w, log_det = np.eye(k), np.zeros((k, r)), 0.0
    c, m = np.zeros((0, 0)), np.zeros((0, r + k))
    if begin is not None:
        c, m = begin.covariance.copy(), begin.mean.copy()
        p_w, h_w, log_det = begin.precision.copy(), begin.weighted.copy(), begin.half_log_det
    kept = []
    for step in plan.steps:
        before, n, at = step.before, step.size, step.places
        if n > before:
            c, there = np.zeros((n, n)), c
            c[:before, :before] = there
            for i in range(before, n - len(step.effects), d):
                c[i : i + d, i : i + d] = moves.start
            entered = at[step.entering]
            c[entered, entered] = moves.variances[step.effects]
            m = np.concatenate([m, np.zeros((n - before, r + k))])
        own = np.ascontiguousarray(c[:, at])
        if len(step.moved):
            _kalman_predict(own, m, step, moves.transitions[step.gaps], moves.added[step.gaps])
            c[:, at], c[at] = own, own.T
        here, of_sides = m[at], step.observed(own)
        found = _Kept(own, here, step.observed(of_sides[at].T), None, None)
        t, s, x = (values[step.sites] for values in seen)
        if settle is not None or t.any() or s.any():
            across = step.across
            y = across @ step.observed(here.T).T
            rows = x + y[:, r:]
            if settle is not None:
                coming = _coming(step, found.between, y[:, 0], rows, p_w, h_w)
                t, shift = settle(step, *coming)
                s = shift[:, None]
            left = -t[:, None] * y
            left[:, :r] += s
            left[:, r:] -= t[:, None] * x  # b - T y
            found, pull, about = _kalman_update(step, found, t, left)
            states = of_sides if step.by_sides else of_sides @ across.T
            m += states @ pull
            if found.root is not None:
                log_det += about
                _subtract_square(c, states @ found.root.T)
                if k:
                    # R'M R and R' times the pull: what the sides of the slice leave of the sites.
                    summed = across.T @ left if step.by_sides else left
                    known = found.between @ pull
                    p_w += rows.T @ (t[:, None] * rows) - summed[:, r:].T @ known[:, r:]
                    h_w += rows.T @ left[:, :r] + summed[:, r:].T @ known[:, :r]
            elif k:
                h_w += rows.T @ s
        if keep:
            kept.append(found)
        if step.keep is not None:
            c, m = c[np.ix_(step.keep, step.keep)], m[step.keep]
    return Filtered(tuple(kept), Frontier(m, c, p_w, h_w, log_det))


def _coming(
    step: Step,
    between: FloatArray,
    y: FloatArray,
    rows: FloatArray,
    p_w: FloatArray,
    h_w: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Mean (t_s,) of the z of a slice before it is seen, and B with covariance B B'."""
    # Rounding may leave an eigenvalue of a covariance just below 0.
    across = step.across
    values, vectors = np.linalg.eigh(between if step.by_sides else across @ between @ across.T)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    features = [across @ root if step.by_sides else root]
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


def _kalman_update(
    step: Step, kept: _Kept, t: FloatArray, left: FloatArray
) -> tuple[_Kept, FloatArray, float]:
    """The same with F, K and g, g once more, and ½ log|I + T^½ F T^½|: what m and C change by.

    Of sides T is V'TV = R'R, by a pivoted Cholesky factorisation, as it has no full rank, and b is
    V'b.
    """
    across = step.across
    if step.by_sides:
        between, summed = kept.between, across.T @ left
    else:
        between, summed = across @ kept.between @ across.T, left
    if not t.any():
        return kept._replace(between=between, pull=summed), summed, 0.0
    scaled = np.diag(np.sqrt(t))
    if step.by_sides:
        factor, pivots, rank, _ = dpstrf(across.T @ (t[:, None] * _dense(across)))
        scaled = np.zeros((rank, len(factor)))
        scaled[:, pivots - 1] = np.triu(factor)[:rank]
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
    d, end = len(moves.start), forward.end
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
    start, of_effects = np.zeros((d, d)), np.zeros(len(moves.variances))
    of_gaps = np.zeros((2, len(plan.spans), d, d))
    together: dict[int, FloatArray] = {}
    for number in reversed(range(len(plan.steps))):
        step, kept = plan.steps[number], forward.kept[number]
        n, at = step.size, step.places
        if step.keep is not None:
            lam, some = np.zeros((n, r + k)), lam
            lam[step.keep] = some
            big, some = np.zeros((n, n)), big
            if informed:
                big[np.ix_(step.keep, step.keep)] = some
        across, by_sides = step.across, step.by_sides
        states, y = step.observed(kept.columns), step.observed(kept.mean.T).T
        between = kept.between
        if not by_sides:
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
                    taken = step.spread(taken if by_sides else taken @ across)
                    own -= taken
                more = more if by_sides else across.T @ more @ across
                own[at] += step.spread(step.spread(more).T).T
                if taken is not None:
                    own[at] -= taken[at].T
            y = y + between @ change
            lam[at] += step.spread((change if by_sides else across.T @ change).T).T
            informed = informed or kept.root is not None
        z[step.sites], variance[step.sites] = _of_sites(step, y, cov)
        if number in joint:
            together[number] = across @ cov @ across.T if by_sides else cov
        if slopes:
            given = kept, lam, own, at, weights[:, 0], cov_w
            g, b = _slopes(*given, np.arange(step.items * d).reshape(-1, d))
            new = np.ones(step.items, bool)
            new[step.moved] = False
            start += g[new].sum(0)
            of_gaps[0, step.gaps], of_gaps[1, step.gaps] = g[step.moved], b[step.moved]
            if len(step.effects):
                of_effects[step.effects] = _slopes(*given, step.entering[:, None])[0][:, 0, 0]
        _kalman_predict(own, lam, step, np.swapaxes(moves.transitions[step.gaps], 1, 2))
        big[:, at], big[at] = own, own.T
        lam, big = lam[: step.before], big[: step.before, : step.before]
    rows = seen.columns + z[:, r:]
    z = z[:, :r] + rows @ weights
    variance += np.einsum("ij,jk,ik->i", rows, cov_w, rows)
    half_log_det = end.half_log_det + float(np.log(np.diagonal(lower)).sum())
    found = None
    if slopes:
        g, b = of_gaps
        found = Slopes(start, g, b - g @ moves.added, of_effects)
    return Smoothed(z, variance, rows, weights, cov_w, half_log_det, found, together)


def _slopes(
    kept: _Kept,
    lam: FloatArray,
    own: FloatArray,
    at: IntArray,
    weights: FloatArray,
    cov_w: FloatArray,
    some: IntArray,
) -> tuple[FloatArray, FloatArray]:
    """G and B of some items or effects of a slice, (n, d, d), by their numbers in it, (n, d)."""
    pulls = lam[at[some]]
    states = (kept.mean + kept.columns.T @ lam)[some]
    of_w = np.append(1.0, weights)
    pull, state = pulls @ of_w, states @ of_w
    shared = pulls[:, :, 1:] @ cov_w
    g = np.einsum("pa,pb->pab", pull, pull)
    g += np.einsum("pak,pbk->pab", shared, pulls[:, :, 1:])
    g -= own[at[some][:, :, None], some[:, None, :]]
    b = np.einsum("pa,pb->pab", pull, state)
    b += np.einsum("pak,pbk->pab", shared, states[:, :, 1:])
    b -= np.einsum("npa,npb->pab", own[:, some], kept.columns[:, some])
    return g, b


def _of_sites(step: Step, y: FloatArray, cov: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means (t_s, r + k) and variances (t_s,) of the sites of a slice."""
    if not step.by_sides:
        return y, np.diagonal(cov)
    across = step.across
    return across @ y, np.einsum("ts,ts->t", _dense(across), across @ cov)


def _dense(links: Links) -> FloatArray:
    found: FloatArray = links.toarray() if sparse.issparse(links) else links
    return found


def _kalman_predict(
    own: FloatArray,
    other: FloatArray,
    step: Step,
    transitions: FloatArray,
    added: FloatArray | None = None,
) -> None:
    """Move the items of a slice to its date, before it is seen.

    :param own: C, or its adjoint, of the numbers of the slice, (N, p).
    :param other: m, or its adjoint.
    :param transitions: A from the left, (moved, d, d); of adjoints A'.
    :param added: Q; None for nothing.
    """
    d, some, at = transitions.shape[1], step.moved, step.places
    if d == 1:
        own[:, some] *= transitions[:, 0, 0]
        own[at[some]] *= transitions[:, 0]
        if added is not None:
            own[at[some], some] += added[:, 0, 0]
        other[at[some]] *= transitions[:, 0]
        return
    p = step.items * d
    three = own[:, :p].reshape(len(own), -1, d)
    three[:, some] = np.einsum("npb,pab->npa", three[:, some], transitions)
    rows = at[:p].reshape(-1, d)[some]
    moved = np.einsum("pab,pbz->paz", transitions, own[rows])
    if added is not None:
        moved[:, :, :p].reshape(len(some), d, -1, d)[np.arange(len(some)), :, some] += added
    own[rows] = moved
    other[rows] = np.einsum("pab,pbz->paz", transitions, other[rows])
