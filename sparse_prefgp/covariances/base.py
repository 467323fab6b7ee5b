"""The door between approximations and engines: a zero-mean Gaussian z that can be conditioned."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import tensorflow as tf
from check_shapes import check_shapes

from sparse_prefgp.support.linalg import add_to_diagonal

# What a covariance computed under sites: tensors in tuples by name, read by nobody but itself.
Intermediates: TypeAlias = Any


class Marginals(NamedTuple):
    """The Gaussian over z after multiplication with Gaussian sites."""

    mean: tf.Tensor
    """(t,) of z."""
    variance: tf.Tensor
    """(t,) of z."""
    half_log_det: tf.Tensor
    """½ log|P|, with |P| = |I + T^½ K_vv T^½| the determinant by which the sites shrink the prior.
    """
    kept: Intermediates
    """What `surrogate` wants back, so that nothing is factorised twice."""
    left_out: tuple[tf.Tensor, tf.Tensor] | None = None
    """Mean and variance of each z_i without its own site, where the covariance can give them more
    exactly than by dividing the site out; else None.
    """


class SequentialState(NamedTuple):
    """Posterior covariance and mean of the variables that the z_i are linear in."""

    covariance: tf.Tensor
    mean: tf.Tensor


class Column(NamedTuple):
    """What one site needs to be updated: Cov[variables, z_i], and the marginal of z_i."""

    covariance: tf.Tensor
    mean: tf.Tensor
    variance: tf.Tensor


class WholeTerms(NamedTuple):
    """With p features a of a new input: E f = a weights, Var f = k - a reduction a'.

    Where the first m features are of u and the others of effects, of which an input sees few, parts
    of the reduction are asked for by the places of effects among these.
    """

    weights: tf.Tensor
    """(p,)."""
    reduction: tf.Tensor
    """(p, p)."""

    def of_u(self, m: int) -> tf.Tensor:
        """(m, m) of the reduction."""
        return self.reduction[:m, :m]

    def with_u(self, m: int, place: tf.Tensor) -> tf.Tensor:
        """(N, m) of the reduction, of effects (N,) with u."""
        return tf.gather(self.reduction[m:, :m], place)

    def between(self, m: int, place: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        """(N,) of the reduction, of effects (N,) with other ones."""
        return tf.gather_nd(self.reduction, tf.stack([place + m, other + m], 1))


class LevelTerms(NamedTuple):
    """The same of u and of the effects of levels, of which only these parts are kept."""

    weights: tf.Tensor
    """(m + L q,)."""
    covariance: tf.Tensor
    """P⁻¹, (m, m)."""
    gain: tf.Tensor
    """G, (L, q, q)."""
    crossed: tf.Tensor
    """G R, (L q, m)."""

    @property
    def reduction(self) -> tf.Tensor:
        # 1 less the covariance of (u, e), of which that of e given u is in blocks: of thousands of
        # levels it is large, and made with one copy.
        m, q = self.covariance.shape[0], self.gain.shape[-1]
        around = tf.concat([self.covariance, -tf.matmul(self.crossed, self.covariance)], 0)
        through = tf.concat([tf.eye(m, dtype=around.dtype), -self.crossed], 0)
        rest = tf.matmul(-around, through, transpose_b=True)
        effects = m + np.arange(q * self.gain.shape[0]).reshape(-1, q)
        rows = np.append(np.arange(m), np.repeat(effects, q))
        columns = np.append(np.arange(m), np.repeat(effects, q, axis=0))
        of_level = tf.reshape(tf.eye(q, dtype=rest.dtype) - self.gain, [-1])
        own = tf.concat([tf.ones([m], rest.dtype), of_level], 0)
        return tf.tensor_scatter_nd_add(rest, np.stack([rows, columns], 1), own)

    def of_u(self, m: int) -> tf.Tensor:
        return add_to_diagonal(-self.covariance, 1.0)

    def with_u(self, m: int, place: tf.Tensor) -> tf.Tensor:
        return tf.matmul(tf.gather(self.crossed, place), self.covariance)

    def between(self, m: int, place: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        q = self.gain.shape[-1]
        level, own = place // q, place % q
        among = tf.one_hot(own, q, dtype=self.gain.dtype)
        of_level = tf.reduce_sum(tf.gather(self.gain, level) * among[:, :, None], 1)
        left = among - of_level  # of each effect of the level
        seen = tf.gather(left, other % q, axis=1, batch_dims=1)
        explained = self.with_u(m, place) * tf.gather(self.crossed, other)
        same = tf.cast(level == other // q, seen.dtype)
        return same * seen - tf.reduce_sum(explained, -1)


PosteriorTerms: TypeAlias = WholeTerms | LevelTerms


class Covariance(Protocol):
    """The door: all that an engine, the evidence and a prediction ask of the prior of z over t
    sites.

    `precision` and `shift` are the natural parameters of the Gaussian sites on z, (t,), already
    multiplied by the counts: c tau and c nu.
    """

    @check_shapes(
        "precision: [t]",
        "shift: [t]",
        "return.mean: [t]",
        "return.variance: [t]",
        "return.half_log_det: []",
    )
    def marginals(self, precision: tf.Tensor, shift: tf.Tensor) -> Marginals:
        """Condition on the sites; O(1) passes over whatever the covariance keeps."""
        raise NotImplementedError

    def surrogate(self, precision: tf.Tensor, shift: tf.Tensor, kept: Intermediates) -> tf.Tensor:
        """A scalar with the gradient of ½ h'P⁻¹h - ½ log|P| in everything the covariance was
        built from, the sites held constant. Its value means nothing.

        `kept` is what `marginals` returned for the same sites."""

    def quadratic(self, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """left' K right for the covariance K of z and (t,), (t,), with its gradient in K."""

    def predict(self, precision: tf.Tensor, shift: tf.Tensor) -> PosteriorTerms:
        """What the sites say of new inputs, for the features that the approximation names."""


@runtime_checkable
class SequentialCovariance(Covariance, Protocol):
    """One whose sites can be updated one after the other, as `SequentialEP` alone does."""

    def start(self, precision: tf.Tensor, shift: tf.Tensor) -> SequentialState:
        """State of the sequential engine under the sites."""

    def column(self, state: SequentialState, site: tf.Tensor) -> Column:
        """The column of one site under `state`."""

    def left_out(
        self, precision: tf.Tensor, shift: tf.Tensor, site: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor] | None:
        """Mean and variance of z_i without its site, recomputed exactly; None where dividing the
        site out is exact enough."""
        return None


class SequentialOverSites(SequentialCovariance):
    """One whose state is of the z themselves, (t, t)."""

    def column(self, state: SequentialState, site: tf.Tensor) -> Column:
        column = state.covariance[:, site]
        return Column(column, mean=state.mean[site], variance=column[site])
