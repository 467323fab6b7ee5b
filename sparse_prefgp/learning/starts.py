"""Several first parameters for one model: perturbed kernels and other first inducing inputs."""

from __future__ import annotations

import numpy as np

from sparse_prefgp.covariances.projected import seen_by_inducing
from sparse_prefgp.models import PreferenceGP, kmeans_inputs

# Standard deviation of the log of what a positive parameter is multiplied by: a factor of two.
SPREAD = 0.7


def perturb(model: PreferenceGP, seed: int, start: int) -> bool:
    """Move the model from its first parameters to those of another start.

    Trainable positive parameters (lengthscales, variances) are multiplied by exp(0.7 ε) with
    normal ε; trainable inducing inputs become the k-means centres of another seed. What is fixed,
    takes both signs, or would leave the range of its transform stays.

    :param seed: decide the numbers drawn, whatever the other starts do.
    :param start: decide the numbers drawn, whatever the other starts do.
    :return: whether anything moved.
    """
    rng = np.random.default_rng([seed, start])
    inducing = None if model.inducing_variable is None else model.inducing_variable.Z
    moved = False
    for parameter in model.trainable_parameters:
        value = parameter.numpy()
        if inducing is not None and parameter is inducing:
            rows = seen_by_inducing(model.kernel, model.duels.distinct_rows()[0])
            parameter.assign(kmeans_inputs(rows, len(value), rng))
            moved |= not np.array_equal(value, parameter.numpy())
            continue
        factor = np.exp(SPREAD * rng.standard_normal(value.shape))
        if parameter.transform is None or not np.all(value > 0.0):
            continue
        proposed = parameter.transform.inverse(value * factor).numpy()
        if np.all(np.isfinite(proposed)):
            parameter.unconstrained_variable.assign(proposed)
            moved = True
    return moved
