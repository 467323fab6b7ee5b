"""A model whose hyperparameters are integrated out: a mixture of posteriors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf
from scipy.special import logsumexp

from sparse_prefgp.data.forecast import Forecast
from sparse_prefgp.models.base import Mixture
from sparse_prefgp.models.coefficients import KnownCoefficients
from sparse_prefgp.models.known import Written
from sparse_prefgp.models.likelihood import usual
from sparse_prefgp.models.parameters import assign_flat, flat_values
from sparse_prefgp.models.preference_gp import PreferenceGP, copied
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.normals import Normals


@dataclass(frozen=True, eq=False)
class Integration:
    """What integrating over the hyperparameters of a model did, and why, or why not."""

    used: bool
    """Whether there is a mixture."""
    reason: str
    parameters: int = 0
    """P, how many logarithms were moved."""
    directions: int = 0
    """r, along how many directions there are points."""
    gain: float | None = 0.0
    """By which share the variance of predictions grows, by the curvature: of differences of
    utilities, or of coefficients where that is more; None after an update, which finds none."""
    left: float | None = 0.0
    """What of it lies in directions without points; None likewise."""
    longer: float = 0.0
    """By which share intervals of differences are longer than at the mode."""
    points: int = 0
    effective_points: float = 0.0
    evaluations: int = 0
    """Of log evidence and gradient."""
    sweeps: int = 0
    seconds: float = 0.0
    log_sd: dict[str, float] = field(default_factory=dict)
    """Standard deviation of the logarithm of each, by the curvature of evidence and prior; at most
    3.2, where nothing is known of it; empty after an update."""


@dataclass(frozen=True, eq=False)
class MixedPosterior:
    """q(f) of a mixture, by its exact moments."""

    parts: Sequence[Any]
    """A `Posterior` of each point."""
    weights: FloatArray

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for some that there need not be
            raise AttributeError(name)
        raise together.refused(integrate=True, one_posterior=f"the {name} of one posterior")

    @property
    def in_one(self) -> bool:
        """As of `Posterior`."""
        return bool(self.parts[0].in_one)

    @property
    def at_its_date(self) -> MixedPosterior:
        """Of each part."""
        return self.mapped(lambda part: part.at_its_date)

    def mapped(self, made: Callable[[Any], Any]) -> MixedPosterior:
        """The mixture of what is made of each part."""
        return MixedPosterior([made(part) for part in self.parts], self.weights)

    def marginal(self, inputs: tf.Tensor) -> tf.Tensor:
        """Mean and variance side by side, (N, 2), for inputs (N, D)."""
        return mixed_moments([part.marginal(inputs) for part in self.parts], self.weights)

    def difference(self, inputs: tf.Tensor) -> tf.Tensor:
        """Mean and variance of f(x) - f(x'), (N, 2), for stacked pairs (N, 2, D)."""
        return mixed_moments([part.difference(inputs) for part in self.parts], self.weights)

    def mean(self, inputs: tf.Tensor) -> tf.Tensor:
        """E f, (N,), for inputs (N, D)."""
        means = [part.mean(inputs) for part in self.parts]
        return tf.linalg.matvec(tf.stack(means, 1), self.weights)

    def joint(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean (N,) and covariance (N, N) for inputs (N, D)."""
        means, covariances = zip(*(part.joint(inputs) for part in self.parts), strict=True)
        return mixed_joint(tf.stack(means, 1), covariances, self.weights)


class IntegratedGP(PreferenceGP):
    """A model of duels whose predictions average over its hyperparameters, made by `spg.integrate`.

    Parameters, evidence, sites and bounds are those of the mode; utilities, differences, outcomes
    and coefficients are those of the mixture, outcomes as averages of the points' probabilities.

    :param at_mode: the model with the most likely hyperparameters.
    :param points: S models of the same duels.
    :param weights: (S,), which add up to 1.
    """

    def __init__(
        self, at_mode: PreferenceGP, points: Sequence[PreferenceGP], weights: FloatArray
    ) -> None:
        self.__dict__.update(vars(at_mode))
        self._mixture = Mixture(at_mode, tuple(points), weights, _units(at_mode, points))
        self._values = flat_values(at_mode.variables)  # by which one sees whether they were changed

    @property
    def at_mode(self) -> Any:
        return self._mixture.at_mode

    def __repr__(self) -> str:
        return f"{super().__repr__()}, integrated over {len(self._mixture.points)} points"

    @property
    def mixture(self) -> Mixture:
        """The points, of whom and at which date this model is.

        :raises ValueError: parameters that were changed after they were integrated out.
        """
        if not np.array_equal(flat_values(self.at_mode.variables), self._values):
            raise ValueError(
                "The parameters of this model were changed after they had been integrated out; "
                "integrate again: spg.integrate(model)."
            )
        seen = []
        for point in self._mixture.points:
            point.infer()  # of a view what is found is not kept
            one = self.view.on(point)
            one._date = self._date
            seen.append(one)
        return replace(self._mixture, points=tuple(seen))

    def posterior(self) -> Any:
        """q(f) of utilities, by the moments of the mixture."""
        mixture = self.mixture
        return MixedPosterior([one.posterior() for one in mixture.points], mixture.weights)

    def posterior_of_outcomes(self) -> Any:
        """q(f) of whom outcomes are predicted for, by the moments of the mixture."""
        mixture = self.mixture
        parts = [one.posterior_of_outcomes() for one in mixture.points]
        return MixedPosterior(parts, mixture.weights)

    def predict_difference(self, *args: Any, **more: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """As `PreferenceGP.predict_difference`."""
        mixture = self.mixture
        each = [tf.stack(one.predict_difference(*args, **more), 1) for one in mixture.points]
        mean, variance = tf.unstack(mixed_moments(each, mixture.weights), axis=1)
        return mean, variance

    def predict_duel(self, *args: Any, **more: Any) -> tf.Tensor:
        """As `PreferenceGP.predict_duel`."""
        return self.mixture.averaged(lambda one: one.predict_duel(*args, **more))

    def predict_outcome(self, *args: Any, **more: Any) -> tf.Tensor:
        """As `PreferenceGP.predict_outcome`."""
        return self.mixture.averaged(lambda one: one.predict_outcome(*args, **more))

    def predict_choice(self, *args: Any, **more: Any) -> tf.Tensor:
        """As `PreferenceGP.predict_choice`."""
        return self.mixture.averaged(lambda one: one.predict_choice(*args, **more))

    def predict(self, questions: Any, inputs: Any = None) -> Forecast:
        """As `PreferenceGP.predict`."""
        mixture = self.mixture
        each = [one.predict(questions, inputs) for one in mixture.points]
        logs = logsumexp([one.log_p for one in each], axis=0, b=mixture.weights[:, None, None])
        if each[0].mean is None:
            return replace(each[0], log_p=logs)
        parts = Normals.mixed([one.difference for one in each], mixture.weights)
        return replace(each[0], log_p=logs, mean=parts.mean, variance=parts.variance, normals=parts)

    def coefficients(self, level: float = 0.9) -> KnownCoefficients:
        """As `PreferenceGP.coefficients`, by the moments of the mixture."""
        mixture = self.mixture
        each = [one.coefficients(level) for one in mixture.points]
        means, weights = np.stack([one.mean for one in each]), mixture.weights
        parts = Normals(means, np.stack([one.variance for one in each]), weights)

        def jointly() -> FloatArray:
            return np.asarray(mixed_joint(means.T, [one.covariance for one in each], weights)[1])

        mean, variance = parts.mean, parts.variance
        return replace(each[0], mean=mean, variance=variance, jointly=jointly, normals=parts)


def _units(at_mode: PreferenceGP, points: Sequence[PreferenceGP]) -> FloatArray:
    """Of each point, see `Mixture`."""
    groups = at_mode.graph.groups
    if at_mode.likelihood.noise_ratio is None or groups is None:
        return np.ones(len(points))
    models = at_mode, *points
    ratios = [tf.convert_to_tensor(one.likelihood.noise_ratio).numpy() for one in models]
    votes = np.bincount(groups, at_mode.graph.counts, len(ratios[0]))
    mode, *each = (usual(ratio, votes.astype(np.float64)) for ratio in ratios)
    return np.sqrt(mode / np.array(each))


def described_mixture(model: IntegratedGP) -> Written:
    """What `save` writes besides the model at the mode: of each point the values of all variables,
    the sites and the weight.

    :raises ValueError: parameters that were changed after they were integrated out.
    """
    mixture = model.mixture
    sites = np.array([point.inference.sites() for point in mixture.points])
    arrays = {
        "integral_values": np.array([flat_values(point.variables) for point in mixture.points]),
        "integral_nu": sites[:, 0],
        "integral_tau": sites[:, 1],
        "integral_weights": mixture.weights,
    }
    said = None if model.integration is None else asdict(model.integration)
    return {"integrated": said}, arrays


def rebuilt_mixture(
    at_mode: PreferenceGP, said: Any, arrays: Mapping[str, np.ndarray]
) -> IntegratedGP:
    """That which `described_mixture` has described, of which the mode is there."""
    values, nu, tau = (arrays[f"integral_{name}"] for name in ("values", "nu", "tau"))
    points = [copied(at_mode) for _ in values]
    for i, (point, numbers) in enumerate(zip(points, values, strict=True)):
        assign_flat(numbers, point.variables)
        point.inference.restore(nu[i], tau[i], at_mode.infer())
    made = IntegratedGP(at_mode, points, arrays["integral_weights"])
    made.integration = None if said is None else Integration(**said)
    return made


def mixed_moments(each: Sequence[tf.Tensor], weights: FloatArray) -> tf.Tensor:
    """Mean and variance (N, 2) of a mixture of those of its parts, (N, 2) each."""
    both = tf.stack(list(each), 2)
    mean, within = tf.unstack(tf.linalg.matvec(both, weights), axis=1)
    between = tf.linalg.matvec((both[:, 0] - mean[:, None]) ** 2, weights)
    return tf.stack([mean, within + between], 1)


def mixed_joint(
    means: Any, covariances: Sequence[Any], weights: FloatArray
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean (N,) and covariance (N, N) of a mixture, of means (N, S) and covariances (N, N)."""
    mean = tf.linalg.matvec(means, weights)
    apart = (means - mean[:, None]) * np.sqrt(weights)
    within = tf.add_n(
        [w * tf.convert_to_tensor(c) for w, c in zip(weights, covariances, strict=True)]
    )
    return mean, within + tf.matmul(apart, apart, transpose_b=True)
