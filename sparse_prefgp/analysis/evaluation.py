"""Scores of a model on labelled duels, beside the baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparse_prefgp.analysis.prediction import Outcomes, predicted
from sparse_prefgp.analysis.stream_evaluation import (
    COIN,
    CONSTANT_SHARES,
    LINEAR_PROBIT,
    MODEL,
    Scores,
    in_units_of,
    is_streamed,
    score_stream,
    warn_of_ties,
)
from sparse_prefgp.baselines import Coin, LinearProbit
from sparse_prefgp.checks import whole_number
from sparse_prefgp.duels import Duels
from sparse_prefgp.metrics import constant_shares, score, score_outcomes
from sparse_prefgp.models.items import ItemSet, LabelledDuels, items_of, known_items
from sparse_prefgp.parts.seen import SeenDuels

if TYPE_CHECKING:
    from sparse_prefgp.models import PreferenceGP

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def evaluate(
    model: PreferenceGP,
    duels: Any,
    items: Any = None,
    *,
    seed: int = 0,
    groups: str | None = None,
) -> dict[str, Any]:
    """Score a model on labelled duels, beside a linear probit and a coin.

    Args:
        model: whose predictions are scored. The linear probit is fitted to its training duels; a
            `StreamedGP`, which does not have them, is scored beside the coin alone.
        duels: path or data frame with `winner`, `loser` and perhaps `count` and `tie`, or a
            `Duels`, whose groups count if the model has noise by group.
            A folder of Parquet files is read in chunks, and so is one file for a model whose duels
            had features of their own; or `StreamedDuels`. The pairs are not told apart then, nor,
            without items, what lies outside the range: None. `Duels` and streams that record
            another transform than the model are converted to its units by way of the raw values;
            without a recorded one they are taken to be in its units.
        items: raw items, as `predict`; not for a `Duels`, which has its own.
        seed: of the folds that choose the width of the linear probit's prior.
        groups: name of the column that says who judged, for a model with noise by group.

    Returns:
        `held_out`: for `model`, `linear_probit` and `coin` the figures of `metrics.score`, and
        `held_out_unseen_pairs`: the same over the duels whose pair was not among the training
        duels, `ordered` in this order and `either_order` at all, each left out where there are
        none, and empty when none of the pairs was; both as in `metrics.json`. These are about the
        duels that one side won, given that they were not tied. `held_out_outcomes`, where there
        are ties and the model has a margin: the figures of `metrics.score_outcomes` over all duels
        for `model` and `constant_shares`, who knows the share of ties in training; else empty.
        Then `duels`, `ties`, and of the items in them `items_outside_range`, `outside_features` and
        `unknown_levels`.

    Warns:
        UserWarning: ties that a model without a margin cannot predict; unknown groups.

    Raises:
        ValueError: no duels, none that one side won, an unknown id (with its row), an item against
            itself, counts that are not whole and positive, ties that are neither 0 nor 1, groups
            for a model with one noise for all, a negative seed, features that cannot be converted
            to the units of the model, and what `resolve_items` raises.
    """
    seed = whole_number("seed", seed, 0)
    if is_streamed(model, duels, items):
        return _of_stream(model, duels, items, seed, groups)
    if isinstance(duels, Duels):
        if items is not None:
            raise ValueError(
                "duels is a Duels object, which has its own items, but items were given too; "
                "leave them out, or give the duels as a table of ids."
            )
        if groups is not None:
            raise ValueError(
                "duels is a Duels object, which has its own groups, but the column "
                f"{groups!r} was given too; leave it out."
            )
        found, given = items_of(model, duels), _labelled(model, duels)
    else:
        found = known_items(model, items)
        given = found.read_duels(duels, groups)

    # Of duels that were streamed, pairs and features are not kept.
    training = None if isinstance(model.duels, SeenDuels) else model.duels
    outcomes = predicted(model, found, given.winners, given.losers, given.groups)
    decided = np.flatnonzero(~given.ties)
    if not len(decided):
        raise ValueError("All duels are ties, so there is no winner to predict; give other duels.")
    won, lost, counts = (x[decided] for x in (given.winners, given.losers, given.counts))
    features = found.inputs[:, : model.duels.num_features]
    differences = features[won] - features[lost]
    log_p = {MODEL: outcomes.winner[decided]}
    if training is not None:
        probit = LinearProbit.of(training, np.random.default_rng(seed))
        log_p[LINEAR_PROBIT] = probit.predict_log_proba(differences)
    log_p[COIN] = Coin().predict_log_proba(differences)

    def scores(rows: BoolArray) -> Scores:
        return {
            name: score(counts=counts[rows], log_probabilities=values[rows])
            for name, values in log_p.items()
        }

    parts: dict[str, BoolArray] = {}
    if training is not None:
        seen, turned = (_seen(training, found, *pair) for pair in ((won, lost), (lost, won)))
        parts = {"ordered": ~seen, "either_order": ~(seen | turned)}
    all_new = all(mask.all() for mask in parts.values())
    there = found.select(np.unique(np.concatenate([given.winners, given.losers])))
    return {
        "held_out": scores(np.ones(len(won), dtype=bool)),
        "held_out_unseen_pairs": {
            name: scores(mask) for name, mask in parts.items() if mask.any() and not all_new
        },
        "held_out_outcomes": _outcome_scores(model, outcomes, given),
        "duels": int(given.counts.sum()),
        "ties": int(given.counts[given.ties].sum()),
        "items_outside_range": int(there.outside.sum()),
        "outside_features": there.outside_features,
        "unknown_levels": there.unknown_levels,
    }


def _of_stream(
    model: PreferenceGP, duels: Any, items: Any, seed: int, groups: str | None
) -> dict[str, Any]:
    if groups is not None:
        raise ValueError(f"Duels are read in chunks without groups; leave out {groups!r}.")
    stream, found = in_units_of(model, duels, items)
    if stream.totals.ties == stream.totals.duels:
        raise ValueError("All duels are ties, so there is no winner to predict; give other duels.")
    probit = None
    if not isinstance(model.duels, SeenDuels):
        probit = LinearProbit.of(model.duels, np.random.default_rng(seed))
    held_out, outcomes = score_stream(model, stream, probit)
    there = None
    if found is not None:
        assert stream.totals.comparisons is not None
        there = found.select(np.flatnonzero(stream.totals.comparisons))
    return {
        "held_out": held_out,
        "held_out_unseen_pairs": {},
        "held_out_outcomes": outcomes,
        "duels": stream.totals.duels,
        "ties": stream.totals.ties,
        "items_outside_range": None if there is None else int(there.outside.sum()),
        "outside_features": None if there is None else there.outside_features,
        "unknown_levels": None if there is None else there.unknown_levels,
    }


def _labelled(model: PreferenceGP, duels: Duels) -> LabelledDuels:
    """Duels as a table of them would be read; with groups where the model has any."""
    labels = None
    if model.noise_ratio is not None and duels.groups is not None:
        names = np.array([*(duels.group_names or ()), None], dtype=object)
        labels = names[duels.groups]
    return LabelledDuels(duels.winners, duels.losers, duels.counts, ~duels.decided, labels)


def _outcome_scores(model: PreferenceGP, outcomes: Outcomes, duels: LabelledDuels) -> Scores:
    """Scores of win, tie and loss; none without ties or without a margin."""
    if not duels.ties.any():
        return {}
    if model.margin is None:
        warn_of_ties(int(duels.counts[duels.ties].sum()))
        return {}
    shares = constant_shares(model.duels.num_ties / model.duels.num_duels, len(duels.ties))
    return {
        name: score_outcomes(values, duels.ties, duels.counts)
        for name, values in ((MODEL, outcomes.all_three), (CONSTANT_SHARES, shares))
    }


def _seen(training: Duels, items: ItemSet, won: IntArray, lost: IntArray) -> BoolArray:
    """Which ordered pairs of rows of `items` are among the training duels."""
    n = training.num_items
    a, b = items.numbers[won], items.numbers[lost]
    known = (a >= 0) & (b >= 0)
    pairs = training.winners * n + training.losers
    if training.ties is not None:  # a tie is seen in either order
        pairs = np.concatenate([pairs, (training.losers * n + training.winners)[training.ties]])
    return np.asarray(known & np.isin(a * n + b, pairs))
