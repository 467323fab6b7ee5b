"""Kernel, mean function, noise, margin and inducing inputs, as one vector that parts are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.approximations.base import CompiledKernel, DuelProblem
from sparse_prefgp.covariances.coefficients import mean_on_rows, on_rows
from sparse_prefgp.covariances.projected import num_features_of
from sparse_prefgp.data.rows import RowLayout
from sparse_prefgp.models.codec import decoded, encoded
from sparse_prefgp.models.likelihood import Probit
from sparse_prefgp.models.parameters import assign_flat, flat_values
from sparse_prefgp.models.terms import Columns, Terms
from sparse_prefgp.support.arrays import FloatArray

# What a model in chunks is made of, besides its approximation.
PARTS = ("kernel", "mean_function", "inducing_variable", "terms", "likelihood", "centre")


@dataclass(eq=False, repr=False)
class Hyperparameters(gpflow.Module):
    """Everything a part needs to know of a model, apart from its approximation."""

    kernel: gpflow.kernels.Kernel
    mean_function: gpflow.functions.MeanFunction | None
    inducing_variable: gpflow.inducing_variables.InducingPoints
    terms: Terms
    likelihood: Probit
    centre: FloatArray | None = None
    covariates: tuple[str, ...] = ()
    """Names of the covariates of the duels."""
    levels: tuple[int, ...] = ()
    """How many labels each of the columns has that terms look at."""

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def size(self) -> int:
        """m + C + J, the number of inducing inputs, of coefficients, and of levels that lean."""
        kernels = self.terms.kernels(self.columns)
        own = sum(kernel.num_own(None) for kernel in kernels)
        return int(self.inducing_variable.num_inducing) + own

    @property
    def row_layout(self) -> RowLayout:
        """What the columns of a row are."""
        features = num_features_of(self.inducing_variable)
        covariates, levels = len(self.covariates), len(self.levels)
        return RowLayout(features, covariates=covariates, levels=levels)

    @property
    def columns(self) -> Columns:
        """Whose they are."""
        return Columns(self.row_layout, self.covariates, self.terms.labels, self.levels)

    def problem(self, compiled: CompiledKernel | None = None) -> DuelProblem:
        """That of all chunks, at the parameters as they are; each chunk has its own graph."""
        taste, layout = self.terms.taste, self.row_layout
        return DuelProblem(
            cast(Any, None),
            on_rows(self.kernel, layout, self.terms.kernels(self.columns)),
            mean_on_rows(self.mean_function, layout),
            inducing_variable=self.inducing_variable,
            compiled=compiled,
            taste=None if taste is None else on_rows(taste, layout),
            centre=self.centre,
            **self.likelihood.tensors(),
        )

    def values(self) -> FloatArray:
        """All unconstrained values, one after the other."""
        return flat_values(self.variables).astype(float)

    def set(self, values: FloatArray) -> None:
        """Take what `values` gave."""
        assign_flat(values, self.variables)

    def described(self) -> Description:
        """As JSON and arrays.

        :raises ValueError: a class that was not given to `register`.
        """
        names, arrays = encoded(self)
        columns = {"covariates": list(self.covariates), "levels": list(self.levels)}
        return Description({**names, **columns}, arrays)


class Description(NamedTuple):
    """Hyperparameters on their way to another process."""

    names: dict[str, Any]
    arrays: Mapping[str, np.ndarray]

    def rebuilt(self) -> Hyperparameters:
        columns: dict[str, Any] = {key: tuple(self.names[key]) for key in ("covariates", "levels")}
        return Hyperparameters(**decoded(self.names, self.arrays), **columns)


def flat_gradient(
    tape: tf.GradientTape, target: Any, variables: Any, upstream: Any = None
) -> tf.Tensor:
    """Gradient in all variables, one after the other, zero where there is none."""
    gradients = tape.gradient(
        target,
        variables,
        output_gradients=upstream,
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return tf.concat([tf.reshape(tf.convert_to_tensor(g), [-1]) for g in gradients], 0)
