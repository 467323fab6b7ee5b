"""Scores of a model on duels that are read in chunks."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_prefgp.analysis.prediction import outcomes_of
from sparse_prefgp.baselines import Coin, LinearProbit
from sparse_prefgp.io.files import listing
from sparse_prefgp.io.streams import ItemTable, StreamedDuels, columns_of, is_stream, stream_duels
from sparse_prefgp.io.streams.rows import SIDES, WEIGHTS
from sparse_prefgp.metrics import constant_shares, score, score_outcomes
from sparse_prefgp.models.items import ItemSet, features_in_units_of, known_items

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP

Scores = dict[str, dict[str, float | int]]

MODEL, LINEAR_PROBIT, COIN = "model", "linear_probit", "coin"
CONSTANT_SHARES = "constant_shares"
# Rows predicted at a time.
_ROWS = 50_000


def is_streamed(model: PreferenceGP, duels: Any, items: Any) -> bool:
    """Whether duels are to be read in chunks: streams, folders of files, and files for a model that
    has no items, where they can only have features of their own."""
    if isinstance(duels, StreamedDuels) or is_stream(duels):
        return True
    path = isinstance(duels, str | os.PathLike)
    return path and not model.duels.has_items and items is None


def in_units_of(
    model: PreferenceGP, duels: Any, items: Any
) -> tuple[StreamedDuels, ItemSet | None]:
    """Duels of files in the units of the model, and the items that they name, if they do.

    Raises:
        ValueError: what `stream_duels` and `resolve_items` raise.
    """
    own = model.duels
    if isinstance(duels, StreamedDuels):
        if items is not None:
            raise ValueError(
                "duels are streamed, with items of their own, but items were given too; leave them "
                "out, or give the duels as files."
            )
        if model.has_item_effect:
            raise ValueError(
                "A model with an item effect needs to know the items; give the duels as files, or "
                "as Duels."
            )
        return _converted(own, duels), None
    columns = columns_of(duels)
    # A score counts duels as they were, whatever weight they had in a fit.
    ignore = [name for name in WEIGHTS if name in columns]
    if not {*SIDES} <= {*columns} and items is None:
        if own.transform is not None and own.transform.categorical:
            raise ValueError(
                "The duels have features of both sides, which are numbers, but the model has the "
                f"categorical feature {own.transform.categorical[0]!r}; give duels between items."
            )
        standardise = False if own.transform is None else own.transform
        more: dict[str, Any] = {"standardise": standardise, "ignore": ignore}
        return stream_duels(duels, features=own.feature_names, **more), None
    found = known_items(model, items)
    table = ItemTable(found.inputs, found.ids, own.feature_names)
    return stream_duels(duels, table, ignore=ignore), found


def _converted(own: Any, duels: StreamedDuels) -> StreamedDuels:
    """The same stream with features in the units of a model's duels."""
    table, transform = duels.items, duels.transform
    if table is not None:
        features = features_in_units_of(own, table.features, table.transform)
        if features is table.features:
            return duels
        items = ItemTable(features, table.ids, own.feature_names, own.transform)
        return replace(duels, items=items, feature_names=own.feature_names)
    if transform is None or transform == own.transform:
        return duels
    wanted = None if own.transform is None else own.transform.feature_names
    if wanted != transform.feature_names:
        has = "none" if wanted is None else listing(wanted)
        raise ValueError(
            f"The stream standardises the features {listing(transform.feature_names)}, but those "
            f"that the model standardises are {has}; make the stream with "
            f"standardise={'False' if wanted is None else 'model.duels.transform'}."
        )
    return replace(duels, transform=own.transform)  # of raw values, which are in the stream


def score_stream(
    model: PreferenceGP, duels: StreamedDuels, probit: LinearProbit | None
) -> tuple[Scores, Scores]:
    """Scores of rows in the units of the model, beside a linear probit, if any, and a coin.

    Returns:
        Those of the duels that one side won, empty without any; and, with ties and a margin, those
        of win, tie and loss over all, beside the shares of training.

    Warns:
        UserWarning: ties that a model without a margin cannot predict.
    """
    found: dict[str, list[np.ndarray]] = {MODEL: []}
    others: dict[str, LinearProbit | Coin] = {COIN: Coin()}
    if probit is not None:
        others = {LINEAR_PROBIT: probit, **others}
    found |= {name: [] for name in others}
    with_outcomes = duels.num_ties > 0 and model.margin is not None
    if duels.num_ties and model.margin is None:
        warn_of_ties(duels.num_ties)
    counts, tied, three = [], [], []
    columns = model.duels.num_features  # after which there may be the number of the item
    for chunk in duels.chunks(_ROWS):
        sides = (chunk.winners, chunk.losers)
        table = duels.items
        won, lost = sides if table is None else (table.features[rows] for rows in sides)
        outcomes = outcomes_of(model, *model.predict_difference(won, lost))
        found[MODEL].append(outcomes.winner)
        for name, other in others.items():
            found[name].append(other.predict_log_proba((won - lost)[:, :columns]))
        counts.append(chunk.counts)
        tied.append(np.zeros(len(won), dtype=bool) if chunk.ties is None else chunk.ties)
        if with_outcomes:
            three.append(outcomes.all_three)
    weight, ties = np.concatenate(counts), np.concatenate(tied)
    decided = ~ties
    scores = {
        name: score(counts=weight[decided], log_probabilities=np.concatenate(values)[decided])
        for name, values in found.items()
        if decided.any()
    }
    if not with_outcomes:
        return scores, {}
    shares = constant_shares(model.duels.num_ties / model.duels.num_duels, len(ties))
    whole = {MODEL: np.concatenate(three), CONSTANT_SHARES: shares}
    return scores, {name: score_outcomes(p, ties, weight) for name, p in whole.items()}


def warn_of_ties(number: int) -> None:
    """Tell that ties are left out of scores."""
    warnings.warn(
        f"{number:,} of the duels are ties, which a model without a margin cannot predict; only "
        "the others are scored.",
        stacklevel=4,
    )
