"""Items in contexts, coefficients and leans under Gaussian sites: one dense normal distribution."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def matern52(X: Floats, lengthscale: float) -> Floats:
    """(n, n) of rows (n, D), of variance 1."""
    apart = np.sqrt(5.0 * np.sum((X[:, None] - X) ** 2, -1)) / lengthscale
    return np.asarray((1.0 + apart + apart**2 / 3.0) * np.exp(-apart))


def posterior(
    prior: Floats, design: Floats, shift: Floats, precision: Floats
) -> tuple[Floats, Floats]:
    """Mean (q,) and covariance (q, q) of w given sites exp(shift z - precision z² / 2) of z = A w.

    :param prior: (q, q) covariance of w, of mean 0.
    :param design: A, (t, q).
    :param shift: (t,).
    :param precision: (t,).
    """
    across = prior @ design.T
    inner = np.eye(len(shift)) + precision[:, None] * (design @ across)
    mean = across @ np.linalg.solve(inner, shift)
    return mean, prior - across @ np.linalg.solve(inner, precision[:, None] * across.T)
