"""What inducing values leave unexplained of the duels of one pair, which share its effect too.

With N = diag(noise / counts) + w² s s' of the sites of a pair, s the sides its effect is on, the
residual R~ of these costs what it costs of independent duels with N in place of their noise: for n
duels of a pair with k~, `tr N⁻¹R~ = n k~ / (2 sigma² + n w²)`.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.set_residual import ResidualOfSets
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.covariances.multinomial_probit import Form
from sparse_prefgp.covariances.pair_effect import looks_of_pairs, pair_effect, shared_effects
from sparse_prefgp.support.arrays import FloatArray


class ResidualOfPairs(ResidualOfSets):
    """The same of pairs: a look is at all rows of a pair, and C is `N^-½ R~ N^-½` of its sites."""

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
