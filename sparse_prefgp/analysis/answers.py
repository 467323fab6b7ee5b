"""Scores of a model on answers about sets that are known: choices, rankings, …."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparse_prefgp.analysis.alternatives import read_sets
from sparse_prefgp.analysis.rivals import EQUAL_SHARES, KNOWS_NOTHING, rivals_of
from sparse_prefgp.analysis.roles import Columns
from sparse_prefgp.analysis.scoring import Asked, score_events
from sparse_prefgp.data.splits import grouping_of
from sparse_prefgp.models.protocols import Predicts, holding_duels
from sparse_prefgp.support.randomness import generator


def evaluate_sets(
    model: Predicts,
    kind: str,
    source: Any,
    items: Any = None,
    *,
    rng: np.random.Generator | None = None,
    columns: Columns = None,
    **options: Any,
) -> dict[str, Any]:
    """Score a model on a table of answers about sets, along with a conditional logit on its
    training answers and equal shares.

    :param model: whose predictions are scored. One that learned from duels, or from a stream, is
        scored along with equal shares alone.
    :param kind: `choices`, `rankings` or `best_worst`.
    :param source: as for `alternatives.read_sets`.
    :param items: as for `alternatives.read_sets`.
    :param rng: of the folds that choose the ridge of the conditional logit.
    :param columns: as for `alternatives.read_sets`.
    :param options: of the reader.
    :return: `held_out`: what `HeldOut.scores` gives; `answers`, how many there are; and of
        the alternatives in them `items_outside_range`, `outside_features` and `unknown_levels`.
    :raises ValueError: what `alternatives.read_sets` raises.
    """
    read = read_sets(model, kind, source, items, columns, **options)
    rivals = {EQUAL_SHARES: KNOWS_NOTHING}
    if model.duels.held and holding_duels(model).duels.events.has_sets:
        rivals = rivals_of(holding_duels(model).duels, generator(rng))
    grouping = grouping_of(read.table, np.arange(len(read.events)))
    asked = Asked(read.events, read.items.inputs, sets=True)
    found = score_events(model, rivals, [asked], grouping=grouping)
    there = read.items.select(np.unique(read.events.sides))
    return {
        "held_out": found.scores(),
        "answers": read.events.num_events,
        "items_outside_range": int(there.outside.sum()),
        "outside_features": there.outside_features,
        "unknown_levels": there.unknown_levels,
    }
