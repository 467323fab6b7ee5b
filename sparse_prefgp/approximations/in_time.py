"""Utilities that move in time, filtered exactly, next to columns of the other terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import DuelProblem
from sparse_prefgp.covariances import ItemInTime, ItemsInTime
from sparse_prefgp.covariances.finite import FiniteKernel, parts_of
from sparse_prefgp.covariances.frontier import Moves, Plan
from sparse_prefgp.covariances.kernels import as_float, pair_difference_variance
from sparse_prefgp.covariances.markov import MarkovKernel
from sparse_prefgp.data.graph import DuelGraph, differences
from sparse_prefgp.data.slices import DAYS_A_YEAR
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray


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
    """(t,) places in `numbers`."""
    winners: IntArray
    """(t,) places in `numbers`."""

    @classmethod
    def once(cls, graph: DuelGraph) -> DatedSites:
        """Those of a graph whose rows are dated, laid out once."""
        return graph.once("dated sites", lambda: cls._of(graph))

    @classmethod
    def _of(cls, graph: DuelGraph) -> DatedSites:
        layout = graph.layout
        numbers, of_row = np.unique(graph.rows[:, layout.number], return_inverse=True)
        of_row = of_row.reshape(-1)
        ends = of_row[graph.losers], of_row[graph.winners]
        days, place = np.unique(graph.rows[graph.winners, layout.date], return_inverse=True)
        times, place = days / DAYS_A_YEAR, place.reshape(-1)
        begin, last = np.full(len(numbers), np.inf), np.full(len(numbers), -np.inf)
        for items in ends:
            np.minimum.at(begin, items, times[place])
            np.maximum.at(last, items, times[place])
        return cls(numbers, begin, last, times, place, *ends)

    def plan(self, staying: BoolArray | None = None) -> Plan:
        return Plan.of(self.times, self.slices, self.losers, self.winners, staying)


def plan_of(graph: DuelGraph) -> Plan:
    """The plan of the sites of a graph whose rows are dated, made once."""
    return graph.once("plan", lambda: DatedSites.once(graph).plan())


class InTime(NamedTuple):
    """What a posterior wants to know besides the covariance."""

    term: ItemInTime
    others: gpflow.kernels.Kernel | None
    """The other terms of the kernel; None without."""
    features: Callable[[tf.Tensor], tf.Tensor]
    """Maps rows (N, ...) to the features of which the columns are differences, (N, k)."""
    columns: tf.Tensor
    """X, (t, k)."""

    def left(self, first: tf.Tensor, second: tf.Tensor | None = None) -> FloatArray:
        """What features leave of the variance of the other terms, (N,): by inducing inputs, or of
        a judge that is not known.

        :param first: rows (N, D).
        :param second: rows whose utility is taken off; None for none.
        """
        if self.others is None:
            return np.zeros(first.shape[0])
        columns = self.features(first)
        if second is None:
            whole = self.others(first, full_cov=False)
        else:
            columns -= self.features(second)
            whole = pair_difference_variance(self.others, first, second)
        return np.maximum(np.asarray(whole - tf.reduce_sum(columns**2, 1)), 0.0)


def moves_of(kernel: MarkovKernel, plan: Plan) -> Moves:
    """A Markov kernel in numbers, over the gaps of a plan."""
    spans = tf.constant(plan.spans)
    tensors = kernel.start(), kernel.transitions(spans), kernel.added(spans)
    return Moves(kernel.observed, *(np.asarray(x) for x in tensors))


def over_time(problem: DuelProblem, term: ItemInTime, columns: tf.Tensor) -> ItemsInTime:
    """The covariance of duels between items whose utilities move.

    :param columns: X, (t, k), of the other terms.
    :raises ValueError: answers about sets, or tastes of people.
    """
    graph = problem.graph
    if graph.noises is not None or problem.taste is not None:
        raise ValueError(
            f"{'Answers about sets' if problem.taste is None else 'Tastes of people'} have no form "
            "with ItemInTime; give duels without, or leave ItemInTime out."
        )
    return ItemsInTime(plan_of(graph), term.kernel, columns)


def exact_columns(
    problem: DuelProblem, others: gpflow.kernels.Kernel | None
) -> Callable[[tf.Tensor], tf.Tensor]:
    """The features of terms that have finitely many, (N, k) of rows (N, ...).

    :raises ValueError: a term that has not.
    """
    parts = [] if others is None else parts_of(others)
    for part in parts:
        if not _is_finite(part):
            raise ValueError(
                f"Exact() next to ItemInTime takes terms of finitely many features, which "
                f"{type(part).__name__} is not; take VFE() or FITC(), or a Linear kernel."
            )

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


def _is_finite(part: gpflow.kernels.Kernel) -> bool:
    return isinstance(part, FiniteKernel) or type(part) is gpflow.kernels.Linear


def exact_in_time(kernel: gpflow.kernels.Kernel) -> bool:
    """Whether all terms next to the utilities in time have finitely many features."""
    return all(map(_is_finite, parts_of(kernel)))


def columns_of(problem: DuelProblem, features: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """X, (t, k), loser less winner."""
    graph = problem.graph
    return differences(graph, features(as_float(graph.rows)))
