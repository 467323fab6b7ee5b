"""What those who ask a model of duels call it, in memory or not.

Nobody looks at run time whether a model has a property, which may run inference: whether duels are
in memory is theirs to say (`model.duels.held`), and what a model cannot do it refuses in a sentence
of its own.
"""

from __future__ import annotations

from typing import TypeAlias, cast

from sparse_prefgp.data.batches import NotInMemory
from sparse_prefgp.models.base import DuelGP
from sparse_prefgp.models.preference_gp import PreferenceGP

Predicts: TypeAlias = DuelGP


def holding_duels(model: Predicts) -> PreferenceGP:
    """The same model, for what needs its duels.

    :raises ValueError: they are not in memory.
    """
    if not model.duels.held:
        raise NotInMemory
    return cast(PreferenceGP, model)
