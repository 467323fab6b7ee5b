"""Coefficients of the covariates of a duel: their parameters, and what the duels say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from scipy.special import ndtri

from sparse_prefgp.covariances.coefficients import Leans
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.data.leaning import Leaning
from sparse_prefgp.models.protocols import KnownDuels
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import check_number, level_of_interval
from sparse_prefgp.support.words import shortened
from sparse_prefgp.tell.result import Result
from sparse_prefgp.tell.tables import Column, Table

if TYPE_CHECKING:
    from sparse_prefgp.models.preference_gp import PreferenceGP
    from sparse_prefgp.models.streaming.model import StreamedGP

# Of a coefficient times the root mean square of its covariate, to begin from.
FIRST_VARIANCE = 0.25
# Standard deviation of the log of these variances, beforehand.
VARIANCE_LOG_SD = 1.0
# Each is an inducing value more: P has as many rows and columns.
MOST_COEFFICIENTS = 2000


def covariate_parameter(given: Any, duels: KnownDuels) -> gpflow.Parameter | None:
    """Prior variances of the coefficients, (C,), in units of 1 / covariate²; None without any.

    The log of each has a normal prior about what it begins from.

    :raises ValueError: what is no positive number for each covariate, or given without covariates;
        none given for a covariate that is the same on all sides.
    """
    squares = duels.covariate_squares
    if squares is None:
        return None
    for c in np.flatnonzero(squares == 0.0)[:1] if given is None else ():
        raise ValueError(
            f"The covariate {duels.covariate_names[c]!r} is the same for all sides of each event, "
            "so that nothing can be learned of it; leave it out, or give covariate_variance."
        )
    array = np.asarray(FIRST_VARIANCE / squares if given is None else given)
    shape = squares.shape
    if array.shape not in ((), shape) or array.dtype.kind not in "iuf" or not np.all(array > 0.0):
        raise ValueError(
            f"covariate_variance is {shortened(given)}; give a positive number, or one for each of "
            f"the {shape[0]} covariates."
        )
    return _variance(np.broadcast_to(array, shape))


def lean_parameters(leaning: Leaning, duels: KnownDuels) -> tuple[gpflow.Parameter, ...]:
    """The variance of each lean."""
    names, squares = duels.covariate_names, duels.covariate_squares
    found = []
    for _, covariate in leaning.pairs:
        assert squares is not None
        found.append(_variance(np.array(FIRST_VARIANCE / squares[names.index(covariate)])))
    return tuple(found)


def lean_terms(
    leaning: Leaning,
    variances: Sequence[gpflow.Parameter],
    duels: KnownDuels,
    counted: bool = False,
) -> tuple[Leans, ...]:
    """Each lean of a kernel on rows.

    :param counted: of all levels of the duels, as for chunks of them.
    """
    return tuple(
        Leans(
            variance,
            duels.covariate_names.index(covariate),
            leaning.columns.index(column),
            len(duels.label_names[column]) if counted else None,
        )
        for variance, (column, covariate) in zip(variances, leaning.pairs, strict=True)
    )


def people_parameter(given: Any, duels: Duels, tastes: bool) -> gpflow.Parameter | None:
    """The variance of the coefficients by which features of people move what they prefer; None
    where these have none, or no tastes.

    Its log has a normal prior about what it begins from.

    :raises ValueError: what is no positive number, or given without tastes or features of people;
        items without features; more than 2,000 pairs of features.
    """
    features = duels.people_features
    if features is None or not tastes:
        return None
    of_items, of_people = duels.num_features, features.values.shape[1]
    if not 0 < of_items * of_people <= MOST_COEFFICIENTS:
        raise ValueError(
            f"The people have {of_people:,} features and the items {of_items:,}, which makes "
            f"{of_items * of_people:,} coefficients, and there can be 1 to {MOST_COEFFICIENTS:,}; "
            "leave the features of people out, or reduce those of the items."
        )
    if given is None:
        theirs = features.of(duels.people_names or ())
        size = np.sum(np.var(theirs, 0)) * np.sum(np.var(duels.items, 0))
        if not size > 0.0:
            raise ValueError(
                "All people have the same features, or all items, so that nothing can be learned "
                "of people by these; leave the features of people out."
            )
        given = FIRST_VARIANCE / size
    check_number("people_variance", given, above=0.0)
    return _variance(np.array(float(given)))


def _variance(value: FloatArray) -> gpflow.Parameter:
    # By its log: its unit is that of the covariate, which may be anything. One coefficient says too
    # little of the variance that it was drawn with: without a prior the most likely one is often 0,
    # and its interval a point.
    prior = tfp.distributions.LogNormal(np.log(value), np.float64(VARIANCE_LOG_SD))
    return gpflow.Parameter(value, transform=tfp.bijectors.Exp(), prior=prior)


@dataclass(frozen=True, eq=False)
class Coefficients(Result):
    """Posterior of the coefficients beta, in units of utility per unit of the covariate.

    The probability that a wins rises with `beta (x_a - x_b)`.
    """

    names: tuple[str, ...]
    """(C + J,): of the covariates, then for each lean `NAME of LABEL` for each level, or `NAME of
    COLUMN LABEL` where several columns lean."""
    mean: FloatArray
    """(C + J,)."""
    covariance: FloatArray
    """(C + J, C + J)."""
    level: float
    """Of the intervals."""

    @property
    def sd(self) -> FloatArray:
        """(C + J,)."""
        return np.asarray(np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    @property
    def interval(self) -> FloatArray:
        """(C + J, 2), lower and upper ends."""
        half = float(ndtri(0.5 + 0.5 * self.level)) * self.sd
        return np.stack([self.mean - half, self.mean + half], 1)

    def table(self, most: int | None = None) -> Table:
        """`name`, `mean`, `sd`, and `lower` and `upper` ends of the interval of each."""
        columns = [Column("name", "covariate", left=True)]
        columns += [Column(name, name, "z.4g") for name in ("mean", "sd", "lower", "upper")]
        numbers = np.column_stack([self.mean, self.sd, self.interval]).tolist()
        rows = [
            {"name": name, "mean": mean, "sd": sd, "lower": lower, "upper": upper}
            for name, (mean, sd, lower, upper) in zip(self.names, numbers, strict=True)
        ]
        return Table("coefficients", "", columns, rows[:most])

    @classmethod
    def of(cls, model: PreferenceGP | StreamedGP, level: float) -> Coefficients:
        """:raises ValueError: see `PreferenceGP.coefficients`."""
        level = level_of_interval(level)
        names = model.duels.covariate_names
        if not names:
            raise ValueError(
                "The duels of the model have no covariates; give them (Duels(…, covariates=…))."
            )
        layout, leaning, levels = model.row_layout, model.leaning, model.duels.label_names
        called, of_row, of_level = list(names), [*range(len(names))], [(-1, -1)] * len(names)
        for column, covariate in leaning.pairs if layout.levels else ():
            place, which = leaning.columns.index(column), names.index(covariate)
            said = f"{column} " if len(leaning.columns) > 1 else ""
            called += [f"{covariate} of {said}{label}" for label in levels[column]]
            of_row += [which] * len(levels[column])
            of_level += [(place, number) for number in range(len(levels[column]))]
        count = len(called)
        # beta_c is what a row with x_c = 1 is above the same row without.
        rows = np.zeros((1 + count, layout.width))
        rows[:, : layout.features] = model.duels.items[0]
        rows[:, layout.number : layout.first_covariate] = -1.0
        if layout.dated:
            rows[:, layout.date : layout.first_covariate] = model.in_time.last_date
        rows[1 + np.arange(count), layout.first_covariate + np.array(of_row)] = 1.0
        rows[:, layout.first_level :] = -1.0 - np.arange(1 + count)[:, None]
        own = np.arange(len(names), count)
        for row in own:
            place, number = of_level[row]
            rows[1 + row, layout.first_level + place] = number
        mean, covariance = model.posterior().joint(tf.constant(rows, gpflow.default_float()))
        mean, covariance = mean.numpy(), covariance.numpy()
        # Whatever is not known leans too, independently of all else.
        for term in lean_terms(leaning, model.lean_variances, model.duels) if layout.levels else ():
            x = rows[:, layout.first_covariate + term.covariate]
            unknown = rows[:, layout.first_level + term.column] < 0.0
            covariance -= np.diag(term.variance.numpy() * x**2 * unknown)
        step = np.column_stack([-np.ones(count), np.eye(count)])
        step[own, 0] = 0.0  # the lean alone, without the common coefficient
        step[own, 1 + np.array(of_row)[own]] = -1.0
        return cls(tuple(called), step @ mean, step @ covariance @ step.T, level)
