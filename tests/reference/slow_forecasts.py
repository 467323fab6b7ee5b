"""What a model gives to the outcomes of one question, from differences of two utilities and the
definitions: boxes of a normal, and orthants."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.reference import slow_grades, slow_set_probabilities
from tests.reference.slow_noise import nodes

Array = NDArray[np.float64]


def noises(model: Any, judge: Any) -> list[tuple[float, float]]:
    """(noise variance of one side, weight): of a known judge one, else over log r ~ N(0, 1)."""
    noise = float(model.likelihood.noise.numpy())
    if judge in model.duels.group_names:
        return [
            (
                noise * model.likelihood.noise_ratio.numpy()[model.duels.group_names.index(judge)],
                1.0,
            )
        ]
    return [(noise * r, weight) for r, weight in zip(*nodes(), strict=True)]


def difference(model: Any, first: Array, second: Array, said: Array) -> tuple[float, float]:
    """Mean and variance of that of two rows, covariates included."""
    both = model.predict_difference(first[None], second[None], covariates=said[None])
    return float(both[0][0]), float(both[1][0])


def duel(model: Any, rows: Array, said: Array, judge: Any) -> list[float]:
    """Of the outcomes between two rows (2, D), with covariates (2, C), as `Forecast` has them."""
    mean, variance = difference(model, *rows, said[0] - said[1])
    cuts = [0.0] if model.likelihood.heights is None else model.likelihood.heights.numpy().tolist()
    levels = [1, -1] if model.likelihood.margin is None else [1, 0, -1]
    if model.duels.levels is not None:
        levels = list(range(-len(cuts), len(cuts) + 1))
    return [
        sum(
            weight * slow_grades.probability(level, mean, variance, 2.0 * noise, cuts)
            for noise, weight in noises(model, judge)
        )
        for level in levels
    ]


def normal(model: Any, rows: Array, said: Array) -> tuple[Array, Array]:
    """Mean (k,) and covariance (k, k) of utilities less that of the first row."""
    k = len(rows)
    mean, apart = np.zeros(k), np.zeros((k, k))
    for i in range(k):
        for j in range(k):
            lead, apart[i, j] = difference(model, rows[i], rows[j], said[i] - said[j])
            mean[i] = lead if j == 0 else mean[i]
    return mean, 0.5 * (apart[:1] + apart[:, :1] - apart)


def choice(model: Any, rows: Array, said: Array, judge: Any) -> list[float]:
    """Of each of k rows (k, D) to be chosen."""
    mean, covariance = normal(model, rows, said)
    every = noises(model, judge)
    eye = np.eye(len(rows))
    return [
        sum(w * slow_set_probabilities.choice(mean, covariance + s * eye, j) for s, w in every)
        for j in range(len(rows))
    ]


def ranking(model: Any, rows: Array, said: Array, judge: Any, ordered: int) -> float:
    """That so many are best, in the order in which they stand."""
    mean, covariance = normal(model, rows, said)
    k, total = len(rows), 0.0
    for noise, weight in noises(model, judge):
        for rest in permutations(range(ordered, k)):
            order = (*range(ordered), *rest)
            observed = covariance + noise * np.eye(k)
            total += weight * slow_set_probabilities.ranking(mean, observed, order)
    return total
