"""What a model is made of as one tree of parameters: by it a model is copied, frozen and saved, and
one vector of it is sent to the parts of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import gpflow
import numpy as np

from sparse_prefgp.approximations.base import DuelProblem
from sparse_prefgp.covariances.coefficients import mean_on_rows, on_rows
from sparse_prefgp.covariances.projected import num_features_of
from sparse_prefgp.data.rows import RowLayout
from sparse_prefgp.models.codec import decoded, encoded
from sparse_prefgp.models.likelihood import Probit
from sparse_prefgp.models.parameters import assign_flat, flat_values
from sparse_prefgp.models.terms import Columns, Terms
from sparse_prefgp.support.arrays import FloatArray


def parts_of(model: Any) -> dict[str, Any]:
    """What a model is made of but its duels, its approximation and its engine: all parameters, by
    the names of its attributes."""
    names = "kernel", "mean_function", "inducing_variable", "terms", "likelihood", "centre"
    return {name: getattr(model, name) for name in names}


@dataclass(eq=False, repr=False)
class Hyperparameters(gpflow.Module):
    """All that a model is made of but its duels, its approximation and its engine."""

    kernel: gpflow.kernels.Kernel
    mean_function: gpflow.functions.MeanFunction | None
    inducing_variable: gpflow.inducing_variables.InducingPoints | None
    terms: Terms
    likelihood: Probit
    centre: FloatArray | None
    columns: Columns
    """Of the rows that kernels take."""

    def __post_init__(self) -> None:
        super().__init__()

    @classmethod
    def of_stream(
        cls, parts: Mapping[str, Any], covariates: tuple[str, ...], levels: tuple[int, ...]
    ) -> Self:
        """Those of a model in chunks.

        :param parts: as of `parts_of`.
        :param covariates: names of those of the duels.
        :param levels: how many labels each of the columns has that terms look at.
        """
        features = num_features_of(parts["inducing_variable"])
        layout = RowLayout(features, covariates=len(covariates), levels=len(levels))
        columns = Columns(layout, covariates, parts["terms"].labels, levels)
        return cls(**parts, columns=columns)

    @property
    def size(self) -> int:
        """m + C + J, the number of inducing inputs, of coefficients, and of levels that lean."""
        assert self.inducing_variable is not None
        kernels = self.terms.kernels(self.columns)
        own = sum(kernel.num_own(None) for kernel in kernels)
        return int(self.inducing_variable.num_inducing) + own

    def problem(self, graph: Any = None, **more: Any) -> DuelProblem:
        """The model before any approximation, at the parameters as they are.

        :param graph: of the duels; None for that of all chunks, each of which has its own.
        :param more: by the names of `DuelProblem`.
        """
        taste, layout = self.terms.taste, self.columns.layout
        return DuelProblem(
            graph,
            on_rows(self.kernel, layout, self.terms.kernels(self.columns)),
            mean_on_rows(self.mean_function, layout),
            inducing_variable=self.inducing_variable,
            taste=None if taste is None else on_rows(taste, layout),
            centre=self.centre,
            **self.likelihood.tensors(),
            **more,
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
        of_rows = {"covariates": list(self.columns.covariates), "levels": self.columns.levels}
        return Description(names | of_rows, arrays)


class Description(NamedTuple):
    """Hyperparameters of a stream as they are saved, and on their way to another process."""

    names: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def rebuilt(self) -> Hyperparameters:
        covariates, levels = (tuple(self.names[name]) for name in ("covariates", "levels"))
        return Hyperparameters.of_stream(decoded(*self), covariates, levels)
