"""What a preference model must beat: a linear probit on feature differences, without features the
strengths of Bradley and Terry, and a coin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy import special
from scipy.optimize import minimize

from sparse_prefgp.analysis.linear_losses import LinearLoss, ask_for_rows, cross_validate, newton
from sparse_prefgp.data.duels import Duels
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray

LINEAR_PROBIT, BRADLEY_TERRY, COIN = "linear_probit", "bradley_terry", "coin"
WIDTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True, eq=False)
class LinearProbit:
    """P(a beats b) = Phi((x_a - x_b)' weights + x' covariate_weights), no intercept, Gaussian prior
    on the weights; x are the covariates of the duel, the winner's less the loser's."""

    weights: FloatArray
    """(D,) the most probable weights."""
    prior_width: float
    """Standard deviation of the prior on each weight."""
    cross_validation: tuple[tuple[float, float], ...] = ()
    """(width, mean negative log probability in nats) of every width tried; empty when there was a
    single width or a single pair.
    """
    covariate_weights: FloatArray = field(default_factory=lambda: np.zeros(0))
    """(C,) those of the covariates."""
    covariate_names: tuple[str, ...] = ()
    """C names."""

    @classmethod
    def fit(
        cls,
        differences: npt.ArrayLike,
        counts: npt.ArrayLike | None = None,
        *,
        rng: np.random.Generator | None = None,
        widths: Sequence[float] = WIDTHS,
        folds: int = 5,
    ) -> LinearProbit:
        """Fit to duels; the prior width is chosen by cross-validation on these duels alone.

        Cost is O(t D^2) a Newton step; of many duels some choose the width (`cross_validate`).

        :param differences: (t, D) standardised features of the winner minus those of the loser.
        :param counts: (t,) how often each duel was seen; default all 1.
        :param rng: draws the folds; default a generator with seed 0.
        :param widths: the prior widths to try.
        :param folds: the number of folds, five unless there are fewer duels.
        :raises ValueError: arrays of the wrong shape or not finite, no duels, counts or widths that
            are not positive, fewer than two folds.
        """
        x, weight = _checked(differences, counts)
        if not x.shape[1]:  # without features nothing but a coin is left
            return cls(np.zeros(0), 1.0)
        grid = sorted(float(width) for width in widths)
        if not grid or not all(0.0 < width < np.inf for width in grid):
            raise ValueError(f"widths is {tuple(widths)}; give at least one, all positive.")
        if folds < 2:
            raise ValueError(f"folds is {folds}; give at least 2.")
        generator = np.random.default_rng(0) if rng is None else rng
        table: tuple[tuple[float, float], ...] = ()
        best = grid[0] if len(grid) == 1 else 1.0
        loss = _ProbitLoss(x, weight)
        if len(grid) > 1 and len(x) > 1:
            precisions = [width**-2 for width in grid]
            losses = cross_validate(loss, precisions, min(folds, len(x)), generator)
            table = tuple(zip(grid, losses, strict=True))
            best = min(table, key=lambda row: row[1])[0]
        weights = newton(loss, best**-2, np.zeros(x.shape[1]))
        weights.setflags(write=False)
        return cls(weights, best, table)

    @classmethod
    def of(cls, duels: Duels, rng: np.random.Generator | None = None) -> LinearProbit:
        """Fitted to those of some duels that have a winner, with their weights.

        Equal duels of different groups are one row, so that groups change neither the folds nor the
        fit. Covariates are columns next to the features, over their root mean square.

        :raises ValueError: all duels are ties.
        """
        sides, weights, event = _some_decided(duels)
        key, axis = sides[:, 0] * duels.num_items + sides[:, 1], None
        said = duels.covariates
        if said is not None:
            said = said[event]
            key, axis = np.column_stack([key, said + 0.0]), 0
        _, first, row = np.unique(key, axis=axis, return_index=True, return_inverse=True)
        counts = np.bincount(row.reshape(-1), weights)
        order = np.argsort(first)  # that of first appearance
        ask_for_rows(len(order), duels.num_features)
        won, lost = duels.items[sides[first[order]].T]
        if said is None:
            return cls.fit(won - lost, counts[order], rng=rng)
        said, scale = _scaled(said)
        found = cls.fit(np.column_stack([won - lost, said[first[order]]]), counts[order], rng=rng)
        weights, own = np.split(found.weights, [duels.num_features])
        return replace(
            found,
            weights=weights,
            covariate_weights=own / scale,
            covariate_names=duels.covariate_names,
        )

    def predict_log_proba(
        self, differences: npt.ArrayLike, covariates: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Log probability, (k,) in nats, that the first side wins; `differences` is (k, D).

        :param covariates: (k, C) of the first side less those of the second, as fitted to; 0 by
            default.
        :raises ValueError: the wrong number of columns.
        """
        x = np.asarray(differences, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != len(self.weights):
            raise ValueError(
                f"differences has shape {x.shape}; give (k, {len(self.weights)}), the columns the "
                "baseline was fitted to."
            )
        lead = x @ self.weights
        if covariates is not None:
            said = np.asarray(covariates, dtype=np.float64)
            if said.shape != (len(x), len(self.covariate_weights)):
                raise ValueError(
                    f"covariates has shape {said.shape}; give "
                    f"({len(x)}, {len(self.covariate_weights)}), those the baseline was fitted to."
                )
            lead = lead + said @ self.covariate_weights
        return np.asarray(special.log_ndtr(lead))


@dataclass(frozen=True)
class Coin:
    """Either side wins with probability one half."""

    covariate_names: ClassVar[tuple[str, ...]] = ()

    def predict_log_proba(
        self, differences: npt.ArrayLike, covariates: npt.ArrayLike | None = None
    ) -> FloatArray:
        """log(1/2) for each of the k rows of `differences`, (k,), whatever its covariates."""
        return np.full(len(np.asarray(differences)), np.log(0.5))


@dataclass(frozen=True, eq=False)
class BradleyTerry:
    """P(a beats b) is logistic in the strength of a less that of b, with half a win and half a loss
    of each item against the average, and of each covariate by itself (Bradley & Terry 1952)."""

    strengths: FloatArray
    """(n,) of the items, about the average, in units of the logit."""
    covariate_weights: FloatArray
    """(C,) those of the covariates."""
    covariate_names: tuple[str, ...] = ()
    """C names."""

    @classmethod
    def of(cls, duels: Duels) -> BradleyTerry:
        """Fitted to those of some duels that have a winner, with their weights. O(t) a step.

        :raises ValueError: all duels are ties.
        """
        sides, weights, event = _some_decided(duels)
        n, (won, lost) = duels.num_items, sides.T
        said = np.zeros((len(won), 0)) if duels.covariates is None else duels.covariates[event]
        said, scale = _scaled(said)

        def loss(values: FloatArray) -> tuple[float, FloatArray]:
            strength, own = np.split(values, [n])
            lead = strength[won] - strength[lost] + said @ own
            slope = weights * special.expit(-lead)
            gradient = np.bincount(lost, slope, n) - np.bincount(won, slope, n)
            against_average = -0.5 * (special.log_expit(values) + special.log_expit(-values))
            value = against_average.sum() - weights @ special.log_expit(lead)
            gradient = np.append(gradient, -(said.T @ slope))
            return float(value), gradient + 0.5 * np.tanh(0.5 * values)

        start = np.zeros(n + said.shape[1])
        settings = {"maxiter": 5000, "maxfun": 10_000, "gtol": 1e-8, "ftol": 1e-15}
        values = minimize(loss, start, jac=True, method="L-BFGS-B", options=settings).x
        strengths, own = np.split(values, [n])
        return cls(strengths, own / scale, duels.covariate_names)

    def predict_log_proba(
        self, sides: npt.ArrayLike, covariates: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Log probability, (k,) in nats, that the first side wins.

        :param sides: (k, 2) numbers of the items of both sides; others than those of training are
            average.
        :param covariates: (k, C) of the first side less those of the second; 0 by default.
        """
        number = np.asarray(sides, dtype=np.int64)
        n = len(self.strengths)
        known = np.append(self.strengths, 0.0)
        strength = known[np.where((number >= 0) & (number < n), number, n)]
        lead = strength[:, 0] - strength[:, 1]
        if covariates is not None:
            lead = lead + np.asarray(covariates, dtype=np.float64) @ self.covariate_weights
        return np.asarray(special.log_expit(lead))


def rivals_of_duels(
    train: Duels, rng: np.random.Generator | None
) -> dict[str, LinearProbit | BradleyTerry | Coin]:
    """What a model of duels is scored next to, by name: a linear probit, a coin, and without
    features and dates the strengths of Bradley and Terry.

    :raises ValueError: all duels are ties.
    """
    found: dict[str, LinearProbit | BradleyTerry | Coin]
    found = {LINEAR_PROBIT: LinearProbit.of(train, rng)}
    if not train.num_features and train.events.time is None:
        found[BRADLEY_TERRY] = BradleyTerry.of(train)
    return {**found, COIN: Coin()}


def decided(duels: Duels) -> tuple[IntArray, FloatArray, IntArray]:
    """Those of some duels that one side won.

    :return: (t, 2) rows of winner and loser, (t,) weights, and (t,) the event that each is of.
    :raises ValueError: answers about sets.
    """
    doors = duels.events.pair_doors()
    event = doors.event[doors.decided]
    weights = duels.events.totals[event] * doors.weight[doors.decided]
    return doors.features[doors.decided], weights, event


def _some_decided(duels: Duels) -> tuple[IntArray, FloatArray, IntArray]:
    """`decided`.

    :raises ValueError: all duels are ties.
    """
    sides, weights, event = decided(duels)
    together.check(only_ties=not len(sides), linear_probit=True)
    return sides, weights, event


def _scaled(covariates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Covariates (t, C) over their root mean squares, and these, (C,)."""
    scale = np.sqrt(np.mean(covariates**2, axis=0))
    scale[scale == 0.0] = 1.0  # 0 in all that one side won
    return covariates / scale, scale


def _checked(
    differences: npt.ArrayLike, counts: npt.ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    x = np.asarray(differences, dtype=np.float64)
    if x.ndim != 2 or not len(x):
        raise ValueError(f"differences has shape {x.shape}; give (t, D) with at least one duel.")
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        i, j = bad[0]
        raise ValueError(f"differences has {x[i, j]} in row {i}, column {j}; give finite numbers.")
    weight = np.ones(len(x)) if counts is None else np.asarray(counts, dtype=np.float64)
    if weight.shape != (len(x),):
        raise ValueError(f"counts has shape {weight.shape} for {len(x)} duels; give one each.")
    wrong = np.flatnonzero(~((weight > 0) & np.isfinite(weight)))
    if wrong.size:
        raise ValueError(
            f"counts has {weight[wrong[0]]} in duel {wrong[0]}; give positive numbers."
        )
    return x, weight


@dataclass(frozen=True, eq=False)
class _ProbitLoss(LinearLoss):
    """-sum_i weight_i log Phi(x_i' w)."""

    x: FloatArray
    weight: FloatArray

    def value(self, a: FloatArray) -> float:
        return float(-(self.weight @ special.log_ndtr(a)))

    def slopes(self, a: FloatArray) -> tuple[FloatArray, FloatArray]:
        ratio, curvature = _probit_derivatives(a)
        return -self.weight * ratio, self.x.T @ (self.x * (self.weight * curvature)[:, None])

    @property
    def num_units(self) -> int:
        return len(self.x)

    @property
    def total(self) -> float:
        return float(self.weight.sum())

    def part(self, units: BoolArray) -> _ProbitLoss:
        return _ProbitLoss(self.x[units], self.weight[units])


def _probit_derivatives(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """First derivative of log Phi(a) and minus the second, both safe in the far tail."""
    with np.errstate(over="ignore"):
        ratio = np.sqrt(2.0 / np.pi) / special.erfcx(-a / np.sqrt(2.0))
    curvature = ratio * (ratio + a)
    far = a < -30.0  # ratio + a cancels there; its series does not
    if far.any():
        s = a[far] ** -2
        curvature[far] = 1.0 - s * (1.0 - s * (6.0 - 50.0 * s))
    return ratio, curvature
