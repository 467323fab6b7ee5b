"""Later duels in one pass: utilities in time are followed, and nothing before is done again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelPrior, DuelProblem
from sparse_prefgp.approximations.in_time import DatedSites, moves_of
from sparse_prefgp.covariances import LowRankOverDuels
from sparse_prefgp.covariances.kalman_filter import Seen, Step, filtered
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.joining import joined_duels
from sparse_prefgp.data.slices import date_text, slice_numbers
from sparse_prefgp.engines import Engine, InferenceResult, Status
from sparse_prefgp.factors.sites import Factors, Sites
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Filtering:
    """What a pass over t later duels found, in the order in which they were given."""

    model: Any
    """Of all duels, old and new, whose sites are those of the pass."""
    mean: FloatArray
    """(t,) of the winner's utility less the loser's, before the slice of each duel; of a tie in the
    order of `model.duels.given`, lower row first."""
    variance: FloatArray
    """(t,) of it."""
    log_probabilities: FloatArray
    """(t,) log probability of what came, before the slice of each duel, in nats."""
    log_predictive: float
    """Sum over the slices of the log probability of all their duels, given those before, in nats,
    by expectation propagation (or what the engine is) within each. It is no evidence of the model.
    """
    slices: int
    """How many slices the pass went through."""
    unsettled: int
    """In how many of them inference did not converge."""

    @property
    def probabilities(self) -> FloatArray:
        """(t,) probability of what came, before the slice of each duel."""
        return np.asarray(np.exp(self.log_probabilities))


def refuse_earlier(
    days: FloatArray, last: float, row: Callable[[int], str] = "duel {}".format
) -> None:
    """Refuse duels before the last one of a model.

    :param days: (t,) of the new duels.
    :param last: of the model.
    :param row: names a duel in the message.
    :raises ValueError: the first that is earlier.
    """
    for i in np.flatnonzero(days < last)[:1]:
        name = row(int(i))
        raise ValueError(
            f"{name[0].upper()}{name[1:]} is of {date_text(days[i])}, before the last one of the "
            f"model on {date_text(last)}, and a filter does not go back; fit a model of all of "
            "them, or take up later ones alone."
        )


def edges_of(model: Any, duels: Duels, slices: Any) -> Any:
    """The slices of the duels of a model and of later ones together.

    :param slices: of the later ones; None for those of the model.
    :raises ValueError: duels without dates, or before the last one of the model.
    """
    before, after, own = model.duels.times, duels.times, model.in_time.slices
    assert before is not None
    if after is None:
        raise together.refused(in_time=True, duels_without_dates="new duels without dates")
    refuse_earlier(after, float(before.max()))
    named = isinstance(own, str | float) and isinstance(slices, str | float)
    if slices is None or (named and slices == own):
        return own
    starts = [
        [days[number == each].min() for each in np.unique(number)]
        for days, number in (
            (before, slice_numbers(before, own)),
            (after, slice_numbers(after, slices)),
        )
    ]
    return np.unique(np.concatenate(starts))[1:]


def filtered_by(model: Any, duels: Duels | None, slices: Any) -> Filtering:
    """See `InTimeModel.filter`."""
    everything, edges, old = model.duels, slices, 0
    told = [np.zeros(0), np.zeros(0)]
    if duels is not None:
        edges, old = edges_of(model, duels, slices), len(model.duels.rows_given)
        everything = joined_duels(model.duels, duels)
        model._inferred()
        nu, tau = model.inference.sites()
        told = [values[model.graph.sites_of_duels] for values in (tau, nu)]
    made = model._on(everything, edges)
    event, count = made.graph.event_of_duel, made.graph.count_of_duel
    assert event is not None and count is not None

    def total(values: FloatArray, some: slice) -> FloatArray:
        each = count[some] * values
        return np.bincount(event[some], each, made.graph.num_sites).astype(np.float64)

    early, late = slice(0, old), slice(old, None)
    problem = made.problem(frozen=True)
    prior = made.approximation.prior(problem)
    found = one_pass(
        problem,
        prior,
        made.engine,
        (total(told[0], early), total(told[1], early)),
        total(np.ones(old), early) > 0,
        total(np.ones(len(event) - old), late),
    )
    counts, place, graph = made.graph.counts, event[late], made.graph
    # A tie has its sides in the order of the rows of the graph.
    first = everything.item[everything.given.sides.reshape(-1, 2)[late, 0]]
    turned = graph.rows[graph.winners[place], graph.layout.number] != first
    mean = -(found.mean + np.asarray(prior.offset))[place]
    result = InferenceResult(
        False, found.slices, Status.FILTERED, found.change, 1.0, float(prior.jitter)
    )
    made.inference.restore(found.shift / counts, found.precision / counts, result, prior)
    return Filtering(
        made,
        np.where(turned, -mean, mean),
        found.variance[place],
        found.log_probabilities[place],
        found.log_predictive,
        found.slices,
        found.unsettled,
    )


class Passed(NamedTuple):
    """What a pass found, (t,) of all sites of the problem, and of those without new duels NaN."""

    precision: FloatArray
    """c tau of old and new duels."""
    shift: FloatArray
    """c nu of old and new duels."""
    mean: FloatArray
    """E z before the slice of each."""
    variance: FloatArray
    """V z, with what the features of other terms leave, before the slice of each."""
    log_probabilities: FloatArray
    """Of its outcome then."""
    log_predictive: float
    slices: int
    unsettled: int
    change: float
    """The largest that one more sweep within a slice would make."""


def one_pass(
    problem: DuelProblem,
    prior: DuelPrior,
    engine: Engine,
    told: tuple[FloatArray, FloatArray],
    old: BoolArray,
    counts: FloatArray,
) -> Passed:
    """Through the slices of the new duels, from what the old ones say of the items.

    :param told: c tau and c nu of the old duels at each site, (t,) each.
    :param old: (t,) which sites have old duels.
    :param counts: (t,) how many new duels each site has.
    """
    in_time, t = prior.in_time, len(counts)
    assert in_time is not None
    terms, columns, new = in_time.terms, np.asarray(in_time.columns), np.flatnonzero(counts > 0)
    sites, observed = DatedSites.once(problem.graph, terms), terms.term.kernel.observed
    begin, first = None, None
    if old.any():
        earlier = np.flatnonzero(old)
        coming = np.zeros(len(sites.states.moving), bool)
        coming[sites.states.across[np.append(sites.losers[new], sites.winners[new])].indices] = True
        first = sites.plan(observed, earlier, coming)
        at = earlier[first.order]
        seen = Seen(told[0][at], told[1][at, None], columns[at])
        begin = filtered(first, moves_of(terms, first, sites.keys), seen, keep=False).end
    plan = sites.plan(observed, new, after=first)
    at = new[plan.order]
    factors = _taken(prior.factors, at)._replace(counts=as_float(counts[at]))
    within = _WithinSlices(engine, factors)
    nothing = np.zeros(len(at))
    seen = Seen(nothing, nothing[:, None], columns[at])
    moves = moves_of(terms, plan, sites.keys)
    filtered(plan, moves, seen, begin, keep=False, settle=within)
    mean, variance, log_probabilities = (np.full(t, np.nan) for _ in range(3))
    graph = problem.graph
    ends = (as_float(graph.rows[side[at]]) for side in (graph.losers, graph.winners))
    mean[at], variance[at] = within.mean, within.variance + in_time.left(*ends)
    noise = np.asarray(problem.noise)[at]
    z = as_float(mean[at]), as_float(variance[at])
    log_probabilities[at] = engine.link_function.log_probability(
        *z, as_float(noise), factors.lower, factors.upper
    )
    precision, shift = (values.copy() for values in told)
    precision[at] += within.precision
    shift[at] += within.shift
    return Passed(
        precision,
        shift,
        mean,
        variance,
        log_probabilities,
        within.log_predictive,
        len(plan.steps),
        within.unsettled,
        within.change,
    )


def _taken(factors: Factors, which: Any) -> Factors:
    return Factors(*(None if x is None else tf.gather(x, which) for x in factors))


class _WithinSlices:
    """Inference within one slice after the other, given all that came before."""

    def __init__(self, engine: Engine, factors: Factors) -> None:
        t = int(factors.upper.shape[0])
        self._factors = Factors(*(None if x is None else x.numpy() for x in factors))
        there = (x is not None for x in (factors.lower, factors.inside, factors.portions))
        hashable: Any = engine
        self._run = _compiled(hashable, *there)
        self._tolerance = engine.tolerance
        self.precision, self.shift = np.zeros(t), np.zeros(t)
        self.mean, self.variance = np.zeros(t), np.zeros(t)
        self.log_predictive, self.unsettled, self.change = 0.0, 0, 0.0

    def __call__(
        self, step: Step, mean: FloatArray, features: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Precision and shift of the sites of a slice, whose z are N(mean, features features')."""
        at = step.sites
        every = self._factors
        # z less its mean, which is taken off the limits.
        given = [every.counts[at], every.noise[at], every.upper[at] - mean]
        if every.lower is not None:
            given.append(every.lower[at] - mean)
        given += [x[at] for x in (every.inside, every.portions) if x is not None]
        found = self._run(*map(tf.constant, (features, *given)))
        nu, tau, log_z, change = (np.asarray(x) for x in found)
        self.mean[at], self.variance[at] = mean, np.sum(features**2, 1)
        self.precision[at] = given[0] * tau
        self.shift[at] = given[0] * (nu + tau * mean)
        self.log_predictive += float(log_z)
        self.unsettled += not (change <= self._tolerance and np.isfinite(log_z))
        self.change = float(np.maximum(self.change, change))  # a NaN in either shows
        return self.precision[at], self.shift[at]


@lru_cache(maxsize=8)
def _compiled(engine: Any, lower: bool, inside: bool, portions: bool) -> Callable[..., Any]:
    """Inference of an engine from nothing, traced once for slices of all sizes.

    Takes features, counts, noise and upper limits, and of the others those that are there.
    """
    there = lower, inside, portions
    values = tf.TensorSpec([None], tf.float64)
    every = [tf.TensorSpec([None, None], tf.float64), *[values] * (3 + sum(there))]

    @tf.function(autograph=False, input_signature=every)
    def run(
        features: tf.Tensor,
        counts: tf.Tensor,
        noise: tf.Tensor,
        upper: tf.Tensor,
        *given: tf.Tensor,
    ) -> tuple[tf.Tensor, ...]:
        rest = iter(given)
        low, within, parts = (next(rest) if one else None for one in there)
        factors = Factors(counts, noise, low, upper, within, parts)
        start = Sites(tf.zeros_like(noise), tf.zeros_like(noise))
        point = engine.run(LowRankOverDuels(features), factors, start)
        return point.sites.nu, point.sites.tau, point.log_z, point.found.change

    found: Callable[..., Any] = run
    return found
