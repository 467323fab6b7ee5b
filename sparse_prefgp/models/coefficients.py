"""What duels say of the coefficients of their covariates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.models.posterior import each_difference
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import level_of_interval
from sparse_prefgp.support.normals import Normals
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table


@dataclass(frozen=True, eq=False)
class KnownCoefficients(Result):
    """Posterior of the coefficients beta, in units of utility per unit of the covariate.

    The probability that a wins rises with `beta (x_a - x_b)`.
    """

    names: tuple[str, ...]
    """(C + J,): of the covariates, then for each lean `NAME of LABEL` for each level, or `NAME of
    COLUMN LABEL` where several columns lean."""
    mean: FloatArray
    """(C + J,)."""
    variance: FloatArray
    """(C + J,); below 0 only by rounding, and then taken for 0."""
    level: float
    """Of the intervals."""
    jointly: Callable[[], FloatArray]
    """Makes the covariance, which of thousands of leans costs far more than all else."""
    normals: Normals | None = None
    """Of the coefficients, where hyperparameters are integrated out."""

    also: ClassVar[tuple[str, ...]] = ("covariance",)
    aside: ClassVar[tuple[str, ...]] = ("jointly",)

    @cached_property
    def covariance(self) -> FloatArray:
        """(C + J, C + J)."""
        return self.jointly()

    @property
    def sd(self) -> FloatArray:
        """(C + J,)."""
        return np.sqrt(np.maximum(self.variance, 0.0))

    @property
    def interval(self) -> FloatArray:
        """(C + J, 2), lower and upper ends."""
        return self.marginals.interval(self.level)

    @property
    def marginals(self) -> Normals:
        """Of the C + J coefficients, one normal each where nothing is integrated out."""
        return self.normals or Normals.of(self.mean, self.variance)

    def table(self, most: int | None = None) -> Table:
        """`name`, `mean`, `sd`, and `lower` and `upper` ends of the interval of each."""
        of_numbers = ("mean", "sd", "lower", "upper")
        columns = [Column("name", "covariate", left=True)]
        columns += [Column(name, name, "z.4g") for name in of_numbers]
        numbers = np.column_stack([self.mean, self.sd, self.interval]).tolist()
        rows = [
            {"name": name, **dict(zip(of_numbers, row, strict=True))}
            for name, row in zip(self.names, numbers, strict=True)
        ]
        return Table("coefficients", "", columns, rows[:most])

    @classmethod
    def of(cls, model: Any, level: float) -> KnownCoefficients:
        """:raises ValueError: see `PreferenceGP.coefficients`."""
        level = level_of_interval(level)
        names = model.duels.covariate_names
        if not names:
            raise together.refused(coefficients=True, no_covariates="duels without covariates")
        layout, levels, labels = model.inputs.layout, model.duels.label_names, model.terms.labels
        effects, c = model.terms.effects(model.inputs.columns), len(names)
        # beta_c is what a row with x_c = 1 is above the same row without.
        rows = np.full((1 + c, layout.width), -1.0)
        rows[:, : layout.features] = model.duels.items[0]
        if layout.dated:
            rows[:, layout.date : layout.first_covariate] = model.in_time.last_date
        rows[:, layout.first_covariate : layout.first_level] = np.eye(1 + c, c, -1)
        called, less, parts = list(names), [0] * c, [rows]
        for one in effects:
            count, said = len(levels[one.by]), f"{one.by} " if len(labels) > 1 else ""
            called += [f"{one.covariate} of {said}{label}" for label in levels[one.by]]
            common = 1 + names.index(one.covariate)
            less += [common] * count  # the lean alone, without the common coefficient
            leaning = np.tile(rows[common], (count, 1))
            leaning[:, one.level] = np.arange(count)
            parts.append(leaning)
        rows, count = np.concatenate(parts), len(called)
        numbers = rows[:, layout.first_level :]
        numbers[:] = np.where(numbers < 0.0, -1.0 - np.arange(1 + count)[:, None], numbers)
        posterior = model.posterior()
        pairs = np.stack([rows[1:], rows[less]], 1)
        both = each_difference(posterior, tf.constant(pairs, gpflow.default_float())).numpy()
        # Whatever is not known leans too, independently of all else.
        unknown = np.zeros(len(rows))
        for one in effects:
            x = rows[:, one.place] * (rows[:, one.level] < 0.0)
            unknown += one.variance.numpy() * x**2
        variance = both[:, 1] - unknown[1:] - unknown[less]

        def jointly() -> FloatArray:
            _, covariance = posterior.joint(tf.constant(rows, gpflow.default_float()))
            step = np.eye(count, 1 + count, 1)
            step[np.arange(count), less] -= 1.0
            return step @ (covariance.numpy() - np.diag(unknown)) @ step.T

        return cls(tuple(called), both[:, 0], variance, level, jointly)
