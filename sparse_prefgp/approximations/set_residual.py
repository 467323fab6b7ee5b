"""What inducing values leave unexplained of the alternatives of sets, and what it costs.

All of it follows from k~ of the pairs of alternatives, the variance that each difference has left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import DuelProblem, prior_variance
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.data.graph import squared_distances
from sparse_prefgp.data.looks import Form, Looks
from sparse_prefgp.support.arrays import FloatArray


class SetResidual(NamedTuple):
    """What the inducing values leave unexplained of the alternatives of sets.

    A look at k alternatives tells of k - 1 contrasts y between them, whatever its rows, with noise
    sigma² I: C (k - 1, k - 1) is their residual covariance over sigma².
    """

    problem: DuelProblem
    factor: tf.Tensor
    """L with K_uu = L L'."""
    looks: Looks
    left: tf.Tensor
    """k~ >= 0 of each pair, (number of pairs,)."""
    clipped: tf.Tensor
    """By how much rounding had made one negative."""

    @classmethod
    def of(cls, problem: DuelProblem, factor: tf.Tensor, features: tf.Tensor) -> SetResidual:
        """That of the answers of a problem.

        :param features: B, (n, m).
        """
        looks = Looks.of_graph(problem.graph)
        raw = prior_variance(problem, looks.pairs) - squared_distances(looks.pairs, features)
        left = tf.maximum(raw, tf.zeros_like(raw))
        return cls(problem, factor, looks, left, tf.stop_gradient(tf.reduce_max(left - raw)))

    def variances(self) -> list[tf.Tensor]:
        """sigma² of the looks of each form, (g,)."""
        of_site = 0.5 * self.problem.noise
        return [tf.gather(of_site, form.bucket.sites[:, 0]) for form in self.looks.forms]

    def counts(self) -> list[FloatArray]:
        """How often each look counts, (g,) of each form."""
        counts = self.problem.graph.counts
        return [counts[form.bucket.sites[:, 0]] for form in self.looks.forms]

    def within(self) -> list[tf.Tensor]:
        """The residual covariance of the rows of the looks of each form, (r, r, g)."""
        return [self._within(form) for form in self.looks.forms]

    def _within(self, form: Form) -> tf.Tensor:
        each = tf.gather(self.left, form.pairs)
        crossed = tf.gather(tf.concat([each, tf.zeros_like(each[:1])], 0), form.ends_in_pairs)
        return 0.5 * (crossed[0] + crossed[1] - crossed[2] - crossed[3])

    def traces(self) -> list[tf.Tensor]:
        """tr C of the looks of each form, (g,): sum of k~ / (k sigma²) over pairs."""
        return [
            tf.reduce_sum(tf.gather(self.left, form.pairs), 0) / (form.num_places * variance)
            for form, variance in zip(self.looks.forms, self.variances(), strict=True)
        ]

    def trace(self) -> tf.Tensor:
        """The sum of the traces of all C."""
        each = zip(self.traces(), self.counts(), strict=True)
        return tf.add_n([tf.reduce_sum(traces * counts) for traces, counts in each])

    def summed_over_traces(self, each: Callable[[tf.Tensor, float], tf.Tensor]) -> tf.Tensor:
        """The sum over looks of `each` of tr C, (g,), and k - 1, shares of a look as shares of C.

        A share of an answer is not a share of its residual: see `bound_by_diagonal`.
        """
        found = []
        pieces = zip(self.looks.forms, self.traces(), self.counts(), strict=True)
        for form, traces, counts in pieces:
            share = np.minimum(counts, 1.0)
            found.append(
                tf.reduce_sum(counts / share * each(share * traces, form.num_places - 1.0))
            )
        return tf.add_n(found)

    def contrasts(self) -> list[tf.Tensor]:
        """For each form C, (g, r, r) with zeros about it."""
        found = []
        for form, variance in zip(self.looks.forms, self.variances(), strict=True):
            root = as_float(pseudo_root(form.noise))
            half = tf.tensordot(root, self._within(form) / variance, 1)
            found.append(tf.einsum("ijg,jk->gik", half, root))
        return found

    def summed(
        self, each: Callable[[tf.Tensor], tf.Tensor], *, share_of_residual: bool = False
    ) -> tf.Tensor:
        """The sum over looks of `each` of their C, (g,) in each form.

        :param share_of_residual: whether a share of a look takes the share of C.
        """
        found = []
        for contrasts, counts in zip(self.contrasts(), self.counts(), strict=True):
            share = np.minimum(counts, 1.0) if share_of_residual else np.ones_like(counts)
            found.append(tf.reduce_sum(counts / share * each(share[:, None, None] * contrasts)))
        return tf.add_n(found)

    def log_det(self, power: float = 1.0, *, share_of_residual: bool = False) -> tf.Tensor:
        """The sum of log|I + p C|."""
        return self.summed(
            lambda contrasts: _log_det(power * contrasts), share_of_residual=share_of_residual
        )

    def over_items(self) -> tf.Tensor:
        """W with x'Wx the sum over sets of the squared contrasts of x over sigma², (n, n)."""
        n = self.problem.graph.num_rows
        total = tf.zeros([n, n], self.left.dtype)
        first, second = self.looks.pairs.winners, self.looks.pairs.losers
        pieces = zip(self.looks.forms, self.variances(), self.counts(), strict=True)
        for form, variance, counts in pieces:
            weight = tf.broadcast_to(counts / (form.num_places * variance), form.pairs.shape)
            a, b = first[form.pairs], second[form.pairs]
            for ends, sign in (((a, a), 1.0), ((b, b), 1.0), ((a, b), -1.0), ((b, a), -1.0)):
                total = tf.tensor_scatter_nd_add(total, np.stack(ends, -1), sign * weight)
        return total


def pseudo_root(noise: FloatArray) -> FloatArray:
    """The square root of the pseudo-inverse of (r, r)."""
    values, vectors = np.linalg.eigh(noise)
    # Integer matrices of paths, stars and their like: the smallest is 2 - 2 cos(pi / k) > 9 / k².
    there = values > 1e-9
    scale = np.where(there, 1.0 / np.sqrt(np.where(there, values, 1.0)), 0.0)
    return np.asarray((vectors * scale) @ vectors.T)


def _log_det(contrasts: tf.Tensor) -> tf.Tensor:
    one = tf.ones(tf.shape(contrasts)[:-1], contrasts.dtype)
    factor = tf.linalg.cholesky(tf.linalg.set_diag(contrasts, tf.linalg.diag_part(contrasts) + one))
    return 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)), -1)
