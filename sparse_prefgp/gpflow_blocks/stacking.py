"""Duels as GPflow takes data: inputs and observations."""

from __future__ import annotations

import numpy as np

from sparse_prefgp.data.duels import Duels
from sparse_prefgp.support.arrays import FloatArray


def stacked_duels(duels: Duels) -> tuple[FloatArray, FloatArray]:
    """Duels as the data (X, Y) of a GPflow model with `DuelKernel` and `DuelLikelihood`.

    :param duels: t distinct ordered pairs of items with D features, without ties, groups
        or covariates.
    :return: X (t, 2 D), the features of the winner and then those of the loser, and Y (t, 2): the
        label 1, as the first of each pair won, and the count, with weights as how much it counts.
    :raises ValueError: not a `Duels` object; ties, grades, groups or covariates, which kernel and
        likelihood do not know.
    """
    if not isinstance(duels, Duels):
        raise ValueError(
            f"duels must be a Duels object, not {type(duels).__name__}; "
            "make one with Duels(items, winners, losers) or read_duels."
        )
    if duels.ties is not None:
        raise ValueError(
            f"{duels.num_ties:,} of the duels are ties, which DuelLikelihood has no margin for; "
            "leave them out, or use PreferenceGP(margin=...)."
        )
    if duels.levels is not None:
        raise ValueError(
            "The duels have grades, but DuelLikelihood knows who won alone; leave the grades out, "
            "or use PreferenceGP(margin=...)."
        )
    if duels.groups is not None:
        raise ValueError(
            "The duels have groups, but DuelLikelihood has one noise for all; leave the groups "
            "out, or use PreferenceGP(noise_by_group=True)."
        )
    if duels.covariates is not None:
        raise ValueError(
            "The duels have covariates, of which DuelKernel knows nothing; leave the covariates "
            "out, or use PreferenceGP."
        )
    pairs = np.hstack([duels.items[duels.winners], duels.items[duels.losers]])
    return pairs, np.stack([np.ones(len(pairs)), duels.effective_counts], 1)
