"""Later duels in one pass: utilities in time are followed, and nothing before is done again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

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
from sparse_prefgp.support.arrays import FloatArray, IntArray


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
        edges, old = edges_of(model, duels, slices), len(model.duels.merged.rows)
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

    early, late, graph = slice(0, old), slice(old, None), made.graph
    problem = made.problem(frozen=True)
    prior = made.approximation.prior(problem)
    precision, shift = (total(values, early) for values in told)
    earlier = np.flatnonzero(total(np.ones(old), early))
    news = total(np.ones(len(event) - old), late)
    at, slices_passed, within = one_pass(
        problem, prior, made.engine, (precision, shift), earlier, news
    )
    precision[at] += within.precision
    shift[at] += within.shift
    result = InferenceResult(
        False, slices_passed, Status.FILTERED, within.change, 1.0, float(prior.jitter)
    )
    made.inference.restore(shift / graph.counts, precision / graph.counts, result, prior)
    site, place_of_site = event[late], np.empty(graph.num_sites, np.int64)
    place_of_site[at] = np.arange(len(at))
    place = place_of_site[site]
    # A tie has its sides in the order of the rows of the graph.
    first = everything.item[everything.given.sides.reshape(-1, 2)[late, 0]]
    turned = graph.rows[graph.winners[site], graph.layout.number] != first
    mean = -(within.mean[place] + np.asarray(prior.offset)[site])
    return Filtering(
        made,
        np.where(turned, -mean, mean),
        within.variance[place],
        within.log_probabilities[place],
        within.log_predictive,
        slices_passed,
        within.unsettled,
    )


def one_pass(
    problem: DuelProblem,
    prior: DuelPrior,
    engine: Engine,
    told: tuple[FloatArray, FloatArray],
    earlier: IntArray,
    counts: FloatArray,
) -> tuple[IntArray, int, _WithinSlices]:
    """Through the slices of the new duels, from what the old ones say of the items.

    :param told: c tau and c nu of the old duels at each site, (t,) each.
    :param earlier: sites with old duels.
    :param counts: (t,) how many new duels each site has.
    :return: sites with new duels, through how many slices, and what was found of these sites.
    """
    in_time = prior.in_time
    assert in_time is not None
    terms, columns, new = in_time.terms, np.asarray(in_time.columns), np.flatnonzero(counts > 0)
    sites, observed = DatedSites.once(problem.graph, terms), terms.term.kernel.observed
    begin, first = None, None
    if len(earlier):
        coming = np.zeros(len(sites.states.moving), bool)
        coming[sites.states.across[np.append(sites.losers[new], sites.winners[new])].indices] = True
        first = sites.plan(observed, earlier, coming)
        at = earlier[first.order]
        seen = Seen(told[0][at], told[1][at, None], columns[at])
        begin = filtered(first, moves_of(terms, first, sites.keys), seen, keep=False).end
    plan = sites.plan(observed, new, after=first)
    at = new[plan.order]
    factors = Factors(*(None if x is None else tf.gather(x, at) for x in prior.factors))
    factors = factors._replace(counts=as_float(counts[at]))
    within = _WithinSlices(engine, factors)
    nothing = np.zeros(len(at))
    seen = Seen(nothing, nothing[:, None], columns[at])
    moves = moves_of(terms, plan, sites.keys)
    filtered(plan, moves, seen, begin, keep=False, settle=within)
    graph = problem.graph
    ends = (as_float(graph.rows[side[at]]) for side in (graph.losers, graph.winners))
    within.variance += in_time.left(*ends)
    mean, variance = as_float(within.mean), as_float(within.variance)
    noise = as_float(np.asarray(problem.noise)[at])
    within.log_probabilities = np.asarray(
        engine.link_function.log_probability(mean, variance, noise, factors.lower, factors.upper)
    )
    return at, len(plan.steps), within


class _WithinSlices:
    """Inference within one slice after the other, given all that came before.

    :ivar mean: E z before the slice of each, and `variance` V z, with what the features of other
        terms leave.
    :ivar change: the largest that one more sweep within a slice would make.
    """

    log_probabilities: FloatArray
    """Of the outcome of each then."""

    def __init__(self, engine: Engine, factors: Factors) -> None:
        t = int(factors.upper.shape[0])
        given = factors._asdict().items()
        self._factors = {name: x.numpy() for name, x in given if x is not None}
        hashable: Any = engine
        self._run = _compiled(hashable, tuple(self._factors))
        self._tolerance = engine.tolerance
        self.precision, self.shift = np.zeros(t), np.zeros(t)
        self.mean, self.variance = np.zeros(t), np.zeros(t)
        self.log_predictive, self.unsettled, self.change = 0.0, 0, 0.0

    def __call__(
        self, step: Step, mean: FloatArray, features: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Precision and shift of the sites of a slice, whose z are N(mean, features features')."""
        at = step.sites
        given = {name: x[at] for name, x in self._factors.items()}
        for limit in given.keys() & {"lower", "upper"}:  # z less its mean, which is taken off them
            given[limit] = given[limit] - mean
        there = {name: tf.constant(x) for name, x in given.items()}
        found = self._run(tf.constant(features), there)
        nu, tau, log_z, change = (np.asarray(x) for x in found)
        self.mean[at], self.variance[at] = mean, np.sum(features**2, 1)
        self.precision[at] = given["counts"] * tau
        self.shift[at] = given["counts"] * (nu + tau * mean)
        self.log_predictive += float(log_z)
        self.unsettled += not (change <= self._tolerance and np.isfinite(log_z))
        self.change = float(np.maximum(self.change, change))  # a NaN in either shows
        return self.precision[at], self.shift[at]


@lru_cache(maxsize=8)
def _compiled(engine: Any, names: tuple[str, ...]) -> Callable[..., Any]:
    """Inference of an engine from nothing, traced once for slices of all sizes.

    :param names: of the fields of `Factors` that are there.
    """
    of_factors = dict.fromkeys(names, tf.TensorSpec([None], tf.float64))
    signature = [tf.TensorSpec([None, None], tf.float64), of_factors]

    @tf.function(autograph=False, input_signature=signature)
    def run(features: tf.Tensor, there: dict[str, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        factors = Factors(**(dict.fromkeys(Factors._fields) | there))
        zeros = tf.zeros_like(factors.noise)
        point = engine.run(LowRankOverDuels(features), factors, Sites(zeros, zeros))
        return point.sites.nu, point.sites.tau, point.log_z, point.found.change

    return run
