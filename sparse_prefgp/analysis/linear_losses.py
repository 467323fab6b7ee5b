"""Rivals that are linear in the features: the fit, and the choice of a prior's width.

Each has a loss that is convex in `features @ weights`, to which a Gaussian prior adds a square of
the weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from scipy import linalg

from sparse_prefgp.support.arrays import BoolArray, FloatArray
from sparse_prefgp.support.machine import ask

MAX_NEWTON_STEPS = 100
# Of a Newton step of the cross-validation: r D², beyond which some units stand for all.
MOST_WORK = 5e8
# Of the features, a fold's and those times a weight among them; and of the size of the Hessian.
_COPIES, _SQUARES = 6, 4


class LinearLoss(ABC):
    """A loss of a (r,) = x @ weights, added up over units that are independent of each other."""

    x: FloatArray
    """(r, D)."""

    @abstractmethod
    def value(self, a: FloatArray) -> float:
        """The loss, in nats."""

    @abstractmethod
    def slopes(self, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its gradient with respect to `a` (r,), and its Hessian with respect to weights (D, D)."""

    @property
    @abstractmethod
    def num_units(self) -> int:
        """How many units there are, of which folds are made."""

    @property
    @abstractmethod
    def total(self) -> float:
        """The weight of all that is added up."""

    @abstractmethod
    def part(self, units: BoolArray) -> LinearLoss:
        """That of some of the units, a mask of them."""


def ask_for_rows(rows: int, columns: int) -> None:
    """Ask for the memory that a fit to features (rows, columns) takes, before they are made.

    :raises NotEnoughMemory: more than is free.
    """
    ask(
        8 * columns * (_COPIES * rows + _SQUARES * columns),
        f"Linear predictors of {rows:,} rows with {columns:,} features",
        "give fewer features, or hold nothing out (--test-fraction 0), which fits none",
    )


def newton(loss: LinearLoss, precision: float, start: FloatArray) -> FloatArray:
    """Weights (D,) that minimise the loss + precision |weights|²/2, which is convex.

    Cost is that of a Hessian and O(D³) a step.

    :param precision: of the prior of each weight.
    :param start: (D,) weights.
    """
    w = start
    activation = loss.x @ w

    def penalised(a: FloatArray, v: FloatArray) -> float:
        return loss.value(a) + 0.5 * precision * float(v @ v)

    value = penalised(activation, w)
    for _ in range(MAX_NEWTON_STEPS):
        slope, hessian = loss.slopes(activation)
        gradient = precision * w + loss.x.T @ slope
        hessian[np.diag_indices_from(hessian)] += precision
        step = linalg.solve(hessian, gradient, assume_a="pos")
        decrement = float(gradient @ step)
        if decrement <= 1e-12 * (1.0 + abs(value)):
            return w - step
        move, size = loss.x @ step, 1.0
        while True:
            trial, trial_activation = w - size * step, activation - size * move
            trial_value = penalised(trial_activation, trial)
            if trial_value <= value - 1e-4 * size * decrement or size < 1e-8:
                break
            size *= 0.5
        if trial_value >= value:  # nothing left but rounding
            break
        w, activation, value = trial, trial_activation, trial_value
    return w


def cross_validate(
    loss: LinearLoss, precisions: Sequence[float], folds: int, rng: np.random.Generator
) -> tuple[float, ...]:
    """The mean loss of units that were left out of the fit, for the precision of each prior.

    Of as many units, at random, as keep r D² at 5 10^8, which are all of 2 10^6 rows with 16
    columns and 30,000 with 128.

    :param precisions: the largest first: each fit starts from the last and needs few steps.
    :param folds: at most the number of units.
    :param rng: draws the folds.
    """
    rows, columns = loss.x.shape
    most = max(1000, int(MOST_WORK * loss.num_units / (rows * max(columns, 1) ** 2)))
    if loss.num_units > most:
        loss = loss.part(
            np.isin(np.arange(loss.num_units), rng.choice(loss.num_units, most, False))
        )
    fold = rng.permutation(loss.num_units) % folds
    found = np.zeros(len(precisions))
    for k in range(folds):
        kept, held = loss.part(fold != k), loss.part(fold == k)
        weights = np.zeros(loss.x.shape[1])
        for i, precision in enumerate(precisions):
            weights = newton(kept, precision, weights)
            found[i] += held.value(held.x @ weights)
    return tuple((found / loss.total).tolist())
