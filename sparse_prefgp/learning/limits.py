"""Where a fit has run to an end: limits of parameters, lengthscales too small, noise too small."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from sparse_prefgp.covariances.item_in_time import time_term
from sparse_prefgp.covariances.kernels import as_float, pair_difference_variance
from sparse_prefgp.covariances.projected import Projected
from sparse_prefgp.data.slices import DAYS_A_YEAR
from sparse_prefgp.learning.notes import NO_LINE
from sparse_prefgp.models.parameters import reach_of
from sparse_prefgp.models.posterior import each_difference
from sparse_prefgp.models.protocols import Predicts
from sparse_prefgp.support.arrays import BoolArray

# Of a feature's standard deviation: a lengthscale below takes any two values for unrelated.
LEAST_SHARE = 1e-4
# Prior variance of a duel over its noise, from which on the probability of a typical duel is 0 or 1
# to what a few duels can show: without noise in one dimension EP's evidence has an optimum from
# some hundreds on, where its gradient vanishes, though the true one rises on.
NOISELESS = 100.0
# A value is at a limit that it has come to within this share of (of the range, at an upper one),
# and at a limit of 0 below this number.
_NEAR, _NEAR_ZERO = 1e-3, 1e-10
# Duels, drawn at random, that tell whether any speaks against the model.
_SAMPLE = 2000
_NAMED = 5
# Spans of the duels from which on a lengthscale in time says no more than that it is long.
SPANS = 5.0
_MEANINGS = {
    ("lower", "lengthscales"): " (any two values of such a feature are unrelated)",
    ("lower", "variance"): " (which plays no part)",
}


def limits_of(model: Predicts) -> tuple[str, ...]:
    """What to know of the parameters that a fit has learned, a sentence each; empty as a rule.

    Parameters at a limit of their transform; lengthscales below 1e-4 of their feature's standard
    deviation; a kernel variance that has left the noise behind because no duel contradicts the
    others.
    """
    return (
        *_at_limits(model),
        *small_lengthscales(model),
        *hardly_returning(model),
        *_runaway(model),
    )


def small_lengthscales(model: Predicts) -> tuple[str, ...]:
    """Trainable lengthscales below 1e-4 of the spread of their feature, without a limit above 0."""
    # 0 where a feature does not vary. Of inline features only the range is known, of which two
    # values have half for theirs.
    spread, elsewhere = np.std(model.duels.items, axis=0), _of_directions(model.kernel)
    found = []
    for kernel in _leaves(model.kernel):
        if not isinstance(kernel, gpflow.kernels.Stationary) or not kernel.lengthscales.trainable:
            continue
        if id(kernel) in elsewhere:
            continue
        parameter = kernel.lengthscales
        columns = np.arange(len(spread))[kernel.active_dims]
        values = np.broadcast_to(parameter.numpy(), columns.shape)
        small = np.abs(values) < LEAST_SHARE * spread[columns]
        if small.any() and not reach_of(parameter)[0] > 0.0:
            what = _elements(model, kernel, "lengthscales", small)
            found.append(
                f"Below {LEAST_SHARE:g} of the feature's spread: {what}, down to "
                f"{np.min(np.abs(values[small])):.1e}, where any two values are unrelated; give "
                "the lengthscale a prior or a fixed value, or leave the feature out."
            )
    return tuple(found)


def _at_limits(model: Predicts) -> Iterator[str]:
    owners = {
        id(value): (kernel, name)
        for kernel in _leaves(model.kernel)
        for name, value in vars(kernel).items()
        if isinstance(value, gpflow.Parameter)
    }
    for path, parameter in gpflow.utilities.parameter_dict(model).items():
        if not parameter.trainable or parameter.transform is None:
            continue
        if path.startswith(".terms") and parameter.prior is not None:
            continue  # in units of the features, whatever they are
        path = re.sub(r"^\.(terms\[\d+\]\.kernel|likelihood)\.", "", path)
        kernel, name = owners.get(id(parameter), (None, path.removeprefix(".")))
        (low, high), values = reach_of(parameter), parameter.numpy()
        at = {"lower": values <= (low * (1.0 + _NEAR) if low > 0.0 else low + _NEAR_ZERO)}
        if low == 0.0 and name == "lengthscales":
            at = {}  # far below what `small_lengthscales` finds
        if np.isfinite(high):
            at["upper"] = high - values <= _NEAR * (high - low)
        for word, where in at.items():
            if np.any(where):
                what = _elements(model, kernel, name, where)
                limit = low if word == "lower" else high
                if word == "lower" and name == "variance" and _may_curve(model, kernel, where):
                    yield (
                        f"{NO_LINE}{_features(model, kernel, where)} (variance of Linear at its "
                        f"lower limit, {limit:g}); a curved one may remain. You need "
                        "not do anything."
                    )
                    continue
                meaning = _MEANINGS.get((word, name), "")
                yield f"At the {word} limit of what can be learned, {limit:g}: {what}{meaning}."


def _may_curve(model: Predicts, kernel: gpflow.kernels.Kernel | None, at: BoolArray) -> bool:
    """Whether the kernel is a linear term without these features, which another term sees too."""
    whole, number = model.kernel, model.duels.num_features
    if kernel is None or type(kernel) is not gpflow.kernels.Linear:  # no polynomial
        return False
    if not isinstance(whole, gpflow.kernels.Sum):
        return False
    seen = np.arange(number)[kernel.active_dims]
    if kernel not in whole.kernels or at.shape != seen.shape:
        return False
    curved = [
        np.arange(number)[term.active_dims]
        for term in whole.kernels
        if isinstance(term, gpflow.kernels.Stationary)
    ]
    return all(any(column in columns for columns in curved) for column in seen[at])


def hardly_returning(model: Predicts) -> Iterator[str]:
    """Of utilities in time that come back to their mean after all duels are long over."""
    term = time_term(model.kernel)
    if term is None or model.duels.times is None:
        return
    span = float(np.ptp(model.duels.times)) / DAYS_A_YEAR
    for kernel in (term.kernel, *term.kernel.submodules):
        lengthscale = getattr(kernel, "lengthscale", None)
        if lengthscale is None or float(lengthscale.numpy()) <= SPANS * span:
            continue
        yield (
            f"The lengthscale of {type(kernel).__name__} in time is {lengthscale.numpy():.3g} "
            f"years, where the duels are of {span:.3g}: over these it does not come back to a "
            "mean, and is a Wiener process in all but name; take ItemInTime(spg.markov.Wiener())."
        )


def _runaway(model: Any) -> Iterator[str]:
    scales = (p for part in _leaves(model.kernel) for k, p in vars(part).items() if "variance" in k)
    # A prior says how large the noise is where no duel does.
    if not any(isinstance(p, gpflow.Parameter) and p.trainable and p.prior is None for p in scales):
        return
    ahead, behind, noise = model.sample_wins(_SAMPLE, np.random.default_rng(0), 0.1 * NOISELESS)
    different = np.any(ahead != behind, 1)
    ahead, behind, noise = as_float(ahead[different]), as_float(behind[different]), noise[different]
    if not len(noise):
        return
    prior = pair_difference_variance(model.problem().kernel, ahead, behind).numpy()
    ratio = float(np.mean(prior / noise))
    if not ratio > NOISELESS:
        return
    both = each_difference(model.posterior(), tf.stack([ahead, behind], 1)).numpy()
    if np.any(both[:, 0] <= 0.0):
        return
    yield (
        "No duel contradicts the others under this kernel, so that hardly anything tells how large "
        f"the noise is: the prior variance of a duel has come to {ratio:.0e} times its noise, and "
        "where it stopped says little; the order of the items is what the duels say, but "
        "probabilities close to 0 or 1 are surer than they can show. Add duels, above all repeated "
        "ones, or take weak priors (--priors weak, or spg.default_priors)."
    )


def _leaves(kernel: gpflow.kernels.Kernel) -> list[gpflow.kernels.Kernel]:
    return [
        part
        for part in (kernel, *kernel.submodules)
        if isinstance(part, gpflow.kernels.Kernel)
        and not isinstance(part, gpflow.kernels.Combination)
    ]


def _of_directions(kernel: gpflow.kernels.Kernel) -> set[int]:
    """Ids of the kernels that see learned directions, and not features."""
    projections = [part for part in (kernel, *kernel.submodules) if isinstance(part, Projected)]
    return {id(inner) for part in projections for inner in part.submodules}


def _elements(
    model: Predicts, kernel: gpflow.kernels.Kernel | None, name: str, at: BoolArray
) -> str:
    """`lengthscales of Matern52 for 'price', 'age'`."""
    text = name if kernel is None else f"{name} of {type(kernel).__name__}"
    features = _features(model, kernel, at)
    return f"{text} for {features}" if features else text


def _features(model: Predicts, kernel: gpflow.kernels.Kernel | None, at: BoolArray) -> str:
    """`'price', 'age'`; nothing where a parameter is not of one feature each."""
    number, names = model.duels.num_features, model.duels.feature_names
    if kernel is None or id(kernel) in _of_directions(model.kernel):
        return ""
    columns = np.arange(number)[kernel.active_dims] if number else ()
    if at.ndim != 1 or len(at) != len(columns):
        return ""
    chosen = [int(columns[i]) for i in np.flatnonzero(at)]
    shown = [repr(names[i]) if names is not None else f"feature {i}" for i in chosen[:_NAMED]]
    more = f" and {len(chosen) - _NAMED} more" if len(chosen) > _NAMED else ""
    return f"{', '.join(shown)}{more}"
