"""Hyperparameters integrated out: a mixture of posteriors along the few directions that move
predictions.

About the mode of log evidence plus log prior, differences of the gradient give its
curvature, and of the means how far predictions move; points of a design lie along the directions
that move them most, each with its own posterior, weighted by evidence times prior.
(docs/method.md, section 16)
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
from scipy import linalg

from sparse_prefgp.learning.objective import InChunks, InMemory
from sparse_prefgp.learning.priors import APART, learned_paths, name_of, names_of_values
from sparse_prefgp.models.base import DuelGP, Traced
from sparse_prefgp.models.integrated import IntegratedGP, Integration
from sparse_prefgp.models.parameters import LogParameter, reach_of
from sparse_prefgp.models.preference_gp import PreferenceGP, copied
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.checks import check_kind, check_number
from sparse_prefgp.support.normals import Normals
from sparse_prefgp.support.randomness import generator

# The step of a logarithm in one-sided differences, down, where the objective bends less than above.
# Of the nine cases of the tests it moves no standard deviation by more than 0.3 %, one of -0.1 by
# 0.7 % and of 0.1 by 1.7 %.
STEP = -0.05
# Below this share of the variance there is, integrating over hyperparameters changes nothing, and
# so does what lies in directions without points.
SKIP_BELOW = 0.02
MAX_DIRECTIONS = 8
# Pairs of items by which it is told what moves predictions.
PAIRS = 200
# Curvatures below this would be directions that the data and the priors say nothing of.
LEAST_CURVATURE = 0.1


# How far above the limit of its transform a value ends that would go below.
ABOVE_LIMIT = 1e-6
NOT_FINITE = "evidence and gradient near the mode are not finite"


def longer(gain: float) -> float:
    """By which share intervals are longer where the variance grows by the share `gain`."""
    return float(np.sqrt(1.0 + gain) - 1.0)


def integrate(
    model: PreferenceGP,
    max_directions: int = MAX_DIRECTIONS,
    skip_below: float = SKIP_BELOW,
    rng: np.random.Generator | None = None,
) -> PreferenceGP:
    """The model with its learned hyperparameters integrated out, about the values that it has.

    Inducing inputs, directions of a projection, and a margin that is found after the utilities stay
    as they are.

    :param model: at the optimum of log evidence plus log prior, which it should have
        (`default_priors`); it stays as it is.
    :param max_directions: along which there are points, at most 8.
    :param skip_below: where the variance of predictions would grow by less than this share, the
        model itself is returned; of an `IntegratedGP` it is integrated about its mode again.
    :param rng: draws pairs of items by which that is measured; by default seed 0.
    :return: an `IntegratedGP`, or the model itself; either has the `integration` that says why. Of
        a `StreamedGP` the gain is found, and the model is returned.
    :raises ValueError: nothing is learned; utilities that move in time; numbers that make no sense;
        a seed in place of a generator.
    """
    check_kind("model", model, DuelGP, "a PreferenceGP or a StreamedGP")
    model = model.at_mode
    model.allow(integrate=True)
    check_number("max_directions", max_directions, least=1, most=MAX_DIRECTIONS, whole=True)
    check_number("skip_below", skip_below, least=0.0)
    run = _Run(model, generator(rng))
    try:
        return run.made(max_directions, skip_below)
    finally:
        run.close()


def pairs_of_items(model: Any, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Two sides, (N, D) each, of all pairs of the items of a model, or of `PAIRS` random ones."""
    items = model.inputs.of_items()
    n = len(items)
    first, second = np.triu_indices(min(n, 2 * PAIRS), 1)
    if len(first) > PAIRS:
        first = rng.integers(n, size=PAIRS)
        second = (first + rng.integers(1, n, size=PAIRS)) % n
    return items[first], items[second]


def longer_than_at_mode(model: IntegratedGP, pairs: tuple[FloatArray, FloatArray]) -> float:
    """By which share intervals of the differences of some pairs are longer than at the mode."""
    mixture = model.mixture
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone, *each = (
            Normals.of(*(x.numpy() for x in one.predict_difference(*pairs)))
            for one in (mixture.at_mode, *mixture.points)
        )
    mixed = Normals.mixed(each, mixture.weights).times(mixture.units)
    return float(np.mean(np.sqrt(mixed.variance / np.maximum(alone.variance, 1e-300)))) - 1.0


def effective_number(weights: FloatArray) -> float:
    """How many equal weights (S,) tell as much."""
    return float(1.0 / np.sum(weights**2))


class Hyperparameters:
    """The learned hyperparameters of a model as logarithms theta, (P,).

    Of a parameter with a prior of a power of its value theta is the log of that: of a variance that
    of the standard deviation.
    """

    def __init__(self, model: PreferenceGP) -> None:
        self.model, self.named = model, learned_paths(model)
        self._least = [reach_of(x)[0] * (1.0 + ABOVE_LIMIT) for _, x in self.named]
        sizes = [int(np.prod(x.shape)) for _, x in self.named]
        apart = sum(sizes) <= APART
        # Which values each theta is of.
        self.groups: list[tuple[int, IntArray]] = [
            (i, where)
            for i, size in enumerate(sizes)
            for where in (np.arange(size)[:, None] if apart else np.arange(size)[None])
        ]

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def names(self) -> tuple[str, ...]:
        """(P,), as `learned_parameters` has them; of a vector that moves as one its own."""
        names = []
        for i, where in self.groups:
            path, x = self.named[i]
            whole = len(where) == int(np.prod(x.shape))
            names.append(
                name_of(path) if whole else names_of_values(self.model, path, x)[int(where[0])]
            )
        return tuple(names)

    def moved(self, step: FloatArray) -> None:
        """Add (P,) to the logarithms; values with a limit from below end just above it."""
        values = [x.numpy().reshape(-1).copy() for _, x in self.named]
        for (i, where), by in zip(self.groups, step, strict=True):
            values[i][where] *= np.exp(by / _power(self.named[i][1]))
        for (_, x), value, least in zip(self.named, values, self._least, strict=True):
            x.assign(np.maximum(value.reshape(x.shape), least))

    def slopes(self, gradient: dict[int, FloatArray]) -> FloatArray:
        """(P,) in theta, of that in unconstrained variables by their ids."""
        each = []
        for _, x in self.named:
            free = x.unconstrained_variable
            with tf.GradientTape() as tape:
                logs = tf.math.log(x.transform.forward(free))
            each.append(gradient[id(free)] / tape.gradient(logs, free).numpy() / _power(x))
        return np.array([each[i].reshape(-1)[where].sum() for i, where in self.groups])


def _power(parameter: gpflow.Parameter) -> float:
    return parameter.power if isinstance(parameter, LogParameter) else 1.0


class _Run:
    """One call of `integrate`."""

    def __init__(self, model: Any, rng: np.random.Generator) -> None:
        self._started = time.perf_counter()
        # The model itself moves, as its objective is compiled already, and goes back to the mode.
        self._model, self._engine = model, model.engine
        model.infer()
        if model.duels.held:
            model.inference.keep_for_predictions()
        self._held, self._known = model.duels.held, model._known
        self._sites = model.inference.sites() if self._held else None
        self._theta = Hyperparameters(model)
        if not len(self._theta):
            raise ValueError(
                "The model learns no hyperparameter (gpflow.set_trainable), so that there is "
                "nothing to integrate over."
            )
        self._objective = (
            InMemory(model, list(model.trainable_variables)) if self._held else InChunks(model)
        )
        self._mode = self._objective.get()
        self._pairs = pairs_of_items(model, rng)

    def close(self) -> None:
        """Put the model back to the mode and its sites."""
        self._objective.close()
        self._objective.set(self._mode)
        self._begin_at(self._sites)
        self._model._known, self._model.traced = self._known, Traced()

    def _begin_at(self, sites: Any) -> None:
        if sites is not None:  # those of chunks go on from where they are
            self._model.inference.start_from(*sites)

    def made(self, max_directions: int, skip_below: float) -> PreferenceGP:
        """The mixture, or the model where it would change nothing."""
        count = len(self._theta)
        value, slope = self._evaluated(np.zeros(count))
        mean, variance = self._moments()
        curvature, slopes = np.zeros((count, count)), np.zeros((count, len(mean)))
        for k in range(count):
            step = np.zeros(count)
            step[k] = STEP
            self._begin_at(self._sites)
            _, there = self._evaluated(step)
            curvature[k] = (there - slope) / step[k]
            slopes[k] = (self._moments()[0] - mean) / step[k]
        if not np.all(np.isfinite(curvature)):
            return self._told(self._model, False, NOT_FINITE, parameters=count)
        of_items = np.arange(len(mean)) < len(self._pairs[0])
        directions, gains = _directions(
            0.5 * (curvature + curvature.T), slopes, variance, [of_items, ~of_items]
        )
        gain = float(gains.sum())
        log_sd = np.sqrt(np.sum(directions**2, 0))
        said = {
            "parameters": count,
            "gain": gain,
            "log_sd": dict(zip(self._theta.names, log_sd.tolist(), strict=True)),
        }
        reason = f"intervals would hardly be longer (gain {gain:.1%})"
        if gain >= skip_below and not self._held:
            reason = f"duels are in chunks, where intervals would be {longer(gain):.0%} longer"
        if gain < skip_below or not self._held:
            return self._told(self._model, False, reason, **said)
        left = gain - np.cumsum(gains)
        r = min(1 + int(np.argmax(left < SKIP_BELOW)), max_directions)
        along = directions[:r]
        centre = -along.T @ (along @ slope)
        far = np.sqrt(np.sum((along @ slope) ** 2))
        centre = centre if far <= 1.0 else centre / far
        z, design = design_points(r)
        points, logs = [], []
        for at in z:
            self._begin_at(self._sites)
            value, _ = self._evaluated(centre + at @ along)
            point = copied(self._model)
            point.engine = self._engine
            if np.isfinite(value):
                point.infer()
                point.inference.keep_for_predictions()
            points.append(point)
            logs.append(-value)
        if not np.any(np.isfinite(logs)):
            return self._told(self._model, False, NOT_FINITE, **said)
        weights = normalised(np.array(logs), design, capped=r >= 3)
        good = weights > 0.0
        points = [point for point, there in zip(points, good, strict=True) if there]
        weights = weights[good] / weights[good].sum()
        self.close()
        at_mode = copied(self._model)
        assert self._sites is not None  # as of all that is held
        nu, tau = self._sites
        at_mode.inference.restore(nu, tau, self._known.result)
        integrated = IntegratedGP(at_mode, points, weights)
        return self._told(
            integrated,
            True,
            f"predictions move with {r} of {count} directions of the hyperparameters",
            directions=r,
            left=float(left[r - 1]),
            longer=longer_than_at_mode(integrated, self._pairs),
            points=len(points),
            effective_points=effective_number(weights),
            **said,
        )

    def _evaluated(self, step: FloatArray) -> tuple[float, FloatArray]:
        """Minus log evidence and prior, and the gradient (P,) in theta, at mode plus a step."""
        self._objective.set(self._mode)
        self._theta.moved(step)
        value, gradient = self._objective(self._objective.get())
        slopes = {id(v): piece for v, piece in self._objective.of_variables(gradient)}
        return value, self._theta.slopes(slopes)

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Of differences of items and of coefficients, at the sites of the last evaluation."""
        if self._held:
            self._model.inference.restore(*self._model.inference.sites(), self._known.result)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean, variance = (x.numpy() for x in self._model.predict_difference(*self._pairs))
        if self._model.duels.covariate_names:  # which move predictions too
            said = self._model.coefficients()
            mean, variance = np.append(mean, said.mean), np.append(variance, said.sd**2)
        return mean, np.maximum(variance, 1e-300)

    def _told(self, model: Any, used: bool, reason: str, **said: Any) -> PreferenceGP:
        counts = self._objective.counts
        model.integration = Integration(
            used,
            reason,
            evaluations=counts.evaluations,
            sweeps=counts.sweeps,
            seconds=time.perf_counter() - self._started,
            **said,
        )
        result: PreferenceGP = model
        return result


def _directions(
    curvature: FloatArray, slopes: FloatArray, variance: FloatArray, kinds: Sequence[BoolArray]
) -> tuple[FloatArray, FloatArray]:
    """Steps of one standard deviation along the axes of the curvature, (P, P), a row each, and the
    share of the variance that each adds, (P,), the largest first: the mean over differences of
    items, or over coefficients, whichever is more.

    :param curvature: (P, P) of minus log evidence and prior.
    :param slopes: (P, N) of the means of N differences and coefficients.
    :param variance: (N,) of these at the mode.
    :param kinds: (N,) each, which are of a kind.
    """
    values, vectors = np.linalg.eigh(curvature)
    largest = np.argmax(np.abs(vectors), 0)
    vectors = vectors * np.sign(vectors[largest, np.arange(len(values))])
    rows = (vectors / np.sqrt(np.maximum(values, LEAST_CURVATURE))).T
    shares = (rows @ slopes) ** 2 / variance
    gains = np.max([shares[:, some].mean(1) for some in kinds if some.any()], 0)
    order = np.argsort(-gains, kind="stable")
    return rows[order], gains[order]


def design_points(r: int) -> tuple[FloatArray, FloatArray]:
    """Points z, (S, r), in standard deviations, and the logarithms of their design weights, (S,).

    A line of seven, 3 × 3 Gauss-Hermite points, or plus and minus the rows of a Hadamard matrix:
    of mean 0 and covariance 1, without third moments.
    """
    if r == 1:
        return np.arange(-3.0, 4.0)[:, None], np.zeros(7)
    if r == 2:
        ends, weights = np.array([-1.0, 0.0, 1.0]) * np.sqrt(3.0), np.log([1 / 6, 2 / 3, 1 / 6])
        z = np.stack(np.meshgrid(ends, ends, indexing="ij"), -1).reshape(-1, 2)
        logs = (weights[:, None] + weights).reshape(-1)
        return z, logs + 0.5 * np.sum(z**2, 1)
    size = 4 if r <= 4 else 8
    hadamard = linalg.hadamard(size, dtype=float)
    columns = hadamard[:, 1 : 1 + r] if r < size else hadamard
    return np.concatenate([columns, -columns]), np.zeros(2 * size)


def normalised(logs: FloatArray, design: FloatArray, capped: bool) -> FloatArray:
    """Weights (S,) that add up to 1, in proportion to exp(logs + design); 0 where that is none.

    :param capped: none above 1/√S.
    """
    total = np.where(np.isfinite(logs), logs + design, -np.inf)
    weights = np.exp(total - total.max())
    weights /= weights.sum()
    most = 1.0 / np.sqrt(len(weights))
    while capped and weights.max() > most * (1.0 + 1e-12):
        over = weights >= most
        rest = weights[~over].sum()
        if rest == 0.0:
            return weights
        weights = np.where(over, most, weights * (1.0 - most * over.sum()) / rest)
    return weights
