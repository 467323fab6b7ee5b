"""What is drawn from: the duels of a model under the exact prior."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelProblem
from sparse_prefgp.covariances.by_features import ByFeatures
from sparse_prefgp.covariances.kernels import as_float, kernel_matrix
from sparse_prefgp.data.graph import DuelGraph


class Preferences(Protocol):
    """What sampling needs to know of a model."""

    likelihood: Any
    """A `Probit`."""
    terms: Any
    """Of the prior."""
    inputs: Any
    """Rows of the kernel from items."""
    people: Any

    @property
    def all_duels(self) -> DuelGraph: ...

    def allow(self, **asked: Any) -> None: ...

    def problem(self, frozen: bool = False) -> DuelProblem: ...


def exact_problem(model: Preferences) -> DuelProblem:
    """All duels under the exact prior, on copies of the parameters as they are.

    Where people have tastes, rows name the person.

    :raises ValueError: a model whose posterior is not sampled, such as one with logit factors.
    """
    model.allow(sampling=True)
    problem = model.problem(frozen=True)._replace(graph=model.all_duels, inducing_variable=None)
    return problem if problem.taste is None else by_person(problem)


def kernel_inputs(model: Preferences, items: Any, before: int = 0, people: Any = None) -> tf.Tensor:
    """Items (N, D) as the kernel of `exact_problem` takes them.

    :param before: how many items of the same call come before them; those the model does not
        know are all different.
    :param people: whose utility it is, as for `predict_difference`; all of whom nothing is
        known are one person.
    :raises ValueError: somebody of whom nothing is known, where people have features.
    """
    inputs = model.inputs.rows(items, before)
    numbers = model.people.numbers(people, len(inputs))
    if model.terms.taste is None:
        return inputs
    person = np.full(len(inputs), -1) if numbers is None else numbers
    if model.terms.by_features is not None and np.any(person < 0):
        raise ValueError(
            "Utilities are drawn of people with known features, but some pairs are somebody's of "
            "whom nothing is known; name a person of each (people=)."
        )
    return tf.concat([inputs, as_float(person)[:, None]], 1)


class OfPeople(gpflow.kernels.Kernel):
    """The utility of a person, on rows whose last column is the person's number.

    `f_u(x) = g(x) + h_u(x)` is one Gaussian process over pairs (x, u), with the kernel
    `k_0(x, x') + k_1(x, x') [u = u']`: dense, and right for any duels.

    :param shared: the kernel of what all prefer, on the columns before.
    :param own: of what one prefers besides.
    :param by_features: what features of people say of that.
    """

    def __init__(
        self,
        shared: gpflow.kernels.Kernel,
        own: gpflow.kernels.Kernel,
        by_features: ByFeatures | None,
    ) -> None:
        super().__init__()
        self.shared, self.own, self.by_features = shared, own, by_features

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        others = None if X2 is None else X2[..., :-1]
        apart = gpflow.utilities.ops.difference_matrix(
            X[..., -1:], None if X2 is None else X2[..., -1:]
        )[..., 0]
        own = kernel_matrix(self.own, X[..., :-1], others)
        same = tf.where(apart == 0.0, own, tf.zeros_like(own))
        found = kernel_matrix(self.shared, X[..., :-1], others) + same
        if self.by_features is None:
            return found
        first = self._coefficients(X)
        if X2 is None:
            return found + tf.matmul(first, first, transpose_b=True)
        return found + tf.tensordot(first, self._coefficients(X2), [[-1], [-1]])

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        rows = X[..., :-1]
        found = self.shared(rows, full_cov=False) + self.own(rows, full_cov=False)
        if self.by_features is None:
            return found
        return found + tf.reduce_sum(self._coefficients(X) ** 2, -1)

    def _coefficients(self, X: tf.Tensor) -> tf.Tensor:
        assert self.by_features is not None
        return self.by_features.of(tf.cast(X[..., -1], tf.int32).numpy(), X)


def by_person(problem: DuelProblem) -> DuelProblem:
    """The same without tastes: rows of the graph name the person of the duels that compare them."""
    graph, function = problem.graph, problem.mean_function
    assert problem.taste is not None and graph.people is not None
    # Events are kept for how often each was said; their sides are still rows of nobody.
    ends = np.stack([graph.winners, graph.losers])
    keys, place = np.unique(ends + graph.num_rows * graph.people, return_inverse=True)
    person, row = np.divmod(keys, graph.num_rows)
    winners, losers = place.reshape(ends.shape)
    return problem._replace(
        graph=replace(
            graph,
            own=np.column_stack([graph.rows[row], person]),
            item=None,
            further=None,
            winners=winners,
            losers=losers,
            row_of_item=np.full(len(graph.row_of_item), -1),
        ),
        kernel=OfPeople(problem.kernel, problem.taste, problem.by_features),
        mean_function=None if function is None else lambda rows: function(rows[:, :-1]),
        taste=None,
        by_features=None,
    )
