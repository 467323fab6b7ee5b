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
from sparse_prefgp.io.files import id_text

IntArray = npt.NDArray[np.int64]

# Noise variances of groups differ by a factor of some e² from one another, as a rule.
RATIO_LOG_SD = 1.0


def margin_parameter(margin: Any, duels: Any) -> gpflow.Parameter | None:
    """The margin, trainable where ties tell something of it.

    :param duels: `Duels`, or what stands for them where they are streamed.
    :raises ValueError: ties without a margin; a margin that is not positive.
    """
    if margin is None:
        if duels.num_ties:
            raise ValueError(
                f"{duels.num_ties:,} of the duels are ties, which need a margin within which a "
                "duel is one; give margin=0.3, say, to start learning it from."
            )
        return None
    if not is_number(margin) or not (np.isfinite(margin) and margin > 0.0):
        raise ValueError(f"margin must be a positive number or None, not {margin!r}.")
    return gpflow.Parameter(
        margin, transform=gpflow.utilities.positive(), trainable=duels.num_ties > 0
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


def known_labels(model: Any, groups: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    """The labels (N,) as the model has them, None where it knows none, which is told once.

    :raises ValueError: a model without noise by group.
    """
    number = group_numbers(groups, len(groups), model.duels, model.noise_ratio is not None)
    names = np.array([*(model.duels.group_names or ()), None], dtype=object)
    return names[number]


def group_numbers(groups: Any, pairs: int, duels: Duels, by_group: bool) -> IntArray:
    """The number of each pair's group, (pairs,), -1 where it is None or unknown, which is told.

    Labels are compared as they are, else as text: 7 and "7" are one group.

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
    names = duels.group_names or ()
    known: dict[Hashable, int] = {id_text(name): i for i, name in enumerate(names)}
    known.update({name: i for i, name in enumerate(names)})
    asked = np.broadcast_to(labels, (pairs,)).tolist()
    found = np.array([known.get(x, known.get(id_text(x), -1)) for x in asked], dtype=np.int64)
    unknown = [i for i in np.flatnonzero(found < 0) if asked[i] is not None]
    if unknown:
        warnings.warn(
            f"The group {asked[unknown[0]]!r} is unknown to the model ({len(unknown):,} of "
            f"{pairs:,} pairs have unknown ones); they get the shared noise.",
            stacklevel=5,
        )
    return found
