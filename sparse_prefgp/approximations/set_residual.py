"""What inducing values leave unexplained of the alternatives of sets, and of pairs that have
effects of their own, and what it costs.

All of it follows from k~ of the pairs of alternatives, the variance that each difference has left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import DuelProblem, prior_variance
from sparse_prefgp.approximations.residual import ResidualOfSites, shared_out
from sparse_prefgp.covariances.choice_likelihood import Form, Looks, shared_noise_of
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.covariances.pair_effect import looks_of_pairs, pair_effect, shared_effects
from sparse_prefgp.data.graph import DuelGraph, squared_distances
from sparse_prefgp.support.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class ResidualOfSets(ResidualOfSites):
    """That of looks at alternatives.

    A look at k alternatives tells of k - 1 contrasts y between them, whatever its rows, with noise
    sigma² I: C (k - 1, k - 1) is their residual covariance over sigma².
    """

    looks: Looks

    looks_of: ClassVar[staticmethod[[DuelGraph], Looks]] = staticmethod(Looks.of_graph)

    @classmethod
    def of(cls, problem: DuelProblem, features: tf.Tensor) -> ResidualOfSets:
        """That of the answers of a problem.

        :param features: B, (n, m).
        """
        looks = cls.looks_of(problem.graph)
        return cls(
            problem,
            lambda: prior_variance(problem, looks.pairs) - squared_distances(looks.pairs, features),
            looks,
        )

    @cached_property
    def _noise(self) -> tf.Tensor:
        """sigma² of each site, (t,)."""
        return 0.5 * self.problem.noise

    def _noise_of(self, form: Form) -> tf.Tensor:
        """sigma² of the looks of a form, (g,)."""
        return tf.gather(self._noise, form.bucket.sites[:, 0])

    def shared(self, form: Form) -> tf.Tensor:
        """What the rows of the looks of a form share otherwise: (r, r, g), or (g,) of all."""
        noises = self.problem.graph.noises
        assert noises is not None
        return shared_noise_of(form, noises.own, self._noise)

    @property
    def copies(self) -> FloatArray:
        """(t,) how many equal sites each stands for, whose residuals are apart."""
        return self.problem.graph.counts

    def counts(self, form: Form) -> FloatArray:
        """How often each look of a form counts, (g,)."""
        return self.copies[form.bucket.sites[:, 0]]

    def within(self, form: Form) -> tf.Tensor:
        """The residual covariance of the rows of the looks of a form, (r, r, g)."""
        each = tf.gather(self.variance, form.pairs)
        crossed = tf.gather(tf.concat([each, tf.zeros_like(each[:1])], 0), form.ends_in_pairs)
        return 0.5 * (crossed[0] + crossed[1] - crossed[2] - crossed[3])

    def traces(self, form: Form) -> tf.Tensor:
        """tr C of the looks of a form, (g,): sum of k~ / (k sigma²) over pairs."""
        total = tf.reduce_sum(tf.gather(self.variance, form.pairs), 0)
        return total / (form.num_places * self._noise_of(form))

    def trace(self) -> tf.Tensor:
        forms = self.looks.forms
        return tf.add_n([tf.reduce_sum(self.traces(form) * self.counts(form)) for form in forms])

    def log_det_of_means(self) -> tf.Tensor:
        found = []
        for form in self.looks.forms:
            (copies, share), rank = shared_out(self.counts(form)), form.num_places - 1.0
            each = tf.math.log1p(share * self.traces(form) / rank)
            found.append(tf.reduce_sum(copies * rank * each))
        return tf.add_n(found)

    def contrasts(self, form: Form) -> tf.Tensor:
        """C of the looks of a form, (g, r, r) with zeros about it."""
        root = as_float(pseudo_root(form.noise))
        half = tf.tensordot(root, self.within(form) / self._noise_of(form), 1)
        return tf.einsum("ijg,jk->gik", half, root)

    def summed(
        self, each: Callable[[tf.Tensor], tf.Tensor], *, by_share: bool = False
    ) -> tf.Tensor:
        found = []
        for form in self.looks.forms:
            contrasts, (copies, share) = (
                self.contrasts(form),
                shared_out(self.counts(form), by_share),
            )
            # What is not finite is NaN in the end; of it no eigenvalues can be asked.
            finite = tf.where(tf.math.is_finite(contrasts), contrasts, tf.zeros_like(contrasts))
            values = tf.linalg.eigvalsh(finite) + 0.0 * tf.reduce_sum(contrasts)
            found.append(tf.reduce_sum(copies[:, None] * each(share[:, None] * values)))
        return tf.add_n(found)

    def precisions(self, form: Form) -> tf.Tensor:
        """W of the looks of a form, (g, k, k), x'Wx what each tells of utilities x."""
        k = form.num_places
        weight = self.counts(form) / (k * self._noise_of(form))
        return weight[:, None, None] * (k * np.eye(k) - 1.0)

    def over_items(self) -> tf.Tensor:
        n = self.problem.graph.num_rows
        total = tf.zeros([n, n], self.variance.dtype)
        for form in self.looks.forms:
            precision = self.precisions(form)
            first = np.broadcast_to(form.bucket.rows[:, :, None], precision.shape)
            index = np.stack([first, np.swapaxes(first, 1, 2)], -1)
            total = tf.tensor_scatter_nd_add(total, index, precision)
        return total


class ResidualOfPairs(ResidualOfSets):
    """The same of duels of pairs, which share an effect too: a look is at all rows of a pair, and C
    is `N^-½ R~ N^-½` of its sites.

    With N = diag(noise / counts) + w² s s' of these, s the sides the effect is on, the residual R~
    costs what it costs of independent duels with N in place of their noise: for n duels of a pair
    with k~, `tr N⁻¹R~ = n k~ / (2 sigma² + n w²)`.
    """

    looks_of = staticmethod(looks_of_pairs)

    def shared(self, form: Form) -> tf.Tensor:
        effect = pair_effect(self.problem.kernel)
        assert effect is not None
        return shared_effects(form, self.problem.graph, tf.convert_to_tensor(effect.variance))

    @property
    def copies(self) -> FloatArray:
        # Counts are in N.
        return np.ones(self.problem.graph.num_sites)

    def _whole_noise(self, form: Form) -> tf.Tensor:
        """N of the looks of a form, (g, r, r)."""
        own = self.problem.noise / as_float(self.problem.graph.counts)
        diagonal = tf.linalg.diag(tf.gather(own, form.bucket.sites))
        return diagonal + tf.transpose(self.shared(form), [2, 0, 1])

    def contrasts(self, form: Form) -> tf.Tensor:
        root = tf.linalg.cholesky(self._whole_noise(form))
        half = tf.linalg.triangular_solve(root, tf.transpose(self.within(form), [2, 0, 1]))
        return tf.linalg.triangular_solve(root, tf.linalg.matrix_transpose(half))

    def traces(self, form: Form) -> tf.Tensor:
        return tf.linalg.trace(self.contrasts(form))

    def precisions(self, form: Form) -> tf.Tensor:
        # `A'N⁻¹A`, A the differences of the sites of a pair.
        each = np.arange(form.num_places)
        ends = as_float(form.places[:, 1:] == each) - as_float(form.places[:, :1] == each)
        inverse = tf.linalg.inv(self._whole_noise(form))
        return tf.matmul(tf.matmul(ends, inverse, transpose_a=True), ends)


def pseudo_root(noise: FloatArray) -> FloatArray:
    """The square root of the pseudo-inverse of (r, r)."""
    values, vectors = np.linalg.eigh(noise)
    # Integer matrices of paths, stars and their like: the smallest is 2 - 2 cos(pi / k) > 9 / k².
    there = values > 1e-9
    scale = np.where(there, 1.0 / np.sqrt(np.where(there, values, 1.0)), 0.0)
    return np.asarray((vectors * scale) @ vectors.T)
