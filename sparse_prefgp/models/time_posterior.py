"""Predictions of utilities that move in time, at dates to come and at those gone by."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelPrior, DuelProblem
from sparse_prefgp.approximations.in_time import DatedSites, InTime, moves_of
from sparse_prefgp.covariances.base import PosteriorTerms
from sparse_prefgp.covariances.frontier import (
    Frontier,
    Plan,
    Seen,
    Smoothed,
    filtered,
    smoothed,
)
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.covariances.markov import MarkovKernel
from sparse_prefgp.data.rows import RowLayout
from sparse_prefgp.data.slices import DAYS_A_YEAR
from sparse_prefgp.models.posterior import Posterior, ask_for_joint
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

# So many items all stay in the frontier at the end; of more, those that dueled in the last years.
_ALL_STAY, _STAYING_YEARS = 1500, 3.0
# A variance up to here is nothing.
_ROUNDING = 1e-12


class EndFrontier(NamedTuple):
    """What is known of the items at the last slice of each, jointly."""

    numbers: FloatArray
    """(N,) numbers of the items in the data, by place."""
    times: FloatArray
    """(N,) date of the last slice of each, in years since 1970."""
    state: Frontier
    """Mean and covariance of the states, given coefficients w of the other terms, and those of w.
    """


class Asked(NamedTuple):
    """Utilities asked for, one of an item at a date each, or differences of two at a date."""

    items: IntArray
    """(q,) places among the items of the sites, further ones for new items."""
    others: IntArray
    """(q,) of whom it is taken off; -1 for nobody."""
    times: FloatArray
    """(q,) in years since 1970."""
    columns: FloatArray
    """(q, k), of w."""

    def take(self, which: BoolArray) -> Asked:
        items, others, times, columns = self
        return Asked(items[which], others[which], times[which], columns[which])


class JointInTime(NamedTuple):
    """Utilities h in time of q items and coefficients w, jointly."""

    mean: FloatArray
    """(q,) of h."""
    covariance: FloatArray
    """(q, q) of h."""
    rows: FloatArray
    """(q, k), what a unit of each w adds to h: Cov[h, w] is `rows @ of_weights`."""
    weights: FloatArray
    """E w, (k,)."""
    of_weights: FloatArray
    """Cov w, (k, k)."""

    def with_columns(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (q,) and covariance (q, q) of h + columns w."""
        across = columns @ self.of_weights
        mixed = across @ self.rows.T
        covariance = self.covariance + mixed + mixed.T + across @ columns.T
        return self.mean + columns @ self.weights, covariance


class _Swept(NamedTuple):
    """A sweep over all sites and q that say nothing."""

    plan: Plan
    found: Smoothed
    at: IntArray
    """(q,) where these are in the order of the plan."""
    steps: IntArray
    """(q,) in which of its steps."""


class TimePosterior(Posterior):
    """q(f) of items at dates.

    Dates after the last slice of an item follow from the frontier at the end, all others from a
    sweep in which the question is a site that says nothing. With w the coefficients of the other
    terms and h the utility in time, f = a w + h, and what inducing inputs leave of the other terms
    is added. `features` and `terms` are those at the last slice, or `with_date`.

    :param problem: with dated rows.
    :param prior: of it.
    :param precision: (t,) c tau of the sites.
    :param shift: (t,) c nu.
    """

    in_one: ClassVar[bool] = True

    _date: float
    _origin: TimePosterior | None
    _layout: RowLayout
    _in_time: InTime
    _sites: DatedSites
    _seen: Seen

    def __init__(
        self, problem: DuelProblem, prior: DuelPrior, precision: tf.Tensor, shift: tf.Tensor
    ) -> None:
        assert prior.in_time is not None
        columns = np.asarray(prior.in_time.columns)
        values: dict[str, object] = {
            "kernel": problem.kernel,
            "mean_function": problem.mean_function,
            "_date": DAYS_A_YEAR * float(DatedSites.once(problem.graph).times[-1]),
            "_origin": None,
            "_layout": problem.graph.layout,
            "_in_time": prior.in_time,
            "_sites": DatedSites.once(problem.graph),
            "_seen": Seen(precision.numpy(), shift.numpy()[:, None], columns),
        }
        self.__dict__.update(values)  # the class it comes from is frozen

    @property
    def features(self) -> Callable[[tf.Tensor], tf.Tensor]:
        return self._now.features

    @property
    def terms(self) -> PosteriorTerms:
        return self._now.terms

    @cached_property
    def _now(self) -> Posterior:
        return self.at(self._date)

    # What is asked of a posterior.

    def marginal(self, inputs: tf.Tensor) -> tf.Tensor:
        """Mean and variance side by side, (N, 2), for rows (N, D)."""
        inputs = self._with_dates(inputs)
        items, times = self._where(inputs)
        asked = Asked(items, np.full(len(items), -1), times, self._own(inputs))
        mean, variance = self._each(asked)
        variance += self._in_time.left(inputs)
        return tf.stack([mean + self._prior_mean(inputs), variance], -1)

    def difference(self, inputs: tf.Tensor) -> tf.Tensor:
        """Mean and variance of f(x) - f(x'), (N, 2), for stacked pairs (N, 2, D)."""
        first, second = (self._with_dates(inputs[:, side]) for side in (0, 1))
        both, times = self._where(tf.concat([first, second], 0))
        n = len(first)
        apart = times[:n] != times[n:]
        columns = self._own(first) - self._own(second)
        asked = Asked(both[:n], both[n:], times[:n], columns)
        mean, variance = np.empty(n), np.empty(n)
        mean[~apart], variance[~apart] = self._each(asked.take(~apart))
        if apart.any():
            # Of two dates: one joint question about all of them.
            q, at = int(apart.sum()), np.tile(apart, 2)
            columns = np.concatenate([columns[apart], np.zeros_like(columns[apart])])
            found, covariance = self.utilities(both[at], times[at]).with_columns(columns)
            mean[apart] = found[:q] - found[q:]
            own = np.diagonal(covariance)
            shared = np.diagonal(covariance[:q, q:]) + np.diagonal(covariance[q:, :q])
            variance[apart] = own[:q] + own[q:] - shared
        variance += self._in_time.left(first, second)
        mean += self._prior_mean(first) - self._prior_mean(second)
        same = tf.reduce_all(first == second, -1)
        return tf.stack([mean, tf.where(same, tf.zeros_like(variance), variance)], -1)

    def joint(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean (N,) and covariance (N, N) for rows (N, D).

        :raises NotEnoughMemory: more of them than there is memory for.
        """
        ask_for_joint(inputs)
        inputs = self._with_dates(inputs)
        items, times = self._where(inputs)
        columns = self._own(inputs)
        mean, covariance = self.utilities(items, times).with_columns(columns)
        covariance += self._beyond(inputs[:, None], np.ones((len(inputs), 1)), columns)
        return tf.constant(mean + self._prior_mean(inputs)), tf.constant(covariance)

    def moved_apart(self, inputs: tf.Tensor) -> tuple[float, float]:
        """Mean and variance of what two rows (2, D) differ by in their utilities in time alone."""
        items, times = self._where(self._with_dates(inputs))
        asked = Asked(items[:1], items[1:], times[:1], np.zeros((1, self._seen.columns.shape[1])))
        mean, variance = self._each(asked)
        return float(mean[0]), float(variance[0])

    @property
    def at_its_date(self) -> Posterior:
        """q(f) at the date of `features` and `terms`, which TensorFlow differentiates."""
        return self._now

    def joint_at_each(
        self, inputs: Sequence[tf.Tensor], weights: Sequence[FloatArray]
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Mean (N,) and covariance (N, N) of averages over rows of one item each, for several sets
        of them, in one sweep.

        :param inputs: (N, p, D) rows each, all of one date.
        :param weights: (N, p) each, which add up to 1.
        """
        items, times = self._where(tf.concat([rows[:, 0] for rows in inputs], 0))
        own = [
            np.einsum("np,npk->nk", weight, self._own(_flat(rows)).reshape(*weight.shape, -1))
            for rows, weight in zip(inputs, weights, strict=True)
        ]
        nothing = np.zeros_like(np.concatenate(own))
        asked = Asked(items, np.full(len(items), -1), times, nothing)
        swept = self._swept(asked, joint=True)
        found, start, result = swept.found, 0, []
        for rows, weight, columns in zip(inputs, weights, own, strict=True):
            some = slice(start, start + len(rows))
            start = some.stop
            at, step = swept.at[some], int(swept.steps[some.start])
            inside = at - swept.plan.steps[step].sites.start
            given, of_w = found.rows[at], found.covariance
            covariance = found.joint[step][np.ix_(inside, inside)] + given @ of_w @ given.T
            together = JointInTime(found.mean[at, 0], covariance, given, found.weights[:, 0], of_w)
            mean, covariance = together.with_columns(columns)
            before = np.asarray(self._prior_mean(_flat(rows))).reshape(weight.shape)
            mean += np.sum(weight * before, 1)
            result.append((mean, covariance + self._beyond(rows, weight, columns)))
        return result

    def with_date(self, date: float) -> TimePosterior:
        """The same, whose `features` and `terms` are those at this date.

        :param date: in days since 1970.
        """
        found = copy.copy(self)
        found.__dict__.pop("_now", None)
        found.__dict__.update(_date=date, _origin=self)
        return found

    def at(self, date: float) -> Posterior:
        """q(f) at one date, by the features of the other terms and one of each item.

        Of all items that there were by then, for rows of that date.

        :param date: in days since 1970.
        """
        sites, in_time, time = self._sites, self._in_time, date / DAYS_A_YEAR
        there = np.arange(len(sites.numbers))
        if not self._markov.is_stationary:
            there = there[sites.begin <= time]
        n, k = len(there), self._seen.columns.shape[1]
        found = self.utilities(there, np.full(n, time))
        mean = np.concatenate([found.weights, found.mean])
        across = found.rows @ found.of_weights
        covariance = np.block([[found.of_weights, across.T], [across, found.covariance]])
        dates, begin = as_float(np.full(n, time)), as_float(sites.begin[there])
        own = np.asarray(self._markov.covariance(dates, dates, begin))
        before = np.diag(np.concatenate([np.ones(k), own]))
        number, known = self._layout.number, as_float(sites.numbers[there])

        def features(inputs: tf.Tensor) -> tf.Tensor:
            same = inputs[..., number : number + 1] == known
            return tf.concat([in_time.features(inputs), tf.cast(same, inputs.dtype)], -1)

        terms = PosteriorTerms(tf.constant(mean), tf.constant(before - covariance))
        return Posterior(self.kernel, self.mean_function, features, terms)

    @cached_property
    def end(self) -> EndFrontier:
        """The frontier at the end, of all items, or of more than 1,500 of those that dueled in the
        last three years."""
        if self._origin is not None:
            return self._origin.end
        sites = self._sites
        staying = np.ones(len(sites.numbers), bool)
        if len(staying) > _ALL_STAY:
            staying = sites.last >= sites.times[-1] - _STAYING_YEARS
        plan = sites.plan(staying)
        found = filtered(
            plan, moves_of(self._markov, plan), self._in_order(plan, self._seen), keep=False
        )
        return EndFrontier(sites.numbers[plan.frontier], plan.last_times, found.end)

    # Inside.

    @property
    def _markov(self) -> MarkovKernel:
        return self._in_time.term.kernel

    def _with_dates(self, inputs: tf.Tensor) -> tf.Tensor:
        """Rows that end before the dates are of that of `features` and `terms`."""
        layout = self._layout
        if inputs.shape[-1] > layout.date:
            return inputs
        known, number = self._sites.numbers, np.asarray(inputs)[:, layout.number]
        place = np.minimum(np.searchsorted(known, number), len(known) - 1)
        begin = np.where(known[place] == number, DAYS_A_YEAR * self._sites.begin[place], self._date)
        dates = np.stack([np.full(len(begin), self._date), begin], 1)
        return tf.concat([inputs, tf.constant(dates, inputs.dtype)], 1)

    def _where(self, inputs: tf.Tensor) -> tuple[IntArray, FloatArray]:
        """The place of the item of each row, further ones for new items, and its time in years."""
        rows = np.asarray(inputs)
        numbers, known = rows[:, self._layout.number], self._sites.numbers
        place = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        new = known[place] != numbers
        _, which = np.unique(numbers[new], return_inverse=True)
        place[new] = len(known) + which.reshape(-1)
        return place, rows[:, self._layout.date] / DAYS_A_YEAR

    def _own(self, inputs: tf.Tensor) -> FloatArray:
        """Features of the other terms, (N, k)."""
        return np.asarray(self._in_time.features(inputs))

    def _beyond(self, inputs: tf.Tensor, weights: FloatArray, columns: FloatArray) -> FloatArray:
        """What the features of averages, (N, k), leave of the covariance of the other terms,
        (N, N).

        :param inputs: (N, p, D).
        :param weights: (N, p).
        """
        others, n, flat = self._in_time.others, len(columns), _flat(inputs)
        if others is None or np.all(self._in_time.left(flat) <= _ROUNDING):
            return np.zeros((n, n))
        covariance = -columns @ columns.T
        if weights.shape[1] == 1:
            return np.asarray(kernel_matrix(others, flat)) + covariance
        for p, weight in enumerate(weights.T):
            between = np.asarray(kernel_matrix(others, inputs[:, p], flat))
            between = between.reshape(n, *weights.shape)
            covariance += weight[:, None] * np.einsum("nmq,mq->nm", between, weights)
        return covariance

    @staticmethod
    def _in_order(plan: Plan, seen: Seen) -> Seen:
        return Seen(*(values[plan.order] for values in seen))

    def _each(self, asked: Asked) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of each alone, (q,) each."""
        late = self._is_late(asked.items, asked.times)
        late &= (asked.others < 0) | self._is_late(asked.others, asked.times)
        alike = asked.items == asked.others  # whose utilities in time cancel
        late, early = late & ~alike, ~late & ~alike
        mean, variance = np.empty(len(late)), np.empty(len(late))
        if alike.any():
            columns, (w, of_w) = asked.columns[alike], self._of_weights
            mean[alike] = columns @ w
            variance[alike] = np.einsum("qk,kl,ql->q", columns, of_w, columns)
        if late.any():
            mean[late], variance[late] = self._each_from_end(asked.take(late))
        if early.any():
            mean[early], variance[early] = self._each_by_a_sweep(asked.take(early))
        return mean, variance

    def utilities(self, items: IntArray, times: FloatArray) -> JointInTime:
        """Those of items by place, further ones for new items, jointly.

        :param times: in years since 1970.
        """
        pairs = np.unique(np.stack([items, times], 1), axis=0)
        once = len(np.unique(pairs[:, 0])) == len(pairs)
        if once and bool(self._is_late(items, times).all()):
            return self._joint_from_end(items, times)
        q, t, k = len(items), *self._seen.columns.shape
        asked = Asked(items, np.full(q, -1), times, np.zeros((q, k)))
        swept = self._swept(asked, np.concatenate([np.zeros((t, q)), np.eye(q)]))
        found, at = swept.found, swept.at
        mean, weights = found.mean[at], found.weights[:, 0]
        return JointInTime(mean[:, 0], mean[:, 1:], found.rows[at], weights, found.covariance)

    # From the end.

    @cached_property
    def _of_weights(self) -> tuple[FloatArray, FloatArray]:
        state = self.end.state
        covariance = np.linalg.inv(state.precision)
        return covariance @ state.weighted[:, 0], covariance

    @cached_property
    def _place_at_end(self) -> IntArray:
        """Of each item by place, where it is in the frontier at the end; -1 where it is not."""
        found = np.full(len(self._sites.numbers), -1)
        places = np.searchsorted(self._sites.numbers, self.end.numbers)
        found[places] = np.arange(len(places))
        return found

    def _is_late(self, items: IntArray, times: FloatArray) -> BoolArray:
        """Whether what is asked of items follows from the end alone, as it does of new ones."""
        n = len(self._sites.numbers)
        known = np.minimum(np.maximum(items, 0), n - 1)
        there = (self._place_at_end[known] >= 0) & (times >= self._sites.last[known])
        return np.asarray((items >= n) | there)

    def _moved(self, items: IntArray, times: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Place at the end, (q, d) weights of the state there, and variance that joins, (q,).

        A new item has weights 0 and its prior variance; nobody has neither.
        """
        n, h = len(self._sites.numbers), self._markov.observed
        known = (items >= 0) & (items < n)
        place = np.zeros(len(items), np.int64)
        place[known] = self._place_at_end[items[known]]
        weights, added = np.zeros((len(items), len(h))), np.zeros(len(items))
        spans = tf.constant(times[known] - self.end.times[place[known]])
        weights[known] = np.einsum("a,qab->qb", h, np.asarray(self._markov.transitions(spans)))
        added[known] = np.einsum("a,qab,b->q", h, np.asarray(self._markov.added(spans)), h)
        added[items >= n] = h @ np.asarray(self._markov.start()) @ h
        return place, weights, added

    def _each_from_end(self, asked: Asked) -> tuple[FloatArray, FloatArray]:
        state, d = self.end.state, len(self._markov.observed)
        four = state.covariance.reshape(-1, d, len(state.mean) // d, d)
        means = state.mean.reshape(len(four), d, -1)
        mean, variance = np.zeros((len(asked.items), means.shape[2])), np.zeros(len(asked.items))
        ends = []
        for sign, items in ((1.0, asked.items), (-1.0, asked.others)):
            place, weights, added = self._moved(items, asked.times)
            mean += sign * np.einsum("qa,qar->qr", weights, means[place])
            variance += added
            ends.append((sign, place, weights))
        for sign, place, weights in ends:
            for other_sign, other, more in ends:
                block = four[place, :, other]
                variance += sign * other_sign * np.einsum("qa,qab,qb->q", weights, block, more)
        rows, (w, of_w) = asked.columns + mean[:, 1:], self._of_weights
        variance += np.einsum("qk,kl,ql->q", rows, of_w, rows)
        return mean[:, 0] + rows @ w, variance

    def _joint_from_end(self, items: IntArray, times: FloatArray) -> JointInTime:
        state, d = self.end.state, len(self._markov.observed)
        place, weights, added = self._moved(items, times)
        some = (place[:, None] * d + np.arange(d)).reshape(-1)
        spread = np.zeros((len(items), len(items), d))
        spread[np.arange(len(items)), np.arange(len(items))] = weights
        across = spread.reshape(len(items), -1)
        mean = across @ state.mean[some]
        covariance = across @ state.covariance[np.ix_(some, some)] @ across.T
        covariance += np.where(items[:, None] == items[None, :], added[:, None], 0.0)
        rows, (w, of_w) = mean[:, 1:], self._of_weights
        covariance += rows @ of_w @ rows.T
        return JointInTime(mean[:, 0] + rows @ w, covariance, rows, w, of_w)

    # By a sweep.

    def _each_by_a_sweep(self, asked: Asked) -> tuple[FloatArray, FloatArray]:
        swept = self._swept(asked)
        return swept.found.mean[swept.at, 0], swept.found.variance[swept.at]

    def _swept(self, asked: Asked, shifts: FloatArray | None = None, joint: bool = False) -> _Swept:
        """All sites and those asked for, which say nothing.

        :param shifts: (t + q, r) more of them, next to those of the sites.
        :param joint: whether the covariances within the slices of what is asked are wanted.
        """
        sites, seen, q = self._sites, self._seen, len(asked.items)
        times, place = np.unique(
            np.concatenate([sites.times[sites.slices], asked.times]), return_inverse=True
        )
        losers = np.concatenate([sites.losers, asked.items])
        winners = np.concatenate([sites.winners, asked.others])
        steps = place.reshape(-1)
        plan = Plan.of(times, steps, losers, winners)
        shift = np.concatenate([seen.shifts, np.zeros((q, 1))])
        whole = Seen(
            np.append(seen.precision, np.zeros(q)),
            shift if shifts is None else np.hstack([shift, shifts]),
            np.concatenate([seen.columns, asked.columns]),
        )
        moves, ordered = moves_of(self._markov, plan), self._in_order(plan, whole)
        late = slice(len(sites.losers), None)
        together = {*steps[late].tolist()} if joint else ()
        found = smoothed(plan, moves, ordered, filtered(plan, moves, ordered), joint=together)
        where = np.empty(len(losers), np.int64)
        where[plan.order] = np.arange(len(losers))
        return _Swept(plan, found, where[late], steps[late])


def _flat(inputs: tf.Tensor) -> tf.Tensor:
    """Rows (N, p, D) as (N p, D)."""
    return tf.reshape(inputs, [-1, inputs.shape[-1]])
