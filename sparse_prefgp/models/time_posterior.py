"""Predictions of utilities that move in time, at dates to come and at those gone by."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf
from scipy import sparse

from sparse_prefgp.approximations import DuelPrior, DuelProblem
from sparse_prefgp.approximations.base import InTime
from sparse_prefgp.approximations.in_time import (
    DatedSites,
    moves_of,
    states_of,
    variances_of,
)
from sparse_prefgp.covariances.base import PosteriorTerms, WholeTerms
from sparse_prefgp.covariances.kalman_filter import (
    Frontier,
    Plan,
    Seen,
    Smoothed,
    States,
    filtered,
    smoothed,
)
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.covariances.markov import MarkovKernel
from sparse_prefgp.data.rows import RowLayout
from sparse_prefgp.data.slices import DAYS_A_YEAR
from sparse_prefgp.models.posterior import Posterior, ask_for_joint, moments_of_pairs
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.linalg import chunks

# So many items all stay in the frontier at the end; of more, those that dueled in the last years.
_ALL_STAY, _STAYING_YEARS = 1500, 3.0
# A variance up to here is nothing.
_ROUNDING = 1e-12


class EndFrontier(NamedTuple):
    """What is known of items and effects at the last slice of each, jointly."""

    places: IntArray
    """(n,) where each state begins in the frontier; -1 where it is not."""
    times: FloatArray
    """(n,) date of the last slice of each, in years since 1970; NaN where it is not."""
    state: Frontier
    """Mean and covariance of the states, given coefficients w of the other terms, and those of w.
    """


class Asked(NamedTuple):
    """Utilities asked for, at a date each, or differences of two at a date."""

    states: States
    """Those of the sites, then those of new items."""
    fresh: sparse.csr_matrix
    """(q, f), by effects that no site sees, standard normal and independent of all."""
    times: FloatArray
    """(q,) in years since 1970."""
    columns: FloatArray
    """(q, k), of w."""

    def take(self, which: BoolArray | slice) -> Asked:
        across = self.states.across[which]
        states = self.states._replace(across=across)
        return Asked(states, self.fresh[which], self.times[which], self.columns[which])

    def by(self, weights: sparse.csr_matrix) -> Asked:
        """Weighted sums (q', q) of the utilities, each at the date of the first of them."""
        across = weights @ self.states.across
        across.eliminate_zeros()  # of who is compared with himself
        states = self.states._replace(across=across)
        first = weights.indices[weights.indptr[:-1]]
        return Asked(states, weights @ self.fresh, self.times[first], weights @ self.columns)


class JointInTime(NamedTuple):
    """q utilities asked for, and coefficients w, jointly."""

    mean: FloatArray
    """(q,) of the utilities."""
    covariance: FloatArray
    """(q, q) of these."""
    rows: FloatArray
    """(q, k), what a unit of each w adds to them: Cov[utilities, w] is `rows @ of_weights`."""
    weights: FloatArray
    """E w, (k,)."""
    of_weights: FloatArray
    """Cov w, (k, k)."""


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
    terms and h the utility in time, its effects in the context included, f = a w + h, and what
    inducing inputs leave of the other terms is added. `features` and `terms` are those at the last
    slice, or `with_date`.

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
        sites = DatedSites.once(problem.graph, prior.in_time.terms)
        values: dict[str, object] = {
            "kernel": problem.kernel,
            "mean_function": problem.mean_function,
            "_date": DAYS_A_YEAR * float(sites.times[-1]),
            "_origin": None,
            "_layout": problem.graph.layout,
            "_in_time": prior.in_time,
            "_sites": sites,
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
        mean, variance = self._each(self._asked(inputs))
        variance += self._in_time.left(inputs)
        return tf.stack([mean + self._prior_mean(inputs), variance], -1)

    def difference(self, inputs: tf.Tensor) -> tf.Tensor:
        """Mean and variance of f(x) - f(x'), (N, 2), for stacked pairs (N, 2, D)."""
        first, second = (self._with_dates(inputs[:, side]) for side in (0, 1))
        both, n = self._asked(tf.concat([first, second], 0)), len(first)
        apart = both.times[:n] != both.times[n:]
        one = sparse.identity(n, format="csr")
        asked = both.by(sparse.hstack([one, -one], format="csr"))
        mean, variance = np.empty(n), np.empty(n)
        mean[~apart], variance[~apart] = self._each(asked.take(~apart))
        if apart.any():
            # Of two dates: one joint question about all of them.
            q = int(apart.sum())
            found, covariance, *_ = self._joint(both.take(np.tile(apart, 2)))
            mean[apart] = found[:q] - found[q:]
            own = np.diagonal(covariance)
            shared = np.diagonal(covariance[:q, q:]) + np.diagonal(covariance[q:, :q])
            variance[apart] = own[:q] + own[q:] - shared
        variance += self._in_time.left(first, second)
        mean += self._prior_mean(first) - self._prior_mean(second)
        return moments_of_pairs(first, second, mean, variance)

    def joint(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean (N,) and covariance (N, N) for rows (N, D).

        :raises NotEnoughMemory: more of them than there is memory for.
        """
        ask_for_joint(inputs)
        inputs = self._with_dates(inputs)
        asked = self._asked(inputs)
        mean, covariance, *_ = self._joint(asked)
        covariance += self._beyond(inputs[:, None], np.ones((len(inputs), 1)), asked.columns)
        return tf.constant(mean + self._prior_mean(inputs)), tf.constant(covariance)

    def moved_apart(self, inputs: tf.Tensor) -> tuple[float, float]:
        """Mean and variance of what two rows (2, D) differ by in their utilities in time alone."""
        apart = self._asked(self._with_dates(inputs)).by(sparse.csr_matrix([[1.0, -1.0]]))
        states = apart.states
        across = sparse.csr_matrix(states.across.multiply(states.moving))
        across.eliminate_zeros()
        alone = apart._replace(
            states=states._replace(across=across),
            fresh=apart.fresh[:, :0],
            columns=np.zeros_like(apart.columns),
        )
        mean, variance = self._each(alone)
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
        averages = sparse.block_diag(
            [row[None] for weight in weights for row in weight], format="csr"
        )
        asked = self._asked(tf.concat([*map(_flat, inputs)], 0)).by(averages)
        swept = self._swept(asked, joint=True)
        start, result = 0, []
        for rows, weight in zip(inputs, weights, strict=True):
            some = slice(start, start + len(rows))
            start = some.stop
            mean, covariance, *_ = self._together(swept, some)
            covariance += _squared(asked.fresh[some])
            before = np.asarray(self._prior_mean(_flat(rows))).reshape(weight.shape)
            mean += np.sum(weight * before, 1)
            result.append((mean, covariance + self._beyond(rows, weight, asked.columns[some])))
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
        there = np.full(len(sites.numbers), self._markov.is_stationary) | (sites.begin <= time)
        every, k = there[sites.owner], self._seen.columns.shape[1]
        n = int(every.sum())
        alone = sparse.identity(len(every), format="csr")[every]
        states = sites.states._replace(across=alone)
        nothing = sparse.csr_matrix((n, 0)), np.full(n, time), np.zeros((n, k))
        found = self._joint(Asked(states, *nothing))
        mean = np.concatenate([found.weights, found.mean])
        across = found.rows @ found.of_weights
        covariance = np.block([[found.of_weights, across.T], [across, found.covariance]])
        number, numbers = self._layout.number, as_float(sites.numbers[there])
        ends = np.cumsum([len(keys) for keys in sites.keys])[:-1]
        each = zip(sites.keys, np.split(every, ends), strict=True)
        known = tuple(keys[some] for keys, some in each)
        dates, begin = as_float(np.full(len(numbers), time)), as_float(sites.begin[there])
        own = self._markov.covariance(dates, dates, begin)
        variances = variances_of(in_time.terms, known)
        before = np.diag(np.concatenate([np.ones(k), own, variances]))

        def features(inputs: tf.Tensor) -> tf.Tensor:
            parts = [in_time.features(inputs)]
            parts.append(tf.cast(inputs[..., number : number + 1] == numbers, inputs.dtype))
            for term, keys in zip(in_time.terms.effects, known[1:], strict=True):
                parts.append(term.weights_of(keys, inputs))
            return tf.concat(parts, -1)

        terms = WholeTerms(tf.constant(mean), tf.constant(before - covariance))
        return Posterior(self.kernel, self.mean_function, features, terms)

    @cached_property
    def end(self) -> EndFrontier:
        """The frontier at the end, of all items and effects, or of more than 1,500 of those of
        items that dueled in the last three years."""
        if self._origin is not None:
            return self._origin.end
        sites = self._sites
        n = len(sites.owner)
        staying = np.ones(n, bool)
        if n > _ALL_STAY:
            staying = (sites.last >= sites.times[-1] - _STAYING_YEARS)[sites.owner]
        plan = sites.plan(self._markov.observed, staying=staying)
        moves = moves_of(self._in_time.terms, plan, sites.keys)
        found = filtered(plan, moves, self._in_order(plan, self._seen), keep=False)
        places, times = np.full(n, -1), np.full(n, np.nan)
        places[plan.frontier], times[plan.frontier] = plan.places, plan.last_times
        return EndFrontier(places, times, found.end)

    # Inside.

    @property
    def _markov(self) -> MarkovKernel:
        return self._in_time.terms.term.kernel

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

    def _asked(self, inputs: tf.Tensor) -> Asked:
        """The utility of each row."""
        rows = np.asarray(inputs)
        terms, known = self._in_time.terms, self._sites.keys
        (across, moving), new = states_of(terms, known, rows)
        held = moving | (np.arange(len(moving)) < sum(map(len, known)))
        roots = sparse.diags(np.sqrt(np.asarray(variances_of(terms, new))))
        states, fresh = States(across[:, held], moving[held]), across[:, ~held] @ roots
        columns = np.asarray(self._in_time.features(inputs))
        return Asked(states, fresh, rows[:, self._layout.date] / DAYS_A_YEAR, columns)

    def _beyond(self, inputs: tf.Tensor, weights: FloatArray, columns: FloatArray) -> FloatArray:
        """What the features of averages, (N, k), leave of the covariance of the other terms,
        (N, N).

        :param inputs: (N, p, D).
        :param weights: (N, p).
        """
        others, n, flat = self._in_time.terms.others, len(columns), _flat(inputs)
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
        late = self._is_late(asked)
        mean, variance = np.empty(len(late)), np.empty(len(late))
        if late.any():
            mean[late], variance[late] = self._each_from_end(asked.take(late))
        if not late.all():
            _, found, at, _ = self._swept(asked.take(~late))
            mean[~late], variance[~late] = found.mean[at, 0], found.variance[at]
        return mean, variance + _row_sums(asked.fresh, asked.fresh)

    def _joint(self, asked: Asked) -> JointInTime:
        """All of them jointly."""
        found = self._joint_of_known(asked)
        return found._replace(covariance=found.covariance + _squared(asked.fresh))

    def _joint_of_known(self, asked: Asked) -> JointInTime:
        across, times = asked.states.across.tocoo(), asked.times
        moved = asked.states.moving[across.col]
        items = across.col[moved]
        pairs = np.unique(np.stack([items, times[across.row[moved]]], 1), axis=0)
        if len(np.unique(items)) == len(pairs) and bool(self._is_late(asked).all()):
            return self._joint_from_end(asked)
        q, t = len(times), len(self._seen.precision)
        if len(np.unique(times)) == 1:
            return self._together(self._swept(asked, joint=True), slice(0, q))
        _, found, at, _ = self._swept(asked, np.eye(t + q, q, -t))
        mean, weights = found.mean[at], found.weights[:, 0]
        return JointInTime(mean[:, 0], mean[:, 1:], found.rows[at], weights, found.covariance)

    # From the end.

    @cached_property
    def _of_weights(self) -> tuple[FloatArray, FloatArray]:
        state = self.end.state
        covariance = np.linalg.inv(state.precision)
        return covariance @ state.weighted[:, 0], covariance

    def _is_late(self, asked: Asked) -> BoolArray:
        """Whether what is asked follows from the end alone, as it does of what is new."""
        end, across = self.end, asked.states.across.tocoo()
        n = len(end.places)
        known = np.minimum(across.col, n - 1)
        there = (end.places[known] >= 0) & (
            ~asked.states.moving[across.col] | (asked.times[across.row] >= end.times[known])
        )
        early = ~there & (across.col < n)
        return np.bincount(across.row, early, len(asked.times)) == 0.0

    def _from_end(self, asked: Asked) -> tuple[Any, Any, FloatArray, FloatArray]:
        """By the numbers of the frontier at the end, (q, N), and by what joins, (q, n), of variance
        1 for each state; the mean (q,) given w = 0, and what a unit of each w adds, (q, k)."""
        end, kernel, across = self.end, self._markov, asked.states.across.tocoo()
        row, state, weight, h = across.row, across.col, across.data, kernel.observed
        new = state >= len(end.places)
        moves = asked.states.moving[state] & ~new
        still = ~moves & ~new
        spans = tf.constant(asked.times[row[moves]] - end.times[state[moves]])
        moved = np.einsum("a,qab->qb", h, np.asarray(kernel.transitions(spans)))
        added = np.where(new, h @ np.asarray(kernel.start()) @ h, 0.0)
        added[moves] = np.einsum("a,qab,b->q", h, np.asarray(kernel.added(spans)), h)
        rows, places, values = [row[still]], [end.places[state[still]]], [weight[still]]
        for j in range(len(h)):
            rows.append(row[moves])
            places.append(end.places[state[moves]] + j)
            values.append(weight[moves] * moved[:, j])
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(places))
        given = sparse.csr_matrix(entries, (across.shape[0], len(end.state.mean)))
        joins = sparse.csr_matrix((weight * np.sqrt(added), (row, state)), across.shape)
        mean = given @ end.state.mean
        return given, joins, mean[:, 0], asked.columns + mean[:, 1:]

    def _each_from_end(self, asked: Asked) -> tuple[FloatArray, FloatArray]:
        state, (w, of_w) = self.end.state, self._of_weights
        given, joins, mean, rows = self._from_end(asked)
        variance = _row_sums(joins, joins)
        variance += np.einsum("qk,kl,ql->q", rows, of_w, rows)
        for some in chunks(len(variance), 8 * len(state.mean)):
            own = given[some]
            variance[some] += _row_sums(own, own @ state.covariance)
        return mean + rows @ w, variance

    def _joint_from_end(self, asked: Asked) -> JointInTime:
        state, (w, of_w) = self.end.state, self._of_weights
        given, joins, mean, rows = self._from_end(asked)
        covariance = given @ (given @ state.covariance).T
        covariance += _squared(joins) + rows @ of_w @ rows.T
        return JointInTime(mean + rows @ w, covariance, rows, w, of_w)

    # By a sweep.

    @staticmethod
    def _together(swept: _Swept, some: slice) -> JointInTime:
        """Those that were asked for together, all at one date, of a sweep."""
        found, at, step = swept.found, swept.at[some], int(swept.steps[some.start])
        inside = at - swept.plan.steps[step].sites.start
        rows, of_w = found.rows[at], found.covariance
        covariance = found.joint[step][np.ix_(inside, inside)] + rows @ of_w @ rows.T
        return JointInTime(found.mean[at, 0], covariance, rows, found.weights[:, 0], of_w)

    def _swept(self, asked: Asked, shifts: FloatArray | None = None, joint: bool = False) -> _Swept:
        """All sites and those asked for, which say nothing.

        :param shifts: (t + q, r) more of them, next to those of the sites.
        :param joint: whether the covariances within the slices of what is asked are wanted.
        """
        sites, seen, q = self._sites, self._seen, len(asked.times)
        times, place = np.unique(
            np.concatenate([sites.times[sites.slices], asked.times]), return_inverse=True
        )
        known = sites.states.across.copy()
        size = known.shape[0]
        known.resize(size, len(asked.states.moving))
        states = asked.states._replace(
            across=sparse.vstack([known, asked.states.across], format="csr")
        )
        losers = np.concatenate([sites.losers, size + np.arange(q)])
        winners = np.concatenate([sites.winners, np.full(q, -1)])
        steps = place.reshape(-1)
        plan = Plan.of(times, steps, losers, winners, states, self._markov.observed)
        shift = np.concatenate([seen.shifts, np.zeros((q, 1))])
        whole = Seen(
            np.append(seen.precision, np.zeros(q)),
            shift if shifts is None else np.hstack([shift, shifts]),
            np.concatenate([seen.columns, asked.columns]),
        )
        moves = moves_of(self._in_time.terms, plan, sites.keys)
        ordered, late = self._in_order(plan, whole), slice(len(sites.losers), None)
        together = {*steps[late].tolist()} if joint else ()
        found = smoothed(plan, moves, ordered, filtered(plan, moves, ordered), joint=together)
        where = np.empty(len(losers), np.int64)
        where[plan.order] = np.arange(len(losers))
        return _Swept(plan, found, where[late], steps[late])


def _squared(rows: sparse.csr_matrix) -> FloatArray:
    """R R', dense."""
    return (rows @ rows.T).toarray()


def _row_sums(rows: sparse.csr_matrix, others: Any) -> FloatArray:
    """Inner products of the rows of two matrices, (q,)."""
    return np.asarray(rows.multiply(others).sum(1)).reshape(-1)


def _flat(inputs: tf.Tensor) -> tf.Tensor:
    """Rows (N, p, D) as (N p, D)."""
    return tf.reshape(inputs, [-1, inputs.shape[-1]])
