"""Averages of utilities over rows from the joint normal of all rows, matrix by matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def averages(mean: Floats, covariance: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Mean and sd of the averages, less the average of them all.

    :param mean: (r,) of the utilities of the rows.
    :param covariance: (r, r) of them.
    :param weights: (m, r) of the rows of each of m items.
    """
    m = len(weights)
    centred = (np.eye(m) - np.full((m, m), 1.0 / m)) @ weights
    return centred @ mean, np.sqrt(np.diag(centred @ covariance @ centred.T))
