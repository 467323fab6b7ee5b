"""Probabilities of choices and rankings of normal utilities by general quadrature."""

from itertools import pairwise, permutations

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

Array = NDArray[np.float64]


def choice_of_independent(mean: Array, variance: Array, chosen: int) -> float:
    """P(y_chosen is the largest), y independent with these variances."""
    sd = np.sqrt(variance)

    def inside(y: float) -> float:
        others = np.delete(norm.cdf((y - mean) / sd), chosen)
        return float(norm.pdf(y, mean[chosen], sd[chosen]) * np.prod(others))

    low, high = mean[chosen] - 12.0 * sd[chosen], mean[chosen] + 12.0 * sd[chosen]
    return float(quad(inside, low, high, epsabs=0.0, epsrel=1e-12, limit=500)[0])


def ranking(mean: Array, observed: Array, order: tuple[int, ...]) -> float:
    """P of an order of at most four, y with the covariance `observed`, as an orthant."""
    rows = np.zeros((len(order) - 1, len(mean)))
    for row, (better, worse) in zip(rows, pairwise(order), strict=True):
        row[worse], row[better] = 1.0, -1.0
    law = multivariate_normal(rows @ mean, rows @ observed @ rows.T)
    return float(law.cdf(np.zeros(len(rows))))


def choice(mean: Array, observed: Array, chosen: int) -> float:
    """The sum of all rankings that begin with it: no formula for choices at all."""
    others = [i for i in range(len(mean)) if i != chosen]
    return sum(ranking(mean, observed, (chosen, *rest)) for rest in permutations(others))
