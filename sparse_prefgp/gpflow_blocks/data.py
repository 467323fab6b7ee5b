"""Duels as GPflow takes data: inputs and observations."""

from __future__ import annotations

import numpy as np

from sparse_prefgp.duels import Duels, FloatArray


def stacked_duels(duels: Duels) -> tuple[FloatArray, FloatArray]:
    """Duels as the data (X, Y) of a GPflow model with `DuelKernel` and `DuelLikelihood`.

    Args:
        duels: t distinct ordered pairs of items with D features.

    Returns:
        X (t, 2 D), the features of the winner and then those of the loser, and Y (t, 2): the label
        1, as the first of each pair won, and the count.

    Raises:
        ValueError: not a `Duels` object.
    """
    if not isinstance(duels, Duels):
        raise ValueError(
            f"duels must be a Duels object, not {type(duels).__name__}; "
            "make one with Duels(items, winners, losers) or read_duels."
        )
    pairs = np.hstack([duels.items[duels.winners], duels.items[duels.losers]])
    return pairs, np.stack([np.ones(len(pairs)), duels.counts], 1)
