"""Why a log evidence is not finite, and what can be set to make it so."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations import DuelProblem
from sparse_prefgp.covariances.finite import feature_part
from sparse_prefgp.covariances.kernels import as_float, between_inducing
from sparse_prefgp.support.linalg import MAX_CONDITION, cholesky_with_jitter

# What helps where nothing is known to be wrong.
REMEDIES = (
    "raise the noise variance (--noise-variance), which is as good as lowering the kernel's, take "
    "fewer inducing inputs (--inducing), or another kernel"
)
# Above this many times the noise, the variance of a difference has too few digits left.
_LARGEST_RATIO = 1e12


def cause_and_remedies(problem: DuelProblem) -> str:
    """Of a model whose log evidence is not finite, the end of a sentence without its stop."""
    rows = as_float(problem.graph.rows)
    variance = problem.kernel(rows, full_cov=False).numpy()
    if not np.all(np.isfinite(variance)):
        return (
            f"the kernel is not finite on the items, whose features reach "
            f"{np.max(np.abs(rows)):.3g}: standardise them, or take another kernel or smaller "
            "parameters"
        )
    if problem.mean_function is not None:
        mean = tf.convert_to_tensor(problem.mean_function(rows)).numpy()
        if not np.all(np.isfinite(mean)):
            return "the mean function is not finite on the items: change it, or leave it out"
    noise = problem.noise.numpy()
    if not np.max(variance) <= _LARGEST_RATIO * np.min(noise):
        return (
            f"the kernel's variance is {np.max(variance):.2g} and the noise of a duel "
            f"{np.min(noise):.2g}: raise the noise variance (--noise-variance), or lower the "
            "kernel's"
        )
    if problem.inducing_variable is not None:
        k_uu = between_inducing(problem.inducing_variable, feature_part(problem.kernel))
        if not np.all(np.isfinite(cholesky_with_jitter(k_uu, MAX_CONDITION)[0].numpy())):
            return (
                "the kernel matrix of the inducing inputs is not positive definite: take fewer "
                "(--inducing), remove those that nearly coincide, or take another kernel"
            )
    return REMEDIES
