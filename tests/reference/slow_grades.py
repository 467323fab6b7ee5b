"""Grades of duels by the definition: boxes for v, their probabilities, a duel at a time."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats


def box(grade: int, cuts: list[float]) -> tuple[float, float]:
    """Between which limits v = f(second) - f(first), noise included, lies for a grade of the first.

    -cut_(g+1) < v < -cut_g, with cut_0 = -cut_1 for the tie (docs/method.md, 14).
    """
    if grade == 0:
        return -cuts[0], cuts[0]
    level = abs(grade)
    near = cuts[level - 1]
    far = cuts[level] if level < len(cuts) else math.inf
    return (-far, -near) if grade > 0 else (near, far)


def probability(
    grade: int, mean: float, variance: float, noise: float, cuts: list[float], scale: float = 1.0
) -> float:
    """Of a grade of the first, for f(first) - f(second) ~ N(mean, variance)."""
    low, high = box(grade, [scale * cut for cut in cuts])
    sd = math.sqrt(variance + noise)
    return float(stats.norm.cdf((high + mean) / sd) - stats.norm.cdf((low + mean) / sd))


def averaged(
    grade: int,
    mean: float,
    variance: float,
    noise: float,
    cuts: list[float],
    sds: tuple[float, float],
) -> float:
    """The same for somebody unknown: noise and cuts times exp of normals with these sds."""
    nodes = np.linspace(-9.0, 9.0, 361)  # the trapezoidal rule is exact for such bells
    weight = stats.norm.pdf(nodes) * (nodes[1] - nodes[0])
    r, c = np.exp(sds[0] * nodes)[:, None], np.exp(sds[1] * nodes)
    low, high = box(grade, cuts)
    sd = np.sqrt(variance + noise * r)
    found = stats.norm.cdf((c * high + mean) / sd) - stats.norm.cdf((c * low + mean) / sd)
    return float(weight @ found @ weight)
