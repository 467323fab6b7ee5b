"""What a model with tastes says of its people: how much is personal, and who differs most.

How far apart two items are for somebody has a shared part, `(g(x) - g(x'))²`, and a personal one,
the variance of `h_u(x) - h_u(x')` between people; both are averaged over pairs of items. The first
is known from the posterior of g, the second from the variances of the taste, which are taken for
normal in their logs about the optimum, with the curvature of the evidence there (Laplace).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.analysis.items import ItemSet, resolve_items
from sparse_prefgp.covariances.coefficients import on_rows
from sparse_prefgp.covariances.finite import parts_of
from sparse_prefgp.covariances.kernels import pair_difference_variance
from sparse_prefgp.data.features import require_pandas
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support.arrays import FloatArray

# Of utilities and variances, for the interval of a share.
_DRAWS = 2000
# Items that people are compared on: those with the most duels.
MOST_ITEMS = 200
# Of the logarithm of a variance, between two slopes of the evidence.
_STEP = 0.05
LEVEL = 0.9


# Whose utility it is: a name, a list of names, or None where nobody is named.
Person = Hashable | list[Hashable] | None


class TasteShare(NamedTuple):
    """How much of what is preferred is personal."""

    share: float
    """Of the mean square of a difference of utilities of a person."""
    lower: float
    """Of its interval; NaN where the evidence has no maximum there."""
    upper: float
    """The same."""


def seen_by(model: Any, person: Person) -> Any:
    """The model whose utility is that of one person; the model itself without a name.

    :param person: a name, or a list of names for what a group prefers on average.
    :raises ValueError: a model without tastes; somebody it does not know.
    """
    if person is None:
        return model
    return model.of_people(person) if isinstance(person, list) else model.of_person(person)


def taste_share(
    model: Any, level: float = LEVEL, rng: np.random.Generator | None = None
) -> TasteShare:
    """How much of what is preferred is personal, with an interval.

    :param model: a `PreferenceGP` with tastes, fitted; it is left as it was.
    :param level: what the interval holds.
    :param rng: draws utilities and variances.
    :raises ValueError: a model without tastes.
    """
    model.allow(people=True)
    rng = np.random.default_rng(0) if rng is None else rng
    inputs = compared_on(model).inputs
    if len(inputs) < 2:
        return TasteShare(np.nan, np.nan, np.nan)
    parts: list[Any] = list(parts_of(model.terms.taste))
    first, second = (tf.constant(inputs[side]) for side in np.triu_indices(len(inputs), 1))
    kernels = [on_rows(part, model.inputs.layout) for part in parts]
    apart = [pair_difference_variance(kernel, first, second) for kernel in kernels]
    sizes = np.array([float(tf.reduce_mean(each)) for each in apart])
    if model.terms.by_features is not None:
        parts.append(_Coefficients(model.terms.by_features))
        # The mean square of a difference of `s_u' W x` before any duel, for one of the people.
        features = model.duels.people_features.of(model.people.names)
        step = (second - first).numpy()[:, : model.duels.num_features]
        each = np.sum(np.var(features, 0)) * np.mean(np.sum(step**2, 1))
        sizes = np.append(sizes, float(model.terms.by_features.numpy() * each))
    drawn = _shared_squares(model, inputs, rng)
    own, shared = sizes.sum(), drawn.mean()
    share = float(own / (own + shared))
    learned = [j for j, part in enumerate(parts) if _learned(part)]
    others = [part for part in parts_of(model.kernel) if _learned(part)]
    sizes = np.repeat(sizes[:, None], len(drawn), 1)
    if learned:
        curvature = _curvature(model, [*(parts[j] for j in learned), *others])
        values, vectors = np.linalg.eigh(curvature)
        if not np.all(np.isfinite(values)) or values[0] <= 0.0:
            return TasteShare(share, np.nan, np.nan)
        logs = (vectors / np.sqrt(values)) @ rng.normal(size=(len(values), len(drawn)))
        sizes[learned] *= np.exp(logs[: len(learned)])
    found = sizes.sum(0) / (sizes.sum(0) + drawn)
    lower, upper = np.quantile(found, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    return TasteShare(share, float(lower), float(upper))


class _Coefficients(NamedTuple):
    """What features of people say, as a part of tastes."""

    variance: gpflow.Parameter


def _shared_squares(model: Any, inputs: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draws of the mean of (g(x) - g(x'))² over pairs of items."""
    mean, covariance = (x.numpy() for x in model.predict_f(inputs, full_cov=True))
    # Of g less its mean over the items: its level is not known.
    level = np.eye(len(inputs)) - 1.0 / len(inputs)
    values, vectors = np.linalg.eigh(level @ covariance[0] @ level)
    noise = rng.normal(size=(len(values), _DRAWS))
    drawn = level @ mean + (vectors * np.sqrt(np.maximum(values, 0.0))) @ noise
    return 2.0 * (drawn**2).sum(0) / (len(inputs) - 1)


def _learned(part: Any) -> bool:
    variance = getattr(part, "variance", None)
    return variance is not None and bool(variance.trainable)


def _curvature(model: Any, parts: list[Any]) -> FloatArray:
    """Second derivatives of the training loss in the logs of variances, (k, k), by slopes."""
    variances = [part.variance for part in parts]
    free = [variance.unconstrained_variable for variance in variances]

    def slopes_at(variance: gpflow.Parameter, value: FloatArray) -> FloatArray:
        variance.assign(value)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(free)
            loss = model.training_loss()
        found = []
        for one, inside, each in zip(variances, free, tape.gradient(loss, free), strict=True):
            rate = one.numpy()
            if one.transform is not None:
                rate = rate / np.exp(one.transform.forward_log_det_jacobian(inside, 0).numpy())
            found.append(float(np.sum(each.numpy() * rate)))
        return np.array(found)

    # To the bit, which a value that went through a transform and back is not.
    before = [inside.numpy() for inside in free]
    rows = []
    try:
        for variance, inside, reached in zip(variances, free, before, strict=True):
            value = variance.numpy()
            ends = [slopes_at(variance, value * np.exp(sign * _STEP)) for sign in (1.0, -1.0)]
            inside.assign(reached)
            rows.append((ends[0] - ends[1]) / (2.0 * _STEP))
    finally:
        for inside, reached in zip(free, before, strict=True):
            inside.assign(reached)
        model.infer()
    found = np.array(rows)
    return 0.5 * (found + found.T)


def compared_on(model: Predicts) -> ItemSet:
    """The items that people are compared on: at most 200, those with the most duels."""
    items = resolve_items(model)
    return items.select(np.sort(np.argsort(-items.comparisons, kind="stable")[:MOST_ITEMS]))


def people(model: Predicts) -> Any:
    """A data frame with a row for each person, those furthest from the consensus first.

    Compared are expected utilities of the items, of 200 with the most duels where there are more.

    :param model: with tastes.
    :return: `person`; `comparisons`, the duels of the person; `distance`, the root mean square of
        what the person's utilities are beyond those all share, each less its mean over the items;
        `agreement`, the correlation of the person's utilities with the shared ones; `likes_more`
        and `likes_less`, the ids of the items of which that is furthest up and down.
    :raises ValueError: a model without tastes.
    """
    holding: Any = model
    duels, items = holding.duels, compared_on(model)
    inputs = items.inputs
    own = holding.people.tastes(inputs)
    own = own - own.mean(1, keepdims=True)
    shared = holding.predict_f(inputs)[0].numpy()[:, 0]
    shared = shared - shared.mean()
    both = own + shared
    scale = np.sqrt((both**2).sum(1) * (shared**2).sum())
    agreement = np.divide(both @ shared, scale, out=np.full(len(own), np.nan), where=scale > 0.0)
    names = duels.people_names or ()
    asked = np.bincount(duels.people, duels.events.totals, len(names))
    frame = require_pandas().DataFrame(
        {
            "person": list(names),
            "comparisons": np.round(asked).astype(int),
            "distance": np.sqrt(np.mean(own**2, 1)),
            "agreement": agreement,
            "likes_more": [items.ids[i] for i in own.argmax(1)],
            "likes_less": [items.ids[i] for i in own.argmin(1)],
        }
    )
    return frame.sort_values("distance", ascending=False, kind="stable", ignore_index=True)
