"""Utilities that move in time, filtered exactly, next to columns of the other terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from scipy import sparse

from sparse_prefgp.approximations.base import DuelProblem
from sparse_prefgp.covariances import ItemsInTime
from sparse_prefgp.covariances.finite import FiniteKernel, parts_of
from sparse_prefgp.covariances.item_in_time import Apart
from sparse_prefgp.covariances.kalman_filter import Moves, Plan, States
from sparse_prefgp.data.graph import DuelGraph
from sparse_prefgp.data.slices import DAYS_A_YEAR
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.machine import ask


class DatedSites(NamedTuple):
    """The sites of a graph as a plan takes them."""

    numbers: FloatArray
    """(n,) of the items, ascending."""
    begin: FloatArray
    """(n,) the first slice of each, in years."""
    last: FloatArray
    """(n,) the last slice of each, in years."""
    times: FloatArray
    """(S,) dates of the slices, in years."""
    slices: IntArray
    """(t,)."""
    losers: IntArray
    """(t,) rows of the states."""
    winners: IntArray
    """(t,) rows of the states."""
    states: States
    """Of the distinct sides."""
    keys: tuple[FloatArray, ...]
    """What names the states, in their order: (n, 1) the numbers of items, then, of each term of
    effects in a context, (E, c) their keys."""

    @classmethod
    def once(cls, graph: DuelGraph, terms: Apart) -> DatedSites:
        """Those of a graph whose rows are dated, laid out once."""

        def lay_out() -> DatedSites:
            layout = graph.layout
            seen = sorted({column for term in terms.filtered for column in term.seen})
            _, first, of_row = np.unique(
                graph.rows[:, seen], axis=0, return_index=True, return_inverse=True
            )
            none = tuple(term.effects_of(graph.rows[:0])[0][:, 0] for term in terms.filtered)
            states, keys = states_of(terms, none, graph.rows[first])
            sides = of_row.reshape(-1)
            ends = sides[graph.losers], sides[graph.winners]
            days, place = np.unique(graph.rows[graph.winners, layout.date], return_inverse=True)
            times, place = days / DAYS_A_YEAR, place.reshape(-1)
            numbers = keys[0][:, 0]
            begin, last = np.full(len(numbers), np.inf), np.full(len(numbers), -np.inf)
            for side in ends:
                items = np.searchsorted(numbers, graph.rows[first[side], layout.number])
                np.minimum.at(begin, items, times[place])
                np.maximum.at(last, items, times[place])
            return cls(numbers, begin, last, times, place, *ends, states, keys)

        return graph.once(f"dated sites {_seen(terms)}", lay_out)

    @property
    def owner(self) -> IntArray:
        """(n,) of each state the place of its item in `numbers`."""
        return np.concatenate([np.searchsorted(self.numbers, keys[:, 0]) for keys in self.keys])

    def plan(
        self,
        observed: FloatArray,
        some: Any = slice(None),
        staying: BoolArray | None = None,
        after: Plan | None = None,
    ) -> Plan:
        """Of all or some of the sites."""
        slices, place = np.unique(self.slices[some], return_inverse=True)
        ends = place.reshape(-1), self.losers[some], self.winners[some]
        return Plan.of(self.times[slices], *ends, self.states, observed, staying, after)


def _seen(terms: Apart) -> str:
    """What the states of items and effects depend on, besides the rows."""
    return str([(type(term.kernel).__name__, term.seen) for term in terms.effects])


def plan_of(graph: DuelGraph, terms: Apart) -> Plan:
    """The plan of the sites of a graph whose rows are dated, made once."""
    observed = terms.term.kernel.observed
    name = f"plan {observed} {_seen(terms)}"
    return graph.once(name, lambda: DatedSites.once(graph, terms).plan(observed))


def states_of(
    terms: Apart, known: tuple[FloatArray, ...], rows: FloatArray
) -> tuple[States, tuple[FloatArray, ...]]:
    """The states of rows (N, ...): those known, then items and effects that are not.

    :param known: keys of each term.
    :return: keys of those that are not known, too.
    """
    total = sum(map(len, known))
    begin, end, new, places, weights = 0, total, [], [], []
    for keys, term in zip(known, terms.filtered, strict=True):
        asked, weight = term.effects_of(rows)
        place, more = _looked_up(keys, asked.reshape(-1, keys.shape[1]))
        places.append(np.where(place < len(keys), begin, end - len(keys)) + place)
        places[-1].shape = weight.shape
        weights.append(weight)
        new.append(more)
        begin, end = begin + len(keys), end + len(more)
    moving = [np.arange(total) < len(known[0]), np.arange(end - total) < len(new[0])]
    place, weight = np.hstack(places), np.hstack(weights)
    starts = place.shape[1] * np.arange(len(rows) + 1)
    across = sparse.csr_matrix((weight.reshape(-1), place.reshape(-1), starts), (len(rows), end))
    return States(across, np.concatenate(moving)), tuple(new)


def _looked_up(known: FloatArray, asked: FloatArray) -> tuple[IntArray, FloatArray]:
    """Where rows asked for are among those known, further places for others, and these."""
    every, which = np.unique(np.concatenate([known, asked]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    place = np.full(len(every), -1)
    place[which[: len(known)]] = np.arange(len(known))
    new = place < 0
    place[new] = len(known) + np.arange(new.sum())
    return place[which[len(known) :]], every[new]


def variances_of(terms: Apart, keys: tuple[FloatArray, ...]) -> tf.Tensor:
    """Prior variances of effects by the keys of all terms."""
    found = [term.variances_of(some) for term, some in zip(terms.effects, keys[1:], strict=True)]
    return tf.concat([tf.zeros([0], gpflow.default_float()), *found], 0)


def moves_of(terms: Apart, plan: Plan, keys: tuple[FloatArray, ...]) -> Moves:
    """Utilities in time in numbers, over the gaps of a plan, and effects by their keys."""
    kernel, spans = terms.term.kernel, tf.constant(plan.spans)
    tensors = kernel.start(), kernel.transitions(spans), kernel.added(spans)
    return Moves(*(np.asarray(x) for x in (*tensors, variances_of(terms, keys))))


def over_time(problem: DuelProblem, terms: Apart, columns: tf.Tensor) -> ItemsInTime:
    """The covariance of duels between items whose utilities move.

    :param columns: X, (t, k), of the other terms.
    """
    graph = problem.graph
    plan, keys = plan_of(graph, terms), DatedSites.once(graph, terms).keys
    t, k = columns.shape
    needed = plan.num_bytes(k) + 3 * 8 * t * k  # of sweeps, with three arrays of columns
    what = f"Sweeps over utilities in time next to {k:,} columns of other terms"
    remedy = "take fewer inducing inputs, features or covariates"
    graph.once(f"room for {k} columns", lambda: ask(needed, what, remedy))
    return ItemsInTime(plan, terms.term.kernel, columns, variances_of(terms, keys))


def exact_columns(
    problem: DuelProblem, others: gpflow.kernels.Kernel | None
) -> Callable[[tf.Tensor], tf.Tensor]:
    """The features of terms that have finitely many, (N, k) of rows (N, ...)."""
    parts = [] if others is None else parts_of(others)

    def of(rows: tf.Tensor) -> tf.Tensor:
        found = [tf.zeros_like(rows[:, :0])]
        for part in parts:
            if isinstance(part, FiniteKernel):
                found.append(part.own_features(problem.graph, rows))
            else:
                seen, _ = part.slice(rows, None)
                found.append(seen * tf.sqrt(part.variance))
        return tf.concat(found, 1)

    return of


def exact_in_time(kernel: gpflow.kernels.Kernel) -> bool:
    """Whether all terms next to the utilities in time have finitely many features."""
    return all(
        isinstance(part, FiniteKernel) or type(part) is gpflow.kernels.Linear
        for part in parts_of(kernel)
    )
