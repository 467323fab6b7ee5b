"""The truncated normal of single duels and looks at sets under the exact prior, with EP's sites to
lead the draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy.linalg import cho_factor, cho_solve

from sparse_prefgp.approximations import DuelProblem, Exact
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.covariances.pair_effect import Pairs, pair_effect
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.engines import ParallelEP
from sparse_prefgp.engines.base import describe
from sparse_prefgp.factors.sites import Factors, Sites
from sparse_prefgp.sampling.proposals import Order, TruncatedNormal
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray, IntArray

SAMPLED_UP_TO = 2000
# Variance over noise: beyond, differences of v in units of the noise have lost their digits; up to
# 1e9 evidences agreed with the limit without noise, at 1e12 not.
_LARGEST_RATIO = 1e8
# Singular values of the duels' features below this share of the largest are rounding, and so are
# eigenvalues of their products below the second.
_SINGULAR_TOLERANCE, _EIGEN_TOLERANCE = 1e-8, 1e-14
# A site that is nearly all that there is of its own noise has lost its digits; it only leads.
_SHARPEST = 1e-10


class ExactTarget(NamedTuple):
    """What is drawn from, and what leads there."""

    prior: WhitenedPrior
    """In whitened utilities."""
    target: TruncatedNormal
    """Of all single slots."""
    site: IntArray
    """(t,) the place of each in `Slots`."""
    log_evidence: float
    """EP's, in nats."""
    converged: bool
    """Whether EP did."""


class Slots(NamedTuple):
    """What is drawn: the v of each site. Of a look at a set whose rows outnumber what they tell
    apart, the noisy utility y of each alternative in their place, best first."""

    worse: IntArray
    """(q,) row of the loser, or of the alternative."""
    better: IntArray
    """(q,) row of the winner, -1 of an alternative."""
    noise: FloatArray
    """(q,) variance."""
    offset: FloatArray
    """(q,) prior mean."""
    counts: FloatArray
    """(q,) how often each is drawn."""
    site: IntArray
    """(q,) its site, -1 of an alternative."""
    looks: tuple[Look, ...] = ()
    """At sets; slots of others stand alone."""

    @classmethod
    def of(cls, problem: DuelProblem, offset: FloatArray) -> Slots:
        """Those of a problem.

        :param offset: (sites,) prior mean of z.
        """
        graph, noise = problem.graph, problem.noise.numpy().astype(float)
        losers, winners = graph.losers, graph.winners
        if graph.noises is None:
            every = np.arange(graph.num_sites)
            return cls(losers, winners, noise, offset, graph.counts, every)
        mean = np.zeros(graph.num_rows)
        if problem.mean_function is not None:
            mean = problem.mean_function(as_float(graph.rows))[:, 0].numpy().astype(float)
        parts: list[tuple[npt.NDArray[Any], ...]] = []
        looks, start = [], 0
        in_looks = np.argsort(graph.noises.look, kind="stable")
        for sites in np.split(in_looks, np.cumsum(np.bincount(graph.noises.look))[:-1]):
            one = 0.5 * noise[sites[0]]
            if np.all(graph.noises.own[sites] > 0.0):
                parts.append((losers[sites], winners[sites], noise[sites], offset[sites], sites))
                within = one * graph.noises.of_sites(sites)
                if len(sites) > 1:
                    looks.append(Look(start, sites, within))
            else:
                draws, first, place = np.unique(
                    graph.noises.draws[sites], return_index=True, return_inverse=True
                )
                rows = np.stack([winners[sites], losers[sites]], 1).reshape(-1)[first]
                nowhere = np.full(len(draws), -1)
                within = one * np.eye(len(draws))
                parts.append((rows, nowhere, np.diag(within), mean[rows], nowhere))
                looks.append(Look(start, sites, within, place.reshape(-1, 2)))
            start += len(parts[-1][0])
        worse, better, variance, means, at = map(np.concatenate, zip(*parts, strict=True))
        # Copies share no noise, and are apart.
        return cls(worse, better, variance, means, np.ones(start), at, tuple(looks))


class Look(NamedTuple):
    """A look at a set, of several slots."""

    start: int
    """The first of its slots."""
    sites: IntArray
    """(r,)."""
    noise: FloatArray
    """(k, k) covariance of the noise of its slots."""
    pairs: IntArray | None = None
    """(r, 2) where slots are utilities: those of winner and loser of each site, counted from
    `start`; sides are best first, so that the first comes before.
    """

    @property
    def slots(self) -> slice:
        return slice(self.start, self.start + len(self.noise))


def exact_target(problem: DuelProblem) -> ExactTarget:
    """The truncated normal of all single duels and sets of a problem, whatever its inducing inputs.

    :raises ValueError: limits that meet, a prior variance of more than 1e8 times the noise, or a
        kernel that is not positive semi-definite.
    """
    problem = apart(problem)
    exact = Exact().prior(problem)
    factors = exact.factors
    lower, upper = _limits_of(factors)
    for met in np.flatnonzero(~(lower < upper))[:1]:
        start, end = (limit[met] + exact.offset.numpy()[met] for limit in (lower, upper))
        raise ValueError(
            f"The limits of duel {met} are {start:g} and {end:g}; sampling needs the lower one "
            "below the upper."
        )
    prior = WhitenedPrior(problem, factors, exact.offset.numpy().astype(float))
    engine = ParallelEP()
    zero = Sites.zeros(problem.graph.num_sites, factors.upper.dtype)
    point = engine.run(exact.covariance, factors, zero)
    target, site = _expanded(prior, factors, point.sites)
    converged = describe(point, engine.tolerance).converged
    return ExactTarget(prior, target, site, float(point.log_evidence()), converged)


def apart(problem: DuelProblem) -> DuelProblem:
    """With copies of answers about sets apart, each of which has noises of its own."""
    return problem._replace(graph=problem.graph.one_by_one())


def _limits_of(factors: Factors) -> tuple[FloatArray, FloatArray]:
    """Lower and upper, (t,) each."""
    upper = factors.upper.numpy()
    return np.full_like(upper, -np.inf) if factors.lower is None else factors.lower.numpy(), upper


def num_single_slots(graph: DuelGraph, instead: str) -> int:
    """How many v are to be drawn, counts included: one of a duel, and of a row of an answer.

    :param instead: what to do where there are too many, after a semicolon.
    :raises ValueError: more than 2,000, or weights that are not whole numbers.
    """
    broken = graph.counts[graph.counts != np.floor(graph.counts)]
    weight = broken.size and f"the weight {broken[0]:g}, no whole number,"
    together.check(sampling=True, broken_weights=weight)
    slots = int(graph.counts.sum())
    what = "single duels" if graph.noises is None else "rows of single answers"
    if slots > SAMPLED_UP_TO:
        raise ValueError(
            f"Sampling is for up to {SAMPLED_UP_TO:,} {what}, but there are {slots:,}; {instead}."
        )
    return slots


class WhitenedPrior:
    """The prior in whitened utilities u, z = F u, and what v tells of u.

    Given v, u is normal with precision I + F' N^-1 F and natural mean F' N^-1 v, N the noise. With
    answers about sets z are of utilities less the mean of all rows: what all share says nothing.
    """

    def __init__(self, problem: DuelProblem, factors: Factors, offset: FloatArray) -> None:
        self.graph = graph = problem.graph
        self.kernel: gpflow.kernels.Kernel = problem.kernel
        self._mean_function = problem.mean_function
        self._rows = as_float(graph.rows)
        self.slots = slots = Slots.of(problem, offset)
        self.offset = slots.offset
        self.duel_noise = 2.0 * float(problem.noise_variance)
        self.margin = 0.0 if problem.cuts is None else float(problem.cuts[0])
        self._limits = _limits_of(factors)
        matrix = kernel_matrix(problem.kernel, self._rows).numpy()
        if graph.noises is None:
            self.loadings, self._projection = duel_features(matrix, graph.winners, graph.losers)
            effect = pair_effect(problem.kernel)
            if effect is not None:  # a column each, of which utilities know nothing
                pairs = Pairs.of_graph(graph)
                columns = np.zeros((len(self.loadings), int(pairs.number.max()) + 1))
                sd = float(np.sqrt(effect.variance.numpy()))
                columns[np.arange(len(columns)), pairs.number] = sd * pairs.sign
                nothing = np.zeros((len(self._projection), columns.shape[1]))
                self.loadings = np.hstack([self.loadings, columns])
                self._projection = np.hstack([self._projection, nothing])
        else:
            rows, self._projection = utility_features(matrix)
            better = np.where((slots.better < 0)[:, None], 0.0, rows[slots.better])
            self.loadings = rows[slots.worse] - better
        self.noise = slots.noise
        ratio = float(np.max(np.sum(self.loadings**2, 1) / self.noise))
        if not ratio <= _LARGEST_RATIO:
            raise ValueError(
                f"The prior variance of a duel is {ratio:.1e} times its noise, and above "
                f"{_LARGEST_RATIO:.0e} sampling loses its digits; lower the kernel variance or "
                "raise the noise variance."
            )
        # The inverse covariance of the noise times the loadings.
        self._over_noise = self.loadings / self.noise[:, None]
        for look in slots.looks:
            own = np.linalg.solve(look.noise, self.loadings[look.slots])
            self._over_noise[look.slots] = own
        told = self.loadings.T @ (slots.counts[:, None] * self._over_noise)
        precision = np.eye(self.loadings.shape[1]) + told
        self._factor = cho_factor(precision, lower=True)

    def is_of(self, problem: DuelProblem) -> bool:
        """Whether the problem has the same duels and sets, prior and noise."""
        problem = apart(problem)
        prior = Exact().prior(problem)
        slots = Slots.of(problem, prior.offset.numpy().astype(float))
        theirs = _told_of(problem.graph, problem.kernel, slots, _limits_of(prior.factors))
        ours = _told_of(self.graph, self.kernel, self.slots, self._limits)
        return len(ours) == len(theirs) and all(map(np.array_equal, ours, theirs))

    def mean(self, inputs: tf.Tensor) -> FloatArray:
        """Prior mean (N,)."""
        if self._mean_function is None:
            return np.zeros(len(inputs))
        return np.asarray(self._mean_function(inputs)[:, 0].numpy(), dtype=float)

    def features(self, inputs: tf.Tensor) -> FloatArray:
        """Cov[f(x), u], (N, r)."""
        return kernel_matrix(self.kernel, inputs, self._rows).numpy() @ self._projection

    def spread(self, columns: FloatArray) -> FloatArray:
        """Cov[u | v] times (r, k)."""
        return cho_solve(self._factor, columns)

    def gain(self, features: FloatArray) -> FloatArray:
        """What one v of each slot adds to E[features u | v], (N, slots)."""
        return features @ self.spread(self._over_noise.T)


def duel_features(
    kernel: FloatArray, winners: IntArray, losers: IntArray
) -> tuple[FloatArray, FloatArray]:
    """F (t, r) with F F' = A K A', r its rank, and P (n, r) with K P = Cov[f, u] for z = F u.

    :raises ValueError: the kernel matrix (n, n) is not positive semi-definite.
    """
    n, t = len(kernel), len(winners)
    if n <= t:
        root, tolerance = _root(kernel)
        left, singular = _of_full_rank(root[losers] - root[winners], tolerance)
    else:
        loss, tolerance = _tolerance(kernel)
        kernel = kernel.astype(float)
        side = kernel[losers] - kernel[winners]
        values, left = np.linalg.eigh(side[:, losers] - side[:, winners])
        _check_definite(values, tolerance)
        kept = values > loss * _EIGEN_TOLERANCE * max(values[-1], np.finfo(float).tiny)
        left, singular = left[:, kept], np.sqrt(np.maximum(values, 0.0))[kept]
    projection = np.zeros((n, len(singular)))
    np.add.at(projection, losers, left / singular)
    np.subtract.at(projection, winners, left / singular)
    return left * singular, projection


def _told_of(
    graph: DuelGraph, kernel: gpflow.kernels.Kernel, slots: Slots, limits: Sequence[FloatArray]
) -> list[Any]:
    """All that tells of a posterior."""
    effect, noises = pair_effect(kernel), graph.noises
    return [
        *(graph.rows, graph.winners, graph.losers, graph.counts, *limits),
        *(slots.offset, slots.noise, kernel_matrix(kernel, as_float(graph.rows))),
        *([] if noises is None else [noises.draws, noises.look]),
        *([] if effect is None else [effect.variance]),
    ]


def utility_features(kernel: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same of utilities less their mean, f - 1 1'f/n = F u: F (n, r), and P.

    :raises ValueError: the kernel matrix (n, n) is not positive semi-definite.
    """
    root, tolerance = _root(kernel)
    left, singular = _of_full_rank(root - np.mean(root, 0), tolerance)
    return left * singular, left / singular


def _tolerance(kernel: FloatArray) -> tuple[float, float]:
    """How much less a matrix is known than doubles are, and below which singular values are 0."""
    loss = float(np.finfo(kernel.dtype).eps / np.finfo(float).eps)  # 1 for doubles
    return loss, float(np.sqrt(loss)) * _SINGULAR_TOLERANCE


def _root(kernel: FloatArray) -> tuple[FloatArray, float]:
    """R with R R' = K, and the share of the largest below which singular values are 0."""
    _, tolerance = _tolerance(kernel)
    values, vectors = np.linalg.eigh(kernel.astype(float))
    _check_definite(values, tolerance)
    return vectors * np.sqrt(np.maximum(values, 0.0)), tolerance


def _of_full_rank(rows: FloatArray, tolerance: float) -> tuple[FloatArray, FloatArray]:
    """Left singular vectors and singular values, without those that are rounding."""
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    kept = singular > tolerance * max(singular[0], np.finfo(float).tiny)
    return left[:, kept], singular[kept]


def _check_definite(values: FloatArray, tolerance: float) -> None:
    if values[0] < -tolerance * abs(values[-1]):
        raise ValueError(
            f"The kernel matrix has the negative eigenvalue {values[0]:.3g}; use a kernel that is "
            "positive semi-definite."
        )


def _expanded(
    prior: WhitenedPrior, factors: Factors, sites: Sites
) -> tuple[TruncatedNormal, IntArray]:
    """The truncated normal of all single slots, and the place in `Slots` of each."""
    slots = prior.slots
    nu, tau = (np.asarray(x.numpy(), dtype=float) for x in sites)
    if not (np.all(np.isfinite(nu)) and np.all(np.isfinite(tau))):
        nu, tau = np.zeros_like(nu), np.zeros_like(tau)
    alone, there = np.ones(len(slots.site), bool), slots.site >= 0
    # Slots of a look stay together.
    group, within = np.arange(len(alone)), np.zeros(len(alone), np.int64)
    for look in slots.looks:
        alone[look.slots] = False
        group[look.slots] = look.start
        within[look.slots] = np.arange(len(look.noise))
    # A site is on z and the noise that is not its own, of which a duel has none.
    own_nu, own_tau = (np.where(alone, x[slots.site], 0.0) for x in (nu, tau))
    orders, sharpness = [], own_tau.copy()
    noise = factors.noise.numpy().astype(float)
    for look in slots.looks:
        # On v itself the site has less variance by what was the site's own noise.
        left = np.maximum(1.0 - noise[look.sites] * tau[look.sites], _SHARPEST)
        own = nu[look.sites] / left, tau[look.sites] / left
        sharpness[look.slots] = np.max(tau[look.sites])
        if look.pairs is None:
            first = np.argsort(-own[1], kind="stable")
            within[look.slots] = np.argsort(first)
            noise_of = look.noise[np.ix_(first, first)]
            orders.append(Order(look.start + int(first[0]), noise_of, own[0][first], own[1][first]))
        else:
            offset = slots.offset[look.slots]
            orders.append(Order(look.start, look.noise, *own, look.pairs, offset))
    # Sharp sites first: what they fix need not be guessed by those after them.
    order = np.lexsort([within, group, -sharpness])
    at = np.argsort(order)
    orders = [each._replace(start=int(at[each.start])) for each in orders]
    site = np.repeat(order, slots.counts[order].astype(int))
    lower, upper = (
        np.where(there, limits[slots.site], end)[site].astype(float)
        for limits, end in zip(_limits_of(factors), (-np.inf, np.inf), strict=True)
    )
    target = TruncatedNormal(
        prior.loadings[site],
        prior.noise[site],
        None if factors.lower is None else lower,
        upper,
        own_nu[site],
        own_tau[site],
        tuple(sorted(orders, key=lambda each: each.start)),
    )
    return target, site
