"""Kernel, mean function, noise, margin and inducing inputs, as one vector that parts are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.coefficients import Leans, mean_on_rows, on_rows
from sparse_prefgp.covariances.projected import num_features_of, points_of
from sparse_prefgp.data.rows import RowLayout
from sparse_prefgp.models.codec import Decoder, Encoder, decoded, encoded
from sparse_prefgp.support.arrays import FloatArray


class Hyperparameters(gpflow.Module):
    """Everything a part needs to know of a model, apart from its approximation."""

    def __init__(
        self,
        kernel: gpflow.kernels.Kernel,
        mean_function: gpflow.functions.MeanFunction | None,
        noise_variance: gpflow.Parameter,
        inducing_variable: gpflow.inducing_variables.InducingPoints,
        margin: gpflow.Parameter | None = None,
        *,
        cut_steps: tuple[gpflow.Parameter, ...] = (),
        covariate_variance: gpflow.Parameter | None = None,
        leans: Sequence[Leans] = (),
        noise_ratio: gpflow.Parameter | None = None,
        cut_scale: gpflow.Parameter | None = None,
        taste: gpflow.kernels.Kernel | None = None,
        centre: FloatArray | None = None,
    ) -> None:
        super().__init__()
        self.kernel, self.taste, self.centre = kernel, taste, centre
        self.mean_function = mean_function
        self.noise_variance = noise_variance
        self.inducing_variable = inducing_variable
        self.margin, self.cut_steps = margin, cut_steps
        self.covariate_variance = covariate_variance
        self.lean_variances = tuple(each.variance for each in leans)
        self._leaning = tuple((each.covariate, each.column, each.levels) for each in leans)
        self.noise_ratio, self.cut_scale = noise_ratio, cut_scale

    @property
    def leans(self) -> tuple[Leans, ...]:
        """All of them, with the number of their levels."""
        both = zip(self.lean_variances, self._leaning, strict=True)
        return tuple(Leans(variance, *numbers) for variance, numbers in both)

    @property
    def size(self) -> int:
        """m + C + J, the number of inducing inputs, of coefficients, and of levels that lean."""
        levels = sum(each.levels or 0 for each in self.leans)
        return int(self.inducing_variable.num_inducing) + self.row_layout.covariates + levels

    @property
    def row_layout(self) -> RowLayout:
        """What the columns of a row are."""
        covariates = 0 if self.covariate_variance is None else self.covariate_variance.shape[0]
        return RowLayout(
            num_features_of(self.inducing_variable),
            covariates=int(covariates),
            levels=len({each.column for each in self.leans}),
        )

    def on_rows(self) -> tuple[gpflow.kernels.Kernel, Callable[[tf.Tensor], tf.Tensor] | None]:
        """Kernel and mean function on rows of duels."""
        layout = self.row_layout
        return (
            on_rows(self.kernel, layout, self.covariate_variance, self.leans),
            mean_on_rows(self.mean_function, layout),
        )

    def taste_on_rows(self) -> gpflow.kernels.Kernel | None:
        """The kernel of one's own utility on rows of duels; None without tastes."""
        return None if self.taste is None else on_rows(self.taste, self.row_layout)

    def values(self) -> FloatArray:
        """All unconstrained values, one after the other."""
        return np.concatenate([v.numpy().reshape(-1) for v in self.variables]).astype(float)

    def modules(self) -> tuple[tf.Module, ...]:
        """Kernel, mean function, parameters, and what they are made of: the values are theirs."""
        return tuple(self.submodules)

    def set(self, values: FloatArray) -> None:
        """Take what `values` gave."""
        sizes = [int(np.prod(v.shape)) for v in self.variables]
        for variable, piece in zip(
            self.variables, np.split(values, np.cumsum(sizes)[:-1]), strict=True
        ):
            variable.assign(piece.reshape(variable.shape))

    def described(self) -> Description:
        """As JSON and arrays.

        :raises ValueError: a class that was not given to `register`.
        """
        encoder = Encoder()
        names = {
            **encoded(self, encoder),
            "inducing": encoder.parameter(self.inducing_variable.Z, "the inducing inputs"),
            "num_features": num_features_of(self.inducing_variable),
            "leaning": [list(each) for each in self._leaning],
            "parameters": encoder.parameters,
        }
        return Description(names, encoder.arrays)


class Description(NamedTuple):
    """Hyperparameters on their way to another process."""

    names: dict[str, Any]
    arrays: Mapping[str, np.ndarray]

    def rebuilt(self) -> Hyperparameters:
        decoder = Decoder(self.names["parameters"], self.arrays)
        parts = decoded(self.names, decoder)
        leaning = self.names.get("leaning") or []
        if self.names.get("lean_variance") is not None:  # before, groups leaned
            leaning = [(leaning[0], 0, leaning[1])]
        leans = zip(parts["lean_variances"], leaning, strict=True)
        z = decoder.parameter(self.names["inducing"])
        # Files of before have inducing inputs like the items.
        points = points_of(parts["kernel"], z, self.names.get("num_features", int(z.shape[-1])))
        return Hyperparameters(
            parts["kernel"],
            parts["mean_function"],
            parts["noise_variance"],
            points,
            parts["margin"],
            cut_steps=parts["cut_steps"],
            covariate_variance=parts["covariate_variance"],
            leans=[Leans(variance, *each) for variance, each in leans],
            noise_ratio=parts["noise_ratio"],
            cut_scale=parts["cut_scale"],
            taste=parts["taste"],
            centre=parts["centre"],
        )


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
