"""Where learning of tastes begins: priors of the variances, and the better of two starts.

Five to twenty duels tell little of the taste of a person, and what they tell of its variance comes
from all people together: weak priors keep it from 0 and infinity while it is found. Where own
tastes are strong, small first variances are a long way off, and expectation propagation needs many
sweeps on the way.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, cast

import gpflow
import numpy as np

from sparse_prefgp.covariances.finite import parts_of
from sparse_prefgp.covariances.item_effect import item_effects
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.parameters import LogParameter

# First variances, at a noise of variance 1 of each difference: of what is shared and of one's own,
# of kernels and of effects of items.
STARTS = {
    "weak": {"kernel": (0.5, 0.5), "taste": (0.2, 0.2)},
    "strong": {"kernel": (3.0, 0.5), "taste": (6.0, 5.0)},
}
# Sweeps for each.
SWEEPS = 2


def begin_tastes(model: PreferenceGP) -> str:
    """Let variances of kernel and taste start where more is explained.

    Those that have a prior of one's own, or are not learned, stay as they are; give
    `default_priors` first. Two starts, of weak
    and of strong tastes, are compared after two sweeps each.

    :param model: with tastes; its variances change.
    :return: the start that is kept, `weak` or `strong`.
    :raises ValueError: a model without tastes.
    """
    model.allow(people=True)
    first = _first_variances(model)
    found = {}
    engine = model.engine
    try:
        if hasattr(engine, "max_sweeps"):
            model.engine = replace(cast(Any, engine), max_sweeps=SWEEPS)
        for name in STARTS:
            _assign(first, name)
            with warnings.catch_warnings():  # two sweeps are not to converge
                warnings.simplefilter("ignore")
                model.infer(restart=True)
                value = model.log_evidence() + float(model.log_prior_density())
            found[name] = value if np.isfinite(value) else -np.inf
    finally:
        model.engine = engine
    kept = "strong" if found["strong"] > found["weak"] else "weak"
    _assign(first, kept)
    model.infer(restart=True)
    return kept


def _first_variances(model: PreferenceGP) -> list[tuple[gpflow.Parameter, dict[str, float]]]:
    """Learned variances of terms, with the first one of each start."""
    unit, found = 2.0 * float(model.likelihood.noise.numpy()), []
    for name, kernel in (("kernel", model.kernel), ("taste", model.terms.taste)):
        effects = [id(effect) for effect in item_effects(kernel)]
        for part in parts_of(kernel):
            variance: Any = getattr(part, "variance", None)
            if variance is None or not variance.trainable:
                continue
            if variance.prior is None or isinstance(variance, LogParameter):
                linear = type(part) is gpflow.kernels.Linear
                size = float(model.duels.num_features) if linear else 1.0  # of a typical utility's
                is_effect = id(part) in effects
                firsts = {of: unit * at[name][is_effect] / size for of, at in STARTS.items()}
                found.append((variance, firsts))
    return found


def _assign(first: list[tuple[gpflow.Parameter, dict[str, float]]], start: str) -> None:
    for variance, value in first:
        variance.assign(np.full(variance.shape, value[start]))
