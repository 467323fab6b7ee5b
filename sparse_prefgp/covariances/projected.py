"""Kernels on a few learned directions of many features."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from sparse_prefgp.covariances.finite import feature_part
from sparse_prefgp.support.checks import check_finite, check_number, check_shape

# The standard deviation of W about where it starts, as a share of its root mean square.
PRIOR_SHARE = 1.0


class Projected(gpflow.kernels.Kernel):
    """A kernel on q learned directions of D features: k(x, x') = kernel(x W, x' W).

    For utilities that live on few directions of many features, such as embeddings. The columns of
    W hold what lengthscales would, so that those of the kernel are left as they are; W has a normal
    prior about where it starts, which fixes scale and rotation (active subspaces with a GP prior:
    Vivarelli & Williams 1999; Tripathy et al. 2016). `initial_projection` gives a start.

    With `PreferenceGP` and no other kernel on the features, inducing inputs lie among the q
    directions, (m, q); those that are given with D columns are projected.

    :param kernel: of q features; its lengthscales are no longer trainable.
    :param W: (D, q) where the directions start; trainable.
    :param prior_share: standard deviation of each entry of W about its start, as a share of the
        root mean square of that start; None for no prior.
    :raises ValueError: W that is not a matrix of finite numbers, or is all 0; a share that is not
        positive.
    """

    def __init__(
        self,
        kernel: gpflow.kernels.Kernel,
        W: Any,
        prior_share: float | None = PRIOR_SHARE,
        active_dims: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(active_dims=active_dims, name=name)
        start = np.asarray(W, dtype=np.float64)
        check_shape("W", start, "D", "q", hint=", a column for each direction")
        check_finite("W", start)
        scale = float(np.sqrt(np.mean(start**2)))
        if not scale > 0.0:
            raise ValueError("W is all 0, so that no features count; give directions.")
        if prior_share is not None:
            check_number("prior_share", prior_share, above=0.0, hint=", or None")
        self.kernel = kernel
        self.prior_share = prior_share
        prior = None
        if prior_share is not None:
            prior = tfp.distributions.Normal(start, np.float64(prior_share * scale))
        self.W = gpflow.Parameter(start, prior=prior)
        lengthscales = getattr(kernel, "lengthscales", None)
        if isinstance(lengthscales, gpflow.Parameter):
            gpflow.set_trainable(lengthscales, False)

    @property
    def num_directions(self) -> int:
        """q."""
        return int(self.W.shape[1])

    def project(self, inputs: tf.Tensor) -> tf.Tensor:
        """Inputs (..., D and maybe more columns) as the inner kernel sees them, (..., q)."""
        seen, _ = self.slice(tf.convert_to_tensor(inputs), None)
        return tf.tensordot(seen, self.W, 1)

    def K(self, X: tf.Tensor, X2: tf.Tensor | None = None) -> tf.Tensor:
        other = None if X2 is None else tf.tensordot(X2, self.W, 1)
        return self.kernel(tf.tensordot(X, self.W, 1), other)

    def K_diag(self, X: tf.Tensor) -> tf.Tensor:
        return self.kernel(tf.tensordot(X, self.W, 1), full_cov=False)


class ProjectedPoints(gpflow.inducing_variables.InducingPoints):
    """Inducing inputs (m, q) among the directions of the one `Projected` kernel on the features.

    :param Z: (m, q).
    :param num_features: D, of the items.
    """

    def __init__(self, Z: Any, num_features: int) -> None:
        super().__init__(Z)
        self.num_features = num_features


def num_features_of(inducing: gpflow.inducing_variables.InducingPoints) -> int:
    """D, of the items that inducing inputs are like, or from which their directions are made."""
    if isinstance(inducing, ProjectedPoints):
        return inducing.num_features
    return int(inducing.Z.shape[-1])


def projection_of(kernel: gpflow.kernels.Kernel) -> Projected | None:
    """The one kernel on features that is a projection; None where there is another or none."""
    part = feature_part(kernel)
    return part if isinstance(part, Projected) else None


def seen_by_inducing(kernel: gpflow.kernels.Kernel, rows: np.ndarray) -> np.ndarray:
    """Feature rows (n, D) in the units of inducing inputs: (n, q) under a projection."""
    projection = projection_of(kernel)
    return rows if projection is None else np.asarray(projection.project(rows).numpy())


def points_of(
    kernel: gpflow.kernels.Kernel, z: Any, num_features: int
) -> gpflow.inducing_variables.InducingPoints:
    """Inducing inputs that were made in the units of `seen_by_inducing`.

    :param z: numbers, or the parameter that holds them.
    :param num_features: D, of the items.
    """
    if projection_of(kernel) is None:
        return gpflow.inducing_variables.InducingPoints(z)
    return ProjectedPoints(z, num_features)
