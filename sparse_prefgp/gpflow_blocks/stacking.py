"""Duels as GPflow takes data: inputs and observations."""

from __future__ import annotations

import numpy as np

from sparse_prefgp.data.duels import OF_DUELS, Duels
from sparse_prefgp.support import together
from sparse_prefgp.support.arrays import FloatArray
from sparse_prefgp.support.checks import check_kind


def stacked_duels(duels: Duels) -> tuple[FloatArray, FloatArray]:
    """Duels as the data (X, Y) of a GPflow model with `DuelKernel` and `DuelLikelihood`.

    :param duels: t distinct ordered pairs of items with D features, without ties, groups
        or covariates.
    :return: X (t, 2 D), the features of the winner and then those of the loser, and Y (t, 2): the
        label 1, as the first of each pair won, and the count, with weights as how much it counts.
    :raises ValueError: not a `Duels` object; ties, grades, groups or covariates, which kernel and
        likelihood do not know.
    """
    check_kind("duels", duels, Duels, OF_DUELS)
    together.check(
        stacked=True,
        ties=duels.ties is not None and f"{duels.num_ties:,} ties",
        grades=duels.levels is not None,
        judges=duels.groups is not None,
        covariates=duels.covariates is not None,
    )
    pairs = np.hstack([duels.items[duels.winners], duels.items[duels.losers]])
    return pairs, np.stack([np.ones(len(pairs)), duels.effective_counts], 1)
