"""What a model knows of duels beside the utilities: the margin of ties, the noise of groups."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any

import gpflow
import numpy as np
import numpy.typing as npt
import tensorflow_probability as tfp

from sparse_prefgp.checks import is_number
from sparse_prefgp.duels import Duels

IntArray = npt.NDArray[np.int64]

# Noise variances of groups differ by a factor of some e² from one another, as a rule.
RATIO_LOG_SD = 1.0


def margin_parameter(margin: Any, duels: Duels) -> gpflow.Parameter | None:
    """The margin, trainable where ties tell something of it.

    :raises ValueError: ties without a margin; a margin that is not positive.
    """
    if margin is None:
        if duels.ties is not None:
            raise ValueError(
                f"{duels.num_ties:,} of the duels are ties, which need a margin within which a "
                "duel is one; give margin=0.3, say, to start learning it from."
            )
        return None
    if not is_number(margin) or not (np.isfinite(margin) and margin > 0.0):
        raise ValueError(f"margin must be a positive number or None, not {margin!r}.")
    return gpflow.Parameter(
        margin, transform=gpflow.utilities.positive(), trainable=duels.ties is not None
    )


def ratio_parameter(duels: Duels) -> gpflow.Parameter:
    """By what each group multiplies the noise variance, (number of groups,).

    :raises ValueError: duels without groups.
    """
    if duels.group_names is None:
        raise ValueError(
            "noise_by_group needs duels with groups; give Duels(…, groups=labels), or leave it out."
        )
    dtype = gpflow.default_float()
    prior = tfp.distributions.Normal(dtype(0.0), dtype(RATIO_LOG_SD))
    return gpflow.Parameter(
        np.ones(len(duels.group_names)),
        transform=tfp.bijectors.Exp(),
        prior=prior,
        prior_on="unconstrained",
    )


def group_numbers(groups: Any, pairs: int, duels: Duels, by_group: bool) -> IntArray:
    """The number of each pair's group, (pairs,), -1 where it is unknown, which is told.

    :raises ValueError: labels of another length; a model without noise by group.
    """
    if not by_group:
        raise ValueError(
            "groups were given, but this model has one noise for all; make it with "
            "noise_by_group=True, or leave them out."
        )
    labels = np.asarray(groups)
    if labels.shape not in ((), (pairs,)):
        raise ValueError(
            f"groups has shape {labels.shape} for {pairs} pairs; give one label for all, or one "
            "for each."
        )
    known: dict[Hashable, int] = {name: i for i, name in enumerate(duels.group_names or ())}
    found = np.array([known.get(x, -1) for x in np.broadcast_to(labels, (pairs,)).tolist()])
    unknown = np.flatnonzero(found < 0)
    if unknown.size:
        first = np.broadcast_to(labels, (pairs,)).tolist()[unknown[0]]
        warnings.warn(
            f"The group {first!r} is unknown to the model ({unknown.size} of {pairs} pairs have "
            "unknown ones); they get the shared noise.",
            stacklevel=5,
        )
    return found.astype(np.int64)
