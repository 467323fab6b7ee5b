"""A challenger for the best item so far: preferential Bayesian optimisation over a box or a pool.

The hallucination believer of Takeno, Nomura & Karasuyama (2023): believe one drawn v, and maximise
an acquisition function of ordinary Bayesian optimisation under what it says (`hallucination`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from scipy.optimize import minimize

from sparse_prefgp.analysis.hallucination import hallucinations
from sparse_prefgp.analysis.items import (
    ItemSet,
    known_items,
    numbered_inputs,
    own_items,
    resolve_items,
)
from sparse_prefgp.covariances.kernels import as_float
from sparse_prefgp.factors.truncated_normal import log_cdf
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.posterior import in_chunks
from sparse_prefgp.support.arrays import BoolArray, FloatArray, IntArray
from sparse_prefgp.support.checks import as_numbers, check_choice

# From mean and variance of f given v, (N,) each, and the mean of the incumbent, to what is
# maximised, (N,).
Acquisition = Callable[[tf.Tensor, tf.Tensor, float], tf.Tensor]

# Takeno et al. take mean + 2 sd.
_UCB_WIDTH = 2.0
# Points of a box that are looked at, and the best of them, from which L-BFGS starts.
_SCANNED, _STARTS, _MAX_ITERATIONS = 2048, 8, 100
# Below it a variance is rounding, and its root has no slope.
_LEAST_VARIANCE = 1e-14


def expected_improvement(mean: tf.Tensor, variance: tf.Tensor, best: float) -> tf.Tensor:
    """E max(f - best, 0), (N,)."""
    sd = tf.sqrt(tf.maximum(variance, _LEAST_VARIANCE))
    z = (mean - best) / sd
    return (mean - best) * tf.exp(log_cdf(z)) + sd * tf.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)


def upper_confidence(mean: tf.Tensor, variance: tf.Tensor, best: float) -> tf.Tensor:
    """How far mean + 2 sd lies above the incumbent, (N,)."""
    return mean - best + _UCB_WIDTH * tf.sqrt(tf.maximum(variance, _LEAST_VARIANCE))


ACQUISITIONS: dict[str, Acquisition] = {"ei": expected_improvement, "ucb": upper_confidence}


@dataclass(frozen=True, eq=False, repr=False)
class Challenge:
    """A duel of the incumbent against a challenger; `print` shows it as text."""

    incumbent: FloatArray
    """(D,) features in model units."""
    challenger: FloatArray
    """(D,) features in model units."""
    incumbent_id: Hashable
    """Id of the incumbent."""
    challenger_id: Hashable | None
    """Id of the challenger; None for an item from the box."""
    challenger_raw: dict[str, float] | None
    """The challenger in the units of the raw table, by column; None for a model that records no
    transform, or one with categorical columns.
    """
    acquisition: str
    """Either "ei" or "ucb"."""
    value: float
    """Acquisition value of the challenger given v, relative to the mean of the incumbent."""
    probability: float
    """Probability that the incumbent wins, under the model's posterior."""
    difference: float
    """Expected f(incumbent) - f(challenger), under the model's posterior."""
    sd: float
    """Posterior standard deviation of that difference."""
    exact: bool
    """Whether v is from the exact posterior."""
    converged: bool
    """Whether the chains that v is from converged, or else inference."""
    jitter: float
    """Jitter that the draw of v took."""
    looked_at: int
    """Items of the pool, or points of the box."""
    improved: float
    """What the searches in the box added to the value of the best of these."""
    about_v: str
    """In words, how v was drawn."""

    def __str__(self) -> str:
        if self.challenger_id is None:
            numbered = {str(j): float(x) for j, x in enumerate(self.challenger)}
            names = self.challenger_raw or numbered
            shown = ", ".join(f"{name}: {value:.4g}" for name, value in names.items())
            challenger, among = f"a new item ({shown})", f"{self.looked_at:,} points and from there"
        else:
            challenger, among = str(self.challenger_id), f"{self.looked_at:,} items"
        return (
            f"Ask {self.incumbent_id} against {challenger}; the incumbent wins with probability "
            f"{self.probability:.3f}.\nLargest {self.acquisition.upper()} among {among}: "
            f"{self.value:.4g}. {self.about_v}"
        )

    __repr__ = __str__


def hallucination_believer(
    model: PreferenceGP,
    *,
    bounds: Any = None,
    pool: Any = None,
    incumbent: Hashable | None = None,
    acquisition: str = "ei",
    rng: np.random.Generator,
) -> Challenge:
    """The next duel of preferential Bayesian optimisation: the incumbent against a challenger.

    :param model: of the duels so far.
    :param bounds: (D, 2), lowest and highest value of each feature in the units of
        `model.duels.items`, for a new item from that box.
    :param pool: or else the items to choose from, as `resolve_items` takes them.
    :param incumbent: id of an item. Takeno et al. take the winner of the last duel; by default it
        is the compared item with the largest E[f | v], of the pool if any of it was compared.
    :param acquisition: "ei", expected improvement on E[f(incumbent) | v], or "ucb", two standard
        deviations above the mean.
    :param rng: of v, and of the points of the box.
    :raises ValueError: a model with logit factors; bounds and a pool, or neither; bounds of another
        shape, not finite, in the wrong order, or where there are categorical columns or no
        features; an unknown incumbent or acquisition; a pool with nothing but the incumbent; and
        what `sample_posterior` raises.
    """
    model.allow(hallucination=True)
    if (bounds is None) == (pool is None):
        given = "neither was" if bounds is None else "both were"
        raise ValueError(f"Give the bounds of a box or a pool of items; {given} given.")
    function = acquisition_named(acquisition)
    box = None if bounds is None else _checked_box(model, bounds)
    items = own_items(model) if pool is None else resolve_items(model, pool)
    defender = None if incumbent is None else _found(model, pool, incumbent)
    drawn = hallucinations(model, 1, rng)
    mean_of_items, variance_of_items = drawn.moments(numbered_inputs(model, items))
    if defender is None:
        defender = items.select([best_of(mean_of_items[0], items.comparisons)])
    best = float(drawn.moments(numbered_inputs(model, defender))[0][0, 0])
    if box is None:
        values = function(as_float(mean_of_items[0]), as_float(variance_of_items), best).numpy()
        chosen = _best_challenger(values, np.all(items.inputs == defender.inputs, 1))
        challenger, value = items.select([chosen]), float(values[chosen])
        looked_at, improved = len(items), 0.0
    else:
        posterior = drawn.posteriors[0]

        def acquired(inputs: tf.Tensor) -> tf.Tensor:
            both = in_chunks(posterior.marginal, inputs)
            return function(both[:, 0], both[:, 1], best)

        unknown = -1.0 if model.has_item_effect else None  # its number
        found = maximised(acquired, box, rng, unknown)
        challenger, value = resolve_items(model, found.point[None]), found.value
        looked_at, improved = _SCANNED, found.improved
    mean, variance = model.predict_difference(defender.inputs, challenger.inputs)
    probability = model.predict_duel(defender.inputs, challenger.inputs)
    d = model.duels.num_features
    return Challenge(
        incumbent=defender.inputs[0, :d],
        challenger=challenger.inputs[0, :d],
        incumbent_id=defender.ids[0],
        challenger_id=challenger.ids[0] if box is None else None,
        challenger_raw=_raw(model, challenger.inputs[0]),
        acquisition=acquisition,
        value=value,
        probability=float(probability[0]),
        difference=float(mean[0]),
        sd=float(np.sqrt(max(float(variance[0]), 0.0))),
        exact=drawn.exact,
        converged=drawn.converged,
        jitter=drawn.jitter,
        looked_at=looked_at,
        improved=improved,
        about_v=" ".join(drawn.notes()),
    )


def acquisition_named(name: str) -> Acquisition:
    """The acquisition function of that name.

    :raises ValueError: there is none.
    """
    check_choice("acquisition", name, ACQUISITIONS)
    return ACQUISITIONS[name]


def best_of(mean: FloatArray, comparisons: IntArray) -> int:
    """The item of largest mean among those compared, or among all if none was."""
    compared = comparisons > 0
    return int(np.argmax(np.where(compared, mean, -np.inf) if compared.any() else mean))


def _best_challenger(values: FloatArray, same: BoolArray) -> int:
    if same.all():
        raise ValueError(
            "The pool holds nothing but the incumbent; give at least one item with other features."
        )
    return int(np.argmax(np.where(same, -np.inf, values)))


class Maximum(NamedTuple):
    """Where a function over a box is largest, as far as was found."""

    point: FloatArray
    """(D,)."""
    value: float
    """Of the function there."""
    improved: float
    """By how much value exceeds the best of the points looked at first."""


def maximised(
    function: Callable[[tf.Tensor], tf.Tensor],
    box: FloatArray,
    rng: np.random.Generator,
    extra: float | None = None,
) -> Maximum:
    """The largest value of a function over a box, by L-BFGS-B from the best of 2,048 points.

    :param function: (N,) values of inputs (N, D), differentiable.
    :param box: (D, 2).
    :param extra: a last column of the inputs that is not part of the box.
    """
    low, width = box[:, 0], box[:, 1] - box[:, 0]
    # Searched in shares of the box, so that features of different units are alike.
    shares = rng.uniform(size=(_SCANNED, len(box)))

    def inputs(share: tf.Tensor) -> tf.Tensor:
        x = as_float(low) + as_float(width) * share
        if extra is None:
            return x
        return tf.concat([x, tf.fill([tf.shape(x)[0], 1], tf.constant(extra, x.dtype))], 1)

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([len(box)], tf.float64)])
    def value_and_slope(share: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(share)
            value = function(inputs(tf.cast(share, as_float(low).dtype)[None]))[0]
        return value, tape.gradient(value, share)

    def negative(share: FloatArray) -> tuple[float, FloatArray]:
        value, slope = value_and_slope(tf.constant(share, tf.float64))
        return -float(value), -np.asarray(slope.numpy(), dtype=float)

    scanned = function(inputs(as_float(shares))).numpy()
    order = np.argsort(-scanned, kind="stable")[:_STARTS]
    best, value = shares[order[0]], float(scanned[order[0]])
    for start in shares[order]:
        found = minimize(
            negative,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * len(box),
            options={"maxiter": _MAX_ITERATIONS},
        )
        if -found.fun > value:
            best, value = found.x, -float(found.fun)
    point = np.clip(low + width * best, box[:, 0], box[:, 1])
    return Maximum(point, value, value - float(scanned[order[0]]))


def _found(model: PreferenceGP, pool: Any, incumbent: Hashable) -> ItemSet:
    items = known_items(model, pool)
    row = items.find(incumbent)
    if row is None:
        raise ValueError(
            f"The incumbent {str(incumbent)!r} is not among {items.name}; "
            f"{items.meant(incumbent)}give the id of an item."
        )
    return items.select([row])


def _checked_box(model: PreferenceGP, bounds: Any) -> FloatArray:
    d, transform = model.duels.num_features, model.duels.transform
    if not d:
        raise ValueError("The items have no features to bound; give a pool of items.")
    if transform is not None and transform.beyond_numbers is not None:
        raise ValueError(
            f"Some features are made of {transform.beyond_numbers}, which has no range; give a "
            "pool of items in place of bounds."
        )
    box = as_numbers("bounds", bounds, d, 2, hint=", the lowest and highest of each feature")
    wrong = np.flatnonzero(box[:, 0] > box[:, 1])
    if wrong.size:
        low, high = box[wrong[0]]
        raise ValueError(
            f"The bounds of feature {wrong[0]} are {low:g} and {high:g}; give the lower one first."
        )
    return box


def _raw(model: PreferenceGP, features: FloatArray) -> dict[str, float] | None:
    transform = model.duels.transform
    if transform is None or transform.beyond_numbers is not None:
        return None
    columns = zip(transform.numeric, transform.mean, transform.scale, features, strict=False)
    return {name: float(mean + scale * x) for name, mean, scale, x in columns}
