"""The door between approximations and engines: a zero-mean Gaussian z that can be conditioned."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import tensorflow as tf
from check_shapes import check_shapes

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


class PosteriorTerms(Protocol):
    """With p features a of a new input: E f = a weights, Var f = k - a reduction a'.

    Where the first m features are of u and the others of effects, of which an input sees few, parts
    of the reduction are asked for by the places of effects among these.
    """

    @property
    def weights(self) -> tf.Tensor:
        """(p,)."""

    @property
    def reduction(self) -> tf.Tensor:
        """(p, p)."""

    def of_u(self, m: int) -> tf.Tensor:
        """(m, m) of the reduction."""

    def with_u(self, m: int, place: tf.Tensor) -> tf.Tensor:
        """(N, m) of the reduction, of effects (N,) with u."""

    def between(self, m: int, place: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        """(N,) of the reduction, of effects (N,) with other ones."""


class WholeTerms(NamedTuple):
    """The reduction in one piece."""

    weights: tf.Tensor
    reduction: tf.Tensor

    def of_u(self, m: int) -> tf.Tensor:
        return self.reduction[:m, :m]

    def with_u(self, m: int, place: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.reduction[m:, :m], place)

    def between(self, m: int, place: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        return tf.gather_nd(self.reduction, tf.stack([place + m, other + m], 1))


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
