"""Scores of a model on labelled duels, beside the baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.analysis.prediction import predicted
from sparse_prefgp.baselines import Coin, LinearProbit
from sparse_prefgp.checks import whole_number
from sparse_prefgp.duels import Duels
from sparse_prefgp.metrics import score
from sparse_prefgp.models.items import ItemSet, items_of, known_items

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Scores = dict[str, dict[str, float | int]]

MODEL, LINEAR_PROBIT, COIN = "model", "linear_probit", "coin"


def evaluate(
    model: PreferenceGP, duels: Any, items: Any = None, *, seed: int = 0
) -> dict[str, Any]:
    """Score a model on labelled duels, beside a linear probit and a coin.

    Args:
        model: whose predictions are scored. The linear probit is fitted to its training duels.
        duels: path or data frame with `winner`, `loser` and perhaps `count`, or a `Duels` in the
            units of the model.
        items: raw items, as `predict`; not for a `Duels`, which has its own.
        seed: of the folds that choose the width of the linear probit's prior.

    Returns:
        `held_out`: for `model`, `linear_probit` and `coin` the figures of `metrics.score`, and
        `held_out_unseen_pairs`: the same over the duels whose pair was not among the training
        duels, `ordered` in this order and `either_order` at all, each left out where there are
        none, and empty when none of the pairs was; both as in `metrics.json`. Then `duels`, and of
        the items in them `items_outside_range`, `outside_features` and `unknown_levels`.

    Raises:
        ValueError: no duels, an unknown id (with its row), an item against itself, counts that are
            not whole and positive, a negative seed, and what `resolve_items` raises.
    """
    seed = whole_number("seed", seed, 0)
    if isinstance(duels, Duels):
        if items is not None:
            raise ValueError(
                "duels is a Duels object, which has its own items, but items were given too; "
                "leave them out, or give the duels as a table of ids."
            )
        found = items_of(model, duels)
        won, lost, counts = duels.winners, duels.losers, duels.counts
    else:
        found = known_items(model, items)
        won, lost, counts = found.read_duels(duels)

    training = model.duels
    features = found.inputs[:, : training.num_features]
    differences = features[won] - features[lost]
    probit = LinearProbit.fit(
        training.differences(), training.counts, rng=np.random.default_rng(seed)
    )
    log_p = {
        MODEL: predicted(model, found, won, lost)[0],
        LINEAR_PROBIT: probit.predict_log_proba(differences),
        COIN: Coin().predict_log_proba(differences),
    }

    def scores(rows: BoolArray) -> Scores:
        return {
            name: score(counts=counts[rows], log_probabilities=values[rows])
            for name, values in log_p.items()
        }

    parts = {
        "ordered": ~_seen(training, found, won, lost),
        "either_order": ~(_seen(training, found, won, lost) | _seen(training, found, lost, won)),
    }
    all_new = all(mask.all() for mask in parts.values())
    there = found.select(np.unique(np.concatenate([won, lost])))
    return {
        "held_out": scores(np.ones(len(won), dtype=bool)),
        "held_out_unseen_pairs": {
            name: scores(mask) for name, mask in parts.items() if mask.any() and not all_new
        },
        "duels": int(counts.sum()),
        "items_outside_range": int(there.outside.sum()),
        "outside_features": there.outside_features,
        "unknown_levels": there.unknown_levels,
    }


def _seen(training: Duels, items: ItemSet, won: IntArray, lost: IntArray) -> BoolArray:
    """Which ordered pairs of rows of `items` are among the training duels."""
    n = training.num_items
    a, b = items.numbers[won], items.numbers[lost]
    known = (a >= 0) & (b >= 0)
    return np.asarray(known & np.isin(a * n + b, training.winners * n + training.losers))
