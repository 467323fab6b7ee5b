"""Where learning of tastes begins: priors of the variances, and the better of two starts.

Five to twenty duels tell little of the taste of a person, and what they tell of its variance comes
from all people together: weak priors keep it from 0 and infinity while it is found. Where own
tastes are strong, small first variances are a long way off, and expectation propagation needs many
sweeps on the way.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

import gpflow
import numpy as np

from sparse_prefgp.covariances.finite import parts_of
from sparse_prefgp.covariances.item_effect import item_effects
from sparse_prefgp.models import PreferenceGP
from sparse_prefgp.models.parameters import LogParameter

# First variances, at a noise of variance 1 of each difference: of what is shared and of one's own,
# of kernels and of effects of items.
WEAK = {"kernel": (0.5, 0.5), "taste": (0.2, 0.2)}
STRONG = {"kernel": (3.0, 0.5), "taste": (6.0, 5.0)}
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
    unit = 2.0 * float(model.likelihood.noise.numpy())
    kernels = {"kernel": model.kernel, "taste": model.terms.taste}
    terms = [
        term
        for name, kernel in kernels.items()
        for term in _terms(name, kernel, model.duels.num_features)
    ]
    found = {}
    engine = model.engine
    try:
        if hasattr(engine, "max_sweeps"):
            model.engine = replace(cast(Any, engine), max_sweeps=SWEEPS)
        for name, start in (("weak", WEAK), ("strong", STRONG)):
            _assign(terms, start, unit)
            with warnings.catch_warnings():  # two sweeps are not to converge
                warnings.simplefilter("ignore")
                model.infer(restart=True)
                value = model.log_evidence() + float(model.log_prior_density())
            found[name] = value if np.isfinite(value) else -np.inf
    finally:
        model.engine = engine
    kept = "strong" if found["strong"] > found["weak"] else "weak"
    _assign(terms, STRONG if kept == "strong" else WEAK, unit)
    model.infer(restart=True)
    return kept


class _Term(NamedTuple):
    """A term of a kernel, whose variance is learned."""

    name: str
    """Of its kernel in the model."""
    kernel: Any
    is_effect: bool
    """Whether it is an effect of each item."""
    size: float
    """By what its variance is multiplied in that of a typical utility."""


def _terms(name: str, kernel: gpflow.kernels.Kernel, features: int) -> list[_Term]:
    effects = [id(effect) for effect in item_effects(kernel)]
    return [
        _Term(
            name,
            part,
            id(part) in effects,
            float(features) if type(part) is gpflow.kernels.Linear else 1.0,
        )
        for part in parts_of(kernel)
        if _is_learned(part)
    ]


def _is_learned(part: Any) -> bool:
    variance = getattr(part, "variance", None)
    if variance is None or not variance.trainable:
        return False
    return variance.prior is None or isinstance(variance, LogParameter)


def _assign(terms: list[_Term], start: Mapping[str, tuple[float, float]], unit: float) -> None:
    for term in terms:
        value = unit * start[term.name][1 if term.is_effect else 0] / term.size
        variance = term.kernel.variance
        variance.assign(np.full(variance.shape, value))
