"""Whitened features of inducing values: B of items, Phi of duels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from sparse_prefgp.approximations.base import DuelProblem, FeaturesOfItems, ask_for_squares
from sparse_prefgp.approximations.people import shift_of
from sparse_prefgp.covariances.finite import feature_part, finite_parts
from sparse_prefgp.covariances.kernels import as_float, between_inducing, with_inducing
from sparse_prefgp.data.graph import DuelGraph, differences
from sparse_prefgp.support.linalg import MAX_CONDITION, cholesky_with_jitter, solved_rows

Pairs = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


@dataclass(frozen=True, eq=False, kw_only=True)
class Whitened(FeaturesOfItems):
    """What all duels of a problem share: B = K_xu L⁻ᵀ of inputs, and L with K_uu = L L'."""

    factor: tf.Tensor
    size: int
    """p, how many inducing values there are, item effects among them."""
    pairs: Pairs
    """Maps rows of losers and of winners, (t, D) each, to Phi, (t, p), the difference of their
    features.
    """


def factorise(problem: DuelProblem) -> tuple[tf.Tensor, tf.Tensor]:
    """L with K_uu = L L', (m, m), and the jitter that took.

    :raises NotEnoughMemory: more inducing inputs than there is memory for.
    """
    assert problem.inducing_variable is not None
    m = problem.inducing_variable.Z.shape[0] or 0
    ask_for_squares(m, f"Covariances of {m:,} inducing inputs", "take fewer")
    k_uu = between_inducing(problem.inducing_variable, feature_part(problem.of_rows))
    return cholesky_with_jitter(k_uu, MAX_CONDITION)


def whitened(
    problem: DuelProblem, factorised: tuple[tf.Tensor, tf.Tensor] | None = None
) -> Whitened:
    """The inducing values of a problem, whitened.

    :param factorised: what `factorise` gave; None to ask it.
    """
    factor, jitter = factorise(problem) if factorised is None else factorised
    graph, inducing = problem.graph, problem.inducing_variable
    part, own = feature_part(problem.of_rows), finite_parts(problem.kernel)
    size = factor.shape[0] + sum(kernel.num_own(graph) for kernel in own)

    def own_features(inputs: tf.Tensor) -> list[tf.Tensor]:
        return [kernel.own_features(graph, inputs) for kernel in own]

    def features(inputs: tf.Tensor) -> tf.Tensor:
        found = solved_rows(factor, with_inducing(inducing, part, _seen(problem, inputs)))
        return tf.concat([found, *own_features(inputs)], 1) if own else found

    def pairs(losers: tf.Tensor, winners: tf.Tensor) -> tf.Tensor:
        found = solved_rows(factor, related_to_pairs(problem, losers, winners))
        each = zip(own_features(losers), own_features(winners), strict=True)
        return tf.concat([found, *(a - b for a, b in each)], 1) if own else found

    shift = None
    if part is not None and inducing is not None:
        shift = shift_of(part, factor, inducing.Z)
    if shift is not None and own:
        shift = tf.pad(shift, [[0, size - shift.shape[0]]])
    return Whitened(features, jitter, shift, factor=factor, size=size, pairs=pairs)


def _seen(problem: DuelProblem, rows: tf.Tensor) -> tf.Tensor:
    """What inducing inputs see of rows (N, ...): the features, (N, D)."""
    apart = bool(finite_parts(problem.kernel))
    if problem.graph is not None:
        apart = apart or not problem.graph.layout.plain
    return rows[..., : problem.num_features] if apart else rows


def related_to_pairs(problem: DuelProblem, losers: tf.Tensor, winners: tf.Tensor) -> tf.Tensor:
    """K_uz, (m, t), for the rows (t, D) of both ends of each duel."""
    if problem.compiled is not None:
        return problem.compiled.related(losers, winners)
    inducing, kernel = problem.inducing_variable, problem.of_rows
    part = feature_part(kernel)
    losers, winners = (_seen(problem, rows) for rows in (losers, winners))
    return with_inducing(inducing, part, losers) - with_inducing(inducing, part, winners)


def features_of_duels(basis: Whitened, graph: DuelGraph, size: int) -> list[tf.Tensor]:
    """Phi, (t, p), in chunks of rows: features of the loser less those of the winner of each site.

    :param size: sites of a chunk. There is one chunk where items are fewer than duels, whose
        features are then those of all items; else no array holds the features of all items.
    """
    rows = as_float(graph.rows)
    t = graph.num_sites
    if graph.num_rows < t:
        return [differences(graph, basis.features(rows))]
    winners, losers = graph.edges
    parts: list[tf.Tensor] = []
    for start in range(0, t, size):
        at = slice(start, start + size)
        # One after the other in a compiled function too, else all chunks are in memory at once.
        with tf.control_dependencies(parts[-1:]):
            parts.append(basis.pairs(*(tf.gather(rows, ends[at]) for ends in (losers, winners))))
    return parts
