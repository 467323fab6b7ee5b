"""Probabilities of choices and rankings of normal utilities by general quadrature."""

from itertools import pairwise, permutations

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import dblquad, quad
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


def ranking_of_four_independent(mean: Array, variance: Array) -> float:
    """P(y_0 > y_1 > y_2 > y_3), over the two in the middle."""
    sd = np.sqrt(variance)

    def inside(second: float, first: float) -> float:
        above = norm.sf(first, mean[0], sd[0]) * norm.pdf(first, mean[1], sd[1])
        below = norm.pdf(second, mean[2], sd[2]) * norm.cdf(second, mean[3], sd[3])
        return float(above * below)

    low, high = (mean[1] + side * 10.0 * sd[1] for side in (-1.0, 1.0))
    under = mean[2] - 10.0 * sd[2]
    return float(dblquad(inside, low, high, under, lambda y: y, epsabs=1e-13, epsrel=1e-11)[0])


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
