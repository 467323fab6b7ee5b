"""A board by dense matrices: a column is asked about by adding it, votes are left out by leaving
out their rows, ties are added up by convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

Floats = npt.NDArray[np.float64]


def design(votes: Any) -> tuple[Floats, Floats]:
    """Columns (t, d) of utilities, covariates and leans, and the precision (d,) of their priors."""
    t, models = len(votes.ahead), len(votes.names)
    items = np.zeros((t, models))
    for i in range(t):
        items[i, votes.model_of_row[votes.ahead[i]]] += 1.0
        items[i, votes.model_of_row[votes.behind[i]]] -= 1.0
    columns = [items, votes.covariates]
    precision = [1.0 / np.diag(votes.prior @ votes.prior.T), 1.0 / votes.variances]
    for lean in votes.leans:
        each = np.zeros((t, len(lean.labels.names)))
        for i in range(t):
            each[i, lean.labels.numbers[i]] = votes.covariates[i, lean.covariate]
        columns.append(each)
        precision.append(np.full(each.shape[1], 1.0 / lean.variance))
    return np.concatenate(columns, 1), np.concatenate(precision)


def posterior(
    votes: Any, columns: Floats, precision: Floats, kept: Any = None
) -> tuple[Floats, Floats]:
    """Mean (d,) and covariance (d, d), by the sites of the votes that are kept."""
    rows = np.ones(len(columns), bool) if kept is None else kept
    tau, nu = ((site * votes.counts)[rows] for site in (votes.tau, votes.nu))
    x = columns[rows]
    covariance = np.linalg.inv(x.T @ np.diag(tau) @ x + np.diag(precision))
    return covariance @ (x.T @ nu), covariance


def with_column(votes: Any, column: Floats) -> tuple[float, float]:
    """The number of a column with a flat prior, and its sd."""
    columns, precision = design(votes)
    mean, covariance = posterior(
        votes, np.column_stack([columns, column]), np.append(precision, 0.0)
    )
    return float(mean[-1]), float(np.sqrt(covariance[-1, -1]))


def without_prior(votes: Any, number: int) -> tuple[float, float]:
    """One of the numbers of the board without its prior, and its sd."""
    columns, precision = design(votes)
    precision[number] = 0.0
    mean, covariance = posterior(votes, columns, precision)
    return float(mean[number]), float(np.sqrt(covariance[number, number]))


def of_category(votes: Any, row: int) -> tuple[float, float]:
    """By how much a model is better in one category than in its others, and its sd, the prior of
    the differences between its categories being left out."""
    columns, precision = design(votes)
    models, t = len(votes.names), len(votes.ahead)
    rows = np.zeros((t, len(votes.prior)))
    for i in range(t):
        rows[i, votes.ahead[i]], rows[i, votes.behind[i]] = 1.0, -1.0
    covariance = votes.prior @ votes.prior.T
    own = np.flatnonzero(votes.model_of_row == votes.model_of_row[row])
    differences = np.zeros((len(own) - 1, len(covariance)))
    for i, other in enumerate(own[own != row]):
        differences[i, row], differences[i, other] = 1.0, -1.0
    told = differences.T @ np.linalg.inv(differences @ covariance @ differences.T) @ differences
    both = np.diag(np.append(np.zeros(len(covariance)), precision[len(covariance) :]))
    both[: len(covariance), : len(covariance)] = np.linalg.inv(covariance) - told
    whole = np.concatenate([rows, columns[:, models:]], 1)
    tau, nu = votes.tau * votes.counts, votes.nu * votes.counts
    after = np.linalg.inv(whole.T @ np.diag(tau) @ whole + both)
    contrast = np.append(differences.mean(0), np.zeros(len(whole[0]) - len(covariance)))
    mean = contrast @ after @ whole.T @ nu
    return float(mean), float(np.sqrt(contrast @ after @ contrast))


def utilities_without(votes: Any, which: Any) -> tuple[Floats, Floats]:
    """Mean and variance of utilities of models, less their mean, without some votes (t,)."""
    mean, covariance = posterior(votes, *design(votes), ~which)
    models = len(votes.names)
    centred = np.eye(models) - 1.0 / models
    return centred @ mean[:models], np.diag(centred @ covariance[:models, :models] @ centred)


def chances(mean: Floats, variance: Floats, noise: Floats, margin: Floats) -> Floats:
    """(3, t) of a win, a tie and a loss."""
    scale = np.sqrt(variance + noise)
    won, lost = norm.cdf((mean - margin) / scale), norm.cdf((-mean - margin) / scale)
    return np.stack([won, 1.0 - won - lost, lost])


def at_least(p: Floats, seen: int, draw: float) -> float:
    """P(more than seen) of Bernoulli numbers, and a share of P(as many)."""
    distribution = np.ones(1)
    for each in p:
        distribution = np.convolve(distribution, [1.0 - each, each])
    return float(distribution[seen + 1 :].sum() + draw * distribution[seen])


def upper_tail(values: Floats, p: Floats, total: float) -> float:
    """P(sum >= total) of a few numbers (k, t), by all that they may be."""
    sums, chance = np.zeros(1), np.ones(1)
    for each, weight in zip(values.T, p.T, strict=True):
        sums = (sums[:, None] + each).reshape(-1)
        chance = (chance[:, None] * weight).reshape(-1)
    return float(chance[sums >= total - 1e-12].sum())
